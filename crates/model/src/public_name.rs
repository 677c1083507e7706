//! Which hosts a public certificate authority could issue for; the others are for the internal CA for good.

use crate::address::HostPattern;
use std::net::IpAddr;

/// RFC 2606, RFC 6761 and RFC 6762 reserve the first five, ICANN `.internal`, RFC 8375 `home.arpa`; the rest is custom.
const PRIVATE: &[&str] =
    &["localhost", "test", "example", "invalid", "local", "internal", "home.arpa", "lan", "home", "corp", "private", "intranet"];

impl HostPattern {
    /// Whether a public CA could verify the host. Single labels and addresses that are not routed are never public.
    pub fn is_public(&self) -> bool {
        match self {
            HostPattern::Any | HostPattern::Socket(_) => false,
            HostPattern::Exact(name) => name.contains('.') && is_public_name(name),
            HostPattern::Wildcard(parent) | HostPattern::DeepWildcard(parent) => parent.contains('.') && is_public_name(parent),
            HostPattern::Ip(ip) => is_public_ip(*ip),
        }
    }
}

fn is_public_name(name: &str) -> bool {
    let is_below = |suffix: &&str| name.strip_suffix(*suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !PRIVATE.iter().any(is_below)
}

fn is_public_ip(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let carrier_grade_nat = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            !(ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_documentation()
                || carrier_grade_nat)
        }
        IpAddr::V6(ip) => !(ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local()),
    }
}

#[cfg(test)]
mod tests {
    use crate::address::parse_host_pattern;

    #[test]
    fn names_that_a_public_ca_could_verify() {
        let check = |host: &str, expected: bool| {
            let host = parse_host_pattern(host).expect("a valid host");
            assert_eq!(host.is_public(), expected, "for {host}");
        };
        check("example.com", true);
        check("*.example.com", true);
        check("notlocal.net", true);
        check("8.8.8.8", true);
        check("[2606:4700::1111]", true);
        check("", false);
        check("localhost", false);
        check("app.localhost", false);
        check("intranet", false);
        check("mylocal", false);
        check("printer.local", false);
        check("nas.home.arpa", false);
        check("db.internal", false);
        check("10.1.2.3", false);
        check("192.168.1.4", false);
        check("192.0.2.1", false);
        check("127.0.0.1", false);
        check("100.64.0.9", false);
        check("100.128.0.9", true);
        check("[::1]", false);
        check("[fd00::1]", false);
        check("[fe80::1]", false);
    }
}
