//! What one worker counts for an arm of a `split`. How requests went is counted by their route and their pool; this
//! says which part of them each arm has taken, also arms that answer by themselves.

use super::number::Counter;

/// **Single writer**. Aligned so that two workers' numbers never share a pair of cache lines, and with it their writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ArmMetrics {
    pub(super) requests: Counter,
}

impl ArmMetrics {
    /// A request has taken the arm.
    #[inline]
    pub fn count(&self) {
        self.requests.increment();
    }
}
