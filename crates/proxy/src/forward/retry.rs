//! Whether a request that failed is sent again: only what is safe, and only while all of it is still there. How often
//! and where to is in the crate `upstream`.

use super::Forwarding;
use super::head::Plan;
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
        let Some(retry) = pool.compiled.retry(self.route.retry(self.exchange.record.arm)) else { return };
        let ends_early = plan.idempotent && (!retry.on.statuses.is_empty() || retry.try_timeout.is_some());
        let has_another = ends_early && tries.retries() < usize::from(retry.attempts) && has_another(pool, tries.tried());
        self.way.attempt.may_leave_status = has_another && !retry.on.statuses.is_empty();
        self.way.try_until = retry.try_timeout.filter(|_| has_another).map(|limit| rt::now() + limit);
    }

    /// Whether the answer that begins is given up for another server's.
    pub(super) fn leaves_status(&self, pool: &WorkerPool<S>, is_repeatable: bool) -> bool {
        let status = self.exchange.response.status;
        // What began with an interim answer goes on with this server's.
        if !self.way.attempt.may_leave_status || !is_repeatable || self.exchange.responder.has_started() {
            return false;
        }
        let Some(retry) = pool.compiled.retry(self.route.retry(self.exchange.record.arm)) else { return false };
        retry.on.statuses.contains(&status)
            && pool.take_from_budget(retry.budget_percent, self.connection.worker.process.since_start(rt::now()))
    }
}
