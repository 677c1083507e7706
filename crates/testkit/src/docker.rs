//! Docker's API on a unix socket, as far as discovery asks: containers, one container, one network, the stream of
//! events. The test puts containers in and takes them out; events are told as the engine tells them.

use crate::api::{Asked, begin_chunks, serve, write_chunk, write_whole};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// A container as the engine lists it.
#[derive(Debug, Clone)]
pub struct Container {
    pub id: String,
    pub name: String,
    pub state: String,
    pub status: String,
    pub labels: BTreeMap<String, String>,
    /// TCP ports that it exposes.
    pub ports: Vec<u16>,
    /// Name, address, length of the prefix; without one the network has to be asked.
    pub networks: Vec<(String, String, u32)>,
    pub network_mode: String,
    /// In seconds since 1970.
    pub created: i64,
    /// Variables as the engine has them, `NAME=value`.
    pub environment: Vec<String>,
}

impl Container {
    /// A container that runs and is in the pool, with one port and on this host's own network.
    pub fn new(id: &str, pool: &str, port: u16) -> Container {
        Container {
            id: id.to_owned(),
            name: id.to_owned(),
            state: "running".to_owned(),
            status: "Up 3 minutes".to_owned(),
            labels: [("tidegate.pool".to_owned(), pool.to_owned())].into(),
            ports: vec![port],
            networks: Vec::new(),
            network_mode: "host".to_owned(),
            created: 0,
            environment: Vec::new(),
        }
    }

    /// A container that runs and says nothing, with one port and on this host's own network.
    pub fn plain(id: &str, port: u16) -> Container {
        Container { labels: BTreeMap::new(), ..Container::new(id, "", port) }
    }

    /// As compose labels its own.
    pub fn of_project(self, project: &str, service: &str) -> Container {
        self.with_label("com.docker.compose.project", project).with_label("com.docker.compose.service", service)
    }

    pub fn created(self, seconds: i64) -> Container {
        Container { created: seconds, ..self }
    }

    pub fn with_status(self, status: &str) -> Container {
        Container { status: status.to_owned(), ..self }
    }

    pub fn with_label(mut self, name: &str, value: &str) -> Container {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// In a network instead of on the host's own.
    pub fn with_network(mut self, name: &str, address: &str, prefix: u32) -> Container {
        name.clone_into(&mut self.network_mode);
        self.networks.push((name.to_owned(), address.to_owned(), prefix));
        self
    }

    fn listed(&self, lists_ports: bool, version: Option<EngineVersion>) -> Value {
        let networks: BTreeMap<&str, Value> = self
            .networks
            .iter()
            .map(|(name, address, prefix)| {
                (name.as_str(), json!({"NetworkID": name, "IPAddress": address, "IPPrefixLen": prefix}))
            })
            .collect();
        let ports: Vec<Value> = self.ports.iter().map(|port| json!({"PrivatePort": port, "Type": "tcp"})).collect();
        let mut listed = json!({
            "Id": self.id, "Names": [format!("/{}", self.name)], "State": self.state, "Status": self.status, "Created": self.created, "Labels": self.labels,
            "Ports": if lists_ports { ports } else { Vec::new() },
            "HostConfig": {"NetworkMode": self.network_mode}, "NetworkSettings": {"Networks": networks},
        });
        if version.is_some_and(|version| !version.lists_network_mode) {
            listed["HostConfig"] = Value::Null;
            if self.networks.is_empty() {
                listed["NetworkSettings"] = json!({"Networks": null});
            }
        }
        if version.is_some_and(|version| version.lists_health) {
            let words = self.status.rsplit_once('(').map_or("none", |(_, words)| words.trim_end_matches(')'));
            listed["Health"] = json!({"Status": words.trim_start_matches("health: "), "FailingStreak": 0});
        }
        listed
    }
}

/// How an engine of that version differs from others, as far as anybody here asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineVersion {
    pub name: &'static str,
    /// The newest version of the API, which a path without one means.
    pub api: (u32, u32),
    /// Lists have `Health` beside the words of `Status`: API 1.52.
    /// <https://docs.docker.com/reference/api/engine/version-history/#v152-api-changes>
    pub lists_health: bool,
    /// Events repeat themselves in `status`, `id` and `from`: up to API 1.51, as the same page says.
    pub has_old_event_fields: bool,
    /// Lists have ports that are exposed and not published. Podman's have not.
    /// <https://docs.podman.io/en/latest/_static/api.html#tag/containers-(compat)/operation/ContainerList>
    pub lists_exposed_ports: bool,
    /// What it calls the end of a container in its events. Podman's own word is `died`, and `die` where it answers as
    /// Docker does; seen so with 4.3.1. <https://docs.podman.io/en/latest/markdown/podman-events.1.html>
    pub end: &'static str,
    /// Whether lists say of containers on the host's own network, or on another container's, where they are. Podman's
    /// have no `HostConfig` and no network then; seen so with 4.3.1.
    pub lists_network_mode: bool,
    /// What stands in parentheses in `Status` until the first check of health is good.
    pub starting: &'static str,
}

const DOCKER_20: EngineVersion = EngineVersion {
    name: "Docker 20.10",
    api: (1, 41),
    lists_health: false,
    has_old_event_fields: true,
    lists_exposed_ports: true,
    end: "die",
    lists_network_mode: true,
    starting: "health: starting",
};

const PODMAN: EngineVersion = EngineVersion {
    name: "Podman 4.3",
    api: (1, 41),
    lists_exposed_ports: false,
    lists_network_mode: false,
    starting: "starting",
    ..DOCKER_20
};

/// Versions that are in use, with the versions of their API by
/// <https://docs.docker.com/reference/api/engine/#api-version-matrix>.
pub const ENGINES: &[EngineVersion] = &[
    DOCKER_20,
    EngineVersion { name: "Docker 23.0", api: (1, 42), ..DOCKER_20 },
    EngineVersion { name: "Docker 24.0", api: (1, 43), ..DOCKER_20 },
    EngineVersion { name: "Docker 25.0", api: (1, 44), ..DOCKER_20 },
    EngineVersion { name: "Docker 26.1", api: (1, 45), ..DOCKER_20 },
    EngineVersion { name: "Docker 27.5", api: (1, 47), ..DOCKER_20 },
    EngineVersion { name: "Docker 28.5", api: (1, 51), ..DOCKER_20 },
    EngineVersion { name: "Docker 29.1", api: (1, 52), lists_health: true, has_old_event_fields: false, ..DOCKER_20 },
    PODMAN,
    EngineVersion { name: "Podman 4.9", end: "died", ..PODMAN },
    EngineVersion { name: "Podman 5.4", ..PODMAN },
];

/// An emulation of Docker's engine. It runs on threads of its own and ends with the test's process.
pub struct Docker {
    /// Removed with this.
    folder: TempDir,
    shared: Arc<DockerShared>,
}

#[derive(Default)]
struct DockerShared {
    state: Mutex<DockerState>,
    changed: Condvar,
}

#[derive(Default)]
struct DockerState {
    containers: Vec<Container>,
    /// Subnets by network.
    networks: BTreeMap<String, String>,
    events: Vec<String>,
    /// Streams of events of a lower number end.
    era: u64,
    refusal: Option<(u16, String)>,
    /// Services and tasks of a swarm, where it is a manager of one.
    swarm: Option<(Value, Value)>,
    /// Paths that a proxy in front of the socket lets nobody ask for.
    forbidden: Vec<String>,
    version: Option<EngineVersion>,
    without_ports: bool,
    lists: usize,
    streams: usize,
}

impl Docker {
    pub fn start() -> io::Result<Docker> {
        let folder = tempfile::tempdir()?;
        let docker = Docker { folder, shared: Arc::default() };
        docker.listen()?;
        Ok(docker)
    }

    /// Like an engine of that version.
    pub fn start_as(version: EngineVersion) -> io::Result<Docker> {
        let docker = Docker::start()?;
        docker.state().version = Some(version);
        docker.set_listed_ports(version.lists_exposed_ports);
        Ok(docker)
    }

    /// Is a manager of a swarm with these services and tasks, as the API has them, and tells that a service changed.
    pub fn set_swarm(&self, services: Value, tasks: Value) {
        let mut state = self.state();
        state.swarm = Some((services, tasks));
        state.tell("service", "update", "s1", BTreeMap::new());
        self.shared.changed.notify_all();
    }

    /// Answers 403 for what begins so, as a proxy in front of the socket does.
    pub fn forbid(&self, path: &str) {
        self.state().forbidden.push(path.to_owned());
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    /// Puts a container into the list, or instead of the one with its identifier. The engine tells of it with `action`.
    pub fn put(&self, container: Container, action: &str) {
        let mut state = self.state();
        state.containers.retain(|other| other.id != container.id);
        let attributes = container.labels.clone();
        let id = container.id.clone();
        state.containers.push(container);
        state.tell("container", action, &id, attributes);
        self.shared.changed.notify_all();
    }

    /// Only tells: `kill` with `signal`, `stop`.
    pub fn tell(&self, id: &str, action: &str, attributes: &[(&str, &str)]) {
        let mut state = self.state();
        let mut all = state.containers.iter().find(|other| other.id == id).map(|other| other.labels.clone()).unwrap_or_default();
        all.extend(attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        state.tell("container", action, id, all);
        self.shared.changed.notify_all();
    }

    /// Ends the container; the engine tells `die`.
    pub fn remove(&self, id: &str) {
        let mut state = self.state();
        let labels = state.containers.iter().find(|other| other.id == id).map(|other| other.labels.clone()).unwrap_or_default();
        state.containers.retain(|other| other.id != id);
        let end = state.version.map_or("die", |version| version.end);
        state.tell("container", end, id, labels);
        self.shared.changed.notify_all();
    }

    /// Changes containers without a word, as events that are lost.
    pub fn change_silently(&self, change: impl FnOnce(&mut Vec<Container>)) {
        change(&mut self.state().containers);
    }

    /// What an inspection of a network says.
    pub fn set_subnet(&self, network: &str, subnet: &str) {
        self.state().networks.insert(network.to_owned(), subnet.to_owned());
    }

    /// Whether lists have the ports that are not published. With Podman they have not, and an inspection tells them.
    pub fn set_listed_ports(&self, is_listed: bool) {
        self.state().without_ports = !is_listed;
    }

    /// Answers everything with this status from now on, and ends the streams of events. `None`: as usual again.
    pub fn set_refusal(&self, refusal: Option<(u16, &str)>) {
        let mut state = self.state();
        state.refusal = refusal.map(|(status, body)| (status, body.to_owned()));
        state.era += 1;
        self.shared.changed.notify_all();
    }

    /// Ends, as an engine that is restarted: streams break off and the socket is gone.
    pub fn stop(&self) -> io::Result<()> {
        std::fs::remove_file(self.socket())?;
        self.state().era += 1;
        self.shared.changed.notify_all();
        Ok(())
    }

    /// After [`Docker::stop`].
    pub fn listen(&self) -> io::Result<()> {
        let listener = UnixListener::bind(self.socket())?;
        let shared = self.shared.clone();
        serve("docker", move || Ok(listener.accept()?.0), move |asked, stream| answer(asked, stream, &shared))
    }

    /// How often containers were listed.
    pub fn lists(&self) -> usize {
        self.state().lists
    }

    /// How many streams of events were opened.
    pub fn streams(&self) -> usize {
        self.state().streams
    }

    fn state(&self) -> MutexGuard<'_, DockerState> {
        lock(&self.shared)
    }
}

fn lock(shared: &DockerShared) -> MutexGuard<'_, DockerState> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DockerState {
    fn tell(&mut self, kind: &str, action: &str, id: &str, attributes: BTreeMap<String, String>) {
        let mut event = json!({"Type": kind, "Action": action, "Actor": {"ID": id, "Attributes": attributes}, "scope": "local"});
        if self.version.is_some_and(|version| version.has_old_event_fields) {
            (event["status"], event["id"], event["from"]) = (json!(action), json!(id), json!("an/image"));
        }
        self.events.push(format!("{event}\n"));
    }

    /// Containers that the filter `{"label": ["key=value"]}` lets through.
    fn list(&self, filters: &Value) -> Value {
        let label = filters["label"][0].as_str().and_then(|label| label.split_once('='));
        let is_wanted = |container: &&Container| {
            label.is_none_or(|(name, value)| container.labels.get(name).is_some_and(|other| other == value))
        };
        self.containers.iter().filter(is_wanted).map(|container| container.listed(!self.without_ports, self.version)).collect()
    }
}

fn answer(asked: &Asked, stream: &mut UnixStream, shared: &DockerShared) -> io::Result<()> {
    let mut state = lock(shared);
    if let Some((status, body)) = state.refusal.clone() {
        drop(state);
        return write_whole(stream, status, &[], &body);
    }
    if state.forbidden.iter().any(|forbidden| asked.path().starts_with(forbidden.as_str())) {
        drop(state);
        return write_whole(stream, 403, &[], "forbidden by the proxy of the socket");
    }
    let path = Path::new(asked.path());
    let missing = || json!({"message": "no such thing"}).to_string();
    let parts: Vec<&str> = path.iter().skip(1).filter_map(|part| part.to_str()).collect();
    match parts.as_slice() {
        ["events"] => {
            state.streams += 1;
            drop(state);
            stream_events(stream, shared)
        }
        ["containers", "json"] => {
            let filters = asked.parameter("filters").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
            state.lists += 1;
            let list = state.list(&filters).to_string();
            drop(state);
            // In pieces that end anywhere, as a long list does.
            begin_chunks(stream)?;
            for piece in list.as_bytes().chunks(100) {
                write_chunk(stream, piece)?;
            }
            write_chunk(stream, b"")
        }
        ["containers", id, "json"] => {
            let Some(container) = state.containers.iter().find(|container| container.id == *id) else {
                drop(state);
                return write_whole(stream, 404, &[], &missing());
            };
            let exposed: BTreeMap<String, Value> =
                container.ports.iter().map(|port| (format!("{port}/tcp"), json!({}))).collect();
            let body = json!({"Id": id, "Config": {"ExposedPorts": exposed, "Env": container.environment}, "HostConfig": {"NetworkMode": container.network_mode}}).to_string();
            drop(state);
            write_whole(stream, 200, &[], &body)
        }
        [what @ ("services" | "tasks")] => {
            let swarm = state.swarm.clone();
            drop(state);
            match swarm {
                Some((services, tasks)) => {
                    write_whole(stream, 200, &[], &(if *what == "services" { services } else { tasks }).to_string())
                }
                None => write_whole(stream, 503, &[], &json!({"message": "This node is not a swarm manager."}).to_string()),
            }
        }
        ["networks", name] => {
            let subnet = state.networks.get(*name).cloned();
            drop(state);
            match subnet {
                Some(subnet) => {
                    let body = json!({"Name": name, "IPAM": {"Config": [{"Subnet": subnet}]}}).to_string();
                    write_whole(stream, 200, &[], &body)
                }
                None => write_whole(stream, 404, &[], &missing()),
            }
        }
        _ => {
            drop(state);
            write_whole(stream, 404, &[], &missing())
        }
    }
}

/// From now on, until the engine ends or refuses.
fn stream_events(stream: &mut UnixStream, shared: &DockerShared) -> io::Result<()> {
    let (mut told, era) = {
        let state = lock(shared);
        (state.events.len(), state.era)
    };
    begin_chunks(stream)?;
    stream.flush()?;
    loop {
        let mut state = lock(shared);
        while state.events.len() == told && state.era == era {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.era != era {
            return Ok(());
        }
        let events = state.events[told..].concat();
        told = state.events.len();
        drop(state);
        write_chunk(stream, events.as_bytes())?;
    }
}
