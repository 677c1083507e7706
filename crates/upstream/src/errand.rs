//! Choose a server, try it, judge what came of it, and try again where that is safe: the one loop for requests, for
//! their copies and for connections that are passed on. What an attempt does is the errand's; the decisions are those
//! of `choose`, `verdict` and `retry`.

use crate::awaited;
use crate::choose::{Choice, NoChoice, unserved};
use crate::fault::{Progress, UpstreamFault, Was};
use crate::pool::WorkerPool;
use crate::retry::{NextTry, Terms, Tries};
use crate::shared::Permit;
use crate::verdict::Attempt;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_balancing::backoff;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};

/// What is to be done at a server of a pool, whichever it is.
pub trait Errand<S: Sock> {
    type Done;
    type Failure: From<UpstreamFault>;

    /// A server that was not tried, without waiting.
    fn choose(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Result<Choice, NoChoice>;

    /// All that could serve have as many requests as they may: waits for a place, if the errand does. The pool may be a
    /// newer one afterwards.
    fn wait(&mut self, pool: &mut Rc<WorkerPool<S>>, tried: &[usize]) -> impl Future<Output = Result<Choice, Self::Failure>>;

    /// No server can be reached: waits until there is reason to try again, no longer than until then. False: there is
    /// none. The pool may be a newer one afterwards.
    fn wait_for_server(
        &mut self,
        pool: &mut Rc<WorkerPool<S>>,
        until: Instant,
    ) -> impl Future<Output = Result<bool, Self::Failure>>;

    /// The pool of that name as it is now, where that is another one.
    fn newer(&self, pool: &Rc<WorkerPool<S>>) -> Option<Rc<WorkerPool<S>>>;

    /// One attempt. A failure has been noted by [`Attempt::note`].
    fn attempt(
        &mut self,
        attempt: Attempt<S>,
        tries: &mut Tries,
    ) -> impl Future<Output = Result<Self::Done, Failed<Self::Failure>>>;

    /// Uniform random bits.
    fn random(&self) -> u64;

    /// Waits before another attempt. False: the errand has not that much time left.
    fn pause(&mut self, pause: Duration) -> impl Future<Output = Result<bool, Self::Failure>> {
        async move {
            rt::sleep(pause).await;
            Ok(true)
        }
    }

    /// Whether it may be tried again, as it is now.
    fn terms<'a>(&'a self, pool: &'a WorkerPool<S>) -> Terms<'a>;

    /// What of a failure was the upstream's. `None`: the errand has nobody left to be carried out for.
    fn fault(failure: &Self::Failure) -> Option<UpstreamFault>;
}

/// How an attempt failed.
pub struct Failed<F> {
    pub failure: F,
    /// The connection that it was made on.
    pub was: Was,
    pub position: usize,
    /// The attempt's permit, for another attempt at the same server.
    pub permit: Option<Permit>,
}

/// Carries an errand out, at as many servers as its terms allow.
///
/// Not an `async fn`, which would have room for what it is given twice.
pub fn carry_out<S: Sock, E: Errand<S>>(
    errand: &mut E,
    mut pool: Rc<WorkerPool<S>>,
) -> impl Future<Output = Result<E::Done, E::Failure>> {
    let mut tries = Tries::default();
    async move {
        // What to say when nothing is left to try: why the last attempt failed.
        let mut last: Option<E::Failure> = None;
        loop {
            let choice = match tries.take_again() {
                Some((position, permit)) => Choice::again(&pool, position, permit),
                None => match errand.choose(&pool, tries.tried()) {
                    Ok(choice) => choice,
                    Err(NoChoice::NoServer) => {
                        let fault = UpstreamFault::unsent(UpstreamError::NoServer);
                        let fault = last.as_ref().map_or(Some(fault), E::fault).unwrap_or(fault);
                        if Box::pin(may_try_again(errand, &mut pool, fault, &mut tries)).await? {
                            continue;
                        }
                        return Err(last.unwrap_or_else(|| unserved(&pool, UpstreamError::NoServer).into()));
                    }
                    // Boxed, as every branch that the common request does not take.
                    Err(NoChoice::Full) => match (Box::pin(errand.wait(&mut pool, tries.tried())).await, last.take()) {
                        (Ok(choice), _) => choice,
                        // Of a request that was somewhere already, its own failure says more than that the others
                        // are full.
                        (Err(full), Some(failure)) if E::fault(&full).is_some() => return Err(failure),
                        (Err(failure), _) => return Err(failure),
                    },
                },
            };
            tries.begin(choice.position);
            if tries.is_again() {
                pool.metrics.retries.increment();
            }
            let failed = match pin!(errand.attempt(Attempt::new(pool.clone(), choice), &mut tries)).await {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            let Failed { failure, was, position, permit } = failed;
            let Some(fault) = E::fault(&failure) else { return Err(failure) };
            if let Some(newer) = moved_on(errand, &pool, fault, position, &mut tries) {
                pool = newer;
                last = None;
                continue;
            }
            let next = tries.judge(&pool, fault, was, position, &errand.terms(&pool));
            if let NextTry::SameServer(position) = next {
                tries.begin_again_at(position, permit);
            } else {
                // Whoever waits does so without the place that the request had.
                drop(permit);
                if !Box::pin(goes_on(errand, &mut pool, fault, next, &mut tries)).await? {
                    return Err(failure);
                }
            }
            last = Some(failure);
        }
    }
}

/// Waits for what has to be waited for before the errand is tried once more. False: it is not.
async fn goes_on<S: Sock, E: Errand<S>>(
    errand: &mut E,
    pool: &mut Rc<WorkerPool<S>>,
    fault: UpstreamFault,
    next: NextTry,
    tries: &mut Tries,
) -> Result<bool, E::Failure> {
    match next {
        NextTry::SameServer(_) => Ok(true),
        NextTry::None => may_try_again(errand, pool, fault, tries).await,
        NextTry::Another => {
            let backoff = errand.terms(pool).retry.and_then(|retry| retry.backoff);
            let Some(backoff) = backoff else { return Ok(true) };
            let has_waited = errand.pause(backoff::pause(&backoff, tries.retries(), errand.random())).await?;
            if has_waited {
                tries.begin_anew(pool);
            }
            Ok(has_waited)
        }
    }
}

/// The pool as it is now, where the server has left the one that was chosen from before anything was sent to it: then
/// nothing has failed, and who is there now is asked.
fn moved_on<S: Sock, E: Errand<S>>(
    errand: &E,
    pool: &Rc<WorkerPool<S>>,
    fault: UpstreamFault,
    position: usize,
    tries: &mut Tries,
) -> Option<Rc<WorkerPool<S>>> {
    let has_left = fault.progress == Progress::NothingSent && pool.servers[position].gone().is_set();
    if !has_left || !errand.terms(pool).is_whole {
        return None;
    }
    let newer = errand.newer(pool)?;
    tries.move_on().then_some(newer)
}

/// Where no server could be reached, waits until it may be otherwise; then all of them may be tried anew.
async fn may_try_again<S: Sock, E: Errand<S>>(
    errand: &mut E,
    pool: &mut Rc<WorkerPool<S>>,
    fault: UpstreamFault,
    tries: &mut Tries,
) -> Result<bool, E::Failure> {
    let terms = errand.terms(pool);
    let took = tries.took_at_most(pool.compiled.model.timeouts.connect);
    let Some(limit) = awaited::until(terms.retry, fault, took).filter(|_| terms.is_whole) else { return Ok(false) };
    let limit = tries.awaited_until().unwrap_or_else(|| {
        pool.metrics.awaited.increment();
        limit
    });
    if !errand.wait_for_server(pool, limit).await? {
        return Ok(false);
    }
    tries.forget_servers(limit);
    Ok(true)
}
