//! A plan as text: one line of summary, and readable lines with `+`, `-` and `~`. Whoever wants data reads the plan itself.

use super::{
    Change, Effect, LineChange, ListenerChange, Plan, PoolChange, PoolDifference, RouteChange, ServerChange, SettingChange,
    SiteChange, SiteDifference,
};
use tidegate_model::listening::shown_address;

const INDENT: &str = "    ";

impl Effect {
    /// Half a sentence, for behind a colon; `None` when no connection is touched.
    pub fn sentence(self) -> Option<&'static str> {
        match self {
            Effect::Untouched => None,
            Effect::ClientConnectionsDrained => Some("its connections are drained"),
            Effect::ServerConnectionsClose => Some("requests in flight on it finish, its idle connections close"),
            Effect::WorkersLeave => Some("connections of workers that leave are kept until they end"),
        }
    }
}

impl Plan {
    /// `2 routes changed, 1 server added, no listener touched`. What came or went as a whole is counted once, without its parts.
    pub fn summary(&self) -> String {
        if self.is_empty() {
            return "nothing changes".to_owned();
        }
        let mut parts = Vec::new();
        count(&mut parts, "setting", [0, 0, self.settings.len()]);
        let listeners = tally(self.listeners.iter().map(|listener| &listener.change));
        count(&mut parts, "listener", listeners);
        let site_itself = |difference: &SiteDifference| {
            let SiteDifference { addresses_added, addresses_removed, settings, steps, routes: _ } = difference;
            !(addresses_added.is_empty() && addresses_removed.is_empty() && settings.is_empty() && steps.is_empty())
        };
        count(&mut parts, "site", tally_if(self.sites.iter().map(|site| &site.change), site_itself));
        count(&mut parts, "route", tally(self.route_changes().map(|route| &route.change)));
        let pool_itself = |difference: &PoolDifference| !difference.settings.is_empty();
        count(&mut parts, "pool", tally_if(self.pools.iter().map(|pool| &pool.change), pool_itself));
        count(&mut parts, "server", tally(self.server_changes().map(|server| &server.change)));
        if listeners == [0, 0, 0] {
            parts.push("no listener touched".to_owned());
        }
        parts.join(", ")
    }

    /// One line for each difference, those of a part indented below it. Empty for an empty plan.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for setting in &self.settings {
            line(&mut out, 0, '~', &setting_text(setting));
        }
        for listener in &self.listeners {
            render_listener(&mut out, listener);
        }
        for site in &self.sites {
            render_site(&mut out, site);
        }
        for pool in &self.pools {
            render_pool(&mut out, pool);
        }
        out
    }

    fn route_changes(&self) -> impl Iterator<Item = &RouteChange> {
        self.sites.iter().flat_map(|site| match &site.change {
            Change::Changed(difference) => difference.routes.as_slice(),
            Change::Added | Change::Removed => &[],
        })
    }

    fn server_changes(&self) -> impl Iterator<Item = &ServerChange> {
        self.pools.iter().flat_map(|pool| match &pool.change {
            Change::Changed(difference) => difference.servers.as_slice(),
            Change::Added | Change::Removed => &[],
        })
    }
}

/// How many were added, removed and changed.
fn tally<'a, D: 'a>(changes: impl Iterator<Item = &'a Change<D>>) -> [usize; 3] {
    tally_if(changes, |_| true)
}

fn tally_if<'a, D: 'a>(changes: impl Iterator<Item = &'a Change<D>>, counts: impl Fn(&D) -> bool) -> [usize; 3] {
    let mut tally = [0; 3];
    for change in changes {
        match change {
            Change::Added => tally[0] += 1,
            Change::Removed => tally[1] += 1,
            Change::Changed(difference) => tally[2] += usize::from(counts(difference)),
        }
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

fn mark<D>(change: &Change<D>) -> char {
    match change {
        Change::Added => '+',
        Change::Removed => '-',
        Change::Changed(_) => '~',
    }
}

fn with_effect(text: String, effect: Effect) -> String {
    match effect.sentence() {
        Some(sentence) => format!("{text}: {sentence}"),
        None => text,
    }
}

fn setting_text(setting: &SettingChange) -> String {
    let SettingChange { name, before, after, effect } = setting;
    let shown = |value: &str| if value.is_empty() { "not set".to_owned() } else { value.to_owned() };
    let values = if before == after { after.clone() } else { format!("{} → {}", shown(before), shown(after)) };
    match effect.sentence() {
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
    let ListenerChange { address, protocol, implied, change, effect } = listener;
    let implied = if *implied { ", for redirects to HTTPS" } else { "" };
    let text = format!("listener {}, {}{implied}", shown_address(*address), protocol.as_str());
    line(out, 0, mark(change), &with_effect(text, *effect));
    if let Change::Changed(settings) = change {
        settings_below(out, 1, settings);
    }
}

fn render_site(out: &mut String, site: &SiteChange) {
    line(out, 0, mark(&site.change), &with_effect(format!("site {}", site.site), site.effect));
    let Change::Changed(difference) = &site.change else { return };
    let SiteDifference { addresses_added, addresses_removed, settings, steps, routes } = difference;
    for address in addresses_removed {
        line(out, 1, '-', &format!("address {address}"));
    }
    for address in addresses_added {
        line(out, 1, '+', &format!("address {address}"));
    }
    settings_below(out, 1, settings);
    lines_below(out, 1, steps);
    for route in routes {
        render_route(out, route);
    }
}

fn render_route(out: &mut String, route: &RouteChange) {
    let text = format!("{}: {}", route.rank, route.title);
    match &route.change {
        Change::Added | Change::Removed => line(out, 1, mark(&route.change), &text),
        Change::Changed(difference) => {
            let moved = difference.moved_from.map(|from| format!(" (moved from {from})")).unwrap_or_default();
            line(out, 1, '~', &format!("{text}{moved}"));
            lines_below(out, 2, &difference.lines);
        }
    }
}

fn lines_below(out: &mut String, depth: usize, lines: &[LineChange]) {
    for change in lines {
        match change {
            LineChange::Removed(text) => line(out, depth, '-', text),
            LineChange::Added(text) => line(out, depth, '+', text),
            LineChange::Hidden(text) => line(out, depth, '~', &format!("{text} {}", super::HIDDEN_VALUE)),
        }
    }
}

fn render_pool(out: &mut String, pool: &PoolChange) {
    line(out, 0, mark(&pool.change), &with_effect(format!("pool {}", pool.pool), pool.effect));
    let Change::Changed(PoolDifference { settings, servers }) = &pool.change else { return };
    settings_below(out, 1, settings);
    for server in servers {
        let mut text = format!("server {}", server.server);
        if let Change::Changed(settings) = &server.change {
            let settings: Vec<String> = settings.iter().map(setting_text).collect();
            text = format!("{text} {}", settings.join(", "));
        }
        line(out, 1, mark(&server.change), &with_effect(text, server.effect));
    }
}
