//! What the memory tier counts: bytes against their bounds, and events to be shown.
//! Reserving is here; making room is the store's.

use crate::settings::Settings;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in use. A reservation is made before memory is kept, so that the bounds hold at every moment.
pub struct Accounts {
    stored_bytes: AtomicU64,
    stored_bytes_max: AtomicU64,
    in_flight_bytes: AtomicU64,
    in_flight_bytes_max: AtomicU64,
    object_bytes_max: AtomicU64,
    pub counters: Counters,
}

#[derive(Default)]
pub struct Counters {
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub stale_hits: AtomicU64,
    pub collapsed: AtomicU64,
    pub stored: AtomicU64,
    pub evicted: AtomicU64,
    pub purged: AtomicU64,
    pub objects: AtomicU64,
}

/// The counters at one moment. All but `objects`, `bytes` and `in_flight_bytes` only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Served while fresh.
    pub hits: u64,
    /// Forwarded, for whatever reason; a validation that ends in 304 too.
    pub misses: u64,
    pub stale_hits: u64,
    /// Requests that waited for another one's fetch.
    pub collapsed: u64,
    pub stored: u64,
    pub evicted: u64,
    pub purged: u64,
    pub objects: u64,
    pub bytes: u64,
    pub in_flight_bytes: u64,
}

impl Accounts {
    pub fn new(settings: &Settings) -> Accounts {
        let accounts = Accounts {
            stored_bytes: AtomicU64::new(0),
            stored_bytes_max: AtomicU64::new(0),
            in_flight_bytes: AtomicU64::new(0),
            in_flight_bytes_max: AtomicU64::new(0),
            object_bytes_max: AtomicU64::new(0),
            counters: Counters::default(),
        };
        accounts.resize(settings);
        accounts
    }

    pub fn resize(&self, settings: &Settings) {
        let in_flight_bytes_max = settings.in_flight_bytes_max.min(settings.bytes_max / 2);
        self.object_bytes_max.store(settings.object_bytes_max, Ordering::Relaxed);
        self.stored_bytes_max.store(settings.bytes_max - in_flight_bytes_max, Ordering::Relaxed);
        self.in_flight_bytes_max.store(in_flight_bytes_max, Ordering::Relaxed);
    }

    /// The largest object that is stored, with its head.
    pub fn object_bytes_max(&self) -> u64 {
        self.object_bytes_max.load(Ordering::Relaxed)
    }

    /// Whether more is stored than may be.
    pub fn is_over(&self) -> bool {
        self.stored_bytes.load(Ordering::Relaxed) > self.stored_bytes_max.load(Ordering::Relaxed)
    }

    pub fn reserve_stored(&self, bytes: u64) -> bool {
        reserve(&self.stored_bytes, self.stored_bytes_max.load(Ordering::Relaxed), bytes)
    }

    /// Whether it would fit if nothing else were there.
    pub fn can_ever_store(&self, bytes: u64) -> bool {
        bytes <= self.stored_bytes_max.load(Ordering::Relaxed)
    }

    pub fn release_stored(&self, bytes: u64) {
        self.stored_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    pub fn reserve_in_flight(&self, bytes: u64) -> bool {
        reserve(&self.in_flight_bytes, self.in_flight_bytes_max.load(Ordering::Relaxed), bytes)
    }

    /// Whatever the bound: for what is bounded otherwise.
    pub fn take_in_flight(&self, bytes: u64) {
        self.in_flight_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub fn release_in_flight(&self, bytes: u64) {
        self.in_flight_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        Counts {
            hits: read(&counters.hits),
            misses: read(&counters.misses),
            stale_hits: read(&counters.stale_hits),
            collapsed: read(&counters.collapsed),
            stored: read(&counters.stored),
            evicted: read(&counters.evicted),
            purged: read(&counters.purged),
            objects: read(&counters.objects),
            bytes: read(&self.stored_bytes),
            in_flight_bytes: read(&self.in_flight_bytes),
        }
    }
}

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn reserve(used: &AtomicU64, bytes_max: u64, bytes: u64) -> bool {
    let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= bytes_max);
    used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
}
