//! What a change from one configuration to another would do, as data: settings, listening addresses, sites with their
//! routes, pools with their servers, and what each item means for open connections. Pure: nothing is opened, asked or
//! applied here. `listeners`, `sites` and `pools` find the differences; `render` says them.

mod listeners;
mod pools;
mod render;
mod routes;
mod settings;
mod sites;

#[cfg(test)]
mod tests;

use tidegate_api::Plan;
use tidegate_model::Configuration;

/// Stands for both values of a setting of which only a secret is another one.
const HIDDEN_VALUE: &str = "(changed)";

/// What applying `after` in the place of `before` would change. Linear in the size of both; what is equal is compared
/// and not looked at further.
pub fn plan(before: &Configuration, after: &Configuration) -> Plan {
    // Named one by one, so that a new part of a configuration cannot be forgotten.
    let Configuration {
        edition: _,
        sites,
        tcp: _,
        maps: _,
        geoip: _,
        pools,
        listeners: _,
        admin: _,
        access_logs: _,
        log: _,
        threads: _,
        driver: _,
        memory: _,
        cache: _,
        certificates: _,
        acme: _,
        storage: _,
        ticket_keys: _,
        drain: _,
        drain_delay: _,
        limits: _,
        containers: _,
        filled: _,
    } = before;
    let mut plan = Plan {
        empty: false,
        summary: String::new(),
        text: String::new(),
        settings: settings::changes(before, after),
        listeners: listeners::changes(before, after),
        sites: sites::changes((sites, &before.filled), (&after.sites, &after.filled)),
        pools: pools::changes((pools, &before.filled), (&after.pools, &after.filled)),
    };
    let Plan { empty: _, summary: _, text: _, settings, listeners, sites, pools } = &plan;
    plan.empty = settings.is_empty() && listeners.is_empty() && sites.is_empty() && pools.is_empty();
    plan.summary = render::summary(&plan);
    plan.text = render::text(&plan);
    plan
}

/// Positions in both lists of what two keys have in common, found without looking at equal neighbours twice: the equal
/// start and end are skipped, and the rest is put into one table.
struct Matched<'a, T> {
    removed: Vec<&'a T>,
    /// In the order of the new list; the old one when there is one and it is different.
    others: Vec<(Option<&'a T>, &'a T)>,
}

fn matched<'a, T: PartialEq, K: std::hash::Hash + Eq>(
    before: &'a [T],
    after: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> Matched<'a, T> {
    let (before, after) = without_common_ends(before, after);
    let mut known: std::collections::HashMap<K, &T> = before.iter().map(|item| (key(item), item)).collect();
    let mut others = Vec::new();
    for item in after {
        match known.remove(&key(item)) {
            Some(old) if old == item => {}
            old => others.push((old, item)),
        }
    }
    let removed =
        if known.is_empty() { Vec::new() } else { before.iter().filter(|item| known.contains_key(&key(item))).collect() };
    Matched { removed, others }
}

fn without_common_ends<'a, T: PartialEq>(before: &'a [T], after: &'a [T]) -> (&'a [T], &'a [T]) {
    let start = before.iter().zip(after).take_while(|(old, new)| old == new).count();
    let (before, after) = (&before[start..], &after[start..]);
    let end = before.iter().rev().zip(after.iter().rev()).take_while(|(old, new)| old == new).count();
    (&before[..before.len() - end], &after[..after.len() - end])
}
