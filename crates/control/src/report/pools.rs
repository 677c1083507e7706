//! Pools and their servers as they are now: how each stands and why, what it has to do, what its checks found. And
//! taking one out of use.

use crate::applying::ChangeFault;
use crate::control::Control;
use crate::discovery::SourceSeen;
use crate::pools::word;
use std::collections::HashMap;
use std::time::Instant;
use tidegate_api::{ErrorCount, Pool, Pools, Server, ServerState, Source};
use tidegate_balancing::Candidate;
use tidegate_config::writing::{self, Form};
use tidegate_health::Seen;
use tidegate_model::{Discover, PoolName};
use tidegate_proxy::worker::Worker;
use tidegate_telemetry::{ServerWord, UpstreamError};
use tidegate_transport::DriverSock;
use tidegate_upstream::compiled::{CompiledPool, CompiledServer};
use tidegate_upstream::health::Why;

fn state(word: ServerWord) -> ServerState {
    match word {
        ServerWord::Serving => ServerState::Serving,
        ServerWord::Unknown => ServerState::Unknown,
        ServerWord::Starting => ServerState::Starting,
        ServerWord::Draining => ServerState::Draining,
        ServerWord::Leaving => ServerState::Leaving,
        ServerWord::Down => ServerState::Down,
        ServerWord::Ejected => ServerState::Ejected,
        ServerWord::Resting => ServerState::Resting,
    }
}

impl Control {
    pub fn pools(&self) -> Pools {
        let mut in_flight: HashMap<(PoolName, usize), u32> = HashMap::new();
        for (pool, server, count) in self.workers.ask(servers_of).into_iter().flatten() {
            *in_flight.entry((pool, server)).or_default() += count;
        }
        let pools = self.running.snapshot.pools.iter().flatten();
        let mut pools: Vec<_> = pools.map(|pool| self.pool(pool, &in_flight)).collect();
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        Pools { generation: self.generation(), pools }
    }

    fn pool(&self, pool: &CompiledPool, in_flight: &HashMap<(PoolName, usize), u32>) -> Pool {
        let totals = self.registry().pool_totals(&pool.name.0);
        let errors = UpstreamError::ALL.iter().zip(totals.errors).filter(|(_, count)| *count > 0);
        let source = |source: &Discover| {
            let SourceSeen { servers, fault } = self.followers.seen(source);
            Source { name: writing::discover(source, Form::Masked(&self.running.configuration.filled)), servers, fault }
        };
        let server = |(position, server): (usize, &CompiledServer)| {
            let requests = in_flight.get(&(pool.name.clone(), position)).copied().unwrap_or_default();
            self.server(pool, server, position, requests)
        };
        Pool {
            name: pool.name.to_string(),
            origin: pool.model.origin.as_ref().map(ToString::to_string),
            balance: pool.model.balance.name().into(),
            servers: pool.servers.iter().enumerate().map(server).collect(),
            sources: pool.model.discover.iter().map(source).collect(),
            requests: totals.requests,
            retries: totals.retries,
            errors: totals.errors.iter().sum(),
            errors_by_reason: errors.map(|(error, count)| ErrorCount { reason: error.reason().into(), count }).collect(),
            connections_opened: totals.connections_opened,
            connections_reused: totals.connections_reused,
            connections_active: totals.connections_active,
            connections_idle: totals.connections_idle,
        }
    }

    fn server(&self, pool: &CompiledPool, server: &CompiledServer, position: usize, requests_in_flight: u32) -> Server {
        let health = &server.shared.health;
        let why = health.why(pool.model.slow_start, Instant::now());
        let totals = self.registry().server_totals(&pool.name.0, &server.authority);
        let seen = self.checkers.seen(&pool.name, &server.authority);
        let mut report = Server {
            address: server.model.address.to_string(),
            addresses: server.addresses.tcp().to_vec(),
            weight: server.model.weight,
            priority: server.model.priority.into(),
            zone: server.model.zone.as_ref().map(ToString::to_string),
            discovered: position >= pool.model.servers.len(),
            state: state(word(why.as_ref())),
            why: None,
            tried_again_in_seconds: None,
            checks: seen.as_ref().map(|seen| checks(seen, Instant::now())),
            requests_in_flight,
            connections: server.shared.open_connections(),
            requests: totals.requests,
            failures: totals.failures,
        };
        report.why = why.as_ref().map(|why| match why {
            Why::Drained => "somebody drained it".to_owned(),
            Why::Leaving => "whoever named it says that it is going away".to_owned(),
            Why::Down => "its health checks fail".to_owned(),
            Why::Unknown => "its health checks have not found out yet".to_owned(),
            Why::Ejected(_) => health.last_ejection().map_or_else(|| "it failed too often".to_owned(), |why| why.to_string()),
            Why::Probed => "its time is over, and the next request finds out how it is".to_owned(),
            Why::Unreachable(left) if left.is_zero() => {
                "it could not be reached, and the next request finds out how it is".to_owned()
            }
            Why::Unreachable(_) => "it could not be reached".to_owned(),
            Why::Paused(left) if left.is_zero() => {
                "the pause is over that it asked for, and the next request finds out how it is".to_owned()
            }
            Why::Paused(_) => "it asked for a pause (Retry-After)".to_owned(),
            Why::Starting(share) => format!("it came into use a while ago and gets {} % of its share", share * 100 / 256),
        });
        if why.is_none() && !server.addresses.are_known() {
            report.state = ServerState::Down;
            report.why = Some("its name has no address".to_owned());
        }
        let tried_again_in = match why {
            Some(Why::Ejected(left) | Why::Unreachable(left) | Why::Paused(left)) => Some(left).filter(|left| !left.is_zero()),
            Some(Why::Down | Why::Unknown) => {
                seen.and_then(|seen| seen.next_check).map(|at| at.saturating_duration_since(Instant::now()))
            }
            Some(Why::Drained | Why::Leaving | Why::Probed | Why::Starting(_)) | None => None,
        };
        report.tried_again_in_seconds = tried_again_in.map(|left| left.as_secs_f64().ceil() as u64);
        report
    }

    /// Takes a server out of use, or back into it. Requests that it has go on. Outlives reloads for as long as the
    /// server is in the pool.
    pub fn set_drained(&mut self, pool: &str, server: &str, drained: bool) -> Result<(), ChangeFault> {
        let known = || {
            let names: Vec<_> = self.running.snapshot.pools.iter().flatten().map(|pool| pool.name.to_string()).take(20).collect();
            format!("there is no pool `{pool}`\n  help: the pools are {}", names.join(", "))
        };
        let compiled = self.running.snapshot.pool_named(&PoolName(pool.into())).ok_or_else(|| ChangeFault::NotFound(known()))?;
        let found = compiled.servers.iter().find(|known| {
            let address = &known.model.address;
            [address.to_string(), address.authority()].iter().any(|name| name == server || format!("http://{name}") == server)
        });
        let Some(found) = found else {
            let names: Vec<_> = compiled.servers.iter().map(|server| server.model.address.to_string()).take(20).collect();
            return Err(ChangeFault::NotFound(format!(
                "the pool `{pool}` has no server `{server}`\n  help: its servers are {}",
                names.join(", ")
            )));
        };
        found.shared.health.set_drained(drained);
        let what = if drained { "a server is drained" } else { "a server is in use again" };
        tracing::info!(pool, server, "{what}");
        Ok(())
    }

    pub(crate) fn drained_servers(&self) -> Vec<(String, String)> {
        let pools = self.running.snapshot.pools.iter().flatten();
        pools
            .flat_map(|pool| pool.servers.iter().map(move |server| (pool, server)))
            .filter(|(_, server)| server.shared.health.is_drained())
            .map(|(pool, server)| (pool.name.to_string(), server.authority.to_string()))
            .collect()
    }
}

/// `last passed 0.4 s ago in 1.2 ms`, `last failed 0.4 s ago: connection refused`
fn checks(seen: &Seen, now: Instant) -> String {
    let Some(at) = seen.checked_at else { return "not checked yet".to_owned() };
    let ago = now.saturating_duration_since(at).as_secs_f64();
    match &seen.last_fault {
        Some(fault) if fault.at == at => format!("last failed {ago:.1} s ago: {}", fault.sentence),
        Some(_) | None => {
            let took = seen.last_took.map_or(0.0, |took| took.as_secs_f64() * 1000.0);
            format!("last passed {ago:.1} s ago in {took:.1} ms")
        }
    }
}

fn servers_of(worker: &Worker<DriverSock>) -> Vec<(PoolName, usize, u32)> {
    let mut servers = Vec::new();
    worker.each_pool(|pool| {
        for (position, server) in pool.servers.iter().enumerate() {
            servers.push((pool.compiled.name.clone(), position, server.state().in_flight.get()));
        }
    });
    servers
}
