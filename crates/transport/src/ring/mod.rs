//! The io_uring driver: an executor that waits in the ring, and sockets whose operations belong to the kernel from one
//! turn to the next.
//!
//! ```text
//! socket, listener ──operations, with their buffers──▶ queue ──▶ kernel
//!        ▲ wake                                          │
//!        └── executor ◀──────────completions─────────────┘
//! ```
//!
//! A turn polls what is ready, hands over what that began and waits, by one system call. Buffers that belong to an
//! operation are out of reach for everybody else until its last completion, by type: `queue` takes them and gives them
//! back.

pub(crate) mod executor;
#[cfg(test)]
mod fake;
mod kernel;
mod listener;
mod probe;
mod queue;
mod socket;
#[cfg(test)]
mod tests;
mod timers;
mod unread;
mod wake;

pub use listener::RingListener;
pub use probe::{Unavailable, probe};
pub use socket::RingSock;

use std::future::Future;
use std::io;

/// Runs a worker on this thread until `main` returns.
pub(crate) fn run<T>(main: impl Future<Output = T>) -> io::Result<T> {
    executor::run(Box::new(kernel::KernelQueue::new()?), main)
}
