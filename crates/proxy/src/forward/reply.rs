//! The answer: its head from the upstream, interim answers, and its body to the client as it comes.

use super::body::reader_of;
use super::{Abreast, Forwarding, Way};
use crate::cached::{Kept, keep_answer};
use crate::error_page::{page_for_upstream, replace_reply};
use crate::failure::{Failure, upstream_body_fault};
use crate::streaming::{pass_answer, send_whole_answer, settle_content_length};
use crate::surroundings::Surroundings;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tidegate_exchange::responder::Sending;
use tidegate_exchange::{BodyReader, ClientFault, Pooled, gone, unless_gone};
use tidegate_middleware::send_file::NamedFile;
use tidegate_model::{CookieSecure, Scheme};
use tidegate_telemetry::{UpstreamError, UpstreamTime};
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_upstream::call::{Answer, Call, HeadKind, Keeping};
use tidegate_upstream::fault::Progress;
use tidegate_upstream::retry::{first_byte_until, retry_after};
use tidegate_upstream::verdict::Attempt;
use tidegate_wire::BodyFraming;
use tidegate_wire::head::{HeaderId, Version};
use tidegate_wire::http1::switched_protocol;

/// What became of an answer that went to the client.
pub(super) enum Replied {
    Whole(Keeping),
    /// The connection is a tunnel from here on, and this came behind the head.
    Switched(Buf),
}

/// An answer whose head has come.
struct Reply<'a, S> {
    framing: BodyFraming,
    body: BodyReader<'a, S>,
    /// What of the body has come with the head, where that was looked at.
    first: Option<Buf>,
    keeping: Keeping,
}

/// How an answer goes on whose head has come. A future of its own, so that nothing of it is held twice.
enum Begun<'a, 'c, S> {
    /// All of it is on its way to the client.
    Whole(Sending<'a, 'c, S>, Keeping),
    /// Boxed, as everything that takes longer.
    Long(Pin<Box<dyn Future<Output = Result<Replied, Failure>> + 'a>>),
    Failed(Failure),
}

impl<S: Sock> Future for Begun<'_, '_, S> {
    type Output = Result<Replied, Failure>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Replied, Failure>> {
        match &mut *self {
            Begun::Whole(sending, keeping) => {
                let sent = ready!(Pin::new(sending).poll(cx));
                Poll::Ready(sent.map(|()| Replied::Whole(*keeping)).map_err(|error| gone(error).into()))
            }
            Begun::Long(passing) => passing.as_mut().poll(cx),
            Begun::Failed(failure) => Poll::Ready(Err(*failure)),
        }
    }
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

impl<'c, S: Sock> Forwarding<'_, 'c, S> {
    /// Reads the answer and passes it on as it comes. What waits for its head has nothing of what follows; most answers
    /// have come whole with it and go out at once, and only the body of another one gets the state that it needs.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` has room for what it is given twice")]
    pub(super) fn stream_reply(
        &mut self,
        attempt: &Attempt<S>,
        call: &Call<S>,
        sent_at: Instant,
        request_done: &Cell<bool>,
        abreast: &Abreast,
    ) -> impl Future<Output = Result<Replied, Failure>> {
        async move {
            loop {
                self.await_head(call, request_done).await?;
                let kind = match call.take_head(&self.settings.head_limits, &mut self.exchange.response)? {
                    Some(kind) => kind,
                    None => Box::pin(self.read_rest_of_head(call, request_done)).await?,
                };
                match kind {
                    HeadKind::Final => break,
                    HeadKind::Interim => Box::pin(self.pass_interim()).await?,
                }
                if request_done.get() {
                    let first_byte = self.timeouts(attempt.pool()).first_byte;
                    call.set_read_limit(ReadLimit::Until(first_byte_until(rt::now(), first_byte, self.way.try_until)));
                }
            }
            let begun = self.begin_reply(attempt, call, sent_at, request_done, abreast);
            begun.unwrap_or_else(Begun::Failed).await
        }
    }

    /// Ready when a head has begun to come, unless the client leaves meanwhile.
    fn await_head(&mut self, call: &Call<S>, request_done: &Cell<bool>) -> impl Future<Output = Result<(), Failure>> {
        poll_fn(move |cx| {
            if let Poll::Ready(begun) = call.poll_begun(cx) {
                return Poll::Ready(begun.map_err(Failure::from));
            }
            if request_done.get() && self.exchange.responder.poll_gone(cx).is_ready() {
                return Poll::Ready(Err(ClientFault::Gone.into()));
            }
            Poll::Pending
        })
    }

    async fn read_rest_of_head(&mut self, call: &Call<S>, request_done: &Cell<bool>) -> Result<HeadKind, Failure> {
        let reading = pin!(call.read_rest_of_head(&self.settings.head_limits, &mut self.exchange.response));
        Ok(unless_gone(&mut self.exchange.responder, request_done, reading).await??)
    }

    /// Makes the head that was read one that may go to the client, and sends it where the rest is there as well.
    fn begin_reply<'a>(
        &'a mut self,
        attempt: &'a Attempt<S>,
        call: &'a Call<S>,
        sent_at: Instant,
        request_done: &'a Cell<bool>,
        abreast: &Abreast,
    ) -> Result<Begun<'a, 'c, S>, Failure> {
        self.note_first_byte(attempt, sent_at);
        let idle = self.timeouts(attempt.pool()).idle;
        let limits = &self.settings.head_limits;
        let answer = call.answer(&self.exchange.response, self.exchange.head.method, idle, limits)?;
        if answer.switched.is_some() {
            self.verify_switch()?;
        }
        if self.leaves_status(attempt.pool(), request_done.get() && !abreast.is_lost.get()) {
            return Err(Failure::upstream(UpstreamError::BadStatus, Progress::Sent));
        }
        abreast.is_answering.set(true);
        if self.route.translation.is_any() {
            self.translate_answer(attempt);
        }
        let Answer { framing, body, keeping, switched } = answer;
        let mut body = reader_of(body);
        if let Some(rest) = switched {
            return Ok(Begun::Long(Box::pin(async move {
                self.send_switch().await?;
                Ok(Replied::Switched(rest))
            })));
        }
        if self.exchange.is_extended_connect() && (200..300).contains(&self.exchange.response.status) {
            // Passed on it would say that the tunnel stands (RFC 8441 section 5).
            return Err(Failure::upstream(UpstreamError::NoWebSocket, Progress::Answering));
        }
        self.exchange.record.status = self.exchange.response.status;
        body.drop_named_by_connection(&self.exchange.response.fields);
        self.exchange.response.fields.remove_hop_by_hop();
        settle_content_length(&mut self.exchange.response, framing);
        self.exchange.complete_response(&self.connection.worker.date);
        let mut reply = Reply { framing, body, first: None, keeping };
        let may_become_another = self.way.caching.is_some()
            || self.route.compress.is_some()
            || self.route.error_pages.has_upstreams()
            || !self.route.send_folders.is_empty();
        if !may_become_another {
            reply.first = reply.body.at_hand().map_err(|fault| upstream_body_fault(&fault))?;
            if reply.body.is_finished() && !reply.body.has_trailers() {
                self.name_server(attempt);
                let (exchange, around) = self.parts();
                return Ok(Begun::Whole(send_whole_answer(exchange, around, framing, reply.first), keeping));
            }
        }
        Ok(Begun::Long(Box::pin(self.pass_long(attempt, reply, request_done))))
    }

    /// Passes an answer on that may become another one, or whose body has not come whole.
    async fn pass_long(
        &mut self,
        attempt: &Attempt<S>,
        reply: Reply<'_, S>,
        request_done: &Cell<bool>,
    ) -> Result<Replied, Failure> {
        let Reply { framing, mut body, first, keeping } = reply;
        if !self.route.send_folders.is_empty()
            && let Some(named) = NamedFile::take(&mut self.exchange.response.fields)
        {
            return Box::pin(self.send_named_file(attempt, named, &mut body, keeping)).await;
        }
        if self.way.caching.is_some()
            && let Kept::Yes { is_read } = Box::pin(self.keep_answer(&mut body)).await?
        {
            return Ok(Replied::Whole(keeping.only_if(is_read)));
        }
        self.name_server(attempt);
        let (exchange, around) = self.parts();
        if let Some(page) = page_for_upstream(exchange, around) {
            let is_drained = Box::pin(replace_reply(exchange, around, page, &mut body, request_done)).await?;
            return Ok(Replied::Whole(keeping.only_if(is_drained)));
        }
        pin!(pass_answer(exchange, around, framing, &mut body, first, request_done)).await?;
        Ok(Replied::Whole(keeping))
    }

    /// Gives the answer to the cache, which says whether it is passed on all the same.
    pub(crate) async fn keep_answer(&mut self, body: &mut BodyReader<'_, S>) -> Result<Kept, Failure> {
        let Way { pool, caching, .. } = &mut *self.way;
        let around = Surroundings { connection: self.connection, route: Some(self.route), pool: pool.as_deref() };
        keep_answer(self.exchange, around, caching, body).await
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
        let status = self.exchange.response.status;
        self.exchange.record.answer_began(status, sent_at, waited);
        let rest = if status == 503 { retry_after(self.exchange.response.fields.all_named(b"retry-after").next()) } else { None };
        attempt.answered(status, waited, rest);
    }

    /// Tells a client that belongs to no server yet, or to another one, where it belongs from now on.
    pub(super) fn name_server(&mut self, attempt: &Attempt<S>) {
        let compiled = &attempt.pool().compiled;
        let Some(sticky) = &compiled.sticky else { return };
        let Some(value) = &compiled.servers[attempt.position()].cookie_value else { return };
        match self.own_server(attempt.pool()) {
            // A client comes back to its own server when that can be used again.
            Some(own) if own == attempt.position() || !sticky.change_on_failure => return,
            Some(_) | None => {}
        }
        let mut cookie: Pooled<Vec<u8>> = Pooled::take();
        let is_secure = match sticky.secure {
            CookieSecure::OverTls => self.connection.scheme() == Scheme::Https,
            CookieSecure::Always => true,
            CookieSecure::Never => false,
        };
        let secure: &[u8] = if is_secure { b"; Secure" } else { b"" };
        for part in [sticky.cookie.as_bytes(), b"=", value.as_bytes(), sticky.attributes.as_bytes(), secure] {
            cookie.extend_from_slice(part);
        }
        self.exchange.response.fields.push(b"set-cookie", &cookie);
    }
}

pub(super) fn bad_response() -> Failure {
    Failure::upstream(UpstreamError::BadResponse, Progress::Answering)
}
