//! A plan as text: one line of summary, and readable lines with `+`, `-` and `~`. Whoever wants data reads the plan
//! itself.

use super::HIDDEN_VALUE;
use crate::titles::shown_address;
use tidegate_api::{
    ChangeKind, Effect, LineChange, LineKind, ListenerChange, Plan, PoolChange, RouteChange, SettingChange, SiteChange,
};

const INDENT: &str = "    ";

/// Half a sentence, for behind a colon; `None` when no connection is touched.
fn sentence(effect: Effect) -> Option<&'static str> {
    match effect {
        Effect::Untouched => None,
        Effect::ClientConnectionsDrained => Some("its connections are drained"),
        Effect::ServerConnectionsClose => Some("requests in flight on it finish, its idle connections close"),
        Effect::WorkersLeave => Some("connections of workers that leave are kept until they end"),
    }
}

/// `2 routes changed, 1 server added, no listener touched`. What came or went as a whole is counted once, without its
/// parts.
pub fn summary(plan: &Plan) -> String {
    if plan.empty {
        return "nothing changes".to_owned();
    }
    let mut parts = Vec::new();
    count(&mut parts, "setting", [0, 0, plan.settings.len()]);
    let listeners = tally(plan.listeners.iter().map(|listener| listener.change));
    count(&mut parts, "listener", listeners);
    // Of what is only changed in its parts, the parts are counted.
    let itself = |site: &&SiteChange| {
        let SiteChange { addresses_added, addresses_removed, settings, steps, .. } = site;
        let are_equal = addresses_added.is_empty() && addresses_removed.is_empty() && settings.is_empty() && steps.is_empty();
        site.change != ChangeKind::Changed || !are_equal
    };
    count(&mut parts, "site", tally(plan.sites.iter().filter(itself).map(|site| site.change)));
    let routes = plan.sites.iter().flat_map(|site| &site.routes);
    count(&mut parts, "route", tally(routes.map(|route| route.change)));
    let itself = |pool: &&PoolChange| pool.change != ChangeKind::Changed || !pool.settings.is_empty();
    count(&mut parts, "pool", tally(plan.pools.iter().filter(itself).map(|pool| pool.change)));
    let servers = plan.pools.iter().flat_map(|pool| &pool.servers);
    count(&mut parts, "server", tally(servers.map(|server| server.change)));
    if listeners == [0, 0, 0] {
        parts.push("no listener touched".to_owned());
    }
    parts.join(", ")
}

/// One line for each difference, those of a part indented below it. Empty for an empty plan.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    settings_below(&mut out, 0, &plan.settings);
    for listener in &plan.listeners {
        render_listener(&mut out, listener);
    }
    for site in &plan.sites {
        render_site(&mut out, site);
    }
    for pool in &plan.pools {
        render_pool(&mut out, pool);
    }
    out
}

/// How many were added, removed and changed.
fn tally(changes: impl Iterator<Item = ChangeKind>) -> [usize; 3] {
    let mut tally = [0; 3];
    for change in changes {
        let kind = match change {
            ChangeKind::Added => 0,
            ChangeKind::Removed => 1,
            ChangeKind::Changed => 2,
        };
        tally[kind] += 1;
    }
    tally
}

fn count(parts: &mut Vec<String>, what: &str, tally: [usize; 3]) {
    for (count, verb) in tally.into_iter().zip(["added", "removed", "changed"]) {
        if count > 0 {
            parts.push(format!("{count} {what}{} {verb}", if count == 1 { "" } else { "s" }));
        }
    }
}

fn line(out: &mut String, depth: usize, mark: char, text: &str) {
    out.push_str(&INDENT.repeat(depth));
    out.push(mark);
    out.push(' ');
    out.push_str(text);
    out.push('\n');
}

fn mark(change: ChangeKind) -> char {
    match change {
        ChangeKind::Added => '+',
        ChangeKind::Removed => '-',
        ChangeKind::Changed => '~',
    }
}

fn with_effect(text: String, effect: Effect) -> String {
    match sentence(effect) {
        Some(sentence) => format!("{text}: {sentence}"),
        None => text,
    }
}

fn setting_text(setting: &SettingChange) -> String {
    let SettingChange { name, before, after, effect } = setting;
    let shown = |value: &str| if value.is_empty() { "not set".to_owned() } else { value.to_owned() };
    let values = if before == after { after.clone() } else { format!("{} → {}", shown(before), shown(after)) };
    match sentence(*effect) {
        Some(sentence) => format!("{name}: {values} ({sentence})"),
        None => format!("{name}: {values}"),
    }
}

fn settings_below(out: &mut String, depth: usize, settings: &[SettingChange]) {
    for setting in settings {
        line(out, depth, '~', &setting_text(setting));
    }
}

fn render_listener(out: &mut String, listener: &ListenerChange) {
    let implied = if listener.implied { ", for redirects to HTTPS" } else { "" };
    let text = format!("listener {}, {}{implied}", shown_address(&listener.address), listener.scheme);
    line(out, 0, mark(listener.change), &with_effect(text, listener.effect));
    settings_below(out, 1, &listener.settings);
}

fn render_site(out: &mut String, site: &SiteChange) {
    line(out, 0, mark(site.change), &with_effect(format!("site {}", site.site), site.effect));
    for address in &site.addresses_removed {
        line(out, 1, '-', &format!("address {address}"));
    }
    for address in &site.addresses_added {
        line(out, 1, '+', &format!("address {address}"));
    }
    settings_below(out, 1, &site.settings);
    lines_below(out, 1, &site.steps);
    for route in &site.routes {
        render_route(out, route);
    }
}

fn render_route(out: &mut String, route: &RouteChange) {
    let moved = route.moved_from.map(|from| format!(" (moved from {from})")).unwrap_or_default();
    line(out, 1, mark(route.change), &format!("{}: {}{moved}", route.rank, route.title));
    lines_below(out, 2, &route.lines);
}

fn lines_below(out: &mut String, depth: usize, lines: &[LineChange]) {
    for LineChange { change, text } in lines {
        match change {
            LineKind::Removed => line(out, depth, '-', text),
            LineKind::Added => line(out, depth, '+', text),
            LineKind::Hidden => line(out, depth, '~', &format!("{text} {HIDDEN_VALUE}")),
        }
    }
}

fn render_pool(out: &mut String, pool: &PoolChange) {
    line(out, 0, mark(pool.change), &with_effect(format!("pool {}", pool.pool), pool.effect));
    settings_below(out, 1, &pool.settings);
    for server in &pool.servers {
        let mut text = format!("server {}", server.server);
        if server.change == ChangeKind::Changed {
            let settings: Vec<String> = server.settings.iter().map(setting_text).collect();
            text = format!("{text} {}", settings.join(", "));
        }
        line(out, 1, mark(server.change), &with_effect(text, server.effect));
    }
}
