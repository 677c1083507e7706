//! In which order the steps of a site and of its route run. It is safe by itself, wherever a line stands: preflights
//! are answered before anybody is asked for credentials, which browsers do not send with them; who may not ask, or asks
//! too often, is not asked who it is; who has to log in has done so before anything is counted for, sent to or kept for
//! somebody. What is left runs as written, the site's in front of the route's.

use crate::placeholder::{Placeholder, Template};
use crate::step::Step;
use crate::step_facts::{StepFacts, Turn};
use std::mem::discriminant;

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
    let said_by_log_ins: Vec<&str> = steps.iter().flat_map(|step| step.facts().told).collect();
    let mut written = Written::default();
    let mut phases = Vec::with_capacity(steps.len());
    for step in steps {
        let facts = step.facts();
        phases.push(match facts.turn {
            Turn::In(phase) => phase,
            Turn::Counts(by) => phase_of_limit(by, &said_by_log_ins, &written),
        });
        written.fields.extend(facts.changes.iter().map(|change| change.name.as_str()));
        written.is_target |= facts.writes_target;
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

/// The steps by which somebody is asked who it is, of a site and its route, as they count and in their order.
pub fn log_ins<'s>(site_steps: &'s [Step], route_steps: &'s [Step]) -> impl Iterator<Item = &'s Step> {
    let all: Vec<&Step> = site_steps.iter().chain(route_steps).collect();
    let last_demand = all.iter().rposition(|step| matches!(step, Step::ClientAuth(_)));
    let counts = |position: &usize| {
        let facts = all[*position].facts();
        let is_last = match all[*position] {
            Step::ClientAuth(_) => Some(*position) == last_demand,
            _ => !is_overruled(&all, *position),
        };
        matches!(facts.turn, Turn::In(Phase::Authentication)) && !facts.is_off && is_last
    };
    let found: Vec<&Step> = (0..all.len()).filter(counts).map(|position| all[position]).collect();
    found.into_iter()
}

/// Whether a later step takes the place of the one at that position: the last word of each kind counts, and an `auth
/// any` is the last word of the kinds of its ways, too.
pub fn is_overruled(steps: &[&Step], position: usize) -> bool {
    let is_any = |step: &Step| matches!(step, Step::AuthAny(_));
    let last_any = steps.iter().rposition(|step| is_any(step));
    let step = steps[position];
    if is_any(step) {
        return Some(position) != last_any;
    }
    let is_alike = |part: &Step| discriminant(part) == discriminant(step);
    let counts = |later: &usize| !is_any(steps[*later]) || Some(*later) == last_any;
    step.facts().last_counts && (position + 1..steps.len()).filter(counts).any(|later| steps[later].parts().iter().any(is_alike))
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
        Placeholder::Path | Placeholder::Query | Placeholder::QuerySuffix | Placeholder::Uri | Placeholder::RequestQuery(_) => {
            Source::Target
        }
        Placeholder::RequestHeader(name) => Source::Field(name),
        Placeholder::RequestCookie(_) => Source::Field("cookie"),
        Placeholder::ForwardedFor => Source::Field("x-forwarded-for"),
        Placeholder::AuthUser | Placeholder::JwtClaim(_) => Source::Identity,
        Placeholder::Map(_) => Source::Anything,
        Placeholder::AskedUri
        | Placeholder::AskedUriEscaped
        | Placeholder::Method
        | Placeholder::Scheme
        | Placeholder::Port
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

/// Whether anybody notices that `moved` runs before `passed`, which is written in front of it.
fn is_felt(passed: &Step, moved: &Step) -> bool {
    let (passed, moved) = (passed.facts(), moved.facts());
    if passed.is_off || moved.is_off {
        return false;
    }
    match moved.turn {
        Turn::In(Phase::Access | Phase::Identity | Phase::AsWritten) => false,
        // Whoever is refused, or counted, in front of it is so no more.
        Turn::In(Phase::Preflight | Phase::Client) | Turn::Counts(_) => passed.refuses,
        Turn::In(Phase::Authentication) => passed.refuses || changes_log_in(&passed, &moved),
    }
}

/// Whether a step writes what a log-in looks at, or says what it finds out.
fn changes_log_in(step: &StepFacts<'_>, log_in: &StepFacts<'_>) -> bool {
    let has = |names: &[&str], name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let tells = |placeholder: &Placeholder| match source_of(placeholder) {
        Source::Identity => true,
        Source::Field(name) => has(&log_in.told, name),
        Source::Known | Source::Target | Source::Anything => false,
    };
    step.changes.iter().any(|change| has(&log_in.looked_at, &change.name))
        || step.changes_request() && step.templates.iter().flat_map(|text| text.placeholders()).any(tells)
}

#[cfg(test)]
mod tests;
