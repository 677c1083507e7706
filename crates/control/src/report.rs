//! What can be asked of a running process: its state, gathered on the control thread and from the workers, in the types
//! of the JSON API. Nothing here decides anything.

mod certificates;
mod maps;
mod pools;
mod staples;
mod token_keys;

pub use maps::{ROWS_LISTED_MAX, RowFilter};

use crate::applying::ChangeFault;
use crate::control::Control;
use crate::source::{Proposal, read};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::time::Instant;
use tidegate_api::{
    AwaitsConfirmation, Connection, ConnectionCounts, Difference, Explanation, GenerationRequests, Generations, Listener,
    Readiness, Status, Traffic,
};
use tidegate_explain::plan;
use tidegate_explain::{Known, Question, add_running, explain};
use tidegate_model::ListenAddress;
use tidegate_model::listening::ListenerProtocol;
use tidegate_proxy::listening::{ConnectionFacts, ConnectionKind};
use tidegate_proxy::worker::Worker;
use tidegate_telemetry::ReadinessState;
use tidegate_transport::DriverSock;

/// Connections that one answer lists; the counts are of all.
pub const CONNECTIONS_LISTED_MAX: usize = 10_000;

impl Control {
    pub fn status(&self) -> Status {
        let newest = self.history.generations.newest();
        let mut by_generation = BTreeMap::new();
        for (generation, count) in self.workers.ask(Worker::requests_by_generation).into_iter().flatten() {
            *by_generation.entry(generation).or_default() += count;
        }
        let traffic = self.registry().traffic();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process_id: std::process::id(),
            started: self.started,
            readiness: match self.readiness.state() {
                ReadinessState::Starting => Readiness::Starting,
                ReadinessState::Ready => Readiness::Ready,
                ReadinessState::Draining => Readiness::Draining,
            },
            generation: self.generation(),
            applied: newest.map_or(self.started, |generation| generation.applied),
            origin: newest.map_or_else(String::new, |generation| generation.origin.to_string()),
            source: self.source.name(),
            workers: self.workers.indices().len(),
            driver: self.workers.driver.driver.name().to_owned(),
            driver_reason: self.workers.driver.reason.to_owned(),
            workers_leaving: self.workers.leaving_count(),
            awaits_confirmation: self.confirmation.pending.as_ref().map(|pending| AwaitsConfirmation {
                generation: pending.generation,
                back_to: pending.back_to,
                seconds_left: pending.until.saturating_duration_since(Instant::now()).as_secs(),
            }),
            refused: self.history.refused.clone(),
            drift: self.drift(),
            ticket_keys: self.ticket_sharing.as_ref().map(|sharing| sharing.report(&self.tls.tickets)),
            token_keys: self.token_keys(),
            listeners: self.listeners(),
            maps: self.maps().maps,
            geoip: self.databases(),
            kubernetes: self.objects.as_ref().map(|objects| objects.borrow().status(Instant::now())),
            containers: self.configuration().containers.as_ref().map(|_| self.containers.status()),
            requests_by_generation: by_generation
                .into_iter()
                .map(|(generation, requests)| GenerationRequests { generation, requests })
                .collect(),
            traffic: Traffic {
                requests: traffic.requests,
                server_errors: traffic.server_errors,
                handshakes: traffic.handshakes,
                handshake_failures: traffic.handshake_failures,
            },
        }
    }

    pub fn listeners(&self) -> Vec<Listener> {
        let mut listeners: BTreeMap<(ListenAddress, ListenerProtocol, bool), [usize; ConnectionKind::ALL.len()]> =
            BTreeMap::new();
        for (key, connections) in self.workers.ask(listeners_of).into_iter().flatten() {
            let known = listeners.entry(key).or_default();
            for (sum, count) in known.iter_mut().zip(connections) {
                *sum += count;
            }
        }
        // In the order of `ConnectionKind::ALL`.
        let listener = |((address, protocol, draining), [handshake, http1, http2, tunnel]): CountsOfListener| Listener {
            address: address.to_string(),
            scheme: protocol.as_str().into(),
            sockets: if draining { 0 } else { self.sockets.count(address) },
            draining,
            connections: ConnectionCounts { handshake, http1, http2, tunnel },
        };
        let listeners = listeners.into_iter().map(listener);
        listeners.filter(|listener| !listener.draining || listener.connections.sum() > 0).collect()
    }

    /// Open connections, the oldest first, at most [`CONNECTIONS_LISTED_MAX`]; and how many there are.
    pub fn connections(&self) -> (Vec<Connection>, usize) {
        let mut all: Vec<_> = self.workers.ask(connections_of).into_iter().flatten().collect();
        let count = all.len();
        all.sort_by_key(|connection| (connection.opened, connection.id));
        all.truncate(CONNECTIONS_LISTED_MAX);
        (all, count)
    }

    /// Ends the connections that are meant, with whatever is on its way, and says how many those were.
    pub fn close_connections(&self, meant: &ConnectionFilter) -> usize {
        let meant = meant.clone();
        let close = move |worker: &Worker<DriverSock>| {
            let ids: HashSet<u64> = connections_of(worker)
                .iter()
                .filter(|connection| meant.takes(connection))
                .map(|connection| connection.id)
                .collect();
            worker.listeners.each(|listener| listener.end_those(|id| ids.contains(&id)));
            ids.len()
        };
        let closed = self.workers.ask(close).into_iter().sum();
        tracing::info!(closed, "connections were closed by somebody who asked for it");
        closed
    }

    /// The newest last; only those that ran `since` then, where that is said.
    pub fn generations(&self, since: Option<Timestamp>) -> Generations {
        let running = self.generation();
        let mut generations = self.history.generations.reports(running);
        if let Some(since) = since {
            // Each ran until the next one was applied.
            let first = generations.iter().skip(1).take_while(|next| next.applied < since).count();
            generations.drain(..first);
        }
        Generations { running, previous: self.previous_generation(), generations }
    }

    /// Where a request would go, and how the servers are that it could go to.
    pub fn explain(&self, question: &Question) -> Result<Explanation, String> {
        let mut explanation = explain(self.configuration(), question, self.known())?;
        if let Some(explained) = &explanation.pool {
            let running = self.pools().pools.into_iter().find(|pool| pool.name == explained.name);
            add_running(&mut explanation, running.map(|pool| pool.servers).unwrap_or_default());
        }
        Ok(explanation)
    }

    /// What requests are looked up in.
    pub(crate) fn known(&self) -> Known<'_> {
        Known { maps: &self.process.maps, geo: &self.process.geo }
    }

    /// What changed from one generation to another.
    pub fn difference(&self, from: u64, to: u64) -> Result<Difference, ChangeFault> {
        let configuration = |number: u64| {
            let files = self.history.generations.files_of(number).ok_or(ChangeFault::NoSuchGeneration(number))?;
            let written = Proposal::Written(files);
            read(written.load(&self.source, &mut tidegate_config::LoadMemory::default()))
                .map(|read| read.configuration)
                .map_err(ChangeFault::Configuration)
        };
        Ok(Difference { from, to, plan: plan(&configuration(from)?, &configuration(to)?) })
    }
}

/// Which connections are meant; what is `None` says nothing.
#[derive(Debug, Clone, Default)]
pub struct ConnectionFilter {
    pub id: Option<u64>,
    /// As connections are listed.
    pub listener: Option<String>,
    pub kind: Option<String>,
    pub site: Option<String>,
    pub pool: Option<String>,
    pub client: Option<IpAddr>,
    /// Opened before this.
    pub opened_before: Option<Timestamp>,
}

impl ConnectionFilter {
    pub fn takes(&self, connection: &Connection) -> bool {
        let ConnectionFilter { id, listener, kind, site, pool, client, opened_before } = self;
        id.is_none_or(|id| connection.id == id)
            && listener.as_ref().is_none_or(|listener| connection.listener == *listener)
            && kind.as_ref().is_none_or(|kind| connection.kind == *kind)
            && site.as_ref().is_none_or(|site| connection.site.as_ref() == Some(site))
            && pool.as_ref().is_none_or(|pool| connection.pool.as_ref() == Some(pool))
            && client.is_none_or(|client| connection.client.ip() == client)
            && opened_before.is_none_or(|before| connection.opened < before)
    }
}

type CountsOfListener = ((ListenAddress, ListenerProtocol, bool), [usize; ConnectionKind::ALL.len()]);

/// Address, protocol and whether it drains; and open connections by kind.
fn listeners_of(worker: &Worker<DriverSock>) -> Vec<CountsOfListener> {
    let mut listeners = Vec::new();
    worker.listeners.each(|listener| {
        let mut connections = [0; ConnectionKind::ALL.len()];
        listener.each_connection(|facts| connections[facts.kind.get() as usize] += 1);
        listeners.push(((listener.address, listener.protocol(), listener.is_draining()), connections));
    });
    listeners
}

fn connections_of(worker: &Worker<DriverSock>) -> Vec<Connection> {
    let mut connections = Vec::new();
    worker.listeners.each(|listener| {
        listener.each_connection(|facts: &ConnectionFacts| {
            connections.push(Connection {
                id: facts.id,
                client: facts.client.get(),
                listener: listener.address.to_string(),
                kind: facts.kind.get().as_str().into(),
                opened: Timestamp::try_from(facts.opened).unwrap_or_default(),
                requests: facts.requests.get(),
                active: facts.active.get(),
                site: facts.site.borrow().as_ref().map(ToString::to_string),
                pool: facts.pool.borrow().as_ref().map(ToString::to_string),
                generation: facts.generation.get(),
                draining: listener.is_draining(),
            });
        });
    });
    connections
}
