//! Sites of routers. Traefik looks through all routers of an entry point for each request; here a host has one site, so
//! each host has all routers that may take a request for it, in their order, and hosts with the same ones are one site.

use super::redirects::RedirectRow;
use super::router::{NamedOptions, ToldPlace, ToldRouter, UnknownRouter};
use super::{BEHIND, hosts, redirects, statics, with_variables, without_variables};
use crate::accounts::{FileStatement, Origin, StatementKind, Weight};
use crate::matching::{Asked, AskedClause, AskedLiteral, Matching, WrittenClause};
use crate::outline::{
    Door, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSetting, OutlinedSite, Service, Whereabouts, whereabouts,
};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_kdl::quoted;
use tidegate_model::expression;

const PLAIN: &str = "port 80 is a redirect to HTTPS here: `site \"http://…\"` beside it serves plain HTTP";
const NEVER_FIRST: &str =
    "another router takes all that this one would, and comes first: it gets nothing there, and is left out here";
const SEVERAL_OPTIONS: &str =
    "routers of one host have different `tls.options`, so that Traefik takes its default ones for that host, as these lines do";
const OF_UNKNOWN: &str = "it is said of a router whose rule is none that is read: the line of that rule says what to do";
/// So many times is a router looked at for a host.
const LOOKED_AT_MAX: usize = 10_000_000;
const TOO_MANY: &str = "there are too many routers for too many hosts to be looked at together";

/// A host where clients come in.
struct HostPlace {
    door: Door,
    at: usize,
    /// `None` stands for all that no other has.
    host: Option<String>,
    routes: Vec<PlacedRoute>,
    tls: Vec<String>,
    origin: Origin,
}

struct PlacedRoute {
    order: i64,
    router: usize,
    is_sending: bool,
    route: OutlinedRoute,
}

/// What maps for whole URLs are called, with a number behind.
const REDIRECTS: &str = "redirects-";

/// Takes back what asks for maps of whole URLs, where there can be none: whoever is sent elsewhere by one is not.
pub fn without_rows(outline: &mut Outline) {
    let is_row = |line: &str| line.strip_prefix("map \"").is_some_and(|rest| rest.starts_with(REDIRECTS));
    let (rows, others) = std::mem::take(&mut outline.settings).into_iter().partition(|setting| is_row(&setting.line));
    outline.settings = others;
    let rows: Vec<OutlinedSetting> = rows;
    let lost: BTreeSet<usize> = rows.into_iter().flat_map(|row| row.origin.carried).collect();
    let asks = |route: &OutlinedRoute| route.conditions.iter().any(|one| one.contains(&format!("map=\"{REDIRECTS}")));
    for service in outline.services.iter_mut().filter(|_| !lost.is_empty()) {
        service.lose(&lost);
        if let Service::Site(site) = service {
            site.routes.retain(|route| !asks(route));
        }
    }
}

/// Expressions for hosts, each a map that has a row for the hosts that it takes, and for whole URLs.
#[derive(Default)]
struct HostMaps {
    regexes: Vec<String>,
    redirects: Vec<RedirectRow>,
}

impl HostMaps {
    fn name(index: usize) -> String {
        quoted(&format!("hosts-{}", index + 1))
    }

    fn condition(&mut self, regex: &str) -> String {
        let index = self.regexes.iter().position(|known| known == regex).unwrap_or_else(|| {
            self.regexes.push(regex.to_owned());
            self.regexes.len() - 1
        });
        format!("map={}", HostMaps::name(index))
    }

    /// Who is sent elsewhere by the row, and where to.
    fn redirect(&mut self, row: RedirectRow) -> (String, OutlinedAnswer) {
        let status = row.status;
        let index = self.redirects.iter().position(|known| *known == row).unwrap_or_else(|| {
            self.redirects.push(row);
            self.redirects.len() - 1
        });
        let name = format!("{REDIRECTS}{}", index + 1);
        (format!("map={}", quoted(&name)), OutlinedAnswer::Redirect { to: format!("{{map.{name}}}"), status })
    }

    fn settings(&self) -> Vec<OutlinedSetting> {
        let line = |(index, regex): (usize, &String)| {
            let row = quoted(&format!("~{regex}"));
            format!("map {} key=\"{{host}}\" {{ row {row} \"1\"; }}", HostMaps::name(index))
        };
        let redirect = |(index, row): (usize, &RedirectRow)| {
            let RedirectRow { key, regex, to, places, .. } = row;
            let row = format!("row {} {}", quoted(&format!("~{regex}")), quoted(to));
            let line = format!("map {} key={} {{ {row}; }}", quoted(&format!("{REDIRECTS}{}", index + 1)), quoted(key));
            let mut origin = Origin::default();
            origin.carry_all(places.iter().copied());
            OutlinedSetting { line, origin }
        };
        let of_hosts = self.regexes.iter().enumerate().map(|one| OutlinedSetting { line: line(one), origin: Origin::default() });
        of_hosts.chain(self.redirects.iter().enumerate().map(redirect)).collect()
    }
}

/// Whether there are routers that are told.
pub fn put(tree: &Tree, told: &[ToldRouter<'_>], unknown: &[UnknownRouter], outline: &mut Outline) -> bool {
    let mut places = places_of(told);
    let known = RoutersByHost::of(told);
    if places.len().saturating_mul(known.others.len()) > LOOKED_AT_MAX {
        outline.without.get_or_insert(TOO_MANY);
        return false;
    }
    let mut maps = HostMaps::default();
    let mut first: BTreeSet<usize> = BTreeSet::new();
    for place in &mut places {
        place.fill(told, &known, &mut maps);
        place.handshakes(tree, told);
        place.leave_out_behind_all();
        first.extend(place.routes.iter().map(|route| route.router));
        for router in unknown {
            if may_be_of(place.host.as_deref(), &router.rule) && place.shut_behind(router) {
                outline.without.get_or_insert(BEHIND);
            }
        }
    }
    for at in unknown.iter().flat_map(|router| &router.origin.within) {
        outline.reasons.entry(*at).or_insert_with(|| OF_UNKNOWN.to_owned());
    }
    places.retain(|place| !place.routes.is_empty());
    let has_some = !places.is_empty();
    let is_protection = |one: &&FileStatement| one.kind == StatementKind::Needed(Weight::Protection);
    let protections: BTreeSet<usize> = outline.statements.iter().filter(is_protection).map(|one| one.at).collect();
    settle_plain(&mut places, &protections, outline);
    outline.settings.extend(maps.settings());
    let sites = together(places, &protections);
    let mut used: BTreeSet<usize> = sites.iter().flat_map(|site| site.whole_origin().within).collect();
    used.extend(&outline.done_without);
    outline.services.extend(sites.into_iter().map(Service::Site));
    for (_, router) in told.iter().enumerate().filter(|(index, _)| !first.contains(index)) {
        for at in router.within.difference(&used) {
            outline.told.differ(*at, NEVER_FIRST);
        }
    }
    has_some
}

/// Routers by the only hosts for which they take requests, and those that may take some for any host.
struct RoutersByHost {
    by_name: BTreeMap<String, Vec<usize>>,
    others: Vec<usize>,
}

impl RoutersByHost {
    fn of(told: &[ToldRouter<'_>]) -> RoutersByHost {
        let mut known = RoutersByHost { by_name: BTreeMap::new(), others: Vec::new() };
        for (index, router) in told.iter().enumerate() {
            let names: Option<Vec<&Vec<String>>> = router.when.clauses.iter().map(hosts_of).collect();
            let names: Option<BTreeSet<&String>> = names.map(|all| all.into_iter().flatten().collect());
            let is_name = |name: &&String| !name.starts_with(['*', '~']);
            let is_all = router.places.iter().any(|place| place.takes_all);
            match names.filter(|names| !is_all && names.iter().all(is_name)) {
                Some(names) => {
                    for name in names {
                        known.by_name.entry(name.clone()).or_default().push(index);
                    }
                }
                None => known.others.push(index),
            }
        }
        known
    }

    fn for_host(&self, host: Option<&str>) -> Vec<usize> {
        let own = host.and_then(|host| self.by_name.get(host)).into_iter().flatten();
        let mut all: Vec<usize> = self.others.iter().chain(own).copied().collect();
        all.sort_unstable();
        all
    }
}

/// All hosts of all doors, in the order of the file.
fn places_of(told: &[ToldRouter<'_>]) -> Vec<HostPlace> {
    let mut places: Vec<HostPlace> = Vec::new();
    let mut known: BTreeSet<(u16, bool, String, Option<String>)> = BTreeSet::new();
    for router in told {
        let mut names: Vec<Option<String>> = Vec::new();
        for clause in &router.when.clauses {
            match hosts_of(clause) {
                Some(own) => names.extend(own.iter().flat_map(|host| hosts::places(host))),
                None => names.push(None),
            }
        }
        for ToldPlace { door, at, takes_all, .. } in &router.places {
            // Where all are sent elsewhere, there is one site for all hosts.
            for host in if *takes_all { &[None] } else { names.as_slice() } {
                let ip = door.ip.map(|ip| ip.to_string()).unwrap_or_default();
                if known.insert((door.port, door.is_tls, ip, host.clone())) {
                    let (routes, tls) = (Vec::new(), Vec::new());
                    let host = host.clone();
                    places.push(HostPlace { door: *door, at: *at, host, routes, tls, origin: Origin::default() });
                }
            }
        }
    }
    places
}

fn hosts_of(clause: &AskedClause) -> Option<&Vec<String>> {
    clause.iter().find_map(AskedLiteral::hosts)
}

/// What is left to be asked of a request for that host; `None` where it never holds.
fn left_of(clause: &AskedClause, host: Option<&str>, maps: &mut HostMaps) -> Option<Vec<AskedClause>> {
    let mut all: Vec<AskedClause> = vec![Vec::new()];
    for literal in clause {
        let Asked::Hosts(hosts) = &literal.asked else {
            for clause in &mut all {
                clause.push(literal.clone());
            }
            continue;
        };
        let mut is_taken = false;
        let mut asked: Vec<AskedLiteral> = Vec::new();
        for own in hosts {
            let condition = match hosts::taken(own, host) {
                hosts::Taken::Always => {
                    is_taken = true;
                    continue;
                }
                hosts::Taken::Never => continue,
                // Who comes by that name comes to a site of its own.
                hosts::Taken::Named(_) if !literal.is_negated => continue,
                hosts::Taken::Named(name) => format!("host={}", quoted(&name)),
                hosts::Taken::Where(regex) => maps.condition(&regex),
            };
            asked.push(AskedLiteral { asked: Asked::Condition(condition), is_negated: literal.is_negated });
        }
        match (literal.is_negated, is_taken, asked.is_empty()) {
            (false, true, _) | (true, false, true) => {}
            (true, true, _) | (false, false, true) => return None,
            // Each of them must not hold, and one has to.
            (true, false, false) => all.iter_mut().for_each(|clause| clause.extend(asked.iter().cloned())),
            (false, false, false) => {
                let with = |clause: &AskedClause| {
                    asked.iter().map(|one| [clause.clone(), vec![one.clone()]].concat()).collect::<Vec<AskedClause>>()
                };
                all = all.iter().flat_map(with).collect();
            }
        }
    }
    Some(all)
}

impl HostPlace {
    /// All routers that may take a request here, the first of them first.
    fn fill(&mut self, told: &[ToldRouter<'_>], known: &RoutersByHost, maps: &mut HostMaps) {
        for index in known.for_host(self.host.as_deref()) {
            let router = &told[index];
            let door = self.door;
            for place in router.places.iter().filter(|place| place.door == door) {
                let clauses: Vec<AskedClause> = if place.takes_all {
                    vec![Vec::new()]
                } else {
                    router
                        .when
                        .clauses
                        .iter()
                        .filter_map(|clause| left_of(clause, self.host.as_deref(), maps))
                        .flatten()
                        .collect()
                };
                self.add(index, (router, place), &Matching { clauses }, maps);
            }
        }
        self.routes.sort_by_key(|route| std::cmp::Reverse(route.order));
    }

    fn add(&mut self, index: usize, (router, place): (&ToldRouter<'_>, &ToldPlace<'_>), when: &Matching, maps: &mut HostMaps) {
        let mut origin = place.origin.clone();
        if place.at != usize::MAX {
            origin.carry(place.at);
        }
        // Who is sent elsewhere before the router's own answer, by which conditions and steps.
        let mut answers: Vec<(Option<String>, Option<String>, OutlinedAnswer)> = Vec::new();
        let mut is_ended = false;
        for redirect in &place.redirects {
            if is_ended {
                break;
            }
            match redirects::redirected(redirect, self.door, self.host.as_deref(), &mut origin) {
                redirects::Redirected::All(step, answer) => {
                    answers.push((None, step, answer));
                    is_ended = true;
                }
                redirects::Redirected::Of(path, step, answer) => {
                    answers.push((Some(format!("path={}", quoted(&format!("~{path}")))), step, answer));
                }
                redirects::Redirected::Nobody => {}
                redirects::Redirected::Unknown => {
                    if let Some(row) = redirects::by_row(redirect, self.door, &mut origin) {
                        let (condition, answer) = maps.redirect(row);
                        answers.push((Some(condition), None, answer));
                    }
                }
            }
        }
        answers.extend((!is_ended).then(|| (None, None, place.answer.clone())));
        let written = if when.is_always() { vec![WrittenClause::default()] } else { when.written() };
        for clause in written {
            let (patterns, byte_prefixes, conditions) = clause.split(router.at);
            for (condition, step, answer) in &answers {
                let conditions = conditions.iter().chain(condition).cloned().collect();
                let steps = place.steps.iter().chain(step).cloned().collect();
                let route = OutlinedRoute { conditions, steps, ..OutlinedRoute::of(patterns.clone(), answer.clone()) };
                let route = OutlinedRoute { byte_prefixes: byte_prefixes.clone(), origin: origin.clone(), ..route };
                self.routes.push(PlacedRoute { order: router.order, router: index, is_sending: place.is_sending, route });
            }
        }
    }

    /// What handshakes are to be like: what all routers say that name this host, else what holds for all.
    fn handshakes(&mut self, tree: &Tree, told: &[ToldRouter<'_>]) {
        if !self.door.is_tls || self.routes.is_empty() {
            return;
        }
        let mut all: Vec<NamedOptions<'_>> = Vec::new();
        let mut forwarded: BTreeSet<usize> = BTreeSet::new();
        for route in &self.routes {
            let router = &told[route.router];
            for place in router.places.iter().filter(|place| place.door == self.door) {
                forwarded.extend(place.forwards_certificate.iter().flatten());
                let names = router.when.clauses.iter().filter_map(hosts_of).flatten();
                let is_named = names.into_iter().any(|name| self.host.as_deref() == Some(name));
                all.extend(place.options.clone().filter(|_| is_named));
            }
        }
        all.dedup_by(|one, other| one.name == other.name && one.named == other.named);
        let default =
            NamedOptions { name: "default".to_owned(), said: tree.at(&["tls", "options", "default"]), named: BTreeSet::new() };
        let is_one = all.windows(2).all(|pair| pair[0].name == pair[1].name);
        let used = all.first().filter(|_| is_one).cloned().unwrap_or(default);
        if is_one {
            for own in &all {
                self.origin.within.extend(&own.named);
                self.origin.carry_all(own.named.iter().copied().filter(|_| !used.said.is_nothing()));
            }
        } else {
            for at in all.iter().flat_map(|own| &own.named) {
                self.origin.differ(*at, SEVERAL_OPTIONS);
            }
        }
        self.origin.within.extend(used.said.statements());
        self.tls = statics::handshakes(used.said, &mut self.origin);
        if let Some(line) = self.tls.iter_mut().find(|line| line.starts_with("client-auth ")).filter(|_| !forwarded.is_empty()) {
            line.push_str(" forward=\"rfc9440\"");
            for at in forwarded {
                self.origin.differ(at, "the certificate goes on in `Client-Cert` (RFC 9440)");
            }
        }
    }

    /// Behind what takes everything comes nothing more.
    fn leave_out_behind_all(&mut self) {
        let is_all = |placed: &PlacedRoute| placed.route.patterns.is_empty() && placed.route.conditions.is_empty();
        if let Some(all) = self.routes.iter().position(is_all) {
            self.routes.truncate(all + 1);
        }
    }

    /// Shuts what is looked at behind a router that is not understood, where that keeps somebody out; whether there is
    /// some.
    fn shut_behind(&mut self, router: &UnknownRouter) -> bool {
        let mut is_behind = false;
        for placed in self.routes.iter_mut().filter(|placed| placed.order <= router.order) {
            is_behind = true;
            placed.route.origin.within.extend(&router.origin.within);
        }
        is_behind
    }

    /// Whether all that it has is a redirect to HTTPS.
    fn is_sending(&self) -> bool {
        self.routes.iter().all(|route| route.is_sending)
    }

    /// Where all that is written of it is the same, and all that is not carried of what keeps clients out, it is one
    /// site with another.
    fn signature(&self, protections: &BTreeSet<usize>) -> String {
        let left = |origin: &Origin| -> Vec<usize> {
            let is_left = |at: &&usize| !origin.carried.contains(at) && !origin.differs.contains_key(at);
            origin.within.intersection(protections).filter(is_left).copied().collect()
        };
        let route = |placed: &PlacedRoute| {
            let OutlinedRoute { patterns, byte_prefixes, conditions, alternatives, steps, answer, .. } = &placed.route;
            let left = left(&placed.route.whole_origin());
            format!("{patterns:?} {byte_prefixes:?} {conditions:?} {alternatives:?} {steps:?} {answer:?} {left:?}")
        };
        let routes: Vec<String> = self.routes.iter().map(route).collect();
        format!("{:?} {:?} {}", self.tls, left(&self.origin), routes.join("\n"))
    }

    fn whole_origin(&self) -> Origin {
        let mut origin = self.origin.clone();
        self.routes.iter().for_each(|placed| origin.add(&placed.route.whole_origin()));
        origin
    }
}

/// Whether requests for a host may be those of a rule that is not understood.
fn may_be_of(host: Option<&str>, rule: &str) -> bool {
    let Some(host) = host.filter(|_| rule.contains("Host")) else { return true };
    let names: Vec<&str> = rule.split(['`', '"']).skip(1).step_by(2).collect();
    let is_named = names.iter().any(|name| name.eq_ignore_ascii_case(host) || hosts::is_below(&name.to_ascii_lowercase(), host));
    // An expression, which has names for its parts in older versions, that nobody asks here.
    let is_expressed = |name: &&str| match expression(&super::unescaped(name).replace("\\\\", "\\")).build() {
        Ok(regex) if !name.contains('{') => host.starts_with("*.") || regex.is_match(host.as_bytes()),
        Ok(_) | Err(_) => true,
    };
    is_named || host.contains('$') || (rule.contains("HostRegexp") && names.iter().any(is_expressed))
}

/// Plain HTTP beside HTTPS: a site sends there without a word.
fn settle_plain(places: &mut Vec<HostPlace>, protections: &BTreeSet<usize>, outline: &mut Outline) {
    let secure: BTreeMap<Option<String>, String> = places
        .iter()
        .filter(|place| place.door == Door::HTTPS)
        .map(|place| (place.host.clone(), place.signature(protections)))
        .collect();
    let mut differing: Vec<(Option<String>, usize)> = Vec::new();
    places.retain(|place| {
        if place.door != Door::HTTP {
            return true;
        }
        let of_host = secure.get(&place.host);
        let is_done = of_host.is_some() || (place.host.is_none() && !secure.is_empty());
        if place.is_sending() && is_done {
            outline.done_without.extend(place.whole_origin().within);
            return false;
        }
        let is_same = of_host.is_some_and(|signature| *signature == place.signature(protections));
        if is_same && place.at != usize::MAX {
            differing.push((place.host.clone(), place.at));
        }
        !is_same
    });
    for place in places.iter_mut().filter(|place| place.door == Door::HTTPS) {
        for (_, at) in differing.iter().filter(|(host, _)| *host == place.host) {
            place.origin.differ(*at, PLAIN);
        }
    }
}

/// Places with the same routes as one site.
fn together(places: Vec<HostPlace>, protections: &BTreeSet<usize>) -> Vec<OutlinedSite> {
    let mut groups: Vec<(String, Vec<HostPlace>)> = Vec::new();
    // One port speaks TLS or does not, so the others of a site are not put together with that one.
    let ports = |is_tls: bool| -> BTreeSet<u16> {
        places.iter().filter(|place| place.door.is_tls == is_tls).map(|place| place.door.port).collect()
    };
    let mixed: BTreeSet<u16> = ports(true).intersection(&ports(false)).copied().collect();
    let mut index_of: BTreeMap<String, usize> = BTreeMap::new();
    for place in places {
        let (is_open, ip) = (place.host.is_none() && place.door == Door::HTTPS, place.door.ip.map(|_| place.door));
        // At an address of the machine hosts are asked one after another, those of patterns behind names.
        let kind = ip.map(|_| place.host.as_ref().map(|host| host.starts_with("*.")));
        let port = mixed.get(&place.door.port);
        let key = format!("{is_open} {port:?} {kind:?} {ip:?} {}", place.signature(protections));
        let index = *index_of.entry(key.clone()).or_insert(groups.len());
        if index == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[index].1.push(place);
    }
    let mut sites: Vec<OutlinedSite> = groups.into_iter().filter_map(|(_, group)| site_of(group)).collect();
    sites.sort_by_key(|site| site.only_hosts.iter().any(|host| host.starts_with("*.")));
    sites
}

fn site_of(mut places: Vec<HostPlace>) -> Option<OutlinedSite> {
    places.sort_by_key(|place| (!place.door.is_tls, place.door != Door::HTTPS));
    let mut site = OutlinedSite::default();
    let mut with_names: Vec<String> = Vec::new();
    let mut routes: Option<Vec<PlacedRoute>> = None;
    for mut place in places {
        let plain: Vec<String> = place.host.iter().map(|host| without_variables(host)).collect();
        let Some(Whereabouts { addresses, only_hosts, .. }) = whereabouts(&plain, place.door) else { continue };
        let has_variable = place.host.as_ref().is_some_and(|host| host.contains('$'));
        site.is_name_open |= has_variable;
        for address in addresses {
            if !site.addresses.contains(&address) {
                site.addresses.push(address.clone());
            }
            let own = match (&place.host, plain.first()) {
                (Some(host), Some(plain)) if has_variable => address.replace(plain.as_str(), &with_variables(host)),
                _ => address,
            };
            if !with_names.contains(&own) {
                with_names.push(own);
            }
        }
        site.only_hosts.extend(only_hosts);
        site.origin.add(&place.origin);
        if site.routes.is_empty() && routes.is_none() {
            if !place.tls.is_empty() {
                site.steps.push(format!("tls {{ {}; }}", place.tls.join("; ")));
            }
            routes = Some(std::mem::take(&mut place.routes));
        } else {
            for (known, other) in routes.iter_mut().flatten().zip(&place.routes) {
                known.route.origin.add(&other.route.origin);
            }
        }
    }
    if site.is_name_open {
        site.environment_addresses = with_names;
    }
    let mut routes: Vec<OutlinedRoute> = routes?.into_iter().map(|placed| placed.route).collect();
    let is_all = |route: &OutlinedRoute| route.patterns.is_empty() && route.conditions.is_empty();
    if let Some(last) = routes.pop_if(|route| is_all(route)) {
        if routes.is_empty() || last.steps.is_empty() {
            *site.answer_origin = last.origin;
            site.steps.extend(last.steps);
            site.answer = Some(last.answer);
        } else {
            routes.push(last);
        }
    }
    site.routes = routes;
    Some(site)
}
