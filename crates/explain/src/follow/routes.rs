//! The routes of a site: the one that is taken with its steps, and for each other one what kept the request from it.

use crate::titles::route_title;
use tidegate_api::{ExplainedRoute, ExplainedStep, FailedLine, PassedRoute, WhyNotRoute};
use tidegate_config::writing::{self, Form};
use tidegate_model::{Filled, MatchLine, RouteOptions, Site, Step, run_order};
use tidegate_routing::{Explanation, Reason, RouteId};

/// More are counted and not listed.
const OTHER_ROUTES_MAX: usize = 100;

pub fn taken(site: &Site, id: RouteId, filled: &Filled) -> ExplainedRoute {
    let route = &site.routes[id.0 as usize];
    let nothing = RouteOptions::default();
    let lines = |options: &RouteOptions, steps: &[Step], of_site: bool| -> Vec<ExplainedStep> {
        let lines = writing::block(options, steps, Form::Shown(filled)).into_iter();
        lines.map(|(_, text)| ExplainedStep { text, of_site }).collect()
    };
    let all: Vec<&Step> = site.steps.iter().chain(&route.steps).collect();
    // Settings first, then the steps as they run.
    let steps = run_order(&all)
        .into_iter()
        .flat_map(|position| lines(&nothing, std::slice::from_ref(all[position]), position < site.steps.len()));
    ExplainedRoute {
        rank: rank(id),
        title: route_title(route, filled),
        steps: [lines(&site.options, &[], true), lines(&route.options, &[], false), steps.collect()].concat(),
        terminal: writing::terminal(&route.terminal, Form::Shown(filled)),
    }
}

/// In file order, and how many were left out. What misses only the path goes first: it is the least of a surprise.
pub fn passed(site: &Site, reasons: &[Explanation], filled: &Filled) -> (Vec<PassedRoute>, usize) {
    let others = reasons.iter().filter(|explained| explained.reason != Reason::Taken).count();
    let mut too_many = others.saturating_sub(OTHER_ROUTES_MAX);
    let mut passed = Vec::new();
    for Explanation { route: id, reason } in reasons {
        let route = &site.routes[id.0 as usize];
        let (why, shadowed_by, failed) = match reason {
            Reason::Taken => continue,
            Reason::Path if too_many > 0 => {
                too_many -= 1;
                continue;
            }
            Reason::Path => (WhyNotRoute::Path, None, Vec::new()),
            Reason::Shadowed { by } => (WhyNotRoute::Shadowed, Some(rank(*by)), Vec::new()),
            Reason::Conditions { failed } => (WhyNotRoute::Conditions, None, failed_lines(&route.matches, failed, filled)),
        };
        let origin = route.origin.as_ref().map(ToString::to_string);
        passed.push(PassedRoute { rank: rank(*id), title: route_title(route, filled), origin, why, shadowed_by, failed });
    }
    passed.truncate(OTHER_ROUTES_MAX);
    let left_out = others - passed.len();
    (passed, left_out)
}

/// `failed` has for each line the position of its first condition that does not hold.
fn failed_lines(lines: &[MatchLine], failed: &[usize], filled: &Filled) -> Vec<FailedLine> {
    let failed = lines.iter().zip(failed);
    failed
        .map(|(line, position)| FailedLine {
            line: writing::match_line(line, Form::Shown(filled)),
            condition: writing::condition(&line.conditions[*position], filled),
        })
        .collect()
}

fn rank(id: RouteId) -> usize {
    id.0 as usize + 1
}
