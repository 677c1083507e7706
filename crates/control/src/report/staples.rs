//! What an operator sees of stapling for one certificate: what handshakes send, and what is in the way of it.

use jiff::Timestamp;
use tidegate_api::{CertificateFault, Staple, StapleState};
use tidegate_certs::{LoadedCertificate, StapleSlot};
use tidegate_ocsp::Standing;

/// By the responder's word. `is_on`: the site staples.
pub(super) fn is_revoked(certificate: &LoadedCertificate, is_on: bool) -> bool {
    let slot = certificate.staple.as_ref().filter(|_| is_on);
    slot.is_some_and(|slot| slot.is_revoked())
}

/// `None` where there is nothing to be said. `is_on`: the site staples.
pub(super) fn staple_report(certificate: &LoadedCertificate, is_on: bool, now: Timestamp) -> Option<Staple> {
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
    Some(Staple {
        state,
        required: facts.must_staple,
        responder: facts.responder.clone(),
        until: None,
        revoked_at: None,
        next_question_at: None,
        failures_in_a_row: 0,
        fault: problem.map(|(cause, remedy)| CertificateFault { at: now, cause: cause.to_owned(), remedy: remedy.to_owned() }),
    })
}

fn report_of(slot: &StapleSlot, now: Timestamp) -> Staple {
    let course = slot.course();
    let until = course.stapled_until(now);
    let (state, revoked_at) = match course.standing() {
        Standing::Revoked { at, .. } => (StapleState::Revoked, Some(at)),
        Standing::Unheard | Standing::Good { .. } if until.is_some() => (StapleState::Stapled, None),
        Standing::Unheard | Standing::Good { .. } if course.failures_in_a_row() > 0 => (StapleState::Failing, None),
        Standing::Unheard | Standing::Good { .. } => (StapleState::Waiting, None),
    };
    Staple {
        state,
        required: slot.is_required(),
        responder: Some(slot.responder().to_owned()),
        until,
        revoked_at,
        // Before the first question it lies before all times.
        next_question_at: Some(course.next_at()).filter(|at| *at > Timestamp::MIN),
        failures_in_a_row: course.failures_in_a_row(),
        fault: course.failure().map(|failure| CertificateFault {
            at: failure.at,
            cause: failure.cause.clone(),
            remedy: failure.remedy.clone(),
        }),
    }
}
