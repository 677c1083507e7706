//! Leased buffers: 20 KiB of head-room, 64 KiB for input, 48 KiB behind it; returned to the worker's stack on drop.
//! The head-room lets a rewritten head, a chunk line or the first part of a split TLS record go in front of bytes that
//! stay where they are. Nothing here waits; who reads into a buffer is in `sock`.

use crate::memory;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut, Range};

/// A full TLS record (16,640 bytes with its expansion) or any head of usual size fits in front of the data.
pub const HEAD_ROOM: usize = 20 << 10;
/// One read. At 16 KiB a 100 KB answer costs half as much again, at 256 KiB a fifth more.
pub const CAPACITY: usize = 64 << 10;
/// Room for the expansion of TLS records, and for a head of 64 KiB that is still incomplete in front of a full read.
pub const TAIL_ROOM: usize = 48 << 10;
/// One read while memory is tight: a full TLS record. What is read of an answer may wait for its client for as long as
/// the client likes.
pub const TIGHT_READ_BYTES: usize = HEAD_ROOM;
/// What a buffer takes of memory.
pub const TOTAL: usize = HEAD_ROOM + CAPACITY + TAIL_ROOM;
/// Free buffers a worker keeps; more go back to the allocator.
const FREE_MAX: usize = 64;

thread_local! {
    /// Last in, first out: the top one is still in the cache.
    static FREE: RefCell<FreeBuffers> = const { RefCell::new(FreeBuffers(Vec::new())) };
    /// What was free when it was last looked which are used, and was not used since.
    static SET_ASIDE: RefCell<FreeBuffers> = const { RefCell::new(FreeBuffers(Vec::new())) };
}

struct FreeBuffers(Vec<Box<[u8]>>);

impl Drop for FreeBuffers {
    fn drop(&mut self) {
        memory::give_back(self.0.len() * TOTAL);
    }
}

/// Gives the free buffers of this worker back to the allocator.
pub fn free_spares() {
    free_unused();
    free_unused();
}

/// Gives the free buffers of this worker back to the allocator that were not used since the last call. After a burst
/// there are many, and who takes the top one each time would never come to those below.
pub fn free_unused() {
    // Emptied and exchanged, so that the two stacks keep their room.
    let freed = SET_ASIDE.with_borrow_mut(|aside| {
        let freed = aside.0.len();
        aside.0.clear();
        FREE.with_borrow_mut(|free| std::mem::swap(&mut free.0, &mut aside.0));
        freed
    });
    memory::give_back(freed * TOTAL);
}

/// Memory for a buffer: what was set aside, else new.
#[cold]
fn allocate() -> Box<[u8]> {
    if let Some(bytes) = SET_ASIDE.with_borrow_mut(|aside| aside.0.pop()) {
        return bytes;
    }
    memory::take(TOTAL);
    vec![0; TOTAL].into_boxed_slice()
}

/// A stretch of bytes in a leased buffer. Dereferences to the bytes.
///
/// Kept to 24 bytes, because buffers are held in the futures of requests, and those are copied around.
pub struct Buf {
    /// `TOTAL` initialised bytes of a lease, none for [`Buf::empty`], less for what waits, see [`Buf::shrink`].
    bytes: Box<[u8]>,
    start: u32,
    end: u32,
}

impl Buf {
    /// An empty buffer with all its head-room.
    #[inline]
    pub fn take() -> Buf {
        let bytes = FREE.with_borrow_mut(|free| free.0.pop()).unwrap_or_else(allocate);
        Buf { bytes, start: HEAD_ROOM as u32, end: HEAD_ROOM as u32 }
    }

    /// An empty buffer without head-room: all of it can be written behind.
    pub fn take_whole() -> Buf {
        let mut buf = Buf::take();
        (buf.start, buf.end) = (0, 0);
        buf
    }

    /// No bytes and no lease: the end of a stream.
    pub fn empty() -> Buf {
        Buf { bytes: Box::default(), start: 0, end: 0 }
    }

    /// Gives the lease back and keeps what is there in as much memory as it needs, for bytes that wait to be sent and
    /// to which nothing is added any more. A slow reader's last kilobytes must not keep a whole buffer.
    #[cold]
    pub fn shrink(&mut self) {
        if self.bytes.len() == TOTAL {
            memory::take(self.len());
            let bytes: Box<[u8]> = Box::from(&**self);
            *self = Buf { start: 0, end: bytes.len() as u32, bytes };
        }
    }

    /// With the room of a lease around the bytes, for who adds to them again.
    #[inline]
    pub fn into_lease(self) -> Buf {
        if self.bytes.len() == TOTAL { self } else { Buf::copy_of(&self) }
    }

    /// What it takes of memory.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn copy_of(data: &[u8]) -> Buf {
        let mut buf = Buf::take();
        buf.extend(data);
        buf
    }

    /// Bytes that [`extend`](Self::extend) still takes.
    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.end()
    }

    /// Bytes that [`prepend`](Self::prepend) still takes.
    #[inline]
    pub fn head_room(&self) -> usize {
        self.start as usize
    }

    /// The free bytes behind the data. What was written there is taken in by [`grow`](Self::grow).
    #[inline]
    pub fn spare(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end as usize..]
    }

    /// As [`spare`](Self::spare), one read's worth at most.
    #[inline]
    pub fn spare_for_read(&mut self) -> &mut [u8] {
        let start = self.end();
        let end = (start + CAPACITY).min(self.bytes.len());
        &mut self.bytes[start..end]
    }

    /// Takes in `count` bytes that were written to the spare room.
    #[inline]
    pub fn grow(&mut self, count: usize) {
        self.end += count as u32;
        debug_assert!(self.end() <= self.bytes.len());
    }

    /// Drops bytes from the front.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        self.start += count as u32;
        debug_assert!(self.start <= self.end);
    }

    /// Keeps the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end().min(self.start as usize + len) as u32;
    }

    /// Keeps that part only.
    #[inline]
    pub fn narrow(&mut self, range: Range<usize>) {
        debug_assert!(range.start <= range.end && range.end <= self.len());
        self.end = self.start + range.end as u32;
        self.start += range.start as u32;
    }

    /// Appends; the caller has checked [`room`](Self::room), beyond it this panics.
    #[inline]
    pub fn extend(&mut self, data: &[u8]) {
        let start = self.end();
        self.bytes[start..start + data.len()].copy_from_slice(data);
        self.end += data.len() as u32;
    }

    /// Puts bytes in front. Data moves only when the head-room does not suffice; the caller answers for the total
    /// fitting in.
    #[inline]
    pub fn prepend(&mut self, data: &[u8]) {
        self.open_front(data.len()).copy_from_slice(data);
    }

    /// Makes `count` bytes in front part of the data and returns them to be written.
    #[inline]
    pub fn open_front(&mut self, count: usize) -> &mut [u8] {
        if count > self.start as usize {
            let len = self.len();
            let shifted = self.bytes.len() - len;
            self.bytes.copy_within(self.start as usize..self.end as usize, shifted);
            self.start = shifted as u32;
            self.end = (shifted + len) as u32;
        }
        self.start -= count as u32;
        let start = self.start as usize;
        &mut self.bytes[start..start + count]
    }

    #[inline]
    fn end(&self) -> usize {
        self.end as usize
    }

    /// Whether `count` more bytes fit in front, moving data if need be.
    pub fn fits_in_front(&self, count: usize) -> bool {
        count + self.len() <= self.bytes.len()
    }
}

impl Deref for Buf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start as usize..self.end as usize]
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start as usize..self.end as usize]
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buf {
    #[inline]
    fn drop(&mut self) {
        if self.bytes.len() != TOTAL {
            if !self.bytes.is_empty() {
                memory::give_back(self.bytes.len());
            }
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        // While a thread ends its locals may be gone already; then the buffer is simply freed.
        let is_kept = FREE.try_with(|free| match free.try_borrow_mut() {
            Ok(mut free) if free.0.len() < FREE_MAX => {
                free.0.push(bytes);
                true
            }
            Ok(_) | Err(_) => false,
        });
        if is_kept != Ok(true) {
            memory::give_back(TOTAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Buf, FREE, FREE_MAX, HEAD_ROOM, SET_ASIDE, free_spares, free_unused};

    #[test]
    fn bytes_go_in_front_without_moving_the_rest() {
        let mut buf = Buf::copy_of(b"body");
        buf.prepend(b"head ");
        assert_eq!(&*buf, b"head body");
        buf.advance(5);
        buf.truncate(3);
        assert_eq!(&*buf, b"bod");
        buf.narrow(1..2);
        assert_eq!(&*buf, b"o");
    }

    #[test]
    fn free_buffers_that_nobody_uses_are_given_back() {
        let take = |count: usize| (0..count).map(|_| Buf::take()).collect::<Vec<Buf>>();
        let kept = || FREE.with_borrow(|free| free.0.len()) + SET_ASIDE.with_borrow(|aside| aside.0.len());
        free_spares();
        drop(take(10));
        assert_eq!(kept(), 10);
        free_unused();
        assert_eq!(kept(), 10, "they were used before the call");
        drop(take(3));
        drop(take(4));
        free_unused();
        assert_eq!(kept(), 4, "as many as were used at the same time");
        free_unused();
        assert_eq!(kept(), 0);
        drop(take(5));
        free_spares();
        assert_eq!(kept(), 0);
        drop(take(2 * FREE_MAX));
        free_unused();
        drop(take(2 * FREE_MAX));
        assert_eq!(kept(), FREE_MAX, "no more than that, wherever they are");
    }

    #[test]
    fn a_head_larger_than_the_head_room_moves_the_data() {
        let mut buf = Buf::copy_of(b"body");
        assert!(buf.fits_in_front(HEAD_ROOM + 1000));
        let big = vec![b'x'; HEAD_ROOM + 1000];
        buf.prepend(&big);
        assert_eq!(buf.len(), HEAD_ROOM + 1004);
        assert!(buf.ends_with(b"xbody"));
        assert!(!buf.fits_in_front(super::TOTAL));
    }

    #[test]
    fn what_waits_keeps_no_more_than_it_needs() {
        let mut buf = Buf::copy_of(b"what waits");
        buf.advance(5);
        buf.shrink();
        assert_eq!((&*buf, buf.held_bytes()), (&b"waits"[..], 5));
        buf.shrink();
        buf.advance(4);
        assert_eq!((&*buf, buf.room()), (&b"s"[..], 0));
        let again = buf.into_lease();
        assert_eq!((&*again, again.head_room()), (&b"s"[..], HEAD_ROOM));
        let mut nothing = Buf::empty();
        nothing.shrink();
        assert_eq!(nothing.held_bytes(), 0);
    }

    #[test]
    fn a_returned_buffer_is_empty_again() {
        drop(Buf::copy_of(b"secret"));
        let buf = Buf::take();
        assert!(buf.is_empty());
        assert_eq!(buf.head_room(), HEAD_ROOM);
        assert!(Buf::empty().is_empty());
    }
}
