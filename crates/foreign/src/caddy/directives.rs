//! Directives of a Caddyfile as handlers, in the order in which Caddy asks them.

use super::chain::{Act, ChainAnswer, ChainOp, OF_CONDITION, When};
use super::headers::{self, Whose};
use super::matchers;
use super::order::{DirectiveMatcher, OrderedDirective, sorted};
use super::paths::PathChange;
use super::placeholders::{template, with_groups};
use super::serving::{NO_LOG, ServedFolder};
use super::{auth, files, pools, words};
use crate::accounts::Origin;
use crate::braces::{Statement, named, value};
use crate::matching::{Asked, Matching};
use crate::outline::{CLOSED, OutlinedAnswer};
use std::collections::BTreeSet;
use tidegate_kdl::quoted;

/// Groups of which the first alone is asked.
const REWRITES: u32 = 0;
const HANDLES: u32 = 1;
const ROOTS: u32 = 2;
pub const SITES: u32 = 3;

const METRICS: &str = "metrics are not answered by sites here, but by `admin`: `/metrics` on `127.0.0.1:9180` without a word";
const STAYS_OPEN: &str = "the connection stays open for the next request";
const DEPTH_MAX: usize = 16;

/// What is known around a block.
pub struct DirectiveReader<'s> {
    /// Named matchers of the blocks around, the innermost last.
    scopes: Vec<&'s [Statement]>,
    /// `order` of the global options: a directive, and how it comes to stand.
    order: Vec<String>,
    /// Whether errors have pages.
    has_pages: bool,
}

/// A directive while it is read.
#[derive(Debug, Clone)]
pub struct Found {
    pub when: When,
    pub origin: Origin,
    group: Option<u32>,
}

impl Found {
    pub fn of(statement: &Statement) -> Found {
        let origin = Origin { within: words::places([statement]), ..Origin::default() };
        Found { when: When::If(Matching::always()), origin, group: None }
    }

    pub fn act(self, act: Act) -> ChainOp {
        ChainOp { when: self.when, act, group: self.group, origin: self.origin }
    }

    fn answer(self, answer: OutlinedAnswer) -> Vec<ChainOp> {
        vec![self.act(Act::Answer(ChainAnswer::Ready(Vec::new(), answer)))]
    }

    fn carry(mut self, at: usize) -> Found {
        self.origin.carry(at);
        self
    }
}

impl<'s> DirectiveReader<'s> {
    pub fn new(order: Vec<String>) -> DirectiveReader<'s> {
        DirectiveReader { scopes: Vec::new(), order, has_pages: false }
    }

    /// The handlers of a block. In a `route` they are asked as they stand.
    pub fn ops(&mut self, block: &'s [Statement], is_literal: bool) -> Vec<ChainOp> {
        if self.scopes.len() > DEPTH_MAX {
            return Vec::new();
        }
        if self.scopes.is_empty() {
            self.has_pages = named(block, "handle_errors").next().is_some();
        }
        self.scopes.push(block);
        let mut all: Vec<(OrderedDirective, Vec<ChainOp>)> = Vec::new();
        for statement in block.iter().filter(|statement| !statement.name().starts_with('@')) {
            all.push(self.ranked(statement));
        }
        if !is_literal {
            all = sorted(all);
        }
        self.scopes.pop();
        all.into_iter().flat_map(|(_, ops)| ops).collect()
    }

    fn ranked(&mut self, statement: &'s Statement) -> (OrderedDirective, Vec<ChainOp>) {
        let (when, words) = self.split(statement);
        let has_matcher = !matches!(&when, When::If(when) if when.is_always());
        let matcher = self.directive_matcher(statement, words.len() < statement.arguments().len());
        let mut ops = self.directive(statement, words);
        for op in &mut ops {
            op.origin.within.extend(self.place_of_matcher(statement));
            op.origin.carry_all(self.place_of_matcher(statement));
            if has_matcher {
                op.when = both(&op.when, &when);
            }
        }
        (OrderedDirective::of(statement, matcher, &self.order), ops)
    }

    /// The matcher of a directive, as far as directives of one name stand in its order; it is its first word where that
    /// `is_first`.
    fn directive_matcher(&self, statement: &Statement, is_first: bool) -> DirectiveMatcher {
        match statement.argument() {
            _ if statement.name() == "try_files" => DirectiveMatcher::Other,
            _ if !is_first => DirectiveMatcher::None,
            "*" => DirectiveMatcher::None,
            name if name.starts_with('@') => {
                self.matcher(name).map_or(DirectiveMatcher::Other, |matcher| DirectiveMatcher::of(&matchers::criteria(matcher)))
            }
            path => DirectiveMatcher::Path(path.to_owned()),
        }
    }

    /// The condition of a directive, and the words behind it.
    fn split(&self, statement: &'s Statement) -> (When, &'s [String]) {
        let words = statement.arguments();
        let always = || When::If(Matching::always());
        // What changes paths takes one that stands alone for the new one.
        let is_value = words.len() == 1 && matches!(statement.name(), "rewrite" | "root" | "redir" | "uri");
        match words.first().map(String::as_str) {
            Some("*") => (always(), &words[1..]),
            Some(path) if path.starts_with('/') && !is_value && takes_matcher(statement.name()) => {
                let when = matchers::paths(&words[..1]).map_or(When::Unknown(matchers::why_not(&words[..1])), When::If);
                (when, &words[1..])
            }
            Some(name) if name.starts_with('@') => {
                let matcher = self.matcher(name);
                (matcher.map_or(When::Unknown(OF_CONDITION), matchers::named), &words[1..])
            }
            Some(_) | None => (always(), words),
        }
    }

    fn matcher(&self, name: &str) -> Option<&'s Statement> {
        self.scopes.iter().rev().find_map(|block| named(block, name).next())
    }

    fn place_of_matcher(&self, statement: &Statement) -> BTreeSet<usize> {
        let matcher = Some(statement.argument()).filter(|name| name.starts_with('@')).and_then(|name| self.matcher(name));
        matcher.map(|matcher| words::places([matcher])).unwrap_or_default()
    }

    /// The expression that a placeholder such as `{re.name.1}` is about.
    fn expression(&self, statement: &Statement, name: Option<&str>) -> Option<String> {
        let matcher = self.matcher(statement.argument())?;
        let lines = matchers::criteria(matcher);
        let own = lines.iter().find(|line| line.name() == "path_regexp")?;
        let regex = match (own.arguments(), name) {
            ([regex] | [_, regex], None) => regex,
            ([own, regex], Some(name)) if own == name => regex,
            ([regex], Some(name)) if Some(name) == statement.argument().strip_prefix('@') => regex,
            _ => return None,
        };
        crate::spelling::sent_expression(regex)
    }

    fn directive(&mut self, statement: &'s Statement, words: &'s [String]) -> Vec<ChainOp> {
        let at = statement.start();
        let mut found = Found::of(statement);
        match statement.name() {
            "root" => {
                let folder = ServedFolder::of(words.last().map_or("", String::as_str));
                let is_known = matches!(folder, ServedFolder::Known(_));
                let found = Found { group: Some(ROOTS), ..if is_known { found.carry(at) } else { found } };
                vec![found.act(Act::Root(folder))]
            }
            "header" => of_fields(Whose::Answer, statement, words),
            "request_header" => of_fields(Whose::Request, statement, words),
            "encode" => encode(statement, words),
            "basic_auth" | "basicauth" => auth::basic_auth(statement, words),
            "forward_auth" => auth::forward_auth(statement, words),
            "rate_limit" => auth::rate_limit(statement),
            "request_body" => request_body(statement),
            "redir" => self.redirected(statement, words),
            "rewrite" => self.rewritten(statement, words),
            "uri" => uri(statement, words),
            "try_files" => tries(statement, words),
            "handle" | "handle_path" | "route" => self.within(statement),
            "abort" => {
                found.origin.differ(at, CLOSED);
                found.carry(at).answer(OutlinedAnswer::status(403))
            }
            "error" => {
                let status = words.iter().find_map(|word| word.parse().ok()).unwrap_or(500);
                if !(400..=599).contains(&status) {
                    return vec![found.act(Act::Unsaid)];
                }
                // The text of an error is for the log, and for pages that show it.
                found.carry(at).answer(OutlinedAnswer::status(status))
            }
            "respond" => respond(statement, words, self.has_pages),
            "metrics" => {
                let mut found = found.carry(at);
                found.origin.differ(at, METRICS);
                found.answer(OutlinedAnswer::status(404))
            }
            "reverse_proxy" => pools::reverse_proxy(statement, words),
            "php_fastcgi" => files::scripts(statement, words),
            "file_server" => files::file_server(statement, words),
            "log_skip" | "skip_log" if words.is_empty() => vec![found.carry(at).act(Act::Step(NO_LOG.into()))],
            "method" => vec![found.act(Act::Unsaid)],
            "intercept" => match super::responses::pages(statement.inside(), &mut found.origin) {
                Some(pages) if !pages.is_empty() => {
                    found.origin.carry(at);
                    pages.into_iter().map(|page| found.clone().act(Act::Step(page))).collect()
                }
                Some(_) | None => vec![found.act(Act::Nothing)],
            },
            // Where it is, whose it is, and what is written about it is said of all of a site.
            "tls" | "log" | "bind" | "handle_errors" | "log_skip" | "skip_log" | "log_name" | "log_append" | "fs" => Vec::new(),
            name if words::is_known(name) => vec![found.act(Act::Nothing)],
            // What a module does is not known, and may be to keep clients out.
            _ => vec![found.act(Act::Unsaid)],
        }
    }

    fn within(&mut self, statement: &'s Statement) -> Vec<ChainOp> {
        let mut found = Found::of(statement);
        found.origin = Origin::default();
        found.origin.carry(statement.start());
        let mut inner = self.ops(statement.inside(), statement.name() == "route");
        if statement.name() != "route" {
            found.group = Some(HANDLES);
        }
        if statement.name() == "handle_path" {
            let prefix = statement.argument().trim_end_matches('*').trim_end_matches('/');
            if prefix.len() > 1 && prefix.starts_with('/') {
                let strip = Found { origin: Origin::default(), ..found.clone() };
                let prefix = crate::spelling::encoded(prefix);
                inner.insert(0, Found { group: None, ..strip }.act(Act::Path(PathChange::Strip(prefix))));
            }
        }
        vec![found.act(Act::Within(inner))]
    }

    /// `https://www.example.com{uri} permanent`
    fn redirected(&self, statement: &Statement, words: &[String]) -> Vec<ChainOp> {
        let found = Found::of(statement);
        let status = match words.get(1).map(String::as_str) {
            Some("permanent") => Some(301),
            Some("temporary") | None => Some(302),
            Some(status) => status.parse().ok().filter(|status| (301..=308).contains(status)),
        };
        let Some((to, status)) = words.first().zip(status) else { return vec![found.act(Act::Unsaid)] };
        if let Some((grouped, name)) = with_groups(to) {
            let regex = self.expression(statement, name.as_deref());
            let (place, path) = match grouped.find("://").map(|at| at + 3) {
                Some(behind) => {
                    let slash = grouped[behind..].find('/').map_or(grouped.len(), |at| behind + at);
                    grouped.split_at(slash)
                }
                None => ("", grouped.as_str()),
            };
            let steps = regex
                .zip(template(path))
                .filter(|_| path.starts_with('/'))
                .map(|(regex, path)| format!("rewrite {} {}", quoted(&format!("~{regex}")), quoted(&path)));
            let place = template(&place.replace("$$", "$")).filter(|place| !place.contains("$1"));
            let Some((step, place)) = steps.zip(place) else { return vec![found.act(Act::Unsaid)] };
            let answer = OutlinedAnswer::Redirect { to: format!("{place}{{path}}"), status };
            let found = found.carry(statement.start());
            return vec![found.act(Act::Answer(ChainAnswer::Ready(vec![step], answer)))];
        }
        match template(to) {
            Some(to) if to.starts_with(['/', '{']) || to.contains("://") => {
                found.carry(statement.start()).answer(OutlinedAnswer::Redirect { to, status })
            }
            Some(_) | None => vec![found.act(Act::Unsaid)],
        }
    }

    fn rewritten(&self, statement: &Statement, words: &[String]) -> Vec<ChainOp> {
        let found = Found { group: Some(REWRITES), ..Found::of(statement) };
        let Some(to) = words.first() else { return vec![found.act(Act::Unsaid)] };
        let at = statement.start();
        if let Some((grouped, name)) = with_groups(to) {
            let regex = self.expression(statement, name.as_deref());
            return vec![match regex.zip(template(&grouped)).filter(|_| grouped.starts_with('/')) {
                Some((regex, to)) => {
                    let line = format!("rewrite {} {}", quoted(&format!("~{regex}")), quoted(&to));
                    found.carry(at).act(Act::Path(PathChange::Line(line)))
                }
                None => found.act(Act::Unsaid),
            }];
        }
        // `?{query}` behind a path is the query as it is, which stays anyway.
        let to = to.strip_suffix("?{query}").unwrap_or(to);
        match template(to) {
            Some(path) if to.starts_with('/') && !to.contains('{') => {
                vec![found.carry(at).act(Act::Path(PathChange::To(path)))]
            }
            Some(path) if path.starts_with('/') || path.starts_with("{path}") || path.starts_with("{uri}") => {
                let line = format!("rewrite \"~^\" {}", quoted(&path));
                vec![found.carry(at).act(Act::Path(PathChange::Line(line)))]
            }
            Some(_) | None => vec![found.act(Act::Unsaid)],
        }
    }
}

/// Whether a path behind its name is what it is for.
fn takes_matcher(name: &str) -> bool {
    !matches!(name, "try_files" | "tls" | "bind" | "log_name" | "import")
}

pub fn both(one: &When, two: &When) -> When {
    match (one, two) {
        (When::If(one), When::If(two)) => one.and(two).map_or(When::Unknown(OF_CONDITION), When::If),
        (When::File { also, is_negated }, When::If(more)) | (When::If(more), When::File { also, is_negated }) => {
            also.and(more).map_or(When::Unknown(OF_CONDITION), |also| When::File { also, is_negated: *is_negated })
        }
        (When::Unknown(why), _) | (_, When::Unknown(why)) => When::Unknown(why),
        (When::File { .. }, When::File { .. }) => When::Unknown(OF_CONDITION),
    }
}

fn of_fields(whose: Whose, statement: &Statement, words: &[String]) -> Vec<ChainOp> {
    let changes = headers::changes(whose, statement, words);
    let found = Found::of(statement);
    let op = |change: headers::FieldChange| {
        let found = Found { origin: change.origin, ..found.clone() };
        let is_unsaid = change.is_unsaid && whose == Whose::Request;
        match change.line {
            line if !line.is_empty() => found.act(Act::Change(line)),
            _ if is_unsaid => found.act(Act::Unsaid),
            _ => found.act(Act::Nothing),
        }
    };
    changes.into_iter().map(op).collect()
}

fn encode(statement: &Statement, words: &[String]) -> Vec<ChainOp> {
    const LEVELED: &str = "how hard each coding tries is said in its own way there: `level=` is for all of them";
    let mut found = Found::of(statement).carry(statement.start());
    let mut codings: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut properties = String::new();
    for line in statement.inside() {
        let at = line.start();
        match line.name() {
            "zstd" | "gzip" | "br" => {
                codings.push(line.name());
                found.origin.carry(at);
                if !line.argument().is_empty() {
                    found.origin.differ(at, LEVELED);
                }
            }
            "minimum_length" => {
                if let Ok(bytes) = line.argument().parse::<u32>() {
                    properties.push_str(&format!(" min-size={bytes}"));
                    found.origin.carry(at);
                }
            }
            "match" => {
                if let Some(types) = types_of(line) {
                    properties.push_str(&format!(" types={}", quoted(&types)));
                    found.origin.carry_all(words::places([line]));
                }
            }
            _ => {}
        }
    }
    let known: Vec<String> =
        codings.iter().filter(|coding| matches!(**coding, "zstd" | "gzip" | "br")).map(|one| quoted(one)).collect();
    let known = if known.is_empty() { "\"zstd\" \"gzip\"".to_owned() } else { known.join(" ") };
    vec![found.act(Act::Step(format!("compress {known}{properties}")))]
}

/// `header Content-Type text/*` lines.
fn types_of(line: &Statement) -> Option<String> {
    let lines = matchers::criteria(line);
    let mut types = Vec::new();
    // Errors are compressed alike.
    for line in lines.iter().filter(|line| line.name() != "status") {
        match line.arguments() {
            [field, kind] if line.name() == "header" && field.eq_ignore_ascii_case("content-type") => {
                let kind = kind.trim_end_matches('*').trim_end_matches(';');
                let kind = if kind.ends_with('/') { format!("{kind}*") } else { kind.to_owned() };
                let is_type = kind.contains('/') && kind.chars().all(|c| c.is_ascii_alphanumeric() || "/+.-*".contains(c));
                types.push(Some(kind).filter(|_| is_type)?);
            }
            _ => return None,
        }
    }
    (!types.is_empty()).then(|| types.join(","))
}

fn request_body(statement: &Statement) -> Vec<ChainOp> {
    let mut found = Found::of(statement).carry(statement.start());
    let Some(size) = named(statement.inside(), "max_size").next() else {
        return vec![Found::of(statement).act(Act::Nothing)];
    };
    match bytes(size.argument()) {
        Some(written) => {
            found.origin.carry(size.start());
            vec![found.act(Act::Step(format!("body-limit {written}")))]
        }
        None => vec![found.act(Act::Nothing)],
    }
}

/// A size as we write it.
pub fn bytes(text: &str) -> Option<String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let of_one: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "ki" | "kib" => 1024.0,
        "mi" | "mib" => 1024.0 * 1024.0,
        "gi" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "ti" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let total = number * of_one;
    if !(0.0..=1e15).contains(&total) {
        return None;
    }
    let total = total as u64;
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    let whole = units.iter().filter(|(name, _)| *name != "kB").find(|(_, one)| total >= *one && total.is_multiple_of(*one));
    Some(whole.map_or_else(|| total.to_string(), |(name, one)| format!("\"{}{name}\"", total / one)))
}

fn uri(statement: &Statement, words: &[String]) -> Vec<ChainOp> {
    const ONCE: &str = "where it stands in the path several times, one of them is replaced here";
    let mut found = Found::of(statement);
    let at = statement.start();
    let line = |line: String| PathChange::Line(line);
    let change = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["strip_prefix", prefix] if prefix.len() > 1 && !prefix.contains('{') => {
            let prefix = prefix.trim_end_matches('/');
            Some(PathChange::Strip(if prefix.starts_with('/') { prefix.to_owned() } else { format!("/{prefix}") }))
        }
        ["strip_suffix", suffix] if !suffix.contains('{') => {
            let regex = format!("~^(.*){}$", regex_syntax::escape(suffix));
            Some(line(format!("rewrite {} \"$1\"", quoted(&regex))))
        }
        ["replace", old, new]
            if !old.contains('{')
                && !new.contains(['{', '?'])
                && !new.starts_with(|c: char| c.is_ascii_digit())
                && !old.contains('?') =>
        {
            found.origin.differ(at, ONCE);
            let regex = format!("~^(.*?){}(.*)$", regex_syntax::escape(old));
            let to = format!("$1{}$2", new.replace('$', "$$"));
            Some(line(format!("rewrite {} {}", quoted(&regex), quoted(&to))))
        }
        ["path_regexp", regex, new] if !new.contains('{') => {
            let bare = regex.strip_prefix('^').unwrap_or(regex);
            let is_whole = regex.starts_with('^') && (bare.ends_with('$') || bare.ends_with(".*") || bare.ends_with("(.*)"));
            is_whole.then(|| line(format!("rewrite {} {}", quoted(&format!("~{regex}")), quoted(new))))
        }
        _ => None,
    };
    match change {
        Some(change) => vec![found.carry(at).act(Act::Path(change))],
        None => vec![found.act(Act::Unsaid)],
    }
}

fn tries(statement: &Statement, words: &[String]) -> Vec<ChainOp> {
    const POLICY: &str = "which of the files is taken is the first that is there, and not chosen by size or age";
    let mut found = Found::of(statement).carry(statement.start());
    for policy in named(statement.inside(), "policy") {
        match policy.argument() {
            "first_exist" | "first_exist_fallback" => found.origin.carry(policy.start()),
            _ => found.origin.differ(policy.start(), POLICY),
        }
    }
    let all: Option<Vec<String>> = words
        .iter()
        .map(|word| {
            let word = word.split('?').next().unwrap_or_default();
            template(&word.replace("{http.request.uri.path}", "{path}")).filter(|word| !word.is_empty())
        })
        .collect();
    match all.filter(|all| !all.is_empty()) {
        Some(all) => vec![found.act(Act::Tries(all))],
        None => vec![Found::of(statement).act(Act::Nothing)],
    }
}

/// `"text" 200`, `404`, and lines of a block.
fn respond(statement: &Statement, words: &[String], has_pages: bool) -> Vec<ChainOp> {
    const EMPTY: &str =
        "an answer without a text gets the page of `handle_errors` here, and there none: it has an empty line for a text";
    let mut found = Found::of(statement);
    let at = statement.start();
    let (body, status) = match words {
        [] => (None, None),
        [one] if one.parse::<u16>().is_ok() && one.len() == 3 => (None, Some(one.clone())),
        [body] => (Some(body.clone()), None),
        [body, status, ..] => (Some(body.clone()), Some(status.clone())),
    };
    let body = body.or_else(|| value(statement.inside(), "body").map(str::to_owned));
    for line in statement.inside() {
        match line.name() {
            "body" => found.origin.carry(line.start()),
            "close" => found.origin.differ(line.start(), STAYS_OPEN),
            _ => {}
        }
    }
    // What the environment has may be a status.
    let is_open = matches!(words, [one] if one.starts_with("{$") && one.ends_with('}'));
    let status = status.map_or(Some(200), |status| status.parse::<u16>().ok().filter(|status| (200..=599).contains(status)));
    let status = status.filter(|_| !is_open);
    let Some(status) = status else { return vec![found.act(Act::Unsaid)] };
    let Some(body) = body.filter(|body| !body.is_empty()) else {
        if has_pages && status >= 400 {
            found.origin.differ(at, EMPTY);
            return found.answer(OutlinedAnswer::Respond { status, body: Some("\n".to_owned()) });
        }
        return found.carry(at).answer(OutlinedAnswer::Respond { status, body: None });
    };
    let Some(told) = template(&body) else { return vec![found.act(Act::Unsaid)] };
    let body = body.trim();
    let is_json = (body.starts_with('{') && body.ends_with('}') && body.contains("\":"))
        || (body.starts_with("[{") && body.ends_with("}]"));
    if is_json {
        let text = format!("respond {status} body={} content-type=\"application/json\"", quoted(&told));
        return found.carry(at).answer(OutlinedAnswer::line(text));
    }
    found.carry(at).answer(OutlinedAnswer::Respond { status, body: Some(told) })
}

/// Hosts that alone are asked for in these lines, where there is nothing else.
pub fn only_hosts(when: &When) -> Option<Vec<String>> {
    match when {
        When::If(Matching { clauses }) => match clauses.as_slice() {
            [clause] => match clause.as_slice() {
                [one] if !one.is_negated => match &one.asked {
                    Asked::Hosts(hosts) => Some(hosts.clone()),
                    Asked::Paths(_) | Asked::Condition(_) => None,
                },
                _ => None,
            },
            _ => None,
        },
        When::File { .. } | When::Unknown(_) => None,
    }
}
