//! What outlives a snapshot, keyed by identity and never by position: the pools that all workers share, how many
//! connections a client has, and what limits have counted (the tables are those of `limiting`). What is known of a pool
//! and its servers is in the crate `upstream`. A worker's pools with their open connections go from one of its
//! snapshots to the next in `worker`; counters live on in `telemetry::Registry`, tickets and the internal CA in
//! `certs::TlsProcessState`.

use crate::auth::oidc::OidcShared;
use crate::auth::{ApiKeyFiles, KeySets, UserFiles, Verifier};
use crate::cached::CacheTier;
use crate::challenges::Challenges;
use crate::inquiry::Inquiries;
use crate::pressure::Pressure;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tidegate_geo::Geo;
use tidegate_limiting::{Quota, Rates, Tables, Taken, network};
use tidegate_model::{PoolName, Rate};
use tidegate_tables::Maps;
use tidegate_telemetry::Registry;
use tidegate_upstream::shared::{Kept, PoolShared};

/// What all workers and all generations of a process share.
pub struct ProcessState {
    pub registry: Arc<Registry>,
    pub pressure: Pressure,
    pub cache: Arc<CacheTier>,
    /// What `rate-limit` and `concurrency-limit` have counted.
    pub limits: Tables,
    /// What `limits handshakes-per-network` has counted.
    pub handshakes: HandshakeRates,
    pub user_files: UserFiles,
    pub api_key_files: ApiKeyFiles,
    /// What every `map` has, of its source and changed since.
    pub maps: Maps,
    /// What files of `geoip` know of addresses.
    pub geo: Geo,
    pub verifier: Verifier,
    /// Keys that tokens are verified with.
    pub key_sets: KeySets,
    /// Log-ins by OpenID Connect.
    pub oidc: Arc<OidcShared>,
    /// Of orders for certificates that are open.
    pub challenges: Challenges,
    pub inquiries: Inquiries,
    /// Where bodies that are too large for memory are kept; the system's folder for such things unless it was set.
    scratch_folder: OnceLock<PathBuf>,
    /// Times that workers share are counted from here.
    began: Instant,
    pools: Mutex<Kept<PoolName, PoolShared>>,
    clients: ClientCounts,
}

impl ProcessState {
    pub fn new(registry: Arc<Registry>) -> Arc<ProcessState> {
        let began = Instant::now();
        Arc::new(ProcessState {
            registry,
            pressure: Pressure::default(),
            user_files: UserFiles::default(),
            api_key_files: ApiKeyFiles::default(),
            maps: Maps::default(),
            geo: Geo::default(),
            verifier: Verifier::default(),
            key_sets: KeySets::default(),
            oidc: Arc::default(),
            challenges: Challenges::default(),
            inquiries: Inquiries::default(),
            cache: CacheTier::new(),
            limits: Tables::default(),
            handshakes: HandshakeRates::default(),
            scratch_folder: OnceLock::new(),
            began,
            pools: Mutex::default(),
            clients: ClientCounts::default(),
        })
    }

    /// The shared state of a pool, the same for every generation in which it appears.
    pub fn pool(&self, name: &PoolName) -> Arc<PoolShared> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.find(name, || PoolShared::new(self.began))
    }

    /// Bodies are kept below the state folder. Said before there are workers.
    pub fn set_state_folder(&self, folder: &Path) {
        let _ = self.scratch_folder.set(folder.join("bodies"));
    }

    pub fn scratch_folder(&self) -> &Path {
        self.scratch_folder.get_or_init(std::env::temp_dir)
    }

    pub fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    pub fn clients(&self) -> &ClientCounts {
        &self.clients
    }
}

/// What a provider gives to one customer, and a system to one link: counted by single addresses of IPv6, whoever has
/// such a network would have no bound at all.
const IPV6_PREFIX: u8 = 64;

/// Open client connections by address, of IPv6 by network, for `limits connections-per-ip`. Bounded by the number of
/// open connections.
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
            IpAddr::V6(ip) => ip.octets()[7],
        };
        &self.shards[low as usize % Self::SHARDS]
    }

    /// Counts one more; false when the client has `max` already.
    pub fn try_add(&self, ip: IpAddr, max: u32) -> bool {
        let ip = network(ip, IPV6_PREFIX);
        let mut counts = self.shard(ip).lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(ip).or_insert(0);
        if *count >= max {
            return false;
        }
        *count += 1;
        true
    }

    pub fn remove(&self, ip: IpAddr) {
        let ip = network(ip, IPV6_PREFIX);
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

    /// Counts one more of the client's network; false when that are too many. The whole count of the rate may come at
    /// once.
    pub fn try_begin(&self, client: IpAddr, rate: Rate, now: Duration) -> bool {
        let rates = self.0.get_or_init(|| Rates::new(Self::NETWORKS_MAX));
        let mut key = rates.hasher.begin();
        key.address(client, IPV6_PREFIX);
        let quota = Quota::new(rate.count, rate.period, rate.count);
        matches!(rates.take(key.finish(), &quota, 1, now), Taken::Yes(_))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientCounts, HandshakeRates, ProcessState};
    use std::sync::Arc;
    use std::time::Duration;
    use tidegate_model::{PoolName, Rate};
    use tidegate_telemetry::Registry;

    #[test]
    fn a_server_is_the_same_for_every_generation_that_has_it() {
        let process = ProcessState::new(Arc::new(Registry::new("test")));
        let (pool, other) = (process.pool(&PoolName("p".into())), process.pool(&PoolName("q".into())));
        assert!(Arc::ptr_eq(&pool, &process.pool(&PoolName("p".into()))));
        let first = pool.server(&"a:1".into());
        assert!(Arc::ptr_eq(&first, &pool.server(&"a:1".into())));
        assert!(!Arc::ptr_eq(&first, &pool.server(&"a:2".into())));
        assert!(!Arc::ptr_eq(&first, &other.server(&"a:1".into())));
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
    fn clients_are_counted_by_address_and_those_of_ipv6_by_network() {
        let counts = ClientCounts::default();
        let ip = |text: &str| text.parse().expect("an address");
        let check = |client: &str, expected: bool| assert_eq!(counts.try_add(ip(client), 2), expected, "{client}");
        check("192.0.2.1", true);
        check("::ffff:192.0.2.1", true);
        check("192.0.2.1", false);
        check("192.0.2.2", true);
        check("2001:db8:0:1::1", true);
        check("2001:db8:0:1:ffff::2", true);
        check("2001:db8:0:1:1::3", false);
        check("2001:db8:0:2::1", true);
        counts.remove(ip("192.0.2.1"));
        counts.remove(ip("2001:db8:0:1:8::8"));
        check("192.0.2.1", true);
        check("2001:db8:0:1::9", true);
        check("2001:db8:0:1::9", false);
    }
}
