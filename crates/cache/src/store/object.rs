//! One stored answer: immutable but for a few marks, so that all workers read it without a lock.
//! It is found and evicted by `shard`, and made from what `policy::storing` allows.

use crate::key::{Key, Vary};
use crate::message::{Field, Now, StoredHead};
use crate::policy::storing::{Storable, Terms};
use bytes::{Bytes, BytesMut};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of one chunk of a body; longer ones are cut.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Allowance for a chunk beyond its bytes: the handle, the reference count and the allocator's rounding.
pub const CHUNK_OVERHEAD_BYTES: u64 = 96;
/// Allowance for an object's own struct and its places in the tables.
pub const OBJECT_OVERHEAD_BYTES: u64 = 640;
/// Codings of a body that are kept beside it.
pub const CODINGS: usize = 3;
const TAG_OVERHEAD_BYTES: u64 = 96;
/// Hits that count; more make no difference to eviction.
const FREQUENCY_MAX: u8 = 3;
/// `stale_since` of an object that was not purged.
const NOT_PURGED: u64 = u64::MAX;
/// Between two background revalidations of one object, so that a failing upstream is not asked with every request.
const REVALIDATION_SECONDS_LEAST: u64 = 1;

#[derive(Debug)]
pub struct Object {
    pub key: Key,
    pub vary: Vary,
    /// What the request said in the fields of `vary`.
    pub secondary: Box<[u8]>,
    pub head: StoredHead,
    pub terms: Terms,
    pub tags: Box<[Box<[u8]>]>,
    /// At most 64 KiB each.
    pub body: Arc<[Bytes]>,
    pub body_bytes: u64,
    /// The body in codings that it was sent in, by their places in `CODINGS`: what is asked for often is compressed
    /// once.
    coded: [OnceLock<Arc<[Bytes]>>; CODINGS],
    /// Changed under its shard's lock only.
    cost_bytes: AtomicU64,
    frequency: AtomicU8,
    stale_since: AtomicU64,
    is_purged: AtomicBool,
    revalidated_seconds: AtomicU64,
}

impl Object {
    pub fn new(key: Key, storable: Storable, body: Arc<[Bytes]>) -> Object {
        let Storable { head, terms, vary, secondary, tags, content_length: _ } = storable;
        let body_bytes = body.iter().map(|chunk| chunk.len() as u64).sum();
        let tag_bytes: u64 = tags.iter().map(|tag| tag.len() as u64 + TAG_OVERHEAD_BYTES).sum();
        let chunks_bytes = body.len() as u64 * CHUNK_OVERHEAD_BYTES;
        let vary_bytes: usize = vary.names().map(|name| name.len() + 32).sum();
        let key_bytes = 2 * key.url().len() + secondary.len() + vary_bytes;
        let cost_bytes = body_bytes + chunks_bytes + tag_bytes + (head.bytes() + key_bytes) as u64 + OBJECT_OVERHEAD_BYTES;
        Object {
            key,
            vary,
            secondary,
            head,
            terms,
            tags,
            body,
            body_bytes,
            coded: Default::default(),
            cost_bytes: AtomicU64::new(cost_bytes),
            frequency: AtomicU8::new(0),
            stale_since: AtomicU64::new(NOT_PURGED),
            is_purged: AtomicBool::new(false),
            revalidated_seconds: AtomicU64::new(0),
        }
    }

    /// Memory that is counted for it.
    pub fn cost_bytes(&self) -> u64 {
        self.cost_bytes.load(Ordering::Relaxed)
    }

    /// The body in the coding of that place, if it was kept.
    pub fn coded(&self, place: usize) -> Option<&Arc<[Bytes]>> {
        self.coded.get(place).and_then(OnceLock::get)
    }

    /// `false` when it is there already.
    pub(super) fn set_coded(&self, place: usize, body: Arc<[Bytes]>, cost_bytes: u64) -> bool {
        let is_set = self.coded.get(place).is_some_and(|coded| coded.set(body).is_ok());
        if is_set {
            self.cost_bytes.fetch_add(cost_bytes, Ordering::Relaxed);
        }
        is_set
    }

    pub fn age_seconds(&self, now: Now) -> u64 {
        self.terms.age_seconds(now)
    }

    /// For how long it is fresh yet; negative when it is stale.
    pub fn ttl_seconds(&self, now: Now) -> i64 {
        let by_age = self.terms.lifetime_seconds as i64 - self.age_seconds(now) as i64;
        self.stale_since().map_or(by_age, |since| by_age.min(since as i64 - now.seconds as i64))
    }

    /// When it was purged softly, by [`Now::seconds`].
    pub fn stale_since(&self) -> Option<u64> {
        Some(self.stale_since.load(Ordering::Relaxed)).filter(|since| *since != NOT_PURGED)
    }

    /// Whether a purge of either kind has met it: such an object must not be kept anywhere any longer.
    pub fn is_purged(&self) -> bool {
        self.is_purged.load(Ordering::Acquire)
    }

    /// Whether a request that says this in its head gets this object rather than another variant.
    pub fn fits(&self, request: &[Field<'_>]) -> bool {
        self.vary.fits(request, &self.secondary)
    }

    pub(super) fn purge(&self, soft_since: Option<u64>) {
        if let Some(since) = soft_since {
            self.stale_since.fetch_min(since, Ordering::Relaxed);
        }
        self.is_purged.store(true, Ordering::Release);
    }

    pub(super) fn touch(&self) {
        // Losing a count to another thread does no harm.
        let frequency = self.frequency.load(Ordering::Relaxed);
        if frequency < FREQUENCY_MAX {
            self.frequency.store(frequency + 1, Ordering::Relaxed);
        }
    }

    pub(super) fn frequency(&self) -> u8 {
        self.frequency.load(Ordering::Relaxed)
    }

    pub(super) fn set_frequency(&self, frequency: u8) {
        self.frequency.store(frequency, Ordering::Relaxed);
    }

    /// Whether a background revalidation may begin; the caller makes sure that none is under way.
    pub(super) fn may_revalidate(&self, now: Now) -> bool {
        let last = self.revalidated_seconds.load(Ordering::Relaxed);
        let may = now.seconds >= last.saturating_add(REVALIDATION_SECONDS_LEAST);
        if may {
            self.revalidated_seconds.store(now.seconds, Ordering::Relaxed);
        }
        may
    }
}

/// A body of few large chunks: an upstream that sends a byte at a time must not cost an allocation for each.
pub fn compacted<'a>(chunks: impl ExactSizeIterator<Item = &'a Bytes> + Clone) -> Arc<[Bytes]> {
    let bytes: usize = chunks.clone().map(Bytes::len).sum();
    if chunks.len() <= 2 + bytes / (CHUNK_BYTES_MAX / 4) {
        return chunks.cloned().collect();
    }
    let mut body = Vec::with_capacity(bytes / CHUNK_BYTES_MAX + 1);
    let mut buffer = BytesMut::with_capacity(CHUNK_BYTES_MAX.min(bytes));
    let mut left = bytes;
    for mut rest in chunks.map(|chunk| &chunk[..]) {
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(CHUNK_BYTES_MAX - buffer.len()));
            buffer.extend_from_slice(now);
            rest = later;
            if buffer.len() == CHUNK_BYTES_MAX {
                left -= buffer.len();
                body.push(std::mem::replace(&mut buffer, BytesMut::with_capacity(CHUNK_BYTES_MAX.min(left))).freeze());
            }
        }
    }
    if !buffer.is_empty() {
        body.push(buffer.freeze());
    }
    body.into()
}
