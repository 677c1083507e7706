//! The worker's end of the access log: formats a line and puts it into the ring whole, or drops it. No system call, no
//! wait, and no allocation once its buffer has grown to the longest line.

use super::format::Format;
use super::record::AccessRecord;
use super::second::SecondText;
use crate::metrics::WorkerMetrics;
use std::fmt;
use std::sync::Arc;
use tidegate_model as model;

/// Grown to at once; ordinary lines are half of it.
const LINE_BYTES_USUAL: usize = 1024;

/// A worker's end of the access log, given out by [`start`](super::start).
pub struct AccessLogSender {
    on: bool,
    format: Format,
    second: SecondText,
    line: Vec<u8>,
    ring: rtrb::Producer<u8>,
    metrics: Arc<WorkerMetrics>,
}

impl AccessLogSender {
    pub(super) fn new(ring: rtrb::Producer<u8>, metrics: Arc<WorkerMetrics>, settings: &model::AccessLog) -> AccessLogSender {
        let format = Format::new(&settings.format);
        let mut sender = AccessLogSender { on: false, format, second: SecondText::default(), line: Vec::new(), ring, metrics };
        sender.apply(settings);
        sender
    }

    /// Takes on the settings of a new configuration. Where the lines go is changed by
    /// [`AccessLogWriter::retarget`](super::AccessLogWriter::retarget); here it matters only whether there are any.
    pub fn apply(&mut self, settings: &model::AccessLog) {
        self.on = settings.target != model::LogTarget::Off;
        self.format = Format::new(&settings.format);
        if self.on {
            self.line.reserve(LINE_BYTES_USUAL);
        }
    }

    /// Whether there is any use in making a record.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Whether the format shows header fields, so that a record needs its lookups.
    pub fn needs_headers(&self) -> bool {
        self.format.needs_headers()
    }

    /// Logs one request.
    #[inline]
    pub fn record(&mut self, record: &AccessRecord<'_>) {
        if !self.on {
            return;
        }
        self.line.clear();
        self.format.push_line(&mut self.line, &mut self.second, record);
        match self.ring.push_entire_slice(&self.line) {
            Ok(()) => self.metrics.access_log_lines.increment(),
            Err(_) => self.metrics.access_log_dropped.increment(),
        }
    }
}

impl fmt::Debug for AccessLogSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLogSender").field("on", &self.on).field("format", &self.format).finish_non_exhaustive()
    }
}
