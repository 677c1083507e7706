//! The state of the process, its listening addresses and open connections.

use crate::Map;
use crate::schema::Word;
use crate::schema::{objects, words};
use jiff::Timestamp;
use std::net::SocketAddr;

objects! {
    /// A file of `geoip` in use.
    pub struct GeoDatabase {
        pub file: String,
        /// As it calls itself.
        pub kind: String,
        /// When it was made.
        pub built: Option<Timestamp>,
        /// Records that were asked for and could not be read.
        pub unreadable: u64,
        /// Why the file cannot be used as it is now; the one before stays in use.
        pub fault: Option<String>,
    }

    /// Containers that say by their labels what they serve.
    pub struct ContainersStatus {
        /// Why the engine cannot be asked, or why what it tells does not run; what was told before stays.
        pub fault: Option<String>,
        /// Whether the engine has listed its containers.
        pub listed: bool,
        pub containers: Vec<ContainerSeen>,
        /// What is wrong with labels: the first 200.
        pub faults: Vec<ContainerFault>,
        pub faults_total: usize,
    }

    /// A container with labels that are read.
    pub struct ContainerSeen {
        pub name: String,
        /// Containers of one group do the same work: `PROJECT/SERVICE`, or the name.
        pub group: String,
        /// `serving`, `starting`, `unhealthy`, `paused`, `restarting`, `leaving` or `gone`, which is one that may be
        /// about to be replaced.
        pub stage: String,
        /// Where it is reached.
        pub address: Option<String>,
        /// Whether its labels ask for a site.
        pub asks: bool,
        /// Whether a site that its labels ask for is served, or a pool of the file has it for a server.
        pub is_served: bool,
    }

    /// What is wrong with a label.
    pub struct ContainerFault {
        /// Container, label, line and column.
        pub place: String,
        pub message: String,
        pub help: Option<String>,
        /// Whether nothing of what it says is served.
        pub is_error: bool,
    }

    /// Objects of a cluster that say what is served.
    pub struct KubernetesStatus {
        /// Whether everything that says what is served is known, and runs.
        pub is_served: bool,
        pub kinds: Vec<KindSeen>,
        /// What is wrong with objects: the first 200.
        pub findings: Vec<ObjectFinding>,
        pub findings_total: usize,
        /// Sites and pools that are served as they were, since what they are to be cannot run.
        pub kept: Vec<KeptLastGood>,
        /// What is written into the cluster. `None`: nothing is to be.
        pub writing: Option<ClusterWriting>,
        /// What became of the file with the last objects, where there is one.
        pub snapshot: Option<String>,
    }

    /// Statuses and Events that one of several processes writes.
    pub struct ClusterWriting {
        /// Whether this process is the one.
        pub is_leader: bool,
        /// Which process is the one, as far as it is known.
        pub holder: Option<String>,
        pub statuses_written: u64,
        /// Statuses that are not as they are to be.
        pub statuses_pending: usize,
        pub events_written: u64,
        /// Why the last write, or the look at the Lease, did not succeed.
        pub fault: Option<String>,
    }

    /// A kind of objects that is followed.
    pub struct KindSeen {
        /// As in `Ingress`.
        pub kind: String,
        pub objects: usize,
        /// Whether the whole list has come.
        pub is_listed: bool,
        /// When something was heard of it last; seconds ago.
        pub heard_seconds_ago: Option<u64>,
        /// Objects that cannot be read; what they were stays.
        pub unreadable: usize,
        /// Why nothing is heard of it; what was known stays.
        pub fault: Option<String>,
    }

    /// What is wrong with an object, or strange.
    pub struct ObjectFinding {
        /// As in `Ingress shop/web`.
        pub object: String,
        /// As in `spec.rules[0].http.paths[1]`.
        pub field: String,
        /// The word that is the reason of an Event.
        pub code: String,
        pub message: String,
        /// Whether something that it asks for is not served.
        pub is_error: bool,
    }

    /// A site or a pool that is served as it was.
    pub struct KeptLastGood {
        /// As in `site https://shop.example.com`.
        pub name: String,
        pub why: String,
    }

    /// The state of the process.
    pub struct Status {
        pub version: String,
        pub process_id: u32,
        /// RFC 3339, as all times here.
        pub started: Timestamp,
        pub readiness: Readiness,
        /// The number of the configuration that runs; it grows with every change.
        pub generation: u64,
        /// Since when it runs.
        pub applied: Timestamp,
        /// What it came by: `start`, `SIGHUP`, `apply FILE` and so on.
        pub origin: String,
        /// What a restart would read.
        pub source: String,
        pub workers: usize,
        /// What moves the bytes of connections, `epoll` or `io-uring`, and why it is that one.
        pub driver: String,
        pub driver_reason: String,
        /// Workers that end with their last connection.
        pub workers_leaving: usize,
        pub awaits_confirmation: Option<AwaitsConfirmation>,
        /// The last attempt to change the configuration, when it was refused.
        pub refused: Option<Refused>,
        /// Why a restart would bring another configuration than the one that runs, a sentence each.
        pub drift: Vec<String>,
        /// Where keys of session tickets are shared with other hosts, by `ticket-keys shared=#true`.
        pub ticket_keys: Option<TicketKeys>,
        /// The sets of keys that tokens are verified with (`jwt`).
        pub token_keys: Vec<TokenKeys>,
        pub listeners: Vec<Listener>,
        pub maps: Vec<Map>,
        /// Files that say where addresses are.
        pub geoip: Vec<GeoDatabase>,
        /// What containers say by their labels, where they are asked (`docker`).
        pub containers: Option<ContainersStatus>,
        /// What objects of a cluster say, where they are followed (`tidegate kubernetes run`).
        pub kubernetes: Option<KubernetesStatus>,
        /// Requests on their way by the generation with which they began, the newest last.
        pub requests_by_generation: Vec<GenerationRequests>,
        /// Since the process began.
        pub traffic: Traffic,
    }

    /// Keys of session tickets that hosts share.
    pub struct TicketKeys {
        pub storage: String,
        /// When the storage was last read or written without a fault.
        pub read: Option<Timestamp>,
        /// Until when there are shared keys to make tickets with. Without it tickets are made with own keys, which
        /// other hosts do not know.
        pub shared_until: Option<Timestamp>,
        /// Why the storage gives or takes no keys, and what to do.
        pub fault: Option<String>,
    }

    /// A set of keys that tokens are verified with.
    pub struct TokenKeys {
        /// The address, or the file.
        pub source: String,
        pub keys: usize,
        /// When they were had last.
        pub read: Option<Timestamp>,
        /// Why they could not be had again; those at hand stay.
        pub fault: Option<String>,
    }

    /// A change that is taken back unless somebody confirms it.
    pub struct AwaitsConfirmation {
        pub generation: u64,
        /// The generation that it would be taken back to.
        pub back_to: u64,
        pub seconds_left: u64,
    }

    /// A change that was refused.
    pub struct Refused {
        pub at: Timestamp,
        /// What it came by.
        pub by: String,
        pub why: String,
    }

    /// Requests on their way that began with a generation.
    pub struct GenerationRequests {
        pub generation: u64,
        pub requests: usize,
    }

    /// Counts of all workers.
    pub struct Traffic {
        pub requests: u64,
        /// Answers with a status from 500 on, our own and those of upstreams.
        pub server_errors: u64,
        pub handshakes: u64,
        pub handshake_failures: u64,
    }

    /// The addresses that the process listens on.
    pub struct Listeners {
        pub listeners: Vec<Listener>,
    }

    /// A listening address.
    pub struct Listener {
        /// `[::]:443`, or `unix:/run/tidegate.sock`.
        pub address: String,
        /// `http` or `https`.
        pub scheme: Word,
        /// Listening sockets: one for each worker.
        pub sockets: usize,
        /// No configuration has it any more; its connections end.
        pub draining: bool,
        pub connections: ConnectionCounts,
    }

    /// Open connections by kind.
    pub struct ConnectionCounts {
        pub handshake: usize,
        pub http1: usize,
        pub http2: usize,
        /// After `101 Switching Protocols`.
        pub tunnel: usize,
    }

    /// Open connections of clients, the oldest first.
    pub struct Connections {
        /// All that are open, listed or not.
        pub total: usize,
        pub connections: Vec<Connection>,
    }

    /// Connections that were ended.
    pub struct ClosedConnections {
        pub closed: usize,
    }

    /// An open connection of a client.
    pub struct Connection {
        pub id: u64,
        pub client: SocketAddr,
        /// `[::]:443`, or `unix:/run/tidegate.sock`.
        pub listener: String,
        /// `handshake`, `http/1`, `http/2` or `tunnel`.
        pub kind: Word,
        pub opened: Timestamp,
        /// Requests that began on it.
        pub requests: u64,
        /// Requests on their way.
        pub active: u32,
        /// Of the last request.
        pub site: Option<String>,
        /// The one that a request went to last.
        pub pool: Option<String>,
        /// Of the last request.
        pub generation: u64,
        pub draining: bool,
    }
}

words! {
    /// Where the process is in its life.
    pub enum Readiness {
        Starting = "starting",
        Ready = "ready",
        Draining = "draining",
    }
}

impl ConnectionCounts {
    pub fn sum(&self) -> usize {
        let ConnectionCounts { handshake, http1, http2, tunnel } = self;
        handshake + http1 + http2 + tunnel
    }
}
