//! What a Caddyfile asks for: its sites by their addresses, with what stands in `handle`, `route` and behind matchers.

mod answers;
mod pools;
mod words;

use super::accounts::Origin;
use super::braces::{self, Statement, named};
use super::outline::{
    BytePrefix, Door, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, Service, TLS_NEWEST, beginning_with, is_plain,
};
use answers::{ANSWERS, CaddyMatch, Rewritten, take_off};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::IpAddr;
use tidegate_model::SiteAddress;

const NO_SITE: &str = "it has no site: global options and snippets alone";
const BY_VARIABLE: &str = "names or servers in it are variables of the environment, which are `{env.NAME}` here";
const NOTHING_ANSWERS: &str = "none of its sites hands requests on or serves files, as far as this can be told";
const REWRITTEN: &str =
    "its matchers look at paths that `uri` or `rewrite` has changed before, and routes here at what clients ask for";
const BEHIND: &str = "matchers in it are about what no line here is told for, and all else comes behind them";
const NEVER_REACHED: &str = "Caddy never comes to it, since what answers all is looked at before: it is left out";
const DEPTH_MAX: usize = 8;

pub fn outline(text: &str) -> Outline {
    let statements = braces::of_caddy(text);
    let mut outline = Outline { statements: words::statements(&statements), ..Outline::default() };
    let has_blocks = statements.iter().any(|statement| statement.block.is_some() && is_address_line(statement));
    let snippets: Vec<&Statement> = statements.iter().filter(|statement| statement.name().starts_with('(')).collect();
    let options = statements.first().filter(|first| first.words.is_empty()).map(Statement::inside).unwrap_or_default();
    named(options, "layer4").flat_map(Statement::inside).for_each(|server| pools::layer4(server, &mut outline));
    let is_behind_another = ["trusted_proxies", "proxy_protocol"].iter().any(|word| braces::has_within(options, word));
    let file = CaddyFile { snippets: &snippets, is_behind_another };
    if has_blocks {
        for statement in statements.iter().filter(|statement| statement.block.is_some() && is_address_line(statement)) {
            file.site(&statement.words, statement.inside(), &mut outline);
        }
    } else {
        // One site needs no braces; a part of one has no address either.
        let rest = statements.iter().filter(|statement| !statement.words.is_empty() && !statement.name().starts_with('('));
        let all: Vec<Statement> = rest.cloned().collect();
        match all.split_first() {
            Some((first, rest)) if first.block.is_none() && is_address_line(first) => file.site(&first.words, rest, &mut outline),
            Some(_) => file.site(&[], &all, &mut outline),
            None => {}
        }
    }
    let is_without = |option: &Statement| matches!(option.argument(), "off" | "disable_redirects");
    outline.opens_no_http = named(options, "auto_https").any(is_without);
    let has_variables = text.contains("{$") || text.contains("{env.");
    let has_site = statements.iter().any(is_address_line);
    outline.or_without(match (has_variables, has_site) {
        (true, _) => BY_VARIABLE,
        (false, true) => NOTHING_ANSWERS,
        (false, false) => NO_SITE,
    })
}

fn is_address_line(statement: &Statement) -> bool {
    !statement.words.is_empty()
        && statement.words.iter().all(|word| {
            let word = word.trim_end_matches(',');
            let is_named = word.contains(['.', ':', '*']) || matches!(word, "localhost") || word.starts_with("{$");
            is_named
                && !word.starts_with(['(', '@', '/'])
                && !word.contains('=')
                && (word.contains("{$")
                    || word.contains("{env.")
                    || SiteAddress::parse(word.split('/').next().filter(|_| !word.contains("://")).unwrap_or(word)).is_ok())
        })
}

/// Where a site is by one of its addresses, and its name. Without a name, what Caddy listens on is plain HTTP but on
/// its port for HTTPS.
fn door(written: &str) -> Option<(Door, Option<String>)> {
    let (scheme, rest) = match written.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, written),
    };
    let rest = rest.split('/').next().unwrap_or_default();
    if !is_plain(rest) {
        return None;
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok()?)),
        None => (rest, None),
    };
    let host = Some(host).filter(|host| !host.is_empty() && *host != "*");
    let is_http = match (scheme, port, host) {
        (Some(scheme), _, _) => scheme == "http",
        (None, Some(443), _) => false,
        (None, Some(80), _) | (None, _, None) => true,
        (None, Some(_) | None, Some(_)) => false,
    };
    let port = port.unwrap_or(if is_http { 80 } else { 443 });
    Some((Door { is_tls: !is_http, port, ip: None }, host.map(str::to_owned)))
}

/// An address as we write it.
fn address(written: &str) -> Option<String> {
    let written = variables(written.trim_end_matches(','));
    if written.contains("{env.") {
        let (scheme, rest) = written.split_once("://").map_or((None, written.as_str()), |(scheme, rest)| (Some(scheme), rest));
        let rest = rest.split('/').next().unwrap_or_default();
        return Some(format!("{}{rest}", scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default()));
    }
    let (door, host) = door(&written)?;
    door.address(host.as_deref())
}

/// `{$NAME}` and `{$NAME:default}` in our words.
fn variables(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{$") {
        let Some((name, after)) = behind.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&format!("{{env.{}}}", name.replacen(':', ":-", 1)));
        rest = after;
    }
    out + rest
}

struct CaddyFile<'s> {
    snippets: &'s [&'s Statement],
    /// Whether a connection's address is that of another proxy.
    is_behind_another: bool,
}

impl CaddyFile<'_> {
    fn site(&self, words: &[String], inside: &[Statement], outline: &mut Outline) {
        let mut imported = BTreeSet::new();
        let inside = with_snippets(inside, self.snippets, 0, &mut imported);
        let addresses: Vec<String> = words.iter().filter_map(|word| address(word)).collect();
        if addresses.len() < words.len() {
            outline.without.get_or_insert(BY_VARIABLE);
            if addresses.is_empty() {
                return;
            }
        }
        let mut reader = CaddySite {
            all: &inside,
            is_behind_another: self.is_behind_another,
            by_host: Vec::new(),
            routes: Vec::new(),
            keys: Vec::new(),
            refused: Vec::new(),
            answer: None,
            steps: Vec::new(),
            is_behind_unknown: false,
            is_rewritten: false,
            origin: Origin::default(),
        };
        reader.origin.carry_all(imported);
        reader.common(&inside);
        reader.read(&inside, 0, &Rewritten::default(), false);
        if reader.is_rewritten {
            outline.without.get_or_insert(REWRITTEN);
        } else if reader.is_behind_unknown {
            outline.without.get_or_insert(BEHIND);
        }
        reader.end(words, addresses, outline);
    }
}

fn with_snippets(inside: &[Statement], snippets: &[&Statement], depth: usize, imported: &mut BTreeSet<usize>) -> Vec<Statement> {
    let mut all = Vec::new();
    for statement in inside {
        let snippet = (statement.name() == "import" && depth < DEPTH_MAX)
            .then(|| snippets.iter().find(|snippet| snippet.name() == format!("({})", statement.argument())))
            .flatten();
        match snippet {
            Some(snippet) => {
                imported.insert(statement.start());
                let own = with_snippets(snippet.inside(), snippets, depth + 1, imported);
                all.extend(own.into_iter().map(|own| filled(own, statement.arguments())));
            }
            None => {
                let block = statement.block.as_ref().map(|block| with_snippets(block, snippets, depth.max(1) + 1, imported));
                all.push(Statement { block, ..statement.clone() });
            }
        }
    }
    all
}

/// The statement with what is handed to the snippet, `{args[0]}` or `{args.0}`.
fn filled(statement: Statement, arguments: &[String]) -> Statement {
    let fill = |word: String| {
        arguments.iter().skip(1).enumerate().fold(word, |word, (index, argument)| {
            word.replace(&format!("{{args[{index}]}}"), argument).replace(&format!("{{args.{index}}}"), argument)
        })
    };
    let block = statement.block.map(|block| block.into_iter().map(|own| filled(own, arguments)).collect());
    Statement { words: statement.words.into_iter().map(fill).collect(), starts: statement.starts, block }
}

/// By its directive or its place, then by the length of its paths and the count of its conditions.
type RouteKey = (usize, Reverse<(Option<usize>, usize)>);

struct CaddySite<'s> {
    all: &'s [Statement],
    is_behind_another: bool,
    by_host: Vec<(Vec<String>, OutlinedRoute)>,
    routes: Vec<OutlinedRoute>,
    /// Of each route, how early it is looked at in its block.
    keys: Vec<RouteKey>,
    /// Where nobody comes in, whatever else is said of it.
    refused: Vec<OutlinedRoute>,
    answer: Option<OutlinedRoute>,
    steps: Vec<String>,
    /// Whether something is answered under conditions that are not told.
    is_behind_unknown: bool,
    /// Whether a matcher looks at a path that was changed before.
    is_rewritten: bool,
    origin: Origin,
}

impl CaddySite<'_> {
    /// What is said for all of a site: who may come in, how much they may send, and whose certificate it has.
    fn common(&mut self, inside: &[Statement]) {
        let (mut denied, mut allowed) = (Vec::new(), None);
        let rewritten = Rewritten::of(inside);
        for statement in inside {
            match statement.name() {
                "tls" => self.tls(statement),
                "request_body" => {
                    for size in named(statement.inside(), "max_size").filter(|_| statement.arguments().is_empty()) {
                        let text = size.argument();
                        if text.chars().all(|c| c.is_ascii_alphanumeric()) && text.starts_with(|c: char| c.is_ascii_digit()) {
                            self.steps.push(format!("body-limit \"{text}\""));
                            self.origin.carry(size.start());
                        }
                    }
                }
                "respond" | "abort" | "error" if words::is_refusal(statement) && !self.is_behind_another => {
                    let CaddyMatch::Clients { networks, is_negated } = self.matched(statement.argument()) else { continue };
                    let networks: Vec<String> = networks.iter().map(|network| format!("\"{network}\"")).collect();
                    match is_negated {
                        false => denied.push(format!("deny {}", networks.join(" "))),
                        true if allowed.is_none() => allowed = Some(format!("allow {}", networks.join(" "))),
                        true => continue,
                    }
                    self.origin.carry(statement.start());
                }
                "basic_auth" | "basicauth" | "forward_auth" | "authorize" | "jwtauth" => {
                    // Nobody can log in there by these lines, so nobody comes in.
                    let matched = self.matched(statement.argument());
                    let is_hidden = rewritten.is_seen_by(&matched);
                    let CaddyMatch::Paths(patterns, prefixes) = matched else { continue };
                    if is_hidden {
                        continue;
                    }
                    let mut route = placed(patterns, &prefixes, statement.start(), OutlinedAnswer::status(403));
                    route
                        .origin
                        .differ(statement.start(), "what it protects is refused with 403 in these lines: it is yours to add");
                    self.refused.push(route);
                }
                _ => {}
            }
        }
        self.steps.extend(denied.into_iter().chain(allowed));
    }

    /// Whose certificate it is, and the oldest version.
    fn tls(&mut self, tls: &Statement) {
        let is_internal = tls.argument() == "internal";
        let newest = named(tls.inside(), "protocols").find(|protocols| protocols.arguments() == ["tls1.3"]);
        match (is_internal, newest) {
            (true, Some(_)) => self.steps.push("tls \"internal\" { min \"1.3\"; }".to_owned()),
            (true, None) => self.steps.push("tls \"internal\"".to_owned()),
            (false, Some(_)) => self.steps.push(TLS_NEWEST.to_owned()),
            (false, None) => {}
        }
        let said = [newest, Some(tls).filter(|_| is_internal)];
        said.into_iter().flatten().for_each(|statement| self.origin.carry(statement.start()));
    }

    /// `around` is what was changed before this block.
    fn read(&mut self, inside: &[Statement], depth: usize, around: &Rewritten, is_literal: bool) {
        if depth > DEPTH_MAX {
            return;
        }
        let mut rewritten = Rewritten::of(inside);
        rewritten.add(around);
        let (first, had_answer) = (self.routes.len(), self.answer.is_some());
        let rank = |index: usize, statement: &Statement| if is_literal { index } else { answers::rank(statement.name()) };
        let mut of_answer = None;
        // A redirect comes before the path is changed, and all else behind it. What refuses there is not carried, so
        // that nothing is told without it.
        let is_hidden = |site: &mut Self, statement: &Statement, matched: &CaddyMatch| {
            let is_hidden = rewritten.is_seen_by(matched) && (statement.name() != "redir" || depth > 0);
            site.is_rewritten |= is_hidden;
            site.is_behind_unknown |= is_hidden && !words::is_refusal(statement);
            is_hidden
        };
        for (index, statement) in inside.iter().enumerate() {
            let matched = self.matched(statement.argument());
            let is_plain_match = matches!(matched, CaddyMatch::All);
            match statement.name() {
                "handle" | "handle_path" | "route" if is_plain_match && statement.arguments().is_empty() => {
                    self.origin.carry(statement.start());
                    self.read(statement.inside(), depth + 1, &rewritten, statement.name() == "route");
                    // In their own order, behind those with paths.
                    let rank = rank(index, statement);
                    self.keys.extend((self.keys.len()..self.routes.len()).map(|_| (rank, Reverse((None, 0)))));
                    if self.answer.is_some() && !had_answer {
                        of_answer.get_or_insert(rank);
                    }
                }
                "handle" | "handle_path" | "route" => {
                    if is_hidden(self, statement, &matched) {
                        continue;
                    }
                    let Some(mut route) = self.answer(statement.inside(), statement.name() == "route") else {
                        self.shut(matched, statement);
                        continue;
                    };
                    route.origin.within.extend(words::places([statement]));
                    route.origin.carry(statement.start());
                    if statement.name() == "handle_path" {
                        take_off(&mut route.answer, statement.argument());
                    }
                    self.put(matched, route, statement.start());
                }
                _ => {}
            }
            self.rank_new(rank(index, statement));
        }
        // Directives with a path of their own, then what is left for all.
        for (index, statement) in inside.iter().enumerate() {
            let matched = self.matched(statement.argument());
            if matches!(matched, CaddyMatch::All) || !ANSWERS.contains(&statement.name()) {
                continue;
            }
            if is_hidden(self, statement, &matched) {
                continue;
            }
            match self.of_directive(statement, inside, &statement.arguments()[1..]) {
                Some(route) => self.put(matched, route, statement.start()),
                None => self.shut(matched, statement),
            }
            self.rank_new(rank(index, statement));
        }
        if let Some(route) = self.answer(inside, is_literal) {
            let is_its = |statement: &Statement| route.origin.carried.contains(&statement.start());
            let position = inside.iter().position(|own| ANSWERS.contains(&own.name()) && is_its(own));
            of_answer = of_answer.or(position.map(|index| rank(index, &inside[index])));
            self.put(CaddyMatch::All, route, 0);
        }
        self.settle_order(first, of_answer.filter(|_| self.answer.is_some() && !had_answer));
    }

    /// New routes are of this rank. What is longer is more special, and Caddy looks at it first.
    fn rank_new(&mut self, rank: usize) {
        for route in &self.routes[self.keys.len()..] {
            let length = route.patterns.iter().map(String::len).max();
            self.keys.push((rank, Reverse((length, route.conditions.len()))));
        }
    }

    /// The routes of a block, the first of which is given, in the order of Caddy; without those that come behind what
    /// answers all, which is of the second.
    fn settle_order(&mut self, first: usize, of_answer: Option<usize>) {
        let routes = self.routes.split_off(first).into_iter();
        let mut all: Vec<(RouteKey, OutlinedRoute)> = self.keys.split_off(first).into_iter().zip(routes).collect();
        all.sort_by_key(|(key, _)| *key);
        for ((rank, _), route) in all {
            // What refuses is told all the same.
            if of_answer.is_some_and(|of_answer| of_answer < rank) && !route.answer.is_refusal() {
                let origin = route.whole_origin();
                let at = route.case.or(origin.carried.first().copied());
                self.origin.carry_all(origin.within);
                if let Some(at) = at {
                    self.origin.differ(at, NEVER_REACHED);
                }
            } else {
                self.routes.push(route);
            }
        }
    }

    /// What is answered in a block is not told, and must not be by what answers all else.
    fn shut(&mut self, matched: CaddyMatch, block: &Statement) {
        let CaddyMatch::Paths(patterns, prefixes) = matched else {
            self.is_behind_unknown = true;
            return;
        };
        let mut route = placed(patterns, &prefixes, block.start(), OutlinedAnswer::status(403));
        route.origin.carry_all(words::places([block]));
        route.origin.differ(block.start(), "what answers there is not in these lines: it is refused with 403");
        self.routes.push(route);
    }

    fn put(&mut self, matched: CaddyMatch, route: OutlinedRoute, at: usize) {
        let OutlinedRoute { answer, origin, .. } = route;
        match matched {
            CaddyMatch::All if self.is_behind_unknown => {}
            CaddyMatch::All => {
                self.answer.get_or_insert(OutlinedRoute { origin, ..OutlinedRoute::of(Vec::new(), answer) });
            }
            CaddyMatch::Paths(patterns, prefixes) if self.routes.iter().all(|route| route.patterns != patterns) => {
                let mut route = placed(patterns, &prefixes, at, answer);
                route.origin.add(&origin);
                self.routes.push(route);
            }
            CaddyMatch::Hosts(hosts) => {
                self.by_host.push((hosts, OutlinedRoute { origin, ..OutlinedRoute::of(Vec::new(), answer) }));
            }
            CaddyMatch::Conditions(patterns, conditions) => {
                self.routes.push(OutlinedRoute { conditions, origin, case: Some(at), ..OutlinedRoute::of(patterns, answer) });
            }
            // Those who are refused are so in all of the site.
            CaddyMatch::Clients { networks, is_negated } if !answer.is_refusal() && !self.is_behind_another => {
                let not = if is_negated { "not " } else { "" };
                let conditions = vec![format!("{not}client=\"{}\"", networks.join(","))];
                self.routes.push(OutlinedRoute { conditions, origin, ..OutlinedRoute::of(Vec::new(), answer) });
            }
            // What comes behind it is for other requests than here.
            CaddyMatch::Other => self.is_behind_unknown = true,
            CaddyMatch::Clients { .. } | CaddyMatch::Paths(..) => {}
        }
    }

    /// The sites that were found: one for each host that something is said of, and one for all that is left.
    fn end(mut self, words: &[String], addresses: Vec<String>, outline: &mut Outline) {
        let is_of_hosts = |statement: &&Statement| matches!(self.matched(statement.argument()), CaddyMatch::Hosts(_));
        let is_handle = |statement: &&Statement| matches!(statement.name(), "handle" | "handle_path" | "route");
        let shared = words::places(self.all.iter().filter(|statement| !is_of_hosts(statement) && !is_handle(statement)));
        let rest = words::places(self.all.iter().filter(|statement| !is_of_hosts(statement)));
        let bound = self.bound();
        self.settle_folders();
        for (hosts, route) in &self.by_host {
            let names: Vec<String> = hosts.clone();
            let mut site = OutlinedSite { steps: self.steps.clone(), routes: self.refused.clone(), ..OutlinedSite::default() };
            site.origin = self.origin.clone();
            site.origin.within.extend(&shared);
            site.origin.add(&route.origin);
            site.answer = Some(route.answer.clone());
            place(&names, names.iter().filter_map(|host| address(host)).collect(), bound, &mut site);
            if !site.addresses.is_empty() {
                outline.services.push(Service::Site(site));
            }
        }
        let serves = |route: &OutlinedRoute| !route.answer.is_refusal() || !self.is_rewritten;
        if self.answer.is_none() && !self.routes.iter().any(serves) {
            return;
        }
        let mut site = OutlinedSite { steps: self.steps, origin: self.origin, ..OutlinedSite::default() };
        site.origin.within.extend(&rest);
        site.routes = self.refused.into_iter().chain(self.routes).collect();
        if let Some(route) = self.answer {
            site.origin.add(&route.origin);
            site.answer = Some(route.answer);
        }
        // What is said of one of its hosts alone is that host's site.
        let of_hosts: Vec<&String> = self.by_host.iter().flat_map(|(hosts, _)| hosts).collect();
        let is_of_rest = |written: &&String| {
            let host = door(written.trim_end_matches(',')).and_then(|(_, host)| host);
            host.is_none_or(|host| !of_hosts.iter().any(|own| own.eq_ignore_ascii_case(&host)))
        };
        let words: Vec<String> = words.iter().filter(is_of_rest).cloned().collect();
        let words = words.as_slice();
        let addresses: Vec<String> = addresses.into_iter().filter(|written| is_of_rest(&written)).collect();
        if words.is_empty() && !of_hosts.is_empty() {
            return;
        }
        // A name that only the environment has cannot be looked at; the reader's stands in its place.
        let is_known = addresses.iter().all(|address| !address.contains("{env.") || address.contains(":-"));
        place(words, if is_known { addresses } else { Vec::new() }, bound, &mut site);
        outline.services.push(Service::Site(site));
    }

    /// What ends with `/*` takes the folder itself here, and does not there. Where that would come to less than what
    /// answers all else, it is an expression.
    fn settle_folders(&mut self) {
        let is_verified = |answer: &OutlinedAnswer| match answer {
            OutlinedAnswer::Proxy { group, .. } => !group.lines.iter().any(|line| line == "tls verify=#false"),
            OutlinedAnswer::Files { .. }
            | OutlinedAnswer::Scripts { .. }
            | OutlinedAnswer::Redirect { .. }
            | OutlinedAnswer::Respond { .. } => true,
        };
        let is_all_refused = self.answer.as_ref().is_some_and(|route| route.answer.is_refusal());
        for route in self.routes.iter_mut().filter(|route| is_all_refused || !is_verified(&route.answer)) {
            let prefixes = &route.byte_prefixes;
            let is_folder = |own: &&mut String| own.ends_with("/*") && prefixes.iter().all(|prefix| prefix.pattern != **own);
            for pattern in route.patterns.iter_mut().filter(is_folder) {
                *pattern = beginning_with(pattern.trim_end_matches('*'));
            }
        }
    }

    /// The one address of the machine that the site is on.
    fn bound(&self) -> Option<(IpAddr, usize)> {
        let mut binds = named(self.all, "bind");
        let bind = binds.next()?;
        match bind.arguments() {
            [one] if binds.next().is_none() => Some((one.trim_matches(['[', ']']).parse().ok()?, bind.start())),
            _ => None,
        }
    }
}

/// Where the site is. What is bound to an address of the machine answers there its hosts alone.
fn place(words: &[String], addresses: Vec<String>, bound: Option<(IpAddr, usize)>, site: &mut OutlinedSite) {
    site.addresses = addresses;
    let Some((ip, at)) = bound else { return };
    let doors: Vec<(Door, Option<String>)> = words.iter().filter_map(|word| door(word.trim_end_matches(','))).collect();
    let Some((first, _)) = doors.first() else { return };
    let has_names = doors.iter().all(|(door, host)| door == first && host.is_some());
    let has_none = doors.iter().all(|(door, host)| door == first && host.is_none());
    if let Some(address) = (Door { ip: Some(ip), ..*first }).address(None).filter(|_| has_names || has_none) {
        site.addresses = vec![address];
        site.only_hosts = doors.iter().filter_map(|(_, host)| host.clone()).collect();
        site.origin.carry(at);
    }
}

fn placed(patterns: Vec<String>, prefixes: &[(String, String)], at: usize, answer: OutlinedAnswer) -> OutlinedRoute {
    let prefix = |(pattern, prefix): &(String, String)| BytePrefix { pattern: pattern.clone(), prefix: prefix.clone(), at };
    let byte_prefixes = prefixes.iter().map(prefix).collect();
    OutlinedRoute { byte_prefixes, case: Some(at), ..OutlinedRoute::of(patterns, answer) }
}
