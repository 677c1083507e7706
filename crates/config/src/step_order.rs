//! What a reader of a configuration should know of the order in which its steps run, and of what that means for answers
//! that are kept: remarks, since nothing is wrong. The order itself is the model's (`step_order`).

use crate::diagnostics::{Diagnostic, Location};
use crate::directives::route::RouteDraft;
use crate::lowering::Lowering;
use tidegate_model::{RouteOptions, Step, log_ins, moved};

/// Of a site and its routes. Each is said once, also of lines that several routes share.
pub fn check(lowering: &mut Lowering<'_>, site: (&RouteOptions, &[(Step, Location)]), routes: &[RouteDraft]) {
    let (options, of_site) = site;
    let mut found: Vec<Diagnostic> = Vec::new();
    for route in std::iter::once(None).chain(routes.iter().map(Some)) {
        let of_route = route.map_or(&[][..], |route| &route.steps);
        let all: Vec<&(Step, Location)> = of_site.iter().chain(of_route).collect();
        let steps: Vec<&Step> = all.iter().map(|(step, _)| step).collect();
        let from = if route.is_some() { of_site.len() } else { 0 };
        for (moved, before) in moved(&steps, from) {
            found.push(moved_step(lowering, &all[moved].1, &all[before].1));
        }
        if let Some(route) = route
            && options.and(&route.options).cache.on().is_some()
            && route.asks_others()
        {
            found.extend(kept_apart(of_site, &route.steps));
        }
    }
    let mut said: Vec<Location> = Vec::new();
    for diagnostic in found {
        if !said.contains(&diagnostic.primary.location) {
            said.push(diagnostic.primary.location.clone());
            lowering.report(diagnostic);
        }
    }
}

fn moved_step(lowering: &Lowering<'_>, moved: &Location, before: &Location) -> Diagnostic {
    let name = |at: &Location| {
        let text = lowering.sources.file(at.file).text.get(at.span.clone()).unwrap_or_default();
        text.split(|c: char| c.is_whitespace() || matches!(c, '{' | ';')).next().unwrap_or_default().to_owned()
    };
    let (moved_name, before_name) = (name(moved), name(before));
    let message = format!("`{moved_name}` runs before the `{before_name}` that is written in front of it");
    Diagnostic::remark("step-moved", moved.clone(), message).label(before.clone(), "this has its turn later").help(format!(
        "nothing has to be done; put `{moved_name}` in front of it to have the lines in the order in which they run"
    ))
}

/// Said where the log-in stands that is the reason.
fn kept_apart(of_site: &[(Step, Location)], of_route: &[(Step, Location)]) -> Option<Diagnostic> {
    let steps = |of: &[(Step, Location)]| of.iter().map(|(step, _)| step.clone()).collect::<Vec<_>>();
    let (site_steps, route_steps) = (steps(of_site), steps(of_route));
    let log_in = log_ins(&site_steps, &route_steps).next()?;
    let (_, at) = of_route.iter().chain(of_site).find(|(step, _)| step == log_in)?;
    let message = "`cache` keeps answers apart for each who logs in here, and only those that say `public` or the like";
    Some(
        Diagnostic::remark("kept-for-each", at.clone(), message)
            .help("what is the same for everybody has to be in a route without a log-in to be kept once"),
    )
}
