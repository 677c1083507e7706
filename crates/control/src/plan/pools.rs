//! Pools and their servers: a pool is recognised by its name, a server by its address within the pool.

use super::settings::{change, different_lists, hidden};
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
    let mut settings = different_lists(&wording::pool_settings(old), &wording::pool_settings(new));
    let secrets = wording::pool_secrets(old).into_iter().zip(wording::pool_secrets(new));
    for ((name, old_secrets), (_, new_secrets)) in secrets {
        // What reads as another one is in the list already.
        if old_secrets != new_secrets && settings.iter().all(|setting| setting.name != name) {
            settings.push(hidden(name));
        }
    }
    PoolDifference { settings, servers: server_changes(&old.servers, &new.servers) }
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
