//! Patterns of paths and of values: `/a`, `/a/*`, `~regex`, `beta*`. A regular expression is known to compile from here
//! on.

use crate::diagnostics::{Diagnostic, shortened};
use crate::lowering::Lowering;
use crate::placeholders::{self, Text};
use crate::reading::expect_text;
use crate::syntax::{Literal, Value};
use std::borrow::Cow;
use tidegate_foreign::traefik_rule;
use tidegate_model::{PathPattern, SiteAddress, TextPattern, expression, expression_parser};

/// A pattern as `route` and `match path=` take it.
pub fn read_path_pattern(lowering: &mut Lowering<'_>, value: &Value, owner: &str) -> Option<PathPattern> {
    let value = expect_text(lowering, value, owner, "a path pattern, as in `\"/api/*\"`")?;
    if let Literal::Text(written) = &value.literal
        && let Some(regex) = of_named_segments(written)
    {
        let diagnostic = Diagnostic::error("bad-pattern", value.location.clone(), "parts of a pattern have no names");
        return lowering.refuse(diagnostic.help(format!("write `~^{regex}$`, where `[^/]+` is any segment")));
    }
    if let Literal::Text(written) = &value.literal
        && let Some((reason, help)) = of_locations(written)
    {
        return lowering.refuse(Diagnostic::error("bad-pattern", value.location.clone(), reason).help(help));
    }
    let text = placeholders::resolve_pattern(lowering, value)?;
    if let Some(regex) = text.value.strip_prefix('~') {
        check_regex(lowering, &text, regex)?;
        return Some(PathPattern::Regex(regex.to_string()));
    }
    match parse_plain_pattern(&text.value) {
        Ok(pattern) => Some(pattern),
        Err((reason, help)) => {
            let diagnostic = text.error("bad-pattern", reason);
            lowering.refuse(match help {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            })
        }
    }
}

/// The expression that is meant by `/users/{id}` or `/users/:id`.
fn of_named_segments(written: &str) -> Option<String> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_named = |segment: &str| {
        let in_braces = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        in_braces.or_else(|| segment.strip_prefix(':')).is_some_and(is_name)
    };
    if !written.starts_with('/') || !written.split('/').any(is_named) {
        return None;
    }
    let of_segment = |segment: &str| if is_named(segment) { "[^/]+".to_owned() } else { regex_syntax::escape(segment) };
    Some(written.split('/').map(of_segment).collect::<Vec<_>>().join("/"))
}

/// What nginx writes in front of the path of a `location`, and Caddy and shells in it.
fn of_locations(written: &str) -> Option<(&'static str, String)> {
    const MODIFIER: &str = "what a pattern is stands in no word in front of it";
    if let Some(name) = written.strip_prefix('@') {
        let help = format!(
            "what `@{}` stands for is written in the route, as in `route {{ match method=\"GET\" header=\"X-A: b\"; respond 204 }}`",
            shortened(name)
        );
        return Some(("a route has no named matcher", help));
    }
    if let Some(stem) =
        written.strip_suffix("/**").filter(|stem| stem.is_empty() || (stem.starts_with('/') && !stem.contains('*')))
    {
        return Some(("`*` stands for all that is below already", format!("write `{stem}/*`")));
    }
    if let Some(regex) = written.strip_prefix("~*") {
        return Some((MODIFIER, format!("an expression that ignores case is `~(?i){}`", shortened(regex.trim_start()))));
    }
    let (modifier, path) = written.split_once(' ')?;
    let path = path.trim();
    match modifier {
        "=" => Some((MODIFIER, format!("`/a` alone is that path exactly: write `{}`", shortened(path)))),
        "~" => Some((MODIFIER, format!("write `~{}`", shortened(path)))),
        "^~" => Some((
            MODIFIER,
            format!(
                "routes are taken in their order, so put this one first: write `{}/*`",
                shortened(path.trim_end_matches('/'))
            ),
        )),
        _ => None,
    }
}

/// `api.example.com/v1/*`, which is no file such as `index.php/*`.
fn host_and_path(text: &str) -> Option<(&str, &str)> {
    const ENDINGS: [&str; 8] = ["php", "html", "htm", "js", "css", "json", "xml", "txt"];
    let start = text.find("://").map_or(0, |position| position + 3);
    let length = text[start..].find('/')?;
    let (host, path) = text.split_at(start + length);
    let name = host[start..].split(':').next().unwrap_or_default();
    let last = name.rsplit_once('.').map(|(_, last)| last);
    let is_name =
        last.is_some_and(|last| last.len() > 1 && last.chars().all(|c| c.is_ascii_alphabetic()) && !ENDINGS.contains(&last));
    let is_host = (is_name || name == "localhost") && !path.contains(['`', '"']) && SiteAddress::parse(host).is_ok();
    is_host.then_some((host, path))
}

/// The fault, and what to write instead.
fn parse_plain_pattern(text: &str) -> Result<PathPattern, (Cow<'static, str>, Option<Cow<'static, str>>)> {
    if !text.starts_with('/') {
        let reason = "a path pattern starts with `/`, or with `~` for a regular expression".into();
        let help = match text {
            "" => Cow::Borrowed("for every path, leave the pattern out"),
            "*" => "for every path, write `/*`".into(),
            _ if let Some((host, path)) = host_and_path(text) => {
                format!("the host stands in the address of the site: `site \"{host}\" {{ route \"{path}\" {{ … }} }}`").into()
            }
            _ if text.contains("://") => "the host stands in the address of the `site`".into(),
            _ if text.starts_with('^') || text.starts_with("\\.") || text.contains(".*") => {
                format!("for a regular expression, write `~{text}`").into()
            }
            _ if text.starts_with("*.") && !text[2..].contains(['*', '/']) => {
                format!("for every path that ends so, write `~{}$`", regex_syntax::escape(&text[1..])).into()
            }
            _ if let Some(help) = traefik_rule::help(text) => help.into(),
            _ => format!("write `/{text}`").into(),
        };
        return Err((reason, Some(help)));
    }
    if let Some(position) = text.find(['?', '#']) {
        let what = &text[position..=position];
        let help = "for a condition on the query, use `match query=\"name=value\"`".into();
        return Err((format!("a pattern is compared with the path, which never holds a `{what}`").into(), Some(help)));
    }
    if text.split('/').any(|segment| segment == "." || segment == "..") {
        return Err(("a normalised path has no `.` and `..`, so this pattern never matches".into(), None));
    }
    if text.chars().any(char::is_control) {
        return Err(("a path pattern holds no control characters".into(), None));
    }
    let stem = text.strip_suffix('*').unwrap_or(text);
    if stem.contains('*') {
        let help = format!("use a regular expression, as in `~^{}$`", regex_syntax::escape(text).replace("\\*", "[^/]*"));
        return Err(("`*` can only stand once, at the end".into(), Some(help.into())));
    }
    let kind = match (stem.len() < text.len(), stem.ends_with('/')) {
        (false, _) => PathPattern::Exact,
        (true, true) => PathPattern::Prefix,
        (true, false) => PathPattern::Beginning,
    };
    Ok(kind(stem.to_string()))
}

/// `text` is what it stands in, for the place; `pattern` is a part of it.
pub fn parse_text_pattern(lowering: &mut Lowering<'_>, text: &Text, pattern: &str) -> Option<TextPattern> {
    if let Some(regex) = pattern.strip_prefix('~') {
        check_regex(lowering, text, regex)?;
        return Some(TextPattern::Regex(regex.to_string()));
    }
    let starts = pattern.starts_with('*');
    let ends = pattern.ends_with('*');
    let inner = pattern.trim_matches('*');
    let stars = pattern.matches('*').count();
    match (starts, ends, stars) {
        (_, _, 0) => Some(TextPattern::Exact(pattern.to_string())),
        (true, true, 1) => Some(TextPattern::Present),
        (true, false, 1) => Some(TextPattern::Suffix(inner.to_string())),
        (false, true, 1) => Some(TextPattern::Prefix(inner.to_string())),
        _ => {
            let diagnostic = text.error("bad-pattern", "`*` can only stand once, at the start or at the end");
            let regex = regex_syntax::escape(pattern).replace("\\*", ".*");
            let help = format!("use a regular expression, as in `~^{regex}$`");
            lowering.refuse(diagnostic.help(help))
        }
    }
}

/// The number of groups. `regex` is a part of `text`.
pub fn check_regex(lowering: &mut Lowering<'_>, text: &Text, regex: &str) -> Option<usize> {
    let mut is_of_characters = false;
    let fault = match expression_parser().parse(regex) {
        Ok(_) => match expression(regex).build() {
            Ok(compiled) => return Some(compiled.captures_len() - 1),
            Err(_) => (None, "the regular expression is too large once compiled".to_string()),
        },
        Err(regex_syntax::Error::Parse(error)) => {
            (Some(error.span().start.offset..error.span().end.offset), error.kind().to_string())
        }
        Err(regex_syntax::Error::Translate(error)) => {
            is_of_characters = *error.kind() == regex_syntax::hir::ErrorKind::UnicodeNotAllowed;
            (Some(error.span().start.offset..error.span().end.offset), error.kind().to_string())
        }
        Err(_) => (None, "it cannot be read".to_string()),
    };
    let (span, reason) = fault;
    let mut diagnostic = text.error("bad-regex", "this regular expression is not valid");
    if is_of_characters {
        let help = "expressions compare bytes, whatever they mean; a part that is to compare characters is written `(?u:…)`, as in `(?u:[à-ü])`";
        diagnostic = diagnostic.help(help);
    }
    if !text.secret {
        let offset = text.value.rfind(regex).unwrap_or(0);
        if let Some(span) = span {
            // A caret needs a character to stand under; an expression that ends too early has none left.
            let end = span.end.max(span.start + 1).min(regex.len().max(1));
            let start = span.start.min(end.saturating_sub(1));
            diagnostic.primary.location = text.part(offset + start..offset + end);
        }
        diagnostic = diagnostic.marked(reason);
    }
    lowering.refuse(diagnostic)
}

/// `/a/*`, `~^/v[0-9]+/`
pub fn show_path(pattern: &PathPattern) -> String {
    match pattern {
        PathPattern::Exact(path) => path.clone(),
        PathPattern::Prefix(path) | PathPattern::Beginning(path) => format!("{path}*"),
        PathPattern::Regex(regex) => format!("~{regex}"),
    }
}

pub fn show_text(pattern: &TextPattern) -> String {
    match pattern {
        TextPattern::Present => "*".to_owned(),
        TextPattern::Exact(text) => text.clone(),
        TextPattern::Prefix(text) => format!("{text}*"),
        TextPattern::Suffix(text) => format!("*{text}"),
        TextPattern::Regex(regex) => format!("~{regex}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_patterns() {
        let check = |text: &str, expected: &str| {
            let seen = match parse_plain_pattern(text) {
                Ok(pattern) => format!("{pattern:?}"),
                Err((reason, _)) => format!("error: {reason}"),
            };
            assert_eq!(seen, expected, "for {text}");
        };
        check("/", "Exact(\"/\")");
        check("/*", "Prefix(\"/\")");
        check("/a", "Exact(\"/a\")");
        check("/a/", "Exact(\"/a/\")");
        check("/a/*", "Prefix(\"/a/\")");
        check("/a b/*", "Prefix(\"/a b/\")");
        check("api", "error: a path pattern starts with `/`, or with `~` for a regular expression");
        check("/a*", "Beginning(\"/a\")");
        check("/.*", "Beginning(\"/.\")");
        check("/a**", "error: `*` can only stand once, at the end");
        check("/a/*/b", "error: `*` can only stand once, at the end");
        check("/a/../b", "error: a normalised path has no `.` and `..`, so this pattern never matches");
        check("/a?b=c", "error: a pattern is compared with the path, which never holds a `?`");
    }

    #[test]
    fn no_text_makes_them_panic() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let _ = parse_plain_pattern(text);
            let _ = tidegate_model::SiteAddress::parse(text);
            let _ = tidegate_model::UpstreamAddress::parse(text);
            let _ = tidegate_model::address::parse_host_pattern(text);
        });
    }
}
