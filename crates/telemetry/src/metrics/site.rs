//! What one worker counts for one site. Idle sites are nearly free, because a server may hold ten thousand of them.

use super::histogram::{Histogram, HistogramTotals};
use super::number::Counter;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

const STATUS_FIRST: u16 = 100;
const STATUS_LAST: u16 = 599;

/// A few words until its first request, about 5 KiB from then on. **Single writer**.
#[derive(Debug, Default)]
pub struct SiteMetrics {
    active: OnceLock<Box<Active>>,
}

/// Aligned so that two workers' numbers never share a pair of cache lines, and with it their writes.
#[derive(Debug)]
#[repr(align(128))]
struct Active {
    bytes_out: Counter,
    statuses: [Counter; (STATUS_LAST - STATUS_FIRST + 1) as usize],
    latency: Histogram,
}

impl SiteMetrics {
    /// One answered request: its final status, the time from the end of its head to the end of its answer, and the
    /// bytes of the answer's body. A status outside 100 to 599 is counted as 599, so that no request is missing from
    /// the sum.
    #[inline]
    pub fn record(&self, status: u16, latency: Duration, body_bytes: u64) {
        let active = self.active.get_or_init(Box::default);
        let status = if (STATUS_FIRST..=STATUS_LAST).contains(&status) { status } else { STATUS_LAST };
        active.statuses[usize::from(status - STATUS_FIRST)].increment();
        active.latency.record(latency);
        active.bytes_out.add(body_bytes);
    }
}

const _: () = assert!(align_of::<Active>() == 128);

impl Default for Active {
    fn default() -> Self {
        Active {
            bytes_out: Counter::default(),
            statuses: std::array::from_fn(|_| Counter::default()),
            latency: Histogram::default(),
        }
    }
}

/// Several workers' numbers of one site, added up.
#[derive(Debug, Clone, Default)]
pub(super) struct SiteTotals {
    pub statuses: BTreeMap<u16, u64>,
    pub latency: HistogramTotals,
    pub bytes_out: u64,
}

impl SiteTotals {
    pub fn add(&mut self, site: &SiteMetrics) {
        let Some(active) = site.active.get() else { return };
        self.bytes_out = self.bytes_out.wrapping_add(active.bytes_out.value());
        for (status, counter) in (STATUS_FIRST..).zip(&active.statuses) {
            if counter.value() > 0 {
                *self.statuses.entry(status).or_default() += counter.value();
            }
        }
        self.latency.add(&active.latency);
    }
}

#[cfg(test)]
mod tests {
    use super::{SiteMetrics, SiteTotals};
    use std::time::Duration;

    #[test]
    fn an_idle_site_is_small() {
        assert!(size_of::<SiteMetrics>() <= 32);
    }

    #[test]
    fn every_status_is_counted_somewhere() {
        let site = SiteMetrics::default();
        for status in [0, 99, 100, 200, 200, 599, 600, 999] {
            site.record(status, Duration::from_millis(1), 10);
        }
        let mut totals = SiteTotals::default();
        totals.add(&site);
        assert_eq!(totals.statuses.into_iter().collect::<Vec<_>>(), [(100, 1), (200, 2), (599, 5)]);
        assert_eq!(totals.latency.count(), 8);
        assert_eq!(totals.bytes_out, 80);
    }
}
