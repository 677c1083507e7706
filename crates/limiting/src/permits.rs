//! Requests at the same time, by key. A key is in the table as long as a request of it is on its way, so the table is
//! bounded by what is open, and an entry of a few bytes is little beside the connection that holds it.

use crate::key::KeyHasher;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Enough that two threads seldom meet.
const SHARDS: usize = 64;
/// A shard that had to grow beyond this gives its memory back when its last key has left.
const KEPT_KEYS_MAX: usize = 1024;

/// All keys of one limit.
#[derive(Debug)]
pub struct Permits {
    shards: Box<[PermitShard]>,
    pub hasher: KeyHasher,
}

type Counts = HashMap<u64, u32, BuildHasherDefault<Hashed>>;

#[derive(Debug, Default)]
#[repr(align(64))]
struct PermitShard(Mutex<Counts>);

impl Default for Permits {
    fn default() -> Self {
        Permits { shards: (0..SHARDS).map(|_| PermitShard::default()).collect(), hasher: KeyHasher::default() }
    }
}

impl Permits {
    /// A permit for one more request; none when the key has `max` already.
    pub fn enter(self: &Arc<Self>, key: u64, max: u32) -> Option<Permit> {
        let mut counts = self.shard(key);
        let count = counts.entry(key).or_insert(0);
        if *count >= max {
            // Only with a `max` of 0 is there an entry that nobody holds.
            if *count == 0 {
                counts.remove(&key);
            }
            return None;
        }
        *count = count.saturating_add(1);
        Some(Permit { permits: self.clone(), key })
    }

    /// Keys with a request on its way.
    #[cfg(test)]
    fn keys(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    fn leave(&self, key: u64) {
        let mut counts = self.shard(key);
        let Some(count) = counts.get_mut(&key) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
            if counts.is_empty() && counts.capacity() > KEPT_KEYS_MAX {
                *counts = Counts::default();
            }
        }
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Counts> {
        // Bits that the map itself uses for neither a bucket nor a tag.
        lock(&self.shards[(key >> 40) as usize % SHARDS])
    }
}

fn lock(shard: &PermitShard) -> MutexGuard<'_, Counts> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One request's permit, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    permits: Arc<Permits>,
    key: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.leave(self.key);
    }
}

/// Keys are hashes already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_KEYS_MAX, Permits};
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::sync::Arc;

    #[test]
    fn places_are_bounded_by_key_and_given_back_once() {
        let permits = Arc::new(Permits::default());
        let first = permits.enter(1, 2);
        let second = permits.enter(1, 2);
        assert!(first.is_some() && second.is_some() && permits.enter(1, 2).is_none());
        assert!(permits.enter(2, 2).is_some(), "another key");
        drop(first);
        let third = permits.enter(1, 2);
        assert!(third.is_some() && permits.enter(1, 2).is_none());
        assert!(permits.enter(1, 3).is_some(), "the bound was raised");
        assert!(permits.enter(1, 1).is_none(), "the bound was lowered below what is on its way");
        drop((second, third));
        assert_eq!(permits.keys(), 0);
        assert!(permits.enter(3, 0).is_none());
        assert_eq!(permits.keys(), 0);
    }

    #[test]
    fn memory_of_a_rush_is_given_back() {
        let permits = Arc::new(Permits::default());
        let held: Vec<_> = (0..10 * KEPT_KEYS_MAX as u64).map(|key| permits.enter(key, 1)).collect();
        assert_eq!(permits.keys(), held.len());
        drop(held);
        assert!(permits.shards.iter().all(|shard| super::lock(shard).capacity() <= KEPT_KEYS_MAX));
    }

    #[test]
    fn threads_count_together() {
        let permits = Arc::new(Permits::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let held: Vec<_> = (0..4).map(|_| permits.enter(7, 8)).collect();
                        assert!(permits.shards.iter().all(|shard| super::lock(shard).values().all(|count| *count <= 8)));
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(permits.keys(), 0);
    }

    proptest! {
        #[test]
        fn it_counts_as_a_plain_map_does(steps in proptest::collection::vec((0..5u64, 0..4u32, any::<bool>()), 1..200)) {
            let permits = Arc::new(Permits::default());
            let mut held: HashMap<u64, Vec<super::Permit>> = HashMap::new();
            for (key, max, leaves) in steps {
                let held = held.entry(key).or_default();
                if leaves {
                    held.pop();
                } else {
                    let permit = permits.enter(key, max);
                    prop_assert_eq!(permit.is_some(), held.len() < max as usize);
                    held.extend(permit);
                }
            }
            prop_assert_eq!(permits.keys(), held.values().filter(|held| !held.is_empty()).count());
        }
    }
}
