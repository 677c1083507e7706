//! Which server a request goes to: the one its client belongs to, else by balance; and waiting in line where all that could serve it have as
//! many requests as they may. The choice among servers is made in `balancing`; what is known of each is in `standing`.

use super::body::unless_gone;
use crate::failure::{Failure, Reach};
use crate::lease::Lease;
use crate::pool::{Queued, Server, WorkerPool};
use crate::request::{Request, context};
use crate::standing::Probing;
use crate::survivors::Room;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_balancing::{Candidate, Draw, Standing, choose, hash_bytes};
use tidegate_middleware::{Context, View};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};
use tidegate_wire::head::{HeaderId, RequestHead};

/// How often a request in line looks itself whether a server has come into use.
const LINE_POLL: Duration = Duration::from_millis(100);

/// A server for one attempt.
pub(crate) struct Choice {
    pub position: usize,
    /// The request's place, where they are counted.
    pub room: Option<Room>,
    /// The server was out, and this request finds out how it is.
    pub finds_out: bool,
}

impl Choice {
    /// The server that the request was at, whose connection failed and not it. One that gave its place up, since it was sent to two, gets one if
    /// there is one.
    pub fn again<S: Sock>(pool: &WorkerPool<S>, position: usize, room: Option<Room>) -> Choice {
        let bounds = &pool.compiled.model.bounds;
        let enter = || pool.compiled.shared.enter(&pool.servers[position].shared, bounds);
        Choice { position, room: room.or_else(|| bounds.counts_requests().then(enter).flatten()), finds_out: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoChoice {
    /// All were tried, or none may be used.
    NoServer,
    /// Some could serve, and have as many requests as they may.
    Full,
}

impl<S: Sock> Request<'_, S> {
    /// Without waiting. A place that somebody in line was called to is theirs. One that is free with nobody called is of no use to those in line: they
    /// belong to other servers, have tried that one, or live in workers that may not send it more.
    pub(super) fn choose_server(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Result<Choice, NoChoice> {
        if pool.compiled.model.bounds.counts_requests() && pool.compiled.shared.line.is_called() {
            return Err(NoChoice::Full);
        }
        let now = if tried.is_empty() { self.record.started } else { rt::now() };
        self.choose_at(pool, tried, now)
    }

    fn choose_at(&self, pool: &WorkerPool<S>, tried: &[usize], now: Instant) -> Result<Choice, NoChoice> {
        let draw = Draw { key_hash: self.key_hash(pool), random: self.connection.worker.random(), now, tried };
        choose_at(pool, self.own_server(pool), draw)
    }

    /// The server that the client's cookie names.
    pub(super) fn own_server(&self, pool: &WorkerPool<S>) -> Option<usize> {
        own_server(pool, &self.head)
    }

    fn key_hash(&self, pool: &WorkerPool<S>) -> u64 {
        if pool.compiled.hash.is_none() {
            return 0;
        }
        key_hash(pool, &context(self.connection, self.pool.as_deref(), &self.record, self.client_ip), &self.head)
    }

    /// Waits in line until a server has a place, for `queue-timeout` at most. A pool that gets other servers meanwhile is taken for the one before,
    /// as long as none of its servers was tried.
    pub(super) async fn wait_for_place(&mut self, pool: &mut Rc<WorkerPool<S>>, tried: &[usize]) -> Result<Choice, Failure> {
        let shared = pool.compiled.shared.clone();
        let bounds = pool.compiled.model.bounds;
        let worker = self.connection.worker.index;
        let until = rt::now() + bounds.queue_timeout;
        let Some(turn) = shared.line.join(worker, bounds.queue) else {
            pool.metrics.queue_refused.increment();
            return Err(unserved(pool, UpstreamError::PoolFull));
        };
        let _queued = Queued::new(&pool.metrics);
        let mut is_called = false;
        loop {
            if tried.is_empty()
                && let Some(newer) = self.connection.worker.newer_pool(pool)
            {
                self.pool = Some(newer.clone());
                *pool = newer;
                is_called = true;
            }
            if is_called || turn.is_first() {
                match self.choose_at(pool, tried, rt::now()) {
                    Ok(choice) => return Ok(choice),
                    Err(NoChoice::NoServer) => return Err(unserved(pool, UpstreamError::NoServer)),
                    // What is free is of no use to this one, which belongs to another server: those behind it are asked.
                    Err(NoChoice::Full) if is_called => turn.pass_on(),
                    Err(NoChoice::Full) => {}
                }
            }
            let left = until.saturating_duration_since(rt::now());
            if left.is_zero() {
                return Err(unserved(pool, UpstreamError::QueueTimeout));
            }
            // Nobody reads the request's body meanwhile, so nobody else would notice that its client has left.
            let waiting = rt::timeout(left.min(LINE_POLL), turn.wait());
            is_called = unless_gone(&mut self.responder, &Cell::new(true), pin!(waiting)).await?.is_some();
        }
    }
}

/// The server that the cookie of a request names.
pub(super) fn own_server<S: Sock>(pool: &WorkerPool<S>, head: &RequestHead) -> Option<usize> {
    let sticky = pool.compiled.sticky.as_ref()?;
    cookie_values(head.fields.all(HeaderId::Cookie), sticky.cookie.as_bytes()).find_map(|value| sticky.position(value))
}

/// By which a request is placed, where the pool places requests.
pub(crate) fn key_hash<S: Sock>(pool: &WorkerPool<S>, context: &Context<'_>, head: &RequestHead) -> u64 {
    let Some(hash) = &pool.compiled.hash else { return 0 };
    let mut rendered: Lease<Vec<u8>> = Lease::take();
    hash.key.render(View { context, request: head, response: None }, &mut rendered);
    hash_bytes(&rendered)
}

/// `own` is the server that the client belongs to.
pub(crate) fn choose_at<S: Sock>(pool: &WorkerPool<S>, own: Option<usize>, draw: Draw<'_>) -> Result<Choice, NoChoice> {
    let Draw { now, tried, .. } = draw;
    if let Some(position) = own
        && !tried.contains(&position)
        && pool.servers[position].shared.standing.keeps_its_own(now)
    {
        return take_place(pool, position, false, now).ok_or(NoChoice::Full);
    }
    let table = pool.compiled.hash.as_ref().map(|hash| &hash.table);
    // Another worker may take the last place, or the first request to a server that was out, while this one decides.
    for _ in 0..=pool.servers.len() {
        let Some(chosen) = choose(&pool.compiled.model.balance, table, &pool.servers, draw) else { break };
        if let Some(choice) = take_place(pool, chosen.position, chosen.is_last_resort, now) {
            if chosen.is_last_resort {
                pool.metrics.last_resort.increment();
            }
            return Ok(choice);
        }
    }
    // Whatever is open was full when it was looked at. Looking again would see a place that became free meanwhile, and refuse for want of servers.
    let is_open = |(position, server): (usize, &Rc<Server<S>>)| {
        !tried.contains(&position) && server.shared.standing.tier(now) != Standing::Closed
    };
    let waits = pool.compiled.model.bounds.counts_requests() && pool.servers.iter().enumerate().any(is_open);
    Err(if waits { NoChoice::Full } else { NoChoice::NoServer })
}

/// A failure of the pool as a whole, which no attempt at a server counts.
pub(crate) fn unserved<S: Sock>(pool: &WorkerPool<S>, error: UpstreamError) -> Failure {
    pool.metrics.error(error);
    Failure::upstream(error, Reach::NothingSent)
}

/// The server at `position`, if it has a place for the request and nobody else is about to find out how it is.
fn take_place<S: Sock>(pool: &WorkerPool<S>, position: usize, is_last_resort: bool, now: Instant) -> Option<Choice> {
    let server = &pool.servers[position];
    let bounds = &pool.compiled.model.bounds;
    let mut choice = Choice { position, room: None, finds_out: false };
    if bounds.counts_requests() {
        if server.is_full(bounds) {
            return None;
        }
        choice.room = Some(pool.compiled.shared.enter(&server.shared, bounds)?);
    }
    if server.standing(now) == Standing::Serving && !server.shared.standing.is_out() {
        return Some(choice);
    }
    choice.finds_out = match server.shared.standing.begin_probe(now) {
        Probing::NotNeeded => false,
        Probing::This => true,
        Probing::Another if is_last_resort => true,
        Probing::Another => return None,
    };
    Some(choice)
}

/// The values of the cookies of that name, in any number of `Cookie` fields.
fn cookie_values<'a>(fields: impl Iterator<Item = &'a [u8]>, name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    fields.flat_map(|field| field.split(|byte| *byte == b';')).filter_map(move |cookie| {
        let value = cookie.trim_ascii().strip_prefix(name)?.strip_prefix(b"=")?;
        Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
    })
}

#[cfg(test)]
mod tests {
    use super::cookie_values;

    #[test]
    fn a_cookie_is_found_in_any_field() {
        let check = |fields: &[&str], expected: &[&str]| {
            let found: Vec<&[u8]> = cookie_values(fields.iter().map(|field| field.as_bytes()), b"id").collect();
            assert_eq!(found, expected.iter().map(|value| value.as_bytes()).collect::<Vec<_>>(), "{fields:?}");
        };
        check(&[], &[]);
        check(&["id=a"], &["a"]);
        check(&["x=1; id=a; id=b", "id=\"c\""], &["a", "b", "c"]);
        check(&["id", "idx=1", "xid=2", "id =3", "ID=4"], &[]);
        check(&[" id=; "], &[""]);
    }
}
