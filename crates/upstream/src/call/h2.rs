//! A call over HTTP/2: one stream of a connection that other requests use as well.

use super::{Answer, AnswerBody, HeadKind, INTERIM_MAX, Keeping, SendingHead, Start, bad_response};
use crate::connect::h2::Lease;
use crate::fault::{Progress, UpstreamFault, Was};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tidegate_message::body::H2BodyReader;
use tidegate_message::h2::{NotSent, Request, StreamFault, StreamHandle};
use tidegate_model::Protocol;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::head::{Fields, Method, RequestHead, ResponseHead};
use tidegate_wire::http1::response_framing;
use tidegate_wire::websocket::KEY_FIELD;
use tidegate_wire::{BodyFraming, HeadError};

pub struct H2Call {
    is_tls: bool,
    /// How long the server may take none of the body.
    write_idle: Cell<Duration>,
    /// A 2xx answer makes the stream a tunnel.
    is_extended_connect: Cell<bool>,
    /// By when the answer has to begin; none while the request is on its way.
    answer_by: Cell<Option<Instant>>,
    /// While it is waited for.
    clock: RefCell<Option<Clock>>,
    interims: Cell<u8>,
    /// Once the head was sent. Dropping it before the end resets the stream.
    stream: OnceCell<StreamHandle>,
    lease: Lease,
}

impl H2Call {
    pub(super) fn protocol(&self) -> Protocol {
        if self.is_tls { Protocol::H2 } else { Protocol::H2c }
    }

    pub(super) fn new(lease: Lease, is_tls: bool) -> H2Call {
        H2Call {
            is_tls,
            write_idle: Cell::new(Duration::MAX),
            is_extended_connect: Cell::new(false),
            answer_by: Cell::new(None),
            clock: RefCell::default(),
            interims: Cell::new(0),
            stream: OnceCell::new(),
            lease,
        }
    }

    pub(super) fn was(&self) -> Was {
        Was::Shared(self.lease.standing())
    }

    pub(super) fn retire(&self) {
        self.lease.retire();
    }

    pub(super) fn send_head<S: Sock>(&self, start: Start<'_>, idle: Duration) -> SendingHead<'_, S> {
        let Start { head, first, wants_trailers, protocol, is_whole, .. } = start;
        let scheme = if self.is_tls { "https" } else { "http" };
        let bare = protocol.map(|_| Box::new(without_key(head)));
        let head = bare.as_deref().unwrap_or(head);
        // What follows the head of an extended CONNECT is the tunnel.
        let ends_stream = is_whole && first.is_none() && protocol.is_none();
        self.is_extended_connect.set(protocol.is_some());
        let request = Request { head, scheme, wants_trailers, protocol, ends_stream };
        let connection = self.lease.connection();
        let stream = match connection.send_request(&request) {
            Ok(stream) => stream,
            Err(why) => return SendingHead::Over(Err(self.unsent(why).into())),
        };
        self.write_idle.set(idle);
        let stream = self.stream.get_or_init(|| stream);
        match first {
            None => SendingHead::Over(Ok(())),
            Some(piece) => {
                let sending = self.send_first(stream, piece, is_whole, idle);
                SendingHead::Boxed(Box::pin(async move { Ok(sending.await?) }))
            }
        }
    }

    pub(super) async fn send_body(&self, piece: Buf, is_last: bool) -> io::Result<()> {
        let (stream, idle) = (self.stream()?, self.write_idle.get());
        // An answer that came early left the piece before this one behind.
        stream.until_sent(idle).await?;
        stream.send_body(piece, is_last, idle).await
    }

    pub(super) async fn finish(&self, trailers: Option<&Fields>) -> io::Result<()> {
        let stream = self.stream()?;
        stream.until_sent(self.write_idle.get()).await?;
        stream.finish(trailers)
    }

    pub(super) fn shared_stream(&self) -> Option<&StreamHandle> {
        self.stream.get()
    }

    fn stream(&self) -> io::Result<&StreamHandle> {
        self.stream.get().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    pub(super) fn set_read_limit(&self, limit: ReadLimit) {
        self.answer_by.set(match limit {
            ReadLimit::Until(until) => Some(until),
            // Streams may be silent while their request is on its way; bodies have a bound of their own.
            ReadLimit::Idle(_) | ReadLimit::Never => None,
        });
    }

    pub(super) fn poll_begun(&self, cx: &mut Context<'_>) -> Poll<Result<(), UpstreamFault>> {
        let stream = self.stream().map_err(|_| bad_response())?;
        if let Poll::Ready(arrived) = stream.poll_head(cx) {
            self.clock.take();
            return Poll::Ready(arrived.map_err(|fault| self.upstream_fault(fault)));
        }
        let Some(by) = self.answer_by.get() else { return Poll::Pending };
        let mut clock = self.clock.borrow_mut();
        let clock = clock.get_or_insert_with(|| Clock::new(by));
        ready!(clock.timer.as_mut().poll(cx));
        // A server that said nothing at all meanwhile may be gone, and nobody would tell: others get another
        // connection.
        if self.lease.connection().heard_at() < clock.began {
            self.retire();
        }
        Poll::Ready(Err(UpstreamFault::new(UpstreamError::FirstByteTimeout, Progress::Sent)))
    }

    pub(super) fn is_head_coming(&self) -> bool {
        self.lease.connection().head_began().is_some()
    }

    pub(super) fn take_head(&self, head: &mut ResponseHead) -> Result<HeadKind, UpstreamFault> {
        if !self.stream().is_ok_and(|stream| stream.take_head(head)) {
            return Err(bad_response());
        }
        if head.status >= 200 {
            self.lease.note_answered();
            return Ok(HeadKind::Final);
        }
        self.interims.set(self.interims.get() + 1);
        if self.interims.get() > INTERIM_MAX { Err(bad_response()) } else { Ok(HeadKind::Interim) }
    }

    pub(super) fn answer<'c, S>(
        &self,
        head: &ResponseHead,
        method: Method,
        idle: Duration,
    ) -> Result<Answer<'c, S>, UpstreamFault> {
        let stream = self.stream.get();
        let framing = framing(head, method, stream.is_none_or(StreamHandle::is_read)).map_err(|_| bad_response())?;
        let body = match stream.filter(|_| framing != BodyFraming::None) {
            Some(stream) => AnswerBody::H2(H2BodyReader::new(stream.clone(), Some(idle))),
            // Whatever the server sends behind the head is nobody's: dropping the stream resets it.
            None => AnswerBody::Empty,
        };
        let is_switch = self.is_extended_connect.get() && (200..300).contains(&head.status);
        let (body, switched) = if is_switch { (AnswerBody::Empty, Some(Buf::empty())) } else { (body, None) };
        Ok(Answer { framing, body, keeping: Keeping { is_reusable: true, announced_seconds: None }, switched })
    }

    /// Sends the first piece of a body, and waits until it is out or an answer is there: a server that takes nothing of
    /// a body may answer all the same.
    async fn send_first(&self, stream: &StreamHandle, piece: Buf, is_whole: bool, idle: Duration) -> Result<(), UpstreamFault> {
        let mut sending = pin!(stream.send_body(piece, is_whole, idle));
        poll_fn(|cx| {
            let sent = sending.as_mut().poll(cx);
            if let Poll::Ready(Ok(())) = stream.poll_head(cx) {
                return Poll::Ready(Ok(()));
            }
            let lost = UpstreamFault::new(UpstreamError::Reset, Progress::Sent);
            let fault = || stream.fault().map_or(lost, |fault| self.upstream_fault(fault));
            sent.map(|sent| sent.map_err(|_| fault()))
        })
        .await
    }

    /// RFC 9113 section 8.7: a refused stream was not processed, nor was one above the last that a GOAWAY names.
    fn upstream_fault(&self, fault: StreamFault) -> UpstreamFault {
        match fault {
            StreamFault::Reset { code: ErrorCode::RefusedStream, .. } => {
                UpstreamFault::new(UpstreamError::Reset, Progress::NothingSent)
            }
            // A fault of the message that we reset for is no answer, and is not asked for again.
            StreamFault::Reset { by_peer: false, .. } => bad_response(),
            StreamFault::Reset { by_peer: true, .. } => UpstreamFault::new(UpstreamError::Reset, Progress::Sent),
            StreamFault::Unprocessed => self.unprocessed(),
            StreamFault::Malformed(HeadError::HeadTooLarge | HeadError::TooManyFields) => {
                UpstreamFault::new(UpstreamError::HeadTooLarge, Progress::Answering)
            }
            StreamFault::Malformed(_) | StreamFault::BadBody(_) => bad_response(),
            StreamFault::Lost => UpstreamFault::new(self.lease.loss(), Progress::Sent),
            // Sent again it might be answered in the same way, and end a connection each time.
            StreamFault::Broken => bad_response(),
            StreamFault::TooLarge => UpstreamFault::new(UpstreamError::RequestHeadTooLarge, Progress::Sent),
        }
    }

    fn unsent(&self, why: NotSent) -> UpstreamFault {
        match why {
            NotSent::TooLarge => UpstreamFault::unsent(UpstreamError::RequestHeadTooLarge),
            // The server has left since the connection was chosen.
            NotSent::NoStream if self.lease.connection().is_leaving() => self.unprocessed(),
            // Fewer streams than it said, as if it had refused this one itself.
            NotSent::NoStream => UpstreamFault::unsent(UpstreamError::Reset),
        }
    }

    /// The server left before it looked at the request.
    fn unprocessed(&self) -> UpstreamFault {
        let has_taken_others = self.lease.note_left();
        let progress = if has_taken_others { Progress::PassedOver } else { Progress::NothingSent };
        UpstreamFault::new(UpstreamError::GoAway, progress)
    }
}

/// How long an answer may still be waited for.
struct Clock {
    began: Instant,
    timer: Pin<Box<dyn Future<Output = ()>>>,
}

impl Clock {
    fn new(by: Instant) -> Clock {
        let began = rt::now();
        Clock { began, timer: Box::pin(rt::sleep(by.saturating_duration_since(began))) }
    }
}

/// The key of a handshake over HTTP/1.1 has no use here (RFC 8441 section 5), and the hop-by-hop fields are left out
/// where heads are written.
fn without_key(head: &RequestHead) -> RequestHead {
    let mut head = head.clone();
    head.fields.remove(KEY_FIELD);
    head
}

/// How long the body is. HTTP/2 ends it without a word; HTTP/1.1 clients must be told before.
fn framing(head: &ResponseHead, method: Method, has_ended: bool) -> Result<BodyFraming, HeadError> {
    Ok(match response_framing(head, method)? {
        // An answer that ends with its head has no body; HTTP/1.1 clients must be told so.
        BodyFraming::UntilClose if has_ended => BodyFraming::Length(0),
        BodyFraming::UntilClose => BodyFraming::Chunked,
        framing @ (BodyFraming::None | BodyFraming::Length(_) | BodyFraming::Chunked) => framing,
    })
}
