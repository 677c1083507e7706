//! What manifests of Kubernetes ask for: the rules of an Ingress, the routes of the Gateway API. Services are reached
//! by their names.

use super::outline::{
    Door, GroupedServer, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service, addresses,
    below,
};
use super::traefik::address_of;
use super::tree::Tree;

const NOT_READ: &str = "no manifest is read in this version: routes stand in a file";

pub fn outline(trees: &[Tree]) -> Outline {
    let mut outline = Outline::default();
    let all = trees
        .iter()
        .flat_map(|tree| if tree.get("items").is_nothing() { std::slice::from_ref(tree) } else { tree.get("items").items() });
    for tree in all {
        let namespace = tree.at(&["metadata", "namespace"]).text();
        match tree.get("kind").text() {
            Some("Ingress") => ingress(tree, namespace, &mut outline),
            Some("HTTPRoute" | "GRPCRoute") => http_route(tree, namespace, &mut outline),
            Some("TLSRoute" | "TCPRoute") => tls_route(tree, namespace, &mut outline),
            Some(_) | None => {}
        }
    }
    outline.or_without(NOT_READ)
}

fn ingress(tree: &Tree, namespace: Option<&str>, outline: &mut Outline) {
    let door = if tree.at(&["spec", "tls"]).is_nothing() { Door::HTTP } else { Door::HTTPS };
    let annotations = tree.at(&["metadata", "annotations"]).entries().iter().filter_map(|(key, _)| key.rsplit('/').next());
    let is_guard = |key: &&str| ["auth", "whitelist", "allowlist", "limit", "denylist"].iter().any(|word| key.contains(word));
    let guards: Vec<String> = annotations.filter(is_guard).map(str::to_owned).collect();
    let rules = tree.at(&["spec", "rules"]).items();
    for rule in rules {
        let hosts: Vec<String> = rule.get("host").text().map(str::to_owned).into_iter().collect();
        let Some(addresses) = addresses(&hosts, door) else { continue };
        let mut site = OutlinedSite { addresses, guards: guards.clone(), ..OutlinedSite::default() };
        for path in rule.at(&["http", "paths"]).items() {
            let service = path.at(&["backend", "service"]);
            let old = Tree::Map(vec![
                ("name".into(), path.at(&["backend", "serviceName"]).clone()),
                ("port".into(), path.at(&["backend", "servicePort"]).clone()),
            ]);
            let Some(address) = address_of(service, namespace).or_else(|| address_of(&old, namespace)) else { continue };
            let answer = OutlinedAnswer::proxy(ServerGroup::of(address));
            put(&mut site, path.get("path").text(), path.get("pathType").text() == Some("Exact"), answer);
        }
        add(site, outline);
    }
    if let Some(address) = address_of(tree.at(&["spec", "defaultBackend", "service"]), namespace).filter(|_| rules.is_empty()) {
        let answer = Some(OutlinedAnswer::proxy(ServerGroup::of(address)));
        add(OutlinedSite { addresses: addresses(&[], door).unwrap_or_default(), answer, ..OutlinedSite::default() }, outline);
    }
}

fn http_route(tree: &Tree, namespace: Option<&str>, outline: &mut Outline) {
    let Some(addresses) = addresses(&tree.at(&["spec", "hostnames"]).texts(), Door::HTTPS) else { return };
    let mut site = OutlinedSite { addresses, ..OutlinedSite::default() };
    for rule in tree.at(&["spec", "rules"]).items() {
        let Some(mut group) = servers(rule, namespace) else { continue };
        if tree.get("kind").text() == Some("GRPCRoute") {
            group.add_line("protocol \"h2c\"");
        }
        let matches = rule.get("matches").items();
        if matches.is_empty() {
            put(&mut site, None, false, OutlinedAnswer::proxy(group.clone()));
        }
        for matched in matches {
            let path = matched.get("path");
            let has_more = ["headers", "queryParams", "method"].iter().any(|name| !matched.get(name).is_nothing());
            if !has_more {
                put(
                    &mut site,
                    path.get("value").text(),
                    path.get("type").text() == Some("Exact"),
                    OutlinedAnswer::proxy(group.clone()),
                );
            }
        }
    }
    add(site, outline);
}

fn tls_route(tree: &Tree, namespace: Option<&str>, outline: &mut Outline) {
    let names = tree.at(&["spec", "hostnames"]).texts();
    for rule in tree.at(&["spec", "rules"]).items() {
        let Some(group) = servers(rule, namespace) else { continue };
        let port = group.servers[0].address.rsplit(':').next().unwrap_or_default().to_owned();
        let tcp = if names.is_empty() {
            OutlinedTcp { address: format!(":{port}"), by_name: Vec::new(), otherwise: Some(group) }
        } else {
            OutlinedTcp { address: ":443".into(), by_name: vec![(names.clone(), group)], otherwise: None }
        };
        outline.services.push(Service::Tcp(tcp));
    }
}

fn servers(rule: &Tree, namespace: Option<&str>) -> Option<ServerGroup> {
    let servers: Vec<GroupedServer> = rule
        .get("backendRefs")
        .items()
        .iter()
        .filter_map(|service| {
            let weight = service.get("weight").number().map(|weight| weight as u32).filter(|weight| *weight > 0);
            address_of(service, namespace).map(|address| GroupedServer { address, weight, is_backup: false })
        })
        .collect();
    (!servers.is_empty()).then(|| ServerGroup { name: "app".into(), servers, lines: Vec::new() })
}

fn put(site: &mut OutlinedSite, path: Option<&str>, is_exact: bool, answer: OutlinedAnswer) {
    match path {
        None | Some("/" | "" | "/*") if !is_exact => {
            site.answer.get_or_insert(answer);
        }
        // Regular expressions of an Ingress stand in its path.
        Some(path) if path.contains(['(', '.', '|']) => site.routes.push(OutlinedRoute::of(vec![format!("~^{path}")], answer)),
        Some(path) if is_exact => site.routes.push(OutlinedRoute::of(vec![path.to_owned()], answer)),
        Some(path) => site.routes.push(OutlinedRoute::of(vec![below(path)], answer)),
        None => {}
    }
}

fn add(mut site: OutlinedSite, outline: &mut Outline) {
    site.routes.sort_by_key(|route| std::cmp::Reverse(route.patterns.iter().map(String::len).max()));
    if site.answer.is_some() || !site.routes.is_empty() {
        outline.services.push(Service::Site(site));
    }
}
