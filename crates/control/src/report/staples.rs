//! What an operator sees of stapling for one certificate: what handshakes send, and what is in the way of it.

use jiff::Timestamp;
use tidegate_acme::Fault;
use tidegate_certs::{LoadedCertificate, StapleSlot};
use tidegate_ocsp::Standing;

#[derive(Debug, Clone, PartialEq)]
pub struct StapleReport {
    pub state: StapleState,
    /// Clients refuse the certificate without.
    pub is_required: bool,
    pub responder: Option<String>,
    pub until: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub next_question_at: Option<Timestamp>,
    pub failures_in_a_row: u32,
    pub fault: Option<Fault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StapleState {
    Stapled,
    /// The responder was not heard yet, and has not failed.
    Waiting,
    Failing,
    Revoked,
    /// Nobody can be asked.
    Impossible,
    /// By the configuration.
    Off,
}

impl StapleState {
    pub fn as_str(self) -> &'static str {
        match self {
            StapleState::Stapled => "stapled",
            StapleState::Waiting => "waiting",
            StapleState::Failing => "failing",
            StapleState::Revoked => "revoked",
            StapleState::Impossible => "impossible",
            StapleState::Off => "off",
        }
    }
}

/// By the responder's word. `is_on`: the site staples.
pub(super) fn is_revoked(certificate: &LoadedCertificate, is_on: bool) -> bool {
    let slot = certificate.staple.as_ref().filter(|_| is_on);
    slot.is_some_and(|slot| slot.is_revoked())
}

/// `None` where there is nothing to be said. `is_on`: the site staples.
pub(super) fn staple_report(certificate: &LoadedCertificate, is_on: bool, now: Timestamp) -> Option<StapleReport> {
    let facts = certificate.facts.ocsp.as_deref()?;
    if let Some(slot) = certificate.staple.as_ref().filter(|_| is_on) {
        return Some(report_of(slot, now));
    }
    let (state, problem) = if !is_on {
        let off = "`ocsp-stapling #false` turned stapling off, and clients refuse this certificate without a staple";
        (StapleState::Off, facts.must_staple.then_some((off, "take the line out of the site's `tls`")))
    } else if facts.responder.is_none() {
        let none = "the certificate demands a staple and names no OCSP responder that could be asked";
        (StapleState::Impossible, Some((none, "have it issued without \"must-staple\", or with a responder")))
    } else {
        let alone =
            "the chain does not have the certificate that issued the first one, and answers cannot be verified without it";
        (StapleState::Impossible, Some((alone, "put the issuer's certificate behind the site's own in the same file")))
    };
    Some(StapleReport {
        state,
        is_required: facts.must_staple,
        responder: facts.responder.clone(),
        until: None,
        revoked_at: None,
        next_question_at: None,
        failures_in_a_row: 0,
        fault: problem.map(|(cause, remedy)| Fault { at: now, cause: cause.to_owned(), remedy: remedy.to_owned() }),
    })
}

fn report_of(slot: &StapleSlot, now: Timestamp) -> StapleReport {
    let course = slot.course();
    let until = course.stapled_until(now);
    let (state, revoked_at) = match course.standing() {
        Standing::Revoked { at, .. } => (StapleState::Revoked, Some(at)),
        Standing::Unheard | Standing::Good { .. } if until.is_some() => (StapleState::Stapled, None),
        Standing::Unheard | Standing::Good { .. } if course.failures_in_a_row() > 0 => (StapleState::Failing, None),
        Standing::Unheard | Standing::Good { .. } => (StapleState::Waiting, None),
    };
    StapleReport {
        state,
        is_required: slot.is_required(),
        responder: Some(slot.responder().to_owned()),
        until,
        revoked_at,
        // Before the first question it lies before all times.
        next_question_at: Some(course.next_at()).filter(|at| *at > Timestamp::MIN),
        failures_in_a_row: course.failures_in_a_row(),
        fault: course.failure().map(|failure| Fault {
            at: failure.at,
            cause: failure.cause.clone(),
            remedy: failure.remedy.clone(),
        }),
    }
}
