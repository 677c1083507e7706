//! What `tidegate check` says about stapling: certificates that clients will refuse without a staple that cannot come,
//! and chains that it cannot be had with. Nobody is asked.

use crate::check::{CertFinding, warning};
use crate::files::LoadedCertificate;
use std::path::Path;
use tidegate_model::Tls;
use tidegate_ocsp::CertificateId;

pub(crate) fn check_staple(file: &Path, certificate: &LoadedCertificate, tls: &Tls, findings: &mut Vec<CertFinding>) {
    let Some(facts) = certificate.facts.ocsp.as_deref() else { return };
    let file_name = file.display();
    if facts.must_staple && !tls.ocsp_stapling {
        findings.push(warning(
            file,
            format!("the certificate in {file_name} is one that clients refuse without a stapled OCSP answer, and `ocsp-stapling` is off"),
            Some("take `ocsp-stapling #false` out, or have the certificate issued without \"must-staple\""),
        ));
    } else if facts.must_staple && facts.responder.is_none() {
        findings.push(warning(
            file,
            format!("the certificate in {file_name} is one that clients refuse without a stapled OCSP answer, and it names no responder"),
            Some("have it issued without \"must-staple\""),
        ));
    } else if facts.responder.is_some() && tls.ocsp_stapling && !names_its_issuer(certificate) {
        findings.push(warning(
            file,
            format!("{file_name} does not have the certificate of the issuer, so nothing can be stapled to the first one in it"),
            Some("put the issuer's certificate behind it; `ocsp-stapling #false` in `tls` if this is meant"),
        ));
    }
}

fn names_its_issuer(certificate: &LoadedCertificate) -> bool {
    match &certificate.certified_key.cert[..] {
        [leaf, issuer, ..] => CertificateId::of(leaf, issuer).is_some(),
        _ => false,
    }
}
