//! What workers share, in every order in which their threads can come: the real files of `src`, with loom's atomics and
//! locks in place of those of the standard library. A model ends when no order is left that could end otherwise; one
//! that waits for ever is a lost wake-up and fails. What is decided, rather than how it is shared, is tested beside the
//! code.

/// Stands in for `src/sync.rs`.
mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Mutex, MutexGuard};
}
#[path = "../../src/health.rs"]
#[allow(dead_code)]
mod health;
#[path = "../../src/queue.rs"]
#[allow(dead_code)]
mod queue;
#[path = "../../src/shared.rs"]
#[allow(dead_code)]
mod shared;

mod health_models;
mod queue_models;
