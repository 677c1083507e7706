//! Listening addresses that come, go or change: derived from sites and from what is passed on, so that a site alone can
//! open or close one.

use super::settings::{change, different};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{ChangeKind, Effect, ListenerChange, SettingChange};
use tidegate_config::writing::{self, WrittenSetting, tcp_target};
use tidegate_model::listening::{Answering, ListenerProtocol, Listening, listener_options, listening, site_name};
use tidegate_model::{Configuration, HostPattern, ListenAddress, TcpTarget};

/// Options written for an address that no site listens on have no effect, and no entry.
pub fn changes(before: &Configuration, after: &Configuration) -> Vec<ListenerChange> {
    if before.sites == after.sites && before.tcp == after.tcp && before.listeners == after.listeners {
        return Vec::new();
    }
    let (old, new) = (listening(before), listening(after));
    let mut changes = Vec::new();
    for (address, listening) in &old {
        if !new.contains_key(address) {
            changes.push((*address, entry(*address, listening, ChangeKind::Removed, Effect::ClientConnectionsDrained)));
        }
    }
    for (address, listening) in &new {
        let Some(known) = old.get(address) else {
            changes.push((*address, entry(*address, listening, ChangeKind::Added, Effect::Untouched)));
            continue;
        };
        let settings = setting_changes(*address, (before, known), (after, listening));
        if !settings.is_empty() {
            // A connection in plain text cannot become one with TLS, nor the other way round.
            let touched = !known.protocol.is_akin(listening.protocol);
            let effect = if touched { Effect::ClientConnectionsDrained } else { Effect::Untouched };
            changes.push((*address, ListenerChange { settings, ..entry(*address, listening, ChangeKind::Changed, effect) }));
        }
    }
    changes.sort_by_key(|(address, _)| *address);
    changes.into_iter().map(|(_, change)| change).collect()
}

fn entry(address: ListenAddress, listening: &Listening<'_>, change: ChangeKind, effect: Effect) -> ListenerChange {
    let (scheme, implied) = (listening.protocol.as_str().into(), listening.implied);
    ListenerChange { address: address.to_string(), scheme, implied, change, effect, settings: Vec::new() }
}

fn setting_changes(
    address: ListenAddress,
    (before, known): (&Configuration, &Listening<'_>),
    (after, listening): (&Configuration, &Listening<'_>),
) -> Vec<SettingChange> {
    let mut changes = Vec::new();
    if known.protocol != listening.protocol {
        changes.push(change("scheme", known.protocol.as_str(), listening.protocol.as_str()));
    }
    changes.extend(passing_changes((before, known), (after, listening)));
    // Where there are sites only now, or none any more, that is said of them.
    if let (Some(old), Some(new)) = (known.public_port, listening.public_port)
        && old != new
    {
        changes.push(change("port that clients ask for", &old.to_string(), &new.to_string()));
    }
    if known.implied != listening.implied {
        let purpose = |implied: bool| if implied { "redirects to HTTPS only" } else { "sites" };
        changes.push(change("answers with", purpose(known.implied), purpose(listening.implied)));
    }
    changes.extend(different(&options(before, address), &options(after, address)));
    if known.protocol == ListenerProtocol::Https && listening.protocol == ListenerProtocol::Https {
        let (old, new) = (nameless_site(before, known), nameless_site(after, listening));
        if old != new {
            changes.push(change("certificate for clients that name no host", &old, &new));
        }
    }
    changes
}

fn options(configuration: &Configuration, address: ListenAddress) -> Vec<WrittenSetting> {
    writing::of_listener(&listener_options(configuration, address), &configuration.filled)
}

/// Where connections are passed on to. Those of a name that is passed on no more are drained, since they could not be
/// made any more; another pool is for connections from then on.
fn passing_changes(
    (before, known): (&Configuration, &Listening<'_>),
    (after, listening): (&Configuration, &Listening<'_>),
) -> Vec<SettingChange> {
    let (old, new) = (targets(known), targets(listening));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differ = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    let entry = |name: &String| {
        let shown = |target: Option<&&TcpTarget>, of: &Configuration| {
            target.map(|target| tcp_target(target, &of.filled)).unwrap_or_default()
        };
        let is_gone = !new.contains_key(name);
        let effect = if is_gone { Effect::ClientConnectionsDrained } else { Effect::Untouched };
        SettingChange { effect, ..change(name, &shown(old.get(name), before), &shown(new.get(name), after)) }
    };
    differ.map(entry).collect()
}

fn targets<'a>(listening: &Listening<'a>) -> BTreeMap<String, &'a TcpTarget> {
    let by_name = listening.by_name.iter().map(|(name, to)| (format!("sni {name}"), *to));
    by_name.chain(listening.otherwise.map(|to| ("tcp".to_owned(), to))).collect()
}

/// The site whose certificate answers a client that sends no server name: the catch-all, else the first in the file. (A
/// site of the very address goes before both, and cannot change while the address stays.)
fn nameless_site(configuration: &Configuration, listening: &Listening<'_>) -> String {
    let catch_all = listening.hosts.iter().find(|(_, host)| **host == HostPattern::Any);
    match catch_all.map(|(answering, _)| *answering).or_else(|| listening.first_answering(&configuration.sites)) {
        Some(Answering::Site(position)) => site_name(&configuration.sites[position]),
        Some(Answering::Redirect) | None => String::new(),
    }
}
