//! SRV records (RFC 2782) as servers: priorities become ranks, weights what a pool can have. Pure; the targets'
//! addresses are looked up by others.

use super::hosts::Found;
use super::resolver::Trouble;
use crate::Endpoint;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tidegate_model::{Scheme, Server, TcpAddress};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    /// Without a dot at its end, lower case; empty is the root.
    pub target: String,
}

/// A name that is pointed to, with its addresses.
#[derive(Debug)]
pub struct Target {
    name: String,
    addresses: BTreeSet<IpAddr>,
}

impl Target {
    pub fn new(name: &str, found: &Found) -> Target {
        Target { name: name.to_owned(), addresses: found.addresses.clone() }
    }
}

/// Services that name a server, and what is wrong with the others.
pub fn usable(services: Vec<Service>, scheme: Scheme) -> Result<(Vec<Service>, Vec<String>), Trouble> {
    // RFC 2782: a target of "." means that the service is decidedly not available at this domain.
    if services.iter().all(|service| service.target.is_empty()) {
        return Err(Trouble::new("the service is not offered, says its SRV record"));
    }
    let mut remarks = Vec::new();
    let mut usable = Vec::new();
    for service in services.into_iter().filter(|service| !service.target.is_empty()) {
        match TcpAddress::parse(&format!("{}://{}:{}", scheme.as_str(), service.target, service.port)) {
            Ok(_) => usable.push(service),
            Err(message) => remarks.push(format!("an SRV record is left out, because {message}")),
        }
    }
    match remarks.first() {
        Some(remark) if usable.is_empty() => Err(Trouble::new(remark)),
        _ => Ok((usable, remarks)),
    }
}

/// A server for each record whose target has addresses.
pub fn endpoints(services: &[Service], targets: &[Target], scheme: Scheme) -> Vec<Endpoint> {
    let targets: BTreeMap<&str, &Target> = targets.iter().map(|target| (target.name.as_str(), target)).collect();
    let priorities: BTreeSet<u16> = services.iter().map(|service| service.priority).collect();
    let rank = |service: &Service| priorities.range(..service.priority).count().min(usize::from(Server::PRIORITY_MAX)) as u8;
    let mut heaviest: BTreeMap<u16, u16> = BTreeMap::new();
    for service in services {
        let weight = heaviest.entry(service.priority).or_default();
        *weight = service.weight.max(*weight);
    }
    let endpoint = |service: &Service| {
        let target = targets.get(service.target.as_str())?;
        let address = TcpAddress { scheme, host: service.target.clone(), port: service.port };
        let most = heaviest.get(&service.priority).copied().unwrap_or_default();
        let server = Server { weight: weight(service.weight, most), priority: rank(service), ..Server::new(address.into()) };
        let addresses = target.addresses.iter().map(|ip| SocketAddr::new(*ip, service.port)).collect();
        Some(Endpoint { server, addresses, is_leaving: false })
    };
    services.iter().filter_map(endpoint).collect()
}

/// Weights are compared within one priority. Those that a pool can have are kept as they are; beyond, all are made
/// smaller alike.
fn weight(weight: u16, most: u16) -> u32 {
    let (weight, most) = (u32::from(weight), u32::from(most));
    let scaled = if most <= Server::WEIGHT_MAX { weight } else { (weight * Server::WEIGHT_MAX + most / 2) / most };
    scaled.max(1)
}

#[cfg(test)]
mod tests {
    use super::{Service, Target, endpoints, usable};
    use crate::dns::hosts::Found;
    use std::time::Duration;
    use tidegate_model::Scheme;

    /// `PRIORITY WEIGHT TARGET:PORT`
    fn services(texts: &[&str]) -> Vec<Service> {
        let service = |text: &&str| {
            let mut words = text.split(' ');
            let mut word = || words.next().expect("three words");
            let (priority, weight) = (word().parse().expect("a priority"), word().parse().expect("a weight"));
            let (target, port) = word().split_once(':').expect("a port");
            Service { priority, weight, port: port.parse().expect("a port"), target: target.to_owned() }
        };
        texts.iter().map(service).collect()
    }

    /// The targets `a`, `b`, … have the addresses 10.0.0.97, 10.0.0.98, …; `z` has none.
    fn check(records: &[&str], expected: &[&str]) {
        let services = services(records);
        let target = |name: &str| {
            let ip = format!("10.0.0.{}", name.as_bytes()[0]).parse().expect("an address");
            Target::new(name, &Found { addresses: [ip].into(), time_to_live: Duration::ZERO })
        };
        let targets: Vec<Target> =
            services.iter().map(|service| service.target.as_str()).filter(|name| *name != "z").map(target).collect();
        let seen: Vec<String> = endpoints(&services, &targets, Scheme::Http)
            .iter()
            .map(|endpoint| {
                let server = &endpoint.server;
                format!("{} {:?} *{} ^{}", server.address, endpoint.addresses, server.weight, server.priority)
            })
            .collect();
        assert_eq!(seen, expected, "for {records:?}");
    }

    #[test]
    fn each_record_is_a_server_with_its_targets_addresses() {
        check(&["0 1 a:80", "0 1 b:81"], &["a:80 [10.0.0.97:80] *1 ^0", "b:81 [10.0.0.98:81] *1 ^0"]);
        check(&["0 1 z:80", "0 1 b:81"], &["b:81 [10.0.0.98:81] *1 ^0"]);
    }

    #[test]
    fn weights_are_brought_into_range_within_their_priority() {
        let check_weights = |records: &[&str], expected: &[&str]| {
            let expected: Vec<String> = expected.iter().map(|text| format!("a:80 [10.0.0.97:80] {text}")).collect();
            check(records, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        };
        check_weights(&["0 0 a:80", "0 256 a:80"], &["*1 ^0", "*256 ^0"]);
        check_weights(&["0 65535 a:80", "0 32768 a:80", "0 1 a:80"], &["*256 ^0", "*128 ^0", "*1 ^0"]);
        check_weights(&["0 1000 a:80", "1 5 a:80"], &["*256 ^0", "*5 ^1"]);
    }

    #[test]
    fn priorities_are_counted() {
        let records: Vec<String> = (0..10).map(|number| format!("{} 1 a:80", number * 100)).collect();
        let expected: Vec<String> =
            [0, 1, 2, 3, 4, 5, 6, 7, 7, 7].iter().map(|rank| format!("a:80 [10.0.0.97:80] *1 ^{rank}")).collect();
        let texts = |texts: &[String]| texts.iter().map(|text| text.clone().leak() as &str).collect::<Vec<_>>();
        check(&texts(&records), &texts(&expected));
    }

    #[test]
    fn records_that_name_no_server_are_told_of() {
        let check = |records: &[&str], expected: &str| {
            let seen = match usable(services(records), Scheme::Http) {
                Ok((usable, remarks)) => format!("{} usable {remarks:?}", usable.len()),
                Err(trouble) => trouble.text,
            };
            assert_eq!(seen, expected, "for {records:?}");
        };
        check(&["0 1 a:80"], "1 usable []");
        check(&["0 1 :80"], "the service is not offered, says its SRV record");
        check(&["0 1 :80", "0 1 a:80"], "1 usable []");
        check(&["0 1 a:0"], "an SRV record is left out, because port 0 cannot be connected to");
        check(&["0 1 a:0", "0 1 b:1"], "1 usable [\"an SRV record is left out, because port 0 cannot be connected to\"]");
    }
}
