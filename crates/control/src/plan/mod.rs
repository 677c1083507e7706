//! What a change from one configuration to another would do, as data: settings, listening addresses, sites with their routes, pools with
//! their servers, and what each item means for open connections. Pure: nothing is opened, asked or applied here.
//! `listeners`, `sites` and `pools` find the differences; `render` says them.

mod listeners;
mod pools;
mod render;
mod routes;
mod settings;
mod sites;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use tidegate_model::Configuration;
use tidegate_model::listening::ListenerProtocol;

/// The difference of two configurations, in a stable order. Equal things are not in it, nor is an order that decides nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Settings of the process.
    pub settings: Vec<SettingChange>,
    /// By address.
    pub listeners: Vec<ListenerChange>,
    /// Removed ones in their old order, then the others in their new order.
    pub sites: Vec<SiteChange>,
    /// As `sites`.
    pub pools: Vec<PoolChange>,
}

/// What happens to a thing that is in both configurations, or only in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<D> {
    Added,
    Removed,
    Changed(D),
}

/// What an item does to connections that are open when it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// No connection is touched; requests from then on see the change.
    Untouched,
    /// Client connections of the address finish the requests in flight, for as long as `drain` lets them, and close.
    ClientConnectionsDrained,
    /// Requests in flight on the server finish, its idle connections close.
    ServerConnectionsClose,
    /// Workers end; client connections of theirs are kept until they end by themselves. Where the count comes from the machine
    /// (`auto`), only if that is more than the new one.
    WorkersLeave,
}

/// A setting that has another value. Both values are text as the file would have it, or [`HIDDEN_VALUE`]; one that is not set is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    pub name: String,
    pub before: String,
    pub after: String,
    pub effect: Effect,
}

/// Stands for both values of a setting that is a secret by its name.
pub const HIDDEN_VALUE: &str = "(changed)";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerChange {
    pub address: SocketAddr,
    /// After the change, unless the address is removed.
    pub protocol: ListenerProtocol,
    /// Nobody wrote it: it redirects to HTTPS.
    pub implied: bool,
    pub change: Change<Vec<SettingChange>>,
    pub effect: Effect,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteChange {
    /// Its first address, which is what it is recognised by.
    pub site: String,
    pub change: Change<SiteDifference>,
    pub effect: Effect,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteDifference {
    pub addresses_added: Vec<String>,
    pub addresses_removed: Vec<String>,
    /// Of `tls`, and whether an address is redirected to from port 80.
    pub settings: Vec<SettingChange>,
    /// Steps that the site itself has.
    pub steps: Vec<LineChange>,
    /// Removed ones by their old rank, then the others by their new rank.
    pub routes: Vec<RouteChange>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteChange {
    /// Its place in the site, from 1: in the old configuration for a removed route, in the new one otherwise.
    pub rank: usize,
    /// `route "/api/*" → pool api`
    pub title: String,
    pub change: Change<RouteDifference>,
}

/// A route that is in both. One that only has another rank because others came or went is not in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteDifference {
    /// Its old rank, from 1, when routes that were behind it are in front of it now, or the other way round.
    pub moved_from: Option<usize>,
    /// Its `match` lines, steps and answer.
    pub lines: Vec<LineChange>,
}

/// A line of a block that came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineChange {
    Added(String),
    Removed(String),
    /// It reads the same, because what is different is not shown.
    Hidden(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolChange {
    pub pool: String,
    pub change: Change<PoolDifference>,
    /// Of a removed pool on the connections to its servers; those of a changed pool are with its servers.
    pub effect: Effect,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolDifference {
    pub settings: Vec<SettingChange>,
    /// Removed ones in their old order, then the others in their new order.
    pub servers: Vec<ServerChange>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerChange {
    /// Its address, which is what it is recognised by.
    pub server: String,
    pub change: Change<Vec<SettingChange>>,
    pub effect: Effect,
}

/// What applying `after` in the place of `before` would change. Linear in the size of both; what is equal is compared and not looked at
/// further.
pub fn plan(before: &Configuration, after: &Configuration) -> Plan {
    // Named one by one, so that a new part of a configuration cannot be forgotten.
    let Configuration {
        edition: _,
        sites,
        tcp: _,
        pools,
        listeners: _,
        admin: _,
        admin_token: _,
        access_log: _,
        log: _,
        threads: _,
        memory: _,
        cache: _,
        acme: _,
        storage: _,
        ticket_keys: _,
        drain: _,
        limits: _,
    } = before;
    Plan {
        settings: settings::changes(before, after),
        listeners: listeners::changes(before, after),
        sites: sites::changes(sites, &after.sites),
        pools: pools::changes(pools, &after.pools),
    }
}

impl Plan {
    /// Nothing that anybody could notice changes.
    pub fn is_empty(&self) -> bool {
        let Plan { settings, listeners, sites, pools } = self;
        settings.is_empty() && listeners.is_empty() && sites.is_empty() && pools.is_empty()
    }
}

/// Positions in both lists of what two keys have in common, found without looking at equal neighbours twice: the equal start and end are
/// skipped, and the rest is put into one table.
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
