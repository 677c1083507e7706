//! One stream as its request holds it: reads its body, writes its answer, learns that it was reset. A stream whose last
//! handle is dropped is given back; what was not ended is reset then.

use super::shared::{H2Shared, State};
use super::slot::{Outgoing, Slot, StreamFault};
use super::spare;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tidegate_transport::buffer::CAPACITY;
use tidegate_transport::{Buf, rt};
use tidegate_wire::h2::StreamKey;
use tidegate_wire::h2::connection::Connection;
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::head::{Fields, ResponseHead};

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
            Some(slot) => slot.end(),
            None => Some(StreamFault::Lost),
        }
    }

    /// The next piece of the body; `None` at its end.
    pub fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, StreamFault>> {
        let mut state = self.shared.state.borrow_mut();
        let State { connection, held, .. } = &mut *state;
        let has_come_whole = connection.has_come_whole(self.key);
        let Some(slot) = connection.user(self.key) else { return Poll::Ready(Err(StreamFault::Lost)) };
        let Some(arrived) = slot.arrived.as_mut().filter(|arrived| !arrived.body.is_empty()) else {
            return match slot.fault {
                Some(fault @ (StreamFault::Malformed(_) | StreamFault::BadBody(_))) => Poll::Ready(Err(fault)),
                _ if has_come_whole => Poll::Ready(Ok(None)),
                Some(fault) => Poll::Ready(Err(fault)),
                None => {
                    remember(&mut slot.reader, cx);
                    state.widen(self.key);
                    state.wake_driver();
                    Poll::Pending
                }
            };
        };
        let body = &mut arrived.body;
        let count = body.len().min(CAPACITY);
        let piece = Buf::copy_of(body.get(..count).unwrap_or_default());
        if count == body.len() {
            spare::give_back(std::mem::take(body));
        } else {
            body.drain(..count);
        }
        slot.settle(held);
        state.lend_output();
        state.connection.free(self.key, count);
        state.widen(self.key);
        state.wake_driver();
        Poll::Ready(Ok(Some(piece)))
    }

    /// Ready when a head of the answer is there, or when none will come.
    pub fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<(), StreamFault>> {
        let mut state = self.shared.state.borrow_mut();
        let Some(slot) = state.connection.user(self.key) else { return Poll::Ready(Err(StreamFault::Lost)) };
        match (&slot.head, slot.end()) {
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
        let State { connection, held, .. } = &mut *state;
        let Some(slot) = connection.user(self.key) else { return false };
        let Some(mut arrived) = slot.next_head() else { return false };
        slot.settle(held);
        std::mem::swap(&mut *arrived, head);
        spare::give_back_head(arrived);
        true
    }

    /// Whether all of the peer's message has come, read or not.
    pub fn has_come_whole(&self) -> bool {
        self.shared.state.borrow().connection.has_come_whole(self.key)
    }

    /// Whether the whole body was read, and its trailers were taken. What ends with trailers that broke a rule never
    /// is: whoever reads on learns so.
    pub fn is_read(&self) -> bool {
        let connection = &mut self.shared.state.borrow_mut().connection;
        let has_come_whole = connection.has_come_whole(self.key);
        connection.user(self.key).is_none_or(|slot| {
            let is_malformed = matches!(slot.fault, Some(StreamFault::Malformed(_) | StreamFault::BadBody(_)));
            has_come_whole && !is_malformed && slot.unread_bytes() == 0 && !slot.has_trailers()
        })
    }

    /// The trailers behind the body, once.
    pub fn take_trailers(&self) -> Option<Box<Fields>> {
        let mut state = self.shared.state.borrow_mut();
        let State { connection, held, .. } = &mut *state;
        let slot = connection.user(self.key)?;
        let trailers = slot.take_arrived_trailers()?;
        slot.settle(held);
        Some(trailers)
    }

    /// Sends the head of an answer.
    pub fn send_response(&self, head: &ResponseHead, ends_stream: bool) -> io::Result<()> {
        self.write(|connection, key| connection.send_response(key, head, ends_stream))
    }

    /// Sends a piece of a body, and waits until it is out; `idle` is how long the peer may take none of it.
    pub fn send_body(&self, piece: Buf, finished: bool, idle: Duration) -> UntilSent<'_> {
        match self.send(piece, finished) {
            Ok(()) => self.until_sent(idle),
            Err(error) => UntilSent { stream: self, idle, wait: Wait::Failed(error) },
        }
    }

    /// Waits until the piece that was sent last is out; `idle` is how long the peer may take none of it.
    pub fn until_sent(&self, idle: Duration) -> UntilSent<'_> {
        UntilSent { stream: self, idle, wait: Wait::Begins }
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
        match (slot.end(), &slot.outgoing) {
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
        outgoing.map_or(0, |outgoing| outgoing.len())
    }

    /// Ends a body that no piece was the last of. Trailers that are larger than the peer takes are not sent: the stream
    /// is reset, and whoever waits for something on it learns why.
    pub fn finish(&self, trailers: Option<&Fields>) -> io::Result<()> {
        if let Some(trailers) = trailers
            && !self.shared.state.borrow_mut().takes_trailers(self.key, trailers)
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
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
        if slot.end().is_some() {
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
        state.lend_output();
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
        if let Some(released) = state.connection.release(self.key) {
            state.widening_left += released.widened_bytes;
            released.leave(&mut state.held);
        }
        state.wake_driver();
    }
}

/// Until a piece of a body is out. A type of its own and not an `async fn`, because futures that await it are copied
/// with it inside.
#[must_use = "nobody waits before it is awaited"]
pub struct UntilSent<'h> {
    stream: &'h StreamHandle,
    idle: Duration,
    wait: Wait,
}

enum Wait {
    Begins,
    /// Boxed, as it is seldom.
    Stalls(Box<Stall>),
    /// Nothing could be sent.
    Failed(io::Error),
}

impl Future for UntilSent<'_> {
    type Output = io::Result<()>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let UntilSent { stream, idle, wait } = &mut *self;
        if let Wait::Failed(error) = wait {
            return Poll::Ready(Err(std::mem::replace(error, io::ErrorKind::BrokenPipe.into())));
        }
        if let Poll::Ready(sent) = stream.poll_sent(cx) {
            return Poll::Ready(sent);
        }
        loop {
            match wait {
                Wait::Stalls(stall) => return stall.poll(stream, *idle, cx),
                Wait::Begins | Wait::Failed(_) => *wait = Wait::Stalls(Box::new(Stall::new(stream, *idle))),
            }
        }
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
