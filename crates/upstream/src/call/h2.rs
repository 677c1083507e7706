//! A call over HTTP/2: one stream of a connection that other requests use as well. No type of the h2 library leaves
//! this file but inside a body.

use super::{Answer, AnswerBody, HeadKind, INTERIM_MAX, Keeping, SendFault, Start, bad_response};
use crate::connect::h2::Lease;
use crate::fault::{Progress, UpstreamFault};
use ::h2::client::ResponseFuture;
use ::h2::{RecvStream, SendStream};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tidegate_message::body::H2UpstreamBody;
use tidegate_message::h2_data::{send_data, send_end};
use tidegate_message::h2_head;
use tidegate_model::Timeouts;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, rt};
use tidegate_wire::head::{Fields, HeaderId, Method, ResponseHead};
use tidegate_wire::{BodyError, BodyFraming, HeadLimits};

pub struct H2Call {
    is_tls: bool,
    /// How long the server may take none of the body.
    write_idle: Cell<Duration>,
    /// By when the answer has to begin; none while the request is on its way.
    answer_by: Cell<Option<Instant>>,
    interims: Cell<u8>,
    sending: Cell<Option<SendStream<Bytes>>>,
    answer: RefCell<AnswerState>,
    lease: Lease,
}

/// How far the answer is.
enum AnswerState {
    /// The request was not sent.
    Unasked,
    Awaited(ResponseFuture),
    /// An interim head came that nobody has read.
    Interim(http::response::Parts, ResponseFuture),
    /// The final head came and was not read.
    Arrived(http::Response<RecvStream>),
    /// The head was read.
    Body(RecvStream),
    /// Somebody has the body.
    Taken,
}

impl H2Call {
    pub(super) fn new(lease: Lease, is_tls: bool) -> H2Call {
        H2Call {
            is_tls,
            write_idle: Cell::new(Duration::MAX),
            answer_by: Cell::new(None),
            interims: Cell::new(0),
            sending: Cell::new(None),
            answer: RefCell::new(AnswerState::Unasked),
            lease,
        }
    }

    pub(super) fn retire(&self) {
        self.lease.retire();
    }

    pub(super) async fn send_head(&self, start: Start<'_>, timeouts: &Timeouts) -> Result<(), SendFault> {
        let Start { head, first, wants_trailers, is_whole, .. } = start;
        let request = h2_head::request(head, if self.is_tls { "https" } else { "http" }, wants_trailers)
            .ok_or(SendFault::Unsendable(BodyError::BadTrailer))?;
        let refused = |error: ::h2::Error| {
            self.retire();
            UpstreamFault::unsent(h2_error(&error))
        };
        let ready = rt::timeout(timeouts.connect, self.lease.sender.clone().ready()).await;
        let mut sender = ready.ok_or(UpstreamFault::unsent(UpstreamError::PoolFull))?.map_err(refused)?;
        let (response, sending) = sender.send_request(request, is_whole && first.is_none()).map_err(refused)?;
        self.write_idle.set(timeouts.idle);
        self.sending.set(Some(sending));
        *self.answer.borrow_mut() = AnswerState::Awaited(response);
        if let Some(piece) = first {
            let sent = self.send_body(piece, is_whole).await;
            sent.map_err(|_| UpstreamFault::new(UpstreamError::Reset, Progress::Sent))?;
        }
        Ok(())
    }

    pub(super) async fn send_body(&self, piece: Buf, is_last: bool) -> io::Result<()> {
        let Some(mut sending) = self.sending.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let sent = send_data(&mut sending, piece, is_last, self.write_idle.get()).await;
        self.sending.set(Some(sending));
        sent
    }

    pub(super) fn finish(&self, trailers: Option<&Fields>) -> io::Result<()> {
        let Some(mut sending) = self.sending.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let sent = send_end(&mut sending, trailers);
        self.sending.set(Some(sending));
        sent
    }

    pub(super) fn set_read_limit(&self, limit: ReadLimit) {
        self.answer_by.set(match limit {
            ReadLimit::Until(until) => Some(until),
            // Streams may be silent while their request is on its way; bodies have a bound of their own.
            ReadLimit::Idle(_) | ReadLimit::Never => None,
        });
    }

    pub(super) async fn begin_answer(&self) -> Result<(), UpstreamFault> {
        let mut clock: Option<Pin<Box<dyn Future<Output = ()>>>> = None;
        poll_fn(|cx| {
            if let Poll::Ready(arrived) = self.answer.borrow_mut().poll_arrived(cx) {
                return Poll::Ready(arrived.map_err(|error| UpstreamFault::new(h2_error(&error), h2_reach(&error))));
            }
            let Some(by) = self.answer_by.get() else { return Poll::Pending };
            let left = || Box::pin(rt::sleep(by.saturating_duration_since(rt::now())));
            let late = Err(UpstreamFault::new(UpstreamError::FirstByteTimeout, Progress::Sent));
            clock.get_or_insert_with(|| left()).as_mut().poll(cx).map(|()| late)
        })
        .await
    }

    pub(super) async fn read_head(&self, limits: &HeadLimits, head: &mut ResponseHead) -> Result<HeadKind, UpstreamFault> {
        self.begin_answer().await?;
        let mut answer = self.answer.borrow_mut();
        let (parts, next, kind) = match std::mem::replace(&mut *answer, AnswerState::Taken) {
            AnswerState::Interim(parts, response) => {
                self.interims.set(self.interims.get() + 1);
                // RFC 9113 section 8.6: there is no 101 in HTTP/2.
                if self.interims.get() > INTERIM_MAX || parts.status == http::StatusCode::SWITCHING_PROTOCOLS {
                    return Err(bad_response());
                }
                (parts, AnswerState::Awaited(response), HeadKind::Interim)
            }
            AnswerState::Arrived(response) => {
                let (parts, body) = response.into_parts();
                (parts, AnswerState::Body(body), HeadKind::Final)
            }
            AnswerState::Unasked | AnswerState::Awaited(_) | AnswerState::Body(_) | AnswerState::Taken => {
                return Err(bad_response());
            }
        };
        *answer = next;
        if h2_head::read_response(&parts, limits, head) {
            Ok(kind)
        } else {
            Err(UpstreamFault::new(UpstreamError::HeadTooLarge, Progress::Answering))
        }
    }

    pub(super) fn answer<'c, S>(&self, head: &ResponseHead, method: Method, idle: Duration) -> Answer<'c, S> {
        let body = match std::mem::replace(&mut *self.answer.borrow_mut(), AnswerState::Taken) {
            AnswerState::Body(body) => Some(body),
            AnswerState::Unasked
            | AnswerState::Awaited(_)
            | AnswerState::Interim(..)
            | AnswerState::Arrived(_)
            | AnswerState::Taken => None,
        };
        let framing = framing(head, method, body.as_ref().is_none_or(RecvStream::is_end_stream));
        let body = match body.filter(|_| framing != BodyFraming::None) {
            Some(body) => AnswerBody::H2(H2UpstreamBody::new(body, Some(idle))),
            // Whatever the server sends behind the head is nobody's: dropping the stream resets it.
            None => AnswerBody::Empty,
        };
        Answer { framing, body, keeping: Keeping { is_reusable: true, announced_seconds: None }, switched: None }
    }
}

impl AnswerState {
    /// Ready when there is a head that nobody has read, or when none will come.
    fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ::h2::Error>> {
        let AnswerState::Awaited(response) = self else { return Poll::Ready(Ok(())) };
        if let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
            let parts = interim?.into_parts().0;
            if let AnswerState::Awaited(response) = std::mem::replace(self, AnswerState::Taken) {
                *self = AnswerState::Interim(parts, response);
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(response).poll(cx).map_ok(|answer| *self = AnswerState::Arrived(answer))
    }
}

/// How long the body is. HTTP/2 ends it without a word; HTTP/1.1 clients must be told before.
fn framing(head: &ResponseHead, method: Method, has_ended: bool) -> BodyFraming {
    let declared = head.fields.get(HeaderId::ContentLength).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let is_bodiless = method == Method::Head || matches!(head.status, 204 | 304);
    match (is_bodiless, declared) {
        (true, _) => BodyFraming::None,
        (false, Some(length)) => BodyFraming::Length(length),
        // An answer that ends with its head has no body; HTTP/1.1 clients must be told so.
        (false, None) if has_ended => BodyFraming::Length(0),
        (false, None) => BodyFraming::Chunked,
    }
}

fn h2_error(error: &::h2::Error) -> UpstreamError {
    match (error.is_go_away(), error.is_reset()) {
        (true, _) => UpstreamError::GoAway,
        (false, true) => UpstreamError::Reset,
        // The connection broke under its streams.
        (false, false) => UpstreamError::ClosedEarly,
    }
}

/// RFC 9113 section 8.7: a refused stream was not processed.
fn h2_reach(error: &::h2::Error) -> Progress {
    if error.reason() == Some(::h2::Reason::REFUSED_STREAM) { Progress::NothingSent } else { Progress::Sent }
}
