//! A pool as one worker has it: its servers with their open connections, the last used first, and what was learnt about
//! how long a server keeps an idle connection. Which server to take is decided in `balancing`; how a connection is
//! opened, in `connect`.

use crate::compiled::{CompiledPool, CompiledServer, UpstreamTlsConfigs};
use crate::connect::h2::H2Connections;
use crate::connect::lifespan::Lifespan;
use crate::connect::{AGE_LEAST, Warming};
use crate::connect::{Client, Fresh, Owner, log_given_up, serves};
use crate::fault::Was;
use crate::shared::{OpenSlot, PoolShared, ServerShared};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_balancing::retry_budget::RetryBudget;
use tidegate_balancing::{Candidate, HealthStatus, ServerState, adaptive, mix, slow_start};
use tidegate_model::{Bounds, KeepAlive};
use tidegate_telemetry::{PoolMetrics, Registry, ServerMetrics, UpstreamTime, WorkerMetrics};
use tidegate_transport::memory::TakenShare;
use tidegate_transport::rt::Signal;
use tidegate_transport::{Sock, Stream, rt};

/// What is learnt never goes below this: a connection that is used at once is always worth keeping.
const IDLE_LEAST: Duration = Duration::from_millis(5);

pub struct WorkerPool<S: Sock> {
    pub compiled: Arc<CompiledPool>,
    pub servers: Vec<Rc<Server<S>>>,
    pub metrics: Arc<PoolMetrics>,
    /// How many requests may be sent again.
    pub budget: Rc<RetryBudget>,
    pub copies: Rc<CopyPlaces>,
}

/// Copies of requests that are made for a pool. Two bounds of the same size: bodies that arrive slowly must not keep
/// out what could be sent at once.
#[derive(Debug, Default)]
pub struct CopyPlaces {
    /// Whose body is not whole yet.
    pub arriving: Cell<u32>,
    pub sending: Cell<u32>,
}

/// Whose pool it is.
#[derive(Clone, Copy)]
pub struct Of<'w> {
    pub worker: usize,
    pub registry: &'w Registry,
    /// Uniform bits: workers that begin in step would take the servers in step.
    pub random: u64,
}

impl<S: Sock> WorkerPool<S> {
    /// `before` is the pool of the same name in the snapshot before. Servers that stay keep their connections and what
    /// was learnt about them; of those that left the idle connections are closed, and the others end with the requests
    /// on them.
    pub fn new(compiled: Arc<CompiledPool>, before: Option<&WorkerPool<S>>, of: Of<'_>) -> WorkerPool<S> {
        let name = &compiled.name.0;
        let metrics = before.map_or_else(|| of.registry.pool(of.worker, name), |before| before.metrics.clone());
        let places: HashMap<&str, usize> = before
            .iter()
            .flat_map(|before| before.compiled.servers.iter().enumerate())
            .map(|(position, server)| (&*server.authority, position))
            .collect();
        let servers: Vec<_> = compiled
            .servers
            .iter()
            .map(|server| {
                let known = before.and_then(|before| {
                    let position = *places.get(&*server.authority)?;
                    let terms_before = &before.compiled.servers[position];
                    is_same((terms_before, &before.compiled), (server, &compiled))
                        .then(|| (&before.servers[position], terms_before))
                });
                let Some((known, terms_before)) = known else {
                    let fresh = Rc::new(Server::new(server, &compiled, &metrics, of));
                    fresh.take_terms(server, &compiled);
                    fresh.keep_idle_for(compiled.model.keep_alive.idle);
                    return fresh;
                };
                known.take_terms(server, &compiled);
                // Connections are made to any of a server's addresses: when one of them is gone, so may be what they
                // lead to.
                if terms_before.addresses.tcp().iter().any(|address| !server.addresses.tcp().contains(address)) {
                    known.let_connections_go();
                }
                known.keep_idle_for(compiled.model.keep_alive.idle);
                known.clone()
            })
            .collect();
        if let Some(before) = before {
            let kept: HashSet<*const Server<S>> = servers.iter().map(Rc::as_ptr).collect();
            before.servers.iter().filter(|known| !kept.contains(&Rc::as_ptr(known))).for_each(|gone| gone.leave());
        }
        let budget = before.map_or_else(Rc::default, |before| before.budget.clone());
        let copies = before.map_or_else(Rc::default, |before| before.copies.clone());
        WorkerPool { compiled, servers, metrics, budget, copies }
    }

    /// Whether the budget has one more retry; `since_start` is the time of the process.
    pub fn take_from_budget(&self, percent: u8, since_start: Duration) -> bool {
        let allowed = self.budget.try_retry(percent, since_start);
        if !allowed {
            self.metrics.retries_refused.increment();
        }
        allowed
    }

    /// An attempt is made at the server at that position, whether a connection comes of it or not.
    #[inline]
    pub fn count_request(&self, position: usize) {
        self.metrics.requests.increment();
        self.servers[position].own_metrics.requests.increment();
    }

    /// The pool is not in the configuration any more.
    pub fn leave(&self) {
        self.servers.iter().for_each(|server| server.leave());
    }
}

/// Counts a request in the queue, and how long it is there.
pub struct Queued {
    metrics: Arc<PoolMetrics>,
    since: Instant,
}

impl Queued {
    pub fn new(metrics: &Arc<PoolMetrics>) -> Queued {
        metrics.queued.increment();
        Queued { metrics: metrics.clone(), since: rt::now() }
    }

    pub fn waited(&self) -> Duration {
        rt::now().saturating_duration_since(self.since)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.metrics.queued.decrement();
        self.metrics.record(UpstreamTime::Queue, self.waited());
    }
}

/// What the configuration says of a server, as far as its choice depends on it.
#[derive(Debug, Default)]
struct ChoiceTerms {
    /// Nothing below has a say: one look for each server and request.
    are_plain: Cell<bool>,
    slow_start: Cell<Duration>,
    bounds: Cell<Bounds>,
    has_address: Cell<bool>,
}

impl ChoiceTerms {
    fn set(&self, slow_start: Duration, bounds: Bounds, has_address: bool) {
        self.are_plain.set(slow_start.is_zero() && !bounds.counts_requests() && has_address);
        self.slow_start.set(slow_start);
        self.bounds.set(bounds);
        self.has_address.set(has_address);
    }
}

/// One server of one worker.
pub struct Server<S: Sock> {
    state: ServerState,
    idle: RefCell<VecDeque<Idle<S>>>,
    /// Connections idle for longer than this are not used any more: the server is likely to be closing them.
    idle_max: Cell<Duration>,
    /// The pool's setting, which what is learnt never exceeds.
    idle_most: Cell<Duration>,
    /// Idle connections that this worker keeps.
    kept_max: Cell<usize>,
    pub h2: H2Connections,
    pub shared: Arc<ServerShared>,
    pool_shared: Arc<PoolShared>,
    terms: ChoiceTerms,
    /// What was learnt of how many requests it can have in flight; looked at where the pool asks for that.
    pub adaptive: adaptive::Limit,
    worker: usize,
    pub own_metrics: Arc<ServerMetrics>,
    pub warming: Warming,
    /// The position among the addresses to try first.
    pub address_turn: Cell<usize>,
    /// Set once the server is in no pool any more: nothing is kept for it, and nobody waits for a connection to it.
    gone: Signal,
    metrics: Arc<PoolMetrics>,
}

/// What is idle is counted until it is closed, also when a worker ends or an old configuration is given up.
impl<S: Sock> Drop for Server<S> {
    fn drop(&mut self) {
        self.metrics.connections_idle.add(-(self.idle.borrow().len() as i64));
    }
}

/// Whether connections made for a server serve it as it is now.
fn is_same((before, pool_before): (&CompiledServer, &CompiledPool), (now, pool): (&CompiledServer, &CompiledPool)) -> bool {
    before.authority == now.authority
        && before.tls_name == now.tls_name
        && same_tls(pool_before.tls.as_ref(), pool.tls.as_ref())
        && pool_before.model.protocol == pool.model.protocol
        && pool_before.model.send_proxy_protocol == pool.model.send_proxy_protocol
}

/// The same trust, and the same sessions to resume: a renewed CA file makes other configurations under the same
/// settings.
fn same_tls(before: Option<&UpstreamTlsConfigs>, now: Option<&UpstreamTlsConfigs>) -> bool {
    match (before, now) {
        (None, None) => true,
        (Some(before), Some(now)) => Arc::ptr_eq(&before.any, &now.any),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// A connection to a server that has one request at a time: of HTTP/1.1, of FastCGI, or bare.
///
/// Boxed once for its whole life: it moves into and out of the pool with every request.
pub struct H1Connection<S: Sock> {
    pub stream: Stream<S>,
    /// An exchange is on it: dropped now it is reset, so that its server sees at once that nobody wants the answer, and
    /// its port is free. Ended in the ordinary way the port would be kept for a minute, and clients that went away in
    /// their thousands had the kernel look for a free one among all of those.
    pub is_in_exchange: Cell<bool>,
    /// How long it had been idle when it was taken; `None` for a fresh one.
    pub idle_before: Option<Duration>,
    _slot: OpenSlot,
    lifespan: Lifespan,
    /// Where connections are not shared by clients.
    owner: Option<Box<Owner>>,
    _taken: TakenShare,
}

/// What a connection to a server takes of memory while nothing is on its way.
const CONNECTION_BYTES: usize = 4 << 10;

struct Idle<S: Sock> {
    connection: Box<H1Connection<S>>,
    since: Instant,
    /// Opened in advance, and nothing was sent on it yet.
    is_unused: bool,
}

impl<S: Sock> Candidate for Server<S> {
    #[inline]
    fn state(&self) -> &ServerState {
        &self.state
    }

    #[inline]
    fn health_status(&self, now: Instant) -> HealthStatus {
        let standing = self.shared.health.tier(now);
        if self.terms.are_plain.get() {
            return standing;
        }
        if standing == HealthStatus::Serving && !self.terms.has_address.get() {
            return HealthStatus::Unhealthy;
        }
        let bounds = self.terms.bounds.get();
        if bounds.counts_requests() && self.is_full(&bounds) { HealthStatus::Closed } else { standing }
    }

    #[inline]
    fn share(&self, now: Instant) -> u32 {
        if self.terms.are_plain.get() {
            return slow_start::WHOLE_SHARE;
        }
        let slow_start = self.terms.slow_start.get();
        if slow_start.is_zero() { slow_start::WHOLE_SHARE } else { self.shared.health.share(slow_start, now) }
    }
}

impl<S: Sock> H1Connection<S> {
    /// What it was before the request that is on it.
    #[inline]
    pub fn was(&self) -> Was {
        if self.idle_before.is_some() { Was::Pooled } else { Was::Fresh }
    }

    pub fn fresh(fresh: Fresh<S>) -> Box<H1Connection<S>> {
        let Fresh { stream, slot, lifespan, owner } = fresh;
        Box::new(H1Connection {
            stream,
            is_in_exchange: Cell::new(false),
            idle_before: None,
            _slot: slot,
            lifespan,
            owner,
            _taken: TakenShare::new(CONNECTION_BYTES),
        })
    }
}

impl<S: Sock> Drop for H1Connection<S> {
    fn drop(&mut self) {
        if self.is_in_exchange.get() {
            self.stream.sock.reset_when_closed();
        }
    }
}

impl<S: Sock> Server<S> {
    fn new(compiled: &CompiledServer, pool: &CompiledPool, metrics: &Arc<PoolMetrics>, of: Of<'_>) -> Server<S> {
        Server {
            state: ServerState::new(
                compiled.model.weight,
                compiled.model.priority,
                compiled.identity,
                mix(of.random ^ compiled.identity),
            ),
            idle: RefCell::default(),
            idle_max: Cell::new(KeepAlive::default().idle),
            idle_most: Cell::new(KeepAlive::default().idle),
            kept_max: Cell::new(0),
            h2: H2Connections::default(),
            shared: compiled.shared.clone(),
            pool_shared: pool.shared.clone(),
            terms: ChoiceTerms::default(),
            adaptive: adaptive::Limit::new(pool.model.bounds.adaptive.unwrap_or_default()),
            worker: of.worker,
            own_metrics: of.registry.server(of.worker, &pool.name.0, &compiled.authority),
            warming: Warming::default(),
            address_turn: Cell::new(0),
            gone: Signal::default(),
            metrics: metrics.clone(),
        }
    }

    /// What a configuration says of it, which may be another one than before.
    fn take_terms(&self, server: &CompiledServer, pool: &CompiledPool) {
        self.state.weight.set(server.model.weight);
        self.state.priority.set(server.model.priority);
        self.state.is_local.set(server.is_local);
        let (slow_start, bounds) = (pool.model.slow_start, server.bounds);
        self.kept_max.set(pool.model.keep_alive.connections as usize);
        self.terms.set(slow_start, bounds, server.addresses.are_known());
        if let Some(adaptive) = bounds.adaptive {
            self.adaptive.set_bounds(adaptive);
        }
    }

    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Whether one more request would be beyond a bound.
    pub fn is_full(&self, bounds: &Bounds) -> bool {
        let has_learnt = bounds.adaptive.is_some() && self.state.in_flight.get() >= self.adaptive.now();
        has_learnt || self.pool_shared.is_full(&self.shared, bounds)
    }

    /// Set once the server is in no pool any more.
    pub fn gone(&self) -> &Signal {
        &self.gone
    }

    /// Closes what is idle. Requests that are with the server finish, and their connections close behind them.
    fn leave(&self) {
        self.gone.set();
        self.let_connections_go();
    }

    fn let_connections_go(&self) {
        let idle = self.idle.take();
        self.metrics.connections_idle.add(-(idle.len() as i64));
        self.h2.leave();
    }

    pub fn state(&self) -> &ServerState {
        &self.state
    }

    /// The pool's setting. What was learnt stays, within it.
    fn keep_idle_for(&self, idle: Duration) {
        let most = idle.max(IDLE_LEAST);
        let before = self.idle_most.replace(most);
        if self.idle_max.get() == before || self.idle_max.get() > most {
            self.idle_max.set(most);
        }
    }

    /// An idle connection that is believed to be alive. `certain` asks the kernel: for requests that must not be sent
    /// twice. `client` is whose it must be, where connections are not shared by clients.
    pub fn take_idle(
        &self,
        now: Instant,
        certain: bool,
        client: Option<&Client>,
        metrics: &PoolMetrics,
    ) -> Option<Box<H1Connection<S>>> {
        let idle_max = self.idle_max.get();
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { mut connection, since, .. }) = pop_idle(&mut idle, client) {
            metrics.connections_idle.decrement();
            let age = now.saturating_duration_since(since);
            if age >= idle_max {
                // All others have been idle for longer, or are of other clients.
                if client.is_none() {
                    metrics.connections_idle.add(-(idle.len() as i64));
                    idle.clear();
                }
                return None;
            }
            if connection.lifespan.is_over(now) {
                continue;
            }
            let sock = &connection.stream.sock;
            let stale = if certain { sock.stale_now() } else { sock.stale() };
            if !stale {
                connection.idle_before = Some(age);
                return Some(connection);
            }
            self.learn_closed_after(age);
        }
        None
    }

    /// Keeps a connection for the next request, unless it has served long enough, or the next in the queue for one
    /// lives in another worker: then it is closed, to make room.
    pub fn put_idle(&self, mut connection: Box<H1Connection<S>>, now: Instant) {
        if let Some(age) = connection.idle_before {
            self.learn_reused_after(age);
        }
        if !connection.lifespan.count_request() || connection.lifespan.is_over(now) {
            return;
        }
        if self.is_wanted_elsewhere() || self.gone.is_set() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.kept_max.get() {
            // Nobody but its client takes an older one, who may be gone for long.
            let Some(_) = connection.owner.as_ref().and_then(|_| idle.pop_front()) else { return };
            self.metrics.connections_idle.decrement();
        }
        self.metrics.connections_idle.increment();
        idle.push_back(Idle { connection, since: now, is_unused: false });
        drop(idle);
        // Only those of this worker can use it, and who of them waits is seen without a fence.
        if !self.shared.queue.is_empty() {
            self.shared.queue.call_next();
        }
    }

    /// Whether the next request that waits for a connection cannot use one of this worker's.
    fn is_wanted_elsewhere(&self) -> bool {
        self.shared.queue.next_worker().is_some_and(|worker| worker != self.worker)
    }

    /// Keeps a connection that was opened before it is needed.
    pub fn put_fresh(&self, connection: Box<H1Connection<S>>, now: Instant) {
        let mut idle = self.idle.borrow_mut();
        if self.gone.is_set() || idle.len() >= KeepAlive::CONNECTIONS_MAX as usize {
            return;
        }
        self.metrics.connections_idle.increment();
        idle.push_back(Idle { connection, since: now, is_unused: true });
        drop(idle);
        self.shared.queue.call_next();
    }

    pub fn idle_count(&self) -> usize {
        self.idle.borrow().len()
    }

    /// Ends a connection that is idle, to make room for one of another client; whether there was one.
    pub fn end_an_idle_one(&self) -> bool {
        let oldest = self.idle.borrow_mut().pop_front();
        if oldest.is_some() {
            self.metrics.connections_idle.decrement();
        }
        oldest.is_some() || self.h2.end_an_idle_one()
    }

    /// The server says how long it keeps idle connections (`Keep-Alive: timeout=`).
    pub fn learn_announced(&self, seconds: u64) {
        // A second of margin covers its clock and the way there; of less than four seconds a quarter is.
        let announced = Duration::from_secs(seconds.min(3600));
        let margin = Duration::from_secs(1).min(announced / 4);
        self.idle_max.set(announced.saturating_sub(margin).clamp(IDLE_LEAST, self.idle_most.get()));
    }

    /// The server was seen to have closed a connection that was idle for so long.
    pub fn learn_closed_after(&self, idle: Duration) {
        self.idle_max.set((idle * 3 / 4).clamp(IDLE_LEAST, self.idle_max.get().max(IDLE_LEAST)));
    }

    /// Reuse near the bound went well: the bound may have been too careful (a restart closes connections of every age).
    fn learn_reused_after(&self, idle: Duration) {
        let (bound, most) = (self.idle_max.get(), self.idle_most.get());
        if idle * 2 > bound && bound < most {
            self.idle_max.set((bound * 11 / 10).min(most));
        }
    }

    /// Closes what has been idle for too long or is too old, what the server or its only client has closed, and what
    /// another worker waits for.
    fn sweep(&self, now: Instant, metrics: &PoolMetrics) {
        let wanted = self.is_wanted_elsewhere();
        let mut idle = self.idle.borrow_mut();
        if idle.is_empty() {
            return;
        }
        let before = idle.len();
        let idle_max = self.idle_max.get();
        let mut closed_after = None;
        idle.retain(|Idle { connection, since, is_unused }| {
            let age = now.saturating_duration_since(*since);
            let is_left = connection.owner.as_ref().is_some_and(|owner| owner.is_gone());
            if wanted || is_left || connection.lifespan.is_over(now) {
                return false;
            }
            let is_long_idle = age >= idle_max;
            let stale = !is_long_idle && connection.stream.sock.stale();
            if stale {
                closed_after = Some(age);
            }
            let stays = !stale && !is_long_idle;
            let is_young = *is_unused && age < AGE_LEAST;
            match (stays, is_young) {
                (false, true) => self.warming.failed(now),
                (true, false) => self.warming.succeeded(),
                (true, true) | (false, false) => {}
            }
            stays
        });
        metrics.connections_idle.add(idle.len() as i64 - before as i64);
        // A sweep sees a close up to its period late; only ages well beyond that teach something.
        if let Some(age) = closed_after.filter(|age| *age > Duration::from_secs(1)) {
            self.learn_closed_after(age);
        }
    }
}

/// The one used last, of those that will do.
fn pop_idle<S: Sock>(idle: &mut VecDeque<Idle<S>>, client: Option<&Client>) -> Option<Idle<S>> {
    match client {
        None => idle.pop_back(),
        Some(_) => {
            let position = idle.iter().rposition(|idle| serves(idle.connection.owner.as_deref(), client))?;
            idle.remove(position)
        }
    }
}

impl<S: Sock> WorkerPool<S> {
    pub fn sweep(&self, now: Instant, worker: &WorkerMetrics) {
        for (server, compiled) in self.servers.iter().zip(&self.compiled.servers) {
            server.sweep(now, &self.metrics);
            if server.h2.sweep(now, &self.compiled.model.keep_alive, worker) > 0 {
                log_given_up(&self.compiled, compiled);
            }
        }
    }
}
