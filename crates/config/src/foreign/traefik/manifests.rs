//! Manifests of Kubernetes that are of Traefik alone.

use super::{NO_ROUTER, TLS_OF_TCP, has_key, words};
use crate::foreign::accounts::Origin;
use crate::foreign::outline::{
    BytePrefix, Door, GroupedServer, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service,
    tcp_address, upstream_with_port, whereabouts,
};
use crate::foreign::tree::Tree;
use crate::traefik_rule;

/// `IngressRoute` and `IngressRouteTCP` of Kubernetes, whose services are reached by their names.
pub fn of_manifests(trees: &[Tree]) -> Outline {
    let mut outline = Outline { statements: words::statements(trees), ..Outline::default() };
    for tree in trees {
        let namespace = tree.at(&["metadata", "namespace"]).text();
        let spec = tree.get("spec");
        if tree.get("kind").text() == Some("IngressRouteTCP") {
            tcp(spec, namespace, &mut outline);
            continue;
        }
        let mut by_host: Vec<(Vec<String>, OutlinedSite)> = Vec::new();
        // The longer rule goes first there, unless one says otherwise.
        let order = |route: &&Tree| {
            let length = route.get("match").text().map_or(0, str::len) as u64;
            std::cmp::Reverse(route.get("priority").number().filter(|priority| *priority > 0).unwrap_or(length))
        };
        let mut routes: Vec<&Tree> = spec.get("routes").items().iter().collect();
        routes.sort_by_key(order);
        for route in routes {
            let matched = route.get("match");
            let rule = matched.text().and_then(traefik_rule::plain);
            let Some((rule, group)) = rule.zip(servers(route, namespace)) else { continue };
            let mut origin = Origin { within: route.statements(), ..Origin::default() };
            origin.carry_all(matched.statements());
            origin.carry_all(route.get("priority").statements());
            let at = by_host.iter().position(|(hosts, _)| *hosts == rule.hosts).unwrap_or_else(|| {
                by_host.push((rule.hosts.clone(), OutlinedSite::default()));
                by_host.len() - 1
            });
            let site = &mut by_host[at].1;
            let answer = OutlinedAnswer::proxy(group);
            if rule.paths.is_empty() && rule.conditions.is_empty() {
                site.origin.add(&origin);
                site.answer.get_or_insert(answer);
                continue;
            }
            let prefix = |(pattern, prefix): (String, String)| BytePrefix { pattern, prefix, at: matched.start() };
            let byte_prefixes = rule.byte_prefixes.into_iter().map(prefix).collect();
            let route = OutlinedRoute::of(rule.paths, answer);
            site.routes.push(OutlinedRoute { conditions: rule.conditions, byte_prefixes, origin, ..route });
        }
        let points = spec.get("entryPoints");
        let is_known = !words::is_inner(&points.texts());
        let is_tls = has_key(spec, "tls") || points.texts().iter().any(|name| matches!(name.as_str(), "websecure" | "https"));
        let door = if is_tls || points.is_nothing() { Door::HTTPS } else { Door::HTTP };
        for (hosts, mut site) in by_host {
            site.origin.within.extend(["entryPoints", "tls"].into_iter().flat_map(|key| spec.get(key).statements()));
            site.origin.carry_all(points.statements().into_iter().filter(|_| is_known));
            if let Some(found) = whereabouts(&hosts, door) {
                outline.services.push(Service::Site(OutlinedSite { addresses: found.addresses, ..site }));
            }
        }
    }
    outline.or_without(NO_ROUTER)
}

fn tcp(spec: &Tree, namespace: Option<&str>, outline: &mut Outline) {
    let is_passed = spec.at(&["tls", "passthrough"]).is_true();
    for route in spec.get("routes").items() {
        let matched = route.get("match");
        let rule = matched.text().and_then(traefik_rule::plain);
        let Some((rule, group)) = rule.zip(servers(route, namespace)) else { continue };
        if has_key(spec, "tls") && !is_passed {
            outline.without.get_or_insert(TLS_OF_TCP);
            continue;
        }
        let mut origin = Origin { within: spec.statements(), ..Origin::default() };
        origin.carry_all(matched.statements());
        origin.carry_all(spec.at(&["tls", "passthrough"]).statements());
        if !words::is_inner(&spec.get("entryPoints").texts()) {
            origin.differ(spec.get("entryPoints").start(), super::ELSEWHERE);
        }
        let names: Vec<String> = rule.server_names.into_iter().filter(|name| name != "*").collect();
        let port = group.servers[0].address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(443);
        let address = tcp_address(None, if is_passed || !names.is_empty() { 443 } else { port });
        let (by_name, otherwise) = if names.is_empty() { (Vec::new(), Some(group)) } else { (vec![(names, group)], None) };
        outline.services.push(Service::Tcp(OutlinedTcp { address, by_name, otherwise, origin }));
    }
}

fn servers(route: &Tree, namespace: Option<&str>) -> Option<ServerGroup> {
    let mut group = ServerGroup::named("app");
    for service in route.get("services").items() {
        let Some(address) = address_of(service, namespace) else { continue };
        group.servers.push(GroupedServer::at(address));
        let said = ["name", "port", "namespace", "scheme"];
        group.origin.carry_all(said.into_iter().flat_map(|key| service.get(key).statements()));
    }
    (!group.is_empty()).then_some(group)
}

/// The name and port of a service of Kubernetes.
pub fn address_of(service: &Tree, namespace: Option<&str>) -> Option<String> {
    let name = service.get("name").text()?;
    let namespace = service.get("namespace").text().or(namespace);
    let host = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{name}.{namespace}"));
    let port = service.get("port");
    let port = port.number().or_else(|| port.get("number").number()).and_then(|port| u16::try_from(port).ok())?;
    let scheme = service.get("scheme").text().filter(|scheme| *scheme == "https").map_or("", |_| "https://");
    upstream_with_port(&format!("{scheme}{host}"), Some(port))
}
