//! What a configuration of Envoy asks for: listeners with their filter chains, of HTTP or of connections as they are,
//! and the clusters behind them. Parts that Envoy gets one by one are looked at as well.

use super::outline::{
    Door, GroupedServer, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service, addresses,
    below, upstream,
};
use super::tree::Tree;
use std::net::IpAddr;

const BY_CONTROL_PLANE: &str = "its listeners come from a control plane; here a file has them, or the API";
const NO_CLUSTER: &str = "the clusters that its routes lead to are in none of its parts";
const NOTHING: &str = "it has no listener with routes, and no cluster with addresses";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";
const TO_HTTPS: &str = "all that it has is the redirect to HTTPS, which a site does without a word";
const UDP: &str = "UDP is not handed on in this version";

const GUARDS: [&str; 9] = [
    "ext_authz",
    "jwt_authn",
    "rbac",
    "local_ratelimit",
    "ratelimit",
    "basic_auth",
    "oauth2",
    "require_client_certificate",
    "admission_control",
];

pub fn outline(trees: &[Tree]) -> Outline {
    let mut reader = EnvoyReader { clusters: Vec::new(), outline: Outline::default() };
    // A file of a part lists resources of one kind, with or without a list around them.
    let resources: Vec<&Tree> = trees
        .iter()
        .flat_map(Tree::items)
        .flat_map(|tree| {
            let listed = tree.get("resources");
            std::iter::once(tree).chain(listed.items())
        })
        .collect();
    for part in &resources {
        for place in [part.at(&["static_resources", "clusters"]), part.get("clusters")] {
            reader.clusters.extend(place.items().iter().filter_map(cluster));
        }
        if !part.get("load_assignment").is_nothing() || !part.get("lb_policy").is_nothing() {
            reader.clusters.extend(cluster(part));
        }
        if !part.get("endpoints").is_nothing() && !part.get("cluster_name").is_nothing() {
            reader.clusters.extend(endpoints_alone(part));
        }
    }
    for part in &resources {
        for place in [part.at(&["static_resources", "listeners"]), part.get("listeners")] {
            place.items().iter().for_each(|listener| reader.listener(listener));
        }
        if !part.get("filter_chains").is_nothing() {
            reader.listener(part);
        } else if !part.get("virtual_hosts").is_nothing() {
            reader.virtual_hosts(part, Door::HTTPS, &[]);
        } else if !part.get("filters").is_nothing() {
            reader.chain(part, None);
        }
    }
    let is_dynamic = trees.iter().any(|tree| !tree.get("dynamic_resources").is_nothing());
    let EnvoyReader { clusters, mut outline } = reader;
    let has_listener = resources
        .iter()
        .any(|part| !part.at(&["static_resources", "listeners"]).items().is_empty() || !part.get("listeners").is_nothing());
    if outline.services.is_empty() && !has_listener {
        outline.groups = clusters.into_iter().filter(|cluster| !cluster.is_empty()).collect();
        if is_dynamic {
            // A cluster there is the control plane itself.
            outline.groups.clear();
            outline.without.get_or_insert(BY_CONTROL_PLANE);
        }
    }
    outline.or_without(NOTHING)
}

struct EnvoyReader {
    clusters: Vec<ServerGroup>,
    outline: Outline,
}

impl EnvoyReader {
    fn listener(&mut self, listener: &Tree) {
        let address = listener.at(&["address", "socket_address"]);
        if address.get("protocol").text() == Some("UDP") {
            self.outline.without.get_or_insert(UDP);
            return;
        }
        let port = address.get("port_value").number().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
        let ip = address.get("address").text().and_then(|ip| ip.parse().ok()).filter(|ip: &IpAddr| !ip.is_unspecified());
        let chains = listener.get("filter_chains").items().iter().chain(match listener.get("default_filter_chain") {
            Tree::Nothing => &[],
            chain => std::slice::from_ref(chain),
        });
        let mut tcp = OutlinedTcp::default();
        for chain in chains {
            self.add_chain(chain, port.map(|port| (port, ip)), &mut tcp);
        }
        self.add_tcp(tcp);
    }

    fn chain(&mut self, chain: &Tree, door: Option<(u16, Option<IpAddr>)>) {
        let mut tcp = OutlinedTcp::default();
        self.add_chain(chain, door, &mut tcp);
        self.add_tcp(tcp);
    }

    fn add_tcp(&mut self, tcp: OutlinedTcp) {
        if tcp.otherwise.is_some() || !tcp.by_name.is_empty() {
            self.outline.services.push(Service::Tcp(tcp));
        }
    }

    fn add_chain(&mut self, chain: &Tree, door: Option<(u16, Option<IpAddr>)>, tcp: &mut OutlinedTcp) {
        let is_tls = !chain.get("transport_socket").is_nothing() || !chain.get("tls_context").is_nothing();
        let names = chain.at(&["filter_chain_match", "server_names"]).texts();
        for filter in chain.get("filters").items() {
            let settings = [filter.get("typed_config"), filter.get("config")]
                .into_iter()
                .find(|settings| !settings.is_nothing())
                .unwrap_or(filter);
            let kind =
                format!("{} {}", filter.get("name").text().unwrap_or_default(), settings.get("@type").text().unwrap_or_default());
            let kind = kind.to_ascii_lowercase().replace('_', "");
            if kind.contains("httpconnectionmanager") {
                let (port, ip) = door.unwrap_or((if is_tls { 443 } else { 80 }, None));
                let door = Door { is_tls, port, ip: ip.filter(IpAddr::is_loopback) };
                let guards: Vec<String> = GUARDS
                    .iter()
                    .filter(|guard| {
                        settings
                            .get("http_filters")
                            .items()
                            .iter()
                            .any(|own| own.get("name").text().is_some_and(|name| name.ends_with(*guard)))
                            || chain.has_within(guard)
                    })
                    .map(|guard| (*guard).to_owned())
                    .collect();
                let routes = settings.get("route_config");
                if routes.is_nothing() && !settings.get("rds").is_nothing() {
                    self.outline.without.get_or_insert(BY_CONTROL_PLANE);
                }
                self.virtual_hosts(routes, door, &guards);
            } else if kind.contains("tcpproxy") {
                if is_tls {
                    self.outline.without.get_or_insert(TLS_OF_TCP);
                    continue;
                }
                let weighted =
                    settings.at(&["weighted_clusters", "clusters"]).items().first().and_then(|first| first.get("name").text());
                let cluster = settings.get("cluster").text().or(weighted).and_then(|name| self.cluster(name));
                let Some(group) = cluster else { continue };
                let of_server = || group.servers.first().and_then(|server| server.address.rsplit(':').next()?.parse().ok());
                let told = door.map(|(port, _)| port).or_else(|| (!names.is_empty()).then_some(443)).or_else(of_server);
                tcp.address = format!(":{}", told.unwrap_or(443));
                if names.is_empty() { tcp.otherwise = Some(group) } else { tcp.by_name.push((names.clone(), group)) }
            }
        }
    }

    fn cluster(&mut self, name: &str) -> Option<ServerGroup> {
        let found = self.clusters.iter().find(|cluster| cluster.name == name && !cluster.is_empty()).cloned();
        if found.is_none() {
            self.outline.without.get_or_insert(NO_CLUSTER);
        }
        found
    }

    fn virtual_hosts(&mut self, config: &Tree, door: Door, guards: &[String]) {
        for host in config.get("virtual_hosts").items() {
            let domains: Vec<String> = host.get("domains").texts();
            let port = format!(":{}", door.port);
            let hosts: Vec<String> = domains
                .iter()
                .filter(|domain| *domain != "*")
                .map(|domain| domain.trim_end_matches(&port).trim_end_matches(":*").to_owned())
                .collect();
            let Some(addresses) = addresses(&hosts, door) else { continue };
            let mut site = OutlinedSite { addresses, guards: guards.to_vec(), ..OutlinedSite::default() };
            for route in host.get("routes").items() {
                self.route(route, door, &mut site);
            }
            if site.answer.is_some() || !site.routes.is_empty() {
                self.outline.services.push(Service::Site(site));
            }
        }
    }

    fn route(&mut self, route: &Tree, door: Door, site: &mut OutlinedSite) {
        let redirect = route.get("redirect");
        let stays = ["host_redirect", "path_redirect", "prefix_rewrite"].iter().all(|name| redirect.get(name).is_nothing());
        if !redirect.is_nothing() && stays && door.is_tls {
            self.outline.without.get_or_insert(TO_HTTPS);
            return;
        }
        let matched = route.get("match");
        let has_more =
            ["headers", "query_parameters", "grpc", "runtime_fraction"].iter().any(|name| !matched.get(name).is_nothing());
        let prefix = matched.get("prefix").text().or(matched.get("path_separated_prefix").text());
        let exact = matched.get("path").text();
        let regex = matched.at(&["safe_regex", "regex"]).text();
        let Some(answer) = self.answer(route, prefix).filter(|_| !has_more) else { return };
        let pattern = match (prefix, exact, regex) {
            (Some("/"), _, _) => {
                site.answer.get_or_insert(answer);
                return;
            }
            (Some(prefix), _, _) if prefix.len() > 1 => below(prefix),
            (_, Some(exact), _) => exact.to_owned(),
            (_, _, Some(regex)) => format!("~^{regex}$"),
            _ => return,
        };
        // What stands behind a route for all is never reached.
        if site.answer.is_none() {
            site.routes.push(OutlinedRoute::of(vec![pattern], answer));
        }
    }

    fn answer(&mut self, route: &Tree, prefix: Option<&str>) -> Option<OutlinedAnswer> {
        let action = route.get("route");
        if !action.is_nothing() {
            let weighted = action
                .at(&["weighted_clusters", "clusters"])
                .items()
                .iter()
                .max_by_key(|cluster| cluster.get("weight").number())
                .and_then(|cluster| cluster.get("name").text());
            let group = self.cluster(action.get("cluster").text().or(weighted)?)?;
            let rewritten = action.get("prefix_rewrite").text();
            let strip =
                rewritten.and(prefix).map(|prefix| prefix.trim_end_matches('/').to_owned()).filter(|strip| !strip.is_empty());
            let add = rewritten.map(|to| to.trim_end_matches('/').to_owned()).filter(|add| !add.is_empty());
            return Some(OutlinedAnswer::Proxy { group, strip, add });
        }
        let redirect = route.get("redirect");
        if !redirect.is_nothing() {
            let is_https =
                redirect.get("https_redirect").text() == Some("true") || redirect.get("scheme_redirect").text() == Some("https");
            let scheme = if is_https { "https" } else { "{scheme}" };
            let host = redirect.get("host_redirect").text().unwrap_or("{host}");
            let path = redirect.get("path_redirect").text().unwrap_or("{uri}");
            let status = match redirect.get("response_code").text() {
                Some("FOUND") => 302,
                Some("SEE_OTHER") => 303,
                Some("TEMPORARY_REDIRECT") => 307,
                Some("PERMANENT_REDIRECT") => 308,
                Some(_) | None => 301,
            };
            return Some(OutlinedAnswer::Redirect { to: format!("{scheme}://{host}{path}"), status });
        }
        let direct = route.get("direct_response");
        let status = direct.get("status").number().and_then(|status| u16::try_from(status).ok())?;
        Some(OutlinedAnswer::Respond { status, body: direct.at(&["body", "inline_string"]).text().map(str::to_owned) })
    }
}

fn cluster(tree: &Tree) -> Option<ServerGroup> {
    let mut group = ServerGroup { name: tree.get("name").text()?.to_owned(), ..ServerGroup::default() };
    let of_all_addresses = tree.get("type").text() == Some("STRICT_DNS");
    let localities = tree.at(&["load_assignment", "endpoints"]).items();
    servers_of(localities, &mut group);
    // As the API of version 2 had it.
    group.servers.extend(tree.get("hosts").items().iter().filter_map(address).map(GroupedServer::at));
    match tree.get("lb_policy").text() {
        Some("LEAST_REQUEST") => group.add_line("balance \"least-conn\""),
        Some("RANDOM") => group.add_line("balance \"random\""),
        Some("RING_HASH" | "MAGLEV") => group.add_line("balance \"hash\" key=\"{client.ip}\""),
        Some(_) | None => {}
    }
    let is_tls = !tree.get("transport_socket").is_nothing() || !tree.get("tls_context").is_nothing();
    let is_http2 = !tree.get("http2_protocol_options").is_nothing()
        || tree.entries().iter().any(|(key, _)| key == "http2_protocol_options")
        || tree.at(&["typed_extension_protocol_options"]).has_within("http2_protocol_options");
    if is_tls {
        group = group.over_tls();
        let name = tree.at(&["transport_socket", "typed_config", "sni"]).text().or(tree.at(&["tls_context", "sni"]).text());
        if let Some(name) = name.filter(|name| super::outline::is_plain(name)) {
            group.add_line(format!("tls sni=\"{name}\""));
        }
    } else if is_http2 {
        group.add_line("protocol \"h2c\"");
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

fn servers_of(localities: &[Tree], group: &mut ServerGroup) {
    for locality in localities {
        let is_backup = locality.get("priority").number().is_some_and(|priority| priority > 0);
        for endpoint in locality.get("lb_endpoints").items() {
            let weight = endpoint.get("load_balancing_weight").number().map(|weight| weight as u32).filter(|weight| *weight > 0);
            group.servers.extend(address(endpoint.at(&["endpoint", "address"])).map(|address| GroupedServer {
                address,
                weight,
                is_backup,
            }));
        }
    }
}

fn endpoints_alone(tree: &Tree) -> Option<ServerGroup> {
    let mut group = ServerGroup { name: tree.get("cluster_name").text()?.to_owned(), ..ServerGroup::default() };
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
