//! The client's side of an answer, whatever the HTTP version: one interface, with a file for each version beneath it.

mod h1;
mod h2;

pub use self::h1::H1Responder;
pub use self::h2::H2Responder;

use crate::client_fault::ClientFault;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_message::h2::{StreamHandle, UntilSent};
use tidegate_transport::stream::Write;
use tidegate_transport::{Buf, Sock};
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::head::{Fields, ResponseHead};

/// How long a client may take none of what we send. A bound on stalls, not on downloads.
pub const CLIENT_WRITE_IDLE: Duration = Duration::from_secs(60);

/// How long a client may take none of an answer that says why there is no other: one that takes nothing must not have
/// us keep its request for that.
pub const REFUSAL_WRITE_IDLE: Duration = Duration::from_secs(5);

/// How long the body of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// The message ends with its head, whatever its fields say (HEAD, 204, 304).
    None,
    /// As its `Content-Length` says.
    Known,
    Unknown,
}

/// The client's side of an answer.
pub enum Responder<'s, S> {
    H1(H1Responder<'s, S>),
    H2(H2Responder),
    /// No client waits for it: what comes is for the cache.
    Nobody,
}

impl<'s, S: Sock> Responder<'s, S> {
    /// Passes an interim answer (1xx) on.
    pub async fn send_interim(&mut self, head: &ResponseHead) -> io::Result<()> {
        match self {
            Responder::H1(responder) => Box::pin(responder.send_interim(head)).await,
            Responder::H2(responder) => responder.send_interim(head),
            Responder::Nobody => Ok(()),
        }
    }

    /// Sends the head, with the first piece of the body if there is one, in one piece. `finished`: the message ends
    /// here.
    #[inline]
    pub fn send_head(
        &mut self,
        head: &mut ResponseHead,
        length: BodyLength,
        first: Option<Buf>,
        finished: bool,
    ) -> Sending<'_, 's, S> {
        match self {
            Responder::H1(responder) => Sending::of_h1(responder.begin(head, length, first, finished)),
            Responder::H2(responder) => Sending::of_h2(responder.send_head(head, first, finished)),
            Responder::Nobody => Sending::Over(None),
        }
    }

    /// Sends the head behind which the connection, or the stream, is a tunnel.
    pub async fn send_switch(&mut self, head: &ResponseHead) -> io::Result<()> {
        match self {
            Responder::H1(responder) => responder.send_switch(head).await,
            Responder::H2(responder) => responder.send_switch(head),
            Responder::Nobody => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The stream of the answer, where the connection has others as well.
    pub fn shared_stream(&self) -> Option<&StreamHandle> {
        match self {
            Responder::H2(responder) => Some(responder.stream()),
            Responder::H1(_) | Responder::Nobody => None,
        }
    }

    /// Sends the head that was begun by [`H1Responder::begin_file`] without a file.
    pub async fn send_head_alone(&mut self, head: Buf) -> io::Result<()> {
        match self {
            Responder::H1(responder) => {
                let mut pending = Some(head);
                poll_fn(|cx| responder.stream.sock.poll_send(cx, &mut pending)).await
            }
            Responder::H2(_) | Responder::Nobody => Ok(()),
        }
    }

    /// Sends a piece of the body. `finished`: it is the last, and no trailers follow.
    #[inline]
    pub fn send_body(&mut self, piece: Buf, finished: bool) -> Sending<'_, 's, S> {
        match self {
            Responder::H1(responder) if responder.bodiless => {
                Sending::Over(Some(io::Error::new(io::ErrorKind::InvalidData, "a body that may not be")))
            }
            Responder::H1(responder) => Sending::H1(responder.send_body(piece, finished)),
            Responder::H2(responder) => Sending::H2(responder.send_body(piece, finished)),
            Responder::Nobody => Sending::Over(None),
        }
    }

    /// How long the client may take none of what is sent from here on. Of a connection that goes on it is to be set
    /// back.
    pub fn set_write_idle(&mut self, idle: Duration) {
        match self {
            Responder::H1(responder) => responder.stream.sock.set_write_idle(idle),
            Responder::H2(responder) => responder.set_write_idle(idle),
            Responder::Nobody => {}
        }
    }

    /// Ends a body that no piece was the last of.
    pub async fn finish(&mut self, trailers: Option<&Fields>) -> io::Result<()> {
        match self {
            Responder::H1(responder) if responder.chunked => Box::pin(responder.finish(trailers)).await,
            Responder::H1(_) | Responder::Nobody => Ok(()),
            Responder::H2(responder) => responder.finish(trailers),
        }
    }

    /// The answer cannot be ended properly: the client must see that it was cut, and why where its version of HTTP has
    /// codes.
    pub fn cut(&mut self, code: ErrorCode) {
        match self {
            Responder::H1(responder) => responder.keep_alive = false,
            Responder::H2(responder) => responder.reset(code),
            Responder::Nobody => {}
        }
    }

    /// The connection ends with this answer.
    pub fn close_after(&mut self) {
        match self {
            Responder::H1(responder) => responder.keep_alive = false,
            Responder::H2(_) | Responder::Nobody => {}
        }
    }

    /// Ready when nobody waits for the answer any more.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Responder::H1(responder) => responder.poll_gone(cx),
            Responder::H2(responder) => responder.poll_gone(cx),
            Responder::Nobody => Poll::Pending,
        }
    }

    /// Where the bytes of a body of known length go out as they are, with no framing and no encryption around them, so
    /// that the kernel may take them from a file.
    pub fn bare(&mut self) -> Option<&mut H1Responder<'s, S>> {
        match self {
            Responder::H1(responder) if !responder.stream.is_tls() => Some(responder),
            Responder::H1(_) | Responder::H2(_) | Responder::Nobody => None,
        }
    }

    pub fn has_started(&self) -> bool {
        match self {
            Responder::H1(responder) => responder.started,
            Responder::H2(responder) => responder.started,
            Responder::Nobody => false,
        }
    }

    /// What went to the client after the head by another way: a tunnel's bytes.
    pub fn add_bytes_sent(&mut self, bytes: u64) {
        match self {
            Responder::H1(responder) => responder.bytes_sent += bytes,
            Responder::H2(responder) => responder.bytes_sent += bytes,
            Responder::Nobody => {}
        }
    }

    /// Bytes of the answer's body sent so far, without framing.
    pub fn bytes_sent(&self) -> u64 {
        match self {
            Responder::H1(responder) => responder.bytes_sent,
            Responder::H2(responder) => responder.bytes_sent,
            Responder::Nobody => 0,
        }
    }
}

/// What goes to the client on its way. A type of its own and not an `async fn`, because futures that await it are
/// copied with it inside.
#[must_use = "nothing is sent before it is awaited"]
pub enum Sending<'r, 's, S> {
    H1(Write<'s, S>),
    H2(UntilSent<'r>),
    /// There is nothing to wait for.
    Over(Option<io::Error>),
}

impl<'r, 's, S> Sending<'r, 's, S> {
    fn of_h1(begun: io::Result<Write<'s, S>>) -> Self {
        begun.map_or_else(|error| Sending::Over(Some(error)), Sending::H1)
    }

    fn of_h2(begun: io::Result<Option<UntilSent<'r>>>) -> Self {
        match begun {
            Ok(Some(waiting)) => Sending::H2(waiting),
            Ok(None) => Sending::Over(None),
            Err(error) => Sending::Over(Some(error)),
        }
    }
}

impl<S: Sock> Future for Sending<'_, '_, S> {
    type Output = io::Result<()>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Sending::H1(writing) => Pin::new(writing).poll(cx),
            Sending::H2(waiting) => Pin::new(waiting).poll(cx),
            Sending::Over(error) => Poll::Ready(error.take().map_or(Ok(()), Err)),
        }
    }
}

/// Waits for something of the upstream's, unless the client leaves meanwhile; then nobody needs it. While the request's
/// body is being read its reader notices instead. The future is pinned by the caller, so that it is not copied into
/// this one, which is no `async fn` because that would have room for what it is given twice.
pub fn unless_gone<'a, T, S: Sock>(
    responder: &'a mut Responder<'_, S>,
    request_done: &'a Cell<bool>,
    mut future: Pin<&'a mut impl Future<Output = T>>,
) -> impl Future<Output = Result<T, ClientFault>> {
    poll_fn(move |cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if request_done.get() && responder.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(ClientFault::Gone));
        }
        Poll::Pending
    })
}
