//! The pool that a route proxies to, as it is configured. How its servers are now only the running process knows.

use crate::wording;
use tidegate_api::{ExplainedPool, ExplainedServer, Setting};
use tidegate_model::{Pool, Server};

pub fn seen(pool: &Pool) -> ExplainedPool {
    let (of_balance, settings) = wording::pool_settings(pool).into_iter().partition(|setting| setting.name == "balance");
    let of_balance: Vec<Setting> = of_balance;
    let server = |server: &Server| {
        let Server { address, weight, priority, zone } = server;
        let zone = zone.as_ref().map(ToString::to_string);
        ExplainedServer {
            address: address.to_string(),
            weight: *weight,
            priority: (*priority).into(),
            zone,
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
