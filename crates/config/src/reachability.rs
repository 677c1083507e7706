//! Which routes can never be taken: because an earlier one takes everything they would, a warning, or because
//! `path-policy` lets no request come with such a path, an error. Exact for paths and equal conditions; two regular
//! expressions are only compared as text.

use crate::diagnostics::{Diagnostic, Location};
use crate::directives::route::RouteDraft;
use crate::lowering::Lowering;
use tidegate_model::{ConditionKind, MatchLine, PathPattern, PathPolicy, expression};
use tidegate_routing::path_policy::{NeverFits, never_fits};

/// Refuses patterns that no request fits under `path-policy`: whoever writes `/Admin/*` to keep others out must be told
/// that it keeps out nobody.
pub fn check_paths(lowering: &mut Lowering<'_>, routes: &[RouteDraft], of_site: PathPolicy) {
    for route in routes {
        let own = route.options.path_policy;
        let of_site = PathPolicy { expressions: own.unwrap_or(of_site).expressions, ..of_site };
        let policies = [Some(of_site), own];
        let mut in_conditions = Vec::new();
        for condition in route.matches.iter().flat_map(|line| &line.conditions) {
            condition.each(&mut |one| {
                if let ConditionKind::Path(patterns) = &one.kind {
                    in_conditions.extend(patterns);
                }
            });
        }
        let in_conditions = in_conditions.into_iter().map(|pattern| (pattern, &route.location));
        for (pattern, location) in route.paths.iter().map(|(pattern, at)| (pattern, at)).chain(in_conditions) {
            if let Some(reason) = policies.iter().flatten().find_map(|policy| never_fits(pattern, *policy)) {
                lowering.report(no_such_path(pattern, reason, location.clone()));
            }
        }
    }
}

fn no_such_path(pattern: &PathPattern, reason: NeverFits, location: Location) -> Diagnostic {
    let (text, rest) = match pattern {
        PathPattern::Exact(text) => (text, ""),
        PathPattern::Prefix(text) | PathPattern::Beginning(text) => (text, "*"),
        PathPattern::Regex(text) => (&format!("~{text}"), ""),
    };
    let (why, help) = match reason {
        NeverFits::Spelled(path) => (
            format!("`path-policy` makes `{path}` of such a path"),
            format!("write `{path}{rest}`, or say otherwise with `path-policy`"),
        ),
        NeverFits::Refused(refusal) => {
            (format!("`{}` refuses such a path", refusal.setting()), "remove it, or say otherwise with `path-policy`".to_owned())
        }
        NeverFits::Contains(literal) => (
            format!("no path has `{literal}` in it as `path-policy` spells them"),
            "write it as such a path arrives (small letters, single slashes), or say otherwise with `path-policy`".to_owned(),
        ),
        NeverFits::NoPath => {
            ("it is no path below `/`".to_owned(), "write a path that begins with `/` and stays below it".to_owned())
        }
    };
    Diagnostic::error("no-such-path", location, format!("no request fits `{text}{rest}`: {why}")).help(help)
}

/// Warns of routes, and of single patterns of routes, that earlier routes take away.
pub fn check(lowering: &mut Lowering<'_>, routes: &[RouteDraft]) {
    for (index, route) in routes.iter().enumerate() {
        if route.faulty {
            continue;
        }
        let earlier: Vec<&RouteDraft> = routes[..index]
            .iter()
            .filter(|earlier| !earlier.faulty && !earlier.goes_on() && conditions_cover(&earlier.matches, &route.matches))
            .collect();
        if route.paths.is_empty() {
            if let Some(taker) = earlier.iter().find(|earlier| covers_all(earlier)) {
                lowering.report(unreachable_route(route, &taker.location));
            }
            continue;
        }
        let takers: Vec<Option<&Location>> = route
            .paths
            .iter()
            .enumerate()
            .map(|(position, (path, _))| {
                let before = earlier.iter().find_map(|earlier| taker_of(earlier, path));
                let beside = || route.paths[..position].iter().find(|(other, _)| covers(other, path)).map(|(_, at)| at);
                before.or_else(beside)
            })
            .collect();
        let all_taken_before =
            route.paths.iter().all(|(path, _)| earlier.iter().any(|earlier| taker_of(earlier, path).is_some()));
        if all_taken_before {
            let taker = takers.iter().flatten().next().expect("each pattern has a taker");
            lowering.report(unreachable_route(route, taker));
            continue;
        }
        for ((_, at), taker) in route.paths.iter().zip(takers) {
            if let Some(taker) = taker {
                let diagnostic = Diagnostic::warning("unreachable-pattern", at.clone(), "this pattern is never reached")
                    .label(taker.clone(), "this takes all of it");
                lowering.report(diagnostic);
            }
        }
    }
}

fn unreachable_route(route: &RouteDraft, taker: &Location) -> Diagnostic {
    Diagnostic::warning("unreachable-route", route.location.clone(), "this route is never reached")
        .label(taker.clone(), "this takes all of its requests")
        .help("file order wins: move it in front of the other, or remove it")
}

/// What in the earlier route takes the whole pattern.
fn taker_of<'r>(earlier: &'r RouteDraft, path: &PathPattern) -> Option<&'r Location> {
    if earlier.paths.is_empty() {
        return Some(&earlier.location);
    }
    earlier.paths.iter().find(|(other, _)| covers(other, path)).map(|(_, at)| at)
}

fn covers_all(route: &RouteDraft) -> bool {
    route.paths.is_empty() || route.paths.iter().any(|(path, _)| *path == PathPattern::Prefix("/".into()))
}

/// Whether every path that `narrow` matches is matched by `wide`.
pub(crate) fn covers(wide: &PathPattern, narrow: &PathPattern) -> bool {
    match (wide, narrow) {
        (PathPattern::Prefix(wide), PathPattern::Exact(path)) => path.starts_with(wide) || format!("{path}/") == *wide,
        (PathPattern::Prefix(wide), PathPattern::Prefix(narrow) | PathPattern::Beginning(narrow)) => narrow.starts_with(wide),
        (PathPattern::Beginning(wide), PathPattern::Exact(path) | PathPattern::Beginning(path)) => path.starts_with(wide),
        // `/a/*` is `/a` as well.
        (PathPattern::Beginning(wide), PathPattern::Prefix(narrow)) => narrow.trim_end_matches('/').starts_with(wide),
        (PathPattern::Prefix(wide), PathPattern::Regex(_)) => wide == "/",
        (PathPattern::Exact(wide), PathPattern::Exact(narrow)) => wide == narrow,
        (PathPattern::Regex(wide), PathPattern::Regex(narrow)) => wide == narrow,
        (PathPattern::Regex(wide), PathPattern::Exact(path)) => {
            expression(wide).build().is_ok_and(|regex| regex.is_match(path.as_bytes()))
        }
        (PathPattern::Exact(_), PathPattern::Prefix(_) | PathPattern::Beginning(_) | PathPattern::Regex(_))
        | (PathPattern::Beginning(_), PathPattern::Regex(_))
        | (PathPattern::Regex(_), PathPattern::Prefix(_) | PathPattern::Beginning(_)) => false,
    }
}

/// Whether every request that fits `narrow` fits `wide`: each line of `narrow` asks for all that some line of `wide`
/// asks for.
fn conditions_cover(wide: &[MatchLine], narrow: &[MatchLine]) -> bool {
    if wide.is_empty() {
        return true;
    }
    !narrow.is_empty()
        && narrow.iter().all(|narrow_line| {
            wide.iter().any(|wide_line| wide_line.conditions.iter().all(|condition| narrow_line.conditions.contains(condition)))
        })
}

#[cfg(test)]
mod tests {
    use super::covers;
    use tidegate_model::PathPattern::{self, Beginning, Exact, Prefix, Regex};

    #[test]
    fn which_pattern_takes_all_of_another() {
        let check = |wide: PathPattern, narrow: PathPattern, expected: bool| {
            assert_eq!(covers(&wide, &narrow), expected, "for {wide:?} and {narrow:?}");
        };
        let prefix = |text: &str| Prefix(text.to_string());
        let exact = |text: &str| Exact(text.to_string());
        let regex = |text: &str| Regex(text.to_string());
        let beginning = |text: &str| Beginning(text.to_string());
        check(beginning("/a"), exact("/ab"), true);
        check(beginning("/a"), exact("/a"), true);
        check(beginning("/a"), prefix("/a/"), true);
        check(beginning("/a"), prefix("/ab/c/"), true);
        check(beginning("/a"), beginning("/ab"), true);
        check(beginning("/ab"), beginning("/a"), false);
        check(beginning("/ab"), prefix("/a/"), false);
        check(beginning("/a"), regex("^/a"), false);
        check(prefix("/a/"), beginning("/a/b"), true);
        check(prefix("/a/"), beginning("/a"), false);
        check(prefix("/"), beginning("/a"), true);
        check(exact("/a"), beginning("/a"), false);
        check(regex("^/a"), beginning("/a"), false);
        check(prefix("/"), prefix("/a/"), true);
        check(prefix("/"), exact("/"), true);
        check(prefix("/"), regex("^/x"), true);
        check(prefix("/a/"), exact("/a"), true);
        check(prefix("/a/"), exact("/ab"), false);
        check(prefix("/a/"), prefix("/a/b/"), true);
        check(prefix("/a/b/"), prefix("/a/"), false);
        check(prefix("/a/"), regex("^/a/b"), false);
        check(exact("/a"), prefix("/a/"), false);
        check(regex("^/v[0-9]+/"), exact("/v1/x"), true);
        check(regex("^/v[0-9]+/"), exact("/w1/x"), false);
        check(regex("^/v"), regex("^/v"), true);
        check(regex("^/v"), regex("^/v1"), false);
    }
}
