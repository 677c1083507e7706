//! What outlives a snapshot, keyed by identity and never by position: shared connection counts of servers, and per worker the pools with
//! their open connections. Counters live on in `telemetry::Registry`, tickets and the internal CA in `certs::TlsSurvivors`.

use crate::pool::WorkerPool;
use crate::snapshot::Snapshot;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tidegate_model::PoolName;
use tidegate_telemetry::Registry;
use tidegate_transport::Sock;

/// What all workers and all generations of a process share.
pub struct ProcessSurvivors {
    pub registry: Arc<Registry>,
    servers: Mutex<HashMap<(PoolName, String), Weak<ServerShared>>>,
    clients: ClientCounts,
}

impl ProcessSurvivors {
    pub fn new(registry: Arc<Registry>) -> Arc<ProcessSurvivors> {
        Arc::new(ProcessSurvivors { registry, servers: Mutex::default(), clients: ClientCounts::default() })
    }

    /// The shared state of a server, the same for every generation in which it appears.
    pub fn server(&self, pool: &PoolName, address: &str) -> Arc<ServerShared> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|_, server| server.strong_count() > 0);
        let known = servers.entry((pool.clone(), address.to_owned())).or_default();
        known.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(ServerShared::default());
            *known = Arc::downgrade(&fresh);
            fresh
        })
    }

    pub fn clients(&self) -> &ClientCounts {
        &self.clients
    }
}

/// What the workers share of one server. Touched when a connection is opened or closed, never per request.
#[derive(Debug, Default)]
pub struct ServerShared {
    open: AtomicU32,
    /// Workers that wait for a connection to become free; idle ones are closed for them.
    wanted: AtomicU32,
}

impl ServerShared {
    /// A place for one more connection, when fewer than `max` are open.
    pub fn try_open(self: &Arc<Self>, max: Option<u32>) -> Option<OpenSlot> {
        let Some(max) = max else { return Some(OpenSlot(None)) };
        self.open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < max).then_some(open + 1))
            .ok()
            .map(|_| OpenSlot(Some(self.clone())))
    }

    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Says, until it is dropped, that a connection is waited for.
    pub fn want(self: &Arc<Self>) -> Wanted {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        Wanted(self.clone())
    }
}

/// One open connection of a server with `max-connections`; counts nothing where there is no such bound.
#[derive(Debug)]
pub struct OpenSlot(Option<Arc<ServerShared>>);

impl Drop for OpenSlot {
    fn drop(&mut self) {
        if let Some(server) = &self.0 {
            server.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

pub struct Wanted(Arc<ServerShared>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.wanted.fetch_sub(1, Ordering::Relaxed);
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

/// What one worker keeps from one snapshot to the next.
pub struct WorkerSurvivors<S: Sock> {
    pools: HashMap<PoolName, Rc<WorkerPool<S>>>,
}

impl<S: Sock> Default for WorkerSurvivors<S> {
    fn default() -> Self {
        WorkerSurvivors { pools: HashMap::new() }
    }
}

impl<S: Sock> WorkerSurvivors<S> {
    /// The worker's pools for a snapshot, in its order. Servers that stay keep their connections; those that left are forgotten, and
    /// their connections end with the requests on them.
    pub fn pools_for(&mut self, snapshot: &Snapshot, worker: usize, registry: &Registry) -> Vec<Rc<WorkerPool<S>>> {
        let pools: Vec<_> = snapshot
            .pools
            .iter()
            .map(|compiled| {
                let before = self.pools.get(&compiled.name).map(Rc::as_ref);
                Rc::new(WorkerPool::new(compiled.clone(), before, registry.pool(worker, &compiled.name.0)))
            })
            .collect();
        self.pools = pools.iter().map(|pool| (pool.compiled.name.clone(), pool.clone())).collect();
        pools
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientCounts, ProcessSurvivors};
    use std::sync::Arc;
    use tidegate_model::PoolName;
    use tidegate_telemetry::Registry;

    #[test]
    fn a_server_is_the_same_for_every_generation_that_has_it() {
        let process = ProcessSurvivors::new(Arc::new(Registry::new("test")));
        let pool = PoolName("p".into());
        let first = process.server(&pool, "a:1");
        assert!(Arc::ptr_eq(&first, &process.server(&pool, "a:1")));
        assert!(!Arc::ptr_eq(&first, &process.server(&pool, "a:2")));
        assert!(!Arc::ptr_eq(&first, &process.server(&PoolName("q".into()), "a:1")));
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let server = Arc::default();
        let take = || super::ServerShared::try_open(&server, Some(2));
        let (first, second) = (take(), take());
        assert!(first.is_some() && second.is_some() && take().is_none());
        drop(first);
        assert!(take().is_some());
        assert!(super::ServerShared::try_open(&server, None).is_some(), "without a bound there is always a place");
        assert!(!server.is_wanted());
        let wanted = server.want();
        assert!(server.is_wanted());
        drop(wanted);
        assert!(!server.is_wanted());
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
