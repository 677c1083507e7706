//! What the cache holds and has done, as it was looked at last. It counts for itself; here its numbers are shown.

use std::sync::{Mutex, PoisonError};

/// Numbers of the cache. All but those of objects and bytes only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheNumbers {
    pub hits: u64,
    pub stale_hits: u64,
    pub misses: u64,
    /// Requests that waited for another one's fetch.
    pub collapsed: u64,
    pub stored: u64,
    pub evicted: u64,
    pub purged: u64,
    pub objects: u64,
    pub bytes: u64,
    pub disk: Option<CacheDiskNumbers>,
}

/// What the cache counts of the part that is on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheDiskNumbers {
    pub objects: u64,
    pub bytes: u64,
    pub read: u64,
    pub written: u64,
    pub evicted: u64,
    /// Files that were thrown away because they were not whole.
    pub damaged: u64,
    /// Times that the disk failed.
    pub errors: u64,
}

/// Any thread may write.
#[derive(Debug, Default)]
pub struct CacheMetrics(Mutex<Option<CacheNumbers>>);

impl CacheMetrics {
    pub fn set(&self, numbers: CacheNumbers) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(numbers);
    }

    /// `None` where nothing is cached.
    pub(super) fn numbers(&self) -> Option<CacheNumbers> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
