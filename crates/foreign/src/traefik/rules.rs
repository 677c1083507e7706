//! Rules of Traefik's routers with their whole grammar: `&&`, `||`, `!` and parentheses, in the spellings of version 2
//! and 3.

use super::hosts;
use crate::braces;
use crate::condition_reader::{ConditionReader, ConditionTerms};
use crate::matching::{Asked, AskedLiteral, Matching, PathPattern};
use crate::outline::beginning_with;
use crate::spelling;
use tidegate_kdl::quoted;
use tidegate_model::parse_network;

/// Parentheses within parentheses.
const DEPTH_MAX: usize = 24;
const BYTES_MAX: usize = 64 * 1024;

/// What a rule takes. Names of connections that are handed on are hosts; `*` is all of them.
pub fn read(text: &str) -> Option<Matching> {
    if text.len() > BYTES_MAX {
        return None;
    }
    ConditionReader::read(text, DEPTH_MAX, &RuleTerms)
}

/// Whether there is `$NAME` or `${NAME}`; a `$` before anything else is the end of an expression.
pub fn has_variable(text: &str) -> bool {
    text.split('$').skip(1).any(|behind| behind.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '{'))
}

struct RuleTerms;

impl ConditionTerms for RuleTerms {
    fn term(&self, reader: &mut ConditionReader<'_>) -> Option<Matching> {
        let end = reader.rest.find(|c: char| !c.is_ascii_alphanumeric())?;
        let (name, rest) = reader.rest.split_at(end);
        reader.rest = rest;
        if !reader.takes("(") {
            return None;
        }
        let mut values = Vec::new();
        while !reader.takes(")") {
            if !values.is_empty() && !reader.takes(",") {
                return None;
            }
            values.push(text(reader)?);
        }
        matched(name, &values)
    }

    fn negated(&self, matching: &Matching) -> Option<Matching> {
        exact(matching).not()
    }
}

pub fn text(reader: &mut ConditionReader<'_>) -> Option<String> {
    reader.rest = reader.rest.trim_start();
    let quote = reader.rest.chars().next().filter(|c| matches!(c, '`' | '"' | '\''))?;
    let quoted = braces::quoted(reader.rest, quote);
    reader.rest = &reader.rest[quoted.length..];
    quoted.is_closed.then_some(quoted.text)
}

/// Prefixes as expressions that take what begins so: what is not to be must not be less.
fn exact(matching: &Matching) -> Matching {
    let mut exact = matching.clone();
    for literal in exact.clauses.iter_mut().flatten() {
        if let AskedLiteral { asked: Asked::Paths(paths), .. } = literal {
            for path in paths.iter_mut() {
                if let Some(prefix) = path.byte_prefix.take() {
                    path.pattern = beginning_with(&prefix);
                }
            }
        }
    }
    exact
}

fn matched(name: &str, values: &[String]) -> Option<Matching> {
    let first = values.first()?;
    // What is asked for is a text as it stands; of hosts alone a variable is the reader's to write.
    if !name.starts_with("Host") && values.iter().any(|value| has_variable(value)) {
        return None;
    }
    match name {
        "Host" | "HostSNI" | "HostHeader" => {
            Some(Matching::of(Asked::Hosts(values.iter().map(|host| host.to_ascii_lowercase()).collect())))
        }
        "HostRegexp" => {
            let mut all = Vec::new();
            for regex in values {
                let own = hosts::of_expression(regex)?;
                if own.is_empty() {
                    return Some(Matching::always());
                }
                all.extend(own);
            }
            Some(Matching::of(Asked::Hosts(all)))
        }
        "Path" => {
            let patterns: Option<Vec<PathPattern>> = values.iter().map(|path| templated(path, true)).collect();
            Some(Matching::of(Asked::Paths(patterns?)))
        }
        "PathPrefix" => {
            if values.iter().any(|prefix| prefix == "/") {
                return Some(Matching::always());
            }
            let patterns: Option<Vec<PathPattern>> = values.iter().map(|path| templated(path, false)).collect();
            Some(Matching::of(Asked::Paths(patterns?)))
        }
        "PathRegexp" => {
            let pattern = |regex: &String| Some(PathPattern::of(format!("~{}", spelling::sent_expression(regex)?)));
            let patterns: Option<Vec<PathPattern>> = values.iter().map(pattern).collect();
            Some(Matching::of(Asked::Paths(patterns?)))
        }
        "Method" => Some(Matching::condition(format!("method={}", quoted(&values.join(",").to_ascii_uppercase())))),
        "ClientIP" => {
            let is_all = values.iter().all(|network| parse_network(network).is_ok());
            is_all.then(|| Matching::condition(format!("client={}", quoted(&values.join(",")))))
        }
        "Header" | "Headers" => field(first, values.get(1)?, false),
        "HeaderRegexp" | "HeadersRegexp" => field(first, values.get(1)?, true),
        "Query" => query(values, false),
        "QueryRegexp" => query(values, true),
        _ => None,
    }
}

fn field(name: &str, value: &str, is_regex: bool) -> Option<Matching> {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let value = if is_regex { format!("~{value}") } else { literal(value) };
    is_name.then(|| Matching::condition(format!("header={}", quoted(&format!("{name}: {value}")))))
}

/// `a`, `b` in version 3 and `a=b` in version 2, of which several have to hold.
fn query(values: &[String], is_regex: bool) -> Option<Matching> {
    let pairs: Vec<(String, Option<String>)> = match values {
        [key, value] if !key.contains('=') => vec![(key.clone(), Some(value.clone()))],
        values => values
            .iter()
            .map(|pair| match pair.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (pair.clone(), None),
            })
            .collect(),
    };
    pairs.iter().try_fold(Matching::always(), |all, (key, value)| {
        let said = match value {
            None => key.clone(),
            Some(value) if is_regex => format!("{key}=~{value}"),
            Some(value) => format!("{key}={}", literal(value)),
        };
        all.and(&Matching::condition(format!("query={}", quoted(&said))))
    })
}

/// A value that is this text, whatever our patterns would make of it.
fn literal(value: &str) -> String {
    if value.starts_with(['~', '*']) || value.ends_with('*') {
        return format!("~^{}$", regex_syntax::escape(value));
    }
    value.to_owned()
}

/// `/a/{id:[0-9]+}` of version 2, and paths as they are.
fn templated(path: &str, is_whole: bool) -> Option<PathPattern> {
    if !path.starts_with('/') {
        return None;
    }
    if !path.contains('{') {
        let path = sent(path)?;
        return Some(if is_whole { PathPattern::of(path) } else { beginning(&path) });
    }
    let regex = spelling::sent_expression(&named_groups(path, "[^/]+")?)?;
    Some(PathPattern::of(format!("~^{regex}{}", if is_whole { "$" } else { "" })))
}

/// A path as clients send it: Traefik decodes all but what means something else encoded, and what is written encoded
/// beside that is compared with one thing or another, as its version is.
fn sent(path: &str) -> Option<String> {
    const RESERVED: &str = ":/?#[]@!$&'()*+,;=%";
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let byte = u8::from_str_radix(rest.get(at + 1..at + 3)?, 16).ok()?;
        if !RESERVED.contains(char::from(byte)) || rest[at + 1..at + 3] != format!("{byte:02X}") {
            return None;
        }
        rest = &rest[at + 3..];
    }
    Some(path.split('%').map(spelling::encoded).collect::<Vec<String>>().join("%"))
}

/// `/api/*`, and where a slash is its end an expression, since `/api` itself is none of those.
fn beginning(prefix: &str) -> PathPattern {
    if prefix.ends_with('/') { PathPattern::of(beginning_with(prefix)) } else { PathPattern::beginning(prefix) }
}

/// An expression for a text with `{name:expression}` in it.
pub fn named_groups(text: &str, without: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&regex_syntax::escape(&rest[..open]));
        let mut depth = 0_usize;
        let close = rest[open..].char_indices().find_map(|(at, c)| {
            depth = match c {
                '{' => depth + 1,
                '}' => depth - 1,
                _ => depth,
            };
            (depth == 0).then_some(open + at)
        })?;
        let inner = &rest[open + 1..close];
        let (name, regex) = inner.split_once(':').unwrap_or((inner, without));
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        out.push_str(&format!("(?:{regex})"));
        rest = &rest[close + 1..];
    }
    out.push_str(&regex_syntax::escape(rest));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn rules_of_both_versions_are_read() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let seen = read(text).map(|matching| matching.lines());
            let expected = expected.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
            assert_eq!(seen, expected, "{text}");
        };
        check(
            "Host(`a.test`) && (PathPrefix(`/b/`) || Path(`/c`))",
            Some(&["path=\"~^/b/\" host=\"a.test\"", "path=\"/c\" host=\"a.test\""]),
        );
        check("!(Host(`a.test`) || Method(`GET`))", Some(&["not host=\"a.test\" not method=\"GET\""]));
        check("!PathPrefix(`/a`)", Some(&["not path=\"~^/a\""]));
        check("HostRegexp(`^(a|b)\\.example\\.com$`)", Some(&["host=\"a.example.com,b.example.com\""]));
        check("HostRegexp(`^.+$`) && Method(`GET`)", Some(&["method=\"GET\""]));
        check("HostRegexp(`(`)", None);
        check("Path(`/a/{id:[0-9]+}`)", Some(&["path=\"~^/a/(?:[0-9]+)$\""]));
        check("Query(`a=b`, `c`) && Headers(`X-A`, `b`)", Some(&["query=\"a=b\" query=\"c\" header=\"X-A: b\""]));
        check("Query(`a`, `b*`)", Some(&["query=\"a=~^b\\\\*$\""]));
        check("ClientIP(`10.0.0.0/8`)", Some(&["client=\"10.0.0.0/8\""]));
        check("Header(`X-Key`, `$KEY`)", None);
        check("Host(`a.test`) && !Header(`X-Key`, `${KEY:-secret}`)", None);
        check("Host(`a.test`) && PathPrefix(`/${NAME}`)", None);
        check("PathRegexp(`^/(a|b)$`)", Some(&["path=\"~^/(a|b)$\""]));
        check("Host(a)", None);
        check("Host(`a`) &&", None);
        check("Foo(`a`)", None);
        assert_eq!(read(&"!".repeat(10_000)), None);
        assert_eq!(read(&"(".repeat(10_000)), None);
    }

    #[test]
    fn no_rule_makes_it_panic() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let _ = read(text);
            let _ = read(&format!("Host(`{text}`) || !({text})"));
        });
    }
}
