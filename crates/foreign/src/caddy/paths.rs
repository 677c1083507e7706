//! Paths that handlers of Caddy change, as matchers behind them see them: routes of ours look at what clients ask for.

use crate::matching::{Asked, AskedLiteral, Matching, PathPattern};
use crate::texts::fits;
use tidegate_kdl::quoted;

/// What the path of a request is where we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathView {
    /// What the client asked for.
    Same,
    /// What the client asked for without one of these in front of it; some are no whole segments where that is said.
    Without {
        prefixes: Vec<String>,
        is_of_bytes: bool,
    },
    /// This, whatever was asked for.
    Fixed(String),
    Unknown,
}

#[derive(Debug, Clone)]
pub enum PathChange {
    /// Takes whole segments off.
    Strip(String),
    /// This path in place of any.
    To(String),
    /// What the line says.
    Line(String),
}

impl PathChange {
    pub fn line(&self) -> String {
        match self {
            PathChange::Strip(prefix) => format!("strip-prefix {}", quoted(prefix)),
            PathChange::To(path) => format!("rewrite {}", quoted(path)),
            PathChange::Line(line) => line.clone(),
        }
    }

    /// Whether a prefix is taken off what is not known to have it as a whole segment.
    pub fn is_of_segments(&self, taken: &Matching) -> bool {
        let PathChange::Strip(prefix) = self else { return false };
        let folder = format!("{}/", prefix.trim_end_matches('/'));
        !taken.clauses.iter().all(|clause| clause.iter().any(|literal| is_below(literal, &folder)))
    }
}

impl PathView {
    /// What it is behind the change, where these requests are taken.
    pub fn after(&self, change: &PathChange, taken: &Matching) -> PathView {
        match (change, self) {
            (PathChange::Strip(prefix), PathView::Same) => {
                let is_below = |clause: &Vec<AskedLiteral>| clause.iter().any(|literal| is_below(literal, prefix));
                let mut prefixes = vec![prefix.clone()];
                if !taken.clauses.iter().all(is_below) {
                    prefixes.push(String::new());
                }
                PathView::Without { prefixes, is_of_bytes: change.is_of_segments(taken) }
            }
            (PathChange::Strip(prefix), PathView::Without { prefixes: known, .. }) => {
                let more = known.iter().map(|known| format!("{known}{prefix}"));
                PathView::Without { prefixes: more.chain(known.iter().cloned()).collect(), is_of_bytes: true }
            }
            (PathChange::Strip(prefix), PathView::Fixed(path)) => {
                PathView::Fixed(path.strip_prefix(prefix.as_str()).unwrap_or(path).to_owned())
            }
            (PathChange::To(path), _) => PathView::Fixed(path.split('?').next().unwrap_or_default().to_owned()),
            (PathChange::Strip(_), PathView::Unknown) | (PathChange::Line(_), _) => PathView::Unknown,
        }
    }

    /// What clients have to ask for so that this holds here; `None` where it cannot be said.
    pub fn seen(&self, matching: &Matching) -> Option<Matching> {
        if *self == PathView::Same {
            return Some(matching.clone());
        }
        matching.replaced(|literal| self.literal(literal))
    }

    fn literal(&self, literal: &AskedLiteral) -> Option<Matching> {
        let as_it_is = Matching { clauses: vec![vec![literal.clone()]] };
        let paths = match &literal.asked {
            Asked::Paths(paths) => paths,
            Asked::Condition(text) if text.starts_with("path=") => return None,
            Asked::Hosts(_) | Asked::Condition(_) => return Some(as_it_is),
        };
        match self {
            PathView::Same => Some(as_it_is),
            PathView::Unknown => None,
            PathView::Fixed(path) => {
                let holds = paths.iter().any(|pattern| takes(pattern, path)) != literal.is_negated;
                Some(if holds { Matching::always() } else { Matching::never() })
            }
            PathView::Without { prefixes, is_of_bytes } => {
                let mut seen = Vec::new();
                for prefix in prefixes {
                    for pattern in paths {
                        seen.push(with_prefix(pattern, prefix)?);
                        // Caddy takes bytes off, and puts a slash before what is left.
                        seen.extend(joined_to(pattern, prefix).filter(|_| *is_of_bytes && !literal.is_negated));
                    }
                }
                let literal = AskedLiteral { asked: Asked::Paths(seen), is_negated: literal.is_negated };
                let seen = Matching { clauses: vec![vec![literal]] };
                Some(if *is_of_bytes { super::matchers::in_any_case(&seen) } else { seen })
            }
        }
    }
}

/// Whether a path that is looked for in the place of another may be taken by one of these patterns, and the other not.
pub fn may_be_tried(tries: &[String], matching: &Matching) -> bool {
    let patterns = matching.clauses.iter().flatten().filter_map(|literal| match &literal.asked {
        Asked::Paths(paths) => Some(paths),
        Asked::Hosts(_) | Asked::Condition(_) => None,
    });
    let may_be = |pattern: &PathPattern, tried: &String| match tried.strip_prefix("{path}") {
        // What begins so begins so with an ending as well.
        Some("" | "/") => false,
        Some(_) => pattern.pattern.ends_with('$') || (!pattern.pattern.starts_with('~') && !pattern.pattern.ends_with('*')),
        None => tried.contains('{') || takes(pattern, tried),
    };
    patterns.flatten().any(|pattern| tries.iter().any(|tried| !tried.starts_with('=') && may_be(pattern, tried)))
}

/// Whether all that it takes begins so.
fn is_below(literal: &AskedLiteral, prefix: &str) -> bool {
    match &literal.asked {
        Asked::Paths(paths) if !literal.is_negated => paths.iter().all(|path| path.pattern.starts_with(prefix)),
        Asked::Paths(_) | Asked::Hosts(_) | Asked::Condition(_) => false,
    }
}

fn with_prefix(pattern: &PathPattern, prefix: &str) -> Option<PathPattern> {
    if prefix.is_empty() {
        return Some(pattern.clone());
    }
    let Some(regex) = pattern.pattern.strip_prefix('~') else {
        return Some(PathPattern {
            pattern: format!("{prefix}{}", pattern.pattern),
            byte_prefix: pattern.byte_prefix.as_ref().map(|own| format!("{prefix}{own}")),
        });
    };
    let (flags, rest) = match regex.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", regex),
    };
    let rest = rest.strip_prefix('^')?;
    Some(PathPattern::of(format!("~{flags}^{}{rest}", regex_syntax::escape(prefix))))
}

/// `/v1admin` of `/admin` behind `/v1`, which is `/admin` when that is taken off.
fn joined_to(pattern: &PathPattern, prefix: &str) -> Option<PathPattern> {
    if prefix.is_empty() {
        return None;
    }
    let without_slash = |text: &str| text.strip_prefix('/').filter(|rest| !rest.is_empty()).map(str::to_owned);
    let Some(regex) = pattern.pattern.strip_prefix('~') else {
        let own = format!("{prefix}{}", without_slash(&pattern.pattern)?);
        let byte_prefix = pattern.byte_prefix.as_ref().map(|own| format!("{prefix}{}", own.trim_start_matches('/')));
        return Some(PathPattern { pattern: own, byte_prefix });
    };
    let (flags, rest) = regex.strip_prefix("(?i)").map_or(("", regex), |rest| ("(?i)", rest));
    let rest = without_slash(rest.strip_prefix('^')?)?;
    Some(PathPattern::of(format!("~{flags}^{}{rest}", regex_syntax::escape(prefix))))
}

/// Whether it takes the path, as Caddy compares them: letters are the same large and small.
fn takes(pattern: &PathPattern, path: &str) -> bool {
    let folded = path.to_ascii_lowercase();
    if let Some(prefix) = &pattern.byte_prefix {
        return folded.starts_with(&prefix.to_ascii_lowercase());
    }
    let own = pattern.pattern.to_ascii_lowercase();
    match (pattern.pattern.strip_prefix('~'), own.strip_suffix("/*")) {
        (Some(regex), _) => fits(regex, path),
        (None, Some(stem)) => folded == stem || folded.strip_prefix(stem).is_some_and(|rest| rest.starts_with('/')),
        (None, None) => folded == own,
    }
}
