//! The same for programs. Fields are added, and never renamed.

use super::Found;
use super::report::{days_left, taken};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidegate_certs::trust::Distrust;
use tidegate_certs::{CertificateDescription, SignatureAlgorithm};

pub fn report(found: &Found) -> Value {
    let answer = &found.answer;
    json!({
        "host": found.target.host,
        "port": found.target.port,
        "address": found.address.ip().to_string(),
        "ok": !found.judgement.has_problem(),
        "version": answer.version,
        "cipher": answer.cipher,
        "key_exchange": answer.key_exchange,
        "alpn": answer.alpn,
        "versions": {
            "1.3": answer.version == super::ask::TLS13,
            "1.2": answer.takes_tls12,
            "1.1": taken(found.oldest.tls11),
            "1.0": taken(found.oldest.tls10),
        },
        "ocsp_stapled": !answer.ocsp.is_empty(),
        "matches_host": found.judgement.is_for_name,
        "chain": found.chain.iter().map(|certificate| described(certificate, found.now)).collect::<Vec<_>>(),
        "trust": found.judgement.trust.iter().map(|(roots, verdict)| json!({
            "roots": roots.word(),
            "verifies": verdict.is_ok(),
            "problem": verdict.as_ref().err().map(|why| match why {
                Distrust::UnknownIssuer => "unknown issuer",
                Distrust::Other(problem) => problem,
            }),
        })).collect::<Vec<_>>(),
        "findings": found.judgement.findings.iter().map(|finding| json!({
            "severity": if finding.is_problem { "problem" } else { "note" },
            "text": finding.text,
        })).collect::<Vec<_>>(),
    })
}

/// Nothing could be found out.
pub fn failed(host: &str, why: &str) -> Value {
    json!({ "host": host, "ok": false, "findings": [{ "severity": "problem", "text": why }] })
}

fn described(certificate: &CertificateDescription, now: Timestamp) -> Value {
    json!({
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "serial": certificate.serial,
        "names": certificate.names.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "not_before": certificate.not_before.to_string(),
        "not_after": certificate.not_after.to_string(),
        "days_left": days_left(certificate.not_after, now),
        "key": certificate.key_algorithm.to_string(),
        "signature": certificate.signature.to_string(),
        "signature_is_broken": matches!(certificate.signature, SignatureAlgorithm::Broken(_)),
        "is_ca": certificate.is_authority,
        "sha256": certificate.fingerprint,
    })
}
