//! What the choice knows of one server: numbers that one worker keeps, and where the server stands for everybody.
//! How a server got to its standing is decided in `outlier` and by who asks after its health.

use crate::latency::PeakEwma;
use crate::slow_start::WHOLE_SHARE;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;
use tidegate_model::Server;

/// What the choice depends on, for one server of one worker.
#[derive(Debug)]
pub struct ServerState {
    /// 1 to 256. A change of the configuration may give it another.
    pub weight: Cell<u32>,
    /// The lowest number is used first.
    pub priority: Cell<u8>,
    /// Whether the server stands in the zone of this proxy, or zones are not in use.
    pub is_local: Cell<bool>,
    /// Identity for `hash`: the same server keeps its keys whatever its position.
    pub identity_hash: u64,
    /// Requests of this worker that are with the server now.
    pub in_flight: Cell<u32>,
    /// Of the answers that this worker saw.
    pub latency: PeakEwma,
    /// Where in a round this worker's round robin begins, should the server be the first of its tier.
    phase: u64,
    /// Smooth weighted round robin: grows by the weight each round, the winner pays the total. `None` before the first
    /// round.
    credit: Cell<Option<i64>>,
}

impl ServerState {
    /// `phase` is uniformly random: without it the workers of a process would take the servers in step, each the same
    /// one first.
    pub fn new(weight: u32, priority: u8, identity_hash: u64, phase: u64) -> ServerState {
        ServerState {
            weight: Cell::new(weight),
            priority: Cell::new(priority),
            is_local: Cell::new(true),
            identity_hash,
            in_flight: Cell::new(0),
            latency: PeakEwma::default(),
            phase,
            credit: Cell::new(None),
        }
    }

    /// One round of smooth weighted round robin in which all that take part earn `total`; gives the new credit.
    ///
    /// A credit beyond two totals is left from other weights, and would take as many rounds to wear off.
    pub(crate) fn earn(&self, weight: u64, total: u64) -> i64 {
        let (weight, total) = (weight as i64, total as i64);
        let credit = (self.credit.get().unwrap_or(0) + weight).clamp(-2 * total, 2 * total);
        self.credit.set(Some(credit));
        credit
    }

    /// Whether a turn was ever counted here.
    pub(crate) fn has_had_turns(&self) -> bool {
        self.credit.get().is_some()
    }

    /// The turn to begin with, of so many.
    pub(crate) fn first_turn(&self, turns: u64) -> u64 {
        ((u128::from(self.phase) * u128::from(turns)) >> 64) as u64
    }

    pub(crate) fn pay(&self, total: u64) {
        self.credit.set(self.credit.get().map(|credit| credit - total as i64));
    }
}

/// Where a server stands for all workers; the first is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    Serving,
    /// No check has asked the server yet.
    Unknown,
    /// Down or ejected: only when nothing else is left.
    Unhealthy,
    /// Drained, leaving or full: never.
    Closed,
}

pub trait Candidate {
    fn state(&self) -> &ServerState;

    fn health_status(&self, now: Instant) -> HealthStatus;

    /// How much of its weight counts, in 1/256: less than 256 while it starts slowly.
    fn share(&self, now: Instant) -> u32;
}

impl<C: Candidate> Candidate for Rc<C> {
    #[inline]
    fn state(&self) -> &ServerState {
        C::state(self)
    }

    #[inline]
    fn health_status(&self, now: Instant) -> HealthStatus {
        C::health_status(self, now)
    }

    #[inline]
    fn share(&self, now: Instant) -> u32 {
        C::share(self, now)
    }
}

/// The weight that counts now, in 1/256: 1 to 65,536.
#[inline]
pub(crate) fn weight_now(candidate: &impl Candidate, now: Instant) -> u64 {
    let weight = candidate.state().weight.get().clamp(1, Server::WEIGHT_MAX);
    u64::from(weight) * u64::from(candidate.share(now).clamp(1, WHOLE_SHARE))
}
