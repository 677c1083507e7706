//! Conditions on fields that only proxies say of their clients, such as `X-Forwarded-For`. Here these are taken out of
//! what clients send before any condition is asked, so that one for such a field never holds, and the other way round
//! always. Whichever reader has written one: the route under it answers nobody, and takes all that its other conditions
//! leave, so that what it kept clients out of stays shut.

use crate::accounts::{Origin, StatementKind, Weight};
use crate::outline::{DROPPED, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, Service};
use std::collections::BTreeSet;
use tidegate_model::is_claimed;

const REFUSED: u16 = 503;

/// Whether one of the conditions that stand behind a `match` is about such a field.
pub fn asks_claim(conditions: &str) -> bool {
    split(conditions).into_iter().any(is_of_claim)
}

/// Shuts what is under such conditions, and says of what it is made of that it is not carried.
pub fn close(outline: &mut Outline) {
    let (mut kept, mut lost, mut of_sites) = (Origin::default(), Origin::default(), Origin::default());
    for service in &mut outline.services {
        let Service::Site(site) = service else { continue };
        close_site(site, &mut kept, &mut lost);
        of_sites.add(&site.own_origin());
    }
    let said = |origin: Origin| -> BTreeSet<usize> { origin.carried.into_iter().chain(origin.differs.into_keys()).collect() };
    let (kept, mut lost, of_sites) = (said(kept), said(lost), said(of_sites));
    // What other lines say as well is said, but for what asks and what keeps out.
    let is_asking = |at: &usize| {
        let own = outline.statements.iter().find(|statement| statement.at == *at);
        own.is_some_and(|own| own.name.starts_with('@') || own.kind == StatementKind::Needed(Weight::Protection))
    };
    lost.retain(|at| !kept.contains(at) && (!of_sites.contains(at) || is_asking(at)));
    for service in &mut outline.services {
        service.lose(&lost);
        let Service::Site(site) = service else { continue };
        // The routes that answer nobody stand for all that it was to keep out.
        let is_theirs = |at: &usize| lost.contains(at) && site.routes.iter().any(|route| route.closes(*at));
        let theirs: BTreeSet<usize> = site.origin.within.iter().copied().filter(is_theirs).collect();
        site.origin.within.retain(|at| !theirs.contains(at));
        site.answer_origin.within.retain(|at| !theirs.contains(at));
    }
    for at in lost {
        outline.reasons.insert(at, DROPPED.to_owned());
    }
}

/// Leaves out the sites that have such conditions, where those of others are beside them.
pub fn refuse(outline: &mut Outline) {
    let count = outline.services.len();
    outline.services.retain(|service| match service {
        Service::Site(site) => {
            let mut site = site.clone();
            let mut lost = Origin::default();
            close_site(&mut site, &mut Origin::default(), &mut lost);
            lost.within.is_empty() && site.routes.iter().all(|route| route.closed.is_none())
        }
        Service::Tcp(_) => true,
    });
    if outline.services.len() < count {
        outline.without.get_or_insert(DROPPED);
    }
}

fn close_site(site: &mut OutlinedSite, kept: &mut Origin, lost: &mut Origin) {
    // Without a change of an answer nobody sees more; without any other step somebody may.
    let is_shut = site.steps.iter().any(|step| asks_claim_within(step) && !step.starts_with("header "));
    site.steps.retain(|step| !asks_claim_within(step));
    for route in &mut site.routes {
        close_route(route, kept, lost);
    }
    if let Some(answer) = &mut site.answer {
        close_within(answer, kept, lost);
    }
    if is_shut {
        let mut refused = refusal(Vec::new());
        refused.origin.within.extend(site.origin.within.iter());
        site.routes.insert(0, refused);
    }
}

fn close_route(route: &mut OutlinedRoute, kept: &mut Origin, lost: &mut Origin) {
    let steps = route.steps.len();
    let is_step_lost = route.steps.iter().any(|step| asks_claim_within(step) && !step.starts_with("header "));
    route.steps.retain(|step| !asks_claim_within(step));
    let asks = route.conditions.iter().chain(&route.alternatives).any(|text| asks_claim(text));
    if !asks && !is_step_lost {
        close_within(&mut route.answer, kept, lost);
        if route.steps.len() == steps {
            kept.add(&route.whole_origin());
        }
        return;
    }
    lost.add(&route.whole_origin());
    let mut refused = refusal(std::mem::take(&mut route.patterns));
    refused.byte_prefixes = std::mem::take(&mut route.byte_prefixes);
    refused.case = route.case;
    refused.conditions = without(&route.conditions);
    let alternatives = without(&route.alternatives);
    // One of them that asks for nothing else takes all.
    refused.alternatives = if alternatives.len() < route.alternatives.len() { Vec::new() } else { alternatives };
    refused.origin.within = route.whole_origin().within;
    *route = refused;
}

fn close_within(answer: &mut OutlinedAnswer, kept: &mut Origin, lost: &mut Origin) {
    let OutlinedAnswer::Within { routes, otherwise, .. } = answer else { return };
    for route in routes {
        close_route(route, kept, lost);
    }
    if let Some(answer) = otherwise {
        close_within(answer, kept, lost);
    }
}

fn refusal(patterns: Vec<String>) -> OutlinedRoute {
    OutlinedRoute { closed: Some(DROPPED), ..OutlinedRoute::of(patterns, OutlinedAnswer::status(REFUSED)) }
}

/// Each text without its conditions on such fields, where anything else is left of it.
fn without(conditions: &[String]) -> Vec<String> {
    let left = |text: &String| split(text).into_iter().filter(|one| !is_of_claim(one)).collect::<Vec<&str>>().join(" ");
    conditions.iter().map(left).filter(|text| !text.is_empty()).collect()
}

/// Whether a step has a condition on such a field in its block.
fn asks_claim_within(step: &str) -> bool {
    step.contains("match ") && split(step).into_iter().any(is_of_claim)
}

/// `not header="X-Real-IP: 10.*"`, as one of [`split`].
fn is_of_claim(condition: &str) -> bool {
    let bare = condition.strip_prefix("not ").unwrap_or(condition);
    let name = bare.strip_prefix("header=\"").and_then(|rest| rest.split([':', '"']).next());
    name.is_some_and(|name| is_claimed(name.trim()))
}

/// Conditions that stand one behind another, each with its `not`.
fn split(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ' ' | ';' if !is_quoted && &text[start..at] != "not" => {
                all.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(&text[start..]);
    all.retain(|one| !one.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::{asks_claim, close, without};
    use crate::outline::{Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, Service};

    #[test]
    fn conditions_on_fields_of_proxies_are_found() {
        let check = |text: &str, expected: bool| assert_eq!(asks_claim(text), expected, "{text}");
        check("header=\"X-Forwarded-For\"", true);
        check("method=\"GET\" not header=\"x_real_ip: 10.*\"", true);
        check("header=\"X-Key: a \\\" header=\\\"X-Real-IP\"", false);
        check("path=\"/header=X-Real-IP\" header=\"Via\"", false);
        assert_eq!(
            without(&["method=\"A B\" not header=\"Forwarded\" not path=\"/a\"".into(), "header=\"Forwarded\"".into()]),
            ["method=\"A B\" not path=\"/a\""]
        );
    }

    #[test]
    fn what_is_under_them_answers_nobody() {
        let route = |condition: &str| OutlinedRoute {
            conditions: vec![condition.to_owned(), "method=\"GET\"".to_owned()],
            ..OutlinedRoute::of(vec!["/a".into()], OutlinedAnswer::status(200))
        };
        let routes = vec![route("not header=\"X-Forwarded-For\""), route("header=\"X-Key\"")];
        let site = OutlinedSite { routes, ..OutlinedSite::default() };
        let mut outline = Outline { services: vec![Service::Site(site)], ..Outline::default() };
        close(&mut outline);
        let Some(Service::Site(site)) = outline.services.first() else { panic!("the site is there") };
        assert!(site.routes[0].answer.is_refusal() && !site.routes[1].answer.is_refusal());
        assert_eq!(site.routes[0].conditions, ["method=\"GET\""]);
        assert_eq!(site.routes[0].patterns, ["/a"]);
    }
}
