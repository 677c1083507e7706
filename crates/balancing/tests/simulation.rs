//! Many workers that each decide alone, before servers that take their time: what share of the requests each server
//! gets, and what clients wait. Time is simulated, so no machine is too slow for it. The seed is printed; `SEED=… cargo
//! test -p tidegate-balancing --test simulation` repeats a run.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};
use tidegate_balancing::outlier::{Ejections, Why};
use tidegate_balancing::slow_start::WHOLE_SHARE;
use tidegate_balancing::{Candidate, Draw, HealthStatus, ServerState, choose, mix};
use tidegate_model::{Balance, Outlier};

const WORKERS: [usize; 4] = [1, 2, 8, 32];
/// So many requests that chance alone moves the share of the lightest server by well below the 5 % that are allowed.
const REQUESTS: usize = 60_000;

#[test]
fn equal_servers_get_equal_shares_however_many_workers_decide() {
    for balance in [Balance::P2c, Balance::RoundRobin, Balance::LeastConn, Balance::Random] {
        for workers in WORKERS {
            for latency in [Latency::Constant, Latency::Exponential] {
                for load in LOADS {
                    check_shares(&balance, workers, &[1; 4], latency, load);
                }
            }
        }
    }
}

#[test]
fn weighted_servers_get_shares_by_weight_however_many_workers_decide() {
    for balance in [Balance::P2c, Balance::RoundRobin, Balance::LeastConn, Balance::Random] {
        for workers in WORKERS {
            for weights in [&[1, 2][..], &[1, 2, 3, 4], &[1, 1, 4]] {
                for load in LOADS {
                    check_shares(&balance, workers, weights, Latency::Exponential, load);
                }
            }
        }
    }
}

#[test]
fn a_slow_server_gets_less_and_clients_wait_less_than_with_round_robin() {
    for workers in WORKERS {
        let run = |balance: Balance| {
            let mut simulation = Simulation::new(seed(), workers, &[1; 4], Latency::Exponential);
            simulation.slow = Some(0);
            simulation.run(&balance, REQUESTS, 4.0 * workers as f64)
        };
        let round_robin = run(Balance::RoundRobin);
        for balance in [Balance::P2c, Balance::LeastConn, Balance::Ewma] {
            let seen = run(balance.clone());
            let share = seen.counts[0] as f64 / REQUESTS as f64;
            assert!(share < 0.2, "{balance:?} with {workers} workers: a share of {share} for the slow one of four");
            let (ours, theirs) = (seen.latency_us(99), round_robin.latency_us(99));
            assert!(ours < theirs, "{balance:?} with {workers} workers: p99 {ours} us, with round robin {theirs} us");
        }
    }
}

#[test]
fn a_failing_server_costs_few_requests_each_time_it_is_tried() {
    for workers in WORKERS {
        let mut simulation = Simulation::new(seed(), workers, &[1; 4], Latency::Constant);
        simulation.failing = Some(2);
        let seen = simulation.run(&Balance::P2c, REQUESTS, 4.0 * workers as f64);
        let bound = u64::from(seen.ejections) * u64::from(Outlier::default().failures) * workers as u64;
        assert!(seen.ejections > 0, "{workers} workers: never ejected");
        assert!(seen.failures <= bound, "{workers} workers: {} failures, {} ejections", seen.failures, seen.ejections);
        assert!(seen.failures < REQUESTS as u64 / 20, "{workers} workers: {} failures", seen.failures);
    }
}

/// Workers that all began with the same server would show here: few requests for each, and the shares already right.
#[test]
fn round_robin_is_fair_from_the_first_requests_on() {
    let workers = 512;
    let mut simulation = Simulation::new(seed(), workers, &[1; 4], Latency::Constant);
    let seen = simulation.run(&Balance::RoundRobin, workers * 2, 1.0);
    // Two thirds more than with chance alone would be rare; in step it would be all or nothing.
    assert!(seen.counts.iter().all(|count| (180..=332).contains(count)), "{:?}", seen.counts);
}

/// Requests in flight in the whole process for each server, on average: hardly any, and some for each worker.
const LOADS: [Load; 2] = [Load::Light, Load::Heavy];

#[derive(Debug, Clone, Copy)]
enum Load {
    /// One request in flight in the process.
    Light,
    /// Six requests in flight for each worker.
    Heavy,
}

fn check_shares(balance: &Balance, workers: usize, weights: &[u32], latency: Latency, load: Load) {
    let in_flight = match load {
        Load::Light => 1.0,
        Load::Heavy => 6.0 * workers as f64,
    };
    let seen = Simulation::new(seed(), workers, weights, latency).run(balance, REQUESTS, in_flight);
    let total: u32 = weights.iter().sum();
    for (count, weight) in seen.counts.iter().zip(weights) {
        let ideal = REQUESTS as f64 * f64::from(*weight) / f64::from(total);
        let off = *count as f64 / ideal - 1.0;
        assert!(
            off.abs() <= 0.05,
            "{balance:?}, {workers} workers, {latency:?}, {load:?}: {:?} for {weights:?}, off by {:.1} %",
            seen.counts,
            off * 100.0
        );
    }
}

#[derive(Debug, Clone, Copy)]
enum Latency {
    Constant,
    Exponential,
}

/// What an answer takes on average.
const SERVICE_US: f64 = 10_000.0;
/// How much longer the slow one takes.
const SLOW: f64 = 5.0;

struct Simulation {
    random: SplitMix64,
    start: Instant,
    latency: Latency,
    slow: Option<usize>,
    /// Refuses at once, which is worst: it looks idle.
    failing: Option<usize>,
    servers: Vec<Shared>,
    /// By worker, then by server.
    workers: Vec<Vec<Seen>>,
    ejections: RefCell<Ejections>,
}

/// What all workers know of a server.
#[derive(Default)]
struct Shared {
    out_until: Cell<Option<Duration>>,
}

/// A server as one worker sees it.
struct Seen {
    state: ServerState,
    standing: Cell<HealthStatus>,
    failures_in_row: Cell<u32>,
}

impl Candidate for Seen {
    fn state(&self) -> &ServerState {
        &self.state
    }

    fn health_status(&self, _: Instant) -> HealthStatus {
        self.standing.get()
    }

    fn share(&self, _: Instant) -> u32 {
        WHOLE_SHARE
    }
}

#[derive(Debug)]
struct Outcome {
    counts: Vec<u64>,
    latencies_us: Vec<u64>,
    failures: u64,
    ejections: u32,
}

impl Outcome {
    fn latency_us(&self, percent: usize) -> u64 {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        sorted[sorted.len() * percent / 100]
    }
}

impl Simulation {
    fn new(seed: u64, workers: usize, weights: &[u32], latency: Latency) -> Simulation {
        let mut random = SplitMix64(seed);
        let mut seen = |position: usize, weight: u32| Seen {
            state: ServerState::new(weight, 0, mix(position as u64 + 1), random.next()),
            standing: Cell::new(HealthStatus::Serving),
            failures_in_row: Cell::new(0),
        };
        let mut worker = || weights.iter().enumerate().map(|(position, weight)| seen(position, *weight)).collect();
        let workers = (0..workers).map(|_| worker()).collect();
        Simulation {
            random,
            start: Instant::now(),
            latency,
            slow: None,
            failing: None,
            servers: weights.iter().map(|_| Shared::default()).collect(),
            workers,
            ejections: RefCell::default(),
        }
    }

    /// Requests come at random, so many that `in_flight` are there on average if no server is slow, each to a worker at
    /// random.
    fn run(&mut self, balance: &Balance, requests: usize, in_flight: f64) -> Outcome {
        let mut outcome = Outcome { counts: vec![0; self.servers.len()], latencies_us: Vec::new(), failures: 0, ejections: 0 };
        let mut answers: BinaryHeap<Reverse<(u64, usize, usize, u64)>> = BinaryHeap::new();
        let mut now_us = 0.0;
        for _ in 0..requests {
            now_us += self.random.exponential() * SERVICE_US / in_flight;
            while let Some(Reverse((at_us, worker, server, began_us))) = answers.peek().copied() {
                if at_us as f64 > now_us {
                    break;
                }
                answers.pop();
                self.answer(worker, server, at_us, at_us - began_us, &mut outcome);
            }
            let now = Duration::from_micros(now_us as u64);
            self.bring_back(now);
            let worker = self.random.next() as usize % self.workers.len();
            let random = self.random.next();
            let draw = Draw { key_hash: mix(random), random, now: self.start + now, tried: &[] };
            let chosen = choose(balance, None, &self.workers[worker], draw).expect("there are servers");
            outcome.counts[chosen.position] += 1;
            let in_flight = &self.workers[worker][chosen.position].state.in_flight;
            in_flight.set(in_flight.get() + 1);
            let latency_us = self.service_us(chosen.position);
            outcome.latencies_us.push(latency_us);
            answers.push(Reverse((now_us as u64 + latency_us, worker, chosen.position, now_us as u64)));
        }
        outcome
    }

    fn service_us(&mut self, server: usize) -> u64 {
        if self.failing == Some(server) {
            return 0;
        }
        let mean = if self.slow == Some(server) { SERVICE_US * SLOW } else { SERVICE_US };
        match self.latency {
            Latency::Constant => mean as u64,
            Latency::Exponential => (mean * self.random.exponential()) as u64,
        }
    }

    fn answer(&mut self, worker: usize, server: usize, at_us: u64, latency_us: u64, outcome: &mut Outcome) {
        let now = Duration::from_micros(at_us);
        let seen = &self.workers[worker][server];
        seen.state.in_flight.set(seen.state.in_flight.get() - 1);
        seen.state.latency.observe(Duration::from_micros(latency_us), self.start + now);
        if self.failing != Some(server) {
            return;
        }
        outcome.failures += 1;
        seen.failures_in_row.set(seen.failures_in_row.get() + 1);
        let settings = Outlier::default();
        if seen.failures_in_row.get() < settings.failures || self.servers[server].out_until.get().is_some() {
            return;
        }
        let why = Why::ConsecutiveFailures(seen.failures_in_row.get());
        let ejection = self.ejections.borrow_mut().consider(&settings, server as u64, why, self.servers.len(), now);
        if let Some(ejection) = ejection {
            outcome.ejections += 1;
            self.servers[server].out_until.set(Some(ejection.until));
            self.workers.iter().for_each(|servers| servers[server].standing.set(HealthStatus::Unhealthy));
        }
    }

    /// Servers whose time is over are tried again.
    fn bring_back(&self, now: Duration) {
        for (position, shared) in self.servers.iter().enumerate() {
            if shared.out_until.get().is_some_and(|until| now >= until) {
                shared.out_until.set(None);
                self.ejections.borrow_mut().returned(position as u64, now);
                for servers in &self.workers {
                    servers[position].standing.set(HealthStatus::Serving);
                    servers[position].failures_in_row.set(0);
                }
            }
        }
    }
}

/// Sebastiano Vigna's generator: a counter, mixed.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Mean 1.
    fn exponential(&mut self) -> f64 {
        -(((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64).ln()
    }
}

fn seed() -> u64 {
    const SEED: u64 = 20_260_801;
    let seed = std::env::var("SEED").map_or(SEED, |text| text.parse().expect("SEED is a number"));
    eprintln!("SEED={seed}");
    seed
}
