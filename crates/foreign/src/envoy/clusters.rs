//! Clusters of Envoy as pools of ours.

use crate::outline::{GroupedServer, NO_SHARE, ServerGroup, is_plain, upstream};
use crate::tree::Tree;
use std::net::IpAddr;
use tidegate_kdl::quoted;

const UNVERIFIED: &str = "without `trusted_ca` Envoy takes any certificate of a server, and here it is verified: `tls ca=` of a \
                          pool names who has signed it";

pub const BY_POLICY: &str = "what is hashed there is said by `hash_policy` of a route, and here it is the client's address: `key=` takes \
                         cookies and fields, and `sticky` sets a cookie";

pub fn cluster(tree: &Tree) -> Option<ServerGroup> {
    let mut group = ServerGroup::named(tree.get("name").text()?);
    group.origin.within = tree.statements();
    let of_all_addresses = tree.get("type").text() == Some("STRICT_DNS");
    servers_of(tree.at(&["load_assignment", "endpoints"]).items(), &mut group);
    // As the API of version 2 had it.
    for host in tree.get("hosts").items() {
        add(host, None, false, &mut group);
    }
    let policy = tree.get("lb_policy");
    let balance = match policy.text() {
        Some("LEAST_REQUEST" | "least_request") => Some("balance \"least-conn\""),
        Some("RANDOM" | "random") => Some("balance \"random\""),
        Some("RING_HASH" | "MAGLEV" | "ring_hash" | "maglev") => Some("balance \"hash\" key=\"{client.ip}\""),
        Some(_) | None => None,
    };
    if let Some(balance) = balance {
        group.add_line(balance);
        group.origin.carry_all(policy.statements());
        if balance.contains("hash") {
            group.origin.differ(policy.start(), BY_POLICY);
        }
    }
    let socket = tree.get("transport_socket");
    let socket = match Socket::of(socket) {
        Socket::Header => {
            let config = socket.get("typed_config");
            let version = if config.at(&["config", "version"]).text() == Some("V2") { "v2" } else { "v1" };
            group.add_line(format!("send-proxy-protocol \"{version}\""));
            let said = [socket.get("name"), config.get("@type"), config.get("config")];
            group.origin.carry_all(said.into_iter().flat_map(Tree::statements));
            config.get("transport_socket")
        }
        Socket::Plain | Socket::Tls | Socket::Other => socket,
    };
    let is_tls = match Socket::of(socket) {
        Socket::Plain => {
            group.origin.carry_all(socket.statements());
            tree.has("tls_context")
        }
        Socket::Tls => true,
        // What is spoken over it is nothing that a pool does.
        Socket::Header | Socket::Other => return None,
    };
    let options = tree.get("typed_extension_protocol_options");
    let is_http2 = tree.has("http2_protocol_options") || options.has_within("http2_protocol_options");
    if is_tls {
        group = over_tls(tree, socket, group);
    } else if is_http2 {
        group.add_line("protocol \"h2c\"");
        group.origin.carry_all(tree.get("http2_protocol_options").statements());
        group.origin.carry_all(options.statements());
    }
    timed(tree, &mut group);
    super::checks::asked(tree, &mut group);
    bounded(tree, &mut group);
    // Each address of a name is a server.
    if let ([one], true, false) = (group.servers.as_slice(), of_all_addresses, is_tls) {
        let is_name = one.address.split(':').next().is_some_and(|host| host.parse::<IpAddr>().is_err())
            && !one.address.starts_with("unix:");
        if is_name && one.address.contains('.') {
            let line = format!("discover dns=\"{}\"", one.address);
            group.servers.clear();
            group.add_line(line);
        }
    }
    group.is_apart = group.lines.len() > 1;
    Some(group)
}

/// `0.25s` as we write it; none for no time at all.
pub fn duration(text: &str) -> Option<String> {
    let seconds: f64 = text.trim().trim_end_matches('s').parse().ok()?;
    let milliseconds = (seconds * 1_000.0).round();
    if !(1.0..=604_800_000.0).contains(&milliseconds) {
        return None;
    }
    crate::haproxy::durations::written(milliseconds as u64)
}

fn timed(tree: &Tree, group: &mut ServerGroup) {
    let connect = tree.get("connect_timeout");
    const LONGEST: f64 = 300.0;
    let seconds = connect.text().and_then(|text| text.trim().trim_end_matches('s').parse::<f64>().ok());
    if seconds.is_some_and(|seconds| seconds > LONGEST) {
        group.add_line("timeout connect=\"5m\"");
        group.origin.differ(connect.start(), "a connection is waited for five minutes at most");
    } else if let Some(written) = connect.text().and_then(duration) {
        if written != "5s" {
            group.add_line(format!("timeout connect={}", quoted(&written)));
        }
        group.origin.carry_all(connect.statements());
    }
    let options = tree.get("typed_extension_protocol_options");
    let common = options
        .entries()
        .iter()
        .map(|(_, one)| one.get("common_http_protocol_options"))
        .chain([tree.get("common_http_protocol_options")]);
    let mut words = Vec::new();
    for common in common {
        let idle = common.get("idle_timeout");
        if let Some(written) = idle.text().and_then(duration) {
            words.push(format!("idle={}", quoted(&written)));
            group.origin.carry_all(idle.statements());
        }
        let most = common.get("max_requests_per_connection");
        if let Some(count) = most.number().filter(|count| *count > 0) {
            words.push(format!("requests={count}"));
            group.origin.carry_all(most.statements());
        }
    }
    let most = tree.get("max_requests_per_connection");
    if let Some(count) = most.number().filter(|count| *count > 0) {
        words.push(format!("requests={count}"));
        group.origin.carry_all(most.statements());
    }
    if !words.is_empty() {
        group.add_line(format!("keep-alive {}", words.join(" ")));
    }
    for (_, one) in options.entries() {
        group.origin.carry_all(one.get("explicit_http_config").statements());
        group.origin.carry_all(one.get("auto_config").statements());
        group.origin.carry_all(one.get("use_downstream_protocol_config").statements());
    }
}

/// Bounds of the first threshold, which is that of most requests.
fn bounded(tree: &Tree, group: &mut ServerGroup) {
    let thresholds = tree.at(&["circuit_breakers", "thresholds"]);
    let Some(threshold) =
        thresholds.items().iter().find(|one| one.get("priority").text().is_none_or(|priority| priority == "DEFAULT"))
    else {
        return;
    };
    let number = |name: &str| threshold.get(name).number().filter(|count| (1..=1_000_000).contains(count));
    let queue = number("max_pending_requests").map(|count| format!(" queue={count}"));
    let mut queue_left = queue;
    if let Some(count) = number("max_requests") {
        group.add_line(format!("max-requests total={count}{}", queue_left.take().unwrap_or_default()));
        group.origin.carry_all(threshold.get("max_requests").statements());
    }
    if let Some(count) = number("max_connections") {
        group.add_line(format!("max-connections {count}{}", queue_left.take().unwrap_or_default()));
        let at = threshold.get("max_connections");
        group.origin.carry_all(at.statements());
        group.origin.differ(at.start(), "connections are bounded for each server, and for the whole cluster there");
    }
    if queue_left.is_none() {
        group.origin.carry_all(threshold.get("max_pending_requests").statements());
    }
    group.origin.carry_all(threshold.get("priority").statements());
    if threshold.has("max_retries") {
        group.origin.differ(
            threshold.get("max_retries").start(),
            "what may be sent again is a share of the requests: `retry budget=\"20%\"`",
        );
    }
}

/// What a transport socket does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Socket {
    Plain,
    Tls,
    /// The header of the PROXY protocol, and another socket behind it.
    Header,
    Other,
}

impl Socket {
    pub fn of(tree: &Tree) -> Socket {
        let texts = [tree.get("name").text(), tree.at(&["typed_config", "@type"]).text()];
        let text = texts.map(Option::unwrap_or_default).join(" ").to_ascii_lowercase().replace('_', "");
        match text.trim() {
            _ if !tree.has("name") && tree.get("typed_config").is_nothing() => Socket::Plain,
            text if text.contains("proxyprotocol") => Socket::Header,
            text if text.contains("rawbuffer") => Socket::Plain,
            text if text.contains("tls") && !text.contains("starttls") => Socket::Tls,
            _ => Socket::Other,
        }
    }
}

fn over_tls(tree: &Tree, socket: &Tree, group: ServerGroup) -> ServerGroup {
    let mut group = group.over_tls();
    let context = if socket.is_nothing() { tree.get("tls_context") } else { socket.get("typed_config") };
    let sni = context.get("sni");
    if let Some(name) = sni.text().filter(|name| is_plain(name)) {
        group.add_line(format!("tls sni=\"{name}\""));
        group.origin.carry_all(sni.statements());
    }
    files(context, &mut group);
    if !context.has_within("trusted_ca") {
        let at = if sni.is_nothing() { tree.get("name").start() } else { sni.start() };
        group.origin.carried.remove(&at);
        group.origin.differ(at, UNVERIFIED);
    }
    group
}

/// Authorities to trust, and a certificate of its own.
fn files(context: &Tree, group: &mut ServerGroup) {
    let common = context.get("common_tls_context");
    let mut words = Vec::new();
    let ca = common.at(&["validation_context", "trusted_ca", "filename"]);
    if let Some(file) = ca.text() {
        // Authorities of the system are asked without a word.
        if !file.starts_with("/etc/ssl/certs/ca-")
            && !file.starts_with("/etc/ssl/cert.pem")
            && !file.starts_with("/etc/pki/tls/certs/ca-bundle")
        {
            words.push(format!("ca={}", quoted(file)));
        }
        group.origin.carry_all(ca.statements());
    }
    for certificate in common.get("tls_certificates").items().iter().take(1) {
        let (chain, key) = (certificate.at(&["certificate_chain", "filename"]), certificate.at(&["private_key", "filename"]));
        if let (Some(cert), Some(own)) = (chain.text(), key.text()) {
            words.push(format!("cert={} key={}", quoted(cert), quoted(own)));
            group.origin.carry_all(certificate.statements());
        }
    }
    group.origin.carry_all(common.get("alpn_protocols").statements());
    if words.is_empty() {
        return;
    }
    match group.lines.iter_mut().find(|line| line.starts_with("tls ")) {
        Some(line) => line.push_str(&format!(" {}", words.join(" "))),
        None => group.add_line(format!("tls {}", words.join(" "))),
    }
}

fn servers_of(localities: &[Tree], group: &mut ServerGroup) {
    for locality in localities {
        let priority = locality.get("priority");
        let is_backup = priority.number().is_some_and(|priority| priority > 0);
        if priority.number().is_none_or(|priority| priority < 2) {
            group.origin.carry_all(priority.statements());
        }
        for endpoint in locality.get("lb_endpoints").items() {
            let weight = endpoint.get("load_balancing_weight");
            let status = endpoint.get("health_status");
            let is_out = matches!(status.text(), Some("DRAINING" | "UNHEALTHY" | "TIMEOUT"));
            let out = [(weight, weight.number() == Some(0)), (status, is_out)].into_iter().find(|(_, is_out)| *is_out);
            if let Some((said, _)) = out {
                group.origin.carry_all(endpoint.statements());
                group.origin.differ(said.start(), NO_SHARE);
                continue;
            }
            if matches!(status.text(), Some("HEALTHY" | "UNKNOWN")) {
                group.origin.carry_all(status.statements());
            }
            let told = weight.number().map(|weight| weight as u32);
            if add(endpoint.at(&["endpoint", "address"]), told, is_backup, group) {
                group.origin.carry_all(weight.statements());
            }
        }
    }
}

fn add(tree: &Tree, weight: Option<u32>, is_backup: bool, group: &mut ServerGroup) -> bool {
    let Some(address) = address(tree) else { return false };
    group.servers.push(GroupedServer { address, weight, is_backup, ..GroupedServer::default() });
    group.origin.carry_all(tree.statements());
    true
}

pub fn endpoints_alone(tree: &Tree) -> Option<ServerGroup> {
    let mut group = ServerGroup::named(tree.get("cluster_name").text()?);
    group.origin.within = tree.statements();
    servers_of(tree.get("endpoints").items(), &mut group);
    Some(group)
}

fn address(address: &Tree) -> Option<String> {
    if let Some(path) = address.at(&["pipe", "path"]).text() {
        return upstream(&format!("unix:{path}"));
    }
    let socket = address.get("socket_address");
    let (host, port) = (socket.get("address").text()?, socket.get("port_value").number()?);
    upstream(&if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}
