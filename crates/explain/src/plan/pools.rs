//! Pools and their servers: a pool is recognised by its name, a server by its address within the pool.

use super::matched;
use super::settings::different;
use std::sync::Arc;
use tidegate_api::{ChangeKind, Effect, PoolChange, ServerChange, SettingChange};
use tidegate_config::writing;
use tidegate_model::{Filled, Pool, Server};

/// Each list with where its texts came from.
pub fn changes((before, filled_before): (&[Arc<Pool>], &Filled), (after, filled): (&[Arc<Pool>], &Filled)) -> Vec<PoolChange> {
    let both = (filled_before, filled);
    let found = matched(before, after, |pool| &*pool.name.0);
    let removed = found.removed.iter().map(|pool| entry(pool, ChangeKind::Removed, Effect::ServerConnectionsClose));
    let others = found.others.into_iter().filter_map(|(old, new)| match old {
        None => Some(entry(new, ChangeKind::Added, Effect::Untouched)),
        Some(old) => {
            let (settings, servers) = (
                different(&writing::of_pool(old, both.0), &writing::of_pool(new, both.1)),
                server_changes(&old.servers, &new.servers, both),
            );
            let differs = !settings.is_empty() || !servers.is_empty();
            differs.then(|| PoolChange { settings, servers, ..entry(new, ChangeKind::Changed, Effect::Untouched) })
        }
    });
    removed.chain(others).collect()
}

fn entry(pool: &Pool, change: ChangeKind, effect: Effect) -> PoolChange {
    PoolChange { pool: pool.name.to_string(), change, effect, settings: Vec::new(), servers: Vec::new() }
}

fn server_changes(before: &[Server], after: &[Server], both: (&Filled, &Filled)) -> Vec<ServerChange> {
    let entry = |server: &Server, change, effect, settings| {
        let server = server.address.to_string();
        ServerChange { server, change, effect, settings }
    };
    let found = matched(before, after, |server| &server.address);
    let removed = found.removed.iter();
    let removed = removed.map(|server| entry(server, ChangeKind::Removed, Effect::ServerConnectionsClose, Vec::new()));
    let others = found.others.into_iter().map(|(old, new)| match old {
        None => entry(new, ChangeKind::Added, Effect::Untouched, Vec::new()),
        Some(old) => entry(new, ChangeKind::Changed, Effect::Untouched, server_settings(old, new, both)),
    });
    removed.chain(others).collect()
}

fn server_settings(old: &Server, new: &Server, (before, now): (&Filled, &Filled)) -> Vec<SettingChange> {
    let changes = different(&writing::of_server(old, before), &writing::of_server(new, now)).into_iter();
    // The server stands in front of its settings already.
    changes.map(|change| SettingChange { name: change.name.replacen("server ", "", 1), ..change }).collect()
}
