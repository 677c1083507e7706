//! What became of the configuration while the process runs. Written by the control thread.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// How a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeResult {
    Applied,
    /// The change said what the running configuration says.
    Unchanged,
    /// The running configuration stays as it was.
    Refused,
    /// The change was taken back: nobody confirmed it, or it did harm.
    RolledBack,
}

impl ChangeResult {
    pub const ALL: [ChangeResult; 4] =
        [ChangeResult::Applied, ChangeResult::Unchanged, ChangeResult::Refused, ChangeResult::RolledBack];

    pub fn as_str(self) -> &'static str {
        match self {
            ChangeResult::Applied => "applied",
            ChangeResult::Unchanged => "unchanged",
            ChangeResult::Refused => "refused",
            ChangeResult::RolledBack => "rolled_back",
        }
    }
}

#[derive(Debug, Default)]
pub struct ConfigurationMetrics {
    generation: AtomicU64,
    applied_unix_seconds: AtomicI64,
    results: [AtomicU64; ChangeResult::ALL.len()],
    is_refused: AtomicBool,
    is_drifted: AtomicBool,
    workers: AtomicU64,
}

impl ConfigurationMetrics {
    pub fn note(&self, result: ChangeResult) {
        self.results[result as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Whether what is written where the process was started from was tried, and does not run.
    pub fn set_refused(&self, refused: bool) {
        self.is_refused.store(refused, Ordering::Relaxed);
    }

    pub fn set_generation(&self, generation: u64, applied_unix_seconds: i64) {
        self.generation.store(generation, Ordering::Relaxed);
        self.applied_unix_seconds.store(applied_unix_seconds, Ordering::Relaxed);
    }

    /// Whether the running configuration is another one than a restart would bring.
    pub fn set_drifted(&self, drifted: bool) {
        self.is_drifted.store(drifted, Ordering::Relaxed);
    }

    pub fn set_workers(&self, workers: usize) {
        self.workers.store(workers as u64, Ordering::Relaxed);
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    pub(super) fn applied_unix_seconds(&self) -> i64 {
        self.applied_unix_seconds.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, result: ChangeResult) -> u64 {
        self.results[result as usize].load(Ordering::Relaxed)
    }

    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    pub(super) fn is_drifted(&self) -> bool {
        self.is_drifted.load(Ordering::Relaxed)
    }

    pub(super) fn workers(&self) -> u64 {
        self.workers.load(Ordering::Relaxed)
    }
}
