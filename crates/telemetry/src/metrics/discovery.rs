//! What became of looking for the servers of a pool that nobody wrote down. Who looks, and how, is in the crate
//! `discovery`.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Of one pool and one kind of source. Any thread may write.
#[derive(Debug, Default)]
pub struct DiscoveryMetrics {
    members: AtomicU64,
    faults: AtomicU64,
    changes: AtomicU64,
    last_success_unix_seconds: AtomicI64,
}

impl DiscoveryMetrics {
    /// How many servers the source names now.
    pub fn set_members(&self, members: usize) {
        self.members.store(members as u64, Ordering::Relaxed);
    }

    /// The source did not answer, or not with a list. What it said last stays.
    pub fn fault(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
    }

    /// The servers are others than before.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// When the source gave a list last, whether or not it was a new one.
    pub fn set_last_success(&self, unix_seconds: i64) {
        self.last_success_unix_seconds.store(unix_seconds, Ordering::Relaxed);
    }

    pub(super) fn numbers(&self) -> DiscoveryNumbers {
        DiscoveryNumbers {
            members: self.members.load(Ordering::Relaxed),
            faults: self.faults.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
            last_success_unix_seconds: self.last_success_unix_seconds.load(Ordering::Relaxed),
        }
    }
}

/// What stood there at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiscoveryNumbers {
    pub members: u64,
    pub faults: u64,
    pub changes: u64,
    /// 0 before the first.
    pub last_success_unix_seconds: i64,
}
