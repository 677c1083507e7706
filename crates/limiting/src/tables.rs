//! The tables of a process, found by what a limit is and never by where it stands, so that counts go on over changes of
//! the configuration. A table lives as long as a configuration, or a request on its way, holds it.

use crate::permits::Permits;
use crate::rates::Rates;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[derive(Debug, Default)]
pub struct Tables {
    rates: Kept<Rates>,
    permits: Kept<Permits>,
}

impl Tables {
    /// The counts of the rate limit of that identity: the same ones for as long as it is there.
    pub fn rates(&self, identity: &str, keys_max: u32) -> Arc<Rates> {
        let rates = self.rates.find(identity, || Rates::new(keys_max));
        rates.set_keys_max(keys_max);
        rates
    }

    /// As [`rates`](Self::rates), for requests at the same time.
    pub fn permits(&self, identity: &str) -> Arc<Permits> {
        self.permits.find(identity, Permits::default)
    }
}

#[derive(Debug)]
struct Kept<T>(Mutex<Table<T>>);

#[derive(Debug)]
struct Table<T> {
    by_identity: HashMap<Box<str>, Weak<T>>,
    /// Entries of those that are gone are looked for when there are so many.
    sweep_at: usize,
}

const SWEEP_AT_LEAST: usize = 64;

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(Mutex::new(Table { by_identity: HashMap::new(), sweep_at: SWEEP_AT_LEAST }))
    }
}

impl<T> Kept<T> {
    fn find(&self, identity: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = table.by_identity.get(identity).and_then(Weak::upgrade) {
            return known;
        }
        if table.by_identity.len() >= table.sweep_at {
            table.by_identity.retain(|_, known| known.strong_count() > 0);
            table.sweep_at = (table.by_identity.len() * 2).max(SWEEP_AT_LEAST);
        }
        let fresh = Arc::new(make());
        table.by_identity.insert(identity.into(), Arc::downgrade(&fresh));
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::{SWEEP_AT_LEAST, Tables};
    use std::sync::Arc;

    #[test]
    fn a_table_is_the_same_while_somebody_has_it() {
        let tables = Tables::default();
        let first = tables.rates("a", 10);
        assert!(Arc::ptr_eq(&first, &tables.rates("a", 100_000)));
        assert!(!Arc::ptr_eq(&first, &tables.rates("b", 10)));
        let gone = Arc::downgrade(&first);
        drop(first);
        tables.rates("a", 10);
        assert!(gone.upgrade().is_none(), "nobody had it");
        let permits = tables.permits("a");
        let permit = permits.enter(1, 1);
        drop(permits);
        assert!(tables.permits("a").enter(1, 1).is_none(), "a request on its way keeps its table");
        drop(permit);
    }

    #[test]
    fn those_that_are_gone_leave_nothing_behind() {
        let tables = Tables::default();
        let held: Vec<_> = (0..10).map(|number| tables.permits(&format!("held {number}"))).collect();
        for number in 0..10_000 {
            tables.permits(&number.to_string());
        }
        assert!(tables.permits.0.lock().expect("not poisoned").by_identity.len() <= 2 * SWEEP_AT_LEAST);
        assert!(held.iter().enumerate().all(|(number, permit)| Arc::ptr_eq(permit, &tables.permits(&format!("held {number}")))));
    }
}
