//! Between a request and its upstream: prepare the head, choose a server, take or open a connection, send, stream both
//! bodies, and try again where that is safe. The second half of `request`, which stands above it.

mod asking;
pub(crate) mod body;
mod choose;
pub(crate) mod collected;
mod head;
mod hedge;
mod mirror;
mod mounted;
mod replay;
mod reply;
pub(crate) mod retry;
mod sent_file;
mod websocket;

pub(crate) use self::asking::{Asking, QuestionTerms, Told, WholeAnswer};
use self::body::{BodyTerms, TrailerPass, both, pump_body, send_held};
use self::head::Plan;
pub(crate) use self::head::set_forwarded_fields;
use self::mirror::Copies;
pub(crate) use self::replay::Replay;
use self::reply::Replied;
use self::retry::{EarlyEnd, retry_of};
pub use self::websocket::check_upgrade;
use self::websocket::kind_of_upgrade;
use crate::cached::Caching;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::introduction::introduction;
use crate::listening::{ConnectionFacts, ConnectionKind};
use crate::relief::relieve_if_asked;
use crate::snapshot::CompiledRoute;
use crate::surroundings::Surroundings;
use crate::tunnel::{self, Farewell, Parting, Side, TunnelBytes};
use crate::worker_snapshot::{Settings, WorkerSite};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_exchange::pace::Pace;
use tidegate_exchange::{BodyReader, ClientFault, Exchange, Record, unless_gone};
use tidegate_middleware::Refusal;
use tidegate_model::{Retry, Timeouts};
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
    pub connection: &'r Rc<Connection<S>>,
    pub settings: &'r Settings,
    pub site: Option<&'r WorkerSite>,
    pub route: &'r CompiledRoute,
    pub way: &'r mut Way<S>,
}

/// What a request remembers of its way to an upstream.
pub(crate) struct Way<S: Sock> {
    /// The pool of the server in the record; before there is one, the pool that is asked for one.
    pub pool: Option<Rc<WorkerPool<S>>>,
    /// Copies that are to be made of the request.
    pub copies: Option<Box<Copies<S>>>,
    /// What the cache wants of the answer.
    pub caching: Option<Box<Caching>>,
    attempt: EarlyEnd,
    /// By when the attempt has to have an answer; then another server is tried.
    try_until: Option<Instant>,
    /// Set when the request has become a tunnel, where `timeout total` bounds it until then.
    pub tunnel_began: Option<Rc<Cell<bool>>>,
}

impl<S: Sock> Default for Way<S> {
    #[inline]
    fn default() -> Self {
        Way { pool: None, copies: None, caching: None, attempt: EarlyEnd::default(), try_until: None, tunnel_began: None }
    }
}

/// A request that was sent, as far as it is there.
struct Sent {
    at: Instant,
    /// Nothing of it is left.
    is_whole: bool,
}

/// A call that is a tunnel from here on, and what came behind the head of its answer.
struct Switched<S: Sock> {
    call: Call<S>,
    rest: Buf,
}

/// The errand: what was settled before the first attempt, and what is kept for another.
struct Sending<'r, 'c, S: Sock> {
    forwarding: Forwarding<'r, 'c, S>,
    plan: Plan,
    replay: Replay,
}

impl<S: Sock> Errand<S> for Sending<'_, '_, S> {
    type Done = ();
    type Failure = Failure;

    fn choose(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Result<Choice, NoChoice> {
        self.forwarding.choose_server(pool, tried)
    }

    async fn wait(&mut self, pool: &mut Rc<WorkerPool<S>>, tried: &[usize]) -> Result<Choice, Failure> {
        self.forwarding.wait_for_permit(pool, tried).await
    }

    async fn wait_for_server(&mut self, pool: &mut Rc<WorkerPool<S>>, until: Instant) -> Result<bool, Failure> {
        self.forwarding.wait_for_server(pool, until).await
    }

    fn newer(&self, pool: &Rc<WorkerPool<S>>) -> Option<Rc<WorkerPool<S>>> {
        self.forwarding.connection.worker.newer_pool(pool)
    }

    /// One attempt at one server. Nothing of this is in a future of its own: every request that waits would hold once
    /// more what that is given.
    fn attempt(&mut self, attempt: Attempt<S>, tries: &mut Tries) -> impl Future<Output = Result<(), Failed<Failure>>> {
        let is_hedged = self.begin(&attempt, tries);
        async move {
            if is_hedged {
                return Box::pin(self.attempt_hedged(attempt, tries)).await;
            }
            // One that comes to no connection is an attempt as well.
            attempt.pool().count_request(attempt.position());
            let call = match self.call_at_hand(&attempt, tries) {
                Ok(call) => call,
                // Boxed with all that only a fresh connection needs.
                Err(need) => match Box::pin(self.forwarding.open(&attempt, need)).await {
                    Ok(call) => call,
                    Err(failure) => return Err(self.forwarding.note_failed(attempt, (failure, Was::Fresh))),
                },
            };
            let was = call.was();
            let Sending { forwarding, plan, replay } = &mut *self;
            let sent = pin!(forwarding.send(&attempt, &call, plan, replay)).await;
            let outcome = match sent {
                Ok(Sent { at, is_whole: true }) => {
                    pin!(forwarding.stream_reply(&attempt, &call, at, &Cell::new(true), &Abreast::of(replay))).await
                }
                Ok(Sent { at, is_whole: false }) => Box::pin(forwarding.stream_both(&attempt, &call, at, (plan, replay))).await,
                Err(failure) => Err(failure),
            };
            match self.forwarding.finish_call(&attempt, call, outcome) {
                Ok(None) => {}
                Ok(Some(switched)) => Box::pin(self.forwarding.tunnel(&attempt, switched)).await,
                Err(failure) => return Err(self.forwarding.note_failed(attempt, (failure, was))),
            }
            Ok(())
        }
    }

    fn random(&self) -> u64 {
        self.forwarding.connection.worker.random()
    }

    async fn pause(&mut self, pause: Duration) -> Result<bool, Failure> {
        self.forwarding.pause(pause).await
    }

    fn terms<'a>(&'a self, pool: &'a WorkerPool<S>) -> Terms<'a> {
        Terms {
            retry: retry_of(pool, self.forwarding.route, &self.forwarding.exchange.record),
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

impl<S: Sock> Sending<'_, '_, S> {
    /// Settles what holds for the attempt. Whether it may become two.
    fn begin(&mut self, attempt: &Attempt<S>, tries: &Tries) -> bool {
        let Sending { forwarding, plan, replay } = self;
        if tries.is_again() {
            forwarding.exchange.record.retries += 1;
        }
        forwarding.begin_attempt(attempt.pool(), plan, tries);
        forwarding.sent_to(attempt);
        if attempt.pool().compiled.model.hedge.is_none() {
            return false;
        }
        // A body that was taken for an attempt before is finished as well, and would not be sent.
        let has_no_body = forwarding.exchange.body.is_finished() && replay.is_untouched();
        let may_hedge = plan.idempotent && plan.upgrade == Upgrade::None && has_no_body;
        may_hedge && forwarding.is_hedged(attempt)
    }

    /// What the request needs of its connection.
    fn need(&self, attempt: &Attempt<S>, tries: &mut Tries) -> Need {
        let model = &attempt.pool().compiled.model;
        Need {
            certain: !self.plan.idempotent,
            upgrade: self.plan.upgrade,
            prefers_h2: self.plan.grpc,
            // A connection that was kept has just failed.
            fresh: tries.needs_fresh(attempt.position()),
            connect: tries.connect_within(self.forwarding.timeouts(attempt.pool()).connect),
            head_limits: self.forwarding.settings.head_limits,
            client: model.send_proxy_protocol.map(|_| self.forwarding.client()),
        }
    }

    /// An attempt that may become two.
    async fn attempt_hedged(&mut self, attempt: Attempt<S>, tries: &mut Tries) -> Result<(), Failed<Failure>> {
        let after = attempt.pool().compiled.model.hedge.map_or(Duration::ZERO, |hedge| hedge.after);
        let need = self.need(&attempt, tries);
        self.forwarding.attempt_hedged(attempt, need, &self.plan, after, tries).await
    }

    /// A call on a connection that is there, or what one needs that is to be opened.
    fn call_at_hand(&mut self, attempt: &Attempt<S>, tries: &mut Tries) -> Result<Call<S>, Need> {
        let need = self.need(attempt, tries);
        let connection = connect::take(attempt.pool(), attempt.position(), need).ok_or(need)?;
        Ok(self.forwarding.call_on(attempt, connection))
    }
}

impl<'r, 'c, S: Sock> Forwarding<'r, 'c, S> {
    /// The exchange, and what surrounds it.
    pub(crate) fn parts(&mut self) -> (&mut Exchange<'c, S>, Surroundings<'_, S>) {
        let around = Surroundings { connection: self.connection, route: Some(self.route), pool: self.way.pool.as_deref() };
        (self.exchange, around)
    }

    /// Sends the request to a server of the pool and its answer to the client, for as long as that takes.
    pub(crate) fn forward(self, pool: Rc<WorkerPool<S>>) -> impl Future<Output = Result<(), Failure>> {
        let mut begun = self.begin(&pool);
        async move {
            // Where it stands: taken out, it would be there twice.
            match &mut begun {
                Ok(sending) => pin!(carry_out(sending, pool)).await,
                Err(failure) => Err(*failure),
            }
        }
    }

    fn begin(mut self, pool: &Rc<WorkerPool<S>>) -> Result<Sending<'r, 'c, S>, Failure> {
        self.connection.facts.at_pool(&pool.compiled.name.0);
        self.way.pool = Some(pool.clone());
        let _ = relieve_if_asked(&self.connection.worker);
        if self.connection.worker.process.pressure.is_high() {
            return Err(unserved(pool, UpstreamError::Overloaded).into());
        }
        let plan = self.prepare_head(pool);
        self.copy_head(plan.trailers_wanted, plan.grpc);
        pool.budget.note_request(self.connection.worker.process.since_start(self.exchange.record.started));
        // A server of HTTP/2 can say that it has not looked at a request, which is sent again then whatever its method.
        let retry = pool.compiled.retry(self.route.retry(self.exchange.record.arm));
        let kept_bytes = retry.map_or(Retry::BODY_BYTES, |retry| retry.body_bytes);
        let replay = Replay::of(plan.idempotent || pool.compiled.may_speak_h2(plan.grpc), kept_bytes);
        Ok(Sending { forwarding: self, plan, replay })
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
        let forwarding = Forwarding { exchange: &mut *self.exchange, way: &mut *self.way, ..*self };
        carry_out(&mut Sending { forwarding, plan, replay }, pool).await
    }

    /// A server was chosen. The record names servers by their place in a pool, and a request that has waited may be
    /// sent to a pool of other servers than before: both change together.
    fn sent_to(&mut self, attempt: &Attempt<S>) {
        if !self.way.pool.as_ref().is_some_and(|pool| Rc::ptr_eq(pool, attempt.pool())) {
            self.way.pool = Some(attempt.pool().clone());
        }
        self.exchange.record.sent_to(attempt.position());
    }

    /// Time-outs of the pool, and where the route says otherwise, its.
    fn timeouts(&self, pool: &WorkerPool<S>) -> Timeouts {
        self.route.timeouts.over(&pool.compiled.model.timeouts)
    }

    /// An attempt that may become two.
    async fn attempt_hedged(
        &mut self,
        attempt: Attempt<S>,
        need: Need,
        plan: &Plan,
        after: Duration,
        tries: &mut Tries,
    ) -> Result<(), Failed<Failure>> {
        // The client has gone: nothing is tried again.
        let position = attempt.position();
        let race = self.race(attempt, need, plan, after, tries).await;
        let race = race.map_err(|failure| Failed { failure, was: Was::Fresh, position, permit: None })?;
        if let Some((other, failure, was)) = race.failed {
            self.note_failure(&other, failure, was);
        }
        let attempt = race.attempt;
        let outcome = match race.outcome {
            Ok(begun) => self.exchange_begun(&attempt, begun).await,
            Err((fault, was)) => Err((fault.into(), was)),
        };
        outcome.map_err(|failed| Failed { permit: None, ..self.note_failed(attempt, failed) })
    }

    async fn exchange_begun(&mut self, attempt: &Attempt<S>, begun: Begun<S>) -> Result<(), (Failure, Was)> {
        let Begun { call, sent_at, took } = begun;
        let was = call.was();
        self.sent_to(attempt);
        let record = &mut self.exchange.record;
        record.connected(call.protocol(), was.is_reused());
        record.opened(took.queue, took.connect, took.tls);
        let outcome = self.stream_reply(attempt, &call, sent_at, &Cell::new(true), &Abreast::default()).await;
        // A request that may be hedged asks for no tunnel.
        self.finish_call(attempt, call, outcome).map(drop).map_err(|failure| (failure, was))
    }

    fn note_failed(&self, attempt: Attempt<S>, (failure, was): (Failure, Was)) -> Failed<Failure> {
        self.note_failure(&attempt, failure, was);
        Failed { failure, was, position: attempt.position(), permit: attempt.into_permit() }
    }

    fn note_failure(&self, attempt: &Attempt<S>, failure: Failure, was: Was) {
        let Failure::Upstream(fault) = failure else { return };
        note_fault(self.connection, &self.exchange.record, attempt, (fault, was));
    }

    /// The request's call on a connection that was taken for it.
    fn call_on(&mut self, attempt: &Attempt<S>, connection: connect::Connection<S>) -> Call<S> {
        let call = Call::new(attempt.pool(), attempt.position(), connection);
        self.exchange.record.connected(call.protocol(), call.was().is_reused());
        call
    }

    /// A call on a fresh connection, unless the client leaves while it is made.
    async fn open(&mut self, attempt: &Attempt<S>, need: Need) -> Result<Call<S>, Failure> {
        // Nobody reads the request's body meanwhile.
        let request_done = Cell::new(true);
        let opener = self.opener(attempt.pool());
        let opening = open_until(self.way.try_until, connect::open(attempt.pool(), attempt.position(), need, &opener));
        let opened = unless_gone(&mut self.exchange.responder, &request_done, pin!(opening)).await;
        let took = opener.took.get();
        self.exchange.record.opened(took.queue, took.connect, took.tls);
        Ok(self.call_on(attempt, opened??))
    }

    fn opener(&self, pool: &WorkerPool<S>) -> Opener {
        opener(self.connection, &self.exchange.record, pool)
    }

    fn client(&self) -> connect::Client {
        client_of(self.connection, self.exchange.client_ip)
    }

    /// The first piece of the body, from before or from the client; kept when the request may have to be sent again.
    fn first_piece(&mut self, replay: &mut Replay) -> Result<Option<Buf>, Failure> {
        match replay {
            Replay::Kept(kept) => Ok(Some(kept.first()).filter(|first| !first.is_empty()).map(Buf::copy_of)),
            Replay::Lost => Ok(None),
            Replay::Whole(body) => match body.piece(0) {
                Ok(first) => Ok(Some(first).filter(|first| !first.is_empty())),
                Err(_) => Err(Failure::Client(ClientFault::Refused(Refusal::BodyNotKept))),
            },
            Replay::Unkept | Replay::Untouched(_) => {
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

    /// Sends the request's head and what is there of its body.
    fn send(
        &mut self,
        attempt: &Attempt<S>,
        call: &Call<S>,
        plan: &Plan,
        replay: &mut Replay,
    ) -> impl Future<Output = Result<Sent, Failure>> {
        let timeouts = self.timeouts(attempt.pool());
        async move {
            let first = self.first_piece(replay)?;
            let is_whole = self.exchange.body.is_finished() && !replay.has_rest();
            let pass = TrailerPass { rules: &self.route.trailers, names: &self.route.header_names, is_grpc: plan.grpc };
            let trailers = if is_whole { pass.take(&mut self.exchange.body) } else { None };
            let start = Start {
                head: &self.exchange.head,
                first,
                is_chunked: plan.chunked,
                wants_trailers: plan.trailers_wanted || plan.grpc,
                protocol: (plan.upgrade == Upgrade::WebSocket).then_some(PROTOCOL),
                script: plan.script.as_deref(),
                is_whole: is_whole && trailers.is_none(),
            };
            call.send_head(start, timeouts.idle).await?;
            let at = rt::now();
            // The clock of the first byte begins with the end of the request; while its body is on the way the upstream
            // may be silent.
            let until = first_byte_until(at, timeouts.first_byte, self.way.try_until);
            call.set_read_limit(if is_whole { ReadLimit::Until(until) } else { ReadLimit::Idle(timeouts.idle) });
            if let Some(trailers) = trailers {
                replay.note_trailers();
                let _ = Box::pin(call.finish(Some(&trailers))).await;
            }
            Ok(Sent { at, is_whole })
        }
    }

    /// After the answer: the connection is given back or ends, or it becomes a tunnel, with what came behind the head.
    fn finish_call(
        &mut self,
        attempt: &Attempt<S>,
        call: Call<S>,
        outcome: Result<Replied, Failure>,
    ) -> Result<Option<Box<Switched<S>>>, Failure> {
        if let Some(stream) = call.stream() {
            self.connection.account_upstream_bytes(stream);
        }
        match outcome {
            Ok(Replied::Switched(rest)) => return Ok(Some(Box::new(Switched { call, rest }))),
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
        attempt: &Attempt<S>,
        call: &Call<S>,
        sent_at: Instant,
        (plan, replay): (&Plan, &mut Replay),
    ) -> Result<Replied, Failure> {
        let pump_done = &Cell::new(false);
        let timeouts = self.timeouts(attempt.pool());
        let pass = TrailerPass { rules: &self.route.trailers, names: &self.route.header_names, is_grpc: plan.grpc };
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
                let outcome = if let Some(sent) = send_held(call, replay, body.is_finished()).await {
                    sent
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
            let reply = self.stream_reply(attempt, call, sent_at, pump_done, &abreast);
            both(reply, pump, pump_done).await
        };
        self.exchange.body = body;
        // What is left of the body may go to another server, and to them.
        self.way.copies = copies;
        self.exchange.body_allowance = allowance;
        self.exchange.record.request_bytes += pumped.get();
        Ok(if pump_done.get() { outcome? } else { outcome?.and_ends() })
    }

    async fn tunnel(&mut self, attempt: &Attempt<S>, switched: Box<Switched<S>>) {
        let Switched { call, rest } = *switched;
        let idle = self.timeouts(attempt.pool()).idle;
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
            self.exchange.record.end_as(cut_by.reason());
        }
    }
}

/// An attempt failed: what becomes of its server by that, and a line in the log where it says something.
fn note_fault<S: Sock>(connection: &Connection<S>, record: &Record, attempt: &Attempt<S>, (fault, was): (UpstreamFault, Was)) {
    attempt.note(fault, was);
    let pool = attempt.pool();
    // Logged with its cause where the connection was opened; a status stands in the access log.
    let is_logged = matches!(fault.error, UpstreamError::ConnectFailed | UpstreamError::TlsFailed | UpstreamError::BadStatus);
    let is_of_server =
        !matches!(fault.error, UpstreamError::PoolFull | UpstreamError::QueueTimeout | UpstreamError::RequestHeadTooLarge);
    // By GOAWAY or REFUSED_STREAM a server says that it has not looked at the request: it is asked again.
    let is_polite = was.is_race(fault) && !fault.progress.has_reached_server();
    if is_logged || !is_of_server || is_polite {
        return;
    }
    if let Some(suppressed) = connection.worker.gates.upstream.allow(Instant::now()) {
        let server = &pool.compiled.servers[attempt.position()].authority;
        let origin = pool.compiled.shown_origin();
        tracing::warn!(pool = %pool.compiled.name, origin, %server, reason = fault.error.reason(), request_id = %request_id(record), suppressed, "an upstream server failed");
    }
}

/// For the log.
fn request_id(record: &Record) -> String {
    record.request_id().see(record.given_id.as_deref(), str::to_owned)
}

/// Who has connections opened for a request of that record.
fn opener<S: Sock>(connection: &Connection<S>, record: &Record, pool: &WorkerPool<S>) -> Opener {
    let client = Rc::<ConnectionFacts>::downgrade(&connection.facts);
    let id = request_id(record);
    let introduction = introduction(connection, pool.compiled.model.send_proxy_protocol, &id);
    Opener { request: Some(id.into()), introduction, ..Opener::new(connection.worker.random(), client) }
}

/// Who asks, for servers that are told. Behind a trusted proxy its port is the best that is known.
fn client_of<S: Sock>(connection: &Connection<S>, client_ip: IpAddr) -> connect::Client {
    let source = SocketAddr::new(client_ip, connection.client.port());
    connect::Client { source, destination: connection.local_address() }
}
