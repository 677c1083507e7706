//! Who would trust a chain: the verdict of a set of roots on certificates that somebody else showed. For `tidegate cert
//! check`; connections of the proxy decide in `upstream.rs`, by rustls's own verifier.

use crate::error::CertError;
use crate::facts::CertificateFacts;
use crate::files::chain_of;
use crate::provider::provider;
use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::{CertificateError, Error, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_model::Pem;
use tidegate_transport::tls_fault::{certificate_words, tls_words};

pub use tidegate_outbound::{mozilla_roots, system_roots};

/// Why roots do not stand behind a chain. Names and dates are no part of it: those are the certificate's own faults,
/// whoever signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distrust {
    /// No root of these signed it, or a certificate between is missing.
    UnknownIssuer,
    /// What else is wrong, in words.
    Other(String),
}

pub fn roots_of_file(file: &Path) -> Result<RootCertStore, CertError> {
    roots_of(&Pem::File(file.to_owned()))
}

/// The authorities that are there; at least one.
pub fn roots_of(pem: &Pem) -> Result<RootCertStore, CertError> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in chain_of(pem)?.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| CertError::Certificate {
            file: pem.name().to_owned(),
            position: index + 1,
            problem: tls_words(&error),
        })?;
    }
    Ok(roots)
}

/// The verdict of these roots on this chain, leaf first, at a time at which the leaf holds.
pub fn verdict(roots: &Arc<RootCertStore>, chain: &[CertificateDer<'_>], now: Timestamp) -> Result<(), Distrust> {
    let other = |problem: String| Err(Distrust::Other(problem));
    let Some((leaf, intermediates)) = chain.split_first() else { return other("there is no certificate".to_owned()) };
    let facts = match CertificateFacts::read(chain) {
        Ok(facts) => facts,
        Err((index, problem)) => return other(format!("number {} of the chain: {problem}", index + 1)),
    };
    // Which the verifier takes for a fault of ours.
    if roots.is_empty() {
        return Err(Distrust::UnknownIssuer);
    }
    let verifier = match WebPkiServerVerifier::builder_with_provider(roots.clone(), provider()).build() {
        Ok(verifier) => verifier,
        Err(error) => return other(error.to_string()),
    };
    let second_last = facts.not_after - jiff::SignedDuration::from_secs(1);
    let at = now.min(second_last).max(facts.not_before);
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at.as_second().max(0) as u64));
    // Any name: one that does not fit is found out after the chain was.
    let name = ServerName::try_from("name.invalid").map_err(|_| Distrust::Other("no name".to_owned()))?;
    match verifier.verify_server_cert(leaf, intermediates, &name, &[], at) {
        Ok(_) => Ok(()),
        Err(Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) => {
            Ok(())
        }
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => Err(Distrust::UnknownIssuer),
        Err(Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })) => {
            other("a certificate between it and the root has expired".to_owned())
        }
        Err(Error::InvalidCertificate(fault)) => other(certificate_words(&fault)),
        Err(error) => other(tls_words(&error)),
    }
}
