//! The life of a request, from its head to its log line, for every version of HTTP:
//!
//! receive → find site → find route → run request steps → answer here, or forward (choose server → take or open a
//! connection → send → stream both bodies → run response steps) → record.
//!
//! What differs between HTTP versions is below `exchange`; what happens between us and an upstream is in `forward`.

mod challenge;
mod early;
mod steps;

use self::challenge::{answer_challenge, may_be_challenge};
use self::early::settle_early;
use self::steps::Ran;
use crate::cached::{Caching, Looked, Origin};
use crate::connection::Connection;
use crate::exchange::{BodyLength, BodyReader, Responder};
use crate::failure::{ClientFault, Failure, STATUS_CLIENT_GONE};
use crate::forward::{Copies, EarlyEnd};
use crate::forwarded::{first_untrusted, remove_claims};
use crate::pooled::Pooled;
use crate::recent::{RecentRequest, Short};
use crate::record::Record;
use crate::snapshot::CompiledRoute;
use crate::terminal::{CompiledSplit, CompiledTerminal, FixedAnswer};
use crate::worker_snapshot::{GenerationMark, WorkerSite, WorkerSnapshot};
use std::borrow::Cow;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate_balancing::hash_bytes;
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::{
    BodyAllowance, CompiledLog, Context, ErrorFacts, Limited, Origin as ErrorOrigin, Refusal, View, Walk,
    client_certificate_text, error_answer,
};
use tidegate_model::{PoolName, Scheme, Timeouts};
use tidegate_routing::decision::{Arrival, Sender};
use tidegate_routing::{RouteId, cookie_value};
use tidegate_telemetry::{AccessRecord, RecordTls, RecordUpstream, UpstreamError};
use tidegate_transport::{Buf, Sock, rt};
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::head::{HeaderId, Method, RequestHead, ResponseHead};
use tidegate_wire::{BodyFraming, HeadLimits, Span, http1};

/// The most of an answer made here that goes into one buffer; longer bodies are sent in pieces.
const PIECE_BYTES: usize = tidegate_transport::buffer::CAPACITY;

/// A request as its connection received it.
pub struct Incoming<'c, S: Sock> {
    pub head: Pooled<RequestHead>,
    pub framing: BodyFraming,
    pub body: BodyReader<'c, S>,
    pub responder: Responder<'c, S>,
    /// When the head began to arrive.
    pub started: Instant,
    pub snapshot: Rc<WorkerSnapshot<S>>,
    /// The connection's listener in that snapshot.
    pub listener: usize,
}

/// One request on its way. The fields are what its steps read and leave behind.
pub struct Request<'c, S: Sock> {
    pub connection: &'c Rc<Connection<S>>,
    pub settings: Settings,
    pub head: Pooled<RequestHead>,
    pub response: Pooled<ResponseHead>,
    pub framing: BodyFraming,
    pub body: BodyReader<'c, S>,
    pub responder: Responder<'c, S>,
    pub client_ip: IpAddr,
    /// The peer is a proxy that is trusted to say who its client is.
    pub peer_is_trusted: bool,
    pub hop: HopByHop,
    pub body_allowance: Option<BodyAllowance>,
    /// Where a step counts requests. It has the places that this one holds, and gives them back with it.
    pub(crate) limited: Option<Pooled<Limited>>,
    /// Once they were found; answers of the proxy's own have the route's response headers too. Of the configuration it
    /// keeps these parts only: a download of hours must not keep an old one alive.
    pub(crate) site: Option<Rc<WorkerSite>>,
    pub(crate) route: Option<RouteId>,
    pub pool: Option<Rc<WorkerPool<S>>>,
    /// Which of the route's upstreams that is.
    pub upstream: usize,
    /// Copies that are to be made of the request.
    pub copies: Option<Box<Copies<S>>>,
    pub(crate) mark: Rc<GenerationMark>,
    pub record: Record,
    pub attempt: EarlyEnd,
    /// By when the attempt has to have an answer; then another server is tried.
    pub try_until: Option<Instant>,
    /// What the cache wants of the answer.
    pub(crate) caching: Option<Box<Caching>>,
    /// Time-outs of the pool, and where the route says otherwise, its.
    pub timeouts: Timeouts,
    /// Whether the request was brought to its end, good or bad.
    ended: bool,
}

/// What a request needs of the configuration's process-wide settings.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub head_limits: HeadLimits,
    pub body_rate_bytes: u64,
    pub access_log: bool,
}

/// What the hop-by-hop fields said, which are gone from the head.
#[derive(Debug, Clone, Copy)]
pub struct HopByHop {
    /// The protocol that the client asks to switch to.
    pub upgrade: Option<Span>,
    /// `TE: trailers`
    pub trailers_wanted: bool,
}

impl HopByHop {
    fn take(head: &mut RequestHead) -> HopByHop {
        let upgrade = http1::upgrade_protocol(head)
            .filter(|protocol| !is_http_or_tls(protocol))
            .and_then(|_| head.fields.list.iter().find(|field| field.id == HeaderId::Upgrade).map(|field| field.value));
        let trailers_wanted = head.fields.all(HeaderId::Te).any(|value| http1::has_token(value, b"trailers"));
        head.fields.remove_hop_by_hop();
        HopByHop { upgrade, trailers_wanted }
    }
}

/// A switch to another version of HTTP or to TLS would carry requests past every route and step (h2c smuggling).
fn is_http_or_tls(protocol: &[u8]) -> bool {
    let starts = |prefix: &[u8]| protocol.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    starts(b"h2") || starts(b"http/") || starts(b"tls/") || protocol.contains(&b',')
}

/// How a request ended, for the connection it came on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The next request may follow.
    KeepAlive,
    /// The answer is out and the connection must end; part of the request may be unread.
    Close,
    /// Nothing more can be said.
    Abort,
}

/// Lives a request from head to log line.
pub async fn handle<S: Sock>(connection: &Rc<Connection<S>>, incoming: Incoming<'_, S>) -> Ending {
    let (mut request, place) = Request::receive(connection, incoming);
    // Pinned where it is made, as all that is awaited for each request: otherwise the future is copied, and it has all
    // the others in it.
    let outcome = pin!(request.answer(place)).await;
    match outcome {
        Ok(()) => request.finish(),
        // Boxed: failures must not make every request's future larger.
        Err(Failure::Client(fault)) => Box::pin(request.give_up_on_client(fault)).await,
        Err(Failure::Upstream(fault)) => Box::pin(request.refuse(fault.error.into())).await,
    }
}

/// Recorded however it ends: also when a worker is stopped with the request on its way, or after a panic.
impl<S: Sock> Drop for Request<'_, S> {
    fn drop(&mut self) {
        if !self.ended {
            self.record.reason = Some(CUT_SHORT);
            if self.record.status == 0 {
                self.record.status = STATUS_CLIENT_GONE;
            }
        }
        self.record_end();
    }
}

/// The configuration that a request is looked up in, and its listener's place there. Given up when it has been.
type Place<S> = (Rc<WorkerSnapshot<S>>, usize);

/// Why a request ended that nobody brought to its end.
const CUT_SHORT: &str = "cut_short";

impl<'c, S: Sock> Request<'c, S> {
    fn receive(connection: &'c Rc<Connection<S>>, incoming: Incoming<'c, S>) -> (Request<'c, S>, Place<S>) {
        let Incoming { mut head, framing, body, responder, started, snapshot, listener } = incoming;
        // Before any step: what a client names in `Connection` are its own fields, never those that a step sets.
        let hop = HopByHop::take(&mut head);
        let trusted = &snapshot.shared.listeners[listener].trusted_proxies;
        let peer = connection.client.ip();
        let peer_is_trusted = !trusted.is_empty() && trusted.iter().any(|network| network.contains(&peer));
        let client_ip = if peer_is_trusted { first_untrusted(&head.fields, trusted).unwrap_or(peer) } else { peer };
        if !peer_is_trusted {
            remove_claims(&mut head.fields);
        }
        let record = Record::new(started, connection.worker.next_request_id(), head.path, head.query);
        connection.facts.begin(snapshot.shared.generation);
        let request = Request {
            connection,
            settings: Settings {
                head_limits: snapshot.shared.head_limits(),
                body_rate_bytes: snapshot.shared.limits.body_rate_bytes,
                access_log: snapshot.shared.access_log,
            },
            head,
            response: Pooled::take(),
            framing,
            body,
            responder,
            client_ip,
            peer_is_trusted,
            hop,
            body_allowance: None,
            limited: None,
            site: None,
            route: None,
            pool: None,
            upstream: 0,
            copies: None,
            mark: snapshot.mark.clone(),
            attempt: EarlyEnd::default(),
            try_until: None,
            caching: None,
            timeouts: Timeouts::default(),
            ended: false,
            record,
        };
        (request, (snapshot, listener))
    }

    /// A request that no client has sent: with the head of another, as its steps have left it. Nothing of it is logged
    /// or counted but with its pool.
    pub(crate) fn in_background(
        connection: &'c Rc<Connection<S>>,
        settings: Settings,
        head: RequestHead,
        (client_ip, site, route): (IpAddr, Rc<WorkerSite>, RouteId),
        mark: Rc<GenerationMark>,
    ) -> Request<'c, S> {
        let record = Record::new(rt::now(), connection.worker.next_request_id(), head.path, head.query);
        let mut leased: Pooled<RequestHead> = Pooled::take();
        *leased = head;
        Request {
            connection,
            settings,
            head: leased,
            response: Pooled::take(),
            framing: BodyFraming::None,
            body: BodyReader::Empty,
            responder: Responder::Nobody,
            client_ip,
            peer_is_trusted: false,
            hop: HopByHop { upgrade: None, trailers_wanted: false },
            body_allowance: None,
            limited: None,
            site: Some(site),
            route: Some(route),
            pool: None,
            mark,
            attempt: EarlyEnd::default(),
            try_until: None,
            caching: None,
            upstream: 0,
            copies: None,
            timeouts: Timeouts::default(),
            ended: true,
            record,
        }
    }

    async fn answer(&mut self, place: Place<S>) -> Result<(), Failure> {
        if may_be_challenge(self)
            && let Some(outcome) = Box::pin(answer_challenge(self)).await
        {
            return outcome;
        }
        let site = match self.find_site(&place) {
            Ok(site) => site,
            Err(refusal) => return Box::pin(self.answer_refusal(refusal)).await,
        };
        if self.connection.stream.is_early() {
            Box::pin(settle_early(self, &site)).await?;
        }
        let route = match self.find_route(&site) {
            Ok(route) => route,
            Err(refusal) => return Box::pin(self.answer_refusal(refusal)).await,
        };
        match self.run_request_steps(route, Walk::default()) {
            Ok(Ran::Through) => {}
            // Boxed, as everything that the common request does not meet.
            Ok(Ran::Preflight) => return Box::pin(self.answer_preflight(route)).await,
            Ok(Ran::Stands(standing)) => {
                if !Box::pin(self.go_on(route, *standing)).await? {
                    return Ok(());
                }
            }
            Err(refusal) => return Box::pin(self.answer_step_refusal(route, refusal)).await,
        }
        if let Some(decompress) = route.decompress
            && let Err(refusal) = self.decode_body(decompress)
        {
            return Box::pin(self.answer_refusal(refusal)).await;
        }
        let pool = self.choose_pool(route, &place.0);
        if !route.mirrors.is_empty() {
            self.choose_mirrors(route, &place.0);
        }
        drop(place);
        if let Some(cache) = &route.cache
            && let Some(origin) = Origin::of(route, pool.as_ref())
        {
            return match self.look_up_kept(route, cache, &origin) {
                // As a fixed answer is given, since it costs little more.
                Looked::Hit(hit) => pin!(self.serve_kept(route, cache, hit)).await,
                Looked::Other(other) => Box::pin(self.answer_not_at_hand(route, cache, origin, other)).await,
            };
        }
        match (&route.terminal, pool, route.timeouts.total) {
            (CompiledTerminal::Proxy(_) | CompiledTerminal::Split(_), Some(pool), None) => pin!(self.forward(route, pool)).await,
            (CompiledTerminal::Answer(answer), ..) => pin!(self.answer_here(route, answer)).await,
            (_, pool, None) => Box::pin(self.answer_from(route, pool)).await,
            (_, pool, Some(total)) => Box::pin(self.within(total, async |request| request.answer_from(route, pool).await)).await,
        }
    }

    /// Answers as the route's end says. `pool` is where its requests go, if they go to one that is there.
    pub(crate) async fn answer_from(&mut self, route: &CompiledRoute, pool: Option<Rc<WorkerPool<S>>>) -> Result<(), Failure> {
        match (&route.terminal, pool) {
            (CompiledTerminal::Proxy(_) | CompiledTerminal::Split(_), Some(pool)) => pin!(self.forward(route, pool)).await,
            (CompiledTerminal::Proxy(_) | CompiledTerminal::Split(_), None) => {
                self.answer_refusal(Refusal::from(UpstreamError::NoServer)).await
            }
            (CompiledTerminal::FastCgi(script), _) => self.run_script(route, script).await,
            (CompiledTerminal::Files(folder), _) => self.serve_file(route, folder).await,
            (CompiledTerminal::Answer(answer), _) => self.answer_here(route, answer).await,
            (CompiledTerminal::NoRoute, _) => self.answer_refusal(Refusal::NoRoute).await,
        }
    }

    /// The site that the request names, on the listener that it came to.
    fn find_site(&mut self, (snapshot, listener): &Place<S>) -> Result<Rc<WorkerSite>, Refusal> {
        let listener = &snapshot.shared.listeners[*listener];
        let (local_ip, tls) = (self.connection.local_ip(listener), self.connection.tls_identity.as_deref());
        let site = Arrival { router: &listener.router, local_ip, tls }.admit(&self.head, |found| {
            let site = snapshot.site(found.0 as usize, self.connection.worker.index);
            (site, &site.compiled.rules)
        })?;
        self.connection.facts.at_site(&site.compiled.name);
        self.site = Some(site.clone());
        Ok(site.clone())
    }

    /// The route that takes the request, or what the site has for those that none takes.
    fn find_route<'s>(&mut self, site: &'s WorkerSite) -> Result<&'s CompiledRoute, Refusal> {
        let certificate = self.connection.client_certificate.as_deref();
        let sender = Sender { scheme: self.scheme(), ip: self.client_ip, certificate };
        let found = site.compiled.rules.find_route(&mut self.head, sender)?;
        self.record.matched_path = self.head.path;
        self.route = found;
        Ok(site.compiled.route(found))
    }

    /// The pool that the request goes to: the route's own, or the one of its `split` in whose share it lies.
    fn choose_pool(&mut self, route: &CompiledRoute, snapshot: &WorkerSnapshot<S>) -> Option<Rc<WorkerPool<S>>> {
        if let CompiledTerminal::Split(split) = &route.terminal {
            self.upstream = self.choose_share(split);
        }
        let slot = route.terminal.upstream(self.upstream)?.pool;
        snapshot.pool(slot, || self.connection.worker.of()).cloned()
    }

    fn choose_share(&self, split: &CompiledSplit) -> usize {
        if let Some(by) = &split.by {
            let context = context(self.connection, None, &self.record, self.client_ip);
            let mut key: Pooled<Vec<u8>> = Pooled::take();
            by.render(View { context: &context, request: &self.head, response: None }, &mut key);
            if !key.is_empty() {
                return split.shares.of_key(hash_bytes(&key));
            }
        }
        split.shares.at(self.connection.worker.random())
    }

    /// `respond` and `redirect`.
    async fn answer_here(&mut self, route: &CompiledRoute, answer: &FixedAnswer) -> Result<(), Failure> {
        let mut buffer: Pooled<Vec<u8>> = Pooled::take();
        let mut response: Pooled<ResponseHead> = Pooled::take();
        let context = context(self.connection, self.pool.as_deref(), &self.record, self.client_ip);
        let view = View { context: &context, request: &self.head, response: None };
        let body = answer.write(view, &mut response, &mut buffer);
        std::mem::swap(&mut *self.response, &mut *response);
        // What an administrator wrote as the body is meant as the page.
        if self.response.status >= 400
            && body.is_empty()
            && let Some(page) = route.error_pages.find(self.response.status, ErrorOrigin::Proxy, &self.head, None)
        {
            let error = ErrorFacts { status: self.response.status, reason: "", sentence: "" };
            let mut buffer: Pooled<Vec<u8>> = Pooled::take();
            let body = self.make_error_page(page, &error, &mut buffer);
            return Box::pin(self.send_error_page(Some(route), body)).await;
        }
        self.run_response_steps(route);
        self.record.status = self.response.status;
        let coded = self.code_whole(route, body);
        self.send_whole(coded.as_deref().unwrap_or(body)).await
    }

    /// An answer that the proxy makes itself because something is wrong.
    pub(crate) async fn answer_refusal(&mut self, refusal: Refusal) -> Result<(), Failure> {
        self.answer_refusal_with(refusal, &[]).await
    }

    /// Answers with a refusal, and with fields that such an answer has.
    pub(crate) async fn answer_refusal_with(&mut self, refusal: Refusal, fields: &[(&str, Cow<'_, str>)]) -> Result<(), Failure> {
        self.record.refused(refusal);
        self.connection.note_refusal(refusal, self.client_ip);
        let mut buffer: Pooled<Vec<u8>> = Pooled::take();
        let mut response: Pooled<ResponseHead> = Pooled::take();
        let site = self.site.clone();
        let route = site.as_ref().map(|site| site.compiled.route(self.route));
        if let Some(page) = route.and_then(|route| route.error_pages.find(refusal.status(), ErrorOrigin::Proxy, &self.head, None))
        {
            begin_answer(refusal.status(), &mut response);
            std::mem::swap(&mut *self.response, &mut *response);
            let error = ErrorFacts { status: refusal.status(), reason: refusal.reason(), sentence: refusal.sentence() };
            let body = self.make_error_page(page, &error, &mut buffer);
            self.push_fields(fields);
            return self.send_error_page(route, body).await;
        }
        let body = error_answer(refusal.status(), refusal.sentence(), refusal.reason(), &mut response, &mut buffer);
        std::mem::swap(&mut *self.response, &mut *response);
        self.push_fields(fields);
        if let Some(route) = route {
            self.run_response_steps(route);
        }
        self.send_whole(body).await
    }

    /// What a refusal says besides.
    fn push_fields(&mut self, fields: &[(&str, Cow<'_, str>)]) {
        if let Some(seconds) = self.limited.as_ref().and_then(|limited| limited.retry_after_seconds()) {
            self.response.fields.push(b"retry-after", itoa::Buffer::new().format(seconds).as_bytes());
        }
        for (name, value) in fields {
            self.response.fields.push(name.as_bytes(), value.as_bytes());
        }
    }

    /// Sends the response head with a body that is all there.
    pub(crate) async fn send_whole(&mut self, body: &[u8]) -> Result<(), Failure> {
        let status = self.response.status;
        let bodiless = matches!(status, 100..=199 | 204 | 304);
        if !bodiless && !self.response.fields.has(HeaderId::ContentLength) {
            let mut digits = itoa::Buffer::new();
            self.response.fields.push(b"content-length", digits.format(body.len()).as_bytes());
        }
        self.complete_response();
        self.consume_small_body();
        let without_body = bodiless || self.head.method == Method::Head || body.is_empty();
        let mut pieces = body.chunks(PIECE_BYTES);
        let first = if without_body { None } else { pieces.next().map(Buf::copy_of) };
        let length = if without_body { BodyLength::None } else { BodyLength::Known };
        let mut left = pieces.len();
        let gone = |_| Failure::Client(ClientFault::Gone);
        self.responder.send_head(&mut self.response, length, first, without_body || left == 0).await.map_err(gone)?;
        if without_body {
            return Ok(());
        }
        for piece in pieces {
            left -= 1;
            self.responder.send_body(Buf::copy_of(piece), left == 0).await.map_err(gone)?;
        }
        Ok(())
    }

    /// Sends the head of an answer that has no body, or none that is sent.
    pub(crate) async fn send_without_body(&mut self, length: BodyLength) -> Result<(), Failure> {
        let sent = self.responder.send_head(&mut self.response, length, None, true).await;
        sent.map_err(|_| Failure::Client(ClientFault::Gone))
    }

    /// What every answer has: a date (RFC 9110 section 6.6.1).
    pub fn complete_response(&mut self) {
        if !self.response.fields.has(HeaderId::Date) {
            let date = self.connection.worker.date.text(SystemTime::now());
            self.response.fields.push(b"date", &date);
        }
    }

    /// A request body that nobody wants ends the connection, unless all of it is there already.
    pub(crate) fn consume_small_body(&mut self) {
        while let Ok(Some(piece)) = self.body.at_hand() {
            self.record.request_bytes += piece.len() as u64;
        }
        if !self.body.is_finished() || self.connection.is_draining() {
            self.responder.close_after();
        }
    }

    /// The client's side failed: an answer, if one can still be given.
    async fn give_up_on_client(&mut self, fault: ClientFault) -> Ending {
        if !self.responder.has_started()
            && let Some(refusal) = fault.refusal()
        {
            return self.refuse(refusal).await;
        }
        if self.record.status == 0 {
            self.record.status = STATUS_CLIENT_GONE;
        }
        self.ended = true;
        self.record.reason = Some(fault.reason());
        self.responder.cut();
        Ending::Abort
    }

    /// Answers with an error, or cuts the answer that had begun.
    async fn refuse(&mut self, refusal: Refusal) -> Ending {
        if self.responder.has_started() {
            self.record.reason = Some(refusal.reason());
            self.record.setting = refusal.setting();
            self.ended = true;
            self.responder.cut();
            return Ending::Abort;
        }
        match self.answer_refusal(refusal).await {
            Ok(()) => self.finish(),
            Err(_) => {
                self.ended = true;
                Ending::Abort
            }
        }
    }

    fn finish(&mut self) -> Ending {
        self.ended = true;
        let keep_alive = match &self.responder {
            Responder::H1(responder) => responder.keep_alive,
            Responder::H2(_) | Responder::Nobody => true,
        };
        if keep_alive && self.body.is_finished() { Ending::KeepAlive } else { Ending::Close }
    }

    /// Counts the request and writes its log line.
    fn record_end(&mut self) {
        if self.is_in_background() {
            return;
        }
        let duration = self.record.ended.unwrap_or_else(rt::now).saturating_duration_since(self.record.started);
        let sent = self.responder.bytes_sent();
        if let Some(site) = &self.site {
            site.metrics.record(self.record.status, duration, sent);
        }
        let metrics = &self.connection.worker.metrics;
        metrics.requests.increment();
        if self.record.status >= 500 {
            metrics.server_errors.increment();
        }
        self.connection.facts.end();
        self.connection.account_bytes();
        if self.settings.access_log && self.has_log_line() {
            self.write_log_line(duration.as_micros() as u64, sent);
        }
        self.remember(duration.as_micros() as u64);
    }

    /// For who asks about it by its id.
    fn remember(&mut self, duration_us: u64) {
        let bytes = &self.head.fields.bytes;
        let mut target = Short::new(self.record.path.of(bytes));
        if let Some(query) = self.record.query {
            target.push(b"?");
            target.push(query.of(bytes));
        }
        self.connection.worker.recent.add(RecentRequest {
            id: self.record.request_id,
            answered_unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            duration_us,
            status: self.record.status,
            retries: self.record.retries,
            client_ip: self.client_ip,
            scheme: self.scheme(),
            listen_port: self.connection.listen_port(),
            generation: self.mark.generation,
            reason: self.record.reason,
            setting: self.record.setting,
            site: self.site.take(),
            route: self.route,
            pool: self.pool.take(),
            past_pool: self.record.fastcgi.take().map(|server| Box::new((PoolName(server.clone()), Some(server)))),
            server: self.record.upstream.as_ref().map(|upstream| upstream.server),
            method: Short::new(self.head.method_name()),
            host: Short::new(self.head.authority()),
            target,
        });
    }

    /// Whether the `log` of its route, or of its site, wants one; without a site every request has one.
    fn has_log_line(&self) -> bool {
        let Some(log) = self.route_log() else { return true };
        log.has_line(self.record.status, self.record.reason.is_some(), self.connection.worker.random())
    }

    fn route_log(&self) -> Option<&CompiledLog> {
        self.site.as_ref()?.compiled.route(self.route).log.as_deref()
    }

    fn write_log_line(&self, duration_us: u64, response_bytes: u64) {
        let mut sender = self.connection.worker.access_log.borrow_mut();
        let Some(sender) = sender.as_mut().filter(|sender| sender.is_on()) else { return };
        let bytes = &self.head.fields.bytes;
        let field = |id| self.head.fields.get(id).unwrap_or(b"");
        let request_header =
            |name: &str, found: &mut dyn FnMut(&[u8])| self.head.fields.all_named(name.as_bytes()).take(1).for_each(found);
        let request_cookie = |name: &str, found: &mut dyn FnMut(&[u8])| {
            cookie_value(&self.head.fields, name.as_bytes()).into_iter().for_each(found);
        };
        let response_header =
            |name: &str, found: &mut dyn FnMut(&[u8])| self.response.fields.all_named(name.as_bytes()).take(1).for_each(found);
        let certificate = self.connection.client_certificate.as_deref();
        let client_certificate =
            |field, found: &mut dyn FnMut(&[u8])| found(client_certificate_text(certificate, field).as_bytes());
        let needs_headers = sender.needs_headers();
        let own = self.route_log().filter(|log| log.has_fields());
        let own_fields = |see: &mut dyn FnMut(&str, &[u8])| {
            let Some(own) = own else { return };
            let context = context(self.connection, self.pool.as_deref(), &self.record, self.client_ip);
            let mut rendered: Pooled<Vec<u8>> = Pooled::take();
            own.each_field(View { context: &context, request: &self.head, response: Some(&self.response) }, &mut rendered, see);
        };
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        sender.record(&AccessRecord {
            time_unix_us: now_us - duration_us,
            client_ip: self.client_ip,
            client_port: self.connection.client.port(),
            user: self.record.user.as_ref().map_or("", |user| &user.name),
            method: self.head.method_name(),
            scheme: self.scheme().as_str(),
            host: self.head.authority(),
            path: self.record.path.of(bytes),
            query: self.record.query.map_or(b"", |query| query.of(bytes)),
            protocol: self.head.version.as_str(),
            status: self.record.status,
            request_bytes: self.record.request_bytes,
            response_bytes,
            duration_us,
            upstream: self.record.upstream.as_ref().map(|upstream| RecordUpstream {
                address: self.upstream_authority(upstream.server),
                first_byte_us: upstream.first_byte.map(|duration| duration.as_micros() as u64),
                reused: upstream.reused,
            }),
            retries: self.record.retries,
            tls: self.connection.tls.as_ref().map(|tls| RecordTls {
                version: tls.version,
                cipher: tls.cipher_suite,
                sni: self.connection.server_name.as_deref(),
                ja4: self.connection.ja4.as_deref(),
                resumed: tls.resumed,
            }),
            referer: field(HeaderId::Referer),
            user_agent: field(HeaderId::UserAgent),
            request_id: &self.record.request_id.to_hex(),
            site: self.site.as_ref().map_or("", |site| &site.compiled.name),
            pool: self.pool.as_ref().map(|pool| &*pool.compiled.name.0).or(self.record.fastcgi.as_deref()),
            cache: self.record.cache,
            reason: self.record.reason,
            setting: self.record.setting,
            request_header: needs_headers.then_some(&request_header),
            request_cookie: needs_headers.then_some(&request_cookie),
            client_certificate: certificate.is_some().then_some(&client_certificate),
            own_fields: own.is_some().then_some(&own_fields),
            response_header: needs_headers.then_some(&response_header),
        });
    }

    fn upstream_authority(&self, server: usize) -> &str {
        match (&self.pool, &self.record.fastcgi) {
            (Some(pool), _) => &pool.compiled.servers[server].authority,
            (None, server) => server.as_deref().unwrap_or_default(),
        }
    }

    /// What the client sees; a trusted proxy in front may say otherwise to the upstream, which does not change what we
    /// match.
    pub fn scheme(&self) -> Scheme {
        self.connection.listener.protocol().scheme()
    }

    /// From the process's start, as workers share times.
    pub fn since_start(&self, now: Instant) -> Duration {
        self.connection.worker.process.since_start(now)
    }

    /// The host the request is for, without port.
    pub fn host(&self) -> &[u8] {
        self.head.host()
    }
}

/// What steps and templates know besides the heads.
pub fn context<'a, S: Sock>(
    connection: &'a Connection<S>,
    pool: Option<&'a WorkerPool<S>>,
    record: &'a Record,
    client_ip: IpAddr,
) -> Context<'a> {
    let upstream = pool.zip(record.upstream.as_ref());
    Context {
        scheme: connection.listener.protocol().scheme(),
        client_ip,
        client_port: connection.client.port(),
        tls_sni: connection.server_name.as_deref(),
        tls_version: connection.tls.as_ref().map(|tls| tls.version),
        client_certificate: connection.client_certificate.as_deref(),
        tls_ja4: connection.ja4.as_deref(),
        upstream_address: upstream
            .map(|(pool, upstream)| &*pool.compiled.servers[upstream.server].authority)
            .or(record.fastcgi.as_deref()),
        request_id: record.request_id,
        user: record.user.as_ref().map(|user| &*user.name),
        error: None,
        now_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
        since_start: connection.worker.process.since_start(record.started),
        asked_path: record.matched_path,
        asked_query: record.query,
    }
}

#[cfg(test)]
mod tests {
    use super::is_http_or_tls;

    #[test]
    fn a_switch_to_http_or_tls_is_none() {
        for protocol in ["h2c", "H2", "HTTP/2.0", "TLS/1.2", "websocket, h2c"] {
            assert!(is_http_or_tls(protocol.as_bytes()), "{protocol}");
        }
        for protocol in ["websocket", "WebSocket", "tcp", "SPDY/3.1"] {
            assert!(!is_http_or_tls(protocol.as_bytes()), "{protocol}");
        }
    }
}
