//! What outlives a snapshot, keyed by identity and never by position: what all workers know of a server, how many connections a client has,
//! and what limits have counted (the tables are those of `limiting`).
//! A worker's pools with their open connections go from one of its snapshots to the next in `worker`; counters live on in
//! `telemetry::Registry`, tickets and the internal CA in `certs::TlsSurvivors`.

use crate::auth::{UserFiles, Verifier};
use crate::cached::CacheTier;
use crate::challenges::Challenges;
use crate::inquiry::Inquiries;
use crate::line::Line;
use crate::standing::Standing;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tidegate_balancing::adaptive::Usual;
use tidegate_balancing::outlier::{self, Ejection, Ejections, Sample};
use tidegate_limiting::{Quota, Rates, Tables, Taken};
use tidegate_model::{Bounds, Outlier, PoolName, Rate};
use tidegate_telemetry::Registry;

/// What all workers and all generations of a process share.
pub struct ProcessSurvivors {
    pub registry: Arc<Registry>,
    pub pressure: Pressure,
    pub cache: Arc<CacheTier>,
    /// What `rate-limit` and `concurrency-limit` have counted.
    pub limits: Tables,
    /// What `limits handshakes-per-network` has counted.
    pub handshakes: HandshakeRates,
    pub user_files: UserFiles,
    pub verifier: Verifier,
    /// Of orders for certificates that are open.
    pub challenges: Challenges,
    pub inquiries: Inquiries,
    /// Times that workers share are counted from here.
    began: Instant,
    pools: Mutex<HashMap<PoolName, Weak<PoolShared>>>,
    clients: ClientCounts,
}

impl ProcessSurvivors {
    pub fn new(registry: Arc<Registry>) -> Arc<ProcessSurvivors> {
        let began = Instant::now();
        Arc::new(ProcessSurvivors {
            registry,
            pressure: Pressure::default(),
            user_files: UserFiles::default(),
            verifier: Verifier::default(),
            challenges: Challenges::default(),
            inquiries: Inquiries::default(),
            cache: CacheTier::new(),
            limits: Tables::default(),
            handshakes: HandshakeRates::default(),
            began,
            pools: Mutex::default(),
            clients: ClientCounts::default(),
        })
    }

    /// The shared state of a pool, the same for every generation in which it appears.
    pub fn pool(&self, name: &PoolName) -> Arc<PoolShared> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|_, pool| pool.strong_count() > 0);
        let known = pools.entry(name.clone()).or_default();
        known.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(PoolShared::new(self.began));
            *known = Arc::downgrade(&fresh);
            fresh
        })
    }

    pub fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    pub fn clients(&self) -> &ClientCounts {
        &self.clients
    }
}

/// Whether the process is so near its memory's bound that it takes no new requests. Set by the control thread.
#[derive(Debug, Default)]
pub struct Pressure(AtomicBool);

impl Pressure {
    #[inline]
    pub fn is_high(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set_high(&self, high: bool) {
        self.0.store(high, Ordering::Relaxed);
    }
}

/// What the workers share of one pool.
#[derive(Debug)]
pub struct PoolShared {
    began: Instant,
    servers: Mutex<HashMap<String, Weak<ServerShared>>>,
    /// Who is out for its failures. Locked when something fails, or comes back.
    ejections: Mutex<Ejections>,
    /// Requests that wait for a place under `max-requests`.
    pub line: Line,
    in_flight: AtomicU32,
}

impl PoolShared {
    fn new(began: Instant) -> PoolShared {
        PoolShared {
            began,
            servers: Mutex::default(),
            ejections: Mutex::default(),
            line: Line::default(),
            in_flight: AtomicU32::new(0),
        }
    }

    /// The shared state of a server, the same for every generation in which it appears.
    pub fn server(&self, address: &str) -> Arc<ServerShared> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|_, server| server.strong_count() > 0);
        let known = servers.entry(address.to_owned()).or_default();
        known.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(ServerShared::new(self.began));
            *known = Arc::downgrade(&fresh);
            fresh
        })
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

    fn ejections(&self) -> std::sync::MutexGuard<'_, Ejections> {
        self.ejections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more request, where requests are counted: none when the pool or the server has as many as it may.
    pub fn enter(self: &Arc<Self>, server: &Arc<ServerShared>, bounds: &Bounds) -> Option<Room> {
        if !add_below(&self.in_flight, bounds.requests_per_pool) {
            return None;
        }
        if !add_below(&server.in_flight, bounds.requests_per_server) {
            self.in_flight.fetch_sub(1, Ordering::AcqRel);
            self.line.call_next();
            return None;
        }
        Some(Room { pool: self.clone(), server: server.clone() })
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

fn add_below(count: &AtomicU32, max: Option<u32>) -> bool {
    let max = max.unwrap_or(u32::MAX);
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| (count < max).then_some(count + 1)).is_ok()
}

/// One request's place in its pool and at its server, until it is dropped; then the next in line is called.
#[derive(Debug)]
pub struct Room {
    pool: Arc<PoolShared>,
    server: Arc<ServerShared>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.server.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.pool.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.pool.line.call_next();
    }
}

/// What the workers share of one server. What is counted here is touched when a connection is opened or closed, and per request only where a
/// bound on requests asks for it.
#[derive(Debug)]
pub struct ServerShared {
    pub standing: Standing,
    /// Requests that wait for a connection under `max-connections`.
    pub line: Line,
    /// How long its answers usually take, where that is learnt.
    pub usual: Usual,
    open: AtomicU32,
    in_flight: AtomicU32,
}

impl ServerShared {
    fn new(began: Instant) -> ServerShared {
        ServerShared {
            standing: Standing::new(began),
            line: Line::default(),
            usual: Usual::default(),
            open: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
        }
    }

    /// A place for one more connection, when fewer than `max` are open. Counted without a bound too: a change may bring one.
    pub fn try_open(self: &Arc<Self>, max: Option<u32>) -> Option<OpenSlot> {
        add_below(&self.open, max).then(|| OpenSlot(self.clone()))
    }

    /// Connections of all workers.
    pub fn open_connections(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }
}

/// One open connection of a server, until it is dropped; then the next in line is called.
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
        self.0.line.call_next();
    }
}

/// Open client connections by address, for `limits connections-per-ip`. Bounded by the number of open connections.
#[derive(Debug, Default)]
pub struct ClientCounts {
    shards: [Mutex<HashMap<IpAddr, u32>>; ClientCounts::SHARDS],
}

impl ClientCounts {
    /// Enough that two workers seldom meet.
    const SHARDS: usize = 16;

    fn shard(&self, ip: IpAddr) -> &Mutex<HashMap<IpAddr, u32>> {
        let low = match ip {
            IpAddr::V4(ip) => ip.octets()[3],
            // The last half of a /64 is the client's to choose; it spreads well enough.
            IpAddr::V6(ip) => ip.octets()[15],
        };
        &self.shards[low as usize % Self::SHARDS]
    }

    /// Counts one more; false when the address has `max` already.
    pub fn try_add(&self, ip: IpAddr, max: u32) -> bool {
        let mut counts = self.shard(ip).lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(ip).or_insert(0);
        if *count >= max {
            return false;
        }
        *count += 1;
        true
    }

    pub fn remove(&self, ip: IpAddr) {
        let mut counts = self.shard(ip).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&ip);
            }
        }
    }
}

/// HandshakeRates of client networks. Takes memory when the first is counted.
#[derive(Debug, Default)]
pub struct HandshakeRates(OnceLock<Rates>);

impl HandshakeRates {
    /// Networks at a time: 4 MiB when all are there.
    const NETWORKS_MAX: u32 = 1 << 16;
    /// What a provider gives to one customer, and a system to one link.
    const IPV6_PREFIX: u8 = 64;

    /// Counts one more of the client's network; false when that are too many. The whole count of the rate may come at once.
    pub fn try_begin(&self, client: IpAddr, rate: Rate, now: Duration) -> bool {
        let rates = self.0.get_or_init(|| Rates::new(Self::NETWORKS_MAX));
        let mut key = rates.hasher.begin();
        key.address(client, Self::IPV6_PREFIX);
        let quota = Quota::new(rate.count, rate.period, rate.count);
        matches!(rates.take(key.finish(), &quota, 1, now), Taken::Yes(_))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientCounts, HandshakeRates, ProcessSurvivors};
    use std::sync::Arc;
    use std::time::Duration;
    use tidegate_model::{Bounds, PoolName, Rate};
    use tidegate_telemetry::Registry;

    fn shared() -> Arc<super::PoolShared> {
        ProcessSurvivors::new(Arc::new(Registry::new("test"))).pool(&PoolName("p".into()))
    }

    #[test]
    fn a_server_is_the_same_for_every_generation_that_has_it() {
        let process = ProcessSurvivors::new(Arc::new(Registry::new("test")));
        let (pool, other) = (process.pool(&PoolName("p".into())), process.pool(&PoolName("q".into())));
        assert!(Arc::ptr_eq(&pool, &process.pool(&PoolName("p".into()))));
        let first = pool.server("a:1");
        assert!(Arc::ptr_eq(&first, &pool.server("a:1")));
        assert!(!Arc::ptr_eq(&first, &pool.server("a:2")));
        assert!(!Arc::ptr_eq(&first, &other.server("a:1")));
    }

    #[test]
    fn connections_are_bounded_and_given_back() {
        let server = shared().server("a:1");
        let take = || server.try_open(Some(2));
        let (first, second) = (take(), take());
        assert!(first.is_some() && second.is_some() && take().is_none());
        drop(first);
        assert!(take().is_some());
        let more: Vec<_> = (0..5).map(|_| server.try_open(None)).collect();
        assert!(more.iter().all(Option::is_some), "without a bound there is always a place");
        assert_eq!(server.open_connections(), 6);
    }

    #[test]
    fn requests_are_bounded_by_server_and_by_pool() {
        let pool = shared();
        let (a, b) = (pool.server("a:1"), pool.server("b:1"));
        let bounds = Bounds { requests_per_server: Some(2), requests_per_pool: Some(3), ..Bounds::default() };
        let rooms = [pool.enter(&a, &bounds), pool.enter(&a, &bounds)];
        assert!(rooms.iter().all(Option::is_some));
        assert!(pool.is_full(&a, &bounds) && !pool.is_full(&b, &bounds));
        assert!(pool.enter(&a, &bounds).is_none(), "the server is full");
        let third = pool.enter(&b, &bounds);
        assert!(third.is_some() && pool.is_full(&b, &bounds) && pool.enter(&b, &bounds).is_none(), "the pool is full");
        drop(rooms);
        assert_eq!(pool.requests_in_flight(), 1);
        assert!(pool.enter(&a, &bounds).is_some());
    }

    #[test]
    fn a_place_that_is_given_back_calls_the_next_in_line() {
        let pool = shared();
        let server = pool.server("a:1");
        let bounds = Bounds { requests_per_server: Some(1), ..Bounds::default() };
        let room = pool.enter(&server, &bounds);
        let _turn = pool.line.join(3, 9).expect("a place");
        assert_eq!(pool.line.next_worker(), Some(3));
        drop(room);
        assert_eq!(pool.line.next_worker(), None, "it was called");
        let slot = server.try_open(Some(1));
        let _turn = server.line.join(1, 9).expect("a place");
        drop(slot);
        assert_eq!(server.line.next_worker(), None, "it was called");
    }

    #[test]
    fn handshakes_are_counted_by_network() {
        let handshakes = HandshakeRates::default();
        let rate = Rate { count: 2, period: Duration::from_secs(2) };
        let check = |client: &str, second: u64, expected: bool| {
            let client = client.parse().expect("an address");
            assert_eq!(
                handshakes.try_begin(client, rate, Duration::from_secs(100 + second)),
                expected,
                "{client} after {second} s"
            );
        };
        check("192.0.2.1", 0, true);
        check("192.0.2.1", 0, true);
        check("192.0.2.1", 0, false);
        check("192.0.2.2", 0, true);
        check("2001:db8:0:1::1", 0, true);
        check("2001:db8:0:1:ffff::7", 0, true);
        check("2001:db8:0:1::1", 0, false);
        check("2001:db8:0:2::1", 0, true);
        check("192.0.2.1", 1, true);
        check("192.0.2.1", 1, false);
    }

    #[test]
    fn clients_are_counted_by_address() {
        let counts = ClientCounts::default();
        let (a, b) = ("192.0.2.1".parse().expect("an address"), "2001:db8::1".parse().expect("an address"));
        assert!(counts.try_add(a, 2) && counts.try_add(a, 2) && !counts.try_add(a, 2));
        assert!(counts.try_add(b, 1) && !counts.try_add(b, 1));
        counts.remove(a);
        assert!(counts.try_add(a, 2));
    }
}
