//! Manifests of Kubernetes that are of Traefik alone, as the dynamic configuration that they are: routes are routers,
//! services are reached by their names.

use super::{NO_ROUTER, of_tree, words};
use crate::outline::{Outline, upstream_with_port};
use crate::tree::Tree;

/// `IngressRoute`, `IngressRouteTCP`, `Middleware`, `TLSOption`, `ServersTransport` and `TraefikService`.
pub fn of_manifests(trees: &[Tree]) -> Outline {
    let mut outline = Outline { statements: words::statements(trees), ..Outline::default() };
    let mut all = Tree::of_entries(Vec::new());
    for (index, tree) in trees.iter().enumerate() {
        let name = tree.at(&["metadata", "name"]).text().unwrap_or("app");
        let namespace = tree.at(&["metadata", "namespace"]).text();
        let spec = tree.get("spec");
        match tree.get("kind").text() {
            Some(kind @ ("IngressRoute" | "IngressRouteTCP")) => {
                let protocol = if kind == "IngressRoute" { "http" } else { "tcp" };
                routers(spec, protocol, &format!("{name}-{index}"), namespace, &mut all);
                // Where a middleware is, is a part of its name.
                let named = spec.get("routes").items().iter().flat_map(|route| route.get("middlewares").items());
                named.for_each(|one| outline.told.carry_all(one.get("namespace").statements()));
            }
            Some("Middleware") => {
                *all.place(&path(&["http", "middlewares", &within(namespace, name)])) = middleware(spec, namespace);
            }
            Some("MiddlewareTCP") => *all.place(&path(&["tcp", "middlewares", &within(namespace, name)])) = spec.clone(),
            // The one that holds for all is known by its name alone.
            Some("TLSOption") if name == "default" => *all.place(&path(&["tls", "options", name])) = spec.clone(),
            Some("TLSOption") => *all.place(&path(&["tls", "options", &within(namespace, name)])) = spec.clone(),
            Some("ServersTransport") => *all.place(&path(&["http", "serversTransports", name])) = spec.clone(),
            Some("TraefikService") => service(spec, namespace, name, &mut all),
            Some(_) | None => {}
        }
    }
    of_tree(&all, &mut outline);
    outline.or_without(NO_ROUTER)
}

/// The name in all of the cluster.
fn within(namespace: Option<&str>, name: &str) -> String {
    format!("{}-{name}", namespace.unwrap_or("default"))
}

/// What is named by its name and its namespace, which is the own one where it is not said; another provider's is as it
/// is.
fn named_within(said: &Tree, namespace: Option<&str>) -> Tree {
    let name = said.get("name");
    match name.text() {
        Some(text) if !text.contains('@') => {
            Tree::of_text(within(said.get("namespace").text().or(namespace), text)).standing_at(name.start())
        }
        Some(_) | None => name.clone(),
    }
}

/// A middleware, with the names of those that a chain is made of.
fn middleware(spec: &Tree, namespace: Option<&str>) -> Tree {
    let mut spec = spec.clone();
    let listed = spec.at(&["chain", "middlewares"]);
    if !listed.is_nothing() {
        let names = listed.items().iter().map(|one| named_within(one, namespace)).collect();
        let names = Tree::of_items(names).standing_at(first_of(listed));
        *spec.place(&path(&["chain", "middlewares"])) = names;
    }
    spec
}

fn path(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

fn entry(key: &str, value: Tree) -> (String, Tree) {
    (key.to_owned(), value)
}

fn routers(spec: &Tree, kind: &str, name: &str, namespace: Option<&str>, all: &mut Tree) {
    for (index, route) in spec.get("routes").items().iter().enumerate() {
        let own = format!("{name}-{index}");
        let mut more: Vec<(String, Tree)> = Vec::new();
        let mut router = vec![entry("rule", route.get("match").clone())];
        for (key, ours) in [("priority", "priority"), ("syntax", "ruleSyntax")] {
            if route.has(key) {
                router.push(entry(ours, route.get(key).clone()));
            }
        }
        let named = route.get("middlewares");
        if !named.is_nothing() {
            let names: Vec<Tree> = named.items().iter().map(|one| named_within(one, namespace)).collect();
            router.push(entry("middlewares", Tree::of_items(names).standing_at(first_of(named))));
        }
        for key in ["entryPoints", "tls"] {
            if spec.has(key) {
                router.push(entry(key, if key == "tls" { tls(spec.get(key), namespace) } else { spec.get(key).clone() }));
            }
        }
        let services = if kind == "http" {
            balanced(route.get("services"), namespace, &own, &mut more)
        } else {
            addresses(route.get("services"), namespace)
        };
        router.push(entry("service", Tree::of_text(&own)));
        *all.place(&path(&[kind, "routers", &own])) = Tree::of_entries(router);
        *all.place(&path(&[kind, "services", &own])) = services;
        for (name, service) in more {
            *all.place(&path(&[kind, "services", &name])) = service;
        }
    }
}

/// The options of a handshake stand behind a name of their own there.
fn tls(said: &Tree, namespace: Option<&str>) -> Tree {
    let mut entries: Vec<(String, Tree)> = said.entries().to_vec();
    for (key, value) in &mut entries {
        if key == "options" && value.is_map() {
            *value = named_within(value, namespace);
        }
    }
    if entries.is_empty() { said.clone() } else { Tree::of_entries(entries).standing_at(said.start()) }
}

fn first_of(tree: &Tree) -> usize {
    tree.statements().first().copied().unwrap_or_else(|| tree.start())
}

/// Services that are named in a route: servers of one, or several that share requests.
fn balanced(services: &Tree, namespace: Option<&str>, own: &str, more: &mut Vec<(String, Tree)>) -> Tree {
    let all = services.items();
    let has_weights = all.iter().any(|one| one.has("weight") || one.get("kind").text() == Some("TraefikService"));
    if all.len() < 2 && !has_weights {
        return all.first().map(|one| balancer(one, namespace)).unwrap_or_default();
    }
    let mut parts = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let mut part = Vec::new();
        if one.get("kind").text() == Some("TraefikService") {
            part.push(entry("name", one.get("name").clone()));
        } else {
            let name = format!("{own}-{index}");
            more.push((name.clone(), balancer(one, namespace)));
            part.push(entry("name", Tree::of_text(name)));
        }
        if one.has("weight") {
            part.push(entry("weight", one.get("weight").clone()));
        }
        parts.push(Tree::of_entries(part));
    }
    let services = Tree::of_entries(vec![entry("services", Tree::of_items(parts))]);
    Tree::of_entries(vec![entry("weighted", services)])
}

fn balancer(service: &Tree, namespace: Option<&str>) -> Tree {
    let mut inside = Vec::new();
    if let Some(address) = address_of(service, namespace) {
        let url = if address.contains("://") { address } else { format!("http://{address}") };
        let port = service.get("port");
        let at = if port.is_nothing() { service.get("name").start() } else { port.start() };
        let server = Tree::of_entries(vec![entry("url", Tree::of_text(url).standing_at(at))]);
        inside.push(entry("servers", Tree::of_items(vec![server])));
        // What its address was made of.
        let named = ["name", "namespace", "scheme", "kind"].iter().filter(|key| service.has(key));
        inside.push(entry("server", Tree::of_entries(named.map(|key| entry(key, service.get(key).clone())).collect())));
    }
    for key in ["passHostHeader", "serversTransport", "sticky", "strategy", "healthCheck", "responseForwarding", "nativeLB"] {
        if service.has(key) {
            inside.push(entry(key, service.get(key).clone()));
        }
    }
    Tree::of_entries(vec![entry("loadBalancer", Tree::of_entries(inside))])
}

fn addresses(services: &Tree, namespace: Option<&str>) -> Tree {
    let mut servers = Vec::new();
    for service in services.items() {
        let Some(address) = address_of(service, namespace) else { continue };
        servers.push(Tree::of_entries(vec![entry("address", Tree::of_text(address).standing_at(service.get("port").start()))]));
    }
    let mut inside = vec![entry("servers", Tree::of_items(servers))];
    let mut said = Vec::new();
    for service in services.items() {
        for key in ["name", "namespace"] {
            if service.has(key) {
                said.push(Tree::of_entries(vec![entry(key, service.get(key).clone())]));
            }
        }
        if service.has("proxyProtocol") {
            inside.push(entry("proxyProtocol", service.get("proxyProtocol").clone()));
        }
    }
    inside.push(entry("server", Tree::of_items(said)));
    Tree::of_entries(vec![entry("loadBalancer", Tree::of_entries(inside))])
}

/// `weighted` and `mirroring`, whose parts are services of Kubernetes.
fn service(spec: &Tree, namespace: Option<&str>, own: &str, all: &mut Tree) {
    let mut more: Vec<(String, Tree)> = Vec::new();
    let weighted = spec.get("weighted");
    let mirroring = spec.get("mirroring");
    let told = if !weighted.is_nothing() {
        let mut parts = balanced(weighted.get("services"), namespace, own, &mut more);
        if weighted.get("services").items().len() < 2 {
            parts = balancer(weighted.get("services").items().first().unwrap_or(weighted), namespace);
        }
        parts
    } else if mirroring.has("name") {
        let first = format!("{own}-main");
        more.push((first.clone(), balancer(mirroring, namespace)));
        let mut mirrors = Vec::new();
        for (index, mirror) in mirroring.get("mirrors").items().iter().enumerate() {
            let name = format!("{own}-mirror-{index}");
            more.push((name.clone(), balancer(mirror, namespace)));
            let mut part = vec![entry("name", Tree::of_text(name))];
            if mirror.has("percent") {
                part.push(entry("percent", mirror.get("percent").clone()));
            }
            mirrors.push(Tree::of_entries(part));
        }
        let mut inside = vec![entry("service", Tree::of_text(first)), entry("mirrors", Tree::of_items(mirrors))];
        if mirroring.has("maxBodySize") {
            inside.push(entry("maxBodySize", mirroring.get("maxBodySize").clone()));
        }
        Tree::of_entries(vec![entry("mirroring", Tree::of_entries(inside))])
    } else {
        return;
    };
    *all.place(&path(&["http", "services", own])) = told;
    for (name, service) in more {
        *all.place(&path(&["http", "services", &name])) = service;
    }
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
