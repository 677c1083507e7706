//! Answers that are compressed on their way: `compress`. Which ones and how is decided in `middleware::compress`, the
//! codecs are in `coding`; here bodies go through them, and what an upstream has sent is never held back while it
//! pauses.

use crate::cached::CacheTier;
use crate::failure::{Failure, body_cut, upstream_body_fault};
use crate::listening::HeldForConnection;
use crate::surroundings::Surroundings;
use bytes::Bytes;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tidegate_cache::Object;
use tidegate_coding::{Encoder, Operation, level_now};
use tidegate_exchange::{BodyLength, BodyReader, ClientFault, Exchange, unless_gone};
use tidegate_middleware::compress::settle;
use tidegate_model::{Coding, CompressLevel};
use tidegate_transport::{Buf, Sock, rt};
use tidegate_wire::head::Fields;

/// How long a body of known length may pause before what was taken of it is sent: each flush costs some bytes, and it
/// has an end that comes.
const PAUSE_MOST: Duration = Duration::from_millis(10);

/// An answer that goes through a codec.
pub struct Coded {
    encoder: Encoder,
    /// What the encoder takes is its connection's.
    _held: HeldForConnection,
    /// What has come out and was not sent yet.
    output: Buf,
    /// The body's end is known beforehand.
    has_length: bool,
    /// What comes out is kept beside what it is made of, so that it is made once.
    pub keep: Option<Box<KeptCoding>>,
}

/// A coding, and how hard to try.
pub type CodingChoice = (Coding, CompressLevel);

/// A coded body on its way to a client and into the cache.
pub struct KeptCoding {
    pub tier: Arc<CacheTier>,
    pub object: Arc<Object>,
    /// The coding's place among those that are kept.
    pub place: usize,
    pub pieces: Vec<Bytes>,
}

impl KeptCoding {
    fn finish(self) {
        self.tier.store().keep_coded(&self.object, self.place, &self.pieces);
    }
}

impl Coded {
    /// What waits for an upstream holds no buffer: an event stream waits for hours.
    fn lease_output(&mut self) {
        if self.output.held_bytes() == 0 {
            self.output = Buf::take();
        }
    }

    fn take_output(&mut self) -> Buf {
        let piece = std::mem::replace(&mut self.output, Buf::empty());
        if let Some(keep) = &mut self.keep {
            keep.pieces.push(Bytes::copy_from_slice(&piece));
        }
        piece
    }

    /// The whole of it has come out.
    fn finish_kept(&mut self) {
        if let Some(keep) = self.keep.take() {
            keep.finish();
        }
    }
}

/// Begins to compress the answer whose head is complete, if it is one that is to be; its head is then that of the
/// coded body.
///
/// `length` is that of the body, if it is known.
pub fn begin_coding<S: Sock>(exchange: &mut Exchange<'_, S>, around: Surroundings<'_, S>, length: Option<u64>) -> Option<Coded> {
    let choice = choose_coding(exchange, around, length)?;
    start_coding(exchange, around, choice, length)
}

/// Whether the answer is to be compressed, and how.
pub fn choose_coding<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    length: Option<u64>,
) -> Option<CodingChoice> {
    let compress = around.route?.compress.as_deref()?;
    let coding = compress.choose(&exchange.head, &mut exchange.response, length)?;
    Some((coding, compress.level))
}

/// `None`: as much is being compressed as may be, and the answer goes out as it is.
pub fn start_coding<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    (coding, level): CodingChoice,
    length: Option<u64>,
) -> Option<Coded> {
    let worker = &around.connection.worker;
    if worker.process.pressure.is_high() {
        return None;
    }
    let encoder = Encoder::new(coding, level_now(level, coding, worker.busy.now()), length)?;
    settle(&mut exchange.response, coding);
    let held = HeldForConnection::new(&around.connection.facts, encoder.held_bytes());
    Some(Coded { encoder, _held: held, output: Buf::empty(), has_length: length.is_some(), keep: None })
}

/// Sends head and body of an upstream's answer through the codec, as it comes. `first`: what of the body has come
/// with its head.
pub async fn stream_coded<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    mut coded: Coded,
    body: &mut BodyReader<'_, S>,
    first: Option<Buf>,
    request_done: &Cell<bool>,
) -> Result<(), Failure> {
    let mut piece = first;
    loop {
        if let Some(piece) = piece.take() {
            code(exchange, &mut coded, &piece, Operation::Process).await?;
        }
        if body.is_finished() {
            break;
        }
        let mut reading = pin!(body.read());
        let at_once = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
        let read = match at_once {
            Poll::Ready(read) => read,
            Poll::Pending => {
                let soon = if coded.has_length {
                    let waiting = pin!(rt::timeout(PAUSE_MOST, reading.as_mut()));
                    unless_gone(&mut exchange.responder, request_done, waiting).await?
                } else {
                    None
                };
                match soon {
                    Some(read) => read,
                    None => {
                        code(exchange, &mut coded, &[], Operation::Flush).await?;
                        send_output(exchange, &mut coded, false).await?;
                        unless_gone(&mut exchange.responder, request_done, reading).await?
                    }
                }
            }
        };
        piece = read.map_err(|fault| upstream_body_fault(&fault))?;
        if piece.is_none() {
            break;
        }
    }
    let trailers = around.trailers_of(body);
    finish_coded(exchange, coded, trailers.as_deref()).await
}

/// A piece of a body that comes without pauses.
pub async fn code_piece<S: Sock>(exchange: &mut Exchange<'_, S>, coded: &mut Coded, piece: &[u8]) -> Result<(), Failure> {
    code(exchange, coded, piece, Operation::Process).await
}

/// The end of a body.
pub async fn finish_coded<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    mut coded: Coded,
    trailers: Option<&Fields>,
) -> Result<(), Failure> {
    code(exchange, &mut coded, &[], Operation::Finish).await?;
    end_coded(exchange, coded, trailers).await
}

/// A body that is all there, compressed if it is to be.
pub fn code_whole<S: Sock>(exchange: &mut Exchange<'_, S>, around: Surroundings<'_, S>, body: &[u8]) -> Option<Vec<u8>> {
    let mut coded = begin_coding(exchange, around, Some(body.len() as u64))?;
    coded.lease_output();
    let mut whole = Vec::new();
    let mut rest = body;
    loop {
        let step = coded.encoder.step(rest, coded.output.spare_for_read(), Operation::Finish).ok()?;
        coded.output.grow(step.produced);
        whole.extend_from_slice(&coded.output);
        coded.output.truncate(0);
        rest = &rest[step.consumed..];
        if step.is_done {
            return Some(whole);
        }
    }
}

/// Takes all of `input`, and sends what comes of it whenever a buffer is full.
async fn code<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    coded: &mut Coded,
    input: &[u8],
    operation: Operation,
) -> Result<(), Failure> {
    let mut rest = input;
    loop {
        coded.lease_output();
        let room = tidegate_transport::buffer::CAPACITY - coded.output.len();
        let spare = &mut coded.output.spare_for_read()[..room];
        let step = coded.encoder.step(rest, spare, operation).map_err(|_| body_cut())?;
        coded.output.grow(step.produced);
        rest = &rest[step.consumed..];
        if step.is_done {
            return Ok(());
        }
        if step.produced == room {
            send_output(exchange, coded, false).await?;
        }
    }
}

/// `is_last`: it is the end of the body, and no trailers follow.
async fn send_output<S: Sock>(exchange: &mut Exchange<'_, S>, coded: &mut Coded, is_last: bool) -> Result<(), Failure> {
    let piece = coded.take_output();
    let gone = |_| Failure::Client(ClientFault::Gone);
    if exchange.responder.has_started() {
        if !piece.is_empty() {
            exchange.responder.send_body(piece, is_last).await.map_err(gone)?;
        }
    } else {
        let first = Some(piece).filter(|piece| !piece.is_empty());
        exchange.responder.send_head(&mut exchange.response, BodyLength::Unknown, first, is_last).await.map_err(gone)?;
    }
    Ok(())
}

/// The codec is done: what is left goes out. An answer of which nothing went out before is one whose length is
/// known after all.
async fn end_coded<S: Sock>(exchange: &mut Exchange<'_, S>, mut coded: Coded, trailers: Option<&Fields>) -> Result<(), Failure> {
    let gone = |_| Failure::Client(ClientFault::Gone);
    if trailers.is_some() {
        send_output(exchange, &mut coded, false).await?;
        return exchange.responder.finish(trailers).await.map_err(gone);
    }
    if !exchange.responder.has_started() {
        let piece = coded.take_output();
        coded.finish_kept();
        let mut digits = itoa::Buffer::new();
        exchange.response.fields.push(b"content-length", digits.format(piece.len()).as_bytes());
        return exchange.responder.send_head(&mut exchange.response, BodyLength::Known, Some(piece), true).await.map_err(gone);
    }
    if coded.output.is_empty() {
        coded.finish_kept();
        return exchange.responder.finish(None).await.map_err(gone);
    }
    if let Some(mut keep) = coded.keep.take() {
        keep.pieces.push(Bytes::copy_from_slice(&coded.output));
        keep.finish();
    }
    send_output(exchange, &mut coded, true).await
}

/// Sends the response head with a body that is all there, compressed if it is to be.
pub async fn send_whole_coded<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    body: &[u8],
) -> Result<(), Failure> {
    let coded = code_whole(exchange, around, body);
    around.send_whole(exchange, coded.as_deref().unwrap_or(body)).await
}
