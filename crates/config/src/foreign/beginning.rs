//! The first lines of the same thing here. What they are made of was read off the file's shape; a line that `check`
//! would not take is never told.

use super::accounts::{FileStatement, Origin, protections_left};
use super::outline::{
    GroupedServer, NAME_IN_PLACE, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service,
    beginning_with,
};
use crate::written_line::quoted;
use tidegate_model::expression;

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
    /// What they are made of.
    pub origin: Origin,
}

/// The lines that say most, and what kept others back.
#[derive(Debug)]
pub struct Telling<'o> {
    pub beginning: Option<Beginning>,
    /// What keeps clients out of sites and ports for which no line is told, since it would stand open.
    pub withheld: Vec<&'o FileStatement>,
}

/// More servers are a pool of their own, whose lines can be read.
const SERVERS_IN_PLACE_MAX: usize = 4;
/// Of what has more, no line is told: a part of it could send elsewhere what another part takes.
const SERVERS_MAX: usize = 64;
const ROUTES_MAX: usize = 24;
const NAMES_MAX: usize = 32;
/// A file of ten thousand sites is told of by one of its first.
const TRIED_MAX: usize = 16;
const LOOKED_AT_MAX: usize = 200;

/// The lines that say most, of those that `accepts` takes.
pub fn of<'o>(outline: &'o Outline, accepts: &dyn Fn(&str) -> bool) -> Telling<'o> {
    let mut services: Vec<&Service> = outline.services.iter().collect();
    services.sort_by_key(|service| rank(service));
    let mut withheld: Vec<&FileStatement> = Vec::new();
    let mut count_withheld = 0;
    let mut found: Option<Beginning> = None;
    for (index, service) in services.iter().take(LOOKED_AT_MAX).enumerate() {
        let told = match &found {
            // What keeps clients out of the others is said as well.
            Some(_) => kept_back(service, &outline.statements),
            None if index < TRIED_MAX => of_service(service, &outline.statements, accepts),
            None => break,
        };
        match told {
            Ok(beginning) => found = found.or(beginning),
            Err(statements) => {
                count_withheld += 1;
                withheld.extend(statements.into_iter().filter(|one| !withheld.contains(one)).collect::<Vec<_>>());
            }
        }
    }
    withheld.sort_by_key(|statement| statement.at);
    if let Some(beginning) = found {
        let others = services.len() - 1 - count_withheld + outline.uncounted;
        return Telling { beginning: Some(Beginning { others, ..beginning }), withheld };
    }
    let of_group = |group: &ServerGroup| {
        let site = OutlinedSite { answer: Some(OutlinedAnswer::proxy(group.clone())), ..OutlinedSite::default() };
        let is_open = protections_left(&outline.statements, &group.origin).is_empty();
        of_site(&site, group.servers.len() + group.lines.len() > 1)
            .filter(|beginning| is_open && accepts(&beginning.lines.join("\n")))
    };
    let groups = if withheld.is_empty() { outline.groups.as_slice() } else { &[] };
    let beginning = groups.iter().take(TRIED_MAX).find_map(of_group);
    let beginning = beginning.map(|beginning| Beginning { others: groups.len() - 1, ..beginning });
    Telling { beginning, withheld }
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

/// `Err`: what protects it, and would not be there.
type ServiceBeginning<'o> = Result<Option<Beginning>, Vec<&'o FileStatement>>;

/// Whether a site or port would stand open, without its lines.
fn kept_back<'o>(service: &Service, statements: &'o [FileStatement]) -> ServiceBeginning<'o> {
    match service {
        Service::Tcp(tcp) => {
            let left = protections_left(statements, &tcp.whole_origin());
            if left.is_empty() { Ok(None) } else { Err(left) }
        }
        Service::Site(site) => closed(site, statements).map(|_| None),
    }
}

fn of_service<'o>(service: &Service, statements: &'o [FileStatement], accepts: &dyn Fn(&str) -> bool) -> ServiceBeginning<'o> {
    let is_right = |beginning: &Beginning| accepts(&beginning.lines.join("\n"));
    let site = match service {
        Service::Tcp(tcp) => {
            let left = protections_left(statements, &tcp.whole_origin());
            return if left.is_empty() { Ok(of_tcp(tcp).filter(is_right)) } else { Err(left) };
        }
        Service::Site(site) => closed(site, statements)?,
    };
    // A pattern that only the other proxy takes must not keep back all else.
    let is_known = |route: &OutlinedRoute| {
        route.patterns.iter().all(|pattern| pattern.strip_prefix('~').is_none_or(|text| expression(text).build().is_ok()))
    };
    let count = |beginning: Beginning, told: &OutlinedSite| {
        Some(Beginning { routes_left_out: site.routes.len() - told.routes.len(), ..beginning })
    };
    let known = without_routes(&site, |route| !is_known(route), statements)?;
    if let Some(beginning) = of_site(&known, false).filter(is_right) {
        return Ok(count(beginning, &known));
    }
    let bare = without_routes(&site, |_| true, statements)?;
    Ok(of_site(&bare, false).filter(is_right).and_then(|beginning| count(beginning, &bare)))
}

/// The site with all routes shut that somebody is kept out of by what is not carried. What protects all of it keeps it
/// back.
fn closed<'o>(site: &OutlinedSite, statements: &'o [FileStatement]) -> Result<OutlinedSite, Vec<&'o FileStatement>> {
    let mut site = site.clone();
    let mut open = site.own_origin();
    let mut kept_out = Vec::new();
    for route in &mut site.routes {
        let left = protections_left(statements, &route.whole_origin());
        if !left.is_empty() {
            route.answer = OutlinedAnswer::status(403);
            route.steps.clear();
            // Nobody comes in there, so all else that is said of it has no say.
            let within = std::mem::take(&mut route.origin.within);
            route.origin.carry_all(within);
            for statement in &left {
                route.origin.differ(statement.at, "what it protects is refused with 403 in these lines: it is yours to add");
            }
            kept_out.extend(left);
        }
        settle_prefixes(route);
        open.carried.extend(&route.origin.carried);
        open.differs.extend(route.origin.differs.clone());
    }
    let left = protections_left(statements, &open);
    if !left.is_empty() {
        return Err(left);
    }
    let serves = site.answer.iter().chain(site.routes.iter().map(|route| &route.answer)).any(|answer| !answer.is_refusal());
    if serves || kept_out.is_empty() { Ok(site) } else { Err(kept_out) }
}

/// Whoever keeps somebody out keeps him out of all that begins so; what is open is whole segments.
fn settle_prefixes(route: &mut OutlinedRoute) {
    let is_guarded = !route.steps.is_empty() || route.answer.is_refusal();
    for written in std::mem::take(&mut route.byte_prefixes) {
        if is_guarded {
            let pattern = beginning_with(&written.prefix);
            for own in route.patterns.iter_mut().filter(|own| **own == written.pattern) {
                own.clone_from(&pattern);
            }
        } else {
            let how =
                format!("`{0}x` begins with `{0}` too there, and here `{1}` is whole segments", written.prefix, written.pattern);
            route.origin.differ(written.at, how);
        }
    }
}

/// What none of them takes is answered by the last, so nothing that keeps somebody out can be left out.
fn without_routes<'o>(
    site: &OutlinedSite,
    is_left_out: impl Fn(&OutlinedRoute) -> bool,
    statements: &'o [FileStatement],
) -> Result<OutlinedSite, Vec<&'o FileStatement>> {
    let mut site = site.clone();
    let mut whole = site.origin.clone();
    for route in site.routes.iter().filter(|route| is_left_out(route)) {
        let origin = route.whole_origin();
        if !route.steps.is_empty() || route.answer.is_refusal() {
            return Err(statements.iter().filter(|one| origin.within.contains(&one.at)).take(1).collect());
        }
        whole.within.extend(&origin.within);
    }
    site.origin = whole;
    site.routes.retain(|route| !is_left_out(route));
    Ok(site)
}

fn of_site(site: &OutlinedSite, with_pool: bool) -> Option<Beginning> {
    if site.routes.len() > ROUTES_MAX || site.addresses.len() > NAMES_MAX {
        return None;
    }
    let mut pools = Pools { lines: Vec::new(), always: with_pool };
    let mut inside = site.steps.clone();
    let only = (!site.only_hosts.is_empty()).then(|| format!("host={}", quoted(&site.only_hosts.join(","))));
    for OutlinedRoute { patterns, conditions, steps: guards, answer, .. } in &site.routes {
        let patterns: String = patterns.iter().flat_map(|pattern| [quoted(pattern), " ".to_owned()]).collect();
        let conditions: Vec<&str> = only.iter().chain(conditions).map(String::as_str).collect();
        let conditions = if conditions.is_empty() { String::new() } else { format!("match {}; ", conditions.join(" ")) };
        let guards: String = guards.iter().flat_map(|step| [step.as_str(), "; "]).collect();
        inside.push(format!("route {patterns}{{ {conditions}{guards}{} }}", steps(answer, &mut pools)?));
    }
    if let Some(answer) = &site.answer {
        let steps = steps(answer, &mut pools)?;
        inside.push(only.map_or_else(|| steps.clone(), |only| format!("route {{ match {only}; {steps} }}")));
    }
    if inside.len() == site.steps.len() {
        return None;
    }
    let is_without = site.addresses.is_empty();
    let named: Vec<String> = site.addresses.iter().map(|address| quoted(address)).collect();
    let names = if is_without { quoted(NAME_IN_PLACE) } else { named.join(" ") };
    let mut lines = pools.lines;
    lines.push(format!("site {names} {{ {} }}", inside.join("; ")));
    Some(Beginning {
        lines,
        is_name_open: is_without || site.is_name_open,
        others: 0,
        routes_left_out: 0,
        origin: site.whole_origin(),
    })
}

fn of_tcp(tcp: &OutlinedTcp) -> Option<Beginning> {
    if tcp.by_name.len() > NAMES_MAX || tcp.by_name.iter().any(|(names, _)| names.len() > NAMES_MAX) {
        return None;
    }
    let mut pools = Pools { lines: Vec::new(), always: false };
    let mut inside = Vec::new();
    for (names, group) in &tcp.by_name {
        let names: String = names.iter().flat_map(|name| [quoted(name), " ".to_owned()]).collect();
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
    Some(Beginning { lines, is_name_open: false, others: 0, routes_left_out: 0, origin: tcp.whole_origin() })
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
        OutlinedAnswer::Files { root, strip, is_tried: true, .. } => {
            format!("{}files {} try=\"{{path}}\" else=\"next\"", change("strip-prefix", strip), quoted(root))
        }
        OutlinedAnswer::Files { root, strip, fallback, is_listing, is_tried: false } => {
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
        if group.is_empty() || group.servers.len() > SERVERS_MAX {
            return None;
        }
        let is_in_place = |server: &GroupedServer| server.weight.is_none() && !server.is_backup && server.properties.is_empty();
        let servers = &group.servers;
        let inside = group.lines.join("; ");
        if !self.always && !servers.is_empty() && servers.len() <= SERVERS_IN_PLACE_MAX && servers.iter().all(is_in_place) {
            let addresses: Vec<String> = servers.iter().map(|server| quoted(&server.address)).collect();
            let block = if inside.is_empty() { String::new() } else { format!(" {{ {inside} }}") };
            return Some(format!("proxy {}{block}", addresses.join(" ")));
        }
        let mut lines: Vec<String> = servers.iter().map(server).collect();
        lines.extend(group.lines.iter().cloned());
        let written = |name: &str| format!("pool {} {{ {} }}", quoted(name), lines.join("; "));
        let is_taken = |name: &str| {
            let start = format!("pool {} {{", quoted(name));
            self.lines.iter().any(|line| line.starts_with(&start) && *line != written(name))
        };
        let own = pool_name(&group.name);
        let mut name = own.clone();
        for number in 2..=self.lines.len() + 1 {
            if is_taken(&name) {
                name = format!("{own}-{number}");
            }
        }
        let pool = written(&name);
        if !self.lines.contains(&pool) {
            self.lines.push(pool);
        }
        Some(format!("proxy {}", quoted(&name)))
    }
}

fn server(server: &GroupedServer) -> String {
    let GroupedServer { address, weight, is_backup, properties } = server;
    let weight = weight.map(|weight| format!(" weight={weight}")).unwrap_or_default();
    let backup = if *is_backup { " backup=#true" } else { "" };
    let properties: String = properties.iter().flat_map(|property| [" ", property]).collect();
    format!("server {}{weight}{backup}{properties}", quoted(address))
}

/// A name without what a pool's cannot have.
fn pool_name(written: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = written.chars().map(allowed).collect();
    if name.is_empty() { "app".to_owned() } else { name }
}
