//! A `route` within a route: it takes what both match, and is done with what both say. In the model there is no such
//! thing; it is written out as a route of its own. Reading one is in `route`.

use crate::diagnostics::{Diagnostic, Location};
use crate::directives::route::RouteDraft;
use crate::lowering::Lowering;
use crate::reachability::covers;
use tidegate_model::{MatchLine, PathPattern};

/// Lines of `match` that two routes make together: each of the one with each of the other.
const MATCH_LINES_MAX: usize = 1000;

/// Which steps an inner route has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// Steps of its own, which run behind those of the outer one.
    BehindTheOuter,
    /// All of them: it is a part of the outer one.
    Complete,
}

/// The inner route as it would stand in the site.
pub fn join(lowering: &mut Lowering<'_>, outer: &RouteDraft, inner: RouteDraft, steps: Steps) -> RouteDraft {
    let mut joined = inner;
    joined.faulty |= outer.faulty;
    if joined.paths.is_empty() {
        joined.paths.clone_from(&outer.paths);
    } else if !outer.paths.is_empty() {
        let outside = joined.paths.iter().find(|(path, _)| !outer.paths.iter().any(|(wide, _)| covers(wide, path)));
        if let Some((path, at)) = outside {
            lowering.report(outside_of_route(path, at, &outer.paths));
            joined.faulty = true;
        }
    }
    joined.matches = both(&outer.matches, joined.matches);
    if joined.matches.len() > MATCH_LINES_MAX {
        let message = format!("the two routes have more than {MATCH_LINES_MAX} combinations of `match` lines");
        let diagnostic = Diagnostic::error("too-many-conditions", joined.location.clone(), message);
        lowering.report(diagnostic.help("put values of one condition on one line, as in `match method=\"GET,POST\"`"));
        joined.matches.clear();
        joined.faulty = true;
    }
    joined.origin = joined.origin.or_else(|| outer.origin.clone());
    joined.options = outer.options.and(&joined.options);
    if steps == Steps::BehindTheOuter {
        joined.steps.splice(..0, outer.steps.iter().cloned());
    }
    joined
}

/// Lines are alternatives, and of both routes one has to hold.
fn both(outer: &[MatchLine], inner: Vec<MatchLine>) -> Vec<MatchLine> {
    if outer.is_empty() {
        return inner;
    }
    if inner.is_empty() {
        return outer.to_vec();
    }
    let pairs = outer.iter().flat_map(|outer| inner.iter().map(move |inner| (outer, inner)));
    let pairs = pairs.take(MATCH_LINES_MAX + 1);
    pairs.map(|(outer, inner)| MatchLine { conditions: [&outer.conditions[..], &inner.conditions].concat() }).collect()
}

fn outside_of_route(path: &PathPattern, at: &Location, outer: &[(PathPattern, Location)]) -> Diagnostic {
    let (wide, wide_at) = &outer[0];
    let message = format!("`{}` is not within `{}`, which this route is confined to", shown(path), shown(wide));
    let diagnostic = Diagnostic::error("outside-of-route", at.clone(), message).label(wide_at.clone(), "the outer route");
    match (wide, path) {
        (PathPattern::Prefix(prefix), PathPattern::Exact(_) | PathPattern::Prefix(_) | PathPattern::Beginning(_)) => {
            diagnostic.help(format!("write `{}{}`, or put the route into the site", prefix.trim_end_matches('/'), shown(path)))
        }
        _ => diagnostic.help("leave the pattern out and say the rest with `match`, or put the route into the site"),
    }
}

fn shown(path: &PathPattern) -> String {
    match path {
        PathPattern::Exact(text) => text.clone(),
        PathPattern::Prefix(text) | PathPattern::Beginning(text) => format!("{text}*"),
        PathPattern::Regex(text) => format!("~{text}"),
    }
}
