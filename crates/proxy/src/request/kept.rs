//! The order in which a request asks the cache, its upstream and the disk. What is kept, and how it goes in and out, is
//! in `cached`.

use super::Request;
use crate::cached::{Answered, Asked, Caching, Fetch, Hit, Other, RouteCache, purge, serve_kept, serve_reader};
use crate::failure::Failure;
use crate::snapshot::CompiledRoute;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tidegate_cache::policy::{CacheStatus, Forward, revalidation};
use tidegate_cache::store::Adopted;
use tidegate_cache::{FetchTicket, Key, Lookup, Object, Reader, WaitHandle, WaitOutcome};
use tidegate_exchange::unless_gone;
use tidegate_middleware::Refusal;
use tidegate_transport::{Sock, rt};
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::head::RequestHead;

/// Fetches that a request may see fail or turn out to be for others, before it goes to the upstream on its own.
const LOOKUPS_MAX: u32 = 8;
/// How long a request waits for its answer to come from the disk. A disk that is slower than an upstream is no help.
const DISK_WAIT: Duration = Duration::from_secs(2);

impl<S: Sock> Request<'_, '_, S> {
    /// Answers what nothing kept answers at once.
    pub(super) async fn answer_not_at_hand(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        origin: Rc<WorkerPool<S>>,
        other: Box<Other>,
    ) -> Result<(), Failure> {
        match *other {
            Other::Purge => {
                let (exchange, around) = self.parts();
                purge(exchange, around, cache).await
            }
            Other::PassBy(why, key) => self.pass_by(route, &origin, why, key).await,
            Other::Lookup(lookup, key, asked) => self.answer_missed(route, cache, origin, (key, asked), lookup).await,
        }
    }

    /// What could not be answered at once.
    async fn answer_missed(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        origin: Rc<WorkerPool<S>>,
        (key, asked): (Key, Rc<Asked>),
        mut lookup: Lookup,
    ) -> Result<(), Failure> {
        for _ in 0..LOOKUPS_MAX {
            let (wait, why) = match lookup {
                Lookup::Hit { object, ttl_seconds, .. } => {
                    let status = CacheStatus::Hit { ttl_seconds: ttl_seconds as i64 };
                    return self.serve_kept(cache, Hit::of(object, &asked, status, &cache.tier)).await;
                }
                // Why it may be given makes no difference: `Age` and `Cache-Status` tell the client how old it is.
                Lookup::Stale { object, revalidation, .. } => {
                    if let Some(ticket) = revalidation {
                        self.revalidate(cache, &origin, ticket, &asked);
                    }
                    return self.serve_stale(cache, object, &asked).await;
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
                    return self.serve_reader(reader, &asked, status, cache).await;
                }
                Some(WaitOutcome::Serve(object)) => {
                    let ttl_seconds = Some(object.ttl_seconds(cache.tier.now()));
                    let status = CacheStatus::Forwarded { why, status: None, ttl_seconds, stored: false, collapsed: true };
                    return self.serve_kept(cache, Hit::of(object, &asked, status, &cache.tier)).await;
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
        origin: &Rc<WorkerPool<S>>,
        why: Forward,
        key: Option<Key>,
    ) -> Result<(), Failure> {
        self.way.caching = Some(Box::new(Caching::Past { why, key }));
        pin!(self.ask(route, origin)).await
    }

    pub(super) async fn ask(&mut self, route: &CompiledRoute, origin: &Rc<WorkerPool<S>>) -> Result<(), Failure> {
        self.answer_in_time(route, Some(origin.clone())).await
    }

    /// Asks the disk, then the upstream; what comes is kept for others.
    async fn fetch(
        &mut self,
        route: &CompiledRoute,
        cache: &RouteCache,
        origin: Rc<WorkerPool<S>>,
        (ticket, why): (FetchTicket, Forward),
        asked: Rc<Asked>,
    ) -> Result<(), Failure> {
        let mut ticket = match self.read_disk(route, cache, ticket, &asked).await? {
            Adopted::Serve(object) => {
                let status = CacheStatus::Hit { ttl_seconds: object.ttl_seconds(cache.tier.now()) };
                return self.serve_kept(cache, Hit::of(object, &asked, status, &cache.tier)).await;
            }
            Adopted::Fetch(ticket) => ticket,
        };
        loop {
            let untouched = ticket.stale().is_some().then(|| RequestHead::clone(&self.exchange.head));
            self.ask_for_whole(&ticket);
            let fetch = Fetch { ticket, why, asked: asked.clone(), tier: cache.tier.clone(), sent: cache.tier.now() };
            self.way.caching = Some(Box::new(Caching::Fetch(fetch)));
            let outcome = pin!(self.ask(route, &origin)).await;
            match (outcome, self.way.caching.take().map(|caching| *caching)) {
                (Ok(()), Some(Caching::Answered(Answered::Validated { object, status, own }))) => {
                    let hit = Hit { own, ..Hit::of(object, &asked, status, &cache.tier) };
                    return self.serve_kept(cache, hit).await;
                }
                (Ok(()), Some(Caching::Answered(Answered::Stale(object)))) => {
                    return self.serve_stale(cache, object, &asked).await;
                }
                (Ok(()), Some(Caching::Answered(Answered::AskAgain(again)))) => {
                    ticket = again;
                    if let Some(untouched) = untouched {
                        *self.exchange.head = untouched;
                    }
                }
                // RFC 5861 section 4: no answer at all is an error as well.
                (Err(Failure::Upstream(fault)), Some(Caching::Fetch(mut fetch))) if !self.exchange.responder.has_started() => {
                    return match fetch.ticket.serve_stale(cache.tier.now()) {
                        Some((object, _)) => self.serve_stale(cache, object, &asked).await,
                        None => Err(Failure::Upstream(fault)),
                    };
                }
                (outcome, _) => return outcome,
            }
        }
    }

    /// The head that fetches for everybody: without the client's own conditions, with those of what is kept.
    pub(super) fn ask_for_whole(&mut self, ticket: &FetchTicket) {
        let fields = &mut self.exchange.head.fields;
        for name in revalidation::REPLACED_FIELDS {
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
        let limit = Duration::from_secs(cache.store.wait_seconds_max()).min(self.exchange.record.left_of(route.timeouts.total));
        let waiting = pin!(rt::timeout(limit, poll_fn(|cx| asked.with(|request| wait.poll(request.fields, cx)))));
        Ok(unless_gone(&mut self.exchange.responder, &Cell::new(true), waiting).await?)
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
        let waiting = pin!(rt::timeout(DISK_WAIT.min(self.exchange.record.left_of(route.timeouts.total)), reading.recv()));
        let read = unless_gone(&mut self.exchange.responder, &Cell::new(true), waiting).await?;
        match read.flatten().flatten() {
            Some(object) => Ok(asked.with(|request| ticket.adopt(object, request.fields, cache.tier.now()))),
            None => Ok(Adopted::Fetch(ticket)),
        }
    }

    async fn serve_stale(&mut self, cache: &RouteCache, object: Arc<Object>, asked: &Asked) -> Result<(), Failure> {
        let status = CacheStatus::Hit { ttl_seconds: object.ttl_seconds(cache.tier.now()) };
        self.serve_kept(cache, Hit::of(object, asked, status, &cache.tier)).await
    }

    async fn serve_kept(&mut self, cache: &RouteCache, hit: Hit) -> Result<(), Failure> {
        let (exchange, around) = self.parts();
        serve_kept(exchange, around, cache, hit).await
    }

    /// What another request fetches.
    async fn serve_reader(
        &mut self,
        reader: Reader,
        asked: &Asked,
        status: CacheStatus,
        cache: &RouteCache,
    ) -> Result<(), Failure> {
        let (exchange, around) = self.parts();
        serve_reader(exchange, around, (reader, &[]), asked, status, &cache.tier).await
    }
}
