//! What all workers and all generations of a process know of one pool and of its servers: health, queues, and what is
//! counted where a bound asks for it. What one worker has of them is in `pool`.

use crate::health::{Health, HealthNews};
use crate::queue::Queue;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tidegate_balancing::adaptive::Usual;
use tidegate_balancing::outlier::{self, Ejection, Ejections, Sample};
use tidegate_model::{Bounds, Outlier};

/// What is shared by name for as long as somebody holds it.
#[derive(Debug)]
pub struct Kept<K, V> {
    by_key: HashMap<K, Weak<V>>,
    /// With as many entries those that nobody holds are thrown out: so each look-up costs what it finds, and not what
    /// is there.
    purged_at: usize,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Kept { by_key: HashMap::new(), purged_at: 0 }
    }
}

impl<K: Hash + Eq + Clone, V> Kept<K, V> {
    /// Entries that are not worth a purge.
    const SPARE: usize = 4;

    /// The value of that key, which is made when nobody holds one.
    pub fn find(&mut self, key: &K, fresh: impl FnOnce() -> V) -> Arc<V> {
        if let Some(known) = self.by_key.get(key).and_then(Weak::upgrade) {
            return known;
        }
        if self.by_key.len() >= self.purged_at {
            self.by_key.retain(|_, value| value.strong_count() > 0);
            self.purged_at = 2 * self.by_key.len() + Self::SPARE;
        }
        let fresh = Arc::new(fresh());
        self.by_key.insert(key.clone(), Arc::downgrade(&fresh));
        fresh
    }
}

/// What the workers share of one pool.
#[derive(Debug)]
pub struct PoolShared {
    began: Instant,
    servers: Mutex<Kept<Arc<str>, ServerShared>>,
    /// Who is out for its failures. Locked when something fails, or comes back.
    ejections: Mutex<Ejections>,
    /// Requests that wait for a place under `max-requests`.
    pub queue: Queue,
    /// Of the health of its servers.
    pub news: HealthNews,
    /// Requests that wait for a server to come back.
    pub awaiting: Awaiting,
    in_flight: AtomicU32,
}

impl PoolShared {
    /// Times that its servers' states hold are counted from `began`.
    pub fn new(began: Instant) -> PoolShared {
        PoolShared {
            began,
            servers: Mutex::default(),
            ejections: Mutex::default(),
            queue: Queue::default(),
            news: HealthNews::default(),
            awaiting: Awaiting::default(),
            in_flight: AtomicU32::new(0),
        }
    }

    /// The shared state of a server, the same for every generation in which it appears.
    pub fn server(&self, address: &Arc<str>) -> Arc<ServerShared> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.find(address, || ServerShared::new(self.began, self.news.clone()))
    }

    /// Takes a server out that failed too often, unless too many of the pool's are out already.
    pub fn eject(&self, settings: &Outlier, server: u64, why: outlier::Why, servers: usize, now: Duration) -> Option<Ejection> {
        self.ejections().consider(settings, server, why, servers, now)
    }

    /// Servers whose share of good answers is far below that of the others.
    pub fn judge(&self, settings: &Outlier, samples: &[Sample], now: Duration) -> Vec<(u64, Ejection)> {
        self.ejections().judge(settings, samples, now)
    }

    pub fn returned(&self, server: u64, now: Duration) {
        self.ejections().returned(server, now);
    }

    /// Forgets servers that the pool no longer has.
    pub fn forget(&self, keep: impl Fn(u64) -> bool) {
        self.ejections().forget(keep);
    }

    fn ejections(&self) -> MutexGuard<'_, Ejections> {
        self.ejections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more request, where requests are counted: none when the pool or the server has as many as it
    /// may.
    pub fn enter(self: &Arc<Self>, server: &Arc<ServerShared>, bounds: &Bounds) -> Option<Permit> {
        if !add_below(&self.in_flight, bounds.requests_per_pool) {
            return None;
        }
        if !add_below(&server.in_flight, bounds.requests_per_server) {
            self.in_flight.fetch_sub(1, Ordering::AcqRel);
            self.queue.call_next();
            return None;
        }
        Some(Permit { pool: self.clone(), server: server.clone() })
    }

    /// Whether another request finds no place at that server, as it is now.
    pub fn is_full(&self, server: &ServerShared, bounds: &Bounds) -> bool {
        let reached = |count: &AtomicU32, max: Option<u32>| max.is_some_and(|max| count.load(Ordering::Acquire) >= max);
        reached(&self.in_flight, bounds.requests_per_pool) || reached(&server.in_flight, bounds.requests_per_server)
    }

    /// Requests of all workers, where they are counted.
    pub fn requests_in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Requests that wait until a server can be reached. One of them looks now and then; when it has a connection, all go
/// on.
#[derive(Debug, Default)]
pub struct Awaiting {
    count: AtomicU32,
    /// Connections that came about while somebody waited.
    reached: AtomicU64,
    /// When the next may look, in milliseconds of the process.
    next_look: AtomicU64,
}

impl Awaiting {
    /// A place among those that wait, when fewer than `max` do.
    pub fn enter(&self, max: u32) -> Option<AwaitingPlace<'_>> {
        add_below(&self.count, Some(max)).then_some(AwaitingPlace(self))
    }

    /// A connection came about.
    pub fn note_reached(&self) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.reached.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    /// Whether whoever asks is the one that looks at this moment; nobody else does for `pause`.
    pub fn may_look(&self, since_start: Duration, pause: Duration) -> bool {
        let now = since_start.as_millis() as u64;
        let next = self.next_look.load(Ordering::Acquire);
        let after = now + pause.as_millis() as u64;
        now >= next && self.next_look.compare_exchange(next, after, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// One request's place among those that wait, until it is dropped.
#[derive(Debug)]
pub struct AwaitingPlace<'a>(&'a Awaiting);

impl Drop for AwaitingPlace<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

fn add_below(count: &AtomicU32, max: Option<u32>) -> bool {
    let max = max.unwrap_or(u32::MAX);
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| (count < max).then_some(count + 1)).is_ok()
}

/// One request's permit in its pool and at its server, until it is dropped; then the next in the queue is called.
#[derive(Debug)]
pub struct Permit {
    pool: Arc<PoolShared>,
    server: Arc<ServerShared>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.server.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.pool.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.pool.queue.call_next();
    }
}

/// What the workers share of one server. What is counted here is touched when a connection is opened or closed, and per
/// request only where a bound on requests asks for it.
#[derive(Debug)]
pub struct ServerShared {
    pub health: Health,
    /// Requests that wait for a connection under `max-connections`.
    pub queue: Queue,
    /// Requests that wait because it takes none on the connections of HTTP/2 that it has.
    pub awaiting_stream: Awaiting,
    /// How long its answers usually take, where that is learnt.
    pub usual: Usual,
    open: AtomicU32,
    in_flight: AtomicU32,
}

impl ServerShared {
    fn new(began: Instant, news: HealthNews) -> ServerShared {
        ServerShared {
            health: Health::new(began, news),
            queue: Queue::default(),
            awaiting_stream: Awaiting::default(),
            usual: Usual::default(),
            open: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
        }
    }

    /// A place for one more connection, when fewer than `max` are open.
    pub fn try_open(self: &Arc<Self>, max: u32) -> Option<OpenSlot> {
        add_below(&self.open, Some(max)).then(|| OpenSlot(self.clone()))
    }

    /// Connections of all workers.
    pub fn open_connections(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }
}

/// One open connection of a server, until it is dropped; then the next in the queue is called.
#[derive(Debug)]
pub struct OpenSlot(Arc<ServerShared>);

impl OpenSlot {
    pub fn server(&self) -> &Arc<ServerShared> {
        &self.0
    }
}

impl Drop for OpenSlot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.queue.call_next();
    }
}
