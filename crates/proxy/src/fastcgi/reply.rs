//! The exchange with a FastCGI server: the request's records out, the rest of its body behind them, and the answer to
//! the client as it comes.

use super::Collected;
use super::body::{FastCgiBody, ReplyFault};
use super::compiled::CompiledFastCgi;
use super::complaints::Complaints;
use super::server::FastCgiServer;
use crate::cached::Kept;
use crate::error_page::{page_for_upstream, replace_reply};
use crate::failure::Failure;
use crate::forward::Forwarding;
use crate::forward::body::{PumpFault, RequestWriter, both, pump_body};
use crate::streaming::{pass_answer, settle_content_length};
use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};
use tidegate_exchange::pace::Pace;
use tidegate_exchange::{BodyReader, ClientFault, unless_gone};
use tidegate_fastcgi::record::{FIRST_REQUEST, encode_stdin, encode_stdin_end};
use tidegate_fastcgi::{AnswerError, AnswerHead, Kind, ProtocolStatus, RecordError};
use tidegate_middleware::errors::begin_answer;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, Stream, rt};
use tidegate_upstream::fault::Progress;
use tidegate_wire::BodyFraming;

/// What of a collected body goes out with the params. It is less than what sockets hold, so that it is taken although
/// the script may write before it reads.
const FIRST_BODY_BYTES: usize = 32 << 10;
/// A record's worth of the rest.
const PIECE_BYTES: usize = 32 << 10;

/// One attempt.
pub(super) struct Exchange<'a, S: Sock> {
    pub step: &'a CompiledFastCgi,
    pub server: &'a FastCgiServer<S>,
    pub stream: &'a Stream<S>,
    /// Begin and params.
    pub params: &'a [u8],
    pub collected: &'a Collected,
}

/// How an attempt failed, and why in words where the code does not say all.
pub(super) struct Failed {
    pub failure: Failure,
    pub cause: Option<ReplyFault>,
}

impl From<ClientFault> for Failed {
    fn from(fault: ClientFault) -> Failed {
        Failure::from(fault).into()
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed { failure, cause: None }
    }
}

impl<S: Sock> Forwarding<'_, '_, S> {
    /// Sends the request and passes its answer on. True when the connection can have another one.
    pub(super) async fn exchange_records(&mut self, exchange: Exchange<'_, S>) -> Result<bool, Failed> {
        let Exchange { step, stream, params, collected, .. } = exchange;
        let (first, rest) = collected.bytes.split_at(collected.bytes.len().min(FIRST_BODY_BYTES));
        let all_sent = collected.is_whole && rest.is_empty();
        stream.sock.set_write_idle(step.timeouts.idle);
        let progress = if first.is_empty() { Progress::NothingSent } else { Progress::Sent };
        send_first(stream, params, first, all_sent).await.map_err(|_| Failure::upstream(UpstreamError::Reset, progress))?;
        let sent_at = rt::now();
        let limit =
            if all_sent { ReadLimit::Until(sent_at + step.timeouts.first_byte) } else { ReadLimit::Idle(step.timeouts.idle) };
        stream.sock.set_read_limit(limit);
        let request_done = Cell::new(all_sent);
        let is_answering = Cell::new(false);
        let is_reusable = if all_sent {
            self.pass_reply(&exchange, sent_at, &request_done, &is_answering).await?
        } else {
            self.pass_both(&exchange, sent_at, rest, &request_done, &is_answering).await?
        };
        Ok(is_reusable && request_done.get())
    }

    /// The answer to the client while the rest of the body goes to the script.
    async fn pass_both(
        &mut self,
        exchange: &Exchange<'_, S>,
        sent_at: Instant,
        rest: &[u8],
        request_done: &Cell<bool>,
        is_answering: &Cell<bool>,
    ) -> Result<bool, Failed> {
        let Exchange { step, stream, collected, .. } = *exchange;
        let mut body = std::mem::replace(&mut self.exchange.body, BodyReader::Empty);
        body.set_idle(step.timeouts.idle);
        let mut allowance = self.exchange.body_allowance.take();
        let pumped = Cell::new(0);
        let pace = Pace::new(self.settings.body_rate_bytes, self.exchange.framing, self.connection.is_h2(), Duration::ZERO);
        let connection = self.connection;
        let account = move || {
            connection.account_bytes();
            connection.account_upstream_bytes(stream);
        };
        let outcome = {
            let pump = async {
                let mut writer = RequestWriter::FastCgi { stream };
                let mut pieces = rest.chunks(PIECE_BYTES).peekable();
                while let Some(piece) = pieces.next() {
                    let is_last = collected.is_whole && pieces.peek().is_none();
                    writer.send_body(Buf::copy_of(piece), is_last).await.map_err(|_| PumpFault::Upstream)?;
                }
                if !collected.is_whole {
                    let note = |piece: &[u8], _: bool| pumped.set(pumped.get() + piece.len() as u64);
                    pump_body(&mut body, writer, pace, &mut allowance, note, &account).await?;
                }
                if !is_answering.get() {
                    stream.sock.set_read_limit(ReadLimit::Until(rt::now() + step.timeouts.first_byte));
                }
                Ok(())
            };
            // The cause of a failure beside it, since only the answer has one.
            let mut cause = None;
            let reply = async {
                let passed = self.pass_reply(exchange, sent_at, request_done, is_answering).await;
                passed.map_err(|failed| {
                    cause = failed.cause;
                    failed.failure
                })
            };
            let outcome = both(reply, pump, request_done).await;
            outcome.map_err(|failure| Failed { failure, cause })
        };
        self.exchange.body = body;
        self.exchange.body_allowance = allowance;
        self.exchange.record.request_bytes += pumped.get();
        outcome
    }

    async fn pass_reply(
        &mut self,
        exchange: &Exchange<'_, S>,
        sent_at: Instant,
        request_done: &Cell<bool>,
        is_answering: &Cell<bool>,
    ) -> Result<bool, Failed> {
        let Exchange { step, server, stream, .. } = exchange;
        let complaints = Complaints::new(server.name.clone(), self.exchange.record.request_id);
        let mut body = Box::new(FastCgiBody::new(*stream, complaints));
        let head = unless_gone(&mut self.exchange.responder, request_done, pin!(body.read_head())).await?;
        let head = head.map_err(|fault| failed(fault, body.has_begun()))?;
        is_answering.set(true);
        let waited = sent_at.elapsed();
        server.metrics.record_first_byte(waited);
        if let Some(upstream) = &mut self.exchange.record.upstream {
            upstream.first_byte = Some(waited);
        }
        stream.sock.set_read_limit(ReadLimit::Idle(step.timeouts.idle));
        let framing = self.take_head(&head, &mut body)?;
        settle_content_length(&mut self.exchange.response, framing);
        self.exchange.complete_response(&self.connection.worker.date);
        let mut reader = BodyReader::Made(Box::new(&mut *body));
        let is_whole = self.pass_script_answer(framing, &mut reader, request_done).await?;
        drop(reader);
        Ok(is_whole && body.is_reusable())
    }

    /// To the cache, as a page, or to the client. False: not all of the body was read.
    async fn pass_script_answer(
        &mut self,
        framing: BodyFraming,
        body: &mut BodyReader<'_, S>,
        request_done: &Cell<bool>,
    ) -> Result<bool, Failure> {
        if self.way.caching.is_some()
            && let Kept::Yes { is_read } = Box::pin(self.keep_answer(body)).await?
        {
            return Ok(is_read);
        }
        let (exchange, around) = self.parts();
        if let Some(page) = page_for_upstream(exchange, around) {
            Box::pin(replace_reply(exchange, around, page, body)).await?;
            return Ok(true);
        }
        pass_answer(exchange, around, framing, body, request_done).await?;
        Ok(true)
    }

    /// Makes the script's head the one of the answer, and settles what its body is.
    fn take_head(&mut self, head: &AnswerHead, body: &mut FastCgiBody<'_, S>) -> Result<BodyFraming, Failure> {
        // A redirect within this server goes by way of the client, so that its routes have their say.
        let status = if head.kind() == Kind::LocalRedirect { 302 } else { head.status() };
        begin_answer(status, &mut self.exchange.response);
        if !head.reason().is_empty() {
            self.exchange.response.reason = self.exchange.response.fields.append(&[head.reason()]);
        }
        for (name, value) in head.fields() {
            self.exchange.response.fields.push(name, value);
        }
        self.exchange.response.fields.remove_hop_by_hop();
        self.exchange.record.status = status;
        let mut digits = itoa::Buffer::new();
        if !head.body_allowed(self.exchange.head.method_name()) {
            body.drop_body();
            // What the answer to a GET would have.
            if let Some(length) = head.content_length().filter(|_| status != 204) {
                self.exchange.response.fields.push(b"content-length", digits.format(length).as_bytes());
            }
            return Ok(BodyFraming::None);
        }
        match (head.content_length(), body.whole_length()) {
            // It is over, and the script promised more.
            (Some(length), Some(whole)) if whole < length => Err(Failure::upstream(UpstreamError::BodyCut, Progress::Answering)),
            (Some(length), _) | (None, Some(length)) => {
                body.expect(length);
                Ok(BodyFraming::Length(length))
            }
            (None, None) => Ok(BodyFraming::Chunked),
        }
    }
}

/// All that is there at once, in as few sends as it fits into.
async fn send_first<S: Sock>(stream: &Stream<S>, params: &[u8], body: &[u8], ends: bool) -> io::Result<()> {
    let mut behind = Vec::with_capacity(body.len() + 32);
    encode_stdin(&mut behind, FIRST_REQUEST, body);
    if ends {
        encode_stdin_end(&mut behind, FIRST_REQUEST);
    }
    let mut message = Buf::take_whole();
    for mut part in [params, &behind] {
        while !part.is_empty() {
            if message.room() == 0 {
                stream.write(std::mem::replace(&mut message, Buf::take_whole())).await?;
            }
            let (now, later) = part.split_at(part.len().min(message.room()));
            message.extend(now);
            part = later;
        }
    }
    stream.write(message).await
}

fn failed(fault: ReplyFault, has_begun: bool) -> Failed {
    let progress = if has_begun { Progress::Answering } else { Progress::Sent };
    let error = match &fault {
        ReplyFault::Io(error) if error.kind() == io::ErrorKind::TimedOut => UpstreamError::FirstByteTimeout,
        ReplyFault::Io(_) => UpstreamError::Reset,
        ReplyFault::Closed | ReplyFault::Record(RecordError::Truncated) => UpstreamError::ClosedEarly,
        ReplyFault::Answer(AnswerError::HeadTooLarge | AnswerError::TooManyFields) => UpstreamError::HeadTooLarge,
        ReplyFault::Refused(ProtocolStatus::Overloaded) => UpstreamError::NoServer,
        ReplyFault::Record(_) | ReplyFault::Answer(_) | ReplyFault::Refused(_) | ReplyFault::TooManyComplaints => {
            UpstreamError::BadResponse
        }
    };
    Failed { failure: Failure::upstream(error, progress), cause: Some(fault) }
}
