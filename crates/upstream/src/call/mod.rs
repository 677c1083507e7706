//! One request on one connection to a server, whatever is spoken there: send its head, its body and its end, read the
//! head of the answer and its body, give the connection back. What is sent, and what becomes of the answer, is the
//! caller's; how a server is chosen is in `choose`.

mod fastcgi;
mod h1;
mod h2;
#[cfg(test)]
mod tests;

pub use self::fastcgi::{FastCgiBody, FastCgiCall, ScriptRequest};
pub use self::h1::H1Call;
pub use self::h2::H2Call;

use crate::connect::Connection;
use crate::fault::{Progress, UpstreamFault, Was};
use crate::pool::{Server, WorkerPool};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tidegate_message::body::{H1BodyReader, H2BodyReader};
use tidegate_message::h2::StreamHandle;
use tidegate_model::Protocol;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::stream::Write;
use tidegate_transport::{Buf, ReadLimit, Sock, Stream};
use tidegate_wire::head::{Fields, Method, RequestHead, ResponseHead};
use tidegate_wire::{BodyError, BodyFraming, HeadLimits};

/// Interim answers (1xx) that one request may have.
const INTERIM_MAX: u8 = 16;

/// One request on one connection.
pub enum Call<S: Sock> {
    H1(H1Call<S>),
    /// The connection has requests of others as well. Boxed: HTTP/1 futures are copied often, and must not carry its
    /// size.
    H2(Box<H2Call>),
    /// Boxed for the same reason.
    FastCgi(Box<FastCgiCall<S>>),
}

/// What goes out first: the head, and what is there of the body.
pub struct Start<'r> {
    pub head: &'r RequestHead,
    /// The first piece of the body.
    pub first: Option<Buf>,
    /// The head says that the body comes in chunks.
    pub is_chunked: bool,
    /// The answer may have trailers.
    pub wants_trailers: bool,
    /// What the connection, or its stream, is to become.
    pub protocol: Option<&'r [u8]>,
    /// What goes to a script in place of the head.
    pub script: Option<&'r ScriptRequest>,
    /// Nothing follows: no more of the body and no trailers.
    pub is_whole: bool,
}

/// Why a request could not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendFault {
    Upstream(UpstreamFault),
    /// What the client sent has no form in the protocol of the connection.
    Unsendable(BodyError),
}

impl From<UpstreamFault> for SendFault {
    fn from(fault: UpstreamFault) -> SendFault {
        SendFault::Upstream(fault)
    }
}

/// Whether the head that was read is the one of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// 1xx: another head follows.
    Interim,
    Final,
}

/// What the final head says of what follows it.
pub struct Answer<'c, S> {
    pub framing: BodyFraming,
    pub body: AnswerBody<'c, S>,
    pub keeping: Keeping,
    /// The connection, or its stream, is a tunnel from here on, and this came behind the head.
    pub switched: Option<Buf>,
}

/// The body of an answer, to be read.
pub enum AnswerBody<'c, S> {
    H1(H1BodyReader<'c, S>),
    H2(H2BodyReader),
    FastCgi(FastCgiBody<'c, S>),
    /// There is none. What a server sends behind the head all the same is nobody's.
    Empty,
}

/// Whether the connection may have another request after this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    pub is_reusable: bool,
    /// How long the server says that it keeps an idle connection.
    pub announced_seconds: Option<u32>,
}

impl Keeping {
    pub fn only_if(self, is_so: bool) -> Keeping {
        Keeping { is_reusable: self.is_reusable && is_so, ..self }
    }
}

impl<S: Sock> Call<S> {
    /// A request on a connection to the server at that position of the pool.
    #[inline]
    pub fn new(pool: &Rc<WorkerPool<S>>, position: usize, connection: Connection<S>) -> Call<S> {
        match connection {
            Connection::H1(connection) => Call::H1(H1Call::new(pool, connection)),
            Connection::H2(lease) => {
                let is_tls = pool.compiled.servers[position].tls_name.is_some();
                Call::H2(Box::new(H2Call::new(lease, is_tls)))
            }
            Connection::FastCgi(connection) => Call::FastCgi(Box::new(FastCgiCall::new(pool, position, connection))),
        }
    }

    /// What is spoken on the connection.
    pub fn protocol(&self) -> Protocol {
        match self {
            Call::H1(_) => Protocol::Http1,
            Call::H2(call) => call.protocol(),
            Call::FastCgi(_) => Protocol::FastCgi,
        }
    }

    /// What the connection was before this request.
    pub fn was(&self) -> Was {
        match self {
            Call::H1(call) => call.connection.was(),
            Call::H2(call) => call.was(),
            Call::FastCgi(call) => call.connection.was(),
        }
    }

    /// The connection, where it belongs to this request alone.
    pub fn stream(&self) -> Option<&Stream<S>> {
        match self {
            Call::H1(call) => Some(&call.connection.stream),
            Call::H2(_) => None,
            Call::FastCgi(call) => Some(&call.connection.stream),
        }
    }

    /// The stream, where the connection has others as well.
    pub fn shared_stream(&self) -> Option<&StreamHandle> {
        match self {
            Call::H2(call) => call.shared_stream(),
            Call::H1(_) | Call::FastCgi(_) => None,
        }
    }

    /// Sends the head with the first piece of the body, in one piece where the protocol has one. `idle` is how long the
    /// server may take none of it.
    #[inline]
    pub fn send_head<'c>(&'c self, start: Start<'c>, idle: Duration) -> SendingHead<'c, S> {
        match self {
            Call::H1(call) => call.send_head(start, idle),
            Call::H2(call) => call.send_head(start, idle),
            Call::FastCgi(call) => SendingHead::Boxed(Box::pin(call.send_head(start, idle))),
        }
    }

    /// Sends a piece of the body. `is_last`: no more of it and no trailers follow.
    pub async fn send_body(&self, piece: Buf, is_last: bool) -> io::Result<()> {
        match self {
            Call::H1(call) => call.send_body(piece, is_last).await,
            Call::H2(call) => call.send_body(piece, is_last).await,
            Call::FastCgi(call) => Box::pin(call.send_body(piece, is_last)).await,
        }
    }

    /// Ends a body that no piece was the last of.
    pub async fn finish(&self, trailers: Option<&Fields>) -> io::Result<()> {
        match self {
            Call::H1(call) => call.finish(trailers).await,
            Call::H2(call) => Box::pin(call.finish(trailers)).await,
            Call::FastCgi(call) => Box::pin(call.finish()).await,
        }
    }

    /// How long the server may be silent from now on: until a moment at which its answer must have begun, or, as long
    /// as the request is on its way, for a time.
    pub fn set_read_limit(&self, limit: ReadLimit) {
        match self {
            Call::H1(call) => call.connection.stream.sock.set_read_limit(limit),
            Call::H2(call) => call.set_read_limit(limit),
            Call::FastCgi(call) => call.connection.stream.sock.set_read_limit(limit),
        }
    }

    /// Waits for the first bytes of an answer, which [`take_head`](Self::take_head) finds then.
    #[inline]
    pub fn poll_begun(&self, cx: &mut Context<'_>) -> Poll<Result<(), UpstreamFault>> {
        match self {
            Call::H1(call) => call.poll_begun(cx),
            Call::H2(call) => call.poll_begun(cx),
            Call::FastCgi(call) => call.poll_begun(cx),
        }
    }

    /// Whether part of a head has come that cannot be read yet, on HTTP/2 perhaps of another's answer.
    pub fn is_head_coming(&self) -> bool {
        match self {
            Call::H2(call) => call.is_head_coming(),
            // Of these the first byte ends the waiting.
            Call::H1(_) | Call::FastCgi(_) => false,
        }
    }

    /// The next head, once something of it has come: that of an interim answer, or the final one. `None`: it has not
    /// come whole, and [`read_rest_of_head`](Self::read_rest_of_head) waits for what is left.
    #[inline]
    pub fn take_head(&self, limits: &HeadLimits, head: &mut ResponseHead) -> Result<Option<HeadKind>, UpstreamFault> {
        match self {
            Call::H1(call) => call.take_head(limits, head),
            Call::H2(call) => call.take_head(head).map(Some),
            Call::FastCgi(call) => call.take_head(head).map(Some),
        }
    }

    /// The head of which only a part had come.
    pub async fn read_rest_of_head(&self, limits: &HeadLimits, head: &mut ResponseHead) -> Result<HeadKind, UpstreamFault> {
        match self {
            Call::H1(call) => call.read_rest_of_head(limits, head).await,
            Call::H2(_) | Call::FastCgi(_) => Err(bad_response()),
        }
    }

    /// The next head, whenever it comes.
    pub async fn read_head(&self, limits: &HeadLimits, head: &mut ResponseHead) -> Result<HeadKind, UpstreamFault> {
        poll_fn(|cx| self.poll_begun(cx)).await?;
        match self.take_head(limits, head)? {
            Some(kind) => Ok(kind),
            None => Box::pin(self.read_rest_of_head(limits, head)).await,
        }
    }

    /// What follows the final head. `idle` is how long the server may be silent in its body; `limits` are those that
    /// the head was read with, and bound trailers.
    pub fn answer(
        &self,
        head: &ResponseHead,
        method: Method,
        idle: Duration,
        limits: &HeadLimits,
    ) -> Result<Answer<'_, S>, UpstreamFault> {
        match self {
            Call::H1(call) => call.answer(head, method, idle, limits),
            Call::H2(call) => call.answer(head, method, idle),
            Call::FastCgi(call) => call.answer(method, idle),
        }
    }

    /// After a whole answer: the connection is kept where that is safe. Since when it is idle.
    pub fn give_back(self, server: &Server<S>, keeping: Keeping) -> Option<Instant> {
        match self {
            Call::H1(call) => call.give_back(server, keeping),
            Call::H2(_) => None,
            Call::FastCgi(call) => call.give_back(server, keeping),
        }
    }

    /// The call failed: a connection that ends gets no more requests.
    pub fn note_fault(&self, fault: UpstreamFault) {
        match self {
            Call::H2(call) if fault.error == UpstreamError::GoAway => call.retire(),
            Call::H1(_) | Call::H2(_) | Call::FastCgi(_) => {}
        }
    }
}

/// The head of a request on its way. A type of its own and not an `async fn`, because futures that await it are copied
/// with it inside.
#[must_use = "nothing is sent before it is awaited"]
pub enum SendingHead<'c, S: Sock> {
    H1 {
        writing: Write<'c, S>,
        /// How far the request has got where the write fails.
        progress: Progress,
    },
    Boxed(Pin<Box<dyn Future<Output = Result<(), SendFault>> + 'c>>),
    /// There is nothing to wait for.
    Over(Result<(), SendFault>),
}

impl<S: Sock> Future for SendingHead<'_, S> {
    type Output = Result<(), SendFault>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendFault>> {
        match &mut *self {
            SendingHead::H1 { writing, progress } => {
                let sent = ready!(Pin::new(writing).poll(cx));
                Poll::Ready(sent.map_err(|_| UpstreamFault::new(UpstreamError::Reset, *progress).into()))
            }
            SendingHead::Boxed(sending) => sending.as_mut().poll(cx),
            SendingHead::Over(outcome) => Poll::Ready(*outcome),
        }
    }
}

/// Counts a connection that is in use.
pub struct ActiveConnection<S: Sock>(Rc<WorkerPool<S>>);

impl<S: Sock> ActiveConnection<S> {
    pub fn new(pool: Rc<WorkerPool<S>>) -> ActiveConnection<S> {
        pool.metrics.connections_active.increment();
        ActiveConnection(pool)
    }

    pub fn pool(&self) -> &WorkerPool<S> {
        &self.0
    }
}

impl<S: Sock> Drop for ActiveConnection<S> {
    fn drop(&mut self) {
        self.0.metrics.connections_active.decrement();
    }
}

fn bad_response() -> UpstreamFault {
    UpstreamFault::new(UpstreamError::BadResponse, Progress::Answering)
}
