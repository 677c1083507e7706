//! One sixteenth of the memory tier behind its mutex: the tables, and which object goes when room is needed (S3-FIFO:
//! most objects are asked for once, and pass through a small queue without pushing out those that are asked for again).
//! Bytes are bounded by the store over all shards; here they are only weighed.

use super::flight::Flight;
use super::object::Object;
use crate::key::{Hashed, Key, Vary};
use crate::message::Field;
use bytes::Bytes;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Part of a shard's bytes that new objects pass through, in percent.
const SMALL_PERCENT: u64 = 10;
/// Objects that are given another round while one is evicted; bounds the time under the lock.
const ROUNDS_MAX: usize = 128;
/// Hashes of evicted objects that are remembered, to tell one that comes back.
const GHOSTS_MAX: usize = 4096;
/// URLs of a shard that are known to be uncacheable.
const UNCACHEABLE_MAX: usize = 1024;
/// Purged URLs of a shard that are remembered for answers on their way; one that began before them all is not stored.
const PURGES_MAX: usize = 512;

#[derive(Default)]
pub struct Shard {
    pub resources: HashMap<Key, Resource, Hashed>,
    slots: HashMap<u64, Slot, Hashed>,
    next_id: u64,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    small_bytes: u64,
    main_bytes: u64,
    ghosts: Recent<()>,
    tags: HashMap<u64, HashSet<u64>>,
    uncacheable: Recent<u64>,
    purges: PurgeLog,
    hashes: RandomState,
}

/// All that is known of one URL.
#[derive(Default)]
pub struct Resource {
    /// Ids; the newest is last.
    variants: Vec<u64>,
    pub flights: Vec<Arc<Flight>>,
}

struct Slot {
    object: Arc<Object>,
    is_main: bool,
}

/// Hashes with a value each, the oldest of which go first.
#[derive(Default)]
struct Recent<V> {
    values: HashMap<u64, V>,
    order: VecDeque<u64>,
}

impl<V> Recent<V> {
    fn put(&mut self, hash: u64, value: V, count_max: usize) {
        if self.values.insert(hash, value).is_none() {
            self.order.push_back(hash);
        }
        if self.order.len() > count_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }
}

/// What was purged lately, so that an answer that was asked for before is not stored after.
#[derive(Default)]
struct PurgeLog {
    count: u64,
    /// Up to here everything counts as purged.
    all_before: u64,
    recent: VecDeque<(u64, Key)>,
}

impl Shard {
    /// The newest variant that fits; the second says whether there is any variant at all.
    pub fn find(&self, key: &Key, request: &[Field<'_>]) -> (Option<Arc<Object>>, bool) {
        let Some(resource) = self.resources.get(key) else { return (None, false) };
        let objects = resource.variants.iter().rev().filter_map(|id| self.slots.get(id)).map(|slot| &slot.object);
        let mut last: Option<(&Vary, Option<Box<[u8]>>)> = None;
        for object in objects {
            // Where there is nothing to share with the next variant, no text is made if none is needed.
            if resource.variants.len() == 1 || object.vary.names().len() == 1 {
                if object.fits(request) {
                    return (Some(object.clone()), true);
                }
                continue;
            }
            // Variants of a URL nearly always depend on the same fields.
            let secondary = match last.take() {
                Some((vary, secondary)) if *vary == object.vary => secondary,
                Some(_) | None => object.vary.secondary(request),
            };
            if secondary.as_ref() == Some(&object.secondary) {
                return (Some(object.clone()), true);
            }
            last = Some((&object.vary, secondary));
        }
        (None, !resource.variants.is_empty())
    }

    /// The fields that answers to this URL lately depended on.
    pub fn vary_of(&self, key: &Key) -> Vary {
        let newest = self.resources.get(key).and_then(|resource| resource.variants.last());
        newest.and_then(|id| self.slots.get(id)).map_or_else(Vary::nothing, |slot| slot.object.vary.clone())
    }

    /// Takes an object in, and gives back those in whose place it is.
    pub fn insert(&mut self, object: Arc<Object>, variants_max: usize) -> Vec<Arc<Object>> {
        let same = |slot: &Slot| slot.object.vary == object.vary && slot.object.secondary == object.secondary;
        let (mut replaced, mut frequency) = (Vec::new(), None);
        let variants = self.resources.get(&object.key).map(|resource| resource.variants.clone()).unwrap_or_default();
        for id in &variants {
            if self.slots.get(id).is_some_and(same) {
                frequency = self.slots.get(id).map(|slot| (slot.object.frequency(), slot.is_main));
                replaced.extend(self.remove(*id));
            }
        }
        if variants.len() - replaced.len() >= variants_max.max(1) {
            replaced.extend(variants.first().and_then(|id| self.remove(*id)));
        }
        let id = self.next_id;
        self.next_id += 1;
        // An object that came back soon after it was evicted is one that is asked for again.
        let is_known = self.ghosts.values.remove(&self.identity(&object)).is_some();
        let (frequency, was_main) = frequency.unwrap_or((0, false));
        object.set_frequency(frequency);
        self.enqueue(id, is_known || was_main, object.cost_bytes());
        for tag in &object.tags {
            self.tags.entry(self.hashes.hash_one(tag)).or_default().insert(id);
        }
        self.resources.entry(object.key.clone()).or_default().variants.push(id);
        self.slots.insert(id, Slot { object, is_main: is_known || was_main });
        replaced
    }

    /// What its objects are counted with.
    pub fn bytes(&self) -> u64 {
        self.small_bytes + self.main_bytes
    }

    /// Removes one object to make room, if there is any.
    pub fn evict(&mut self) -> Option<Arc<Object>> {
        for round in 0.. {
            let is_small = self.small_bytes * 100 > self.bytes() * SMALL_PERCENT || self.main_bytes == 0;
            let queue = if is_small { &mut self.small } else { &mut self.main };
            let id = queue.pop_front()?;
            let Some(slot) = self.slots.get_mut(&id).filter(|slot| slot.is_main != is_small) else { continue };
            let (frequency, cost) = (slot.object.frequency(), slot.object.cost_bytes());
            if frequency > 0 && round < ROUNDS_MAX {
                slot.object.set_frequency(if is_small { 0 } else { frequency - 1 });
                slot.is_main = true;
                self.weigh(is_small, |bytes| bytes - cost);
                self.enqueue(id, true, cost);
                continue;
            }
            let hash = self.identity(&self.slots.get(&id)?.object);
            if is_small {
                self.ghosts.put(hash, (), GHOSTS_MAX);
            }
            return self.remove(id);
        }
        None
    }

    /// Every object that `is_meant`, by looking at all of them.
    pub fn matching(&self, is_meant: impl Fn(&Object) -> bool) -> Vec<u64> {
        self.slots.iter().filter(|(_, slot)| is_meant(&slot.object)).map(|(id, _)| *id).collect()
    }

    pub fn tagged(&self, tag: &[u8]) -> Vec<u64> {
        let ids = self.tags.get(&self.hashes.hash_one(tag));
        let has_tag = |id: &&u64| self.slots.get(id).is_some_and(|slot| slot.object.tags.iter().any(|own| &**own == tag));
        ids.into_iter().flatten().filter(has_tag).copied().collect()
    }

    pub fn variants(&self, key: &Key) -> Vec<u64> {
        self.resources.get(key).map(|resource| resource.variants.clone()).unwrap_or_default()
    }

    pub fn get(&self, id: u64) -> Option<&Arc<Object>> {
        self.slots.get(&id).map(|slot| &slot.object)
    }

    pub fn remove(&mut self, id: u64) -> Option<Arc<Object>> {
        let Slot { object, is_main } = self.slots.remove(&id)?;
        self.weigh(!is_main, |bytes| bytes - object.cost_bytes());
        for tag in &object.tags {
            let hash = self.hashes.hash_one(tag);
            if let Some(ids) = self.tags.get_mut(&hash) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.tags.remove(&hash);
                }
            }
        }
        if let Some(resource) = self.resources.get_mut(&object.key) {
            resource.variants.retain(|variant| *variant != id);
        }
        self.forget_if_empty(&object.key);
        Some(object)
    }

    /// Keeps a body in another coding beside the object, if that is still here and has none. Says whether it is kept.
    pub fn keep_coded(&mut self, object: &Arc<Object>, place: usize, body: Arc<[Bytes]>, cost_bytes: u64) -> bool {
        let id = self.variants(&object.key).into_iter().find(|id| self.get(*id).is_some_and(|own| Arc::ptr_eq(own, object)));
        let Some(slot) = id.and_then(|id| self.slots.get(&id)) else { return false };
        let (is_main, is_kept) = (slot.is_main, slot.object.set_coded(place, body, cost_bytes));
        if is_kept {
            self.weigh(!is_main, |bytes| bytes + cost_bytes);
        }
        is_kept
    }

    /// Removes the variant if it is still the same object.
    pub fn remove_object(&mut self, object: &Arc<Object>) -> Option<Arc<Object>> {
        let id = self.variants(&object.key).into_iter().find(|id| self.get(*id).is_some_and(|own| Arc::ptr_eq(own, object)))?;
        self.remove(id)
    }

    pub fn remove_flight(&mut self, key: &Key, flight: &Arc<Flight>) {
        if let Some(resource) = self.resources.get_mut(key) {
            resource.flights.retain(|own| !Arc::ptr_eq(own, flight));
        }
        self.forget_if_empty(key);
    }

    pub fn set_uncacheable(&mut self, key: &Key, until_seconds: u64) {
        self.uncacheable.put(self.hashes.hash_one(key), until_seconds, UNCACHEABLE_MAX);
    }

    pub fn set_cacheable(&mut self, key: &Key) {
        // The place in the order stays, and goes with age; until then the hash is known with no time.
        if let Some(until) = self.uncacheable.values.get_mut(&self.hashes.hash_one(key)) {
            *until = 0;
        }
    }

    pub fn is_uncacheable(&self, key: &Key, now_seconds: u64) -> bool {
        self.uncacheable.values.get(&self.hashes.hash_one(key)).is_some_and(|until| now_seconds < *until)
    }

    /// How many purges there were so far; a flight keeps it from when it began.
    pub fn purges(&self) -> u64 {
        self.purges.count
    }

    /// Notes a purge of one URL, or of whatever is on its way. Flights that began before are joined by nobody any more.
    pub fn note_purge(&mut self, key: Option<&Key>) {
        let log = &mut self.purges;
        log.count += 1;
        match key {
            Some(key) => {
                log.recent.push_back((log.count, key.clone()));
                if log.recent.len() > PURGES_MAX
                    && let Some((count, _)) = log.recent.pop_front()
                {
                    log.all_before = count;
                }
                if let Some(resource) = self.resources.get_mut(key) {
                    resource.flights.clear();
                }
            }
            None => {
                log.all_before = log.count;
                log.recent.clear();
                self.resources.values_mut().for_each(|resource| resource.flights.clear());
                self.resources.retain(|_, resource| !resource.variants.is_empty());
            }
        }
    }

    /// Whether the URL was purged since there were `since` purges.
    pub fn was_purged(&self, key: &Key, since: u64) -> bool {
        let log = &self.purges;
        since < log.all_before || log.recent.iter().rev().take_while(|(count, _)| *count > since).any(|(_, purged)| purged == key)
    }

    /// A resource without anything is memory that nobody counts.
    pub fn forget_if_empty(&mut self, key: &Key) {
        if self.resources.get(key).is_some_and(|resource| resource.variants.is_empty() && resource.flights.is_empty()) {
            self.resources.remove(key);
        }
    }

    fn identity(&self, object: &Object) -> u64 {
        self.hashes.hash_one((&object.key, &object.secondary))
    }

    fn enqueue(&mut self, id: u64, is_main: bool, cost: u64) {
        self.weigh(!is_main, |bytes| bytes + cost);
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.push_back(id);
        // Objects that were replaced or purged leave their ids behind.
        if queue.len() > 2 * self.slots.len() + 64 {
            queue.retain(|own| *own == id || self.slots.get(own).is_some_and(|slot| slot.is_main == is_main));
        }
    }

    fn weigh(&mut self, is_small: bool, change: impl Fn(u64) -> u64) {
        let bytes = if is_small { &mut self.small_bytes } else { &mut self.main_bytes };
        *bytes = change(*bytes);
    }
}
