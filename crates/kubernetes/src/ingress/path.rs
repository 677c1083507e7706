//! Paths of an Ingress as patterns of routes.

use crate::fragment::{Compared, Expression, NoExpression, PathPlace, PlacedPath};
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
    let compared = match kind {
        PathKind::Exact => Compared::Exactly,
        PathKind::Prefix => Compared::ByElements,
        PathKind::ImplementationSpecific if path == "/" => Compared::ByElements,
        PathKind::ImplementationSpecific => Compared::ByBeginning,
    };
    // `/foo/` and `/foo` take the same elements.
    let text = match compared {
        Compared::ByElements => path.trim_end_matches('/'),
        Compared::Exactly | Compared::ByBeginning => path,
    };
    let place = PathPlace { is_prefix: compared != Compared::Exactly, length: Reverse(text.len()), text: text.into(), compared };
    Ok(PlacedPath { pattern: pattern(text, compared), place })
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
        place: PathPlace { is_prefix: true, length: Reverse(path.len()), text: path.into(), compared: Compared::ByBeginning },
        pattern: PathPattern::Regex(pattern.to_owned()),
    };
    let unusable = |problem| NoExpression { problem, meant: Some(placed(&format!("(?i)^{}", certain_beginning(path)))) };
    if path.len() > PATH_BYTES_MAX {
        return Err(unusable(format!("the path `{shown}` is longer than {PATH_BYTES_MAX} bytes")));
    }
    let anchored = format!("(?i)^{path}");
    // Most paths are no expressions, and need not be compiled to know that.
    let is_text = path.bytes().all(is_plain);
    let (groups, takes_root) = if is_text {
        (0, path == "/")
    } else {
        let unusable = |()| {
            unusable(format!(
                "the path `{shown}` is no expression that can be had, so it takes nothing: look-around and back-references are not"
            ))
        };
        if has_odd_class(path) {
            return Err(unusable(()));
        }
        let compiled = expression(&anchored).build().map_err(|_| unusable(()))?;
        (compiled.captures_len() - 1, compiled.is_match(b"/"))
    };
    let doubtful = (!is_text).then(|| PathPattern::Regex(format!("(?i)^{}[^%]*%", certain_beginning(path))));
    Ok(Expression { path: placed(&anchored), text: anchored.replacen('^', "", 1).into(), groups, takes_root, doubtful })
}

/// Whether a class of letters could mean something else than for nginx: two of them within each other, or what one has
/// and the other has not, are written so here.
pub fn has_odd_class(path: &str) -> bool {
    let mut inside = false;
    let mut before = ' ';
    for c in path.chars() {
        match (inside, before, c) {
            (_, '\\', _) => {
                before = ' ';
                continue;
            }
            (true, _, '[') | (true, '&', '&') | (true, '-', '-') | (true, '~', '~') => return true,
            (false, _, '[') => inside = true,
            (true, _, ']') => inside = false,
            (true | false, _, _) => {}
        }
        before = c;
    }
    false
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

fn pattern(text: &str, compared: Compared) -> PathPattern {
    // A star is itself here, and stands for anything in a pattern that is no expression.
    let is_plain = !text.contains('*');
    match compared {
        Compared::Exactly if is_plain => PathPattern::Exact(text.to_owned()),
        Compared::ByElements if is_plain => PathPattern::Prefix(format!("{text}/")),
        Compared::ByBeginning if is_plain && !text.ends_with('/') => PathPattern::Beginning(text.to_owned()),
        Compared::Exactly => PathPattern::Regex(format!("^{}$", escaped(text))),
        Compared::ByElements => PathPattern::Regex(format!("^{}(?:/|$)", escaped(text))),
        // `/foo/*` would take `/foo` as well.
        Compared::ByBeginning => PathPattern::Regex(format!("^{}", escaped(text))),
    }
}

/// The text as an expression for itself alone, in the form in which paths of requests are compared.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if c.is_ascii() {
            escaped.push_str(&regex_syntax::escape(c.encode_utf8(&mut [0; 4])));
        } else {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escaped.push_str(&format!("%{byte:02X}")));
        }
    }
    escaped
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
    use super::{certain_beginning, has_odd_class, read, read_expression};
    use tidegate_cluster::PathKind;
    use tidegate_model::PathPattern;

    #[test]
    fn paths_are_patterns() {
        let check = |path: &str, kind: PathKind, expected: PathPattern| {
            let read = read(path, kind).unwrap_or_else(|problem| panic!("{problem}"));
            assert_eq!(read.pattern, expected, "{path} {kind:?}");
        };
        use PathKind::{Exact, ImplementationSpecific, Prefix};
        use PathPattern::{Beginning, Exact as Is, Prefix as Below, Regex};
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
        check("/foo", ImplementationSpecific, Beginning("/foo".into()));
        check("/foo/", ImplementationSpecific, Regex("^/foo/".into()));
        check("/a.b/", ImplementationSpecific, Regex(r"^/a\.b/".into()));
        check("/foo/*", ImplementationSpecific, Regex(r"^/foo/\*".into()));
        check("/a*", Exact, Regex(r"^/a\*$".into()));
        check("/a*", Prefix, Regex(r"^/a\*(?:/|$)".into()));
        check("/é/%20", Exact, Is("/é/%20".into()));
        check("/a b", Exact, Is("/a b".into()));
        check(r"/a\b", Prefix, Below(r"/a\b/".into()));
        check("/é/", ImplementationSpecific, Regex("^/%C3%A9/".into()));
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
        check("/foo(/|$)(.*)", Ok(("(?i)/foo(/|$)(.*)", 2, false)));
        check("/(.*)", Ok(("(?i)/(.*)", 1, true)));
        let none =
            "the path `/(?!a)` is no expression that can be had, so it takes nothing: look-around and back-references are not";
        check("/(?!a)", Err(none));
        check("foo", Err("the path `foo` does not begin with `/`, or has control characters in it"));
    }

    #[test]
    fn what_nginx_may_take_besides_is_doubtful() {
        let check = |path: &str, expected: Option<&str>| {
            let read = read_expression(path).expect("an expression");
            assert_eq!(read.doubtful, expected.map(|text| PathPattern::Regex(text.to_owned())), "{path}");
        };
        check("/admin", None);
        check("/admin.panel", Some("(?i)^/admin[^%]*%"));
        check("/é", Some("(?i)^/[^%]*%"));
        check("/[a-z ]+/x", Some("(?i)^/[^%]*%"));
        check(r"/admin\x20x", Some("(?i)^/admin[^%]*%"));
    }

    #[test]
    fn classes_of_letters_that_mean_something_else_are_not_understood() {
        let check = |path: &str, expected: bool| assert_eq!(has_odd_class(path), expected, "{path}");
        check("/[a&&b]x", true);
        check("/[a--b]", true);
        check("/[a[b]]", true);
        check("/[a-z0-9_-]+/x", false);
        check(r"/[\[\]]&&--[a]", false);
        check("/a&&b", false);
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
            ("/a", PathKind::Prefix),
            ("/a", PathKind::ImplementationSpecific),
            ("/b/", PathKind::Prefix),
            ("/", PathKind::Prefix),
        ];
        assert_eq!(order, expected);
    }
}
