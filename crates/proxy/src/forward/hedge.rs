//! A second server for a request that waits too long: it is sent there as well, and who answers first wins. The other's
//! connection is given up, since nobody would read its answer. Only for idempotent requests without a body, and within
//! the budget of retries.

use super::Forwarding;
use super::head::Plan;
use crate::failure::Failure;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_exchange::{Pooled, unless_gone};
use tidegate_model::RouteRetry;
use tidegate_transport::{Sock, rt};
use tidegate_upstream::attempt::{Begun, Whole, begin};
use tidegate_upstream::call::SendFault;
use tidegate_upstream::connect::Need;
use tidegate_upstream::fault::Was;
use tidegate_upstream::pool::WorkerPool;
use tidegate_upstream::retry::{Tries, has_another};
use tidegate_upstream::verdict::Attempt;
use tidegate_wire::head::RequestHead;

/// How one of the attempts did.
type Outcome<S> = Result<Begun<S>, (SendFault, Was)>;

/// Who won, or how the last of them failed.
pub(super) struct Race<S: Sock> {
    pub attempt: Attempt<S>,
    pub outcome: Outcome<S>,
    /// The other attempt, when it failed by itself.
    pub failed: Option<(Attempt<S>, Failure, Was)>,
}

impl<S: Sock> Forwarding<'_, '_, S> {
    /// Whether a second server may be asked: not for `retry "off"`, which sends every request once, and not for a
    /// client that belongs to this server, whom one slow answer would move away.
    pub(super) fn is_hedged(&self, attempt: &Attempt<S>) -> bool {
        let pool = attempt.pool();
        pool.compiled.retry(self.route.retry(self.exchange.record.arm)).is_some()
            && self.own_server(pool) != Some(attempt.position())
    }

    /// Sends the request to `attempt`'s server, and to another one when no answer has begun after `after`.
    pub(super) async fn race(
        &mut self,
        attempt: Attempt<S>,
        need: Need,
        plan: &Plan,
        after: Duration,
        tries: &mut Tries,
    ) -> Result<Race<S>, Failure> {
        let pool = attempt.pool().clone();
        // A copy: whenever the race is ended from outside, the request still knows what it was.
        let mut head: Pooled<RequestHead> = Pooled::take();
        head.copy_from(&self.exchange.head);
        let opener = self.opener(attempt.pool());
        let whole = Whole {
            head: &head,
            body: &[],
            is_chunked: plan.chunked,
            wants_trailers: plan.trailers_wanted || plan.grpc,
            script: plan.script.as_deref(),
            need,
            heard: None,
            opener: &|| opener.clone(),
            timeouts: self.timeouts(&pool),
        };
        self.race_of(&pool, attempt, &whole, after, tries).await
    }

    async fn race_of(
        &mut self,
        pool: &Rc<WorkerPool<S>>,
        attempt: Attempt<S>,
        whole: &Whole<'_>,
        after: Duration,
        tries: &mut Tries,
    ) -> Result<Race<S>, Failure> {
        let request_done = Cell::new(true);
        let began = rt::now();
        let mut first = Box::pin(begin(pool, attempt.position(), whole, self.way.try_until));
        let early = {
            let waiting = pin!(rt::timeout(after, first.as_mut()));
            unless_gone(&mut self.exchange.responder, &request_done, waiting).await?
        };
        if let Some(outcome) = early {
            return Ok(Race { attempt, outcome, failed: None });
        }
        let Some(other) = self.choose_hedge(pool, tries) else {
            let outcome = unless_gone(&mut self.exchange.responder, &request_done, first.as_mut()).await?;
            return Ok(Race { attempt, outcome, failed: None });
        };
        pool.metrics.hedges.increment();
        let hedge_began = rt::now();
        let of_retry = time_of_hedge(self.route.retry(self.exchange.record.arm), pool, tries, hedge_began);
        let of_route = self.route.timeouts.per_try.map(|limit| hedge_began + limit);
        let second_until = of_retry.into_iter().chain(of_route).min();
        let mut second = Box::pin(begin(pool, other.position(), whole, second_until));
        let (is_second, outcome) = {
            let waiting = pin!(either(first.as_mut(), second.as_mut()));
            unless_gone(&mut self.exchange.responder, &request_done, waiting).await?
        };
        let (done, left) = if is_second { (other, attempt) } else { (attempt, other) };
        let Err((failure, was)) = outcome else {
            if is_second {
                let now = rt::now();
                left.overtaken(now.saturating_duration_since(began), now.saturating_duration_since(hedge_began));
            }
            return Ok(Race { attempt: done, outcome, failed: None });
        };
        // One failed: all depends on the one that is left.
        let left_over: Pin<&mut dyn Future<Output = Outcome<S>>> = if is_second { first.as_mut() } else { second.as_mut() };
        let outcome = unless_gone(&mut self.exchange.responder, &request_done, pin!(left_over)).await?;
        Ok(Race { attempt: left, outcome, failed: Some((done, failure.into(), was)) })
    }

    /// Another server that could take it at once and is not believed to be down, if the budget allows.
    fn choose_hedge(&self, pool: &Rc<WorkerPool<S>>, tries: &mut Tries) -> Option<Attempt<S>> {
        if !has_another(pool, tries.tried()) {
            return None;
        }
        // A attempt from here on: one that comes to nothing says so, where it was to find out how the server is.
        let attempt = Attempt::new(pool.clone(), self.choose_server(pool, tries.tried()).ok()?);
        if !pool.take_from_budget(
            pool.compiled.retry(self.route.retry(self.exchange.record.arm))?.budget_percent,
            self.connection.worker.process.since_start(rt::now()),
        ) {
            return None;
        }
        tries.begin(attempt.position());
        Some(attempt)
    }
}

/// The second attempt has a time of its own, as any other attempt: what is left of the first one's would end both at
/// once. With no further server nothing is to be had by ending it.
fn time_of_hedge<S: Sock>(retry: &RouteRetry, pool: &WorkerPool<S>, tries: &Tries, began: Instant) -> Option<Instant> {
    let limit = pool.compiled.retry(retry)?.try_timeout?;
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
