//! What a file of nginx asks for: its servers by context, for HTTP and for connections as they are, with their
//! upstreams. A fragment without its context is told apart by what only one of the two has.

mod answers;
mod guards;
mod stream;
mod words;

use super::accounts::Origin;
use super::braces::{self, Statement, named, value};
use super::outline::{
    Door, NAME_IN_PLACE, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, ServerGroup, Service, TLS_NEWEST, Whereabouts,
    beginning_with, below, placed,
};
use answers::{group, is_folder, tried};
use guards::{Guards, body_limit, nearest};
use std::collections::BTreeSet;

const INCLUDED: &str = "its sites are in the files that it includes: give `check` one of them";
const NO_SERVER: &str = "it has no `server` that hands requests on";
const BY_VARIABLE: &str = "where it hands requests on to is in variables";
const OTHER_PROTOCOLS: &str = "mail, uWSGI, SCGI and memcached are not spoken";
const NO_DOOR: &str = "it listens on a socket or on what variables say, and not on a port that is told";
const TO_HTTPS: &str = "all that it has is the redirect to HTTPS, which a site does without a word";
const NOT_TOLD: &str = "what answers there is not in these lines: it is refused with 403";
const FEWER_NAMES: &str = "a name with `*` is one more label here, and names that are expressions are left out";

pub fn outline(text: &str) -> Outline {
    let statements = braces::of_nginx(text);
    let mut reader = NginxReader { groups: Vec::new(), maps: Vec::new(), zones: Vec::new(), outline: Outline::default() };
    reader.collect(&statements);
    let has_include = named(&statements, "http").any(|http| named(http.inside(), "include").next().is_some());
    reader.walk(&statements, Context::Open);
    let mut outline = reader.outline;
    outline.statements = words::statements(&statements);
    if outline.services.is_empty() && outline.without.is_none() {
        outline.groups = reader.groups;
    }
    if braces::has_within(&statements, "mail")
        || ["uwsgi_pass", "scgi_pass", "memcached_pass"].iter().any(|word| braces::has_within(&statements, word))
    {
        return outline.or_without(OTHER_PROTOCOLS);
    }
    outline.or_without(if has_include { INCLUDED } else { NO_SERVER })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Http,
    Stream,
    /// A file that others include.
    Open,
}

/// A variable by another.
struct VariableMap {
    key: String,
    variable: String,
    rows: Vec<(String, String)>,
    start: usize,
}

struct NginxReader {
    groups: Vec<ServerGroup>,
    maps: Vec<VariableMap>,
    /// How often each client may ask, by the names of zones.
    zones: Vec<(String, String)>,
    outline: Outline,
}

/// Statements of a block around that hold in this one: those that it says nothing of itself.
fn inherited(inside: &[Statement], around: &[Statement]) -> BTreeSet<usize> {
    let says = |name: &str| match name {
        "allow" | "deny" => named(inside, "allow").chain(named(inside, "deny")).next().is_some(),
        name => named(inside, name).next().is_some(),
    };
    let holds = |statement: &&Statement| {
        let is_about_servers = matches!(statement.name(), "server" | "upstream" | "http" | "stream" | "location" | "map");
        !is_about_servers && !says(statement.name())
    };
    words::places(around.iter().filter(holds))
}

impl NginxReader {
    /// Upstreams and maps, which may stand behind what names them.
    fn collect(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement.name() {
                "upstream" => self.groups.push(group(statement)),
                "map" if statement.arguments().len() == 2 => {
                    let rows = statement.inside().iter().filter(|row| row.words.len() == 2);
                    let rows = rows.map(|row| (row.words[0].clone(), row.words[1].clone())).collect();
                    let (key, variable) = (statement.words[1].clone(), statement.words[2].clone());
                    self.maps.push(VariableMap { key, variable, rows, start: statement.start() });
                }
                "limit_req_zone" if statement.argument().ends_with("remote_addr") => {
                    self.zones.extend(guards::zone(statement.arguments()));
                }
                "http" | "stream" => self.collect(statement.inside()),
                _ => {}
            }
        }
    }

    fn walk(&mut self, statements: &[Statement], context: Context) {
        // What stands around servers, without the servers: there may be thousands.
        let is_around =
            |statement: &&Statement| !matches!(statement.name(), "server" | "upstream" | "location" | "http" | "stream");
        let around: Vec<Statement> = statements.iter().filter(is_around).cloned().collect();
        for statement in statements {
            match statement.name() {
                "http" => self.walk(statement.inside(), Context::Http),
                "stream" => self.walk(statement.inside(), Context::Stream),
                "server" if statement.block.is_some() => {
                    if context == Context::Stream || (context == Context::Open && is_of_stream(statement.inside())) {
                        self.stream_server(statement, &around);
                    } else {
                        self.http_server(statement, &around);
                    }
                }
                _ => {}
            }
        }
        // A part of a server, in a file of its own.
        let is_part = |statement: &Statement| {
            (statement.name() == "location" && statement.block.is_some()) || is_terminal(statement.name())
        };
        if context == Context::Open && statements.iter().any(is_part) {
            let mut site = self.parts(statements, &[]);
            let own = statements.iter().filter(|statement| !matches!(statement.name(), "server" | "upstream" | "map"));
            site.origin.within.extend(words::places(own));
            self.add_site(site);
        }
    }

    fn add_site(&mut self, site: OutlinedSite) {
        if site.answer.is_some() || !site.routes.is_empty() {
            self.outline.services.push(Service::Site(site));
        }
    }

    fn http_server(&mut self, server: &Statement, http: &[Statement]) {
        let inside = server.inside();
        // The name that packages come with stands for none.
        let is_name = |name: &&String| !matches!(name.as_str(), "_" | "" | "localhost") && !name.starts_with('$');
        let hosts: Vec<String> = named(inside, "server_name").flat_map(Statement::arguments).filter(is_name).cloned().collect();
        let mut listening = Origin::default();
        let (doors, place) = place(inside, &hosts, &mut listening);
        if doors.is_empty() && named(inside, "listen").next().is_some() {
            self.outline.without.get_or_insert(NO_DOOR);
            return;
        }
        let is_tls = doors.iter().any(|(door, _)| door.is_tls);
        let is_name_open = place.is_none();
        let in_place = || placed(&doors, &[NAME_IN_PLACE.to_owned()], false, &mut listening).unwrap_or_default();
        let whereabouts = place.unwrap_or_else(in_place);
        let parts = self.parts(inside, http);
        // From plain HTTP to HTTPS a site sends without a word.
        let conditions: Vec<&Statement> = named(inside, "if").collect();
        let redirects: Vec<OutlinedRoute> =
            conditions.iter().filter_map(|condition| self.answer(&[condition.inside()], "/")).collect();
        let answers: Vec<OutlinedAnswer> = redirects.into_iter().map(|route| route.answer).chain(parts.answer.clone()).collect();
        let is_to_https = |answer: &OutlinedAnswer| matches!(answer, OutlinedAnswer::Redirect { to, .. } if to.starts_with("https://{host}") || hosts.iter().any(|host| to.starts_with(&format!("https://{host}{{"))));
        if !is_tls && parts.routes.is_empty() && answers.iter().any(is_to_https) {
            self.outline.without.get_or_insert(TO_HTTPS);
            self.outline.done_without.extend(words::places([server]));
            return;
        }
        let Whereabouts { addresses, only_hosts, .. } = whereabouts;
        let mut site = OutlinedSite { addresses, is_name_open, only_hosts, ..parts };
        let versions = nearest(&[inside, http], &["ssl_protocols"]);
        if let Some(versions) = versions.first().filter(|versions| is_tls && versions.arguments() == ["TLSv1.3"]) {
            site.steps.insert(0, TLS_NEWEST.to_owned());
            site.origin.carry(versions.start());
        }
        site.origin.add(&listening);
        site.origin.within.extend(words::places([server]));
        site.origin.within.extend(inherited(inside, http));
        self.add_site(site);
    }

    /// What a server or a file of its parts answers.
    fn parts(&mut self, inside: &[Statement], http: &[Statement]) -> OutlinedSite {
        let mut site = OutlinedSite::default();
        let of_server = self.guards(&[inside, http]);
        site.origin.add(&of_server.origin);
        let limit = nearest(&[inside, http], &["client_max_body_size"]);
        let limit = limit.first().and_then(|one| body_limit(std::slice::from_ref(*one)));
        if let Some((line, at)) = &limit {
            site.steps.push(line.clone());
            site.origin.carry(*at);
        }
        let scripts = named(inside, "location").find(|location| {
            value(location.inside(), "fastcgi_pass").is_some()
                && location.arguments().last().is_some_and(|path| is_of_scripts(path))
        });
        let mut all = self.answer(&[inside, http], "/").map(|route| (route, of_server.clone()));
        let is_all = named(inside, "return").next().is_some() && all.is_some();
        let mut routes = Vec::new();
        // Files first, and an application for all else.
        let next = all.as_ref().and_then(|(files, _)| self.tried_before(inside, inside, http, files));
        if let Some(app) = next {
            let files = all.replace((app, of_server.clone()));
            routes.extend(files.map(|(files, guards)| PlacedRoute { order: Order::Last, route: files.tried(), guards }));
        }
        let locations: Vec<&Statement> = named(inside, "location").collect();
        for location in locations.iter().copied().filter(|location| !scripts.is_some_and(|own| std::ptr::eq(own, *location))) {
            if is_all {
                // An answer of the server itself is given before any location is looked for.
                site.origin.carry_all(words::places([location]));
                continue;
            }
            self.location(location, inside, http, &mut site, &mut routes, &mut all);
        }
        if let Some(scripts) = scripts {
            self.add_scripts(&mut all, &mut routes, inside, scripts, &of_server);
        }
        settle(site, routes, all, of_server)
    }

    fn location(
        &mut self,
        location: &Statement,
        server: &[Statement],
        http: &[Statement],
        site: &mut OutlinedSite,
        routes: &mut Vec<PlacedRoute>,
        all: &mut Option<(OutlinedRoute, Guards)>,
    ) {
        let (modifier, path) = match location.arguments() {
            [modifier, path] => (modifier.as_str(), path.as_str()),
            [path] => ("", path.as_str()),
            _ => return,
        };
        let inside = location.inside();
        let places = words::places([location]);
        if path.contains(".well-known/acme-challenge") {
            site.origin.carry_all(places);
            return;
        }
        let is_of_errors = named(server, "error_page").any(|page| page.arguments().last().is_some_and(|last| last == path));
        if path.starts_with('@') || is_of_errors {
            return;
        }
        let levels = [inside, server, http];
        let mut guards = self.guards(&levels);
        if let Some((line, at)) = body_limit(inside) {
            guards.body_limit = Some(line);
            guards.origin.carry(at);
        }
        let strip = if modifier.starts_with('~') { "" } else { path };
        let internal = named(inside, "internal").next();
        let answer = match internal {
            // Nobody from outside gets there.
            Some(internal) => {
                let mut route = OutlinedRoute::of(Vec::new(), OutlinedAnswer::status(404));
                route.origin.carry(internal.start());
                guards.steps.clear();
                Some(route)
            }
            None => self.answer(&levels, strip),
        };
        let Some(mut route) = answer else {
            if is_as_all(inside, &guards) {
                site.origin.carry(location.start());
                site.origin.add(&guards.origin);
                return;
            }
            if path != "/" {
                routes.push(shut(location));
            }
            return;
        };
        route.origin.within.extend(places);
        route.origin.carry(location.start());
        if path == "/" && matches!(modifier, "" | "^~") {
            route.origin.add(&guards.origin);
            return self.of_all([inside, server, http], (route, guards), routes, all);
        }
        match modifier {
            "=" | "~" | "~*" => route.patterns.push(pattern_of_all(modifier, path)),
            _ if route.answer.is_refusal() => route.patterns.push(pattern_of_all(modifier, path)),
            _ => route.add_prefix(path, location.start()),
        }
        if route.answer.is_refusal() {
            route = refused_without_looking(route, location.start());
        }
        let order = Order::of(modifier, path);
        route.origin.add(&guards.origin);
        routes.push(PlacedRoute { order, route, guards });
    }

    /// What answers all that no location takes: files, and where there are none an application.
    fn of_all(
        &mut self,
        [inside, server, http]: [&[Statement]; 3],
        (route, guards): (OutlinedRoute, Guards),
        routes: &mut Vec<PlacedRoute>,
        all: &mut Option<(OutlinedRoute, Guards)>,
    ) {
        match self.tried_before(inside, server, http, &route) {
            Some(app) => {
                routes.push(PlacedRoute { order: Order::Last, route: route.tried(), guards: guards.clone() });
                *all = Some((app, guards));
            }
            None => *all = Some((route, guards)),
        }
    }

    /// The application that answers where `try_files` finds nothing.
    fn tried_before(
        &mut self,
        inside: &[Statement],
        server: &[Statement],
        http: &[Statement],
        files: &OutlinedRoute,
    ) -> Option<OutlinedRoute> {
        let OutlinedAnswer::Files { .. } = files.answer else { return None };
        let tries = named(inside, "try_files").next()?;
        let name = tries.arguments().last().filter(|last| last.starts_with('@'))?;
        let location = named(server, "location").find(|location| location.argument() == name.as_str())?;
        let mut route = self.answer(&[location.inside(), server, http], "")?;
        route.origin.within.extend(words::places([location]));
        route.origin.carry(location.start());
        route.origin.carry(tries.start());
        Some(route)
    }

    /// Files and scripts of one folder answer as one.
    fn add_scripts(
        &mut self,
        all: &mut Option<(OutlinedRoute, Guards)>,
        routes: &mut Vec<PlacedRoute>,
        inside: &[Statement],
        scripts: &Statement,
        of_server: &Guards,
    ) {
        let pass = named(scripts.inside(), "fastcgi_pass").next();
        let Some((server, mut origin)) = pass.and_then(|pass| self.script_server(pass.argument())) else {
            // Their texts are nobody's to read where they do not run.
            return routes.push(shut(scripts));
        };
        let root = nearest(&[scripts.inside(), inside], &["root"]).first().copied().filter(|root| is_folder(root.argument()));
        // Without their folder they cannot be found.
        let Some(root) = root else { return routes.push(shut(scripts)) };
        let tries = tried(inside);
        let fallback =
            tries.iter().rev().find(|path| path.contains(".php")).map(|path| path.split('?').next().unwrap_or(path).to_owned());
        origin.within.extend(words::places([scripts]));
        [Some(scripts), pass, Some(root)].into_iter().flatten().for_each(|statement| origin.carry(statement.start()));
        // What is no script there is 404, as it is here.
        named(scripts.inside(), "try_files").for_each(|tries| origin.carry(tries.start()));
        let is_files = |answer: &OutlinedAnswer| matches!(answer, OutlinedAnswer::Files { .. });
        let is_static = all.as_ref().is_none_or(|(route, _)| is_files(&route.answer));
        let answer = OutlinedAnswer::Scripts { server, root: Some(root.argument().to_owned()), fallback, is_static: true };
        let guards = self.guards(&[scripts.inside(), inside]);
        origin.add(&guards.origin);
        if !is_static || guards.steps != of_server.steps {
            // Something else answers, and scripts only what they are named by.
            let mut route = OutlinedRoute::of(vec!["~\\.php$".into()], answer);
            route.origin = origin;
            return routes.push(PlacedRoute { order: Order::Expression, route, guards });
        }
        if let Some((route, _)) = &*all {
            origin.add(&route.origin);
        }
        let of_all = named(inside, "location").find(|location| location.arguments() == ["/"]);
        let tries = named(inside, "try_files").chain(of_all.into_iter().flat_map(|own| named(own.inside(), "try_files")));
        tries.filter(|_| !tried(inside).is_empty()).for_each(|tries| {
            origin.differs.remove(&tries.start());
            origin.carry(tries.start());
        });
        let mut route = OutlinedRoute::of(Vec::new(), answer);
        route.origin = origin;
        let guards = all.take().map_or_else(|| of_server.clone(), |(_, guards)| guards);
        *all = Some((route, guards));
    }
}

/// Whether an expression is about all scripts, wherever they lie.
fn is_of_scripts(path: &str) -> bool {
    let path = path.trim_start_matches(['^', '(']);
    ["\\.php", "[^/]\\.php", ".+\\.php", ".+?\\.php", ".*\\.php"].iter().any(|start| path.starts_with(start))
}

/// Whether a location says nothing that makes it another than the server around it.
fn is_as_all(inside: &[Statement], guards: &Guards) -> bool {
    let is_harmless = |statement: &Statement| statement.name() == "allow" || !words::answers_or_protects(statement);
    inside.iter().all(is_harmless) && guards.steps.is_empty()
}

/// Which location nginx looks at before which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    First,
    Before(std::cmp::Reverse<usize>),
    Expression,
    Prefix(std::cmp::Reverse<usize>),
    Last,
}

impl Order {
    fn of(modifier: &str, path: &str) -> Order {
        match modifier {
            "=" => Order::First,
            "^~" => Order::Before(std::cmp::Reverse(path.len())),
            "~" | "~*" => Order::Expression,
            _ => Order::Prefix(std::cmp::Reverse(path.len())),
        }
    }
}

/// A pattern that takes all that a location takes.
fn pattern_of_all(modifier: &str, path: &str) -> String {
    match modifier {
        "=" => path.to_owned(),
        "~" => format!("~{path}"),
        "~*" => format!("~(?i){path}"),
        _ if path.ends_with('/') => below(path),
        _ => beginning_with(path),
    }
}

/// The refusal of all that it takes, where its expression looks ahead, which none here does: of more then.
fn refused_without_looking(mut route: OutlinedRoute, at: usize) -> OutlinedRoute {
    for pattern in &mut route.patterns {
        let Some((before, behind)) = pattern.split_once("(?!") else { continue };
        let Some((looked, behind)) = behind.split_once(')').filter(|(looked, _)| !looked.contains('(')) else { continue };
        route.origin.differ(at, format!("`{looked}` is refused too, since expressions do not look ahead here"));
        *pattern = format!("{before}{behind}");
    }
    route
}

struct PlacedRoute {
    order: Order,
    route: OutlinedRoute,
    guards: Guards,
}

/// What is answered there is not told, and must not be by what answers all else.
fn shut(location: &Statement) -> PlacedRoute {
    let (modifier, path) = match location.arguments() {
        [modifier, path, ..] => (modifier.as_str(), path.as_str()),
        [path] => ("", path.as_str()),
        [] => ("", "/"),
    };
    let mut route = OutlinedRoute::of(vec![pattern_of_all(modifier, path)], OutlinedAnswer::status(403));
    route.origin.carry_all(words::places([location]));
    route.origin.differ(location.start(), NOT_TOLD);
    PlacedRoute { order: Order::of(modifier, path), route, guards: Guards::default() }
}

/// The site of these routes. What holds in all of them is said once; else each says who may come in.
fn settle(
    mut site: OutlinedSite,
    mut routes: Vec<PlacedRoute>,
    all: Option<(OutlinedRoute, Guards)>,
    of_server: Guards,
) -> OutlinedSite {
    routes.sort_by_key(|placed| placed.order);
    let steps = |guards: &Guards| guards.steps.clone();
    let is_alike = |placed: &PlacedRoute| placed.guards.steps == of_server.steps || placed.route.answer.is_refusal();
    let all_alike = routes.iter().all(is_alike) && all.as_ref().is_none_or(|(_, guards)| guards.steps == of_server.steps);
    if all_alike {
        site.steps.extend(of_server.steps.clone());
    }
    for PlacedRoute { mut route, guards, .. } in routes {
        route.steps = guards.body_limit.iter().cloned().chain(if all_alike { Vec::new() } else { steps(&guards) }).collect();
        if route.answer.is_refusal() {
            route.steps.clear();
        }
        site.routes.push(route);
    }
    let Some((mut route, guards)) = all else { return site };
    let own = guards.body_limit.iter().cloned().chain(if all_alike { Vec::new() } else { steps(&guards) });
    route.steps = own.collect();
    if route.steps.is_empty() {
        site.origin.add(&route.origin);
        site.answer = Some(route.answer);
    } else {
        site.routes.push(route);
    }
    site
}

/// Only `stream` has these directly in a server, and only HTTP has names and locations.
fn is_of_stream(inside: &[Statement]) -> bool {
    let has = |word: &str| named(inside, word).next().is_some();
    !has("location") && !has("server_name") && !has("root") && !has("return") && (has("proxy_pass") || has("ssl_preread"))
}

fn is_terminal(word: &str) -> bool {
    matches!(word, "proxy_pass" | "fastcgi_pass" | "grpc_pass")
}

/// Where a server listens, and the addresses of its site; `None` of them when its names can stand in none.
fn place(inside: &[Statement], hosts: &[String], origin: &mut Origin) -> (Vec<(Door, usize)>, Option<Whereabouts>) {
    let is_on = value(inside, "ssl") == Some("on");
    named(inside, "ssl").for_each(|ssl| origin.carry(ssl.start()));
    let mut doors: Vec<(Door, usize)> = Vec::new();
    for listen in named(inside, "listen") {
        let is_tls = is_on || listen.arguments().iter().any(|word| matches!(word.as_str(), "ssl" | "quic"));
        let address = listen.argument();
        let has_port = address.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
        let has_name = address.starts_with("unix:") || (!has_port && address.contains('/'));
        let door = if has_port { Door::parse(address, is_tls) } else { Door::parse(&format!("{address}:80"), is_tls) };
        doors.extend(door.filter(|_| !has_name && !address.contains('$')).map(|door| (door, listen.start())));
    }
    // A port that only sends to another one is not opened for more.
    let over_tls = |condition: &&Statement| {
        let condition = condition.argument().trim_start_matches('(');
        ["$scheme", "$https", "$ssl_protocol"].iter().any(|variable| condition.starts_with(variable))
    };
    let redirect = named(inside, "if").find(over_tls).filter(|_| doors.iter().any(|(door, _)| door.is_tls));
    if let Some(redirect) = redirect {
        let has_https = doors.iter().any(|(door, _)| *door == Door::HTTPS);
        doors.retain(|(door, _)| door.is_tls || (*door == Door::HTTP && has_https));
        origin.carry(redirect.start());
    }
    let found = placed(&doors, hosts, redirect.is_some(), origin);
    let is_less = found.as_ref().is_some_and(|own| own.is_less);
    for name in named(inside, "server_name") {
        if is_less {
            origin.differ(name.start(), FEWER_NAMES);
        } else if found.is_some() {
            origin.carry(name.start());
        }
    }
    (doors, found)
}
