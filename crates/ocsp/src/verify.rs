//! Whether an answer may be believed: for this certificate, signed by its issuer or by whom the issuer has delegated it
//! to, and in time (RFC 6960 section 3.2). What follows from it is in `course.rs`.

use crate::certificate_id::{CertificateId, sha1};
use crate::fault::Fault;
use crate::response::{Responder, Response, Single, SingleStanding};
use crate::signature::{Signed, key_of};
use jiff::{SignedDuration, Timestamp};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// By how much the clocks of responders may be ahead of ours.
const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// Without a `nextUpdate`, which RFC 5019 demands, an answer counts for as long as Firefox takes it for fresh.
const WITHOUT_END: SignedDuration = SignedDuration::from_hours(24);
/// Certificates in an answer that are looked at; one is usual, and each costs the verification of a signature.
const CERTIFICATES_MAX: usize = 4;

/// What may be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub verdict: Verdict,
    pub this_update: Timestamp,
    /// From when on the answer must not be shown any more.
    pub next_update: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Revoked { at: Timestamp },
}

/// `issuer` is in DER. That the responder does not know the certificate is a fault.
pub fn verify(response: &[u8], id: &CertificateId, issuer: &[u8], now: Timestamp) -> Result<Answer, Fault> {
    let response = Response::read(response)?;
    let single = about(&response, id)?;
    let signer_ends = verify_signer(&response, issuer, now)?;
    let this_update = timestamp(single.this_update_seconds);
    let next_update = single.next_update_seconds.map_or_else(|| later(this_update, WITHOUT_END), timestamp);
    // Clients look at the delegate's dates as well.
    let next_update = signer_ends.map_or(next_update, |end| next_update.min(end));
    if this_update > later(now, SKEW) {
        return Err(Fault::TooEarly { this_update });
    }
    // Clients do not know of our skew.
    if next_update <= now {
        return Err(Fault::Expired { next_update });
    }
    let verdict = match single.standing {
        SingleStanding::Good => Verdict::Good,
        // RFC 6960 section 2.2: so answers a responder that has never heard of the certificate, such as one that lags
        // behind its CA.
        SingleStanding::Revoked { at_seconds: 0 } => return Err(Fault::Unknown),
        SingleStanding::Revoked { at_seconds } => Verdict::Revoked { at: timestamp(at_seconds) },
        SingleStanding::Unknown => return Err(Fault::Unknown),
    };
    Ok(Answer { verdict, this_update, next_update })
}

fn about<'a>(response: &Response<'a>, id: &CertificateId) -> Result<Single<'a>, Fault> {
    for single in response.singles() {
        let single = single?;
        if id.is(single.id)? {
            return Ok(single);
        }
    }
    Err(Fault::OtherCertificate)
}

/// When a delegate's right to sign ends; `None` for the issuer itself.
fn verify_signer(response: &Response<'_>, issuer: &[u8], now: Timestamp) -> Result<Option<Timestamp>, Fault> {
    const WHAT: &str = "the issuer's certificate";
    let (_, issuer) = X509Certificate::from_der(issuer).map_err(|_| Fault::Malformed(WHAT))?;
    if is(response.responder, &issuer)? {
        return response.signed.verify(key_of(&issuer)?).map(|()| None);
    }
    for der in response.certificates().take(CERTIFICATES_MAX) {
        let der = der?;
        let (_, delegate) = X509Certificate::from_der(der).map_err(|_| Fault::Malformed("the responder's certificate"))?;
        if is(response.responder, &delegate)? {
            verify_delegate(der, &delegate, &issuer, now)?;
            let end = timestamp(delegate.validity().not_after.timestamp());
            return response.signed.verify(key_of(&delegate)?).map(|()| Some(end));
        }
    }
    Err(Fault::Stranger)
}

/// Whether the one who signed says that it is this one.
fn is(responder: Responder<'_>, certificate: &X509Certificate<'_>) -> Result<bool, Fault> {
    Ok(match responder {
        Responder::Name(name) => certificate.subject().as_raw() == name,
        Responder::KeyHash(hash) => sha1(key_of(certificate)?.bits) == hash,
    })
}

/// Issued by the same authority itself, for signing answers (RFC 6960 section 4.2.2.2).
fn verify_delegate(
    der: &[u8],
    delegate: &X509Certificate<'_>,
    issuer: &X509Certificate<'_>,
    now: Timestamp,
) -> Result<(), Fault> {
    let usage = delegate.extended_key_usage().ok().flatten();
    let may_sign_answers = usage.is_some_and(|usage| usage.value.ocsp_signing);
    // Without the extension a key may be used for everything.
    let key_usage = delegate.key_usage().map_err(|_| Fault::Stranger)?;
    let may_sign = key_usage.is_none_or(|usage| usage.value.digital_signature());
    let has_unknown = delegate.extensions().iter().any(|extension| extension.critical && !is_known(extension.parsed_extension()));
    if delegate.issuer().as_raw() != issuer.subject().as_raw() || !may_sign_answers || !may_sign || has_unknown {
        return Err(Fault::Stranger);
    }
    // The signature is one of whoever has the issuer's name; somebody else's is a stranger's.
    Signed::of_certificate(der)?.verify(key_of(issuer)?).map_err(|fault| match fault {
        Fault::Signature => Fault::Stranger,
        other => other,
    })?;
    let (begin, end) = (delegate.validity().not_before.timestamp(), delegate.validity().not_after.timestamp());
    if later(now, SKEW).as_second() < begin || now.as_second() > end {
        return Err(Fault::DelegateOutOfDate);
    }
    Ok(())
}

fn is_known(extension: &x509_parser::extensions::ParsedExtension<'_>) -> bool {
    use x509_parser::extensions::ParsedExtension::{BasicConstraints, ExtendedKeyUsage, KeyUsage};
    matches!(extension, BasicConstraints(_) | ExtendedKeyUsage(_) | KeyUsage(_))
}

/// Dates outside what a time stamp can hold become the nearest one it can.
fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}
