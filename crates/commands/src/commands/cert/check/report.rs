//! What was found out, for people.

use super::Found;
use super::old_hello::Reply;
use crate::commands::table::labelled;
use jiff::Timestamp;
use tidegate_certs::CertificateDescription;

pub fn report(found: &Found) -> String {
    let answer = &found.answer;
    let mut page = labelled("server", &format!("{} at {}", found.target.host, found.address));
    let alpn = answer.alpn.as_ref().map(|protocol| format!(", {protocol}")).unwrap_or_default();
    page += &labelled("connection", &format!("{}, {}, {}{alpn}", answer.version, answer.cipher, answer.key_exchange));
    page += &labelled("versions", &versions(found));
    let stapled = if answer.ocsp.is_empty() { "no".to_owned() } else { format!("yes, {} bytes", answer.ocsp.len()) };
    page += &labelled("OCSP stapled", &stapled);
    for (index, certificate) in found.chain.iter().enumerate() {
        page.push('\n');
        page += &described(index, certificate, found.now);
    }
    page.push('\n');
    let matching = if found.judgement.is_for_name { "yes" } else { "no" };
    page += &labelled("for this name", matching);
    for (roots, verdict) in &found.judgement.trust {
        let verdict = if verdict.is_ok() { "verifies" } else { "does not verify" };
        page += &labelled(roots.word(), verdict);
    }
    page.push('\n');
    for finding in &found.judgement.findings {
        page += &labelled(if finding.is_problem { "problem" } else { "note" }, &finding.text);
    }
    if !found.judgement.has_problem() {
        page += "No problem was found.\n";
    }
    page
}

pub fn versions(found: &Found) -> String {
    let answer = &found.answer;
    let word = |taken: Option<bool>| match taken {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let old = |reply: Reply| word(taken(reply));
    format!(
        "1.3 {}, 1.2 {}, 1.1 {}, 1.0 {}",
        word(Some(answer.version == super::ask::TLS13)),
        word(answer.takes_tls12),
        old(found.oldest.tls11),
        old(found.oldest.tls10)
    )
}

pub fn taken(reply: Reply) -> Option<bool> {
    match reply {
        Reply::Accepted => Some(true),
        Reply::Refused => Some(false),
        Reply::Unknown => None,
    }
}

/// Whole days that are left; negative when they are over.
pub fn days_left(not_after: Timestamp, now: Timestamp) -> i64 {
    not_after.duration_since(now).as_secs().div_euclid(86_400)
}

fn described(index: usize, certificate: &CertificateDescription, now: Timestamp) -> String {
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    let mut text = labelled(if index == 0 { "certificate" } else { "signed by" }, &certificate.subject);
    if index == 0 {
        let names = certificate.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        text += &labelled("  names", if names.is_empty() { "none" } else { &names });
    }
    text += &labelled("  issuer", &certificate.issuer);
    let left = days_left(certificate.not_after, now);
    text += &labelled("  valid", &format!("{} to {}, {left} days left", day(certificate.not_before), day(certificate.not_after)));
    text += &labelled("  key", &format!("{}, signed with {}", certificate.key_algorithm, certificate.signature));
    text += &labelled("  SHA-256", &certificate.fingerprint);
    text
}
