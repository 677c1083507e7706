//! What one worker counts for one server of a pool. Not what state the server is in: any thread may say that, and it is
//! in [`server_state`](super::server_state).

use super::histogram::{Histogram, HistogramTotals};
use super::number::{Counter, Gauge};
use std::sync::OnceLock;
use std::time::Duration;

/// 128 bytes until the first answer, 256 more from then on. **Single writer**. Aligned so that two workers' numbers
/// never share a pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ServerMetrics {
    /// Attempts at it, also such as came to no connection.
    pub requests: Counter,
    /// Attempts that count against it: refused, broken, late, and answers with a status of 500, 502, 503 or 504.
    pub failures: Counter,
    /// Attempts on their way.
    pub in_flight: Gauge,
    /// Answers that began, by the class of their status.
    answers: [Counter; STATUS_CLASSES],
    first_byte: OnceLock<Box<Histogram>>,
}

/// 1xx to 5xx.
pub(super) const STATUS_CLASSES: usize = 5;

impl ServerMetrics {
    /// An answer began. What no class has is counted as 5xx.
    #[inline]
    pub fn answered(&self, status: u16) {
        let class = usize::from(status / 100).wrapping_sub(1);
        self.answers[class.min(STATUS_CLASSES - 1)].increment();
    }

    /// From the last byte of the request sent to the first byte of the answer.
    #[inline]
    pub fn record_first_byte(&self, latency: Duration) {
        self.first_byte.get_or_init(Box::default).record(latency);
    }
}

/// How requests to one server went, over all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Attempts at it.
    pub requests: u64,
    /// Attempts that count against it.
    pub failures: u64,
}

/// Several workers' numbers of one server, added up.
#[derive(Debug, Clone, Default)]
pub struct ServerTotals {
    pub requests: u64,
    pub failures: u64,
    pub in_flight: i64,
    pub answers: [u64; STATUS_CLASSES],
    pub first_byte: HistogramTotals,
}

impl ServerTotals {
    pub fn add(&mut self, server: &ServerMetrics) {
        self.requests += server.requests.value();
        self.failures += server.failures.value();
        self.in_flight += server.in_flight.value();
        for (total, counter) in self.answers.iter_mut().zip(&server.answers) {
            *total += counter.value();
        }
        if let Some(first_byte) = server.first_byte.get() {
            self.first_byte.add(first_byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ServerMetrics, ServerTotals};
    use std::time::Duration;

    #[test]
    fn a_server_without_answers_is_small() {
        assert_eq!(size_of::<ServerMetrics>(), 128);
    }

    #[test]
    fn workers_are_added_up() {
        let workers = [ServerMetrics::default(), ServerMetrics::default()];
        for (worker, requests) in workers.iter().zip([3, 4]) {
            worker.requests.add(requests);
            worker.failures.increment();
            worker.in_flight.add(2);
            worker.answered(if requests == 3 { 204 } else { 999 });
            worker.answered(0);
        }
        workers[1].record_first_byte(Duration::from_micros(250));
        let mut totals = ServerTotals::default();
        for worker in &workers {
            totals.add(worker);
        }
        assert_eq!((totals.requests, totals.failures, totals.in_flight), (7, 2, 4));
        assert_eq!(totals.answers, [0, 1, 0, 0, 3]);
        assert_eq!((totals.first_byte.count(), totals.first_byte.sum_us), (1, 250));
    }
}
