//! Pools and their servers: a pool is recognised by its name, a server by its address within the pool.

use super::matched;
use super::settings::{change, different_lists, hidden};
use crate::wording;
use std::sync::Arc;
use tidegate_api::{ChangeKind, Effect, PoolChange, ServerChange, SettingChange};
use tidegate_model::{Pool, Server};

pub fn changes(before: &[Arc<Pool>], after: &[Arc<Pool>]) -> Vec<PoolChange> {
    let found = matched(before, after, |pool| &*pool.name.0);
    let removed = found.removed.iter().map(|pool| entry(pool, ChangeKind::Removed, Effect::ServerConnectionsClose));
    let others = found.others.into_iter().filter_map(|(old, new)| match old {
        None => Some(entry(new, ChangeKind::Added, Effect::Untouched)),
        Some(old) => {
            let (settings, servers) = (settings(old, new), server_changes(&old.servers, &new.servers));
            let differs = !settings.is_empty() || !servers.is_empty();
            differs.then(|| PoolChange { settings, servers, ..entry(new, ChangeKind::Changed, Effect::Untouched) })
        }
    });
    removed.chain(others).collect()
}

fn entry(pool: &Pool, change: ChangeKind, effect: Effect) -> PoolChange {
    PoolChange { pool: pool.name.to_string(), change, effect, settings: Vec::new(), servers: Vec::new() }
}

fn settings(old: &Pool, new: &Pool) -> Vec<SettingChange> {
    let mut settings = different_lists(&wording::pool_settings(old), &wording::pool_settings(new));
    let secrets = wording::pool_secrets(old).into_iter().zip(wording::pool_secrets(new));
    for ((name, old_secrets), (_, new_secrets)) in secrets {
        // What reads as another one is in the list already.
        if old_secrets != new_secrets && settings.iter().all(|setting| setting.name != name) {
            settings.push(hidden(name));
        }
    }
    settings
}

fn server_changes(before: &[Server], after: &[Server]) -> Vec<ServerChange> {
    let entry = |server: &Server, change, effect, settings| {
        let server = server.address.to_string();
        ServerChange { server, change, effect, settings }
    };
    let found = matched(before, after, |server| &server.address);
    let removed = found.removed.iter();
    let removed = removed.map(|server| entry(server, ChangeKind::Removed, Effect::ServerConnectionsClose, Vec::new()));
    let others = found.others.into_iter().map(|(old, new)| match old {
        None => entry(new, ChangeKind::Added, Effect::Untouched, Vec::new()),
        Some(old) => entry(new, ChangeKind::Changed, Effect::Untouched, server_settings(old, new)),
    });
    removed.chain(others).collect()
}

fn server_settings(old: &Server, new: &Server) -> Vec<SettingChange> {
    // Named one by one, so that a new setting cannot be forgotten.
    let Server { address: _, weight, priority, zone } = old;
    let mut settings = Vec::new();
    if *weight != new.weight {
        settings.push(change("weight", &weight.to_string(), &new.weight.to_string()));
    }
    if *priority != new.priority {
        let is_backup_or_not = (*priority).max(new.priority) <= Server::BACKUP;
        settings.push(if is_backup_or_not {
            change("backup", wording::yes_or_no(*priority > 0), wording::yes_or_no(new.priority > 0))
        } else {
            change("priority", &priority.to_string(), &new.priority.to_string())
        });
    }
    if *zone != new.zone {
        settings.push(change("zone", zone.as_deref().unwrap_or_default(), new.zone.as_deref().unwrap_or_default()));
    }
    settings
}
