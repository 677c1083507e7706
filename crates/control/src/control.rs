//! The state of the control thread: what runs, what it came from, and what it is made of. Everything that changes it
//! happens on that thread, one after the other. Each part owns its job and knows nothing of the others; what takes
//! several of them stands above: what goes on beside the requests in `upkeep`, a change in `change`, what the process
//! is told to do in `orders`, what can be asked in `report`, the events that drive it all in `run`.

use crate::compile::{Numbers, SharedState};
use crate::confirm::Confirmation;
use crate::containers::Containers;
use crate::discovery::Followers;
use crate::endpoint::AdminSockets;
use crate::geo_files::GeoFiles;
use crate::history::History;
use crate::issuing::Issuance;
use crate::key_fetching::KeyFetching;
use crate::map_files::MapFiles;
use crate::map_rows::MapRows;
use crate::material::Material;
use crate::memory::MemoryBudget;
use crate::names::Names;
use crate::objects::Objects;
use crate::oidc::LogInThread;
use crate::pools::Checkers;
use crate::renewal::Renewals;
use crate::rest::Rest;
use crate::shared_tickets::TicketSharing;
use crate::sockets::SocketTable;
use crate::source::{Source, WatchedFiles};
use crate::stapling::Stapling;
use crate::sticky::CookieKeys;
use crate::succession::Stage;
use crate::tag::Tag;
use crate::watch::FileWatch;
use crate::workers::Workers;
use jiff::Timestamp;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tidegate_certs::TlsProcessState;
use tidegate_config::LoadMemory;
use tidegate_model::Configuration;
use tidegate_proxy::process_state::ProcessState;
use tidegate_proxy::snapshot::Snapshot;
use tidegate_telemetry::{AccessLogs, Readiness, Registry};

pub struct Control {
    pub(crate) source: Source,
    /// What the last load read, so that the next costs what changed. Planning reads as well, hence the cell.
    pub(crate) memory: RefCell<LoadMemory>,
    pub(crate) running: Material,
    pub(crate) process: Arc<ProcessState>,
    pub(crate) tls: TlsProcessState,
    pub(crate) workers: Workers,
    pub(crate) sockets: SocketTable,
    pub(crate) logs: AccessLogs,
    pub(crate) admin: AdminSockets,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) history: History,
    pub(crate) serial: u64,
    pub(crate) confirmation: Confirmation,
    /// Snapshots that workers may still hold. The last holder frees them, and that should be this thread: it takes
    /// milliseconds when there are ten thousand sites.
    pub(crate) superseded: Vec<Arc<Snapshot>>,
    pub(crate) renewals: Renewals,
    /// When systemd is given the sockets once more.
    pub(crate) store_again_at: Option<Instant>,
    pub(crate) rest: Rest,
    pub(crate) watch: Watching,
    pub(crate) started: Timestamp,
    pub(crate) succession: Stage,
    pub(crate) names: Names,
    pub(crate) cookie_keys: CookieKeys,
    pub(crate) followers: Followers,
    pub(crate) containers: Containers,
    /// Only where objects of a cluster say what is served. Planning translates as well, hence the cell.
    pub(crate) objects: Option<RefCell<Objects>>,
    pub(crate) checkers: Checkers,
    pub(crate) budget: MemoryBudget,
    pub(crate) issuance: Issuance,
    /// Only while keys of session tickets are shared with other hosts.
    pub(crate) ticket_sharing: Option<TicketSharing>,
    pub(crate) map_files: MapFiles,
    pub(crate) geo_files: GeoFiles,
    /// Only while there are maps.
    pub(crate) map_rows: Option<MapRows>,
    /// `None` until a certificate names a responder.
    pub(crate) stapling: Option<Stapling>,
    pub(crate) key_fetching: Option<KeyFetching>,
    pub(crate) log_ins: Option<LogInThread>,
}

/// Files that the running configuration depends on.
pub(crate) struct Watching {
    pub watch: Option<FileWatch>,
    /// `run --watch`: a changed file of the configuration is applied.
    pub applies_configuration: bool,
    pub configuration: WatchedFiles,
    pub certificates: Vec<PathBuf>,
    /// Of `basic-auth`.
    pub users: Vec<PathBuf>,
    pub maps: Vec<PathBuf>,
    /// Of `geoip`.
    pub geo: Vec<PathBuf>,
}

impl Watching {
    /// Nothing is watched so far.
    pub fn new(applies_configuration: bool) -> Watching {
        Watching {
            watch: None,
            applies_configuration,
            configuration: WatchedFiles::default(),
            certificates: Vec::new(),
            users: Vec::new(),
            maps: Vec::new(),
            geo: Vec::new(),
        }
    }
}

impl Control {
    pub fn registry(&self) -> &Arc<Registry> {
        &self.process.registry
    }

    pub(crate) fn state(&self) -> SharedState<'_> {
        let Control { process, tls, names, cookie_keys, followers, .. } = self;
        SharedState { process, tls, names, cookie_keys, followers }
    }

    pub(crate) fn objects_mut(&mut self) -> Option<&mut Objects> {
        self.objects.as_mut().map(RefCell::get_mut)
    }

    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.running.configuration
    }

    /// Where state that outlives the process is kept.
    pub fn state_dir(&self) -> &std::path::Path {
        self.tls.state_dir()
    }

    pub fn generation(&self) -> u64 {
        self.running.snapshot.generation
    }

    pub(crate) fn numbers(&mut self, generation: u64, workers: usize) -> Numbers {
        self.serial += 1;
        Numbers { generation, serial: self.serial, workers }
    }

    /// What runs now.
    pub fn tag(&self) -> Tag {
        Tag::new(self.generation(), self.history.generations.mark())
    }

    /// What a roll-back without a number goes to.
    pub fn previous_generation(&self) -> Option<u64> {
        self.confirmation.pending.as_ref().map(|pending| pending.back_to).or_else(|| self.history.generations.previous())
    }

    /// Why a restart would bring another configuration than the one that runs; empty when it would not. One sentence
    /// each.
    pub fn drift(&self) -> Vec<String> {
        self.drift_beside(&[])
    }

    fn drift_beside(&self, written: &[String]) -> Vec<String> {
        let mut drift = self.history.drift(&self.source, written);
        drift.extend(self.renewals.unfit.all().cloned());
        drift.extend(self.map_files.unfit.values().map(|why| format!("{why}; a restart would fail")));
        drift.extend(self.geo_files.unfit.values().map(|why| format!("{why}; a restart would fail")));
        drift
    }

    /// Tells metrics whether there is drift. Files that have just been `written` are known to have what runs.
    pub(crate) fn note_drift(&self, written: &[String]) {
        self.registry().configuration().set_drifted(!self.drift_beside(written).is_empty());
    }
}
