//! Answers that are compressed on their way: `compress`. Which ones and how is decided in `middleware::compress`, the
//! codecs are in `coding`; here bodies go through them, and what an upstream has sent is never held back while it
//! pauses.

use crate::cached::CacheTier;
use crate::exchange::{BodyLength, BodyReader};
use crate::failure::{ClientFault, Failure};
use crate::forward::{unless_gone, upstream_body_fault};
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use bytes::Bytes;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tidegate_cache::Object;
use tidegate_coding::{Encoder, Operation, level_now};
use tidegate_middleware::compress::settle;
use tidegate_model::{Coding, CompressLevel};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, Sock, rt};
use tidegate_upstream::fault::Progress;
use tidegate_wire::head::Fields;

/// How long a body of known length may pause before what was taken of it is sent: each flush costs some bytes, and it
/// has an end that comes.
const PAUSE_MOST: Duration = Duration::from_millis(10);

/// An answer that goes through a codec.
pub struct Coded {
    encoder: Encoder,
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

impl<S: Sock> Request<'_, S> {
    /// Begins to compress the answer whose head is complete, if it is one that is to be; its head is then that of the
    /// coded body.
    ///
    /// `length` is that of the body, if it is known.
    pub fn begin_coding(&mut self, route: &CompiledRoute, length: Option<u64>) -> Option<Coded> {
        let choice = self.choose_coding(route, length)?;
        self.start_coding(choice, length)
    }

    /// Whether the answer is to be compressed, and how.
    pub fn choose_coding(&mut self, route: &CompiledRoute, length: Option<u64>) -> Option<CodingChoice> {
        let compress = route.compress.as_deref()?;
        let coding = compress.choose(&self.head, &mut self.response, length)?;
        Some((coding, compress.level))
    }

    /// `None`: as much is being compressed as may be, and the answer goes out as it is.
    pub fn start_coding(&mut self, (coding, level): CodingChoice, length: Option<u64>) -> Option<Coded> {
        let worker = &self.connection.worker;
        if worker.process.pressure.is_high() {
            return None;
        }
        let encoder = Encoder::new(coding, level_now(level, coding, worker.busy.now()), length)?;
        self.settle_coding(coding);
        Some(Coded { encoder, output: Buf::take(), has_length: length.is_some(), keep: None })
    }

    /// Makes the head that of the coded body.
    pub fn settle_coding(&mut self, coding: Coding) {
        settle(&mut self.response, coding);
    }

    /// Sends head and body of an upstream's answer through the codec, as it comes. `first`: what of the body has come
    /// with its head.
    pub async fn stream_coded(
        &mut self,
        mut coded: Coded,
        body: &mut BodyReader<'_, S>,
        first: Option<Buf>,
        request_done: &Cell<bool>,
    ) -> Result<(), Failure> {
        let mut piece = first;
        loop {
            if let Some(piece) = piece.take() {
                self.code(&mut coded, &piece, Operation::Process).await?;
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
                        unless_gone(&mut self.responder, request_done, waiting).await?
                    } else {
                        None
                    };
                    match soon {
                        Some(read) => read,
                        None => {
                            self.code(&mut coded, &[], Operation::Flush).await?;
                            self.send_output(&mut coded, false).await?;
                            unless_gone(&mut self.responder, request_done, reading).await?
                        }
                    }
                }
            };
            piece = read.map_err(|fault| upstream_body_fault(&fault))?;
            if piece.is_none() {
                break;
            }
        }
        let trailers = body.take_trailers();
        self.finish_coded(coded, trailers.as_deref()).await
    }

    /// A piece of a body that comes without pauses.
    pub async fn code_piece(&mut self, coded: &mut Coded, piece: &[u8]) -> Result<(), Failure> {
        self.code(coded, piece, Operation::Process).await
    }

    /// The end of a body.
    pub async fn finish_coded(&mut self, mut coded: Coded, trailers: Option<&Fields>) -> Result<(), Failure> {
        self.code(&mut coded, &[], Operation::Finish).await?;
        self.end_coded(coded, trailers).await
    }

    /// A body that is all there, compressed if it is to be.
    pub fn code_whole(&mut self, route: &CompiledRoute, body: &[u8]) -> Option<Vec<u8>> {
        let mut coded = self.begin_coding(route, Some(body.len() as u64))?;
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
    async fn code(&mut self, coded: &mut Coded, input: &[u8], operation: Operation) -> Result<(), Failure> {
        let mut rest = input;
        loop {
            let room = tidegate_transport::buffer::CAPACITY - coded.output.len();
            let spare = &mut coded.output.spare_for_read()[..room];
            let step = coded.encoder.step(rest, spare, operation).map_err(|_| not_coded())?;
            coded.output.grow(step.produced);
            rest = &rest[step.consumed..];
            if step.is_done {
                return Ok(());
            }
            if step.produced == room {
                self.send_output(coded, false).await?;
            }
        }
    }

    /// `is_last`: it is the end of the body, and no trailers follow.
    async fn send_output(&mut self, coded: &mut Coded, is_last: bool) -> Result<(), Failure> {
        let piece = coded.take_output();
        let gone = |_| Failure::Client(ClientFault::Gone);
        if self.responder.has_started() {
            if !piece.is_empty() {
                self.responder.send_body(piece, is_last).await.map_err(gone)?;
            }
        } else {
            let first = Some(piece).filter(|piece| !piece.is_empty());
            self.responder.send_head(&mut self.response, BodyLength::Unknown, first, is_last).await.map_err(gone)?;
        }
        if !is_last {
            coded.output = Buf::take();
        }
        Ok(())
    }

    /// The codec is done: what is left goes out. An answer of which nothing went out before is one whose length is
    /// known after all.
    async fn end_coded(&mut self, mut coded: Coded, trailers: Option<&Fields>) -> Result<(), Failure> {
        let gone = |_| Failure::Client(ClientFault::Gone);
        if trailers.is_some() {
            self.send_output(&mut coded, false).await?;
            return self.responder.finish(trailers).await.map_err(gone);
        }
        if !self.responder.has_started() {
            let piece = coded.take_output();
            coded.finish_kept();
            let mut digits = itoa::Buffer::new();
            self.response.fields.push(b"content-length", digits.format(piece.len()).as_bytes());
            return self.responder.send_head(&mut self.response, BodyLength::Known, Some(piece), true).await.map_err(gone);
        }
        if coded.output.is_empty() {
            coded.finish_kept();
            return self.responder.finish(None).await.map_err(gone);
        }
        if let Some(mut keep) = coded.keep.take() {
            keep.pieces.push(Bytes::copy_from_slice(&coded.output));
            keep.finish();
        }
        self.send_output(&mut coded, true).await
    }
}

/// The client must see that the body was cut, which is what becomes of an answer whose upstream fails in the middle.
fn not_coded() -> Failure {
    Failure::upstream(UpstreamError::BodyCut, Progress::Answering)
}
