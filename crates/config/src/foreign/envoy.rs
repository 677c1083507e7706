//! What a configuration of Envoy asks for: listeners with their filter chains, of HTTP or of connections as they are,
//! and the clusters behind them. Parts that Envoy gets one by one are looked at as well.

mod clusters;
mod words;

use super::accounts::Origin;
use super::outline::{
    Door, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service, TLS_NEWEST, Whereabouts,
    below, tcp_address, whereabouts,
};
use super::tree::Tree;
use clusters::{Socket, cluster, endpoints_alone};
use std::collections::BTreeSet;
use std::net::IpAddr;

const BY_CONTROL_PLANE: &str = "its listeners come from a control plane; here a file has them, or the API";
const NO_CLUSTER: &str = "the clusters that its routes lead to are in none of its parts";
const NOTHING: &str = "it has no listener with routes, and no cluster with addresses";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";
const TO_HTTPS: &str = "all that it has is the redirect to HTTPS, which a site does without a word";
const UDP: &str = "UDP is not handed on in this version";
const OTHER_SOCKET: &str = "what is spoken on its transport sockets is neither TLS nor plain text";
const BEHIND: &str = "which cluster is asked hangs on conditions that no line here is told for, and all else comes behind them";
const NO_ADDRESS: &str = "where its listener is cannot be told";
const WEIGHTED: &str =
    "its clusters share requests by weight: `split { proxy \"a\" weight=90; proxy \"b\" weight=10; }` does that here";
const FEWER_NAMES: &str = "a name with `*` is one more label here, and any number of them there";

pub fn outline(trees: &[Tree]) -> Outline {
    let outline = Outline { statements: words::statements(trees), ..Outline::default() };
    let mut reader = EnvoyReader { clusters: Vec::new(), outline };
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
            reader.virtual_hosts(part, Door::HTTPS, &[], &Origin::default(), false);
        } else if !part.get("filters").is_nothing() {
            let mut tcp = OutlinedTcp::default();
            reader.add_chain(part, None, &Origin::default(), &mut tcp);
            reader.add_tcp(tcp);
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
        let mut own = Origin { within: listener.statements(), ..Origin::default() };
        let chains = listener.get("filter_chains").items().iter().chain(match listener.get("default_filter_chain") {
            chain if chain.is_nothing() => &[],
            chain => std::slice::from_ref(chain),
        });
        let chains: Vec<&Tree> = chains.collect();
        for at in chains.iter().flat_map(|chain| chain.statements()) {
            own.within.remove(&at);
        }
        own.carry_all(address.get("address").statements());
        own.carry_all(address.get("port_value").statements());
        let port = address.get("port_value").number().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
        let host = address.get("address").text().unwrap_or_default();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let door = port.and_then(|port| Door::parse(&format!("{host}:{port}"), false));
        if door.is_none() && listener.has("address") {
            self.outline.without.get_or_insert(NO_ADDRESS);
            return;
        }
        let mut tcp = OutlinedTcp::default();
        for chain in chains {
            self.add_chain(chain, door.map(|door| (door.port, door.ip)), &own, &mut tcp);
        }
        self.add_tcp(tcp);
    }

    fn add_tcp(&mut self, tcp: OutlinedTcp) {
        if tcp.otherwise.is_some() || !tcp.by_name.is_empty() {
            self.outline.services.push(Service::Tcp(tcp));
        }
    }

    /// `own` is what is said of the listener, for all of its chains.
    fn add_chain(&mut self, chain: &Tree, door: Option<(u16, Option<IpAddr>)>, own: &Origin, tcp: &mut OutlinedTcp) {
        let is_tls = match Socket::of(chain.get("transport_socket")) {
            Socket::Plain => chain.has("tls_context"),
            Socket::Tls => true,
            Socket::Header | Socket::Other => {
                self.outline.without.get_or_insert(OTHER_SOCKET);
                tcp.origin.within.extend(chain.statements());
                return;
            }
        };
        let server_names = chain.at(&["filter_chain_match", "server_names"]);
        let names = server_names.texts();
        let mut origin = own.clone();
        origin.within.extend(chain.statements());
        origin.carry_all(server_names.statements());
        if names.iter().any(|name| name.starts_with('*')) {
            origin.differ(server_names.start(), FEWER_NAMES);
        }
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
                let routes = settings.get("route_config");
                if routes.is_nothing() && !settings.get("rds").is_nothing() {
                    self.outline.without.get_or_insert(BY_CONTROL_PLANE);
                }
                let mut origin = origin.clone();
                for at in routes.get("virtual_hosts").statements() {
                    origin.within.remove(&at);
                }
                let oldest = oldest_tls(chain);
                let newest = oldest.text() == Some("TLSv1_3");
                origin.carry_all(oldest.statements().into_iter().filter(|_| newest));
                self.virtual_hosts(routes, Door { is_tls, port, ip }, &names, &origin, newest);
            } else if kind.contains("tcpproxy") {
                // What another chain of the listener takes is said by that one, and who is kept out by any of them.
                tcp.origin.add(&origin);
                if is_tls {
                    self.outline.without.get_or_insert(TLS_OF_TCP);
                    continue;
                }
                let weighted = settings.get("weighted_clusters");
                let single = settings.get("cluster");
                let Some(group) = single.text().and_then(|name| self.cluster(name)).filter(|_| weighted.is_nothing()) else {
                    continue;
                };
                tcp.origin.carry_all(single.statements());
                let of_server = || group.servers.first().and_then(|server| server.address.rsplit(':').next()?.parse().ok());
                let told = door.map(|(port, _)| port).or_else(|| (!names.is_empty()).then_some(443)).or_else(of_server);
                tcp.address = tcp_address(door.and_then(|(_, ip)| ip), told.unwrap_or(443));
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

    fn virtual_hosts(&mut self, config: &Tree, door: Door, server_names: &[String], own: &Origin, newest: bool) {
        for host in config.get("virtual_hosts").items() {
            let domains: Vec<String> = host.get("domains").texts();
            let port = format!(":{}", door.port);
            let hosts: Vec<String> = domains
                .iter()
                .filter(|domain| *domain != "*")
                .map(|domain| domain.trim_end_matches(&port).trim_end_matches(":*").to_owned())
                .collect();
            let is_all = domains.iter().any(|domain| domain == "*");
            // Whoever asks for another name comes to another chain.
            let hosts = if is_all { server_names.to_vec() } else { hosts };
            let Some(Whereabouts { addresses, only_hosts, is_less }) = whereabouts(&hosts, door) else { continue };
            let mut site = OutlinedSite { addresses, only_hosts, origin: own.clone(), ..OutlinedSite::default() };
            let routes: BTreeSet<usize> = host.get("routes").statements();
            site.origin.within.extend(host.statements().difference(&routes));
            site.origin.carry_all(host.get("domains").statements());
            if is_less || hosts.iter().any(|host| host.starts_with('*')) {
                site.origin.differ(host.get("domains").start(), FEWER_NAMES);
            }
            if door.is_tls {
                site.origin.carry_all(host.get("require_tls").statements());
            }
            site.steps = newest.then(|| TLS_NEWEST.to_owned()).into_iter().collect();
            let routes: Vec<&Tree> = host.get("routes").items().iter().collect();
            // What stands behind a route that is not told is for other requests than here.
            let is_all_told = routes.iter().all(|route| self.route(route, door, &mut site));
            if !is_all_told {
                self.outline.without.get_or_insert(BEHIND);
                site.origin.within.extend(routes.iter().flat_map(|route| route.statements()));
            }
            if site.answer.is_some() || !site.routes.is_empty() {
                self.outline.services.push(Service::Site(site));
            }
        }
    }

    /// Whether what it takes is told.
    fn route(&mut self, route: &Tree, door: Door, site: &mut OutlinedSite) -> bool {
        if site.answer.is_some() {
            // What stands behind a route for all is never reached.
            site.origin.carry_all(route.statements());
            return true;
        }
        let redirect = route.get("redirect");
        let stays = ["host_redirect", "path_redirect", "prefix_rewrite"].iter().all(|name| redirect.get(name).is_nothing());
        if !redirect.is_nothing() && stays && door.is_tls {
            self.outline.without.get_or_insert(TO_HTTPS);
            site.origin.carry_all(route.statements());
            return true;
        }
        let matched = route.get("match");
        let is_path = |name: &str| ["prefix", "path", "safe_regex", "path_separated_prefix", "headers"].contains(&name);
        let has_more = matched.entries().iter().any(|(name, _)| !is_path(&snake(name)));
        let prefix = matched.get("prefix").text();
        let segments = matched.get("path_separated_prefix").text();
        let told = self.answer(route, prefix.or(segments)).filter(|_| !has_more).zip(conditions(matched.get("headers")));
        let Some(((answer, carried), conditions)) = told else { return false };
        let mut told = OutlinedRoute { conditions, ..OutlinedRoute::of(Vec::new(), answer) };
        told.origin.within = route.statements();
        told.origin.carry_all(carried);
        told.origin.carry_all(matched.statements());
        match (prefix, segments, matched.get("path").text(), matched.at(&["safe_regex", "regex"]).text()) {
            (Some("/"), _, _, _) if told.conditions.is_empty() => {
                site.origin.add(&told.origin);
                site.answer = Some(told.answer);
                return true;
            }
            (Some("/"), _, _, _) => {}
            (Some(prefix), _, _, _) if prefix.len() > 1 => told.add_prefix(prefix, matched.get("prefix").start()),
            (_, Some(segments), _, _) => told.patterns.push(below(segments)),
            (_, _, Some(exact), _) => told.patterns.push(exact.to_owned()),
            (_, _, _, Some(regex)) => told.patterns.push(format!("~^(?:{regex})$")),
            _ => return false,
        }
        site.routes.push(told);
        true
    }

    /// What a route answers, and where that is said.
    fn answer(&mut self, route: &Tree, prefix: Option<&str>) -> Option<(OutlinedAnswer, BTreeSet<usize>)> {
        let action = route.get("route");
        if !action.is_nothing() {
            let cluster = action.get("cluster");
            if action.has("weighted_clusters") {
                self.outline.without.get_or_insert(WEIGHTED);
            }
            let mut carried = cluster.statements();
            let group = self.cluster(cluster.text()?)?;
            let written = action.get("prefix_rewrite");
            carried.extend(written.statements());
            let rewritten = written.text();
            let strip =
                rewritten.and(prefix).map(|prefix| prefix.trim_end_matches('/').to_owned()).filter(|strip| !strip.is_empty());
            let add = rewritten.map(|to| to.trim_end_matches('/').to_owned()).filter(|add| !add.is_empty());
            return Some((OutlinedAnswer::Proxy { group, strip, add }, carried));
        }
        let redirect = route.get("redirect");
        if !redirect.is_nothing() {
            let is_https = redirect.get("https_redirect").is_true() || redirect.get("scheme_redirect").text() == Some("https");
            let scheme = if is_https { "https" } else { "{scheme}" };
            let host = redirect.get("host_redirect").text().unwrap_or("{host}");
            let path = redirect.get("path_redirect").text().unwrap_or("{uri}");
            if redirect.has("prefix_rewrite") || redirect.has("regex_rewrite") {
                return None;
            }
            let status = match redirect.get("response_code").text() {
                Some("FOUND") => 302,
                Some("SEE_OTHER") => 303,
                Some("TEMPORARY_REDIRECT") => 307,
                Some("PERMANENT_REDIRECT") => 308,
                Some(_) | None => 301,
            };
            return Some((OutlinedAnswer::Redirect { to: format!("{scheme}://{host}{path}"), status }, redirect.statements()));
        }
        let direct = route.get("direct_response");
        let status = direct.get("status").number().and_then(|status| u16::try_from(status).ok())?;
        let body = direct.at(&["body", "inline_string"]).text().map(str::to_owned);
        Some((OutlinedAnswer::Respond { status, body }, direct.statements()))
    }
}

/// Conditions about fields, as they stand behind `match`.
fn conditions(headers: &Tree) -> Option<Vec<String>> {
    let mut conditions = Vec::new();
    for header in headers.items() {
        let name = header.get("name").text()?;
        let exact = header.get("exact_match").text().or(header.at(&["string_match", "exact"]).text());
        let is_known = header.entries().len() == 2;
        let is_plain = |text: &str| super::outline::is_plain(text) && !text.contains('*');
        match exact {
            Some(methods) if name == ":method" && is_known && is_plain(methods) => {
                conditions.push(format!("method=\"{methods}\""));
            }
            Some(value) if is_known && is_plain(name) && !name.starts_with(':') && is_plain(value) => {
                conditions.push(format!("header=\"{name}: {value}\""));
            }
            None if is_known && header.get("present_match").is_true() && is_plain(name) && !name.starts_with(':') => {
                conditions.push(format!("header=\"{name}\""));
            }
            Some(_) | None => return None,
        }
    }
    Some(conditions)
}

fn oldest_tls(chain: &Tree) -> &Tree {
    let socket = chain.at(&["transport_socket", "typed_config"]);
    let context = if socket.is_nothing() { chain.get("tls_context") } else { socket };
    context.at(&["common_tls_context", "tls_params", "tls_minimum_protocol_version"])
}

/// `pathSeparatedPrefix` as the other spelling has it.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
