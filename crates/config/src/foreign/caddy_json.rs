//! What a configuration of Caddy as JSON asks for.

use super::accounts::{FileStatement, Origin, StatementKind, Weight, WordTable};
use super::outline::{
    BytePrefix, Door, GroupedServer, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service,
    Whereabouts, below, placed, tcp_address, upstream,
};
use super::tree::{self, Tree};
use std::collections::BTreeSet;

const NO_ROUTE: &str = "none of its servers hands requests on or serves files";
const BEHIND: &str = "matchers in it are about what no line here is told for, and all else comes behind them";
const DEPTH_MAX: usize = 8;
const HANDLERS: [&str; 8] = ["authentication", "rate_limit", "crowdsec", "waf", "rewrite", "headers", "encode", "request_body"];

const WORDS: WordTable = WordTable {
    protections: &[
        "authentication",
        "rate_limit",
        "crowdsec",
        "waf",
        "client_authentication",
        "remote_ip",
        "client_ip",
        "not",
        "expression",
        "abort",
        "remote_ip_list",
    ],
    same: &[
        "handler",
        "module",
        "terminal",
        "group",
        "logging",
        "admin",
        "storage",
        "logs",
        "index_names",
        "protocols",
        "policy",
        "protocol",
        "subjects",
        "metrics",
        "apps_tls",
        "email",
        "grace_period",
        "try_duration_x",
        "flush_interval",
        "@id",
        "name",
    ],
    tls: &[
        "tls",
        "automation",
        "certificates",
        "tls_connection_policies",
        "insecure_skip_verify",
        "server_name",
        "root_ca_pem_files",
    ],
    addresses: &["listen", "listener_wrappers", "trusted_proxies", "automatic_https", "http_port", "https_port"],
    limits: &["max_size", "request_body", "max_requests"],
    answers: &[
        "match",
        "host",
        "path",
        "upstreams",
        "dial",
        "root",
        "routes",
        "handle",
        "rewrite",
        "uri",
        "status_code",
        "body",
        "transport",
        "hide",
        "errors",
        "browse",
        "index_names",
        "strip_path_prefix",
    ],
};

pub fn outline(text: &str) -> Outline {
    let tree = tree::of_json(text);
    let mut outline = Outline { statements: statements(&tree), ..Outline::default() };
    for server in servers_of(&tree, "http") {
        let listens = server.get("listen").texts();
        // What has no name is plain HTTP, but for the port of HTTPS.
        let has_hosts = server.has_within("host");
        let doors: Vec<(Door, usize)> = listens
            .iter()
            .filter_map(|listen| Door::parse(listen, false))
            .map(|door| Door { is_tls: door.port == 443 || (door.port != 80 && has_hosts), ..door })
            .map(|door| (door, server.get("listen").start()))
            .collect();
        if doors.is_empty() && !listens.is_empty() {
            continue;
        }
        let mut own = Origin { within: server.statements(), ..Origin::default() };
        for at in server.get("routes").statements() {
            own.within.remove(&at);
        }
        own.within.extend(tree.at(&["apps", "tls"]).statements());
        let doors = if doors.is_empty() { vec![(Door::HTTPS, own.within.first().copied().unwrap_or(0))] } else { doors };
        CaddyJsonSite::of(server.get("routes")).end(&doors, &own, &mut outline);
    }
    for server in servers_of(&tree, "layer4") {
        layer4(server, &mut outline);
    }
    let has_servers = tree.has_within("servers");
    if tree.has_within("handler") && outline.services.is_empty() && !has_servers {
        // A list of routes, as the API takes it.
        let routes = if tree.get("routes").is_nothing() { &tree } else { tree.get("routes") };
        CaddyJsonSite::of(routes).end(&[(Door::HTTPS, usize::MAX)], &Origin::default(), &mut outline);
    }
    outline.or_without(NO_ROUTE)
}

fn statements(tree: &Tree) -> Vec<FileStatement> {
    let label = |tree: &Tree| {
        let handler = tree.get("handler").text();
        HANDLERS.into_iter().find(|known| handler == Some(known))
    };
    let mut found = Vec::new();
    tree.each_statement(&mut Vec::new(), &label, &mut |at, path, value| {
        let is_refusal =
            path.last() == Some(&"status_code") && value.number().is_some_and(|status| (400..=599).contains(&status));
        found.push(if is_refusal {
            FileStatement { at, name: "static_response".into(), kind: StatementKind::Needed(Weight::Protection) }
        } else {
            WORDS.statement(at, path)
        });
    });
    found
}

/// The servers of an app, which may stand alone.
fn servers_of<'t>(tree: &'t Tree, app: &str) -> Vec<&'t Tree> {
    let servers = [tree.at(&["apps", app, "servers"]), tree.at(&[app, "servers"])];
    servers.into_iter().flat_map(Tree::entries).map(|(_, server)| server).collect()
}

/// What answers for the hosts of a matcher.
struct HostRoutes {
    hosts: Vec<String>,
    routes: Vec<OutlinedRoute>,
    answer: Option<OutlinedAnswer>,
    origin: Origin,
}

struct CaddyJsonSite {
    found: Vec<HostRoutes>,
    /// Of routes whose conditions are not understood, the hosts; of none, all. What stands behind is for others.
    left_out: Vec<Vec<String>>,
}

impl CaddyJsonSite {
    fn of(routes: &Tree) -> CaddyJsonSite {
        let mut site = CaddyJsonSite { found: Vec::new(), left_out: Vec::new() };
        site.read(routes, &[], None, &Origin::default(), 0);
        site
    }

    fn end(self, doors: &[(Door, usize)], own: &Origin, outline: &mut Outline) {
        if !self.left_out.is_empty() {
            outline.without.get_or_insert(BEHIND);
        }
        for HostRoutes { hosts, routes, answer, origin: of_hosts } in self.found {
            let mut origin = own.clone();
            origin.add(&of_hosts);
            if let Some(Whereabouts { addresses, only_hosts, .. }) = placed(doors, &hosts, false, &mut origin) {
                let site = OutlinedSite { addresses, only_hosts, routes, answer, origin, ..OutlinedSite::default() };
                outline.services.push(Service::Site(site));
            }
        }
    }

    fn read(&mut self, routes: &Tree, hosts: &[String], paths: Option<&[(String, usize)]>, around: &Origin, depth: usize) {
        if depth > DEPTH_MAX {
            return self.left_out.push(Vec::new());
        }
        for route in routes.items() {
            let sets = route.get("match").items();
            let is_known = |set: &Tree| set.entries().iter().all(|(name, _)| matches!(name.as_str(), "host" | "path"));
            if !sets.iter().all(is_known) || (sets.len() > 1 && sets.iter().any(|set| set.entries().len() > 1)) {
                self.leave_out(route, hosts);
                continue;
            }
            let own_hosts: Vec<String> = sets.iter().flat_map(|set| set.get("host").texts()).collect();
            let own_paths: Vec<(String, usize)> = sets
                .iter()
                .flat_map(|set| set.get("path").texts().into_iter().map(|path| (path, set.get("path").start())))
                .collect();
            if !own_paths.is_empty() && paths.is_some() {
                self.leave_out(route, hosts);
                continue;
            }
            let hosts = if own_hosts.is_empty() { hosts } else { own_hosts.as_slice() };
            let paths = if own_paths.is_empty() { paths } else { Some(own_paths.as_slice()) };
            let handlers = route.get("handle").items();
            let root = handlers.iter().find_map(|handler| Some(handler.get("root")).filter(|root| root.text().is_some()));
            let mut origin = around.clone();
            for handler in handlers.iter().filter(|handler| handler.get("handler").text() != Some("subroute")) {
                origin.within.extend(handler.statements());
            }
            origin.carry_all(route.get("match").statements());
            for handler in handlers {
                if handler.get("handler").text() == Some("subroute") {
                    self.read(handler.get("routes"), hosts, paths, &origin, depth + 1);
                } else if let Some((answer, carried)) = answer(handler, root) {
                    let mut origin = origin.clone();
                    origin.carry_all(carried);
                    self.put(hosts, paths, answer, origin);
                    break;
                } else if matches!(handler.get("handler").text(), Some("reverse_proxy" | "file_server" | "static_response")) {
                    // What is answered there is not told, and must not be by what comes behind it.
                    self.leave_out(route, hosts);
                    break;
                }
            }
        }
    }

    fn leave_out(&mut self, route: &Tree, around: &[String]) {
        let own: Vec<String> = route.get("match").items().iter().flat_map(|set| set.get("host").texts()).collect();
        let is_of_hosts = route.get("match").items().iter().all(|set| set.has("host"));
        self.left_out.push(if is_of_hosts { own } else { around.to_vec() });
    }

    fn put(&mut self, hosts: &[String], paths: Option<&[(String, usize)]>, answer: OutlinedAnswer, origin: Origin) {
        let is_behind = |left: &Vec<String>| left.is_empty() || hosts.is_empty() || left.iter().any(|host| hosts.contains(host));
        if self.left_out.iter().any(is_behind) {
            return;
        }
        let at = self.found.iter().position(|known| known.hosts == hosts).unwrap_or_else(|| {
            self.found.push(HostRoutes { hosts: hosts.to_vec(), routes: Vec::new(), answer: None, origin: Origin::default() });
            self.found.len() - 1
        });
        let found = &mut self.found[at];
        let Some(paths) = paths else {
            found.origin.add(&origin);
            found.answer.get_or_insert(answer);
            return;
        };
        let mut route = OutlinedRoute { origin, ..OutlinedRoute::of(Vec::new(), answer) };
        for (path, at) in paths {
            match path.strip_suffix('*') {
                Some(stem) if stem.len() > 1 => {
                    let pattern = below(stem);
                    if !stem.ends_with('/') {
                        route.byte_prefixes.push(BytePrefix { pattern: pattern.clone(), prefix: stem.to_owned(), at: *at });
                    }
                    route.patterns.push(pattern);
                }
                Some(_) => route.patterns.push("~^/".to_owned()),
                None => route.patterns.push(path.clone()),
            }
        }
        found.routes.push(route);
    }
}

fn answer(handler: &Tree, root: Option<&Tree>) -> Option<(OutlinedAnswer, BTreeSet<usize>)> {
    let mut carried = BTreeSet::new();
    let root_text = root.and_then(Tree::text).map(str::to_owned);
    let answer = match handler.get("handler").text()? {
        "reverse_proxy" => {
            let group = servers(handler)?;
            let transport = handler.get("transport");
            if transport.get("protocol").text() == Some("fastcgi") {
                let server = group.servers.first()?.address.clone();
                let root = transport.get("root").text().map(str::to_owned).or(root_text);
                carried.extend(group.origin.carried);
                carried.extend(transport.get("root").statements());
                OutlinedAnswer::Scripts { server, fallback: Some("/index.php".into()), is_static: root.is_some(), root }
            } else if transport.has("tls") {
                let mut group = group.over_tls();
                let verify = transport.at(&["tls", "insecure_skip_verify"]);
                if verify.is_true() {
                    group.add_line("tls verify=#false");
                    group.origin.carry_all(verify.statements());
                }
                OutlinedAnswer::proxy(group)
            } else {
                OutlinedAnswer::proxy(group)
            }
        }
        "file_server" => {
            let own = Some(handler.get("root")).filter(|own| own.text().is_some()).or(root)?;
            carried.extend(own.statements());
            carried.extend(handler.get("browse").statements());
            let hidden = handler.get("hide").texts();
            if hidden.iter().all(|name| name.starts_with('.')) {
                carried.extend(handler.get("hide").statements());
            }
            let is_listing = handler.has("browse");
            OutlinedAnswer::Files { root: own.text()?.to_owned(), strip: None, fallback: None, is_listing, is_tried: false }
        }
        "static_response" => {
            carried.extend(handler.statements());
            if handler.get("abort").is_true() {
                return Some((OutlinedAnswer::status(403), carried));
            }
            let status = handler.get("status_code").number().unwrap_or(200);
            let to = handler
                .at(&["headers", "Location"])
                .texts()
                .first()
                .map(|to| to.replace("{http.request.uri}", "{uri}").replace("{http.request.host}", "{host}"));
            match (to, u16::try_from(status).ok()?) {
                (Some(to), status @ 301..=308) => OutlinedAnswer::Redirect { to, status },
                (_, status) => OutlinedAnswer::Respond { status, body: handler.get("body").text().map(str::to_owned) },
            }
        }
        _ => return None,
    };
    Some((answer, carried))
}

fn servers(handler: &Tree) -> Option<ServerGroup> {
    let mut group = ServerGroup::named("app");
    group.origin.within = handler.statements();
    for server in handler.get("upstreams").items() {
        for address in server.get("dial").texts().iter().filter_map(|dial| upstream(dial)) {
            group.servers.push(GroupedServer::at(address));
            group.origin.carry_all(server.get("dial").statements());
        }
    }
    (!group.servers.is_empty()).then_some(group)
}

fn layer4(server: &Tree, outline: &mut Outline) {
    let mut origin = Origin { within: server.statements(), ..Origin::default() };
    origin.carry_all(server.get("listen").statements());
    let (mut by_name, mut otherwise) = (Vec::new(), None);
    for route in server.get("routes").items() {
        let sets = route.get("match").items();
        let is_name = |set: &Tree| {
            set.entries().iter().all(|(name, tls)| name == "tls" && tls.entries().iter().all(|(name, _)| name == "sni"))
        };
        let names: Vec<String> = sets.iter().flat_map(|set| set.at(&["tls", "sni"]).texts()).collect();
        let proxy = route.get("handle").items().iter().find(|handler| handler.get("handler").text() == Some("proxy"));
        let Some(group) = proxy.and_then(servers).filter(|_| sets.iter().all(is_name)) else { continue };
        origin.carry_all(route.get("match").statements());
        if names.is_empty() && sets.is_empty() { otherwise = Some(group) } else { by_name.push((names, group)) }
    }
    by_name.retain(|(names, _): &(Vec<String>, ServerGroup)| !names.is_empty());
    if otherwise.is_none() && by_name.is_empty() {
        return;
    }
    for door in server.get("listen").texts().iter().filter_map(|listen| Door::parse(listen.trim_start_matches("tcp/"), false)) {
        let address = tcp_address(door.ip, door.port);
        let tcp = OutlinedTcp { address, by_name: by_name.clone(), otherwise: otherwise.clone(), origin: origin.clone() };
        outline.services.push(Service::Tcp(tcp));
    }
}
