//! Where a request would go, and why not elsewhere: listening address, certificate, site, route, steps, pool, limits.
//! Decided by the code that decides it for real: `wire` reads the head, `routing::decision` finds site and route.
//! `request` is the question, `sites`, `routes` and `pool` are parts of the answer, `render` is the answer as text.

mod listener;
mod pool;
mod render;
mod request;
mod routes;
mod sites;
mod walk;
mod who;

#[cfg(test)]
mod tests;

pub use request::Question;

use crate::Known;
use crate::titles::{shares, shares_of_connections};
use listener::Place;
use tidegate_api::{ExplainedPool, ExplainedRequest, Explanation, Outcome, OutcomeKind, Server, Setting};
use tidegate_config::writing::{self, WrittenSetting, show_size};
use tidegate_geo::Whereabouts;
use tidegate_middleware::{IdentityFields, Refusal};
use tidegate_model::listening::{listening_shared, redirect_site, site_name, websocket_over_http2};
use tidegate_model::{Configuration, PoolName, Route, Scheme, Site, Step, TcpTarget, Terminal};
use tidegate_routing::decision::{Arrival, Rejection, Sender, SiteRules};
use tidegate_routing::{RouteId, SiteId};
use tidegate_wire::head::{HeaderId, RequestHead};
use tidegate_wire::websocket::{PROTOCOL, check_handshake};
use tidegate_wire::{HeadError, Span, http1};
use walk::{Walked, walk};

/// Follows a request through a configuration. `Err` is a request that cannot be put into bytes, or a configuration that
/// does not compile; a request that the proxy would refuse is an explanation like any other.
/// `known` is that of the configuration: maps with their rows, and what its files say of addresses.
pub fn explain(configuration: &Configuration, request: &Question, known: Known<'_>) -> Result<Explanation, String> {
    let mut answer = follow(configuration, request, known)?;
    answer.has_route = has_route(answer.outcome.kind);
    answer.text = render::text(&answer);
    Ok(answer)
}

/// Adds what a running process knows of the servers of the pool; `servers` are in the order of the pool.
pub fn add_running(explanation: &mut Explanation, servers: Vec<Server>) {
    let Some(pool) = &mut explanation.pool else { return };
    for (explained, running) in pool.servers.iter_mut().zip(servers) {
        explained.state = Some(running.state);
        explained.why = running.why;
        explained.requests_in_flight = Some(running.requests_in_flight.into());
        // Of HTTP/2 several requests share one, and fewer are idle than this says; none is then said to be.
        explained.idle_connections = Some(running.connections.saturating_sub(running.requests_in_flight).into());
    }
    explanation.text = render::text(explanation);
}

fn follow(configuration: &Configuration, request: &Question, known: Known<'_>) -> Result<Explanation, String> {
    let head = request.head(&configuration.limits)?;
    let listening = listening_shared(configuration);
    let mut answer = unanswered(configuration, request);
    let Some(place) = Place::find(configuration, &listening, request) else { return Ok(answer) };
    answer.notes.extend(place.note());
    answer.listener = Some(place.seen());
    if let Some((by, target)) = place.passthrough(request) {
        take_passthrough(&mut answer, configuration, by, target);
        return Ok(answer);
    }
    if place.listening.protocol.scheme() != request.scheme {
        answer.outcome = match request.scheme {
            Scheme::Http => refused_by_proxy(Refusal::PlainHttpToTls),
            Scheme::Https => refused_by_proxy(Refusal::TlsToPlainHttp),
        };
        return Ok(answer);
    }
    let redirect = redirect_site();
    let site_of = |id: SiteId| configuration.sites.get(id.0 as usize).map_or(&redirect, |site| &**site);
    let rules_of = |id: SiteId| {
        let site = site_of(id);
        SiteRules::new(site).map_err(|error| format!("site {}: {error}", site_name(site)))
    };
    let tls_site = place.tls_site(request);
    if request.scheme == Scheme::Https {
        answer.certificate = tls_site.and_then(|id| sites::certificate(configuration, site_of(id), request));
        if answer.certificate.is_none() {
            answer.outcome = refused_handshake(tls_site.map(site_of));
            pass_sites(&mut answer, configuration, &place, &request.host, None);
            return Ok(answer);
        }
    }
    let mut head = match head {
        Ok(head) => head,
        Err(error) => {
            answer.outcome = refused_head(error);
            return Ok(answer);
        }
    };
    if let Err(refusal) = switch(configuration, &place, request, &head) {
        answer.outcome = refused_by_proxy(refusal);
        return Ok(answer);
    }
    let upgrade = arrive(&place, request, &mut head, &mut answer.notes);
    see(&mut answer.request, &head);
    let named = place.router.find_site(head.host(), place.local_ip);
    let host = answer.request.host.clone();
    pass_sites(&mut answer, configuration, &place, &host, named);
    answer.site = named.map(|id| site_name(site_of(id)));
    let made_for = tls_site.map(rules_of).transpose()?.map(|rules| rules.tls);
    let rules = named.map(rules_of).transpose()?;
    let arrival = Arrival { router: &place.router, local_ip: place.local_ip, tls: made_for.as_deref() };
    let sender = sender_of(request, upgrade, known);
    let decided = decide(arrival, named.map(site_of).zip(rules.as_ref()), &mut head, sender);
    see(&mut answer.request, &head);
    match decided {
        Ok((id, rules, taken)) => {
            let reasons = rules.routes.explain(&sender.facts(&head));
            let site = site_of(id);
            take_route(&mut answer, configuration, site, taken, &reasons);
            let route = taken.map(|taken| &site.routes[taken.0 as usize]);
            answer.origin = origin_of(site, route);
            answer.notes.extend(notes_of(configuration, site, route));
            take_steps(&mut answer, request, walk(site, route, (request, upgrade, known), &mut head)?);
        }
        Err(rejection) => take_rejection(&mut answer, rejection),
    }
    Ok(answer)
}

/// Where the route comes from, or its site.
fn origin_of(site: &Site, route: Option<&Route>) -> Option<String> {
    let origin = route.and_then(|route| route.origin.as_ref()).or(site.origin.as_ref());
    origin.map(ToString::to_string)
}

/// What nobody looks at here, and who would be asked.
fn notes_of(configuration: &Configuration, site: &Site, route: Option<&Route>) -> Vec<String> {
    note_of_files(route)
        .into_iter()
        .chain(who::note_of_claims(site))
        .chain(who::notes(site, route, &configuration.filled))
        .collect()
}

/// Whether there is a file is not looked at here.
fn note_of_files(route: Option<&Route>) -> Option<String> {
    let goes_on = matches!(&route?.terminal, Terminal::Files(files) if files.goes_on);
    goes_on.then(|| "where its folder has no such file, the routes behind this one are looked at".to_owned())
}

/// What is held against a request for another protocol before anything is looked up, on a connection of HTTP/1.1 or on
/// a stream of HTTP/2.
fn switch(configuration: &Configuration, place: &Place<'_>, request: &Question, head: &RequestHead) -> Result<(), Refusal> {
    let asked = match &request.protocol {
        None => http1::upgrade_protocol(head),
        Some(_) if !websocket_over_http2(configuration, place.address) => return Err(HeadError::ProtocolNotOffered.into()),
        // What follows is the tunnel's (RFC 8441 section 5).
        Some(_) if head.fields.has(HeaderId::ContentLength) => return Err(HeadError::BodyNotAllowed.into()),
        Some(protocol) if !protocol.as_bytes().eq_ignore_ascii_case(PROTOCOL) => return Err(Refusal::ConnectProtocol),
        Some(protocol) => Some(protocol.as_bytes()),
    };
    if asked.is_some_and(|asked| asked.eq_ignore_ascii_case(PROTOCOL)) { Ok(check_handshake(&head.fields)?) } else { Ok(()) }
}

/// Has the request arrive. Where its head names a protocol that it asks to switch to, that is told.
fn arrive(place: &Place<'_>, request: &Question, head: &mut RequestHead, notes: &mut Vec<String>) -> Option<Span> {
    let upgrade = asked_switch(request, head);
    notes.extend(place.arrive(head, request.client_ip));
    upgrade
}

fn sender_of<'k>(request: &Question, upgrade: Option<Span>, known: Known<'k>) -> Sender<'k> {
    let geo = Whereabouts::without_memory(known.geo);
    Sender {
        scheme: request.scheme,
        ip: request.client_ip,
        certificate: None,
        ja4: None,
        geo,
        upgrade,
        maps: known.maps,
        claims: None,
    }
}

/// Where the head names the protocol that is asked for, once its field is gone.
fn asked_switch(request: &Question, head: &mut RequestHead) -> Option<Span> {
    match &request.protocol {
        Some(protocol) => Some(head.fields.append(&[protocol.as_bytes()])),
        None => http1::asked_switch(head),
    }
}

/// Both halves of the decision, between which the proxy may wait for the end of a handshake.
fn decide<'r>(
    arrival: Arrival<'_>,
    site: Option<(&Site, &'r SiteRules)>,
    head: &mut RequestHead,
    sender: Sender<'_>,
) -> Result<(SiteId, &'r SiteRules, Option<RouteId>), Rejection> {
    let (site, rules) = site.ok_or(Rejection::UnknownHost)?;
    let id = arrival.admit(head, |id| (id, rules))?;
    IdentityFields::of(site.all_steps()).remove_claimed(&mut head.fields);
    Ok((id, rules, rules.find_route(head, sender)?))
}

/// Where the connection goes before anybody looks at a request.
fn take_passthrough(answer: &mut Explanation, configuration: &Configuration, by: String, target: &TcpTarget) {
    let outcome = Outcome { by: Some(by), ..outcome(OutcomeKind::Passthrough) };
    answer.outcome = match target.only() {
        Some(only) => {
            answer.pool = pool_of(configuration, &only.pool);
            Outcome { pool: Some(only.pool.to_string()), ..outcome }
        }
        None => Outcome { shares: Some(shares_of_connections(target)), ..outcome },
    };
}

/// Because of the site of that name, or because there is none.
fn refused_handshake(site: Option<&Site>) -> Outcome {
    let by = site.map(|site| format!("`tls \"reject\"` of {}", site_name(site)));
    Outcome { by, ..outcome(OutcomeKind::HandshakeRefused) }
}

fn take_rejection(answer: &mut Explanation, rejection: Rejection) {
    answer.outcome = refused_by_proxy(rejection.into());
    if rejection == Rejection::Misdirected {
        answer.notes.push("the name of the handshake belongs to a site with other TLS settings".to_owned());
    }
}

/// A step that refuses the request, or answers it, is what comes of it.
fn take_steps(answer: &mut Explanation, request: &Question, walked: Result<Walked, Refusal>) {
    match walked {
        Err(refusal) => {
            answer.outcome = refused_by_proxy(refusal);
            answer.pool = None;
        }
        Ok(Walked::Preflight) => {
            answer.outcome = Outcome { status: Some(204), ..outcome(OutcomeKind::Responds) };
            answer.pool = None;
        }
        // Who is asked for what is in the notes.
        Ok(Walked::UpToLogIn | Walked::Through) => {}
    }
    if request.protocol.is_some() && is_own_success(&answer.outcome) {
        answer.outcome = refused_by_proxy(Refusal::NotWebSocket);
    }
}

/// The proxy answers with success by itself, which would say that a tunnel stands.
fn is_own_success(outcome: &Outcome) -> bool {
    match outcome.kind {
        OutcomeKind::Serves => true,
        OutcomeKind::Responds => outcome.status.is_some_and(|status| (200..300).contains(&status)),
        OutcomeKind::Redirects
        | OutcomeKind::Proxied
        | OutcomeKind::Passthrough
        | OutcomeKind::Split
        | OutcomeKind::RunsScript
        | OutcomeKind::Refused
        | OutcomeKind::NothingListens
        | OutcomeKind::HandshakeRefused => false,
    }
}

/// An outcome of which nothing else is known.
fn outcome(kind: OutcomeKind) -> Outcome {
    Outcome { kind, status: None, reason: None, sentence: None, to: None, pool: None, folder: None, by: None, shares: None }
}

fn refused(status: u16, reason: &'static str, sentence: &str) -> Outcome {
    let (reason, sentence) = (Some(reason.to_owned()), Some(sentence.to_owned()));
    Outcome { status: Some(status), reason, sentence, ..outcome(OutcomeKind::Refused) }
}

fn refused_by_proxy(refusal: Refusal) -> Outcome {
    refused(refusal.status(), refusal.reason(), refusal.sentence())
}

fn refused_head(error: HeadError) -> Outcome {
    refused(error.status(), error.reason(), &error.to_string())
}

fn see(request: &mut ExplainedRequest, head: &RequestHead) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    request.host = text(head.host());
    request.path = text(head.path());
    request.query = head.query().map(text);
}

fn unanswered(configuration: &Configuration, request: &Question) -> Explanation {
    Explanation {
        has_route: false,
        text: String::new(),
        request: ExplainedRequest {
            method: request.method.clone(),
            url: request.url(),
            host: request.host.clone(),
            path: String::new(),
            query: None,
            client: request.client_ip,
        },
        outcome: outcome(OutcomeKind::NothingListens),
        listener: None,
        certificate: None,
        site: None,
        origin: None,
        route: None,
        pool: None,
        limits: settings(writing::of_limits(&configuration.limits, &configuration.filled)),
        other_routes: Vec::new(),
        other_routes_left_out: 0,
        other_sites: Vec::new(),
        other_sites_left_out: 0,
        notes: Vec::new(),
    }
}

fn settings(written: Vec<WrittenSetting>) -> Vec<Setting> {
    written.into_iter().map(|WrittenSetting { name, value, .. }| Setting { name: name.into(), value }).collect()
}

/// Whether a route answers, or a server that the connection is passed on to. Otherwise the request is refused, or does
/// not even arrive.
fn has_route(outcome: OutcomeKind) -> bool {
    match outcome {
        OutcomeKind::Responds
        | OutcomeKind::Redirects
        | OutcomeKind::Proxied
        | OutcomeKind::Passthrough
        | OutcomeKind::Split
        | OutcomeKind::Serves
        | OutcomeKind::RunsScript => true,
        OutcomeKind::Refused | OutcomeKind::NothingListens | OutcomeKind::HandshakeRefused => false,
    }
}

fn pass_sites(answer: &mut Explanation, configuration: &Configuration, place: &Place<'_>, host: &str, found: Option<SiteId>) {
    (answer.other_sites, answer.other_sites_left_out) = sites::passed(configuration, place, host, found);
}

fn pool_of(configuration: &Configuration, name: &PoolName) -> Option<ExplainedPool> {
    configuration.pools.iter().find(|known| known.name == *name).map(|known| pool::seen(known, &configuration.filled))
}

fn take_route(
    answer: &mut Explanation,
    configuration: &Configuration,
    site: &Site,
    taken: Option<RouteId>,
    reasons: &[tidegate_routing::Explanation],
) {
    (answer.other_routes, answer.other_routes_left_out) = routes::passed(site, reasons, &configuration.filled);
    let Some(taken) = taken else {
        answer.outcome = refused_by_proxy(Refusal::NoRoute);
        return;
    };
    let route = &site.routes[taken.0 as usize];
    answer.route = Some(routes::taken(site, taken, &configuration.filled));
    // The last one counts.
    let body_limit = site.steps.iter().chain(&route.steps).rev().find_map(|step| match step {
        Step::BodyLimit { bytes_max } => Some(Setting { name: "body-limit".into(), value: show_size(*bytes_max) }),
        _ => None,
    });
    answer.limits.extend(body_limit);
    let shown = |text: &dyn std::fmt::Display| Some(configuration.filled.shown(&text.to_string()).into_owned());
    answer.outcome = match &route.terminal {
        Terminal::Respond { status, .. } => Outcome { status: Some(*status), ..outcome(OutcomeKind::Responds) },
        Terminal::Redirect { to, status, prefix } => {
            let to = match prefix {
                None => shown(to),
                Some(prefix) => shown(&format_args!("{to} in place of {prefix}/")),
            };
            Outcome { status: Some(*status), to, ..outcome(OutcomeKind::Redirects) }
        }
        Terminal::Files(files) => Outcome { folder: shown(&files.root.display()), ..outcome(OutcomeKind::Serves) },
        Terminal::FastCgi(fastcgi) => {
            answer.pool = pool_of(configuration, &fastcgi.pool);
            let folder = shown(&fastcgi.root.display());
            Outcome { pool: Some(fastcgi.pool.to_string()), folder, ..outcome(OutcomeKind::RunsScript) }
        }
        Terminal::Split(split) => {
            Outcome { by: split.by.as_ref().and_then(|by| shown(by)), shares: Some(shares(split)), ..outcome(OutcomeKind::Split) }
        }
        Terminal::Proxy { pool, .. } => {
            answer.pool = pool_of(configuration, pool);
            Outcome { pool: Some(pool.to_string()), ..outcome(OutcomeKind::Proxied) }
        }
    };
}
