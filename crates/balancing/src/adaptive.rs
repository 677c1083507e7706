//! A bound of requests in flight that is learnt from latency: while answers take about as long as they usually do it
//! grows, when they take longer requests are queueing at the server and it shrinks. After the Gradient2 limit of
//! Netflix's concurrency-limits, with time in place of counts. What happens to requests beyond the bound is decided
//! elsewhere.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tidegate_model::Adaptive;

/// Where a bound begins, before anything is known.
const BEGIN: f64 = 20.0;
/// A window is judged when it has this many answers and this age,
const WINDOW_ANSWERS: u32 = 20;
const WINDOW_LEAST: Duration = Duration::from_millis(100);
/// or, with fewer answers, this age.
const WINDOW_MOST: Duration = Duration::from_secs(1);
/// What usual means: differences in the usual latency have shrunk to 37 % after so long.
const USUAL_SECONDS: f64 = 60.0;
/// In each window in which answers come at less than half their usual time, the usual time falls by so much: it was
/// learnt in bad times.
const USUAL_FALL: f64 = 0.95;
/// Latency may be so many times the usual one before the bound shrinks.
const TOLERANCE: f64 = 1.5;
/// A window takes the bound down to this part of it at most, before smoothing.
const GRADIENT_LEAST: f64 = 0.5;
/// The weight of the newest window in the bound.
const SMOOTHING: f64 = 0.2;
/// No latency counts as less.
const SECONDS_LEAST: f64 = 0.000_001;

/// The usual latency of a server as the worker that judged it last knows it. A worker that begins under load would take
/// what it sees for usual, although others know better.
#[derive(Debug, Default)]
pub struct Usual(AtomicU64);

impl Usual {
    /// Seconds; `None` as long as nobody knows.
    fn get(&self) -> Option<f64> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != 0).then(|| f64::from_bits(bits))
    }

    fn set(&self, seconds: f64) {
        self.0.store(seconds.to_bits(), Ordering::Relaxed);
    }
}

/// The learnt bound of one server.
#[derive(Debug)]
pub struct Limit {
    settings: Cell<Adaptive>,
    bound: Cell<f64>,
    /// The usual latency in seconds, and when it was last judged.
    usual: Cell<Option<(f64, Instant)>>,
    window: Cell<Option<Window>>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    since: Instant,
    answers: u32,
    seconds: f64,
    in_flight_most: u32,
}

impl Limit {
    pub fn new(settings: Adaptive) -> Limit {
        let limit =
            Limit { settings: Cell::new(settings), bound: Cell::new(BEGIN), usual: Cell::new(None), window: Cell::new(None) };
        limit.set(BEGIN);
        limit
    }

    /// A change of the configuration: what was learnt stays, within the new bounds.
    pub fn set_bounds(&self, settings: Adaptive) {
        if self.settings.get() != settings {
            self.settings.set(settings);
            self.set(self.bound.get());
        }
    }

    /// How many requests may be in flight; between `least` and `most`, and at least one.
    pub fn now(&self) -> u32 {
        self.bound.get().round() as u32
    }

    /// An answer came after `latency`; `in_flight` requests were with the server then, that one included.
    /// `usual` is what all workers share of that server.
    pub fn observe(&self, latency: Duration, in_flight: u32, now: Instant, usual: &Usual) {
        let fresh = Window { since: now, answers: 0, seconds: 0.0, in_flight_most: 0 };
        let mut window = self.window.get().unwrap_or(fresh);
        window.answers += 1;
        window.seconds += latency.as_secs_f64();
        window.in_flight_most = window.in_flight_most.max(in_flight);
        let age = now.saturating_duration_since(window.since);
        if (age >= WINDOW_LEAST && window.answers >= WINDOW_ANSWERS) || age >= WINDOW_MOST {
            self.judge(window, now, usual);
            self.window.set(None);
        } else {
            self.window.set(Some(window));
        }
    }

    fn judge(&self, window: Window, now: Instant, shared: &Usual) {
        let seconds = (window.seconds / f64::from(window.answers)).max(SECONDS_LEAST);
        let usual = self.learn_usual(seconds, now, shared.get());
        shared.set(usual);
        let gradient = (TOLERANCE * usual / seconds).clamp(GRADIENT_LEAST, 1.0);
        let bound = self.bound.get();
        if gradient >= 1.0 && f64::from(window.in_flight_most) < bound / 2.0 {
            // Nobody asked for more, so nothing is known about more.
            return;
        }
        // Room for a short queue, or the bound could never be found to be too small; none when answers take far too
        // long.
        let queue = bound.sqrt() * (gradient - GRADIENT_LEAST) / (1.0 - GRADIENT_LEAST);
        self.set(bound * (1.0 - SMOOTHING) + (bound * gradient + queue) * SMOOTHING);
    }

    /// Takes the latency of a window into the usual one.
    fn learn_usual(&self, seconds: f64, now: Instant, known_by_others: Option<f64>) -> f64 {
        let usual = match self.usual.get() {
            None => known_by_others.map_or(seconds, |known| known.min(seconds)),
            Some((usual, _)) if usual > 2.0 * seconds => usual * USUAL_FALL,
            Some((usual, at)) => {
                let kept = (-now.saturating_duration_since(at).as_secs_f64() / USUAL_SECONDS).exp();
                seconds + (usual - seconds) * kept
            }
        };
        self.usual.set(Some((usual, now)));
        usual
    }

    fn set(&self, bound: f64) {
        let least = f64::from(self.settings.get().least.max(1));
        self.bound.set(bound.clamp(least, f64::from(self.settings.get().most).max(least)));
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, Usual};
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    use std::time::{Duration, Instant};
    use tidegate_model::Adaptive;

    /// A server with `capacity` places, each taking `service_ms` for a request, and clients that always have more
    /// requests than the limit lets through.
    struct Simulated {
        limit: Limit,
        usual: Usual,
        start: Instant,
        now_us: u64,
        /// When requests end, and when they began.
        in_flight: BinaryHeap<Reverse<(u64, u64)>>,
        /// When each place is free again.
        places: BinaryHeap<Reverse<u64>>,
    }

    impl Simulated {
        fn new(settings: Adaptive, capacity: usize) -> Simulated {
            let places = std::iter::repeat_n(Reverse(0), capacity).collect();
            Simulated {
                limit: Limit::new(settings),
                usual: Usual::default(),
                start: Instant::now(),
                now_us: 0,
                in_flight: BinaryHeap::new(),
                places,
            }
        }

        /// Goes on for so long; at most `wanted` requests are there at a time.
        fn run(&mut self, seconds: u64, service_ms: u64, wanted: usize) -> u32 {
            let end = self.now_us + seconds * 1_000_000;
            while self.now_us < end {
                while self.in_flight.len() < wanted.min(self.limit.now() as usize) {
                    let Reverse(free) = self.places.pop().expect("places");
                    let done = free.max(self.now_us) + service_ms * 1000;
                    self.places.push(Reverse(done));
                    self.in_flight.push(Reverse((done, self.now_us)));
                }
                let Some(Reverse((done, began))) = self.in_flight.pop() else { break };
                self.now_us = done;
                let now = self.start + Duration::from_micros(done);
                self.limit.observe(Duration::from_micros(done - began), self.in_flight.len() as u32 + 1, now, &self.usual);
            }
            self.limit.now()
        }
    }

    const SETTINGS: Adaptive = Adaptive { least: 4, most: 1000 };

    #[test]
    fn the_bound_finds_what_a_server_can_do() {
        let bound = Simulated::new(SETTINGS, 50).run(60, 10, 2000);
        assert!((50..=150).contains(&bound), "{bound}");
        let bound = Simulated::new(SETTINGS, 400).run(60, 10, 2000);
        assert!((400..=1000).contains(&bound), "{bound}");
    }

    #[test]
    fn a_slow_server_shrinks_the_bound_within_seconds_and_it_recovers() {
        let mut server = Simulated::new(SETTINGS, 50);
        let usual = server.run(60, 10, 2000);
        let slow = server.run(8, 100, 2000);
        assert!(slow <= SETTINGS.least + 1, "{slow}");
        let recovered = server.run(20, 10, 2000);
        assert!(recovered >= usual / 2, "{recovered} after {usual}");
    }

    #[test]
    fn a_worker_that_begins_under_load_believes_the_others() {
        let mut first = Simulated::new(SETTINGS, 4);
        first.run(5, 20, 3);
        let mut second = Simulated::new(SETTINGS, 4);
        second.usual = first.usual;
        let bound = second.run(10, 20, 2000);
        assert!(bound <= 12, "{bound}");
    }

    #[test]
    fn it_grows_only_when_it_is_used() {
        let check = |wanted: usize, expected: std::ops::RangeInclusive<u32>| {
            let bound = Simulated::new(SETTINGS, 500).run(30, 10, wanted);
            assert!(expected.contains(&bound), "{wanted} wanted: {bound}");
        };
        check(5, 20..=20);
        check(50, 50..=101);
        check(5000, 400..=1000);
    }

    #[test]
    fn it_stays_between_least_and_most() {
        let check = |least: u32, most: u32, service_ms: u64, expected: u32| {
            let mut server = Simulated::new(Adaptive { least, most }, 1000);
            server.run(20, service_ms, 5000);
            assert_eq!(server.limit.now(), expected, "{least} to {most}");
        };
        check(4, 60, 10, 60);
        check(30, 30, 10, 30);
        check(50, 10, 10, 50);
        assert_eq!(Limit::new(Adaptive { least: 0, most: 0 }).now(), 1);
    }

    #[test]
    fn any_latency_is_taken() {
        let start = Instant::now();
        let (limit, usual) = (Limit::new(SETTINGS), Usual::default());
        for round in 0..10_000_u64 {
            let latency = [Duration::ZERO, Duration::from_secs(1 << 40), Duration::from_nanos(round)][round as usize % 3];
            let now = start + Duration::from_millis(round * 7 % 50_000);
            limit.observe(latency, (round % 700) as u32, now, &usual);
            assert!((4..=1000).contains(&limit.now()), "{}", limit.now());
        }
    }
}
