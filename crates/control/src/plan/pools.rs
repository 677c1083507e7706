//! Pools and their servers: a pool is recognised by its name, a server by its address within the pool.

use super::settings::{change, different};
use super::{Change, Effect, PoolChange, PoolDifference, ServerChange, SettingChange, matched};
use crate::wording;
use tidegate_model::{Pool, Server};

pub fn changes(before: &[Pool], after: &[Pool]) -> Vec<PoolChange> {
    let found = matched(before, after, |pool| &*pool.name.0);
    let mut changes: Vec<PoolChange> =
        found.removed.iter().map(|pool| entry(pool, Change::Removed, Effect::ServerConnectionsClose)).collect();
    for (old, new) in found.others {
        let Some(old) = old else {
            changes.push(entry(new, Change::Added, Effect::Untouched));
            continue;
        };
        let difference = difference(old, new);
        if difference != PoolDifference::default() {
            changes.push(entry(new, Change::Changed(difference), Effect::Untouched));
        }
    }
    changes
}

fn entry(pool: &Pool, change: Change<PoolDifference>, effect: Effect) -> PoolChange {
    PoolChange { pool: pool.name.to_string(), change, effect }
}

fn difference(old: &Pool, new: &Pool) -> PoolDifference {
    // Named one by one, so that a new setting cannot be forgotten.
    let Pool { name: _, servers, balance, timeouts, bounds, protocol, tls, .. } = old;
    let max_connections = &bounds.connections_per_server;
    let mut settings = Vec::new();
    if *balance != new.balance {
        settings.push(change("balance", &wording::balance(balance), &wording::balance(&new.balance)));
    }
    settings.extend(different(wording::timeouts(timeouts), wording::timeouts(&new.timeouts)));
    if *max_connections != new.bounds.connections_per_server {
        let shown = wording::max_connections;
        settings.push(change("max-connections", &shown(*max_connections), &shown(new.bounds.connections_per_server)));
    }
    if *protocol != new.protocol {
        settings.push(change("protocol", wording::protocol(*protocol), wording::protocol(new.protocol)));
    }
    settings.extend(different(wording::upstream_tls(tls), wording::upstream_tls(&new.tls)));
    PoolDifference { settings, servers: server_changes(servers, &new.servers) }
}

fn server_changes(before: &[Server], after: &[Server]) -> Vec<ServerChange> {
    let entry = |server: &Server, change, effect| ServerChange { server: server.address.to_string(), change, effect };
    let found = matched(before, after, |server| &server.address);
    let mut changes: Vec<ServerChange> =
        found.removed.iter().map(|server| entry(server, Change::Removed, Effect::ServerConnectionsClose)).collect();
    for (old, new) in found.others {
        changes.push(match old {
            None => entry(new, Change::Added, Effect::Untouched),
            Some(old) => entry(new, Change::Changed(server_settings(old, new)), Effect::Untouched),
        });
    }
    changes
}

fn server_settings(old: &Server, new: &Server) -> Vec<SettingChange> {
    let Server { address: _, weight, priority, zone: _ } = old;
    let mut settings = Vec::new();
    if *weight != new.weight {
        settings.push(change("weight", &weight.to_string(), &new.weight.to_string()));
    }
    if *priority != new.priority {
        settings.push(change("backup", wording::yes_or_no(*priority > 0), wording::yes_or_no(new.priority > 0)));
    }
    settings
}
