//! The socket of a connection: what is read is handed to the protocol, and the frames that have gathered are sealed
//! together and leave in one send, so that the small messages of many streams share a record.

use super::shared::{H2Shared, OUTPUT_BYTES_MAX, Opened};
use super::spare;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tidegate_transport::buffer::CAPACITY;
use tidegate_transport::{Buf, Sock, Stream, rt};
use tidegate_wire::h2::fault::ConnectionEnd;

/// Reads and sends of one connection before those of others get a turn.
const TURNS_MAX: usize = 32;

/// Frames that gather while the socket takes nothing before nothing more is read. Above what bodies may fill lies room
/// for answers to what is read meanwhile: windows have to be heard of whatever waits to be sent (RFC 9113 section
/// 5.2.2).
const UNSENT_OUTPUT_BYTES_MAX: usize = 2 * OUTPUT_BYTES_MAX;

/// How long a client that ended its side is believed to be waiting while nothing is sent to it. Sending to one that has
/// left fails, so one that is being sent something is there, however slowly it reads: it has the time of any other
/// reader.
pub const HALF_CLOSE_GRACE: Duration = Duration::from_secs(2);

/// A client that has ended its side, and is looked at once it has been sent nothing for a while.
struct HalfClosed {
    grace: Pin<Box<dyn Future<Output = ()>>>,
    /// Bytes that were sent before, once everything was handed over that had gathered.
    sent_before: Option<u64>,
}

impl HalfClosed {
    fn begin() -> HalfClosed {
        HalfClosed { grace: Box::pin(rt::sleep(HALF_CLOSE_GRACE)), sent_before: None }
    }
}

/// A connection with its socket.
pub struct FrameIo<S> {
    pub shared: Rc<H2Shared>,
    stream: Rc<Stream<S>>,
    /// Frames that are being sent, from `at` on.
    frames: Vec<u8>,
    at: usize,
    sealed: Option<Buf>,
    /// Once nothing more will come.
    half_closed: Option<HalfClosed>,
    /// Why nothing could be read any more.
    read_fault: Option<io::Error>,
}

impl<S: Sock> FrameIo<S> {
    pub fn new(shared: Rc<H2Shared>, stream: Rc<Stream<S>>) -> FrameIo<S> {
        FrameIo { shared, stream, frames: Vec::new(), at: 0, sealed: None, half_closed: None, read_fault: None }
    }

    /// Reads, writes and sends until there is nothing to do. Ready when the connection has ended: why, where it was not
    /// the peer that ended it.
    pub fn poll(&mut self, cx: &mut Context<'_>, owner: &mut impl FrameOwner) -> Poll<Option<ConnectionEnd>> {
        self.shared.run();
        let polled = self.poll_turns(cx, owner);
        self.shared.wait(cx.waker());
        polled
    }

    fn poll_turns(&mut self, cx: &mut Context<'_>, owner: &mut impl FrameOwner) -> Poll<Option<ConnectionEnd>> {
        for _ in 0..TURNS_MAX {
            owner.poll_requests(cx);
            let mut has_woken = self.shared.write_bodies();
            // What the peer sends next comes first: answers to all of it leave together.
            let may_still_come = self.half_closed.is_none();
            let may_read = may_still_come && self.shared.output_bytes() < OUTPUT_BYTES_MAX;
            if may_read && let Poll::Ready(read) = self.stream.poll_read(cx) {
                match self.take(read, owner) {
                    Ok(()) => continue,
                    Err(end) => return Poll::Ready(end),
                }
            }
            match self.poll_send(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Pending if may_read || !may_still_come || self.shared.output_bytes() >= UNSENT_OUTPUT_BYTES_MAX => {
                    return self.poll_deadlines(cx, owner);
                }
                // A peer may read no more before we have read what it sends: two that did so would wait for each other.
                Poll::Pending => match self.stream.poll_read(cx) {
                    Poll::Ready(read) => match self.take(read, owner) {
                        Ok(()) => continue,
                        Err(end) => return Poll::Ready(end),
                    },
                    Poll::Pending => return self.poll_deadlines(cx, owner),
                },
            }
            has_woken |= self.shared.write_bodies();
            if self.shared.is_done() {
                return Poll::Ready(None);
            }
            // Whoever waits must have asked for what the peer sends: its windows may be all that is waited for.
            if (may_read || !may_still_come) && !has_woken && self.shared.output_bytes() == 0 {
                let polled = self.poll_deadlines(cx, owner);
                // A deadline may have left something to say.
                if polled.is_ready() || self.shared.output_bytes() == 0 {
                    return polled;
                }
            }
        }
        cx.waker().wake_by_ref();
        self.poll_deadlines(cx, owner)
    }

    fn poll_deadlines(&mut self, cx: &mut Context<'_>, owner: &mut impl FrameOwner) -> Poll<Option<ConnectionEnd>> {
        if let Poll::Ready(end) = owner.poll_deadlines(cx) {
            return Poll::Ready(end);
        }
        let sent = self.stream.sent_bytes();
        while let Some(half_closed) = &mut self.half_closed {
            if half_closed.grace.as_mut().poll(cx).is_pending() {
                if self.sealed.is_none() {
                    half_closed.sent_before.get_or_insert(sent);
                }
                return Poll::Pending;
            }
            let is_sending = self.sealed.is_some() || self.stream.sock.unsent_bytes() > 0;
            if half_closed.sent_before == Some(sent) && !is_sending {
                return Poll::Ready(None);
            }
            self.half_closed = Some(HalfClosed::begin());
        }
        Poll::Pending
    }

    /// Takes what was read; an error is the end of the connection. So is the end of the stream, unless it is that of a
    /// client which has asked for something that it may be waiting for.
    fn take(&mut self, read: io::Result<Buf>, owner: &mut impl FrameOwner) -> Result<(), Option<ConnectionEnd>> {
        let data = match read {
            Ok(data) => data,
            Err(error) => {
                self.read_fault = Some(error);
                return Err(None);
            }
        };
        if data.is_empty() {
            if !self.shared.end_input() {
                return Err(None);
            }
            self.half_closed = Some(HalfClosed::begin());
            return Ok(());
        }
        let (mut input, now) = (&data[..], rt::now());
        while let Some(opened) = self.shared.receive(&mut input, now).map_err(Some)? {
            owner.begin(opened, now).map_err(Some)?;
        }
        Ok(())
    }

    /// Why nothing could be read any more, once the connection has ended for it.
    pub fn take_read_fault(&mut self) -> Option<io::Error> {
        self.read_fault.take()
    }

    /// Sends all that has gathered. Ready when the socket has taken it.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.sealed.is_some() {
                ready!(self.stream.sock.poll_send(cx, &mut self.sealed))?;
            }
            if self.at == self.frames.len() {
                spare::give_back(std::mem::take(&mut self.frames));
                self.at = 0;
                let Some(frames) = self.shared.take_output() else { return Poll::Ready(Ok(())) };
                self.frames = frames;
            }
            let end = (self.at + CAPACITY).min(self.frames.len());
            self.sealed = Some(self.stream.seal_copy(self.frames.get(self.at..end).unwrap_or_default())?);
            self.at = end;
        }
    }
}

/// Whoever has a connection: what is done between its reads and sends.
pub trait FrameOwner {
    /// Lives the requests that have something to do.
    fn poll_requests(&mut self, cx: &mut Context<'_>);

    /// Looks at the time, when there is nothing else to do. Ready ends the connection.
    fn poll_deadlines(&mut self, cx: &mut Context<'_>) -> Poll<Option<ConnectionEnd>>;

    /// Begins a stream that the peer has opened.
    fn begin(&mut self, opened: Opened, now: Instant) -> Result<(), ConnectionEnd>;
}

/// The owner of a connection to a server, which opens nothing and whose requests are lived elsewhere.
pub struct Nobody;

impl FrameOwner for Nobody {
    fn poll_requests(&mut self, _: &mut Context<'_>) {}

    fn poll_deadlines(&mut self, _: &mut Context<'_>) -> Poll<Option<ConnectionEnd>> {
        Poll::Pending
    }

    fn begin(&mut self, _: Opened, _: Instant) -> Result<(), ConnectionEnd> {
        Ok(())
    }
}
