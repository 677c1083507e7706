//! From a host name to a site, for one listening address. Names from requests and from the TLS server name go through
//! the same table. The port is not looked at: whoever groups sites into listening addresses has settled it.

use crate::{PassId, SiteId};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use tidegate_model::HostPattern;

/// RFC 1035 section 2.3.4 allows 253 visible bytes; nothing longer can be the name of a site.
const HOST_BYTES_MAX: usize = 255;

/// Who takes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// The connection is decrypted here, for this site.
    Site(SiteId),
    /// The connection is passed on as it is.
    Pass(PassId),
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting<'a> {
    /// TLS, for that name.
    Name(&'a [u8]),
    /// TLS without a name, as clients send it that were given an IP address.
    NoName,
    NotTls,
}

/// The hosts that one listening address (ip and port) answers for.
///
/// A name goes to the site that names it exactly, else to the longest wildcard that covers it (of equally long ones
/// that of one label before that of any depth), else to the site of the IP address the client connected to, else to the
/// site without a host. A connection to a specific address is served by a table that must also hold the sites written
/// without that address: the caller adds them.
#[derive(Debug, Default)]
pub struct Router {
    exact: HashMap<Box<[u8]>, Taker, NameHash>,
    /// By what follows `*.`: exactly one label may stand before it, so at most one wildcard covers a name.
    wildcard: HashMap<Box<[u8]>, Taker, NameHash>,
    /// By what follows `**.`: any number of labels may stand before it.
    deep: HashMap<Box<[u8]>, Taker, NameHash>,
    /// Of the longest of these, so that a name of many labels is not looked up for each.
    deep_bytes_max: usize,
    ip: HashMap<IpAddr, SiteId>,
    any: Option<SiteId>,
    /// The site of a client that names none, where neither its address nor a catch-all decides.
    first: Option<SiteId>,
    /// What takes connections that nobody else takes.
    otherwise: Option<PassId>,
}

impl Router {
    /// Of two sites with the same host the first is kept; `config` refuses such a file before.
    pub fn new<'a>(hosts: impl IntoIterator<Item = (SiteId, &'a HostPattern)>) -> Router {
        let mut router = Router::default();
        for (site, pattern) in hosts {
            router.first.get_or_insert(site);
            match pattern {
                HostPattern::Any | HostPattern::Socket(_) => {
                    router.any.get_or_insert(site);
                }
                HostPattern::Ip(ip) => {
                    router.ip.entry(ip.to_canonical()).or_insert(site);
                }
                HostPattern::Exact(_) | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_) => {
                    router.add_name(pattern, Taker::Site(site));
                }
            }
        }
        router
    }

    /// Adds what is passed on: by name, and what nobody else takes. A name that a site has stays the site's.
    pub fn passing<'a>(
        mut self,
        by_name: impl IntoIterator<Item = (PassId, &'a HostPattern)>,
        otherwise: Option<PassId>,
    ) -> Router {
        for (pass, pattern) in by_name {
            self.add_name(pattern, Taker::Pass(pass));
        }
        self.otherwise = otherwise;
        self
    }

    fn add_name(&mut self, pattern: &HostPattern, taker: Taker) {
        let (table, name) = match pattern {
            HostPattern::Exact(name) => (&mut self.exact, name),
            HostPattern::Wildcard(name) => (&mut self.wildcard, name),
            HostPattern::DeepWildcard(name) => {
                self.deep_bytes_max = self.deep_bytes_max.max(name.len());
                (&mut self.deep, name)
            }
            HostPattern::Any | HostPattern::Ip(_) | HostPattern::Socket(_) => return,
        };
        table.entry(name.to_ascii_lowercase().into_bytes().into()).or_insert(taker);
    }

    /// Who takes a connection that begins so. The most specific name decides, whoever has it: an exact one before a
    /// wildcard, a longer wildcard before a shorter one, a wildcard before the site of the local address, that before
    /// the site without a host, and that before what is passed on otherwise. `None`: nobody does.
    ///
    /// What is not TLS no site can take.
    pub fn find_taker(&self, greeting: Greeting<'_>, local_ip: IpAddr) -> Option<Taker> {
        let otherwise = self.otherwise.map(Taker::Pass);
        match greeting {
            Greeting::Name(name) => self.find_name(name).or(self.nameless(local_ip).map(Taker::Site)).or(otherwise),
            Greeting::NoName => {
                let of_place = self.nameless(local_ip).map(Taker::Site);
                of_place.or(otherwise).or(self.first.map(Taker::Site))
            }
            Greeting::NotTls => otherwise,
        }
    }

    /// Whether a connection has to be looked at before it is known who takes it. Without that, somebody takes all of
    /// them.
    pub fn looks_at_greetings(&self) -> bool {
        self.first.is_some() || !self.exact.is_empty() || !self.wildcard.is_empty() || !self.deep.is_empty()
    }

    /// The site for a host without port, in any case, with or without a trailing dot; an IPv6 address with or without
    /// brackets.
    ///
    /// `local_ip` is the address the client connected to: a site named by its IP address answers there, and there only,
    /// for every host that no other site names. TLS clients that were given an IP address send no server name, and
    /// those behind another proxy keep the name they were given, so the host itself decides nothing here.
    ///
    /// A name that is passed on has no site, whatever catch-all there is: browsers send requests for it over a
    /// connection of another name when a certificate covers both (RFC 9113 section 9.1.1), and must be told to open one
    /// of its own.
    pub fn find_site(&self, host: &[u8], local_ip: IpAddr) -> Option<SiteId> {
        match self.find_name(host) {
            Some(Taker::Site(site)) => Some(site),
            Some(Taker::Pass(_)) => None,
            None => self.nameless(local_ip),
        }
    }

    fn nameless(&self, local_ip: IpAddr) -> Option<SiteId> {
        if !self.ip.is_empty()
            && let Some(site) = self.ip.get(&local_ip.to_canonical())
        {
            return Some(*site);
        }
        self.any
    }

    fn find_name(&self, host: &[u8]) -> Option<Taker> {
        if self.exact.is_empty() && self.wildcard.is_empty() && self.deep.is_empty() {
            return None;
        }
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
        if self.wildcard.is_empty() && self.deep.is_empty() {
            return None;
        }
        let dot = memchr::memchr(b'.', name).filter(|dot| *dot > 0)?;
        let parent = &name[dot + 1..];
        match self.wildcard.get(parent) {
            Some(taker) => Some(*taker),
            None if self.deep.is_empty() => None,
            None => self.find_deep(parent),
        }
    }

    /// Of the wildcards of any depth, the longest that has a name below it whose parent this is.
    #[inline(never)]
    fn find_deep(&self, mut parent: &[u8]) -> Option<Taker> {
        loop {
            if parent.len() <= self.deep_bytes_max
                && let Some(taker) = self.deep.get(parent)
            {
                return Some(*taker);
            }
            // A label without letters is nobody's name.
            let dot = memchr::memchr(b'.', parent).filter(|dot| *dot > 0)?;
            parent = &parent[dot + 1..];
        }
    }
}

type NameHash = BuildHasherDefault<NameHasher>;

/// Eight bytes at a time, multiplied and rotated. The keys come from the configuration; a client that finds names which
/// collide gains nothing, since looking up adds none. The standard hasher takes three times as long.
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

/// Whether a host from a request is one that the pattern names. As [`Router::find_site`] for a single pattern, used by
/// `match host=`.
pub(crate) fn host_fits(pattern: &HostPattern, host: &[u8]) -> bool {
    match pattern {
        HostPattern::Any | HostPattern::Socket(_) => true,
        HostPattern::Exact(name) => without_trailing_dot(host).eq_ignore_ascii_case(name.as_bytes()),
        HostPattern::Wildcard(name) => {
            let host = without_trailing_dot(host);
            match memchr::memchr(b'.', host) {
                Some(dot) if dot > 0 => host[dot + 1..].eq_ignore_ascii_case(name.as_bytes()),
                _ => false,
            }
        }
        HostPattern::DeepWildcard(name) => {
            let host = without_trailing_dot(host);
            let Some(dot) = host.len().checked_sub(name.len() + 1).filter(|dot| host[*dot] == b'.') else { return false };
            host[dot + 1..].eq_ignore_ascii_case(name.as_bytes())
                && host[..dot].split(|byte| *byte == b'.').all(|label| !label.is_empty())
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
    use super::{Greeting, Router, Taker, host_fits};
    use crate::{PassId, SiteId};
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
    fn the_longest_wildcard_and_one_label_before_any_depth() {
        let sites = ["**.example.com", "*.example.com", "**.a.example.com", "**.com", "b.a.example.com", "*.x.y.example.com"];
        let check = |host: &str, expected| check(&sites, "127.0.0.1", host, expected);
        check("one.example.com", Some(1));
        check("two.one.example.com", Some(0));
        check("three.Two.ONE.example.com.", Some(0));
        check("example.com", Some(3));
        check("a.example.com", Some(1));
        check("c.a.example.com", Some(2));
        check("b.a.example.com", Some(4));
        check("c.b.a.example.com", Some(2));
        check("z.x.y.example.com", Some(5));
        check("z.z.x.y.example.com", Some(0));
        check("com", None);
        check("a..example.com", None);
        check("..a.example.com", None);
        check(".one.example.com", None);
        check(&format!("{}example.com", "x.".repeat(120)), Some(0));
        check(&format!("{}example.com", "x.".repeat(130)), None);
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

    /// Sites and names that are passed on, each by position; what is passed on otherwise is 99.
    fn check_taker(sites: &[&str], passthrough: &[&str], otherwise: bool, cases: &[(Greeting<'_>, Option<Taker>)]) {
        let (site_patterns, pass_patterns) = (patterns(sites), patterns(passthrough));
        let hosts = site_patterns.iter().enumerate().map(|(position, pattern)| (SiteId(position as u32), pattern));
        let names = pass_patterns.iter().enumerate().map(|(position, pattern)| (PassId(position as u32), pattern));
        let router = Router::new(hosts).passing(names, otherwise.then_some(PassId(99)));
        for (greeting, expected) in cases {
            let found = router.find_taker(*greeting, IpAddr::from([192, 0, 2, 7]));
            assert_eq!(found, *expected, "{greeting:?} among {sites:?} and {passthrough:?}, otherwise: {otherwise}");
        }
    }

    #[test]
    fn the_most_specific_name_decides_whoever_has_it() {
        use Greeting::{Name, NoName, NotTls};
        let site = |position| Some(Taker::Site(SiteId(position)));
        let pass = |position| Some(Taker::Pass(PassId(position)));
        // A terminated wildcard with an exact name passed on in it, and the other way round.
        let sites = ["*.example.com", "www.b.example.com"];
        let passthrough = ["db.example.com", "*.b.example.com"];
        let names: &[(Greeting<'_>, Option<Taker>)] = &[
            (Name(b"db.example.com"), pass(0)),
            (Name(b"DB.Example.com."), pass(0)),
            (Name(b"other.example.com"), site(0)),
            (Name(b"www.b.example.com"), site(1)),
            (Name(b"x.b.example.com"), pass(1)),
            (Name(b"b.example.com"), site(0)),
        ];
        check_taker(&sites, &passthrough, false, names);
        check_taker(&sites, &passthrough, true, names);
        let no_name: &[_] = &[(Name(b"example.org"), None), (NoName, site(0)), (NotTls, None)];
        check_taker(&sites, &passthrough, false, no_name);
        check_taker(&sites, &passthrough, true, &[(Name(b"example.org"), pass(99)), (NoName, pass(99)), (NotTls, pass(99))]);
    }

    #[test]
    fn a_catch_all_site_goes_before_what_is_passed_on_otherwise() {
        use Greeting::{Name, NoName, NotTls};
        let site = |position| Some(Taker::Site(SiteId(position)));
        let pass = |position| Some(Taker::Pass(PassId(position)));
        for catch_all in ["", "192.0.2.7"] {
            let cases =
                &[(Name(b"db.example.com"), pass(0)), (Name(b"example.org"), site(0)), (NoName, site(0)), (NotTls, pass(99))];
            check_taker(&[catch_all], &["db.example.com"], true, cases);
        }
        let elsewhere = &[(Name(b"example.org"), pass(99)), (NoName, pass(99))];
        check_taker(&["192.0.2.8"], &[], true, elsewhere);
        check_taker(&[], &["*.example.com"], false, &[(Name(b"a.example.com"), pass(0)), (NoName, None), (NotTls, None)]);
        check_taker(&[], &[], true, &[(Name(b"a"), pass(99)), (NoName, pass(99)), (NotTls, pass(99))]);
    }

    #[test]
    fn a_name_that_is_passed_on_has_no_site() {
        let (sites, passthrough) =
            (patterns(&["", "a.example.com"]), patterns(&["db.example.com", "*.b.example.com", "a.example.com"]));
        let hosts = sites.iter().enumerate().map(|(position, pattern)| (SiteId(position as u32), pattern));
        let router = Router::new(hosts).passing(passthrough.iter().map(|pattern| (PassId(0), pattern)), None);
        let check = |host: &str, expected: Option<u32>| {
            assert_eq!(router.find_site(host.as_bytes(), IpAddr::from([192, 0, 2, 7])), expected.map(SiteId), "{host}");
        };
        check("db.example.com", None);
        check("x.b.example.com", None);
        check("b.example.com", Some(0));
        // The site's stays the site's; `config` refuses such a file before.
        check("a.example.com", Some(1));
    }

    #[test]
    fn a_port_of_its_own_needs_no_look_at_greetings() {
        let pattern = patterns(&["a.example.com"]);
        assert!(!Router::default().passing([], Some(PassId(0))).looks_at_greetings());
        assert!(Router::default().passing([(PassId(0), &pattern[0])], None).looks_at_greetings());
        assert!(Router::new([(SiteId(0), &HostPattern::Any)]).passing([], Some(PassId(0))).looks_at_greetings());
    }

    #[test]
    fn a_single_pattern_agrees_with_the_table() {
        let hosts = [
            "example.com",
            "EXAMPLE.com.",
            "a.example.com",
            "a.B.example.com",
            "a..example.com",
            ".a.example.com",
            ".example.com",
            "",
            "192.0.2.7",
            "[::1]",
            "::1",
        ];
        for text in ["", "example.com", "*.example.com", "**.example.com", "**.com"] {
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
