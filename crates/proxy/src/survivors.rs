//! What outlives a snapshot, keyed by identity and never by position: what all workers know of a server, and how many connections a client has.
//! A worker's pools with their open connections go from one of its snapshots to the next in `worker`; counters live on in
//! `telemetry::Registry`, tickets and the internal CA in `certs::TlsSurvivors`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tidegate_model::PoolName;
use tidegate_telemetry::Registry;

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
    /// Somebody took it out of use (`tidegate drain`). Workers are told, and look here when they meet the server for the first time.
    drained: AtomicBool,
}

impl ServerShared {
    /// A place for one more connection, when fewer than `max` are open. Counted without a bound too: a change may bring one.
    pub fn try_open(self: &Arc<Self>, max: Option<u32>) -> Option<OpenSlot> {
        let max = max.unwrap_or(u32::MAX);
        self.open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < max).then_some(open + 1))
            .ok()
            .map(|_| OpenSlot(self.clone()))
    }

    /// Connections of all workers.
    pub fn open_connections(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    pub fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Relaxed)
    }

    pub fn set_drained(&self, drained: bool) {
        self.drained.store(drained, Ordering::Relaxed);
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

/// One open connection of a server.
#[derive(Debug)]
pub struct OpenSlot(Arc<ServerShared>);

impl Drop for OpenSlot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
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
        let more: Vec<_> = (0..5).map(|_| super::ServerShared::try_open(&server, None)).collect();
        assert!(more.iter().all(Option::is_some), "without a bound there is always a place");
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
