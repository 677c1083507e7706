//! Atomics and locks of what workers share: those of the standard library. The models in `tests/models` compile the
//! files that use these with loom's in their place.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::{Mutex, MutexGuard};
