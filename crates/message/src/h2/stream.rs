//! One stream as its request holds it: reads its body, writes its answer, learns that it was reset. A stream whose last
//! handle is dropped is given back; what was not ended is reset then.

use super::shared::H2Shared;
use super::spare;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tidegate_transport::buffer::CAPACITY;
use tidegate_transport::{Buf, rt};
use tidegate_wire::HeadError;
use tidegate_wire::h2::StreamKey;
use tidegate_wire::h2::connection::Connection;
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::{ErrorCode, FRAME_PAYLOAD_MAX};
use tidegate_wire::head::{Fields, ResponseHead};

/// Why nothing more comes on a stream, or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFault {
    Reset {
        code: ErrorCode,
        by_peer: bool,
    },
    /// A head of the peer's, or its trailers, broke a rule.
    Malformed(HeadError),
    /// The server has left and says that it has not looked at the request.
    Unprocessed,
    /// The connection ended under it.
    Lost,
}

/// Interim heads that wait behind one that nobody has read.
const UNREAD_HEADS_MAX: usize = 16;

/// What a connection keeps with each stream.
#[derive(Default)]
pub struct Slot {
    /// What came of the body and was not read; no more than the stream's window.
    incoming: Vec<u8>,
    trailers: Option<Box<Fields>>,
    /// Heads of the answer that nobody has read: interim ones, and the final one. Most answers have one.
    head: Option<Box<ResponseHead>>,
    #[expect(clippy::vec_box, reason = "they are lent as boxes")]
    more_heads: Vec<Box<ResponseHead>>,
    /// The answer to a HEAD.
    pub(super) is_bodiless: bool,
    fault: Option<StreamFault>,
    pub(super) outgoing: Option<Outgoing>,
    /// Whoever waits for a part of the body.
    reader: Option<Waker>,
    /// Whoever waits until what it wrote is out, or until the stream is reset.
    writer: Option<Waker>,
    handles: u32,
    /// What was added to its window.
    pub(super) widened_bytes: u32,
}

impl Slot {
    /// A stream of ours, whose answer has no body if its request is a HEAD.
    pub(super) fn of_request(is_bodiless: bool) -> Slot {
        let mut slot = Slot::default();
        slot.is_bodiless = is_bodiless;
        slot
    }

    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        if self.incoming.capacity() == 0 && !bytes.is_empty() {
            self.incoming = spare::take();
        }
        self.incoming.extend_from_slice(bytes);
        self.wake_reader();
    }

    pub(super) fn take_head(&mut self, head: Result<Box<ResponseHead>, HeadError>) {
        match head {
            Ok(head) if self.head.is_none() => self.head = Some(head),
            Ok(head) if self.more_heads.len() < UNREAD_HEADS_MAX => self.more_heads.push(head),
            Ok(_) => self.fail(StreamFault::Malformed(HeadError::TooManyFields)),
            Err(error) => self.fail(StreamFault::Malformed(error)),
        }
        self.wake_reader();
    }

    pub(super) fn take_trailers(&mut self, trailers: Result<Box<Fields>, HeadError>) {
        match trailers {
            Ok(trailers) => self.trailers = Some(trailers),
            Err(error) => self.fail(StreamFault::Malformed(error)),
        }
        self.wake_reader();
    }

    pub(super) fn fail(&mut self, fault: StreamFault) {
        self.fault.get_or_insert(fault);
        self.outgoing = None;
        self.wake_reader();
        self.wake_writer();
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    pub(super) fn wake_writer(&mut self) -> bool {
        let waker = self.writer.take();
        let is_waiting = waker.is_some();
        if let Some(waker) = waker {
            waker.wake();
        }
        is_waiting
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        spare::give_back(std::mem::take(&mut self.incoming));
        self.head.take().into_iter().chain(self.more_heads.drain(..)).for_each(spare::give_back_head);
    }
}

/// A piece of a body that has not gone out.
pub struct Outgoing {
    piece: Piece,
    /// The stream ends with it.
    finished: bool,
}

enum Piece {
    Leased(Buf),
    /// A copy of its size: what waits for the peer's window must not pin a buffer many times its size.
    Kept {
        bytes: Vec<u8>,
        at: usize,
    },
}

impl Outgoing {
    pub(super) fn new(piece: Buf, finished: bool) -> Outgoing {
        Outgoing { piece: Piece::Leased(piece), finished }
    }

    fn bytes(&self) -> &[u8] {
        match &self.piece {
            Piece::Leased(piece) => piece,
            Piece::Kept { bytes, at } => bytes.get(*at..).unwrap_or_default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes().len()
    }

    pub(super) fn keep(&mut self) {
        if let Piece::Leased(piece) = &self.piece {
            self.piece = Piece::Kept { bytes: piece.to_vec(), at: 0 };
        }
    }

    /// Writes a frame of at most that many bytes; whether nothing is left.
    pub(super) fn send(&mut self, connection: &mut Connection<Slot>, key: StreamKey, bytes_max: usize) -> bool {
        let bytes = self.bytes();
        let count = bytes.len().min(bytes_max).min(FRAME_PAYLOAD_MAX);
        let is_whole = count == bytes.len();
        let (frame, _) = bytes.split_at(count);
        connection.send_data(key, frame, is_whole && self.finished, !is_whole);
        match &mut self.piece {
            Piece::Leased(piece) => piece.advance(count),
            Piece::Kept { at, .. } => *at += count,
        }
        is_whole
    }
}

/// A stream, held by its request. Clones are of the same stream.
pub struct StreamHandle {
    shared: Rc<H2Shared>,
    key: StreamKey,
}

impl StreamHandle {
    pub(super) fn new(shared: &Rc<H2Shared>, key: StreamKey) -> StreamHandle {
        if let Some(slot) = shared.state.borrow_mut().connection.user(key) {
            slot.handles += 1;
        }
        StreamHandle { shared: shared.clone(), key }
    }

    /// Why the stream has ended before its time, if it has.
    pub fn fault(&self) -> Option<StreamFault> {
        match self.shared.state.borrow_mut().connection.user(self.key) {
            Some(slot) => slot.fault,
            None => Some(StreamFault::Lost),
        }
    }

    /// The next piece of the body; `None` at its end.
    pub fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, StreamFault>> {
        let mut state = self.shared.state.borrow_mut();
        let has_come_whole = state.connection.has_come_whole(self.key);
        let Some(slot) = state.connection.user(self.key) else { return Poll::Ready(Err(StreamFault::Lost)) };
        if slot.incoming.is_empty() {
            return match slot.fault {
                Some(fault @ StreamFault::Malformed(_)) => Poll::Ready(Err(fault)),
                _ if has_come_whole => Poll::Ready(Ok(None)),
                Some(fault @ (StreamFault::Reset { .. } | StreamFault::Unprocessed | StreamFault::Lost)) => {
                    Poll::Ready(Err(fault))
                }
                None => {
                    remember(&mut slot.reader, cx);
                    state.widen(self.key);
                    state.wake_driver();
                    Poll::Pending
                }
            };
        }
        let count = slot.incoming.len().min(CAPACITY);
        let piece = Buf::copy_of(slot.incoming.get(..count).unwrap_or_default());
        if count == slot.incoming.len() {
            spare::give_back(std::mem::take(&mut slot.incoming));
        } else {
            slot.incoming.drain(..count);
        }
        state.connection.free(self.key, count);
        state.widen(self.key);
        state.wake_driver();
        Poll::Ready(Ok(Some(piece)))
    }

    /// Ready when a head of the answer is there, or when none will come.
    pub fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<(), StreamFault>> {
        let mut state = self.shared.state.borrow_mut();
        let Some(slot) = state.connection.user(self.key) else { return Poll::Ready(Err(StreamFault::Lost)) };
        match (&slot.head, slot.fault) {
            (Some(_), _) => Poll::Ready(Ok(())),
            (None, Some(fault)) => Poll::Ready(Err(fault)),
            (None, None) => {
                remember(&mut slot.reader, cx);
                Poll::Pending
            }
        }
    }

    /// Moves the next head of the answer into `head`, where one is there.
    pub fn take_head(&self, head: &mut ResponseHead) -> bool {
        let mut state = self.shared.state.borrow_mut();
        let Some(slot) = state.connection.user(self.key) else { return false };
        let Some(mut arrived) = slot.head.take() else { return false };
        if !slot.more_heads.is_empty() {
            slot.head = Some(slot.more_heads.remove(0));
        }
        std::mem::swap(&mut *arrived, head);
        spare::give_back_head(arrived);
        true
    }

    /// Whether the whole body was read, and its trailers were taken. What ends with trailers that broke a rule never
    /// is: whoever reads on learns so.
    pub fn is_read(&self) -> bool {
        let connection = &mut self.shared.state.borrow_mut().connection;
        let has_come_whole = connection.has_come_whole(self.key);
        connection.user(self.key).is_none_or(|slot| {
            let is_malformed = matches!(slot.fault, Some(StreamFault::Malformed(_)));
            has_come_whole && !is_malformed && slot.incoming.is_empty() && slot.trailers.is_none()
        })
    }

    /// The trailers behind the body, once.
    pub fn take_trailers(&self) -> Option<Box<Fields>> {
        self.shared.state.borrow_mut().connection.user(self.key)?.trailers.take()
    }

    /// Sends the head of an answer.
    pub fn send_response(&self, head: &ResponseHead, ends_stream: bool) -> io::Result<()> {
        self.write(|connection, key| connection.send_response(key, head, ends_stream))
    }

    /// Sends a piece of a body, and waits until it is out; `idle` is how long the peer may take none of it.
    pub async fn send_body(&self, piece: Buf, finished: bool, idle: Duration) -> io::Result<()> {
        self.send(piece, finished)?;
        self.until_sent(idle).await
    }

    /// Waits until the piece that was sent last is out; `idle` is how long the peer may take none of it.
    pub async fn until_sent(&self, idle: Duration) -> io::Result<()> {
        let mut stall: Option<Stall> = None;
        poll_fn(|cx| {
            if let Poll::Ready(sent) = self.poll_sent(cx) {
                return Poll::Ready(sent);
            }
            stall.get_or_insert_with(|| Stall::new(self, idle)).poll(self, idle, cx)
        })
        .await
    }

    /// Sends a piece of a body, or puts it where its turn comes: see [`poll_sent`](Self::poll_sent).
    pub fn send(&self, piece: Buf, finished: bool) -> io::Result<()> {
        let mut state = self.shared.state.borrow_mut();
        if !state.connection.is_sending(self.key) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.send(self.key, Outgoing::new(piece, finished));
        Ok(())
    }

    /// Ready when the piece that was sent last is out.
    fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.state.borrow_mut();
        let Some(slot) = state.connection.user(self.key) else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        match (&slot.fault, &slot.outgoing) {
            (Some(_), _) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            (None, None) => Poll::Ready(Ok(())),
            (None, Some(_)) => {
                remember(&mut slot.writer, cx);
                Poll::Pending
            }
        }
    }

    /// Bytes of the last piece that are not out.
    fn unsent_bytes(&self) -> usize {
        let mut state = self.shared.state.borrow_mut();
        let outgoing = state.connection.user(self.key).and_then(|slot| slot.outgoing.as_ref());
        outgoing.map_or(0, Outgoing::len)
    }

    /// Ends a body that no piece was the last of.
    pub fn finish(&self, trailers: Option<&Fields>) -> io::Result<()> {
        self.write(|connection, key| match trailers {
            Some(trailers) => connection.send_trailers(key, trailers),
            None => connection.send_data(key, &[], true, false),
        })
    }

    /// Ends the stream at once.
    pub fn reset(&self, code: ErrorCode) {
        // A stream that is over already needs no end.
        let _ = self.write(|connection, key| connection.reset(key, code));
    }

    /// Says that the message on this stream was malformed, behind its answer if there is one.
    pub fn reset_for_fault(&self, now: Instant) -> Result<(), ConnectionEnd> {
        let mut state = self.shared.state.borrow_mut();
        let outcome = state.connection.reset_for_fault(self.key, now);
        state.wake_driver();
        outcome
    }

    /// Ready when the peer has given up the stream.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.state.borrow_mut();
        let Some(slot) = state.connection.user(self.key) else { return Poll::Ready(()) };
        if slot.fault.is_some() {
            return Poll::Ready(());
        }
        remember(&mut slot.writer, cx);
        Poll::Pending
    }

    fn write(&self, write: impl FnOnce(&mut Connection<Slot>, StreamKey)) -> io::Result<()> {
        let mut state = self.shared.state.borrow_mut();
        if !state.connection.is_sending(self.key) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        write(&mut state.connection, self.key);
        state.wake_driver();
        Ok(())
    }
}

impl Clone for StreamHandle {
    fn clone(&self) -> StreamHandle {
        StreamHandle::new(&self.shared, self.key)
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let mut state = self.shared.state.borrow_mut();
        let Some(slot) = state.connection.user(self.key) else { return };
        slot.handles -= 1;
        if slot.handles > 0 {
            return;
        }
        let released = state.connection.release(self.key);
        state.widening_left += released.as_ref().map_or(0, |slot| slot.widened_bytes);
        state.wake_driver();
    }
}

/// A peer that takes nothing of what is sent to it.
struct Stall {
    clock: Pin<Box<dyn Future<Output = ()>>>,
    unsent_bytes: usize,
}

impl Stall {
    fn new(stream: &StreamHandle, idle: Duration) -> Stall {
        Stall { clock: Box::pin(rt::sleep(idle)), unsent_bytes: stream.unsent_bytes() }
    }

    /// Ready when nothing was taken for as long as a peer may take nothing.
    fn poll(&mut self, stream: &StreamHandle, idle: Duration, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.clock.as_mut().poll(cx));
            if stream.unsent_bytes() == self.unsent_bytes {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            *self = Stall::new(stream, idle);
        }
    }
}

/// Keeps the waker of whoever waits. Another that waits in its place is woken, and asks again.
fn remember(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => {}
        _ => {
            if let Some(other) = place.replace(cx.waker().clone()) {
                other.wake();
            }
        }
    }
}
