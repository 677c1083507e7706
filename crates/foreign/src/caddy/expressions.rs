//! Expressions of Caddy (CEL) that are made of its own matchers and of simple comparisons, with `&&`, `||` and `!`.
//! Others are none that is known here.

use super::chain::When;
use super::matchers;
use crate::braces::Statement;
use crate::condition_reader::{ConditionReader, ConditionTerms};
use crate::matching::{Asked, Matching, PathPattern};
use crate::spelling;
use tidegate_kdl::quoted;

const DEPTH_MAX: usize = 16;

pub fn read(text: &str) -> Option<Matching> {
    ConditionReader::read(text, DEPTH_MAX, &CaddyTerms)
}

struct CaddyTerms;

impl ConditionTerms for CaddyTerms {
    fn term(&self, reader: &mut ConditionReader<'_>) -> Option<Matching> {
        if reader.rest.starts_with('{') { comparison(reader) } else { call(reader) }
    }

    fn negated(&self, matching: &Matching) -> Option<Matching> {
        matchers::in_any_case(matching).not()
    }
}

/// `{method} == "GET"`, `{path}.startsWith("/a")`, `{method} in ["GET", "HEAD"]`
fn comparison(reader: &mut ConditionReader<'_>) -> Option<Matching> {
    let (name, rest) = reader.rest.strip_prefix('{')?.split_once('}')?;
    reader.rest = rest;
    if reader.takes(".startsWith(") {
        let value = text(reader)?;
        let is_known = name.ends_with("path") || name.contains("header.");
        return if reader.takes(")") && is_known && !value.contains('*') { asked(name, &format!("{value}*")) } else { None };
    }
    if reader.takes("==") {
        return asked(name, &literal(reader)?);
    }
    if reader.takes("!=") {
        return asked(name, &literal(reader)?)?.not();
    }
    if reader.takes("in") && reader.takes("[") {
        let mut matching = Matching::never();
        loop {
            matching = matching.or(&asked(name, &literal(reader)?)?)?;
            if !reader.takes(",") {
                break;
            }
        }
        return reader.takes("]").then_some(matching);
    }
    None
}

/// A matcher of a Caddyfile as a function.
fn call(reader: &mut ConditionReader<'_>) -> Option<Matching> {
    let open = reader.rest.find('(')?;
    let name = reader.rest[..open].trim();
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
        return None;
    }
    reader.rest = &reader.rest[open + 1..];
    let mut words = vec![name.to_owned()];
    if !reader.takes(")") {
        if matches!(name, "header" | "query") {
            return None;
        }
        loop {
            words.push(text(reader)?);
            if !reader.takes(",") {
                break;
            }
        }
        if !reader.takes(")") {
            return None;
        }
    }
    let starts = vec![0; words.len()];
    match matchers::named(&Statement {
        words: Vec::new(),
        starts: Vec::new(),
        block: Some(vec![Statement { words, starts, block: None }]),
    }) {
        When::If(matching) => Some(matching),
        When::File { .. } | When::Unknown(_) => None,
    }
}

fn text(reader: &mut ConditionReader<'_>) -> Option<String> {
    reader.rest = reader.rest.trim_start();
    let quote = reader.rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let (text, rest) = reader.rest[1..].split_once(quote)?;
    reader.rest = rest;
    (!text.contains('\\')).then(|| text.to_owned())
}

/// A text that is compared as a whole, in which a star is one.
fn literal(reader: &mut ConditionReader<'_>) -> Option<String> {
    text(reader).filter(|text| !text.contains('*'))
}

fn asked(name: &str, value: &str) -> Option<Matching> {
    let name = name.trim_start_matches("http.request.");
    match name {
        "method" => Some(Matching::condition(format!("method={}", quoted(value)))),
        "host" if !value.contains('*') => matchers::listed("host", &[value.to_owned()]),
        // Large and small letters are others where a text is compared.
        "path" | "uri.path" if value.starts_with('/') => {
            let (stem, end) = value.strip_suffix('*').map_or((value, "$"), |stem| (stem, ""));
            let pattern = PathPattern::of(format!("~^{}{end}", spelling::in_either_spelling(stem)));
            Some(Matching::of(Asked::Paths(vec![pattern])))
        }
        "scheme" if matches!(value, "http" | "https") => Some(Matching::condition(format!("scheme=\"{value}\""))),
        _ => {
            let field = name.strip_prefix("header.")?;
            let value = matchers::value_pattern(value).filter(|value| !value.is_empty())?;
            Some(Matching::condition(format!("header={}", quoted(&format!("{field}: {value}")))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn expressions_of_matchers_are_read() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let lines = read(text).map(|matching| matching.lines());
            assert_eq!(
                lines.as_deref(),
                expected.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()).as_deref(),
                "{text}"
            );
        };
        check("{method} == 'GET'", Some(&["method=\"GET\""]));
        check("!path('/a')", Some(&["not path=\"~(?i)^/a$\""]));
        check("{path} != '/a@'", Some(&["not path=\"~^/a(?:@|%40)$\""]));
        check("path('/a') && !method('POST')", Some(&["path=\"/a\" not method=\"POST\""]));
        check(
            "host('a.test') || ({method} in [\"GET\", \"PUT\"])",
            Some(&["host=\"a.test\"", "method=\"GET\"", "method=\"PUT\""]),
        );
        check("{http.request.header.X-A} != 'b'", Some(&["not header=\"X-A: b\""]));
        check("{path}.startsWith('/a')", Some(&["path=\"~^/a\""]));
        check("{vars.x} > 1", None);
        check("((((((((((((((((((path('/a'))))))))))))))))))))", None);
    }
}
