//! The part of Consul's HTTP API that discovery asks, `/v1/health/service/…` with blocking queries. The test sets the
//! instances; whoever waits is answered then.

use crate::api::{Asked, serve, write_whole};
use serde_json::{Value, json};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An agent keeps a question for so long when it is not told how long.
const WAIT_DEFAULT: Duration = Duration::from_secs(300);

/// A healthy instance of the service.
#[derive(Debug, Clone)]
pub struct Instance {
    pub id: String,
    /// Empty: that of its node, 127.0.0.1.
    pub address: String,
    pub port: u16,
    pub weight: u32,
    pub tags: Vec<String>,
}

impl Instance {
    pub fn new(id: &str, address: &str, port: u16) -> Instance {
        Instance { id: id.to_owned(), address: address.to_owned(), port, weight: 1, tags: Vec::new() }
    }
}

/// An emulation of Consul's API. It runs on threads of its own and ends with the test's process.
pub struct Consul {
    pub address: SocketAddr,
    shared: Arc<ConsulShared>,
}

#[derive(Default)]
struct ConsulShared {
    state: Mutex<ConsulState>,
    changed: Condvar,
}

#[derive(Default)]
struct ConsulState {
    service: String,
    instances: Vec<Instance>,
    index: u64,
    token: Option<String>,
    refusal: Option<(u16, String)>,
    /// Raised with each refusal, so that those who wait are answered.
    era: u64,
    targets: Vec<String>,
}

impl Consul {
    pub fn start(service: &str) -> io::Result<Consul> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ConsulShared::default());
        let consul = Consul { address, shared: shared.clone() };
        let mut state = consul.state();
        service.clone_into(&mut state.service);
        state.index = 10;
        drop(state);
        serve("consul", move || Ok(listener.accept()?.0), move |asked, stream| answer(asked, stream, &shared))?;
        Ok(consul)
    }

    pub fn set_instances(&self, instances: &[Instance]) {
        let mut state = self.state();
        state.instances = instances.to_vec();
        state.index += 1;
        self.shared.changed.notify_all();
    }

    /// As after a snapshot was restored; whoever waits on a higher one is answered.
    pub fn set_index(&self, index: u64) {
        let mut state = self.state();
        state.index = index;
        state.era += 1;
        self.shared.changed.notify_all();
    }

    /// Answers 403 to those without it.
    pub fn set_token(&self, token: Option<&str>) {
        self.state().token = token.map(str::to_owned);
    }

    /// Answers everything with this status from now on; `None`: as usual again.
    pub fn set_refusal(&self, refusal: Option<(u16, &str)>) {
        let mut state = self.state();
        state.refusal = refusal.map(|(status, body)| (status, body.to_owned()));
        state.era += 1;
        self.shared.changed.notify_all();
    }

    /// What was asked, in order, with the query.
    pub fn targets(&self) -> Vec<String> {
        self.state().targets.clone()
    }

    fn state(&self) -> MutexGuard<'_, ConsulState> {
        lock(&self.shared)
    }
}

fn lock(shared: &ConsulShared) -> MutexGuard<'_, ConsulState> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(asked: &Asked, stream: &mut TcpStream, shared: &ConsulShared) -> io::Result<()> {
    let mut state = lock(shared);
    state.targets.push(asked.target.clone());
    let known: u64 = asked.parameter("index").and_then(|text| text.parse().ok()).unwrap_or(0);
    let wait = asked.parameter("wait").and_then(|text| text.strip_suffix('s')?.parse().ok());
    let deadline = Instant::now() + wait.map_or(WAIT_DEFAULT, Duration::from_secs);
    let era = state.era;
    while known != 0 && state.index <= known && state.era == era && state.refusal.is_none() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    let (status, body) = match (&state.refusal, &state.token) {
        (Some((status, body)), _) => (*status, body.clone()),
        (None, Some(token)) if asked.header("x-consul-token") != Some(token) => (403, "Permission denied".to_owned()),
        (None, _) if asked.path() != format!("/v1/health/service/{}", state.service) => (200, "[]".to_owned()),
        (None, _) => (200, listed(&state.instances, asked.parameter("tag").as_deref()).to_string()),
    };
    let index = state.index.to_string();
    drop(state);
    write_whole(stream, status, &[("X-Consul-Index", index)], &body)
}

fn listed(instances: &[Instance], tag: Option<&str>) -> Value {
    let wanted = instances.iter().filter(|instance| tag.is_none_or(|tag| instance.tags.iter().any(|other| other == tag)));
    let entry = |instance: &Instance| {
        json!({
            "Node": {"Node": "n1", "Address": "127.0.0.1", "Datacenter": "dc1"},
            "Service": {
                "ID": instance.id, "Service": "web", "Address": instance.address, "Port": instance.port, "Tags": instance.tags,
                "Weights": {"Passing": instance.weight, "Warning": 1},
            },
            "Checks": [{"Status": "passing"}],
        })
    };
    wanted.map(entry).collect()
}
