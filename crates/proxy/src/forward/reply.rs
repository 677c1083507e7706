//! The answer: its head from the upstream, interim answers, and its body to the client as it comes.

use super::Abreast;
use super::body::{TURN_BYTES, gone, unless_gone, upstream_body_fault};
use crate::cached::Kept;
use crate::exchange::{BodyLength, BodyReader, Responder};
use crate::failure::Failure;
use crate::pooled::Pooled;
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use std::cell::Cell;
use std::pin::pin;
use std::time::Instant;
use tidegate_model::Scheme;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_upstream::call::{Answer, Call, HeadKind, Keeping};
use tidegate_upstream::fault::Progress;
use tidegate_upstream::retry::retry_after;
use tidegate_upstream::verdict::Attempt;
use tidegate_wire::BodyFraming;
use tidegate_wire::head::{HeaderId, ResponseHead};

/// What became of an answer that went to the client.
pub(super) enum Replied {
    Whole(Keeping),
    /// The connection is a tunnel from here on, and this came behind the head.
    Switched(Buf),
}

impl Replied {
    /// Of the request something was not sent: nothing can follow on its connection.
    pub fn and_ends(self) -> Replied {
        match self {
            Replied::Whole(keeping) => Replied::Whole(keeping.only_if(false)),
            Replied::Switched(rest) => Replied::Switched(rest),
        }
    }
}

impl<S: Sock> Request<'_, S> {
    /// Reads the answer and passes it on as it comes.
    pub(super) async fn stream_reply(
        &mut self,
        route: &CompiledRoute,
        attempt: &Attempt<S>,
        call: &Call<S>,
        sent_at: Instant,
        request_done: &Cell<bool>,
        abreast: &Abreast,
    ) -> Result<Replied, Failure> {
        let Answer { framing, body, keeping, switched } = pin!(self.receive_head(attempt, call, sent_at, request_done)).await?;
        let mut body = BodyReader::from(body);
        if self.leaves_status(attempt.pool(), route, request_done.get() && !abreast.is_lost.get()) {
            return Err(Failure::upstream(UpstreamError::BadStatus, Progress::Sent));
        }
        abreast.is_answering.set(true);
        if let Some(rest) = switched {
            self.response.fields.remove_id(HeaderId::TransferEncoding);
            self.record.status = 101;
            let Responder::H1(responder) = &mut self.responder else { return Err(bad_response()) };
            responder.send_switch(&self.response).await.map_err(gone)?;
            return Ok(Replied::Switched(rest));
        }
        self.record.status = self.response.status;
        self.response.fields.remove_hop_by_hop();
        settle_content_length(&mut self.response, framing);
        self.complete_response();
        if self.caching.is_some()
            && let Kept::Yes { is_read } = Box::pin(self.keep_answer(route, &mut body)).await?
        {
            return Ok(Replied::Whole(keeping.only_if(is_read)));
        }
        self.name_server(attempt);
        if let Some(page) = self.page_for_upstream(route) {
            let is_drained = Box::pin(self.replace_reply(route, page, &mut body)).await?;
            return Ok(Replied::Whole(keeping.only_if(is_drained)));
        }
        pin!(self.pass_answer(route, framing, &mut body, request_done)).await?;
        Ok(Replied::Whole(keeping))
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
    async fn receive_head<'c>(
        &mut self,
        attempt: &Attempt<S>,
        call: &'c Call<S>,
        sent_at: Instant,
        request_done: &Cell<bool>,
    ) -> Result<Answer<'c, S>, Failure> {
        loop {
            let kind = {
                let reading = pin!(call.read_head(&self.settings.head_limits, &mut self.response));
                unless_gone(&mut self.responder, request_done, reading).await??
            };
            match kind {
                HeadKind::Final => break,
                HeadKind::Interim => Box::pin(self.pass_interim()).await?,
            }
            if request_done.get() {
                call.set_read_limit(ReadLimit::Until(self.first_byte_until(rt::now())));
            }
        }
        self.note_first_byte(attempt, sent_at);
        let answer = call.answer(&self.response, self.head.method, self.timeouts.idle)?;
        if answer.switched.is_some() && !self.head.fields.has(HeaderId::Upgrade) {
            return Err(bad_response());
        }
        Ok(answer)
    }

    async fn pass_interim(&mut self) -> Result<(), Failure> {
        if self.response.status == 103 {
            self.connection.worker.metrics.early_hints.increment();
        }
        self.response.fields.remove_hop_by_hop();
        self.response.fields.remove_id(HeaderId::ContentLength);
        self.responder.send_interim(&self.response).await.map_err(gone)
    }

    fn note_first_byte(&mut self, attempt: &Attempt<S>, sent_at: Instant) {
        let waited = sent_at.elapsed();
        attempt.pool().metrics.record_first_byte(waited);
        if let Some(upstream) = &mut self.record.upstream {
            upstream.first_byte = Some(waited);
        }
        let status = self.response.status;
        let rest = if status == 503 { retry_after(self.response.fields.all_named(b"retry-after").next()) } else { None };
        attempt.answered(status, waited, rest);
    }

    /// Tells a client that belongs to no server yet, or to another one, where it belongs from now on.
    fn name_server(&mut self, attempt: &Attempt<S>) {
        let compiled = &attempt.pool().compiled;
        let Some(sticky) = &compiled.sticky else { return };
        let Some(value) = &compiled.servers[attempt.position()].cookie_value else { return };
        if self.own_server(attempt.pool()) == Some(attempt.position()) {
            return;
        }
        let mut cookie: Pooled<Vec<u8>> = Pooled::take();
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

fn bad_response() -> Failure {
    Failure::upstream(UpstreamError::BadResponse, Progress::Answering)
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
