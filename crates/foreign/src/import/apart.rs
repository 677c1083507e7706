//! Sites of single addresses of the machine. On such an address other proxies know what listens there and nothing else;
//! here a site of all addresses answers for the hosts that it names, unless that one says that it is alone there.

use crate::outline::{OutlinedSite, Service};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use tidegate_kdl::quoted;
use tidegate_model::{HostPattern, SiteAddress};

/// The ports on which a site of all addresses names a host.
pub fn named_ports(services: &[Service]) -> BTreeSet<u16> {
    let addresses = services.iter().flat_map(|service| match service {
        Service::Site(site) => site.addresses.as_slice(),
        Service::Tcp(_) => &[],
    });
    let named = addresses.filter_map(|address| SiteAddress::parse(address).ok()).filter(|address| match address.host {
        HostPattern::Exact(_) | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_) => true,
        HostPattern::Any | HostPattern::Ip(_) | HostPattern::Socket(_) => false,
    });
    named.map(|address| address.port).collect()
}

/// Has each site either single addresses of the machine on these ports, or none of them.
pub fn split(services: Vec<Service>, ports: &BTreeSet<u16>) -> Vec<Service> {
    let mut all = Vec::with_capacity(services.len());
    for service in services {
        let Service::Site(site) = service else {
            all.push(service);
            continue;
        };
        let (single, others): (Vec<String>, Vec<String>) =
            site.addresses.iter().cloned().partition(|address| place(address).is_some_and(|place| ports.contains(&place.port())));
        if single.is_empty() || others.is_empty() {
            all.push(Service::Site(site));
            continue;
        }
        let is_of_machine = others.iter().any(|address| place(address).is_some());
        let only_hosts = if is_of_machine { site.only_hosts.clone() } else { Vec::new() };
        all.push(Service::Site(OutlinedSite { addresses: others, only_hosts, ..site.clone() }));
        all.push(Service::Site(OutlinedSite { addresses: single, ..site }));
    }
    all
}

/// The line by which a site is alone on its addresses, where another would answer there.
pub fn alone(site: &OutlinedSite, ports: &BTreeSet<u16>) -> Option<String> {
    let places: Vec<SocketAddr> = site.addresses.iter().map(|address| place(address)).collect::<Option<_>>()?;
    let is_shared = places.iter().any(|place| ports.contains(&place.port()));
    let places: Vec<String> = places.iter().map(|place| quoted(&place.to_string())).collect();
    is_shared.then(|| format!("listen {}", places.join(" ")))
}

fn place(address: &str) -> Option<SocketAddr> {
    let address = SiteAddress::parse(address).ok()?;
    match address.host {
        HostPattern::Ip(ip) => Some(SocketAddr::new(ip, address.port)),
        HostPattern::Any
        | HostPattern::Exact(_)
        | HostPattern::Wildcard(_)
        | HostPattern::DeepWildcard(_)
        | HostPattern::Socket(_) => None,
    }
}
