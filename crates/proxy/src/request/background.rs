//! Asking the upstream about what was served stale: a request of its own, of which no client knows. Bounded by worker.

use super::Request;
use crate::cached::{Answered, Asked, CacheTier, Caching, Fetch, RouteCache};
use crate::snapshot::CompiledRoute;
use crate::worker::Worker;
use std::rc::Rc;
use std::sync::Arc;
use tidegate_cache::FetchTicket;
use tidegate_cache::policy::Forward;
use tidegate_exchange::Exchange;
use tidegate_transport::{Sock, rt};
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::head::RequestHead;

/// Of one worker. Beyond, what is stale stays so until somebody asks again.
const FETCHES_MAX: usize = 128;

impl<S: Sock> Request<'_, '_, S> {
    /// Asks for what has the ticket, while the client gets what is there.
    pub(super) fn revalidate(&self, cache: &RouteCache, origin: &Rc<WorkerPool<S>>, ticket: FetchTicket, asked: &Rc<Asked>) {
        let worker = &self.connection.worker;
        let Some(site) = self.site.clone() else { return };
        let Some(route) = self.route else { return };
        if worker.background_fetches.get() >= FETCHES_MAX {
            return;
        }
        let counted = CountedFetch::new(worker.clone());
        let head = RequestHead::clone(&self.exchange.head);
        let (connection, mark) = (self.connection.clone(), self.mark.clone());
        let (origin, asked, tier) = (origin.clone(), asked.clone(), cache.tier.clone());
        let (client_ip, arm) = (self.exchange.client_ip, self.exchange.record.arm);
        let (identity, claims) = (self.exchange.record.identity().cloned(), self.exchange.record.claims.clone());
        rt::spawn(Box::pin(async move {
            let _counted = counted;
            let mut exchange = Exchange::in_background(head, client_ip, rt::now(), connection.worker.next_request_id());
            // What is asked for is an answer to this client, and scripts and steps may ask who it is.
            exchange.record.claims = claims;
            exchange.record.arm = arm;
            if let Some(identity) = identity {
                exchange.record.identify(identity);
            }
            let mut request = Request::new(&connection, &mut exchange, mark);
            (request.site, request.route) = (Some(site.clone()), Some(route));
            request.fetch_for_nobody(site.compiled.route(Some(route)), origin, (ticket, tier), asked).await;
        }));
    }

    async fn fetch_for_nobody(
        &mut self,
        route: &CompiledRoute,
        origin: Rc<WorkerPool<S>>,
        (mut ticket, tier): (FetchTicket, Arc<CacheTier>),
        asked: Rc<Asked>,
    ) {
        // Once more at most, when the upstream has spoken of something else.
        for _ in 0..2 {
            let untouched = RequestHead::clone(&self.exchange.head);
            self.ask_for_whole(&ticket);
            let fetch = Fetch { ticket, why: Forward::Stale, asked: asked.clone(), tier: tier.clone(), sent: tier.now() };
            self.way.caching = Some(Box::new(Caching::Fetch(fetch)));
            // Whatever fails: what is kept stays as it is, and the failure was counted where it happened.
            let _ = self.ask(route, &origin).await;
            let Some(Caching::Answered(Answered::AskAgain(again))) = self.way.caching.take().map(|caching| *caching) else {
                return;
            };
            ticket = again;
            *self.exchange.head = untouched;
        }
    }
}

struct CountedFetch<S: Sock>(Rc<Worker<S>>);

impl<S: Sock> CountedFetch<S> {
    fn new(worker: Rc<Worker<S>>) -> CountedFetch<S> {
        worker.background_fetches.set(worker.background_fetches.get() + 1);
        CountedFetch(worker)
    }
}

impl<S: Sock> Drop for CountedFetch<S> {
    fn drop(&mut self) {
        self.0.background_fetches.set(self.0.background_fetches.get() - 1);
    }
}
