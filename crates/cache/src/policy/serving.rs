//! Whether a stored answer may be served to a request now, or has to be validated first (RFC 9111 sections 4 and 5.2.1,
//! RFC 5861). The terms were found when it was stored, in `storing`.

use super::cache_control::{MaxStale, RequestDirectives};
use super::storing::{Terms, Validation};
use crate::message::Now;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Fresh {
        /// What the `Age` field is to say.
        age_seconds: u64,
        ttl_seconds: u64,
    },
    Stale(StaleReason, Staleness),
    Validate(ValidationReason),
    /// `only-if-cached`, and it cannot be served: 504.
    GatewayTimeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staleness {
    pub age_seconds: u64,
    pub stale_seconds: u64,
}

/// Why a stale answer is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleReason {
    /// The client takes it.
    MaxStale,
    /// `stale-while-revalidate`: somebody is to ask the upstream meanwhile.
    WhileRevalidate,
    /// `stale-if-error`: the upstream failed.
    IfError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidationReason {
    Stale,
    /// The answer asks for it before every use.
    NoCache,
    /// The client asks for it.
    Request,
}

/// `stale_since` is when it was purged softly, by [`Now::seconds`].
pub fn judge(request: RequestDirectives, terms: &Terms, stale_since: Option<u64>, now: Now) -> Verdict {
    let reason = match verdict(request, terms, stale_since, now) {
        Ok(verdict) => return verdict,
        Err(reason) => reason,
    };
    if request.only_if_cached { Verdict::GatewayTimeout } else { Verdict::Validate(reason) }
}

/// What may be served in place of an error of the upstream: a 500, 502, 503 or 504, or none at all.
pub fn on_error(terms: &Terms, stale_since: Option<u64>, now: Now) -> Option<Staleness> {
    let staleness = Staleness { age_seconds: terms.age_seconds(now), stale_seconds: stale_seconds(terms, stale_since, now)? };
    let is_allowed = match terms.validation {
        Validation::WhenConvenient => true,
        Validation::OnceStale | Validation::Always => false,
    };
    (is_allowed && staleness.stale_seconds < terms.stale_if_error_seconds).then_some(staleness)
}

fn verdict(request: RequestDirectives, terms: &Terms, stale_since: Option<u64>, now: Now) -> Result<Verdict, ValidationReason> {
    if terms.validation == Validation::Always {
        return Err(ValidationReason::NoCache);
    }
    if request.no_cache {
        return Err(ValidationReason::Request);
    }
    let age_seconds = terms.age_seconds(now);
    let is_too_old = request.max_age.is_some_and(|max_age| age_seconds > max_age);
    match stale_seconds(terms, stale_since, now) {
        None => {
            let ttl_seconds = terms.lifetime_seconds - age_seconds;
            let is_too_short = request.min_fresh.is_some_and(|min_fresh| ttl_seconds < min_fresh);
            let is_refused = is_too_short || (is_too_old && !terms.immutable);
            if is_refused { Err(ValidationReason::Request) } else { Ok(Verdict::Fresh { age_seconds, ttl_seconds }) }
        }
        Some(_) if is_too_old || request.min_fresh.is_some_and(|min_fresh| min_fresh > 0) => Err(ValidationReason::Request),
        Some(stale_seconds) => {
            let reason = stale_reason(request, terms, stale_seconds).ok_or(ValidationReason::Stale)?;
            Ok(Verdict::Stale(reason, Staleness { age_seconds, stale_seconds }))
        }
    }
}

/// `None` while it is fresh.
fn stale_seconds(terms: &Terms, stale_since: Option<u64>, now: Now) -> Option<u64> {
    let by_age = terms.age_seconds(now).checked_sub(terms.lifetime_seconds);
    let by_purge = stale_since.map(|since| now.seconds.saturating_sub(since));
    by_age.max(by_purge)
}

fn stale_reason(request: RequestDirectives, terms: &Terms, stale_seconds: u64) -> Option<StaleReason> {
    match terms.validation {
        Validation::WhenConvenient => {}
        Validation::OnceStale | Validation::Always => return None,
    }
    let is_taken = match request.max_stale {
        MaxStale::No => false,
        MaxStale::Seconds(seconds) => stale_seconds <= seconds,
        MaxStale::Any => true,
    };
    if stale_seconds < terms.stale_while_revalidate_seconds {
        return Some(StaleReason::WhileRevalidate);
    }
    is_taken.then_some(StaleReason::MaxStale)
}

#[cfg(test)]
mod tests;
