//! The routes of a site: the one that is taken with its steps, and for each other one what kept the request from it.

use super::{FailedLine, RoutePassed, RouteSeen, StepSeen, WhyNotRoute};
use crate::wording;
use tidegate_model::{MatchLine, Site, Step};
use tidegate_routing::{Explanation, Reason, RouteId};

/// More are counted and not listed.
const OTHER_ROUTES_MAX: usize = 100;

pub fn taken(site: &Site, id: RouteId) -> RouteSeen {
    let route = &site.routes[id.0 as usize];
    let steps = |steps: &[Step], of_site: bool| -> Vec<StepSeen> {
        steps.iter().map(|step| StepSeen { text: wording::step(step), of_site }).collect()
    };
    RouteSeen {
        rank: rank(id),
        title: wording::route_title(route),
        steps: [steps(&site.steps, true), steps(&route.steps, false)].concat(),
        terminal: wording::terminal(&route.terminal),
    }
}

/// In file order, and how many were left out. What misses only the path goes first: it is the least of a surprise.
pub fn passed(site: &Site, reasons: &[Explanation]) -> (Vec<RoutePassed>, usize) {
    let others = reasons.iter().filter(|explained| explained.reason != Reason::Taken).count();
    let mut too_many = others.saturating_sub(OTHER_ROUTES_MAX);
    let mut passed = Vec::new();
    for Explanation { route: id, reason } in reasons {
        let route = &site.routes[id.0 as usize];
        let why = match reason {
            Reason::Taken => continue,
            Reason::Path if too_many > 0 => {
                too_many -= 1;
                continue;
            }
            Reason::Path => WhyNotRoute::Path,
            Reason::Shadowed { by } => WhyNotRoute::Shadowed { by: rank(*by) },
            Reason::Conditions { failed } => WhyNotRoute::Conditions(failed_lines(&route.matches, failed)),
        };
        passed.push(RoutePassed { rank: rank(*id), title: wording::route_title(route), why });
    }
    passed.truncate(OTHER_ROUTES_MAX);
    let left_out = others - passed.len();
    (passed, left_out)
}

/// `failed` has for each line the position of its first condition that does not hold.
fn failed_lines(lines: &[MatchLine], failed: &[usize]) -> Vec<FailedLine> {
    let failed = lines.iter().zip(failed);
    failed
        .map(|(line, position)| FailedLine {
            line: wording::match_line(line),
            condition: wording::condition(&line.conditions[*position]),
        })
        .collect()
}

fn rank(id: RouteId) -> usize {
    id.0 as usize + 1
}
