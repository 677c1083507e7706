//! Services of Traefik for HTTP, as pools of ours.

use super::labels::{ASSUMED, ASSUMED_AT};
use super::{CHAIN_MAX, has_key};
use crate::accounts::Origin;
use crate::outline::{GroupedServer, NO_SHARE, OutlinedAnswer, ServerGroup, StickyCookie, is_plain, upstream};
use crate::tree::Tree;
use std::collections::BTreeSet;
use tidegate_kdl::quoted;

/// What answers for a service, and the steps in front of it.
#[derive(Debug)]
pub struct ServiceAnswer {
    pub answer: OutlinedAnswer,
    pub steps: Vec<String>,
}

/// Mirrors and services within services go no deeper.
const PARTS_MAX: usize = 64;

const UNCHECKED: &str = "Traefik has no failover of a service without a `healthCheck`, so that what would take it is answered with 503: \
                         write one, or `backup=#true` behind the servers of the second";

/// All that is said of a service itself.
pub fn statements(tree: &Tree, service: &str) -> BTreeSet<usize> {
    named(tree, service).0.statements()
}

/// Why there is no such service, though its servers are told.
pub fn fault(tree: &Tree, service: &str) -> Option<&'static str> {
    let failover = named(tree, service).0.get("failover");
    let (first, _) = named(tree, failover.get("service").text()?);
    let is_checked = ["loadBalancer", "weighted", "failover"].iter().any(|kind| has_key(first.get(kind), "healthCheck"));
    (!is_checked).then_some(UNCHECKED)
}

pub fn answer(tree: &Tree, service: &str, origin: &mut Origin) -> Option<ServiceAnswer> {
    answer_within(tree, service, 0, origin)
}

fn named<'t>(tree: &'t Tree, service: &str) -> (&'t Tree, String) {
    let name = super::own_name(service);
    (tree.at(&["http", "services", &name]), name)
}

fn answer_within(tree: &Tree, service: &str, depth: usize, origin: &mut Origin) -> Option<ServiceAnswer> {
    if depth > CHAIN_MAX {
        return None;
    }
    let (said, _) = named(tree, service);
    let mirroring = said.get("mirroring");
    if let Some(own) = mirroring.get("service").text() {
        let mut found = answer_within(tree, own, depth + 1, origin)?;
        origin.within.extend(mirroring.statements());
        origin.carry_all(mirroring.get("service").statements());
        mirrors(tree, mirroring, depth, origin, &mut found.steps);
        return Some(found);
    }
    let weighted = said.at(&["weighted", "services"]);
    if !weighted.is_nothing() {
        return split(tree, said, depth, origin);
    }
    let group = group_within(tree, service, depth)?;
    let mut steps = Vec::new();
    pass_host(said.get("loadBalancer"), &group, origin, &mut steps);
    Some(ServiceAnswer { answer: OutlinedAnswer::proxy(group), steps })
}

/// A server that is asked by its own name.
fn pass_host(balancer: &Tree, group: &ServerGroup, origin: &mut Origin, steps: &mut Vec<String>) {
    let pass = balancer.get("passHostHeader");
    if pass.text() != Some("false") {
        return;
    }
    let [server] = group.servers.as_slice() else { return };
    let (own, address) = match server.address.strip_prefix("https://") {
        Some(address) => (":443", address),
        None => (":80", server.address.as_str()),
    };
    let host = address.strip_suffix(own).unwrap_or(address);
    if is_plain(host) && !address.starts_with("unix:") {
        steps.push(format!("request-header \"Host\" {}", quoted(host)));
        origin.carry_all(pass.statements());
    }
}

fn mirrors(tree: &Tree, mirroring: &Tree, depth: usize, origin: &mut Origin, steps: &mut Vec<String>) {
    let most = mirroring.get("maxBodySize");
    let bytes = most.number().filter(|bytes| *bytes <= 16 << 20);
    for mirror in mirroring.get("mirrors").items().iter().take(PARTS_MAX) {
        let (name, percent) = (mirror.get("name"), mirror.get("percent"));
        let share = percent.number().unwrap_or(0).min(100);
        origin.carry_all(name.statements());
        origin.carry_all(percent.statements());
        if share == 0 {
            name.statements().into_iter().for_each(|at| origin.differ(at, "it gets no copies by this, so it is left out"));
            continue;
        }
        let Some(group) = name.text().and_then(|name| group_within(tree, name, depth + 1)) else { continue };
        let servers: Vec<String> = group.servers.iter().map(|server| quoted(&server.address)).collect();
        let bound = bytes.map(|bytes| format!(" body-max={bytes}")).unwrap_or_default();
        let block = if group.lines.is_empty() { String::new() } else { format!(" {{ {}; }}", group.lines.join("; ")) };
        steps.push(format!("mirror {} sample=\"{share}%\"{bound}{block}", servers.join(" ")));
        origin.add(&group.origin);
    }
    origin.carry_all(most.statements().into_iter().filter(|_| bytes.is_some()));
}

/// Services that share requests by their weights.
fn split(tree: &Tree, said: &Tree, depth: usize, origin: &mut Origin) -> Option<ServiceAnswer> {
    let weighted = said.get("weighted");
    let mut parts = Vec::new();
    origin.within.extend(weighted.statements());
    for part in weighted.get("services").items().iter().take(PARTS_MAX) {
        let (name, weight) = (part.get("name"), part.get("weight"));
        let share = u32::try_from(weight.number().unwrap_or(1)).unwrap_or(1);
        origin.carry_all(name.statements());
        origin.carry_all(weight.statements());
        if share == 0 {
            name.statements().into_iter().for_each(|at| origin.differ(at, NO_SHARE));
            continue;
        }
        parts.push((group_within(tree, name.text()?, depth + 1)?, share));
    }
    for at in weighted.get("sticky").statements() {
        origin.differ(at, "a client stays with its service by `split by=` and a cookie that the application sets");
    }
    match parts.len() {
        0 => None,
        1 => parts.pop().map(|(group, _)| ServiceAnswer { answer: OutlinedAnswer::proxy(group), steps: Vec::new() }),
        _ => Some(ServiceAnswer { answer: OutlinedAnswer::Split { shares: parts }, steps: Vec::new() }),
    }
}

pub fn http_group(tree: &Tree, service: &str) -> Option<ServerGroup> {
    group_within(tree, service, 0)
}

fn group_within(tree: &Tree, service: &str, depth: usize) -> Option<ServerGroup> {
    let (service, name) = named(tree, service);
    let failover = service.get("failover");
    let (first, second) = (failover.get("service"), failover.get("fallback"));
    if let Some((own, other)) = first.text().zip(second.text()).filter(|_| depth < CHAIN_MAX) {
        let mut group = group_within(tree, own, depth + 1)?;
        group.origin.within.extend(service.statements());
        group.origin.carry_all(first.statements());
        if let Some(fallback) = group_within(tree, other, depth + 1) {
            group.servers.extend(fallback.servers.into_iter().map(|server| GroupedServer { is_backup: true, ..server }));
            group.origin.add(&fallback.origin);
            group.origin.carry_all(second.statements());
            group.origin.carry_all(failover.get("healthCheck").statements());
        }
        return Some(group);
    }
    let balancer = service.get("loadBalancer");
    let mut group = ServerGroup::named(&name);
    group.origin.within = service.statements();
    for server in balancer.get("servers").items() {
        let url = server.get("url");
        let Some(address) = url.text().and_then(upstream) else { continue };
        if url.text().is_some_and(|url| url.starts_with("h2c://")) {
            group.add_line("protocol \"h2c\"");
        }
        let weight = server.get("weight").number().map(|weight| u32::try_from(weight).unwrap_or(256).min(256));
        if weight == Some(0) {
            group.origin.carry_all(url.statements());
            group.origin.differ(server.get("weight").start(), NO_SHARE);
            continue;
        }
        group.origin.carry_all(url.statements());
        group.origin.carry_all(server.get("weight").statements());
        if let Some((why, at)) = server.get(ASSUMED).text().zip(server.get(ASSUMED_AT).number()) {
            group.origin.differ(usize::try_from(at).unwrap_or_default(), why);
        }
        let fenced = server.get("fenced");
        group.origin.carry_all(fenced.statements());
        group.servers.push(GroupedServer { address, weight, is_backup: fenced.is_true(), ..GroupedServer::default() });
    }
    // What labels say of a container is what its address was made of.
    group.origin.carry_all(balancer.get("server").statements());
    transported(tree, balancer, &mut group);
    strategy(balancer, &mut group);
    sticky(balancer, &mut group);
    checked(balancer.get("healthCheck"), &mut group);
    passive(balancer.get("passiveHealthCheck"), &mut group);
    (!group.is_empty()).then_some(group)
}

/// How connections to servers are made: by a transport of the service's own, or by that of all.
fn transported(tree: &Tree, balancer: &Tree, group: &mut ServerGroup) {
    let named = balancer.get("serversTransport");
    let name = named.text().unwrap_or_default().split('@').next().unwrap_or_default();
    let own = tree.at(&["http", "serversTransports", name]);
    let transport = if own.is_nothing() { tree.get("serversTransport") } else { own };
    if transport.is_nothing() {
        return;
    }
    group.origin.within.extend(transport.statements());
    group.origin.carry_all(named.statements());
    let (verify, server_name, roots) =
        (transport.get("insecureSkipVerify"), transport.get("serverName"), transport.get("rootCAs"));
    let mut tls = Vec::new();
    if verify.is_true() {
        tls.push("verify=#false".to_owned());
        group.origin.carry_all(verify.statements());
    } else {
        if let Some(name) = server_name.text().filter(|name| is_plain(name)) {
            tls.push(format!("sni={}", quoted(name)));
            group.origin.carry_all(server_name.statements());
        }
        if let [file] = roots.texts().as_slice()
            && !file.contains('\n')
        {
            tls.push(format!("ca={}", quoted(file)));
            group.origin.carry_all(roots.statements());
        }
    }
    if let [certificate] = transport.get("certificates").items() {
        let (cert, key) = (certificate.get("certFile"), certificate.get("keyFile"));
        if let Some((file, of_key)) = cert.text().zip(key.text()) {
            tls.push(format!("cert={} key={}", quoted(file), quoted(of_key)));
            group.origin.carry_all(certificate.statements());
        }
    }
    let is_tls = group.servers.iter().any(|server| server.address.starts_with("https://"));
    if is_tls && !tls.is_empty() {
        group.add_line(format!("tls {}", tls.join(" ")));
    }
    let times = transport.get("forwardingTimeouts");
    let mut told = Vec::new();
    for (word, ours) in [("dialTimeout", "connect"), ("responseHeaderTimeout", "first-byte")] {
        let time = times.get(word);
        let Some(length) = time.text().and_then(milliseconds) else { continue };
        // None is without end there, and what is here without a word.
        if length > 0 {
            told.push(format!("{ours}=\"{length}ms\"").replace("000ms", "s"));
        }
        group.origin.carry_all(time.statements());
    }
    if !told.is_empty() {
        group.add_line(format!("timeout {}", told.join(" ")));
    }
    let idle = times.get("idleConnTimeout");
    if let Some(length) = idle.text().and_then(milliseconds).filter(|length| (100..=86_400_000).contains(length)) {
        group.add_line(format!("keep-alive idle=\"{length}ms\"").replace("000ms", "s"));
        group.origin.carry_all(idle.statements());
    }
    if transport.get("disableHTTP2").is_true() {
        group.add_line("protocol \"http1\"");
        group.origin.carry_all(transport.get("disableHTTP2").statements());
    }
    for at in transport.get("maxIdleConnsPerHost").statements() {
        group.origin.differ(at, "each thread keeps up to 512 idle connections to a server; `keep-alive connections=` says fewer");
    }
}

fn strategy(balancer: &Tree, group: &mut ServerGroup) {
    let said = balancer.get("strategy");
    let told = match said.text() {
        Some("p2c") => "balance \"p2c\"",
        Some("hrw") => "balance \"hash\" key=\"{client.ip}\"",
        Some("leasttime") => "balance \"ewma\"",
        Some(_) => "balance \"round-robin\"",
        None => return,
    };
    group.add_line(told);
    group.origin.carry_all(said.statements());
}

fn passive(check: &Tree, group: &mut ServerGroup) {
    if check.is_nothing() {
        return;
    }
    let failures = check.get("maxFailedAttempts").number().unwrap_or(1).clamp(1, 1000);
    group.add_line(format!("outlier failures={failures}"));
    for at in check.statements() {
        group.origin.differ(at, "failures in a row are counted, and a server is out for 10 seconds at first");
    }
}

/// The cookie by which clients stay.
fn sticky(balancer: &Tree, group: &mut ServerGroup) {
    if !has_key(balancer, "sticky") {
        return;
    }
    let cookie = balancer.at(&["sticky", "cookie"]);
    let (name, max_age) = (cookie.get("name"), cookie.get("maxAge"));
    let seconds = max_age.number().filter(|seconds| (1..=400 * 86_400).contains(seconds));
    let mut sticky = StickyCookie::named(name.text().unwrap_or("tg_route"));
    sticky.lasts(seconds.map(|seconds| format!("{seconds}s")));
    group.origin.carry_all(name.statements());
    group.origin.carry_all(max_age.statements().into_iter().filter(|_| seconds.is_some()));
    for word in ["secure", "httpOnly", "sameSite", "path", "domain"] {
        let told = cookie.get(word);
        // Without a word it is `Secure` over TLS here, and never for scripts.
        let is_carried = match word {
            "secure" | "httpOnly" => told.is_true() && sticky.set(word, ""),
            _ => told.text().is_some_and(|value| sticky.set(word, value)),
        };
        for at in told.statements() {
            if is_carried { group.origin.carry(at) } else { group.origin.differ(at, STICKY) }
        }
    }
    group.add_line(sticky.line());
    for whole in [balancer.get("sticky"), cookie] {
        group
            .origin
            .carry_all(whole.text().map(|_| whole.start()).into_iter().chain(Some(whole.start()).filter(|_| whole.is_nothing())));
    }
}

const STICKY: &str =
    "the cookie is `HttpOnly` always and over TLS `Secure`, without a word `SameSite=Lax` and for the whole of the site";

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
    for (name, value) in check.get("headers").entries() {
        if let Some(text) = value.text().filter(|_| is_plain(name)) {
            line.push_str(&format!(" header={}", quoted(&format!("{name}: {}", super::middlewares::without_braces(text)))));
            carried.extend(value.statements());
        }
    }
    for at in check.get("unhealthyInterval").statements() {
        group.origin.differ(at, "a server that is down is asked once a second; `interval-down=` says otherwise");
    }
    for at in check.get("followRedirects").statements() {
        group.origin.differ(at, "a redirect is as good as its status, and is not followed");
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
        "h" | "h0m0s" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(of_one)
}
