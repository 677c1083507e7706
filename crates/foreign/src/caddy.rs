//! What a Caddyfile asks for: its sites by their addresses, and in each the handlers in the order in which Caddy asks
//! them.

mod addresses;
mod auth;
mod chain;
mod changed;
mod directives;
mod errors;
mod expressions;
mod files;
mod globals;
mod headers;
pub mod json;
mod layer4;
mod log_targets;
mod logs;
mod matchers;
mod order;
mod paths;
mod placeholders;
mod pools;
mod responses;
mod serving;
mod snippets;
mod tls;
mod version_one;
mod words;

pub use snippets::{FileImport, includes};
pub use version_one::fault;
pub use words::{remedy, why_same};

use super::accounts::{Origin, StatementKind, Weight};
use super::braces::{self, Statement, named};
use super::matching::Matching;
use super::outline::{AnswerLine, Door, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, Service, beginning_with, is_guard};
use super::site_logs;
use addresses::{FileBlock, SiteBlock, SitePart, door, is_address_line, pattern_of_host};
use chain::{Act, ChainOp, Compiled, When};
use directives::DirectiveReader;
use globals::GlobalOptions;
use matchers::LeftMatchers;
use serving::ServedFolder;
use snippets::Snippets;
use std::collections::BTreeSet;
use std::net::IpAddr;

const NO_SITE: &str = "it has no site: global options and snippets alone";
const AS_WRITTEN: &str = "Caddy takes `/API/` where `/api/` is written as well, and here it is as written";
const LOG_OF_SITE: &str = "lines go where `access-log` says: standard output, a file, or syslog";
const LOCAL_ALONE: &str = "its port is open on all addresses, and clients of other machines get 403: a name has none of its own";
/// Blocks within blocks are looked at so deep.
const NESTED_MAX: usize = 32;
const UNREADABLE: &str = "a query that cannot be read, as one with `;` or `%zz`, has nothing in it for Caddy, so that `not query` takes it: here \
                          what can be read of it counts";
const ONE_LABEL: &str = "a site called `*` takes names of one label alone in Caddy, and all names here";
const BY_VARIABLE: &str = "names or servers in it are variables of the environment, which are `{env.NAME}` here";
const UNPLACED: &str = "no site here can have one of its addresses: write a `site` for the names that are meant, and open those that would \
                        answer for them in its place";
const NOTHING_ANSWERS: &str = "none of its sites hands requests on or serves files, as far as this can be told";
const BEHIND: &str = "matchers in it are about what no line here is told for, and all else comes behind them";
const TOO_LONG: &str = "what it does under conditions within conditions would be too many routes, and a part of it is not told";

pub fn outline(text: &str) -> Outline {
    let statements = braces::of_caddy(text);
    let parts = words::parts(&statements);
    let mut outline =
        Outline { statements: words::statements(&statements), parts, is_logged_where_said: true, ..Outline::default() };
    let has_blocks = statements.iter().any(|statement| statement.block.is_some() && is_address_line(statement));
    let is_snippet = |statement: &&Statement| statement.name().starts_with('(') || statement.name().starts_with("&(");
    let snippets = Snippets::of(statements.iter().filter(is_snippet));
    let options = statements.first().filter(|first| first.words.is_empty()).map(Statement::inside).unwrap_or_default();
    let mut of_imports = BTreeSet::new();
    let options = snippets.filled_in(options, &mut of_imports);
    if statements.iter().any(|statement| asks_for_no_query(statement, 0)) {
        outline.remarks.push(UNREADABLE.to_owned());
    }
    named(&options, "layer4").flat_map(Statement::inside).for_each(|server| layer4::of_file(server, &mut outline));
    let global = GlobalOptions::read(&options);
    let mut file =
        CaddyFile { snippets: &snippets, options: &options, global, ports: BTreeSet::new(), unplaced: BTreeSet::new() };
    if has_blocks {
        let is_site = |statement: &&Statement| statement.block.is_some() && !statement.words.is_empty() && !is_snippet(statement);
        let blocks: Vec<FileBlock<'_>> =
            statements.iter().filter(is_site).map(|statement| (statement.words.as_slice(), statement.inside())).collect();
        for block in addresses::settled(&blocks) {
            file.site(&block, &mut outline);
        }
        for statement in statements.iter().filter(|statement| is_site(statement) && !is_address_line(statement)) {
            outline.reasons.insert(statement.start(), UNPLACED.to_owned());
        }
    } else {
        // One site needs no braces; a part of one has no address either.
        let rest = statements.iter().filter(|statement| !statement.words.is_empty() && !is_snippet(statement));
        let all: Vec<Statement> = rest.cloned().collect();
        match all.split_first() {
            Some((first, rest)) if first.block.is_none() && is_address_line(first) => {
                for block in addresses::settled(&[(first.words.as_slice(), rest)]) {
                    file.site(&block, &mut outline);
                }
            }
            Some(_) => file.site(&SiteBlock::of(Vec::new(), &all), &mut outline),
            None => {}
        }
    }
    let is_left = |statement: &&Statement| statement.name() == "import" && statement.block.is_none();
    file.unplaced.extend(statements.iter().filter(is_left).map(Statement::start));
    file.end(&of_imports, &mut outline);
    words::explain(&statements, &mut outline);
    let mut left: Vec<&Statement> = statements.iter().collect();
    while let Some(statement) = left.pop() {
        for (at, why) in headers::reasons(statement) {
            outline.reasons.entry(at).or_insert_with(|| why.to_owned());
        }
        left.extend(statement.inside());
    }
    let has_variables = text.contains("{$") || text.contains("{env.");
    let has_site = statements.iter().any(is_address_line);
    outline.or_without(match (has_variables, has_site) {
        (true, _) => BY_VARIABLE,
        (false, true) => NOTHING_ANSWERS,
        (false, false) => NO_SITE,
    })
}

struct CaddyFile<'s> {
    snippets: &'s Snippets,
    options: &'s [Statement],
    global: GlobalOptions<'s>,
    /// Where its sites are.
    ports: BTreeSet<u16>,
    /// What is in blocks whose addresses are none of ours.
    unplaced: BTreeSet<usize>,
}

/// Directives that are about all of a site and answer nothing.
const OF_SITE: [&str; 7] = ["tls", "log", "bind", "handle_errors", "log_name", "log_append", "fs"];

impl CaddyFile<'_> {
    fn site(&mut self, block: &SiteBlock<'_>, outline: &mut Outline) {
        let words = &block.words;
        let mut imported = BTreeSet::new();
        let parts = self.filled_in(block, &mut imported);
        let inside = of_all_parts(&parts);
        let addresses: Vec<String> = words.iter().filter_map(|word| self.address(word)).collect();
        if addresses.len() < words.len() {
            outline.without.get_or_insert(BY_VARIABLE);
            self.unplaced.extend(parts.iter().flat_map(|(_, inside)| words::places(inside)));
            if addresses.is_empty() {
                return;
            }
        }
        let ops = self.ops_of(&parts);
        let is_whole = !words.is_empty();
        let mut compiled = chain::compiled(&ops, is_whole, &outline.statements);
        compiled.unknown_answers.extend(self.global.guards.first());
        Self::unknown(&compiled, outline);
        outline.reasons.extend(std::mem::take(&mut compiled.reasons));
        let mut site = OutlinedSite::default();
        site.origin.carry_all(imported);
        site.origin.within.extend(parts.iter().flat_map(|(_, inside)| words::places(inside)));
        site.origin.add(&self.global.origin);
        site.origin.within.extend(&self.global.guards);
        self.of_all(words, &inside, &ops, &mut site);
        site.steps.append(&mut compiled.steps);
        site.routes = compiled.routes;
        site.answer = compiled.answer;
        *site.answer_origin = compiled.answer_origin;
        site.leave_to_routes();
        site.origin.add(&compiled.origin);
        if site.answer.is_none() && site.routes.is_empty() {
            if !is_whole {
                return;
            }
            site.answer = Some(OutlinedAnswer::status(200));
        }
        settle_folders(&mut site);
        if named(&inside, "bind").next().is_none() {
            site.origin.within.extend(self.global.default_bind.map(Statement::start));
        }
        let hosts: Vec<String> = ops.iter().filter_map(|op| directives::only_hosts(&op.when)).flatten().collect();
        self.put(words, &inside, (addresses, hosts), &mut site);
        Self::log(&inside, &mut site, outline);
        decode_slashes(&mut site);
        if words.iter().any(|word| word.trim_end_matches(',') == "*") {
            outline.remarks.push(ONE_LABEL.to_owned());
        }
        self.note_ports(words);
        outline.services.push(Service::Site(site));
    }

    /// The blocks of a site with snippets in their place, and without matchers that ask for another address here.
    fn filled_in<'p>(&self, block: &'p SiteBlock<'_>, imported: &mut BTreeSet<usize>) -> Vec<(&'p SitePart<'p>, Vec<Statement>)> {
        let left = LeftMatchers { of_connections: self.global.trusts_others, of_clients: self.global.is_behind_another };
        let filled = |part: &'p SitePart<'_>| {
            let mut inside = self.snippets.filled_in(part.inside, imported);
            left.names().for_each(|matcher| matchers::leave(&mut inside, matcher));
            (part, inside)
        };
        block.parts.iter().map(filled).collect()
    }

    /// Where the site is; `addresses` are those of its words, `hosts` those that its matchers alone say.
    fn put(
        &self,
        words: &[String],
        inside: &[Statement],
        (addresses, hosts): (Vec<String>, Vec<String>),
        site: &mut OutlinedSite,
    ) {
        let bound = bound(inside, self.global.default_bind);
        // A name that only the environment has cannot be looked at; the reader's stands in its place.
        let is_known = addresses.iter().all(|address| !address.contains("{env.") || address.contains(":-"));
        match Self::names(words, hosts) {
            Some(names) => site.addresses = names,
            None if words.iter().all(|word| pattern_of_host(word).is_some()) && !words.is_empty() => {
                site.addresses = addresses;
                site.addresses.dedup();
                site.only_hosts = words.iter().filter_map(|word| pattern_of_host(word)).collect();
                let is_of_machine = words.iter().all(|word| !word.contains('*'));
                if site.addresses.iter().any(|address| address.starts_with("https://")) && is_of_machine {
                    tls::internal(&mut site.steps);
                }
                bind_there(words, bound, site);
            }
            None if is_known => {
                let is_by_default = named(inside, "bind").next().is_none() && !self.global.trusts_others;
                place(words, addresses, bound, is_by_default, site);
            }
            None => site.environment_addresses = addresses,
        }
    }

    fn note_ports(&mut self, words: &[String]) {
        for word in words {
            let port = door(word.trim_end_matches(',')).map(|(door, _)| self.port_of(door));
            self.ports.extend(port);
            if port.is_none_or(|port| port == 443) {
                self.ports.extend([443, 80]);
            }
        }
    }

    /// What is done for its requests: of several blocks one is asked, and what it leaves is answered by none.
    fn ops_of(&self, parts: &[(&SitePart<'_>, Vec<Statement>)]) -> Vec<ChainOp> {
        let read = |inside: &[Statement]| DirectiveReader::new(order::order_of(self.options)).ops(inside, false);
        if let [(part, inside)] = parts
            && part.path.is_none()
        {
            return read(inside);
        }
        let one = |(part, inside): &(&SitePart<'_>, Vec<Statement>)| {
            let when = match &part.path {
                None => When::If(Matching::always()),
                Some(path) => {
                    let path = std::slice::from_ref(path);
                    matchers::paths(path).map_or(When::Unknown(matchers::why_not(path)), When::If)
                }
            };
            ChainOp { when, act: Act::Within(read(inside)), group: Some(directives::SITES), origin: Origin::default() }
        };
        parts.iter().map(one).collect()
    }

    fn port_of(&self, door: Door) -> u16 {
        match door.port {
            80 => self.global.http_port.unwrap_or(80),
            443 => self.global.https_port.unwrap_or(443),
            port => port,
        }
    }

    /// The names that its matchers say, where its address is the port of HTTPS alone.
    fn names(words: &[String], hosts: Vec<String>) -> Option<Vec<String>> {
        let is_nameless =
            |word: &String| door(word.trim_end_matches(',')).is_some_and(|(door, host)| door == Door::HTTPS && host.is_none());
        if words.is_empty() || !words.iter().all(is_nameless) || hosts.is_empty() {
            return None;
        }
        let mut names: Vec<String> = Vec::new();
        for name in hosts.iter().filter_map(|host| Door::HTTPS.address(Some(host))) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(names)
    }

    /// What is said for all of a site: whose certificate it has, and what errors look like.
    fn of_all(&self, words: &[String], inside: &[Statement], ops: &[ChainOp], site: &mut OutlinedSite) {
        let mut has_tls = false;
        for line in inside.iter().filter(|line| OF_SITE.contains(&line.name())) {
            match line.name() {
                "tls" => {
                    has_tls = true;
                    tls::of_site(line, self.global.ask, &mut site.steps, &mut site.origin);
                }
                "handle_errors" => errors::pages(line, folder_of(ops), &mut site.steps, &mut site.origin),
                _ => {}
            }
        }
        if !has_tls && self.global.is_internal {
            site.steps.insert(0, "tls \"internal\"".to_owned());
        }
        let has_handshakes = words.iter().any(|word| door(word.trim_end_matches(',')).is_none_or(|(door, _)| door.is_tls));
        if self.global.is_http1_alone && has_handshakes {
            tls::offer_http1(&mut site.steps);
        }
    }

    /// What is written about the requests of a site.
    fn log(inside: &[Statement], site: &mut OutlinedSite, outline: &mut Outline) {
        let mut logs = Vec::new();
        for line in named(inside, "log") {
            match logs::read(line) {
                Some(log) => logs.push(log),
                None => {
                    outline.reasons.insert(line.start(), LOG_OF_SITE.to_owned());
                }
            }
        }
        logs::add(logs, site);
    }

    /// What stands under conditions that no line has, and sends somebody away, keeps somebody out.
    fn unknown(compiled: &Compiled, outline: &mut Outline) {
        for statement in &mut outline.statements {
            if compiled.unknown_answers.contains(&statement.at) {
                statement.kind = StatementKind::Needed(Weight::Protection);
            }
        }
        if compiled.is_too_long {
            outline.without.get_or_insert(TOO_LONG);
        } else if !compiled.unknown_answers.is_empty() {
            outline.without.get_or_insert(BEHIND);
        }
    }

    fn address(&self, written: &str) -> Option<String> {
        let written = written.trim_end_matches(',');
        let (Some(text), true) = (placeholders::fixed(written), written.contains('{')) else {
            let (door, host) = door(written)?;
            let host = host.filter(|_| pattern_of_host(written).is_none());
            return Door { port: self.port_of(door), ..door }.address(host.as_deref());
        };
        let (scheme, rest) = text.split_once("://").map_or((None, text.as_str()), |(scheme, rest)| (Some(scheme), rest));
        let rest = rest.split('/').next().unwrap_or_default();
        Some(format!("{}{rest}", scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default()))
    }

    fn end(mut self, of_imports: &BTreeSet<usize>, outline: &mut Outline) {
        shut_wider(&std::mem::take(&mut self.unplaced), outline);
        let ports: Vec<u16> = self.ports.iter().copied().collect();
        outline.opens_no_http |= self.global.opens_no_http;
        let listeners = self.global.listeners(&ports);
        let mut settings = self.global.settings;
        settings.extend(listeners);
        if let Some(first) = settings.first_mut() {
            first.origin.carry_all(of_imports.iter().copied());
        }
        site_logs::settle(&mut outline.services);
        settings.append(&mut outline.settings);
        outline.settings = settings;
    }
}

/// Shuts the sites that would answer for the names of those that have none here.
fn shut_wider(unplaced: &BTreeSet<usize>, outline: &mut Outline) {
    let Some(first) = unplaced.first() else { return };
    for service in &mut outline.services {
        let Service::Site(site) = service else { continue };
        let own: Vec<&String> = site.addresses.iter().chain(&site.environment_addresses).collect();
        if own.is_empty() || own.iter().any(|address| address.contains("://:") || address.contains('*')) {
            site.origin.within.extend(unplaced);
        }
    }
    for statement in &mut outline.statements {
        if unplaced.contains(&statement.at) {
            if statement.name != "import" {
                outline.reasons.entry(statement.at).or_insert_with(|| UNPLACED.to_owned());
            }
            if statement.at == *first {
                statement.kind = StatementKind::Needed(Weight::Protection);
            }
        }
    }
}

/// The lines that are about all of a site: those of the block for all of its paths, or else of the others.
fn of_all_parts(parts: &[(&SitePart<'_>, Vec<Statement>)]) -> Vec<Statement> {
    match parts.iter().find(|(part, _)| part.path.is_none() && !part.is_wider) {
        Some((_, inside)) => inside.clone(),
        None => {
            let all = parts.iter().filter(|(part, _)| !part.is_wider).flat_map(|(_, inside)| inside);
            all.filter(|line| matches!(line.name(), "tls" | "bind" | "log")).cloned().collect()
        }
    }
}

/// What ends with `/*` takes the folder itself here, and does not there. Where that would come to less than what
/// answers all else, or open what somebody is kept out of, it is an expression.
fn settle_folders(site: &mut OutlinedSite) {
    let is_refused = site.answer.as_ref().is_some_and(OutlinedAnswer::is_refusal);
    let has_guards = site.steps.iter().any(|step| is_guard(step))
        || site.answer.as_ref().is_some_and(keeps_out)
        || site.routes.iter().any(|route| route.is_guarded() || keeps_out(&route.answer));
    settle_folders_of(&mut site.routes, is_refused || has_guards);
    if let Some(OutlinedAnswer::Within { routes, .. }) = &mut site.answer {
        settle_folders_of(routes, has_guards);
    }
}

fn settle_folders_of(routes: &mut [OutlinedRoute], is_for_all: bool) {
    let is_verified = |answer: &OutlinedAnswer| {
        !answer.groups().iter().any(|group| group.lines.iter().any(|line| line.contains("verify=#false")))
    };
    for route in routes {
        // Of what keeps somebody out, `/ADMIN` is looked at where all of the route is settled.
        if (is_for_all || !is_verified(&route.answer)) && !route.is_guarded() && !keeps_out(&route.answer) {
            let prefixes = &route.byte_prefixes;
            let is_folder = |own: &&mut String| own.ends_with("/*") && prefixes.iter().all(|prefix| prefix.pattern != **own);
            for pattern in route.patterns.iter_mut().filter(is_folder) {
                *pattern = beginning_with(pattern.trim_end_matches('*'));
                route.case.into_iter().for_each(|at| route.origin.differ(at, AS_WRITTEN));
            }
        }
        if let OutlinedAnswer::Within { routes, .. } = &mut route.answer {
            settle_folders_of(routes, is_for_all);
        }
    }
}

/// Whether a matcher says what the query is not to have, on one line or in a block.
fn asks_for_no_query(statement: &Statement, depth: usize) -> bool {
    let is_not = statement.words.iter().any(|word| word == "not");
    let is_query = |own: &Statement| own.words.iter().any(|word| word == "query");
    is_not && (is_query(statement) || statement.inside().iter().any(is_query))
        || depth < NESTED_MAX && statement.inside().iter().any(|inner| asks_for_no_query(inner, depth + 1))
}

/// Makes encoded slashes ones for routes, where another spelling of a path would lead past a guard. What was sent goes
/// on, as it does there.
fn decode_slashes(site: &mut OutlinedSite) {
    if has_answers_beside_guards(site) {
        site.unsaid.push("path-policy encoded-slashes=\"pass\"".to_owned());
    }
}

/// Whether clients are kept out of a part of a site, be it for what is not carried, and something answers: whoever is
/// let in there may have passed another guard.
fn has_answers_beside_guards(site: &OutlinedSite) -> bool {
    let is_guarded = |route: &OutlinedRoute| {
        let origin = route.whole_origin();
        let is_left = |at: &usize| !origin.carried.contains(at) && !origin.differs.contains_key(at);
        route.is_guarded() || keeps_out(&route.answer) || origin.within.iter().any(is_left)
    };
    let has_guards = site.answer.as_ref().is_some_and(keeps_out) || site.routes.iter().any(is_guarded);
    has_guards && (site.answer.as_ref().is_some_and(is_answered) || site.routes.iter().any(is_route_answered))
}

/// Whether it answers, and not one exact path with a fixed text alone.
fn is_route_answered(route: &OutlinedRoute) -> bool {
    let is_one_path = |pattern: &String| !pattern.starts_with('~') && !pattern.contains('*');
    let is_exact = !route.patterns.is_empty() && route.byte_prefixes.is_empty() && route.patterns.iter().all(is_one_path);
    let is_one_text = is_exact && matches!(route.answer, OutlinedAnswer::Respond { .. });
    !is_one_text && is_answered(&route.answer)
}

/// Whether servers, scripts or a fixed text answer in a part of it. Files have no encoded slashes.
fn is_answered(answer: &OutlinedAnswer) -> bool {
    match answer {
        OutlinedAnswer::Within { routes, otherwise, .. } => {
            routes.iter().any(is_route_answered) || otherwise.as_deref().is_some_and(is_answered)
        }
        OutlinedAnswer::Lines(lines) => {
            let is_refused = |text: &str| text.starts_with("respond 4") || text.starts_with("respond 5");
            let is_own = |text: &str| text.starts_with("fastcgi") || (text.starts_with("respond") && !is_refused(text));
            !answer.groups().is_empty() || lines.iter().any(|line| is_own(line.text()))
        }
        OutlinedAnswer::Respond { .. } => !answer.is_refusal(),
        OutlinedAnswer::Proxy { .. } | OutlinedAnswer::Scripts { .. } | OutlinedAnswer::Split { .. } => true,
        OutlinedAnswer::Files { .. } | OutlinedAnswer::Redirect { .. } => false,
    }
}

/// Whether somebody is kept out of a part of what answers.
pub fn keeps_out(answer: &OutlinedAnswer) -> bool {
    match answer {
        OutlinedAnswer::Within { routes, steps, otherwise } => {
            steps.iter().any(|step| is_guard(step))
                || routes.iter().any(|route| route.is_guarded() || keeps_out(&route.answer))
                || otherwise.as_deref().is_some_and(keeps_out)
        }
        OutlinedAnswer::Lines(lines) => {
            let before = lines.split_last().map_or(&[][..], |(_, before)| before);
            answer.is_refusal() || before.iter().any(|line| matches!(line, AnswerLine::Text(text) if is_guard(text)))
        }
        OutlinedAnswer::Respond { .. } => answer.is_refusal(),
        OutlinedAnswer::Proxy { .. }
        | OutlinedAnswer::Files { .. }
        | OutlinedAnswer::Scripts { .. }
        | OutlinedAnswer::Redirect { .. }
        | OutlinedAnswer::Split { .. } => false,
    }
}

/// The folder that is said for all of a site.
fn folder_of(ops: &[ChainOp]) -> Option<&str> {
    ops.iter().find_map(|op| match (&op.when, &op.act) {
        (When::If(when), Act::Root(ServedFolder::Known(root))) if when.is_always() => Some(root.as_str()),
        (When::If(_) | When::File { .. } | When::Unknown(_), _) => None,
    })
}

/// The addresses of the machine that the site is on, and where that is said.
fn bound(inside: &[Statement], default: Option<&Statement>) -> Option<(Vec<IpAddr>, BTreeSet<usize>)> {
    let mut own: Vec<&Statement> = named(inside, "bind").collect();
    if own.is_empty() {
        own.extend(default);
    }
    let words = || own.iter().flat_map(|bind| bind.arguments());
    let address = |word: &String| {
        let word = ["tcp/", "tcp4/", "tcp6/"].iter().find_map(|network| word.strip_prefix(network)).unwrap_or(word);
        if word == "localhost" { Some(IpAddr::from([127, 0, 0, 1])) } else { word.trim_matches(['[', ']']).parse().ok() }
    };
    let all: Vec<IpAddr> = words().map(address).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| (all, own.iter().map(|bind| bind.start()).collect()))
}

/// What asks for hosts that no address has, on addresses of the machine.
fn bind_there(words: &[String], bound: Option<(Vec<IpAddr>, BTreeSet<usize>)>, site: &mut OutlinedSite) {
    let Some((all, places)) = bound else { return };
    if all.iter().any(IpAddr::is_unspecified) {
        return site.origin.carry_all(places);
    }
    let doors: Vec<Door> = words.iter().filter_map(|word| Some(door(word.trim_end_matches(','))?.0)).collect();
    let own = doors.iter().flat_map(|door| all.iter().map(|ip| Door { ip: Some(*ip), ..*door }.address(None)));
    if let Some(mut own) = own.collect::<Option<Vec<String>>>() {
        own.dedup();
        site.addresses = own;
        site.origin.carry_all(places);
    }
}

/// Where the site is. What is bound to addresses of the machine answers there its hosts alone.
fn place(
    words: &[String],
    addresses: Vec<String>,
    bound: Option<(Vec<IpAddr>, BTreeSet<usize>)>,
    is_by_default: bool,
    site: &mut OutlinedSite,
) {
    site.addresses = addresses;
    let Some((all, places)) = bound else { return };
    if all.iter().any(IpAddr::is_unspecified) {
        return site.origin.carry_all(places);
    }
    let doors: Vec<(Door, Option<String>)> = words.iter().filter_map(|word| door(word.trim_end_matches(','))).collect();
    let Some((first, _)) = doors.first() else { return };
    let has_names = doors.iter().all(|(door, host)| door == first && host.is_some());
    let has_none = doors.iter().all(|(door, host)| door == first && host.is_none());
    // Who comes to an address of the machine's own comes from one; so all sites keep their names and certificates.
    if is_by_default
        && all.iter().all(IpAddr::is_loopback)
        && doors.len() == words.len()
        && doors.iter().all(|(_, host)| host.is_some())
    {
        site.steps.insert(0, "allow \"127.0.0.0/8\" \"::1\"".to_owned());
        return places.into_iter().for_each(|at| site.origin.differ(at, LOCAL_ALONE));
    }
    let own = all.iter().map(|ip| Door { ip: Some(*ip), ..*first }.address(None)).collect::<Option<Vec<String>>>();
    if let Some(own) = own.filter(|_| (has_names || has_none) && doors.len() == words.len()) {
        site.addresses = own;
        site.only_hosts = doors.iter().filter_map(|(_, host)| host.clone()).collect();
        site.origin.carry_all(places);
    }
}
