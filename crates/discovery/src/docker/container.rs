//! A listed container as a server: whether it takes requests, on which port, with what its labels say. Pure; what the
//! list does not say was asked for before and is in [`Known`].

use super::event::Leaving;
use super::network::{self, Attachment};
use crate::Endpoint;
use ipnet::IpNet;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use tidegate_model::discover::DockerDiscover;
use tidegate_model::{ContainerStage, Scheme, Server, TcpAddress};

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub struct Container {
    pub id: String,
    /// In seconds since 1970.
    pub created: i64,
    names: Option<Vec<String>>,
    state: String,
    /// `Up 3 minutes (healthy)`
    status: String,
    /// As API 1.52 of Docker has it, without having to look into a sentence.
    health: Option<ListedHealth>,
    labels: Option<BTreeMap<String, String>>,
    ports: Option<Vec<Port>>,
    host_config: Option<HostConfig>,
    network_settings: Option<NetworkSettings>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ListedHealth {
    status: String,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Port {
    private_port: u16,
    #[serde(rename = "Type")]
    kind: String,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct HostConfig {
    network_mode: String,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct NetworkSettings {
    networks: Option<BTreeMap<String, Attachment>>,
}

/// What was asked for besides the list.
#[derive(Debug, Default)]
pub struct Known {
    /// By container: TCP ports that it exposes.
    pub exposed: HashMap<String, Vec<u16>>,
    /// By network.
    pub subnets: HashMap<String, Vec<IpNet>>,
    /// Addresses of this machine, or of the container that this process is in.
    pub own: Vec<IpAddr>,
    /// By container, where lists do not say it: what its network is.
    pub network_modes: HashMap<String, String>,
}

impl Known {
    pub fn keep_only(&mut self, listed: &[Container]) {
        let containers: BTreeSet<&str> = listed.iter().map(|container| container.id.as_str()).collect();
        let endpoints = listed.iter().flat_map(|container| container.networks().values());
        let networks: BTreeSet<&str> = endpoints.map(|endpoint| endpoint.network_id.as_str()).collect();
        self.exposed.retain(|container, _| containers.contains(container.as_str()));
        self.network_modes.retain(|container, _| containers.contains(container.as_str()));
        self.subnets.retain(|network, _| networks.contains(network.as_str()));
    }
}

/// Containers that take requests or are about to stop, and what keeps others from it.
pub fn endpoints(
    listed: &[Container],
    discover: &DockerDiscover,
    known: &Known,
    leaving: &Leaving,
) -> (Vec<Endpoint>, Vec<String>) {
    let mut endpoints = Vec::new();
    let mut faults = Vec::new();
    for container in listed.iter().filter(|container| container.is_serving()) {
        match container.server(discover, known) {
            Ok(server) => endpoints.push(Endpoint { server, addresses: Vec::new(), is_leaving: leaving.has(&container.id) }),
            Err(message) => faults.push(format!("container {}: {message}", container.name())),
        }
    }
    (endpoints, faults)
}

impl Container {
    /// Whether only an inspection can tell its port: some engines list published ports only.
    pub fn needs_ports(&self, discover: &DockerDiscover) -> bool {
        let is_told = discover.port.is_some() || self.label("port").is_some() || !self.listed_ports().is_empty();
        !is_told && self.is_serving()
    }

    /// Networks of which only an inspection can tell the subnet.
    pub fn networks_without_prefix(&self, discover: &DockerDiscover) -> impl Iterator<Item = &str> {
        let is_asked = discover.network.is_none() && self.is_serving() && !self.is_on_host();
        let networks = self.networks().values().filter(move |_| is_asked);
        networks.filter(|endpoint| endpoint.is_without_prefix()).map(|endpoint| endpoint.network_id.as_str())
    }

    /// Health is in the status, as people read it: `(healthy)`, `(unhealthy)`, `(health: starting)`, with Podman
    /// `(starting)`.
    fn is_serving(&self) -> bool {
        self.stage(false) == ContainerStage::Serving
    }

    pub fn stage(&self, is_leaving: bool) -> ContainerStage {
        let in_words = self.status.rsplit_once('(').map_or("", |(_, health)| health.trim_end_matches(')'));
        let told = self.health.as_ref().map(|health| health.status.as_str()).filter(|status| !matches!(*status, "" | "none"));
        let health = told.filter(|_| in_words != "Paused").unwrap_or(in_words);
        match (self.state.as_str(), health) {
            ("paused", _) | (_, "Paused") => ContainerStage::Paused,
            ("restarting", _) => ContainerStage::Restarting,
            ("running", _) if is_leaving => ContainerStage::Leaving,
            ("running", "unhealthy") => ContainerStage::Unhealthy,
            ("running", "health: starting" | "starting") => ContainerStage::Starting,
            ("running", _) => ContainerStage::Serving,
            _ => ContainerStage::Gone,
        }
    }

    fn server(&self, discover: &DockerDiscover, known: &Known) -> Result<Server, String> {
        let scheme = match self.label("scheme") {
            None | Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(other) => return Err(format!("its label tidegate.scheme is `{other}`; write `http` or `https`")),
        };
        let weight = match self.label("weight") {
            None => 1,
            Some(text) => {
                let weight = text.parse().ok().filter(|weight| (1..=Server::WEIGHT_MAX).contains(weight));
                weight.ok_or_else(|| format!("its label tidegate.weight is `{text}`; write 1 to {}", Server::WEIGHT_MAX))?
            }
        };
        let port = self.port(discover, known)?;
        let ip = self.address(discover, known)?;
        let zone = self.label("zone").filter(|zone| !zone.is_empty()).map(Into::into);
        let address = TcpAddress { scheme, host: ip.to_string(), port };
        Ok(Server { weight, zone, ..Server::new(address.into()) })
    }

    fn port(&self, discover: &DockerDiscover, known: &Known) -> Result<u16, String> {
        if let Some(port) = discover.port {
            return Ok(port);
        }
        if let Some(text) = self.label("port") {
            let port = text.parse().ok().filter(|port| *port != 0);
            return port.ok_or_else(|| format!("its label tidegate.port is `{text}`; write 1 to 65535"));
        }
        match self.exposed_ports(known).as_slice() {
            [port] => Ok(*port),
            [] => Err("it exposes no TCP port; say which one with the label tidegate.port, or with `port=`".into()),
            several => {
                let several: Vec<String> = several.iter().map(u16::to_string).collect();
                Err(format!("it exposes the ports {}; say which one with the label tidegate.port", several.join(", ")))
            }
        }
    }

    pub fn address(&self, discover: &DockerDiscover, known: &Known) -> Result<IpAddr, String> {
        if self.is_on_host() {
            return Ok(Ipv4Addr::LOCALHOST.into());
        }
        match &discover.network {
            Some(network) => network::named(self.networks(), network, self.name()),
            None => network::reachable(self.networks(), &known.subnets, &known.own),
        }
    }

    /// Whether only an inspection can tell where it is: lists of Podman say nothing of containers on the host's own
    /// network, or on another one's.
    pub fn lacks_network(&self) -> bool {
        self.host_config.is_none() && self.networks().is_empty()
    }

    pub fn set_network_mode(&mut self, network_mode: &str) {
        self.host_config = Some(HostConfig { network_mode: network_mode.to_owned() });
    }

    /// The container whose network it uses, with `network_mode: service:x`.
    pub fn network_of(&self) -> Option<&str> {
        self.host_config.as_ref()?.network_mode.strip_prefix("container:")
    }

    fn is_on_host(&self) -> bool {
        self.host_config.as_ref().is_some_and(|config| config.network_mode == "host")
    }

    /// Each once; a port that is published for IPv4 and IPv6 is listed twice.
    fn listed_ports(&self) -> BTreeSet<u16> {
        let ports = self.ports.iter().flatten().filter(|port| port.kind == "tcp" && port.private_port != 0);
        ports.map(|port| port.private_port).collect()
    }

    fn networks(&self) -> &BTreeMap<String, Attachment> {
        static NONE: BTreeMap<String, Attachment> = BTreeMap::new();
        self.network_settings.as_ref().and_then(|settings| settings.networks.as_ref()).unwrap_or(&NONE)
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.any_label(&format!("tidegate.{name}"))
    }

    pub fn any_label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(|value| value.trim())
    }

    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether only an inspection can tell which ports it exposes.
    pub fn lists_no_port(&self) -> bool {
        self.listed_ports().is_empty()
    }

    /// TCP ports, in order.
    pub fn exposed_ports(&self, known: &Known) -> Vec<u16> {
        let mut ports = self.listed_ports();
        if ports.is_empty() {
            ports.extend(known.exposed.get(&self.id).into_iter().flatten());
        }
        ports.into_iter().collect()
    }

    /// As people call it; Docker writes a slash in front.
    pub fn name(&self) -> &str {
        let first = self.names.iter().flatten().next().map(|name| name.trim_start_matches('/'));
        first.filter(|name| !name.is_empty()).unwrap_or(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::{Container, Known, endpoints};
    use crate::docker::event::Leaving;
    use serde_json::{Value, json};
    use std::time::Instant;
    use tidegate_model::discover::DockerDiscover;

    fn discover() -> DockerDiscover {
        DockerDiscover { label: "web".into(), socket: None, network: None, port: None }
    }

    fn known() -> Known {
        let own = vec!["172.17.0.1".parse().expect("an address")];
        Known { exposed: [("c1".to_owned(), vec![9000])].into(), own, ..Known::default() }
    }

    /// Container `c1`, called `web-1`, with what `changes` says of it.
    fn container(changes: Value) -> Container {
        let mut container = json!({
            "Id": "c1", "Names": ["/web-1"], "State": "running", "Status": "Up 3 minutes",
            "Labels": {"tidegate.pool": "web"}, "Ports": [{"PrivatePort": 80, "Type": "tcp"}], "HostConfig": {"NetworkMode": "bridge"},
            "NetworkSettings": {"Networks": {"bridge": {"NetworkID": "n1", "IPAddress": "172.17.0.2", "IPPrefixLen": 16}}},
        });
        for (name, value) in changes.as_object().expect("an object") {
            container[name] = value.clone();
        }
        serde_json::from_value(container).expect("a container")
    }

    fn check_with(discover: &DockerDiscover, changes: Value, expected: &str) {
        let listed = [container(changes.clone())];
        let (endpoints, faults) = endpoints(&listed, discover, &known(), &Leaving::default());
        let mut seen: Vec<String> = endpoints
            .iter()
            .map(|endpoint| {
                let zone = endpoint.server.zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default();
                format!("{} *{}{zone}", endpoint.server.address, endpoint.server.weight)
            })
            .collect();
        seen.extend(faults);
        assert_eq!(seen.join(" | "), expected, "for {changes}");
    }

    fn check(changes: Value, expected: &str) {
        check_with(&discover(), changes, expected);
    }

    #[test]
    fn running_containers_that_are_not_unhealthy_are_servers() {
        check(json!({}), "172.17.0.2:80 *1");
        check(json!({"Status": "Up 3 minutes (healthy)"}), "172.17.0.2:80 *1");
        check(json!({"Status": "Up 3 minutes (unhealthy)"}), "");
        check(json!({"Status": "Up 3 seconds (health: starting)"}), "");
        check(json!({"Status": "Up 3 seconds (starting)"}), "");
        check(json!({"State": "paused", "Status": "Up 3 minutes (Paused)"}), "");
        check(json!({"State": "exited", "Status": "Exited (0) 3 minutes ago"}), "");
        check(json!({"State": "restarting"}), "");
        let health = |status: &str| json!({"Status": "Up 3 minutes", "Health": {"Status": status, "FailingStreak": 0}});
        check(health("healthy"), "172.17.0.2:80 *1");
        check(health("none"), "172.17.0.2:80 *1");
        check(health("starting"), "");
        check(health("unhealthy"), "");
    }

    #[test]
    fn labels_say_how_it_is_used() {
        let labels = |labels: Value| json!({ "Labels": labels });
        check(
            labels(json!({"tidegate.weight": "3", "tidegate.zone": "a", "tidegate.scheme": "https"})),
            "https://172.17.0.2:80 *3 in a",
        );
        check(labels(json!({"tidegate.port": "8080"})), "172.17.0.2:8080 *1");
        check(labels(json!({"tidegate.weight": "0"})), "container web-1: its label tidegate.weight is `0`; write 1 to 256");
        check(labels(json!({"tidegate.port": "http"})), "container web-1: its label tidegate.port is `http`; write 1 to 65535");
        check(
            labels(json!({"tidegate.scheme": "h2"})),
            "container web-1: its label tidegate.scheme is `h2`; write `http` or `https`",
        );
        check(json!({"Labels": null}), "172.17.0.2:80 *1");
    }

    #[test]
    fn the_port_is_said_or_the_only_one() {
        let ports = |ports: &[(u16, &str)]| {
            let ports: Vec<Value> = ports.iter().map(|(port, kind)| json!({"PrivatePort": port, "Type": kind})).collect();
            json!({ "Ports": ports })
        };
        check(ports(&[(80, "tcp"), (80, "tcp"), (53, "udp")]), "172.17.0.2:80 *1");
        check(
            ports(&[(80, "tcp"), (443, "tcp")]),
            "container web-1: it exposes the ports 80, 443; say which one with the label tidegate.port",
        );
        // Not listed, but found by an inspection.
        check(ports(&[]), "172.17.0.2:9000 *1");
        check(
            json!({"Id": "c2", "Ports": null}),
            "container web-1: it exposes no TCP port; say which one with the label tidegate.port, or with `port=`",
        );
        check_with(&DockerDiscover { port: Some(7), ..discover() }, ports(&[(80, "tcp"), (443, "tcp")]), "172.17.0.2:7 *1");
    }

    #[test]
    fn a_container_without_a_network_of_its_own_is_on_this_host() {
        check(json!({"HostConfig": {"NetworkMode": "host"}}), "127.0.0.1:80 *1");
        check(
            json!({"NetworkSettings": null}),
            "container web-1: it is in no network; `docker network connect` puts it into one",
        );
    }

    #[test]
    fn what_was_told_to_stop_is_leaving() {
        let mut leaving = Leaving::default();
        leaving.add("c1".into(), Instant::now());
        let (endpoints, _) = endpoints(&[container(json!({}))], &discover(), &known(), &leaving);
        assert!(endpoints[0].is_leaving);
    }

    #[test]
    fn no_list_makes_them_panic() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes: &Vec<u8>| {
            let read = |bytes: &[u8]| serde_json::from_slice::<Vec<Container>>(bytes).unwrap_or_default();
            let text = String::from_utf8_lossy(bytes);
            let quoted = json!([{
                "State": "running", "Status": text, "Names": [text], "Labels": {"tidegate.port": text, "tidegate.weight": text},
                "NetworkSettings": {"Networks": {text.as_ref(): {"IPAddress": text, "IPPrefixLen": bytes.len()}}},
            }]);
            for listed in [read(bytes), read(quoted.to_string().as_bytes())] {
                let _ = endpoints(&listed, &discover(), &known(), &Leaving::default());
            }
        });
    }
}
