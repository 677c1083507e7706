//! Finds the numbers by identity (worker, names of sites, pools and servers), so that they go on counting over a
//! reload, and adds them up for a scrape. Its lock is taken at registration and at a scrape, never by a request. How
//! they are bounded is in `table`.

use super::arm::ArmMetrics;
use super::busiest::Busiest;
use super::cache::{CacheMetrics, CacheNumbers};
use super::certificates::CertificateMetrics;
use super::configuration::ConfigurationMetrics;
use super::discovery::DiscoveryMetrics;
use super::histogram::Histogram;
use super::kubernetes::KubernetesMetrics;
use super::log_ins::LogInMetrics;
use super::memory::MemoryMetrics;
use super::pool::{PoolMetrics, PoolTotals};
use super::process;
use super::server::{ServerCounts, ServerMetrics, ServerTotals};
use super::server_state::ServerStateMetrics;
use super::site::{SiteMetrics, SiteTotals};
use super::table::{OTHER, Table, TwoNames, two_names};
use super::token_keys::TokenKeyMetrics;
use super::worker::{LogWriterMetrics, WorkerMetrics};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

/// Sites with series of their own, and routes of sites that have names: the busiest. The others are `site="other"`
/// together: a scrape of more would hurt whoever stores it.
pub const SITE_SERIES_MAX: usize = 2_000;
/// Sites and named routes that are counted apart, so that it is known which are the busiest. What comes beyond is
/// counted together.
pub const SITES_COUNTED_MAX: usize = 100_000;
/// Objects that routes come from, with a series of their own: the busiest. The others are `kind="other"` together.
pub const OBJECT_SERIES_MAX: usize = 1_000;
/// The site of requests that no site takes, and of those that never became requests.
const NO_SITE: &str = "none";
/// Pools with numbers of their own.
pub const POOL_SERIES_MAX: usize = 10_000;
/// Servers of all pools together with numbers of their own; further ones share `pool="other",server="other"`. Lower
/// than the others because each has a histogram, and because discovery may bring any number of them.
pub const SERVER_SERIES_MAX: usize = 2_000;
/// Arms of splits with a series of their own; further ones are `site="other"` together.
pub const ARM_SERIES_MAX: usize = 10_000;
/// As [`SERVER_SERIES_MAX`], for pools whose servers are discovered, each kind of source counted.
pub const DISCOVERY_SERIES_MAX: usize = 2_000;

/// A site, the name of a route and an arm there.
pub(super) type ArmNames = (Arc<str>, Arc<str>, Arc<str>);

fn arm_names((site, route, arm): (&str, &str, &str)) -> ArmNames {
    (Arc::from(site), Arc::from(route), Arc::from(arm))
}

/// A site, the name of a route and what the route comes from, each empty where there is none.
type RouteNames = (Arc<str>, Arc<str>, Arc<str>);

/// All numbers of the process. Shared in an `Arc`.
#[derive(Debug)]
pub struct Registry {
    version: &'static str,
    started: SystemTime,
    tables: Mutex<Tables>,
    log_writer: Arc<LogWriterMetrics>,
    configuration: ConfigurationMetrics,
    kubernetes: KubernetesMetrics,
    memory: MemoryMetrics,
    log_ins: LogInMetrics,
    cache: CacheMetrics,
    certificates: CertificateMetrics,
    token_keys: TokenKeyMetrics,
}

/// Sums over all workers that a change of the configuration is judged by. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    pub requests: u64,
    /// Answers with a status from 500 on, our own and those of upstreams.
    pub server_errors: u64,
    /// Of these, what no client had provoked and no route was told to answer.
    pub failures: u64,
    pub handshakes: u64,
    pub handshake_failures: u64,
    /// Of those, the ones that fail whoever asks.
    pub own_handshake_failures: u64,
}

#[derive(Debug)]
struct Tables {
    workers: Vec<Arc<WorkerMetrics>>,
    sites: Table<RouteNames, SiteMetrics>,
    busiest: Busiest,
    busiest_objects: Busiest,
    /// What sites that are gone had counted, from when the table was full.
    sites_gone: SiteTotals,
    arms: Table<ArmNames, ArmMetrics>,
    arms_gone: u64,
    pools: Table<Arc<str>, PoolMetrics>,
    pools_gone: PoolTotals,
    /// By pool and server.
    servers: Table<TwoNames, ServerMetrics>,
    servers_gone: ServerTotals,
    server_states: Table<TwoNames, ServerStateMetrics>,
    /// By pool and kind of source.
    discoveries: Table<TwoNames, DiscoveryMetrics>,
}

impl Registry {
    /// To be made when the process starts: `process_start_time_seconds` is taken here.
    pub fn new(version: &'static str) -> Registry {
        let tables = Tables {
            workers: Vec::new(),
            sites: Table::new(SITES_COUNTED_MAX, arm_names((OTHER, "", ""))),
            busiest: Busiest::new(SITE_SERIES_MAX),
            busiest_objects: Busiest::new(OBJECT_SERIES_MAX),
            sites_gone: SiteTotals::default(),
            arms: Table::new(ARM_SERIES_MAX, arm_names((OTHER, "", ""))),
            arms_gone: 0,
            pools: Table::new(POOL_SERIES_MAX, Arc::from(OTHER)),
            pools_gone: PoolTotals::default(),
            servers: Table::new(SERVER_SERIES_MAX, two_names(OTHER, OTHER)),
            servers_gone: ServerTotals::default(),
            server_states: Table::new(SERVER_SERIES_MAX, two_names(OTHER, OTHER)),
            discoveries: Table::new(DISCOVERY_SERIES_MAX, two_names(OTHER, OTHER)),
        };
        Registry {
            version,
            started: SystemTime::now(),
            tables: Mutex::new(tables),
            log_writer: Arc::default(),
            configuration: ConfigurationMetrics::default(),
            kubernetes: KubernetesMetrics::default(),
            memory: MemoryMetrics::default(),
            log_ins: LogInMetrics::default(),
            cache: CacheMetrics::default(),
            certificates: CertificateMetrics::default(),
            token_keys: TokenKeyMetrics::default(),
        }
    }

    /// The numbers of the worker of that index, counted from 0. Only that worker's thread may write them.
    pub fn worker(&self, index: usize) -> Arc<WorkerMetrics> {
        let workers = &mut self.lock().workers;
        while workers.len() <= index {
            workers.push(Arc::default());
        }
        workers[index].clone()
    }

    /// The numbers that worker `worker` keeps for a site, and there for its routes of that name; for those without one
    /// it is empty. The same ones for the same names, before and after a reload.
    pub fn site(&self, worker: usize, name: &str, route: &str) -> Arc<SiteMetrics> {
        self.route(worker, (name, route, ""))
    }

    /// As [`Registry::site`], for a route that comes from an object. What is counted there is counted for the site and
    /// the name of the route as well, and once only.
    pub fn route(&self, worker: usize, names: (&str, &str, &str)) -> Arc<SiteMetrics> {
        let tables = &mut *self.lock();
        tables.sites.entry(worker, arm_names(names), |gone| tables.sites_gone.add(gone))
    }

    /// The numbers that worker `worker` keeps for an arm of a `split`, by its site, its route, which is empty where it
    /// has no name, and its own name.
    pub fn arm(&self, worker: usize, names: (&str, &str, &str)) -> Arc<ArmMetrics> {
        let tables = &mut *self.lock();
        tables.arms.entry(worker, arm_names(names), |gone| tables.arms_gone += gone.requests.value())
    }

    /// The numbers that worker `worker` keeps for requests that come to no site.
    pub fn without_site(&self, worker: usize) -> Arc<SiteMetrics> {
        self.site(worker, NO_SITE, "")
    }

    /// The numbers that worker `worker` keeps for a pool: the same ones for the same name, before and after a reload.
    pub fn pool(&self, worker: usize, name: &str) -> Arc<PoolMetrics> {
        let tables = &mut *self.lock();
        tables.pools.entry(worker, Arc::from(name), |gone| tables.pools_gone.add(gone))
    }

    /// The numbers that worker `worker` keeps for a server of a pool: the same ones for the same names, before and
    /// after a reload, and when a server that had left comes back. To be let go when the server leaves; until then it
    /// cannot make room for another.
    pub fn server(&self, worker: usize, pool: &str, server: &str) -> Arc<ServerMetrics> {
        let tables = &mut *self.lock();
        tables.servers.entry(worker, two_names(pool, server), |gone| tables.servers_gone.add(gone))
    }

    /// The state of a server of a pool, for all threads together. Its series are there as long as somebody holds it.
    pub fn server_state(&self, pool: &str, server: &str) -> Arc<ServerStateMetrics> {
        self.lock().server_states.entry_of_all(two_names(pool, server))
    }

    /// What became of looking for the servers of a pool, by kind of source such as `dns`. Its series are there as long
    /// as somebody holds it.
    pub fn discovery(&self, pool: &str, kind: &str) -> Arc<DiscoveryMetrics> {
        self.lock().discoveries.entry_of_all(two_names(pool, kind))
    }

    /// What the cache holds.
    pub fn cache(&self) -> &CacheMetrics {
        &self.cache
    }

    /// How sets of keys do that tokens are verified with.
    pub fn token_keys(&self) -> &TokenKeyMetrics {
        &self.token_keys
    }

    /// Which certificates are served, and what became of orders.
    pub fn certificates(&self) -> &CertificateMetrics {
        &self.certificates
    }

    /// Log-ins by OpenID Connect.
    pub fn log_ins(&self) -> &LogInMetrics {
        &self.log_ins
    }

    /// How near the process is to its memory budget.
    pub fn memory(&self) -> &MemoryMetrics {
        &self.memory
    }

    /// The numbers of the access log's writer thread.
    pub fn log_writer(&self) -> Arc<LogWriterMetrics> {
        self.log_writer.clone()
    }

    /// What became of the configuration.
    pub fn configuration(&self) -> &ConfigurationMetrics {
        &self.configuration
    }

    /// How the objects of a cluster do that say what is served.
    pub fn kubernetes(&self) -> &KubernetesMetrics {
        &self.kubernetes
    }

    pub fn traffic(&self) -> Traffic {
        let workers = self.lock().workers.clone();
        workers.iter().fold(Traffic::default(), |sum, worker| Traffic {
            requests: sum.requests + worker.requests.value(),
            server_errors: sum.server_errors + worker.server_errors.value(),
            failures: sum.failures + worker.failures.value(),
            handshakes: sum.handshakes + worker.handshakes_completed(),
            handshake_failures: sum.handshake_failures + worker.handshakes_failed_in_all(),
            own_handshake_failures: sum.own_handshake_failures + worker.handshakes_failed_by_us(),
        })
    }

    /// The numbers of one pool, all workers together: requests, errors, retries, open and idle connections.
    pub fn pool_totals(&self, name: &str) -> PoolTotals {
        let tables = self.lock();
        let mut totals = PoolTotals::default();
        tables.pools.find(name).for_each(|numbers| totals.add(numbers));
        totals
    }

    /// The numbers of one server of a pool, all workers together.
    pub fn server_totals(&self, pool: &str, server: &str) -> ServerTotals {
        let tables = self.lock();
        let mut totals = ServerTotals::default();
        tables.servers.find(&two_names(pool, server)).for_each(|numbers| totals.add(numbers));
        totals
    }

    /// How requests to one server of a pool went. Nothing is copied but two numbers: with a hundred thousand servers
    /// this is asked every few seconds of each.
    pub fn server_counts(&self, pool_and_server: &(Arc<str>, Arc<str>)) -> ServerCounts {
        let tables = self.lock();
        let add = |counts: ServerCounts, numbers: &ServerMetrics| ServerCounts {
            requests: counts.requests + numbers.requests.value(),
            failures: counts.failures + numbers.failures.value(),
        };
        tables.servers.find(pool_and_server).fold(ServerCounts::default(), add)
    }

    /// Adds up the workers. The lock is let go before anything is formatted.
    pub(super) fn totals(&self) -> Totals<'_> {
        let tables = &mut *self.lock();
        let ShownSeries { sites, objects } = tables.sites_shown(Instant::now());
        Totals {
            version: self.version,
            started: self.started,
            process: process::read(),
            access_log_write_failed: self.log_writer.write_failed(),
            configuration: &self.configuration,
            kubernetes: &self.kubernetes,
            workers: tables.workers.clone(),
            sites,
            objects,
            arms: tables.arms.totals(&tables.arms_gone, |sum, arm| *sum += arm.requests.value()),
            pools: tables.pools.totals(&tables.pools_gone, PoolTotals::add),
            servers: tables.servers.totals(&tables.servers_gone, ServerTotals::add),
            server_states: tables.server_states.held().map(|(names, state)| (names.clone(), state.clone())).collect(),
            discoveries: tables.discoveries.held().map(|(names, discovery)| (names.clone(), discovery.clone())).collect(),
            memory: &self.memory,
            log_ins: &self.log_ins,
            cache: self.cache.numbers(),
            certificates: &self.certificates,
            token_keys: &self.token_keys,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        // Nothing that runs under the lock leaves the tables half changed.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// The busiest, in order, and behind them all others together.
    fn sites_shown(&mut self, now: Instant) -> ShownSeries {
        let mut all = self.sites.totals(&SiteTotals::default(), SiteTotals::add);
        let shared = all.pop_if(|(names, _)| *names.0 == *OTHER).map(|(_, totals)| totals);
        let (mut by_site, mut by_object): (BTreeMap<TwoNames, SiteTotals>, BTreeMap<Arc<str>, SiteTotals>) = Default::default();
        for ((site, route, object), totals) in all {
            if !object.is_empty() && !totals.is_idle() {
                by_object.entry(object).or_default().add_totals(&totals);
            }
            by_site.entry((site, route)).or_default().add_totals(&totals);
        }
        let by_object = by_object.into_iter().map(|(object, totals)| ((object, Arc::from("")), totals)).collect();
        let (mut objects, others) = self.busiest_objects.choose(by_object, now);
        objects.extend(others.map(|totals| (two_names(OTHER, ""), totals)));
        let (mut shown, others) = self.busiest.choose(by_site.into_iter().collect(), now);
        let together = [shared, others, Some(self.sites_gone.clone()).filter(|gone| !gone.is_idle())];
        let together = together.into_iter().flatten().reduce(|mut sum, totals| {
            sum.add_totals(&totals);
            sum
        });
        shown.extend(together.map(|totals| (two_names(OTHER, ""), totals)));
        ShownSeries { sites: shown, objects: objects.into_iter().map(|((object, _), totals)| (object, totals)).collect() }
    }
}

/// What requests were counted for.
struct ShownSeries {
    /// By site and name of route.
    sites: Vec<(TwoNames, SiteTotals)>,
    /// By what routes come from.
    objects: Vec<(Arc<str>, SiteTotals)>,
}

/// One moment's sums, by name; `other` stands last when there is any.
#[derive(Debug)]
pub(super) struct Totals<'a> {
    pub version: &'static str,
    pub started: SystemTime,
    pub process: process::ProcessNumbers,
    pub access_log_write_failed: u64,
    pub configuration: &'a ConfigurationMetrics,
    pub kubernetes: &'a KubernetesMetrics,
    pub workers: Vec<Arc<WorkerMetrics>>,
    pub sites: Vec<(TwoNames, SiteTotals)>,
    pub objects: Vec<(Arc<str>, SiteTotals)>,
    pub arms: Vec<(ArmNames, u64)>,
    pub pools: Vec<(Arc<str>, PoolTotals)>,
    pub servers: Vec<(TwoNames, ServerTotals)>,
    pub server_states: Vec<(TwoNames, ServerStateMetrics)>,
    pub discoveries: Vec<(TwoNames, DiscoveryMetrics)>,
    pub memory: &'a MemoryMetrics,
    pub log_ins: &'a LogInMetrics,
    pub cache: Option<CacheNumbers>,
    pub certificates: &'a CertificateMetrics,
    pub token_keys: &'a TokenKeyMetrics,
}

/// What workers write with each request is on lines of its own, whatever the allocator puts beside it: counts of
/// references stand in front of it, in the same allocation.
const _: () = assert!(
    align_of::<WorkerMetrics>() == APART_BYTES
        && align_of::<PoolMetrics>() == APART_BYTES
        && align_of::<ServerMetrics>() == APART_BYTES
        && align_of::<Histogram>() == APART_BYTES
        && size_of::<ServerMetrics>().is_multiple_of(APART_BYTES)
);
/// Two cache lines: processors fetch them in pairs.
const APART_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::{Registry, SERVER_SERIES_MAX};
    use std::sync::Arc;

    #[test]
    fn the_same_name_is_the_same_numbers() {
        let registry = Registry::new("test");
        registry.pool(1, "api").requests.add(3);
        assert_eq!(registry.pool(1, "api").requests.value(), 3);
        assert_eq!(registry.pool(0, "api").requests.value(), 0);
        assert!(Arc::ptr_eq(&registry.site(0, "a", ""), &registry.site(0, "a", "")));
        assert!(!Arc::ptr_eq(&registry.site(0, "a", ""), &registry.site(0, "a", "cart")));
        assert!(Arc::ptr_eq(&registry.without_site(0), &registry.without_site(0)));
        assert!(Arc::ptr_eq(&registry.worker(3), &registry.worker(3)));
        assert!(!Arc::ptr_eq(&registry.worker(3), &registry.worker(2)));
        assert!(Arc::ptr_eq(&registry.server(0, "api", "a:80"), &registry.server(0, "api", "a:80")));
        assert!(!Arc::ptr_eq(&registry.server(0, "api", "a:80"), &registry.server(1, "api", "a:80")));
        assert!(!Arc::ptr_eq(&registry.server(0, "api", "a:80"), &registry.server(0, "web", "a:80")));
        assert!(Arc::ptr_eq(&registry.server_state("api", "a:80"), &registry.server_state("api", "a:80")));
        assert!(!Arc::ptr_eq(&registry.discovery("api", "dns"), &registry.discovery("api", "file")));
    }

    #[test]
    fn servers_are_bounded_over_all_pools() {
        let registry = Registry::new("test");
        let name = |number: usize| (format!("pool {}", number % 7), format!("10.0.0.1:{number}"));
        let held: Vec<_> = (0..SERVER_SERIES_MAX + 5)
            .map(|number| {
                let (pool, server) = name(number);
                let numbers = registry.server(0, &pool, &server);
                numbers.requests.increment();
                (numbers, registry.server_state(&pool, &server))
            })
            .collect();
        let requests = |number: usize| registry.server_totals(&name(number).0, &name(number).1).requests;
        assert_eq!((requests(0), requests(SERVER_SERIES_MAX - 1), requests(SERVER_SERIES_MAX)), (1, 1, 0));
        let text = registry.render_prometheus();
        let series = |prefix: &str| text.lines().filter(|line| line.starts_with(prefix)).count();
        assert_eq!(series("tidegate_upstream_server_requests_total{"), SERVER_SERIES_MAX + 1);
        assert!(text.contains("tidegate_upstream_server_requests_total{pool=\"other\",server=\"other\"} 5\n"));
        assert_eq!(series("tidegate_upstream_server_state{"), SERVER_SERIES_MAX, "a state of many servers together says nothing");
        drop(held);
    }

    #[test]
    fn servers_that_come_and_go_never_fill_the_table() {
        let registry = Registry::new("test");
        for number in 0..3 * SERVER_SERIES_MAX {
            let server = format!("10.0.0.1:{number}");
            registry.server(0, "api", &server).requests.increment();
            assert_eq!(registry.server_totals("api", &server).requests, 1, "{server} has numbers of its own");
        }
    }
}
