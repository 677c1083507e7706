//! One path pattern, tested alone: the meaning that `path_table` must keep when it looks many patterns up at once.

use regex::bytes::Regex;
use regex_syntax::hir::{Hir, HirKind, Look};
use tidegate_model::{PathPattern, expression, expression_parser};
use tidegate_wire::path::{Normalised, normalise};

#[derive(Debug)]
pub(crate) enum PathTest {
    Exact(Box<[u8]>),
    /// `/a/` also fits `/a`, and `/` fits every path.
    Prefix(Box<[u8]>),
    Beginning(Box<[u8]>),
    Regex(Regex),
}

impl PathTest {
    pub(crate) fn new(pattern: &PathPattern) -> Result<PathTest, regex::Error> {
        Ok(match pattern {
            PathPattern::Exact(text) => PathTest::Exact(as_in_requests(text)),
            PathPattern::Prefix(text) => PathTest::Prefix(as_in_requests(text)),
            PathPattern::Beginning(text) => PathTest::Beginning(beginning_as_in_requests(text)),
            PathPattern::Regex(text) => match begins_with(text) {
                Some(literal) => PathTest::Beginning(literal),
                None => PathTest::Regex(expression(text).build()?),
            },
        })
    }

    pub(crate) fn fits(&self, path: &[u8]) -> bool {
        match self {
            PathTest::Exact(text) => path == &**text,
            PathTest::Prefix(text) if **text == *b"/" => true,
            PathTest::Prefix(text) => path.starts_with(text) || text.strip_suffix(b"/") == Some(path),
            PathTest::Beginning(text) => path.starts_with(text),
            PathTest::Regex(regex) => regex.is_match(path),
        }
    }
}

/// The text of an expression that asks for nothing but to begin with it, as `^/api/`: nothing has to be searched then.
fn begins_with(expression: &str) -> Option<Box<[u8]>> {
    let hir = expression_parser().parse(expression).ok()?;
    let is_start = |hir: &Hir| *hir.kind() == HirKind::Look(Look::Start);
    match hir.kind() {
        HirKind::Look(Look::Start) => Some(Box::default()),
        HirKind::Concat(parts) => match parts.as_slice() {
            [start, rest] if is_start(start) => match rest.kind() {
                HirKind::Literal(literal) => Some(literal.0.clone()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// What a path that begins so may go on with.
pub(crate) const GOES_ON: &str = "~";

/// As [`as_in_requests`], of what a path begins with: its last segment is one that goes on, so `/.` is no folder.
fn beginning_as_in_requests(text: &str) -> Box<[u8]> {
    let whole = as_in_requests(&format!("{text}{GOES_ON}"));
    whole.strip_suffix(GOES_ON.as_bytes()).unwrap_or(&whole).into()
}

/// A literal path in the form in which request paths arrive here: what cannot stand in a path percent-encoded, so that
/// `/é` and `/a b` match, and then normalised as requests are, so that `/%7euser` and `/~user` are one pattern.
pub(crate) fn as_in_requests(text: &str) -> Box<[u8]> {
    let mut encoded = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'?' && byte != b'#' => encoded.push(byte),
            _ => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    let mut normal = Vec::new();
    match normalise(&encoded, &mut normal) {
        Normalised::Changed => normal.into(),
        // A pattern that is no path fits no request's path; it stays as it is.
        Normalised::Unchanged | Normalised::EscapesRoot | Normalised::DotsWithParameter | Normalised::Bad => encoded.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{PathTest, begins_with};
    use tidegate_model::PathPattern;

    #[test]
    fn expressions_of_nothing_but_a_beginning_are_not_searched() {
        let check = |expression: &str, expected: Option<&str>| {
            assert_eq!(begins_with(expression).as_deref(), expected.map(str::as_bytes), "{expression}");
        };
        check("^/api", Some("/api"));
        check("^/a\\.b", Some("/a.b"));
        check("^(?:/api)", Some("/api"));
        check("^", Some(""));
        check("^/api$", None);
        check("^/a.b", None);
        check("(?i)^/api", None);
        check("^(/api)", None);
        check("(?m)^/api", None);
        check("/api", None);
        check("^/a|/b", None);
    }

    #[test]
    fn patterns_fit_as_written() {
        let check = |pattern: PathPattern, path: &str, expected: bool| {
            let test = PathTest::new(&pattern).expect("a pattern of the test");
            assert_eq!(test.fits(path.as_bytes()), expected, "{pattern:?} for {path:?}");
        };
        let exact = |text: &str| PathPattern::Exact(text.into());
        check(exact("/a"), "/a", true);
        check(exact("/a"), "/a/", false);
        check(exact("/a"), "/A", false);
        check(exact("/é b"), "/%C3%A9%20b", true);
        check(exact("/%7Euser/%c3%a9"), "/~user/%C3%A9", true);
        check(exact("/a/../b"), "/b", true);
        check(exact("/a?b"), "/a%3Fb", true);
        check(exact("/{a}"), "/%7Ba%7D", true);
        let prefix = |text: &str| PathPattern::Prefix(text.into());
        for path in ["/a", "/a/", "/a/b", "/a//b"] {
            check(prefix("/a/"), path, true);
        }
        for path in ["/ab", "/", "/b/a/", "", "/A/"] {
            check(prefix("/a/"), path, false);
        }
        for path in ["/", "/x", "*", ""] {
            check(prefix("/"), path, true);
        }
        let beginning = |text: &str| PathPattern::Beginning(text.into());
        for path in ["/a", "/a/", "/ab", "/a/b", "/a~"] {
            check(beginning("/a"), path, true);
        }
        for path in ["/", "", "/A", "/b/a", "*"] {
            check(beginning("/a"), path, false);
        }
        check(beginning("/."), "/.git/config", true);
        check(beginning("/."), "/x", false);
        check(beginning("/é"), "/%C3%A9t%C3%A9", true);
        check(beginning("/%7euser"), "/~username", true);
        check(beginning("/a/../b"), "/bc", true);
        let regex = |text: &str| PathPattern::Regex(text.into());
        check(regex("^/a/"), "/a/b", true);
        check(regex("^/a/"), "/a", false);
        check(regex("^/a/"), "/x/a/", false);
        check(regex("^"), "*", true);
        check(regex("(?i)^/Ab"), "/aBc", true);
        check(regex("(?i)^/Ab"), "/x/ab", false);
        check(regex("^/v[0-9]+/"), "/v12/x", true);
        check(regex("^/v[0-9]+/"), "/vx/", false);
        check(regex(r"\.php$"), "/a/b.php", true);
    }
}
