//! What connections take of the process's memory, counted where it is taken. What the process uses is looked at a few
//! times a second, and a client can have a great deal taken between two looks; these figures say at once that it is
//! time to look again, and what the streams of all connections together may still hold.
//!
//! The counts belong to the process, as its memory does. Workers share them, so they are written in large steps only:
//! by whoever allocates a buffer because none is free, and by connections that hold more than is usual.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A count on cache lines of its own. Each read of a socket asks whether memory is tight, and whoever opens a
/// connection writes what is taken: on one line they would fetch it from each other all the time.
#[repr(align(128))]
struct Apart<T>(T);

const _: () = assert!(size_of::<Apart<AtomicBool>>() == 128 && align_of::<Apart<AtomicU64>>() == 128);

/// Buffers that were allocated, connections, what streams hold beside, and what else a request needs much of.
static TAKEN: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// What streams hold.
static HELD: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// What the process may use; [`UNBOUNDED`] where nobody has said.
static BUDGET: Apart<AtomicU64> = Apart(AtomicU64::new(UNBOUNDED));
/// What connections have ever taken, whatever they gave back: what one worker freed is not there for another before the
/// allocator has given it back as well.
static EVER_TAKEN: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// What they may have taken ever before somebody looks again what the process uses. Reads wait for that look, see
/// [`crate::held_back`].
static LEASED_TO: Apart<AtomicU64> = Apart(AtomicU64::new(UNBOUNDED));
const UNBOUNDED: u64 = u64::MAX;

/// The part of the budget that streams may hold beyond what each connection may always: one client's heads and unread
/// answers must leave the others what they need.
const STREAMS_PART: u64 = 4;

/// The part of the budget that bodies may hold which are collected before they go anywhere: all of it is in the hands
/// of clients that send slowly, and a file takes what is beyond.
const COLLECTED_PART: u64 = 16;
/// What those bodies hold.
static COLLECTED: Apart<AtomicU64> = Apart(AtomicU64::new(0));

/// The part of the budget that copies of requests may hold: nobody waits for them, and what they hold is missing to
/// those whom somebody waits for.
const COPIES_PART: u64 = 32;
/// What they hold.
static COPIED: Apart<AtomicU64> = Apart(AtomicU64::new(0));

/// What the process may use from here on; `None` is no bound.
pub fn set_budget(bytes: Option<u64>) {
    BUDGET.0.store(bytes.unwrap_or(UNBOUNDED), Ordering::Relaxed);
}

/// What the process may use; `None` is no bound.
pub fn budget_bytes() -> Option<u64> {
    Some(BUDGET.0.load(Ordering::Relaxed)).filter(|bytes| *bytes != UNBOUNDED)
}

/// What connections have taken. Not all of it need be in use: it says how much may have come since it was less.
#[inline]
pub fn taken_bytes() -> u64 {
    TAKEN.0.load(Ordering::Relaxed)
}

/// What connections have taken since the process began.
pub fn ever_taken_bytes() -> u64 {
    EVER_TAKEN.0.load(Ordering::Relaxed)
}

/// Says what connections may have taken ever before somebody has to look again; `None` is no bound.
pub fn lease_to(ever_taken_bytes: Option<u64>) {
    LEASED_TO.0.store(ever_taken_bytes.unwrap_or(UNBOUNDED), Ordering::Relaxed);
}

/// Whether connections have taken all that they may before somebody looks.
pub fn is_lease_used_up() -> bool {
    ever_taken_bytes() >= LEASED_TO.0.load(Ordering::Relaxed)
}

/// Whether more is in use than leaves room to spare, or nobody has looked since much was taken.
static TIGHT: Apart<AtomicBool> = Apart(AtomicBool::new(false));

/// Says whether more of the budget is in use than leaves room to spare.
pub fn set_tight(is_tight: bool) {
    TIGHT.0.store(is_tight, Ordering::Relaxed);
}

/// Whether what waits should take no more than it needs, at the cost of copying it.
#[inline]
pub fn is_tight() -> bool {
    TIGHT.0.load(Ordering::Relaxed)
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

/// What something holds in memory that has a part of the budget of its own, counted for as long as it lives.
#[derive(Debug)]
pub struct BoundedShare {
    taken: TakenShare,
    all: &'static AtomicU64,
    part: u64,
}

impl BoundedShare {
    /// Of a body that is collected.
    pub fn collected() -> BoundedShare {
        BoundedShare { taken: TakenShare::default(), all: &COLLECTED.0, part: COLLECTED_PART }
    }

    /// Of a copy of a request.
    pub fn copied() -> BoundedShare {
        BoundedShare { taken: TakenShare::default(), all: &COPIED.0, part: COPIES_PART }
    }

    /// Makes it that much from here on, unless all of them together would hold more than they may: then it stays as it
    /// is. Less is always granted.
    #[must_use]
    pub fn try_set(&mut self, bytes: usize) -> bool {
        let held = self.taken.bytes();
        if bytes > held {
            let more = (bytes - held) as u64;
            let all = self.all.fetch_add(more, Ordering::Relaxed) + more;
            if all > BUDGET.0.load(Ordering::Relaxed) / self.part {
                self.all.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else {
            self.all.fetch_sub((held - bytes) as u64, Ordering::Relaxed);
        }
        self.taken.set(bytes);
        true
    }

    /// Nothing is held any more.
    pub fn clear(&mut self) {
        self.all.fetch_sub(self.taken.bytes() as u64, Ordering::Relaxed);
        self.taken.set(0);
    }
}

impl Drop for BoundedShare {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A buffer was allocated. With the last of the lease it is for all readers to know: what they ask before each read is
/// whether memory is tight, and nothing else while it is not.
pub fn take(bytes: usize) {
    TAKEN.0.fetch_add(bytes as u64, Ordering::Relaxed);
    let before = EVER_TAKEN.0.fetch_add(bytes as u64, Ordering::Relaxed);
    if before + bytes as u64 >= LEASED_TO.0.load(Ordering::Relaxed) {
        set_tight(true);
    }
}

/// A buffer was given back to the allocator.
pub fn give_back(bytes: usize) {
    TAKEN.0.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Streams of a connection hold more.
pub fn hold(bytes: usize) {
    take(bytes);
    HELD.0.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Streams of a connection hold less.
pub fn let_go(bytes: usize) {
    give_back(bytes);
    HELD.0.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Whether streams hold all that they may.
pub fn is_short_for_streams() -> bool {
    HELD.0.load(Ordering::Relaxed) > BUDGET.0.load(Ordering::Relaxed) / STREAMS_PART
}
