//! Numbers by key and worker, bounded: a key beyond the bound shares one entry with all others like it, and keys that
//! nobody holds any more are given up when room is needed. What the keys and the numbers are is said in
//! [`registry`](super::registry), which owns the tables.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name under which everything beyond the bounds is counted.
pub(super) const OTHER: &str = "other";
/// Looking for keys that nobody uses any more walks the whole table, so only one in so many refused keys pays for it.
const SWEEP_EVERY: usize = 1024;

/// A key of two labels, such as a pool and one of its servers.
pub(super) type TwoNames = (Arc<str>, Arc<str>);

pub(super) fn two_names(first: &str, second: &str) -> TwoNames {
    (Arc::from(first), Arc::from(second))
}

/// Whether this is where everything beyond the bound is counted. Then a value that is set says only what its last
/// writer meant.
pub(super) fn is_shared(names: &TwoNames) -> bool {
    *names.0 == *OTHER && *names.1 == *OTHER
}

#[derive(Debug)]
pub(super) struct Table<K, T> {
    keys_max: usize,
    by_key: BTreeMap<K, ByWorker<T>>,
    other_key: K,
    other: ByWorker<T>,
    refused: usize,
}

/// By worker index; `None` where that worker has not asked yet.
type ByWorker<T> = Vec<Option<Arc<T>>>;

impl<K: Ord + Clone, T: Default> Table<K, T> {
    pub fn new(keys_max: usize, other_key: K) -> Table<K, T> {
        Table { keys_max, by_key: BTreeMap::new(), other_key, other: Vec::new(), refused: 0 }
    }

    /// `gone` is told the numbers of keys that were given up to make room.
    pub fn entry(&mut self, worker: usize, key: K, gone: impl FnMut(&T)) -> Arc<T> {
        if let Some(numbers) = self.by_key.get_mut(&key) {
            return of_worker(numbers, worker);
        }
        // A pool may be called `other`; two series of one name would make the whole scrape invalid.
        if key == self.other_key || !self.has_room(gone) {
            return of_worker(&mut self.other, worker);
        }
        of_worker(self.by_key.entry(key).or_default(), worker)
    }

    /// The one entry of a key in a table whose numbers any thread may write. What was given up is not added to
    /// anything: it left its series with it.
    pub fn entry_of_all(&mut self, key: K) -> Arc<T> {
        self.entry(0, key, |_| ())
    }

    /// What the workers keep for that key, when it has an entry of its own.
    pub fn find<Q: Ord + ?Sized>(&self, key: &Q) -> impl Iterator<Item = &T>
    where
        K: Borrow<Q>,
    {
        self.by_key.get(key).into_iter().flatten().flatten().map(|numbers| &**numbers)
    }

    /// All keys with the sums over their workers; the shared entry stands last, if there is one, and `gone` is part of
    /// it.
    pub fn totals<S: Clone + Default>(&self, gone: &S, add: fn(&mut S, &T)) -> Vec<(K, S)> {
        let sum = |mut totals: S, numbers: &ByWorker<T>| {
            numbers.iter().flatten().for_each(|arc| add(&mut totals, arc));
            totals
        };
        let mut all: Vec<_> = self.by_key.iter().map(|(key, numbers)| (key.clone(), sum(S::default(), numbers))).collect();
        if !self.other.is_empty() {
            all.push((self.other_key.clone(), sum(gone.clone(), &self.other)));
        }
        all
    }

    /// The entries that somebody besides this table holds, the shared one last.
    pub fn held(&self) -> impl Iterator<Item = (&K, &T)> {
        let entries = self.by_key.iter().chain([(&self.other_key, &self.other)]);
        let each = entries.flat_map(|(key, numbers)| numbers.iter().flatten().map(move |numbers| (key, numbers)));
        each.filter(|(_, numbers)| Arc::strong_count(numbers) > 1).map(|(key, numbers)| (key, &**numbers))
    }

    fn has_room(&mut self, gone: impl FnMut(&T)) -> bool {
        if self.by_key.len() < self.keys_max {
            return true;
        }
        if self.refused.is_multiple_of(SWEEP_EVERY) {
            self.sweep(gone);
        }
        let room = self.by_key.len() < self.keys_max;
        self.refused = if room { 0 } else { self.refused + 1 };
        room
    }

    /// Forgets keys that only this table still holds: no worker has the site, pool or server any more.
    fn sweep(&mut self, mut gone: impl FnMut(&T)) {
        self.by_key.retain(|_, numbers| {
            // `get_mut` succeeds for a sole owner only, and makes the last holder's writes visible.
            if !numbers.iter_mut().flatten().all(|arc| Arc::get_mut(arc).is_some()) {
                return true;
            }
            numbers.iter().flatten().for_each(|arc| gone(arc));
            false
        });
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
    use super::{OTHER, SWEEP_EVERY, Table, TwoNames, is_shared, two_names};
    use crate::metrics::Counter;
    use std::sync::Arc;

    fn table(keys_max: usize) -> Table<Arc<str>, Counter> {
        Table::new(keys_max, Arc::from(OTHER))
    }

    fn check_totals(table: &Table<Arc<str>, Counter>, gone: u64, expected: &[(&str, u64)]) {
        let totals = table.totals(&gone, |sum: &mut u64, counter| *sum += counter.value());
        let seen: Vec<_> = totals.iter().map(|(name, sum)| (&**name, *sum)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn keys_beyond_the_bound_share_one() {
        let mut table = table(3);
        let held = ["a", "b", "c"].map(|name| table.entry(0, name.into(), |_| panic!("still held")));
        for name in ["d", "e", OTHER] {
            table.entry(0, name.into(), |_| panic!("still held")).add(1);
        }
        held[1].add(5);
        check_totals(&table, 0, &[("a", 0), ("b", 5), ("c", 0), (OTHER, 3)]);
    }

    #[test]
    fn a_full_table_gives_up_keys_nobody_holds_and_keeps_their_counts() {
        let mut table = table(2);
        let mut gone = 0;
        let held = table.entry(1, "held".into(), |_| ());
        table.entry(0, "left".into(), |_| ()).add(7);
        table.entry(1, "left".into(), |_| ()).add(1);
        table.entry(0, "new".into(), |counter| gone += counter.value()).add(2);
        held.add(4);
        check_totals(&table, gone, &[("held", 4), ("new", 2)]);
        assert_eq!(gone, 8);
    }

    #[test]
    fn a_full_table_is_swept_again_after_a_while() {
        let mut table = table(1);
        let held = table.entry(0, "first".into(), |_| ());
        let _ = table.entry(0, "second".into(), |_| panic!("still held"));
        drop(held);
        let mut swept = 0;
        for _ in 0..SWEEP_EVERY {
            let _ = table.entry(0, "second".into(), |_| swept += 1);
        }
        assert_eq!(swept, 1);
        assert_eq!(table.find("second").count(), 1);
    }

    #[test]
    fn what_comes_and_goes_always_finds_room() {
        let mut table: Table<TwoNames, Counter> = Table::new(8, two_names(OTHER, OTHER));
        for round in 0..1000 {
            let server = table.entry_of_all(two_names("api", &format!("10.0.0.{round}:80")));
            server.increment();
            let held: Vec<_> = table.held().map(|(key, counter)| (key.clone(), counter.value())).collect();
            assert_eq!(held, [(two_names("api", &format!("10.0.0.{round}:80")), 1)]);
        }
        assert!(table.by_key.len() <= 8);
    }

    #[test]
    fn both_names_together_are_the_key() {
        let mut table: Table<TwoNames, Counter> = Table::new(2, two_names(OTHER, OTHER));
        let keys = [("a", OTHER), (OTHER, "a"), ("a", "a"), (OTHER, OTHER)].map(|(pool, server)| two_names(pool, server));
        let held = keys.clone().map(|key| table.entry_of_all(key));
        assert!(!Arc::ptr_eq(&held[0], &held[1]));
        assert!(Arc::ptr_eq(&held[2], &held[3]), "the third finds no room, and the fourth is called like the shared entry");
        assert_eq!(keys.map(|key| is_shared(&key)), [false, false, false, true]);
        let last = table.held().last().map(|(key, _)| is_shared(key));
        assert_eq!(last, Some(true));
    }
}
