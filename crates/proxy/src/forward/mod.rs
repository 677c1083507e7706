//! Between a request and its upstream: prepare the head, choose a server, take or open a connection, send, stream both bodies, and try again
//! where that is safe. A part of `request`; split off because it is the longer half.

mod body;
mod head;
mod reply;

use self::body::{Pace, both, client_fault, pump_body, unless_gone};
use self::head::Plan;
use self::reply::{Replied, Reply, h2_error};
use crate::balance::{Draw, choose, hash_bytes};
use crate::exchange::{BodyReader, RequestWriter, encode_request};
use crate::failure::{ClientFault, Failure, Reach};
use crate::h2_head;
use crate::lease::Lease;
use crate::listening::ConnectionKind;
use crate::pool::{H1Connection, Server, WorkerPool};
use crate::request::{Request, context};
use crate::snapshot::CompiledRoute;
use crate::tunnel::{self, Farewell};
use crate::upstream::{self, Need, h2 as upstream_h2};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_middleware::View;
use tidegate_model::Balance;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::http1::expects_continue;

/// Attempts at one request, the first included.
const ATTEMPTS_MAX: usize = 3;

/// The first piece of the request's body, kept while the request may have to be sent again.
enum Replay {
    /// Nothing of the body was taken yet.
    Untouched,
    Kept(Lease<Vec<u8>>),
    /// More was taken than is kept.
    Lost,
}

/// The connection of an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Was {
    Fresh,
    /// It had served a request before.
    Pooled,
    /// HTTP/2, with the requests of others.
    Shared,
}

impl<S: Sock> Request<'_, S> {
    /// Sends the request to a server of the pool and its answer to the client.
    pub(crate) async fn forward(&mut self, route: &CompiledRoute, pool: &Rc<WorkerPool<S>>) -> Result<(), Failure> {
        self.pool = Some(pool.clone());
        let plan = self.prepare_head(pool);
        let mut replay = Replay::Untouched;
        let mut tried = [usize::MAX; ATTEMPTS_MAX];
        let mut again = None;
        let mut attempt = 0;
        // What to say when nothing is left to try: why the last attempt failed, or that there was no server at all.
        let mut failure = Failure::upstream(UpstreamError::NoServer, Reach::NothingSent);
        let mut was = Was::Fresh;
        loop {
            let Some(position) = again.take().or_else(|| self.choose_server(pool, &tried[..attempt])) else {
                return Err(failure);
            };
            if attempt > 0 {
                pool.metrics.retries.increment();
                self.record.retries += 1;
            }
            let same_as_before = attempt > 0 && tried[attempt - 1] == position;
            tried[attempt] = position;
            attempt += 1;
            let need = Need {
                certain: !plan.idempotent,
                http1_only: plan.upgrade,
                prefers_h2: plan.grpc,
                fresh: same_as_before && was == Was::Pooled,
                head_bytes_max: self.settings.head_limits.head_bytes_max,
            };
            (failure, was) = match self.attempt(route, pool, position, need, &plan, &mut replay).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            self.note_failure(pool, position, failure);
            if attempt == ATTEMPTS_MAX || !self.may_try_again(failure, &plan, &replay, was, pool.servers.len()) {
                return Err(failure);
            }
            if was != Was::Fresh {
                // The connection was at fault, not the server.
                again = Some(position);
            }
        }
    }

    /// RFC 9110 section 9.2.2: again only what did not reach the server, or does the same when done twice; and only while all of the body
    /// is still there.
    fn may_try_again(&self, failure: Failure, plan: &Plan, replay: &Replay, was: Was, servers: usize) -> bool {
        let Failure::Upstream(fault) = failure else { return false };
        let is_whole = match replay {
            Replay::Untouched | Replay::Kept(_) => true,
            Replay::Lost => false,
        };
        let is_connection_fault =
            matches!(fault.error, UpstreamError::ClosedEarly | UpstreamError::Reset | UpstreamError::GoAway);
        let is_safe = match fault.reach {
            Reach::NothingSent => !matches!(fault.error, UpstreamError::PoolFull),
            Reach::Sent => is_connection_fault && plan.idempotent,
            Reach::Answering => false,
        };
        !self.responder.has_started() && is_whole && is_safe && (was != Was::Fresh || servers > 1)
    }

    fn note_failure(&self, pool: &WorkerPool<S>, position: usize, failure: Failure) {
        let Failure::Upstream(fault) = failure else { return };
        pool.metrics.error(fault.error);
        if matches!(fault.error, UpstreamError::ConnectFailed | UpstreamError::TlsFailed) {
            // Logged with its cause where the connection was opened.
            return;
        }
        if let Some(suppressed) = self.connection.worker.gates.upstream.allow(Instant::now()) {
            let server = &pool.compiled.servers[position].authority;
            tracing::warn!(pool = %pool.compiled.name, %server, reason = fault.error.reason(), suppressed, "an upstream server failed");
        }
    }

    fn choose_server(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Option<usize> {
        let worker = &self.connection.worker;
        let key_hash = match (&pool.compiled.model.balance, &pool.compiled.hash_key) {
            (Balance::Hash { .. }, Some(key)) => {
                let context = context(self.connection, self.pool.as_deref(), &self.record, self.client_ip);
                let mut rendered: Lease<Vec<u8>> = Lease::take();
                key.render(View { context: &context, request: &self.head, response: None }, &mut rendered);
                hash_bytes(&rendered)
            }
            _ => 0,
        };
        let draw = Draw { key_hash, random: worker.random(), now: self.record.started, tried };
        choose(&pool.compiled.model.balance, &pool.servers, draw)
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
    ) -> Result<(), (Failure, Was)> {
        let server = &pool.servers[position];
        let _in_flight = InFlight::new(server.clone());
        self.record.sent_to(position, false);
        let connection = match upstream::take(pool, position, need) {
            Some(connection) => connection,
            None => Box::pin(self.open(pool, position, need)).await.map_err(|failure| (failure, Was::Fresh))?,
        };
        pool.metrics.requests.increment();
        match connection {
            upstream::Connection::H1(connection) => {
                let reused = connection.idle_before.is_some();
                self.record.sent_to(position, reused);
                self.exchange_h1(route, pool, position, connection, plan, replay)
                    .await
                    .map_err(|failure| (failure, if reused { Was::Pooled } else { Was::Fresh }))
            }
            upstream::Connection::H2(lease) => {
                self.record.sent_to(position, true);
                // Boxed, as every branch that the common request does not take: its size would be copied for all.
                Box::pin(self.exchange_h2(route, pool, lease, plan, replay)).await.map_err(|failure| (failure, Was::Shared))
            }
        }
    }

    /// A fresh connection, unless the client leaves while it is made.
    async fn open(&mut self, pool: &Rc<WorkerPool<S>>, position: usize, need: Need) -> Result<upstream::Connection<S>, Failure> {
        let request_done = Cell::new(self.body.is_finished());
        unless_gone(&mut self.responder, &request_done, pin!(upstream::open(pool, position, need))).await?
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
        let has_body = first.is_some() || !all_sent;
        let bad_head = |_| Failure::Client(ClientFault::BadBody(tidegate_wire::BodyError::TrailersTooLarge));
        let trailers = if all_sent { self.body.take_trailers() } else { None };
        let message = encode_request(&self.head, first, plan.chunked, all_sent && trailers.is_none()).map_err(bad_head)?;
        let timeouts = pool.compiled.model.timeouts;
        let stream = &connection.stream;
        stream.sock.set_write_idle(timeouts.idle);
        // The kernel did not take all of it, so no server has a whole request; with part of a body it may have begun to act all the same.
        let reach = if has_body { Reach::Sent } else { Reach::NothingSent };
        stream.write(message).await.map_err(|_| Failure::upstream(UpstreamError::Reset, reach))?;
        let sent_at = rt::now();
        // The clock of the first byte begins with the end of the request; while its body is on the way the upstream may be silent.
        let limit = if all_sent { ReadLimit::Until(sent_at + timeouts.first_byte) } else { ReadLimit::Idle(timeouts.idle) };
        stream.sock.set_read_limit(limit);
        let mut writer = RequestWriter::H1 { stream, chunked: plan.chunked };
        if all_sent && let Some(trailers) = &trailers {
            // They cannot be read again.
            *replay = Replay::Lost;
            let _ = writer.finish(Some(trailers)).await;
        }
        let reply = Reply::H1 { stream, sent_at };
        let pump_done = Cell::new(all_sent);
        let outcome = if all_sent {
            self.stream_reply(route, pool, reply, &pump_done, &Cell::new(false)).await
        } else {
            Box::pin(self.stream_both(route, pool, reply, writer, &pump_done, replay)).await
        };
        self.connection.account_upstream_bytes(stream);
        match outcome? {
            Replied::Switched(rest) => {
                Box::pin(self.tunnel(&connection, rest, timeouts.idle)).await;
                self.connection.account_upstream_bytes(&connection.stream);
            }
            Replied::Whole { reusable, keep_alive_seconds } => {
                let server = &pool.servers[position];
                if let Some(seconds) = keep_alive_seconds {
                    server.learn_announced(seconds);
                }
                if reusable && pump_done.get() && connection.stream.is_clean() {
                    let wanted = pool.compiled.servers[position].shared.is_wanted();
                    let ended = rt::now();
                    self.record.ended = Some(ended);
                    server.put_idle(connection, ended, wanted, &pool.metrics);
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
        let refused = |error: ::h2::Error| {
            lease.retire();
            Failure::upstream(h2_error(&error), Reach::NothingSent)
        };
        let limit = pool.compiled.model.timeouts.connect;
        let ready = rt::timeout(limit, lease.sender.clone().ready()).await;
        let mut sender = ready.ok_or(Failure::upstream(UpstreamError::PoolFull, Reach::NothingSent))?.map_err(refused)?;
        let trailers = if all_sent { self.body.take_trailers() } else { None };
        let ends = all_sent && first.is_none() && trailers.is_none();
        let (response, sending) = sender.send_request(request, ends).map_err(refused)?;
        let idle = pool.compiled.model.timeouts.idle;
        let mut writer: RequestWriter<'_, S> = RequestWriter::H2 { sending, idle };
        if let Some(piece) = first {
            let sent = writer.send_body(piece, all_sent && trailers.is_none()).await;
            sent.map_err(|_| Failure::upstream(UpstreamError::Reset, Reach::Sent))?;
        }
        if all_sent && let Some(trailers) = &trailers {
            // They cannot be read again.
            *replay = Replay::Lost;
            let _ = writer.finish(Some(trailers)).await;
        }
        let reply = Reply::H2 { response: Box::new(response), sent_at: rt::now() };
        let pump_done = Cell::new(all_sent);
        let outcome = if all_sent {
            self.stream_reply(route, pool, reply, &pump_done, &Cell::new(false)).await
        } else {
            self.stream_both(route, pool, reply, writer, &pump_done, replay).await
        };
        if let Err(Failure::Upstream(fault)) = &outcome
            && fault.error == UpstreamError::GoAway
        {
            lease.retire();
        }
        outcome.map(drop)
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
        let mut allowance = self.body_allowance.take();
        let answering = Cell::new(false);
        let outcome = {
            if let BodyReader::H2(reader) = &mut body {
                // A stream may be silent for long, but not for ever.
                reader.idle = Some(pool.compiled.model.timeouts.idle);
            }
            let timeouts = pool.compiled.model.timeouts;
            let first_grace = if expects_continue(&self.head) { timeouts.first_byte } else { Duration::ZERO };
            let rate = self.settings.body_rate_bytes;
            let pace = Pace::new(rate, self.framing, self.connection.is_h2(), first_grace);
            let connection = self.connection;
            let upstream_stream = match reply {
                Reply::H1 { stream, .. } => Some(stream),
                Reply::H2 { .. } => None,
            };
            let account = move || {
                connection.account_bytes();
                if let Some(stream) = upstream_stream {
                    connection.account_upstream_bytes(stream);
                }
            };
            let pump = async {
                let outcome = pump_body(&mut body, writer, pace, &mut allowance, &pumped, &account).await;
                if let (Ok(()), Some(stream)) = (&outcome, upstream_stream)
                    && !answering.get()
                {
                    // The request is complete: now the answer has to begin.
                    stream.sock.set_read_limit(ReadLimit::Until(rt::now() + timeouts.first_byte));
                }
                outcome
            };
            let reply = self.stream_reply(route, pool, reply, pump_done, &answering);
            both(reply, pump, pump_done).await
        };
        self.body = body;
        self.body_allowance = allowance;
        self.record.request_bytes += pumped.get();
        if pumped.get() > 0 {
            *replay = Replay::Lost;
        }
        outcome
    }

    async fn tunnel(&mut self, connection: &H1Connection<S>, rest: Buf, idle: Duration) {
        self.connection.facts.kind.set(ConnectionKind::Tunnel);
        let protocol = self.hop.upgrade.map_or(&b""[..], |span| span.of(&self.head.fields.bytes));
        let farewell = Farewell {
            listener: &self.connection.listener,
            random: self.connection.worker.random(),
            is_websocket: protocol.eq_ignore_ascii_case(b"websocket"),
        };
        let outcome = tunnel::run(&self.connection.stream, &connection.stream, rest, idle, farewell).await;
        self.record.request_bytes += outcome.client_bytes;
        self.responder.add_bytes_sent(outcome.upstream_bytes);
        if let Some(reason) = outcome.reason {
            self.record.reason = Some(reason);
        }
    }
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
