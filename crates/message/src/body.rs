//! Bodies being read, of requests and of answers. How they are written is in `h1` and `h2`.

use crate::h2::{StreamFault, StreamHandle};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tidegate_transport::{Buf, Sock, Stream, rt};
use tidegate_wire::chunked::Peer;
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::{BodyDecoder, BodyError, BodyFraming, HeadError, HeadLimits};

/// Why no more of a body can be read.
#[derive(Debug)]
pub enum BodyFault {
    Io(io::Error),
    Framing(BodyError),
    /// An HTTP/2 stream ended with an error: the peer's, if it was the peer that ended it.
    Reset(Option<ErrorCode>),
    /// The body of a request is not what its coding says.
    Coding,
    /// The body, decoded, becomes far more than was sent.
    Bomb,
    /// The server broke a rule of its connection: by a record of FastCGI, or a frame of HTTP/2.
    Broken,
}

impl From<io::Error> for BodyFault {
    fn from(error: io::Error) -> BodyFault {
        BodyFault::Io(error)
    }
}

impl From<BodyError> for BodyFault {
    fn from(error: BodyError) -> BodyFault {
        BodyFault::Framing(error)
    }
}

/// A body on a connection of HTTP/1.
pub struct H1BodyReader<'s, S> {
    pub stream: &'s Stream<S>,
    pub decoder: BodyDecoder,
    /// What was read together with the head.
    pub at_hand: Option<Buf>,
}

impl<'s, S: Sock> H1BodyReader<'s, S> {
    /// `rest` is what followed the head; `limits` are those of heads, and bound trailers.
    /// What is behind the message's end goes back to the stream.
    pub fn new(stream: &'s Stream<S>, framing: BodyFraming, peer: Peer, limits: &HeadLimits, rest: Buf) -> H1BodyReader<'s, S> {
        let decoder = BodyDecoder::new(framing, peer, limits);
        if decoder.is_finished() {
            stream.unread(rest);
            return H1BodyReader { stream, decoder, at_hand: None };
        }
        H1BodyReader { stream, decoder, at_hand: Some(rest).filter(|rest| !rest.is_empty()) }
    }

    /// The next piece; `None` at the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, BodyFault>> {
        loop {
            if let Some(piece) = self.at_hand()? {
                return Poll::Ready(Ok(Some(piece)));
            }
            if self.decoder.is_finished() {
                return Poll::Ready(Ok(None));
            }
            let data = ready!(self.stream.poll_read(cx))?;
            if data.is_empty() {
                self.decoder.finish_at_end_of_stream()?;
                return Poll::Ready(Ok(None));
            }
            self.at_hand = Some(data);
        }
    }

    /// A piece that came with the head, without waiting.
    pub fn at_hand(&mut self) -> Result<Option<Buf>, BodyFault> {
        let Some(mut data) = self.at_hand.take() else { return Ok(None) };
        let decoded = self.decoder.decode_in_place(&mut data)?;
        if decoded.consumed < data.len() {
            self.stream.unread(Buf::copy_of(&data[decoded.consumed..]));
        }
        data.narrow(decoded.payload);
        Ok(Some(data).filter(|data| !data.is_empty()))
    }
}

/// A body on a stream of HTTP/2.
pub struct H2BodyReader {
    pub stream: StreamHandle,
    /// Silence that ends it; `None` leaves that to whoever reads.
    pub idle: Option<Duration>,
    /// While a piece is waited for.
    clock: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl H2BodyReader {
    pub fn new(stream: StreamHandle, idle: Option<Duration>) -> H2BodyReader {
        H2BodyReader { stream, idle, clock: None }
    }

    /// Before a piece is waited for: the time that one before it took does not count.
    pub fn begin_read(&mut self) {
        self.clock = None;
    }

    /// The next piece; `None` at the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, BodyFault>> {
        if let Poll::Ready(read) = self.stream.poll_read(cx) {
            return Poll::Ready(read.map_err(body_fault));
        }
        let Some(idle) = self.idle else { return Poll::Pending };
        ready!(self.clock.get_or_insert_with(|| Box::pin(rt::sleep(idle))).as_mut().poll(cx));
        Poll::Ready(Err(BodyFault::Io(io::ErrorKind::TimedOut.into())))
    }
}

fn body_fault(fault: StreamFault) -> BodyFault {
    match fault {
        // As trailers behind a chunked body are called.
        StreamFault::Malformed(HeadError::HeadTooLarge | HeadError::TooManyFields) => {
            BodyFault::Framing(BodyError::TrailersTooLarge)
        }
        StreamFault::Malformed(_) => BodyFault::Framing(BodyError::BadTrailer),
        StreamFault::BadBody(error) => BodyFault::Framing(error),
        StreamFault::Reset { code, by_peer } => BodyFault::Reset(Some(code).filter(|_| by_peer)),
        StreamFault::Broken => BodyFault::Broken,
        StreamFault::Unprocessed | StreamFault::Lost | StreamFault::TooLarge => BodyFault::Reset(None),
    }
}
