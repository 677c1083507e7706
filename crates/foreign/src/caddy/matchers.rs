//! What matchers of a Caddyfile are about.

use super::addresses::pattern_of_host;
use super::chain::{OF_CONDITION, When};
use crate::braces::Statement;
use crate::matching::{Asked, AskedLiteral, Matching, PathPattern};
use crate::outline::{beginning_with, is_plain};
use crate::spelling;
use crate::written::host_condition;
use tidegate_kdl::quoted;
use tidegate_model::parse_network;

const ENCODED: &str = "a part of its path is written encoded, and so is asked for as it was sent: routes see `%2F` and `%40` as `path-policy` says, and letters, \
                       digits, `-`, `.`, `_` and `~` never encoded: say it by a `route` for the path that is meant";

/// Which matchers ask for an address that is another one here.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeftMatchers {
    pub of_connections: bool,
    pub of_clients: bool,
}

impl LeftMatchers {
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [(self.of_connections, "remote_ip"), (self.of_clients, "client_ip")];
        all.into_iter().filter_map(|(is_left, name)| is_left.then_some(name))
    }
}

/// Behind the name of a matcher that is not to be known.
const LEFT: &str = "_of_another";
const OF_CONNECTION: &str = "it is about the address of the connection, and behind proxies that are trusted `match client=` is about the one that they \
     name, as `client_ip` is: say that where it is what you mean";
const OF_CLIENT: &str = "it is about the address that another proxy names, and who that is, or the fields that it names it in, is not carried: say \
                         who is trusted by `trusted-proxies` in a `listener`, and in which field by `client-ip-header`, and ask `match client=`";

/// Deeper `not` in `not` is not looked at.
const DEPTH_MAX: usize = 8;

/// The lines of a named matcher.
pub fn criteria(matcher: &Statement) -> Vec<Statement> {
    let arguments = matcher.arguments();
    if arguments.is_empty() {
        return matcher.inside().to_vec();
    }
    let starts = matcher.starts.get(1..).unwrap_or_default().to_vec();
    vec![Statement { words: arguments.to_vec(), starts, block: matcher.block.clone() }]
}

pub fn named(matcher: &Statement) -> When {
    all(&criteria(matcher), 0)
}

/// Makes matchers of that name, which ask for the address of a client or of its connection, ones that are not known:
/// what is asked for here is another address.
pub fn leave(statements: &mut [Statement], matcher: &str) {
    let call = format!("{matcher}(");
    for statement in statements {
        for word in &mut statement.words {
            if word == matcher {
                *word = format!("{matcher}{LEFT}");
            } else if word.contains(&call) {
                *word = word.replace(&call, &format!("{matcher}{LEFT}("));
            }
        }
        leave(statement.block.as_deref_mut().unwrap_or_default(), matcher);
    }
}

/// Why a line is no condition.
fn why_left(line: &Statement) -> &'static str {
    let has = |matcher: &str| has_word(line, &format!("{matcher}{LEFT}"));
    if has("remote_ip") {
        OF_CONNECTION
    } else if has("client_ip") {
        OF_CLIENT
    } else {
        why_not(line.words.get(1..).unwrap_or_default())
    }
}

fn has_word(line: &Statement, part: &str) -> bool {
    line.words.iter().any(|word| word.contains(part)) || line.inside().iter().any(|inner| has_word(inner, part))
}

fn all(lines: &[Statement], depth: usize) -> When {
    if depth > DEPTH_MAX || lines.is_empty() {
        return When::Unknown(OF_CONDITION);
    }
    let mut matching = Matching::always();
    let mut file = None;
    // Lines of one word are alternatives of one matcher, but for those that name fields and what is not to be.
    let mut done: Vec<&str> = Vec::new();
    for line in lines {
        if matches!(line.name(), "file" | "try_files") && file.is_none() {
            file = Some(false);
            continue;
        }
        if line.name() == "not" && is_of_files(line) && file.is_none() {
            file = Some(true);
            continue;
        }
        if done.contains(&line.name()) {
            continue;
        }
        let one = match line.name() {
            "path" | "host" | "method" | "remote_ip" | "client_ip" => {
                done.push(line.name());
                let own = crate::braces::named(lines, line.name());
                let ranges = |line: &Statement| {
                    crate::braces::named(line.inside(), "range").flat_map(Statement::arguments).cloned().collect::<Vec<_>>()
                };
                let words: Vec<String> =
                    own.flat_map(|own| own.arguments().iter().cloned().chain(ranges(own)).collect::<Vec<_>>()).collect();
                listed(line.name(), &words)
            }
            "header" => {
                done.push("header");
                fields(lines)
            }
            "not" => not(line, depth),
            _ => of_line(line),
        };
        let Some(both) = one.and_then(|one| matching.and(&one)) else {
            return When::Unknown(why_left(line));
        };
        matching = both;
    }
    match file {
        Some(is_negated) => When::File { also: matching, is_negated },
        None => When::If(matching),
    }
}

/// Why these words are no condition.
pub fn why_not(words: &[String]) -> &'static str {
    if words.iter().any(|word| word.starts_with('/') && word.contains('%')) { ENCODED } else { OF_CONDITION }
}

fn is_of_files(line: &Statement) -> bool {
    line.argument() == "file" || matches!(line.inside(), [one] if one.name() == "file")
}

pub fn listed(name: &str, words: &[String]) -> Option<Matching> {
    match name {
        _ if words.is_empty() => None,
        // What a client says of itself was believed there.
        "remote_ip" if words.iter().any(|word| word == "forwarded") => None,
        "path" => paths(words),
        "host" => {
            let is_name = |host: &String| is_plain(host) && !host.contains('/');
            if !words.iter().all(is_name) {
                return None;
            }
            let patterns: Vec<Option<String>> = words.iter().map(|host| pattern_of_host(host)).collect();
            if patterns.iter().all(Option::is_none) {
                return Some(Matching::of(Asked::Hosts(words.to_vec())));
            }
            // Stars within a name, and addresses of machines.
            let all: Vec<String> =
                patterns.into_iter().zip(words).map(|(own, host)| own.unwrap_or_else(|| host.clone())).collect();
            Some(Matching::condition(host_condition(&all)))
        }
        "method" => Some(Matching::condition(format!("method={}", quoted(&words.join(","))))),
        _ => Some(Matching::condition(format!("client={}", quoted(&networks(words)?.join(","))))),
    }
}

pub fn paths(words: &[String]) -> Option<Matching> {
    let patterns: Option<Vec<PathPattern>> = words.iter().map(|word| pattern(word)).collect();
    let patterns = patterns?;
    let is_all = patterns.iter().any(|pattern| pattern.pattern == "/*");
    Some(if is_all { Matching::always() } else { Matching::of(Asked::Paths(patterns)) })
}

/// `/api/*` is below a path, `/api*` whatever begins so. Letters are the same large and small there, and so are those
/// that are encoded and those that are not.
pub fn pattern(path: &str) -> Option<PathPattern> {
    // Several slashes are one for routes, and to whoever asks for two they are two there.
    if path.contains('{') || path.contains("//") {
        return None;
    }
    if path.contains('%') {
        return encoded_pattern(path);
    }
    let (stem, is_beginning) = match path.strip_suffix('*') {
        Some("" | "/") => return Some(PathPattern::of("/*")),
        Some(stem) => (stem, true),
        None => (path, false),
    };
    if stem.contains('*') || stem.is_empty() || !stem.starts_with('/') {
        return if path.contains('*') { globbed(path) } else { None };
    }
    if spelling::has_two_spellings(stem) {
        let end = if is_beginning { "" } else { "$" };
        return Some(PathPattern::of(format!("~(?i)^{}{end}", spelling::in_either_spelling(stem))));
    }
    // Without a star at the end it is one of single letters.
    if !is_beginning && path.contains(['?', '[', '\\']) {
        return None;
    }
    let sent = spelling::encoded(stem);
    Some(match (is_beginning, sent.ends_with('/')) {
        (true, true) => PathPattern::of(format!("{sent}*")),
        (true, false) => PathPattern::beginning(&sent),
        (false, _) => PathPattern::of(sent),
    })
}

/// A pattern with stars that are not at its end alone. One in front takes all that ends so, one at each end what has it
/// anywhere; any other stands for a part of one segment.
fn globbed(path: &str) -> Option<PathPattern> {
    let inner = path.trim_matches('*');
    let stars = path.len() - inner.len();
    if path.starts_with('*') && !inner.contains('*') && (stars == 1 || (stars == 2 && path.ends_with('*'))) {
        let end = if path.ends_with('*') { "" } else { "$" };
        return Some(PathPattern::of(format!("~(?i){}{end}", spelling::in_either_spelling(inner))));
    }
    if path.contains(['?', '[', '\\']) {
        return None;
    }
    let parts: Vec<String> = path.split('*').map(spelling::in_either_spelling).collect();
    Some(PathPattern::of(format!("~(?i)^{}$", parts.join("[^/]*"))))
}

/// What is written encoded is compared with what was sent, part by part. A star stands for a part of one segment, and
/// an encoded slash at its beginning belongs to it: only as the last segment is that the same here.
fn encoded_pattern(path: &str) -> Option<PathPattern> {
    let (stem, end) = path.strip_suffix("/*").map_or((path, "$"), |folder| (folder, "/[^/]*$"));
    if stem.contains(['?', '[', '\\', '*']) || !path.starts_with('/') {
        return None;
    }
    Some(PathPattern::of(format!("~(?i)^{}{end}", spelling::encoded_part(stem)?)))
}

/// Networks as we write them; `None` when one of the words is none.
pub fn networks(words: &[String]) -> Option<Vec<String>> {
    const PRIVATE: [&str; 6] = ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"];
    let mut all = Vec::new();
    for word in words {
        match word.as_str() {
            "forwarded" => {}
            "private_ranges" => all.extend(PRIVATE.map(str::to_owned)),
            word if parse_network(word).is_ok() => all.push(word.to_owned()),
            _ => return None,
        }
    }
    (!all.is_empty()).then_some(all)
}

fn not(line: &Statement, depth: usize) -> Option<Matching> {
    let arguments = line.arguments();
    let inner = if arguments.is_empty() {
        line.inside().to_vec()
    } else {
        vec![Statement { words: arguments.to_vec(), starts: line.starts[1..].to_vec(), block: line.block.clone() }]
    };
    match all(&inner, depth + 1) {
        When::If(matching) => in_any_case(&matching).not(),
        When::File { .. } | When::Unknown(_) => None,
    }
}

/// With paths as expressions that take them as Caddy does: what is not to be must not be less.
pub fn in_any_case(matching: &Matching) -> Matching {
    let mut exact = matching.clone();
    exact.clauses.iter_mut().flatten().for_each(make_blind);
    exact
}

/// With such expressions for all paths but those that become patterns of routes, which are settled with their routes.
pub fn with_blind_conditions(matching: &Matching) -> Matching {
    let mut exact = matching.clone();
    for clause in &mut exact.clauses {
        let is_of_paths = |literal: &&mut AskedLiteral| matches!(literal.asked, Asked::Paths(_)) && !literal.is_negated;
        clause.iter_mut().filter(is_of_paths).skip(1).for_each(make_blind);
    }
    exact
}

fn make_blind(literal: &mut AskedLiteral) {
    let Asked::Paths(paths) = &mut literal.asked else { return };
    for path in paths.iter_mut().filter(|path| !path.pattern.starts_with('~')) {
        let expression = match (&path.byte_prefix, path.pattern.strip_suffix('*')) {
            (Some(prefix), _) => beginning_with(prefix),
            (None, Some(folder)) => beginning_with(folder),
            (None, None) => format!("{}$", beginning_with(&path.pattern)),
        };
        *path = PathPattern::of(expression.replacen('~', "~(?i)", 1));
    }
}

fn of_line(line: &Statement) -> Option<Matching> {
    let arguments = line.arguments();
    match (line.name(), arguments) {
        ("path_regexp", [.., regex]) => {
            let sent = spelling::sent_expression(regex)?;
            Some(Matching::of(Asked::Paths(vec![PathPattern::of(format!("~{sent}"))])))
        }
        ("header_regexp", [.., field, regex]) if is_plain(field) => {
            Some(Matching::condition(format!("header={}", quoted(&format!("{field}: ~{regex}")))))
        }
        ("query", pairs) if !pairs.is_empty() => query(pairs),
        ("protocol", [protocol]) => match protocol.as_str() {
            "http" | "https" => Some(Matching::condition(format!("scheme=\"{protocol}\""))),
            "grpc" => Some(Matching::condition("header=\"Content-Type: application/grpc*\"")),
            _ => None,
        },
        ("expression", words) => super::expressions::read(&words.join(" ")),
        // An expression in quotes alone.
        (text, []) if text.contains(['(', '=', '{']) => super::expressions::read(text),
        _ => None,
    }
}

/// All keys have to be there, and of each one of its values.
fn query(pairs: &[String]) -> Option<Matching> {
    let mut all = Matching::always();
    let mut keys: Vec<&str> = Vec::new();
    for pair in pairs {
        let (key, _) = pair.split_once('=')?;
        if keys.contains(&key) || key.is_empty() {
            continue;
        }
        keys.push(key);
        let mut any = Matching::never();
        for (_, value) in pairs.iter().filter_map(|pair| pair.split_once('=')).filter(|(own, _)| *own == key) {
            if value.contains('{') || (value != "*" && value.contains('*')) {
                return None;
            }
            let said = if value == "*" { key.to_owned() } else { format!("{key}={value}") };
            any = any.or(&Matching::condition(format!("query={}", quoted(&said))))?;
        }
        all = all.and(&any)?;
    }
    (!keys.is_empty()).then_some(all)
}

/// Values of one field are alternatives, and all fields have to be there.
fn fields(lines: &[Statement]) -> Option<Matching> {
    let of_header: Vec<&Statement> = crate::braces::named(lines, "header").collect();
    let is_upgrade = of_header.iter().any(|line| line.argument().eq_ignore_ascii_case("Upgrade"));
    let mut all = Matching::always();
    let mut done: Vec<String> = Vec::new();
    for line in &of_header {
        let name = line.argument();
        if let Some(absent) = name.strip_prefix('!') {
            all = all.and(&Matching::condition(format!("header={}", quoted(absent))).not()?)?;
            continue;
        }
        if !is_plain(name) || name.is_empty() {
            return None;
        }
        // What goes with an upgrade needs no condition of its own.
        if done.contains(&name.to_ascii_lowercase()) || (name.eq_ignore_ascii_case("Connection") && is_upgrade) {
            continue;
        }
        done.push(name.to_ascii_lowercase());
        let mut any = Matching::never();
        let own = of_header.iter().filter(|own| own.argument().eq_ignore_ascii_case(name));
        for own in own {
            let said = match own.arguments() {
                [_] => name.to_owned(),
                [_, value] if value == "*" => name.to_owned(),
                [_, value] => format!("{name}: {}", value_pattern(value)?),
                _ => return None,
            };
            any = any.or(&Matching::condition(format!("header={}", quoted(&said))))?;
        }
        all = all.and(&any)?;
    }
    Some(all)
}

/// What is found anywhere is an expression here.
pub fn value_pattern(value: &str) -> Option<String> {
    if value.contains('{') || value.starts_with('~') {
        return None;
    }
    match value.strip_prefix('*').and_then(|rest| rest.strip_suffix('*')) {
        Some(part) if part.contains('*') => None,
        Some(part) => Some(format!("~{}", regex_syntax::escape(part))),
        None if value.trim_matches('*').contains('*') => None,
        None => Some(value.to_owned()),
    }
}
