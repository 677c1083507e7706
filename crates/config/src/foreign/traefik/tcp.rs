//! Routers of Traefik for connections that are handed on as they are.

use super::{TLS_OF_TCP, has_key, middlewares_of, resolved, unescaped, without_variables};
use crate::foreign::accounts::Origin;
use crate::foreign::outline::{Door, Outline, OutlinedTcp, ServerGroup, Service, tcp_address, upstream};
use crate::foreign::tree::Tree;
use crate::traefik_rule;

pub fn tcp(tree: &Tree, outline: &mut Outline) {
    let mut ports: Vec<OutlinedTcp> = Vec::new();
    for (name, router) in tree.at(&["tcp", "routers"]).entries() {
        let mut origin = Origin { within: router.statements(), ..Origin::default() };
        for (middleware, at) in middlewares_of(tree, "tcp", router, &mut origin) {
            origin.within.extend(middleware.statements());
            origin.within.insert(at);
        }
        let rule = router.get("rule").text().and_then(|rule| traefik_rule::plain(&unescaped(rule)));
        let is_plain = |rule: &traefik_rule::PlainRule| rule.conditions.is_empty() && rule.paths.is_empty();
        let rule = rule.filter(is_plain);
        let Some(rule) = rule else { continue };
        let service = router.get("service").text().unwrap_or(name);
        let Some(group) = group(tree, service) else { continue };
        let Some(first) = group.servers.first() else { continue };
        if has_key(router, "tls") && !router.at(&["tls", "passthrough"]).is_true() {
            outline.without.get_or_insert(TLS_OF_TCP);
            continue;
        }
        origin.carry_all(["rule", "service"].into_iter().flat_map(|key| router.get(key).statements()));
        origin.carry_all(router.at(&["tls", "passthrough"]).statements());
        let of_server = first.address.rsplit(':').next().and_then(|port| port.parse().ok());
        let doors = doors(tree, router, of_server, &mut origin);
        let names: Vec<String> =
            rule.server_names.into_iter().filter(|name| name != "*").map(|name| without_variables(&name)).collect();
        for address in doors {
            let at = ports.iter().position(|tcp| tcp.address == address).unwrap_or_else(|| {
                ports.push(OutlinedTcp { address, ..OutlinedTcp::default() });
                ports.len() - 1
            });
            ports[at].origin.add(&origin);
            if names.is_empty() {
                ports[at].otherwise.get_or_insert(group.clone());
            } else {
                ports[at].by_name.push((names.clone(), group.clone()));
            }
        }
    }
    outline.services.extend(ports.into_iter().map(Service::Tcp));
}

fn group(tree: &Tree, service: &str) -> Option<ServerGroup> {
    let balancer = tree.at(&["tcp", "services", service.split('@').next().unwrap_or_default(), "loadBalancer"]);
    let mut group = ServerGroup::named(service);
    group.origin.within = balancer.statements();
    for server in balancer.get("servers").items() {
        let Some(address) = server.get("address").text().and_then(upstream) else { continue };
        if server.get("tls").is_true() {
            return None;
        }
        group.origin.carry_all(server.get("address").statements());
        group = group.with_server(address);
    }
    let header = balancer.get("proxyProtocol");
    match header.get("version").text() {
        Some("1") => group.add_line("send-proxy-protocol \"v1\""),
        Some(_) => group.add_line("send-proxy-protocol \"v2\""),
        None if has_key(balancer, "proxyProtocol") => group.add_line("send-proxy-protocol \"v2\""),
        None => {}
    }
    group.origin.carry_all(header.statements());
    Some(group).filter(|group| !group.is_empty())
}

/// By its entry points, where the file says them; else as the server's port, which is how databases are reached.
fn doors(tree: &Tree, router: &Tree, of_server: Option<u16>, origin: &mut Origin) -> Vec<String> {
    let names = router.get("entryPoints").texts();
    let at = router.get("entryPoints").start();
    let mut told: Vec<String> = Vec::new();
    for name in &names {
        let address = tree.at(&["entryPoints", name, "address"]);
        let Some(door) = address.text().and_then(|address| Door::parse(resolved(address), false)) else { continue };
        origin.within.extend(tree.at(&["entryPoints", name]).statements());
        origin.carry_all(address.statements());
        origin.carry(at);
        told.push(tcp_address(door.ip, door.port));
    }
    if !told.is_empty() {
        return told;
    }
    let is_secure = names.iter().any(|name| matches!(name.as_str(), "websecure" | "https" | "tls"));
    let port = if is_secure || has_key(router, "tls") { Some(443) } else { of_server };
    if !names.is_empty() && !super::words::is_inner(&names) {
        origin.differ(at, "the address of the entry point is in another file: the port here is the usual one, on all addresses");
    }
    port.map(|port| tcp_address(None, port)).into_iter().collect()
}
