//! The one name that a certificate is for: a host name, a wildcard, or an address, and what becomes of it in orders,
//! handshakes and storage. Whether anybody may have a certificate for it is not known here; see `preflight`.

use std::fmt;
use std::net::IpAddr;

/// RFC 1035 section 2.3.4, without the root's dot.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// What a certificate is ordered for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// Lower case A-labels.
    Host(String),
    /// `*.example.com`, kept as `example.com`.
    Wildcard(String),
    Ip(IpAddr),
}

/// Why a text is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotASubject(pub &'static str);

impl Subject {
    pub fn parse(text: &str) -> Result<Subject, NotASubject> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Subject::Ip(ip));
        }
        let lower = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        match lower.strip_prefix("*.") {
            Some(parent) => host_name(parent).map(|()| Subject::Wildcard(parent.to_owned())),
            None => host_name(&lower).map(|()| Subject::Host(lower)),
        }
    }

    /// The name without the wildcard's star; of an address, its reverse name, which is the SNI of `tls-alpn-01` (RFC
    /// 8738 section 6).
    pub fn server_name(&self) -> String {
        match self {
            Subject::Host(name) | Subject::Wildcard(name) => name.clone(),
            Subject::Ip(ip) => reverse_name(*ip),
        }
    }

    /// One segment of a storage key. Keys have no colons.
    pub fn storage_segment(&self) -> String {
        match self {
            Subject::Host(name) => name.clone(),
            Subject::Wildcard(name) => format!("*.{name}"),
            Subject::Ip(IpAddr::V4(ip)) => ip.to_string(),
            // An underscore is no part of a host name, so this cannot be another's.
            Subject::Ip(IpAddr::V6(ip)) => format!("ip6_{}", ip.to_string().replace(':', "-")),
        }
    }

    /// The name that a CA counts under: the label before the public suffix. A guess, since the list of suffixes is the
    /// CA's and changes weekly; nothing is refused for it.
    pub fn registered_domain(&self) -> String {
        /// Second labels below which registries of countries sell names.
        const SECOND_LEVELS: &[&str] =
            &["co", "com", "net", "org", "gov", "edu", "ac", "or", "ne", "go", "gob", "nom", "ltd", "plc", "gv"];
        let (Subject::Host(name) | Subject::Wildcard(name)) = self else { return self.to_string() };
        let labels: Vec<&str> = name.rsplit('.').collect();
        let is_second_level = labels.len() > 2 && labels[0].len() == 2 && SECOND_LEVELS.contains(&labels[1]);
        let keep = if is_second_level { 3 } else { 2 };
        let mut kept: Vec<&str> = labels.into_iter().take(keep).collect();
        kept.reverse();
        kept.join(".")
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Host(name) => f.write_str(name),
            Subject::Wildcard(parent) => write!(f, "*.{parent}"),
            Subject::Ip(ip) => write!(f, "{ip}"),
        }
    }
}

fn host_name(text: &str) -> Result<(), NotASubject> {
    if text.is_empty() {
        return Err(NotASubject("the name is empty"));
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NotASubject("the name is longer than 253 characters"));
    }
    if !text.is_ascii() {
        return Err(NotASubject("the name is not in its ASCII form (xn--…)"));
    }
    for label in text.split('.') {
        if label.is_empty() {
            return Err(NotASubject("a label of the name is empty"));
        }
        if label.len() > LABEL_BYTES_MAX {
            return Err(NotASubject("a label of the name is longer than 63 characters"));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(NotASubject("a label of the name begins or ends with a hyphen"));
        }
        if !label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
            return Err(NotASubject("the name has characters that host names do not have"));
        }
    }
    // A last label of digits only is read as an address by half of the programs of this world.
    if text.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(NotASubject("the name ends like an address and is none"));
    }
    Ok(())
}

fn reverse_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let nibbles = ip.octets().into_iter().rev().flat_map(|byte| [byte & 0xf, byte >> 4]);
            nibbles.fold(String::new(), |text, nibble| text + &format!("{nibble:x}.")) + "ip6.arpa"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Subject;

    #[test]
    fn a_name_is_parsed_and_kept() {
        fn check(text: &str, segment: &str, server_name: &str) {
            let subject = Subject::parse(text).unwrap();
            assert_eq!(subject.storage_segment(), segment, "{text}");
            assert_eq!(subject.server_name(), server_name, "{text}");
        }
        check("Shop.Example.com.", "shop.example.com", "shop.example.com");
        check("*.example.com", "*.example.com", "example.com");
        check("192.0.2.1", "192.0.2.1", "1.2.0.192.in-addr.arpa");
        check("[2001:db8::1]", "ip6_2001-db8--1", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa");
        check("xn--bcher-kva.example", "xn--bcher-kva.example", "xn--bcher-kva.example");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        fn check(text: &str, expected: &str) {
            let problem = Subject::parse(text).unwrap_err().0;
            assert!(problem.contains(expected), "{text}: {problem}");
        }
        check("", "empty");
        check("a..b", "empty");
        check("*.*.example.com", "characters");
        check("a.*.example.com", "characters");
        check("bücher.example", "ASCII");
        check("a_b.example", "characters");
        check("-a.example", "hyphen");
        check("ab_cd.example", "characters");
        check("1.2.3.999", "address");
        check("../../etc/passwd", "empty");
        check("a/b.example", "characters");
        check(&"a".repeat(64), "63");
        check(&"a.".repeat(130), "253");
    }

    #[test]
    fn the_domain_that_a_ca_counts_under_is_guessed() {
        fn check(text: &str, expected: &str) {
            assert_eq!(Subject::parse(text).unwrap().registered_domain(), expected);
        }
        check("example.com", "example.com");
        check("a.b.example.com", "example.com");
        check("*.shop.example.co.uk", "example.co.uk");
        check("co.uk", "co.uk");
        check("192.0.2.1", "192.0.2.1");
    }
}
