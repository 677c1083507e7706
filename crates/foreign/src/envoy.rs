//! What a configuration of Envoy asks for: listeners with their filter chains, of HTTP or of connections as they are,
//! and the clusters behind them. Parts that Envoy gets one by one, and what it prints of all that it has, are looked at
//! as well.

mod authority;
mod checks;
mod clusters;
mod filters;
mod headers;
mod hosts;
mod known;
mod logs;
mod rbac;
mod routes;
mod taken;
mod tls;
mod virtual_hosts;
mod words;

pub use words::{remedy, why_same};

use super::accounts::Origin;
use super::outline::{
    self, Door, Outline, OutlinedAnswer, OutlinedSetting, OutlinedSite, OutlinedTcp, ServerGroup, Service, Whereabouts,
    any_depth, opens_no_http, tcp_address, whereabouts,
};
use super::site_logs;
use super::tree::Tree;
use authority::Authority;
use clusters::{Socket, cluster, endpoints_alone};
use filters::FilterChain;
use hosts::PatternedHost;
use std::collections::BTreeSet;
use std::net::IpAddr;
use tidegate_kdl::quoted;

const BY_CONTROL_PLANE: &str = "its listeners come from a control plane; here a file has them, or the API";
const NO_CLUSTER: &str = "the clusters that its routes lead to are in none of its parts";
const NOTHING: &str = "it has no listener with routes, and no cluster with addresses";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";
const UDP: &str = "UDP is not handed on in this version";
const OTHER_SOCKET: &str = "what is spoken on its transport sockets is neither TLS nor plain text";
const INTERNAL: &str = "it is on no port of the machine: other listeners of the process hand to it";
const NOT_BOUND: &str = "it opens no port (`bind_to_port: false`): connections come to it from another listener";
const NO_UPGRADES: &str = "Envoy refuses what asks for an upgrade, as a WebSocket does, where no `upgrade_configs` has it, and here it is \
                           handed on: `route { match header=\"Upgrade: websocket\"; respond 403; }` refuses it";
const METHODS: &str = "methods that Envoy does not know, as `FOO` and `get` in small letters, get 400 there over HTTP/1.1, and `OPTIONS *` \
                       404: they are passed on here, and `match method=` in a route says which it takes";
const NORMAL: &str = "paths are brought into one form before a route is looked for, so that `/x/../admin` is `/admin` to every guard, and \
                      a host is the same with a dot at its end: Envoy compares both as they were sent where nothing else is set";
const ONE_FOR_ALL: &str = "it is one for all sites here, and that of the first listener that says it";
const EXTERNAL: &str = "they are taken out of all requests here, and there of those from outside";
const NO_ADDRESS: &str = "where its listener is cannot be told";
const WEIGHTED: &str =
    "its clusters share requests by weight: `split { proxy \"a\" weight=90; proxy \"b\" weight=10; }` does that here";
const EVERYBODY: &str =
    "each peer has to begin with the header of the PROXY protocol there as here: name your load balancers in `from=`";

pub fn outline(trees: &[Tree]) -> Outline {
    let outline = Outline { statements: words::statements(trees), ..Outline::default() };
    let parts = parts(trees);
    let mut outline = Outline { is_logged_where_said: true, ..outline };
    known::strangers(&parts).mark(&mut outline.statements, &mut outline.reasons);
    let mut reader = EnvoyReader {
        clusters: Vec::new(),
        configs: Vec::new(),
        secrets: Vec::new(),
        doors: Vec::new(),
        keeps_alive: None,
        patterned: Vec::new(),
        closed: Vec::new(),
        outline,
    };
    for part in &parts {
        for place in [part.at(&["static_resources", "secrets"]), part.get("secrets")] {
            reader.secrets.extend(place.items());
        }
        for place in [part.at(&["static_resources", "clusters"]), part.get("clusters")] {
            reader.clusters.extend(place.items().iter().filter_map(cluster));
        }
        if !part.get("load_assignment").is_nothing() || !part.get("lb_policy").is_nothing() {
            reader.clusters.extend(cluster(part));
        }
        if !part.get("endpoints").is_nothing() && !part.get("cluster_name").is_nothing() {
            reader.endpoints(part);
        }
        if part.has("virtual_hosts") {
            reader.configs.push(part);
        }
    }
    let is_dump = trees.iter().any(|tree| tree.has("configs"));
    for part in &parts {
        for place in [part.at(&["static_resources", "listeners"]), part.get("listeners")] {
            place.items().iter().for_each(|listener| reader.listener(listener));
        }
        if !part.get("filter_chains").is_nothing() {
            reader.listener(part);
        } else if part.has("virtual_hosts") && !is_dump && !parts.iter().any(|other| other.has("filter_chains")) {
            let mut manager = HttpConnections::default();
            manager.origin.within = part.statements();
            reader.virtual_hosts(part, Door::HTTPS, &[], &manager);
        } else if !part.get("filters").is_nothing() {
            let mut tcp = OutlinedTcp::default();
            reader.add_chain(part, None, &Origin::default(), &mut tcp);
            reader.add_tcp(tcp);
        }
    }
    reader.finish(trees, &parts)
}

/// Everything that has a meaning by itself: files of a part list resources of one kind, with or without a list around
/// them, and what is printed of all wraps each in what is known of it.
fn parts(trees: &[Tree]) -> Vec<&Tree> {
    let mut parts: Vec<&Tree> = Vec::new();
    for tree in trees.iter().flat_map(Tree::items) {
        if !tree.has("configs") {
            parts.push(tree);
            parts.extend(tree.get("resources").items());
            continue;
        }
        for dump in tree.get("configs").items() {
            // What is static stands once more in the lists of what is there.
            if !words::has_lists(tree) {
                parts.extend(Some(dump.get("bootstrap")).filter(|bootstrap| !bootstrap.is_nothing()));
            }
            for (list, path) in [
                ("static_listeners", &["listener"][..]),
                ("dynamic_listeners", &["active_state", "listener"]),
                ("static_clusters", &["cluster"]),
                ("dynamic_active_clusters", &["cluster"]),
                ("static_route_configs", &["route_config"]),
                ("dynamic_route_configs", &["route_config"]),
                ("static_endpoint_configs", &["endpoint_config"]),
                ("dynamic_endpoint_configs", &["endpoint_config"]),
            ] {
                parts.extend(dump.get(list).items().iter().map(|item| item.at(path)).filter(|part| !part.is_nothing()));
            }
        }
    }
    parts
}

struct EnvoyReader<'t> {
    clusters: Vec<ServerGroup>,
    /// Lists of hosts with their routes that listeners name.
    configs: Vec<&'t Tree>,
    /// Certificates and authorities that chains name.
    secrets: Vec<&'t Tree>,
    /// Where its listeners are.
    doors: Vec<Door>,
    /// How long a connection of a client may be idle, where that is said.
    keeps_alive: Option<String>,
    /// Hosts of patterns, for which sites of others are looked at.
    patterned: Vec<PatternedHost>,
    /// Hosts of which nothing is told, so that no other site may answer for them.
    closed: Vec<OutlinedSite>,
    outline: Outline,
}

/// What is said of all hosts of a connection manager.
#[derive(Default)]
struct HttpConnections<'t> {
    steps: Vec<String>,
    filters: FilterChain<'t>,
    authority: Authority,
    origin: Origin,
    logs: Vec<OutlinedSetting>,
    has_certificate: bool,
}

impl<'t> EnvoyReader<'t> {
    fn finish(self, trees: &[Tree], parts: &[&Tree]) -> Outline {
        let is_dynamic = trees.iter().any(|tree| !tree.get("dynamic_resources").is_nothing());
        let EnvoyReader { clusters, doors, patterned, closed, mut outline, .. } = self;
        hosts::settle(patterned, &mut outline.services);
        if !outline.services.is_empty() {
            outline.services.extend(closed.into_iter().map(Service::Site));
        }
        // Where plain HTTP is served, no site of a name alone may take it.
        let serves_plain = outline.services.iter().any(|service| match service {
            Service::Site(site) => site.addresses.iter().any(|address| address.starts_with("http://") && !has_port(address)),
            Service::Tcp(_) => false,
        });
        outline.opens_no_http = serves_plain || opens_no_http(&doors);
        let has_listener = parts
            .iter()
            .any(|part| !part.at(&["static_resources", "listeners"]).items().is_empty() || !part.get("listeners").is_nothing());
        if outline.services.is_empty() && !has_listener {
            outline.groups = clusters.into_iter().filter(|cluster| !cluster.is_empty()).collect();
            if is_dynamic {
                // A cluster there is the control plane itself.
                outline.groups.clear();
                outline.without.get_or_insert(BY_CONTROL_PLANE);
            }
        } else {
            let told: BTreeSet<usize> = outline.services.iter().flat_map(|service| service.whole_origin().carried).collect();
            outline.unused =
                clusters.into_iter().filter(|cluster| !cluster.is_empty() && cluster.origin.carried.is_disjoint(&told)).collect();
        }
        words::told_alone(&mut outline);
        site_logs::settle(&mut outline.services);
        outline.or_without(NOTHING)
    }

    /// Addresses of a cluster that has none of its own.
    fn endpoints(&mut self, part: &Tree) {
        let Some(group) = endpoints_alone(part) else { return };
        match self.clusters.iter_mut().find(|known| known.name == group.name) {
            Some(known) if known.is_empty() => {
                known.servers = group.servers;
                known.origin.add(&group.origin);
            }
            Some(_) => {}
            None => self.clusters.push(group),
        }
    }

    fn listener(&mut self, listener: &'t Tree) {
        let address = listener.at(&["address", "socket_address"]);
        if address.get("protocol").text() == Some("UDP") {
            self.outline.without.get_or_insert(UDP);
            self.because(listener, UDP);
            return;
        }
        for (name, why) in [("internal_listener", INTERNAL), ("api_listener", INTERNAL)] {
            if listener.has(name) {
                self.outline.without.get_or_insert(why);
                return self.because(listener, why);
            }
        }
        if listener.get("bind_to_port").text() == Some("false") {
            self.outline.without.get_or_insert(NOT_BOUND);
            return self.because(listener, NOT_BOUND);
        }
        let mut own = Origin { within: listener.statements(), ..Origin::default() };
        own.carry_all(listener.get("bind_to_port").statements());
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
        let door = door_of(address);
        if door.is_none() && listener.has("address") {
            self.outline.without.get_or_insert(NO_ADDRESS);
            self.because(listener, NO_ADDRESS);
            return;
        }
        let mut doors = vec![door];
        for more in listener.get("additional_addresses").items() {
            let address = more.at(&["address", "socket_address"]);
            if let Some(door) = door_of(address) {
                doors.push(Some(door));
                own.carry_all(address.statements());
            }
        }
        self.doors.extend(doors.iter().copied().flatten());
        self.listener_filters(listener, &doors, &mut own);
        taken::of_others(&chains, door.map(|door| door.port), &mut own);
        for door in doors {
            let mut tcp = OutlinedTcp::default();
            for chain in &chains {
                self.add_chain(chain, door.map(|door| (door.port, door.ip)), &own, &mut tcp);
            }
            self.add_tcp(tcp);
        }
    }

    fn listener_filters(&mut self, listener: &Tree, doors: &[Option<Door>], own: &mut Origin) {
        for filter in listener.get("listener_filters").items() {
            match known::kind(filter).0.as_str() {
                "tlsinspector" | "httpinspector" => own.carry_all(filter.statements()),
                "proxyprotocol" => {
                    for door in doors {
                        self.behind_others(filter, *door);
                    }
                    own.carry_all(filter.statements());
                }
                _ => {}
            }
        }
    }

    /// Why nothing of it is told.
    fn because(&mut self, tree: &Tree, why: &str) {
        for at in tree.statements() {
            self.outline.reasons.entry(at).or_insert_with(|| why.to_owned());
        }
    }

    fn behind_others(&mut self, filter: &Tree, door: Option<Door>) {
        let Some(door) = door else { return };
        let mut origin = Origin::default();
        origin.carry_all(filter.statements());
        origin.differ(filter.get("name").start(), EVERYBODY);
        let address = tcp_address(door.ip, door.port);
        let line = format!("listener {} {{ accept-proxy-protocol from=\"0.0.0.0/0\" \"::/0\"; }}", quoted(&address));
        self.outline.settings.push(OutlinedSetting { line, origin });
    }

    fn add_tcp(&mut self, tcp: OutlinedTcp) {
        if tcp.otherwise.is_some() || !tcp.by_name.is_empty() {
            self.outline.services.push(Service::Tcp(tcp));
        }
    }

    /// `own` is what is said of the listener, for all of its chains.
    fn add_chain(&mut self, chain: &'t Tree, door: Option<(u16, Option<IpAddr>)>, own: &Origin, tcp: &mut OutlinedTcp) {
        let is_tls = match Socket::of(chain.get("transport_socket")) {
            Socket::Plain => chain.has("tls_context"),
            Socket::Tls => true,
            Socket::Header | Socket::Other => {
                self.outline.without.get_or_insert(OTHER_SOCKET);
                self.because(chain, OTHER_SOCKET);
                tcp.origin.within.extend(chain.statements());
                return;
            }
        };
        let server_names = chain.at(&["filter_chain_match", "server_names"]);
        let server_names_told = server_names.texts();
        let names: Vec<String> = server_names_told.iter().map(|name| any_depth(name)).collect();
        let mut origin = own.clone();
        origin.within.extend(chain.statements());
        origin.carry_all(server_names.statements());
        taken::of_chain(chain.get("filter_chain_match"), is_tls, door.map(|(port, _)| port), &mut origin);
        for filter in chain.get("filters").items() {
            let (kind, settings) = known::kind(filter);
            if kind == "httpconnectionmanager" {
                let (port, ip) = door.unwrap_or((if is_tls { 443 } else { 80 }, None));
                self.http_connections(chain, settings, Door { is_tls, port, ip }, &server_names_told, &origin);
            } else if kind == "tcpproxy" {
                // What another chain of the listener takes is said by that one, and who is kept out by any of them.
                tcp.origin.add(&origin);
                if is_tls {
                    self.outline.without.get_or_insert(TLS_OF_TCP);
                    self.because(chain, TLS_OF_TCP);
                    continue;
                }
                self.handed_on(settings, door, &names, tcp);
            }
        }
    }

    fn handed_on(&mut self, settings: &Tree, door: Option<(u16, Option<IpAddr>)>, names: &[String], tcp: &mut OutlinedTcp) {
        let weighted = settings.get("weighted_clusters");
        if !weighted.is_nothing() {
            self.outline.without.get_or_insert(WEIGHTED);
            self.because(weighted, WEIGHTED);
            return;
        }
        let single = settings.get("cluster");
        let Some(group) = single.text().and_then(|name| self.cluster(name)) else {
            self.because(single, NO_CLUSTER);
            return;
        };
        tcp.origin.carry_all(single.statements());
        let of_server = || group.servers.first().and_then(|server| server.address.rsplit(':').next()?.parse().ok());
        let told = door.map(|(port, _)| port).or_else(|| (!names.is_empty()).then_some(443)).or_else(of_server);
        tcp.address = tcp_address(door.and_then(|(_, ip)| ip), told.unwrap_or(443));
        if names.is_empty() { tcp.otherwise = Some(group) } else { tcp.by_name.push((names.to_vec(), group)) }
    }

    fn cluster(&mut self, name: &str) -> Option<ServerGroup> {
        let found = self.clusters.iter().find(|cluster| cluster.name == name && !cluster.is_empty()).cloned();
        if found.is_none() {
            self.outline.without.get_or_insert(NO_CLUSTER);
        }
        found
    }

    /// Of a chain that speaks HTTP: its certificates, its filters, and its routes.
    fn http_connections(&mut self, chain: &'t Tree, settings: &'t Tree, door: Door, names: &[String], origin: &Origin) {
        let mut routes = settings.get("route_config");
        if routes.is_nothing() && settings.has("rds") {
            let name = settings.at(&["rds", "route_config_name"]).text().unwrap_or_default();
            let found = self.configs.iter().find(|config| config.get("name").text() == Some(name));
            match found.copied() {
                Some(found) => routes = found,
                None => {
                    self.outline.without.get_or_insert(BY_CONTROL_PLANE);
                    self.because(settings.get("rds"), BY_CONTROL_PLANE);
                }
            }
        }
        let authority = Authority::of(settings, door.port);
        let mut manager = HttpConnections { origin: origin.clone(), authority, ..HttpConnections::default() };
        Authority::say(settings, &mut manager.origin);
        manager.origin.within.extend(routes.statements());
        manager.origin.carry_all(settings.at(&["rds", "route_config_name"]).statements());
        for at in routes.get("virtual_hosts").statements() {
            manager.origin.within.remove(&at);
        }
        if door.is_tls {
            let lines = tls::lines(chain, settings, &self.secrets, &mut manager.origin);
            manager.has_certificate = lines.iter().any(|line| line.contains("cert="));
            manager.steps.extend(lines);
        }
        manager.steps.extend(filters::spellings(settings, &mut manager.origin));
        self.kept_alive(settings.at(&["common_http_protocol_options", "idle_timeout"]), &mut manager.origin);
        manager.logs = logs::of(settings, &mut manager.origin);
        manager.filters = filters::chain((settings, routes), manager.authority, &self.clusters, &mut manager.origin);
        manager.steps.append(&mut manager.filters.steps);
        for (filter, why) in std::mem::take(&mut manager.filters.untold) {
            self.because(filter, &why);
        }
        headers::changes(routes, &mut manager.steps, &mut manager.origin);
        let internal = routes.get("internal_only_headers");
        let external: Vec<String> = internal.texts().into_iter().filter(|name| outline::is_plain(name)).collect();
        if !external.is_empty() && external.len() == internal.texts().len() {
            let removed: Vec<String> = external.iter().map(|name| format!("remove={}", quoted(name))).collect();
            manager.steps.push(format!("request-header {}", removed.join(" ")));
            internal.statements().into_iter().for_each(|at| manager.origin.differ(at, EXTERNAL));
        }
        let remarks = [Some(METHODS), Some(NORMAL), (!settings.has("upgrade_configs")).then_some(NO_UPGRADES)];
        for remark in remarks.into_iter().flatten() {
            if !self.outline.remarks.iter().any(|known| known == remark) {
                self.outline.remarks.push(remark.to_owned());
            }
        }
        if routes.is_nothing() {
            self.close(names, door, manager);
        } else {
            self.virtual_hosts(routes, door, names, &manager);
        }
    }

    /// Names of a chain of which nothing is told: no other one answers for them.
    fn close(&mut self, names: &[String], door: Door, manager: HttpConnections<'_>) {
        let HttpConnections { steps, origin, .. } = manager;
        let names: Vec<String> = names.iter().map(|name| any_depth(name)).collect();
        if let Some(Whereabouts { addresses, only_hosts, .. }) = whereabouts(&names, door).filter(|_| !names.is_empty()) {
            let answer = Some(OutlinedAnswer::status(503));
            self.closed.push(OutlinedSite { addresses, only_hosts, answer, steps, origin, ..OutlinedSite::default() });
        }
    }

    /// How long a connection of a client may be idle, which is said once.
    fn kept_alive(&mut self, idle: &Tree, origin: &mut Origin) {
        let Some(time) = idle.text().and_then(clusters::duration) else { return };
        match &self.keeps_alive {
            Some(known) if *known == time => return origin.carry_all(idle.statements()),
            Some(_) => return idle.statements().into_iter().for_each(|at| origin.differ(at, ONE_FOR_ALL)),
            None => self.keeps_alive = Some(time.clone()),
        }
        let mut own = Origin::default();
        own.carry_all(idle.statements());
        let line = format!("limits {{ keep-alive {}; }}", quoted(&time));
        self.outline.settings.push(OutlinedSetting { line, origin: own });
    }
}

/// Where a socket is.
fn door_of(address: &Tree) -> Option<Door> {
    let port = address.get("port_value").number().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)?;
    let host = address.get("address").text().unwrap_or_default();
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Door::parse(&format!("{host}:{port}"), false)
}

fn has_port(address: &str) -> bool {
    let rest = address.trim_start_matches("http://");
    rest.rsplit_once(':').is_some_and(|(_, port)| port != "80" && port.parse::<u16>().is_ok())
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
