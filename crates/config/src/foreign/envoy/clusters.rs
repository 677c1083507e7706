//! Clusters of Envoy as pools of ours.

use crate::foreign::outline::{GroupedServer, ServerGroup, is_plain, upstream};
use crate::foreign::tree::Tree;
use std::net::IpAddr;

const UNVERIFIED: &str = "without `trusted_ca` Envoy takes any certificate of a server, and here it is verified: `tls ca=` of a \
                          pool names who has signed it";

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
    Some(group)
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
    if !context.has_within("trusted_ca") {
        let at = if sni.is_nothing() { tree.get("name").start() } else { sni.start() };
        group.origin.carried.remove(&at);
        group.origin.differ(at, UNVERIFIED);
    }
    group
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
            let told = weight.number().map(|weight| weight as u32).filter(|weight| *weight > 0);
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
