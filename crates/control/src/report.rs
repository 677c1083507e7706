//! What can be asked of a running process: its state as plain data, gathered on the control thread and from the workers. `admin` turns it into
//! JSON; nothing here decides anything.

mod certificates;
mod pools;
mod staples;

pub use self::certificates::{CertificateReport, CertificateSource, CertificateState, ObtainedReport};
pub(crate) use self::pools::word;
pub use self::pools::{PoolReport, ServerReport, SourceReport};
pub use self::staples::{StapleReport, StapleState};
pub use tidegate_acme::Fault as CertificateFault;

use crate::change::ChangeFault;
use crate::control::{Control, Refused};
use crate::generations::{Generation, Origin};
use crate::plan::{Plan, plan};
pub use crate::shared_tickets::TicketSharingReport;
use crate::source::{Proposal, Source, read};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use tidegate_config::read_regular;
use tidegate_model::listening::ListenerProtocol;
use tidegate_proxy::listening::{ConnectionFacts, ConnectionKind};
use tidegate_proxy::worker::Worker;
use tidegate_telemetry::{ReadinessState, Traffic};
use tidegate_transport::TokioSock;

/// Connections that one answer lists; the counts are of all.
pub const CONNECTIONS_LISTED_MAX: usize = 10_000;

#[derive(Debug, Clone)]
pub struct Status {
    pub process_id: u32,
    pub started: Timestamp,
    pub readiness: ReadinessState,
    pub generation: u64,
    pub applied: Timestamp,
    pub origin: String,
    /// What a restart would read.
    pub source: String,
    pub workers: usize,
    /// Workers that end with their last connection.
    pub workers_leaving: usize,
    pub awaits_confirmation: Option<AwaitsConfirmation>,
    pub refused: Option<Refused>,
    /// Why a restart would bring another configuration than the one that runs.
    pub drift: Vec<String>,
    /// Where keys of session tickets are shared with other hosts.
    pub ticket_sharing: Option<TicketSharingReport>,
    pub listeners: Vec<ListenerStatus>,
    /// Requests on their way by the generation with which they began, the newest last.
    pub requests_by_generation: Vec<(u64, usize)>,
    pub traffic: Traffic,
}

#[derive(Debug, Clone)]
pub struct AwaitsConfirmation {
    pub generation: u64,
    pub back_to: u64,
    pub left: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerStatus {
    pub address: SocketAddr,
    pub protocol: ListenerProtocol,
    pub sockets: usize,
    pub is_draining: bool,
    /// Open connections by kind, in the order of `ConnectionKind::ALL`.
    pub connections: [usize; ConnectionKind::ALL.len()],
}

#[derive(Debug, Clone)]
pub struct ConnectionReport {
    pub id: u64,
    pub client: SocketAddr,
    pub listener: SocketAddr,
    pub kind: ConnectionKind,
    pub opened: SystemTime,
    pub requests: u64,
    pub active: u32,
    pub site: Option<String>,
    /// Of its last request.
    pub generation: u64,
    pub is_draining: bool,
}

impl Control {
    pub fn status(&self) -> Status {
        let newest = self.generations.newest();
        let mut by_generation = BTreeMap::new();
        for (generation, count) in self.workers.ask(Worker::requests_by_generation).into_iter().flatten() {
            *by_generation.entry(generation).or_default() += count;
        }
        Status {
            process_id: std::process::id(),
            started: self.started,
            readiness: self.readiness.state(),
            generation: self.generation(),
            applied: newest.map_or(self.started, |generation| generation.applied),
            origin: newest.map_or_else(String::new, |generation| generation.origin.to_string()),
            source: self.source.name(),
            workers: self.workers.indices().len(),
            workers_leaving: self.workers.leaving_count(),
            awaits_confirmation: self.pending.as_ref().map(|pending| AwaitsConfirmation {
                generation: pending.generation,
                back_to: pending.back_to,
                left: pending.until.saturating_duration_since(Instant::now()),
            }),
            refused: self.refused.clone(),
            drift: self.drift(),
            ticket_sharing: self.ticket_sharing.as_ref().map(|sharing| sharing.report(&self.tls.tickets)),
            listeners: self.listeners(),
            requests_by_generation: by_generation.into_iter().collect(),
            traffic: self.registry().traffic(),
        }
    }

    fn listeners(&self) -> Vec<ListenerStatus> {
        let mut listeners: BTreeMap<(SocketAddr, ListenerProtocol, bool), ListenerStatus> = BTreeMap::new();
        for seen in self.workers.ask(listeners_of).into_iter().flatten() {
            let key = (seen.address, seen.protocol, seen.is_draining);
            let known =
                listeners.entry(key).or_insert_with(|| ListenerStatus { connections: Default::default(), ..seen.clone() });
            known.connections.iter_mut().zip(seen.connections).for_each(|(sum, count)| *sum += count);
        }
        for listener in listeners.values_mut() {
            listener.sockets = if listener.is_draining { 0 } else { self.sockets.count(listener.address) };
        }
        listeners
            .into_values()
            .filter(|listener| !listener.is_draining || listener.connections.iter().any(|count| *count > 0))
            .collect()
    }

    /// Open connections, the oldest first, at most [`CONNECTIONS_LISTED_MAX`]; and how many there are.
    pub fn connections(&self) -> (Vec<ConnectionReport>, usize) {
        let mut all: Vec<_> = self.workers.ask(connections_of).into_iter().flatten().collect();
        let count = all.len();
        all.sort_by_key(|connection| (connection.opened, connection.id));
        all.truncate(CONNECTIONS_LISTED_MAX);
        (all, count)
    }

    /// The newest last.
    pub fn generations(&self) -> Vec<Generation> {
        self.generations.all().cloned().collect()
    }

    /// What a roll-back without a number goes to.
    pub fn previous_generation(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.back_to).or_else(|| self.generations.previous())
    }

    /// What changed from one generation to another.
    pub fn difference(&self, from: u64, to: u64) -> Result<Plan, ChangeFault> {
        let configuration = |number: u64| {
            let generation = self.generations.of_number(number).ok_or(ChangeFault::NoSuchGeneration(number))?;
            let written = Proposal::Written(generation.files.clone());
            read(written.load(&self.source, &mut tidegate_config::LoadMemory::default()))
                .map(|read| read.configuration)
                .map_err(ChangeFault::Configuration)
        };
        Ok(plan(&configuration(from)?, &configuration(to)?))
    }

    /// Why a restart would bring another configuration than the one that runs; empty when it would not. One sentence each.
    pub fn drift(&self) -> Vec<String> {
        let Some(newest) = self.generations.newest() else { return Vec::new() };
        let mut drift = Vec::new();
        let main = newest.files.first().map(|file| file.name.clone()).unwrap_or_default();
        match &self.source {
            Source::Text { name, text, .. } => {
                if newest.files.first().is_some_and(|file| *file.text != **text) {
                    drift.push(format!("what runs is not what was given as {name}: {}", newest.origin));
                }
            }
            Source::File(path) if *path != Path::new(&main) && !matches!(newest.origin, Origin::Start | Origin::Upgrade) => {
                drift.push(format!("what runs comes from {main}, and a restart reads {}", path.display()));
            }
            Source::File(_) => {}
        }
        for file in newest.files.iter().filter(|file| file.is_on_disk()) {
            match read_regular(Path::new(&file.name)) {
                Ok(text) if *text == *file.text => {}
                Ok(_) => drift.push(format!("{} has another text than generation {} that runs", file.name, newest.number)),
                Err(error) => drift.push(format!("{} cannot be read: {error}", file.name)),
            }
        }
        drift.extend(self.unfit.all().cloned());
        drift
    }

    pub(crate) fn note_drift(&self) {
        self.registry().configuration().set_drifted(!self.drift().is_empty());
    }
}

fn listeners_of(worker: &Worker<TokioSock>) -> Vec<ListenerStatus> {
    let mut listeners = Vec::new();
    worker.each_listener(|listener| {
        let mut connections = [0; ConnectionKind::ALL.len()];
        listener.each_connection(|facts| connections[facts.kind.get() as usize] += 1);
        listeners.push(ListenerStatus {
            address: listener.address,
            protocol: listener.protocol(),
            sockets: 0,
            is_draining: listener.is_draining(),
            connections,
        });
    });
    listeners
}

fn connections_of(worker: &Worker<TokioSock>) -> Vec<ConnectionReport> {
    let mut connections = Vec::new();
    worker.each_listener(|listener| {
        listener.each_connection(|facts: &ConnectionFacts| {
            connections.push(ConnectionReport {
                id: facts.id,
                client: facts.client.get(),
                listener: listener.address,
                kind: facts.kind.get(),
                opened: facts.opened,
                requests: facts.requests.get(),
                active: facts.active.get(),
                site: facts.site.borrow().as_ref().map(ToString::to_string),
                generation: facts.generation.get(),
                is_draining: listener.is_draining(),
            });
        });
    });
    connections
}
