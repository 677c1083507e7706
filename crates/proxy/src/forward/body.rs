//! Bodies in motion: the request's body to the upstream at its least rate, the answer beside it, and the client watched
//! meanwhile.

use crate::exchange::{BodyReader, RequestWriter, Responder};
use crate::failure::{ClientFault, Failure};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tidegate_message::body::BodyFault;
use tidegate_middleware::{BodyAllowance, Refusal};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_upstream::fault::Progress;
use tidegate_wire::BodyFraming;

/// A request body may be slow for so long before its rate counts, and after every byte of credit is used up.
const BODY_RATE_GRACE: Duration = Duration::from_secs(10);

/// After so much of a body the other connections of the worker get a turn.
pub(super) const TURN_BYTES: usize = 1 << 20;

pub(crate) fn gone(error: io::Error) -> Failure {
    Failure::Client(if error.kind() == io::ErrorKind::TimedOut { ClientFault::WriteStalled } else { ClientFault::Gone })
}

pub(crate) fn client_fault(fault: BodyFault) -> Failure {
    Failure::Client(match fault {
        BodyFault::Io(error) if error.kind() == io::ErrorKind::TimedOut => ClientFault::Refused(Refusal::BodyTooSlow),
        BodyFault::Io(_) | BodyFault::Reset | BodyFault::BadRecord | BodyFault::Framing(tidegate_wire::BodyError::Truncated) => {
            ClientFault::Gone
        }
        BodyFault::Framing(error) => ClientFault::Refused(Refusal::BadBody(error)),
        BodyFault::Coding => ClientFault::Refused(Refusal::BadCoding),
        BodyFault::Bomb => ClientFault::Refused(Refusal::Bomb),
    })
}

pub(crate) fn upstream_body_fault(fault: &BodyFault) -> Failure {
    let error = match fault {
        BodyFault::Io(error) if error.kind() == io::ErrorKind::TimedOut => UpstreamError::IdleTimeout,
        BodyFault::Io(_) | BodyFault::Reset | BodyFault::Framing(tidegate_wire::BodyError::Truncated) => UpstreamError::BodyCut,
        BodyFault::Framing(_) | BodyFault::BadRecord | BodyFault::Coding | BodyFault::Bomb => UpstreamError::BadResponse,
    };
    Failure::upstream(error, Progress::Answering)
}

/// Why the request's body is not sent on any further.
pub(crate) enum PumpFault {
    Client(Failure),
    /// The upstream takes no more; its answer may still come.
    Upstream,
}

/// Passes the request's body on, and tells each piece and whether trailers follow it. Reading pauses while the upstream
/// takes nothing.
pub(crate) async fn pump_body<S: Sock>(
    body: &mut BodyReader<'_, S>,
    writer: RequestWriter<'_, S>,
    pace: Pace,
    allowance: &mut Option<BodyAllowance>,
    note: impl FnMut(&[u8], bool),
    account: &impl Fn(),
) -> Result<(), PumpFault> {
    let outcome = pump_pieces(body, writer, pace, allowance, note, account).await;
    if let BodyReader::H1(reader) = body {
        // From here on the answer watches the client, and waits as long as the answer takes.
        reader.stream.sock.set_read_limit(ReadLimit::Never);
    }
    outcome
}

async fn pump_pieces<S: Sock>(
    body: &mut BodyReader<'_, S>,
    mut writer: RequestWriter<'_, S>,
    mut pace: Pace,
    allowance: &mut Option<BodyAllowance>,
    mut note: impl FnMut(&[u8], bool),
    account: &impl Fn(),
) -> Result<(), PumpFault> {
    let mut turn = 0;
    loop {
        let piece = pace.read(body).await.map_err(|fault| PumpFault::Client(client_fault(fault)))?;
        let trailers = if body.is_finished() || piece.is_none() { body.take_trailers() } else { None };
        note(piece.as_deref().unwrap_or_default(), trailers.is_some());
        let Some(piece) = piece else { return writer.finish(trailers.as_deref()).await.map_err(|_| PumpFault::Upstream) };
        if let Some(allowance) = allowance {
            allowance
                .take(piece.len() as u64)
                .map_err(|_| PumpFault::Client(Failure::Client(ClientFault::Refused(Refusal::BodyTooLarge))))?;
        }
        turn += piece.len();
        let last = body.is_finished() && trailers.is_none();
        writer.send_body(piece, last).await.map_err(|_| PumpFault::Upstream)?;
        if last {
            return Ok(());
        }
        if body.is_finished() {
            return writer.finish(trailers.as_deref()).await.map_err(|_| PumpFault::Upstream);
        }
        if turn > TURN_BYTES {
            turn = 0;
            account();
            rt::yield_now().await;
        }
    }
}

/// The least rate of a request body. Only time spent waiting for the client counts, so a slow upstream is not held
/// against it; streams over HTTP/2 without a declared length may pause for as long as they like, since that is what
/// gRPC streams do.
pub(crate) struct Pace {
    rate_bytes: u64,
    applies: bool,
    received: u64,
    waited: Duration,
    /// Before the first piece: a client that waits for a 100 waits for the upstream.
    first_grace: Duration,
}

impl Pace {
    /// `first_grace` is what the client may wait for before it begins.
    pub fn new(rate_bytes: u64, framing: BodyFraming, is_h2: bool, first_grace: Duration) -> Pace {
        let applies = rate_bytes > 0 && (!is_h2 || matches!(framing, BodyFraming::Length(_)));
        Pace { rate_bytes, applies, received: 0, waited: Duration::ZERO, first_grace }
    }

    /// How long the next piece may take.
    fn allowance(&self) -> Duration {
        let earned = Duration::from_millis(self.received.saturating_mul(1000) / self.rate_bytes.max(1));
        let waiting_to_begin = if self.received == 0 { self.first_grace } else { Duration::ZERO };
        BODY_RATE_GRACE + waiting_to_begin + earned.saturating_sub(self.waited)
    }

    pub async fn read<S: Sock>(&mut self, body: &mut BodyReader<'_, S>) -> Result<Option<Buf>, BodyFault> {
        if !self.applies {
            if let BodyReader::H1(reader) = body {
                reader.stream.sock.set_read_limit(ReadLimit::Never);
            }
            return body.read().await;
        }
        let started = rt::now();
        let piece = match body {
            BodyReader::H1(reader) => {
                reader.stream.sock.set_read_limit(ReadLimit::Until(started + self.allowance()));
                body.read().await
            }
            BodyReader::H2(_) | BodyReader::FastCgi(_) | BodyReader::Stored(_) | BodyReader::Decoded(_) | BodyReader::Empty => {
                match rt::timeout(self.allowance(), body.read()).await {
                    Some(piece) => piece,
                    None => Err(BodyFault::Io(io::ErrorKind::TimedOut.into())),
                }
            }
        }?;
        if self.received > 0 || self.first_grace.is_zero() {
            self.waited += started.elapsed();
        }
        self.received += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Ok(piece)
    }
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
                Err(PumpFault::Client(failure)) => return Poll::Ready(Err(failure)),
                Err(PumpFault::Upstream) => {}
            }
            // What was sent last may be what the answer waited for, and from now on the answer watches the client.
            return reply.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await
}

/// Drives two futures to the end of both, the first one first.
pub(crate) async fn join_both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut of_one, mut of_other) = (None, None);
    poll_fn(|cx| {
        if of_one.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(cx)
        {
            of_one = Some(output);
        }
        if of_other.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(cx)
        {
            of_other = Some(output);
        }
        match (of_one.take(), of_other.take()) {
            (Some(one), Some(other)) => Poll::Ready((one, other)),
            (one, other) => {
                (of_one, of_other) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}

/// Waits for something of the upstream's, unless the client leaves meanwhile; then nobody needs it. While the request's
/// body is being read its reader notices instead. The future is pinned by the caller, so that it is not copied into
/// this one.
pub(crate) async fn unless_gone<T, S: Sock>(
    responder: &mut Responder<'_, S>,
    request_done: &Cell<bool>,
    mut future: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Failure> {
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if request_done.get() && responder.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(Failure::Client(ClientFault::Gone)));
        }
        Poll::Pending
    })
    .await
}
