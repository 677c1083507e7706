//! In which order the steps of a site and of its route run. It is safe by itself, wherever a line stands: preflights
//! are answered before anybody is asked for credentials, which browsers do not send with them; who may not ask, or asks
//! too often, is not asked who it is; who has to log in has done so before anything is counted for, sent to or kept for
//! somebody. What is left runs as written, the site's in front of the route's.

use crate::placeholder::{Placeholder, Template};
use crate::step::{HeaderChange, HeaderStep, Step};
use crate::{ApiKeyPlace, ClientAuthDemand, TokenPlace};

/// When a step has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// `cors` answers preflights.
    Preflight,
    /// `allow` and `deny`, which are one list.
    Access,
    /// Limits by what is known of every client, and what else refuses requests by how they came.
    Client,
    /// Who is it?
    Authentication,
    /// Limits by who has logged in.
    Identity,
    AsWritten,
}

/// The phase of each of the steps: those of a site, and behind them those of its route.
pub fn phases(steps: &[&Step]) -> Vec<Phase> {
    let said_by_log_ins: Vec<&str> = steps.iter().flat_map(|step| fields_of_log_in(step)).collect();
    let mut written = Written::default();
    let mut phases = Vec::with_capacity(steps.len());
    for step in steps {
        phases.push(match step {
            Step::Cors(_) => Phase::Preflight,
            Step::Allow(_) | Step::Deny(_) => Phase::Access,
            Step::Csrf(_) => Phase::Client,
            Step::BasicAuth(_) | Step::Jwt(_) | Step::Oidc(_) | Step::ApiKey(_) | Step::AuthAny(_) | Step::ClientAuth(_) => {
                Phase::Authentication
            }
            Step::RateLimit(limit) => phase_of_limit(limit.by.template(), &said_by_log_ins, &written),
            Step::ConcurrencyLimit(limit) => phase_of_limit(limit.by.template(), &said_by_log_ins, &written),
            Step::RequestHeader(header) => {
                written.fields.extend(header.changes.iter().map(|change| change.name.as_str()));
                Phase::AsWritten
            }
            Step::Rewrite { .. } | Step::StripPrefix(_) | Step::AddPrefix(_) => {
                written.is_target = true;
                Phase::AsWritten
            }
            Step::ResponseHeader(_) | Step::BodyLimit { .. } => Phase::AsWritten,
        });
    }
    phases
}

/// The positions of the steps in the order in which they run.
pub fn run_order(steps: &[&Step]) -> Vec<usize> {
    let phases = phases(steps);
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|position| phases[*position]);
    order
}

/// Steps that run before one that is written in front of them, where that makes a difference: the position of each, and
/// of the first that it goes before. Looked for behind `from`: of one block, since nobody can write a line of a route
/// in front of those of its site. Nothing is said of `allow` and `deny`, which are a list of their own wherever they
/// stand.
pub fn moved(steps: &[&Step], from: usize) -> Vec<(usize, usize)> {
    let phases = phases(steps);
    let mut moved = Vec::new();
    for position in from..steps.len() {
        let goes_before = |before: &usize| phases[*before] > phases[position] && is_felt(steps[*before], steps[position]);
        moved.extend((from..position).find(goes_before).map(|before| (position, before)));
    }
    moved
}

/// The steps by which somebody is asked who it is, of a site and its route, as they count: the last word of each kind.
/// An `auth any` is the last word of the kinds of its ways, too.
pub fn log_ins<'s>(site_steps: &'s [Step], route_steps: &'s [Step]) -> impl Iterator<Item = &'s Step> {
    let all: Vec<&Step> = site_steps.iter().chain(route_steps).collect();
    let last_any = all.iter().rposition(|step| matches!(step, Step::AuthAny(_)));
    let counts = |position: usize, step: &Step| !matches!(step, Step::AuthAny(_)) || Some(position) == last_any;
    let last = |is_one: fn(&Step) -> bool| {
        all.iter().enumerate().rposition(|(position, step)| counts(position, step) && step.parts().iter().any(is_one))
    };
    let of_kinds = [
        all.iter().rposition(|step| matches!(step, Step::ClientAuth(_))),
        last(|step| matches!(step, Step::BasicAuth(_))),
        last(|step| matches!(step, Step::Jwt(_))),
        last(|step| matches!(step, Step::Oidc(_))),
        last(|step| matches!(step, Step::ApiKey(_))),
    ];
    let of_kinds = of_kinds.into_iter().flatten().filter(move |position| Some(*position) != last_any);
    of_kinds.chain(last_any).map(move |position| all[position]).filter(|step| !is_off(step))
}

/// What steps have written of the request so far.
#[derive(Default)]
struct Written<'s> {
    fields: Vec<&'s str>,
    /// Path and query.
    is_target: bool,
}

/// A limit goes where what it counts by is known, and never before a step that writes it.
fn phase_of_limit(by: Option<&Template>, said_by_log_ins: &[&str], written: &Written<'_>) -> Phase {
    let mut phase = Phase::Client;
    for placeholder in by.into_iter().flat_map(Template::placeholders) {
        let has = |names: &[&str], name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let of_this = match source_of(placeholder) {
            Source::Known => Phase::Client,
            Source::Identity => Phase::Identity,
            Source::Field(name) if has(&written.fields, name) => Phase::AsWritten,
            Source::Field(name) if has(said_by_log_ins, name) => Phase::Identity,
            Source::Field(_) => Phase::Client,
            Source::Target if written.is_target => Phase::AsWritten,
            Source::Target => Phase::Client,
            Source::Anything if written.is_target || !written.fields.is_empty() => Phase::AsWritten,
            Source::Anything => Phase::Identity,
        };
        phase = phase.max(of_this);
    }
    phase
}

/// Where a placeholder has its text from.
enum Source<'p> {
    /// The connection, or what no step changes.
    Known,
    /// A field of the request, which steps may write.
    Field(&'p str),
    Target,
    Identity,
    /// The key of a map may be made of all of these.
    Anything,
}

fn source_of(placeholder: &Placeholder) -> Source<'_> {
    match placeholder {
        Placeholder::Host => Source::Field("host"),
        Placeholder::Path | Placeholder::Query | Placeholder::Uri => Source::Target,
        Placeholder::RequestHeader(name) => Source::Field(name),
        Placeholder::RequestCookie(_) => Source::Field("cookie"),
        Placeholder::AuthUser | Placeholder::JwtClaim(_) => Source::Identity,
        Placeholder::Map(_) => Source::Anything,
        Placeholder::Method
        | Placeholder::Scheme
        | Placeholder::ClientIp
        | Placeholder::ClientPort
        | Placeholder::TlsSni
        | Placeholder::TlsVersion
        | Placeholder::TlsClient(_)
        | Placeholder::TlsJa4
        | Placeholder::Geo(_)
        | Placeholder::ProxyAuthority
        | Placeholder::ProxyUniqueId
        | Placeholder::ResponseHeader(_)
        | Placeholder::UpstreamAddress
        | Placeholder::RequestId
        | Placeholder::TimeUnixMs
        | Placeholder::StatusText
        | Placeholder::LogOwn(_)
        | Placeholder::Log(_) => Source::Known,
    }
}

/// Fields of the request that a step writes once it knows who asks.
fn fields_of_log_in(step: &Step) -> Vec<&str> {
    match step {
        Step::Jwt(Some(jwt)) => jwt.headers.iter().map(|header| header.name.as_str()).collect(),
        Step::Oidc(Some(oidc)) => {
            let of_claims = oidc.headers.iter().map(|header| header.name.as_str());
            of_claims.chain(oidc.access_token.as_deref()).chain(oidc.id_token.as_deref()).collect()
        }
        Step::ApiKey(Some(auth)) => auth.header.iter().map(String::as_str).collect(),
        Step::AuthAny(Some(any)) => any.ways.iter().flat_map(fields_of_log_in).collect(),
        Step::Jwt(None)
        | Step::Oidc(None)
        | Step::ApiKey(None)
        | Step::AuthAny(None)
        | Step::BasicAuth(_)
        | Step::ClientAuth(_)
        | Step::RequestHeader(_)
        | Step::ResponseHeader(_)
        | Step::Rewrite { .. }
        | Step::StripPrefix(_)
        | Step::AddPrefix(_)
        | Step::BodyLimit { .. }
        | Step::Allow(_)
        | Step::Deny(_)
        | Step::Cors(_)
        | Step::Csrf(_)
        | Step::RateLimit(_)
        | Step::ConcurrencyLimit(_) => Vec::new(),
    }
}

/// Whether anybody notices that `moved` runs before `passed`, which is written in front of it.
fn is_felt(passed: &Step, moved: &Step) -> bool {
    if is_off(passed) || is_off(moved) {
        return false;
    }
    match moved {
        Step::Allow(_) | Step::Deny(_) => false,
        // Whoever is refused, or counted, in front of it is so no more.
        Step::Cors(_) => refuses(passed),
        Step::Csrf(_) | Step::RateLimit(_) | Step::ConcurrencyLimit(_) => refuses(passed),
        Step::BasicAuth(_) | Step::Jwt(_) | Step::Oidc(_) | Step::ApiKey(_) | Step::AuthAny(_) | Step::ClientAuth(_) => {
            refuses(passed) || changes_log_in(passed, moved)
        }
        Step::RequestHeader(_)
        | Step::ResponseHeader(_)
        | Step::Rewrite { .. }
        | Step::StripPrefix(_)
        | Step::AddPrefix(_)
        | Step::BodyLimit { .. } => false,
    }
}

/// Whether a step may refuse a request by itself, or counts it.
fn refuses(step: &Step) -> bool {
    match step {
        Step::Allow(_)
        | Step::Deny(_)
        | Step::Csrf(_)
        | Step::BasicAuth(_)
        | Step::Jwt(_)
        | Step::Oidc(_)
        | Step::ApiKey(_)
        | Step::AuthAny(_)
        | Step::ClientAuth(_)
        | Step::RateLimit(_)
        | Step::ConcurrencyLimit(_) => true,
        Step::RequestHeader(_)
        | Step::ResponseHeader(_)
        | Step::Rewrite { .. }
        | Step::StripPrefix(_)
        | Step::AddPrefix(_)
        | Step::BodyLimit { .. }
        | Step::Cors(_) => false,
    }
}

/// Whether a step writes what a log-in looks at, or says what it finds out.
fn changes_log_in(step: &Step, log_in: &Step) -> bool {
    let tells = || {
        step.templates().into_iter().flat_map(Template::placeholders).any(|placeholder| match source_of(placeholder) {
            Source::Identity => true,
            Source::Field(name) => fields_of_log_in(log_in).iter().any(|known| known.eq_ignore_ascii_case(name)),
            Source::Known | Source::Target | Source::Anything => false,
        })
    };
    match step {
        Step::RequestHeader(header) => writes_credentials(header, log_in) || tells(),
        Step::Rewrite { .. } | Step::StripPrefix(_) | Step::AddPrefix(_) => tells(),
        Step::ResponseHeader(_)
        | Step::BodyLimit { .. }
        | Step::Allow(_)
        | Step::Deny(_)
        | Step::Cors(_)
        | Step::Csrf(_)
        | Step::BasicAuth(_)
        | Step::Jwt(_)
        | Step::Oidc(_)
        | Step::ApiKey(_)
        | Step::AuthAny(_)
        | Step::ClientAuth(_)
        | Step::RateLimit(_)
        | Step::ConcurrencyLimit(_) => false,
    }
}

fn writes_credentials(header: &HeaderStep, log_in: &Step) -> bool {
    let looked_at: Vec<&str> = match log_in {
        Step::BasicAuth(_) => vec!["authorization"],
        Step::Oidc(_) => vec!["cookie"],
        Step::Jwt(Some(jwt)) => jwt.places.iter().filter_map(field_of_place).collect(),
        Step::ApiKey(Some(auth)) => auth.places.iter().filter_map(field_of_key).collect(),
        Step::AuthAny(Some(any)) => return any.ways.iter().any(|way| writes_credentials(header, way)),
        Step::Jwt(None)
        | Step::ApiKey(None)
        | Step::AuthAny(None)
        | Step::ClientAuth(_)
        | Step::RequestHeader(_)
        | Step::ResponseHeader(_)
        | Step::Rewrite { .. }
        | Step::StripPrefix(_)
        | Step::AddPrefix(_)
        | Step::BodyLimit { .. }
        | Step::Allow(_)
        | Step::Deny(_)
        | Step::Cors(_)
        | Step::Csrf(_)
        | Step::RateLimit(_)
        | Step::ConcurrencyLimit(_) => Vec::new(),
    };
    let is_looked_at = |change: &HeaderChange| looked_at.iter().any(|name| change.name.eq_ignore_ascii_case(name));
    header.changes.iter().any(is_looked_at)
}

fn field_of_place(place: &TokenPlace) -> Option<&str> {
    match place {
        TokenPlace::Authorization => Some("authorization"),
        TokenPlace::Header(name) => Some(name),
        TokenPlace::Cookie(_) => Some("cookie"),
        TokenPlace::Query(_) => None,
    }
}

fn field_of_key(place: &ApiKeyPlace) -> Option<&str> {
    match place {
        ApiKeyPlace::Authorization(_) => Some("authorization"),
        ApiKeyPlace::Field(name) => Some(name),
        ApiKeyPlace::Query(_) => None,
    }
}

/// A line that only takes back what the site says.
fn is_off(step: &Step) -> bool {
    matches!(
        step,
        Step::BasicAuth(None)
            | Step::Jwt(None)
            | Step::Oidc(None)
            | Step::ApiKey(None)
            | Step::AuthAny(None)
            | Step::Csrf(None)
            | Step::ClientAuth(ClientAuthDemand::Off)
    )
}

#[cfg(test)]
mod tests;
