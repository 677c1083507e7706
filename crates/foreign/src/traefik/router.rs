//! A router of Traefik with all that it names, at each place where it listens.

use super::doors::{self, RouterPlace};
use super::middlewares::{self, Trust};
use super::{CHAIN_MAX, has_key, redirects, rules, services};
use crate::accounts::Origin;
use crate::matching::{AskedLiteral, Matching};
use crate::outline::{Door, Outline, OutlinedAnswer, OutlinedRoute};
use crate::tree::Tree;
use std::collections::BTreeSet;

const OF_PROVIDER: &str = "the servers of its routers are found by a provider: `discover` does that here";
const NO_SERVER: &str = "its servers are not in this file, so what it takes is answered with 503: write a `proxy` in its place";
const INTERNAL: &str =
    "what Traefik answers itself (`api@internal`, `rest@internal`) is on the admin's address here: `admin`, `tidegate status`";
const OF_ENVIRONMENT: &str =
    "what a condition asks for is a text as it stands here, and not a variable: write the router's route with the value in it";
const NOT_READ: &str = "this rule is none that is read: say what it takes by `site`, `route` and `match`";
const NO_RULE: &str = "its router has no rule, so that Traefik makes one of the container's name by `defaultRule`: write the `rule`, or \
                       its `site` here";
const OF_CONNECTION: &str = "`ClientIP` is the address of the connection there, and `client=` what `trusted-proxies` report of it: \
                             write the route for whom you mean";
const MIXED: &str =
    "it is on all entry points there, and here not on those where others speak TLS, or do not: a port does one of both";
const DEEPER: &str = "names with several labels in front are taken there as well, and `*.example.com` is one label here";

/// A router as it is told.
pub struct ToldRouter<'t> {
    pub when: Matching,
    /// How early it is looked at: the larger, the earlier.
    pub order: i64,
    /// Where its rule stands.
    pub at: usize,
    /// All that is said of it, wherever it listens.
    pub within: BTreeSet<usize>,
    /// Whether it names no entry point, and so is on all of them.
    pub is_everywhere: bool,
    pub places: Vec<ToldPlace<'t>>,
}

/// A router where it listens.
pub struct ToldPlace<'t> {
    pub door: Door,
    /// Where the file says the door; in none where it is assumed.
    pub at: usize,
    /// Whether it only sends plain HTTP to HTTPS.
    pub is_sending: bool,
    /// Whether it takes all requests, whatever its rule is.
    pub takes_all: bool,
    pub steps: Vec<String>,
    pub answer: OutlinedAnswer,
    /// By expressions for the whole URL, so that it has to be known whose.
    pub redirects: Vec<&'t Tree>,
    /// What handshakes are to be like, with where that is named; nothing at places without TLS.
    pub options: Option<NamedOptions<'t>>,
    /// Where it is said that certificates of clients go on.
    pub forwards_certificate: Option<BTreeSet<usize>>,
    pub origin: Origin,
}

/// The options of handshakes of a router.
#[derive(Clone)]
pub struct NamedOptions<'t> {
    pub name: String,
    pub said: &'t Tree,
    /// The statements that name them.
    pub named: BTreeSet<usize>,
}

/// A router whose rule is not understood.
pub struct UnknownRouter {
    pub rule: String,
    pub order: i64,
    pub origin: Origin,
}

pub fn told<'t>(
    tree: &'t Tree,
    name: &str,
    router: &'t Tree,
    outline: &mut Outline,
) -> Result<Option<ToldRouter<'t>>, UnknownRouter> {
    let rule = router.get("rule");
    let text = super::unescaped(rule.text().unwrap_or_default());
    let priority = router.get("priority");
    let given = priority.text().and_then(|text| text.trim().parse::<i64>().ok()).filter(|priority| *priority != 0);
    let order = given.unwrap_or(i64::try_from(text.len()).unwrap_or(i64::MAX));
    let own = middlewares_of(tree, "http", router, None, &mut Origin::default());
    let places = doors::of(tree, router, sent_to_https(&own).is_some());
    if places.is_empty() {
        for at in router.statements() {
            outline.told.differ(at, doors::NO_SUCH_POINT);
        }
        outline.without.get_or_insert(doors::NO_SUCH_POINT);
        return Ok(None);
    }
    let is_of_client = |when: &Matching| when.lines().iter().any(|line| line.contains("client="));
    let trusts: Vec<Trust> = places.iter().map(|place| Trust::of(place.point)).collect();
    let when = rules::read(&text);
    let is_reported = when.as_ref().is_some_and(is_of_client) && trusts.iter().any(|trust| *trust != Trust::Connection);
    let Some(when) = when.filter(|_| !is_reported) else {
        let why = match (is_reported, rules::has_variable(&text)) {
            _ if text.is_empty() => NO_RULE,
            (true, _) => OF_CONNECTION,
            (false, true) => OF_ENVIRONMENT,
            (false, false) => NOT_READ,
        };
        let own = if text.is_empty() { router.statements() } else { rule.statements() };
        outline.reasons.extend(own.into_iter().map(|at| (at, why.to_owned())));
        let mut origin = Origin { within: router.statements(), ..Origin::default() };
        for place in &places {
            let middlewares = middlewares_of(tree, "http", router, Some(place.point), &mut origin);
            origin.within.extend(middlewares.iter().flat_map(|(middleware, _)| middleware.statements()));
        }
        origin.carried.clear();
        return Err(UnknownRouter { rule: text, order, origin });
    };
    let places: Vec<ToldPlace<'t>> =
        places.iter().zip(trusts).map(|(place, trust)| at_place(tree, (name, router, &when), place, trust, outline)).collect();
    let mut told = ToldRouter {
        when,
        order,
        at: rule.start(),
        within: router.statements(),
        is_everywhere: router.get("entryPoints").is_nothing(),
        places,
    };
    for place in &told.places {
        told.within.extend(&place.origin.within);
        told.within.extend(OutlinedRoute::of(Vec::new(), place.answer.clone()).whole_origin().within);
    }
    told.settle_plain_doors();
    Ok(Some(told))
}

impl ToldRouter<'_> {
    /// A router with TLS answers nobody without, also at the port of plain HTTP.
    fn settle_plain_doors(&mut self) {
        let has_https = self.places.iter().any(|place| place.door == Door::HTTPS);
        let is_mixed = |door: &Door| has_https && door.is_tls && door.port == Door::HTTP.port;
        for place in self.places.iter_mut().filter(|place| is_mixed(&place.door)) {
            place.door.is_tls = false;
            place.is_sending = true;
            place.answer = OutlinedAnswer::Redirect { to: "https://{host}{uri}".to_owned(), status: 308 };
            place.options = None;
            place.redirects.clear();
        }
        let hosts = self.when.clauses.iter().flatten().filter_map(AskedLiteral::hosts);
        if hosts.flatten().any(|host| super::hosts::is_deep(host)) {
            let at = self.at;
            self.places.iter_mut().for_each(|place| place.origin.differ_too(at, DEEPER));
        }
    }
}

/// One port speaks TLS or does not, where Traefik has both: routers on all entry points leave those that others name
/// with the other.
pub fn settle_mixed_ports(told: &mut [ToldRouter<'_>]) {
    let named: BTreeSet<(u16, bool)> = told
        .iter()
        .filter(|router| !router.is_everywhere)
        .flat_map(|router| router.places.iter().map(|place| (place.door.port, place.door.is_tls)))
        .collect();
    for router in told.iter_mut().filter(|router| router.is_everywhere) {
        let is_left = |place: &ToldPlace<'_>| !named.contains(&(place.door.port, !place.door.is_tls));
        if router.places.iter().any(is_left) && !router.places.iter().all(is_left) {
            router.places.retain(is_left);
            let at = router.at;
            router.places.iter_mut().for_each(|place| place.origin.differ_too(at, MIXED));
        }
    }
}

/// The redirect to HTTPS that the last of the middlewares is that has one.
fn sent_to_https(middlewares: &[(&Tree, usize)]) -> Option<OutlinedAnswer> {
    let mut redirects = middlewares.iter().map(|(middleware, _)| middleware.get("redirectScheme"));
    let redirect = redirects.rfind(|redirect| redirect.get("scheme").text() == Some("https"))?;
    Some(redirects::to_https(redirect, redirect.get("port").text()))
}

/// Where the first of the middlewares sends whom it does not leave where he is.
fn sent_elsewhere(middlewares: &[(&Tree, usize)], door: Door) -> Option<OutlinedAnswer> {
    let redirects = middlewares.iter().map(|(middleware, _)| middleware.get("redirectScheme"));
    redirects.filter(|redirect| !redirect.is_nothing()).find_map(|redirect| redirects::to_other_scheme(redirect, door))
}

fn at_place<'t>(
    tree: &'t Tree,
    (name, router, when): (&str, &'t Tree, &Matching),
    place: &RouterPlace<'t>,
    trust: Trust,
    outline: &mut Outline,
) -> ToldPlace<'t> {
    let mut origin = Origin { within: router.statements(), ..Origin::default() };
    let middlewares = middlewares_of(tree, "http", router, Some(place.point), &mut origin);
    origin.within.extend(middlewares.iter().flat_map(|(middleware, _)| middleware.statements()));
    let tls_of_point = place.point.at(&["http", "tls"]);
    // What handshakes are to be like is looked at where all routers of a host are known.
    origin.within.extend(place.point.statements().difference(&tls_of_point.statements()));
    origin.carry_all(tls_of_point.statements().into_iter().filter(|at| *at == tls_of_point.start()));
    let redirections = place.point.at(&["http", "redirections", "entryPoint"]);
    let is_of_point = !redirections.is_nothing();
    // Redirections of an entry point are for requests without TLS.
    let of_point = || Some(redirects::of_point(tree, redirections)).filter(|_| !place.door.is_tls);
    let sent = if is_of_point { of_point() } else { sent_elsewhere(&middlewares, place.door) };
    let is_sent = sent.is_some();
    let is_to_https = matches!(&sent, Some(OutlinedAnswer::Redirect { to, .. }) if to.starts_with("https:"));
    if is_sent && place.door != Door::HTTP {
        origin.carry_all(redirections.statements());
        origin.carry_all(middlewares.iter().flat_map(|(one, _)| one.get("redirectScheme").statements()));
    }
    let mut effects = middlewares::effects(&middlewares, when, trust, &mut origin);
    outline.reasons.extend(effects.reasons.drain(..).map(|(at, why)| (at, why.to_owned())));
    let redirects = middlewares.iter().map(|(one, _)| one.get("redirectRegex")).filter(|one| !is_sent && !one.is_nothing());
    let redirects = redirects.collect();
    let service = router.get("service").text().unwrap_or(name);
    let answer = sent.unwrap_or_else(|| answer(tree, router, service, &mut effects, &mut origin, outline));
    origin.carry_all(["rule", "service", "ruleSyntax", "priority"].into_iter().flat_map(|key| router.get(key).statements()));
    doors::assumed(tree, router, &mut origin);
    let tls = router.get("tls");
    if has_key(router, "tls") {
        origin.carry_all(tls.statements().into_iter().filter(|at| tls.text().is_some() || *at == tls.start()));
        certificate_of(tls, &mut origin);
    }
    certificate_of(tls_of_point, &mut origin);
    if is_of_point {
        effects.steps.clear();
    }
    ToldPlace {
        door: place.door,
        at: place.at,
        is_sending: is_to_https && !place.door.is_tls && (!is_of_point || redirects::is_to_https(redirections)),
        takes_all: is_sent && is_of_point,
        steps: effects.steps,
        answer,
        redirects,
        options: place.door.is_tls.then(|| options_of(tree, router, place.point)),
        forwards_certificate: effects
            .forwards_certificate
            .then(|| middlewares.iter().flat_map(|(one, _)| one.at(&["passTLSClientCert", "pem"]).statements()).collect()),
        origin,
    }
}

/// What handshakes of a router are to be like: as it says itself, else as its entry point does.
fn options_of<'t>(tree: &'t Tree, router: &Tree, point: &Tree) -> NamedOptions<'t> {
    let own = router.at(&["tls", "options"]);
    let said = if has_key(router, "tls") { own } else { point.at(&["http", "tls", "options"]) };
    let name = said.text().map_or("default", |name| name.split('@').next().unwrap_or_default()).to_owned();
    NamedOptions { said: tree.at(&["tls", "options", &name]), name, named: said.statements() }
}

/// Certificates of a router are those of its names.
fn certificate_of(tls: &Tree, origin: &mut Origin) {
    const DOMAINS: &str = "each name has a certificate of its own: `acme { wildcard \"*.example.com\"; }` is one for many";
    origin.carry_all(tls.get("certResolver").statements());
    for at in tls.get("domains").statements() {
        origin.differ(at, DOMAINS);
    }
}

/// What answers for the service of a router, with lines of its middlewares.
fn answer(
    tree: &Tree,
    router: &Tree,
    service: &str,
    effects: &mut middlewares::MiddlewareEffects,
    origin: &mut Origin,
    outline: &mut Outline,
) -> OutlinedAnswer {
    // Without a word of it Traefik has no such service.
    if service == "ping@internal" && (tree.has("ping") || !doors::has_points(tree)) {
        return OutlinedAnswer::Respond { status: 200, body: Some("OK".to_owned()) };
    }
    let fault = services::fault(tree, service);
    let Some(found) = services::answer(tree, service, origin).filter(|_| fault.is_none()) else {
        if service.contains('@') && !service.ends_with("@file") {
            outline.without.get_or_insert(OF_PROVIDER);
        }
        let said = router.get("service");
        let at = if said.is_nothing() { router.get("rule").start() } else { said.start() };
        if let Some(why) = fault {
            let own = services::statements(tree, service);
            outline.reasons.extend(own.into_iter().map(|at| (at, why.to_owned())));
        }
        let why = if service.ends_with("@internal") { INTERNAL } else { NO_SERVER };
        origin.differ(at, fault.unwrap_or(why));
        return OutlinedAnswer::status(503);
    };
    effects.steps.extend(found.steps);
    match found.answer {
        OutlinedAnswer::Proxy { mut group, strip, add } => {
            effects.pool_lines.iter().for_each(|line| group.add_line(line));
            OutlinedAnswer::Proxy { group, strip, add }
        }
        answer => answer,
    }
}

/// The middlewares of a router and of an entry point, each with the place that names it; those of a chain one by one.
/// Where all of them are known, what names them is carried by their own statements.
pub fn middlewares_of<'t>(
    tree: &'t Tree,
    kind: &str,
    router: &Tree,
    point: Option<&Tree>,
    origin: &mut Origin,
) -> Vec<(&'t Tree, usize)> {
    let mut listed = Listed { tree, kind, count: 0, found: Vec::new() };
    if let Some(point) = point {
        listed.add(point.at(&["http", "middlewares"]), origin);
    }
    listed.add(router.get("middlewares"), origin);
    listed.found
}

struct Listed<'t, 'k> {
    tree: &'t Tree,
    kind: &'k str,
    count: usize,
    found: Vec<(&'t Tree, usize)>,
}

impl Listed<'_, '_> {
    fn add(&mut self, list: &Tree, origin: &mut Origin) {
        let mut is_known = true;
        for name in list.texts() {
            self.count += 1;
            let middleware = self.tree.at(&[self.kind, "middlewares", &super::own_name(&name)]);
            if middleware.is_nothing() || self.count > CHAIN_MAX {
                is_known = false;
                continue;
            }
            // What asks or bounds need not do so twice, as where the entry point and the router name the same.
            let is_change = |(word, _): &(String, Tree)| {
                let word = word.to_ascii_lowercase();
                word.contains("path") || word.contains("prefix")
            };
            if self.found.iter().any(|(known, _)| std::ptr::eq(*known, middleware)) && !middleware.entries().iter().any(is_change)
            {
                continue;
            }
            self.found.push((middleware, list.start()));
            self.add(middleware.at(&["chain", "middlewares"]), origin);
        }
        for at in list.statements() {
            origin.within.insert(at);
            if is_known {
                origin.carry(at);
            }
        }
    }
}
