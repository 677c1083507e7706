//! Routes of one path that are told apart by more than the path.

use crate::manner::MannerLimits;
use tidegate_model::{Condition, ConditionKind, MatchLine, Route};

/// The route with its limits, and in front of it that of clients whom no limit counts.
pub(super) fn limited(route: Route, limits: &MannerLimits) -> Vec<Route> {
    let MannerLimits { steps, exempt } = limits;
    if steps.is_empty() {
        return vec![route];
    }
    let counted = Route { steps: steps.iter().chain(&route.steps).cloned().collect(), ..route.clone() };
    if exempt.is_empty() {
        return vec![counted];
    }
    let of_exempt = Condition { negated: false, kind: ConditionKind::Client(exempt.clone()) };
    vec![Route { matches: vec![MatchLine { conditions: vec![of_exempt] }], ..route }, counted]
}

/// The route for those of its requests alone for which all of these hold as well.
pub(super) fn with_conditions(mut route: Route, conditions: &[Condition]) -> Route {
    if route.matches.is_empty() && !conditions.is_empty() {
        route.matches.push(MatchLine { conditions: Vec::new() });
    }
    for line in &mut route.matches {
        line.conditions.extend_from_slice(conditions);
    }
    route
}
