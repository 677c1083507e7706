//! The listening addresses of one worker: what each serves now, the sockets that it is accepted from, and the addresses
//! that were left and still have connections. How the connections of one are ended is in `listening`, who accepts
//! in `run`.

use crate::listening::ListenerState;
use crate::snapshot::Snapshot;
use crate::worker_snapshot::WorkerSnapshot;
use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_model::ListenAddress;
use tidegate_transport::Sock;
use tidegate_transport::rt::{self, Signal};

/// A listening socket's name within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub u64);

pub struct NewSocket {
    pub id: SocketId,
    /// As the snapshot's listener has it.
    pub address: ListenAddress,
    /// A descriptor that listens: also where it is one of a unix socket.
    pub socket: TcpListener,
}

#[derive(Debug, Clone, Copy)]
pub struct OldSocket {
    pub id: SocketId,
    /// Another worker or process accepts from it: what waits in its queue is not ours any more.
    pub is_handed_on: bool,
}

pub struct Listeners<S: Sock> {
    current: RefCell<Vec<Rc<Listening<S>>>>,
    /// Listeners that are being drained, as long as they have connections.
    leaving: RefCell<Vec<Rc<ListenerState<S>>>>,
    /// Sockets that are accepted from.
    pub accepting: Cell<usize>,
}

/// One listening address and the sockets that it is accepted from: one, and those that other workers or processes have
/// left behind.
pub struct Listening<S: Sock> {
    pub address: ListenAddress,
    state: RefCell<Rc<ListenerState<S>>>,
    sockets: RefCell<Vec<(SocketId, Rc<Accepting>)>>,
}

/// What tells the task that accepts from a socket to stop.
#[derive(Default)]
pub struct Accepting {
    pub stop: Signal,
    /// Somebody else accepts from the socket: what waits in its queue is theirs.
    pub is_handed_on: Cell<bool>,
}

impl Accepting {
    fn stop(&self, is_handed_on: bool) {
        self.is_handed_on.set(is_handed_on);
        self.stop.set();
    }
}

impl<S: Sock> Listening<S> {
    /// What a new connection belongs to.
    pub fn state(&self) -> Rc<ListenerState<S>> {
        self.state.borrow().clone()
    }

    /// Adds one more socket to accept from.
    pub fn add(&self, id: SocketId) -> Rc<Accepting> {
        let how: Rc<Accepting> = Rc::default();
        self.sockets.borrow_mut().push((id, how.clone()));
        how
    }
}

impl<S: Sock> Default for Listeners<S> {
    fn default() -> Self {
        Listeners { current: RefCell::default(), leaving: RefCell::default(), accepting: Cell::new(0) }
    }
}

impl<S: Sock> Listeners<S> {
    pub fn at(&self, address: ListenAddress) -> Option<Rc<Listening<S>>> {
        self.current.borrow().iter().find(|listening| listening.address == address).cloned()
    }

    /// Sees every listener with open connections, those being drained included.
    pub fn each(&self, mut see: impl FnMut(&ListenerState<S>)) {
        self.current.borrow().iter().for_each(|listening| see(&listening.state.borrow()));
        self.leaving.borrow().iter().for_each(|state| see(state));
    }

    /// Brings the listeners in line with the snapshot: new ones get their state, those that left are drained.
    pub fn follow(&self, snapshot: &Snapshot, random: &mut dyn FnMut() -> u64) {
        let mut current = self.current.borrow_mut();
        for listener in &snapshot.listeners {
            match current.iter().find(|known| known.address == listener.address) {
                None => current.push(Rc::new(Listening {
                    address: listener.address,
                    state: RefCell::new(ListenerState::new(listener)),
                    sockets: RefCell::default(),
                })),
                Some(known) if !known.state.borrow().protocol().is_akin(listener.protocol) => {
                    // Its socket and queue stay; connections that speak what it spoke before are drained.
                    let before = known.state.replace(ListenerState::new(listener));
                    self.leave(before, snapshot.drain, random);
                }
                Some(known) => known.state.borrow().take_options(listener, snapshot.drain),
            }
        }
        current.retain(|known| {
            let stays = snapshot.listeners.iter().any(|listener| listener.address == known.address);
            if !stays {
                known.sockets.borrow().iter().for_each(|(_, how)| how.stop.set());
                self.leave(known.state(), snapshot.drain, random);
            }
            stays
        });
    }

    /// Tells the listeners that `now` does not have any more which snapshot was their last.
    pub fn leave_configuration(&self, before: &Rc<WorkerSnapshot<S>>, now: &Snapshot) {
        for known in self.current.borrow().iter() {
            let state = known.state.borrow();
            let stays = now.listener_position(state.address, state.protocol()).is_some();
            if let (false, Some(position)) = (stays, before.shared.listener_position(state.address, state.protocol())) {
                state.leave_configuration(before.clone(), position);
            }
        }
    }

    /// Connections that wait for their next request wait no longer than to that moment.
    pub fn end_idle_by(&self, at: Instant) {
        for listening in self.current.borrow().iter() {
            listening.state.borrow().end_idle_by(at);
        }
    }

    /// Stops to accept from these sockets.
    pub fn stop(&self, sockets: &[OldSocket]) {
        for listening in self.current.borrow().iter() {
            listening.sockets.borrow_mut().retain(|(id, how)| {
                let Some(old) = sockets.iter().find(|old| old.id == *id) else { return true };
                how.stop(old.is_handed_on);
                false
            });
        }
    }

    /// Stops to accept from any socket, and drains every listener.
    pub fn drain(&self, handed_on: &[SocketId], limit: Option<Duration>, random: &mut dyn FnMut() -> u64) {
        for listening in self.current.borrow().iter() {
            for (id, how) in listening.sockets.take() {
                how.stop(handed_on.contains(&id));
            }
            listening.state.borrow().drain(limit, random);
        }
    }

    fn leave(&self, state: Rc<ListenerState<S>>, limit: Duration, random: &mut dyn FnMut() -> u64) {
        state.drain(Some(limit), random);
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|listener| listener.connection_count() > 0);
        leaving.push(state.clone());
        drop(leaving);
        rt::spawn(state.cut_when_due());
    }
}
