//! What a request and a start cost, in counts that are exact: heap allocations, memory, system calls, pages. One test
//! at a time, and nothing else in this process: its allocator counts what every thread does.

mod allocations;
mod churn;
mod idle;
mod start;
mod syscalls;
mod waiting;

use std::sync::{Mutex, MutexGuard, PoisonError};

static COUNT: Mutex<()> = Mutex::new(());

/// While one test counts, no other one runs.
fn only_count() -> MutexGuard<'static, ()> {
    COUNT.lock().unwrap_or_else(PoisonError::into_inner)
}
