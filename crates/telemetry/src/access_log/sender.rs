//! The worker's end of the access log: formats a line and puts it into the ring whole, or drops it. No system call, no
//! wait, and no allocation once its buffer has grown to the longest line.

use super::format::Format;
use super::record::AccessRecord;
use super::second::SecondText;
use crate::metrics::WorkerMetrics;
use std::fmt;
use std::sync::Arc;
use tidegate_model::{self as model, LogConditions};

/// Grown to at once; ordinary lines are half of it.
const LINE_BYTES_USUAL: usize = 1024;

/// A worker's end of one access log.
pub(super) struct AccessLogSender {
    on: bool,
    format: Format,
    when: LogConditions,
    second: SecondText,
    line: Vec<u8>,
    ring: rtrb::Producer<u8>,
    metrics: Arc<WorkerMetrics>,
}

impl AccessLogSender {
    pub(super) fn new(ring: rtrb::Producer<u8>, metrics: Arc<WorkerMetrics>, settings: &model::AccessLog) -> AccessLogSender {
        let format = Format::new(&settings.format);
        let mut sender = AccessLogSender {
            on: false,
            format,
            when: LogConditions::default(),
            second: SecondText::default(),
            line: Vec::new(),
            ring,
            metrics,
        };
        sender.apply(settings);
        sender
    }

    /// Takes on the settings of a new configuration. Where the lines go is the writer's business; here it matters only
    /// whether there are any.
    pub fn apply(&mut self, settings: &model::AccessLog) {
        self.on = settings.target != model::LogTarget::Off;
        self.format = Format::new(&settings.format);
        self.when = settings.when.clone();
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

    /// Whether what is asked of its requests holds for this one.
    #[inline]
    fn wants(&self, record: &AccessRecord<'_>) -> bool {
        let LogConditions { sites, statuses, slower_than } = &self.when;
        (statuses.is_empty() || record.status.is_some_and(|status| statuses.iter().any(|range| range.contains(status))))
            && slower_than.is_none_or(|least| u128::from(record.duration_us) >= least.as_micros())
            && (sites.is_empty() || sites.iter().any(|site| *site == record.site))
    }

    /// Logs one request.
    #[inline]
    pub fn record(&mut self, record: &AccessRecord<'_>) {
        if !self.on || !self.wants(record) {
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
