//! The memory tier, shared by all workers: looking up, collapsing requests for the same into one fetch, purging. It
//! knows no sockets and no executor. Each of 16 shards has a mutex that is held for table operations only; a flight's
//! mutex is taken within it, never the other way round. `ticket` and `wait` are what a lookup hands out; `shard` holds
//! the tables and evicts.

mod counters;
mod flight;
mod object;
mod reader;
mod shard;
mod ticket;
mod wait;

pub use counters::Counts;
pub use flight::{Broken, Opening};
pub use object::{CHUNK_BYTES_MAX, CODINGS, Object};
pub use reader::Reader;
pub use ticket::{Adopted, Begun, FetchTicket, Writer};
pub use wait::{WaitHandle, WaitOutcome};

use crate::key::{Key, Vary};
use crate::message::{Now, RequestHead, has};
use crate::policy::serving::{StaleReason, Staleness, ValidationReason, Verdict, judge};
use crate::policy::{Forward, RequestDirectives};
use crate::settings::{Rules, Settings};
use bytes::Bytes;
use counters::{Accounts, count};
use flight::{Flight, Joined};
use object::{CHUNK_OVERHEAD_BYTES, compacted};
use shard::Shard;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 16;
/// Fetches of one URL at a time that others can join, one per variant; beyond, requests are not collapsed.
const FLIGHTS_PER_URL_MAX: usize = 32;

/// The cache's memory tier, and the rules of whoever asks. Cheap to clone; every worker and every route has one.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    rules: Arc<Rules>,
}

pub(crate) struct Inner {
    settings: Settings,
    shards: [Mutex<Shard>; SHARDS],
    accounts: Arc<Accounts>,
    /// The shard that makes room next.
    evicting: AtomicUsize,
}

/// What to do with a request.
pub enum Lookup {
    Hit {
        object: Arc<Object>,
        /// For the `Age` field.
        age_seconds: u64,
        ttl_seconds: u64,
    },
    /// Serve it though it is stale. With a ticket, this request is the one that asks the upstream in the background; if
    /// it cannot, it drops the ticket.
    Stale { object: Arc<Object>, why: StaleReason, staleness: Staleness, revalidation: Option<FetchTicket> },
    /// Forward the request, with the ticket's condition, and give the answer to the ticket.
    Fetch(FetchTicket, Forward),
    /// Another request fetches the same.
    Wait(WaitHandle, Forward),
    /// Forward the request as it is, and store nothing.
    Bypass(Forward),
    /// Answer with 504: the client wants no forwarding (`only-if-cached`).
    GatewayTimeout,
}

/// What is to be purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// All variants of a URL.
    Url(Key),
    /// Every URL that starts so, such as `https://example.org/news/`. Looks at every key.
    Prefix(Vec<u8>),
    Tag(Vec<u8>),
    All,
}

/// What a purge does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeKind {
    Hard,
    /// Marks as stale: `stale-while-revalidate` and `stale-if-error` count from now on, and a 304 makes it fresh again.
    Soft,
}

impl Store {
    pub fn new(settings: Settings) -> Store {
        let accounts = Arc::new(Accounts::new(&settings));
        let shards = std::array::from_fn(|_| Mutex::default());
        let inner = Inner { settings, shards, accounts, evicting: AtomicUsize::new(0) };
        Store { inner: Arc::new(inner), rules: Arc::default() }
    }

    /// The same store under other rules.
    pub fn ruled_by(&self, rules: Arc<Rules>) -> Store {
        Store { inner: self.inner.clone(), rules }
    }

    /// How long a request should wait for another one's head before it goes on its own.
    pub fn wait_seconds_max(&self) -> u64 {
        self.inner.settings.wait_seconds_max
    }

    pub fn counts(&self) -> Counts {
        self.inner.accounts.counts()
    }

    /// What the cache has to say about a request, before it is forwarded.
    pub fn lookup(&self, key: &Key, request: RequestHead<'_>, now: Now) -> Lookup {
        let lookup = self.look_up(key, request, now);
        let counters = &self.inner.accounts.counters;
        count(match &lookup {
            Lookup::Hit { .. } => &counters.hits,
            Lookup::Stale { .. } => &counters.stale_hits,
            Lookup::Wait(..) => &counters.collapsed,
            Lookup::Fetch(..) | Lookup::Bypass(_) | Lookup::GatewayTimeout => &counters.misses,
        });
        lookup
    }

    /// Keeps the body of a stored object in another coding, so that it is compressed once. Says whether it is kept: it
    /// is not when the object has gone, has it already, or when there is no room.
    pub fn keep_coded(&self, object: &Arc<Object>, place: usize, chunks: &[Bytes]) -> bool {
        let body = compacted(chunks.iter());
        let cost = body.iter().map(|chunk| chunk.len() as u64 + CHUNK_OVERHEAD_BYTES).sum();
        if !self.inner.make_room(&object.key, cost) {
            return false;
        }
        let is_kept = self.inner.shard(&object.key).keep_coded(object, place, body, cost);
        if !is_kept {
            self.inner.accounts.release_stored(cost);
        }
        is_kept
    }

    /// Takes on other bounds of bytes; what is too much for them goes at once. The other settings stay as they were.
    pub fn resize(&self, settings: &Settings) {
        self.inner.accounts.resize(settings);
        for place in 0..SHARDS {
            while self.inner.accounts.is_over() {
                let Some(object) = self.inner.lock(place).evict() else { break };
                count(&self.inner.accounts.counters.evicted);
                self.inner.release(&[object]);
            }
        }
    }

    /// Removes objects, or marks them, and sees to it that no answer that was asked for before is stored after: by URL
    /// exactly, by anything else whatever is on its way. Says how many objects it met. With a disk, purge here, there,
    /// and here again: the first keeps objects from being written, the last meets those that were read before the files
    /// were gone.
    pub fn purge(&self, purge: &Purge, kind: PurgeKind, now: Now) -> usize {
        match purge {
            Purge::Url(key) => self.inner.purge_in(self.inner.shard(key), purge, kind, now),
            Purge::Prefix(_) | Purge::Tag(_) | Purge::All => {
                (0..SHARDS).map(|place| self.inner.purge_in(self.inner.lock(place), purge, kind, now)).sum()
            }
        }
    }
}

/// How a request that cannot be answered from the store may go about its fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Collapse,
    /// Others must not wait for it, but what it gets may be stored.
    Solo,
    /// Nothing of it may be stored.
    Bypass,
}

impl Store {
    fn look_up(&self, key: &Key, request: RequestHead<'_>, now: Now) -> Lookup {
        if request.method != b"GET" && request.method != b"HEAD" {
            return Lookup::Bypass(Forward::Method);
        }
        // Conditions about the state of the resource itself are the upstream's to judge (RFC 9111 section 4.3.2).
        if has(request.fields, "if-match") || has(request.fields, "if-unmodified-since") {
            return Lookup::Bypass(Forward::Request);
        }
        let directives = RequestDirectives::read(request.fields, self.rules.obeys_request_directives);
        let is_foreign = request.method == b"HEAD"
            || directives.no_store
            || (has(request.fields, "range") && !self.rules.fetches_whole_for_ranges);
        let mut shard = self.inner.shard(key);
        let (object, is_known) = shard.find(key, request.fields);
        let (why, sharing) = match object.as_ref().map(|object| judge(directives, &object.terms, object.stale_since(), now)) {
            Some(Verdict::Fresh { age_seconds, ttl_seconds }) => {
                let Some(object) = object else { return Lookup::Bypass(Forward::Bypass) };
                object.touch();
                return Lookup::Hit { object, age_seconds, ttl_seconds };
            }
            Some(Verdict::Stale(why, staleness)) => {
                let Some(object) = object else { return Lookup::Bypass(Forward::Bypass) };
                object.touch();
                let is_due = why == StaleReason::WhileRevalidate && !is_foreign;
                let revalidation = if is_due { self.revalidate(&mut shard, &object, request, now) } else { None };
                return Lookup::Stale { object, why, staleness, revalidation };
            }
            Some(Verdict::GatewayTimeout) => return Lookup::GatewayTimeout,
            None if directives.only_if_cached => return Lookup::GatewayTimeout,
            // The answer to one such request is not the answer to another.
            Some(Verdict::Validate(ValidationReason::NoCache)) => (Forward::Stale, Sharing::Solo),
            Some(Verdict::Validate(ValidationReason::Request)) => (Forward::Request, Sharing::Solo),
            Some(Verdict::Validate(ValidationReason::Stale)) => {
                let is_never_fresh = object.as_ref().is_some_and(|object| object.terms.is_never_fresh());
                (Forward::Stale, if is_never_fresh { Sharing::Solo } else { Sharing::Collapse })
            }
            None if directives.no_cache || directives.max_age == Some(0) => (Forward::Request, Sharing::Solo),
            None => (if is_known { Forward::VaryMiss } else { Forward::UriMiss }, Sharing::Collapse),
        };
        // Most answers to requests with credentials are not for others: waiting for them would only put one behind the
        // other.
        let is_alone = request.is_authorized() || shard.is_uncacheable(key, now.seconds);
        let is_solo = sharing == Sharing::Collapse && is_alone;
        let sharing = if is_foreign {
            Sharing::Bypass
        } else if is_solo {
            Sharing::Solo
        } else {
            sharing
        };
        self.fetch(&mut shard, key, request, object, (why, sharing))
    }

    fn fetch(
        &self,
        shard: &mut Shard,
        key: &Key,
        request: RequestHead<'_>,
        stale: Option<Arc<Object>>,
        (why, sharing): (Forward, Sharing),
    ) -> Lookup {
        match sharing {
            Sharing::Bypass => return Lookup::Bypass(why),
            Sharing::Solo => return Lookup::Fetch(self.ticket(shard, key, (Vary::nothing(), Box::default()), stale), why),
            Sharing::Collapse => {}
        }
        // A request that says too much to be told from others cannot share.
        let vary = shard.vary_of(key).within_partition(request.fields);
        let Some(secondary) = vary.secondary(request.fields) else { return Lookup::Bypass(why) };
        let flights = shard.resources.get(key).map(|resource| resource.flights.clone()).unwrap_or_default();
        let mut living = flights.len();
        for flight in flights.iter().filter(|flight| flight.may_fit(request.fields)) {
            match flight.join(self.inner.settings.waiters_max) {
                Joined::Waiter(id) => return Lookup::Wait(WaitHandle::new(self.clone(), flight.clone(), id), why),
                Joined::Leader => return Lookup::Fetch(FetchTicket::new(self.clone(), flight.clone()), why),
                Joined::No(true) => {
                    shard.remove_flight(key, flight);
                    living -= 1;
                }
                Joined::No(false) => return Lookup::Bypass(why),
            }
        }
        let ticket = self.ticket(shard, key, (vary, secondary), stale);
        if living < FLIGHTS_PER_URL_MAX {
            shard.resources.entry(key.clone()).or_default().flights.push(ticket.flight().clone());
        }
        Lookup::Fetch(ticket, why)
    }

    /// A ticket for a background revalidation, unless one is under way or was tried just now.
    fn revalidate(&self, shard: &mut Shard, object: &Arc<Object>, request: RequestHead<'_>, now: Now) -> Option<FetchTicket> {
        let resource = shard.resources.get(&object.key)?;
        let is_under_way = resource.flights.iter().any(|flight| flight.may_fit(request.fields));
        if is_under_way || resource.flights.len() >= FLIGHTS_PER_URL_MAX || !object.may_revalidate(now) {
            return None;
        }
        let guess = (object.vary.clone(), object.secondary.clone());
        let ticket = self.ticket(shard, &object.key, guess, Some(object.clone()));
        shard.resources.entry(object.key.clone()).or_default().flights.push(ticket.flight().clone());
        Some(ticket)
    }

    fn ticket(&self, shard: &Shard, key: &Key, guess: (Vary, Box<[u8]>), stale: Option<Arc<Object>>) -> FetchTicket {
        let flight = Flight::new(key.clone(), guess, stale, shard.purges(), self.inner.accounts.clone());
        FetchTicket::new(self.clone(), flight)
    }
}

impl Inner {
    /// Stores an object and takes its flight out of the table in one step, so that no request in between finds neither.
    /// `false` if it was purged meanwhile, or if there is no room.
    fn insert(&self, object: &Arc<Object>, flight: &Arc<Flight>) -> bool {
        let has_room = self.make_room(&object.key, object.cost_bytes());
        let mut shard = self.shard(&object.key);
        let is_stored = has_room && !shard.was_purged(&object.key, flight.purges);
        let replaced = if is_stored { shard.insert(object.clone(), self.settings.variants_max) } else { Vec::new() };
        shard.remove_flight(&object.key, flight);
        if is_stored && !object.terms.is_never_fresh() {
            shard.set_cacheable(&object.key);
        }
        drop(shard);
        let counters = &self.accounts.counters;
        if is_stored {
            count(&counters.stored);
            counters.objects.fetch_add(1, Ordering::Relaxed);
        } else if has_room {
            self.accounts.release_stored(object.cost_bytes());
        }
        self.release(&replaced);
        is_stored
    }

    /// Reserves room for what belongs to the key, at the cost of others.
    fn make_room(&self, key: &Key, bytes: u64) -> bool {
        let mut place = key.share(SHARDS);
        let mut passed_over = 0;
        while !self.accounts.reserve_stored(bytes) {
            if !self.accounts.can_ever_store(bytes) || passed_over > 2 * SHARDS {
                return false;
            }
            // A fixed part of the bytes for each shard would leave no room for large objects, and taking from any would
            // spoil the order within those that had nothing to store. So the shard gives that stores, unless it has
            // less than its part.
            let evicted = {
                let mut shard = self.lock(place);
                let is_rich = shard.bytes() * SHARDS as u64 >= self.accounts.counts().bytes || passed_over > SHARDS;
                if is_rich { shard.evict() } else { None }
            };
            match evicted {
                Some(object) => {
                    passed_over = 0;
                    count(&self.accounts.counters.evicted);
                    self.release(&[object]);
                }
                None => {
                    passed_over += 1;
                    place = self.evicting.fetch_add(1, Ordering::Relaxed) % SHARDS;
                }
            }
        }
        true
    }

    fn purge_in(&self, mut shard: MutexGuard<'_, Shard>, purge: &Purge, kind: PurgeKind, now: Now) -> usize {
        let (ids, key) = match purge {
            Purge::Url(key) => (shard.variants(key), Some(key)),
            Purge::Prefix(prefix) => (shard.matching(|object| object.key.url().starts_with(prefix)), None),
            Purge::Tag(tag) => (shard.tagged(tag), None),
            Purge::All => (shard.matching(|_| true), None),
        };
        shard.note_purge(key);
        let soft_since = match kind {
            PurgeKind::Hard => None,
            PurgeKind::Soft => Some(now.seconds),
        };
        ids.iter().filter_map(|id| shard.get(*id)).for_each(|object| object.purge(soft_since));
        let removed: Vec<_> = match kind {
            PurgeKind::Hard => ids.iter().filter_map(|id| shard.remove(*id)).collect(),
            PurgeKind::Soft => Vec::new(),
        };
        drop(shard);
        self.release(&removed);
        self.accounts.counters.purged.fetch_add(ids.len() as u64, Ordering::Relaxed);
        ids.len()
    }

    fn remove_object(&self, object: &Arc<Object>) {
        let removed = self.shard(&object.key).remove_object(object);
        self.release(removed.as_slice());
    }

    fn release(&self, removed: &[Arc<Object>]) {
        for object in removed {
            self.accounts.release_stored(object.cost_bytes());
            self.accounts.counters.objects.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn remove_flight(&self, flight: &Arc<Flight>) {
        self.shard(&flight.key).remove_flight(&flight.key, flight);
    }

    /// Nobody waits for a failed fetch any more, unless somebody came since.
    fn forget_abandoned(&self, flight: &Arc<Flight>) {
        let mut shard = self.shard(&flight.key);
        if flight.release_if_abandoned() {
            shard.remove_flight(&flight.key, flight);
        }
    }

    fn set_uncacheable(&self, key: &Key, now_seconds: u64) {
        self.shard(key).set_uncacheable(key, now_seconds.saturating_add(self.settings.uncacheable_seconds));
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        self.lock(key.share(SHARDS))
    }

    fn lock(&self, place: usize) -> MutexGuard<'_, Shard> {
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
