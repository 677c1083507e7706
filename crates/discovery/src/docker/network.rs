//! Through which of its networks a container is reached: the one that was named, or one that this process is in itself.
//! Pure but for [`own_addresses`].

use ipnet::IpNet;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// A container's place in a network.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct Attachment {
    #[serde(rename = "NetworkID")]
    pub network_id: String,
    #[serde(rename = "IPAddress")]
    ipv4: String,
    #[serde(rename = "IPPrefixLen")]
    ipv4_prefix: u32,
    #[serde(rename = "GlobalIPv6Address")]
    ipv6: String,
    #[serde(rename = "GlobalIPv6PrefixLen")]
    ipv6_prefix: u32,
}

impl Attachment {
    /// Of addresses with their prefix behind them, as `10.0.1.5/24`.
    pub fn of_addresses<'a>(addresses: impl Iterator<Item = &'a String>) -> Attachment {
        let mut attachment = Attachment::default();
        for net in addresses.filter_map(|text| text.parse::<IpNet>().ok()) {
            match net {
                IpNet::V4(net) => (attachment.ipv4, attachment.ipv4_prefix) = (net.addr().to_string(), net.prefix_len().into()),
                IpNet::V6(net) => (attachment.ipv6, attachment.ipv6_prefix) = (net.addr().to_string(), net.prefix_len().into()),
            }
        }
        attachment
    }

    /// Whether the subnet has to be asked for.
    pub fn is_without_prefix(&self) -> bool {
        !self.network_id.is_empty() && self.addresses().any(|(_, prefix)| prefix == 0)
    }

    /// Addresses with the length of their prefix, IPv4 first.
    fn addresses(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        let both = [(&self.ipv4, self.ipv4_prefix), (&self.ipv6, self.ipv6_prefix)];
        both.into_iter().filter_map(|(text, prefix)| Some((text.parse().ok()?, prefix)))
    }
}

/// The addresses of this machine's interfaces, or none when the system does not tell.
pub fn own_addresses() -> Vec<IpAddr> {
    if_addrs::get_if_addrs().map(|interfaces| interfaces.iter().map(if_addrs::Interface::ip).collect()).unwrap_or_default()
}

/// The address in the network of that name, reachable or not.
pub fn named(networks: &BTreeMap<String, Attachment>, network: &str, container: &str) -> Result<IpAddr, String> {
    let address = networks.get(network).and_then(|endpoint| endpoint.addresses().next());
    address
        .map(|(ip, _)| ip)
        .ok_or_else(|| format!("it is not in the network {network}; run `docker network connect {network} {container}`"))
}

/// The address in the first network, by name, that has one of our own addresses in it: a route that leads there by
/// chance, such as the default one, leads to nothing.
pub fn reachable(
    networks: &BTreeMap<String, Attachment>,
    subnets: &HashMap<String, Vec<IpNet>>,
    own: &[IpAddr],
) -> Result<IpAddr, String> {
    let mut names: Vec<&str> = Vec::new();
    for (name, endpoint) in networks {
        for (ip, prefix) in endpoint.addresses() {
            let of_prefix =
                u8::try_from(prefix).ok().filter(|prefix| *prefix != 0).and_then(|prefix| IpNet::new(ip, prefix).ok());
            let asked = subnets.get(&endpoint.network_id).into_iter().flatten();
            let mut around = of_prefix.iter().chain(asked).filter(|subnet| subnet.contains(&ip));
            if around.any(|subnet| own.iter().any(|own| subnet.contains(own))) {
                return Ok(ip);
            }
            if names.last() != Some(&name.as_str()) {
                names.push(name);
            }
        }
    }
    match names.as_slice() {
        [] => Err("it is in no network; `docker network connect` puts it into one".into()),
        [first, ..] => Err(format!(
            "it cannot be reached: this process is in none of its networks ({}); run `docker network connect {first} <this container>`, \
             or set `network=`",
            names.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Attachment, named, reachable};
    use std::collections::BTreeMap;

    /// `NAME ADDRESS/PREFIX`; without a prefix the subnet has to be asked for.
    fn networks(texts: &[&str]) -> BTreeMap<String, Attachment> {
        let endpoint = |text: &&str| {
            let (name, place) = text.split_once(' ').unwrap_or((text, ""));
            let (address, prefix) = place.split_once('/').unwrap_or((place, "0"));
            let (address, prefix) = (address.to_owned(), prefix.parse().expect("a length"));
            let attachment = Attachment { network_id: format!("id of {name}"), ..Attachment::default() };
            let endpoint = if address.contains(':') {
                Attachment { ipv6: address, ipv6_prefix: prefix, ..attachment }
            } else {
                Attachment { ipv4: address, ipv4_prefix: prefix, ..attachment }
            };
            (name.to_owned(), endpoint)
        };
        texts.iter().map(endpoint).collect()
    }

    #[test]
    fn a_network_that_we_are_in_is_used() {
        let check = |texts: &[&str], own: &[&str], expected: &str| {
            let own: Vec<_> = own.iter().map(|ip| ip.parse().expect("an address")).collect();
            let subnets = [("id of asked".to_owned(), vec!["10.9.0.0/24".parse().expect("a subnet")])].into();
            let seen = reachable(&networks(texts), &subnets, &own).map_or_else(|message| message, |ip| ip.to_string());
            assert_eq!(seen, expected, "for {texts:?}");
        };
        let none = |names: &str, first: &str| {
            format!(
                "it cannot be reached: this process is in none of its networks ({names}); \
                 run `docker network connect {first} <this container>`, or set `network=`"
            )
        };
        check(&["bridge 172.17.0.2/16"], &["127.0.0.1", "172.17.0.1"], "172.17.0.2");
        check(&["a 10.1.0.2/24", "b 10.2.0.2/24"], &["10.2.0.7"], "10.2.0.2");
        check(&["b 10.2.0.2/24", "a 10.1.0.2/24"], &["10.1.0.7", "10.2.0.7"], "10.1.0.2");
        check(&["a fd00::2/64"], &["10.1.0.7", "fd00::7"], "fd00::2");
        check(&["asked 10.9.0.2"], &["10.9.0.7"], "10.9.0.2");
        check(&["asked 10.9.0.2"], &["10.8.0.7"], &none("asked", "asked"));
        check(&["a 10.1.0.2/24", "b 10.2.0.2/24"], &["10.3.0.7"], &none("a, b", "a"));
        // A prefix of no meaning is not one that everything is in.
        check(&["a 10.1.0.2/99"], &["10.1.0.7"], &none("a", "a"));
        check(&["a 10.1.0.2"], &["10.1.0.7"], &none("a", "a"));
        check(&["a"], &["10.1.0.7"], "it is in no network; `docker network connect` puts it into one");
    }

    #[test]
    fn a_named_network_is_used_whatever_is_reachable() {
        let check = |texts: &[&str], expected: &str| {
            let seen = named(&networks(texts), "back", "web-1").map_or_else(|message| message, |ip| ip.to_string());
            assert_eq!(seen, expected, "for {texts:?}");
        };
        check(&["back 10.1.0.2/24", "a 10.0.0.1/8"], "10.1.0.2");
        check(&["a 10.0.0.1/8"], "it is not in the network back; run `docker network connect back web-1`");
        check(&["back"], "it is not in the network back; run `docker network connect back web-1`");
    }
}
