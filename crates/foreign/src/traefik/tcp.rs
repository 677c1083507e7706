//! Routers of Traefik for connections that are handed on as they are.

use super::doors::{self, ELSEWHERE, entry_points, resolved};
use super::router::middlewares_of;
use super::{TLS_OF_TCP, has_key, own_name, unescaped, without_variables};
use crate::accounts::Origin;
use crate::matching::Asked;
use crate::outline::{Door, Outline, OutlinedTcp, ServerGroup, Service, tcp_address, upstream};
use crate::tree::Tree;

const NO_PORT: &str = "the address of its entry point is in another file, and a port is not guessed: give `import` the folder of both, \
                       or write `tcp \":5432\" { proxy \"…\"; }`";

pub fn tcp(tree: &Tree, outline: &mut Outline) {
    let mut ports: Vec<OutlinedTcp> = Vec::new();
    for (name, router) in tree.at(&["tcp", "routers"]).entries() {
        let mut origin = Origin { within: router.statements(), ..Origin::default() };
        for (middleware, at) in middlewares_of(tree, "tcp", router, None, &mut origin) {
            origin.within.extend(middleware.statements());
            origin.within.insert(at);
        }
        let rule = router.get("rule").text().and_then(|rule| server_names(&unescaped(rule)));
        let Some(server_names) = rule else { continue };
        let service = router.get("service").text().unwrap_or(name);
        let Some(group) = group(tree, service) else { continue };
        let Some(first) = group.servers.first() else { continue };
        if has_key(router, "tls") && !router.at(&["tls", "passthrough"]).is_true() {
            outline.without.get_or_insert(TLS_OF_TCP);
            continue;
        }
        origin.carry_all(["rule", "service"].into_iter().flat_map(|key| router.get(key).statements()));
        origin.carry_all(router.at(&["tls", "passthrough"]).statements());
        if doors::has_points(tree)
            && !entry_points(tree, router).iter().any(|name| tree.at(&["entryPoints", name]).has("address"))
        {
            let all = router.statements().into_iter().chain(group.origin.within.iter().copied());
            all.for_each(|at| outline.told.differ(at, doors::NO_SUCH_POINT));
            continue;
        }
        let of_server = first.address.rsplit(':').next().and_then(|port| port.parse().ok());
        let (doors, is_guessed) = self::doors(tree, router, of_server, &mut origin);
        if is_guessed {
            outline.reasons.extend(router.statements().into_iter().map(|at| (at, NO_PORT.to_owned())));
        }
        let names: Vec<String> =
            server_names.into_iter().filter(|name| name != "*").map(|name| without_variables(&name)).collect();
        for address in doors {
            let at = ports.iter().position(|tcp| tcp.address == address).unwrap_or_else(|| {
                ports.push(OutlinedTcp { address, is_guessed, ..OutlinedTcp::default() });
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

/// The names that connections ask for, where a rule has nothing else; `*` is all of them.
pub fn server_names(rule: &str) -> Option<Vec<String>> {
    let matching = super::rules::read(rule)?;
    let mut names = Vec::new();
    for clause in &matching.clauses {
        match clause.as_slice() {
            [one] if !one.is_negated => match &one.asked {
                Asked::Hosts(hosts) => names.extend(hosts.iter().cloned()),
                Asked::Paths(_) | Asked::Condition(_) => return None,
            },
            _ => return None,
        }
    }
    (!names.is_empty()).then_some(names)
}

fn group(tree: &Tree, service: &str) -> Option<ServerGroup> {
    let balancer = tree.at(&["tcp", "services", &own_name(service), "loadBalancer"]);
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

/// By its entry points, where the file says them; else as the server's port, which is how databases are reached, and a
/// guess.
fn doors(tree: &Tree, router: &Tree, of_server: Option<u16>, origin: &mut Origin) -> (Vec<String>, bool) {
    let names = entry_points(tree, router);
    let written = router.get("entryPoints");
    let mut told: Vec<String> = Vec::new();
    for name in &names {
        let address = tree.at(&["entryPoints", name, "address"]);
        let Some(door) = address.text().and_then(|address| Door::parse(resolved(address), false)) else { continue };
        origin.within.extend(tree.at(&["entryPoints", name]).statements());
        origin.carry_all(address.statements());
        origin.carry_all(written.statements());
        told.push(tcp_address(door.ip, door.port));
    }
    if !told.is_empty() {
        return (told, false);
    }
    let is_secure = names.iter().any(|name| matches!(name.as_str(), "websecure" | "https" | "tls"));
    let port = if is_secure || has_key(router, "tls") { Some(443) } else { of_server };
    if !names.is_empty() && !super::words::is_inner(&names) {
        origin.differ(written.start(), ELSEWHERE);
    }
    let is_guessed = !is_secure && !has_key(router, "tls");
    (port.map(|port| tcp_address(None, port)).into_iter().collect(), is_guessed)
}
