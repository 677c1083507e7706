//! An explanation as the API gives it.

use super::scheme_name;
use crate::api::{
    ExplainedCertificate, ExplainedListener, ExplainedPool, ExplainedRequest, ExplainedRoute, ExplainedServer, ExplainedStep,
    Explanation, FailedLine, Outcome, OutcomeKind, PassedRoute, PassedSite, Setting, WhyNotRoute, WhyNotSite,
};
use tidegate_control::explain as found;
use tidegate_model::TlsVersion;

pub fn explanation(explanation: found::Explanation) -> Explanation {
    let (has_route, text) = (explanation.has_route(), explanation.render());
    let found::Explanation {
        request,
        outcome: what_happens,
        listener,
        certificate: handshake,
        site,
        route: taken,
        pool: used,
        limits,
        other_routes,
        other_routes_left_out,
        other_sites,
        other_sites_left_out,
        notes,
    } = explanation;
    let found::RequestSeen { method, url, host, path, query, client_ip } = request;
    Explanation {
        has_route,
        text,
        request: ExplainedRequest { method, url, host, path, query, client: client_ip.to_string() },
        outcome: outcome(what_happens),
        listener: listener.map(|listener| ExplainedListener {
            address: listener.address.to_string(),
            scheme: scheme_name(listener.protocol),
            implied: listener.implied,
            trusted_proxies: listener.trusted_proxies,
            proxy_protocol_from: listener.proxy_protocol_from,
        }),
        certificate: handshake.map(certificate),
        site,
        route: taken.map(route),
        pool: used.map(pool),
        limits: settings(limits),
        other_routes: other_routes.into_iter().map(passed_route).collect(),
        other_routes_left_out,
        other_sites: other_sites.into_iter().map(passed_site).collect(),
        other_sites_left_out,
        notes,
    }
}

fn outcome(outcome: found::Outcome) -> Outcome {
    let of = |kind| Outcome {
        kind,
        status: None,
        reason: None,
        sentence: None,
        to: None,
        pool: None,
        folder: None,
        server: None,
        by: None,
        shares: None,
    };
    match outcome {
        found::Outcome::Responds { status } => Outcome { status: Some(status), ..of(OutcomeKind::Responds) },
        found::Outcome::Redirects { status, to } => Outcome { status: Some(status), to: Some(to), ..of(OutcomeKind::Redirects) },
        found::Outcome::Serves { folder } => Outcome { folder: Some(folder), ..of(OutcomeKind::Serves) },
        found::Outcome::RunsScript { server, folder } => {
            Outcome { server: Some(server), folder: Some(folder), ..of(OutcomeKind::RunsScript) }
        }
        found::Outcome::Proxied { pool } => Outcome { pool: Some(pool), ..of(OutcomeKind::Proxied) },
        found::Outcome::PassedOn { by, pool } => Outcome { by: Some(by), pool: Some(pool), ..of(OutcomeKind::PassedOn) },
        found::Outcome::Split { by, shares } => Outcome { by, shares: Some(shares), ..of(OutcomeKind::Split) },
        found::Outcome::Refused { status, reason, sentence } => Outcome {
            status: Some(status),
            reason: Some(reason.to_owned()),
            sentence: Some(sentence),
            ..of(OutcomeKind::Refused)
        },
        found::Outcome::NothingListens => of(OutcomeKind::NothingListens),
        found::Outcome::HandshakeRefused => of(OutcomeKind::HandshakeRefused),
    }
}

fn certificate(certificate: found::CertificateSeen) -> ExplainedCertificate {
    let found::CertificateSeen { site, source, min_version, alpn } = certificate;
    let (internal_ca, files) = match source {
        found::CertificateSource::Files(files) => (false, files),
        found::CertificateSource::InternalCa => (true, Vec::new()),
    };
    let min_version = match min_version {
        TlsVersion::V1_2 => "1.2",
        TlsVersion::V1_3 => "1.3",
    };
    ExplainedCertificate { site, internal_ca, files, min_version: min_version.to_owned(), alpn }
}

fn route(route: found::RouteSeen) -> ExplainedRoute {
    let found::RouteSeen { rank, title, steps, terminal } = route;
    let steps = steps.into_iter().map(|step| ExplainedStep { text: step.text, of_site: step.of_site }).collect();
    ExplainedRoute { rank, title, steps, terminal }
}

fn pool(pool: found::PoolSeen) -> ExplainedPool {
    let found::PoolSeen { name, balance, servers, settings: of_pool } = pool;
    let server = |server: found::ServerSeen| ExplainedServer {
        address: server.address,
        weight: server.weight,
        priority: u32::from(server.priority),
        zone: server.zone,
        state: server.live.as_ref().map(|live| super::server_state(live.state)),
        why: server.live.as_ref().and_then(|live| live.why.clone()),
        requests_in_flight: server.live.as_ref().map(|live| live.requests_in_flight),
        idle_connections: server.live.map(|live| live.idle_connections),
    };
    ExplainedPool { name, balance, servers: servers.into_iter().map(server).collect(), settings: settings(of_pool) }
}

fn settings(settings: Vec<found::Setting>) -> Vec<Setting> {
    settings.into_iter().map(|setting| Setting { name: setting.name.to_owned(), value: setting.value }).collect()
}

fn passed_route(route: found::RoutePassed) -> PassedRoute {
    let found::RoutePassed { rank, title, why } = route;
    let (why, shadowed_by, failed) = match why {
        found::WhyNotRoute::Path => (WhyNotRoute::Path, None, Vec::new()),
        found::WhyNotRoute::Shadowed { by } => (WhyNotRoute::Shadowed, Some(by), Vec::new()),
        found::WhyNotRoute::Conditions(lines) => (
            WhyNotRoute::Conditions,
            None,
            lines.into_iter().map(|line| FailedLine { line: line.line, condition: line.condition }).collect(),
        ),
    };
    PassedRoute { rank, title, why, shadowed_by, failed }
}

fn passed_site(site: found::SitePassed) -> PassedSite {
    let found::SitePassed { site, hosts, why } = site;
    let why = match why {
        found::WhyNotSite::Host => WhyNotSite::Host,
        found::WhyNotSite::LessSpecific => WhyNotSite::LessSpecific,
    };
    PassedSite { site, hosts, why }
}
