//! The contexts of encoders that are not at work, kept for the next answer by each thread, and the count of what is at
//! work and of what is kept. Making one anew clears hundreds of kilobytes, however small the answer is.

use crate::{DECODERS_BYTES_MAX, ENCODERS_BYTES_MAX};
use flate2::Compress;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use zstd_safe::CCtx;

/// Contexts of one codec that a thread keeps.
const IDLE_MAX: usize = 8;
/// What a context of gzip takes, at any level.
pub const GZIP_BYTES: usize = 384 << 10;
/// The largest context that is kept: beyond is memory that one large answer has asked for.
const IDLE_BYTES_MAX: usize = 4 << 20;

/// The part of what encoders may hold up to which contexts are kept: the rest is for those at work.
const KEPT_PART: usize = 2;

thread_local! {
    static ZSTD: RefCell<Vec<CCtx<'static>>> = const { RefCell::new(Vec::new()) };
    static GZIP: RefCell<Vec<Compress>> = const { RefCell::new(Vec::new()) };
    static BYTES_AT_WORK: Cell<usize> = const { Cell::new(0) };
    /// What is kept, memory of br included.
    static BYTES_KEPT: Cell<usize> = const { Cell::new(0) };
    /// What this thread has told all others of both.
    static COUNTED: Counted = const { Counted(Cell::new(0)) };
    static DECODERS_AT_WORK: Cell<usize> = const { Cell::new(0) };
    /// Whether an encoder has begun since [`give_back_unused`] last looked.
    static HAS_BEGUN: Cell<bool> = const { Cell::new(false) };
}

/// What the encoders of all threads hold, at work and kept, and what they may.
static ENCODERS_HELD: AtomicUsize = AtomicUsize::new(0);
static ENCODERS_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The part of a thread in [`ENCODERS_HELD`]. A thread that ends takes it along, as it does what it has kept.
struct Counted(Cell<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        ENCODERS_HELD.fetch_sub(self.0.get(), Ordering::Relaxed);
    }
}

/// Says how much the encoders of all threads together may hold from here on, with what is kept for the next ones; those
/// at work in one thread never more than [`ENCODERS_BYTES_MAX`]. A process with little memory has less for them: slow
/// readers of compressed answers would take all of it.
pub fn give_encoders(bytes: Option<u64>) {
    let bytes = bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    ENCODERS_BYTES.store(bytes, Ordering::Relaxed);
}

/// A part of the memory for encoders, until it is dropped.
#[derive(Debug)]
pub struct Share {
    bytes: usize,
}

impl Share {
    /// `None` when the others have too much of it. Before that, what the thread has kept is given back.
    pub fn take(bytes: usize) -> Option<Share> {
        HAS_BEGUN.set(true);
        let at_work = BYTES_AT_WORK.get() + bytes;
        if at_work > ENCODERS_BYTES_MAX {
            return None;
        }
        let is_room = || count() <= ENCODERS_BYTES.load(Ordering::Relaxed);
        // Taken first and looked at then: two threads at once would both find room.
        BYTES_AT_WORK.set(at_work);
        if is_room() {
            return Some(Share { bytes });
        }
        if BYTES_KEPT.get() > 0 {
            forget_kept();
            if is_room() {
                return Some(Share { bytes });
            }
        }
        BYTES_AT_WORK.set(at_work - bytes);
        count();
        None
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        BYTES_AT_WORK.set(BYTES_AT_WORK.get() - self.bytes);
        // What the encoder has left to be kept is there by now.
        if count() > ENCODERS_BYTES.load(Ordering::Relaxed) / KEPT_PART && BYTES_KEPT.get() > 0 {
            forget_kept();
            count();
        }
    }
}

/// Tells all others what this thread holds, in one write: what is kept changes many times while an encoder begins and
/// ends, and counts for both then. What all threads hold.
fn count() -> usize {
    let now = BYTES_AT_WORK.get() + BYTES_KEPT.get();
    // Of a thread that is ending nothing is counted any more.
    let before = COUNTED.try_with(|counted| counted.0.replace(now)).unwrap_or(now);
    if now >= before {
        ENCODERS_HELD.fetch_add(now - before, Ordering::Relaxed) + (now - before)
    } else {
        ENCODERS_HELD.fetch_sub(before - now, Ordering::Relaxed) - (before - now)
    }
}

/// Something was kept.
pub fn add_kept(bytes: usize) {
    BYTES_KEPT.set(BYTES_KEPT.get() + bytes);
}

/// Something that was kept is at work, or was given back.
pub fn subtract_kept(bytes: usize) {
    BYTES_KEPT.set(BYTES_KEPT.get() - bytes);
}

/// Gives back to the allocator what this thread keeps for its next encoders.
pub fn give_back_kept() {
    if BYTES_KEPT.get() > 0 {
        forget_kept();
        count();
    }
}

/// As [`give_back_kept`], when no encoder has begun since the last call.
pub fn give_back_unused() {
    if !HAS_BEGUN.replace(false) {
        give_back_kept();
    }
}

fn forget_kept() {
    crate::cells::forget();
    // Of a thread that is ending nothing is left to give back.
    let _ = ZSTD.try_with(|kept| kept.take().into_iter().for_each(|context| subtract_kept(context.sizeof())));
    let _ = GZIP.try_with(|kept| kept.take().into_iter().for_each(|_| subtract_kept(GZIP_BYTES)));
}

/// What decoders may take of memory, which is a part of its own.
#[derive(Debug)]
pub struct DecoderShare {
    bytes: usize,
}

impl DecoderShare {
    /// `None` when the others have too much of it.
    pub fn take(bytes: usize) -> Option<DecoderShare> {
        let at_work = DECODERS_AT_WORK.get() + bytes;
        if at_work > DECODERS_BYTES_MAX {
            return None;
        }
        DECODERS_AT_WORK.set(at_work);
        Some(DecoderShare { bytes })
    }
}

impl Drop for DecoderShare {
    fn drop(&mut self) {
        DECODERS_AT_WORK.set(DECODERS_AT_WORK.get() - self.bytes);
    }
}

pub fn take_zstd() -> Option<CCtx<'static>> {
    let Some(context) = ZSTD.with_borrow_mut(Vec::pop) else { return CCtx::try_create() };
    subtract_kept(context.sizeof());
    Some(context)
}

pub fn keep_zstd(context: CCtx<'static>) {
    let bytes = context.sizeof();
    if bytes <= IDLE_BYTES_MAX {
        keep(&ZSTD, context, bytes);
    }
}

pub fn take_gzip() -> Option<Compress> {
    let context = GZIP.with_borrow_mut(Vec::pop)?;
    subtract_kept(GZIP_BYTES);
    Some(context)
}

pub fn keep_gzip(context: Compress) {
    keep(&GZIP, context, GZIP_BYTES);
}

fn keep<T: 'static>(kept: &'static std::thread::LocalKey<RefCell<Vec<T>>>, context: T, bytes: usize) {
    // The thread may be ending.
    let _ = kept.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut()
            && kept.len() < IDLE_MAX
        {
            kept.push(context);
            add_kept(bytes);
        }
    });
}

/// Tests look at a context of its own size, and at what was used by nobody.
#[cfg(test)]
pub fn forget() {
    give_back_kept();
}
