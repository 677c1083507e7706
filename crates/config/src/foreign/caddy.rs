//! What a Caddyfile asks for: its sites by their addresses, with what stands in `handle`, `route` and behind matchers.

mod answers;
mod pools;
mod words;

use super::accounts::Origin;
use super::braces::{self, Statement, named};
use super::outline::{BytePrefix, Door, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, Service, TLS_NEWEST, is_plain};
use answers::{ANSWERS, CaddyMatch, take_off};
use std::collections::BTreeSet;
use std::net::IpAddr;
use tidegate_model::SiteAddress;

const NO_SITE: &str = "it has no site: global options and snippets alone";
const BY_VARIABLE: &str = "names or servers in it are variables of the environment, which are `{env.NAME}` here";
const NOTHING_ANSWERS: &str = "none of its sites hands requests on or serves files, as far as this can be told";
const BEHIND: &str = "matchers in it are about what no line here is told for, and all else comes behind them";
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
            refused: Vec::new(),
            answer: None,
            steps: Vec::new(),
            is_behind_unknown: false,
            origin: Origin::default(),
        };
        reader.origin.carry_all(imported);
        reader.common(&inside);
        reader.read(&inside, 0);
        // What is longer is more special, and Caddy looks at it first.
        let length = |route: &OutlinedRoute| (route.patterns.iter().map(String::len).max(), route.conditions.len());
        reader.routes.sort_by_key(|route| std::cmp::Reverse(length(route)));
        if reader.is_behind_unknown {
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

struct CaddySite<'s> {
    all: &'s [Statement],
    is_behind_another: bool,
    by_host: Vec<(Vec<String>, OutlinedRoute)>,
    routes: Vec<OutlinedRoute>,
    /// Where nobody comes in, whatever else is said of it.
    refused: Vec<OutlinedRoute>,
    answer: Option<OutlinedRoute>,
    steps: Vec<String>,
    /// Whether something is answered under conditions that are not told.
    is_behind_unknown: bool,
    origin: Origin,
}

impl CaddySite<'_> {
    /// What is said for all of a site: who may come in, how much they may send, and whose certificate it has.
    fn common(&mut self, inside: &[Statement]) {
        let (mut denied, mut allowed) = (Vec::new(), None);
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
                    let CaddyMatch::Paths(patterns, prefixes) = self.matched(statement.argument()) else { continue };
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

    fn read(&mut self, inside: &[Statement], depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        for statement in inside {
            let matched = self.matched(statement.argument());
            let is_plain_match = matches!(matched, CaddyMatch::All);
            match statement.name() {
                "handle" | "handle_path" | "route" if is_plain_match && statement.arguments().is_empty() => {
                    self.origin.carry(statement.start());
                    self.read(statement.inside(), depth + 1);
                }
                "handle" | "handle_path" | "route" => {
                    let Some(mut route) = self.answer(statement.inside()) else {
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
        }
        // Directives with a path of their own, then what is left for all.
        for statement in inside {
            let matched = self.matched(statement.argument());
            if matches!(matched, CaddyMatch::All) || !ANSWERS.contains(&statement.name()) {
                continue;
            }
            match self.of_directive(statement, inside, &statement.arguments()[1..]) {
                Some(route) => self.put(matched, route, statement.start()),
                None => self.shut(matched, statement),
            }
        }
        if let Some(route) = self.answer(inside) {
            self.put(CaddyMatch::All, route, 0);
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
                self.routes.push(OutlinedRoute { conditions, origin, ..OutlinedRoute::of(patterns, answer) });
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
    fn end(self, words: &[String], addresses: Vec<String>, outline: &mut Outline) {
        let is_of_hosts = |statement: &&Statement| matches!(self.matched(statement.argument()), CaddyMatch::Hosts(_));
        let is_handle = |statement: &&Statement| matches!(statement.name(), "handle" | "handle_path" | "route");
        let shared = words::places(self.all.iter().filter(|statement| !is_of_hosts(statement) && !is_handle(statement)));
        let rest = words::places(self.all.iter().filter(|statement| !is_of_hosts(statement)));
        let bound = self.bound();
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
        if self.answer.is_none() && self.routes.is_empty() {
            return;
        }
        let mut site = OutlinedSite { steps: self.steps, origin: self.origin, ..OutlinedSite::default() };
        site.origin.within.extend(&rest);
        site.routes = self.refused.into_iter().chain(self.routes).collect();
        if let Some(route) = self.answer {
            site.origin.add(&route.origin);
            site.answer = Some(route.answer);
        }
        // A name that only the environment has cannot be looked at; the reader's stands in its place.
        let is_known = addresses.iter().all(|address| !address.contains("{env.") || address.contains(":-"));
        place(words, if is_known { addresses } else { Vec::new() }, bound, &mut site);
        outline.services.push(Service::Site(site));
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
    OutlinedRoute { byte_prefixes: prefixes.iter().map(prefix).collect(), ..OutlinedRoute::of(patterns, answer) }
}
