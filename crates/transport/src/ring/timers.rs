//! Timers of one worker on the ring, to the nanosecond: connects, back-off, pauses. Idle times of sockets are on the
//! wheel in `deadline`.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Instant;

/// By their moment, and by their number among those of one moment.
#[derive(Default)]
pub(crate) struct Timers {
    waiting: BTreeMap<TimerId, Waker>,
    last_number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerId {
    at: Instant,
    number: u64,
}

impl Timers {
    pub fn add(&mut self, at: Instant, waker: Waker) -> TimerId {
        self.last_number += 1;
        let id = TimerId { at, number: self.last_number };
        self.waiting.insert(id, waker);
        id
    }

    /// The task that waits is now this one. `false`: it has fired.
    pub fn move_to(&mut self, id: TimerId, waker: &Waker) -> bool {
        match self.waiting.get_mut(&id) {
            Some(known) => {
                known.clone_from(waker);
                true
            }
            None => false,
        }
    }

    pub fn remove(&mut self, id: TimerId) -> Option<Waker> {
        self.waiting.remove(&id)
    }

    /// When the first of them is due.
    pub fn first(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(id, _)| id.at)
    }

    /// The next of those whose time has come.
    pub fn pop(&mut self, now: Instant) -> Option<Waker> {
        let first = self.waiting.first_entry()?;
        if first.key().at > now { None } else { Some(first.remove()) }
    }
}
