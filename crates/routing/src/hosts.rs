//! From a host name to a site, for one listening address. Names from requests and from the TLS server name go through the same table.
//! The port is not looked at: whoever groups sites into listening addresses has settled it.

use crate::SiteId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use tidegate_model::HostPattern;

/// RFC 1035 section 2.3.4 allows 253 visible bytes; nothing longer can be the name of a site.
const HOST_BYTES_MAX: usize = 255;

/// The hosts that one listening address (ip and port) answers for.
///
/// A name goes to the site that names it exactly, else to the wildcard that covers it, else to the site of the IP address the
/// client connected to, else to the site without a host. A connection to a specific address is served by a table that must also
/// hold the sites written without that address: the caller adds them.
#[derive(Debug, Default)]
pub struct Router {
    exact: HashMap<Box<[u8]>, SiteId, NameHash>,
    /// By what follows `*.`: exactly one label may stand before it, so at most one wildcard covers a name.
    wildcard: HashMap<Box<[u8]>, SiteId, NameHash>,
    ip: HashMap<IpAddr, SiteId>,
    any: Option<SiteId>,
}

impl Router {
    /// Of two sites with the same host the first is kept; `config` refuses such a file before.
    pub fn new<'a>(hosts: impl IntoIterator<Item = (SiteId, &'a HostPattern)>) -> Router {
        let mut router = Router::default();
        for (site, pattern) in hosts {
            match pattern {
                HostPattern::Any => {
                    router.any.get_or_insert(site);
                }
                HostPattern::Exact(name) => {
                    router.exact.entry(name.to_ascii_lowercase().into_bytes().into()).or_insert(site);
                }
                HostPattern::Wildcard(name) => {
                    router.wildcard.entry(name.to_ascii_lowercase().into_bytes().into()).or_insert(site);
                }
                HostPattern::Ip(ip) => {
                    router.ip.entry(ip.to_canonical()).or_insert(site);
                }
            }
        }
        router
    }

    /// The site for a host without port, in any case, with or without a trailing dot; an IPv6 address with or without brackets.
    ///
    /// `local_ip` is the address the client connected to: a site named by its IP address answers there, and there only, for every host
    /// that no other site names. TLS clients that were given an IP address send no server name, and those behind another proxy keep the
    /// name they were given, so the host itself decides nothing here.
    pub fn find_site(&self, host: &[u8], local_ip: IpAddr) -> Option<SiteId> {
        if !self.exact.is_empty() || !self.wildcard.is_empty() {
            let found = self.find_name(host);
            if found.is_some() {
                return found;
            }
        }
        if !self.ip.is_empty()
            && let Some(site) = self.ip.get(&local_ip.to_canonical())
        {
            return Some(*site);
        }
        self.any
    }

    fn find_name(&self, host: &[u8]) -> Option<SiteId> {
        let host = without_trailing_dot(host);
        if host.is_empty() || host.len() > HOST_BYTES_MAX {
            return None;
        }
        let mut buffer = [0u8; HOST_BYTES_MAX];
        let name = &mut buffer[..host.len()];
        name.copy_from_slice(host);
        name.make_ascii_lowercase();
        if let Some(site) = self.exact.get(&*name) {
            return Some(*site);
        }
        if self.wildcard.is_empty() {
            return None;
        }
        let dot = memchr::memchr(b'.', name).filter(|dot| *dot > 0)?;
        self.wildcard.get(&name[dot + 1..]).copied()
    }
}

type NameHash = BuildHasherDefault<NameHasher>;

/// Eight bytes at a time, multiplied and rotated. The keys come from the configuration; a client that finds names which collide gains
/// nothing, since looking up adds none. The standard hasher takes three times as long.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.0 = (self.0.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    fn finish(&self) -> u64 {
        // The table takes its buckets from the low bits and its tags from the high ones.
        self.0 ^ (self.0 >> 29)
    }
}

/// Whether a host from a request is one that the pattern names. As [`Router::find_site`] for a single pattern, used by `match host=`.
pub(crate) fn host_fits(pattern: &HostPattern, host: &[u8]) -> bool {
    match pattern {
        HostPattern::Any => true,
        HostPattern::Exact(name) => without_trailing_dot(host).eq_ignore_ascii_case(name.as_bytes()),
        HostPattern::Wildcard(name) => {
            let host = without_trailing_dot(host);
            match memchr::memchr(b'.', host) {
                Some(dot) if dot > 0 => host[dot + 1..].eq_ignore_ascii_case(name.as_bytes()),
                _ => false,
            }
        }
        HostPattern::Ip(ip) => parse_ip(host) == Some(ip.to_canonical()),
    }
}

fn without_trailing_dot(host: &[u8]) -> &[u8] {
    host.strip_suffix(b".").unwrap_or(host)
}

/// An IP literal, with IPv4 in IPv6 brought back to IPv4: `[::ffff:192.0.2.1]` must not be a second name for a site.
fn parse_ip(host: &[u8]) -> Option<IpAddr> {
    let inner = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let text = std::str::from_utf8(inner.unwrap_or(host)).ok()?;
    let ip: IpAddr = text.parse().ok()?;
    if inner.is_some() && ip.is_ipv4() { None } else { Some(ip.to_canonical()) }
}

#[cfg(test)]
mod tests {
    use super::{Router, host_fits};
    use crate::SiteId;
    use std::net::IpAddr;
    use tidegate_model::HostPattern;
    use tidegate_model::address::parse_host_pattern;

    fn patterns(list: &[&str]) -> Vec<HostPattern> {
        list.iter().map(|text| parse_host_pattern(text).expect("a host of the test")).collect()
    }

    /// The site found is the position in `sites`.
    fn check(sites: &[&str], local_ip: &str, host: &str, expected: Option<u32>) {
        let patterns = patterns(sites);
        let router = Router::new(patterns.iter().enumerate().map(|(position, pattern)| (SiteId(position as u32), pattern)));
        let local_ip: IpAddr = local_ip.parse().expect("an address");
        assert_eq!(router.find_site(host.as_bytes(), local_ip), expected.map(SiteId), "{host:?} among {sites:?} on {local_ip}");
    }

    #[test]
    fn exact_before_wildcard_before_catch_all() {
        let sites = ["", "*.example.com", "api.example.com", "example.com", "*.api.example.com"];
        let check = |host, expected| check(&sites, "127.0.0.1", host, Some(expected));
        check("api.example.com", 2);
        check("API.Example.COM", 2);
        check("api.example.com.", 2);
        check("www.example.com", 1);
        check("WWW.example.com.", 1);
        check("example.com", 3);
        check("v1.api.example.com", 4);
        check("a.b.example.com", 0);
        check(".example.com", 0);
        check("example.com..", 0);
        check("", 0);
        check(".", 0);
        check("192.0.2.1", 0);
    }

    #[test]
    fn without_a_catch_all_other_hosts_have_no_site() {
        let sites = ["*.example.com", "example.com"];
        for host in ["example.org", "com", "", "xexample.com", "a.b.example.com", "\0", "example.com:80"] {
            check(&sites, "127.0.0.1", host, None);
        }
        check(&sites, "127.0.0.1", &"a".repeat(255), None);
        check(&sites, "127.0.0.1", &format!("{}.example.com", "a".repeat(300)), None);
    }

    #[test]
    fn a_site_named_by_ip_answers_every_other_host_on_that_address_only() {
        let sites = ["192.0.2.7", "[2001:db8::1]", "example.com"];
        check(&sites, "192.0.2.7", "192.0.2.7", Some(0));
        check(&sites, "::ffff:192.0.2.7", "192.0.2.7", Some(0));
        check(&sites, "192.0.2.8", "192.0.2.7", None);
        check(&sites, "192.0.2.7", "192.0.2.8", Some(0));
        check(&sites, "192.0.2.7", "other.example", Some(0));
        check(&sites, "192.0.2.7", "", Some(0));
        check(&sites, "192.0.2.8", "", None);
        check(&sites, "2001:db8::1", "[2001:db8::1]", Some(1));
        check(&sites, "2001:db8::1", "other.example", Some(1));
        check(&sites, "192.0.2.7", "example.com", Some(2));
        check(&["", "192.0.2.7"], "192.0.2.8", "192.0.2.7", Some(0));
        check(&["", "192.0.2.7"], "192.0.2.7", "other.example", Some(1));
    }

    #[test]
    fn a_single_pattern_agrees_with_the_table() {
        let hosts =
            ["example.com", "EXAMPLE.com.", "a.example.com", "a.b.example.com", ".example.com", "", "192.0.2.7", "[::1]", "::1"];
        for text in ["", "example.com", "*.example.com"] {
            let pattern = parse_host_pattern(text).expect("a host of the test");
            for host in hosts {
                let local_ip = IpAddr::from([127, 0, 0, 1]);
                let router = Router::new([(SiteId(0), &pattern)]);
                let found = router.find_site(host.as_bytes(), local_ip).is_some();
                assert_eq!(host_fits(&pattern, host.as_bytes()), found, "{text:?} for {host:?}");
            }
        }
    }
}
