//! Which server a request goes to: the one its client belongs to, else by balance; and waiting in the queue where all
//! that could serve it have as many requests as they may. How a server of a pool is chosen is in the crate `upstream`.

use super::Forwarding;
use crate::failure::Failure;
use crate::surroundings::{context, key_hash};
use crate::worker::Worker;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_balancing::Draw;
use tidegate_exchange::{Exchange, unless_gone};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};
use tidegate_upstream::awaited::wait_for_server;
use tidegate_upstream::choose::{Choice, NoChoice, choose_at, own_server, unserved};
use tidegate_upstream::fault::UpstreamFault;
use tidegate_upstream::pool::{Queued, WorkerPool};

/// How often a request in the queue looks itself whether a server has come into use.
const QUEUE_POLL: Duration = Duration::from_millis(100);

impl<S: Sock> Forwarding<'_, '_, S> {
    /// Without waiting. A permit that somebody in the queue was called to is theirs. One that is free with nobody
    /// called is of no use to those in the queue: they belong to other servers, have tried that one, or live in workers
    /// that may not send it more.
    pub(super) fn choose_server(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Result<Choice, NoChoice> {
        if pool.compiled.counts_requests && pool.compiled.shared.queue.is_called() {
            return Err(NoChoice::Full);
        }
        let now = if tried.is_empty() { self.exchange.record.started } else { rt::now() };
        self.choose_at(pool, tried, now)
    }

    fn choose_at(&self, pool: &WorkerPool<S>, tried: &[usize], now: Instant) -> Result<Choice, NoChoice> {
        let draw = Draw { key_hash: self.key_hash(pool), random: self.connection.worker.random(), now, tried };
        choose_at(pool, self.own_server(pool), draw)
    }

    /// The server that the client's cookie names.
    pub(super) fn own_server(&self, pool: &WorkerPool<S>) -> Option<usize> {
        own_server(pool, &self.exchange.head)
    }

    fn key_hash(&self, pool: &WorkerPool<S>) -> u64 {
        if pool.compiled.hash.is_none() {
            return 0;
        }
        key_hash(
            pool,
            &context(
                self.connection,
                self.way.pool.as_deref(),
                &self.exchange.record,
                self.exchange.client_ip,
                self.exchange.hop.upgrade,
            ),
            &self.exchange.head,
        )
    }

    /// Waits until a server may be reached again, unless the client leaves.
    pub(super) async fn wait_for_server(&mut self, pool: &mut Rc<WorkerPool<S>>, until: Instant) -> Result<bool, Failure> {
        let since_start = self.connection.worker.process.since_start(rt::now());
        let waited = {
            let waiting = wait_for_server(pool, until, since_start);
            // Nobody reads the request's body meanwhile.
            unless_gone(&mut self.exchange.responder, &Cell::new(true), pin!(waiting)).await?
        };
        if let Some(newer) = self.connection.worker.newer_pool(pool) {
            *pool = newer;
        }
        Ok(waited)
    }

    /// Waits in the queue, unless the client leaves.
    pub(super) async fn wait_for_permit(&mut self, pool: &mut Rc<WorkerPool<S>>, tried: &[usize]) -> Result<Choice, Failure> {
        let connection = self.connection;
        let Exchange { head, record, client_ip, hop, responder, .. } = &mut *self.exchange;
        let waited = Cell::new(None);
        let choice = {
            let (head, record, client_ip, upgrade) = (&*head, &*record, *client_ip, hop.upgrade);
            let choose = |pool: &WorkerPool<S>| {
                let key_hash = || key_hash(pool, &context(connection, None::<&WorkerPool<S>>, record, client_ip, upgrade), head);
                let key_hash = if pool.compiled.hash.is_none() { 0 } else { key_hash() };
                let draw = Draw { key_hash, random: connection.worker.random(), now: rt::now(), tried };
                choose_at(pool, own_server(pool, head), draw)
            };
            let waiting = wait_in_queue(&connection.worker, pool, tried, choose, &waited);
            // Nobody reads the request's body meanwhile, so nobody else would notice that its client has left.
            unless_gone(responder, &Cell::new(true), pin!(waiting)).await
        };
        if let Some(waited) = waited.get() {
            self.exchange.record.queued(waited);
        }
        Ok(choice??)
    }
}

/// Waits in the queue until a server has a permit, for `queue-timeout` at most. A pool that gets other servers
/// meanwhile is taken for the one before, as long as none of its servers was tried. `waited` is set where a place in
/// the queue was had to the end.
pub(super) async fn wait_in_queue<S: Sock>(
    worker: &Worker<S>,
    pool: &mut Rc<WorkerPool<S>>,
    tried: &[usize],
    choose: impl Fn(&WorkerPool<S>) -> Result<Choice, NoChoice>,
    waited: &Cell<Option<Duration>>,
) -> Result<Choice, UpstreamFault> {
    let shared = pool.compiled.shared.clone();
    let bounds = pool.compiled.model.bounds;
    let until = rt::now() + bounds.queue_timeout;
    let Some(ticket) = shared.queue.join(worker.index, bounds.queue) else {
        pool.metrics.queue_refused.increment();
        return Err(unserved(pool, UpstreamError::PoolFull));
    };
    let queued = Queued::new(&pool.metrics);
    let mut is_called = false;
    loop {
        if tried.is_empty()
            && let Some(newer) = worker.newer_pool(pool)
        {
            *pool = newer;
            is_called = true;
        }
        if is_called || ticket.is_first() {
            match choose(pool) {
                Ok(choice) => {
                    waited.set(Some(queued.waited()));
                    return Ok(choice);
                }
                Err(NoChoice::NoServer) => return Err(unserved(pool, UpstreamError::NoServer)),
                // What is free is of no use to this one, which belongs to another server: those behind it are asked.
                Err(NoChoice::Full) if is_called => ticket.pass_on(),
                Err(NoChoice::Full) => {}
            }
        }
        let left = until.saturating_duration_since(rt::now());
        if left.is_zero() {
            waited.set(Some(queued.waited()));
            return Err(unserved(pool, UpstreamError::QueueTimeout));
        }
        is_called = rt::timeout(left.min(QUEUE_POLL), ticket.wait()).await.is_some();
    }
}
