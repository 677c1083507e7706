//! What differs between two configurations, by name: the sites and pools that came, changed or went, and whether
//! anything else did. Found once, and handed to everything that takes on a change, so that nothing looks at what
//! stayed. How a difference is told to people is `plan` in `control`.

use crate::{Configuration, Site, TlsSource};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delta {
    pub sites: Difference,
    pub pools: Difference,
    /// Whether addresses, hosts, names that are passed on or options of listeners differ, or the order of sites.
    pub listening: bool,
    /// Whether anything differs beside sites and pools.
    pub settings: bool,
}

/// What differs in one list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Entries that came or changed, in their order.
    pub changed: Vec<Changed>,
    /// Positions in the list before.
    pub gone: Vec<usize>,
    /// By position now, where an entry of that name stood before. `None`: each stands where it stood.
    moved: Option<Vec<Option<usize>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    pub position: usize,
    /// Where the entry of that name stood before; `None` when it came.
    pub before: Option<usize>,
}

impl Delta {
    /// Costs a comparison of pointers for each site and pool that both share, and of contents for the others.
    pub fn between(before: &Configuration, now: &Configuration) -> Delta {
        let sites = Difference::between(&before.sites, &now.sites, |site| site.addresses.first());
        let pools = Difference::between(&before.pools, &now.pools, |pool| &pool.name);
        let has_moved = |changed: &Changed| {
            let now = &now.sites[changed.position];
            let is_refusing = |site: &Site| site.tls.source == TlsSource::Reject;
            let differs = |before: &Site| before.addresses != now.addresses || is_refusing(before) != is_refusing(now);
            changed.before.is_none_or(|known| differs(&before.sites[known]))
        };
        let listening = !sites.is_in_place()
            || sites.changed.iter().any(has_moved)
            || before.tcp != now.tcp
            || before.listeners != now.listeners;
        Delta { sites, pools, listening, settings: !have_same_settings(before, now) }
    }

    /// From nothing.
    pub fn all_of(now: &Configuration) -> Delta {
        let (sites, pools) = (Difference::all_new(now.sites.len()), Difference::all_new(now.pools.len()));
        Delta { sites, pools, listening: true, settings: true }
    }

    pub fn is_empty(&self) -> bool {
        let Delta { sites, pools, listening, settings } = self;
        sites.is_empty() && pools.is_empty() && !listening && !settings
    }

    /// Both without the sites and pools that they have in common.
    pub fn narrowed(&self, before: &Configuration, now: &Configuration) -> (Configuration, Configuration) {
        let of_before = |difference: &Difference| -> Vec<usize> {
            let mut places: Vec<_> = difference.changed.iter().filter_map(|changed| changed.before).collect();
            places.extend(&difference.gone);
            places.sort_unstable();
            places
        };
        let of_now = |difference: &Difference| difference.changed.iter().map(|changed| changed.position).collect();
        (
            before.with_only(of_before(&self.sites), of_before(&self.pools)),
            now.with_only(of_now(&self.sites), of_now(&self.pools)),
        )
    }

    /// Sites that were or are in the difference.
    pub fn sites_of<'a>(&'a self, before: &'a Configuration, now: &'a Configuration) -> impl Iterator<Item = &'a Arc<Site>> {
        self.sites.entries(&before.sites, &now.sites)
    }
}

impl Configuration {
    fn with_only(&self, sites: Vec<usize>, pools: Vec<usize>) -> Configuration {
        Configuration {
            sites: sites.into_iter().map(|place| self.sites[place].clone()).collect(),
            pools: pools.into_iter().map(|place| self.pools[place].clone()).collect(),
            edition: self.edition,
            tcp: self.tcp.clone(),
            maps: self.maps.clone(),
            geoip: self.geoip.clone(),
            listeners: self.listeners.clone(),
            admin: self.admin.clone(),
            access_logs: self.access_logs.clone(),
            log: self.log.clone(),
            threads: self.threads,
            driver: self.driver,
            memory: self.memory,
            cache: self.cache.clone(),
            certificates: self.certificates.clone(),
            acme: self.acme.clone(),
            storage: self.storage.clone(),
            ticket_keys: self.ticket_keys.clone(),
            drain: self.drain,
            drain_delay: self.drain_delay,
            limits: self.limits,
            containers: self.containers.clone(),
            filled: Arc::clone(&self.filled),
        }
    }
}

impl Difference {
    fn between<'a, T: PartialEq, K: Hash + Eq>(before: &'a [Arc<T>], now: &'a [Arc<T>], name: impl Fn(&'a T) -> K) -> Difference {
        let is_same = |before: &Arc<T>, now: &Arc<T>| Arc::ptr_eq(before, now) || before == now;
        let mut difference = Difference::default();
        for (position, (known, entry)) in before.iter().zip(now).enumerate() {
            if is_same(known, entry) {
                continue;
            }
            if name(known) != name(entry) {
                return Difference::of_moved(before, now, name);
            }
            difference.changed.push(Changed { position, before: Some(position) });
        }
        let came = (before.len()..now.len()).map(|position| Changed { position, before: None });
        difference.changed.extend(came);
        difference.gone.extend(now.len()..before.len());
        difference
    }

    fn of_moved<'a, T: PartialEq, K: Hash + Eq>(
        before: &'a [Arc<T>],
        now: &'a [Arc<T>],
        name: impl Fn(&'a T) -> K,
    ) -> Difference {
        // Where one came among thousands, those in front of it and behind it are where they were beside each other.
        let start = before.iter().zip(now).take_while(|(known, entry)| Arc::ptr_eq(known, entry)).count();
        let (middle, others) = (&before[start..], &now[start..]);
        let ends = middle.iter().rev().zip(others.iter().rev());
        let end = ends.take_while(|(known, entry)| Arc::ptr_eq(known, entry)).count();
        let (middle, others) = (&middle[..middle.len() - end], &others[..others.len() - end]);
        let mut known: HashMap<K, usize> = middle.iter().enumerate().map(|(place, entry)| (name(entry), start + place)).collect();
        let mut difference = Difference::default();
        let mut moved: Vec<Option<usize>> = Vec::with_capacity(now.len());
        moved.extend((0..start).map(Some));
        for (position, entry) in (start..).zip(others) {
            let place = known.remove(&name(entry));
            let is_same = |place: usize| Arc::ptr_eq(&before[place], entry) || before[place] == *entry;
            if !place.is_some_and(is_same) {
                difference.changed.push(Changed { position, before: place });
            }
            moved.push(place);
        }
        moved.extend((start + middle.len()..before.len()).map(Some));
        difference.gone.extend(known.into_values());
        difference.gone.sort_unstable();
        difference.moved = Some(moved);
        difference
    }

    fn all_new(count: usize) -> Difference {
        Difference { changed: (0..count).map(|position| Changed { position, before: None }).collect(), ..Difference::default() }
    }

    /// Every entry counts as changed, whether it did or not: for what each of them has to be made anew.
    #[must_use]
    pub fn widened(&self, count: usize) -> Difference {
        let known: HashMap<usize, Option<usize>> =
            self.changed.iter().map(|changed| (changed.position, changed.before)).collect();
        let entry = |position| {
            let before = known.get(&position).copied().unwrap_or_else(|| self.before(position));
            Changed { position, before }
        };
        Difference { changed: (0..count).map(entry).collect(), ..self.clone() }
    }

    /// Where an entry that did not come stood before.
    pub fn before(&self, position: usize) -> Option<usize> {
        match &self.moved {
            None => Some(position),
            Some(moved) => moved.get(position).copied().flatten(),
        }
    }

    /// None came, none went, and each stands where it stood.
    pub fn is_in_place(&self) -> bool {
        self.moved.is_none() && self.gone.is_empty() && self.changed.iter().all(|changed| changed.before.is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty() && self.moved.is_none()
    }

    fn entries<'a, T>(&'a self, before: &'a [Arc<T>], now: &'a [Arc<T>]) -> impl Iterator<Item = &'a Arc<T>> {
        let came = self.changed.iter().map(|changed| &now[changed.position]);
        let changed = self.changed.iter().filter_map(|changed| before.get(changed.before?));
        came.chain(changed).chain(self.gone.iter().filter_map(|place| before.get(*place)))
    }
}

fn have_same_settings(before: &Configuration, now: &Configuration) -> bool {
    // Named one by one, so that a new part of a configuration cannot be forgotten.
    let Configuration {
        edition,
        sites: _,
        tcp,
        maps,
        geoip,
        pools: _,
        listeners,
        admin,
        access_logs,
        log,
        threads,
        driver,
        memory,
        cache,
        certificates,
        acme,
        storage,
        ticket_keys,
        drain,
        drain_delay,
        limits,
        containers,
        filled,
    } = before;
    (edition, tcp, listeners, maps, geoip) == (&now.edition, &now.tcp, &now.listeners, &now.maps, &now.geoip)
        && (admin, drain_delay) == (&now.admin, &now.drain_delay)
        && certificates == &now.certificates
        && (access_logs, log, threads, memory, cache) == (&now.access_logs, &now.log, &now.threads, &now.memory, &now.cache)
        && (acme, storage, ticket_keys, drain, limits) == (&now.acme, &now.storage, &now.ticket_keys, &now.drain, &now.limits)
        && (driver, containers, filled) == (&now.driver, &now.containers, &now.filled)
}

#[cfg(test)]
mod tests {
    use super::{Changed, Delta};
    use crate::{Balance, Configuration, Pool, PoolName};
    use std::sync::Arc;
    use std::time::Duration;

    fn of(pools: &[&Arc<Pool>]) -> Configuration {
        Configuration { pools: pools.iter().map(|pool| (*pool).clone()).collect(), ..Configuration::default() }
    }

    fn pool(name: &str) -> Arc<Pool> {
        Arc::new(Pool::new(PoolName(name.into()), Vec::new()))
    }

    #[test]
    fn only_what_differs_is_named() {
        let (a, b, c) = (pool("a"), pool("b"), pool("c"));
        let other = Arc::new(Pool { balance: Balance::Random, ..(*b).clone() });
        let delta = |before: &[&Arc<Pool>], now: &[&Arc<Pool>]| Delta::between(&of(before), &of(now)).pools;
        let changed = |position, before| Changed { position, before };
        assert!(delta(&[&a, &b], &[&a, &b]).is_empty());
        assert!(delta(&[&a, &b], &[&Arc::new((*a).clone()), &b]).is_empty(), "equal ones that are not shared");
        let in_place = delta(&[&a, &b, &c], &[&a, &other, &c]);
        assert_eq!((in_place.is_in_place(), in_place.changed), (true, vec![changed(1, Some(1))]));
        let came = delta(&[&a], &[&a, &b]);
        assert_eq!((came.is_in_place(), came.before(0), came.changed), (false, Some(0), vec![changed(1, None)]));
        assert_eq!(delta(&[&a, &b, &c], &[&a]).gone, [1, 2]);
        let between = delta(&[&a, &b, &c], &[&c, &a, &other]);
        assert_eq!((between.before(0), between.before(1)), (Some(2), Some(0)));
        assert_eq!((between.changed, between.gone), (vec![changed(2, Some(1))], vec![]));
        let among = delta(&[&a, &c], &[&a, &b, &c]);
        assert_eq!((among.before(0), among.before(1), among.before(2)), (Some(0), None, Some(1)));
        assert_eq!((among.changed, among.gone), (vec![changed(1, None)], vec![]));
        let left = delta(&[&a, &b, &c], &[&a, &c]);
        assert_eq!((left.before(1), left.changed, left.gone), (Some(2), vec![], vec![1]));
        let instead = delta(&[&a, &b], &[&a, &c]);
        assert_eq!((instead.changed, instead.gone), (vec![changed(1, None)], vec![1]));
    }

    #[test]
    fn settings_and_listeners_are_told_apart() {
        let before = Configuration::default();
        let now = Configuration { drain: Duration::from_secs(1), ..Configuration::default() };
        let delta = Delta::between(&before, &now);
        assert_eq!((delta.settings, delta.listening, delta.is_empty()), (true, false, false));
        assert!(Delta::between(&before, &before).is_empty());
    }

    #[test]
    fn widened_it_still_knows_where_each_stood() {
        let (a, b, c) = (pool("a"), pool("b"), pool("c"));
        let delta = Delta::between(&of(&[&a, &b]), &of(&[&b, &c])).pools.widened(2);
        let places: Vec<_> = delta.changed.iter().map(|changed| changed.before).collect();
        assert_eq!(places, [Some(1), None]);
    }
}
