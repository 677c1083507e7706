//! The latency of a server as `balance "ewma"` sees it: an average that follows a rise at once and forgets it slowly.
//! One worker keeps it for each server; what it does to the choice is in `choice`.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// After so long a difference has shrunk to 37 %.
const DECAY_SECONDS: f64 = 10.0;
/// What a server counts as before its first answer: fast enough to be tried, and not so fast that it would get
/// everything until that answer comes. A server that has had no request for long is as good as unmeasured, so a bad
/// time does not keep it out for ever.
const UNMEASURED_SECONDS: f64 = 0.001;
/// No answer counts as less, so that requests in flight still tell servers apart.
const SECONDS_LEAST: f64 = 0.000_001;

#[derive(Debug, Default)]
pub struct PeakEwma {
    seen: Cell<Option<Seen>>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    seconds: f64,
    at: Instant,
}

impl PeakEwma {
    /// An answer came after `latency`. A rise counts at once, a fall by and by.
    pub fn observe(&self, latency: Duration, now: Instant) {
        let measured = latency.as_secs_f64().max(SECONDS_LEAST);
        let seconds = match self.seen.get() {
            Some(seen) if measured < seen.seconds => measured + (seen.seconds - measured) * kept(seen.at, now),
            Some(_) | None => measured,
        };
        self.seen.set(Some(Seen { seconds, at: now }));
    }

    /// Seconds, never zero. While no answers come, what is above that of an unmeasured server wears off.
    pub fn now(&self, now: Instant) -> f64 {
        match self.seen.get() {
            None => UNMEASURED_SECONDS,
            Some(seen) if seen.seconds <= UNMEASURED_SECONDS => seen.seconds,
            Some(seen) => UNMEASURED_SECONDS + (seen.seconds - UNMEASURED_SECONDS) * kept(seen.at, now),
        }
    }
}

/// The part of a difference that is left, 1 to 0.
fn kept(since: Instant, now: Instant) -> f64 {
    (-now.saturating_duration_since(since).as_secs_f64() / DECAY_SECONDS).exp()
}

#[cfg(test)]
mod tests {
    use super::PeakEwma;
    use std::time::{Duration, Instant};

    /// Answers by second and latency in milliseconds; then the milliseconds expected at a second.
    fn check(answers: &[(u64, u64)], at_second: u64, expected_ms: f64) {
        let start = Instant::now();
        let latency = PeakEwma::default();
        for (second, latency_ms) in answers {
            latency.observe(Duration::from_millis(*latency_ms), start + Duration::from_secs(*second));
        }
        let seen_ms = latency.now(start + Duration::from_secs(at_second)) * 1e3;
        assert!((seen_ms - expected_ms).abs() <= expected_ms * 0.01, "{answers:?}: {seen_ms} ms at {at_second} s");
    }

    #[test]
    fn a_rise_counts_at_once_and_a_fall_slowly() {
        check(&[(0, 10)], 0, 10.0);
        check(&[(0, 10), (1, 500)], 1, 500.0);
        check(&[(0, 500), (0, 10)], 0, 500.0);
        check(&[(0, 500), (10, 10)], 10, 10.0 + 490.0 * 0.3679);
        check(&[(0, 500), (1000, 10)], 1000, 10.0);
    }

    #[test]
    fn a_server_without_answers_counts_as_fast_but_not_infinitely() {
        check(&[], 0, 1.0);
        check(&[(0, 500)], 10, 1.0 + 499.0 * 0.3679);
        check(&[(0, 500)], 100_000, 1.0);
        check(&[(0, 0)], 100_000, 0.001);
    }

    #[test]
    fn time_that_goes_back_and_latencies_without_end_do_no_harm() {
        let start = Instant::now();
        let latency = PeakEwma::default();
        latency.observe(Duration::MAX, start + Duration::from_secs(1));
        latency.observe(Duration::ZERO, start);
        assert!(latency.now(start).is_finite());
        assert!(latency.now(start + Duration::from_secs(1 << 30)) > 0.0);
    }
}
