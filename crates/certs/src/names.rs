//! Names for certificates: what a site's addresses ask for, and what this machine is called.
//! The choice by server name at run time is in `listener.rs`.

use crate::facts::CertificateName;
use std::net::{Ipv4Addr, Ipv6Addr};
use tidegate_model::{HostPattern, Scheme, SiteAddress};

/// The names that a certificate for these addresses must have: sorted, each once. Plain HTTP addresses need none.
///
/// A catch-all site gets the names by which this machine is reached without DNS.
pub fn certificate_names(addresses: &[SiteAddress], machine_name: Option<&str>) -> Vec<CertificateName> {
    let mut names = Vec::new();
    for address in addresses.iter().filter(|address| address.scheme == Scheme::Https) {
        match &address.host {
            HostPattern::Exact(name) => names.push(CertificateName::Dns(name.clone())),
            HostPattern::Wildcard(parent) | HostPattern::DeepWildcard(parent) => {
                names.push(CertificateName::Dns(format!("*.{parent}")));
            }
            HostPattern::Ip(ip) => names.push(CertificateName::Ip(*ip)),
            // Plain HTTP always.
            HostPattern::Socket(_) => {}
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

#[cfg(test)]
mod tests {
    use super::certificate_names;
    use tidegate_model::SiteAddress;

    #[test]
    fn names_that_a_sites_certificate_needs() {
        let check = |addresses: &[&str], expected: &[&str]| {
            let addresses: Vec<_> = addresses.iter().map(|text| SiteAddress::parse(text).expect("a valid address")).collect();
            let seen: Vec<_> = certificate_names(&addresses, Some("Box7")).iter().map(ToString::to_string).collect();
            assert_eq!(seen, expected, "for {addresses:?}");
        };
        check(&["b.test", "a.test", "a.test:8443"], &["a.test", "b.test"]);
        check(&["*.a.test", "[::1]:8443", "10.0.0.1"], &["*.a.test", "10.0.0.1", "::1"]);
        check(&["**.b.test", "*.b.test"], &["*.b.test"]);
        check(&["http://a.test"], &[]);
        check(&[":8443"], &["*.localhost", "box7", "localhost", "127.0.0.1", "::1"]);
    }
}
