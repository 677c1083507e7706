//! What connections take of the process's memory, counted where it is taken. What the process uses is looked at a few
//! times a second, and a client can have a great deal taken between two looks; these figures say at once that it is
//! time to look again, and what the streams of all connections together may still hold.
//!
//! The counts belong to the process, as its memory does. Workers share them, so they are written in large steps only:
//! by whoever allocates a buffer because none is free, and by connections that hold more than is usual.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Buffers that were allocated, connections, what streams hold beside, and what else a request needs much of.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// What streams hold.
static HELD: AtomicU64 = AtomicU64::new(0);
/// What the process may use; [`UNBOUNDED`] where nobody has said.
static BUDGET: AtomicU64 = AtomicU64::new(UNBOUNDED);
/// What connections have ever taken, whatever they gave back: what one worker freed is not there for another before the
/// allocator has given it back as well.
static EVER_TAKEN: AtomicU64 = AtomicU64::new(0);
/// What they may have taken ever before somebody looks again what the process uses. Reads wait for that look, see
/// [`crate::held_back`].
static LEASED_TO: AtomicU64 = AtomicU64::new(UNBOUNDED);
const UNBOUNDED: u64 = u64::MAX;

/// The part of the budget that streams may hold beyond what each connection may always: one client's heads and unread
/// answers must leave the others what they need.
const STREAMS_PART: u64 = 4;

/// The part of the budget that bodies may hold which are collected before they go anywhere: all of it is in the hands
/// of clients that send slowly, and a file takes what is beyond.
const COLLECTED_PART: u64 = 16;
/// What those bodies hold.
static COLLECTED: AtomicU64 = AtomicU64::new(0);

/// What the process may use from here on; `None` is no bound.
pub fn set_budget(bytes: Option<u64>) {
    BUDGET.store(bytes.unwrap_or(UNBOUNDED), Ordering::Relaxed);
}

/// What the process may use; `None` is no bound.
pub fn budget_bytes() -> Option<u64> {
    Some(BUDGET.load(Ordering::Relaxed)).filter(|bytes| *bytes != UNBOUNDED)
}

/// What connections have taken. Not all of it need be in use: it says how much may have come since it was less.
#[inline]
pub fn taken_bytes() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// What connections have taken since the process began.
pub fn ever_taken_bytes() -> u64 {
    EVER_TAKEN.load(Ordering::Relaxed)
}

/// Says what connections may have taken ever before somebody has to look again; `None` is no bound.
pub fn lease_to(ever_taken_bytes: Option<u64>) {
    LEASED_TO.store(ever_taken_bytes.unwrap_or(UNBOUNDED), Ordering::Relaxed);
}

/// Whether connections have taken all that they may before somebody looks.
pub fn is_lease_used_up() -> bool {
    ever_taken_bytes() >= LEASED_TO.load(Ordering::Relaxed)
}

/// Whether more is in use than leaves room to spare, or nobody has looked since much was taken.
static TIGHT: AtomicBool = AtomicBool::new(false);

/// Says whether more of the budget is in use than leaves room to spare.
pub fn set_tight(is_tight: bool) {
    TIGHT.store(is_tight, Ordering::Relaxed);
}

/// Whether what waits should take no more than it needs, at the cost of copying it.
#[inline]
pub fn is_tight() -> bool {
    TIGHT.load(Ordering::Relaxed)
}

/// Gives back to the system what the allocator keeps for later: what is resident is then what is in use.
static PURGE: OnceLock<fn()> = OnceLock::new();

/// Says how that is done; the allocator is the program's.
pub fn set_purge(purge: fn()) {
    let _ = PURGE.set(purge);
}

/// See [`set_purge`]. Takes milliseconds where much was freed.
pub fn purge() {
    if let Some(purge) = PURGE.get() {
        purge();
    }
}

/// A part of what connections have taken, for as long as it lives.
#[derive(Debug, Default)]
pub struct TakenShare {
    bytes: usize,
}

impl TakenShare {
    pub fn new(bytes: usize) -> TakenShare {
        take(bytes);
        TakenShare { bytes }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes it that much from here on.
    pub fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            take(bytes - self.bytes);
        } else {
            give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for TakenShare {
    fn drop(&mut self) {
        if self.bytes > 0 {
            give_back(self.bytes);
        }
    }
}

/// What a collected body holds in memory, counted for as long as it lives.
#[derive(Debug, Default)]
pub struct CollectedShare {
    taken: TakenShare,
}

impl CollectedShare {
    /// Makes it that much from here on, unless all bodies together would hold more than they may: then it stays as it
    /// is. Less is always granted.
    #[must_use]
    pub fn try_set(&mut self, bytes: usize) -> bool {
        let held = self.taken.bytes();
        if bytes > held {
            let more = (bytes - held) as u64;
            let all = COLLECTED.fetch_add(more, Ordering::Relaxed) + more;
            if all > BUDGET.load(Ordering::Relaxed) / COLLECTED_PART {
                COLLECTED.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else {
            COLLECTED.fetch_sub((held - bytes) as u64, Ordering::Relaxed);
        }
        self.taken.set(bytes);
        true
    }

    /// Nothing is held any more.
    pub fn clear(&mut self) {
        COLLECTED.fetch_sub(self.taken.bytes() as u64, Ordering::Relaxed);
        self.taken.set(0);
    }
}

impl Drop for CollectedShare {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A buffer was allocated. With the last of the lease it is for all readers to know: what they ask before each read is
/// whether memory is tight, and nothing else while it is not.
pub fn take(bytes: usize) {
    TAKEN.fetch_add(bytes as u64, Ordering::Relaxed);
    let before = EVER_TAKEN.fetch_add(bytes as u64, Ordering::Relaxed);
    if before + bytes as u64 >= LEASED_TO.load(Ordering::Relaxed) {
        set_tight(true);
    }
}

/// A buffer was given back to the allocator.
pub fn give_back(bytes: usize) {
    TAKEN.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Streams of a connection hold more.
pub fn hold(bytes: usize) {
    take(bytes);
    HELD.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Streams of a connection hold less.
pub fn let_go(bytes: usize) {
    give_back(bytes);
    HELD.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Whether streams hold all that they may.
pub fn is_short_for_streams() -> bool {
    HELD.load(Ordering::Relaxed) > BUDGET.load(Ordering::Relaxed) / STREAMS_PART
}
