//! Which server of a pool gets a request, and whether it may have it: the choice, and the arithmetic behind ejection,
//! retries and bounds. State goes in and a decision comes out; nothing here reads a clock, draws random numbers, locks
//! or logs. What servers answer and how they are asked is known elsewhere. Read `choice` first.

pub mod choice;
pub mod maglev;

pub mod latency;
pub mod server;
pub mod slow_start;
pub mod split;

pub mod adaptive;
pub mod backoff;
pub mod outlier;
pub mod retry_budget;

mod hash;

pub use choice::{Chosen, Draw, choose};
pub use hash::{hash_bytes, mix};
pub use latency::PeakEwma;
pub use server::{Candidate, HealthStatus, ServerState};
