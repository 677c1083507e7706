//! What one thread of a load counts, phase by phase, and the report that the threads' counts become together.
//! Shared by all clients of the thread; written by nobody else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::client::Answered;
use crate::client::connection::WireBytes;
use crate::client::failure::Failure;
use crate::load::timeline::{Now, Timeline};

/// A slower answer is recorded as this slow.
const LATENCY_MAX: Duration = Duration::from_secs(120);
const SIGNIFICANT_DIGITS: u8 = 3;

/// The counts of one phase.
#[derive(Debug, Clone)]
pub struct Tally {
    pub requests: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub failures: BTreeMap<String, u64>,
    pub first_failure: Option<String>,
    pub dropped: u64,
    pub sent_again: u64,
    pub handshakes: u64,
    pub resumed: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
}

/// How long one request took.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// In open loop from the intended start.
    pub latency: Duration,
    /// Of it, in open loop, what passed before a free client sent the request: the generator's own doing. `None` where
    /// none was free.
    pub lateness: Option<Duration>,
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub max: f64,
}

/// The tallies of a thread, under the timeline that says which is on.
pub struct Meter {
    timeline: Arc<Timeline>,
    tallies: RefCell<Vec<Tally>>,
    /// Before the first phase, by kind. They are told, but belong to no figure: the requests beside them are not
    /// counted either.
    warmup_failures: RefCell<BTreeMap<String, u64>>,
    wire: Rc<WireBytes>,
    /// Of `wire`, what earlier phases and the warm-up have moved.
    wire_before: RefCell<(u64, u64)>,
}

impl Meter {
    pub fn new(timeline: Arc<Timeline>, wire: Rc<WireBytes>) -> Meter {
        Meter {
            timeline,
            tallies: RefCell::new(vec![Tally::default()]),
            warmup_failures: RefCell::default(),
            wire,
            wire_before: RefCell::default(),
        }
    }

    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Without `times` it is only counted: it began while warming up.
    pub fn record_answer(&self, answered: Answered, times: Option<Times>) {
        match self.timeline.now() {
            Now::WarmingUp => {}
            Now::Phase(number) => self.in_phase(number, |tally| {
                tally.requests += 1;
                *tally.statuses.entry(200).or_default() += 1;
                tally.sent_again += u64::from(answered.sent_again);
                if let Some(resumed) = answered.handshake {
                    tally.handshakes += 1;
                    tally.resumed += u64::from(resumed);
                }
                tally.record_times(times);
            }),
            // Began in time: its latency counts, or the slowest would be left out. It is no request of the measured
            // time.
            Now::Over => self.in_last_phase(|tally| tally.record_times(times)),
        }
    }

    /// What was asked in time and failed after the end counts in the last phase.
    pub fn record_failure(&self, failure: &Failure) {
        let record = |tally: &mut Tally| {
            if let Failure::Status(status) = failure {
                *tally.statuses.entry(*status).or_default() += 1;
            }
            *tally.failures.entry(failure.kind()).or_default() += 1;
            tally.first_failure.get_or_insert_with(|| failure.to_string());
        };
        match self.timeline.now() {
            Now::WarmingUp => *self.warmup_failures.borrow_mut().entry(failure.kind()).or_default() += 1,
            Now::Phase(number) => self.in_phase(number, record),
            Now::Over => self.in_last_phase(record),
        }
    }

    pub fn record_dropped(&self, count: u64) {
        match self.timeline.now() {
            Now::WarmingUp => {}
            Now::Phase(number) => self.in_phase(number, |tally| tally.dropped += count),
            Now::Over => self.in_last_phase(|tally| tally.dropped += count),
        }
    }

    /// What is on the wire is counted by connections, which know no phase: what has come since the last look belongs to
    /// `phase`. Called at least once in each phase; while warming up it only resets.
    pub fn settle_wire(&self) {
        let now = (self.wire.received.get(), self.wire.sent.get());
        let before = self.wire_before.replace(now);
        let add = |tally: &mut Tally| {
            tally.received_bytes += now.0 - before.0;
            tally.sent_bytes += now.1 - before.1;
        };
        match self.timeline.now() {
            Now::WarmingUp => {}
            Now::Phase(number) => self.in_phase(number, add),
            Now::Over => self.in_last_phase(add),
        }
    }

    /// The tally of each phase, and the failures before the first.
    pub fn into_counts(self) -> (Vec<Tally>, BTreeMap<String, u64>) {
        (self.tallies.into_inner(), self.warmup_failures.into_inner())
    }

    fn in_phase(&self, number: usize, change: impl FnOnce(&mut Tally)) {
        let mut tallies = self.tallies.borrow_mut();
        if tallies.len() <= number {
            tallies.resize_with(number + 1, Tally::default);
        }
        change(&mut tallies[number]);
    }

    fn in_last_phase(&self, change: impl FnOnce(&mut Tally)) {
        change(self.tallies.borrow_mut().last_mut().expect("never empty"));
    }
}

impl Default for Tally {
    fn default() -> Tally {
        let histogram =
            || Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, SIGNIFICANT_DIGITS).expect("valid bounds");
        Tally {
            requests: 0,
            statuses: BTreeMap::new(),
            failures: BTreeMap::new(),
            first_failure: None,
            dropped: 0,
            sent_again: 0,
            handshakes: 0,
            resumed: 0,
            received_bytes: 0,
            sent_bytes: 0,
            latency: histogram(),
            lateness: histogram(),
        }
    }
}

impl Tally {
    fn record_times(&mut self, times: Option<Times>) {
        let Some(Times { latency, lateness }) = times else { return };
        self.latency.saturating_record(latency.as_nanos() as u64);
        if let Some(lateness) = lateness {
            self.lateness.saturating_record(lateness.as_nanos() as u64);
        }
    }

    pub fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (kind, count) in &other.failures {
            *self.failures.entry(kind.clone()).or_default() += count;
        }
        if self.first_failure.is_none() {
            self.first_failure.clone_from(&other.first_failure);
        }
        self.dropped += other.dropped;
        self.sent_again += other.sent_again;
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.latency.add(&other.latency).expect("the same bounds");
        self.lateness.add(&other.lateness).expect("the same bounds");
    }

    pub fn latency(&self) -> Option<Latency> {
        Latency::of(&self.latency)
    }

    pub fn lateness(&self) -> Option<Latency> {
        Latency::of(&self.lateness)
    }
}

impl Latency {
    /// `None` without a sample: an answer that never came is not a fast one.
    fn of(histogram: &Histogram<u64>) -> Option<Latency> {
        if histogram.is_empty() {
            return None;
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |quantile: f64| us(histogram.value_at_quantile(quantile));
        Some(Latency {
            mean: histogram.mean() / 1000.0,
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: us(histogram.max()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Meter {
        Meter::new(Arc::default(), Rc::default())
    }

    fn took(latency: Duration) -> Times {
        Times { latency, lateness: None }
    }

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let meter = meter();
        meter.timeline().next_phase();
        for us in 1..=10_000 {
            meter.record_answer(Answered::default(), Some(took(Duration::from_micros(us))));
        }
        let (mut all, _) = meter.into_counts();
        let other = all[0].clone();
        all[0].add(&other);
        let latency = all[0].latency().unwrap();
        let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.002, "{value} is not {expected}");
        near(latency.mean, 5_000.5);
        near(latency.p50, 5_000.0);
        near(latency.p75, 7_500.0);
        near(latency.p90, 9_000.0);
        near(latency.p95, 9_500.0);
        near(latency.p99, 9_900.0);
        near(latency.p99_9, 9_990.0);
        near(latency.max, 10_000.0);
        assert_eq!(all[0].requests, 20_000);
    }

    #[test]
    fn each_phase_counts_for_itself_and_the_warm_up_only_its_failures() {
        let meter = meter();
        let answer =
            |handshake| meter.record_answer(Answered { sent_again: false, handshake }, Some(took(Duration::from_millis(1))));
        answer(None);
        meter.record_failure(&Failure::Refused);
        meter.timeline().next_phase();
        answer(Some(true));
        answer(Some(false));
        meter.timeline().next_phase();
        answer(None);
        meter.record_failure(&Failure::Status(502));
        meter.record_dropped(3);
        meter.timeline().end();
        answer(None);
        meter.record_failure(&Failure::TimedOut);
        let (tallies, warmup_failures) = meter.into_counts();
        let counts: Vec<_> =
            tallies.iter().map(|tally| (tally.requests, tally.handshakes, tally.resumed, tally.dropped)).collect();
        assert_eq!(counts, [(2, 2, 1, 0), (1, 0, 0, 3)]);
        let failures: Vec<Vec<_>> = tallies.iter().map(|tally| tally.failures.keys().map(String::as_str).collect()).collect();
        assert_eq!(failures, [vec![], vec!["status 502", "timed out"]]);
        assert_eq!(warmup_failures, [("refused".to_owned(), 1)].into());
        assert_eq!(tallies[1].statuses, [(200, 1), (502, 1)].into());
    }

    #[test]
    fn bytes_belong_to_the_phase_in_which_they_came() {
        let meter = meter();
        let receive = |bytes| meter.wire.received.set(meter.wire.received.get() + bytes);
        receive(100);
        meter.settle_wire();
        meter.timeline().next_phase();
        receive(10);
        meter.settle_wire();
        meter.timeline().next_phase();
        receive(7);
        meter.settle_wire();
        receive(2);
        meter.timeline().end();
        meter.settle_wire();
        let (tallies, _) = meter.into_counts();
        assert_eq!(tallies.iter().map(|tally| tally.received_bytes).collect::<Vec<_>>(), [10, 9]);
    }
}
