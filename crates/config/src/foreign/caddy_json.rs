//! What a configuration of Caddy as JSON asks for.

use super::outline::{
    Door, GroupedServer, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service, addresses,
    below, upstream,
};
use super::tree::{self, Tree};

const NO_ROUTE: &str = "none of its servers hands requests on or serves files";
const GUARDS: [&str; 4] = ["authentication", "rate_limit", "remote_ip", "client_authentication"];
const DEPTH_MAX: usize = 8;

pub fn outline(text: &str) -> Outline {
    let tree = tree::of_json(text);
    let mut outline = Outline::default();
    for server in servers_of(&tree, "http") {
        let listens = server.get("listen").texts();
        let door = listens.iter().find_map(|listen| Door::parse(listen, false)).unwrap_or(Door::HTTPS);
        // What has no name is plain HTTP, but for the port of HTTPS.
        let is_tls = door.port == 443 || (door.port != 80 && server.has_within("host"));
        let is_there = |guard: &&&str| server.has_within(guard) || text.contains(&format!("\"{guard}\""));
        let guards = GUARDS.iter().filter(is_there).map(|guard| (*guard).to_owned()).collect();
        CaddyJsonSite::of(server.get("routes")).end(Door { is_tls, ..door }, guards, &mut outline);
    }
    for server in servers_of(&tree, "layer4") {
        layer4(server, &mut outline);
    }
    if tree.has_within("handler") && outline.services.is_empty() {
        // A list of routes, as the API takes it.
        let routes = if tree.get("routes").is_nothing() { &tree } else { tree.get("routes") };
        CaddyJsonSite::of(routes).end(Door::HTTPS, Vec::new(), &mut outline);
    }
    outline.or_without(NO_ROUTE)
}

/// The servers of an app, which may stand alone.
fn servers_of<'t>(tree: &'t Tree, app: &str) -> Vec<&'t Tree> {
    let servers = [tree.at(&["apps", app, "servers"]), tree.at(&[app, "servers"])];
    servers.into_iter().flat_map(Tree::entries).map(|(_, server)| server).collect()
}

struct CaddyJsonSite {
    by_host: Vec<(Vec<String>, Vec<OutlinedRoute>, Option<OutlinedAnswer>)>,
    routes: Vec<OutlinedRoute>,
    answer: Option<OutlinedAnswer>,
}

impl CaddyJsonSite {
    fn of(routes: &Tree) -> CaddyJsonSite {
        let mut site = CaddyJsonSite { by_host: Vec::new(), routes: Vec::new(), answer: None };
        site.read(routes, None, None, 0);
        site
    }

    fn end(self, door: Door, guards: Vec<String>, outline: &mut Outline) {
        let site = OutlinedSite { guards, ..OutlinedSite::default() };
        for (hosts, routes, answer) in self.by_host {
            if let Some(addresses) = addresses(&hosts, door) {
                outline.services.push(Service::Site(OutlinedSite { addresses, routes, answer, ..site.clone() }));
            }
        }
        if self.answer.is_some() || !self.routes.is_empty() {
            let addresses = addresses(&[], door).unwrap_or_default();
            outline.services.push(Service::Site(OutlinedSite { addresses, routes: self.routes, answer: self.answer, ..site }));
        }
    }

    fn read(&mut self, routes: &Tree, hosts: Option<&[String]>, paths: Option<&[String]>, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        for route in routes.items() {
            let own_hosts: Vec<String> = route.get("match").items().iter().flat_map(|set| set.get("host").texts()).collect();
            let own_paths: Vec<String> = route.get("match").items().iter().flat_map(|set| set.get("path").texts()).collect();
            let hosts = if own_hosts.is_empty() { hosts } else { Some(own_hosts.as_slice()) };
            let paths = if own_paths.is_empty() { paths } else { Some(own_paths.as_slice()) };
            let handlers = route.get("handle").items();
            let root = handlers.iter().find_map(|handler| handler.get("root").text());
            for handler in handlers {
                if handler.get("handler").text() == Some("subroute") {
                    self.read(handler.get("routes"), hosts, paths, depth + 1);
                } else if let Some(answer) = answer(handler, root) {
                    self.put(hosts, paths, answer);
                }
            }
        }
    }

    fn put(&mut self, hosts: Option<&[String]>, paths: Option<&[String]>, answer: OutlinedAnswer) {
        let (routes, all) = match hosts {
            None => (&mut self.routes, &mut self.answer),
            Some(hosts) => {
                let at = self.by_host.iter().position(|(known, _, _)| known == hosts).unwrap_or_else(|| {
                    self.by_host.push((hosts.to_vec(), Vec::new(), None));
                    self.by_host.len() - 1
                });
                let (_, routes, all) = &mut self.by_host[at];
                (routes, all)
            }
        };
        match paths {
            None => {
                all.get_or_insert(answer);
            }
            Some(paths) => {
                let pattern = |path: &String| if path.ends_with('*') { below(path) } else { path.clone() };
                routes.push(OutlinedRoute::of(paths.iter().map(pattern).collect(), answer));
            }
        }
    }
}

fn answer(handler: &Tree, root: Option<&str>) -> Option<OutlinedAnswer> {
    match handler.get("handler").text()? {
        "reverse_proxy" => {
            let group = servers(handler)?;
            let is_fastcgi = handler.at(&["transport", "protocol"]).text() == Some("fastcgi");
            if is_fastcgi {
                let server = group.servers.first()?.address.clone();
                let root = handler.at(&["transport", "root"]).text().or(root).map(str::to_owned);
                return Some(OutlinedAnswer::Scripts {
                    server,
                    fallback: Some("/index.php".into()),
                    is_static: root.is_some(),
                    root,
                });
            }
            let is_tls = !handler.at(&["transport", "tls"]).is_nothing();
            Some(OutlinedAnswer::proxy(if is_tls { group.over_tls() } else { group }))
        }
        "file_server" => {
            let root = handler.get("root").text().or(root)?.to_owned();
            Some(OutlinedAnswer::Files { root, strip: None, fallback: None, is_listing: !handler.get("browse").is_nothing() })
        }
        "static_response" => {
            let status = handler.get("status_code").number().unwrap_or(200);
            let to = handler
                .at(&["headers", "Location"])
                .texts()
                .first()
                .map(|to| to.replace("{http.request.uri}", "{uri}").replace("{http.request.host}", "{host}"));
            match (to, u16::try_from(status).ok()?) {
                (Some(to), status @ 301..=308) => Some(OutlinedAnswer::Redirect { to, status }),
                (_, status) => Some(OutlinedAnswer::Respond { status, body: handler.get("body").text().map(str::to_owned) }),
            }
        }
        _ => None,
    }
}

fn servers(handler: &Tree) -> Option<ServerGroup> {
    let dials = handler.get("upstreams").items().iter().flat_map(|server| server.get("dial").texts());
    let servers: Vec<GroupedServer> = dials.filter_map(|dial| upstream(&dial)).map(GroupedServer::at).collect();
    (!servers.is_empty()).then(|| ServerGroup { name: "app".into(), servers, lines: Vec::new() })
}

fn layer4(server: &Tree, outline: &mut Outline) {
    let Some(door) = server.get("listen").texts().iter().find_map(|listen| Door::parse(listen, false)) else { return };
    let mut tcp = OutlinedTcp { address: format!(":{}", door.port), ..OutlinedTcp::default() };
    for route in server.get("routes").items() {
        let names: Vec<String> = route.get("match").items().iter().flat_map(|set| set.at(&["tls", "sni"]).texts()).collect();
        let proxy = route.get("handle").items().iter().find(|handler| handler.get("handler").text() == Some("proxy"));
        let Some(group) = proxy.and_then(servers) else { continue };
        if names.is_empty() { tcp.otherwise = Some(group) } else { tcp.by_name.push((names, group)) }
    }
    if tcp.otherwise.is_some() || !tcp.by_name.is_empty() {
        outline.services.push(Service::Tcp(tcp));
    }
}
