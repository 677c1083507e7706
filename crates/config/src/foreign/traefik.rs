//! What a configuration of Traefik asks for: routers with their services, for HTTP and for TCP, in files, in the labels
//! of containers, and in the manifests of Kubernetes.

mod labels;
mod manifests;
mod tcp;
mod words;

use super::accounts::Origin;
use super::outline::{
    BytePrefix, Door, GroupedServer, NAME_IN_PLACE, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, ServerGroup, Service,
    TLS_NEWEST, Whereabouts, placed, upstream,
};
use super::tree::Tree;
use crate::forms::parse_network;
use crate::traefik_rule;
pub use labels::of_compose;
pub use manifests::{address_of, of_manifests};

const STATIC: &str = "its routers stand in the dynamic configuration, or in labels: give `check` that file";
const NO_ROUTER: &str = "it has no router with a rule of names and paths, and servers that are told";
const OF_PROVIDER: &str = "the servers of its routers are found by a provider: `discover` does that here";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";
const WEIGHTED: &str =
    "its services share requests by weight: `split { proxy \"a\" weight=90; proxy \"b\" weight=10; }` does that here";
const BEHIND: &str = "routers whose rules no line here is told for may take the same requests, and come before the others";
const ELSEWHERE: &str = "the address of the entry point is in another file: here it is the usual port, on all addresses";

const CHAIN_MAX: usize = 32;

/// Files of either kind.
pub fn outline(trees: &[Tree]) -> Outline {
    let mut outline = Outline { statements: words::statements(trees), ..Outline::default() };
    for tree in trees {
        of_tree(tree, &mut outline);
    }
    let is_static = trees.iter().any(|tree| !tree.get("entryPoints").is_nothing() || !tree.get("providers").is_nothing());
    outline.or_without(if is_static { STATIC } else { NO_ROUTER })
}

/// Routers of the same hosts and doors.
struct FoundSite {
    hosts: Vec<String>,
    doors: Vec<(Door, usize)>,
    site: OutlinedSite,
    /// Of each route, how early it is looked at, and of what answers all else.
    priorities: Vec<u64>,
    last: u64,
}

fn of_tree(tree: &Tree, outline: &mut Outline) {
    let mut found: Vec<FoundSite> = Vec::new();
    let mut unknown: Vec<(&str, u64)> = Vec::new();
    for (name, router) in tree.at(&["http", "routers"]).entries() {
        let text = router.get("rule").text().unwrap_or_default();
        // Whose address it is may be said by another proxy.
        let is_behind_another =
            router.get("entryPoints").texts().iter().any(|name| tree.at(&["entryPoints", name]).has("proxyProtocol"));
        let is_of_client = |rule: &traefik_rule::PlainRule| rule.conditions.iter().any(|one| one.contains("client="));
        let rule = traefik_rule::plain(&unescaped(text)).filter(|rule| !(is_behind_another && is_of_client(rule)));
        let service = router.get("service").text().unwrap_or(name);
        let priority = router.get("priority");
        let order = priority.number().filter(|priority| *priority > 0).unwrap_or(text.len() as u64);
        let mut origin = Origin { within: router.statements(), ..Origin::default() };
        let middlewares = middlewares_of(tree, "http", router, &mut origin);
        origin.within.extend(middlewares.iter().flat_map(|(middleware, _)| middleware.statements()));
        let Some((rule, group)) = rule.zip(http_group(tree, service)) else {
            if service.contains('@') && !service.ends_with("@file") {
                outline.without.get_or_insert(OF_PROVIDER);
            }
            if !tree.at(&["http", "services", service, "weighted"]).is_nothing() {
                outline.without.get_or_insert(WEIGHTED);
            }
            unknown.push((text, order));
            continue;
        };
        let doors = doors(tree, router, &mut origin);
        origin.carry_all(["rule", "service"].into_iter().flat_map(|key| router.get(key).statements()));
        let at = found.iter().position(|site| site.hosts == rule.hosts && same_doors(&site.doors, &doors)).unwrap_or_else(|| {
            let (hosts, site) = (rule.hosts.clone(), OutlinedSite::default());
            found.push(FoundSite { hosts, doors: doors.clone(), site, priorities: Vec::new(), last: 0 });
            found.len() - 1
        });
        origin.carry_all(priority.statements());
        let oldest = tls_options(tree, router).get("minVersion");
        if has_key(router, "tls") && oldest.text() == Some("VersionTLS13") {
            origin.carry_all(oldest.statements());
            if found[at].site.steps.is_empty() {
                found[at].site.steps.push(TLS_NEWEST.to_owned());
            }
        }
        let middlewares = if is_behind_another { without_addresses(middlewares) } else { middlewares };
        found[at].add(rule, group, &middlewares, origin, (order, router.get("rule").start()));
    }
    for site in &mut found {
        // What such a router may take comes to one behind it by these lines.
        let first = unknown.iter().filter(|(rule, _)| site.may_be_of(rule)).map(|(_, order)| *order).max();
        if first.is_some_and(|first| site.leave_out_behind(first)) {
            outline.without.get_or_insert(BEHIND);
        }
    }
    outline.services.extend(found.into_iter().filter_map(FoundSite::end).map(Service::Site));
    tcp::tcp(tree, outline);
    if outline.services.is_empty() && unknown.is_empty() {
        let services = tree.at(&["http", "services"]).entries().iter();
        outline.groups.extend(services.filter_map(|(name, _)| http_group(tree, name)));
    }
}

fn same_doors(one: &[(Door, usize)], other: &[(Door, usize)]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|((one, _), (other, _))| one == other)
}

impl FoundSite {
    fn add(
        &mut self,
        rule: traefik_rule::PlainRule,
        group: ServerGroup,
        middlewares: &[(&Tree, usize)],
        mut origin: Origin,
        (order, at): (u64, usize),
    ) {
        let (mut strip, mut add) = (None, None);
        for (middleware, _) in middlewares {
            let stripped = middleware.at(&["stripPrefix", "prefixes"]);
            if let [prefix] = stripped.texts().as_slice()
                && strip.is_none()
            {
                strip = Some(prefix.clone());
                origin.carry_all(middleware.get("stripPrefix").statements());
            }
            if let Some(prefix) = middleware.at(&["addPrefix", "prefix"]).text().filter(|_| add.is_none()) {
                add = Some(prefix.to_owned());
                origin.carry_all(middleware.get("addPrefix").statements());
            }
        }
        let steps = steps(middlewares, &mut origin);
        let answer = OutlinedAnswer::Proxy { group, strip, add };
        if rule.paths.is_empty() && rule.conditions.is_empty() && steps.is_empty() {
            // A second one for all is never reached.
            if self.site.answer.is_none() {
                self.site.answer = Some(answer);
                self.last = order;
            } else {
                origin.carried.clear();
            }
            return self.site.origin.add(&origin);
        }
        let prefix = |(pattern, prefix): (String, String)| BytePrefix { pattern, prefix, at };
        let byte_prefixes = rule.byte_prefixes.into_iter().map(prefix).collect();
        let route = OutlinedRoute::of(rule.paths, answer);
        self.site.routes.push(OutlinedRoute { conditions: rule.conditions, steps, origin, byte_prefixes, ..route });
        self.priorities.push(order);
    }

    /// Whether requests for its hosts may be those of a rule that is not understood.
    fn may_be_of(&self, rule: &str) -> bool {
        !rule.contains("Host(") || rule.contains("HostRegexp") || self.hosts.iter().any(|host| rule.contains(host.as_str()))
    }

    /// Leaves out what is looked at behind this one; whether there is some.
    fn leave_out_behind(&mut self, first: u64) -> bool {
        let count = self.site.routes.len();
        let priorities = std::mem::take(&mut self.priorities);
        let routes = priorities.into_iter().zip(std::mem::take(&mut self.site.routes));
        (self.priorities, self.site.routes) = routes.filter(|(order, _)| *order > first).unzip();
        let is_behind = self.last <= first && self.site.answer.take().is_some();
        is_behind || self.site.routes.len() < count
    }

    fn end(mut self) -> Option<OutlinedSite> {
        if self.site.answer.is_none() && self.site.routes.is_empty() {
            return None;
        }
        // The longer rule goes first there, unless one says otherwise.
        let mut routes: Vec<(u64, OutlinedRoute)> = self.priorities.into_iter().zip(self.site.routes).collect();
        routes.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
        self.site.routes = routes.into_iter().map(|(_, route)| route).collect();
        self.site.is_name_open = self.hosts.iter().any(|host| host.contains('$'));
        let hosts: Vec<String> = self.hosts.iter().map(|host| without_variables(host)).collect();
        let mut origin = Origin::default();
        let Whereabouts { addresses, only_hosts, .. } = placed(&self.doors, &hosts, false, &mut origin)?;
        // What the places of doors are is said where they were looked for.
        origin.differs.retain(|at, _| *at != usize::MAX);
        self.site.origin.add(&origin);
        Some(OutlinedSite { addresses, only_hosts, ..self.site })
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

/// The middlewares of a router and of its entry points, each with the place that names it; those of a chain one by one.
/// Where all of them are known, what names them is carried by their own statements.
fn middlewares_of<'t>(tree: &'t Tree, kind: &str, router: &Tree, origin: &mut Origin) -> Vec<(&'t Tree, usize)> {
    let mut found = Vec::new();
    let mut lists = vec![router.get("middlewares").clone()];
    for name in router.get("entryPoints").texts() {
        lists.push(tree.at(&["entryPoints", &name, "http", "middlewares"]).clone());
    }
    let mut count = 0;
    while let Some(list) = lists.pop() {
        let mut is_known = true;
        for name in list.texts() {
            count += 1;
            let name = name.split('@').next().unwrap_or_default();
            let middleware = tree.at(&[kind, "middlewares", name]);
            if middleware.is_nothing() || count > CHAIN_MAX {
                is_known = false;
                continue;
            }
            let chain = middleware.at(&["chain", "middlewares"]);
            if !chain.is_nothing() {
                lists.push(chain.clone());
            }
            found.push((middleware, list.start()));
        }
        for at in list.statements() {
            origin.within.insert(at);
            if is_known {
                origin.carry(at);
            }
        }
    }
    let options = router.at(&["tls", "options"]);
    let own = tls_options(tree, router);
    if has_key(router, "tls") && kind == "http" {
        origin.within.extend(own.statements());
        origin.carry_all(options.statements().into_iter().filter(|_| !own.is_nothing()));
    }
    found
}

/// Middlewares that do not ask for the address of a connection, which is another proxy's.
fn without_addresses(mut middlewares: Vec<(&Tree, usize)>) -> Vec<(&Tree, usize)> {
    let asks = |middleware: &Tree| ["ipAllowList", "ipWhiteList", "rateLimit"].iter().any(|word| middleware.has(word));
    middlewares.retain(|(middleware, _)| !asks(middleware));
    middlewares
}

/// What handshakes of a router are to be like.
fn tls_options<'t>(tree: &'t Tree, router: &Tree) -> &'t Tree {
    let named = router.at(&["tls", "options"]).text().map(|name| name.split('@').next().unwrap_or_default());
    tree.at(&["tls", "options", named.unwrap_or("default")])
}

/// Lines of ours for who may come in, how often, and how much may be sent.
fn steps(middlewares: &[(&Tree, usize)], origin: &mut Origin) -> Vec<String> {
    let mut steps = Vec::new();
    for (middleware, _) in middlewares {
        for list in [middleware.get("ipAllowList"), middleware.get("ipWhiteList")] {
            let ranges = list.get("sourceRange").texts();
            // Whose address it is may be said by another proxy.
            let is_plain = list.get("ipStrategy").is_nothing();
            if !ranges.is_empty() && is_plain && ranges.iter().all(|range| parse_network(range).is_ok()) {
                let ranges: Vec<String> = ranges.iter().map(|range| format!("\"{range}\"")).collect();
                steps.push(format!("allow {}", ranges.join(" ")));
                origin.carry_all(list.statements());
            }
        }
        let bytes = middleware.at(&["buffering", "maxRequestBodyBytes"]);
        if let Some(size) = bytes.number().filter(|size| *size > 0) {
            steps.push(format!("body-limit {size}"));
            origin.carry_all(bytes.statements());
        }
        let limit = middleware.get("rateLimit");
        let unit = match limit.get("period").text() {
            None | Some("1s" | "1") => "s",
            Some("1m" | "60s" | "1m0s") => "m",
            Some(_) => continue,
        };
        let is_plain = limit.get("sourceCriterion").is_nothing();
        if let Some(average) = limit.get("average").number().filter(|average| *average > 0 && is_plain) {
            let burst = limit.get("burst").number().unwrap_or(1).max(1);
            steps.push(format!("rate-limit \"{average}/{unit}\" burst={burst}"));
            origin.carry_all(limit.statements());
        }
    }
    // Two lists both have to hold, and of two lines of ours one is enough.
    if steps.iter().filter(|step| step.starts_with("allow ")).count() > 1 {
        steps.retain(|step| !step.starts_with("allow "));
        for (middleware, _) in middlewares {
            for list in [middleware.get("ipAllowList"), middleware.get("ipWhiteList")] {
                list.statements().iter().for_each(|at| {
                    origin.carried.remove(at);
                });
            }
        }
    }
    steps
}

/// `:443/tcp` without what is behind the port; of another protocol nothing.
fn resolved(address: &str) -> &str {
    match address.split_once('/') {
        Some((address, "tcp")) => address,
        Some(_) => "",
        None => address,
    }
}

/// Where a router listens: by its entry points where the file has them, else by what they are called.
fn doors(tree: &Tree, router: &Tree, origin: &mut Origin) -> Vec<(Door, usize)> {
    let written = router.get("entryPoints");
    let names = written.texts();
    let is_secure = |name: &str| ["websecure", "https", "web-secure", "secure"].iter().any(|own| name.eq_ignore_ascii_case(own));
    let has_tls = has_key(router, "tls");
    let mut doors = Vec::new();
    for name in &names {
        let point = tree.at(&["entryPoints", name]);
        let address = point.get("address");
        let Some(door) = address.text().and_then(|address| Door::parse(resolved(address), false)) else { continue };
        let is_tls = has_tls || is_secure(name) || door.port == 443 || point.get("http").has("tls");
        origin.within.extend(point.statements());
        origin.carry_all(point.at(&["http", "tls"]).statements());
        doors.push((Door { is_tls, ..door }, address.start()));
    }
    if has_tls {
        let tls = router.get("tls");
        origin.carry_all(tls.statements().into_iter().filter(|at| tls.text().is_some() || *at == tls.start()));
    }
    let is_told = !doors.is_empty();
    if is_told {
        origin.carry_all(written.statements());
        return doors;
    }
    let is_tls = names.is_empty() || has_tls || names.iter().any(|name| is_secure(name));
    let door = if is_tls { Door::HTTPS } else { Door::HTTP };
    let at = written.start();
    let is_usual = |name: &String| is_secure(name) || name.eq_ignore_ascii_case("web") || name.eq_ignore_ascii_case("http");
    if !names.is_empty() && names.iter().all(is_usual) {
        origin.carry_all(written.statements());
    } else if !names.is_empty() && !words::is_inner(&names) {
        origin.differ(at, ELSEWHERE);
    }
    vec![(door, usize::MAX)]
}

/// `tls: {}` says what it does by being there.
fn has_key(router: &Tree, name: &str) -> bool {
    router.entries().iter().any(|(key, value)| key == name && value.text() != Some("false"))
}

fn http_group(tree: &Tree, service: &str) -> Option<ServerGroup> {
    group_within(tree, service, 0)
}

fn group_within(tree: &Tree, service: &str, depth: usize) -> Option<ServerGroup> {
    let name = service.split('@').next().unwrap_or_default();
    let service = tree.at(&["http", "services", name]);
    let first = service.at(&["failover", "service"]);
    if let Some((own, _)) = first.text().zip(service.at(&["failover", "fallback"]).text()).filter(|_| depth < CHAIN_MAX) {
        let mut group = group_within(tree, own, depth + 1)?;
        group.origin.within.extend(service.statements());
        return Some(group);
    }
    let balancer = service.get("loadBalancer");
    let mut group = ServerGroup::named(name);
    group.origin.within = service.statements();
    for server in balancer.get("servers").items() {
        let url = server.get("url");
        let Some(address) = url.text().and_then(upstream) else { continue };
        if url.text().is_some_and(|url| url.starts_with("h2c://")) {
            group.add_line("protocol \"h2c\"");
        }
        let weight = server.get("weight").number().map(|weight| weight as u32);
        group.origin.carry_all(url.statements());
        group.origin.carry_all(server.get("weight").statements());
        group.servers.push(GroupedServer { address, weight, ..GroupedServer::default() });
    }
    // What labels say of a container is what its address was made of.
    group.origin.carry_all(balancer.get("server").statements());
    let named = balancer.get("serversTransport");
    let transport = named.text().unwrap_or_default();
    let transport = tree.at(&["http", "serversTransports", transport.split('@').next().unwrap_or_default()]);
    if !transport.is_nothing() {
        group.origin.within.extend(transport.statements());
        group.origin.carry_all(named.statements());
    }
    let (verify, server_name) = (transport.get("insecureSkipVerify"), transport.get("serverName"));
    if verify.is_true() {
        group.add_line("tls verify=#false");
        group.origin.carry_all(verify.statements());
    } else if let Some(name) = server_name.text().filter(|name| super::outline::is_plain(name)) {
        group.add_line(format!("tls sni=\"{name}\""));
        group.origin.carry_all(server_name.statements());
    }
    if has_key(balancer, "sticky") {
        let cookie = balancer.at(&["sticky", "cookie", "name"]);
        group.add_line(format!("sticky cookie=\"{}\"", cookie.text().unwrap_or("tg_route")));
        group.origin.carry_all(balancer.get("sticky").statements());
    }
    let path = balancer.at(&["healthCheck", "path"]);
    if let Some(told) = path.text().filter(|path| path.starts_with('/') && super::outline::is_plain(path)) {
        group.add_line(format!("health \"{told}\""));
        group.origin.carry_all(path.statements());
    }
    (!group.is_empty()).then_some(group)
}
