//! What the control plane asks of a worker. Everything that can fail has been tried before a command is sent.

pub use crate::listeners::{NewSocket, OldSocket, SocketId};
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use std::sync::Arc;
use std::time::Duration;
use tidegate_telemetry::LogPlan;
use tidegate_transport::DriverSock;

pub enum Command {
    Change(Box<Change>),
    /// Runs on the worker's thread between two polls of its tasks; for `status` and the API, so it must be quick.
    Look(Look),
    /// Take no new connections, end the idle ones, and finish when the last has ended.
    Drain {
        /// Sockets that somebody else accepts from; of the others the queue is emptied first.
        sockets: Vec<SocketId>,
        /// After this what is left is cut, by [`Command::Abort`]; `None` lets it end by itself.
        limit: Option<Duration>,
    },
    /// Finish now; what is on its way is cut.
    Abort,
}

/// A question to a worker; it sends its own answer.
pub type Look = Box<dyn FnOnce(&Worker<DriverSock>) + Send>;

/// A new configuration, or a part of one. Applied as a whole between two polls of a worker's tasks.
pub struct Change {
    pub snapshot: Option<Arc<Snapshot>>,
    /// Sockets to accept from besides.
    pub sockets: Vec<NewSocket>,
    /// Sockets to leave.
    pub old_sockets: Vec<OldSocket>,
    pub access_log: Option<LogPlan>,
    /// Told the worker's index when it is done.
    pub done: std::sync::mpsc::Sender<usize>,
}
