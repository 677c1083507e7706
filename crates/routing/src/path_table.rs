//! Many path patterns, looked up at once: the routes whose path may fit, most specific first, in logarithmic time.
//!
//! All literal paths and prefixes are sorted. The last that is not greater than the path is found by bisection; every
//! prefix of the path in the table is that entry or one of its ancestors (the entries that are prefixes of it), which
//! are linked. A regular expression that starts with `^/literal` is kept under that literal, any other under the empty
//! prefix.

use crate::path_test::PathTest;
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct PathTable {
    text: Box<[u8]>,
    /// Sorted by text. The first has the empty text, so that a search always ends at a node.
    nodes: Box<[Node]>,
    exact: Box<[Candidate]>,
    under: Box<[Candidate]>,
}

/// A route that one of its patterns proposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The route's position in the file.
    pub(crate) rank: u32,
    /// The pattern of the route that must still be tested, if that is a regular expression.
    pub(crate) regex: Option<u32>,
}

#[derive(Debug)]
struct Node {
    text: Range<u32>,
    /// The longest proper prefix of this node's text that has candidates under it.
    parent: Option<u32>,
    /// Candidates when the path is this text; by rank.
    exact: Range<u32>,
    /// Candidates when the path begins with this text; by rank.
    under: Range<u32>,
}

#[derive(Default)]
struct Written {
    exact: Vec<Candidate>,
    under: Vec<Candidate>,
}

impl PathTable {
    /// `routes` are the path patterns of each route, in file order. A route without patterns fits every path.
    pub(crate) fn new<'a>(routes: impl Iterator<Item = &'a [PathTest]>) -> PathTable {
        let mut written: BTreeMap<Vec<u8>, Written> = BTreeMap::new();
        written.entry(Vec::new()).or_default();
        for (rank, patterns) in routes.enumerate() {
            let plain = Candidate { rank: rank as u32, regex: None };
            if patterns.is_empty() {
                written.entry(Vec::new()).or_default().under.push(plain);
            }
            for (position, pattern) in patterns.iter().enumerate() {
                match pattern {
                    PathTest::Exact(text) => written.entry(text.to_vec()).or_default().exact.push(plain),
                    PathTest::Prefix(text) if **text == *b"/" => written.entry(Vec::new()).or_default().under.push(plain),
                    PathTest::Prefix(text) => {
                        written.entry(text.to_vec()).or_default().under.push(plain);
                        if let Some(itself) = text.strip_suffix(b"/") {
                            written.entry(itself.to_vec()).or_default().exact.push(plain);
                        }
                    }
                    PathTest::Beginning(text) => written.entry(text.to_vec()).or_default().under.push(plain),
                    PathTest::Regex(regex) => {
                        let candidate = Candidate { rank: rank as u32, regex: Some(position as u32) };
                        written.entry(literal_start(regex.as_str()).to_vec()).or_default().under.push(candidate);
                    }
                    PathTest::DecodedRegex { regex, has_encoded_slashes } => {
                        let candidate = Candidate { rank: rank as u32, regex: Some(position as u32) };
                        let mut literal = literal_start(regex.as_str());
                        if *has_encoded_slashes && let Some(second) = literal.iter().skip(1).position(|byte| *byte == b'/') {
                            literal = &literal[..=second];
                        }
                        written.entry(literal.to_vec()).or_default().under.push(candidate);
                    }
                }
            }
        }
        PathTable::from_sorted(written)
    }

    fn from_sorted(written: BTreeMap<Vec<u8>, Written>) -> PathTable {
        let (mut text, mut nodes) = (Vec::new(), Vec::with_capacity(written.len()));
        let (mut exact, mut under) = (Vec::new(), Vec::new());
        // The nodes with candidates under them whose text the current one begins with, outermost first.
        let mut ancestors: Vec<(u32, Vec<u8>)> = Vec::new();
        for (this, candidates) in written {
            while ancestors.last().is_some_and(|(_, prefix)| !this.starts_with(prefix)) {
                ancestors.pop();
            }
            let parent = ancestors.last().map(|(position, _)| *position);
            if !candidates.under.is_empty() {
                ancestors.push((nodes.len() as u32, this.clone()));
            }
            nodes.push(Node {
                text: append(&mut text, this),
                parent,
                exact: append_once(&mut exact, candidates.exact),
                under: append_once(&mut under, candidates.under),
            });
        }
        PathTable { text: text.into(), nodes: nodes.into(), exact: exact.into(), under: under.into() }
    }

    /// The lowest rank among the routes that this path proposes and for which `holds` says yes.
    ///
    /// Longer literals come first: in a file that has its special routes before its general ones, the first that holds
    /// is already the answer, and what stands at the shorter literals is cut off by its rank. `holds` is asked at most
    /// once for each pattern of a route.
    #[inline]
    pub(crate) fn first(&self, path: &[u8], mut holds: impl FnMut(Candidate) -> bool) -> Option<u32> {
        // The root is left out: comparing with its empty text, which may lie at no address at all, costs 50 ns where
        // memcmp uses masked loads.
        let below_root = &self.nodes[1..];
        let mut node = &self.nodes[below_root.partition_point(|node| self.text_of(node) <= path)];
        let text = self.text_of(node);
        let common = text.iter().zip(path).take_while(|(a, b)| a == b).count();
        let mut best = None;
        // The text is not greater than the path, so beginning with the path it is the path.
        if common == path.len() {
            best = lowest(&self.exact[as_range(&node.exact)], best, &mut holds);
        }
        loop {
            if node.text.len() <= common {
                best = lowest(&self.under[as_range(&node.under)], best, &mut holds);
            }
            match node.parent {
                Some(parent) => node = &self.nodes[parent as usize],
                None => return best,
            }
        }
    }

    #[inline]
    fn text_of(&self, node: &Node) -> &[u8] {
        &self.text[as_range(&node.text)]
    }
}

/// The first of `candidates`, which are sorted by rank, that holds and comes before `best`.
#[inline]
fn lowest(candidates: &[Candidate], best: Option<u32>, holds: &mut impl FnMut(Candidate) -> bool) -> Option<u32> {
    for candidate in candidates {
        if best.is_some_and(|best| best <= candidate.rank) {
            break;
        }
        if holds(*candidate) {
            return Some(candidate.rank);
        }
    }
    best
}

/// The literal text that every path matching the expression begins with; empty when that cannot be read off easily.
///
/// Only an expression that begins with `^` and has no alternative anywhere qualifies. Of the letters that stand for
/// themselves the last is given up when a repetition follows, which may allow none of it.
fn literal_start(expression: &str) -> &[u8] {
    let Some(rest) = expression.strip_prefix('^') else { return b"" };
    if rest.contains('|') {
        return b"";
    }
    let rest = rest.as_bytes();
    let len = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"/-_".contains(byte)).count();
    match rest.get(len) {
        Some(b'?' | b'*' | b'{') => &rest[..len.saturating_sub(1)],
        _ => &rest[..len],
    }
}

fn append<T>(all: &mut Vec<T>, some: Vec<T>) -> Range<u32> {
    let start = all.len() as u32;
    all.extend(some);
    start..all.len() as u32
}

/// The candidates of one text come by rank, because routes are read in file order; a pattern that a route repeats
/// counts once.
fn append_once(all: &mut Vec<Candidate>, mut some: Vec<Candidate>) -> Range<u32> {
    some.dedup();
    append(all, some)
}

#[inline]
fn as_range(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

#[cfg(test)]
mod tests {
    use super::{PathTable, literal_start};
    use crate::path_test::PathTest;
    use tidegate_model::{PathPattern, PathPolicy};

    /// `patterns` is one route each: `=/a` exact, `~…` regular expression, `/a*` what begins so, anything else a
    /// prefix.
    fn check(patterns: &[&str], path: &str, proposed: &[u32]) {
        let tests: Vec<[PathTest; 1]> = patterns
            .iter()
            .map(|text| {
                let pattern = match (text.strip_prefix('='), text.strip_prefix('~'), text.strip_suffix('*')) {
                    (Some(exact), ..) => PathPattern::Exact(exact.into()),
                    (_, Some(regex), _) => PathPattern::Regex(regex.into()),
                    (.., Some(beginning)) => PathPattern::Beginning(beginning.into()),
                    _ => PathPattern::Prefix((*text).into()),
                };
                [PathTest::new(&pattern, PathPolicy::DEFAULT).expect("a pattern of the test")]
            })
            .collect();
        let table = PathTable::new(tests.iter().map(<[PathTest; 1]>::as_slice));
        let mut seen = Vec::new();
        let none = table.first(path.as_bytes(), |candidate| {
            seen.push(candidate.rank);
            false
        });
        assert_eq!(none, None);
        assert_eq!(seen, proposed, "{path:?} among {patterns:?}");
        assert_eq!(table.first(path.as_bytes(), |_| true), proposed.iter().min().copied());
    }

    #[test]
    fn longer_literals_come_first() {
        let routes = ["/", "/a/", "=/a/b", "/a/b/", "/a/bc/", "/b/"];
        check(&routes, "/", &[0]);
        check(&routes, "/a", &[1, 0]);
        check(&routes, "/a/", &[1, 0]);
        check(&routes, "/a/b", &[2, 3, 1, 0]);
        check(&routes, "/a/b/c", &[3, 1, 0]);
        check(&routes, "/a/bc/d", &[4, 1, 0]);
        check(&routes, "/a/bb", &[1, 0]);
        check(&routes, "/c", &[0]);
        check(&routes, "/zzz", &[0]);
        check(&routes, "", &[0]);
        check(&routes, "*", &[0]);
        check(&[], "/a", &[]);
        check(&["/a/"], "/", &[]);
        check(&["/a/"], "/b", &[]);
    }

    #[test]
    fn what_begins_so_is_no_whole_segment() {
        let routes = ["/a/", "/a*", "=/ab", "/ab/c/", "~^/ab", "/abc*"];
        check(&routes, "/a", &[0, 1]);
        check(&routes, "/a/x", &[0, 1]);
        check(&routes, "/ab", &[2, 4, 1]);
        check(&routes, "/ab/c/d", &[3, 4, 1]);
        check(&routes, "/abcd", &[5, 4, 1]);
        check(&routes, "/b", &[]);
    }

    #[test]
    fn regular_expressions_stand_under_their_literal_start() {
        let routes = ["~^/v[0-9]+/", "~[.]php$", "/v1/", "~^/users?/"];
        check(&routes, "/v1/x", &[2, 0, 1]);
        check(&routes, "/user/1", &[3, 1]);
        check(&routes, "/x.php", &[1]);
    }

    #[test]
    fn the_literal_start_is_what_every_match_begins_with() {
        let check = |expression: &str, expected: &str| assert_eq!(literal_start(expression), expected.as_bytes(), "{expression}");
        check("^/v[0-9]+/", "/v");
        check("^/api/users/", "/api/users/");
        check("^/ab?c", "/a");
        check("^/ab*c", "/a");
        check("^/ab{0,2}c", "/a");
        check("^/ab+c", "/ab");
        check("^/a|/b", "");
        check("^/a(b|c)", "");
        check("^(?i)/a", "");
        check("^/a.b", "/a");
        check("/a", "");
        check("(?i)^/a", "");
        check("^?", "");
        check("^", "");
        check("", "");
    }
}
