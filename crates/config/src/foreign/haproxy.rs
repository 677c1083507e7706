//! What a file of HAProxy asks for: its frontends with the backends that they use, by name, by path or all, in the mode
//! that each section has of its own or from `defaults`.

mod conditions;
mod servers;
mod words;

use super::accounts::Origin;
use super::outline::{
    BytePrefix, Door, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service, TLS_NEWEST,
    Whereabouts, placed, tcp_address,
};
use conditions::{Criterion, Term, terms};
use servers::group;
use std::collections::BTreeSet;

const BY_MAP: &str = "which backend is asked is in a map of its own, or computed: `split to=` and `map` do that here";
const NO_SECTION: &str = "it has no frontend with servers behind it, and no backend with servers";
const NO_DOOR: &str = "it listens on a socket or on what variables say, and not on a port that is told";
const BEHIND: &str = "which backend is asked hangs on conditions that no line here is told for, and all else comes behind them";
/// Of one frontend; a map of thousands is told of by its first.
const HOSTS_MAX: usize = 200;
const TO_HTTPS: &str = "all that it has is the redirect to HTTPS, which a site does without a word";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";
const FEWER_NAMES: &str = "a name with `*` is one more label here, and any number of them there";

const HTTP_WORDS: [&str; 12] = [
    "http-request",
    "http-response",
    "http-check",
    "httpchk",
    "httplog",
    "forwardfor",
    "cookie",
    "hdr(host)",
    "path_beg",
    "path",
    "redirect",
    "compression",
];

/// Words of a line, and where each begins in the file.
#[derive(Debug, Clone, Default)]
struct HaProxyLine {
    words: Vec<String>,
    starts: Vec<usize>,
}

impl HaProxyLine {
    fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    fn start(&self) -> usize {
        self.starts.first().copied().unwrap_or_default()
    }

    /// The options from this word on, each with its value and its place.
    fn options(&self, from: usize) -> impl Iterator<Item = (&str, &str, usize)> {
        let mut index = from;
        std::iter::from_fn(move || {
            let (option, at) = (self.words.get(index)?.as_str(), *self.starts.get(index)?);
            index += 1;
            let has_value = words::has_value(option) && index < self.words.len();
            let value = if has_value { self.word(index) } else { "" };
            index += usize::from(has_value);
            Some((option, value, at))
        })
    }
}

#[derive(Debug, Default)]
struct Section {
    kind: String,
    name: String,
    lines: Vec<HaProxyLine>,
    is_tcp: Option<bool>,
}

impl Section {
    fn lines_of<'s>(&'s self, name: &'static str) -> impl Iterator<Item = &'s HaProxyLine> {
        self.lines.iter().filter(move |line| line.word(0) == name)
    }

    fn has_word(&self, words: &[&str]) -> bool {
        self.lines.iter().flat_map(|line| &line.words).any(|word| words.contains(&word.as_str()))
    }

    fn places(&self) -> BTreeSet<usize> {
        self.lines.iter().flat_map(|line| words::of_line(&self.kind, line)).map(|statement| statement.at).collect()
    }
}

pub fn outline(text: &str) -> Outline {
    let sections = sections(text);
    let reader = HaProxyReader { sections: &sections };
    let mut outline = Outline::default();
    for section in sections.iter().filter(|section| matches!(section.kind.as_str(), "frontend" | "listen")) {
        reader.front(section, &mut outline);
    }
    outline.statements = words::statements(&sections);
    if outline.services.is_empty() && outline.without.is_none_or(|why| why == TO_HTTPS) {
        for backend in sections.iter().filter(|section| section.kind == "backend") {
            let group = group(backend, None);
            let port = group.servers.first().and_then(|server| server.address.rsplit(':').next()?.parse::<u16>().ok());
            match port {
                _ if group.is_empty() => {}
                Some(port) if is_tcp(backend) => {
                    let address = tcp_address(None, port);
                    let tcp = OutlinedTcp { address, otherwise: Some(group), ..OutlinedTcp::default() };
                    outline.services.push(Service::Tcp(tcp));
                }
                Some(_) | None => outline.groups.push(group),
            }
        }
    }
    outline.or_without(NO_SECTION)
}

fn sections(text: &str) -> Vec<Section> {
    const KINDS: [&str; 5] = ["defaults", "frontend", "backend", "listen", "global"];
    let mut sections: Vec<Section> = Vec::new();
    let mut of_defaults = None;
    for written in text.lines() {
        let start = written.as_ptr() as usize - text.as_ptr() as usize;
        let line = line(written, start);
        let Some(first) = line.words.first().cloned() else { continue };
        let is_section =
            !written.starts_with([' ', '\t']) && (KINDS.contains(&first.as_str()) || super::signs::is_section_of_haproxy(&first));
        if is_section {
            let name = line.word(1).to_owned();
            // A mode of `defaults` holds for the sections behind it.
            let is_tcp = if first == "defaults" { None } else { of_defaults };
            let has_address = line.words.len() > 2 && (first == "listen" || first == "frontend");
            let bind = HaProxyLine {
                words: vec!["bind".into(), line.word(2).to_owned()],
                starts: line.starts.iter().skip(1).copied().collect(),
            };
            let lines = has_address.then_some(bind).into_iter().collect();
            sections.push(Section { kind: first, name, lines, is_tcp });
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        if first == "mode" {
            section.is_tcp = line.words.get(1).map(|mode| mode == "tcp");
            if section.kind == "defaults" {
                of_defaults = section.is_tcp;
            }
        }
        section.lines.push(line);
    }
    sections
}

/// Words of a line, without a comment and quotes.
fn line(text: &str, start: usize) -> HaProxyLine {
    let mut line = HaProxyLine::default();
    let mut word = String::new();
    let mut begun: Option<usize> = None;
    let mut quote = None;
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '#') => break,
            (None, c) if c.is_whitespace() => {
                if let Some(begun) = begun.take() {
                    line.words.push(std::mem::take(&mut word));
                    line.starts.push(start + begun);
                }
                continue;
            }
            (None, '"' | '\'') => quote = Some(c),
            (None, '\\') => word.extend(characters.next().map(|(_, c)| c)),
            (Some(_) | None, c) => word.push(c),
        }
        begun.get_or_insert(at);
    }
    if let Some(begun) = begun {
        line.words.push(word);
        line.starts.push(start + begun);
    }
    line
}

/// Without a word about it, by what only HTTP has.
fn is_tcp(section: &Section) -> bool {
    let by_words = || {
        let has_http = section.has_word(&HTTP_WORDS);
        let has_tcp = section.has_word(&[
            "tcplog",
            "tcp-check",
            "mysql-check",
            "pgsql-check",
            "redis-check",
            "smtpchk",
            "req_ssl_sni",
            "req.ssl_sni",
        ]);
        has_tcp && !has_http
    };
    section.is_tcp.unwrap_or_else(by_words)
}

struct HaProxyReader<'s> {
    sections: &'s [Section],
}

/// What the rules of a frontend say of who may come in.
#[derive(Debug, Default)]
struct Rules {
    /// Whoever is named here is refused, then who is not named by the second.
    denied: Vec<String>,
    allowed: Option<String>,
    refused: Vec<OutlinedRoute>,
    origin: Origin,
}

impl HaProxyReader<'_> {
    fn backend(&self, name: &str, port: Option<u16>) -> Option<ServerGroup> {
        let section =
            self.sections.iter().find(|section| section.name == name && matches!(section.kind.as_str(), "backend" | "listen"))?;
        Some(group(section, port)).filter(|group| !group.is_empty())
    }

    fn front(&self, section: &Section, outline: &mut Outline) {
        let doors: Vec<(Door, usize)> = section.lines_of("bind").flat_map(doors).collect();
        let own = Some(group(section, doors.first().map(|(door, _)| door.port))).filter(|group| !group.is_empty());
        if doors.is_empty() {
            outline.without.get_or_insert(NO_DOOR);
            return;
        }
        if is_tcp(section) { self.tcp(section, &doors, own, outline) } else { self.http(section, &doors, own, outline) }
    }

    fn tcp(&self, section: &Section, doors: &[(Door, usize)], own: Option<ServerGroup>, outline: &mut Outline) {
        if doors.iter().any(|(door, _)| door.is_tls) {
            outline.without.get_or_insert(TLS_OF_TCP);
            return;
        }
        let port = doors.first().map(|(door, _)| door.port);
        let mut origin = Origin { within: section.places(), ..Origin::default() };
        let mut by_name = Vec::new();
        for rule in section.lines_of("use_backend") {
            // All else would come behind it.
            let Some((terms, places)) = terms(section, &rule.words) else {
                outline.without.get_or_insert(if rule.word(1).contains("%[") { BY_MAP } else { BEHIND });
                return;
            };
            let names = match terms.as_slice() {
                [Term { is_negated: false, criterion: Criterion::Sni(names, is_less) | Criterion::Host(names, is_less) }] => {
                    Some((names.clone(), *is_less))
                }
                _ => None,
            };
            if let (Some((names, is_less)), Some(group)) = (names, self.backend(rule.word(1), port)) {
                if is_less {
                    origin.differ(rule.start(), FEWER_NAMES);
                }
                origin.carry(rule.start());
                origin.carry_all(places);
                by_name.push((names, group));
            } else {
                outline.without.get_or_insert(BEHIND);
                return;
            }
        }
        let otherwise = own.or_else(|| self.default_of(section, port, &mut origin));
        if otherwise.is_none() && by_name.is_empty() {
            outline.without.get_or_insert(BY_MAP);
            return;
        }
        // Each port hands on the same; a line for one does not open the others.
        for (door, at) in doors {
            let mut origin = origin.clone();
            for (_, other) in doors {
                origin.within.remove(other);
            }
            origin.carry(*at);
            let address = tcp_address(door.ip, door.port);
            let tcp = OutlinedTcp { address, by_name: by_name.clone(), otherwise: otherwise.clone(), origin };
            outline.services.push(Service::Tcp(tcp));
        }
    }

    fn default_of(&self, section: &Section, port: Option<u16>, origin: &mut Origin) -> Option<ServerGroup> {
        let line = section.lines_of("default_backend").next()?;
        let group = self.backend(line.word(1), port)?;
        origin.carry(line.start());
        Some(group)
    }

    fn http(&self, section: &Section, doors: &[(Door, usize)], own: Option<ServerGroup>, outline: &mut Outline) {
        let mut rules = rules(section);
        let redirect = to_https(section);
        let port = doors.first().map(|(door, _)| door.port);
        if let Some(redirect) = redirect.filter(|_| doors.iter().any(|(door, _)| door.is_tls)) {
            rules.origin.carry(redirect.start());
        } else if redirect.is_some() && doors.iter().all(|(door, _)| *door == Door::HTTP) {
            outline.without.get_or_insert(TO_HTTPS);
            outline.done_without.extend(section.places());
            return;
        }
        // A door that only sends to another one is not opened for more.
        let has_https = doors.iter().any(|(door, _)| *door == Door::HTTPS);
        let is_open = |(door, _): &&(Door, usize)| redirect.is_none() || door.is_tls || (*door == Door::HTTP && has_https);
        let doors: Vec<(Door, usize)> = doors.iter().filter(is_open).copied().collect();
        let uses: Vec<(&HaProxyLine, Vec<Term>, BTreeSet<usize>)> = section
            .lines_of("use_backend")
            .map(|rule| {
                let other = || (vec![Term { is_negated: false, criterion: Criterion::Other }], BTreeSet::new());
                let (terms, places) = terms(section, &rule.words).unwrap_or_else(other);
                (rule, terms, places)
            })
            .collect();
        let mut hosts: Vec<Vec<String>> = Vec::new();
        for term in uses.iter().flat_map(|(_, terms, _)| terms) {
            if let (Criterion::Host(names, _) | Criterion::Sni(names, _), false) = (&term.criterion, term.is_negated)
                && !hosts.contains(names)
            {
                hosts.push(names.clone());
            }
        }
        outline.uncounted += hosts.len().saturating_sub(HOSTS_MAX);
        hosts.truncate(HOSTS_MAX);
        let count = outline.services.len();
        for host in hosts.iter().map(Some).chain([None]) {
            let mut site = OutlinedSite { steps: rules.steps(), routes: rules.refused.clone(), ..OutlinedSite::default() };
            site.origin = rules.origin.clone();
            site.origin.within.extend(places_for(section, &uses, host));
            let names = host.cloned().unwrap_or_default();
            let Some(Whereabouts { addresses, only_hosts, .. }) = placed(&doors, &names, redirect.is_some(), &mut site.origin)
            else {
                continue;
            };
            (site.addresses, site.only_hosts) = (addresses, only_hosts);
            newest_tls(section, &mut site);
            let is_all_told = self.answers(&uses, host, port, &mut site);
            if host.is_some() && site.answer.is_some() {
                // What all others are sent to is none of its.
                section.lines_of("default_backend").for_each(|line| {
                    site.origin.within.remove(&line.start());
                });
            }
            if !is_all_told {
                outline.without.get_or_insert(BEHIND);
            } else if host.is_none() && site.answer.is_none() {
                site.answer = own.clone().or_else(|| self.default_of(section, port, &mut site.origin)).map(OutlinedAnswer::proxy);
            } else if site.answer.is_none() {
                site.answer = self.default_of(section, port, &mut site.origin).map(OutlinedAnswer::proxy);
            }
            if site.answer.is_some() || site.routes.len() > rules.refused.len() {
                outline.services.push(Service::Site(site));
            }
        }
        let is_by_map = section.lines_of("use_backend").any(|rule| rule.word(1).contains("%["));
        if outline.services.len() == count && is_by_map {
            outline.without = Some(BY_MAP);
        }
    }

    /// What the rules hand on to, in their order, for requests of these hosts or of all others. Whether each of them is
    /// told: what stands behind one that is not is for other requests than here.
    fn answers(
        &self,
        uses: &[(&HaProxyLine, Vec<Term>, BTreeSet<usize>)],
        host: Option<&Vec<String>>,
        port: Option<u16>,
        site: &mut OutlinedSite,
    ) -> bool {
        for (rule, terms, places) in uses {
            let of_host = host_of(terms);
            if of_host.is_some() && of_host != host {
                continue;
            }
            let Some((told, group)) = told(terms).zip(self.backend(rule.word(1), port)) else { return false };
            let mut origin = Origin::default();
            origin.carry(rule.start());
            origin.carry_all(places.iter().copied());
            if terms.iter().any(|term| matches!(term.criterion, Criterion::Host(_, true) | Criterion::Sni(_, true))) {
                origin.differ(rule.start(), FEWER_NAMES);
            }
            let answer = OutlinedAnswer::proxy(group);
            if told.patterns.is_empty() && told.conditions.is_empty() {
                site.origin.add(&origin);
                site.answer = Some(answer);
                return true;
            }
            let mut route = route(&told.patterns, &told.prefixes, rule.start(), answer);
            route.conditions = told.conditions;
            route.origin.add(&origin);
            site.routes.push(route);
        }
        true
    }
}

/// Statements of the section, without rules that are about other hosts alone.
fn places_for(
    section: &Section,
    uses: &[(&HaProxyLine, Vec<Term>, BTreeSet<usize>)],
    host: Option<&Vec<String>>,
) -> BTreeSet<usize> {
    let mut places = section.places();
    for (rule, terms, _) in uses {
        if host_of(terms).is_some_and(|names| Some(names) != host) {
            places.remove(&rule.start());
        }
    }
    places
}

/// Terms as a route says them.
#[derive(Debug, Default)]
struct ToldTerms {
    patterns: Vec<String>,
    prefixes: Vec<(String, String)>,
    conditions: Vec<String>,
}

fn told(terms: &[Term]) -> Option<ToldTerms> {
    let mut told = ToldTerms::default();
    for Term { is_negated, criterion } in terms {
        let not = if *is_negated { "not " } else { "" };
        match criterion {
            Criterion::Host(..) | Criterion::Sni(..) if !is_negated => {}
            Criterion::Path(patterns, prefixes) if !is_negated && told.patterns.is_empty() => {
                told.patterns.clone_from(patterns);
                told.prefixes.clone_from(prefixes);
            }
            Criterion::Source(networks) => told.conditions.push(format!("{not}client=\"{}\"", networks.join(","))),
            Criterion::Host(..)
            | Criterion::Sni(..)
            | Criterion::Path(..)
            | Criterion::OverTls
            | Criterion::Hello
            | Criterion::Other => return None,
        }
    }
    Some(told)
}

/// All that it listens on with TLS speaks the newest version alone.
fn newest_tls(section: &Section, site: &mut OutlinedSite) {
    let of_bind = |line: &&HaProxyLine| line.options(2).any(|(option, _, _)| option == "ssl");
    let versions: Vec<usize> = section
        .lines_of("bind")
        .filter(of_bind)
        .flat_map(|line| line.options(2))
        .filter(|(option, value, _)| *option == "ssl-min-ver" && *value == "TLSv1.3")
        .map(|(_, _, at)| at)
        .collect();
    if !versions.is_empty() && versions.len() == section.lines_of("bind").filter(of_bind).count() {
        site.steps.insert(0, TLS_NEWEST.to_owned());
        site.origin.carry_all(versions);
    }
}

fn host_of(terms: &[Term]) -> Option<&Vec<String>> {
    terms.iter().find_map(|term| match &term.criterion {
        Criterion::Host(names, _) | Criterion::Sni(names, _) if !term.is_negated => Some(names),
        Criterion::Host(..)
        | Criterion::Sni(..)
        | Criterion::Path(..)
        | Criterion::Source(_)
        | Criterion::OverTls
        | Criterion::Hello
        | Criterion::Other => None,
    })
}

fn route(patterns: &[String], prefixes: &[(String, String)], at: usize, answer: OutlinedAnswer) -> OutlinedRoute {
    let mut route = OutlinedRoute::of(patterns.to_vec(), answer);
    let prefix = |(pattern, prefix): &(String, String)| BytePrefix { pattern: pattern.clone(), prefix: prefix.clone(), at };
    route.byte_prefixes = prefixes.iter().map(prefix).collect();
    route.origin.carry(at);
    route
}

impl Rules {
    fn steps(&self) -> Vec<String> {
        self.denied.iter().chain(&self.allowed).cloned().collect()
    }
}

/// What refuses clients by their address or by a path. Other rules are left, and with them no line is told.
fn rules(section: &Section) -> Rules {
    let mut rules = Rules::default();
    let is_behind_another = section.has_word(&["accept-proxy", "expect-proxy", "set-src"]);
    let has_exception = section.lines_of("http-request").any(|line| line.word(1) == "allow");
    if has_exception {
        return rules;
    }
    for line in &section.lines {
        let is_refusal = match line.word(0) {
            "http-request" => matches!(line.word(1), "deny" | "reject" | "silent-drop" | "tarpit"),
            "tcp-request" => matches!((line.word(1), line.word(2)), ("connection" | "content", "reject")),
            _ => false,
        };
        let Some((terms, places)) = terms(section, &line.words).filter(|_| is_refusal) else { continue };
        let listed = |networks: &[String]| {
            let networks: Vec<String> = networks.iter().map(|network| format!("\"{network}\"")).collect();
            networks.join(" ")
        };
        match terms.as_slice() {
            [Term { is_negated: false, criterion: Criterion::Source(networks) }] if !is_behind_another => {
                rules.denied.push(format!("deny {}", listed(networks)));
            }
            [Term { is_negated: true, criterion: Criterion::Source(networks) }]
                if !is_behind_another && rules.allowed.is_none() =>
            {
                rules.allowed = Some(format!("allow {}", listed(networks)));
            }
            [Term { is_negated: false, criterion: Criterion::Path(patterns, prefixes) }] => {
                rules.refused.push(route(patterns, prefixes, line.start(), OutlinedAnswer::status(403)));
            }
            // Some may come in there, and in these lines nobody.
            [Term { is_negated: false, criterion: Criterion::Path(patterns, prefixes) }, _]
            | [_, Term { is_negated: false, criterion: Criterion::Path(patterns, prefixes) }] => {
                let mut route = route(patterns, prefixes, line.start(), OutlinedAnswer::status(403));
                route.origin.differ(line.start(), "nobody comes in there by these lines: `allow` in the route lets some in");
                rules.refused.push(route);
            }
            _ => continue,
        }
        rules.origin.carry(line.start());
        rules.origin.carry_all(places);
    }
    rules
}

/// `redirect scheme https if !{ ssl_fc }`
fn to_https(section: &Section) -> Option<&HaProxyLine> {
    section.lines.iter().find(|line| {
        let is_redirect = line.word(0) == "redirect" || (line.word(0) == "http-request" && line.word(1) == "redirect");
        let is_scheme = line.words.windows(2).any(|pair| pair[0] == "scheme" && pair[1] == "https");
        let is_of_all = match terms(section, &line.words).as_ref().map(|(terms, _)| terms.as_slice()) {
            Some([]) => true,
            Some([term]) => term.is_negated && term.criterion == Criterion::OverTls,
            Some(_) | None => false,
        };
        is_redirect && is_scheme && is_of_all
    })
}

/// The doors of a `bind`, with the place of the line.
fn doors(bind: &HaProxyLine) -> Vec<(Door, usize)> {
    let is_tls = bind.options(2).any(|(option, _, _)| option == "ssl");
    let addresses = bind.word(1).split(',');
    addresses
        .filter_map(|address| {
            let address = address.trim_start_matches("ipv4@").trim_start_matches("ipv6@");
            let (host, port) = address.rsplit_once(':')?;
            // A range of ports is more than one line.
            Door::parse(&format!("{host}:{}", port.parse::<u16>().ok()?), is_tls)
        })
        .map(|door| (door, bind.start()))
        .collect()
}
