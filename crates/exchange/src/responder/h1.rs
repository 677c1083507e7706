//! An answer on a connection of HTTP/1.

use super::BodyLength;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tidegate_message::h1::{chunk, encode_response, send_last_chunk};
use tidegate_message::h2::HALF_CLOSE_GRACE;
use tidegate_transport::stream::{Gone, Write};
use tidegate_transport::{Buf, FilePart, Sock, Stream, rt};
use tidegate_wire::body::LAST_CHUNK;
use tidegate_wire::head::{Fields, HeaderId, ResponseHead, Version};

pub struct H1Responder<'s, S> {
    pub stream: &'s Stream<S>,
    version: Version,
    /// Whether the client may send its next request on this connection.
    pub keep_alive: bool,
    pub(super) started: bool,
    pub(super) chunked: bool,
    /// The message ended with its head; a body behind it would be read as the next answer.
    pub(super) bodiless: bool,
    pub(super) bytes_sent: u64,
    /// The answer has taken long enough to look whether the client is still there. Most answers are faster than looking
    /// is cheap.
    watching: bool,
    /// Boxed, as most clients do not.
    half_closed: Option<Box<HalfClosed>>,
}

/// The client has ended its side. Some do so after their request and still wait for the answer (`nc -N`), most have
/// left.
struct HalfClosed {
    grace: Pin<Box<dyn Future<Output = ()>>>,
    sent_before: u64,
}

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

    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
                        self.half_closed = Some(Box::new(HalfClosed { grace, sent_before: self.bytes_sent }));
                        continue;
                    }
                }
            };
            ready!(half_closed.grace.as_mut().poll(cx));
            if half_closed.sent_before == self.bytes_sent {
                return Poll::Ready(());
            }
            **half_closed = HalfClosed { grace: Box::pin(rt::sleep(HALF_CLOSE_GRACE)), sent_before: self.bytes_sent };
        }
    }

    pub(super) async fn send_interim(&mut self, head: &ResponseHead) -> io::Result<()> {
        // RFC 9110 section 15.2: an HTTP/1.0 client must not be sent one.
        if self.version == Version::Http10 {
            return Ok(());
        }
        self.stream.write(encode_response(head, None)?).await
    }

    pub(super) fn begin(
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
    pub(super) async fn send_switch(&mut self, head: &ResponseHead) -> io::Result<()> {
        self.started = true;
        self.keep_alive = false;
        self.stream.write(encode_response(head, None)?).await
    }

    pub(super) fn send_body(&mut self, piece: Buf, finished: bool) -> Write<'s, S> {
        self.bytes_sent += piece.len() as u64;
        let piece = if self.chunked { chunk(piece, finished) } else { piece };
        self.stream.write(piece)
    }

    pub(super) async fn finish(&mut self, trailers: Option<&Fields>) -> io::Result<()> {
        send_last_chunk(self.stream, trailers).await
    }
}
