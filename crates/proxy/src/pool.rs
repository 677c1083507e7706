//! A pool as one worker has it: its servers with their open connections, the last used first, and what was learnt about how long a
//! server keeps an idle connection. Which server to take is decided in `balance`; how a connection is opened, in `upstream`.

use crate::balance::{ServerState, hash_bytes};
use crate::snapshot::{CompiledPool, CompiledServer, UpstreamTlsConfigs};
use crate::survivors::OpenSlot;
use crate::upstream::h2::H2Connections;
use crate::upstream::waiting::WaitingLine;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_telemetry::{PoolMetrics, WorkerMetrics};
use tidegate_transport::{Sock, Stream};

/// Idle connections a worker keeps to one server.
pub const IDLE_MAX: usize = 512;
/// How long an idle connection is kept where nothing else is known. Below the 60 s and more that servers commonly have.
const IDLE_DEFAULT: Duration = Duration::from_secs(55);
/// What is learnt never goes below this: a connection that is used at once is always worth keeping.
const IDLE_LEAST: Duration = Duration::from_millis(5);

pub struct WorkerPool<S: Sock> {
    pub compiled: Arc<CompiledPool>,
    pub servers: Vec<Rc<Server<S>>>,
    pub metrics: Arc<PoolMetrics>,
}

impl<S: Sock> WorkerPool<S> {
    /// `before` is the pool of the same name in the snapshot before. Servers that stay keep their connections and what was learnt about them;
    /// of those that left the idle connections are closed, and the others end with the requests on them.
    pub fn new(compiled: Arc<CompiledPool>, before: Option<&WorkerPool<S>>, metrics: Arc<PoolMetrics>) -> WorkerPool<S> {
        let stays = |server: &CompiledServer| {
            before.and_then(|pool| pool.servers.iter().find(|known| known.is_same(server, &pool.compiled, &compiled)))
        };
        let servers: Vec<_> = compiled
            .servers
            .iter()
            .map(|server| {
                let known = stays(server).cloned().unwrap_or_else(|| Rc::new(Server::new(server, metrics.clone())));
                known.state.weight.set(server.weight);
                known.state.backup.set(server.priority > 0);
                known.state.drained.set(server.shared.is_drained());
                known
            })
            .collect();
        if let Some(before) = before {
            before.servers.iter().filter(|known| !servers.iter().any(|server| Rc::ptr_eq(server, known))).for_each(|gone| {
                gone.leave();
            });
        }
        WorkerPool { compiled, servers, metrics }
    }

    /// The pool is not in the configuration any more.
    pub fn leave(&self) {
        self.servers.iter().for_each(|server| server.leave());
    }

    /// Somebody drained servers of this pool, or took that back.
    pub fn look_for_drained(&self) {
        for (server, compiled) in self.servers.iter().zip(&self.compiled.servers) {
            server.state.drained.set(compiled.shared.is_drained());
        }
    }
}

/// One server of one worker.
pub struct Server<S: Sock> {
    state: ServerState,
    authority: Arc<str>,
    idle: RefCell<VecDeque<Idle<S>>>,
    /// Connections idle for longer than this are not used any more: the server is likely to be closing them.
    idle_max: Cell<Duration>,
    pub h2: H2Connections,
    /// Requests of this worker that wait for a connection to become free.
    pub waiting: WaitingLine,
    /// The position among the addresses to try first.
    pub address_turn: Cell<usize>,
    /// It is in no pool any more: nothing is kept for it.
    gone: Cell<bool>,
    metrics: Arc<PoolMetrics>,
}

/// What is idle is counted until it is closed, also when a worker ends or an old configuration is given up.
impl<S: Sock> Drop for Server<S> {
    fn drop(&mut self) {
        self.metrics.connections_idle.add(-(self.idle.borrow().len() as i64));
    }
}

/// The same trust, and the same sessions to resume: a renewed CA file makes other configurations under the same settings.
fn same_tls(before: Option<&UpstreamTlsConfigs>, now: Option<&UpstreamTlsConfigs>) -> bool {
    match (before, now) {
        (None, None) => true,
        (Some(before), Some(now)) => Arc::ptr_eq(&before.any, &now.any),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// An HTTP/1.1 connection to a server.
pub struct H1Connection<S: Sock> {
    /// Boxed once for its whole life: it moves into and out of the pool with every request.
    pub stream: Box<Stream<S>>,
    /// How long it had been idle when it was taken; `None` for a fresh one.
    pub idle_before: Option<Duration>,
    slot: OpenSlot,
}

struct Idle<S: Sock> {
    stream: Box<Stream<S>>,
    since: Instant,
    slot: OpenSlot,
}

impl<S: Sock> AsRef<ServerState> for Rc<Server<S>> {
    fn as_ref(&self) -> &ServerState {
        &self.state
    }
}

impl<S: Sock> H1Connection<S> {
    pub fn fresh(stream: Stream<S>, slot: OpenSlot) -> H1Connection<S> {
        H1Connection { stream: Box::new(stream), idle_before: None, slot }
    }
}

impl<S: Sock> Server<S> {
    fn new(compiled: &CompiledServer, metrics: Arc<PoolMetrics>) -> Server<S> {
        Server {
            state: ServerState::new(compiled.weight, compiled.priority > 0, hash_bytes(compiled.authority.as_bytes())),
            authority: compiled.authority.clone(),
            idle: RefCell::default(),
            idle_max: Cell::new(IDLE_DEFAULT),
            h2: H2Connections::default(),
            waiting: WaitingLine::default(),
            address_turn: Cell::new(0),
            gone: Cell::new(false),
            metrics,
        }
    }

    /// Whether connections made for this server serve the other as well.
    fn is_same(&self, other: &CompiledServer, before: &CompiledPool, now: &CompiledPool) -> bool {
        let known = before.servers.iter().find(|server| server.authority == self.authority);
        self.authority == other.authority
            && same_tls(before.tls.as_ref(), now.tls.as_ref())
            && before.model.protocol == now.model.protocol
            && known.is_some_and(|known| known.tls_name == other.tls_name && known.addresses == other.addresses)
    }

    /// Closes what is idle. Requests that are with the server finish, and their connections close behind them.
    fn leave(&self) {
        self.gone.set(true);
        let idle = self.idle.take();
        self.metrics.connections_idle.add(-(idle.len() as i64));
        self.h2.leave();
    }

    pub fn state(&self) -> &ServerState {
        &self.state
    }

    /// An idle connection that is believed to be alive. `certain` asks the kernel: for requests that must not be sent twice.
    pub fn take_idle(&self, now: Instant, certain: bool, metrics: &PoolMetrics) -> Option<H1Connection<S>> {
        let idle_max = self.idle_max.get();
        let mut idle = self.idle.borrow_mut();
        while let Some(entry) = idle.pop_back() {
            metrics.connections_idle.decrement();
            let age = now.saturating_duration_since(entry.since);
            if age >= idle_max {
                // All others have been idle for longer.
                metrics.connections_idle.add(-(idle.len() as i64));
                idle.clear();
                return None;
            }
            let stale = if certain { entry.stream.sock.stale_now() } else { entry.stream.sock.stale() };
            if !stale {
                return Some(H1Connection { stream: entry.stream, idle_before: Some(age), slot: entry.slot });
            }
            self.learn_closed_after(age);
        }
        None
    }

    /// Keeps a connection for the next request, unless another worker waits for the place it takes.
    pub fn put_idle(&self, connection: H1Connection<S>, now: Instant, wanted: bool, metrics: &PoolMetrics) {
        if let Some(age) = connection.idle_before {
            self.learn_reused_after(age);
        }
        let mut idle = self.idle.borrow_mut();
        // Our own waiters take it from here; only another worker's need the place.
        if (wanted && self.waiting.is_empty()) || idle.len() >= IDLE_MAX || self.gone.get() {
            return;
        }
        metrics.connections_idle.increment();
        idle.push_back(Idle { stream: connection.stream, since: now, slot: connection.slot });
        self.waiting.call_next();
    }

    /// The server says how long it keeps idle connections (`Keep-Alive: timeout=`).
    pub fn learn_announced(&self, seconds: u64) {
        // A second of margin covers its clock and the way there; of less than four seconds a quarter is.
        let announced = Duration::from_secs(seconds.min(3600));
        let margin = Duration::from_secs(1).min(announced / 4);
        self.idle_max.set(announced.saturating_sub(margin).clamp(IDLE_LEAST, IDLE_DEFAULT));
    }

    /// The server was seen to have closed a connection that was idle for so long.
    pub fn learn_closed_after(&self, idle: Duration) {
        self.idle_max.set((idle * 3 / 4).clamp(IDLE_LEAST, self.idle_max.get().max(IDLE_LEAST)));
    }

    /// Reuse near the bound went well: the bound may have been too careful (a restart closes connections of every age).
    fn learn_reused_after(&self, idle: Duration) {
        let bound = self.idle_max.get();
        if idle * 2 > bound && bound < IDLE_DEFAULT {
            self.idle_max.set((bound * 11 / 10).min(IDLE_DEFAULT));
        }
    }

    /// Closes what has been idle for too long, what the server has closed, and what another worker waits for.
    pub fn sweep(&self, now: Instant, wanted: bool, metrics: &PoolMetrics, worker: &WorkerMetrics) {
        let wanted = wanted && self.waiting.is_empty();
        let mut idle = self.idle.borrow_mut();
        if !idle.is_empty() {
            let before = idle.len();
            let idle_max = self.idle_max.get();
            let mut closed_after = None;
            idle.retain(|entry| {
                let age = now.saturating_duration_since(entry.since);
                if wanted || age >= idle_max {
                    return false;
                }
                let stale = entry.stream.sock.stale();
                if stale {
                    closed_after = Some(age);
                }
                !stale
            });
            metrics.connections_idle.add(idle.len() as i64 - before as i64);
            // A sweep sees a close up to its period late; only ages well beyond that teach something.
            if let Some(age) = closed_after.filter(|age| *age > Duration::from_secs(1)) {
                self.learn_closed_after(age);
            }
        }
        self.h2.sweep(now, worker);
    }
}

impl<S: Sock> WorkerPool<S> {
    pub fn sweep(&self, now: Instant, worker: &WorkerMetrics) {
        for (server, compiled) in self.servers.iter().zip(&self.compiled.servers) {
            server.sweep(now, compiled.shared.is_wanted(), &self.metrics, worker);
        }
    }
}
