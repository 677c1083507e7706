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
