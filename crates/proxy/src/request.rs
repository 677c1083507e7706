//! The life of a request, from its head to its log line, for every version of HTTP:
//!
//! receive → find site → find route → run request steps → answer here, or forward (choose server → take or open a
//! connection → send → stream both bodies → run response steps) → record.
//!
//! What differs between HTTP versions is below `exchange`; what happens between us and an upstream is in `forward`.

mod asked;
mod background;
mod begun;
mod challenge;
mod early;
mod hops;
mod kept;
mod mounted;
mod next_route;
mod secrets;
mod steps;
mod total;
mod ways;

use self::begun::end_begun_answer;
use self::early::settle_early;
use self::steps::Ran;
use crate::answering::{answer_fixed, answer_refusal};
use crate::cached::{Looked, RouteCache, look_up_kept, serve_kept};
use crate::connection::Connection;
use crate::counted::answer_kind;
use crate::decoded::decode_body;
use crate::failure::Failure;
use crate::files::serve_file;
use crate::forward::{Forwarding, Way, check_upgrade};
use crate::recent::EndedRequest;
use crate::request_ids::{self, trace_of};
use crate::snapshot::CompiledRoute;
use crate::surroundings::{Surroundings, context};
use crate::terminal::{CompiledArmEnd, CompiledSplit, CompiledTerminal, FixedAnswer};
use crate::worker_snapshot::{GenerationMark, WorkerSite, WorkerSnapshot};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tidegate_balancing::hash_bytes;
use tidegate_exchange::{ArmId, Arrived, ClientFault, Exchange, Pooled, Responder, STATUS_CLIENT_GONE, UpstreamRecord};
use tidegate_middleware::{CompiledLog, Refusal, View, Walk};
use tidegate_model::Protocol;
use tidegate_routing::client_certificate_text;
use tidegate_routing::decision::{Arrival, Sender};
use tidegate_routing::{RouteId, cookie_value};
use tidegate_telemetry::{AccessRecord, RecordTls, RecordUpstream, UpstreamError, UpstreamTime};
use tidegate_transport::{Sock, rt};
use tidegate_upstream::fault::UpstreamFault;
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::head::HeaderId;

/// One request on its way. The exchange stands where it was made: it is large, and to move it costs as much as to parse
/// a head.
pub struct Request<'r, 'c, S: Sock> {
    exchange: &'r mut Exchange<'c, S>,
    connection: &'r Rc<Connection<S>>,
    /// The configuration that it is looked up in, until it has been.
    place: Option<Place<S>>,
    /// Once they were found. Of the configuration the request keeps these parts only: a download of hours must not keep
    /// an old one alive.
    site: Option<Rc<WorkerSite>>,
    route: Option<RouteId>,
    way: Way<S>,
    mark: Rc<GenerationMark>,
    /// Whether the request was brought to its end, good or bad.
    ended: bool,
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

/// The exchange of a request that has arrived on a connection, as the snapshot's listener says who is believed.
/// Inlined, so that it is made where it stays.
#[inline(always)]
pub fn receive<'c, S: Sock>(
    connection: &Connection<S>,
    (snapshot, listener): &Place<S>,
    arrived: Arrived<'c, S>,
) -> Exchange<'c, S> {
    let trusted = &snapshot.shared.listeners[*listener].trusted_proxies;
    Exchange::receive(arrived, connection.client.ip(), trusted, connection.worker.next_request_id())
}

/// Lives a request from head to log line. Not an `async fn`, which would have room for what it is given twice.
pub fn handle<'r, S: Sock>(
    connection: &'r Rc<Connection<S>>,
    place: Place<S>,
    exchange: &'r mut Exchange<'_, S>,
) -> impl Future<Output = Ending> {
    connection.facts.begin(place.0.mark.generation);
    let mark = place.0.mark.clone();
    let mut request = Request::new(connection, exchange, mark);
    request.place = Some(place);
    async move {
        // Pinned where it is made, as all that is awaited for each request: otherwise the future is copied, and it has
        // all the others in it.
        let outcome = pin!(request.answer()).await;
        match outcome {
            Ok(()) => request.finish(),
            // Boxed: failures must not make every request's future larger.
            Err(Failure::Client(fault)) => Box::pin(request.give_up_on_client(fault)).await,
            Err(Failure::Upstream(fault)) => Box::pin(request.give_up_on_upstream(fault)).await,
        }
    }
}

/// Recorded however it ends: also when a worker is stopped with the request on its way, or after a panic.
impl<S: Sock> Drop for Request<'_, '_, S> {
    fn drop(&mut self) {
        if !self.ended {
            self.exchange.record.end_as(CUT_SHORT);
            if self.exchange.record.status == 0 {
                // A client whose connection is ended here has not gone away.
                let is_cut_by_us = self.connection.is_cut();
                self.exchange.record.status = if is_cut_by_us { STATUS_CUT_SHORT } else { STATUS_CLIENT_GONE };
            }
            // After a panic, another one would end the process and everybody's requests with it.
            let _ = catch_unwind(AssertUnwindSafe(|| self.record_end()));
            return;
        }
        self.record_end();
    }
}

/// The configuration that a request is looked up in, and its listener's place there. Given up when it has been.
pub type Place<S> = (Rc<WorkerSnapshot<S>>, usize);

/// Why a request ended that nobody brought to its end.
const CUT_SHORT: &str = "cut_short";
/// The log's status of a request without an answer whose connection the process ended: nothing of it was sent.
const STATUS_CUT_SHORT: u16 = 503;

impl<'r, 'c, S: Sock> Request<'r, 'c, S> {
    fn new(connection: &'r Rc<Connection<S>>, exchange: &'r mut Exchange<'c, S>, mark: Rc<GenerationMark>) -> Request<'r, 'c, S> {
        Request { exchange, connection, place: None, site: None, route: None, way: Way::default(), mark, ended: false }
    }

    /// The exchange, and what surrounds it.
    fn parts(&mut self) -> (&mut Exchange<'c, S>, Surroundings<'_, S>) {
        let route = self.site.as_ref().map(|site| site.compiled.route(self.route));
        (self.exchange, Surroundings { connection: self.connection, route, pool: self.way.pool.as_deref() })
    }

    /// The request's way to an upstream.
    fn forwarding<'f>(&'f mut self, route: &'f CompiledRoute) -> Forwarding<'f, 'c, S> {
        Forwarding {
            exchange: self.exchange,
            connection: self.connection,
            settings: &self.mark.settings,
            site: self.site.as_deref(),
            route,
            way: &mut self.way,
        }
    }

    async fn answer_refusal(&mut self, refusal: Refusal) -> Result<(), Failure> {
        let (exchange, around) = self.parts();
        answer_refusal(exchange, around, refusal).await
    }

    /// What needs no site to be refused.
    #[inline]
    fn check_arrival(&self) -> Result<(), Refusal> {
        if self.exchange.client_is_unclear {
            return Err(Refusal::ClientUnclear);
        }
        if self.exchange.hop.upgrade.is_some() { check_upgrade(self.exchange) } else { Ok(()) }
    }

    async fn answer(&mut self) -> Result<(), Failure> {
        if let Err(refusal) = self.check_arrival() {
            return Box::pin(self.answer_refusal(refusal)).await;
        }
        if self.may_be_challenge()
            && let Some(outcome) = Box::pin(self.answer_challenge()).await
        {
            return outcome;
        }
        let site = match self.find_site() {
            Ok(site) => site,
            Err(refusal) => return Box::pin(self.answer_refusal(refusal)).await,
        };
        if self.connection.stream.is_early() {
            Box::pin(settle_early(self.exchange, self.connection, &site)).await?;
        }
        site.compiled.identity.remove_claimed(&mut self.exchange.head.fields);
        if let Some(log_ins) = &site.compiled.log_ins
            && let Some(address) = self.meet_log_ins(log_ins)
        {
            return Box::pin(self.answer_log_in_address(address)).await;
        }
        if site.compiled.asks_for_claims {
            Box::pin(self.find_claims(&site)).await?;
        }
        let route = match self.find_route(&site) {
            Ok(route) => route,
            Err(refusal) => return Box::pin(self.answer_refusal(refusal)).await,
        };
        if route.request_ids.wants_to_take(&self.exchange.head.fields) {
            request_ids::take(&route.request_ids, self.exchange);
        }
        match self.run_request_steps(route, Walk::default()) {
            Ok(Ran::Through) => {}
            // Boxed, as everything that the common request does not meet.
            Ok(Ran::Preflight) => return Box::pin(self.answer_preflight()).await,
            Ok(Ran::Stands(standing)) => {
                if !Box::pin(self.go_on(route, *standing)).await? {
                    return Ok(());
                }
            }
            Err(refusal) => return Box::pin(self.answer_step_refusal(route, refusal)).await,
        }
        if let Some(decompress) = route.decompress
            && let Err(refusal) = decode_body(self.exchange, decompress)
        {
            return Box::pin(self.answer_refusal(refusal)).await;
        }
        if self.may_count_hops() && Box::pin(self.take_hop(route)).await? {
            return Ok(());
        }
        self.find_arm(route)?;
        if route.translation.by_mount && Box::pin(self.redirect_to_mount(route)).await? {
            return Ok(());
        }
        let Some(pool) = self.spell_path(&site, route).find_pool(route) else {
            let CompiledTerminal::Answer(answer) = &route.terminal else {
                return Box::pin(self.answer_in_time(route, None)).await;
            };
            let (exchange, around) = self.parts();
            return pin!(answer_fixed(exchange, around, answer)).await;
        };
        if let Some(cache) = &route.cache {
            return pin!(self.answer_by_cache(route, cache, pool)).await;
        }
        if route.timeouts.total.is_none() && matches!(route.terminal, CompiledTerminal::Proxy(_) | CompiledTerminal::Split(_)) {
            return pin!(self.forwarding(route).forward(pool)).await;
        }
        Box::pin(self.answer_in_time(route, Some(pool))).await
    }

    /// Answers with what is kept, or by way of the cache. On its own: what it holds would be every request's.
    async fn answer_by_cache(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        origin: Rc<WorkerPool<S>>,
    ) -> Result<(), Failure> {
        let (exchange, around) = self.parts();
        match look_up_kept(exchange, around, cache, &origin) {
            // As a fixed answer is given, since it costs little more.
            Looked::Hit(hit) => pin!(serve_kept(exchange, around, cache, hit)).await,
            Looked::Other(other) => Box::pin(self.answer_not_at_hand(route, cache, origin, other)).await,
        }
    }

    /// The pool that the request goes to, if to one that is there; the configuration is given up with it.
    fn find_pool(&mut self, route: &CompiledRoute) -> Option<Rc<WorkerPool<S>>> {
        let (snapshot, _) = self.place.take()?;
        let slot = route.terminal.upstream(self.exchange.record.arm)?.pool;
        let pool = snapshot.pool(slot, || self.connection.worker.of()).cloned();
        if !route.mirrors.is_empty() {
            self.forwarding(route).choose_mirrors(&snapshot);
        }
        pool
    }

    /// As [`answer_from`](Self::answer_from), within what the route gives the request as a whole.
    async fn answer_in_time(&mut self, route: &CompiledRoute, pool: Option<Rc<WorkerPool<S>>>) -> Result<(), Failure> {
        match route.timeouts.total {
            None => self.answer_from(route, pool).await,
            Some(total) => self.within(total, async |request| request.answer_from(route, pool).await).await,
        }
    }

    /// Answers as the route's end says. `pool` is where its requests go, if they go to one that is there.
    async fn answer_from(&mut self, route: &CompiledRoute, pool: Option<Rc<WorkerPool<S>>>) -> Result<(), Failure> {
        match (&route.terminal, pool) {
            (CompiledTerminal::Proxy(_) | CompiledTerminal::Split(_), Some(pool)) => {
                pin!(self.forwarding(route).forward(pool)).await
            }
            (CompiledTerminal::Split(_), None) => match route.terminal.arm(self.exchange.record.arm).map(|arm| &arm.end) {
                Some(CompiledArmEnd::Answer(answer)) => {
                    let (exchange, around) = self.parts();
                    answer_fixed(exchange, around, answer).await
                }
                Some(CompiledArmEnd::Upstream(_)) | None => self.answer_refusal(Refusal::from(UpstreamError::NoServer)).await,
            },
            (CompiledTerminal::Proxy(_) | CompiledTerminal::FastCgi(..), None) => {
                self.answer_refusal(Refusal::from(UpstreamError::NoServer)).await
            }
            (CompiledTerminal::FastCgi(_, script), Some(pool)) => self.forwarding(route).run_script(script, pool).await,
            (CompiledTerminal::Files(folder), _) => {
                let (exchange, around) = self.parts();
                serve_file(exchange, around, folder).await
            }
            (CompiledTerminal::Answer(answer), _) => {
                let (exchange, around) = self.parts();
                answer_fixed(exchange, around, answer).await
            }
            (CompiledTerminal::NoRoute, _) => self.answer_refusal(Refusal::NoRoute).await,
        }
    }

    /// The site that the request names, on the listener that it came to.
    fn find_site(&mut self) -> Result<Rc<WorkerSite>, Refusal> {
        // The place is held until the route was found.
        let Some((snapshot, listener)) = &self.place else { return Err(Refusal::NoRoute) };
        let listener = &snapshot.shared.listeners[*listener];
        let (local_ip, tls) = (self.connection.local_ip(listener), self.connection.tls_identity.as_deref());
        let site = Arrival { router: &listener.router, local_ip, tls }.admit(&self.exchange.head, |found| {
            let site = snapshot.site(found.0 as usize, self.connection.worker.index);
            (site, &site.compiled.rules)
        })?;
        self.connection.facts.at_site(&site.compiled.name);
        site.counters.whole().begin();
        let site = site.clone();
        self.site = Some(site.clone());
        Ok(site)
    }

    /// From whom the request comes, and what its conditions look up in.
    fn sender(&self) -> Sender<'r> {
        let connection: &'r Connection<S> = self.connection;
        Sender {
            scheme: connection.scheme(),
            ip: self.exchange.client_ip,
            certificate: connection.client_certificate.as_deref(),
            ja4: connection.ja4.as_deref(),
            geo: connection.whereabouts(),
            upgrade: self.exchange.hop.upgrade,
            maps: &connection.worker.process.maps,
            claims: None,
        }
    }

    /// The route that takes the request, or what the site has for those that none takes.
    fn find_route<'s>(&mut self, site: &'s WorkerSite) -> Result<&'s CompiledRoute, Refusal> {
        // Whether the token is good for the route says its own step, if it has one.
        let claims = self.exchange.record.claims.take();
        let sender = Sender { claims: claims.as_deref(), ..self.sender() };
        let sent = self.exchange.head.path;
        let mut found = site.compiled.rules.find_route(&mut self.exchange.head, sender)?;
        if site.compiled.goes_on {
            found = self.pass_without_file(&site.compiled, found, (sent, claims.as_deref()))?;
        }
        self.exchange.record.matched_path = self.exchange.head.path;
        self.route = found;
        let route = site.compiled.route(found);
        if !route.withheld_parameters.is_empty() {
            self.withhold(&route.withheld_parameters);
        }
        if !route.header_names.is_off() {
            route.header_names.settle(&mut self.exchange.head.fields)?;
        }
        Ok(route)
    }

    /// Gives the upstream, or the place that a redirect names, the slashes the client sent, where no step changed
    /// the path. What is kept in a cache is known by the path that was matched, so that is what is asked for there.
    #[inline]
    fn spell_path(&mut self, site: &WorkerSite, route: &CompiledRoute) -> &mut Self {
        let record = &self.exchange.record;
        // A path that was settled is another span than the one that was sent.
        if record.path == record.matched_path || self.exchange.head.path != record.matched_path || route.cache.is_some() {
            return self;
        }
        let names_path = match &route.terminal {
            CompiledTerminal::Proxy(_) | CompiledTerminal::Split(_) => true,
            CompiledTerminal::Answer(FixedAnswer::Redirect(redirect)) => !redirect.has_prefix(),
            CompiledTerminal::Answer(FixedAnswer::Respond(_))
            | CompiledTerminal::Files(_)
            | CompiledTerminal::FastCgi(..)
            | CompiledTerminal::NoRoute => false,
        };
        if names_path {
            site.compiled.rules.spell_as_sent(self.route, &mut self.exchange.head, record.path);
        }
        self
    }

    /// Has a request to a route with a `split` take its arm.
    #[inline]
    fn find_arm(&mut self, route: &CompiledRoute) -> Result<(), ClientFault> {
        match &route.terminal {
            CompiledTerminal::Split(split) => self.take_arm(route, split).map_err(ClientFault::Refused),
            CompiledTerminal::Answer(_)
            | CompiledTerminal::Proxy(_)
            | CompiledTerminal::Files(_)
            | CompiledTerminal::FastCgi(..)
            | CompiledTerminal::NoRoute => Ok(()),
        }
    }

    /// Finds the arm in whose share the request lies, and applies the steps that are this arm's own.
    #[inline(never)]
    fn take_arm(&mut self, route: &CompiledRoute, split: &CompiledSplit) -> Result<(), Refusal> {
        let position = self.choose_share(split);
        self.exchange.record.arm = ArmId::at(position);
        if let Some(site) = &self.site {
            site.counters.count_arm(self.route, position);
        }
        match &split.arms[position].steps {
            None => Ok(()),
            Some(steps) => self.run_steps_of_arm(route, steps),
        }
    }

    fn choose_share(&self, split: &CompiledSplit) -> usize {
        if split.to.is_some() || split.by.is_some() {
            let context =
                context(self.connection, None, &self.exchange.record, self.exchange.client_ip, self.exchange.hop.upgrade);
            let view = View { context: &context, request: &self.exchange.head, response: None };
            let mut key: Pooled<Vec<u8>> = Pooled::take();
            if let Some(to) = &split.to {
                to.name.render(view, &mut key);
                if let Some(arm) = to.arms.get(&**key) {
                    return *arm;
                }
                key.clear();
            }
            if let Some(by) = &split.by {
                by.render(view, &mut key);
                if !key.is_empty() {
                    return split.shares.of_key(hash_bytes(&key));
                }
            }
        }
        split.shares.at(self.connection.worker.random())
    }

    /// The client's side failed: an answer, if one can still be given.
    async fn give_up_on_client(&mut self, fault: ClientFault) -> Ending {
        if !self.exchange.responder.has_started()
            && let Some(refusal) = fault.refusal()
        {
            return self.refuse(refusal).await;
        }
        if self.exchange.record.status == 0 {
            self.exchange.record.status = STATUS_CLIENT_GONE;
        }
        self.ended = true;
        self.exchange.record.end_as(fault.reason());
        self.exchange.responder.cut(ErrorCode::InternalError);
        Ending::Abort
    }

    /// The upstream failed: an error, or the end of the answer that had begun.
    async fn give_up_on_upstream(&mut self, fault: UpstreamFault) -> Ending {
        let refusal = Refusal::from(fault.error);
        if !self.exchange.responder.has_started() {
            return self.refuse(refusal).await;
        }
        self.note_cut(refusal);
        end_begun_answer(self.exchange, fault);
        Ending::Abort
    }

    /// An answer that had begun does not come to its end.
    fn note_cut(&mut self, refusal: Refusal) {
        self.exchange.record.fail(refusal.reason(), refusal.setting());
        self.ended = true;
    }

    /// Answers with an error, or cuts the answer that had begun.
    async fn refuse(&mut self, refusal: Refusal) -> Ending {
        if self.exchange.responder.has_started() {
            self.note_cut(refusal);
            self.exchange.responder.cut(ErrorCode::InternalError);
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
        let keep_alive = match &self.exchange.responder {
            Responder::H1(responder) => responder.keep_alive,
            Responder::H2(_) | Responder::Nobody => true,
        };
        if keep_alive && self.exchange.body.is_finished() { Ending::KeepAlive } else { Ending::Close }
    }

    /// Counts the request and writes its log line.
    fn record_end(&mut self) {
        if self.exchange.is_in_background() {
            return;
        }
        let ended = self.exchange.record.ended.unwrap_or_else(rt::now);
        let duration = ended.saturating_duration_since(self.exchange.record.started);
        let sent = self.exchange.responder.bytes_sent();
        if self.exchange.record.query.is_some() {
            self.hide_secrets();
        }
        let kind = answer_kind(&self.exchange.head, self.exchange.record.status);
        match &self.site {
            Some(site) => {
                site.counters.of_route(self.route).record(kind, duration, sent);
                site.counters.whole().end();
            }
            None => self.connection.worker.without_site.record(kind, duration, sent),
        }
        self.record_upstream_time(ended);
        let metrics = &self.connection.worker.metrics;
        metrics.requests.increment();
        if self.exchange.record.status >= 500 {
            metrics.server_errors.increment();
            if self.exchange.record.is_failure() {
                metrics.failures.increment();
            }
        }
        self.connection.facts.end();
        self.connection.account_bytes();
        if self.mark.settings.access_log && self.has_log_line() {
            self.hide_in_referer();
            self.write_log_line(duration.as_micros() as u64, sent);
        }
        self.remember(ended, duration.as_micros() as u64);
    }

    /// The whole time of the attempt whose answer came.
    fn record_upstream_time(&self, ended: Instant) {
        let record = &self.exchange.record;
        let (Some(upstream), Some(pool)) = (&record.upstream, &self.way.pool) else { return };
        let Some(whole) = upstream.whole(ended.saturating_duration_since(record.started)) else { return };
        pool.metrics.record(UpstreamTime::Whole, whole);
    }

    /// For who asks about it by its id.
    fn remember(&mut self, at: Instant, duration_us: u64) {
        let ended = EndedRequest {
            id: self.exchange.record.request_id(),
            at,
            duration_us,
            status: self.exchange.record.status,
            retries: self.exchange.record.retries,
            client_ip: self.exchange.client_ip,
            scheme: self.connection.scheme(),
            listen_port: self.connection.public_port(),
            generation: self.mark.generation,
            reason: self.exchange.record.reason(),
            setting: self.exchange.record.setting(),
            site: self.site.take(),
            route: self.route,
            pool: self.way.pool.take(),
            past_pool: None,
            server: self.exchange.record.upstream.as_ref().map(|upstream| upstream.server as usize),
        };
        self.connection.worker.recent.add(ended, |asked| {
            let exchange = &self.exchange;
            let bytes = &exchange.head.fields.bytes;
            asked.method.set(exchange.head.method_name());
            asked.host.set(exchange.head.authority());
            asked.target.set(exchange.record.path.of(bytes));
            if let Some(query) = exchange.record.query {
                asked.target.push(b"?");
                asked.target.push(query.of(bytes));
            }
        });
    }

    /// Whether the `log` of its route, or of its site, wants one; without a site every request has one.
    fn has_log_line(&self) -> bool {
        let Some(log) = self.route_log() else { return true };
        log.has_line(self.exchange.record.status, self.exchange.record.reason().is_some(), self.connection.worker.random())
    }

    fn route_log(&self) -> Option<&CompiledLog> {
        self.site.as_ref()?.compiled.route(self.route).log.as_deref()
    }

    fn write_log_line(&self, duration_us: u64, response_bytes: u64) {
        let mut sender = self.connection.worker.access_log.borrow_mut();
        let Some(sender) = sender.as_mut().filter(|sender| sender.is_on()) else { return };
        let Exchange { head, response, record, client_ip, hop, .. } = &self.exchange;
        let bytes = &head.fields.bytes;
        let field = |id| head.fields.get(id).unwrap_or(b"");
        let request_header = |name: &str, found: &mut dyn FnMut(&[u8])| match name {
            // The field was taken out, and stands there again where the request went on.
            "upgrade" => hop.upgrade.into_iter().for_each(|protocol| found(protocol.of(bytes))),
            name => head.fields.all_named(name.as_bytes()).take(1).for_each(found),
        };
        let request_cookie = |name: &str, found: &mut dyn FnMut(&[u8])| {
            cookie_value(&head.fields, name.as_bytes()).into_iter().for_each(found);
        };
        let response_header =
            |name: &str, found: &mut dyn FnMut(&[u8])| response.fields.all_named(name.as_bytes()).take(1).for_each(found);
        let certificate = self.connection.client_certificate.as_deref();
        let client_certificate =
            |field, found: &mut dyn FnMut(&[u8])| found(client_certificate_text(certificate, field).as_bytes());
        let needs_headers = sender.needs_headers();
        let own = self.route_log().filter(|log| log.has_fields());
        let own_fields = |see: &mut dyn FnMut(&str, &[u8])| {
            let Some(own) = own else { return };
            let context = context(self.connection, self.way.pool.as_deref(), record, *client_ip, hop.upgrade);
            let mut rendered: Pooled<Vec<u8>> = Pooled::take();
            own.each_field(View { context: &context, request: head, response: Some(response) }, &mut rendered, see);
        };
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        sender.record(&AccessRecord {
            time_unix_us: now_us - duration_us,
            client_ip: *client_ip,
            client_port: self.connection.client.port(),
            user: record.user().unwrap_or_default(),
            method: head.method_name(),
            scheme: self.connection.scheme().as_str(),
            host: head.authority(),
            path: record.path.of(bytes),
            query: record.query.map_or(b"", |query| query.of(bytes)),
            protocol: head.version.as_str(),
            status: Some(record.status),
            request_bytes: record.request_bytes,
            response_bytes,
            duration_us,
            auth_status: record.asked.as_ref().and_then(|asked| asked.status),
            auth_us: record.asked.as_ref().and_then(|asked| asked.took_us).map(u64::from),
            queue_us: Some(record.queued_us.into()).filter(|waited| *waited > 0),
            upstream: record.upstream.as_ref().map(|upstream| self.upstream_of_record(upstream, duration_us)),
            retries: record.retries,
            tls: self.tls_of_record(),
            introduction: self.connection.said_by_balancer(),
            referer: field(HeaderId::Referer),
            user_agent: field(HeaderId::UserAgent),
            request_id: record.given_id.as_deref().map_or(&record.request_id().to_hex(), str::as_bytes),
            trace_id: trace_of(&head.fields).unwrap_or_default(),
            site: self.site.as_ref().map_or("", |site| &site.compiled.name),
            route: self.route_name(),
            origin: self.origin(),
            pool: self.way.pool.as_ref().map(|pool| &*pool.compiled.name.0),
            arm: self.arm_name(),
            cache: record.cache,
            reason: record.reason(),
            setting: record.setting(),
            request_header: needs_headers.then_some(&request_header),
            request_cookie: needs_headers.then_some(&request_cookie),
            client_certificate: certificate.is_some().then_some(&client_certificate),
            own_fields: own.is_some().then_some(&own_fields),
            response_header: needs_headers.then_some(&response_header),
        });
    }

    fn tls_of_record(&self) -> Option<RecordTls<'_>> {
        let connection = self.connection;
        connection.tls.as_ref().map(|tls| RecordTls {
            version: tls.version,
            cipher: tls.cipher_suite,
            sni: connection.server_name.as_deref(),
            ja4: connection.ja4.as_deref(),
            resumed: tls.resumed,
        })
    }

    fn route_name(&self) -> &str {
        let name = self.site.as_ref().and_then(|site| site.compiled.route(self.route).name.as_deref());
        name.unwrap_or_default()
    }

    /// Where what has taken the request comes from.
    fn origin(&self) -> &str {
        let origin = self.site.as_ref().and_then(|site| site.compiled.route(self.route).origin.as_deref());
        origin.unwrap_or_default()
    }

    fn arm_name(&self) -> Option<&str> {
        let arm = self.exchange.record.arm?;
        Some(&self.site.as_ref()?.compiled.route(self.route).terminal.arm(Some(arm))?.name)
    }

    fn upstream_of_record(&self, upstream: &UpstreamRecord, ended_us: u64) -> RecordUpstream<'_> {
        RecordUpstream {
            address: self.upstream_authority(upstream.server as usize),
            status: upstream.answer.map(|answer| answer.status),
            protocol: upstream.protocol.map_or("", |protocol| match protocol {
                Protocol::Auto => "",
                Protocol::Http1 => "HTTP/1.1",
                Protocol::H2 | Protocol::H2c => "HTTP/2",
                Protocol::FastCgi => "FastCGI",
            }),
            connect_us: upstream.connect_us.map(|us| us.get().into()),
            tls_us: upstream.tls_us.map(|us| us.get().into()),
            first_byte_us: upstream.answer.map(|answer| answer.first_byte_us.into()),
            body_us: upstream.body_us(ended_us),
            reused: upstream.reused,
        }
    }

    fn upstream_authority(&self, server: usize) -> &str {
        let server = self.way.pool.as_ref().and_then(|pool| pool.compiled.servers.get(server));
        server.map_or("", |server| &server.authority)
    }
}
