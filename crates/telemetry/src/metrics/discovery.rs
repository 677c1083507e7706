//! What became of looking for the servers of a pool that nobody wrote down. Who looks, and how, is in the crate
//! `discovery`.

use super::number::SharedNumber;

/// Of one pool and one kind of source. Any thread may write.
#[derive(Debug, Default, Clone)]
pub struct DiscoveryMetrics {
    pub(super) members: SharedNumber,
    pub(super) faults: SharedNumber,
    pub(super) changes: SharedNumber,
    /// 0 before the first.
    pub(super) last_success_unix_seconds: SharedNumber,
}

impl DiscoveryMetrics {
    /// How many servers the source names now.
    pub fn set_members(&self, members: usize) {
        self.members.set(members as i64);
    }

    /// The source did not answer, or not with a list. What it said last stays.
    pub fn fault(&self) {
        self.faults.add(1);
    }

    /// The servers are others than before.
    pub fn changed(&self) {
        self.changes.add(1);
    }

    /// When the source gave a list last, whether or not it was a new one.
    pub fn set_last_success(&self, unix_seconds: i64) {
        self.last_success_unix_seconds.set(unix_seconds);
    }
}
