//! The answer: its head from the upstream, interim answers, and its body to the client as it comes.

use super::Abreast;
use super::body::{TURN_BYTES, gone, unless_gone, upstream_body_fault};
use crate::cached::Kept;
use crate::exchange::{BodyLength, BodyReader, H1BodyReader, H2BodyReader, Responder};
use crate::failure::Failure;
use crate::h2_head;
use crate::lease::Lease;
use crate::read_head::{HeadFault, read_rest_of_head};
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_model::Scheme;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, Stream, rt};
use tidegate_upstream::fault::{Reach, upstream_read_error};
use tidegate_upstream::retry::retry_after;
use tidegate_upstream::verdict::Trial;
use tidegate_wire::head::{HeaderId, Method, ResponseHead};
use tidegate_wire::http1::{keep_alive_response, keep_alive_timeout_seconds, parse_response, response_framing};
use tidegate_wire::{BodyFraming, HeadError, Parsed};

/// Where the answer will come from.
pub(super) enum Reply<'u, S: Sock> {
    /// `first`: what came of it already.
    H1 {
        stream: &'u Stream<S>,
        sent_at: Instant,
        first: Buf,
    },
    H2 {
        response: Box<::h2::client::ResponseFuture>,
        sent_at: Instant,
        head: Option<H2Head>,
    },
}

/// What the answer's head says about what follows.
pub(super) struct Answer {
    framing: BodyFraming,
    /// 101: the connection is a tunnel from here on.
    switched: bool,
    reusable: bool,
    keep_alive_seconds: Option<u64>,
    /// What followed the head of a switch.
    rest: Buf,
}

pub(super) enum Replied {
    Whole { reusable: bool, keep_alive_seconds: Option<u64> },
    Switched(Buf),
}

impl Answer {
    fn over_h2(head: &ResponseHead, method: Method, ended: bool) -> Answer {
        let declared = head.fields.get(HeaderId::ContentLength).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let bodiless = method == Method::Head || matches!(head.status, 204 | 304);
        let framing = match (bodiless, declared) {
            (true, _) => BodyFraming::None,
            (false, Some(length)) => BodyFraming::Length(length),
            // An answer that ends with its head has no body; HTTP/1.1 clients must be told so.
            (false, None) if ended => BodyFraming::Length(0),
            (false, None) => BodyFraming::Chunked,
        };
        Answer { framing, switched: false, reusable: true, keep_alive_seconds: None, rest: Buf::empty() }
    }

    fn replied(&self) -> Replied {
        Replied::Whole { reusable: self.reusable, keep_alive_seconds: self.keep_alive_seconds }
    }
}

/// Interim answers (1xx) of one request: each restarts the clock of the final one, and all are passed on.
const INTERIM_MAX: usize = 16;

impl<S: Sock> Request<'_, S> {
    /// Reads the answer and passes it on as it comes.
    pub(super) async fn stream_reply(
        &mut self,
        route: &CompiledRoute,
        trial: &Trial<S>,
        reply: Reply<'_, S>,
        request_done: &Cell<bool>,
        abreast: &Abreast,
    ) -> Result<Replied, Failure> {
        let (answer, mut body) = pin!(self.receive_head(trial, reply, request_done)).await?;
        if self.leaves_status(trial.pool(), route, request_done.get() && !abreast.is_lost.get()) {
            return Err(Failure::upstream(UpstreamError::BadStatus, Reach::Sent));
        }
        abreast.is_answering.set(true);
        if answer.switched {
            self.response.fields.remove_id(HeaderId::TransferEncoding);
            self.record.status = 101;
            let Responder::H1(responder) = &mut self.responder else { return Err(bad_response()) };
            responder.send_switch(&self.response).await.map_err(gone)?;
            return Ok(Replied::Switched(answer.rest));
        }
        self.record.status = self.response.status;
        self.response.fields.remove_hop_by_hop();
        settle_content_length(&mut self.response, answer.framing);
        self.complete_response();
        if self.caching.is_some()
            && let Kept::Yes { is_read } = Box::pin(self.keep_answer(route, &mut body)).await?
        {
            return Ok(Replied::Whole { reusable: answer.reusable && is_read, keep_alive_seconds: answer.keep_alive_seconds });
        }
        self.name_server(trial);
        if let Some(page) = self.page_for_upstream(route) {
            let is_drained = Box::pin(self.replace_reply(route, page, &mut body)).await?;
            return Ok(Replied::Whole { reusable: answer.reusable && is_drained, keep_alive_seconds: answer.keep_alive_seconds });
        }
        pin!(self.pass_answer(route, answer.framing, &mut body, request_done)).await?;
        Ok(answer.replied())
    }

    /// The answer whose head is in `response` to the client: through the route's steps, and its body as it comes.
    pub(crate) async fn pass_answer(
        &mut self,
        route: &CompiledRoute,
        framing: BodyFraming,
        body: &mut BodyReader<'_, S>,
        request_done: &Cell<bool>,
    ) -> Result<(), Failure> {
        self.run_response_steps(route);
        if self.connection.is_draining() {
            self.responder.close_after();
        }
        let (length, bytes) = match framing {
            BodyFraming::None => (BodyLength::None, None),
            BodyFraming::Length(bytes) => (BodyLength::Known, Some(bytes)),
            BodyFraming::Chunked | BodyFraming::UntilClose => (BodyLength::Unknown, None),
        };
        let first = body.at_hand().map_err(|fault| upstream_body_fault(&fault))?;
        if let Some(coded) = self.begin_coding(route, bytes) {
            // Boxed, as every branch that the common request does not take.
            return Box::pin(self.stream_coded(coded, body, first, request_done)).await;
        }
        pin!(self.stream_plain(length, body, first, request_done)).await
    }

    /// Sends the head, which is complete, and the body as it comes. `first`: what of it is there already.
    pub(crate) async fn stream_plain(
        &mut self,
        length: BodyLength,
        body: &mut BodyReader<'_, S>,
        first: Option<Buf>,
        request_done: &Cell<bool>,
    ) -> Result<(), Failure> {
        let mut trailers = if body.is_finished() { body.take_trailers() } else { None };
        let whole = body.is_finished() && trailers.is_none();
        let mut turn = first.as_ref().map_or(0, |piece| piece.len());
        self.responder.send_head(&mut self.response, length, first, whole).await.map_err(gone)?;
        while !body.is_finished() {
            let piece = unless_gone(&mut self.responder, request_done, pin!(body.read())).await?;
            let piece = piece.map_err(|fault| upstream_body_fault(&fault))?;
            trailers = if body.is_finished() || piece.is_none() { body.take_trailers() } else { None };
            let Some(piece) = piece else { break };
            turn += piece.len();
            let last = body.is_finished() && trailers.is_none();
            self.responder.send_body(piece, last).await.map_err(gone)?;
            if last {
                return Ok(());
            }
            if turn > TURN_BYTES {
                turn = 0;
                self.connection.account_bytes();
                if let Some(stream) = body.stream() {
                    self.connection.account_upstream_bytes(stream);
                }
                rt::yield_now().await;
            }
        }
        if !whole {
            self.responder.finish(trailers.as_deref()).await.map_err(gone)?;
        }
        Ok(())
    }

    /// The head of the final answer; interim answers are passed on as they come.
    async fn receive_head<'u>(
        &mut self,
        trial: &Trial<S>,
        reply: Reply<'u, S>,
        request_done: &Cell<bool>,
    ) -> Result<(Answer, BodyReader<'u, S>), Failure> {
        match reply {
            Reply::H1 { stream, sent_at, first } => {
                let mut rest = first;
                let mut interim = 0;
                loop {
                    if rest.is_empty() {
                        let read = unless_gone(&mut self.responder, request_done, pin!(stream.read())).await?;
                        rest = first_of_head(read)?;
                    }
                    rest = match parse_response(&rest, &self.settings.head_limits, &mut self.response) {
                        Ok(Parsed::Complete { consumed }) => {
                            rest.advance(consumed);
                            rest
                        }
                        Ok(Parsed::Partial) => Box::pin(self.receive_rest_of_head(stream, rest, request_done)).await?,
                        Err(error) => return Err(head_fault(HeadFault::Bad(error))),
                    };
                    if self.response.status >= 200 || self.response.status == 101 {
                        break;
                    }
                    interim += 1;
                    if interim > INTERIM_MAX {
                        return Err(bad_response());
                    }
                    Box::pin(self.pass_interim()).await?;
                    if request_done.get() {
                        stream.sock.set_read_limit(ReadLimit::Until(self.first_byte_until(rt::now())));
                    }
                }
                self.note_first_byte(trial, sent_at);
                stream.sock.set_read_limit(ReadLimit::Idle(self.timeouts.idle));
                let switched = self.response.status == 101;
                if switched && !self.head.fields.has(HeaderId::Upgrade) {
                    return Err(bad_response());
                }
                let framing = response_framing(&self.response, self.head.method).map_err(|_| bad_response())?;
                let answer = Answer {
                    framing,
                    switched,
                    reusable: keep_alive_response(&self.response) && framing != BodyFraming::UntilClose,
                    keep_alive_seconds: keep_alive_timeout_seconds(&self.response),
                    rest: if switched { std::mem::replace(&mut rest, Buf::empty()) } else { Buf::empty() },
                };
                let body = BodyReader::H1(H1BodyReader::new(stream, if switched { BodyFraming::None } else { framing }, rest));
                Ok((answer, body))
            }
            Reply::H2 { response, sent_at, head } => {
                let (answer, body) = Box::pin(self.receive_head_h2(*response, head, request_done)).await?;
                self.note_first_byte(trial, sent_at);
                // Without a body whatever the upstream sends behind the head is nobody's: dropping the stream resets it.
                let body = if answer.framing == BodyFraming::None { BodyReader::Empty } else { BodyReader::H2(body) };
                Ok((answer, body))
            }
        }
    }

    async fn receive_rest_of_head(&mut self, stream: &Stream<S>, data: Buf, request_done: &Cell<bool>) -> Result<Buf, Failure> {
        let limits = self.settings.head_limits;
        let response = &mut self.response;
        let rest = read_rest_of_head(stream, data, limits.head_bytes_max, None, |data| parse_response(data, &limits, response));
        unless_gone(&mut self.responder, request_done, pin!(rest)).await?.map_err(head_fault)
    }

    async fn receive_head_h2(
        &mut self,
        mut response: ::h2::client::ResponseFuture,
        mut begun: Option<H2Head>,
        request_done: &Cell<bool>,
    ) -> Result<(Answer, H2BodyReader), Failure> {
        let limits = self.settings.head_limits;
        let too_large = Failure::upstream(UpstreamError::HeadTooLarge, Reach::Answering);
        let now = rt::now();
        let first_byte = self.first_byte_until(now).saturating_duration_since(now);
        let mut interim = 0;
        let parts = loop {
            let head = match begun.take() {
                Some(head) => Some(Ok(head)),
                None => {
                    let waiting = pin!(within(first_byte, request_done, next_h2_head(&mut response)));
                    unless_gone(&mut self.responder, request_done, waiting).await?
                }
            };
            match head.ok_or(Failure::upstream(UpstreamError::FirstByteTimeout, Reach::Sent))? {
                Ok(H2Head::Final(parts)) => break *parts,
                Ok(H2Head::Interim(parts)) => {
                    interim += 1;
                    // RFC 9113 section 8.6: there is no 101 in HTTP/2.
                    if interim > INTERIM_MAX || parts.status == http::StatusCode::SWITCHING_PROTOCOLS {
                        return Err(bad_response());
                    }
                    if !h2_head::read_response(&parts, &limits, &mut self.response) {
                        return Err(too_large);
                    }
                    self.pass_interim().await?;
                }
                Err(error) => return Err(Failure::upstream(h2_error(&error), h2_reach(&error))),
            }
        };
        let (head, body) = parts.into_parts();
        if !h2_head::read_response(&head, &limits, &mut self.response) {
            return Err(too_large);
        }
        Ok((
            Answer::over_h2(&self.response, self.head.method, body.is_end_stream()),
            H2BodyReader::new(body, Some(self.timeouts.idle)),
        ))
    }

    async fn pass_interim(&mut self) -> Result<(), Failure> {
        if self.response.status == 103 {
            self.connection.worker.metrics.early_hints.increment();
        }
        self.response.fields.remove_hop_by_hop();
        self.response.fields.remove_id(HeaderId::ContentLength);
        self.responder.send_interim(&self.response).await.map_err(gone)
    }

    fn note_first_byte(&mut self, trial: &Trial<S>, sent_at: Instant) {
        let waited = sent_at.elapsed();
        trial.pool().metrics.record_first_byte(waited);
        if let Some(upstream) = &mut self.record.upstream {
            upstream.first_byte = Some(waited);
        }
        let status = self.response.status;
        let rest = if status == 503 { retry_after(self.response.fields.all_named(b"retry-after").next()) } else { None };
        trial.answered(status, waited, rest);
    }

    /// Tells a client that belongs to no server yet, or to another one, where it belongs from now on.
    fn name_server(&mut self, trial: &Trial<S>) {
        let compiled = &trial.pool().compiled;
        let Some(sticky) = &compiled.sticky else { return };
        let Some(value) = &compiled.servers[trial.position()].cookie_value else { return };
        if self.own_server(trial.pool()) == Some(trial.position()) {
            return;
        }
        let mut cookie: Lease<Vec<u8>> = Lease::take();
        let secure: &[u8] = if self.scheme() == Scheme::Https { b"; Secure" } else { b"" };
        for part in [sticky.cookie.as_bytes(), b"=", value.as_bytes(), sticky.attributes.as_bytes(), secure] {
            cookie.extend_from_slice(part);
        }
        self.response.fields.push(b"set-cookie", &cookie);
    }
}

/// One `Content-Length` where there may be one, none where there must not.
pub(crate) fn settle_content_length(head: &mut ResponseHead, framing: BodyFraming) {
    match framing {
        BodyFraming::Length(length) => {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(length).as_bytes();
            let is_settled = head.fields.all(HeaderId::ContentLength).eq([digits]);
            if !is_settled {
                head.fields.set(b"content-length", digits);
            }
        }
        // RFC 9110 section 8.6: not in 204; in the answer to HEAD and in 304 it describes what is not sent.
        BodyFraming::None if head.status == 204 => {
            head.fields.remove_id(HeaderId::ContentLength);
        }
        BodyFraming::None => {
            // What describes nothing that is sent may be left out; two that disagree must be.
            if head.fields.all(HeaderId::ContentLength).nth(1).is_some() {
                head.fields.remove_id(HeaderId::ContentLength);
            }
        }
        BodyFraming::Chunked | BodyFraming::UntilClose => {
            head.fields.remove_id(HeaderId::ContentLength);
        }
    }
}

/// The first piece of an answer, or why there is none.
pub(super) fn first_of_head(read: io::Result<Buf>) -> Result<Buf, Failure> {
    match read {
        Ok(data) if data.is_empty() => Err(Failure::upstream(UpstreamError::ClosedEarly, Reach::Sent)),
        Ok(data) => Ok(data),
        Err(error) => Err(Failure::upstream(upstream_read_error(&error), Reach::Sent)),
    }
}

fn head_fault(fault: HeadFault) -> Failure {
    let error = match fault {
        HeadFault::Io(error) => upstream_read_error(&error),
        HeadFault::Cut => UpstreamError::ClosedEarly,
        HeadFault::Bad(HeadError::HeadTooLarge | HeadError::TooManyFields) => UpstreamError::HeadTooLarge,
        HeadFault::Bad(_) => UpstreamError::BadResponse,
    };
    Failure::upstream(error, Reach::Answering)
}

/// The future's output, or `None` when it takes longer, counted from the end of the request.
async fn within<T>(limit: Duration, request_done: &Cell<bool>, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut clock: Option<Pin<Box<dyn Future<Output = ()>>>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        if !request_done.get() {
            return Poll::Pending;
        }
        clock.get_or_insert_with(|| Box::pin(rt::sleep(limit))).as_mut().poll(cx).map(|()| None)
    })
    .await
}

pub(super) enum H2Head {
    Interim(http::response::Parts),
    Final(Box<http::Response<::h2::RecvStream>>),
}

pub(super) async fn next_h2_head(response: &mut ::h2::client::ResponseFuture) -> Result<H2Head, ::h2::Error> {
    poll_fn(|cx| {
        if let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
            return Poll::Ready(interim.map(|interim| H2Head::Interim(interim.into_parts().0)));
        }
        std::pin::Pin::new(&mut *response).poll(cx).map_ok(|answer| H2Head::Final(Box::new(answer)))
    })
    .await
}

pub(super) fn h2_error(error: &::h2::Error) -> UpstreamError {
    match (error.is_go_away(), error.is_reset()) {
        (true, _) => UpstreamError::GoAway,
        (false, true) => UpstreamError::Reset,
        // The connection broke under its streams.
        (false, false) => UpstreamError::ClosedEarly,
    }
}

/// RFC 9113 section 8.7: a refused stream was not processed.
pub(super) fn h2_reach(error: &::h2::Error) -> Reach {
    if error.reason() == Some(::h2::Reason::REFUSED_STREAM) { Reach::NothingSent } else { Reach::Sent }
}

fn bad_response() -> Failure {
    Failure::upstream(UpstreamError::BadResponse, Reach::Answering)
}

#[cfg(test)]
mod tests {
    use super::settle_content_length;
    use tidegate_wire::BodyFraming;
    use tidegate_wire::head::{HeaderId, ResponseHead};

    #[test]
    fn a_length_is_stated_once_and_in_one_way_or_not_at_all() {
        let check = |status: u16, framing: BodyFraming, stated: &[&str], expected: &[&str]| {
            let mut head = ResponseHead { status, ..ResponseHead::default() };
            for value in stated {
                head.fields.push(b"Content-Length", value.as_bytes());
            }
            settle_content_length(&mut head, framing);
            let left: Vec<_> =
                head.fields.all(HeaderId::ContentLength).map(|value| String::from_utf8_lossy(value).into_owned()).collect();
            assert_eq!(left, expected, "{status} {framing:?} {stated:?}");
        };
        check(200, BodyFraming::Length(2), &["2"], &["2"]);
        check(200, BodyFraming::Length(2), &["2", "2"], &["2"]);
        check(200, BodyFraming::Length(2), &["2, 2"], &["2"]);
        check(200, BodyFraming::Length(2), &["02"], &["2"]);
        check(200, BodyFraming::Length(0), &[], &["0"]);
        check(200, BodyFraming::Chunked, &["7"], &[]);
        check(200, BodyFraming::UntilClose, &[], &[]);
        check(204, BodyFraming::None, &["0"], &[]);
        check(304, BodyFraming::None, &["7"], &["7"]);
        check(200, BodyFraming::None, &["7", "8"], &[]);
    }
}
