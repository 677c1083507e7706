//! Names for certificates: what a site's addresses ask for, what this machine is called, and which names the public could verify.
//! The choice by server name at run time is in `listener.rs`.

use crate::facts::CertificateName;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tidegate_model::{HostPattern, Scheme, SiteAddress};

/// The names that a certificate for these addresses must have: sorted, each once. Plain HTTP addresses need none.
///
/// A catch-all site gets the names by which this machine is reached without DNS.
pub fn certificate_names(addresses: &[SiteAddress], machine_name: Option<&str>) -> Vec<CertificateName> {
    let mut names = Vec::new();
    for address in addresses.iter().filter(|address| address.scheme == Scheme::Https) {
        match &address.host {
            HostPattern::Exact(name) => names.push(CertificateName::Dns(name.clone())),
            HostPattern::Wildcard(parent) => names.push(CertificateName::Dns(format!("*.{parent}"))),
            HostPattern::Ip(ip) => names.push(CertificateName::Ip(*ip)),
            HostPattern::Any => {
                // Several clients, OpenSSL's among them, refuse a wildcard before a single label; a site that names
                // `app.localhost` serves those.
                names.extend(["localhost", "*.localhost"].map(|name| CertificateName::Dns(name.into())));
                names.extend(machine_name.map(|name| CertificateName::Dns(name.to_ascii_lowercase())));
                names.extend([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].map(CertificateName::Ip));
            }
        }
    }
    names.sort();
    names.dedup();
    names
}

/// The machine's own host name, if it is one that can stand in a certificate.
pub fn machine_name() -> Option<String> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_str().ok()?;
    match tidegate_model::address::parse_host_pattern(name) {
        Ok(HostPattern::Exact(name)) => Some(name),
        _ => None,
    }
}

/// Whether a public CA could issue for this host. The others are for the internal CA for good: RFC 6761 and RFC 8375 names,
/// the customary private top-level domains, single labels, and addresses that are not routed.
pub fn is_public(host: &HostPattern) -> bool {
    match host {
        HostPattern::Any => false,
        HostPattern::Exact(name) | HostPattern::Wildcard(name) => {
            let Some((_, last)) = name.rsplit_once('.') else { return false };
            !PRIVATE_TOP_LEVEL.contains(&last) && !name.ends_with(".home.arpa")
        }
        HostPattern::Ip(IpAddr::V4(ip)) => {
            let carrier_grade_nat = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            !(ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_documentation()
                || carrier_grade_nat)
        }
        HostPattern::Ip(IpAddr::V6(ip)) => {
            !(ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local())
        }
    }
}

const PRIVATE_TOP_LEVEL: &[&str] =
    &["localhost", "local", "internal", "test", "invalid", "example", "lan", "home", "corp", "private", "intranet"];

#[cfg(test)]
mod tests {
    use super::{certificate_names, is_public};
    use tidegate_model::SiteAddress;
    use tidegate_model::address::parse_host_pattern;

    #[test]
    fn names_that_a_sites_certificate_needs() {
        let check = |addresses: &[&str], expected: &[&str]| {
            let addresses: Vec<_> = addresses.iter().map(|text| SiteAddress::parse(text).expect("a valid address")).collect();
            let seen: Vec<_> = certificate_names(&addresses, Some("Box7")).iter().map(ToString::to_string).collect();
            assert_eq!(seen, expected, "for {addresses:?}");
        };
        check(&["b.test", "a.test", "a.test:8443"], &["a.test", "b.test"]);
        check(&["*.a.test", "[::1]:8443", "10.0.0.1"], &["*.a.test", "10.0.0.1", "::1"]);
        check(&["http://a.test"], &[]);
        check(&[":8443"], &["*.localhost", "box7", "localhost", "127.0.0.1", "::1"]);
    }

    #[test]
    fn names_that_a_public_ca_could_verify() {
        let check = |host: &str, expected: bool| {
            let host = parse_host_pattern(host).expect("a valid host");
            assert_eq!(is_public(&host), expected, "for {host}");
        };
        check("example.com", true);
        check("*.example.com", true);
        check("8.8.8.8", true);
        check("[2606:4700::1111]", true);
        check("", false);
        check("localhost", false);
        check("app.localhost", false);
        check("intranet", false);
        check("nas.home.arpa", false);
        check("db.internal", false);
        check("192.168.1.4", false);
        check("100.64.0.9", false);
        check("100.128.0.9", true);
        check("[::1]", false);
        check("[fd00::1]", false);
        check("[fe80::1]", false);
    }
}
