//! Servers that a Caddyfile hands on to, and the layer4 app.

use super::variables;
use crate::foreign::accounts::Origin;
use crate::foreign::braces::{Statement, has_within, named};
use crate::foreign::outline::{Door, GroupedServer, Outline, OutlinedTcp, ServerGroup, Service, is_plain, tcp_address, upstream};

const UNLIKE: &str = "a pool speaks to all of its servers alike: those of another scheme are left out";

/// The servers of a directive, of which all is `within` that it says.
pub fn group(directive: &Statement, arguments: &[String]) -> Option<ServerGroup> {
    let inside = directive.inside();
    let mut group = ServerGroup::named("app");
    group.origin.within = super::words::places([directive]);
    group.origin.carry(directive.start());
    servers(directive, arguments, &mut group);
    for dynamic in named(inside, "dynamic").filter(|dynamic| dynamic.argument() == "a") {
        let of = |name: &str| named(dynamic.inside(), name).next().map(|line| line.argument().to_owned());
        let (name, port) = match dynamic.arguments() {
            [_, name, port, ..] => (name.clone(), port.clone()),
            _ => (of("name")?, of("port")?),
        };
        group.add_line(format!("discover dns=\"{name}:{port}\""));
        group.origin.carry(dynamic.start());
    }
    for line in inside {
        let told = match (line.name(), line.argument()) {
            ("lb_policy", "least_conn") => Some("balance \"least-conn\"".to_owned()),
            ("lb_policy", "ip_hash" | "client_ip_hash") => Some("balance \"hash\" key=\"{client.ip}\"".to_owned()),
            ("lb_policy", "uri_hash") => Some("balance \"hash\" key=\"{uri}\"".to_owned()),
            ("lb_policy", "random") => Some("balance \"random\"".to_owned()),
            ("lb_policy", "cookie") => Some("sticky cookie=\"tg_route\"".to_owned()),
            ("health_uri", path) if path.starts_with('/') && is_plain(path) => Some(format!("health \"{path}\"")),
            _ => None,
        };
        if let Some(told) = told {
            group.add_line(told);
            group.origin.carry(line.start());
        }
    }
    named(inside, "transport").for_each(|transport| of_transport(transport, &mut group));
    (!group.is_empty()).then_some(group)
}

fn servers(directive: &Statement, arguments: &[String], group: &mut ServerGroup) {
    let to = named(directive.inside(), "to").flat_map(Statement::arguments);
    let mut first = None;
    for written in arguments.iter().chain(to) {
        let written = variables(written).replace("unix//", "unix:/").replace("unix+h2c/", "unix:");
        let default = written.strip_prefix("{env.").and_then(|rest| rest.split_once(":-"));
        let written = default.map_or_else(|| written.clone(), |(_, default)| default.replacen('}', "", 1));
        let Some(address) = upstream(&written) else {
            group.origin.differ(directive.start(), "a server that has no address here is left out");
            continue;
        };
        let scheme = (written.starts_with("h2c://"), address.starts_with("https://"));
        if *first.get_or_insert(scheme) != scheme {
            group.origin.differ(directive.start(), UNLIKE);
            continue;
        }
        if scheme.0 {
            group.add_line("protocol \"h2c\"");
        }
        group.servers.push(GroupedServer::at(address));
    }
}

fn of_transport(transport: &Statement, group: &mut ServerGroup) {
    let inside = transport.inside();
    let is_tls = inside.iter().any(|line| line.name().starts_with("tls"));
    if is_tls {
        *group = std::mem::take(group).over_tls();
    }
    for line in inside {
        let told = match (line.name(), line.argument()) {
            ("tls", "") => None,
            ("tls_insecure_skip_verify", _) => Some("tls verify=#false".to_owned()),
            ("tls_server_name", name) if is_plain(name) && !has_within(inside, "tls_insecure_skip_verify") => {
                Some(format!("tls sni=\"{name}\""))
            }
            ("proxy_protocol", version @ ("v1" | "v2")) => Some(format!("send-proxy-protocol \"{version}\"")),
            ("versions", "h2c") => Some("protocol \"h2c\"".to_owned()),
            ("versions", "1.1") if line.arguments().len() == 1 => Some("protocol \"http1\"".to_owned()),
            _ => continue,
        };
        if let Some(told) = told {
            group.add_line(told);
        }
        group.origin.carry(line.start());
    }
}

/// A server of the layer4 app: an address, with routes by name or for all.
pub fn layer4(server: &Statement, outline: &mut Outline) {
    let inside = server.inside();
    let mut origin = Origin { within: super::words::places([server]), ..Origin::default() };
    let (mut by_name, mut otherwise) = (Vec::new(), None);
    for route in named(inside, "route") {
        let matcher = named(inside, route.argument()).next().filter(|_| route.argument().starts_with('@'));
        let proxy = named(route.inside(), "proxy").next();
        let Some(group) = proxy.and_then(targets) else { continue };
        let names = matcher.map(names);
        match names {
            Some(Some(names)) => by_name.push((names, group)),
            None if route.argument().is_empty() => otherwise = Some(group),
            Some(None) | None => {
                // Who is sent there is said by what no line of ours has.
                origin.differ(route.start(), "what it takes goes where all else does: its matcher is not in these lines");
                continue;
            }
        }
        origin.carry(route.start());
    }
    if otherwise.is_none()
        && let Some(group) = named(inside, "proxy").next().and_then(targets)
    {
        otherwise = Some(group);
    }
    if otherwise.is_none() && by_name.is_empty() {
        return;
    }
    for word in server.words.iter().map(|word| word.trim_end_matches(',')) {
        let Some(door) = Door::parse(word.trim_start_matches("tcp/"), false) else { continue };
        let mut origin = origin.clone();
        origin.carry(server.start());
        let address = tcp_address(door.ip, door.port);
        let tcp = OutlinedTcp { address, by_name: by_name.clone(), otherwise: otherwise.clone(), origin };
        outline.services.push(Service::Tcp(tcp));
    }
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
