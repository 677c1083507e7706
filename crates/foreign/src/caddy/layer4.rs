//! The layer4 app: connections that are handed on as they are, by the name in their ClientHello or all of an address.
//! A route with any other matcher or handler is none of ours; what it would have kept from the routes behind it is not
//! handed on at all.

use super::pools::group;
use super::words;
use crate::accounts::{Origin, StatementKind, Weight};
use crate::braces::{Statement, named};
use crate::outline::{Door, GroupedServer, Outline, OutlinedTcp, ServerGroup, Service, tcp_address, upstream};
use crate::tree::Tree;
use std::collections::BTreeSet;

const OTHER: &str = "connections are handed on by the name in their ClientHello, or all of a port: what else is asked of one, and what else is done \
                     with one than `proxy`, is not here, so neither this nor what stands behind it is handed on: a firewall says who may come, and `proxy` in the `tcp` opens it to all";
const NEVER: &str = "what stands in front of it takes all connections";

/// What a server of the app hands on.
#[derive(Default)]
struct Connections {
    by_name: Vec<(Vec<String>, ServerGroup)>,
    otherwise: Option<ServerGroup>,
    origin: Origin,
    /// What is in a route that is none of ours, and in those behind it: what these take is not handed on.
    left: BTreeSet<usize>,
    /// What is done with all connections, and is not known.
    guards: BTreeSet<usize>,
}

impl Connections {
    /// Opens the addresses, without effect where something is left that may keep somebody out.
    fn open(mut self, addresses: Vec<String>, outline: &mut Outline) {
        for at in self.guards.iter().chain(&self.left) {
            outline.reasons.insert(*at, OTHER.to_owned());
        }
        for statement in &mut outline.statements {
            if self.guards.contains(&statement.at) {
                statement.kind = StatementKind::Needed(Weight::Protection);
            } else if self.left.contains(&statement.at) {
                statement.kind = StatementKind::Needed(Weight::Answer);
            }
        }
        if self.otherwise.is_none() && self.by_name.is_empty() {
            return;
        }
        self.origin.within.retain(|at| !self.left.contains(at));
        for address in addresses {
            let tcp = OutlinedTcp {
                address,
                by_name: self.by_name.clone(),
                otherwise: self.otherwise.clone(),
                origin: self.origin.clone(),
                is_guessed: false,
            };
            outline.services.push(Service::Tcp(tcp));
        }
    }
}

/// A server of a Caddyfile.
pub fn of_file(server: &Statement, outline: &mut Outline) {
    let inside = server.inside();
    let mut all = Connections::default();
    all.origin.within = words::places([server]);
    for route in named(inside, "route") {
        if all.otherwise.is_some() {
            for at in words::places([route]) {
                all.origin.differ(at, NEVER);
            }
            continue;
        }
        if !all.left.is_empty() {
            all.left.extend(words::places([route]));
            continue;
        }
        let is_named = route.argument().starts_with('@');
        let matcher = named(inside, route.argument()).next().filter(|_| is_named);
        let group = match route.inside() {
            [proxy] if proxy.name() == "proxy" && route.arguments().len() <= 1 => targets(proxy),
            _ => None,
        };
        match (group, matcher.map(names)) {
            (Some(group), Some(Some(names))) => all.by_name.push((names, group)),
            (Some(group), None) if route.argument().is_empty() => all.otherwise = Some(group),
            (Some(_) | None, _) => {
                all.left.extend(words::places([route].into_iter().chain(matcher)));
                continue;
            }
        }
        all.origin.carry_all(words::places(matcher));
        all.origin.carry(route.start());
    }
    if all.otherwise.is_none() && named(inside, "route").next().is_none() {
        all.otherwise = named(inside, "proxy").next().and_then(targets);
    }
    // What is no route, and is done with all of them.
    let is_known =
        |line: &&Statement| line.name().starts_with('@') || matches!(line.name(), "route" | "proxy" | "matching_timeout");
    all.guards.extend(words::places(inside.iter().filter(|line| !is_known(line))));
    all.origin.carry(server.start());
    let doors = server.words.iter().map(|word| word.trim_end_matches(','));
    let doors = doors.filter_map(|word| Door::parse(word.trim_start_matches("tcp/"), false));
    all.open(doors.map(|door| tcp_address(door.ip, door.port)).collect(), outline);
}

/// The names of a matcher that has nothing else.
fn names(matcher: &Statement) -> Option<Vec<String>> {
    let lines: Vec<&[String]> = match (matcher.words.get(1..), matcher.inside()) {
        (Some([tls, sni, ..]), []) if tls == "tls" && sni == "sni" => vec![&matcher.words[2..]],
        (Some([]) | None, [tls]) if tls.name() == "tls" && tls.words.len() > 2 => vec![&tls.words[1..]],
        (Some([]) | None, [tls]) if tls.name() == "tls" => tls.inside().iter().map(|line| line.words.as_slice()).collect(),
        (Some([tls]), lines) if tls == "tls" => lines.iter().map(|line| line.words.as_slice()).collect(),
        _ => return None,
    };
    let words = match lines.as_slice() {
        [[sni, names @ ..]] if sni == "sni" => names,
        [names] if matcher.words.len() > 2 => names,
        _ => return None,
    };
    (!words.is_empty()).then(|| words.to_vec())
}

fn targets(proxy: &Statement) -> Option<ServerGroup> {
    let more = named(proxy.inside(), "upstream").flat_map(Statement::arguments);
    let all: Vec<String> = proxy.arguments().iter().chain(more).cloned().collect();
    let mut group = group(&Statement { block: None, ..proxy.clone() }, &all)?;
    for line in proxy.inside() {
        match (line.name(), line.argument()) {
            ("upstream", _) => group.origin.carry(line.start()),
            ("proxy_protocol", version @ ("v1" | "v2")) => {
                group.add_line(format!("send-proxy-protocol \"{version}\""));
                group.origin.carry(line.start());
            }
            _ => {
                group.origin.within.insert(line.start());
            }
        }
    }
    Some(group)
}

/// A server of Caddy's JSON.
pub fn of_json(server: &Tree, outline: &mut Outline) {
    let mut all = Connections::default();
    all.origin.within = server.statements();
    all.origin.carry_all(server.get("listen").statements());
    for route in server.get("routes").items() {
        if all.otherwise.is_some() {
            for at in route.statements() {
                all.origin.differ(at, NEVER);
            }
            continue;
        }
        if !all.left.is_empty() {
            all.left.extend(route.statements());
            continue;
        }
        let sets = route.get("match").items();
        let is_name = |set: &Tree| {
            set.entries().iter().all(|(name, tls)| name == "tls" && tls.entries().iter().all(|(name, _)| name == "sni"))
        };
        let names: Vec<String> = sets.iter().flat_map(|set| set.at(&["tls", "sni"]).texts()).collect();
        let has_names = |set: &Tree| !set.at(&["tls", "sni"]).texts().is_empty();
        let group = match route.get("handle").items() {
            [proxy] if proxy.get("handler").text() == Some("proxy") => servers(proxy),
            _ => None,
        };
        let Some(group) = group.filter(|_| sets.iter().all(|set| is_name(set) && has_names(set))) else {
            all.left.extend(route.statements());
            continue;
        };
        all.origin.carry_all(route.get("match").statements());
        if sets.is_empty() { all.otherwise = Some(group) } else { all.by_name.push((names, group)) }
    }
    let doors = server.get("listen").texts();
    let doors = doors.iter().filter_map(|listen| Door::parse(listen.trim_start_matches("tcp/"), false));
    all.open(doors.map(|door| tcp_address(door.ip, door.port)).collect(), outline);
}

fn servers(handler: &Tree) -> Option<ServerGroup> {
    let mut group = ServerGroup::named("app");
    group.origin.within = handler.statements();
    for server in handler.get("upstreams").items() {
        for address in server.get("dial").texts().iter().filter_map(|dial| upstream(dial)) {
            group.servers.push(GroupedServer::at(address));
            group.origin.carry_all(server.get("dial").statements());
        }
    }
    (!group.servers.is_empty()).then_some(group)
}
