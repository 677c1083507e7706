//! A second server for a request that waits too long: it is sent there as well, and who answers first wins. The other's connection is given up,
//! since nobody would read its answer. Only for idempotent requests without a body, and within the budget of retries.

use super::head::Plan;
use super::reply::{H2Head, first_of_head, h2_error, h2_reach, next_h2_head};
use super::retry::{Tries, first_byte_until, has_another, open_until};
use super::verdict::Trial;
use super::{Was, body::unless_gone};
use crate::exchange::encode_request;
use crate::failure::{ClientFault, Failure, Reach};
use crate::h2_head;
use crate::lease::Lease;
use crate::pool::{H1Connection, WorkerPool};
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use crate::upstream::{self, Need, Opener, h2 as upstream_h2};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::head::RequestHead;

/// A request that was sent, and whose answer has begun.
pub(super) enum Begun<S: Sock> {
    H1 { connection: H1Connection<S>, first: Buf, sent_at: Instant },
    H2 { lease: upstream_h2::Lease, response: Box<::h2::client::ResponseFuture>, head: H2Head, sent_at: Instant },
}

/// How one of the two did.
type Outcome<S> = Result<Begun<S>, (Failure, Was)>;

/// Who won, or how the last of them failed.
pub(super) struct Race<S: Sock> {
    pub trial: Trial<S>,
    pub outcome: Outcome<S>,
    /// The other, when it failed by itself.
    pub failed: Option<(Trial<S>, Failure, Was)>,
}

/// What both have in common.
struct Entry<'r> {
    head: &'r RequestHead,
    plan: &'r Plan,
    need: Need,
    opener: Opener,
}

impl<S: Sock> Request<'_, S> {
    /// Whether a second server may be asked: not for `retry "off"`, which sends every request once, and not for a client that belongs to this server,
    /// whom one slow answer would move away.
    pub(super) fn is_hedged(&self, route: &CompiledRoute, trial: &Trial<S>) -> bool {
        let pool = trial.pool();
        pool.compiled.retry(&route.retry).is_some() && self.own_server(pool) != Some(trial.position())
    }

    /// Sends the request to `trial`'s server, and to another one when no answer has begun after `after`.
    pub(super) async fn race(
        &mut self,
        route: &CompiledRoute,
        trial: Trial<S>,
        need: Need,
        plan: &Plan,
        after: Duration,
        tries: &mut Tries,
    ) -> Result<Race<S>, Failure> {
        let pool = trial.pool().clone();
        let head = std::mem::replace(&mut self.head, Lease::take());
        let entry = Entry { head: &head, plan, need, opener: self.opener() };
        let outcome = self.race_of(route, &pool, trial, &entry, after, tries).await;
        self.head = head;
        outcome
    }

    async fn race_of(
        &mut self,
        route: &CompiledRoute,
        pool: &Rc<WorkerPool<S>>,
        trial: Trial<S>,
        entry: &Entry<'_>,
        after: Duration,
        tries: &mut Tries,
    ) -> Result<Race<S>, Failure> {
        let request_done = Cell::new(true);
        let began = rt::now();
        let mut first = Box::pin(begin(pool, trial.position(), entry, self.try_until));
        let early = {
            let waiting = pin!(rt::timeout(after, first.as_mut()));
            unless_gone(&mut self.responder, &request_done, waiting).await?
        };
        if let Some(outcome) = early {
            return Ok(Race { trial, outcome, failed: None });
        }
        let Some(other) = self.choose_hedge(route, pool, tries) else {
            let outcome = unless_gone(&mut self.responder, &request_done, first.as_mut()).await?;
            return Ok(Race { trial, outcome, failed: None });
        };
        pool.metrics.hedges.increment();
        let hedge_began = rt::now();
        let second_until = time_of_hedge(route, pool, tries, hedge_began);
        let mut second = Box::pin(begin(pool, other.position(), entry, second_until));
        let (is_second, outcome) = {
            let waiting = pin!(either(first.as_mut(), second.as_mut()));
            unless_gone(&mut self.responder, &request_done, waiting).await?
        };
        let (done, left) = if is_second { (other, trial) } else { (trial, other) };
        let Err((failure, was)) = outcome else {
            if is_second {
                let now = rt::now();
                left.overtaken(now.saturating_duration_since(began), now.saturating_duration_since(hedge_began));
            }
            return Ok(Race { trial: done, outcome, failed: None });
        };
        // One failed: all depends on the one that is left.
        let left_over: Pin<&mut dyn Future<Output = Outcome<S>>> = if is_second { first.as_mut() } else { second.as_mut() };
        let outcome = unless_gone(&mut self.responder, &request_done, pin!(left_over)).await?;
        Ok(Race { trial: left, outcome, failed: Some((done, failure, was)) })
    }

    /// Another server that could take it at once and is not believed to be down, if the budget allows.
    fn choose_hedge(&self, route: &CompiledRoute, pool: &Rc<WorkerPool<S>>, tries: &mut Tries) -> Option<Trial<S>> {
        if !has_another(pool, tries.tried()) {
            return None;
        }
        // A trial from here on: one that comes to nothing says so, where it was to find out how the server is.
        let trial = Trial::new(pool.clone(), self.choose_server(pool, tries.tried()).ok()?);
        if !self.take_from_budget(pool, pool.compiled.retry(&route.retry)?.budget_percent) {
            return None;
        }
        tries.begin(trial.position());
        Some(trial)
    }
}

/// The second attempt has a time of its own, as any other attempt: what is left of the first one's would end both at once. With no further server
/// nothing is to be had by ending it.
fn time_of_hedge<S: Sock>(route: &CompiledRoute, pool: &WorkerPool<S>, tries: &Tries, began: Instant) -> Option<Instant> {
    let limit = pool.compiled.retry(&route.retry)?.try_timeout?;
    has_another(pool, tries.tried()).then(|| began + limit)
}

/// Until one of them is done; whether it was the second.
async fn either<T>(mut first: Pin<&mut impl Future<Output = T>>, mut second: Pin<&mut impl Future<Output = T>>) -> (bool, T) {
    poll_fn(|cx| {
        if let Poll::Ready(output) = first.as_mut().poll(cx) {
            return Poll::Ready((false, output));
        }
        second.as_mut().poll(cx).map(|output| (true, output))
    })
    .await
}

/// Sends the request to one server and waits for the beginning of its answer.
async fn begin<S: Sock>(pool: &Rc<WorkerPool<S>>, position: usize, entry: &Entry<'_>, try_until: Option<Instant>) -> Outcome<S> {
    let connection = match upstream::take(pool, position, entry.need) {
        Some(connection) => connection,
        None => {
            let opening = upstream::open(pool, position, entry.need, &entry.opener);
            open_until(try_until, opening).await.map_err(|failure| (failure, Was::Fresh))?
        }
    };
    pool.metrics.requests.increment();
    pool.servers[position].own_metrics.requests.increment();
    match connection {
        upstream::Connection::H1(connection) => {
            let was = if connection.idle_before.is_some() { Was::Pooled } else { Was::Fresh };
            begin_h1(pool, connection, entry, try_until).await.map_err(|failure| (failure, was))
        }
        upstream::Connection::H2(lease) => {
            begin_h2(pool, lease, entry, try_until).await.map_err(|failure| (failure, Was::Shared))
        }
    }
}

async fn begin_h1<S: Sock>(
    pool: &WorkerPool<S>,
    connection: H1Connection<S>,
    entry: &Entry<'_>,
    try_until: Option<Instant>,
) -> Result<Begun<S>, Failure> {
    let bad_head = |_| Failure::Client(ClientFault::BadBody(tidegate_wire::BodyError::TrailersTooLarge));
    let message = encode_request(entry.head, None, entry.plan.chunked, true).map_err(bad_head)?;
    let stream = &connection.stream;
    stream.sock.set_write_idle(pool.compiled.model.timeouts.idle);
    stream.write(message).await.map_err(|_| Failure::upstream(UpstreamError::Reset, Reach::NothingSent))?;
    let sent_at = rt::now();
    stream.sock.set_read_limit(ReadLimit::Until(first_byte_until(sent_at, pool, try_until)));
    let first = first_of_head(stream.read().await)?;
    Ok(Begun::H1 { connection, first, sent_at })
}

async fn begin_h2<S: Sock>(
    pool: &WorkerPool<S>,
    lease: upstream_h2::Lease,
    entry: &Entry<'_>,
    try_until: Option<Instant>,
) -> Result<Begun<S>, Failure> {
    let scheme = if pool.compiled.tls.is_some() { "https" } else { "http" };
    let request = h2_head::request(entry.head, scheme, entry.plan.trailers_wanted || entry.plan.grpc)
        .ok_or(Failure::Client(ClientFault::BadBody(tidegate_wire::BodyError::BadTrailer)))?;
    let refused = |error: ::h2::Error| {
        lease.retire();
        Failure::upstream(h2_error(&error), Reach::NothingSent)
    };
    let ready = rt::timeout(pool.compiled.model.timeouts.connect, lease.sender.clone().ready()).await;
    let mut sender = ready.ok_or(Failure::upstream(UpstreamError::PoolFull, Reach::NothingSent))?.map_err(refused)?;
    let (response, _) = sender.send_request(request, true).map_err(refused)?;
    let mut response = Box::new(response);
    let sent_at = rt::now();
    let limit = first_byte_until(sent_at, pool, try_until).saturating_duration_since(sent_at);
    let head = rt::timeout(limit, next_h2_head(&mut response)).await;
    let head = head.ok_or(Failure::upstream(UpstreamError::FirstByteTimeout, Reach::Sent))?;
    let head = head.map_err(|error| Failure::upstream(h2_error(&error), h2_reach(&error)))?;
    Ok(Begun::H2 { lease, response, head, sent_at })
}
