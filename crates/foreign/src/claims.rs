//! Conditions on fields that only proxies say of their clients, such as `X-Forwarded-For`. Here these are taken out of
//! what clients send before any condition is asked, so that one for such a field never holds, and the other way round
//! always. The same is done, on a whole site, with each field by which one of its lines tells servers who a client is.
//! Whichever reader has written such a condition: the route under it answers nobody, and takes all that its other
//! conditions leave, so that what it kept clients out of stays shut.

use crate::accounts::{Origin, StatementKind, Weight};
use crate::outline::{DROPPED, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, Service};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::is_claimed;

const REFUSED: u16 = 503;
const TOLD: &str = "another line of its site tells servers this field, so that it is taken out of what clients send before conditions are \
                    asked: tell them another field, or ask for another";
/// What tells who a client is, or may: the value of a map does what its key does.
const TELLING: [&str; 6] = ["{auth.", "{jwt.", "{tls.client.", "{geo.", "{map.", "{oidc."];

/// Whether one of the conditions that stand behind a `match` is about a field that only proxies say.
pub fn asks_claim(conditions: &str) -> bool {
    TakenOut::default().asks(conditions)
}

/// What is taken out of the requests of a site before its conditions are asked, beside what only proxies say.
#[derive(Debug, Default)]
struct TakenOut {
    /// Names of fields, as `_` and `-` are the same.
    fields: BTreeSet<String>,
    /// Keys of maps by their names.
    keys: BTreeMap<String, String>,
}

impl TakenOut {
    fn of(site: &OutlinedSite, keys: &BTreeMap<String, String>) -> TakenOut {
        let mut fields: BTreeSet<String> = site.steps.iter().flat_map(|step| told_by(step)).collect();
        for route in &site.routes {
            fields_told(route, &mut fields);
        }
        if let Some(answer) = &site.answer {
            fields_told_within(answer, &mut fields);
        }
        TakenOut { fields, keys: keys.clone() }
    }

    fn is_field(&self, name: &str) -> bool {
        let name_folded = folded(name);
        let begins = |known: &String| known.strip_suffix('*').is_some_and(|start| name_folded.starts_with(start));
        is_claimed(name) || self.fields.contains(&name_folded) || self.fields.iter().any(begins)
    }

    fn asks(&self, conditions: &str) -> bool {
        split(conditions).into_iter().any(|one| self.is_asked_by(one))
    }

    /// Whether a step has such a condition in its block.
    fn asks_within(&self, step: &str) -> bool {
        step.contains("match ") && self.asks(step)
    }

    /// `not header="X-Real-IP: 10.*"` or `map="roles=admin"`, as one of [`split`].
    fn is_asked_by(&self, condition: &str) -> bool {
        let bare = condition.strip_prefix("not ").unwrap_or(condition);
        if let Some(map) = bare.strip_prefix("map=\"").and_then(|rest| rest.split(['=', '"']).next()) {
            let key = self.keys.get(map).map_or("", String::as_str);
            let mut names = key.split("{request.header.").skip(1).filter_map(|rest| rest.split('}').next());
            return names.any(|name| self.is_field(name));
        }
        let name = bare.strip_prefix("header=\"").and_then(|rest| rest.split([':', '"']).next());
        name.is_some_and(|name| self.is_field(name.trim()))
    }

    /// Each text without its conditions on such fields, where anything else is left of it.
    fn without(&self, conditions: &[String]) -> Vec<String> {
        let left = |text: &String| split(text).into_iter().filter(|one| !self.is_asked_by(one)).collect::<Vec<&str>>().join(" ");
        conditions.iter().map(left).filter(|text| !text.is_empty()).collect()
    }
}

fn folded(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// The fields by which a line tells servers who a client is: `request-header "X-User" "{auth.user}"`, and those that a
/// `forward-auth` copies.
fn told_by(step: &str) -> Vec<String> {
    if let Some(rest) = step.strip_prefix("request-header ") {
        let is_telling = TELLING.iter().any(|start| rest.contains(start));
        let name = rest.split('"').nth(1).and_then(|named| named.split(':').next());
        let is_own = |name: &&str| ["host", "cookie", "authorization"].iter().any(|own| name.eq_ignore_ascii_case(own));
        return name.filter(|_| is_telling).filter(|name| !is_own(name)).map(folded).into_iter().collect();
    }
    let pattern = |name: &str| match name.strip_suffix('*') {
        Some(start) => folded(start) + "*",
        None => folded(name),
    };
    if !step.starts_with("forward-auth") {
        return Vec::new();
    }
    let copied = step.split("copy ").skip(1).filter_map(|rest| rest.split([';', '}']).next());
    copied.flat_map(|names| names.split('"').skip(1).step_by(2)).map(pattern).collect()
}

fn fields_told(route: &OutlinedRoute, fields: &mut BTreeSet<String>) {
    fields.extend(route.steps.iter().flat_map(|step| told_by(step)));
    fields_told_within(&route.answer, fields);
}

fn fields_told_within(answer: &OutlinedAnswer, fields: &mut BTreeSet<String>) {
    let OutlinedAnswer::Within { routes, otherwise, .. } = answer else { return };
    for route in routes {
        fields_told(route, fields);
    }
    if let Some(answer) = otherwise {
        fields_told_within(answer, fields);
    }
}

/// Keys of the maps of a file, by their names.
fn keys_of_maps(outline: &Outline) -> BTreeMap<String, String> {
    let of_line = |line: &str| {
        let (name, rest) = line.strip_prefix("map \"")?.split_once('"')?;
        let (_, rest) = rest.split_once("key=\"")?;
        Some((name.to_owned(), rest.split('"').next()?.to_owned()))
    };
    outline.settings.iter().filter_map(|setting| of_line(&setting.line)).collect()
}

/// Shuts what is under such conditions, and says of what it is made of that it is not carried.
pub fn close(outline: &mut Outline) {
    let (mut kept, mut lost, mut of_sites) = (Origin::default(), Origin::default(), Origin::default());
    let keys = keys_of_maps(outline);
    for service in &mut outline.services {
        let Service::Site(site) = service else { continue };
        close_site(site, &keys, &mut kept, &mut lost);
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
        let is_told = |route: &OutlinedRoute| route.closed == Some(TOLD) && route.origin.within.contains(&at);
        let is_of_site = |service: &Service| matches!(service, Service::Site(site) if site.routes.iter().any(is_told));
        let why = if outline.services.iter().any(is_of_site) { TOLD } else { DROPPED };
        outline.reasons.insert(at, why.to_owned());
    }
}

/// Leaves out the sites that have such conditions, where those of others are beside them.
pub fn refuse(outline: &mut Outline) {
    let count = outline.services.len();
    let keys = keys_of_maps(outline);
    outline.services.retain(|service| match service {
        Service::Site(site) => {
            let mut site = site.clone();
            let mut lost = Origin::default();
            close_site(&mut site, &keys, &mut Origin::default(), &mut lost);
            lost.within.is_empty() && site.routes.iter().all(|route| route.closed.is_none())
        }
        Service::Tcp(_) => true,
    });
    if outline.services.len() < count {
        outline.without.get_or_insert(DROPPED);
    }
}

fn close_site(site: &mut OutlinedSite, keys: &BTreeMap<String, String>, kept: &mut Origin, lost: &mut Origin) {
    let taken = &TakenOut::of(site, keys);
    // Without a change of an answer nobody sees more; without any other step somebody may.
    let is_shut = site.steps.iter().any(|step| taken.asks_within(step) && !step.starts_with("header "));
    site.steps.retain(|step| !taken.asks_within(step));
    for route in &mut site.routes {
        close_route(route, taken, kept, lost);
    }
    if let Some(answer) = &mut site.answer {
        close_within(answer, taken, kept, lost);
    }
    if is_shut {
        let mut refused = refusal(Vec::new());
        refused.origin.within.extend(site.origin.within.iter());
        site.routes.insert(0, refused);
    }
}

fn close_route(route: &mut OutlinedRoute, taken: &TakenOut, kept: &mut Origin, lost: &mut Origin) {
    let steps = route.steps.len();
    let is_step_lost = route.steps.iter().any(|step| taken.asks_within(step) && !step.starts_with("header "));
    route.steps.retain(|step| !taken.asks_within(step));
    let asks = route.conditions.iter().chain(&route.alternatives).any(|text| taken.asks(text));
    if !asks && !is_step_lost {
        close_within(&mut route.answer, taken, kept, lost);
        if route.steps.len() == steps {
            kept.add(&route.whole_origin());
        }
        return;
    }
    lost.add(&route.whole_origin());
    let mut refused = refusal(std::mem::take(&mut route.patterns));
    if !route.conditions.iter().chain(&route.alternatives).chain(&route.steps).any(|text| asks_claim(text)) {
        refused.closed = Some(TOLD);
    }
    refused.byte_prefixes = std::mem::take(&mut route.byte_prefixes);
    refused.case = route.case;
    refused.conditions = taken.without(&route.conditions);
    let alternatives = taken.without(&route.alternatives);
    // One of them that asks for nothing else takes all.
    refused.alternatives = if alternatives.len() < route.alternatives.len() { Vec::new() } else { alternatives };
    refused.origin.within = route.whole_origin().within;
    *route = refused;
}

fn close_within(answer: &mut OutlinedAnswer, taken: &TakenOut, kept: &mut Origin, lost: &mut Origin) {
    let OutlinedAnswer::Within { routes, otherwise, .. } = answer else { return };
    for route in routes {
        close_route(route, taken, kept, lost);
    }
    if let Some(answer) = otherwise {
        close_within(answer, taken, kept, lost);
    }
}

fn refusal(patterns: Vec<String>) -> OutlinedRoute {
    OutlinedRoute { closed: Some(DROPPED), ..OutlinedRoute::of(patterns, OutlinedAnswer::status(REFUSED)) }
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
    use super::{TakenOut, asks_claim, close, told_by};
    use crate::accounts::Origin;
    use crate::outline::{Outline, OutlinedAnswer, OutlinedRoute, OutlinedSetting, OutlinedSite, Service};

    #[test]
    fn conditions_on_fields_of_proxies_are_found() {
        let check = |text: &str, expected: bool| assert_eq!(asks_claim(text), expected, "{text}");
        check("header=\"X-Forwarded-For\"", true);
        check("method=\"GET\" not header=\"x_real_ip: 10.*\"", true);
        check("header=\"X-Key: a \\\" header=\\\"X-Real-IP\"", false);
        check("path=\"/header=X-Real-IP\" header=\"Via\"", false);
        assert_eq!(
            TakenOut::default()
                .without(&["method=\"A B\" not header=\"Forwarded\" not path=\"/a\"".into(), "header=\"Forwarded\"".into()]),
            ["method=\"A B\" not path=\"/a\""]
        );
    }

    #[test]
    fn a_field_that_a_line_of_the_site_tells_is_seen_by_no_condition() {
        let check = |step: &str, expected: &[&str]| assert_eq!(told_by(step), expected, "{step}");
        check("request-header \"X_User\" \"{auth.user}\"", &["x-user"]);
        check("request-header add=\"X-Place: {geo.country}\"", &["x-place"]);
        check("request-header \"X-Tier\" \"{request.header.X-Plan}\"", &[]);
        check("request-header remove=\"X-User\"", &[]);
        check("forward-auth \"http://a\" { copy \"X-A\" \"X-B\"; timeout \"5s\"; }", &["x-a", "x-b"]);
        check("forward-auth \"http://a\" { copy \"X-Auth-*\"; }", &["x-auth-*"]);
        check("request-header \"Host\" \"{map.hosts}\"", &[]);

        let asking = |condition: &str| OutlinedRoute {
            conditions: vec![condition.to_owned()],
            ..OutlinedRoute::of(vec!["/a".into()], OutlinedAnswer::status(403))
        };
        let telling = OutlinedRoute {
            steps: vec!["request-header \"X-Place\" \"{geo.country}\"".into()],
            ..OutlinedRoute::of(vec!["/b".into()], OutlinedAnswer::status(200))
        };
        let check = |condition: &str, is_closed: bool| {
            let routes = vec![asking(condition), telling.clone()];
            let site = OutlinedSite { routes, ..OutlinedSite::default() };
            let line = "map \"place\" key=\"{request.header.X-Place}\" { row \"a\" \"1\"; }".to_owned();
            let settings = vec![OutlinedSetting { line, origin: Origin::default() }];
            let mut outline = Outline { services: vec![Service::Site(site)], settings, ..Outline::default() };
            close(&mut outline);
            let Some(Service::Site(site)) = outline.services.first() else { panic!("the site is there") };
            assert_eq!(site.routes[0].closed.is_some(), is_closed, "{condition}");
            assert_eq!(site.routes[0].conditions.is_empty(), is_closed, "{condition}");
        };
        check("header=\"X-Place: x\"", true);
        check("not header=\"x_place: x\"", true);
        check("map=\"place=1\"", true);
        check("header=\"X-Other: x\"", false);
        check("map=\"other\"", false);
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
