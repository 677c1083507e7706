//! Whom a site believes to be its clients: the authorities of its bundle and their revocation lists, read from files
//! and made into a verifier. Revocation is strict: of every certificate in a chain it has to be known, by a list that
//! is not out of date.

use crate::client_judge::{ClientJudge, TakesAny};
use crate::error::{CertError, Contents};
use crate::facts;
use crate::files::{read, sections_of};
use crate::provider::provider;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::{PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tidegate_model::{ClientAuth, ClientAuthMode, Pem};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::x509::X509Version;

/// Names of authorities are told to clients, so that browsers know which certificate to offer. Beyond this they would
/// fill the flight of the handshake.
pub const HINT_BYTES_MAX: usize = 8 << 10;

/// Revocation lists of large authorities are megabytes; beyond this something else was named.
pub const CRL_BYTES_MAX: u64 = 64 << 20;

/// The files of a `client-auth` as they are now.
pub struct ClientTrust {
    /// Of all that decides who is let in; sessions that began under another one are not resumed.
    pub digest: [u8; 32],
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// Where the handshake takes any certificate: who says whether it is good.
    pub judge: Option<ClientJudge>,
    /// When the first of the lists has to have a successor; nobody is let in without it.
    pub lists_until: Option<Timestamp>,
}

impl ClientTrust {
    /// What is wrong with what they name, if something is; a list that is out of date is not.
    pub fn fault(settings: &ClientAuth) -> Option<CertError> {
        ClientTrust::load(settings, Timestamp::UNIX_EPOCH).err().and_then(|errors| errors.into_iter().next())
    }

    /// Reads the files. Every fault is reported, not only the first.
    pub fn load(settings: &ClientAuth, now: Timestamp) -> Result<ClientTrust, Vec<CertError>> {
        let mut errors = Vec::new();
        let mut digest = Digest::new(settings.mode);
        let mut roots = RootCertStore::empty();
        for file in &settings.ca {
            match authorities(file) {
                Ok(found) => {
                    for (position, authority) in found.into_iter().enumerate() {
                        digest.update(0, &authority);
                        if let Err(error) = roots.add(authority) {
                            let problem = error.to_string();
                            errors.push(CertError::Certificate { file: file.name().to_owned(), position: position + 1, problem });
                        }
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        let mut lists = Vec::new();
        for file in &settings.crls {
            match revocation_lists(file) {
                Ok(found) => {
                    for list in &found {
                        digest.update(1, list);
                    }
                    lists.extend(found);
                }
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let lists_until = lists.iter().filter_map(|list| next_update(&parse_list(list).ok()?)).min();
        if lists_until.is_some_and(|until| until <= now) {
            // From then on nobody is let in, and nobody who was goes on.
            digest.update(3, b"");
        }
        let verifies = |roots| verifier(settings.mode, roots, lists).map_err(|error| vec![error]);
        let (verifier, judge) = match settings.mode {
            ClientAuthMode::Require | ClientAuthMode::Request => (verifies(roots)?, None),
            ClientAuthMode::Unverified => {
                // Without an authority nobody is believed.
                let verifies = if roots.is_empty() { None } else { Some(verifies(roots)?) };
                (TakesAny::verifier(verifies.clone()), Some(ClientJudge::new(verifies)))
            }
        };
        Ok(ClientTrust { digest: digest.finish(), verifier, judge, lists_until })
    }
}

impl fmt::Debug for ClientTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTrust").field("digest", &self.digest).finish_non_exhaustive()
    }
}

fn verifier(
    mode: ClientAuthMode,
    roots: RootCertStore,
    lists: Vec<CertificateRevocationListDer<'static>>,
) -> Result<Arc<dyn ClientCertVerifier>, CertError> {
    let hint_bytes: usize = roots.subjects().iter().map(|subject| subject.as_ref().len()).sum();
    // A list that is out of date may lack what an attacker wants to be lacking: whoever can hold back its renewal could
    // go on with a stolen key.
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).with_crls(lists).enforce_revocation_expiration();
    if hint_bytes > HINT_BYTES_MAX {
        builder = builder.clear_root_hint_subjects();
    }
    match mode {
        ClientAuthMode::Require => {}
        ClientAuthMode::Request | ClientAuthMode::Unverified => builder = builder.allow_unauthenticated(),
    }
    builder.build().map_err(|error| CertError::Tls { problem: error.to_string() })
}

/// The certificates of a bundle; at least one, and each an authority's. One that is not could sign others all the same,
/// because what is trusted by being in the bundle is not asked whether it may.
pub(crate) fn authorities(file: &Pem) -> Result<Vec<CertificateDer<'static>>, CertError> {
    let (certificates, holds) = sections_of(file)?;
    if certificates.is_empty() {
        return Err(CertError::NoAuthority { file: file.name().to_owned(), holds });
    }
    for (index, certificate) in certificates.iter().enumerate() {
        let fault = |problem| CertError::Certificate { file: file.name().to_owned(), position: index + 1, problem };
        let parsed = facts::parse(certificate).map_err(fault)?;
        if !is_authority(&parsed) {
            return Err(CertError::NotAnAuthority {
                file: file.name().to_owned(),
                position: index + 1,
                subject: parsed.subject().to_string(),
            });
        }
    }
    Ok(certificates)
}

/// RFC 5280 section 4.2.1.9. Before version 3 there was no way to say it.
fn is_authority(certificate: &X509Certificate<'_>) -> bool {
    match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        _ => certificate.version() != X509Version::V3 && certificate.subject().as_raw() == certificate.issuer().as_raw(),
    }
}

/// The revocation lists of a file, PEM or DER; at least one.
pub(crate) fn revocation_lists(file: &Pem) -> Result<Vec<CertificateRevocationListDer<'static>>, CertError> {
    let bytes = read(file, CRL_BYTES_MAX)?;
    let lists = if bytes.first() == Some(&0x30) {
        vec![CertificateRevocationListDer::from(bytes.into_owned())]
    } else {
        lists_of_pem(file.name(), &bytes)?
    };
    for (index, list) in lists.iter().enumerate() {
        parse_list(list).map_err(|problem| CertError::RevocationList {
            file: file.name().to_owned(),
            position: index + 1,
            problem,
        })?;
    }
    Ok(lists)
}

fn lists_of_pem(file: &Path, pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, CertError> {
    let mut lists = Vec::new();
    let mut holds = Contents::Nothing;
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
        let (kind, der) = section.map_err(|error| CertError::pem(file, &error))?;
        match kind {
            SectionKind::Crl => lists.push(CertificateRevocationListDer::from(der)),
            SectionKind::Certificate => holds = Contents::Certificate,
            SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => holds = Contents::Key,
            _ => {}
        }
    }
    if lists.is_empty() { Err(CertError::NoRevocationList { file: file.to_owned(), holds }) } else { Ok(lists) }
}

pub(crate) fn parse_list(der: &[u8]) -> Result<CertificateRevocationList<'_>, String> {
    match CertificateRevocationList::from_der(der) {
        // RFC 5280 section 5.1.2.1 wants version 2, and who verifies with lists knows no other.
        Ok(([], list)) if list.version().is_none_or(|version| version.0 == 0) => {
            Err("it is a list of version 1; have it written with the extension `crlNumber` (`crl_extensions` and `crlnumber` of OpenSSL)".into())
        }
        Ok(([], list)) => Ok(list),
        Ok(_) => Err("bytes follow after its end".into()),
        Err(error) => Err(format!("it is not an X.509 revocation list ({error})")),
    }
}

/// When a list has to have a successor.
pub(crate) fn next_update(list: &CertificateRevocationList<'_>) -> Option<Timestamp> {
    list.next_update().map(|at| facts::timestamp(at.timestamp()))
}

/// Over what stands in the files, each piece with its kind and length, so that no two bundles are one.
struct Digest(aws_lc_rs::digest::Context);

impl Digest {
    fn new(mode: ClientAuthMode) -> Digest {
        let mut digest = Digest(aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256));
        digest.update(2, mode.as_str().as_bytes());
        digest
    }

    fn update(&mut self, kind: u8, piece: &[u8]) {
        self.0.update(&[kind]);
        self.0.update(&(piece.len() as u64).to_be_bytes());
        self.0.update(piece);
    }

    fn finish(self) -> [u8; 32] {
        self.0.finish().as_ref().try_into().expect("SHA-256 gives 32 bytes")
    }
}
