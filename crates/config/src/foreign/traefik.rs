//! What a configuration of Traefik asks for: routers with their services, for HTTP and for TCP, in files, in the labels
//! of containers, and in the manifests of Kubernetes.

use super::outline::{
    Door, GroupedServer, NAME_IN_PLACE, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service,
    addresses, upstream, upstream_with_port,
};
use super::tree::Tree;
use crate::forms::parse_network;
use crate::traefik_rule;

const STATIC: &str = "its routers stand in the dynamic configuration, or in labels: give `check` that file";
const NO_ROUTER: &str = "it has no router with a rule of names and paths, and servers that are told";
const OF_PROVIDER: &str = "the servers of its routers are found by a provider: `discover` does that here";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";

const GUARDS: [&str; 11] = [
    "basicAuth",
    "digestAuth",
    "forwardAuth",
    "ipAllowList",
    "ipWhiteList",
    "rateLimit",
    "inFlightReq",
    "clientAuth",
    "passTLSClientCert",
    "plugin",
    "jwt",
];

/// Files of either kind.
pub fn outline(trees: &[Tree]) -> Outline {
    let mut outline = Outline::default();
    for tree in trees {
        of_tree(tree, &mut outline);
    }
    let is_static = trees.iter().any(|tree| !tree.get("entryPoints").is_nothing() || !tree.get("providers").is_nothing());
    outline.or_without(if is_static { STATIC } else { NO_ROUTER })
}

fn of_tree(tree: &Tree, outline: &mut Outline) {
    let mut found: Vec<(Vec<String>, Door, OutlinedSite)> = Vec::new();
    for (name, router) in tree.at(&["http", "routers"]).entries() {
        let Some(rule) = router.get("rule").text().and_then(|rule| traefik_rule::plain(&unescaped(rule))) else { continue };
        let service = router.get("service").text().unwrap_or(name);
        let Some(group) = http_group(tree, service) else {
            if service.contains('@') && !service.ends_with("@file") {
                outline.without.get_or_insert(OF_PROVIDER);
            }
            continue;
        };
        let middlewares: Vec<&Tree> = router
            .get("middlewares")
            .texts()
            .iter()
            .map(|middleware| middleware.split('@').next().unwrap_or_default().to_owned())
            .map(|middleware| tree.at(&["http", "middlewares", &middleware]))
            .collect();
        let guards = guards(&middlewares, router);
        let strip =
            middlewares.iter().find_map(|middleware| middleware.at(&["stripPrefix", "prefixes"]).texts().first().cloned());
        let add = middlewares.iter().find_map(|middleware| middleware.at(&["addPrefix", "prefix"]).text().map(str::to_owned));
        let answer = OutlinedAnswer::Proxy { group, strip, add };
        let door = door(tree, router);
        let at = found.iter().position(|(hosts, known, _)| *hosts == rule.hosts && *known == door).unwrap_or_else(|| {
            found.push((rule.hosts.clone(), door, OutlinedSite::default()));
            found.len() - 1
        });
        let site = &mut found[at].2;
        site.guards.extend(guards.into_iter().filter(|guard| !site.guards.contains(guard)).collect::<Vec<_>>());
        let steps = steps(&middlewares);
        if rule.paths.is_empty() && rule.conditions.is_empty() && steps.is_empty() {
            site.answer.get_or_insert(answer);
        } else {
            let route = OutlinedRoute::of(rule.paths, answer);
            site.routes.push(OutlinedRoute { conditions: rule.conditions, steps, ..route });
        }
    }
    for (hosts, door, mut site) in found {
        // The longer rule goes first there.
        let length = |route: &OutlinedRoute| route.patterns.iter().chain(&route.conditions).map(String::len).sum::<usize>();
        site.routes.sort_by_key(|route| std::cmp::Reverse(length(route)));
        site.is_name_open = hosts.iter().any(|host| host.contains('$'));
        let hosts: Vec<String> = hosts.iter().map(|host| without_variables(host)).collect();
        if let Some(addresses) = addresses(&hosts, door) {
            outline.services.push(Service::Site(OutlinedSite { addresses, ..site }));
        }
    }
    tcp(tree, outline);
    if outline.services.is_empty() {
        let services = tree.at(&["http", "services"]).entries().iter();
        outline.groups.extend(services.filter_map(|(name, _)| http_group(tree, name)));
    }
}

/// `$$` is a `$` in a file of Compose.
fn unescaped(rule: &str) -> String {
    rule.replace("$$", "$")
}

/// What is filled in by the environment is the reader's to write.
fn without_variables(host: &str) -> String {
    let Some((before, behind)) = host.split_once('$') else { return host.to_owned() };
    let name = behind.trim_start_matches('{');
    let after = name
        .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-' | '?'))
        .trim_start_matches('}');
    format!("{before}{NAME_IN_PLACE}{after}")
}

/// Lines of ours for who may come in, and how often.
fn steps(middlewares: &[&Tree]) -> Vec<String> {
    let mut steps = Vec::new();
    for middleware in middlewares {
        for list in [middleware.get("ipAllowList"), middleware.get("ipWhiteList")] {
            let ranges = list.get("sourceRange").texts();
            if !ranges.is_empty() && ranges.iter().all(|range| parse_network(range).is_ok()) {
                let ranges: Vec<String> = ranges.iter().map(|range| format!("\"{range}\"")).collect();
                steps.push(format!("allow {}", ranges.join(" ")));
            }
        }
        let limit = middleware.get("rateLimit");
        let unit = match limit.get("period").text() {
            None | Some("1s" | "1") => "s",
            Some("1m" | "60s" | "1m0s") => "m",
            Some(_) => continue,
        };
        if let Some(average) = limit.get("average").number().filter(|average| *average > 0) {
            let burst = limit.get("burst").number().unwrap_or(1).max(1);
            steps.push(format!("rate-limit \"{average}/{unit}\" burst={burst}"));
        }
    }
    steps
}

fn guards(middlewares: &[&Tree], router: &Tree) -> Vec<String> {
    let steps = steps(middlewares);
    let is_told = |guard: &str| {
        let word = match guard {
            "ipAllowList" | "ipWhiteList" => "allow ",
            "rateLimit" => "rate-limit ",
            _ => return false,
        };
        let count = middlewares.iter().filter(|middleware| middleware.has_within(guard)).count();
        count == steps.iter().filter(|step| step.starts_with(word)).count()
    };
    let has = |guard: &&&str| middlewares.iter().any(|middleware| middleware.has_within(guard)) || router.has_within(guard);
    GUARDS.iter().filter(has).filter(|guard| !is_told(guard)).map(|guard| (*guard).to_owned()).collect()
}

fn door(tree: &Tree, router: &Tree) -> Door {
    let entry_points = router.get("entryPoints").texts();
    let port = |name: &String| {
        tree.at(&["entryPoints", name, "address"])
            .text()
            .and_then(|address| Door::parse(address.split('/').next()?, false))
            .map(|door| door.port)
    };
    let ports: Vec<u16> = entry_points.iter().filter_map(port).collect();
    let is_named = |name: &str| entry_points.iter().any(|own| own.eq_ignore_ascii_case(name));
    let is_tls = !router.get("tls").is_nothing() && router.get("tls").text() != Some("false")
        || router_has_key(router, "tls")
        || ["websecure", "https", "web-secure", "secure"].iter().any(|name| is_named(name))
        || ports.contains(&443);
    let is_plain = !entry_points.is_empty() && !is_tls;
    match (is_plain, ports.first()) {
        (true, Some(port)) => Door { is_tls: false, port: *port, ip: None },
        (true, None) => Door::HTTP,
        (false, Some(port)) if ports.len() == 1 => Door { is_tls: true, port: *port, ip: None },
        (false, _) => Door::HTTPS,
    }
}

/// `tls: {}` says what it does by being there.
fn router_has_key(router: &Tree, name: &str) -> bool {
    router.entries().iter().any(|(key, value)| key == name && value.text() != Some("false"))
}

fn http_group(tree: &Tree, service: &str) -> Option<ServerGroup> {
    let name = service.split('@').next().unwrap_or_default();
    let service = tree.at(&["http", "services", name]);
    if let Some((first, _)) = service.at(&["failover", "service"]).text().zip(service.at(&["failover", "fallback"]).text()) {
        return http_group(tree, first);
    }
    let balancer = service.get("loadBalancer");
    let mut group = ServerGroup { name: name.to_owned(), ..ServerGroup::default() };
    for server in balancer.get("servers").items() {
        let Some(address) = server.get("url").text().and_then(upstream) else { continue };
        if server.get("url").text().is_some_and(|url| url.starts_with("h2c://")) {
            group.add_line("protocol \"h2c\"");
        }
        let weight = server.get("weight").number().map(|weight| weight as u32);
        group.servers.push(GroupedServer { address, weight, is_backup: false });
    }
    let transport = balancer.get("serversTransport").text().unwrap_or_default();
    let transport = tree.at(&["http", "serversTransports", transport.split('@').next().unwrap_or_default()]);
    if transport.get("insecureSkipVerify").text() == Some("true") {
        group.add_line("tls verify=#false");
    }
    if router_has_key(balancer, "sticky") {
        let cookie = balancer.at(&["sticky", "cookie", "name"]).text().unwrap_or("tg_route");
        group.add_line(format!("sticky cookie=\"{cookie}\""));
    }
    if let Some(path) =
        balancer.at(&["healthCheck", "path"]).text().filter(|path| path.starts_with('/') && super::outline::is_plain(path))
    {
        group.add_line(format!("health \"{path}\""));
    }
    (!group.is_empty()).then_some(group)
}

fn tcp(tree: &Tree, outline: &mut Outline) {
    let mut ports: Vec<OutlinedTcp> = Vec::new();
    for (name, router) in tree.at(&["tcp", "routers"]).entries() {
        let Some(rule) = router.get("rule").text().and_then(|rule| traefik_rule::plain(&unescaped(rule))) else { continue };
        let service = router.get("service").text().unwrap_or(name);
        let servers = tree.at(&["tcp", "services", service.split('@').next().unwrap_or_default(), "loadBalancer"]);
        let addresses = servers.get("servers").items().iter().filter_map(|server| upstream(server.get("address").text()?));
        let mut group =
            ServerGroup { name: service.to_owned(), servers: addresses.map(GroupedServer::at).collect(), lines: Vec::new() };
        match servers.at(&["proxyProtocol", "version"]).text() {
            Some("1") => group.add_line("send-proxy-protocol \"v1\""),
            Some(_) => group.add_line("send-proxy-protocol \"v2\""),
            None => {}
        }
        let Some(first) = group.servers.first() else { continue };
        if router_has_key(router, "tls") && router.at(&["tls", "passthrough"]).text() != Some("true") {
            outline.without.get_or_insert(TLS_OF_TCP);
            continue;
        }
        // By its entry point, where that says it; else as the server's, which is how databases are reached.
        let entry_points = router.get("entryPoints").texts();
        let told = entry_points
            .iter()
            .find_map(|name| Door::parse(tree.at(&["entryPoints", name, "address"]).text()?.split('/').next()?, false));
        let by_name = entry_points.iter().any(|name| matches!(name.as_str(), "websecure" | "https" | "tls")).then_some(443);
        let of_server = || first.address.rsplit(':').next().and_then(|port| port.parse().ok());
        let is_passed = router_has_key(router, "tls");
        let Some(port) = told.map(|door| door.port).or(by_name).or(is_passed.then_some(443)).or_else(of_server) else { continue };
        let address = format!(":{port}");
        let at = ports.iter().position(|tcp| tcp.address == address).unwrap_or_else(|| {
            ports.push(OutlinedTcp { address, ..OutlinedTcp::default() });
            ports.len() - 1
        });
        let names: Vec<String> =
            rule.server_names.into_iter().filter(|name| name != "*").map(|name| without_variables(&name)).collect();
        if names.is_empty() {
            ports[at].otherwise.get_or_insert(group);
        } else {
            ports[at].by_name.push((names, group));
        }
    }
    outline.services.extend(ports.into_iter().map(Service::Tcp));
}

/// The labels of a file of Compose, with the services that they are of. Each is asked under its own name, as containers
/// of one network are.
pub fn of_compose(tree: &Tree) -> Outline {
    let mut all = Tree::Map(Vec::new());
    for (name, service) in tree.get("services").entries() {
        let mut own = Tree::Map(Vec::new());
        for labels in [service.get("labels"), service.at(&["deploy", "labels"])] {
            for (key, value) in labels_of(labels) {
                let Some(key) = key.strip_prefix("traefik.") else { continue };
                let path: Vec<String> =
                    key.split('.').map(|part| part.split('[').next().unwrap_or_default().to_owned()).take(12).collect();
                let place = own.place(&path);
                // What is said of it in more words counts.
                if !matches!(place, Tree::Map(_)) {
                    *place = Tree::Text(value);
                }
            }
        }
        fill_services(&mut own, name, service);
        merge(&mut all, own);
    }
    let mut statics = Tree::Map(Vec::new());
    for (_, service) in tree.get("services").entries() {
        for flag in service.get("command").items().iter().filter_map(Tree::text).flat_map(str::split_whitespace) {
            if let Some((key, value)) = flag.trim_start_matches('-').split_once('=') {
                let path: Vec<String> = key.split('.').map(str::to_owned).take(12).collect();
                *statics.place(&path) = Tree::Text(value.to_owned());
            }
        }
    }
    merge(&mut all, statics);
    outline(&[all])
}

/// `a=b` in a list, or `a: b` in a map.
fn labels_of(labels: &Tree) -> Vec<(String, String)> {
    let of_list = labels.items().iter().filter_map(Tree::text).filter_map(|label| label.split_once('='));
    let of_map = labels.entries().iter().map(|(key, value)| (key.as_str(), value.text().unwrap_or("true")));
    of_list.chain(of_map).map(|(key, value)| (key.to_owned(), value.trim_matches(['"', '\'']).to_owned())).collect()
}

/// Servers are the containers: what the labels say of them is the port.
fn fill_services(own: &mut Tree, name: &str, compose: &Tree) {
    for (kind, key) in [("http", "url"), ("tcp", "address")] {
        let routers: Vec<(String, Option<String>)> = own
            .at(&[kind, "routers"])
            .entries()
            .iter()
            .map(|(router, value)| (router.clone(), value.get("service").text().map(str::to_owned)))
            .collect();
        let services: Vec<String> = own.at(&[kind, "services"]).entries().iter().map(|(service, _)| service.clone()).collect();
        for (router, service) in routers {
            let is_foreign = service
                .as_ref()
                .is_some_and(|service| service.contains('@') || !services.contains(service) && !services.is_empty());
            if is_foreign {
                continue;
            }
            // Without a word, a router's service is the only one that its container has.
            let service = service.or_else(|| services.first().cloned()).unwrap_or_else(|| router.clone());
            let balancer = own.at(&[kind, "services", &service, "loadBalancer", "server"]);
            let told = balancer.get("port").number();
            let scheme = balancer.get("scheme").text().map(|scheme| format!("{scheme}://")).unwrap_or_default();
            let exposed = || {
                compose
                    .get("expose")
                    .items()
                    .iter()
                    .chain(compose.get("ports").items())
                    .find_map(|port| port.text()?.rsplit(':').next()?.split('/').next()?.parse::<u64>().ok())
            };
            let port = told.or_else(exposed).unwrap_or(80);
            let path = [kind, "services", &service, "loadBalancer", "servers"].map(str::to_owned);
            *own.place(&path) = Tree::List(vec![Tree::Map(vec![(key.to_owned(), Tree::Text(format!("{scheme}{name}:{port}")))])]);
            let path = [kind, "routers", &router, "service"].map(str::to_owned);
            *own.place(&path) = Tree::Text(service);
        }
    }
}

fn merge(all: &mut Tree, other: Tree) {
    match other {
        Tree::Map(entries) => {
            for (key, value) in entries {
                merge(all.place(&[key]), value);
            }
        }
        Tree::Nothing => {}
        Tree::Text(_) | Tree::List(_) => *all = other,
    }
}

/// `IngressRoute` and `IngressRouteTCP` of Kubernetes, whose services are reached by their names.
pub fn of_manifests(trees: &[Tree]) -> Outline {
    let mut outline = Outline::default();
    for tree in trees {
        let kind = tree.get("kind").text().unwrap_or_default();
        let namespace = tree.at(&["metadata", "namespace"]).text();
        let spec = tree.get("spec");
        let door = door(&Tree::Nothing, spec);
        let mut by_host: Vec<(Vec<String>, OutlinedSite)> = Vec::new();
        for route in spec.get("routes").items() {
            let Some(rule) = route.get("match").text().and_then(traefik_rule::plain) else { continue };
            let servers = route.get("services").items().iter().filter_map(|service| address_of(service, namespace));
            let group = ServerGroup { name: "app".into(), servers: servers.map(GroupedServer::at).collect(), lines: Vec::new() };
            if group.is_empty() {
                continue;
            }
            if kind == "IngressRouteTCP" {
                let is_passed = spec.at(&["tls", "passthrough"]).text() == Some("true");
                let port = group.servers[0].address.rsplit(':').next().unwrap_or_default().to_owned();
                let names: Vec<String> = rule.server_names.into_iter().filter(|name| name != "*").collect();
                if router_has_key(spec, "tls") && !is_passed {
                    outline.without.get_or_insert(TLS_OF_TCP);
                    continue;
                }
                let address = if is_passed || !names.is_empty() { ":443".to_owned() } else { format!(":{port}") };
                let (by_name, otherwise) =
                    if names.is_empty() { (Vec::new(), Some(group)) } else { (vec![(names, group)], None) };
                outline.services.push(Service::Tcp(OutlinedTcp { address, by_name, otherwise }));
                continue;
            }
            let at = by_host.iter().position(|(hosts, _)| *hosts == rule.hosts).unwrap_or_else(|| {
                by_host.push((rule.hosts.clone(), OutlinedSite::default()));
                by_host.len() - 1
            });
            let site = &mut by_host[at].1;
            if !route.get("middlewares").is_nothing() && site.guards.is_empty() {
                site.guards.push("middlewares".into());
            }
            let answer = OutlinedAnswer::proxy(group);
            if rule.paths.is_empty() && rule.conditions.is_empty() {
                site.answer.get_or_insert(answer);
            } else {
                site.routes.push(OutlinedRoute { conditions: rule.conditions, ..OutlinedRoute::of(rule.paths, answer) });
            }
        }
        for (hosts, site) in by_host {
            if let Some(addresses) = addresses(&hosts, door) {
                outline.services.push(Service::Site(OutlinedSite { addresses, ..site }));
            }
        }
    }
    outline.or_without(NO_ROUTER)
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
