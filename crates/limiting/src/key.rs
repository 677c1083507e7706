//! What requests are counted by, as 64 bits: a hash with a secret of the process. Keys are never kept, so a long one
//! costs no more than a short one, and nobody can look for two that fall together (as for the tables of a language,
//! "hash flooding").

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

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

/// The network that is counted as one client. IPv4 addresses count each by itself, also when they come as
/// `::ffff:192.0.2.1`.
#[inline]
pub fn network(ip: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix.min(128))).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
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
