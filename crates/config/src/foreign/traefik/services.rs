//! Services of Traefik for HTTP, as pools of ours.

use super::{CHAIN_MAX, has_key};
use crate::foreign::outline::{GroupedServer, NO_SHARE, ServerGroup, is_plain, upstream};
use crate::foreign::tree::Tree;

pub fn http_group(tree: &Tree, service: &str) -> Option<ServerGroup> {
    group_within(tree, service, 0)
}

fn group_within(tree: &Tree, service: &str, depth: usize) -> Option<ServerGroup> {
    let name = service.split('@').next().unwrap_or_default();
    let service = tree.at(&["http", "services", name]);
    let first = service.at(&["failover", "service"]);
    if let Some((own, _)) = first.text().zip(service.at(&["failover", "fallback"]).text()).filter(|_| depth < CHAIN_MAX) {
        let mut group = group_within(tree, own, depth + 1)?;
        group.origin.within.extend(service.statements());
        return Some(group);
    }
    let balancer = service.get("loadBalancer");
    let mut group = ServerGroup::named(name);
    group.origin.within = service.statements();
    for server in balancer.get("servers").items() {
        let url = server.get("url");
        let Some(address) = url.text().and_then(upstream) else { continue };
        if url.text().is_some_and(|url| url.starts_with("h2c://")) {
            group.add_line("protocol \"h2c\"");
        }
        let weight = server.get("weight").number().map(|weight| weight as u32);
        if weight == Some(0) {
            group.origin.carry_all(url.statements());
            group.origin.differ(server.get("weight").start(), NO_SHARE);
            continue;
        }
        group.origin.carry_all(url.statements());
        group.origin.carry_all(server.get("weight").statements());
        group.servers.push(GroupedServer { address, weight, ..GroupedServer::default() });
    }
    // What labels say of a container is what its address was made of.
    group.origin.carry_all(balancer.get("server").statements());
    let named = balancer.get("serversTransport");
    let transport = named.text().unwrap_or_default();
    let transport = tree.at(&["http", "serversTransports", transport.split('@').next().unwrap_or_default()]);
    if !transport.is_nothing() {
        group.origin.within.extend(transport.statements());
        group.origin.carry_all(named.statements());
    }
    let (verify, server_name) = (transport.get("insecureSkipVerify"), transport.get("serverName"));
    if verify.is_true() {
        group.add_line("tls verify=#false");
        group.origin.carry_all(verify.statements());
    } else if let Some(name) = server_name.text().filter(|name| is_plain(name)) {
        group.add_line(format!("tls sni=\"{name}\""));
        group.origin.carry_all(server_name.statements());
    }
    sticky(balancer, &mut group);
    checked(balancer.get("healthCheck"), &mut group);
    (!group.is_empty()).then_some(group)
}

/// The cookie by which clients stay. Ours has no other settings: what else is said of it is not carried.
fn sticky(balancer: &Tree, group: &mut ServerGroup) {
    if !has_key(balancer, "sticky") {
        return;
    }
    let cookie = balancer.at(&["sticky", "cookie"]);
    let (name, max_age) = (cookie.get("name"), cookie.get("maxAge"));
    let seconds = max_age.number().filter(|seconds| (1..=400 * 86_400).contains(seconds));
    let written = seconds.map(|seconds| format!(" max-age=\"{seconds}s\"")).unwrap_or_default();
    group.add_line(format!("sticky cookie=\"{}\"{written}", name.text().unwrap_or("tg_route")));
    group.origin.carry_all(name.statements());
    group.origin.carry_all(max_age.statements().into_iter().filter(|_| seconds.is_some()));
    for whole in [balancer.get("sticky"), cookie] {
        group
            .origin
            .carry_all(whole.text().map(|_| whole.start()).into_iter().chain(Some(whole.start()).filter(|_| whole.is_nothing())));
    }
}

/// Between two questions, without a word.
const INTERVAL: u64 = 30_000;

fn checked(check: &Tree, group: &mut ServerGroup) {
    let path = check.get("path");
    let Some(told) = path.text().filter(|path| path.starts_with('/') && is_plain(path)) else { return };
    let mut line = format!("health \"{told}\"");
    let mut carried = path.statements();
    let mode = check.get("mode");
    if mode.text().is_some_and(|mode| mode != "http") {
        return;
    }
    carried.extend(mode.statements());
    let (interval, timeout) = (check.get("interval"), check.get("timeout"));
    let every = interval.text().and_then(milliseconds).filter(|every| (50..=3_600_000).contains(every));
    let longest = every.unwrap_or(INTERVAL);
    let within = timeout.text().and_then(milliseconds).filter(|within| (10..=longest).contains(within));
    if every.is_some() || within.is_some() {
        line.push_str(&format!(" interval=\"{longest}ms\"").replace("000ms", "s"));
        carried.extend(interval.statements());
    }
    if let Some(within) = within {
        line.push_str(&format!(" timeout=\"{within}ms\"").replace("000ms", "s"));
        carried.extend(timeout.statements());
    }
    let port = check.get("port");
    if let Some(told) = port.number().filter(|port| (1..=65_535).contains(port)) {
        line.push_str(&format!(" port={told}"));
        carried.extend(port.statements());
    }
    for (theirs, ours) in [("hostname", "host"), ("method", "method"), ("status", "expect")] {
        let said = check.get(theirs);
        if let Some(told) = said.text().filter(|text| !text.is_empty() && is_plain(text) && !text.contains('*')) {
            line.push_str(&format!(" {ours}=\"{told}\""));
            carried.extend(said.statements());
        }
    }
    group.add_line(line);
    group.origin.carry_all(carried);
}

/// `10s`, `500ms`, `1m`, and seconds alone.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let of_one = match unit {
        "ms" => 1,
        "s" | "" => 1000,
        "m" | "m0s" => 60_000,
        _ => return None,
    };
    number.checked_mul(of_one)
}
