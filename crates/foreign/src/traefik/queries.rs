//! Queries as Traefik reads them: a `;` in one parts parameters there, as `&` does, and here it is a part of a value.
//! So a site whose rules ask for parameters refuses such queries, wherever that is told of files.

use crate::accounts::Origin;
use crate::outline::{Outline, OutlinedAnswer, OutlinedRoute, OutlinedSetting, Service};

const MAP: &str = "query-with-semicolon";
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
        refused.conditions.push(format!("map=\"{MAP}\""));
        site.routes.insert(0, refused);
        is_asked = true;
    }
    if is_asked {
        let line = format!("map \"{MAP}\" key=\"{{query}}\" {{ row \"~;\" \"1\"; }}");
        outline.settings.push(OutlinedSetting { line, origin: Origin::default() });
        outline.remarks.push(REFUSED.to_owned());
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
