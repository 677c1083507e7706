//! Between a request and its upstream: prepare the head, choose a server, take or open a connection, send, stream both
//! bodies, and try again where that is safe. The second half of `request`, which stands above it.

pub(crate) mod body;
mod choose;
pub(crate) mod collected;
mod head;
mod hedge;
mod mirror;
mod replay;
mod reply;
pub(crate) mod retry;
mod websocket;

use self::body::{BodyTerms, TrailerPass, both, pump_body, send_rest};
use self::head::Plan;
use self::mirror::Copies;
pub(crate) use self::replay::Replay;
use self::reply::Replied;
use self::retry::EarlyEnd;
pub use self::websocket::check_upgrade;
use self::websocket::kind_of_upgrade;
use crate::cached::Caching;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::listening::{ConnectionFacts, ConnectionKind};
use crate::relief::relieve_if_asked;
use crate::snapshot::CompiledRoute;
use crate::surroundings::Surroundings;
use crate::tunnel::{self, Farewell, Parting, Side, TunnelBytes};
use crate::worker_snapshot::WorkerSite;
use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_exchange::pace::Pace;
use tidegate_exchange::{BodyReader, ClientFault, Exchange, unless_gone};
use tidegate_middleware::Refusal;
use tidegate_model::Timeouts;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_upstream::attempt::Begun;
use tidegate_upstream::call::{Call, ScriptRequest, Start};
use tidegate_upstream::choose::{Choice, NoChoice, unserved};
use tidegate_upstream::connect::{self, Need, Opener, Upgrade};
use tidegate_upstream::errand::{Errand, Failed, carry_out};
use tidegate_upstream::fault::{UpstreamFault, Was};
use tidegate_upstream::pool::WorkerPool;
use tidegate_upstream::retry::{Terms, Tries, first_byte_until, open_until};
use tidegate_upstream::verdict::Attempt;
use tidegate_wire::HeadLimits;
use tidegate_wire::head::Version;
use tidegate_wire::http1::expects_continue;
use tidegate_wire::websocket::PROTOCOL;

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

/// A request on its way to some server of a pool, and its answer on the way back.
pub(crate) struct Forwarding<'r, 'c, S: Sock> {
    pub exchange: &'r mut Exchange<'c, S>,
    pub connection: &'c Rc<Connection<S>>,
    pub settings: Settings,
    pub site: Option<&'r WorkerSite>,
    pub route: &'r CompiledRoute,
    pub way: &'r mut Way<S>,
}

/// What a request needs of the configuration's process-wide settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub head_limits: HeadLimits,
    pub body_rate_bytes: u64,
    pub access_log: bool,
}

/// What a request remembers of its way to an upstream.
pub(crate) struct Way<S: Sock> {
    pub pool: Option<Rc<WorkerPool<S>>>,
    /// Which of the route's upstreams that is.
    pub upstream: usize,
    /// Copies that are to be made of the request.
    pub copies: Option<Box<Copies<S>>>,
    /// What the cache wants of the answer.
    pub caching: Option<Box<Caching>>,
    /// Time-outs of the pool, and where the route says otherwise, its.
    timeouts: Timeouts,
    attempt: EarlyEnd,
    /// By when the attempt has to have an answer; then another server is tried.
    try_until: Option<Instant>,
    /// Set when the request has become a tunnel, where `timeout total` bounds it until then.
    pub tunnel_began: Option<Rc<Cell<bool>>>,
}

impl<S: Sock> Default for Way<S> {
    #[inline]
    fn default() -> Self {
        Way {
            pool: None,
            upstream: 0,
            copies: None,
            caching: None,
            timeouts: Timeouts::default(),
            attempt: EarlyEnd::default(),
            try_until: None,
            tunnel_began: None,
        }
    }
}

/// The errand: what was settled before the first attempt, and what is kept for another.
struct Sending<'f, 'r, 'c, S: Sock> {
    forwarding: &'f mut Forwarding<'r, 'c, S>,
    plan: Plan,
    replay: Replay,
}

impl<S: Sock> Errand<S> for Sending<'_, '_, '_, S> {
    type Done = ();
    type Failure = Failure;

    fn choose(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Result<Choice, NoChoice> {
        self.forwarding.choose_server(pool, tried)
    }

    async fn wait(&mut self, pool: &mut Rc<WorkerPool<S>>, tried: &[usize]) -> Result<Choice, Failure> {
        self.forwarding.wait_for_permit(pool, tried).await
    }

    async fn attempt(&mut self, attempt: Attempt<S>, tries: &mut Tries) -> Result<(), Failed<Failure>> {
        let Sending { forwarding, plan, replay } = self;
        let route = forwarding.route;
        let model = &attempt.pool().compiled.model;
        let need = Need {
            certain: !plan.idempotent,
            upgrade: plan.upgrade,
            prefers_h2: plan.grpc,
            fresh: tries.needs_fresh(attempt.position()),
            connect: route.timeouts.over(&model.timeouts).connect,
            head_limits: forwarding.settings.head_limits,
            client: model.send_proxy_protocol.map(|_| forwarding.client()),
        };
        if tries.is_again() {
            forwarding.exchange.record.retries += 1;
        }
        forwarding.begin_attempt(attempt.pool(), route, plan, tries);
        // A body that was taken for an attempt before is finished as well, and would not be sent.
        let has_no_body = forwarding.exchange.body.is_finished() && replay.is_untouched();
        let may_hedge = plan.idempotent && plan.upgrade == Upgrade::None && has_no_body;
        if let Some(hedge) = model.hedge.filter(|_| may_hedge && forwarding.is_hedged(route, &attempt)) {
            return Box::pin(forwarding.attempt_hedged(route, attempt, need, plan, hedge.after, tries)).await;
        }
        let outcome = pin!(forwarding.attempt(route, &attempt, need, plan, replay)).await;
        outcome.map_err(|failed| forwarding.note_failed(attempt, failed))
    }

    fn terms<'a>(&'a self, pool: &'a WorkerPool<S>) -> Terms<'a> {
        Terms {
            retry: pool.compiled.retry(self.forwarding.route.retry(self.forwarding.way.upstream)),
            is_idempotent: self.plan.idempotent,
            is_whole: self.replay.is_whole() && !self.forwarding.exchange.responder.has_started(),
            try_until: self.forwarding.way.try_until,
            since_start: self.forwarding.connection.worker.process.since_start(rt::now()),
        }
    }

    fn fault(failure: &Failure) -> Option<UpstreamFault> {
        failure.fault()
    }
}

impl<'c, S: Sock> Forwarding<'_, 'c, S> {
    /// The exchange, and what surrounds it.
    pub(crate) fn parts(&mut self) -> (&mut Exchange<'c, S>, Surroundings<'_, S>) {
        let around = Surroundings { connection: self.connection, route: Some(self.route), pool: self.way.pool.as_deref() };
        (self.exchange, around)
    }

    /// Sends the request to a server of the pool and its answer to the client, for as long as that takes.
    pub(crate) async fn forward(&mut self, pool: Rc<WorkerPool<S>>) -> Result<(), Failure> {
        self.connection.facts.at_pool(&pool.compiled.name.0);
        self.way.pool = Some(pool.clone());
        let _ = relieve_if_asked(&self.connection.worker);
        if self.connection.worker.process.pressure.is_high() {
            return Err(unserved(&pool, UpstreamError::Overloaded).into());
        }
        let plan = self.prepare_head(&pool);
        self.copy_head(plan.trailers_wanted, plan.grpc);
        pool.budget.note_request(self.connection.worker.process.since_start(self.exchange.record.started));
        // A server of HTTP/2 can say that it has not looked at a request, which is sent again then whatever its method.
        let replay = Replay::of(plan.idempotent || pool.compiled.may_speak_h2(plan.grpc));
        pin!(carry_out(&mut Sending { forwarding: self, plan, replay }, pool)).await
    }

    /// Has the script run by a server of the pool, and sends its answer to the client.
    pub(crate) async fn forward_script(
        &mut self,
        pool: Rc<WorkerPool<S>>,
        script: ScriptRequest,
        replay: Replay,
    ) -> Result<(), Failure> {
        self.connection.facts.at_pool(&pool.compiled.name.0);
        self.way.pool = Some(pool.clone());
        let idempotent = self.exchange.head.method.is_idempotent();
        let script = Some(Box::new(script));
        let plan = Plan { upgrade: Upgrade::None, trailers_wanted: false, grpc: false, idempotent, chunked: false, script };
        pool.budget.note_request(self.connection.worker.process.since_start(self.exchange.record.started));
        carry_out(&mut Sending { forwarding: self, plan, replay }, pool).await
    }

    /// An attempt that may become two.
    async fn attempt_hedged(
        &mut self,
        route: &CompiledRoute,
        attempt: Attempt<S>,
        need: Need,
        plan: &Plan,
        after: Duration,
        tries: &mut Tries,
    ) -> Result<(), Failed<Failure>> {
        self.exchange.record.sent_to(attempt.position());
        // The client has gone: nothing is tried again.
        let position = attempt.position();
        let race = self.race(route, attempt, need, plan, after, tries).await;
        let race = race.map_err(|failure| Failed { failure, was: Was::Fresh, position, permit: None })?;
        if let Some((other, failure, was)) = race.failed {
            self.note_failure(&other, failure, was);
        }
        let attempt = race.attempt;
        let outcome = match race.outcome {
            Ok(begun) => self.exchange_begun(route, &attempt, begun).await,
            Err((fault, was)) => Err((fault.into(), was)),
        };
        outcome.map_err(|failed| Failed { permit: None, ..self.note_failed(attempt, failed) })
    }

    async fn exchange_begun(
        &mut self,
        route: &CompiledRoute,
        attempt: &Attempt<S>,
        begun: Begun<S>,
    ) -> Result<(), (Failure, Was)> {
        let Begun { call, sent_at, took } = begun;
        let was = call.was();
        let record = &mut self.exchange.record;
        record.sent_to(attempt.position());
        record.connected(was != Was::Fresh);
        record.opened(took.queue, took.connect, took.tls);
        let outcome = self.stream_reply(route, attempt, &call, sent_at, &Cell::new(true), &Abreast::default()).await;
        // A request that may be hedged asks for no tunnel.
        self.finish_call(attempt, call, outcome).map(drop).map_err(|failure| (failure, was))
    }

    fn note_failed(&self, attempt: Attempt<S>, (failure, was): (Failure, Was)) -> Failed<Failure> {
        self.note_failure(&attempt, failure, was);
        Failed { failure, was, position: attempt.position(), permit: attempt.into_permit() }
    }

    fn note_failure(&self, attempt: &Attempt<S>, failure: Failure, was: Was) {
        let Failure::Upstream(fault) = failure else { return };
        attempt.note(fault, was);
        let pool = attempt.pool();
        // Logged with its cause where the connection was opened; a status stands in the access log.
        let is_logged = matches!(fault.error, UpstreamError::ConnectFailed | UpstreamError::TlsFailed | UpstreamError::BadStatus);
        let is_of_server = !matches!(fault.error, UpstreamError::PoolFull | UpstreamError::QueueTimeout);
        // By GOAWAY or REFUSED_STREAM a server says that it has not looked at the request: it is asked again.
        let is_polite = was.is_race(fault) && !fault.progress.has_reached_server();
        if is_logged || !is_of_server || is_polite {
            return;
        }
        if let Some(suppressed) = self.connection.worker.gates.upstream.allow(Instant::now()) {
            let server = &pool.compiled.servers[attempt.position()].authority;
            tracing::warn!(pool = %pool.compiled.name, %server, reason = fault.error.reason(), suppressed, "an upstream server failed");
        }
    }

    /// One attempt at one server. The error says whether the connection had been used before.
    async fn attempt(
        &mut self,
        route: &CompiledRoute,
        attempt: &Attempt<S>,
        need: Need,
        plan: &Plan,
        replay: &mut Replay,
    ) -> Result<(), (Failure, Was)> {
        let (pool, position) = (attempt.pool(), attempt.position());
        self.exchange.record.sent_to(position);
        pool.count_request(position);
        let connection = match connect::take(pool, position, need) {
            Some(connection) => connection,
            None => Box::pin(self.open(pool, position, need)).await.map_err(|failure| (failure, Was::Fresh))?,
        };
        let call = Call::new(pool, position, connection);
        let was = call.was();
        self.exchange.record.connected(was != Was::Fresh);
        let outcome = pin!(self.exchange(route, attempt, &call, plan, replay)).await;
        match self.finish_call(attempt, call, outcome).map_err(|failure| (failure, was))? {
            None => {}
            Some((call, rest)) => Box::pin(self.tunnel(&call, rest)).await,
        }
        Ok(())
    }

    /// A fresh connection, unless the client leaves while it is made.
    async fn open(&mut self, pool: &Rc<WorkerPool<S>>, position: usize, need: Need) -> Result<connect::Connection<S>, Failure> {
        // Nobody reads the request's body meanwhile.
        let request_done = Cell::new(true);
        let opener = self.opener();
        let opening = open_until(self.way.try_until, connect::open(pool, position, need, &opener));
        let opened = unless_gone(&mut self.exchange.responder, &request_done, pin!(opening)).await;
        let took = opener.took.get();
        self.exchange.record.opened(took.queue, took.connect, took.tls);
        Ok(opened??)
    }

    fn opener(&self) -> Opener {
        Opener::new(self.connection.worker.random(), Rc::<ConnectionFacts>::downgrade(&self.connection.facts))
    }

    /// Who asks, for servers that are told. Behind a trusted proxy its port is the best that is known.
    fn client(&self) -> connect::Client {
        let source = SocketAddr::new(self.exchange.client_ip, self.connection.client.port());
        connect::Client { source, destination: self.connection.local_address() }
    }

    /// The first piece of the body, from before or from the client; kept when the request may have to be sent again.
    fn first_piece(&mut self, replay: &mut Replay) -> Result<Option<Buf>, Failure> {
        match replay {
            Replay::Kept(kept) => Ok(Some(kept.bytes.as_slice()).filter(|kept| !kept.is_empty()).map(Buf::copy_of)),
            Replay::Lost => Ok(None),
            Replay::Whole(body) => match body.piece(0) {
                Ok(first) => Ok(Some(first).filter(|first| !first.is_empty())),
                Err(_) => Err(Failure::Client(ClientFault::Refused(Refusal::BodyNotKept))),
            },
            Replay::Unkept | Replay::Untouched => {
                let first = self.exchange.take_at_hand()?;
                if let Some(piece) = &first {
                    replay.note(piece, &self.connection.facts);
                    self.copy_piece(piece);
                }
                self.send_copies_if_whole();
                Ok(first)
            }
        }
    }

    /// Sends the request, and its answer to the client.
    async fn exchange(
        &mut self,
        route: &CompiledRoute,
        attempt: &Attempt<S>,
        call: &Call<S>,
        plan: &Plan,
        replay: &mut Replay,
    ) -> Result<Replied, Failure> {
        let first = self.first_piece(replay)?;
        let all_sent = self.exchange.body.is_finished() && replay.with_rest().is_none();
        let pass = TrailerPass { rules: &route.trailers, is_grpc: plan.grpc };
        let trailers = if all_sent { pass.take(&mut self.exchange.body) } else { None };
        let start = Start {
            head: &self.exchange.head,
            first,
            is_chunked: plan.chunked,
            wants_trailers: plan.trailers_wanted || plan.grpc,
            protocol: (plan.upgrade == Upgrade::WebSocket).then_some(PROTOCOL),
            script: plan.script.as_deref(),
            is_whole: all_sent && trailers.is_none(),
        };
        let timeouts = self.way.timeouts;
        call.send_head(start, &timeouts).await?;
        let sent_at = rt::now();
        // The clock of the first byte begins with the end of the request; while its body is on the way the upstream may
        // be silent.
        let limit = if all_sent { ReadLimit::Until(self.first_byte_until(sent_at)) } else { ReadLimit::Idle(timeouts.idle) };
        call.set_read_limit(limit);
        if all_sent && let Some(trailers) = &trailers {
            replay.note_trailers();
            let _ = Box::pin(call.finish(Some(trailers))).await;
        }
        let pump_done = Cell::new(all_sent);
        let replied = if all_sent {
            pin!(self.stream_reply(route, attempt, call, sent_at, &pump_done, &Abreast::of(replay))).await?
        } else {
            Box::pin(self.stream_both(route, attempt, call, sent_at, &pump_done, (pass, replay))).await?
        };
        Ok(if pump_done.get() { replied } else { replied.and_ends() })
    }

    /// After the answer: the connection is given back or ends, or it becomes a tunnel, with what came behind the head.
    fn finish_call(
        &mut self,
        attempt: &Attempt<S>,
        call: Call<S>,
        outcome: Result<Replied, Failure>,
    ) -> Result<Option<(Call<S>, Buf)>, Failure> {
        if let Some(stream) = call.stream() {
            self.connection.account_upstream_bytes(stream);
        }
        match outcome {
            Ok(Replied::Switched(rest)) => return Ok(Some((call, rest))),
            Ok(Replied::Whole(keeping)) => {
                if let Some(ended) = call.give_back(&attempt.pool().servers[attempt.position()], keeping) {
                    self.exchange.record.ended = Some(ended);
                }
            }
            Err(failure) => {
                if let Failure::Upstream(fault) = failure {
                    call.note_fault(fault);
                }
                return Err(failure);
            }
        }
        Ok(None)
    }

    /// The answer to the client while the rest of the request goes to the upstream.
    async fn stream_both(
        &mut self,
        route: &CompiledRoute,
        attempt: &Attempt<S>,
        call: &Call<S>,
        sent_at: Instant,
        pump_done: &Cell<bool>,
        (pass, replay): (TrailerPass<'_>, &mut Replay),
    ) -> Result<Replied, Failure> {
        let timeouts = self.way.timeouts;
        let mut body = std::mem::replace(&mut self.exchange.body, BodyReader::Empty);
        let mut copies = self.way.copies.take();
        let pumped = Cell::new(0);
        let mut allowance = self.exchange.body_allowance.take();
        let abreast = Abreast::of(replay);
        let try_until = self.way.try_until;
        let outcome = {
            // A stream may be silent for long, but not for ever.
            body.set_idle(timeouts.idle);
            let first_grace = if expects_continue(&self.exchange.head) { timeouts.first_byte } else { Duration::ZERO };
            let rate = self.settings.body_rate_bytes;
            // Streams of gRPC pause for as long as they like. Only where a server of HTTP/2 has the call: the client's
            // word alone must not hold connections of other servers.
            let head = &self.exchange.head;
            let may_pause = call.shared_stream().is_some() && head.version == Version::Http2 && head.fields.is_grpc();
            let pace = Pace::new(if may_pause { 0 } else { rate }, first_grace, timeouts.idle);
            let connection = self.connection;
            let account = move || {
                connection.account_bytes();
                if let Some(stream) = call.stream() {
                    connection.account_upstream_bytes(stream);
                }
            };
            let pump = async {
                let outcome = if let Some(body) = replay.with_rest() {
                    send_rest(call, body).await
                } else {
                    let note = |piece: &[u8], has_trailers: bool| {
                        pumped.set(pumped.get() + piece.len() as u64);
                        replay.note(piece, &connection.facts);
                        if let Some(copies) = &mut copies {
                            copies.note(piece);
                        }
                        if has_trailers {
                            replay.note_trailers();
                        }
                        abreast.is_lost.set(!replay.is_whole());
                    };
                    let terms =
                        BodyTerms { pace, allowance: &mut allowance, trailers: pass, is_answering: &abreast.is_answering };
                    pump_body(&mut body, call, terms, note, &account).await
                };
                if outcome.is_ok()
                    && let Some(copies) = copies.take()
                {
                    copies.send();
                }
                if outcome.is_ok() && !abreast.is_answering.get() {
                    // The request is complete: now the answer has to begin.
                    call.set_read_limit(ReadLimit::Until(first_byte_until(rt::now(), timeouts.first_byte, try_until)));
                }
                outcome
            };
            let reply = self.stream_reply(route, attempt, call, sent_at, pump_done, &abreast);
            both(reply, pump, pump_done).await
        };
        self.exchange.body = body;
        // What is left of the body may go to another server, and to them.
        self.way.copies = copies;
        self.exchange.body_allowance = allowance;
        self.exchange.record.request_bytes += pumped.get();
        outcome
    }

    async fn tunnel(&mut self, call: &Call<S>, rest: Buf) {
        let idle = self.way.timeouts.idle;
        let upstream = match (call.stream(), call.shared_stream()) {
            (Some(stream), _) => Side::Connection(stream),
            (None, Some(stream)) => Side::Stream { stream, idle },
            (None, None) => return,
        };
        let stream = self.exchange.responder.shared_stream().cloned();
        let client = match &stream {
            Some(stream) => Side::Stream { stream, idle },
            None => {
                self.connection.facts.kind.set(ConnectionKind::Tunnel);
                Side::Connection(&self.connection.stream)
            }
        };
        if let Some(began) = &self.way.tunnel_began {
            began.set(true);
        }
        let is_websocket = kind_of_upgrade(self.exchange.upgrade_protocol()) == Upgrade::WebSocket;
        let farewell = Farewell {
            listener: &self.connection.listener,
            random: self.connection.worker.random(),
            parting: if is_websocket { Parting::CloseFrame } else { Parting::WhenCut },
            passthrough: None,
        };
        let bytes = TunnelBytes::default();
        let cut_by = tunnel::run(client, upstream, rest, idle, farewell, &bytes).await;
        if let Some(stream) = call.stream() {
            self.connection.account_upstream_bytes(stream);
        }
        self.exchange.record.request_bytes += bytes.client.get();
        self.exchange.responder.add_bytes_sent(bytes.upstream.get());
        if let Some(cut_by) = cut_by {
            self.exchange.record.reason = Some(cut_by.reason());
        }
    }
}
