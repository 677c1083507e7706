//! Whether a request that failed is sent again: only what is safe, and only while all of it is still there. How often
//! and where to is in the crate `upstream`.

use super::Forwarding;
use super::head::Plan;
use crate::failure::Failure;
use crate::snapshot::CompiledRoute;
use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;
use tidegate_balancing::backoff::longest;
use tidegate_exchange::{Record, unless_gone};
use tidegate_model::{Backoff, Retry};
use tidegate_transport::{Sock, rt};
use tidegate_upstream::pool::WorkerPool;
use tidegate_upstream::retry::{Tries, has_another};

/// What may end an attempt early.
#[derive(Debug, Clone, Copy, Default)]
pub struct EarlyEnd {
    /// An answer with a status that is tried again goes to nobody.
    pub may_leave_status: bool,
}

impl<S: Sock> Forwarding<'_, '_, S> {
    /// Settles what may end the attempt that begins.
    pub(super) fn begin_attempt(&mut self, pool: &WorkerPool<S>, plan: &Plan, tries: &Tries) {
        let mut limit = self.route.timeouts.per_try;
        if let Some(retry) = retry_of(pool, self.route, &self.exchange.record) {
            let has_another = is_followed(retry, pool, plan, tries);
            self.way.attempt.may_leave_status = has_another && !retry.on.statuses.is_empty();
            limit = retry.try_timeout.filter(|_| has_another).into_iter().chain(limit).min();
        }
        self.way.try_until = limit.map(|limit| rt::now() + limit);
    }

    /// Waits before the next attempt, unless the client leaves. False: the request has not that much time.
    pub(super) async fn pause(&mut self, pause: Duration) -> Result<bool, Failure> {
        if self.left() <= pause {
            return Ok(false);
        }
        // Nobody reads the request's body meanwhile.
        unless_gone(&mut self.exchange.responder, &Cell::new(true), pin!(rt::sleep(pause))).await?;
        Ok(true)
    }

    /// Of the time that the request has.
    fn left(&self) -> Duration {
        self.exchange.record.left_of(self.route.timeouts.total)
    }

    /// Whether the answer that begins is given up for another server's.
    pub(super) fn leaves_status(&self, pool: &WorkerPool<S>, is_repeatable: bool) -> bool {
        let status = self.exchange.response.status;
        // What began with an interim answer goes on with this server's.
        if !self.way.attempt.may_leave_status || !is_repeatable || self.exchange.responder.has_started() {
            return false;
        }
        let Some(retry) = retry_of(pool, self.route, &self.exchange.record) else { return false };
        // An answer is better than none for want of time.
        let has_time = |backoff: Backoff| longest(&backoff, self.exchange.record.retries as usize) < self.left();
        retry.on.statuses.contains(&status)
            && retry.backoff.is_none_or(has_time)
            && pool.take_from_budget(retry.budget_percent, self.connection.worker.process.since_start(rt::now()))
    }
}

/// When a request of the route is sent again, as long as there is time for it.
pub(super) fn retry_of<'r, S: Sock>(pool: &'r WorkerPool<S>, route: &'r CompiledRoute, record: &Record) -> Option<&'r Retry> {
    let has_time =
        |retry: &&Retry| retry.within.is_none_or(|within| rt::now().saturating_duration_since(record.started) < within);
    pool.compiled.retry(route.retry(record.arm)).filter(has_time)
}

/// Whether an attempt that ends early can be followed by another one.
fn is_followed<S: Sock>(retry: &Retry, pool: &WorkerPool<S>, plan: &Plan, tries: &Tries) -> bool {
    let ends_early = plan.idempotent && (!retry.on.statuses.is_empty() || retry.try_timeout.is_some());
    let may_repeat = retry.backoff.is_some();
    ends_early && tries.retries() < usize::from(retry.attempts) && (may_repeat || has_another(pool, tries.tried()))
}
