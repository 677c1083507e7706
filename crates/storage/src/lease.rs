//! What the leases of all stores have in common: how long one lasts, by which clock, and how its renewal ends. Who
//! keeps a lease alive is in `lock`.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// So long nobody else takes a lock that shows no sign of life. A host that goes down stops others for this long, so it
/// is short; a process that is busy, or a file server that hangs, loses its locks after two thirds of it, so it is not
/// shorter.
pub const LEASE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    Renewed,
    /// Somebody else has it, or it is not there any more.
    Lost,
}

/// A clock that nobody sets and that goes on while the machine sleeps: who wakes up after a lease must know that it is
/// over.
pub(crate) fn now() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    // Elsewhere the monotonic clock does so.
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
