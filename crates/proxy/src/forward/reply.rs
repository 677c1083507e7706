//! The answer: its head from the upstream, interim answers, and its body to the client as it comes.

use super::body::reader_of;
use super::{Abreast, Forwarding, Way};
use crate::cached::{Kept, keep_answer};
use crate::error_page::{page_for_upstream, replace_reply};
use crate::failure::Failure;
use crate::snapshot::CompiledRoute;
use crate::streaming::{pass_answer, settle_content_length};
use crate::surroundings::Surroundings;
use std::cell::Cell;
use std::pin::pin;
use std::time::Instant;
use tidegate_exchange::{BodyReader, ClientFault, Pooled, gone, unless_gone};
use tidegate_model::Scheme;
use tidegate_telemetry::{UpstreamError, UpstreamTime};
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_upstream::call::{Answer, Call, HeadKind, Keeping};
use tidegate_upstream::fault::Progress;
use tidegate_upstream::retry::retry_after;
use tidegate_upstream::verdict::Attempt;
use tidegate_wire::head::{HeaderId, Version};
use tidegate_wire::http1::switched_protocol;

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

impl<S: Sock> Forwarding<'_, '_, S> {
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
        let mut body = reader_of(body);
        if self.leaves_status(attempt.pool(), route, request_done.get() && !abreast.is_lost.get()) {
            return Err(Failure::upstream(UpstreamError::BadStatus, Progress::Sent));
        }
        abreast.is_answering.set(true);
        if let Some(rest) = switched {
            Box::pin(self.send_switch()).await?;
            return Ok(Replied::Switched(rest));
        }
        if self.exchange.is_extended_connect() && (200..300).contains(&self.exchange.response.status) {
            // Passed on it would say that the tunnel stands (RFC 8441 section 5).
            return Err(Failure::upstream(UpstreamError::NoWebSocket, Progress::Answering));
        }
        self.exchange.record.status = self.exchange.response.status;
        self.exchange.response.fields.remove_hop_by_hop();
        settle_content_length(&mut self.exchange.response, framing);
        self.exchange.complete_response(&self.connection.worker.date);
        if self.way.caching.is_some()
            && let Kept::Yes { is_read } = Box::pin(self.keep_answer(&mut body)).await?
        {
            return Ok(Replied::Whole(keeping.only_if(is_read)));
        }
        self.name_server(attempt);
        let (exchange, around) = self.parts();
        if let Some(page) = page_for_upstream(exchange, around) {
            let is_drained = Box::pin(replace_reply(exchange, around, page, &mut body)).await?;
            return Ok(Replied::Whole(keeping.only_if(is_drained)));
        }
        pin!(pass_answer(exchange, around, framing, &mut body, request_done)).await?;
        Ok(Replied::Whole(keeping))
    }

    /// Gives the answer to the cache, which says whether it is passed on all the same.
    pub(crate) async fn keep_answer(&mut self, body: &mut BodyReader<'_, S>) -> Result<Kept, Failure> {
        let Way { pool, caching, .. } = &mut *self.way;
        let around = Surroundings { connection: self.connection, route: Some(self.route), pool: pool.as_deref() };
        keep_answer(self.exchange, around, caching, body).await
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
                let reading = pin!(call.read_head(&self.settings.head_limits, &mut self.exchange.response));
                unless_gone(&mut self.exchange.responder, request_done, reading).await??
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
        let answer =
            call.answer(&self.exchange.response, self.exchange.head.method, self.way.timeouts.idle, &self.settings.head_limits)?;
        if answer.switched.is_some() {
            self.verify_switch()?;
        }
        Ok(answer)
    }

    /// A tunnel is opened to nothing but what was asked for: whoever else reads the connection has to agree that HTTP
    /// ends here. Over HTTP/2 the stream was opened for the one protocol that there is.
    fn verify_switch(&self) -> Result<(), Failure> {
        if self.exchange.response.version == Version::Http2 {
            return Ok(());
        }
        let asked = self.exchange.upgrade_protocol().ok_or_else(bad_response)?;
        let answered = switched_protocol(&self.exchange.response);
        if answered.is_some_and(|answered| answered.eq_ignore_ascii_case(asked)) { Ok(()) } else { Err(bad_response()) }
    }

    async fn pass_interim(&mut self) -> Result<(), ClientFault> {
        if self.exchange.response.status == 103 {
            self.connection.worker.metrics.early_hints.increment();
        }
        self.exchange.response.fields.remove_hop_by_hop();
        self.exchange.response.fields.remove_id(HeaderId::ContentLength);
        self.exchange.responder.send_interim(&self.exchange.response).await.map_err(gone)
    }

    fn note_first_byte(&mut self, attempt: &Attempt<S>, sent_at: Instant) {
        let waited = sent_at.elapsed();
        attempt.pool().metrics.record(UpstreamTime::FirstByte, waited);
        self.exchange.record.answer_began(sent_at, waited);
        let status = self.exchange.response.status;
        let rest = if status == 503 { retry_after(self.exchange.response.fields.all_named(b"retry-after").next()) } else { None };
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
        let secure: &[u8] = if self.connection.scheme() == Scheme::Https { b"; Secure" } else { b"" };
        for part in [sticky.cookie.as_bytes(), b"=", value.as_bytes(), sticky.attributes.as_bytes(), secure] {
            cookie.extend_from_slice(part);
        }
        self.exchange.response.fields.push(b"set-cookie", &cookie);
    }
}

pub(super) fn bad_response() -> Failure {
    Failure::upstream(UpstreamError::BadResponse, Progress::Answering)
}
