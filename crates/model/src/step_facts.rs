//! What is so of each kind of step, in one table: when it runs, what it reads, writes and tells, whom it asks. Whoever
//! needs to know one of these of any step asks here, so that a new kind is thought of in one place. What a kind does to
//! a request is in `middleware`, how it is written, in `config`.

use crate::placeholder::Template;
use crate::pool::PoolName;
use crate::step::{HeaderChange, Step};
use crate::step_order::Phase;
use crate::{ApiKeyPlace, ClientAuthDemand, NamePattern, TokenPlace};

/// A row of the table. What is left out is nothing, and `false`.
#[derive(Debug, Clone)]
pub struct StepFacts<'s> {
    pub turn: Turn<'s>,
    /// A line that only takes back what the site says.
    pub is_off: bool,
    /// Of those of its kind, in a site and its route, the last one counts alone.
    pub last_counts: bool,
    /// May refuse a request by itself, or counts it.
    pub refuses: bool,
    /// Of a step that lets somebody in, as one of several ways: how far away that is decided.
    pub distance: Option<Distance>,
    /// What it writes into the request, whoever asks.
    pub changes: &'s [HeaderChange],
    /// Whether it writes path or query.
    pub writes_target: bool,
    /// Fields of the request that it writes once it knows who asks.
    pub told: Vec<&'s str>,
    /// Beginnings of such names.
    pub told_beginnings: Vec<&'s str>,
    /// Fields that it looks at to know who asks.
    pub looked_at: Vec<&'s str>,
    /// Fields among them in which nothing stands but keys and tokens.
    pub credential_fields: Vec<&'s str>,
    /// Parameters of the query in which keys and tokens stand.
    pub credential_parameters: Vec<&'s str>,
    /// The pool that it asks.
    pub pool: Option<&'s PoolName>,
    /// All texts with placeholders.
    pub templates: Vec<&'s Template>,
}

/// When a step runs.
#[derive(Debug, Clone, Copy)]
pub enum Turn<'s> {
    In(Phase),
    /// A limit runs where that is known which it counts by.
    Counts(Option<&'s Template>),
}

/// How far away it is decided whether somebody is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    Here,
    /// By a session that a provider may have to renew.
    Session,
    /// By another server.
    Elsewhere,
}

impl Step {
    /// The table.
    pub fn facts(&self) -> StepFacts<'_> {
        match self {
            Step::RequestHeader(header) => StepFacts {
                changes: &header.changes,
                templates: header.changes.iter().map(|change| &change.value).collect(),
                ..StepFacts::PLAIN
            },
            Step::ResponseHeader(header) => {
                StepFacts { templates: header.changes.iter().map(|change| &change.value).collect(), ..StepFacts::PLAIN }
            }
            Step::Rewrite { to, .. } => StepFacts { writes_target: true, templates: vec![to], ..StepFacts::PLAIN },
            Step::StripPrefix(_) | Step::AddPrefix(_) => StepFacts { writes_target: true, ..StepFacts::PLAIN },
            Step::BodyLimit { .. } => StepFacts::PLAIN,
            Step::Allow(_) => StepFacts { distance: Some(Distance::Here), ..StepFacts::refusing(Phase::Access) },
            Step::Deny(_) => StepFacts::refusing(Phase::Access),
            Step::Cors(_) => StepFacts { turn: Turn::In(Phase::Preflight), ..StepFacts::PLAIN },
            Step::Csrf(csrf) => StepFacts { is_off: csrf.is_none(), last_counts: true, ..StepFacts::refusing(Phase::Client) },
            Step::BasicAuth(auth) => {
                StepFacts { looked_at: vec!["authorization"], ..StepFacts::log_in(Distance::Here, auth.is_none()) }
            }
            Step::Jwt(jwt) => {
                let places = || jwt.iter().flat_map(|jwt| &jwt.places);
                StepFacts {
                    told: jwt.iter().flat_map(|jwt| &jwt.headers).map(|header| header.name.as_str()).collect(),
                    looked_at: places().filter_map(TokenPlace::looked_at).collect(),
                    credential_fields: places().filter_map(TokenPlace::field).collect(),
                    credential_parameters: places().filter_map(TokenPlace::parameter).collect(),
                    ..StepFacts::log_in(Distance::Here, jwt.is_none())
                }
            }
            Step::Oidc(oidc) => StepFacts {
                told: oidc.iter().flat_map(|oidc| oidc.told()).collect(),
                looked_at: vec!["cookie"],
                ..StepFacts::log_in(Distance::Session, oidc.is_none())
            },
            Step::ForwardAuth(auth) => {
                let Some(auth) = auth else { return StepFacts::log_in(Distance::Elsewhere, true) };
                let asked = auth.request_fields.as_deref();
                StepFacts {
                    told: texts(&auth.copied, false),
                    told_beginnings: texts(&auth.copied, true),
                    looked_at: asked.map_or_else(|| vec!["authorization", "cookie"], |named| texts(named, false)),
                    pool: Some(&auth.pool),
                    templates: auth.texts().collect(),
                    ..StepFacts::log_in(Distance::Elsewhere, false)
                }
            }
            Step::ApiKey(auth) => {
                let places = || auth.iter().flat_map(|auth| &auth.places);
                StepFacts {
                    told: auth.iter().filter_map(|auth| auth.header.as_deref()).collect(),
                    looked_at: places().filter_map(ApiKeyPlace::looked_at).collect(),
                    credential_fields: places().filter_map(ApiKeyPlace::field).collect(),
                    credential_parameters: places().filter_map(ApiKeyPlace::parameter).collect(),
                    ..StepFacts::log_in(Distance::Here, auth.is_none())
                }
            }
            Step::AuthAny(any) => StepFacts::of_ways(any.as_ref().map(|any| &any.ways[..])),
            Step::ClientAuth(demand) => {
                StepFacts { last_counts: false, ..StepFacts::log_in(Distance::Here, *demand == ClientAuthDemand::Off) }
            }
            Step::RateLimit(limit) => StepFacts::limit(limit.by.template()),
            Step::ConcurrencyLimit(limit) => StepFacts::limit(limit.by.template()),
        }
    }
}

impl<'s> StepFacts<'s> {
    /// Of a step that runs where it is written.
    const PLAIN: StepFacts<'s> = StepFacts {
        turn: Turn::In(Phase::AsWritten),
        is_off: false,
        last_counts: false,
        refuses: false,
        distance: None,
        changes: &[],
        writes_target: false,
        told: Vec::new(),
        told_beginnings: Vec::new(),
        looked_at: Vec::new(),
        credential_fields: Vec::new(),
        credential_parameters: Vec::new(),
        pool: None,
        templates: Vec::new(),
    };

    fn refusing(phase: Phase) -> StepFacts<'s> {
        StepFacts { turn: Turn::In(phase), refuses: true, ..StepFacts::PLAIN }
    }

    fn log_in(distance: Distance, is_off: bool) -> StepFacts<'s> {
        StepFacts { distance: Some(distance), is_off, last_counts: true, ..StepFacts::refusing(Phase::Authentication) }
    }

    fn limit(by: Option<&'s Template>) -> StepFacts<'s> {
        StepFacts { turn: Turn::Counts(by), templates: by.into_iter().collect(), ..StepFacts::refusing(Phase::Client) }
    }

    /// What is so of any of several ways.
    fn of_ways(ways: Option<&'s [Step]>) -> StepFacts<'s> {
        let mut facts = StepFacts { is_off: ways.is_none(), ..StepFacts::refusing(Phase::Authentication) };
        for way in ways.unwrap_or_default() {
            let of_way = way.facts();
            facts.told.extend(of_way.told);
            facts.told_beginnings.extend(of_way.told_beginnings);
            facts.looked_at.extend(of_way.looked_at);
            facts.credential_fields.extend(of_way.credential_fields);
            facts.credential_parameters.extend(of_way.credential_parameters);
            facts.pool = facts.pool.or(of_way.pool);
            facts.templates.extend(of_way.templates);
        }
        facts
    }

    /// Whether later steps find the request as it was asked.
    pub fn changes_request(&self) -> bool {
        self.writes_target || !self.changes.is_empty()
    }
}

/// Whole names, or beginnings of names.
fn texts(patterns: &[NamePattern], is_prefix: bool) -> Vec<&str> {
    patterns.iter().filter(|pattern| pattern.is_prefix == is_prefix).map(|pattern| pattern.text.as_str()).collect()
}
