//! The first lines of the same thing here. What they are made of was read off the file's shape; a line that `check`
//! would not take is never told.

use super::outline::{
    GroupedServer, NAME_IN_PLACE, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service,
};
use crate::written_line::quoted;

/// Lines to write, whole as they stand.
#[derive(Debug)]
pub struct Beginning {
    pub lines: Vec<String>,
    /// Whether a name stands in them that the file does not say.
    pub is_name_open: bool,
    /// How many other sites and ports the file has.
    pub others: usize,
    /// How many routes of the site were left out.
    pub routes_left_out: usize,
    pub guards: Vec<String>,
}

/// More servers are a pool of their own, whose lines can be read.
const SERVERS_IN_PLACE_MAX: usize = 4;
const SERVERS_MAX: usize = 16;
const ROUTES_MAX: usize = 6;
const NAMES_MAX: usize = 8;
/// A file of ten thousand sites is told of by one of its first.
const TRIED_MAX: usize = 16;

/// The line that says most, of those that `accepts` takes.
pub fn of(outline: &Outline, accepts: &dyn Fn(&str) -> bool) -> Option<Beginning> {
    let mut services: Vec<&Service> = outline.services.iter().collect();
    services.sort_by_key(|service| rank(service));
    let others = services.len().saturating_sub(1);
    let found = services.into_iter().take(TRIED_MAX).find_map(|service| of_service(service, accepts));
    if let Some(beginning) = found {
        return Some(Beginning { others, ..beginning });
    }
    let of_group = |group: &ServerGroup| {
        let site = OutlinedSite { answer: Some(OutlinedAnswer::proxy(group.clone())), ..OutlinedSite::default() };
        of_site(&site, group.servers.len() + group.lines.len() > 1).filter(|beginning| accepts(&beginning.lines.join("\n")))
    };
    outline.groups.iter().take(TRIED_MAX).find_map(of_group)
}

/// What hands on comes before what only sends elsewhere.
fn rank(service: &Service) -> u8 {
    let of_answer = |answer: &OutlinedAnswer| match answer {
        OutlinedAnswer::Proxy { .. } | OutlinedAnswer::Scripts { .. } => 0,
        OutlinedAnswer::Files { .. } => 1,
        OutlinedAnswer::Respond { .. } => 2,
        OutlinedAnswer::Redirect { .. } => 3,
    };
    match service {
        Service::Tcp(_) => 0,
        Service::Site(site) => {
            let answers = site.answer.iter().chain(site.routes.iter().map(|route| &route.answer));
            answers.map(of_answer).min().unwrap_or(4)
        }
    }
}

fn of_service(service: &Service, accepts: &dyn Fn(&str) -> bool) -> Option<Beginning> {
    let is_right = |beginning: &Beginning| accepts(&beginning.lines.join("\n"));
    match service {
        Service::Tcp(tcp) => of_tcp(tcp).filter(is_right),
        Service::Site(site) => of_known_patterns(site).filter(is_right).or_else(|| {
            // A pattern that only the other proxy takes must not keep back all else.
            let without = OutlinedSite { routes: Vec::new(), answer: site.answer.clone(), ..OutlinedSite::default() };
            let without = OutlinedSite {
                addresses: site.addresses.clone(),
                is_name_open: site.is_name_open,
                steps: site.steps.clone(),
                guards: site.guards.clone(),
                ..without
            };
            let beginning = of_site(&without, false).filter(is_right)?;
            Some(Beginning { routes_left_out: site.routes.len(), ..beginning })
        }),
    }
}

/// Without routes whose expressions only the other proxy has.
fn of_known_patterns(site: &OutlinedSite) -> Option<Beginning> {
    let is_known = |pattern: &String| pattern.strip_prefix('~').is_none_or(|regex| regex::Regex::new(regex).is_ok());
    let mut site = site.clone();
    let count = site.routes.len();
    site.routes.retain(|route| route.patterns.iter().all(is_known));
    let left_out = count - site.routes.len();
    of_site(&site, false).map(|beginning| Beginning { routes_left_out: beginning.routes_left_out + left_out, ..beginning })
}

fn of_site(site: &OutlinedSite, with_pool: bool) -> Option<Beginning> {
    let mut pools = Pools { lines: Vec::new(), always: with_pool };
    let mut inside = site.steps.clone();
    for OutlinedRoute { patterns, conditions, steps: guards, answer } in site.routes.iter().take(ROUTES_MAX) {
        let patterns: String = patterns.iter().flat_map(|pattern| [quoted(pattern), " ".to_owned()]).collect();
        let conditions = if conditions.is_empty() { String::new() } else { format!("match {}; ", conditions.join(" ")) };
        let guards: String = guards.iter().flat_map(|step| [step.as_str(), "; "]).collect();
        inside.push(format!("route {patterns}{{ {conditions}{guards}{} }}", steps(answer, &mut pools)?));
    }
    if let Some(answer) = &site.answer {
        inside.push(steps(answer, &mut pools)?);
    }
    if inside.len() == site.steps.len() {
        return None;
    }
    let is_without = site.addresses.is_empty();
    let named: Vec<String> = site.addresses.iter().take(NAMES_MAX).map(|address| quoted(address)).collect();
    let names = if is_without { quoted(NAME_IN_PLACE) } else { named.join(" ") };
    let mut lines = pools.lines;
    lines.push(format!("site {names} {{ {} }}", inside.join("; ")));
    Some(Beginning {
        lines,
        is_name_open: is_without || site.is_name_open,
        others: 0,
        routes_left_out: site.routes.len().saturating_sub(ROUTES_MAX),
        guards: site.guards.clone(),
    })
}

fn of_tcp(tcp: &OutlinedTcp) -> Option<Beginning> {
    let mut pools = Pools { lines: Vec::new(), always: false };
    let mut inside = Vec::new();
    for (names, group) in tcp.by_name.iter().take(NAMES_MAX) {
        let names: String = names.iter().take(NAMES_MAX).flat_map(|name| [quoted(name), " ".to_owned()]).collect();
        inside.push(format!("sni {names}{{ {} }}", pools.proxy(group)?));
    }
    if let Some(group) = &tcp.otherwise {
        inside.push(pools.proxy(group)?);
    }
    if inside.is_empty() {
        return None;
    }
    let mut lines = pools.lines;
    lines.push(format!("tcp {} {{ {} }}", quoted(&tcp.address), inside.join("; ")));
    let routes_left_out = tcp.by_name.len().saturating_sub(NAMES_MAX);
    Some(Beginning { lines, is_name_open: false, others: 0, routes_left_out, guards: Vec::new() })
}

/// The steps of a site or a route, up to the one that answers.
fn steps(answer: &OutlinedAnswer, pools: &mut Pools) -> Option<String> {
    let property =
        |name: &str, value: &Option<String>| value.as_ref().map(|value| format!(" {name}={}", quoted(value))).unwrap_or_default();
    let change = |name: &str, prefix: &Option<String>| {
        prefix.as_ref().map(|prefix| format!("{name} {}; ", quoted(prefix))).unwrap_or_default()
    };
    Some(match answer {
        OutlinedAnswer::Proxy { group, strip, add } => {
            format!("{}{}{}", change("strip-prefix", strip), change("add-prefix", add), pools.proxy(group)?)
        }
        OutlinedAnswer::Files { root, strip, fallback, is_listing } => {
            let listing = if *is_listing { " listing=#true" } else { "" };
            format!("{}files {}{}{listing}", change("strip-prefix", strip), quoted(root), property("fallback", fallback))
        }
        OutlinedAnswer::Scripts { server, root, fallback, is_static } => {
            let files = if *is_static { " static=#true" } else { "" };
            format!("fastcgi {}{}{}{files}", quoted(server), property("root", root), property("fallback", fallback))
        }
        OutlinedAnswer::Redirect { to, status } => format!("redirect {} status={status}", quoted(to)),
        OutlinedAnswer::Respond { status, body } => format!("respond {status}{}", property("body", body)),
    })
}

/// Pools that the lines name, each written once.
struct Pools {
    lines: Vec<String>,
    /// Whether servers are never written in place.
    always: bool,
}

impl Pools {
    fn proxy(&mut self, group: &ServerGroup) -> Option<String> {
        if group.is_empty() {
            return None;
        }
        let is_in_place = |server: &GroupedServer| server.weight.is_none() && !server.is_backup;
        let servers = &group.servers;
        let inside = group.lines.join("; ");
        if !self.always && !servers.is_empty() && servers.len() <= SERVERS_IN_PLACE_MAX && servers.iter().all(is_in_place) {
            let addresses: Vec<String> = servers.iter().map(|server| quoted(&server.address)).collect();
            let block = if inside.is_empty() { String::new() } else { format!(" {{ {inside} }}") };
            return Some(format!("proxy {}{block}", addresses.join(" ")));
        }
        let name = pool_name(&group.name);
        let mut lines: Vec<String> = servers.iter().take(SERVERS_MAX).map(server).collect();
        lines.extend(group.lines.iter().cloned());
        let pool = format!("pool {} {{ {} }}", quoted(&name), lines.join("; "));
        if !self.lines.contains(&pool) {
            self.lines.push(pool);
        }
        Some(format!("proxy {}", quoted(&name)))
    }
}

fn server(server: &GroupedServer) -> String {
    let GroupedServer { address, weight, is_backup } = server;
    let weight = weight.map(|weight| format!(" weight={weight}")).unwrap_or_default();
    let backup = if *is_backup { " backup=#true" } else { "" };
    format!("server {}{weight}{backup}", quoted(address))
}

/// A name without what a pool's cannot have.
fn pool_name(written: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = written.chars().map(allowed).collect();
    if name.is_empty() { "app".to_owned() } else { name }
}
