//! What a request is read from and answered to, and the only place above `message` where the HTTP versions of clients
//! differ. A body is a row of plain buffers here. The flow itself is in `request` and `forward`; what goes to an
//! upstream, in the crate `upstream`.

use crate::bounds::CLIENT_WRITE_IDLE;
use crate::cached::StoredBody;
use crate::decoded::DecodedBody;
use crate::fastcgi::body::FastCgiBody;
use crate::fastcgi::stdin::{send_stdin, send_stdin_end};
use crate::forwarded::remove_claims;
use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tidegate_message::body::{BodyFault, H1BodyReader, H2BodyReader};
use tidegate_message::h1::{chunk, encode_response, send_last_chunk};
use tidegate_message::h2_data::{send_data, send_end};
use tidegate_message::h2_head;
use tidegate_transport::stream::{Gone, Write};
use tidegate_transport::{Buf, FilePart, Sock, Stream, rt};
use tidegate_upstream::call::{AnswerBody, Call};
use tidegate_wire::body::LAST_CHUNK;
use tidegate_wire::head::{Fields, HeaderId, ResponseHead, Version};

/// A message body being read, of a request or of an answer.
pub enum BodyReader<'s, S> {
    H1(H1BodyReader<'s, S>),
    H2(H2BodyReader),
    /// Boxed: not what every request's future should be as large as.
    Stored(Box<StoredBody>),
    /// A request's, decoded on its way.
    Decoded(Box<DecodedBody<'s, S>>),
    /// Of an answer only.
    FastCgi(Box<FastCgiBody<'s, S>>),
    /// The message has none.
    Empty,
}

impl<'s, S> From<AnswerBody<'s, S>> for BodyReader<'s, S> {
    #[inline]
    fn from(body: AnswerBody<'s, S>) -> BodyReader<'s, S> {
        match body {
            AnswerBody::H1(body) => BodyReader::H1(body),
            AnswerBody::H2(body) => BodyReader::H2(body),
            AnswerBody::Empty => BodyReader::Empty,
        }
    }
}

impl<S: Sock> BodyReader<'_, S> {
    /// The next piece; `None` at the end.
    #[inline]
    pub async fn read(&mut self) -> Result<Option<Buf>, BodyFault> {
        match self {
            BodyReader::H1(reader) => reader.read().await,
            BodyReader::H2(reader) => Box::pin(reader.read()).await,
            BodyReader::Stored(stored) => poll_fn(|cx| stored.poll(cx)).await,
            BodyReader::Decoded(decoded) => Box::pin(decoded.read()).await,
            BodyReader::FastCgi(reader) => Box::pin(reader.read()).await,
            BodyReader::Empty => Ok(None),
        }
    }

    /// A piece that came with the head, without waiting.
    pub fn at_hand(&mut self) -> Result<Option<Buf>, BodyFault> {
        match self {
            BodyReader::H1(reader) => reader.at_hand(),
            BodyReader::Stored(stored) => stored.at_hand(),
            BodyReader::FastCgi(reader) => Ok(reader.take_at_hand()),
            BodyReader::H2(_) | BodyReader::Decoded(_) | BodyReader::Empty => Ok(None),
        }
    }

    /// Whether all of it was read.
    pub fn is_finished(&self) -> bool {
        match self {
            BodyReader::H1(reader) => reader.decoder.is_finished(),
            BodyReader::H2(reader) => reader.stream.is_end_stream() && reader.trailers.is_none(),
            BodyReader::Stored(stored) => stored.is_finished(),
            BodyReader::Decoded(decoded) => decoded.is_finished(),
            BodyReader::FastCgi(reader) => reader.is_finished(),
            BodyReader::Empty => true,
        }
    }

    /// The trailer section, once the body is finished. Some servers take trailers for fields of the head (RFC 9110
    /// section 6.5.1 warns of it), so nobody says there who a client is, a trusted proxy neither.
    pub fn take_trailers(&mut self) -> Option<Box<Fields>> {
        let mut trailers = match self {
            BodyReader::H1(reader) => reader.decoder.take_trailers(),
            BodyReader::H2(reader) => reader.trailers.take(),
            BodyReader::FastCgi(_) | BodyReader::Stored(_) | BodyReader::Decoded(_) | BodyReader::Empty => None,
        };
        if let Some(trailers) = &mut trailers {
            remove_claims(trailers);
        }
        trailers
    }

    /// Gives back what came with the head, so that no buffer is held while something else is waited for.
    pub fn put_back(&mut self) {
        match self {
            BodyReader::H1(reader) => reader.at_hand.take().into_iter().for_each(|rest| reader.stream.unread(rest)),
            BodyReader::H2(_) | BodyReader::Stored(_) | BodyReader::Decoded(_) | BodyReader::FastCgi(_) | BodyReader::Empty => {}
        }
    }

    /// How long a stream of HTTP/2 may be silent. Other bodies have the bound of whoever reads them.
    pub fn set_idle(&mut self, idle: Duration) {
        match self {
            BodyReader::H2(reader) => reader.idle = Some(idle),
            BodyReader::Decoded(decoded) => decoded.set_idle(idle),
            BodyReader::H1(_) | BodyReader::FastCgi(_) | BodyReader::Stored(_) | BodyReader::Empty => {}
        }
    }

    /// The connection that it is read from, where that belongs to one message.
    pub fn stream(&self) -> Option<&Stream<S>> {
        match self {
            BodyReader::H1(reader) => Some(reader.stream),
            BodyReader::FastCgi(reader) => Some(reader.stream),
            BodyReader::H2(_) | BodyReader::Stored(_) | BodyReader::Decoded(_) | BodyReader::Empty => None,
        }
    }
}

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
    pub async fn send_head(
        &mut self,
        head: &mut ResponseHead,
        length: BodyLength,
        first: Option<Buf>,
        finished: bool,
    ) -> io::Result<()> {
        match self {
            Responder::H1(responder) => responder.begin(head, length, first, finished)?.await,
            // Boxed, like all of HTTP/2 here: HTTP/1 futures are copied often, and must not carry its size.
            Responder::H2(responder) => Box::pin(responder.send_head(head, first, finished)).await,
            Responder::Nobody => Ok(()),
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
    pub async fn send_body(&mut self, piece: Buf, finished: bool) -> io::Result<()> {
        match self {
            Responder::H1(responder) if responder.bodiless => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a body that may not be"))
            }
            Responder::H1(responder) => responder.send_body(piece, finished).await,
            Responder::H2(responder) => Box::pin(responder.send_body(piece, finished)).await,
            Responder::Nobody => Ok(()),
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

    /// The answer cannot be ended properly: the client must see that it was cut.
    pub fn cut(&mut self) {
        match self {
            Responder::H1(responder) => responder.keep_alive = false,
            Responder::H2(responder) => responder.reset(h2::Reason::INTERNAL_ERROR),
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
            Responder::H2(responder) => responder.respond.is_none(),
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

pub struct H1Responder<'s, S> {
    pub stream: &'s Stream<S>,
    version: Version,
    /// Whether the client may send its next request on this connection.
    pub keep_alive: bool,
    started: bool,
    chunked: bool,
    /// The message ended with its head; a body behind it would be read as the next answer.
    bodiless: bool,
    bytes_sent: u64,
    /// The answer has taken long enough to look whether the client is still there. Most answers are faster than looking
    /// is cheap.
    watching: bool,
    half_closed: Option<HalfClosed>,
}

/// The client has ended its side. Some do so after their request and still wait for the answer (`nc -N`), most have
/// left.
struct HalfClosed {
    grace: Pin<Box<dyn Future<Output = ()>>>,
    sent_before: u64,
}

/// How long a client that ended its side is believed to be waiting while nothing is sent to it; writing to one that
/// left fails.
const HALF_CLOSE_GRACE: Duration = Duration::from_secs(2);

impl<'s, S: Sock> H1Responder<'s, S> {
    pub fn new(stream: &'s Stream<S>, version: Version, keep_alive: bool) -> H1Responder<'s, S> {
        H1Responder {
            stream,
            version,
            keep_alive,
            started: false,
            chunked: false,
            bodiless: false,
            bytes_sent: 0,
            watching: false,
            half_closed: None,
        }
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.watching {
            ready!(self.stream.sock.poll_patience(cx));
            self.watching = true;
        }
        loop {
            let Some(half_closed) = &mut self.half_closed else {
                match ready!(self.stream.poll_gone(cx)) {
                    Gone::Reset => return Poll::Ready(()),
                    Gone::HalfClosed => {
                        let grace = Box::pin(rt::sleep(HALF_CLOSE_GRACE));
                        self.half_closed = Some(HalfClosed { grace, sent_before: self.bytes_sent });
                        continue;
                    }
                }
            };
            ready!(half_closed.grace.as_mut().poll(cx));
            if half_closed.sent_before == self.bytes_sent {
                return Poll::Ready(());
            }
            self.half_closed = Some(HalfClosed { grace: Box::pin(rt::sleep(HALF_CLOSE_GRACE)), sent_before: self.bytes_sent });
        }
    }

    async fn send_interim(&mut self, head: &ResponseHead) -> io::Result<()> {
        // RFC 9110 section 15.2: an HTTP/1.0 client must not be sent one.
        if self.version == Version::Http10 {
            return Ok(());
        }
        self.stream.write(encode_response(head, None)?).await
    }

    fn begin(
        &mut self,
        head: &mut ResponseHead,
        length: BodyLength,
        first: Option<Buf>,
        finished: bool,
    ) -> io::Result<Write<'s, S>> {
        self.started = true;
        self.bytes_sent += first.as_ref().map_or(0, |piece| piece.len() as u64);
        self.bodiless = length == BodyLength::None;
        if length == BodyLength::Unknown {
            match self.version {
                Version::Http10 => self.keep_alive = false,
                Version::Http11 | Version::Http2 => {
                    self.chunked = true;
                    head.fields.push_id(HeaderId::TransferEncoding, b"chunked");
                }
            }
        }
        if !self.keep_alive {
            head.fields.push_id(HeaderId::Connection, b"close");
        } else if self.version == Version::Http10 {
            head.fields.push_id(HeaderId::Connection, b"keep-alive");
        }
        let body = match first {
            Some(piece) if self.chunked => Some(chunk(piece, finished)),
            None if self.chunked && finished => Some(Buf::copy_of(LAST_CHUNK)),
            first => first,
        };
        let message = encode_response(head, body)?;
        Ok(self.stream.write(message))
    }

    /// The head of a body whose bytes the kernel takes from a file, to be sent with the first of them.
    pub fn begin_file(&mut self, head: &mut ResponseHead) -> io::Result<Option<Buf>> {
        self.begin(head, BodyLength::Known, None, false)?.unsent()
    }

    /// Sends bytes of a file, behind what is in `before`. Zero: it has ended.
    pub async fn send_file(&mut self, before: &mut Option<Buf>, part: FilePart<'_>) -> io::Result<u64> {
        let sent = poll_fn(|cx| self.stream.poll_send_file(cx, before, part)).await? as u64;
        self.bytes_sent += sent;
        Ok(sent)
    }

    /// The answer to an upgrade: its connection fields are part of the protocol switch.
    pub async fn send_switch(&mut self, head: &ResponseHead) -> io::Result<()> {
        self.started = true;
        self.keep_alive = false;
        self.stream.write(encode_response(head, None)?).await
    }

    fn send_body(&mut self, piece: Buf, finished: bool) -> Write<'s, S> {
        self.bytes_sent += piece.len() as u64;
        let piece = if self.chunked { chunk(piece, finished) } else { piece };
        self.stream.write(piece)
    }

    async fn finish(&mut self, trailers: Option<&Fields>) -> io::Result<()> {
        send_last_chunk(self.stream, trailers).await
    }
}

/// The upstream's side of a request's body.
pub enum RequestWriter<'s, S: Sock> {
    Call(&'s Call<S>),
    /// The records of STDIN.
    FastCgi {
        stream: &'s Stream<S>,
    },
}

impl<S: Sock> RequestWriter<'_, S> {
    pub async fn send_body(&mut self, piece: Buf, finished: bool) -> io::Result<()> {
        match self {
            RequestWriter::Call(call) => call.send_body(piece, finished).await,
            RequestWriter::FastCgi { stream } => Box::pin(send_stdin(stream, piece, finished)).await,
        }
    }

    pub async fn finish(&mut self, trailers: Option<&Fields>) -> io::Result<()> {
        match self {
            RequestWriter::Call(call) => call.finish(trailers).await,
            RequestWriter::FastCgi { stream } => send_stdin_end(stream).await,
        }
    }
}

pub struct H2Responder {
    respond: Option<SendResponse<Bytes>>,
    sending: Option<SendStream<Bytes>>,
    bytes_sent: u64,
}

impl H2Responder {
    pub fn new(respond: SendResponse<Bytes>) -> H2Responder {
        H2Responder { respond: Some(respond), sending: None, bytes_sent: 0 }
    }

    fn send_interim(&mut self, head: &ResponseHead) -> io::Result<()> {
        let (Some(respond), Some(response)) = (&mut self.respond, h2_head::response(head)) else { return Ok(()) };
        respond.send_informational(response).map_err(io::Error::other)
    }

    async fn send_head(&mut self, head: &ResponseHead, first: Option<Buf>, finished: bool) -> io::Result<()> {
        let Some(mut respond) = self.respond.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let Some(response) = h2_head::response(head) else {
            respond.send_reset(h2::Reason::INTERNAL_ERROR);
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer that HTTP/2 cannot carry"));
        };
        let ends = finished && first.is_none();
        let sending = respond.send_response(response, ends).map_err(io::Error::other)?;
        if !ends {
            self.sending = Some(sending);
        }
        match first {
            Some(piece) => self.send_body(piece, finished).await,
            None => Ok(()),
        }
    }

    async fn send_body(&mut self, piece: Buf, finished: bool) -> io::Result<()> {
        self.bytes_sent += piece.len() as u64;
        let Some(sending) = &mut self.sending else { return Err(io::ErrorKind::BrokenPipe.into()) };
        send_data(sending, piece, finished, CLIENT_WRITE_IDLE).await
    }

    fn finish(&mut self, trailers: Option<&Fields>) -> io::Result<()> {
        let Some(mut sending) = self.sending.take() else { return Ok(()) };
        send_end(&mut sending, trailers)
    }

    fn reset(&mut self, reason: h2::Reason) {
        if let Some(respond) = &mut self.respond {
            respond.send_reset(reason);
        }
        if let Some(sending) = &mut self.sending {
            sending.send_reset(reason);
        }
    }

    /// Ready when the client has given up the stream.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (&mut self.respond, &mut self.sending) {
            (Some(respond), _) => respond.poll_reset(cx).map(|_| ()),
            (None, Some(sending)) => sending.poll_reset(cx).map(|_| ()),
            (None, None) => Poll::Pending,
        }
    }
}
