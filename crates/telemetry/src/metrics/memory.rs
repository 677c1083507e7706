//! How near the process is to the memory that it may use. What is counted and what follows from it is decided where the
//! budget is kept.

use super::number::SharedNumber;

/// Any thread may write.
#[derive(Debug, Default)]
pub struct MemoryMetrics {
    /// 0 is none.
    pub(super) budget_bytes: SharedNumber,
    pub(super) used_bytes: SharedNumber,
    pub(super) is_shedding: SharedNumber,
}

impl MemoryMetrics {
    /// Without a budget there are no series of it.
    pub fn set_budget(&self, budget_bytes: Option<u64>) {
        self.budget_bytes.set(budget_bytes.unwrap_or(0) as i64);
    }

    pub fn set_used(&self, used_bytes: u64) {
        self.used_bytes.set(used_bytes as i64);
    }

    /// Whether requests are refused now because the budget is nearly used up.
    pub fn set_shedding(&self, is_shedding: bool) {
        self.is_shedding.set(is_shedding.into());
    }
}
