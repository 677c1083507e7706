//! Listening sockets that go from one process to another. When a process closes a listening socket, the kernel resets
//! the connections that wait in its accept queue; while another process holds the same socket, nobody notices. So a
//! process that leaves offers its sockets to one that shares the ports, and a new binary inherits all of them. Nothing
//! here decides who leaves when; `control` does. Start at `rendezvous`: how processes find each other and what they
//! ask.
//!
//! ```text
//! leaving process ──Offer──▶ peer
//!        ◀──Taken──
//!  closes what was taken
//!
//! starting process ──Spare──▶ peer
//!        ◀──Sockets──
//!        ──Taken──▶ closes what was taken
//!
//! successor ──Upgrade──▶ predecessor
//!        ◀──Sockets, State──
//!        ──Ready──▶ drains, or ──Failed──▶ goes on
//! ```

mod fault;
mod link;
mod message;
mod presence;
mod rendezvous;
mod sharing;
mod socket;
mod succession;
#[cfg(test)]
mod tests;

pub use fault::Fault;
pub use message::{Announced, Malformed, Place, Purpose};
pub use presence::{Presence, Present, present};
pub use rendezvous::{Peer, Rendezvous, Request, Serving, peers};
pub use sharing::{Adopted, Offer, SpareWanted};
pub use socket::{Handed, Lent, Listener, Rejected, Unfit};
pub use succession::{Inherited, Outcome, Succession, Upgrade, Verdict, take_over};

use std::time::Duration;

/// How long an exchange with a process on the same machine may take before it counts as hanging.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Sockets that a successor inherits at once: all that a process may have (65,536), and its admin endpoint. Whoever
/// inherits keeps about 200 bytes for each; nothing else grows with their number.
pub const SOCKETS_MAX: usize = (64 << 10) + 1;
/// Sockets of one offer, and of one answer about spare ones: the packet that names those that were taken names no more.
/// Who has more of them asks again.
pub const OFFERED_MAX: usize = 4096;
/// What a program may carry over besides its sockets.
pub const STATE_BYTES_MAX: usize = 8 << 20;
