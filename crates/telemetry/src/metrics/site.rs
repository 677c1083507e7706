//! What one worker counts for one site, or for a route of it that has a name. Idle ones are nearly free, because a
//! server may hold ten thousand of them.

use super::answers::{AnswerCounters, AnswerKind, AnswerTotals};
use super::histogram::{Histogram, HistogramTotals};
use super::number::{Counter, Gauge};
use std::sync::OnceLock;
use std::time::Duration;

/// A few words until its first request, less than 1 KiB from then on. **Single writer**.
#[derive(Debug, Default)]
pub struct SiteMetrics {
    active: OnceLock<Box<Active>>,
}

/// Aligned so that two workers' numbers never share a pair of cache lines, and with it their writes.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Active {
    bytes_out: Counter,
    in_flight: Gauge,
    answers: AnswerCounters,
    latency: Histogram,
}

impl SiteMetrics {
    /// A request has come, and [`SiteMetrics::end`] will be told when it goes.
    #[inline]
    pub fn begin(&self) {
        self.active().in_flight.increment();
    }

    #[inline]
    pub fn end(&self) {
        self.active().in_flight.decrement();
    }

    /// One answered request: what it was, the time from the end of its head to the end of its answer, and the bytes of
    /// the answer's body.
    #[inline]
    pub fn record(&self, kind: AnswerKind, latency: Duration, body_bytes: u64) {
        let active = self.active();
        active.answers.increment(kind);
        active.latency.record(latency);
        active.bytes_out.add(body_bytes);
    }

    #[inline]
    fn active(&self) -> &Active {
        self.active.get_or_init(Box::default)
    }
}

const _: () = assert!(align_of::<Active>() == 128 && size_of::<Active>() <= 1024);

/// Several workers' numbers of one site, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SiteTotals {
    pub answers: AnswerTotals,
    pub latency: HistogramTotals,
    pub bytes_out: u64,
    pub in_flight: i64,
}

impl SiteTotals {
    pub fn add(&mut self, site: &SiteMetrics) {
        let Some(active) = site.active.get() else { return };
        self.bytes_out = self.bytes_out.wrapping_add(active.bytes_out.value());
        self.in_flight += active.in_flight.value();
        self.answers.add(&active.answers);
        self.latency.add(&active.latency);
    }

    pub fn add_totals(&mut self, other: &SiteTotals) {
        self.bytes_out = self.bytes_out.wrapping_add(other.bytes_out);
        self.in_flight += other.in_flight;
        self.answers.add_totals(&other.answers);
        self.latency.add_totals(&other.latency);
    }

    /// Takes away what was counted before. Requests in flight are no count: they stay.
    pub fn subtract_counts(&mut self, before: &SiteTotals) {
        self.bytes_out = self.bytes_out.wrapping_sub(before.bytes_out);
        self.answers.subtract(&before.answers);
        self.latency.subtract(&before.latency);
    }

    /// Nothing was asked of it yet.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.latency.count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{SiteMetrics, SiteTotals};
    use crate::metrics::{AnswerKind, MethodLabel, ProtocolLabel};
    use std::time::Duration;

    #[test]
    fn an_idle_site_is_small() {
        assert!(size_of::<SiteMetrics>() <= 32);
    }

    #[test]
    fn requests_are_in_flight_until_they_end() {
        let site = SiteMetrics::default();
        let of = |site: &SiteMetrics| {
            let mut totals = SiteTotals::default();
            totals.add(site);
            totals
        };
        assert!(of(&site).is_idle());
        site.begin();
        site.begin();
        assert_eq!((of(&site).in_flight, of(&site).is_idle()), (2, false));
        site.record(
            AnswerKind { status: 200, method: MethodLabel::Get, protocol: ProtocolLabel::Http2 },
            Duration::from_millis(1),
            10,
        );
        site.end();
        let totals = of(&site);
        assert_eq!((totals.in_flight, totals.bytes_out, totals.latency.count(), totals.answers.sum()), (1, 10, 1, 1));
    }
}
