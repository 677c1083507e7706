//! One line per request, never in the way of a request: a worker formats into its own ring, one thread for each log
//! writes all rings out. [`record`] is what a line is made of, `format` and `escape` make it, `sender` is the worker's
//! end, `writer` and `target` the other, `logs` all of them together.
//!
//! A worker makes no system call and never waits. When its ring is full because standard output or a disk is slow, the
//! line is dropped and counted. A line stands in the ring whole or not at all.

mod escape;
mod format;
mod logs;
mod record;
mod second;
mod sender;
mod syslog;
mod target;
mod writer;

#[cfg(test)]
mod tests;

pub use logs::{AccessLogSenders, AccessLogs, LogFault, LogPlan, OpenLogs};
pub use record::{AccessRecord, HeaderLookup, OwnFields, RecordIntroduction, RecordTls, RecordUpstream};

/// What a worker may be ahead of the writer: about 40 ms of its fastest traffic, twice what the writer may sleep.
pub const RING_BYTES: usize = 1 << 20;
/// Longer lines are cut; only hostile requests reach this.
pub const LINE_BYTES_MAX: usize = 128 << 10;
/// One value in a line, escaped, is cut here and then ends in `…`. A target of 16 KiB would otherwise become 96 KiB of
/// `\u00XX`.
pub const FIELD_BYTES_MAX: usize = 8 << 10;
/// The most of a field that a route adds: two lists of the most that a site and a route may have still fit into a line
/// with all others.
pub const OWN_FIELD_BYTES_MAX: usize = 1 << 10;
