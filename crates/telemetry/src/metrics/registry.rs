//! Finds the numbers by identity (worker, site name, pool name), so that they go on counting over a reload, and adds them up for a scrape.
//! Its lock is taken at registration and at a scrape, never by a request.

use super::configuration::ConfigurationMetrics;
use super::pool::{PoolMetrics, PoolTotals};
use super::process;
use super::prometheus;
use super::site::{SiteMetrics, SiteTotals};
use super::worker::{LogWriterMetrics, WorkerMetrics};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Sites with numbers of their own. All further ones share `site="other"`: a scrape of more would hurt whoever stores it.
pub const SITE_SERIES_MAX: usize = 10_000;
/// As [`SITE_SERIES_MAX`], for pools.
pub const POOL_SERIES_MAX: usize = 10_000;

/// The name under which everything beyond the bounds is counted.
const OTHER: &str = "other";
/// Looking for names that nobody uses any more walks the whole table, so only one in so many refused names pays for it.
const SWEEP_EVERY: usize = 1024;

/// All numbers of the process. Shared in an `Arc`.
#[derive(Debug)]
pub struct Registry {
    version: &'static str,
    started: SystemTime,
    tables: Mutex<Tables>,
    log_writer: Arc<LogWriterMetrics>,
    configuration: Arc<ConfigurationMetrics>,
}

/// Sums over all workers that a change of the configuration is judged by. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    pub requests: u64,
    /// Answers with a status from 500 on, our own and those of upstreams.
    pub server_errors: u64,
    pub handshakes: u64,
    pub handshake_failures: u64,
}

#[derive(Debug)]
struct Tables {
    workers: Vec<Arc<WorkerMetrics>>,
    sites: Table<SiteMetrics>,
    /// What sites that are gone had counted, from when the table was full.
    sites_gone: SiteTotals,
    pools: Table<PoolMetrics>,
    pools_gone: PoolTotals,
}

impl Registry {
    /// To be made when the process starts: `process_start_time_seconds` is taken here.
    pub fn new(version: &'static str) -> Registry {
        let tables = Tables {
            workers: Vec::new(),
            sites: Table::new(SITE_SERIES_MAX),
            sites_gone: SiteTotals::default(),
            pools: Table::new(POOL_SERIES_MAX),
            pools_gone: PoolTotals::default(),
        };
        let started = SystemTime::now();
        Registry { version, started, tables: Mutex::new(tables), log_writer: Arc::default(), configuration: Arc::default() }
    }

    /// The numbers of the worker of that index, counted from 0. Only that worker's thread may write them.
    pub fn worker(&self, index: usize) -> Arc<WorkerMetrics> {
        let workers = &mut self.lock().workers;
        while workers.len() <= index {
            workers.push(Arc::default());
        }
        workers[index].clone()
    }

    /// The numbers that worker `worker` keeps for a site: the same ones for the same name, before and after a reload.
    pub fn site(&self, worker: usize, name: &str) -> Arc<SiteMetrics> {
        let tables = &mut *self.lock();
        tables.sites.entry(worker, name, |gone| tables.sites_gone.add(gone))
    }

    /// The numbers that worker `worker` keeps for a pool: the same ones for the same name, before and after a reload.
    pub fn pool(&self, worker: usize, name: &str) -> Arc<PoolMetrics> {
        let tables = &mut *self.lock();
        tables.pools.entry(worker, name, |gone| tables.pools_gone.add(gone))
    }

    /// The numbers of the access log's writer thread.
    pub fn log_writer(&self) -> Arc<LogWriterMetrics> {
        self.log_writer.clone()
    }

    /// What became of the configuration.
    pub fn configuration(&self) -> &ConfigurationMetrics {
        &self.configuration
    }

    pub fn traffic(&self) -> Traffic {
        let workers = self.lock().workers.clone();
        workers.iter().fold(Traffic::default(), |sum, worker| Traffic {
            requests: sum.requests + worker.requests.value(),
            server_errors: sum.server_errors + worker.server_errors.value(),
            handshakes: sum.handshakes + worker.handshakes_completed(),
            handshake_failures: sum.handshake_failures + worker.handshakes_failed_in_all(),
        })
    }

    /// The numbers of one pool, all workers together: requests, errors, retries, open and idle connections.
    pub fn pool_totals(&self, name: &str) -> PoolTotals {
        let tables = self.lock();
        let mut totals = PoolTotals::default();
        tables.pools.by_name.get(name).into_iter().flatten().flatten().for_each(|numbers| totals.add(numbers));
        totals
    }

    /// Everything, in Prometheus' text format 0.0.4 (`Content-Type: text/plain; version=0.0.4; charset=utf-8`).
    pub fn render_prometheus(&self) -> String {
        prometheus::render(&self.totals())
    }

    /// Adds up the workers. The lock is let go before anything is formatted.
    fn totals(&self) -> Totals {
        let tables = self.lock();
        Totals {
            version: self.version,
            started: self.started,
            process: process::read(),
            access_log_write_failed: self.log_writer.write_failed(),
            configuration: self.configuration.clone(),
            workers: tables.workers.clone(),
            sites: tables.sites.totals(&tables.sites_gone, SiteTotals::add),
            pools: tables.pools.totals(&tables.pools_gone, PoolTotals::add),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        // Nothing that runs under the lock leaves the tables half changed.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One moment's sums, by name; `other` stands last when there is any.
#[derive(Debug)]
pub(super) struct Totals {
    pub version: &'static str,
    pub started: SystemTime,
    pub process: process::ProcessNumbers,
    pub access_log_write_failed: u64,
    pub configuration: Arc<ConfigurationMetrics>,
    pub workers: Vec<Arc<WorkerMetrics>>,
    pub sites: Vec<(Arc<str>, SiteTotals)>,
    pub pools: Vec<(Arc<str>, PoolTotals)>,
}

/// Numbers by name and worker, bounded.
#[derive(Debug)]
struct Table<T> {
    names_max: usize,
    by_name: BTreeMap<Arc<str>, ByWorker<T>>,
    other: ByWorker<T>,
    refused: usize,
}

/// By worker index; `None` where that worker has not asked yet.
type ByWorker<T> = Vec<Option<Arc<T>>>;

impl<T: Default> Table<T> {
    fn new(names_max: usize) -> Table<T> {
        Table { names_max, by_name: BTreeMap::new(), other: Vec::new(), refused: 0 }
    }

    /// `gone` is told the numbers of names that were given up to make room.
    fn entry(&mut self, worker: usize, name: &str, gone: impl FnMut(&T)) -> Arc<T> {
        if let Some(numbers) = self.by_name.get_mut(name) {
            return of_worker(numbers, worker);
        }
        // A pool may be called `other`; two series of one name would make the whole scrape invalid.
        if name == OTHER || !self.has_room(gone) {
            return of_worker(&mut self.other, worker);
        }
        of_worker(self.by_name.entry(Arc::from(name)).or_default(), worker)
    }

    fn has_room(&mut self, gone: impl FnMut(&T)) -> bool {
        if self.by_name.len() < self.names_max {
            return true;
        }
        if self.refused.is_multiple_of(SWEEP_EVERY) {
            self.sweep(gone);
        }
        let room = self.by_name.len() < self.names_max;
        self.refused = if room { 0 } else { self.refused + 1 };
        room
    }

    /// Forgets names that only this table still holds: no worker has the site or pool in its configuration.
    fn sweep(&mut self, mut gone: impl FnMut(&T)) {
        self.by_name.retain(|_, numbers| {
            // `get_mut` succeeds for a sole owner only, and makes the last holder's writes visible.
            if !numbers.iter_mut().flatten().all(|arc| Arc::get_mut(arc).is_some()) {
                return true;
            }
            numbers.iter().flatten().for_each(|arc| gone(arc));
            false
        });
    }

    fn totals<S: Clone + Default>(&self, gone: &S, add: fn(&mut S, &T)) -> Vec<(Arc<str>, S)> {
        let sum = |mut totals: S, numbers: &ByWorker<T>| {
            numbers.iter().flatten().for_each(|arc| add(&mut totals, arc));
            totals
        };
        let mut all: Vec<_> = self.by_name.iter().map(|(name, numbers)| (name.clone(), sum(S::default(), numbers))).collect();
        if !self.other.is_empty() {
            all.push((Arc::from(OTHER), sum(gone.clone(), &self.other)));
        }
        all
    }
}

fn of_worker<T: Default>(numbers: &mut ByWorker<T>, worker: usize) -> Arc<T> {
    if numbers.len() <= worker {
        numbers.resize_with(worker + 1, || None);
    }
    numbers[worker].get_or_insert_default().clone()
}

#[cfg(test)]
mod tests {
    use super::{OTHER, Registry, SWEEP_EVERY, Table};
    use crate::metrics::Counter;
    use std::sync::Arc;

    #[test]
    fn the_same_name_is_the_same_numbers() {
        let registry = Registry::new("test");
        registry.pool(1, "api").requests.add(3);
        assert_eq!(registry.pool(1, "api").requests.value(), 3);
        assert_eq!(registry.pool(0, "api").requests.value(), 0);
        assert!(Arc::ptr_eq(&registry.site(0, "a"), &registry.site(0, "a")));
        assert!(Arc::ptr_eq(&registry.worker(3), &registry.worker(3)));
        assert!(!Arc::ptr_eq(&registry.worker(3), &registry.worker(2)));
    }

    #[test]
    fn names_beyond_the_bound_share_one() {
        let mut table: Table<Counter> = Table::new(3);
        let held: Vec<_> = ["a", "b", "c"].iter().map(|name| table.entry(0, name, |_| panic!("still held"))).collect();
        for name in ["d", "e", OTHER] {
            table.entry(0, name, |_| panic!("still held")).add(1);
        }
        held[1].add(5);
        let totals = table.totals(&0, |sum: &mut u64, counter| *sum += counter.value());
        let seen: Vec<_> = totals.iter().map(|(name, sum)| (&**name, *sum)).collect();
        assert_eq!(seen, [("a", 0), ("b", 5), ("c", 0), (OTHER, 3)]);
    }

    #[test]
    fn a_full_table_gives_up_names_nobody_holds_and_keeps_their_counts() {
        let mut table: Table<Counter> = Table::new(2);
        let mut gone = 0;
        let held = table.entry(1, "held", |_| ());
        table.entry(0, "left", |_| ()).add(7);
        table.entry(1, "left", |_| ()).add(1);
        table.entry(0, "new", |counter| gone += counter.value()).add(2);
        held.add(4);
        let totals = table.totals(&gone, |sum: &mut u64, counter| *sum += counter.value());
        let seen: Vec<_> = totals.iter().map(|(name, sum)| (&**name, *sum)).collect();
        assert_eq!(seen, [("held", 4), ("new", 2)]);
        assert_eq!(gone, 8);
    }

    #[test]
    fn a_full_table_is_swept_again_after_a_while() {
        let mut table: Table<Counter> = Table::new(1);
        let held = table.entry(0, "first", |_| ());
        let _ = table.entry(0, "second", |_| panic!("still held"));
        drop(held);
        let mut swept = 0;
        for _ in 0..SWEEP_EVERY {
            let _ = table.entry(0, "second", |_| swept += 1);
        }
        assert_eq!(swept, 1);
        assert!(table.by_name.contains_key("second"));
    }
}
