//! Between a request and its upstream: prepare the head, choose a server, take or open a connection, send, stream both bodies, and try again
//! where that is safe. A part of `request`; split off because it is the longer half.

mod begin;
pub(crate) mod body;
pub(crate) mod choose;
mod head;
mod hedge;
mod mirror;
mod reply;
pub(crate) mod retry;
mod total;

use self::begin::Begun;
use self::body::{Pace, both, client_fault, pump_body};
pub(crate) use self::body::{join_both, unless_gone, upstream_body_fault};
use self::head::Plan;
pub use self::mirror::Copies;
pub(crate) use self::reply::settle_content_length;
use self::reply::{Replied, Reply, h2_error};
pub use self::retry::Attempt;
use crate::exchange::{BodyReader, RequestWriter, encode_request};
use crate::failure::{ClientFault, Failure};
use crate::h2_head;
use crate::lease::Lease;
use crate::listening::{ConnectionFacts, ConnectionKind};
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use crate::tunnel::{self, Farewell, Parting, TunnelBytes};
use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_upstream::choose::{Choice, NoChoice, unserved};
use tidegate_upstream::connect::{self, Need, Opener, h2 as upstream_h2};
use tidegate_upstream::fault::{Reach, UpstreamFault};
use tidegate_upstream::pool::{H1Connection, WorkerPool};
use tidegate_upstream::retry::{NextTry, Tries, first_byte_until, open_until};
use tidegate_upstream::verdict::Trial;
use tidegate_wire::http1::expects_continue;

/// What is kept of a request's body while it may have to be sent again.
const REPLAY_BYTES_MAX: usize = 64 << 10;

/// The beginning of the request's body, kept while the request may have to be sent again.
enum Replay {
    /// Nothing of the body was taken yet, and nothing will be kept: what has arrived must not be sent twice.
    Unkept,
    /// Nothing of the body was taken yet.
    Untouched,
    Kept(Lease<Vec<u8>>),
    /// More was taken than is kept.
    Lost,
}

impl Replay {
    fn new(plan: &Plan) -> Replay {
        if plan.idempotent { Replay::Untouched } else { Replay::Unkept }
    }

    /// A piece is taken from the client.
    fn note(&mut self, piece: &[u8]) {
        let mut kept: Lease<Vec<u8>> = match std::mem::replace(self, Replay::Lost) {
            Replay::Untouched => Lease::take(),
            Replay::Kept(kept) => kept,
            Replay::Unkept | Replay::Lost => return,
        };
        if kept.len() + piece.len() <= REPLAY_BYTES_MAX {
            kept.extend_from_slice(piece);
            *self = Replay::Kept(kept);
        }
    }

    /// Trailers are not kept.
    fn note_trailers(&mut self) {
        *self = Replay::Lost;
    }

    fn is_whole(&self) -> bool {
        match self {
            Replay::Unkept | Replay::Untouched | Replay::Kept(_) => true,
            Replay::Lost => false,
        }
    }

    /// Nothing of the body went anywhere: what an attempt takes itself is all that there is.
    fn is_untouched(&self) -> bool {
        match self {
            Replay::Unkept | Replay::Untouched => true,
            Replay::Kept(_) | Replay::Lost => false,
        }
    }
}

/// What the answer and the request's body tell each other while both are on their way.
#[derive(Default)]
struct Abreast {
    is_answering: Cell<bool>,
    /// The request cannot be sent again: more was taken of it than is kept.
    is_lost: Cell<bool>,
}

impl Abreast {
    fn of(replay: &Replay) -> Abreast {
        Abreast { is_answering: Cell::new(false), is_lost: Cell::new(!replay.is_whole()) }
    }
}

/// How an attempt failed, and at which server.
#[derive(Clone, Copy)]
struct Failed {
    failure: Failure,
    was: Was,
    position: usize,
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

impl Was {
    /// A kept connection ended under the request: the server closed it a moment before, as it may (RFC 9112 section 9.5), and did nothing wrong.
    fn is_race(self, fault: UpstreamFault) -> bool {
        let is_end = matches!(fault.error, UpstreamError::ClosedEarly | UpstreamError::Reset | UpstreamError::GoAway);
        match self {
            Was::Fresh => false,
            Was::Pooled => is_end && fault.reach != Reach::Answering,
            // A stream that is reset after it was taken is the server's answer.
            Was::Shared if fault.error == UpstreamError::Reset => fault.reach == Reach::NothingSent,
            Was::Shared => is_end && fault.reach != Reach::Answering,
        }
    }
}

impl<S: Sock> Request<'_, S> {
    /// Sends the request to a server of the pool and its answer to the client, for as long as that takes.
    pub(crate) async fn forward(&mut self, route: &CompiledRoute, mut pool: Rc<WorkerPool<S>>) -> Result<(), Failure> {
        self.pool = Some(pool.clone());
        if self.connection.worker.process.pressure.is_high() {
            return Err(unserved(&pool, UpstreamError::Overloaded).into());
        }
        let plan = self.prepare_head(&pool);
        self.copy_head(plan.trailers_wanted, plan.grpc);
        pool.budget.note_request(self.since_start(self.record.started));
        let mut replay = Replay::new(&plan);
        let mut tries = Tries::default();
        // What to say when nothing is left to try: why the last attempt failed.
        let mut failure = Failure::upstream(UpstreamError::NoServer, Reach::NothingSent);
        loop {
            let choice = match tries.again.take() {
                Some((position, room)) => Choice::again(&pool, position, room),
                None => match self.choose_server(&pool, tries.tried()) {
                    Ok(choice) => choice,
                    Err(NoChoice::NoServer) if tries.tried().is_empty() => {
                        return Err(unserved(&pool, UpstreamError::NoServer).into());
                    }
                    Err(NoChoice::NoServer) => return Err(failure),
                    Err(NoChoice::Full) => match Box::pin(self.wait_for_place(&mut pool, tries.tried())).await {
                        Ok(choice) => choice,
                        // Of a request that was somewhere already, its own failure says more than that the others are full.
                        Err(Failure::Upstream(_)) if !tries.tried().is_empty() => return Err(failure),
                        Err(full) => return Err(full),
                    },
                },
            };
            let need = Need {
                certain: !plan.idempotent,
                http1_only: plan.upgrade,
                prefers_h2: plan.grpc,
                fresh: tries.needs_fresh(choice.position),
                connect: route.timeouts.over(&pool.compiled.model.timeouts).connect,
                head_bytes_max: self.settings.head_limits.head_bytes_max,
                client: pool.compiled.model.send_proxy_protocol.map(|_| self.client()),
            };
            if !tries.tried().is_empty() {
                pool.metrics.retries.increment();
                self.record.retries += 1;
            }
            tries.begin(choice.position);
            self.begin_attempt(&pool, route, &plan, &tries);
            let trial = Trial::new(pool.clone(), choice);
            // A body that was taken for an attempt before is finished as well, and would not be sent.
            let has_no_body = self.body.is_finished() && replay.is_untouched();
            let may_hedge = plan.idempotent && !plan.upgrade && has_no_body;
            let (outcome, room) = match pool.compiled.model.hedge.filter(|_| may_hedge && self.is_hedged(route, &trial)) {
                None => {
                    let outcome = pin!(self.attempt(route, &trial, need, &plan, &mut replay)).await;
                    (self.note_outcome(&trial, outcome), trial.into_room())
                }
                Some(hedge) => (Box::pin(self.attempt_hedged(route, trial, need, &plan, hedge.after, &mut tries)).await, None),
            };
            let failed = match outcome {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            failure = failed.failure;
            match self.next_try(&pool, route, failed, &plan, &replay, &mut tries) {
                NextTry::None => return Err(failure),
                NextTry::SameServer(position) => tries.again = Some((position, room)),
                NextTry::Another => {}
            }
        }
    }

    /// An attempt that may become two.
    async fn attempt_hedged(
        &mut self,
        route: &CompiledRoute,
        trial: Trial<S>,
        need: Need,
        plan: &Plan,
        after: Duration,
        tries: &mut Tries,
    ) -> Result<(), Failed> {
        self.record.sent_to(trial.position(), false);
        // The client has gone: nothing is tried again.
        let position = trial.position();
        let race = self.race(route, trial, need, plan, after, tries).await;
        let race = race.map_err(|failure| Failed { failure, was: Was::Fresh, position })?;
        if let Some((other, failure, was)) = race.failed {
            self.note_failure(&other, failure, was);
        }
        let trial = race.trial;
        let outcome = match race.outcome {
            Ok(begun) => self.exchange_begun(route, &trial, begun).await,
            Err(failed) => Err(failed),
        };
        self.note_outcome(&trial, outcome)
    }

    async fn exchange_begun(&mut self, route: &CompiledRoute, trial: &Trial<S>, begun: Begun<S>) -> Result<(), (Failure, Was)> {
        match begun {
            Begun::H1 { connection, first, sent_at } => {
                let was = if connection.idle_before.is_some() { Was::Pooled } else { Was::Fresh };
                self.record.sent_to(trial.position(), was == Was::Pooled);
                let _active = ActiveConnection::new(trial.pool().clone());
                let reply = Reply::H1 { stream: &connection.stream, sent_at, first };
                let outcome = self.stream_reply(route, trial, reply, &Cell::new(true), &Abreast::default()).await;
                // A request that may be hedged asks for no tunnel.
                self.finish_h1(trial, connection, outcome, true).map(drop).map_err(|failure| (failure, was))
            }
            Begun::H2 { lease, response, head, sent_at } => {
                self.record.sent_to(trial.position(), true);
                let reply = Reply::H2 { response, sent_at, head: Some(head) };
                let outcome = self.stream_reply(route, trial, reply, &Cell::new(true), &Abreast::default()).await;
                finish_h2(&lease, outcome).map_err(|failure| (failure, Was::Shared))
            }
        }
    }

    fn note_outcome(&self, trial: &Trial<S>, outcome: Result<(), (Failure, Was)>) -> Result<(), Failed> {
        outcome.map_err(|(failure, was)| {
            self.note_failure(trial, failure, was);
            Failed { failure, was, position: trial.position() }
        })
    }

    fn note_failure(&self, trial: &Trial<S>, failure: Failure, was: Was) {
        let Failure::Upstream(fault) = failure else { return };
        let pool = trial.pool();
        pool.metrics.error(fault.error);
        if !was.is_race(fault) {
            trial.failed_with(fault.error);
        }
        // Logged with its cause where the connection was opened; a status stands in the access log.
        let is_logged = matches!(fault.error, UpstreamError::ConnectFailed | UpstreamError::TlsFailed | UpstreamError::BadStatus);
        let is_of_server = !matches!(fault.error, UpstreamError::PoolFull | UpstreamError::QueueTimeout);
        if is_logged || !is_of_server {
            return;
        }
        if let Some(suppressed) = self.connection.worker.gates.upstream.allow(Instant::now()) {
            let server = &pool.compiled.servers[trial.position()].authority;
            tracing::warn!(pool = %pool.compiled.name, %server, reason = fault.error.reason(), suppressed, "an upstream server failed");
        }
    }

    /// One attempt at one server. The error says whether the connection had been used before.
    async fn attempt(
        &mut self,
        route: &CompiledRoute,
        trial: &Trial<S>,
        need: Need,
        plan: &Plan,
        replay: &mut Replay,
    ) -> Result<(), (Failure, Was)> {
        let (pool, position) = (trial.pool(), trial.position());
        self.record.sent_to(position, false);
        let connection = match connect::take(pool, position, need) {
            Some(connection) => connection,
            None => Box::pin(self.open(pool, position, need)).await.map_err(|failure| (failure, Was::Fresh))?,
        };
        pool.metrics.requests.increment();
        pool.servers[position].own_metrics.requests.increment();
        match connection {
            connect::Connection::H1(connection) => {
                let reused = connection.idle_before.is_some();
                self.record.sent_to(position, reused);
                pin!(self.exchange_h1(route, trial, connection, plan, replay))
                    .await
                    .map_err(|failure| (failure, if reused { Was::Pooled } else { Was::Fresh }))
            }
            connect::Connection::H2(lease) => {
                self.record.sent_to(position, true);
                // Boxed, as every branch that the common request does not take: its size would be copied for all.
                Box::pin(self.exchange_h2(route, trial, lease, plan, replay)).await.map_err(|failure| (failure, Was::Shared))
            }
        }
    }

    /// A fresh connection, unless the client leaves while it is made.
    async fn open(&mut self, pool: &Rc<WorkerPool<S>>, position: usize, need: Need) -> Result<connect::Connection<S>, Failure> {
        // Nobody reads the request's body meanwhile.
        let request_done = Cell::new(true);
        let opener = self.opener();
        let opening = open_until(self.try_until, connect::open(pool, position, need, &opener));
        Ok(unless_gone(&mut self.responder, &request_done, pin!(opening)).await??)
    }

    fn opener(&self) -> Opener {
        Opener { random: self.connection.worker.random(), client: Rc::<ConnectionFacts>::downgrade(&self.connection.facts) }
    }

    /// Who asks, for servers that are told. Behind a trusted proxy its port is the best that is known.
    fn client(&self) -> connect::Client {
        let source = SocketAddr::new(self.client_ip, self.connection.client.port());
        connect::Client { source, destination: self.connection.local_address() }
    }

    /// The first piece of the body, from before or from the client; kept when the request may have to be sent again.
    fn first_piece(&mut self, replay: &mut Replay) -> Result<Option<Buf>, Failure> {
        match replay {
            Replay::Kept(kept) => Ok(Some(kept.as_slice()).filter(|kept| !kept.is_empty()).map(Buf::copy_of)),
            Replay::Lost => Ok(None),
            Replay::Unkept | Replay::Untouched => {
                let first = self.body.at_hand().map_err(client_fault)?;
                if let Some(piece) = &first {
                    self.count_body(piece.len())?;
                    replay.note(piece);
                    self.copy_piece(piece);
                }
                self.send_copies_if_whole();
                Ok(first)
            }
        }
    }

    pub(crate) fn count_body(&mut self, bytes: usize) -> Result<(), Failure> {
        self.record.request_bytes += bytes as u64;
        match &mut self.body_allowance {
            Some(allowance) => allowance.take(bytes as u64).map_err(|_| Failure::Client(ClientFault::BodyTooLarge)),
            None => Ok(()),
        }
    }

    async fn exchange_h1(
        &mut self,
        route: &CompiledRoute,
        trial: &Trial<S>,
        connection: H1Connection<S>,
        plan: &Plan,
        replay: &mut Replay,
    ) -> Result<(), Failure> {
        let pool = trial.pool();
        let _active = ActiveConnection::new(pool.clone());
        let first = self.first_piece(replay)?;
        let all_sent = self.body.is_finished();
        let has_body = first.is_some() || !all_sent;
        let bad_head = |_| Failure::Client(ClientFault::BadBody(tidegate_wire::BodyError::TrailersTooLarge));
        let trailers = if all_sent { self.body.take_trailers() } else { None };
        let message = encode_request(&self.head, first, plan.chunked, all_sent && trailers.is_none()).map_err(bad_head)?;
        let timeouts = self.timeouts;
        let stream = &connection.stream;
        stream.sock.set_write_idle(timeouts.idle);
        // The kernel did not take all of it, so no server has a whole request; with part of a body it may have begun to act all the same.
        let reach = if has_body { Reach::Sent } else { Reach::NothingSent };
        stream.write(message).await.map_err(|_| Failure::upstream(UpstreamError::Reset, reach))?;
        let sent_at = rt::now();
        // The clock of the first byte begins with the end of the request; while its body is on the way the upstream may be silent.
        let limit = if all_sent { ReadLimit::Until(self.first_byte_until(sent_at)) } else { ReadLimit::Idle(timeouts.idle) };
        stream.sock.set_read_limit(limit);
        let mut writer = RequestWriter::H1 { stream, chunked: plan.chunked };
        if all_sent && let Some(trailers) = &trailers {
            replay.note_trailers();
            let _ = writer.finish(Some(trailers)).await;
        }
        let reply = Reply::H1 { stream, sent_at, first: Buf::empty() };
        let pump_done = Cell::new(all_sent);
        let outcome = if all_sent {
            pin!(self.stream_reply(route, trial, reply, &pump_done, &Abreast::of(replay))).await
        } else {
            Box::pin(self.stream_both(route, trial, reply, writer, &pump_done, replay)).await
        };
        match self.finish_h1(trial, connection, outcome, pump_done.get())? {
            None => {}
            Some(switched) => Box::pin(self.tunnel(switched, timeouts.idle)).await,
        }
        Ok(())
    }

    /// After the answer: the connection is kept or ends, or becomes a tunnel, and then it is given back with what came behind the head.
    fn finish_h1(
        &mut self,
        trial: &Trial<S>,
        connection: H1Connection<S>,
        outcome: Result<Replied, Failure>,
        is_request_sent: bool,
    ) -> Result<Option<(H1Connection<S>, Buf)>, Failure> {
        let pool = trial.pool();
        self.connection.account_upstream_bytes(&connection.stream);
        match outcome? {
            Replied::Switched(rest) => return Ok(Some((connection, rest))),
            Replied::Whole { reusable, keep_alive_seconds } => {
                let server = &pool.servers[trial.position()];
                if let Some(seconds) = keep_alive_seconds {
                    server.learn_announced(seconds);
                }
                if reusable && is_request_sent && connection.stream.is_clean() {
                    let ended = rt::now();
                    self.record.ended = Some(ended);
                    server.put_idle(connection, ended, &pool.metrics);
                }
            }
        }
        Ok(None)
    }

    async fn exchange_h2(
        &mut self,
        route: &CompiledRoute,
        trial: &Trial<S>,
        lease: upstream_h2::Lease,
        plan: &Plan,
        replay: &mut Replay,
    ) -> Result<(), Failure> {
        let pool = trial.pool();
        let first = self.first_piece(replay)?;
        let all_sent = self.body.is_finished();
        let is_tls = pool.compiled.tls.is_some();
        let request = h2_head::request(&self.head, if is_tls { "https" } else { "http" }, plan.trailers_wanted || plan.grpc)
            .ok_or(Failure::Client(ClientFault::BadBody(tidegate_wire::BodyError::BadTrailer)))?;
        let refused = |error: ::h2::Error| {
            lease.retire();
            Failure::upstream(h2_error(&error), Reach::NothingSent)
        };
        let ready = rt::timeout(self.timeouts.connect, lease.sender.clone().ready()).await;
        let mut sender = ready.ok_or(Failure::upstream(UpstreamError::PoolFull, Reach::NothingSent))?.map_err(refused)?;
        let trailers = if all_sent { self.body.take_trailers() } else { None };
        let ends = all_sent && first.is_none() && trailers.is_none();
        let (response, sending) = sender.send_request(request, ends).map_err(refused)?;
        let idle = self.timeouts.idle;
        let mut writer: RequestWriter<'_, S> = RequestWriter::H2 { sending, idle };
        if let Some(piece) = first {
            let sent = writer.send_body(piece, all_sent && trailers.is_none()).await;
            sent.map_err(|_| Failure::upstream(UpstreamError::Reset, Reach::Sent))?;
        }
        if all_sent && let Some(trailers) = &trailers {
            replay.note_trailers();
            let _ = writer.finish(Some(trailers)).await;
        }
        let reply = Reply::H2 { response: Box::new(response), sent_at: rt::now(), head: None };
        let pump_done = Cell::new(all_sent);
        let outcome = if all_sent {
            self.stream_reply(route, trial, reply, &pump_done, &Abreast::of(replay)).await
        } else {
            self.stream_both(route, trial, reply, writer, &pump_done, replay).await
        };
        finish_h2(&lease, outcome)
    }

    /// The answer to the client while the rest of the request goes to the upstream.
    async fn stream_both(
        &mut self,
        route: &CompiledRoute,
        trial: &Trial<S>,
        reply: Reply<'_, S>,
        writer: RequestWriter<'_, S>,
        pump_done: &Cell<bool>,
        replay: &mut Replay,
    ) -> Result<Replied, Failure> {
        let timeouts = self.timeouts;
        let mut body = std::mem::replace(&mut self.body, BodyReader::Empty);
        let mut copies = self.copies.take();
        let pumped = Cell::new(0);
        let mut allowance = self.body_allowance.take();
        let abreast = Abreast::of(replay);
        let try_until = self.try_until;
        let outcome = {
            // A stream may be silent for long, but not for ever.
            body.set_idle(timeouts.idle);
            let first_grace = if expects_continue(&self.head) { timeouts.first_byte } else { Duration::ZERO };
            let rate = self.settings.body_rate_bytes;
            let pace = Pace::new(rate, self.framing, self.connection.is_h2(), first_grace);
            let connection = self.connection;
            let upstream_stream = match &reply {
                Reply::H1 { stream, .. } => Some(*stream),
                Reply::H2 { .. } => None,
            };
            let account = move || {
                connection.account_bytes();
                if let Some(stream) = upstream_stream {
                    connection.account_upstream_bytes(stream);
                }
            };
            let pump = async {
                let note = |piece: &[u8], has_trailers: bool| {
                    pumped.set(pumped.get() + piece.len() as u64);
                    replay.note(piece);
                    if let Some(copies) = &mut copies {
                        copies.note(piece);
                    }
                    if has_trailers {
                        replay.note_trailers();
                    }
                    abreast.is_lost.set(!replay.is_whole());
                };
                let outcome = pump_body(&mut body, writer, pace, &mut allowance, note, &account).await;
                if outcome.is_ok()
                    && let Some(copies) = copies.take()
                {
                    copies.send();
                }
                if let (Ok(()), Some(stream)) = (&outcome, upstream_stream)
                    && !abreast.is_answering.get()
                {
                    // The request is complete: now the answer has to begin.
                    stream.sock.set_read_limit(ReadLimit::Until(first_byte_until(rt::now(), timeouts.first_byte, try_until)));
                }
                outcome
            };
            let reply = self.stream_reply(route, trial, reply, pump_done, &abreast);
            both(reply, pump, pump_done).await
        };
        self.body = body;
        // What is left of the body may go to another server, and to them.
        self.copies = copies;
        self.body_allowance = allowance;
        self.record.request_bytes += pumped.get();
        outcome
    }

    async fn tunnel(&mut self, (connection, rest): (H1Connection<S>, Buf), idle: Duration) {
        self.connection.facts.kind.set(ConnectionKind::Tunnel);
        let protocol = self.hop.upgrade.map_or(&b""[..], |span| span.of(&self.head.fields.bytes));
        let is_websocket = protocol.eq_ignore_ascii_case(b"websocket");
        let farewell = Farewell {
            listener: &self.connection.listener,
            random: self.connection.worker.random(),
            parting: if is_websocket { Parting::CloseFrame } else { Parting::WhenCut },
            passed_on: None,
        };
        let bytes = TunnelBytes::default();
        let cut_by = tunnel::run(&self.connection.stream, &connection.stream, rest, idle, farewell, &bytes).await;
        self.connection.account_upstream_bytes(&connection.stream);
        self.record.request_bytes += bytes.client.get();
        self.responder.add_bytes_sent(bytes.upstream.get());
        if let Some(cut_by) = cut_by {
            self.record.reason = Some(cut_by.reason());
        }
    }
}

fn finish_h2(lease: &upstream_h2::Lease, outcome: Result<Replied, Failure>) -> Result<(), Failure> {
    if let Err(Failure::Upstream(fault)) = &outcome
        && fault.error == UpstreamError::GoAway
    {
        lease.retire();
    }
    outcome.map(drop)
}

/// Counts a connection that is in use.
pub(crate) struct ActiveConnection<S: Sock>(Rc<WorkerPool<S>>);

impl<S: Sock> ActiveConnection<S> {
    pub(crate) fn new(pool: Rc<WorkerPool<S>>) -> ActiveConnection<S> {
        pool.metrics.connections_active.increment();
        ActiveConnection(pool)
    }
}

impl<S: Sock> Drop for ActiveConnection<S> {
    fn drop(&mut self) {
        self.0.metrics.connections_active.decrement();
    }
}
