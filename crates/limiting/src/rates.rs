//! The numbers of a rate limit's keys, in memory that is bounded whoever comes. Groups of [`SLOTS_OF_A_GROUP`] slots,
//! as in a set-associative cache: a request looks at one group and at nothing else. Shared by all threads; the groups
//! are spread over locks of their own.
//!
//! **When a group is full of keys in use**, a key that comes new takes the slot of whoever has used least, *with what
//! is missing there*. So nobody ever gets more than the limit, a count that was pushed out is not forgotten (whoever
//! comes back finds at least as much missing as when it left), and all keys together get at most what the slots may.
//! The price: when an attacker keeps that many slots busy, which takes that many requests that count, clients that come
//! new begin with less than a full burst, and are refused when the limit of their slot is used up. Letting them through
//! instead would let everybody through who has enough addresses.

use crate::key::KeyHasher;
use crate::quota::{Quota, Standing};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Enough that two threads seldom meet.
const SHARDS: usize = 64;
/// With twice as many slots as keys, one group in 250 has more keys than this.
const SLOTS_OF_A_GROUP: usize = 16;
/// Slots for each key that was asked for.
const SLOTS_OF_A_KEY: usize = 2;

/// 16 bytes: a key in use costs 32, since half of the slots are left free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    key: u64,
    /// As `Quota::take` has it. Empty slots have 0, which is a bucket that was never used, and need no other mark.
    full_at_ns: u64,
}

const FREE: Slot = Slot { key: 0, full_at_ns: 0 };

/// All keys of one limit.
#[derive(Debug)]
pub struct Rates {
    shards: Box<[RateShard]>,
    groups_of_a_shard_max: AtomicUsize,
    pub hasher: KeyHasher,
}

/// On a cache line of its own, so that locks of neighbours do not disturb one another.
#[derive(Debug, Default)]
#[repr(align(64))]
struct RateShard(Mutex<Groups>);

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Yes(Standing),
    /// Nothing was taken.
    No {
        standing: Standing,
        /// Until there would be enough.
        wait: Duration,
    },
}

impl Rates {
    /// For about so many keys in use at the same time, rounded up to a power of two and to at least 512. Memory is
    /// taken as keys come, and kept.
    pub fn new(keys_max: u32) -> Rates {
        let rates = Rates {
            shards: (0..SHARDS).map(|_| RateShard::default()).collect(),
            groups_of_a_shard_max: AtomicUsize::new(0),
            hasher: KeyHasher::default(),
        };
        rates.set_keys_max(keys_max);
        rates
    }

    /// What is there already stays.
    pub fn set_keys_max(&self, keys_max: u32) {
        let slots = keys_max as usize * SLOTS_OF_A_KEY;
        let groups = slots.div_ceil(SHARDS * SLOTS_OF_A_GROUP).next_power_of_two();
        self.groups_of_a_shard_max.store(groups, Ordering::Relaxed);
    }

    /// Takes `cost` units of a key's bucket, if they are there. `now` is the time since any beginning that all callers
    /// share.
    pub fn take(&self, key: u64, quota: &Quota, cost: u32, now: Duration) -> Taken {
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let groups_max = self.groups_of_a_shard_max.load(Ordering::Relaxed);
        let full_at_ns;
        {
            let mut groups = self.shard(key);
            let slot = groups.slot(key, now_ns, groups_max);
            match quota.take(slot.full_at_ns, cost, now_ns) {
                Ok(after) => {
                    *slot = Slot { key, full_at_ns: after };
                    full_at_ns = after;
                }
                // Nothing is written: who is refused pushes nobody out.
                Err(wait) => return Taken::No { standing: quota.standing(slot.full_at_ns, now_ns), wait },
            }
        }
        Taken::Yes(quota.standing(full_at_ns, now_ns))
    }

    /// Memory for slots, as it is now.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).slots.capacity() * size_of::<Slot>()).sum()
    }

    #[inline]
    fn shard(&self, key: u64) -> MutexGuard<'_, Groups> {
        // Not the bits that choose the group.
        lock(&self.shards[(key >> 58) as usize % SHARDS])
    }
}

fn lock(shard: &RateShard) -> MutexGuard<'_, Groups> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Groups {
    /// Groups one behind the other: none at first, then a power of two.
    slots: Vec<Slot>,
}

impl Groups {
    /// The key's own slot, or the one that it may take.
    #[inline]
    fn slot(&mut self, key: u64, now_ns: u64, groups_max: usize) -> &mut Slot {
        loop {
            let (place, is_own) = self.place(key);
            let is_free = |slot: &Slot| slot.full_at_ns <= now_ns;
            if is_own || self.slots.get(place).is_some_and(is_free) || !self.grow(now_ns, groups_max) {
                return &mut self.slots[place];
            }
        }
    }

    /// Where the key is, or where the least of its group is missing.
    #[inline]
    fn place(&self, key: u64) -> (usize, bool) {
        let groups = self.slots.len() / SLOTS_OF_A_GROUP;
        let start = (key as usize & groups.saturating_sub(1)) * SLOTS_OF_A_GROUP;
        let mut least = (start, u64::MAX);
        for (offset, slot) in self.slots[start..].iter().take(SLOTS_OF_A_GROUP).enumerate() {
            if slot.key == key {
                return (start + offset, true);
            }
            if slot.full_at_ns < least.1 {
                least = (start + offset, slot.full_at_ns);
            }
        }
        (least.0, false)
    }

    /// Twice as many groups, each half as full; false when there are as many as there may be. Happens a dozen times in
    /// a table's life.
    #[cold]
    fn grow(&mut self, now_ns: u64, groups_max: usize) -> bool {
        let groups = self.slots.len() / SLOTS_OF_A_GROUP;
        if groups > 0 && groups * 2 > groups_max {
            return false;
        }
        let bigger = Groups { slots: vec![FREE; (groups * 2).max(1) * SLOTS_OF_A_GROUP] };
        let before = std::mem::replace(self, bigger);
        for slot in before.slots.into_iter().filter(|slot| slot.full_at_ns > now_ns) {
            let (place, _) = self.place(slot.key);
            self.slots[place] = slot;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Rates, SHARDS, SLOTS_OF_A_GROUP, Taken};
    use crate::quota::Quota;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::time::Duration;

    fn is_let(taken: Taken) -> bool {
        matches!(taken, Taken::Yes(_))
    }

    /// Keys that all fall into one group, as long as there is one group in a shard.
    fn key(number: u64) -> u64 {
        number << 8
    }

    fn slow() -> Quota {
        Quota::new(3, Duration::from_secs(3_600), 3)
    }

    #[test]
    fn each_key_has_a_bucket_of_its_own() {
        let rates = Rates::new(1_000);
        for key in [0, 1, u64::MAX, 1 << 32] {
            for round in 0..5 {
                let taken = rates.take(key, &slow(), 1, Duration::from_secs(1));
                assert_eq!(is_let(taken), round < 3, "key {key}, request {round}");
            }
        }
        assert!(is_let(rates.take(0, &slow(), 1, Duration::from_secs(1_202))), "a third of the hour later");
    }

    #[test]
    fn memory_comes_with_keys_in_use_and_is_bounded() {
        let rates = Rates::new(1 << 16);
        assert_eq!(rates.bytes(), 0);
        let fast = Quota::new(1_000_000, Duration::from_secs(1), 1);
        let hashed = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 0..200_000 {
            rates.take(hashed(number), &fast, 1, Duration::from_millis(number));
        }
        assert_eq!(rates.bytes(), SHARDS * SLOTS_OF_A_GROUP * 16, "a key that is not in use any more is no reason to grow");
        for number in 0..1_000_000 {
            rates.take(hashed(number), &slow(), 1, Duration::from_secs(1_000));
        }
        assert_eq!(rates.bytes(), 2 << 20);
        rates.set_keys_max(1);
        assert_eq!(rates.bytes(), 2 << 20, "what is there stays");
    }

    #[test]
    fn a_count_is_not_pushed_out_by_those_who_have_used_less() {
        let rates = Rates::new(1);
        let now = Duration::from_secs(1);
        for _ in 0..3 {
            assert!(is_let(rates.take(key(1), &slow(), 1, now)));
        }
        // A million addresses, one request each, until everybody new is refused.
        for number in 2..1_000_000 {
            rates.take(key(number), &slow(), 1, now);
        }
        assert!(!is_let(rates.take(key(1), &slow(), 1, now)), "its count is still there");
        // All that they got is what the slots of the group may have.
        let later = Duration::from_secs(100_000);
        let let_through = (0..10_000).filter(|number| is_let(rates.take(key(*number), &slow(), 1, later))).count();
        assert_eq!(let_through, 3 * SLOTS_OF_A_GROUP);
    }

    #[test]
    fn who_is_refused_pushes_nobody_out() {
        let rates = Rates::new(1);
        let now = Duration::from_secs(1);
        let own = 0..SLOTS_OF_A_GROUP as u64;
        for number in own.clone().chain(own.clone()).chain(own.clone()) {
            assert!(is_let(rates.take(key(number), &slow(), 1, now)));
        }
        for number in 100..10_000 {
            assert!(!is_let(rates.take(key(number), &slow(), 1, now)));
        }
        let later = Duration::from_secs(1_202);
        assert!(
            own.clone().all(|number| is_let(rates.take(key(number), &slow(), 1, later))),
            "all are known, and get their next one"
        );
        assert!(!own.clone().any(|number| is_let(rates.take(key(number), &slow(), 1, later))));
    }

    proptest! {
        /// With far more keys than slots, nobody gets more than a table without bounds would give.
        #[test]
        fn a_small_table_never_allows_more_than_a_boundless_one(
            (count, burst) in (1..5u32, 1..5u32),
            requests in proptest::collection::vec((0..60u64, 0..400u64, 1..3u32), 1..600),
        ) {
            let quota = Quota::new(count, Duration::from_secs(10), burst);
            let rates = Rates::new(1);
            let mut exact: HashMap<u64, u64> = HashMap::new();
            let mut now_ms = 0;
            for (number, later_ms, cost) in requests {
                now_ms += later_ms;
                let full_at = exact.entry(number).or_insert(0);
                if is_let(rates.take(key(number), &quota, cost, Duration::from_millis(now_ms))) {
                    let allowed = quota.take(*full_at, cost, now_ms * 1_000_000);
                    prop_assert!(allowed.is_ok(), "key {number} at {now_ms} ms was let through too early");
                    *full_at = allowed.unwrap_or_default();
                }
            }
        }

        /// With room for all, everybody gets exactly that.
        #[test]
        fn a_table_with_room_decides_as_a_boundless_one(
            requests in proptest::collection::vec((any::<u16>(), 0..400u64), 1..600),
        ) {
            let quota = Quota::new(2, Duration::from_secs(10), 3);
            let rates = Rates::new(1 << 16);
            let mut exact: HashMap<u64, u64> = HashMap::new();
            let mut now_ms = 0;
            for (number, later_ms) in requests {
                now_ms += later_ms;
                let key = u64::from(number % 97).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let full_at = exact.entry(key).or_insert(0);
                let allowed = quota.take(*full_at, 1, now_ms * 1_000_000);
                let taken = rates.take(key, &quota, 1, Duration::from_millis(now_ms));
                prop_assert_eq!(is_let(taken), allowed.is_ok());
                *full_at = allowed.unwrap_or(*full_at);
            }
        }
    }
}
