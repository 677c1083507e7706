//! Between a request and its upstream: prepare the head, choose a server, take or open a connection, send, stream both bodies, and try again
//! where that is safe. A part of `request`; split off because it is the longer half.

use crate::balance::{Draw, choose, hash_bytes};
use crate::connection::read_head::{HeadFault, read_head};
use crate::exchange::{BodyFault, BodyLength, BodyReader, H1BodyReader, H2BodyReader, RequestWriter, Responder, encode_request};
use crate::failure::{ClientFault, Failure, Reach, upstream_read_error};
use crate::h2_head;
use crate::lease::Lease;
use crate::pool::{H1Connection, Server, WorkerPool};
use crate::request::{Request, context};
use crate::snapshot::CompiledRoute;
use crate::tunnel;
use crate::upstream::{self, Need, h2 as upstream_h2};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_middleware::{BodyAllowance, View};
use tidegate_model::Balance;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::head::{HeaderId, Method, ResponseHead};
use tidegate_wire::http1::{
    has_token, keep_alive_response, keep_alive_timeout_seconds, parse_response, response_framing, upgrade_protocol,
};
use tidegate_wire::{BodyFraming, HeadError};

/// Attempts at one request, the first included.
const ATTEMPTS_MAX: usize = 3;
/// After so much of a body the other connections of the worker get a turn.
const TURN_BYTES: usize = 1 << 20;
/// A request body may be slow for so long before its rate counts, and after every byte of credit is used up.
const BODY_RATE_GRACE: Duration = Duration::from_secs(10);

/// What was settled about the request before the first attempt.
struct Plan {
    /// `Upgrade` as the client asked for it.
    upgrade: bool,
    /// The client takes trailers (`TE: trailers`).
    trailers_wanted: bool,
    grpc: bool,
    idempotent: bool,
    chunked: bool,
}

/// The first piece of the request's body, kept while the request may have to be sent again.
enum Replay {
    /// Nothing of the body was taken yet.
    Untouched,
    Kept(Lease<Vec<u8>>),
    /// More was taken than is kept.
    Lost,
}

impl<S: Sock> Request<'_, S> {
    /// Sends the request to a server of the pool and its answer to the client.
    pub(crate) async fn forward(&mut self, route: &CompiledRoute, pool_position: usize) -> Result<(), Failure> {
        let snapshot = self.snapshot.clone();
        let pool = &snapshot.pools[pool_position];
        self.record.pool = Some(pool_position);
        let plan = self.prepare_head();
        let mut replay = Replay::Untouched;
        let mut tried = [usize::MAX; ATTEMPTS_MAX];
        let mut again = None;
        let mut attempt = 0;
        loop {
            let position = match again.take() {
                Some(position) => position,
                None => self.choose_server(pool, &tried[..attempt]).ok_or(Failure::upstream(UpstreamError::NoServer, Reach::NothingSent))?,
            };
            tried[attempt] = position;
            attempt += 1;
            let need = Need {
                certain: !plan.idempotent,
                http1_only: plan.upgrade,
                prefers_h2: plan.grpc,
                fresh: attempt > 1 && tried[attempt - 2] == position,
            };
            let (failure, was_reused) = match self.attempt(route, pool, position, need, &plan, &mut replay).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            self.note_failure(pool, position, failure);
            if attempt == ATTEMPTS_MAX || !self.may_try_again(failure, &plan, &replay, was_reused, pool.servers.len()) {
                return Err(failure);
            }
            if was_reused {
                // The connection was at fault, not the server.
                again = Some(position);
            }
            pool.metrics.retries.increment();
            self.record.retries += 1;
        }
    }

    /// RFC 9110 section 9.2.2: again only what did not reach the server, or does the same when done twice; and only while all of the body
    /// is still there.
    fn may_try_again(&self, failure: Failure, plan: &Plan, replay: &Replay, was_reused: bool, servers: usize) -> bool {
        let Failure::Upstream(fault) = failure else { return false };
        let is_whole = match replay {
            Replay::Untouched | Replay::Kept(_) => true,
            Replay::Lost => false,
        };
        let is_connection_fault = matches!(fault.error, UpstreamError::ClosedEarly | UpstreamError::Reset | UpstreamError::GoAway);
        let is_safe = match fault.reach {
            Reach::NothingSent => !matches!(fault.error, UpstreamError::PoolFull),
            Reach::Sent => is_connection_fault && plan.idempotent,
            Reach::Answering => false,
        };
        !self.responder.has_started() && is_whole && is_safe && (was_reused || servers > 1)
    }

    fn note_failure(&self, pool: &WorkerPool<S>, position: usize, failure: Failure) {
        let Failure::Upstream(fault) = failure else { return };
        pool.metrics.error(fault.error);
        if let Some(suppressed) = self.connection.worker.gates.upstream.allow(Instant::now()) {
            let server = &pool.compiled.servers[position].authority;
            tracing::warn!(pool = %pool.compiled.name, %server, reason = fault.error.reason(), suppressed, "an upstream server failed");
        }
    }

    fn choose_server(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Option<usize> {
        let worker = &self.connection.worker;
        let key_hash = match (&pool.compiled.model.balance, &pool.compiled.hash_key) {
            (Balance::Hash { .. }, Some(key)) => {
                let context = context(self.connection, &self.record, self.client_ip, self.scheme());
                let mut rendered: Lease<Vec<u8>> = Lease::take();
                key.render(View { context: &context, request: &self.head, response: None }, &mut rendered);
                hash_bytes(&rendered)
            }
            _ => 0,
        };
        let draw = Draw { key_hash, random: worker.random(), now: self.record.started, tried };
        choose(&pool.compiled.model.balance, &pool.servers, draw)
    }

    /// Makes the client's head one that may go to an upstream.
    fn prepare_head(&mut self) -> Plan {
        let upgrade = upgrade_protocol(&self.head).map(<[u8]>::to_vec);
        let idempotent = self.head.method.is_idempotent();
        let fields = &mut self.head.fields;
        let plan = Plan {
            upgrade: upgrade.is_some(),
            trailers_wanted: fields.all(HeaderId::Te).any(|value| has_token(value, b"trailers")),
            grpc: fields.get(HeaderId::ContentType).is_some_and(|kind| kind.starts_with(b"application/grpc")),
            idempotent,
            chunked: self.framing == BodyFraming::Chunked,
        };
        fields.remove_hop_by_hop();
        if let Some(protocol) = upgrade {
            fields.push(b"connection", b"Upgrade");
            fields.push(b"upgrade", &protocol);
        }
        self.set_forwarded_fields();
        if !self.head.fields.has(HeaderId::Host) {
            // HTTP/1.0 without a host: upstreams speak HTTP/1.1, where one is required (RFC 9112 section 3.2).
            self.head.fields.push(b"host", b"");
        }
        plan
    }

    /// Says who asked, how and for what. What an untrusted peer says of itself is replaced; a trusted proxy's word is kept and added to.
    fn set_forwarded_fields(&mut self) {
        let connection = self.connection;
        let port = connection.listen_port();
        let scheme = self.scheme();
        let trusted = self.peer_is_trusted;
        let mut host: Lease<Vec<u8>> = Lease::take();
        host.extend_from_slice(self.head.authority());
        let fields = &mut self.head.fields;
        let peer = connection.client_ip_text();
        if !trusted {
            for id in [HeaderId::XForwardedFor, HeaderId::XForwardedProto, HeaderId::XForwardedHost, HeaderId::XForwardedPort] {
                fields.remove_id(id);
            }
            // Others believe these in the same way.
            fields.remove_id(HeaderId::Forwarded);
            fields.remove_id(HeaderId::XRealIp);
        }
        if fields.has(HeaderId::XForwardedFor) {
            let mut chain: Lease<Vec<u8>> = Lease::take();
            for value in fields.all(HeaderId::XForwardedFor) {
                chain.extend_from_slice(value);
                chain.extend_from_slice(b", ");
            }
            chain.extend_from_slice(peer);
            fields.set(b"x-forwarded-for", &chain);
        } else {
            fields.push(b"x-forwarded-for", peer);
        }
        if !fields.has(HeaderId::XForwardedProto) {
            fields.push(b"x-forwarded-proto", scheme.as_str().as_bytes());
        }
        if !fields.has(HeaderId::XForwardedHost) && !host.is_empty() {
            fields.push(b"x-forwarded-host", &host);
        }
        if !fields.has(HeaderId::XForwardedPort) {
            fields.push(b"x-forwarded-port", itoa::Buffer::new().format(port).as_bytes());
        }
    }

    /// One attempt at one server. The error says whether the connection had been used before.
    async fn attempt(
        &mut self,
        route: &CompiledRoute,
        pool: &Rc<WorkerPool<S>>,
        position: usize,
        need: Need,
        plan: &Plan,
        replay: &mut Replay,
    ) -> Result<(), (Failure, bool)> {
        let server = &pool.servers[position];
        let _in_flight = InFlight::new(server.clone());
        let connection = unless_gone(&mut self.responder, &self.body, upstream::take_or_open(pool, position, need))
            .await
            .and_then(|opened| opened)
            .map_err(|failure| (failure, false))?;
        pool.metrics.requests.increment();
        match connection {
            upstream::Connection::H1(connection) => {
                let reused = connection.idle_before.is_some();
                self.record.sent_to(pool, position, reused);
                self.exchange_h1(route, pool, position, connection, plan, replay).await.map_err(|failure| (failure, reused))
            }
            upstream::Connection::H2(lease) => {
                self.record.sent_to(pool, position, true);
                self.exchange_h2(route, pool, lease, plan, replay).await.map_err(|failure| (failure, false))
            }
        }
    }

    /// The first piece of the body, from before or from the client; kept when the request may have to be sent again.
    fn first_piece(&mut self, keep: bool, replay: &mut Replay) -> Result<Option<Buf>, Failure> {
        match replay {
            Replay::Kept(kept) => Ok(Some(kept.as_slice()).filter(|kept| !kept.is_empty()).map(Buf::copy_of)),
            Replay::Lost => Ok(None),
            Replay::Untouched => {
                let first = self.body.at_hand().map_err(client_fault)?;
                if let Some(piece) = &first {
                    self.count_body(piece.len())?;
                    *replay = Replay::Lost;
                    if keep {
                        let mut kept: Lease<Vec<u8>> = Lease::take();
                        kept.extend_from_slice(piece);
                        *replay = Replay::Kept(kept);
                    }
                }
                Ok(first)
            }
        }
    }

    fn count_body(&mut self, bytes: usize) -> Result<(), Failure> {
        self.record.request_bytes += bytes as u64;
        match &mut self.body_allowance {
            Some(allowance) => allowance.take(bytes as u64).map_err(|_| Failure::Client(ClientFault::BodyTooLarge)),
            None => Ok(()),
        }
    }

    async fn exchange_h1(
        &mut self,
        route: &CompiledRoute,
        pool: &Rc<WorkerPool<S>>,
        position: usize,
        connection: H1Connection<S>,
        plan: &Plan,
        replay: &mut Replay,
    ) -> Result<(), Failure> {
        let _active = ActiveConnection::new(pool.clone());
        let first = self.first_piece(connection.idle_before.is_some(), replay)?;
        let all_sent = self.body.is_finished();
        let bad_head = |_| Failure::Client(ClientFault::BadBody(tidegate_wire::BodyError::TrailersTooLarge));
        let trailers = if all_sent { self.body.take_trailers() } else { None };
        let message =
            encode_request(&self.head, first, plan.chunked, all_sent && trailers.is_none()).map_err(bad_head)?;
        let timeouts = pool.compiled.model.timeouts;
        let stream = &connection.stream;
        stream.sock.set_read_limit(ReadLimit::Idle(timeouts.first_byte));
        stream.sock.set_write_idle(timeouts.first_byte);
        stream.write(message).await.map_err(|_| Failure::upstream(UpstreamError::Reset, Reach::NothingSent))?;
        let sent_at = rt::now();
        let mut writer = RequestWriter::H1 { stream, chunked: plan.chunked };
        if all_sent && let Some(trailers) = &trailers {
            let _ = writer.finish(Some(trailers)).await;
        }
        let reply = Reply::H1 { stream, sent_at };
        let pump_done = Cell::new(all_sent);
        let outcome = if all_sent {
            self.stream_reply(route, pool, reply, &pump_done).await
        } else {
            self.stream_both(route, pool, reply, writer, &pump_done, replay).await
        }?;
        match outcome {
            Replied::Switched(rest) => {
                self.tunnel(&connection, rest, timeouts.idle).await;
            }
            Replied::Whole { reusable, keep_alive_seconds } => {
                let server = &pool.servers[position];
                if let Some(seconds) = keep_alive_seconds {
                    server.learn_announced(seconds);
                }
                if reusable && pump_done.get() && !connection.stream.has_unread() {
                    let wanted = pool.compiled.servers[position].shared.is_wanted();
                    server.put_idle(connection, rt::now(), wanted, &pool.metrics);
                }
            }
        }
        Ok(())
    }

    async fn exchange_h2(
        &mut self,
        route: &CompiledRoute,
        pool: &Rc<WorkerPool<S>>,
        lease: upstream_h2::Lease,
        plan: &Plan,
        replay: &mut Replay,
    ) -> Result<(), Failure> {
        let first = self.first_piece(true, replay)?;
        let all_sent = self.body.is_finished();
        let is_tls = pool.compiled.tls.is_some();
        let request = h2_head::request(&self.head, if is_tls { "https" } else { "http" }, plan.trailers_wanted || plan.grpc)
            .ok_or(Failure::Client(ClientFault::BadBody(tidegate_wire::BodyError::BadTrailer)))?;
        let refused = |error: ::h2::Error| Failure::upstream(h2_error(&error), Reach::NothingSent);
        let limit = pool.compiled.model.timeouts.connect;
        let ready = rt::timeout(limit, lease.sender.clone().ready()).await;
        let mut sender = ready.ok_or(Failure::upstream(UpstreamError::PoolFull, Reach::NothingSent))?.map_err(refused)?;
        let trailers = if all_sent { self.body.take_trailers() } else { None };
        let ends = all_sent && first.is_none() && trailers.is_none();
        let (response, sending) = sender.send_request(request, ends).map_err(refused)?;
        let mut writer: RequestWriter<'_, S> = RequestWriter::H2(sending);
        if let Some(piece) = first {
            let sent = writer.send_body(piece, all_sent && trailers.is_none()).await;
            sent.map_err(|_| Failure::upstream(UpstreamError::Reset, Reach::Sent))?;
        }
        if all_sent && let Some(trailers) = &trailers {
            let _ = writer.finish(Some(trailers)).await;
        }
        let reply = Reply::H2 { response: Box::new(response), sent_at: rt::now() };
        let pump_done = Cell::new(all_sent);
        if all_sent {
            self.stream_reply(route, pool, reply, &pump_done).await?;
        } else {
            self.stream_both(route, pool, reply, writer, &pump_done, replay).await?;
        }
        Ok(())
    }

    /// The answer to the client while the rest of the request goes to the upstream.
    async fn stream_both(
        &mut self,
        route: &CompiledRoute,
        pool: &Rc<WorkerPool<S>>,
        reply: Reply<'_, S>,
        writer: RequestWriter<'_, S>,
        pump_done: &Cell<bool>,
        replay: &mut Replay,
    ) -> Result<Replied, Failure> {
        let mut body = std::mem::replace(&mut self.body, BodyReader::Empty);
        let pumped = Cell::new(0);
        let outcome = {
            let pace = Pace::new(self.snapshot.shared.limits.body_rate_bytes, self.framing, self.connection.is_h2());
            let pump = pump_body(&mut body, writer, pace, self.body_allowance.take(), &pumped);
            let reply = self.stream_reply(route, pool, reply, pump_done);
            both(reply, pump, pump_done).await
        };
        self.body = body;
        self.record.request_bytes += pumped.get();
        if pumped.get() > 0 {
            *replay = Replay::Lost;
        }
        outcome
    }

    /// Reads the answer and passes it on as it comes.
    async fn stream_reply(
        &mut self,
        route: &CompiledRoute,
        pool: &Rc<WorkerPool<S>>,
        reply: Reply<'_, S>,
        request_done: &Cell<bool>,
    ) -> Result<Replied, Failure> {
        let (answer, mut body) = self.receive_head(pool, reply, request_done).await?;
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
        self.run_response_steps(route);
        if self.connection.is_draining() {
            self.responder.close_after();
        }
        let length = match answer.framing {
            BodyFraming::None => BodyLength::None,
            BodyFraming::Length(_) => BodyLength::Known,
            BodyFraming::Chunked | BodyFraming::UntilClose => BodyLength::Unknown,
        };
        let first = body.at_hand().map_err(|fault| upstream_body_fault(&fault))?;
        let trailers = if body.is_finished() { body.take_trailers() } else { None };
        let whole = body.is_finished() && trailers.is_none();
        let mut turn = first.as_ref().map_or(0, |piece| piece.len());
        self.responder.send_head(&mut self.response, length, first, whole).await.map_err(gone)?;
        let mut trailers = trailers;
        while !body.is_finished() {
            let piece = unless_gone_while(&mut self.responder, request_done, body.read()).await?;
            let piece = piece.map_err(|fault| upstream_body_fault(&fault))?;
            trailers = if body.is_finished() || piece.is_none() { body.take_trailers() } else { None };
            let Some(piece) = piece else { break };
            turn += piece.len();
            let last = body.is_finished() && trailers.is_none();
            self.responder.send_body(piece, last).await.map_err(gone)?;
            if last {
                return Ok(answer.replied());
            }
            if turn > TURN_BYTES {
                turn = 0;
                rt::yield_now().await;
            }
        }
        if !whole {
            self.responder.finish(trailers.as_deref()).await.map_err(gone)?;
        }
        Ok(answer.replied())
    }

    /// The head of the final answer; interim answers are passed on as they come.
    async fn receive_head<'u>(
        &mut self,
        pool: &Rc<WorkerPool<S>>,
        reply: Reply<'u, S>,
        request_done: &Cell<bool>,
    ) -> Result<(Answer, BodyReader<'u, S>), Failure> {
        match reply {
            Reply::H1 { stream, sent_at } => {
                let mut rest = Buf::empty();
                loop {
                    let head = receive_head_h1(stream, rest, self.snapshot.shared.head_limits(), &mut self.response);
                    rest = unless_gone_while(&mut self.responder, request_done, head).await??;
                    if self.response.status >= 200 || self.response.status == 101 {
                        break;
                    }
                    self.pass_interim().await?;
                }
                self.note_first_byte(pool, sent_at);
                stream.sock.set_read_limit(ReadLimit::Idle(pool.compiled.model.timeouts.idle));
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
            Reply::H2 { mut response, sent_at } => {
                let limit = pool.compiled.model.timeouts.first_byte;
                let parts = loop {
                    let waiting = rt::timeout(limit, next_h2_head(&mut response));
                    let head = unless_gone_while(&mut self.responder, request_done, waiting).await?;
                    match head.ok_or(Failure::upstream(UpstreamError::FirstByteTimeout, Reach::Sent))? {
                        Ok(H2Head::Final(parts)) => break *parts,
                        Ok(H2Head::Interim(parts)) => {
                            h2_head::read_response(&parts, &mut self.response);
                            self.pass_interim().await?;
                        }
                        Err(error) => return Err(Failure::upstream(h2_error(&error), h2_reach(&error))),
                    }
                };
                let (head, body) = parts.into_parts();
                h2_head::read_response(&head, &mut self.response);
                self.note_first_byte(pool, sent_at);
                Ok((Answer::over_h2(&self.response, self.head.method, body.is_end_stream()), BodyReader::H2(H2BodyReader::new(body))))
            }
        }
    }

    async fn pass_interim(&mut self) -> Result<(), Failure> {
        if self.response.status == 103 {
            self.connection.worker.metrics.early_hints.increment();
        }
        self.response.fields.remove_hop_by_hop();
        self.responder.send_interim(&self.response).await.map_err(gone)
    }

    fn note_first_byte(&mut self, pool: &WorkerPool<S>, sent_at: Instant) {
        let waited = sent_at.elapsed();
        pool.metrics.record_first_byte(waited);
        if let Some(upstream) = &mut self.record.upstream {
            upstream.first_byte = Some(waited);
        }
    }

    async fn tunnel(&mut self, connection: &H1Connection<S>, rest: Buf, idle: Duration) {
        let outcome = tunnel::run(&self.connection.stream, &connection.stream, rest, idle).await;
        self.record.request_bytes += outcome.client_bytes;
        if let Some(reason) = outcome.reason {
            self.record.reason = Some(reason);
        }
    }
}

/// Where the answer will come from.
enum Reply<'u, S: Sock> {
    H1 { stream: &'u tidegate_transport::Stream<S>, sent_at: Instant },
    H2 { response: Box<::h2::client::ResponseFuture>, sent_at: Instant },
}

/// What the answer's head says about what follows.
struct Answer {
    framing: BodyFraming,
    /// 101: the connection is a tunnel from here on.
    switched: bool,
    reusable: bool,
    keep_alive_seconds: Option<u64>,
    /// What followed the head of a switch.
    rest: Buf,
}

enum Replied {
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

/// One `Content-Length` where there may be one, none where there must not.
fn settle_content_length(head: &mut ResponseHead, framing: BodyFraming) {
    match framing {
        BodyFraming::Length(length) => {
            let stated = head.fields.all(HeaderId::ContentLength).take(2).count();
            if stated != 1 {
                head.fields.set(b"content-length", itoa::Buffer::new().format(length).as_bytes());
            }
        }
        // RFC 9110 section 8.6: not in 204; in the answer to HEAD and in 304 it describes what is not sent.
        BodyFraming::None if head.status == 204 => {
            head.fields.remove_id(HeaderId::ContentLength);
        }
        BodyFraming::None => {}
        BodyFraming::Chunked | BodyFraming::UntilClose => {
            head.fields.remove_id(HeaderId::ContentLength);
        }
    }
}

async fn receive_head_h1<S: Sock>(
    stream: &tidegate_transport::Stream<S>,
    rest: Buf,
    limits: tidegate_wire::HeadLimits,
    head: &mut ResponseHead,
) -> Result<Buf, Failure> {
    let first = if rest.is_empty() { stream.read().await } else { Ok(rest) };
    let first = first.map_err(|error| Failure::upstream(upstream_read_error(&error, false), Reach::Sent))?;
    if first.is_empty() {
        return Err(Failure::upstream(UpstreamError::ClosedEarly, Reach::Sent));
    }
    read_head(stream, first, limits.head_bytes_max, |data| parse_response(data, &limits, head)).await.map_err(|fault| {
        let error = match fault {
            HeadFault::Io(error) => upstream_read_error(&error, true),
            HeadFault::Cut => UpstreamError::ClosedEarly,
            HeadFault::Bad(HeadError::HeadTooLarge | HeadError::TooManyFields) => UpstreamError::HeadTooLarge,
            HeadFault::Bad(_) => UpstreamError::BadResponse,
        };
        Failure::upstream(error, Reach::Answering)
    })
}

enum H2Head {
    Interim(http::response::Parts),
    Final(Box<http::Response<::h2::RecvStream>>),
}

async fn next_h2_head(response: &mut ::h2::client::ResponseFuture) -> Result<H2Head, ::h2::Error> {
    poll_fn(|cx| {
        if let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
            return Poll::Ready(interim.map(|interim| H2Head::Interim(interim.into_parts().0)));
        }
        std::pin::Pin::new(&mut *response).poll(cx).map_ok(|answer| H2Head::Final(Box::new(answer)))
    })
    .await
}

fn h2_error(error: &::h2::Error) -> UpstreamError {
    if error.is_go_away() { UpstreamError::GoAway } else { UpstreamError::Reset }
}

/// RFC 9113 section 8.7: a refused stream was not processed.
fn h2_reach(error: &::h2::Error) -> Reach {
    if error.reason() == Some(::h2::Reason::REFUSED_STREAM) { Reach::NothingSent } else { Reach::Sent }
}

fn bad_response() -> Failure {
    Failure::upstream(UpstreamError::BadResponse, Reach::Answering)
}

fn gone(error: io::Error) -> Failure {
    Failure::Client(if error.kind() == io::ErrorKind::TimedOut { ClientFault::WriteStalled } else { ClientFault::Gone })
}

fn client_fault(fault: BodyFault) -> Failure {
    Failure::Client(match fault {
        BodyFault::Io(error) if error.kind() == io::ErrorKind::TimedOut => ClientFault::BodyTooSlow,
        BodyFault::Io(_) | BodyFault::Reset | BodyFault::Framing(tidegate_wire::BodyError::Truncated) => ClientFault::Gone,
        BodyFault::Framing(error) => ClientFault::BadBody(error),
    })
}

fn upstream_body_fault(fault: &BodyFault) -> Failure {
    let error = match fault {
        BodyFault::Io(error) if error.kind() == io::ErrorKind::TimedOut => UpstreamError::IdleTimeout,
        BodyFault::Io(_) | BodyFault::Reset | BodyFault::Framing(tidegate_wire::BodyError::Truncated) => UpstreamError::BodyCut,
        BodyFault::Framing(_) => UpstreamError::BadResponse,
    };
    Failure::upstream(error, Reach::Answering)
}

/// Why the request's body is not sent on any further.
enum PumpFault {
    Client(Failure),
    /// The upstream takes no more; its answer may still come.
    Upstream,
}

/// Passes the request's body on. Reading pauses while the upstream takes nothing.
async fn pump_body<S: Sock>(
    body: &mut BodyReader<'_, S>,
    mut writer: RequestWriter<'_, S>,
    mut pace: Pace,
    mut allowance: Option<BodyAllowance>,
    pumped: &Cell<u64>,
) -> Result<(), PumpFault> {
    let mut turn = 0;
    loop {
        let piece = pace.read(body).await.map_err(|fault| PumpFault::Client(client_fault(fault)))?;
        let trailers = if body.is_finished() || piece.is_none() { body.take_trailers() } else { None };
        let Some(piece) = piece else { return writer.finish(trailers.as_deref()).await.map_err(|_| PumpFault::Upstream) };
        pumped.set(pumped.get() + piece.len() as u64);
        if let Some(allowance) = &mut allowance {
            allowance.take(piece.len() as u64).map_err(|_| PumpFault::Client(Failure::Client(ClientFault::BodyTooLarge)))?;
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
            rt::yield_now().await;
        }
    }
}

/// The least rate of a request body. Only time spent waiting for the client counts, so a slow upstream is not held against it; streams
/// over HTTP/2 without a declared length may pause for as long as they like, since that is what gRPC streams do.
struct Pace {
    rate_bytes: u64,
    applies: bool,
    received: u64,
    waited: Duration,
}

impl Pace {
    fn new(rate_bytes: u64, framing: BodyFraming, is_h2: bool) -> Pace {
        let applies = rate_bytes > 0 && (!is_h2 || matches!(framing, BodyFraming::Length(_)));
        Pace { rate_bytes, applies, received: 0, waited: Duration::ZERO }
    }

    /// How long the next piece may take.
    fn allowance(&self) -> Duration {
        let earned = Duration::from_millis(self.received.saturating_mul(1000) / self.rate_bytes.max(1));
        BODY_RATE_GRACE + earned.saturating_sub(self.waited)
    }

    async fn read<S: Sock>(&mut self, body: &mut BodyReader<'_, S>) -> Result<Option<Buf>, BodyFault> {
        if !self.applies {
            return body.read().await;
        }
        let started = rt::now();
        let piece = match body {
            BodyReader::H1(reader) => {
                reader.stream.sock.set_read_limit(ReadLimit::Until(started + self.allowance()));
                body.read().await
            }
            BodyReader::H2(_) | BodyReader::Empty => match rt::timeout(self.allowance(), body.read()).await {
                Some(piece) => piece,
                None => Err(BodyFault::Io(io::ErrorKind::TimedOut.into())),
            },
        }?;
        self.waited += started.elapsed();
        self.received += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Ok(piece)
    }
}

/// Drives the answer and the request's body together. The answer decides: when it is complete the body is left where it is. A client that
/// fails ends both.
async fn both<T>(
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

/// Waits for something of the upstream's, unless the client leaves meanwhile; then nobody needs it. While the request's body is being read
/// its reader notices instead.
async fn unless_gone_while<T, S: Sock>(
    responder: &mut Responder<'_, S>,
    request_done: &Cell<bool>,
    future: impl Future<Output = T>,
) -> Result<T, Failure> {
    let mut future = pin!(future);
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

async fn unless_gone<T, S: Sock>(
    responder: &mut Responder<'_, S>,
    body: &BodyReader<'_, S>,
    future: impl Future<Output = T>,
) -> Result<T, Failure> {
    let done = Cell::new(body.is_finished());
    unless_gone_while(responder, &done, future).await
}

/// Counts a request towards its server's load, however it ends.
struct InFlight<S: Sock>(Rc<Server<S>>);

impl<S: Sock> InFlight<S> {
    fn new(server: Rc<Server<S>>) -> InFlight<S> {
        let count = &server.state().in_flight;
        count.set(count.get() + 1);
        InFlight(server)
    }
}

impl<S: Sock> Drop for InFlight<S> {
    fn drop(&mut self) {
        let count = &self.0.state().in_flight;
        count.set(count.get() - 1);
    }
}

struct ActiveConnection<S: Sock>(Rc<WorkerPool<S>>);

impl<S: Sock> ActiveConnection<S> {
    fn new(pool: Rc<WorkerPool<S>>) -> ActiveConnection<S> {
        pool.metrics.connections_active.increment();
        ActiveConnection(pool)
    }
}

impl<S: Sock> Drop for ActiveConnection<S> {
    fn drop(&mut self) {
        self.0.metrics.connections_active.decrement();
    }
}
