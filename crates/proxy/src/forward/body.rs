//! Bodies in motion: the request's body to the upstream at its least rate, and the answer beside it.

use super::collected::Collected;
use super::replay::Replay;
use crate::failure::Failure;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use tidegate_exchange::pace::Pace;
use tidegate_exchange::{BodyReader, BodySource, ClientFault, NextPiece, TURN_BYTES, body_fault};
use tidegate_message::body::BodyFault;
use tidegate_middleware::{BodyAllowance, HeaderNameRules, Refusal, TrailerRules};
use tidegate_transport::buffer::CAPACITY;
use tidegate_transport::{Buf, ReadLimit, Sock, Stream, rt};
use tidegate_upstream::call::{AnswerBody, Call, FastCgiBody};
use tidegate_wire::head::Fields;

/// The body of an upstream's answer as any other body.
#[inline]
pub fn reader_of<S: Sock>(body: AnswerBody<'_, S>) -> BodyReader<'_, S> {
    match body {
        AnswerBody::H1(body) => BodyReader::H1(body),
        AnswerBody::H2(body) => BodyReader::H2(body),
        AnswerBody::FastCgi(body) => BodyReader::Made(Box::new(ScriptBody(body))),
        AnswerBody::Empty => BodyReader::Empty,
    }
}

/// The answer of a script. Boxed as a source that is not on every request's way.
struct ScriptBody<'c, S>(FastCgiBody<'c, S>);

impl<S: Sock> BodySource<S> for ScriptBody<'_, S> {
    fn read(&mut self) -> NextPiece<'_> {
        Box::pin(self.0.read())
    }

    fn at_hand(&mut self) -> Result<Option<Buf>, BodyFault> {
        Ok(self.0.at_hand())
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn stream(&self) -> Option<&Stream<S>> {
        Some(self.0.stream)
    }
}

/// Why the request's body is not sent on any further.
pub(crate) enum PumpFault {
    Client(ClientFault),
    /// The upstream takes no more; its answer may still come.
    Upstream,
}

/// Which trailers of a request go on.
#[derive(Clone, Copy)]
pub(crate) struct TrailerPass<'r> {
    pub rules: &'r TrailerRules,
    pub names: &'r HeaderNameRules,
    pub is_grpc: bool,
}

impl TrailerPass<'_> {
    pub fn take<S: Sock>(self, body: &mut BodyReader<'_, S>) -> Option<Box<Fields>> {
        let mut trailers = body.take_trailers()?;
        self.names.settle_trailers(&mut trailers);
        self.rules.of_request(trailers, self.is_grpc)
    }
}

/// What a request's body is held to on its way.
pub(crate) struct BodyTerms<'r> {
    pub pace: Pace,
    pub allowance: &'r mut Option<BodyAllowance>,
    pub trailers: TrailerPass<'r>,
    /// The answer has begun: from then on the body may be as slow as it likes.
    pub is_answering: &'r Cell<bool>,
}

/// Passes the request's body on, and tells each piece and whether trailers follow it. Reading pauses while the upstream
/// takes nothing.
pub(crate) async fn pump_body<S: Sock>(
    body: &mut BodyReader<'_, S>,
    call: &Call<S>,
    terms: BodyTerms<'_>,
    note: impl FnMut(&[u8], bool),
    account: &impl Fn(),
) -> Result<(), PumpFault> {
    let outcome = pump_pieces(body, call, terms, note, account).await;
    if let BodyReader::H1(reader) = body {
        // From here on the answer watches the client, and waits as long as the answer takes.
        reader.stream.sock.set_read_limit(ReadLimit::Never);
    }
    outcome
}

async fn pump_pieces<S: Sock>(
    body: &mut BodyReader<'_, S>,
    call: &Call<S>,
    BodyTerms { mut pace, allowance, trailers: pass, is_answering }: BodyTerms<'_>,
    mut note: impl FnMut(&[u8], bool),
    account: &impl Fn(),
) -> Result<(), PumpFault> {
    let mut turn = 0;
    loop {
        let piece = pace.read(body, || is_answering.get()).await.map_err(|fault| PumpFault::Client(body_fault(fault)))?;
        let trailers = if body.is_finished() || piece.is_none() { pass.take(body) } else { None };
        note(piece.as_deref().unwrap_or_default(), trailers.is_some());
        let Some(piece) = piece else { return call.finish(trailers.as_deref()).await.map_err(|_| PumpFault::Upstream) };
        if let Some(allowance) = allowance {
            allowance.take(piece.len() as u64).map_err(|_| PumpFault::Client(ClientFault::Refused(Refusal::BodyTooLarge)))?;
        }
        turn += piece.len();
        let last = body.is_finished() && trailers.is_none();
        call.send_body(piece, last).await.map_err(|_| PumpFault::Upstream)?;
        if last {
            return Ok(());
        }
        if body.is_finished() {
            return call.finish(trailers.as_deref()).await.map_err(|_| PumpFault::Upstream);
        }
        if turn > TURN_BYTES {
            turn = 0;
            account();
            rt::yield_now().await;
        }
    }
}

/// Sends what is held of a body behind the piece that goes with the request's head. None: the client has more of it.
pub(super) async fn send_held<S: Sock>(call: &Call<S>, replay: &Replay, is_whole: bool) -> Option<Result<(), PumpFault>> {
    if let Some(body) = replay.with_rest() {
        return Some(send_rest(call, body).await);
    }
    match send_kept(call, replay.kept_rest()?, is_whole).await {
        Ok(()) => is_whole.then_some(Ok(())),
        Err(fault) => Some(Err(fault)),
    }
}

/// Sends what was kept of a body for another attempt. More may follow, unless it is whole.
async fn send_kept<S: Sock>(call: &Call<S>, rest: &[u8], is_whole: bool) -> Result<(), PumpFault> {
    let mut pieces = rest.chunks(CAPACITY).peekable();
    while let Some(piece) = pieces.next() {
        let is_last = is_whole && pieces.peek().is_none();
        call.send_body(Buf::copy_of(piece), is_last).await.map_err(|_| PumpFault::Upstream)?;
    }
    Ok(())
}

/// Sends what is left of a body that was collected, behind its first piece.
async fn send_rest<S: Sock>(call: &Call<S>, body: &Collected) -> Result<(), PumpFault> {
    let unread = |error: io::Error| {
        tracing::error!(%error, "what was collected of a request body cannot be read");
        PumpFault::Client(ClientFault::Refused(Refusal::BodyNotKept))
    };
    let mut offset = body.first_bytes().map_err(unread)?;
    while offset < body.len() {
        let piece = body.piece(offset).map_err(unread)?;
        if piece.is_empty() {
            return Err(unread(io::ErrorKind::UnexpectedEof.into()));
        }
        offset += piece.len() as u64;
        call.send_body(piece, offset == body.len()).await.map_err(|_| PumpFault::Upstream)?;
    }
    Ok(())
}

/// Drives the answer and the request's body together. The answer decides: when it is complete the body is left where it
/// is. A client that fails ends both.
pub(crate) async fn both<T>(
    reply: impl Future<Output = Result<T, Failure>>,
    pump: impl Future<Output = Result<(), PumpFault>>,
    pump_done: &Cell<bool>,
) -> Result<T, Failure> {
    let mut reply = pin!(reply);
    let mut pump = pin!(pump);
    let mut pumping = true;
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = reply.as_mut().poll(cx) {
            return Poll::Ready(outcome);
        }
        if pumping && let Poll::Ready(outcome) = pump.as_mut().poll(cx) {
            pumping = false;
            match outcome {
                Ok(()) => pump_done.set(true),
                Err(PumpFault::Client(fault)) => return Poll::Ready(Err(fault.into())),
                Err(PumpFault::Upstream) => {}
            }
            // What was sent last may be what the answer waited for, and from now on the answer watches the client.
            return reply.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await
}
