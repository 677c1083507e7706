//! Paths of an Ingress as patterns of routes.

use super::pcre;
use crate::fragment::{Expression, NoExpression, PathPlace, PlacedPath};
use std::cmp::Reverse;
use tidegate_cluster::PathKind;
use tidegate_model::{PathPattern, expression};

/// As the API bounds it.
const PATH_BYTES_MAX: usize = 4096;
/// Of a path in a message.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// A path and its place among others. `Err` says in one sentence what is wrong with it.
pub fn read(path: &str, kind: PathKind) -> Result<PlacedPath, String> {
    check(path)?;
    // A path that nobody wrote is all of them.
    let path = if path.is_empty() { "/" } else { path };
    let is_prefix = match kind {
        PathKind::Exact => false,
        // The latter is left to us, and for ingress-nginx it is a prefix.
        PathKind::Prefix | PathKind::ImplementationSpecific => true,
    };
    // `/foo/` and `/foo` take the same elements.
    let text = if is_prefix { path.trim_end_matches('/') } else { path };
    let place = PathPlace { is_prefix, length: Reverse(text.len()), text: text.into() };
    let literal = text.replace('%', "%25");
    // No request comes with dots that are segments, so that nobody can mean one.
    let decoded = (has_code(text) && !has_dots(text)).then(|| pattern(text, is_prefix));
    Ok(PlacedPath { pattern: pattern(&literal, is_prefix), place, decoded })
}

/// A path as an expression for what begins so, letters of both cases alike, whatever its type.
pub fn read_expression(path: &str) -> Result<Expression, NoExpression> {
    let shown = shortened(path);
    if !path.is_empty() && !path.starts_with('/') || path.chars().any(char::is_control) {
        let problem = format!("the path `{shown}` does not begin with `/`, or has control characters in it");
        return Err(NoExpression { problem, meant: None });
    }
    let path = if path.is_empty() { "/" } else { path };
    let placed = |pattern: &str| PlacedPath {
        place: PathPlace { is_prefix: true, length: Reverse(path.len()), text: path.into() },
        pattern: PathPattern::Regex(pattern.to_owned()),
        decoded: None,
    };
    let unusable = |problem| NoExpression { problem, meant: Some(placed(&format!("(?i)^{}", certain_beginning(path)))) };
    if path.len() > PATH_BYTES_MAX {
        return Err(unusable(format!("the path `{shown}` is longer than {PATH_BYTES_MAX} bytes")));
    }
    // Most paths are no expressions, and need not be compiled to know that.
    let (text, groups, takes_root) = if path.bytes().all(is_plain) {
        (format!("(?i){path}"), 0, path == "/")
    } else {
        let unusable = || {
            unusable(format!(
                "the path `{shown}` is no expression that can be had, so it takes nothing: look-around, back-references and what is read in several ways are not"
            ))
        };
        let text = pcre::translated(path).ok_or_else(unusable)?;
        let compiled = expression(&anchored(&text)).build().map_err(|_| unusable())?;
        let (groups, takes_root) = (compiled.captures_len() - 1, compiled.is_match(b"/"));
        (text, groups, takes_root)
    };
    Ok(Expression { path: placed(&anchored(&text)), text: text.into(), groups, takes_root })
}

/// The expression for what begins so, behind its flags. Of several alternatives that is the first alone, as with nginx.
fn anchored(text: &str) -> String {
    text.replacen(')', ")^", 1)
}

/// Whether the letter stands for itself in an expression.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-_~%:@=,;!&".contains(&byte)
}

/// What every path begins with that an expression can take, however much of it is understood. The anchor is that of the
/// first alternative alone, so that one of several has none.
fn certain_beginning(path: &str) -> &str {
    /// Longer texts are not told apart.
    const BYTES_MAX: usize = 1000;
    let plain = path.bytes().take(BYTES_MAX).take_while(|byte| is_plain(*byte)).count();
    let may_be_absent = matches!(path.as_bytes().get(plain), Some(b'?' | b'*' | b'{'));
    let certain = if path.contains('|') { 1 } else { plain - usize::from(may_be_absent) };
    &path[..certain.max(1)]
}

/// Whether the text has a percent code in it.
fn has_code(text: &str) -> bool {
    text.split('%').skip(1).any(|behind| behind.len() >= 2 && behind.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether a segment of the path that the text stands for is one or two dots.
fn has_dots(text: &str) -> bool {
    decoded(text).split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b".."))
}

/// Of a text in which a percent sign begins a code.
fn pattern(text: &str, is_prefix: bool) -> PathPattern {
    // A star is itself here, and stands for anything in a pattern that is no expression.
    match (is_prefix, text.contains('*')) {
        (false, false) => PathPattern::Exact(text.to_owned()),
        (true, false) => PathPattern::Prefix(format!("{text}/")),
        (false, true) => PathPattern::Regex(format!("^{}$", escaped(text))),
        (true, true) => PathPattern::Regex(format!("^{}(?:/|$)", escaped(text))),
    }
}

/// The text as an expression for the bytes that it stands for.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in decoded(text) {
        if byte.is_ascii_graphic() {
            escaped.push_str(&regex_syntax::escape(char::from(byte).encode_utf8(&mut [0; 4])));
        } else {
            escaped.push_str(&format!("\\x{byte:02X}"));
        }
    }
    escaped
}

/// The bytes that the text of a path stands for.
fn decoded(text: &str) -> Vec<u8> {
    let (mut decoded, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        let digits = text.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.filter(|_| text.as_bytes()[at] == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(code.unwrap_or(text.as_bytes()[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    decoded
}

/// What the API has checked already, where it is asked; files are not.
fn check(path: &str) -> Result<(), String> {
    let shown = shortened(path);
    if path.len() > PATH_BYTES_MAX {
        return Err(format!("the path `{shown}` is longer than {PATH_BYTES_MAX} bytes"));
    }
    if !path.is_empty() && !path.starts_with('/') {
        return Err(format!("the path `{shown}` does not begin with `/`: write `/{shown}`"));
    }
    // Others that no request has as they are arrive encoded, and are compared so.
    if let Some(bad) = path.chars().find(|c| c.is_control() || matches!(c, '?' | '#')) {
        let bad = bad.escape_default();
        return Err(format!("the path `{shown}` has `{bad}` in it, which no path of a request has: write it percent-encoded"));
    }
    if path.contains("//") || path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(format!(
            "no request has the path `{shown}`, since `//`, `/./` and `/../` are settled first: write it without"
        ));
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    let shown: String = text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARACTERS_MAX).collect();
    if shown.chars().count() == SHOWN_CHARACTERS_MAX { shown + "…" } else { shown }
}

#[cfg(test)]
mod tests {
    use super::{certain_beginning, read, read_expression};
    use tidegate_cluster::PathKind;
    use tidegate_model::PathPattern;

    #[test]
    fn paths_are_patterns() {
        let check = |path: &str, kind: PathKind, expected: PathPattern| {
            let read = read(path, kind).unwrap_or_else(|problem| panic!("{problem}"));
            assert_eq!(read.pattern, expected, "{path} {kind:?}");
        };
        use PathKind::{Exact, ImplementationSpecific, Prefix};
        use PathPattern::{Exact as Is, Prefix as Below, Regex};
        check("/foo", Exact, Is("/foo".into()));
        check("/foo/", Exact, Is("/foo/".into()));
        check("/", Exact, Is("/".into()));
        check("", Exact, Is("/".into()));
        check("/foo", Prefix, Below("/foo/".into()));
        check("/foo/", Prefix, Below("/foo/".into()));
        check("/", Prefix, Below("/".into()));
        check("", Prefix, Below("/".into()));
        check("", ImplementationSpecific, Below("/".into()));
        check("/", ImplementationSpecific, Below("/".into()));
        check("/foo", ImplementationSpecific, Below("/foo/".into()));
        check("/foo/", ImplementationSpecific, Below("/foo/".into()));
        check("/a.b*/", ImplementationSpecific, Regex(r"^/a\.b\*(?:/|$)".into()));
        check("/foo/*", ImplementationSpecific, Regex(r"^/foo/\*(?:/|$)".into()));
        check("/a*", Exact, Regex(r"^/a\*$".into()));
        check("/a*", Prefix, Regex(r"^/a\*(?:/|$)".into()));
        check("/é/%20", Exact, Is("/é/%2520".into()));
        check("/100%", Prefix, Below("/100%25/".into()));
        check("/a b", Exact, Is("/a b".into()));
        check(r"/a\b", Prefix, Below(r"/a\b/".into()));
        check("/é*/%20", Exact, Regex(r"^/\xC3\xA9\*/%20$".into()));
    }

    #[test]
    fn what_no_request_can_ask_for_is_refused() {
        let check = |path: &str, expected: &str| {
            for kind in [PathKind::Exact, PathKind::Prefix, PathKind::ImplementationSpecific] {
                assert_eq!(read(path, kind).map(|_| ()), Err(expected.to_owned()), "{path}");
            }
        };
        check("foo", "the path `foo` does not begin with `/`: write `/foo`");
        check("/a?b=c", "the path `/a?b=c` has `?` in it, which no path of a request has: write it percent-encoded");
        check("/a\nb", "the path `/ab` has `\\n` in it, which no path of a request has: write it percent-encoded");
        for path in ["/a//b", "/a/./b", "/..", "//"] {
            let expected =
                format!("no request has the path `{path}`, since `//`, `/./` and `/../` are settled first: write it without");
            check(path, &expected);
        }
    }

    #[test]
    fn expressions_are_what_paths_begin_with() {
        let check = |path: &str, expected: Result<(&str, usize, bool), &str>| {
            let seen = read_expression(path);
            let seen = seen.as_ref().map(|read| (&*read.text, read.groups, read.takes_root)).map_err(|no| &*no.problem);
            assert_eq!(seen, expected, "{path}");
        };
        check("", Ok(("(?i)/", 0, true)));
        check("/foo", Ok(("(?i)/foo", 0, false)));
        check("/foo(/|$)(.*)", Ok((r"(?i-s)/foo(/|(?:\n?\z))(.*)", 2, false)));
        check("/(.*)", Ok(("(?i-s)/(.*)", 1, true)));
        let none = "the path `/(?!a)` is no expression that can be had, so it takes nothing: look-around, back-references and what is read in several ways are not";
        check("/(?!a)", Err(none));
        check("foo", Err("the path `foo` does not begin with `/`, or has control characters in it"));
    }

    #[test]
    fn what_may_be_meant_begins_so() {
        let check = |path: &str, expected: &str| assert_eq!(certain_beginning(path), expected, "{path}");
        check("/admin(?!/public)", "/admin");
        check("/admin[", "/admin");
        check("/admins?(?=x)", "/admin");
        check("/admins*(?=x)", "/admin");
        check("/admins{0,1}(?=x)", "/admin");
        check("/admins+(?=x)", "/admins");
        check(r"/a\d(?!x)", "/a");
        check("/é(?!x)", "/");
        check("/(?!x)", "/");
        check("/?(?!x)", "/");
        // The second of them is not anchored.
        check("/admin(?!x)|/b", "/");
        check("/admin(a|b)(?!x)", "/");
        check(&format!("/{}", "a".repeat(5000)), &format!("/{}", "a".repeat(999)));
    }

    #[test]
    fn exact_paths_come_first_and_then_the_longest() {
        let written = [
            ("/", PathKind::Prefix),
            ("/a", PathKind::ImplementationSpecific),
            ("/a", PathKind::Prefix),
            ("/ab", PathKind::ImplementationSpecific),
            ("/b/", PathKind::Prefix),
            ("/", PathKind::Exact),
            ("/z", PathKind::Exact),
        ];
        let read = |(path, kind): (&'static str, PathKind)| (read(path, kind).expect("a path").place, path, kind);
        let mut places: Vec<_> = written.map(read).into();
        places.sort_by(|a, b| a.0.cmp(&b.0));
        let order: Vec<_> = places.iter().map(|(_, path, kind)| (*path, *kind)).collect();
        let expected = [
            ("/z", PathKind::Exact),
            ("/", PathKind::Exact),
            ("/ab", PathKind::ImplementationSpecific),
            ("/a", PathKind::ImplementationSpecific),
            ("/a", PathKind::Prefix),
            ("/b/", PathKind::Prefix),
            ("/", PathKind::Prefix),
        ];
        assert_eq!(order, expected);
    }
}
