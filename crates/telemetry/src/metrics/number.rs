//! A counter and a gauge that one thread writes and others may read at any time.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Goes up only. **Single writer**: `add` is a load and a store, not an atomic addition, which costs as little as a
/// plain integer; two threads that add at the same time lose counts. Readers see a value that is a moment old and never
/// torn.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Goes up and down. **Single writer**, as [`Counter`].
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    #[inline]
    pub fn add(&self, n: i64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    #[inline]
    pub fn decrement(&self) {
        self.add(-1);
    }

    #[inline]
    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What any thread may set or add to: the numbers of what is rare.
#[derive(Debug, Default)]
pub struct SharedNumber(AtomicI64);

impl SharedNumber {
    pub fn set(&self, n: i64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What stood there at one moment.
impl Clone for SharedNumber {
    fn clone(&self) -> Self {
        SharedNumber(self.value().into())
    }
}
