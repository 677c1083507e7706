//! What becomes of a server by how it does with requests: counted, remembered by how fast it was, left alone for a
//! while when it fails, taken back when it does well. Which failures there are is in `fault`; how long a server is out,
//! in `balancing::outlier`.

use crate::choose::Choice;
use crate::compiled::CompiledPool;
use crate::fault::{UpstreamFault, Was};
use crate::pool::{Server, WorkerPool};
use crate::shared::Permit;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_balancing::Candidate;
use tidegate_balancing::outlier::{Why, out_max};
use tidegate_model::Balance;
use tidegate_telemetry::{EventGate, UpstreamError};
use tidegate_transport::{Sock, rt};

/// How long a server that could not be reached is left alone while others can serve.
const BACK_OFF: Duration = Duration::from_secs(1);
/// The longest pause that a server can ask for with `Retry-After`.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// How many times as long as another server's answer took a server is silent before that counts as a failure of its
/// own.
const HANGS_FACTOR: u32 = 4;
/// Servers that leave and return, which a process logs per second.
static CHANGES: EventGate = EventGate::new(20);

/// One request at one server: counts towards its load, however it ends, and says what it found out.
pub struct Attempt<S: Sock> {
    pool: Rc<WorkerPool<S>>,
    position: u32,
    permit: Option<Permit>,
    /// The server was out, and nothing is known yet.
    finds_out: Cell<bool>,
    so_far: Cell<SoFar>,
}

/// What the server did with the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SoFar {
    Nothing,
    /// The answer began well. Only its end says that the server has not failed, since one that cuts every answer begins
    /// them all.
    Began,
    Failed,
}

impl<S: Sock> Attempt<S> {
    pub fn new(pool: Rc<WorkerPool<S>>, choice: Choice) -> Attempt<S> {
        let count = &pool.servers[choice.position].state().in_flight;
        count.set(count.get() + 1);
        pool.servers[choice.position].own_metrics.in_flight.increment();
        Attempt {
            position: choice.position as u32,
            permit: choice.permit,
            finds_out: Cell::new(choice.finds_out),
            so_far: Cell::new(SoFar::Nothing),
            pool,
        }
    }

    pub fn pool(&self) -> &Rc<WorkerPool<S>> {
        &self.pool
    }

    pub fn position(&self) -> usize {
        self.position as usize
    }

    /// The attempt failed, on a connection that was such a one.
    pub fn note(&self, fault: UpstreamFault, was: Was) {
        self.pool.metrics.error(fault.error);
        if !was.is_race(fault) {
            self.failed_with(fault.error);
        }
    }

    /// Ends the attempt; the request keeps its place.
    pub fn into_permit(mut self) -> Option<Permit> {
        self.permit.take()
    }

    fn server(&self) -> &Rc<Server<S>> {
        &self.pool.servers[self.position()]
    }

    /// An answer began, so long after the request was sent. `rest`: it asks not to be asked again for so long.
    pub fn answered(&self, status: u16, waited: Duration, rest: Option<Duration>) {
        self.server().own_metrics.answered(status);
        self.began(status, waited, rest);
    }

    /// As [`answered`](Self::answered), and nobody has said so in HTTP.
    #[inline]
    fn began(&self, status: u16, waited: Duration, rest: Option<Duration>) {
        let server = self.server();
        server.own_metrics.record_first_byte(waited);
        let model = &self.pool.compiled.model;
        if model.bounds.adaptive.is_some() {
            server.adaptive.observe(waited, server.state().in_flight.get(), rt::now(), &server.shared.usual);
        }
        if model.balance == Balance::Ewma {
            server.state().latency.observe(waited, rt::now());
        }
        if matches!(status, 500 | 502 | 503 | 504) {
            return self.answered_badly(rest);
        }
        self.so_far.set(SoFar::Began);
        // It is in use again from here on: the answer may take hours to end.
        if self.finds_out.take() {
            let (health, now) = (&server.shared.health, rt::now());
            if health.come_back(now) {
                self.pool.compiled.shared.returned(self.identity(), health.elapsed(now));
                self.log_return();
            }
        }
    }

    /// A connection that is passed on has been taken, so long after it was asked for. That is all that is known of such
    /// a server, and it is known now: what follows may take days.
    pub fn connected(&self, waited: Duration) {
        self.began(200, waited, None);
        if self.so_far.replace(SoFar::Nothing) == SoFar::Began {
            self.server().shared.health.served_well();
        }
    }

    #[cold]
    fn answered_badly(&self, rest: Option<Duration>) {
        self.failed();
        if let Some(rest) = rest {
            self.pause(rest.min(BACK_OFF_MAX));
        }
    }

    /// The server asked not to be asked for a while. Not granted when too many others are out already: a pool that is
    /// overloaded as a whole would leave all its requests to its last servers.
    fn pause(&self, pause: Duration) {
        let (health, now) = (&self.server().shared.health, rt::now());
        let (servers, own) = (&self.pool.servers, self.position());
        let others_out =
            servers.iter().enumerate().filter(|(position, server)| *position != own && server.shared.health.is_out()).count();
        let settings = self.pool.compiled.model.outlier.unwrap_or_default();
        if others_out >= out_max(&settings, servers.len()) {
            return;
        }
        let was_out = health.is_out();
        health.pause(now, pause);
        if !was_out && let Some(suppressed) = CHANGES.allow(now) {
            let (pool, server) = (&self.pool.compiled.name, &self.pool.compiled.servers[self.position()].authority);
            let seconds = pause.as_secs();
            tracing::info!(%pool, %server, seconds, suppressed, "a server asks for a pause: others get its requests");
        }
    }

    /// The attempt failed by the server's fault or that of the way to it.
    #[cold]
    fn failed_with(&self, error: UpstreamError) {
        match error {
            UpstreamError::ResolveFailed
            | UpstreamError::ConnectFailed
            | UpstreamError::ConnectTimeout
            | UpstreamError::TlsFailed
            | UpstreamError::TlsRefused => {
                self.failed();
                self.server().shared.health.back_off(rt::now(), BACK_OFF);
            }
            UpstreamError::FirstByteTimeout
            | UpstreamError::IdleTimeout
            | UpstreamError::ClosedEarly
            | UpstreamError::BodyCut
            | UpstreamError::BadResponse
            | UpstreamError::BadWebSocketAccept
            | UpstreamError::HeadTooLarge
            | UpstreamError::Reset
            | UpstreamError::GoAway => self.failed(),
            // Seen when the answer began.
            UpstreamError::BadStatus => {}
            // The server had no part in it.
            UpstreamError::NoServer
            | UpstreamError::EmptyPool
            | UpstreamError::ContainersNotReady
            | UpstreamError::PoolFull
            | UpstreamError::QueueTimeout
            | UpstreamError::TotalTimeout
            | UpstreamError::NoWebSocket
            | UpstreamError::RequestHeadTooLarge
            | UpstreamError::Overloaded => {}
        }
    }

    /// The server was asked first, and the one that was asked after it has answered. `silent` is how long it had said
    /// nothing by then, `other` what the other took. A server that hangs would never fail otherwise, since no request
    /// waits for its end; one that is only a little slower has done nothing wrong.
    pub fn overtaken(&self, silent: Duration, other: Duration) {
        if silent >= other.saturating_mul(HANGS_FACTOR) {
            self.failed();
        }
    }

    fn failed(&self) {
        let server = self.server();
        self.so_far.set(SoFar::Failed);
        server.own_metrics.failures.increment();
        let Some(outlier) = &self.pool.compiled.model.outlier else { return self.forget_probe() };
        let health = &server.shared.health;
        let count = health.failed();
        let was_probe = self.finds_out.take();
        // Who was out for its failures and fails again goes at once, and for longer; who only could not be reached a
        // moment ago has its row of failures.
        if count < outlier.failures && !(was_probe && health.is_ejected()) {
            if was_probe {
                health.found_nothing_out();
            }
            return;
        }
        let now = health.elapsed(rt::now());
        let (why, servers) = (Why::ConsecutiveFailures(count), self.pool.servers.len());
        match self.pool.compiled.shared.eject(outlier, self.identity(), why, servers, now) {
            Some(ejection) => {
                health.eject(ejection.until, why);
                let left = ejection.until.saturating_sub(now);
                log_ejection(&self.pool.compiled, &self.pool.compiled.servers[self.position()].authority, why, left);
            }
            None if was_probe => health.found_nothing_out(),
            None => {}
        }
    }

    fn forget_probe(&self) {
        if self.finds_out.take() {
            self.server().shared.health.found_nothing_out();
        }
    }

    fn identity(&self) -> u64 {
        self.pool.compiled.servers[self.position()].identity
    }

    #[cold]
    fn log_return(&self) {
        if let Some(suppressed) = CHANGES.allow(Instant::now()) {
            let (pool, server) = (&self.pool.compiled.name, &self.pool.compiled.servers[self.position()].authority);
            tracing::info!(%pool, %server, suppressed, "a server is in use again: it answered well");
        }
    }
}

/// One line for each server that is left, and why.
#[cold]
pub fn log_ejection(pool: &CompiledPool, server: &str, why: Why, left: Duration) {
    if let Some(suppressed) = CHANGES.allow(Instant::now()) {
        let (pool, origin) = (&pool.name, pool.shown_origin());
        tracing::warn!(%pool, origin, server, %why, tried_again_in_seconds = left.as_secs_f64().ceil(), suppressed, "a server is out of use");
    }
}

impl<S: Sock> Drop for Attempt<S> {
    fn drop(&mut self) {
        let count = &self.server().state().in_flight;
        count.set(count.get() - 1);
        self.server().own_metrics.in_flight.decrement();
        self.forget_probe();
        if self.so_far.get() == SoFar::Began {
            self.server().shared.health.served_well();
        }
        // Its place is free with it.
        self.permit.take();
    }
}
