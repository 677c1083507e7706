//! What requests are counted by, as 64 bits: a hash with a secret of the process. Keys are never kept, so a long one
//! costs no more than a short one, and nobody can look for two that fall together (as for the tables of a language,
//! "hash flooding").

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr};

/// SipHash with a secret that is another one in every process and table.
#[derive(Debug, Default)]
pub struct KeyHasher(RandomState);

impl KeyHasher {
    #[inline]
    pub fn begin(&self) -> Key {
        Key(self.0.build_hasher())
    }
}

/// A key while its parts come.
#[derive(Debug)]
pub struct Key(std::hash::DefaultHasher);

/// Kinds of parts, so that a text that reads like an address is not that address.
const ADDRESS_V4: u8 = 4;
const ADDRESS_V6: u8 = 6;
const TEXT: u8 = 1;

impl Key {
    /// The client's address; of IPv6 that many leading bits.
    #[inline]
    pub fn address(&mut self, ip: IpAddr, ipv6_prefix: u8) {
        match network(ip, ipv6_prefix) {
            IpAddr::V4(ip) => {
                self.0.write_u8(ADDRESS_V4);
                self.0.write_u32(ip.to_bits());
            }
            IpAddr::V6(ip) => {
                self.0.write_u8(ADDRESS_V6);
                self.0.write_u128(ip.to_bits());
            }
        }
    }

    /// With its length: `ab` and `c` are not `a` and `bc`.
    pub fn text(&mut self, text: &[u8]) {
        self.0.write_u8(TEXT);
        self.0.write_usize(text.len());
        self.0.write(text);
    }

    #[inline]
    pub fn finish(self) -> u64 {
        self.0.finish()
    }
}

/// The network that is counted as one client. IPv4 addresses count each by itself, also when they come inside of an
/// IPv6 address.
#[inline]
pub fn network(ip: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => match embedded(ip.to_bits()) {
            Embedded::Ipv4(ip) => IpAddr::V4(ip),
            Embedded::Somewhere => IpAddr::V6(ip),
            Embedded::Nothing => {
                let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix.min(128))).unwrap_or(0);
                IpAddr::V6((ip.to_bits() & mask).into())
            }
        },
    }
}

/// What of IPv4 an IPv6 address has in it.
enum Embedded {
    Nothing,
    Ipv4(Ipv4Addr),
    /// Where it is, only the network's operator knows.
    Somewhere,
}

/// Looks at the prefixes in which all of IPv4 has its place: behind a translator or a tunnel, one network of the usual
/// length would be everybody, or (6to4) one customer would be 65,536 clients.
fn embedded(bits: u128) -> Embedded {
    let last = Ipv4Addr::from_bits(bits as u32);
    match (bits >> 112) as u16 {
        // Mapped (RFC 4291 section 2.5.5.2), and `::ffff:0:192.0.2.1` of translators (RFC 2765).
        0 if bits >> 32 == 0xffff || bits >> 32 == 0xffff_0000 => Embedded::Ipv4(last),
        // The well-known prefix of translators, `64:ff9b::/96` (RFC 6052 section 2.1).
        0x64 if bits >> 32 == 0x64_ff9b << 64 => Embedded::Ipv4(last),
        // `64:ff9b:1::/48` is for translators too (RFC 8215), with prefixes from 48 to 96 bits inside of it.
        0x64 if bits >> 80 == 0x64_ff9b_0001 => Embedded::Somewhere,
        // 6to4 (RFC 3056): a /48 for each IPv4 address.
        0x2002 => Embedded::Ipv4(Ipv4Addr::from_bits((bits >> 80) as u32)),
        // Teredo (RFC 4380 section 4): the first 64 bits are those of a server, and the client's address stands last,
        // inverted.
        0x2001 if bits >> 96 == 0x2001_0000 => Embedded::Ipv4(Ipv4Addr::from_bits(!(bits as u32))),
        _ => Embedded::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyHasher, network};

    #[test]
    fn an_ipv6_client_is_its_network() {
        let check = |ip: &str, prefix: u8, expected: &str| {
            let seen = network(ip.parse().expect("an address"), prefix);
            assert_eq!(seen.to_string(), expected, "{ip} by /{prefix}");
        };
        check("2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::");
        check("2001:db8:1:2:3:4:5:6", 56, "2001:db8:1::");
        check("2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6");
        check("2001:db8::1", 0, "::");
        check("192.0.2.1", 64, "192.0.2.1");
        check("::ffff:192.0.2.1", 64, "192.0.2.1");
        check("::1", 64, "::");
        check("fe80::1", 64, "fe80::");
    }

    /// Prefixes that hold all of IPv4, with their first and last addresses and their neighbours.
    #[test]
    fn a_client_of_ipv4_is_counted_as_one_whatever_carries_it() {
        let check = |ip: &str, expected: &str| {
            for prefix in [48, 64, 128] {
                let seen = network(ip.parse().expect("an address"), prefix);
                assert_eq!(seen, expected.parse::<std::net::IpAddr>().expect("an address"), "{ip} by /{prefix}");
            }
        };
        check("::ffff:0.0.0.0", "0.0.0.0");
        check("::ffff:255.255.255.255", "255.255.255.255");
        check("::ffff:0:192.0.2.1", "192.0.2.1");
        check("64:ff9b::192.0.2.1", "192.0.2.1");
        check("64:ff9b::192.0.2.2", "192.0.2.2");
        check("64:ff9b::", "0.0.0.0");
        check("64:ff9b::ffff:ffff", "255.255.255.255");
        check("64:ff9b:1::192.0.2.1", "64:ff9b:1::192.0.2.1");
        check("64:ff9b:1:c000:2:100::", "64:ff9b:1:c000:2:100::");
        check("64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff");
        check("2002:c000:201::1", "192.0.2.1");
        check("2002:c000:201:ffff:1:2:3:4", "192.0.2.1");
        check("2002:c000:202::1", "192.0.2.2");
        check("2001:0:c633:6401:8000:63bf:3fff:fdfe", "192.0.2.1");
        check("2001:0:cb00:7101:0:1:3fff:fdfe", "192.0.2.1");

        let check = |ip: &str, expected: &str| {
            let seen = network(ip.parse().expect("an address"), 64);
            assert_eq!(seen.to_string(), expected, "{ip}");
        };
        check("::fffe:192.0.2.1", "::");
        check("::1:0:192.0.2.1", "::");
        check("::192.0.2.1", "::");
        check("64:ff9b::1:192.0.2.1", "64:ff9b::");
        check("64:ff9b:0:1::192.0.2.1", "64:ff9b:0:1::");
        check("64:ff9b:2::192.0.2.1", "64:ff9b:2::");
        check("64:ff9a::192.0.2.1", "64:ff9a::");
        check("65:ff9b::192.0.2.1", "65:ff9b::");
        check("2001:1:c633:6401::1", "2001:1:c633:6401::");
        check("2003:c000:201::1", "2003:c000:201::");
        // The interface identifiers of ISATAP (RFC 5214) stand below a prefix of the customer's own.
        check("2001:db8::5efe:192.0.2.1", "2001:db8::");
    }

    #[test]
    fn parts_are_told_apart() {
        let hasher = KeyHasher::default();
        let texts = |texts: &[&str]| {
            let mut key = hasher.begin();
            for text in texts {
                key.text(text.as_bytes());
            }
            key.finish()
        };
        let address = |ip: &str| {
            let mut key = hasher.begin();
            key.address(ip.parse().expect("an address"), 64);
            key.finish()
        };
        assert_eq!(texts(&["a", "b"]), texts(&["a", "b"]));
        assert_ne!(texts(&["ab", "c"]), texts(&["a", "bc"]));
        assert_ne!(texts(&["", "a"]), texts(&["a", ""]));
        assert_ne!(texts(&["192.0.2.1"]), address("192.0.2.1"));
        assert_eq!(address("2001:db8::1"), address("2001:db8::2"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_ne!(KeyHasher::default().begin().finish(), hasher.begin().finish(), "another process, another secret");
    }
}
