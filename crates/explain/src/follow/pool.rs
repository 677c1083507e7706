//! The pool that a route proxies to, as it is configured. How its servers are now only the running process knows.

use super::settings;
use tidegate_api::{ExplainedPool, ExplainedServer, Setting};
use tidegate_config::writing;
use tidegate_model::{Filled, Pool, Server};

pub fn seen(pool: &Pool, filled: &Filled) -> ExplainedPool {
    let is_balance = |setting: &Setting| setting.name == "balance";
    let (of_balance, settings): (Vec<_>, _) = settings(writing::of_pool(pool, filled)).into_iter().partition(is_balance);
    let server = |server: &Server| {
        let Server { address, weight, priority, zone, bounds } = server;
        let zone = zone.as_ref().map(ToString::to_string);
        ExplainedServer {
            address: address.to_string(),
            weight: *weight,
            priority: (*priority).into(),
            zone,
            max_connections: bounds.connections,
            max_requests: bounds.requests,
            state: None,
            why: None,
            requests_in_flight: None,
            idle_connections: None,
        }
    };
    ExplainedPool {
        name: pool.name.to_string(),
        balance: of_balance.into_iter().map(|setting| setting.value).collect(),
        servers: pool.servers.iter().map(server).collect(),
        settings,
    }
}
