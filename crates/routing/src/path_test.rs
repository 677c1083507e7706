//! One path pattern, tested alone: the meaning that `path_table` must keep when it looks many patterns up at once.

use regex::bytes::Regex;
use regex_syntax::hir::{Hir, HirKind, Look};
use std::borrow::Cow;
use std::cell::OnceCell;
use tidegate_model::{EncodedSlashes, PathExpressions, PathPattern, PathPolicy, expression, expression_parser};
use tidegate_wire::path::{Normalised, decoded, normalise};

#[derive(Debug)]
pub(crate) enum PathTest {
    Exact(Box<[u8]>),
    /// `/a/` also fits `/a`, and `/` fits every path.
    Prefix(Box<[u8]>),
    Beginning(Box<[u8]>),
    Regex(Regex),
    /// Of the bytes that a path stands for.
    DecodedRegex {
        regex: Regex,
        /// Whether a slash in front of others may be a percent code in the path.
        has_encoded_slashes: bool,
    },
}

/// A path as routes see it.
#[derive(Debug)]
pub(crate) struct TestedPath<'p> {
    pub(crate) settled: &'p [u8],
    /// What it stands for, from the first expression on that asks.
    decoded: OnceCell<Cow<'p, [u8]>>,
}

impl<'p> TestedPath<'p> {
    #[inline]
    pub(crate) fn new(settled: &'p [u8]) -> TestedPath<'p> {
        TestedPath { settled, decoded: OnceCell::new() }
    }

    fn decoded(&self) -> &[u8] {
        self.decoded.get_or_init(|| decoded(self.settled))
    }
}

impl PathTest {
    pub(crate) fn new(pattern: &PathPattern, policy: PathPolicy) -> Result<PathTest, regex::Error> {
        let has_encoded_slashes = policy.encoded_slashes == EncodedSlashes::Keep;
        let is_itself =
            |literal: &[u8]| literal.iter().all(|byte| is_never_encoded(*byte) || *byte == b'/' && !has_encoded_slashes);
        Ok(match pattern {
            PathPattern::Exact(text) => PathTest::Exact(as_in_requests(text)),
            PathPattern::Prefix(text) => PathTest::Prefix(as_in_requests(text)),
            PathPattern::Beginning(text) => PathTest::Beginning(beginning_as_in_requests(text)),
            PathPattern::Regex(text) => match (begins_with(text), policy.expressions) {
                (Some(literal), PathExpressions::Encoded) => PathTest::Beginning(literal),
                (Some(literal), PathExpressions::Decoded) if is_itself(&literal) => PathTest::Beginning(literal),
                (_, PathExpressions::Encoded) => PathTest::Regex(expression(text).build()?),
                (_, PathExpressions::Decoded) => PathTest::DecodedRegex { regex: expression(text).build()?, has_encoded_slashes },
            },
        })
    }

    pub(crate) fn fits(&self, path: &TestedPath<'_>) -> bool {
        let settled = path.settled;
        match self {
            PathTest::Exact(text) => settled == &**text,
            PathTest::Prefix(text) if **text == *b"/" => true,
            PathTest::Prefix(text) => settled.starts_with(text) || text.strip_suffix(b"/") == Some(settled),
            PathTest::Beginning(text) => settled.starts_with(text),
            PathTest::Regex(regex) => regex.is_match(settled),
            PathTest::DecodedRegex { regex, .. } => regex.is_match(path.decoded()),
        }
    }
}

/// Whether the byte stands in the path of a request as itself alone.
fn is_never_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
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
    use super::{PathTest, TestedPath, begins_with};
    use crate::path_policy::settle_path;
    use crate::path_table::{Candidate, PathTable};
    use tidegate_model::{EncodedSlashes, PathExpressions, PathPattern, PathPolicy};

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
            let test = PathTest::new(&pattern, PathPolicy::DEFAULT).expect("a pattern of the test");
            assert_eq!(test.fits(&TestedPath::new(path.as_bytes())), expected, "{pattern:?} for {path:?}");
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

    #[test]
    fn expressions_see_the_bytes_that_a_path_stands_for() {
        let check = |text: &str, path: &str, expected: bool| {
            for encoded_slashes in [EncodedSlashes::Keep, EncodedSlashes::Pass] {
                let policy = PathPolicy { encoded_slashes, expressions: PathExpressions::Decoded, ..PathPolicy::DEFAULT };
                let test = PathTest::new(&PathPattern::Regex(text.into()), policy).expect("a pattern of the test");
                let settled = settle_path(policy, path.as_bytes()).expect("a path").unwrap_or_else(|| path.into());
                assert_eq!(test.fits(&TestedPath::new(&settled)), expected, "{text:?} for {path:?}");
                let table = PathTable::new([std::slice::from_ref(&test)].into_iter());
                let holds = |candidate: Candidate| candidate.regex.is_none() || test.fits(&TestedPath::new(&settled));
                assert_eq!(table.first(&settled, holds), expected.then_some(0), "{text:?} for {path:?}");
            }
        };
        check("^/a b$", "/a%20b", true);
        check("^/a.b$", "/a%20b", true);
        check("^/a%20b$", "/a%20b", false);
        check("^/a%20b$", "/a%2520b", true);
        check("^/é", "/%C3%A9t%C3%A9", true);
        check("^/.{2}$", "/%C3%A9", true);
        check(r"^/\xc3\xa9$", "/%C3%A9", true);
        for path in ["/a/b", "/a%2Fb", "/a%2Fb/c"] {
            check("^/a/b", path, true);
            check("^/a/[b]", path, true);
        }
        check("^/a;b", "/a;b", true);
        check("^/a:b", "/a%3Ab", true);
        check("^/admin", "/admin/x", true);
        check("^/admin", "/%0Aadmin", false);
        check("(?i)^/ÉCOLE", "/%C3%89cole", true);
        check("^", "*", true);
    }
}
