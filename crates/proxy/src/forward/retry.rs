//! Whether a request that failed is sent again: only what is safe, and only while all of it is still there. How often and where to is in the crate
//! `upstream`.

use super::head::Plan;
use super::{Failed, Replay, Was};
use crate::failure::Failure;
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use std::time::Instant;
use tidegate_balancing::Standing;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};
use tidegate_upstream::fault::Reach;
use tidegate_upstream::pool::WorkerPool;
use tidegate_upstream::retry::{NextTry, REPAIRS_MAX, Tries, first_byte_until, has_another, is_retried, untried};

/// What `Request` remembers of an attempt: what may end it early.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempt {
    /// An answer with a status that is tried again goes to nobody.
    pub may_leave_status: bool,
}

impl<S: Sock> Request<'_, S> {
    /// Settles what may end the attempt that begins.
    pub(super) fn begin_attempt(&mut self, pool: &WorkerPool<S>, route: &CompiledRoute, plan: &Plan, tries: &Tries) {
        self.timeouts = route.timeouts.over(&pool.compiled.model.timeouts);
        let Some(retry) = pool.compiled.retry(route.retry(self.upstream)) else { return };
        let ends_early = plan.idempotent && (!retry.on.statuses.is_empty() || retry.try_timeout.is_some());
        let has_another = ends_early && tries.retries() < usize::from(retry.attempts) && has_another(pool, tries.tried());
        self.attempt.may_leave_status = has_another && !retry.on.statuses.is_empty();
        self.try_until = retry.try_timeout.filter(|_| has_another).map(|limit| rt::now() + limit);
    }

    /// RFC 9110 section 9.2.2: again only what did not reach the server, or does the same when done twice; and only while all of the body
    /// is still there.
    pub(super) fn next_try(
        &self,
        pool: &WorkerPool<S>,
        route: &CompiledRoute,
        Failed { failure, was, position }: Failed,
        plan: &Plan,
        replay: &Replay,
        tries: &mut Tries,
    ) -> NextTry {
        let Failure::Upstream(fault) = failure else { return NextTry::None };
        let is_safe = match fault.reach {
            Reach::NothingSent => true,
            Reach::Sent => plan.idempotent,
            Reach::Answering => false,
        };
        if self.responder.has_started() || !replay.is_whole() || !is_safe {
            return NextTry::None;
        }
        if was.is_race(fault) && tries.repairs < REPAIRS_MAX {
            tries.repairs += 1;
            tries.needs_fresh = (was == Was::Pooled).then_some(position);
            return NextTry::SameServer(position);
        }
        let Some(retry) = pool.compiled.retry(route.retry(self.upstream)) else { return NextTry::None };
        let is_late = self.try_until.is_some_and(|until| rt::now() >= until);
        if !is_retried(retry, fault, is_late) || tries.retries() >= usize::from(retry.attempts) {
            return NextTry::None;
        }
        // The budget is for requests that have somewhere to go; for one that is full they wait.
        let now = rt::now();
        if !untried(pool, tries.tried()).any(|server| server.shared.standing.tier(now) != Standing::Closed) {
            return NextTry::None;
        }
        // An answer by status was counted when it was given up.
        if fault.error != UpstreamError::BadStatus && !self.take_from_budget(pool, retry.budget_percent) {
            return NextTry::None;
        }
        NextTry::Another
    }

    /// Whether the answer that begins is given up for another server's.
    pub(super) fn leaves_status(&self, pool: &WorkerPool<S>, route: &CompiledRoute, is_repeatable: bool) -> bool {
        let status = self.response.status;
        // What began with an interim answer goes on with this server's.
        if !self.attempt.may_leave_status || !is_repeatable || self.responder.has_started() {
            return false;
        }
        let Some(retry) = pool.compiled.retry(route.retry(self.upstream)) else { return false };
        retry.on.statuses.contains(&status) && self.take_from_budget(pool, retry.budget_percent)
    }

    pub(super) fn take_from_budget(&self, pool: &WorkerPool<S>, percent: u8) -> bool {
        let allowed = pool.budget.try_retry(percent, self.since_start(rt::now()));
        if !allowed {
            pool.metrics.retries_refused.increment();
        }
        allowed
    }

    pub(super) fn first_byte_until(&self, sent_at: Instant) -> Instant {
        first_byte_until(sent_at, self.timeouts.first_byte, self.try_until)
    }
}
