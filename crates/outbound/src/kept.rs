//! Connections that were left in order, for the next request to the same host. Few and for a short time: a dozen
//! requests in a row is what they are for, and a server that closes an idle one while a request is on its way must stay
//! rare.

use crate::destination::Destination;
use crate::exchange::Sender;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Of one host; orders run side by side.
const PER_HOST_MAX: usize = 4;
/// Hosts with any.
const HOSTS_MAX: usize = 32;
/// Servers close idle connections after five seconds at the earliest, as far as defaults go.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// What is dropped is closed: each connection's task ends with its sender.
#[derive(Default)]
pub struct Kept(Mutex<HashMap<Destination, Vec<Idle>>>);

struct Idle {
    sender: Sender,
    since: Instant,
}

impl Kept {
    /// The one used last.
    pub fn take(&self, destination: &Destination, now: Instant) -> Option<Sender> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, idle| {
            idle.retain(|idle| now.saturating_duration_since(idle.since) < IDLE_MAX && idle.sender.is_ready());
            !idle.is_empty()
        });
        all.get_mut(destination)?.pop().map(|idle| idle.sender)
    }

    /// Kept unless its answer closed it. Its task may need a moment to be ready again, so that is asked when it is
    /// taken.
    pub fn put(&self, destination: &Destination, sender: Sender, now: Instant) {
        if sender.is_closed() {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= HOSTS_MAX && !all.contains_key(destination) {
            return;
        }
        let idle = all.entry(destination.clone()).or_default();
        if idle.len() < PER_HOST_MAX {
            idle.push(Idle { sender, since: now });
        }
    }
}
