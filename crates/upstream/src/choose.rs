//! Which server of a pool gets a request, and its place there. The choice among servers is made in `balancing`; what is
//! known of each is in `health`. Who waits for a place, and for how long, is the caller's.

use crate::fault::UpstreamFault;
use crate::health::Probing;
use crate::pool::{Server, WorkerPool};
use crate::shared::Permit;
use std::rc::Rc;
use std::time::Instant;
use tidegate_balancing::{Candidate, Draw, HealthStatus, choose};
use tidegate_model::Discover;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::Sock;
use tidegate_wire::head::{HeaderId, RequestHead};

/// A server for one attempt.
pub struct Choice {
    pub position: usize,
    /// The request's place, where they are counted.
    pub permit: Option<Permit>,
    /// The server was out, and this request finds out how it is.
    pub finds_out: bool,
}

impl Choice {
    /// The server that the request was at, whose connection failed and not it. One that gave its place up, since it was
    /// sent to two, gets one if there is one.
    pub fn again<S: Sock>(pool: &WorkerPool<S>, position: usize, permit: Option<Permit>) -> Choice {
        let compiled = &pool.compiled;
        let enter = || compiled.shared.enter(&pool.servers[position].shared, &compiled.servers[position].bounds);
        Choice { position, permit: permit.or_else(|| compiled.counts_requests.then(enter).flatten()), finds_out: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoChoice {
    /// All were tried, or none may be used.
    NoServer,
    /// Some could serve, and have as many requests as they may.
    Full,
}

/// The server that the cookie of a request names.
pub fn own_server<S: Sock>(pool: &WorkerPool<S>, head: &RequestHead) -> Option<usize> {
    let sticky = pool.compiled.sticky.as_ref()?;
    cookie_values(head.fields.all(HeaderId::Cookie), sticky.cookie.as_bytes()).find_map(|value| sticky.position(value))
}

/// `own` is the server that the client belongs to.
pub fn choose_at<S: Sock>(pool: &WorkerPool<S>, own: Option<usize>, draw: Draw<'_>) -> Result<Choice, NoChoice> {
    let Draw { now, tried, .. } = draw;
    if let Some(position) = own
        && !tried.contains(&position)
        && pool.servers[position].shared.health.keeps_its_own(now)
    {
        return take_place(pool, position, false, now).ok_or(NoChoice::Full);
    }
    let table = pool.compiled.hash.as_ref();
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
    // Whatever is open was full when it was looked at. Looking again would see a place that became free meanwhile, and
    // refuse for want of servers.
    let is_open = |(position, server): (usize, &Rc<Server<S>>)| {
        !tried.contains(&position) && server.shared.health.tier(now) != HealthStatus::Closed
    };
    let waits = pool.compiled.counts_requests && pool.servers.iter().enumerate().any(is_open);
    Err(if waits { NoChoice::Full } else { NoChoice::NoServer })
}

/// A failure of the pool as a whole, which no attempt at a server counts.
pub fn unserved<S: Sock>(pool: &WorkerPool<S>, error: UpstreamError) -> UpstreamFault {
    let error = match error {
        UpstreamError::NoServer if pool.compiled.model.is_declared_empty() => UpstreamError::EmptyPool,
        UpstreamError::NoServer if awaits_containers(pool) => UpstreamError::ContainersNotReady,
        error => error,
    };
    pool.metrics.error(error);
    UpstreamFault::unsent(error)
}

/// Whether the pool has no server because none of its containers can be asked now.
fn awaits_containers<S: Sock>(pool: &WorkerPool<S>) -> bool {
    let is_of_containers = |source: &Discover| matches!(source, Discover::Containers(_));
    pool.servers.is_empty() && pool.compiled.model.discover.iter().any(is_of_containers)
}

/// The server at `position`, if it has a place for the request and nobody else is about to find out how it is.
fn take_place<S: Sock>(pool: &WorkerPool<S>, position: usize, is_last_resort: bool, now: Instant) -> Option<Choice> {
    let server = &pool.servers[position];
    let mut choice = Choice { position, permit: None, finds_out: false };
    if pool.compiled.counts_requests {
        let bounds = &pool.compiled.servers[position].bounds;
        if server.is_full(bounds) {
            return None;
        }
        choice.permit = Some(pool.compiled.shared.enter(&server.shared, bounds)?);
    }
    if server.health_status(now) == HealthStatus::Serving && !server.shared.health.is_out() {
        return Some(choice);
    }
    choice.finds_out = match server.shared.health.begin_probe(now) {
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
