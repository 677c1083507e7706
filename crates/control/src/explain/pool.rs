//! The pool that a route proxies to, as it is configured. How its servers are now only the running process knows.

use super::{PoolSeen, ServerSeen, Setting};
use crate::wording;
use tidegate_model::{Pool, Scheme};

pub fn seen(pool: &Pool) -> PoolSeen {
    let Pool { name, servers, balance, timeouts, bounds, protocol, tls, .. } = pool;
    let mut settings: Vec<Setting> = wording::timeouts(timeouts).into();
    settings.push(Setting { name: "max-connections", value: wording::max_connections(bounds.connections_per_server) });
    settings.push(Setting { name: "protocol", value: wording::protocol(*protocol).to_owned() });
    if servers.iter().any(|server| server.address.scheme == Scheme::Https) {
        settings.extend(wording::upstream_tls(tls));
    }
    let server = |server: &tidegate_model::Server| ServerSeen {
        address: server.address.to_string(),
        weight: server.weight,
        backup: server.priority > 0,
        live: None,
    };
    PoolSeen {
        name: name.to_string(),
        balance: wording::balance(balance),
        servers: servers.iter().map(server).collect(),
        settings,
    }
}
