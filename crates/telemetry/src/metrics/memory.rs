//! How near the process is to the memory that it may use. What is counted and what follows from it is decided where the
//! budget is kept.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Any thread may write.
#[derive(Debug, Default)]
pub struct MemoryMetrics {
    /// 0 is none.
    budget_bytes: AtomicU64,
    used_bytes: AtomicU64,
    is_shedding: AtomicBool,
}

impl MemoryMetrics {
    /// Without a budget there are no series of it.
    pub fn set_budget(&self, budget_bytes: Option<u64>) {
        self.budget_bytes.store(budget_bytes.unwrap_or(0), Ordering::Relaxed);
    }

    pub fn set_used(&self, used_bytes: u64) {
        self.used_bytes.store(used_bytes, Ordering::Relaxed);
    }

    /// Whether requests are refused now because the budget is nearly used up.
    pub fn set_shedding(&self, is_shedding: bool) {
        self.is_shedding.store(is_shedding, Ordering::Relaxed);
    }

    /// `None` without a budget.
    pub(super) fn numbers(&self) -> Option<MemoryNumbers> {
        let budget_bytes = self.budget_bytes.load(Ordering::Relaxed);
        (budget_bytes > 0).then(|| MemoryNumbers {
            budget_bytes,
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
            is_shedding: self.is_shedding.load(Ordering::Relaxed),
        })
    }
}

/// What stood there at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryNumbers {
    pub budget_bytes: u64,
    pub used_bytes: u64,
    pub is_shedding: bool,
}
