//! What one load counts, and the report it becomes. Counting begins and ends at once for requests, latencies and CPU time,
//! so that connecting and warming up never weigh on the figures.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::net::Error;
use crate::procfs::{self, ProcessId};

/// A slower answer is recorded as this slow.
const LATENCY_MAX: Duration = Duration::from_secs(60);
const SIGNIFICANT_DIGITS: u8 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub name: String,
    pub processes: Vec<ProcessId>,
}

impl Observed {
    pub fn parse(text: &str) -> Result<Observed, String> {
        let (name, list) = text.split_once('=').ok_or("write NAME=PID[,PID…]")?;
        let processes = list.split(',').map(|id| id.parse().map_err(|_| format!("`{id}` is not a process id")));
        Ok(Observed { name: name.to_owned(), processes: processes.collect::<Result<_, _>>()? })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Load runs, nothing is counted.
    WarmingUp,
    Measuring,
    /// Nothing new begins.
    Over,
}

pub struct Meter {
    phase: Cell<Phase>,
    requests: Cell<u64>,
    errors: Cell<u64>,
    dropped: Cell<u64>,
    bytes: Cell<u64>,
    handshakes: Cell<u64>,
    resumed: Cell<u64>,
    latency: RefCell<Histogram<u64>>,
    lateness: RefCell<Histogram<u64>>,
    first_error: RefCell<Option<String>>,
    observed: Vec<Observed>,
    window: RefCell<Option<Window>>,
}

struct Window {
    begin: Instant,
    length: Duration,
    /// CPU time at the beginning; the time used, once the window is over.
    cpu_ns: Vec<u64>,
}

/// What `load` prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadReport {
    /// Answered rightly within the measured time.
    pub requests: u64,
    pub errors: u64,
    /// Open loop: due within the measured time but never sent, since no connection was free.
    pub dropped: u64,
    pub seconds: f64,
    pub requests_per_second: f64,
    /// Bytes of body.
    pub bytes: u64,
    pub handshakes: u64,
    /// Those of them that resumed a session.
    pub resumed: u64,
    pub latency_us: Latency,
    /// Open loop: from the intended start to the sending. It is part of the latency, and where it is not the wait for a free connection,
    /// it is the generator's own doing.
    pub sent_late_us: Latency,
    /// CPU time of each observed process, user and system, per answered request.
    pub cpu_us_per_request: BTreeMap<String, f64>,
    pub first_error: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub max: f64,
}

impl Meter {
    pub fn new(mut observed: Vec<Observed>) -> Meter {
        observed.push(Observed { name: "generator".into(), processes: vec![std::process::id()] });
        Meter {
            phase: Cell::new(Phase::WarmingUp),
            requests: Cell::new(0),
            errors: Cell::new(0),
            dropped: Cell::new(0),
            bytes: Cell::new(0),
            handshakes: Cell::new(0),
            resumed: Cell::new(0),
            latency: RefCell::new(histogram()),
            lateness: RefCell::new(histogram()),
            first_error: RefCell::new(None),
            observed,
            window: RefCell::new(None),
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub fn begin(&self) -> Result<Instant, Error> {
        let cpu_ns = self.read_cpu()?;
        let begin = Instant::now();
        *self.window.borrow_mut() = Some(Window { begin, length: Duration::ZERO, cpu_ns });
        self.phase.set(Phase::Measuring);
        Ok(begin)
    }

    pub fn end(&self) -> Result<(), Error> {
        self.phase.set(Phase::Over);
        let mut window = self.window.borrow_mut();
        let window = window.as_mut().expect("begun before it ends");
        window.length = window.begin.elapsed();
        for (before, after) in window.cpu_ns.iter_mut().zip(self.read_cpu()?) {
            *before = after.saturating_sub(*before);
        }
        Ok(())
    }

    /// A right answer; counted while measuring.
    pub fn record_answer(&self, body_bytes: usize) {
        if self.phase.get() == Phase::Measuring {
            self.requests.set(self.requests.get() + 1);
            self.bytes.set(self.bytes.get() + body_bytes as u64);
        }
    }

    /// In closed loop call it beside [`Meter::record_answer`]; in open loop for each request that was due while measuring.
    pub fn record_latency(&self, latency: Duration) {
        self.latency.borrow_mut().saturating_record(latency.as_nanos() as u64);
    }

    /// In open loop, beside [`Meter::record_latency`].
    pub fn record_lateness(&self, lateness: Duration) {
        self.lateness.borrow_mut().saturating_record(lateness.as_nanos() as u64);
    }

    pub fn record_handshake(&self, resumed: bool) {
        if self.phase.get() == Phase::Measuring {
            self.handshakes.set(self.handshakes.get() + 1);
            self.resumed.set(self.resumed.get() + u64::from(resumed));
        }
    }

    /// Errors count in every phase but after the end: a proxy that fails while warming up is no good either.
    pub fn record_error(&self, error: &dyn std::fmt::Display) {
        if self.phase.get() != Phase::Over {
            self.record_unanswered(error);
        }
    }

    /// Counted in every phase.
    pub fn record_unanswered(&self, error: &dyn std::fmt::Display) {
        self.errors.set(self.errors.get() + 1);
        self.first_error.borrow_mut().get_or_insert_with(|| error.to_string());
    }

    pub fn record_dropped(&self, count: u64) {
        self.dropped.set(self.dropped.get() + count);
    }

    pub fn report(&self) -> Result<LoadReport, Error> {
        let window = self.window.borrow();
        let window = window.as_ref().ok_or("nothing was measured")?;
        let requests = self.requests.get();
        let seconds = window.length.as_secs_f64();
        let per_request = |ns: u64| if requests == 0 { 0.0 } else { ns as f64 / 1000.0 / requests as f64 };
        let names = self.observed.iter().map(|observed| observed.name.clone());
        Ok(LoadReport {
            requests,
            errors: self.errors.get(),
            dropped: self.dropped.get(),
            seconds,
            requests_per_second: requests as f64 / seconds,
            bytes: self.bytes.get(),
            handshakes: self.handshakes.get(),
            resumed: self.resumed.get(),
            latency_us: Latency::of(&self.latency.borrow()),
            sent_late_us: Latency::of(&self.lateness.borrow()),
            cpu_us_per_request: names.zip(window.cpu_ns.iter().map(|ns| per_request(*ns))).collect(),
            first_error: self.first_error.borrow().clone(),
        })
    }

    fn read_cpu(&self) -> Result<Vec<u64>, Error> {
        let read = |observed: &Observed| {
            procfs::cpu_ns(&observed.processes).map_err(|error| format!("CPU time of {}: {error}", observed.name).into())
        };
        self.observed.iter().map(read).collect()
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, SIGNIFICANT_DIGITS).expect("valid bounds")
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Latency {
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |quantile: f64| us(histogram.value_at_quantile(quantile));
        Latency { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max: us(histogram.max()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let meter = Meter::new(Vec::new());
        meter.begin().unwrap();
        for us in 1..=10_000 {
            meter.record_latency(Duration::from_micros(us));
            meter.record_answer(7);
        }
        meter.end().unwrap();
        let report = meter.report().unwrap();
        let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.002, "{value} is not {expected}");
        near(report.latency_us.p50, 5_000.0);
        near(report.latency_us.p90, 9_000.0);
        near(report.latency_us.p99, 9_900.0);
        near(report.latency_us.p99_9, 9_990.0);
        near(report.latency_us.max, 10_000.0);
        assert_eq!((report.requests, report.bytes), (10_000, 70_000));
    }

    #[test]
    fn only_the_measured_phase_counts_answers() {
        let meter = Meter::new(Vec::new());
        meter.record_answer(1);
        meter.record_handshake(true);
        meter.record_error(&"early");
        meter.begin().unwrap();
        meter.record_answer(1);
        meter.record_handshake(true);
        meter.record_handshake(false);
        meter.end().unwrap();
        meter.record_answer(1);
        meter.record_error(&"late");
        let report = meter.report().unwrap();
        assert_eq!((report.requests, report.errors, report.handshakes, report.resumed), (1, 1, 2, 1));
        assert_eq!(report.first_error.as_deref(), Some("early"));
        assert!(report.cpu_us_per_request.contains_key("generator"));
    }

    #[test]
    fn observed_processes_are_parsed() {
        let observed = |name: &str, processes: &[ProcessId]| Ok(Observed { name: name.into(), processes: processes.into() });
        assert_eq!(Observed::parse("proxy=12,13"), observed("proxy", &[12, 13]));
        assert!(Observed::parse("proxy").is_err());
        assert!(Observed::parse("proxy=").is_err());
    }
}
