//! The pool that a route proxies to, as it is configured. How its servers are now only the running process knows.

use super::{PoolSeen, ServerSeen};
use crate::wording;
use tidegate_model::{Pool, Server};

pub fn seen(pool: &Pool) -> PoolSeen {
    let (of_balance, settings) = wording::pool_settings(pool).into_iter().partition(|setting| setting.name == "balance");
    let of_balance: Vec<wording::Setting> = of_balance;
    let server = |server: &Server| {
        let Server { address, weight, priority, zone } = server;
        let zone = zone.as_ref().map(ToString::to_string);
        ServerSeen { address: address.to_string(), weight: *weight, priority: *priority, zone, live: None }
    };
    PoolSeen {
        name: pool.name.to_string(),
        balance: of_balance.into_iter().map(|setting| setting.value).collect(),
        servers: pool.servers.iter().map(server).collect(),
        settings,
    }
}
