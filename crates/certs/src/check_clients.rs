//! What `tidegate check` says about the authorities of clients and their revocation lists: what cannot be used, and
//! what would let in nobody, or more than was meant. A part of `check`.

use crate::check::{CertFinding, EXPIRY_WARNING, Severity};
use crate::client_trust::{ClientTrust, authorities, next_update, parse_list, revocation_lists};
use crate::facts;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use std::path::Path;
use tidegate_model::ClientAuth;
use x509_parser::certificate::X509Certificate;

pub fn check_clients(settings: &ClientAuth, now: Timestamp, findings: &mut Vec<CertFinding>) {
    if let Err(errors) = ClientTrust::load(settings, now) {
        findings.extend(errors.iter().map(CertFinding::from));
        return;
    }
    let bundles: Vec<(&Path, Vec<CertificateDer<'static>>)> =
        settings.ca.iter().filter_map(|ca| Some((ca.name(), authorities(ca).ok()?))).collect();
    let mut trusted: Vec<(&Path, X509Certificate<'_>)> = Vec::new();
    for (file, certificates) in &bundles {
        for der in certificates {
            let Ok(certificate) = facts::parse(der) else { continue };
            check_authority(file, &certificate, now, findings);
            if is_public(der) {
                findings.push(public(file, &certificate));
            }
            trusted.push((file, certificate));
        }
    }
    check_lists(settings, &trusted, now, findings);
}

fn warning(file: &Path, message: String, help: &str) -> CertFinding {
    CertFinding { severity: Severity::Warning, file: Some(file.to_owned()), message, help: Some(help.to_owned()) }
}

fn check_authority(file: &Path, authority: &X509Certificate<'_>, now: Timestamp, findings: &mut Vec<CertFinding>) {
    let name = authority.subject();
    let shown = file.display();
    let end = facts::timestamp(authority.validity().not_after.timestamp());
    let on = end.strftime("%-d %B %Y");
    // RFC 5280 section 6.1.1: what is trusted by being in the bundle is not asked for its dates.
    if end <= now {
        let message = format!("the authority `{name}` in {shown} expired on {on}, and what it signed is accepted all the same");
        findings.push(warning(file, message, "remove it when its successor has signed for all clients"));
    } else if end.duration_since(now) < EXPIRY_WARNING {
        findings.push(warning(file, format!("the authority `{name}` in {shown} expires on {on}"), "add its successor"));
    }
    if let Ok(Some(usage)) = authority.key_usage()
        && !usage.value.key_cert_sign()
    {
        let message = format!("the authority `{name}` in {shown} may not sign certificates (its key usage lacks keyCertSign)");
        findings.push(warning(file, message, "name the authority that signs for clients"));
    }
}

/// Whether browsers trust it to sign for servers: then so may anybody be a client who has a domain.
fn is_public(der: &CertificateDer<'static>) -> bool {
    let mut store = RootCertStore::empty();
    if store.add(der.clone()).is_err() {
        return false;
    }
    let is_same = |root: &rustls_pki_types::TrustAnchor<'_>| {
        store.roots.iter().any(|own| own.subject == root.subject && own.subject_public_key_info == root.subject_public_key_info)
    };
    tidegate_outbound::mozilla_roots().roots.iter().any(is_same)
}

fn public(file: &Path, authority: &X509Certificate<'_>) -> CertFinding {
    let message = format!(
        "the authority `{}` in {} signs for anybody on the Internet, who all are let in",
        authority.subject(),
        file.display()
    );
    warning(file, message, "name an authority of your own, and restrict routes with `match client-san=`")
}

fn check_lists(settings: &ClientAuth, trusted: &[(&Path, X509Certificate<'_>)], now: Timestamp, findings: &mut Vec<CertFinding>) {
    let files: Vec<_> = settings.crls.iter().filter_map(|crl| Some((crl.name(), revocation_lists(crl).ok()?))).collect();
    let mut issuers: Vec<Vec<u8>> = Vec::new();
    for (file, lists) in &files {
        for list in lists.iter().filter_map(|der| parse_list(der).ok()) {
            let (issuer, shown) = (list.issuer(), file.display());
            if let Some(end) = next_update(&list).filter(|end| *end <= now) {
                let on = end.strftime("%-d %B %Y");
                let message = format!(
                    "the revocation list of `{issuer}` in {shown} is out of date since {on}, so all its clients are refused"
                );
                findings.push(warning(file, message, "fetch the newest one, and do so before each is out of date"));
            }
            let signer = trusted.iter().find(|(_, authority)| authority.subject().as_raw() == issuer.as_raw());
            match signer.map(|(_, authority)| authority.key_usage()) {
                None => {
                    let message =
                        format!("the revocation list in {shown} is of `{issuer}`, which is none of the authorities in `ca=`");
                    findings.push(warning(
                        file,
                        message,
                        "that is right for an authority beneath one of those, and a mistake otherwise",
                    ));
                }
                Some(Ok(Some(usage))) if !usage.value.crl_sign() => {
                    let message = format!(
                        "`{issuer}` may not sign the revocation list in {shown} (its key usage lacks cRLSign), so all its clients are refused"
                    );
                    findings.push(warning(file, message, "have the authority issued again with cRLSign"));
                }
                Some(_) => {}
            }
            issuers.push(issuer.as_raw().to_vec());
        }
    }
    if settings.crls.is_empty() {
        return;
    }
    for (file, authority) in trusted {
        let name = authority.subject();
        if !issuers.iter().any(|issuer| issuer == name.as_raw()) {
            let message =
                format!("no revocation list is of the authority `{name}` in {}, so all its clients are refused", file.display());
            findings.push(warning(file, message, "add its list with `crl=`; with one list, every authority needs one"));
        }
    }
}
