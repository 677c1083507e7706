//! One line per request, never in the way of a request: a worker formats into its own ring, one thread writes all rings
//! out. [`record`] is what a line is made of, `format` and `escape` make it, `sender` is the worker's end, `writer` and
//! `target` the other.
//!
//! A worker makes no system call and never waits. When its ring is full because standard output or a disk is slow, the
//! line is dropped and counted. A line stands in the ring whole or not at all.

mod escape;
mod format;
mod record;
mod second;
mod sender;
mod target;
mod writer;

#[cfg(test)]
mod tests;

pub use record::{AccessRecord, HeaderLookup, OwnFields, RecordTls, RecordUpstream};
pub use sender::AccessLogSender;
pub use writer::{AccessLogWriter, OpenTarget};

use crate::metrics::Registry;
use std::io;
use tidegate_model as model;

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

/// Starts the writer thread; gives one sender for each worker, in order, and the writer's handle.
///
/// `Err` when the target cannot be opened or the thread not be started.
pub fn start(
    settings: &model::AccessLog,
    registry: &Registry,
    workers: usize,
) -> io::Result<(Vec<AccessLogSender>, AccessLogWriter)> {
    let (senders, rings) = (0..workers).map(|worker| ring(settings, registry, worker)).unzip();
    let writer = AccessLogWriter::start(target::Target::open(&settings.target)?, rings, registry.log_writer())?;
    Ok((senders, writer))
}

/// A worker's end and the writer's. Not touched, and so not in RAM, until there are lines.
fn ring(settings: &model::AccessLog, registry: &Registry, worker: usize) -> (AccessLogSender, rtrb::Consumer<u8>) {
    let (producer, consumer) = rtrb::RingBuffer::new(RING_BYTES);
    (AccessLogSender::new(producer, registry.worker(worker), settings), consumer)
}
