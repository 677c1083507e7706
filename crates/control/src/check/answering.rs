//! The running processes that a configuration may be handed to: those that answer on an admin endpoint that `check` can
//! find. What such a process holds is no obstacle, since it listens there for the configuration that it takes on.

use crate::company::Running;
use crate::open_sockets::{Held, Holders};
use crate::source::Source;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use tidegate_api::Status;
use tidegate_model::ListenAddress;

/// A process that was asked how it is, and where.
#[derive(Debug)]
pub struct Answering {
    /// As `--admin` takes it.
    pub admin: String,
    pub status: Status,
}

/// A running process, with the addresses of the configuration that it holds.
#[derive(Debug, PartialEq, Eq)]
pub struct HeldByRunning {
    pub process_id: u32,
    pub admin: String,
    pub addresses: Vec<String>,
}

/// Who holds what, found out when the first address is taken: mostly none is.
pub(super) struct Taken<'a> {
    ask: &'a dyn Fn() -> Vec<Answering>,
    answering: OnceCell<Vec<(Answering, Vec<u32>)>>,
    holders: OnceCell<Holders>,
    /// Of those that answer, by their position.
    held: RefCell<BTreeMap<usize, Vec<String>>>,
}

impl<'a> Taken<'a> {
    pub fn new(ask: &'a dyn Fn() -> Vec<Answering>) -> Taken<'a> {
        Taken { ask, answering: OnceCell::new(), holders: OnceCell::new(), held: RefCell::default() }
    }

    pub fn by(&self, address: ListenAddress) -> Held {
        self.holders.get_or_init(Holders::look).of(address)
    }

    /// Whether it is a process that answers; that is noted.
    pub fn is_by_answering(&self, address: ListenAddress) -> bool {
        let held = self.by(address);
        let answering = self.answering.get_or_init(|| (self.ask)().into_iter().map(with_companions).collect());
        let position = answering.iter().position(|(process, pids)| match held.is_by(pids) {
            Some(is_theirs) => is_theirs,
            None => process.listens_on(address),
        });
        if let Some(position) = position {
            self.held.borrow_mut().entry(position).or_default().push(address.to_string());
        }
        position.is_some()
    }

    /// What those that answer hold.
    pub fn noted(self) -> Vec<HeldByRunning> {
        let mut held = self.held.into_inner();
        let answering = self.answering.into_inner().unwrap_or_default();
        let noted = answering.into_iter().enumerate().filter_map(|(position, (process, _))| {
            let addresses = held.remove(&position)?;
            Some(HeldByRunning { process_id: process.status.process_id, admin: process.admin, addresses })
        });
        noted.collect()
    }
}

/// With the processes that share its sockets, since they run the same file.
fn with_companions(process: Answering) -> (Answering, Vec<u32>) {
    let mut pids = Running::of(&Source::file(Path::new(&process.status.source))).pids();
    pids.push(process.status.process_id);
    (process, pids)
}

impl Answering {
    /// By its own word: for where this user may not see what it has open.
    fn listens_on(&self, address: ListenAddress) -> bool {
        let is_there = |listening: &str| match address {
            ListenAddress::Unix(_) => listening == address.to_string(),
            ListenAddress::Tcp(wanted) => listening.parse().is_ok_and(|listening: SocketAddr| {
                let is_any = listening.ip().is_unspecified() || wanted.ip().is_unspecified();
                listening.port() == wanted.port() && (is_any || listening.ip() == wanted.ip())
            }),
        };
        let listeners = self.status.listeners.iter().map(|listener| listener.address.as_str());
        listeners.chain([self.admin.as_str()]).any(is_there)
    }
}
