//! The contexts of encoders that are not at work, kept for the next answer by each thread, and the count of what is at
//! work. Making one anew clears hundreds of kilobytes, however small the answer is.

use crate::{DECODERS_BYTES_MAX, ENCODERS_BYTES_MAX};
use flate2::Compress;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use zstd_safe::CCtx;

/// Contexts of one codec that a thread keeps.
const IDLE_MAX: usize = 8;
/// The largest context that is kept: beyond is memory that one large answer has asked for.
const IDLE_BYTES_MAX: usize = 4 << 20;

thread_local! {
    static ZSTD: RefCell<Vec<CCtx<'static>>> = const { RefCell::new(Vec::new()) };
    static GZIP: RefCell<Vec<Compress>> = const { RefCell::new(Vec::new()) };
    static BYTES_AT_WORK: Cell<usize> = const { Cell::new(0) };
    static DECODERS_AT_WORK: Cell<usize> = const { Cell::new(0) };
}

/// What the encoders of all threads hold, and what they may.
static ENCODERS_AT_WORK: AtomicUsize = AtomicUsize::new(0);
static ENCODERS_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Says how much the encoders of all threads together may hold from here on; each thread's own never more than
/// [`ENCODERS_BYTES_MAX`]. A process with little memory has less for them: slow readers of compressed answers would
/// take all of it.
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
    /// `None` when the others have too much of it.
    pub fn take(bytes: usize) -> Option<Share> {
        let at_work = BYTES_AT_WORK.get() + bytes;
        if at_work > ENCODERS_BYTES_MAX {
            return None;
        }
        // Taken first and looked at then: two threads at once would both find room.
        let of_all = ENCODERS_AT_WORK.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if of_all > ENCODERS_BYTES.load(Ordering::Relaxed) {
            ENCODERS_AT_WORK.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        BYTES_AT_WORK.set(at_work);
        Some(Share { bytes })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        ENCODERS_AT_WORK.fetch_sub(self.bytes, Ordering::Relaxed);
        BYTES_AT_WORK.set(BYTES_AT_WORK.get() - self.bytes);
    }
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
    ZSTD.with_borrow_mut(Vec::pop).or_else(CCtx::try_create)
}

pub fn keep_zstd(context: CCtx<'static>) {
    if context.sizeof() <= IDLE_BYTES_MAX {
        keep(&ZSTD, context);
    }
}

pub fn take_gzip() -> Option<Compress> {
    GZIP.with_borrow_mut(Vec::pop)
}

pub fn keep_gzip(context: Compress) {
    keep(&GZIP, context);
}

fn keep<T: 'static>(kept: &'static std::thread::LocalKey<RefCell<Vec<T>>>, context: T) {
    // The thread may be ending.
    let _ = kept.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut()
            && kept.len() < IDLE_MAX
        {
            kept.push(context);
        }
    });
}

/// Tests look at a context of its own size, and at what was used by nobody.
#[cfg(test)]
pub fn forget() {
    ZSTD.with_borrow_mut(Vec::clear);
    GZIP.with_borrow_mut(Vec::clear);
    crate::cells::forget();
}
