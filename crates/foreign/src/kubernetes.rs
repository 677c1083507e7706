//! What manifests of Kubernetes ask for: the rules of an Ingress, the routes of the Gateway API. Services are reached
//! by their names.

use super::accounts::{FileStatement, Origin, StatementKind, Weight, WordTable};
use super::outline::{
    Door, GroupedServer, NO_SHARE, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service,
    tcp_address, whereabouts,
};
use super::traefik::address_of;
use super::tree::Tree;

const NOT_READ: &str = "no manifest is read in this version: routes stand in a file";

const WORDS: WordTable = WordTable {
    protections: &["filters_auth"],
    same: &[
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "labels",
        "ingressClassName",
        "parentRefs",
        "status",
        "group",
        "sectionName",
        "pathType",
        "type",
        "selector",
        "template",
        "replicas",
    ],
    tls: &["tls", "secretName"],
    addresses: &["host", "hostnames", "hosts"],
    limits: &[],
    answers: &["rules", "paths", "path", "backend", "backendRefs", "service", "port", "matches", "filters", "defaultBackend"],
};

pub fn outline(trees: &[Tree]) -> Outline {
    let mut outline = Outline { statements: statements(trees), ..Outline::default() };
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

fn statements(trees: &[Tree]) -> Vec<FileStatement> {
    let mut found = Vec::new();
    for tree in trees {
        tree.each_statement(&mut Vec::new(), &|_| None, &mut |at, path, _| {
            let statement = WORDS.statement(at, path);
            let key = path.last().map(|key| key.rsplit('/').next().unwrap_or_default()).unwrap_or_default();
            let guards =
                ["auth", "whitelist", "allowlist", "limit", "denylist", "middlewares", "server-snippet", "configuration-snippet"];
            let is_annotation = path.contains(&"annotations");
            found.push(match (is_annotation, guards.iter().any(|word| key.contains(word))) {
                (true, true) => FileStatement { at, name: key.to_owned(), kind: StatementKind::Needed(Weight::Protection) },
                (true, false) => FileStatement { at, name: "annotations".into(), kind: StatementKind::Needed(Weight::Setting) },
                (false, _) => statement,
            });
        });
    }
    found
}

fn ingress(tree: &Tree, namespace: Option<&str>, outline: &mut Outline) {
    let door = if tree.at(&["spec", "tls"]).is_nothing() { Door::HTTP } else { Door::HTTPS };
    let mut own = Origin { within: tree.statements(), ..Origin::default() };
    for at in tree.at(&["spec", "rules"]).statements() {
        own.within.remove(&at);
    }
    let rules = tree.at(&["spec", "rules"]).items();
    for rule in rules {
        let hosts: Vec<String> = rule.get("host").text().map(str::to_owned).into_iter().collect();
        let Some(found) = whereabouts(&hosts, door) else { continue };
        let mut site = OutlinedSite { addresses: found.addresses, origin: own.clone(), ..OutlinedSite::default() };
        site.origin.within.extend(rule.statements());
        site.origin.carry_all(rule.get("host").statements());
        for path in rule.at(&["http", "paths"]).items() {
            let service = path.at(&["backend", "service"]);
            let old = Tree::of_entries(vec![
                ("name".into(), path.at(&["backend", "serviceName"]).clone()),
                ("port".into(), path.at(&["backend", "servicePort"]).clone()),
            ]);
            let Some(address) = address_of(service, namespace).or_else(|| address_of(&old, namespace)) else { continue };
            let answer = OutlinedAnswer::proxy(ServerGroup::of(address));
            site.origin.carry_all(path.statements());
            put(&mut site, path.get("path").text(), path.get("pathType").text() == Some("Exact"), answer);
        }
        add(site, outline);
    }
    if let Some(address) = address_of(tree.at(&["spec", "defaultBackend", "service"]), namespace).filter(|_| rules.is_empty()) {
        let answer = Some(OutlinedAnswer::proxy(ServerGroup::of(address)));
        let addresses = whereabouts(&[], door).map(|found| found.addresses).unwrap_or_default();
        own.carry_all(tree.at(&["spec", "defaultBackend"]).statements());
        add(OutlinedSite { addresses, answer, origin: own, ..OutlinedSite::default() }, outline);
    }
}

fn http_route(tree: &Tree, namespace: Option<&str>, outline: &mut Outline) {
    let hostnames = tree.at(&["spec", "hostnames"]);
    let Some(found) = whereabouts(&hostnames.texts(), Door::HTTPS) else { return };
    let mut site = OutlinedSite { addresses: found.addresses, ..OutlinedSite::default() };
    site.origin.within = tree.statements();
    site.origin.carry_all(hostnames.statements());
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
                site.origin.carry_all(matched.statements());
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
        let mut origin = Origin { within: tree.statements(), ..Origin::default() };
        origin.carry_all(tree.at(&["spec", "hostnames"]).statements());
        let tcp = if names.is_empty() {
            OutlinedTcp { address: format!(":{port}"), by_name: Vec::new(), otherwise: Some(group), origin, is_guessed: false }
        } else {
            let address = tcp_address(None, 443);
            OutlinedTcp { address, by_name: vec![(names.clone(), group)], otherwise: None, origin, is_guessed: false }
        };
        outline.services.push(Service::Tcp(tcp));
    }
}

fn servers(rule: &Tree, namespace: Option<&str>) -> Option<ServerGroup> {
    let mut group = ServerGroup::named("app");
    for service in rule.get("backendRefs").items() {
        let Some(address) = address_of(service, namespace) else { continue };
        let weight = service.get("weight").number().map(|weight| weight as u32);
        if weight == Some(0) {
            group.origin.differ(service.get("weight").start(), NO_SHARE);
            continue;
        }
        group.servers.push(GroupedServer { address, weight, ..GroupedServer::default() });
        group.origin.carry_all(service.statements());
    }
    (!group.servers.is_empty()).then_some(group)
}

fn put(site: &mut OutlinedSite, path: Option<&str>, is_exact: bool, answer: OutlinedAnswer) {
    match path {
        None | Some("/" | "" | "/*") if !is_exact => {
            site.answer.get_or_insert(answer);
        }
        // Regular expressions of an Ingress stand in its path.
        Some(path) if path.contains(['(', '.', '|']) => site.routes.push(OutlinedRoute::of(vec![format!("~^{path}")], answer)),
        Some(path) if is_exact => site.routes.push(OutlinedRoute::of(vec![path.to_owned()], answer)),
        Some(path) => {
            let mut route = OutlinedRoute::of(Vec::new(), answer);
            // A prefix is whole segments there too.
            route.patterns.push(super::outline::below(path));
            site.routes.push(route);
        }
        None => {}
    }
}

fn add(mut site: OutlinedSite, outline: &mut Outline) {
    site.routes.sort_by_key(|route| std::cmp::Reverse(route.patterns.iter().map(String::len).max()));
    if site.answer.is_some() || !site.routes.is_empty() {
        outline.services.push(Service::Site(site));
    }
}
