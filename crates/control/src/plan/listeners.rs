//! Listening addresses that come, go or change: derived from the sites, so that a site alone can open or close one.

use super::settings::change;
use super::{Change, Effect, ListenerChange, SettingChange};
use crate::wording::networks;
use std::net::SocketAddr;
use tidegate_model::listening::{Answering, Listening, listening, site_name, trusted_proxies};
use tidegate_model::{Configuration, HostPattern, Scheme};

/// Options written for an address that no site listens on have no effect, and no entry.
pub fn changes(before: &Configuration, after: &Configuration) -> Vec<ListenerChange> {
    if before.sites == after.sites && before.listeners == after.listeners {
        return Vec::new();
    }
    let (old, new) = (listening(before), listening(after));
    let mut changes = Vec::new();
    for (address, listening) in &old {
        if !new.contains_key(address) {
            changes.push(entry(*address, listening, Change::Removed, Effect::ClientConnectionsDrained));
        }
    }
    for (address, listening) in &new {
        let Some(known) = old.get(address) else {
            changes.push(entry(*address, listening, Change::Added, Effect::Untouched));
            continue;
        };
        let settings = setting_changes(*address, (before, known), (after, listening));
        if !settings.is_empty() {
            // A connection in plain text cannot become one with TLS, nor the other way round.
            let touched = known.scheme != listening.scheme;
            let effect = if touched { Effect::ClientConnectionsDrained } else { Effect::Untouched };
            changes.push(entry(*address, listening, Change::Changed(settings), effect));
        }
    }
    changes.sort_by_key(|change| change.address);
    changes
}

fn entry(address: SocketAddr, listening: &Listening<'_>, change: Change<Vec<SettingChange>>, effect: Effect) -> ListenerChange {
    ListenerChange { address, scheme: listening.scheme, implied: listening.implied, change, effect }
}

fn setting_changes(
    address: SocketAddr,
    (before, known): (&Configuration, &Listening<'_>),
    (after, listening): (&Configuration, &Listening<'_>),
) -> Vec<SettingChange> {
    let mut changes = Vec::new();
    if known.scheme != listening.scheme {
        changes.push(change("scheme", known.scheme.as_str(), listening.scheme.as_str()));
    }
    if known.implied != listening.implied {
        let purpose = |implied: bool| if implied { "redirects to HTTPS only" } else { "sites" };
        changes.push(change("answers with", purpose(known.implied), purpose(listening.implied)));
    }
    let (old, new) = (trusted_proxies(before, address), trusted_proxies(after, address));
    if old != new {
        changes.push(change("trusted-proxies", &networks(&old), &networks(&new)));
    }
    if known.scheme == Scheme::Https && listening.scheme == Scheme::Https {
        let (old, new) = (nameless_site(before, known), nameless_site(after, listening));
        if old != new {
            changes.push(change("certificate for clients that name no host", &old, &new));
        }
    }
    changes
}

/// The site whose certificate answers a client that sends no server name: the catch-all, else the first in the file. (A site of the
/// very address goes before both, and cannot change while the address stays.)
fn nameless_site(configuration: &Configuration, listening: &Listening<'_>) -> String {
    let catch_all = listening.hosts.iter().find(|(_, host)| **host == HostPattern::Any);
    match catch_all.or(listening.hosts.first()) {
        Some((Answering::Site(position), _)) => site_name(&configuration.sites[*position]),
        Some((Answering::Redirect, _)) | None => String::new(),
    }
}
