//! The engine's API over its unix socket, as far as it is needed: containers, events, a network, a container. Podman
//! speaks the same. What the answers mean is in the modules beside this one.

use super::container::{Container, Known};
use super::swarm::{SwarmService, SwarmTask};
use crate::http::{Answered, Lines, get};
use http::StatusCode;
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_outbound::percent_encoded;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// An engine on the same machine that is busy with an image may take seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Where the engines listen when nobody says otherwise, Docker first.
const SOCKETS: &[&str] = &["/var/run/docker.sock", "/run/podman/podman.sock"];
/// Below `XDG_RUNTIME_DIR`, for engines that a user runs.
const SOCKETS_OF_USER: &[&str] = &["docker.sock", "podman/podman.sock"];

pub struct Engine {
    socket: PathBuf,
}

#[derive(Deserialize)]
struct Network {
    #[serde(rename = "IPAM", default)]
    addresses: Addresses,
}

#[derive(Deserialize, Default)]
struct Addresses {
    #[serde(rename = "Config", default)]
    config: Option<Vec<Subnet>>,
}

#[derive(Deserialize)]
struct Subnet {
    #[serde(rename = "Subnet", default)]
    subnet: String,
}

#[derive(Deserialize)]
struct Inspected {
    #[serde(rename = "Config", default)]
    config: InspectedConfig,
    #[serde(rename = "HostConfig", default)]
    host_config: InspectedHost,
}

#[derive(Deserialize, Default)]
struct InspectedHost {
    #[serde(rename = "NetworkMode", default)]
    network_mode: String,
}

#[derive(Deserialize, Default)]
struct InspectedConfig {
    #[serde(rename = "ExposedPorts", default)]
    exposed: Option<BTreeMap<String, Value>>,
    #[serde(rename = "Env", default)]
    variables: Option<Vec<String>>,
}

/// What only an inspection tells.
pub struct Inspection {
    /// TCP ports that the image or the container exposes.
    pub ports: Vec<u16>,
    pub variables: Vec<(String, String)>,
    /// `host`, `container:ID`, the name of a network.
    pub network_mode: String,
}

impl Engine {
    pub fn find(named: Option<&Path>) -> Result<Engine, String> {
        if let Some(socket) = named {
            return Ok(Engine { socket: socket.to_owned() });
        }
        let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let of_user = of_user.iter().flat_map(|folder| SOCKETS_OF_USER.iter().map(|name| folder.join(name)));
        let mut sockets = SOCKETS.iter().map(PathBuf::from).chain(of_user);
        match sockets.find(|socket| socket.exists()) {
            Some(socket) => Ok(Engine { socket }),
            None => Err(format!(
                "there is neither {}; start the engine, mount its socket, or name it with `socket=`",
                SOCKETS.join(" nor ")
            )),
        }
    }

    /// Running containers and those that are paused.
    pub async fn containers(&self, label: &str) -> Result<Vec<Container>, String> {
        let filters = json!({ "label": [format!("tidegate.pool={label}")] }).to_string();
        self.json(&format!("/containers/json?filters={}", percent_encoded(&filters))).await.map(Option::unwrap_or_default)
    }

    /// All running containers, those that are paused and those that the engine starts again.
    pub async fn all_containers(&self) -> Result<Vec<Container>, String> {
        self.json("/containers/json").await.map(Option::unwrap_or_default)
    }

    /// Services of a swarm, which only its managers know.
    pub async fn services(&self) -> Result<Vec<SwarmService>, String> {
        self.json("/services").await.map(Option::unwrap_or_default)
    }

    /// Tasks of services that have not ended.
    pub async fn tasks(&self) -> Result<Vec<SwarmTask>, String> {
        self.json("/tasks").await.map(Option::unwrap_or_default)
    }

    /// `None` when the container is gone.
    pub async fn inspected(&self, container: &str) -> Result<Option<Inspection>, String> {
        let inspected: Option<Inspected> = self.json(&format!("/containers/{}/json", percent_encoded(container))).await?;
        Ok(inspected.map(|Inspected { config, host_config }| {
            let split = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            Inspection {
                ports: tcp_ports(config.exposed.unwrap_or_default().keys()),
                variables: config.variables.iter().flatten().filter_map(split).collect(),
                network_mode: host_config.network_mode,
            }
        }))
    }

    /// Asks for the networks of those that the list says nothing of, which do not change.
    pub async fn learn_networks<'c>(
        &self,
        listed: impl Iterator<Item = &'c mut Container>,
        known: &mut Known,
    ) -> Result<(), String> {
        for container in listed.filter(|container| container.lacks_network()) {
            if !known.network_modes.contains_key(&container.id)
                && let Some(inspected) = self.inspected(&container.id).await?
            {
                known.network_modes.insert(container.id.clone(), inspected.network_mode);
            }
            if let Some(mode) = known.network_modes.get(&container.id) {
                container.set_network_mode(mode);
            }
        }
        Ok(())
    }

    /// Of these kinds.
    pub async fn events(&self, kinds: &[&str]) -> Result<Lines, String> {
        let filters = json!({ "type": kinds }).to_string();
        let answered = self.ask(&format!("/events?filters={}", percent_encoded(&filters))).await?;
        if answered.status() != StatusCode::OK {
            return Err(self.refused("/events", answered).await);
        }
        Ok(answered.lines())
    }

    /// TCP ports that the image or the container exposes; `None` when the container is gone.
    pub async fn exposed_ports(&self, container: &str) -> Result<Option<Vec<u16>>, String> {
        Ok(self.inspected(container).await?.map(|inspected| inspected.ports))
    }

    /// None when the network is gone.
    pub async fn subnets(&self, network: &str) -> Result<Vec<IpNet>, String> {
        let network: Option<Network> = self.json(&format!("/networks/{}", percent_encoded(network))).await?;
        let subnets = network.and_then(|network| network.addresses.config).unwrap_or_default();
        Ok(subnets.iter().filter_map(|subnet| subnet.subnet.parse().ok()).collect())
    }

    /// `has closed its stream` as a sentence that names the engine.
    pub fn sentence(&self, message: &str) -> String {
        format!("the engine at {} {message}", self.socket.display())
    }

    /// `None` is 404.
    async fn json<T: DeserializeOwned>(&self, target: &str) -> Result<Option<T>, String> {
        let path = target.split('?').next().unwrap_or(target);
        let answered = self.ask(target).await?;
        match answered.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err(self.refused(path, answered).await),
        }
        let slow = |_| self.sentence("does not finish its answer");
        let body = timeout(ANSWER_LIMIT, answered.whole()).await.map_err(slow)?.map_err(|message| self.sentence(&message))?;
        let strange = |error| self.sentence(&format!("answers GET {path} in a way that is not understood: {error}"));
        serde_json::from_slice(&body).map(Some).map_err(strange)
    }

    async fn ask(&self, target: &str) -> Result<Answered, String> {
        let asking = async {
            let stream = UnixStream::connect(&self.socket).await.map_err(|error| self.unreachable(&error))?;
            get(stream, "localhost", target, &[]).await.map_err(|message| self.sentence(&message))
        };
        timeout(ANSWER_LIMIT, asking).await.unwrap_or_else(|_| Err(self.sentence("does not answer")))
    }

    async fn refused(&self, path: &str, answered: Answered) -> String {
        let status = answered.status();
        let reason = timeout(ANSWER_LIMIT, answered.reason()).await.unwrap_or_default();
        let remedy = match status {
            StatusCode::FORBIDDEN => "; a proxy in front of the socket has to let GET of containers, events and networks through",
            StatusCode::SERVICE_UNAVAILABLE if path == "/services" => "; `swarm=#true` needs the socket of a manager",
            _ => "",
        };
        self.sentence(&format!("answers GET {path} with {} {reason}{remedy}", status.as_u16()))
    }

    fn unreachable(&self, error: &std::io::Error) -> String {
        let socket = self.socket.display();
        match error.kind() {
            ErrorKind::NotFound => {
                format!("{socket} does not exist; start the engine, mount its socket, or name it with `socket=`")
            }
            ErrorKind::PermissionDenied => {
                format!("{socket} may not be used; put the user that the proxy runs as into the group that owns it")
            }
            ErrorKind::ConnectionRefused => format!("nobody listens at {socket}; start the engine"),
            _ => format!("{socket} cannot be connected to: {error}"),
        }
    }
}

/// `80/tcp`, as an inspected container has them.
fn tcp_ports<'a>(exposed: impl Iterator<Item = &'a String>) -> Vec<u16> {
    exposed.filter_map(|text| text.strip_suffix("/tcp")?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Engine, tcp_ports};
    use std::io::ErrorKind;

    #[test]
    fn a_socket_that_cannot_be_used_says_why() {
        let check = |kind: ErrorKind, expected: &str| {
            assert_eq!(Engine { socket: "/a.sock".into() }.unreachable(&kind.into()), expected);
        };
        check(ErrorKind::NotFound, "/a.sock does not exist; start the engine, mount its socket, or name it with `socket=`");
        check(
            ErrorKind::PermissionDenied,
            "/a.sock may not be used; put the user that the proxy runs as into the group that owns it",
        );
        check(ErrorKind::ConnectionRefused, "nobody listens at /a.sock; start the engine");
    }

    #[test]
    fn exposed_ports_are_read_as_they_are_written() {
        let check = |texts: &[&str], expected: &[u16]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(tcp_ports(texts.iter()), expected);
        };
        check(&["80/tcp", "53/udp", "443/tcp"], &[80, 443]);
        check(&["80", "x/tcp", "70000/tcp"], &[]);
    }
}
