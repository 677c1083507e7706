//! `cache`: answers that are kept are given again, and requests for the same wait for one. What may be kept and given
//! is decided in the crate of that name; here is the order in which a request asks it, its upstream and its disk.
//! `fetch` is what happens to an answer on its way in, `serve` how one goes out, `tier` what all workers share.

mod asked;
mod background;
mod body;
mod fetch;
mod purge;
mod route;
mod serve;
pub mod tier;

use self::asked::Asked;
pub use self::body::StoredBody;
use self::fetch::{Answered, Fetch};
pub use self::fetch::{Caching, Kept};
pub use self::route::RouteCache;
pub(crate) use self::serve::Hit;
pub use self::tier::{CacheTier, TierSettings};
use crate::failure::Failure;
use crate::forward::unless_gone;
use crate::forwarded::each_claim_of_url;
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use crate::terminal::CompiledTerminal;
use std::borrow::Cow;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tidegate_cache::policy::{CacheStatus, Forward, answer};
use tidegate_cache::store::Adopted;
use tidegate_cache::{FetchTicket, Key, Lookup, Object, WaitHandle, WaitOutcome};
use tidegate_middleware::Refusal;
use tidegate_transport::{Sock, rt};
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::BodyFraming;
use tidegate_wire::head::{HeaderId, Method, RequestHead};

/// Fetches that a request may see fail or turn out to be for others, before it goes to the upstream on its own.
const LOOKUPS_MAX: u32 = 8;
/// How long a request waits for its answer to come from the disk. A disk that is slower than an upstream is no help.
const DISK_WAIT: Duration = Duration::from_secs(2);

/// Who answers what is not kept.
pub(crate) enum Origin<S: Sock> {
    Pool(Rc<WorkerPool<S>>),
    /// The FastCGI server of the route.
    Script,
}

impl<S: Sock> Clone for Origin<S> {
    fn clone(&self) -> Self {
        match self {
            Origin::Pool(pool) => Origin::Pool(pool.clone()),
            Origin::Script => Origin::Script,
        }
    }
}

impl<S: Sock> Origin<S> {
    /// None where nothing is asked, as in a route whose pool is not there.
    pub(crate) fn of(route: &CompiledRoute, pool: Option<&Rc<WorkerPool<S>>>) -> Option<Origin<S>> {
        match &route.terminal {
            CompiledTerminal::Proxy(_) | CompiledTerminal::Split(_) => pool.map(|pool| Origin::Pool(pool.clone())),
            CompiledTerminal::FastCgi(_) => Some(Origin::Script),
            CompiledTerminal::Answer(_) | CompiledTerminal::Files(_) | CompiledTerminal::NoRoute => None,
        }
    }
}

/// What the cache says of a request at once.
pub(crate) enum Looked {
    Hit(Hit),
    /// Boxed: whatever it is, it takes longer.
    Other(Box<Other>),
}

pub(crate) enum Other {
    /// Whether the client may, is still to be found out.
    Purge,
    /// The cache only hears of it.
    PassBy(Forward, Option<Key>),
    /// For it something has to be asked, waited for or fetched.
    Lookup(Lookup, Key, Rc<Asked>),
}

impl Looked {
    fn other(other: Other) -> Looked {
        Looked::Other(Box::new(other))
    }
}

impl<S: Sock> Request<'_, S> {
    /// Looks for what is kept.
    pub(crate) fn look_up_kept(&self, route: &CompiledRoute, cache: &RouteCache, origin: &Origin<S>) -> Looked {
        if cache.purging.is_open() && self.head.method_name() == b"PURGE" {
            return Looked::other(Other::Purge);
        }
        // A body would be part of the question, and what answers to it may differ.
        let is_plain = matches!(self.framing, BodyFraming::None | BodyFraming::Length(0)) && self.hop.upgrade.is_none();
        let Some(key) = self.cache_key() else { return Looked::other(Other::PassBy(Forward::Bypass, None)) };
        if !is_plain {
            let why = if matches!(self.head.method, Method::Get | Method::Head) { Forward::Request } else { Forward::Method };
            return Looked::other(Other::PassBy(why, Some(key)));
        }
        let partition = self.partition(cache, route, origin);
        let now = cache.tier.now();
        self.as_asked(&partition, |request| match cache.store.lookup(&key, request, now) {
            Lookup::Hit { object, age_seconds, ttl_seconds } => {
                let shape = answer::answer(request, &object.head, Some(object.body_bytes));
                let status = CacheStatus::Hit { ttl_seconds: ttl_seconds as i64 };
                Looked::Hit(Hit { object, shape, age_seconds, status, own: None })
            }
            Lookup::Bypass(why) => Looked::other(Other::PassBy(why, Some(key))),
            lookup => match Asked::new(request) {
                Some(asked) => Looked::other(Other::Lookup(lookup, key, asked.into())),
                None => Looked::other(Other::PassBy(Forward::Bypass, Some(key))),
            },
        })
    }

    /// Answers what nothing kept answers at once.
    pub(crate) async fn answer_not_at_hand(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        origin: Origin<S>,
        other: Box<Other>,
    ) -> Result<(), Failure> {
        match *other {
            Other::Purge => self.purge(cache).await,
            Other::PassBy(why, key) => self.pass_by(route, &origin, why, key).await,
            Other::Lookup(lookup, key, asked) => self.answer_missed(route, cache, origin, (key, asked), lookup).await,
        }
    }

    /// What could not be answered at once.
    async fn answer_missed(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        origin: Origin<S>,
        (key, asked): (Key, Rc<Asked>),
        mut lookup: Lookup,
    ) -> Result<(), Failure> {
        for _ in 0..LOOKUPS_MAX {
            let (wait, why) = match lookup {
                Lookup::Hit { object, ttl_seconds, .. } => {
                    let status = CacheStatus::Hit { ttl_seconds: ttl_seconds as i64 };
                    return self.serve_kept(route, cache, Hit::of(object, &asked, status, &cache.tier)).await;
                }
                // Why it may be given makes no difference: `Age` and `Cache-Status` tell the client how old it is.
                Lookup::Stale { object, revalidation, .. } => {
                    if let Some(ticket) = revalidation {
                        self.revalidate(cache, &origin, ticket, &asked);
                    }
                    return self.serve_stale(route, cache, object, &asked).await;
                }
                Lookup::Fetch(ticket, why) => return self.fetch(route, cache, origin, (ticket, why), asked).await,
                Lookup::Bypass(why) => return self.pass_by(route, &origin, why, Some(key)).await,
                Lookup::GatewayTimeout => return self.answer_refusal(Refusal::NotKept).await,
                Lookup::Wait(wait, why) => (wait, why),
            };
            match self.wait_for(route, cache, wait, &asked).await? {
                Some(WaitOutcome::Read(reader)) => {
                    let terms = &reader.opening().terms;
                    let ttl_seconds = terms.lifetime_seconds as i64 - terms.age_seconds(cache.tier.now()) as i64;
                    let status = CacheStatus::Forwarded {
                        why,
                        status: None,
                        ttl_seconds: Some(ttl_seconds),
                        stored: false,
                        collapsed: true,
                    };
                    return self.serve_reader(route, (reader, &[]), &asked, status, &cache.tier).await;
                }
                Some(WaitOutcome::Serve(object)) => {
                    let ttl_seconds = Some(object.ttl_seconds(cache.tier.now()));
                    let status = CacheStatus::Forwarded { why, status: None, ttl_seconds, stored: false, collapsed: true };
                    return self.serve_kept(route, cache, Hit::of(object, &asked, status, &cache.tier)).await;
                }
                Some(WaitOutcome::Fetch(ticket)) => return self.fetch(route, cache, origin, (ticket, why), asked).await,
                Some(WaitOutcome::LookUpAgain) => {
                    lookup = asked.with(|request| cache.store.lookup(&key, request, cache.tier.now()));
                }
                // It is not for sharing, or takes too long: each on its own.
                Some(WaitOutcome::Alone) | None => return self.pass_by(route, &origin, why, Some(key)).await,
            }
        }
        self.pass_by(route, &origin, Forward::Bypass, Some(key)).await
    }

    /// Past the cache, which only hears of what changes something.
    async fn pass_by(
        &mut self,
        route: &CompiledRoute,
        origin: &Origin<S>,
        why: Forward,
        key: Option<Key>,
    ) -> Result<(), Failure> {
        self.caching = Some(Box::new(Caching::Past { why, key }));
        pin!(self.ask(route, origin)).await
    }

    pub(super) async fn ask(&mut self, route: &CompiledRoute, origin: &Origin<S>) -> Result<(), Failure> {
        let pool = match origin {
            Origin::Pool(pool) => Some(pool.clone()),
            Origin::Script => None,
        };
        match route.timeouts.total {
            None => pin!(self.answer_from(route, pool)).await,
            Some(total) => Box::pin(self.within(total, async |request| request.answer_from(route, pool).await)).await,
        }
    }

    /// Asks the disk, then the upstream; what comes is kept for others.
    async fn fetch(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        origin: Origin<S>,
        (ticket, why): (FetchTicket, Forward),
        asked: Rc<Asked>,
    ) -> Result<(), Failure> {
        let mut ticket = match self.read_disk(route, cache, ticket, &asked).await? {
            Adopted::Serve(object) => {
                let status = CacheStatus::Hit { ttl_seconds: object.ttl_seconds(cache.tier.now()) };
                return self.serve_kept(route, cache, Hit::of(object, &asked, status, &cache.tier)).await;
            }
            Adopted::Fetch(ticket) => ticket,
        };
        loop {
            let untouched = ticket.stale().is_some().then(|| RequestHead::clone(&self.head));
            self.ask_for_whole(&ticket);
            let fetch = Fetch { ticket, why, asked: asked.clone(), tier: cache.tier.clone(), sent: cache.tier.now() };
            self.caching = Some(Box::new(Caching::Fetch(fetch)));
            let outcome = pin!(self.ask(route, &origin)).await;
            match (outcome, self.caching.take().map(|caching| *caching)) {
                (Ok(()), Some(Caching::Answered(Answered::Validated { object, status, own }))) => {
                    let hit = Hit { own, ..Hit::of(object, &asked, status, &cache.tier) };
                    return self.serve_kept(route, cache, hit).await;
                }
                (Ok(()), Some(Caching::Answered(Answered::Stale(object)))) => {
                    return self.serve_stale(route, cache, object, &asked).await;
                }
                (Ok(()), Some(Caching::Answered(Answered::AskAgain(again)))) => {
                    ticket = again;
                    if let Some(untouched) = untouched {
                        *self.head = untouched;
                    }
                }
                // RFC 5861 section 4: no answer at all is an error as well.
                (Err(Failure::Upstream(fault)), Some(Caching::Fetch(mut fetch))) if !self.responder.has_started() => {
                    return match fetch.ticket.serve_stale(cache.tier.now()) {
                        Some((object, _)) => self.serve_stale(route, cache, object, &asked).await,
                        None => Err(Failure::Upstream(fault)),
                    };
                }
                (outcome, _) => return outcome,
            }
        }
    }

    /// The head that fetches for everybody: without the client's own conditions, with those of what is kept.
    fn ask_for_whole(&mut self, ticket: &FetchTicket) {
        let fields = &mut self.head.fields;
        for name in tidegate_cache::policy::revalidation::REPLACED_FIELDS {
            fields.remove(name.as_bytes());
        }
        for (name, value) in ticket.condition() {
            fields.push(name, value);
        }
    }

    /// Waits for another request's fetch; `None` when that takes longer than going alone should.
    async fn wait_for(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        mut wait: WaitHandle,
        asked: &Asked,
    ) -> Result<Option<WaitOutcome>, Failure> {
        let limit = Duration::from_secs(cache.store.wait_seconds_max()).min(self.left_of(route.timeouts.total));
        let waiting = pin!(rt::timeout(limit, poll_fn(|cx| asked.with(|request| wait.poll(request.fields, cx)))));
        unless_gone(&mut self.responder, &Cell::new(true), waiting).await
    }

    /// The answer from the disk, if it is there and fresh; if it is stale, the ticket asks about it.
    async fn read_disk(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        ticket: FetchTicket,
        asked: &Asked,
    ) -> Result<Adopted, Failure> {
        let disk = if ticket.stale().is_none() { cache.tier.disk() } else { None };
        let Some(disk) = disk else { return Ok(Adopted::Fetch(ticket)) };
        let Some(mut reading) = asked.with(|request| disk.read(ticket.key(), request.fields)) else {
            return Ok(Adopted::Fetch(ticket));
        };
        let waiting = pin!(rt::timeout(DISK_WAIT.min(self.left_of(route.timeouts.total)), reading.recv()));
        let read = unless_gone(&mut self.responder, &Cell::new(true), waiting).await?;
        match read.flatten().flatten() {
            Some(object) => Ok(asked.with(|request| ticket.adopt(object, request.fields, cache.tier.now()))),
            None => Ok(Adopted::Fetch(ticket)),
        }
    }

    async fn serve_stale(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        object: Arc<Object>,
        asked: &Asked,
    ) -> Result<(), Failure> {
        let status = CacheStatus::Hit { ttl_seconds: object.ttl_seconds(cache.tier.now()) };
        self.serve_kept(route, cache, Hit::of(object, asked, status, &cache.tier)).await
    }

    /// The URL that the client asked for, in the spelling that routes are found by, which is what a purge names.
    fn cache_key(&self) -> Option<Key> {
        let bytes = &self.head.fields.bytes;
        let query = self.record.query.map(|query| query.of(bytes));
        Key::of_parts(self.scheme().as_str().as_bytes(), self.head.authority(), self.record.matched_path.of(bytes), query)
    }

    /// What tells answers of one URL apart besides `Vary`: the route's conditions, and whatever its steps made of path
    /// and host. Borrowed where there is nothing of that, as for most requests.
    fn partition<'a>(&self, cache: &'a RouteCache, route: &CompiledRoute, origin: &Origin<S>) -> Cow<'a, [u8]> {
        let mut partition = Cow::Borrowed(&*cache.partition);
        let mut add = |parts: &[&[u8]]| parts.iter().for_each(|part| partition.to_mut().extend_from_slice(part));
        if matches!(route.terminal, CompiledTerminal::Split(_))
            && let Origin::Pool(pool) = origin
        {
            // What one pool of several says is not what another would have said.
            add(&[b"\npool ", pool.compiled.name.0.as_bytes()]);
        }
        let bytes = &self.head.fields.bytes;
        let sent = (self.record.matched_path.of(bytes), self.record.query.map(|query| query.of(bytes)));
        if (self.head.path(), self.head.query()) != sent {
            add(&[b"\n/", self.head.path(), b"?", self.head.query().unwrap_or_default()]);
        }
        if self.peer_is_trusted {
            // What a proxy in front says of the client's request is part of what upstreams answer by.
            each_claim_of_url(&self.head.fields, |name, value| add(&[b"\ntold ", name, b": ", value]));
        }
        if let Some(host) = self.head.fields.get(HeaderId::Host).filter(|host| *host != self.head.authority()) {
            add(&[b"\nhost ", host]);
        }
        partition
    }

    /// The request as the cache is shown it.
    fn as_asked<R>(&self, partition: &[u8], run: impl FnOnce(tidegate_cache::RequestHead<'_>) -> R) -> R {
        let mut fields: Vec<tidegate_cache::Field<'_>> = Vec::with_capacity(32);
        fields.extend(self.head.fields.iter());
        if !partition.is_empty() {
            fields.push((tidegate_cache::key::PARTITION, partition));
        }
        // Who has logged in has done so with a field that the upstream may not get to see: what it answers is not for
        // others all the same.
        if let Some(user) = &self.record.user
            && !self.head.fields.has(HeaderId::Authorization)
        {
            fields.push((b"authorization", user.name.as_bytes()));
        }
        // The same with who has shown a certificate: upstreams may be told of it in many ways.
        if let (None, Some(certificate)) = (&self.record.user, &self.connection.client_certificate)
            && !self.head.fields.has(HeaderId::Authorization)
        {
            fields.push((b"authorization", certificate.fingerprint().as_bytes()));
        }
        run(tidegate_cache::RequestHead { method: self.head.method_name(), fields: &fields })
    }
}
