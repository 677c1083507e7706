//! Queries as Traefik reads them: a `;` in one parts parameters there, as `&` does, and here it is a part of a value.
//! So a site of a file whose rules ask for parameters refuses such queries, and of labels the router that does.

use crate::outline::{Outline, OutlinedAnswer, OutlinedRoute, Service};

const SEMICOLON: &str = "query=\"~;\"";
const REFUSED: &str = "queries with `;` are refused with 400 where rules ask for parameters: Traefik takes it for `&`, and it is a part of a value here";

/// Puts the refusal in front of all routes of such sites.
pub fn refuse_semicolons(outline: &mut Outline) {
    let mut is_asked = false;
    for service in &mut outline.services {
        let Service::Site(site) = service else { continue };
        if !site.routes.iter().any(asks) && !site.answer.as_ref().is_some_and(asks_within) {
            continue;
        }
        let mut refused = OutlinedRoute::of(Vec::new(), OutlinedAnswer::status(400));
        refused.conditions.push(SEMICOLON.to_owned());
        site.routes.insert(0, refused);
        is_asked = true;
    }
    if is_asked {
        outline.remarks.push(REFUSED.to_owned());
    }
}

/// Has single routes that ask for parameters take such queries as well, and refuse them: of what labels say there is
/// one route, and nothing stands in front of it.
pub fn refuse_semicolons_within(outline: &mut Outline) {
    let routes = outline.services.iter_mut().flat_map(|service| match service {
        Service::Site(site) => site.routes.as_mut_slice(),
        Service::Tcp(_) => &mut [],
    });
    for route in routes.filter(|route| asks(route)) {
        let (asked, others): (Vec<String>, Vec<String>) = route.conditions.drain(..).partition(|line| line.contains("query="));
        route.conditions = others;
        let asked = asked.join(" ");
        if route.alternatives.is_empty() && !asked.is_empty() {
            route.alternatives.push(asked);
        } else if !asked.is_empty() {
            route.alternatives.iter_mut().for_each(|line| line.push_str(&format!(" {asked}")));
        }
        if !route.alternatives.is_empty() {
            route.alternatives.push(SEMICOLON.to_owned());
        }
        let mut refused = OutlinedRoute::of(Vec::new(), OutlinedAnswer::status(400));
        refused.conditions.push(SEMICOLON.to_owned());
        let answer = std::mem::replace(&mut route.answer, OutlinedAnswer::status(400));
        route.answer = OutlinedAnswer::Within { routes: vec![refused], steps: Vec::new(), otherwise: Some(Box::new(answer)) };
    }
}

fn asks(route: &OutlinedRoute) -> bool {
    let is_query = |line: &String| line.contains("query=");
    route.conditions.iter().any(is_query) || route.alternatives.iter().any(is_query) || asks_within(&route.answer)
}

fn asks_within(answer: &OutlinedAnswer) -> bool {
    match answer {
        OutlinedAnswer::Within { routes, otherwise, .. } => {
            routes.iter().any(asks) || otherwise.as_deref().is_some_and(asks_within)
        }
        _ => false,
    }
}
