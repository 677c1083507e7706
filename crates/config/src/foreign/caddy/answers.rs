//! What directives of a Caddyfile answer, and what their matchers are about.

use super::CaddySite;
use super::pools::group;
use crate::foreign::accounts::Origin;
use crate::foreign::braces::{Statement, has_within, named, value};
use crate::foreign::outline::{CLOSED, OutlinedAnswer, OutlinedRoute, below, is_plain, upstream};
use crate::forms::parse_network;

/// What a directive is about.
#[derive(Debug, Clone)]
pub enum CaddyMatch {
    All,
    /// Patterns, and the prefixes by bytes among them.
    Paths(Vec<String>, Vec<(String, String)>),
    Hosts(Vec<String>),
    /// As they stand behind `match`, beside patterns of paths.
    Conditions(Vec<String>, Vec<String>),
    /// Clients of these networks, or all others.
    Clients {
        networks: Vec<String>,
        is_negated: bool,
    },
    /// Conditions that are not understood.
    Other,
}

/// Paths that a block changes before its matchers look at them.
#[derive(Debug, Clone, Default)]
pub struct Rewritten {
    /// Whether any may be.
    is_any: bool,
    /// Single ones, and what they become.
    paths: Vec<String>,
}

impl Rewritten {
    /// What looks for files that are there does not count.
    pub fn of(inside: &[Statement]) -> Rewritten {
        let mut rewritten = Rewritten::default();
        let is_usual = |word: &String| word.starts_with("{path}") || word.starts_with("/index.");
        let is_path = |word: &String| word.starts_with('/') && !word.contains(['*', '{', '?']);
        for statement in inside {
            match (statement.name(), statement.arguments()) {
                ("rewrite", [from, to]) if is_path(from) && is_path(to) => rewritten.paths.extend([from.clone(), to.clone()]),
                ("rewrite", _) => rewritten.is_any = true,
                ("uri", words) => rewritten.is_any |= !words.iter().any(|word| word == "query"),
                ("try_files", words) => rewritten.is_any |= !words.iter().all(is_usual),
                // What answers all that comes to it leaves nothing for others.
                ("route", _) if !ANSWERS.iter().any(|name| has_within(statement.inside(), name)) => {
                    rewritten.add(&Rewritten::of(statement.inside()));
                }
                _ => {}
            }
        }
        rewritten
    }

    pub fn add(&mut self, other: &Rewritten) {
        self.is_any |= other.is_any;
        self.paths.extend(other.paths.iter().cloned());
    }

    /// Whether a matcher may look at one of them.
    pub fn is_seen_by(&self, matched: &CaddyMatch) -> bool {
        let patterns = match matched {
            CaddyMatch::Paths(patterns, _) | CaddyMatch::Conditions(patterns, _) => patterns,
            CaddyMatch::All | CaddyMatch::Hosts(_) | CaddyMatch::Clients { .. } | CaddyMatch::Other => return false,
        };
        let takes = |pattern: &String, path: &String| {
            let stem = pattern.trim_end_matches('*').trim_end_matches('/').to_ascii_lowercase();
            pattern.starts_with('~') || path.to_ascii_lowercase().starts_with(&stem)
        };
        patterns.iter().any(|pattern| self.is_any || self.paths.iter().any(|path| takes(pattern, path)))
    }
}

/// Directives that end the search for an answer.
pub const ANSWERS: [&str; 7] = ["abort", "error", "redir", "respond", "reverse_proxy", "php_fastcgi", "file_server"];

/// How early Caddy looks at a directive, wherever it stands.
pub fn rank(name: &str) -> usize {
    const ORDER: [&str; 9] =
        ["redir", "handle", "route", "abort", "error", "respond", "reverse_proxy", "php_fastcgi", "file_server"];
    let name = if name == "handle_path" { "handle" } else { name };
    ORDER.iter().position(|own| *own == name).unwrap_or(ORDER.len())
}

impl CaddySite<'_> {
    pub(super) fn matched(&self, word: &str) -> CaddyMatch {
        if word.starts_with('/') {
            let (mut patterns, mut prefixes) = (Vec::new(), Vec::new());
            pattern(word, &mut patterns, &mut prefixes);
            return CaddyMatch::Paths(patterns, prefixes);
        }
        if !word.starts_with('@') {
            return CaddyMatch::All;
        }
        let Some(matcher) = named(self.all, word).next() else { return CaddyMatch::Other };
        // On its line, or alone in its block.
        let criterion = match (matcher.words.len(), matcher.inside()) {
            (1, [one]) if one.block.is_none() => one.words.as_slice(),
            (1, all) => return conditions(all),
            _ => &matcher.words[1..],
        };
        let is_networks = |words: &[String]| networks(words).is_some();
        match criterion.split_first() {
            Some((name, paths)) if name == "path" && !paths.is_empty() => {
                let (mut patterns, mut prefixes) = (Vec::new(), Vec::new());
                for path in paths {
                    pattern(path, &mut patterns, &mut prefixes);
                }
                CaddyMatch::Paths(patterns, prefixes)
            }
            Some((name, hosts)) if name == "host" && !hosts.is_empty() => CaddyMatch::Hosts(hosts.to_vec()),
            Some((name, [.., regex])) if name == "path_regexp" => CaddyMatch::Paths(vec![format!("~{regex}")], Vec::new()),
            Some((name, networks)) if matches!(name.as_str(), "remote_ip" | "client_ip") && is_networks(networks) => {
                CaddyMatch::Clients { networks: self::networks(networks).unwrap_or_default(), is_negated: false }
            }
            Some((not, [name, networks @ ..]))
                if not == "not" && matches!(name.as_str(), "remote_ip" | "client_ip") && is_networks(networks) =>
            {
                CaddyMatch::Clients { networks: self::networks(networks).unwrap_or_default(), is_negated: true }
            }
            _ => conditions(&[Statement { words: criterion.to_vec(), ..Statement::default() }]),
        }
    }

    /// What answers in a block for all that comes there: the first that does. What comes behind it is never asked, also
    /// where that one is not told.
    pub(super) fn answer(&self, inside: &[Statement], is_literal: bool) -> Option<OutlinedRoute> {
        const IN_ORDER: [&str; 9] =
            ["abort", "error", "redir", "respond", "handle", "route", "reverse_proxy", "php_fastcgi", "file_server"];
        let is_all = |statement: &&Statement| matches!(self.matched(statement.argument()), CaddyMatch::All);
        // Within a `route` they are looked at as they stand.
        let written = inside.iter().filter(|own| is_literal && IN_ORDER.contains(&own.name()));
        let sorted = IN_ORDER.iter().flat_map(|name| named(inside, name)).filter(|_| !is_literal);
        for statement in written.chain(sorted).filter(is_all) {
            if !matches!(statement.name(), "handle" | "route") {
                let arguments = statement.arguments();
                let arguments = if statement.argument() == "*" { &arguments[1..] } else { arguments };
                return self.of_directive(statement, inside, arguments);
            }
            let route = self.answer(statement.inside(), statement.name() == "route");
            if let Some(mut route) = route {
                route.origin.carry(statement.start());
                return Some(route);
            }
            if ANSWERS.iter().any(|name| has_within(statement.inside(), name)) {
                return None;
            }
        }
        None
    }

    pub(super) fn of_directive(
        &self,
        statement: &Statement,
        inside: &[Statement],
        arguments: &[String],
    ) -> Option<OutlinedRoute> {
        let mut origin = Origin::default();
        origin.carry(statement.start());
        if statement.name() == "abort" {
            origin.differ(statement.start(), CLOSED);
        }
        let answer = match statement.name() {
            "reverse_proxy" => {
                let mut answer = OutlinedAnswer::proxy(group(statement, arguments)?);
                for uri in named(inside, "uri").filter(|uri| uri.argument() == "strip_prefix") {
                    take_off(&mut answer, uri.arguments().last().map_or("", String::as_str));
                    origin.carry(uri.start());
                }
                answer
            }
            "php_fastcgi" => {
                let server = upstream(&arguments.first()?.replace("unix//", "unix:/"))?;
                let root = self.root(inside, &mut origin);
                let files = named(inside, "file_server").chain(named(self.all, "file_server")).next();
                origin.carry_all(files.map(Statement::start));
                OutlinedAnswer::Scripts {
                    server,
                    fallback: root.is_some().then(|| "/index.php".into()),
                    is_static: root.is_some() && files.is_some(),
                    root,
                }
            }
            "file_server" => {
                let own = value(statement.inside(), "root").map(str::to_owned);
                named(statement.inside(), "root").for_each(|root| origin.carry(root.start()));
                let root = own.or_else(|| self.root(inside, &mut origin))?;
                let tries = named(inside, "try_files").next();
                let last = tries.and_then(|tries| tries.arguments().last());
                let fallback = last.filter(|last| last.starts_with('/') && !last.contains('{')).cloned();
                if let Some(tries) = tries {
                    let is_usual = |word: &String| matches!(word.as_str(), "{path}" | "{path}/" | "{path}/index.html");
                    let is_all = tries.arguments().iter().all(|word| is_usual(word) || Some(word) == fallback.as_ref());
                    if is_all {
                        origin.carry(tries.start());
                    } else {
                        origin.differ(tries.start(), "not all of what it tries is tried here: `files … try=` takes more");
                    }
                }
                let is_listing = arguments.iter().any(|word| word == "browse");
                OutlinedAnswer::Files { root, strip: None, fallback, is_listing, is_tried: false }
            }
            "respond" => responded(arguments)?,
            "redir" => redirected(arguments)?,
            "abort" => OutlinedAnswer::status(403),
            "error" => {
                let status = arguments.iter().find_map(|word| word.parse().ok()).unwrap_or(500);
                OutlinedAnswer::status(status)
            }
            _ => return None,
        };
        Some(OutlinedRoute { origin, ..OutlinedRoute::of(Vec::new(), answer) })
    }

    fn root(&self, inside: &[Statement], origin: &mut Origin) -> Option<String> {
        let root = named(inside, "root").chain(named(self.all, "root")).next()?;
        let folder = root.arguments().last()?;
        origin.carry(root.start());
        (folder.starts_with('/') && !folder.contains('{')).then(|| folder.clone())
    }
}

/// Networks as we write them; `None` when one of the words is none.
fn networks(words: &[String]) -> Option<Vec<String>> {
    const PRIVATE: [&str; 6] = ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"];
    let mut all = Vec::new();
    for word in words {
        match word.as_str() {
            "private_ranges" => all.extend(PRIVATE.map(str::to_owned)),
            word if parse_network(word).is_ok() => all.push(word.to_owned()),
            _ => return None,
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Lines of a matcher, all of which have to hold.
fn conditions(lines: &[Statement]) -> CaddyMatch {
    let mut patterns = Vec::new();
    let mut prefixes = Vec::new();
    let mut conditions = Vec::new();
    let is_upgrade = |line: &Statement| line.name() == "header" && line.argument().eq_ignore_ascii_case("Upgrade");
    for line in lines {
        let has_text = |text: &str| !text.contains('"') && !text.contains('\\') && text.trim_matches('*').find('*').is_none();
        match (line.name(), line.arguments()) {
            ("path", paths) if !paths.is_empty() => {
                for path in paths {
                    pattern(path, &mut patterns, &mut prefixes);
                }
            }
            ("method", methods) if !methods.is_empty() => conditions.push(format!("method=\"{}\"", methods.join(","))),
            ("remote_ip" | "client_ip", words) if networks(words).is_some() => {
                conditions.push(format!("client=\"{}\"", networks(words).unwrap_or_default().join(",")));
            }
            // What goes with an upgrade needs no condition of its own.
            ("header", [name, _]) if name.eq_ignore_ascii_case("Connection") && lines.iter().any(is_upgrade) => {}
            ("header", [name, value]) if has_text(value) && is_plain(name) => {
                // What is found anywhere is an expression here.
                let value = match value.strip_prefix('*').and_then(|rest| rest.strip_suffix('*')) {
                    Some(part) => format!("~{}", regex_syntax::escape(part)),
                    None => value.clone(),
                };
                conditions.push(format!("header=\"{name}: {value}\""));
            }
            ("query", [pair]) if has_text(pair) => conditions.push(format!("query=\"{pair}\"")),
            _ => return CaddyMatch::Other,
        }
    }
    if conditions.is_empty() {
        return if patterns.is_empty() { CaddyMatch::Other } else { CaddyMatch::Paths(patterns, prefixes) };
    }
    CaddyMatch::Conditions(patterns, conditions)
}

/// `/api/*` is below a path; `/api*` is whatever begins so, of which that is meant.
fn pattern(path: &str, patterns: &mut Vec<String>, prefixes: &mut Vec<(String, String)>) {
    match path.strip_suffix('*') {
        Some("" | "/") => patterns.push("~^/".to_owned()),
        Some(stem) if !stem.contains('*') && stem.starts_with('/') => {
            patterns.push(below(stem));
            if !stem.ends_with('/') {
                prefixes.push((below(stem), stem.to_owned()));
            }
        }
        // Letters are the same large and small there.
        _ if path.contains('*') => patterns.push(format!("~(?i)^{}$", regex_syntax::escape(path).replace("\\*", ".*"))),
        _ => patterns.push(path.to_owned()),
    }
}

pub fn take_off(answer: &mut OutlinedAnswer, prefix: &str) {
    let prefix = prefix.trim_end_matches('*').trim_end_matches('/');
    if let OutlinedAnswer::Proxy { strip, .. } | OutlinedAnswer::Files { strip, .. } = answer
        && prefix.len() > 1
    {
        *strip = Some(prefix.to_owned());
    }
}

/// `"text" 200`, `404`
fn responded(arguments: &[String]) -> Option<OutlinedAnswer> {
    let status = arguments.iter().find_map(|word| word.parse::<u16>().ok().filter(|status| (200..=599).contains(status)));
    let body = arguments.iter().find(|word| word.parse::<u16>().is_err()).filter(|body| !body.contains(['{', '}'])).cloned();
    let is_said = status.is_some() || body.is_some();
    is_said.then(|| OutlinedAnswer::Respond { status: status.unwrap_or(200), body })
}

/// `https://www.example.com{uri} permanent`
fn redirected(arguments: &[String]) -> Option<OutlinedAnswer> {
    let to = arguments.first()?;
    let status = match arguments.get(1).map(String::as_str) {
        Some("permanent") => 301,
        Some("temporary") | None => 302,
        Some("html") => return None,
        Some(status) => status.parse().ok()?,
    };
    let to = to.replace("{http.request.uri}", "{uri}").replace("{labels.", "{").replace("{http.request.host}", "{host}");
    let is_known = to
        .split('{')
        .skip(1)
        .all(|part| ["uri}", "host}", "path}", "scheme}", "query}"].iter().any(|known| part.starts_with(known)));
    is_known.then_some(OutlinedAnswer::Redirect { to, status })
}
