//! A plan as the API gives it.

use super::scheme_name;
use crate::api::{
    ChangeKind, Effect, LineChange, LineKind, ListenerChange, Plan, PoolChange, RouteChange, ServerChange, SettingChange,
    SiteChange,
};
use tidegate_control::plan as found;
use tidegate_control::plan::Change;

pub fn plan(plan: &found::Plan) -> Plan {
    let found::Plan { settings: of_process, listeners, sites, pools } = plan;
    Plan {
        empty: plan.is_empty(),
        summary: plan.summary(),
        text: plan.render(),
        settings: settings(of_process),
        listeners: listeners.iter().map(listener).collect(),
        sites: sites.iter().map(site).collect(),
        pools: pools.iter().map(pool).collect(),
    }
}

fn kind<D>(change: &Change<D>) -> ChangeKind {
    match change {
        Change::Added => ChangeKind::Added,
        Change::Removed => ChangeKind::Removed,
        Change::Changed(_) => ChangeKind::Changed,
    }
}

/// What is different, or nothing of everything where something came or went as a whole.
fn difference<D: Clone + Default>(change: &Change<D>) -> D {
    match change {
        Change::Added | Change::Removed => D::default(),
        Change::Changed(difference) => difference.clone(),
    }
}

fn effect(effect: found::Effect) -> Effect {
    match effect {
        found::Effect::Untouched => Effect::Untouched,
        found::Effect::ClientConnectionsDrained => Effect::ClientConnectionsDrained,
        found::Effect::ServerConnectionsClose => Effect::ServerConnectionsClose,
        found::Effect::WorkersLeave => Effect::WorkersLeave,
    }
}

fn settings(settings: &[found::SettingChange]) -> Vec<SettingChange> {
    let setting = |setting: &found::SettingChange| {
        let found::SettingChange { name, before, after, effect: on_connections } = setting.clone();
        SettingChange { name, before, after, effect: effect(on_connections) }
    };
    settings.iter().map(setting).collect()
}

fn lines(lines: &[found::LineChange]) -> Vec<LineChange> {
    let line = |line: &found::LineChange| match line.clone() {
        found::LineChange::Added(text) => LineChange { change: LineKind::Added, text },
        found::LineChange::Removed(text) => LineChange { change: LineKind::Removed, text },
        found::LineChange::Hidden(text) => LineChange { change: LineKind::Hidden, text },
    };
    lines.iter().map(line).collect()
}

fn listener(listener: &found::ListenerChange) -> ListenerChange {
    let found::ListenerChange { address, protocol, implied, change, effect: on_connections } = listener;
    ListenerChange {
        address: address.to_string(),
        scheme: scheme_name(*protocol),
        implied: *implied,
        change: kind(change),
        effect: effect(*on_connections),
        settings: settings(&difference(change)),
    }
}

fn site(site: &found::SiteChange) -> SiteChange {
    let found::SiteChange { site, change, effect: on_connections } = site;
    let found::SiteDifference { addresses_added, addresses_removed, settings: changed, steps, routes } = difference(change);
    SiteChange {
        site: site.clone(),
        change: kind(change),
        effect: effect(*on_connections),
        addresses_added,
        addresses_removed,
        settings: settings(&changed),
        steps: lines(&steps),
        routes: routes.iter().map(route).collect(),
    }
}

fn route(route: &found::RouteChange) -> RouteChange {
    let found::RouteChange { rank, title, change } = route;
    let (moved_from, changed) = match change {
        Change::Added | Change::Removed => (None, Vec::new()),
        Change::Changed(found::RouteDifference { moved_from, lines: changed }) => (*moved_from, lines(changed)),
    };
    RouteChange { rank: *rank, title: title.clone(), change: kind(change), moved_from, lines: changed }
}

fn pool(pool: &found::PoolChange) -> PoolChange {
    let found::PoolChange { pool, change, effect: on_connections } = pool;
    let found::PoolDifference { settings: changed, servers } = difference(change);
    PoolChange {
        pool: pool.clone(),
        change: kind(change),
        effect: effect(*on_connections),
        settings: settings(&changed),
        servers: servers.iter().map(server).collect(),
    }
}

fn server(server: &found::ServerChange) -> ServerChange {
    let found::ServerChange { server, change, effect: on_connections } = server;
    ServerChange {
        server: server.clone(),
        change: kind(change),
        effect: effect(*on_connections),
        settings: settings(&difference(change)),
    }
}
