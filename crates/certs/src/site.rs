//! The certificates of one site, as rustls asks for them in each handshake: ECDSA and RSA side by side, replaced while running.
//! Which site answers is decided before, in `listener.rs`; here it is only which of its certificates the client can use.

use crate::error::CertError;
use crate::files::LoadedCertificate;
use crate::internal_ca::InternalCa;
use crate::names::{certificate_names, machine_name};
use crate::survivors::TlsSurvivors;
use crate::{CertificateName, facts::KeyAlgorithm};
use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tidegate_model::{Certificate, Site, TlsSource};

/// One site's certificates. Cheap to read from every handshake: a read lock beside the 70 µs of a signature.
pub struct SiteCertificates {
    source: Source,
    current: RwLock<Arc<[LoadedCertificate]>>,
}

/// What [`SiteCertificates::renew_if_due`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    NotDue,
    /// New handshakes get the new certificate; it lasts until then.
    Replaced {
        not_after: Timestamp,
    },
}

enum Source {
    Files(Vec<Certificate>),
    Internal { ca: Arc<InternalCa>, names: Vec<CertificateName> },
}

impl SiteCertificates {
    /// Reads the site's files, or has the internal CA issue for its names. `Ok(None)` when the site has no TLS.
    ///
    /// All faults are reported, not only the first.
    pub fn load(site: &Site, survivors: &TlsSurvivors, now: Timestamp) -> Result<Option<Arc<SiteCertificates>>, Vec<CertError>> {
        match &site.tls.source {
            TlsSource::Off => Ok(None),
            TlsSource::Files(files) => Self::from_files(files).map(Some),
            TlsSource::Automatic | TlsSource::Internal => {
                let names = certificate_names(&site.addresses, machine_name().as_deref());
                if names.is_empty() {
                    return Ok(None);
                }
                let ca = survivors.internal_ca(now).map_err(|error| vec![error])?;
                Self::from_internal_ca(ca, names, now).map(Some).map_err(|error| vec![error])
            }
        }
    }

    pub fn from_files(files: &[Certificate]) -> Result<Arc<SiteCertificates>, Vec<CertError>> {
        let current = load_files(files)?;
        Ok(Arc::new(SiteCertificates { source: Source::Files(files.to_vec()), current: RwLock::new(current) }))
    }

    pub fn from_internal_ca(
        ca: Arc<InternalCa>,
        names: Vec<CertificateName>,
        now: Timestamp,
    ) -> Result<Arc<SiteCertificates>, CertError> {
        let current = RwLock::new(Arc::from([ca.certificate_for(&names, now)?]));
        Ok(Arc::new(SiteCertificates { source: Source::Internal { ca, names }, current }))
    }

    /// Most preferred first.
    pub fn current(&self) -> Arc<[LoadedCertificate]> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over files that were renewed on disk, and re-issues from the internal CA what has less than a third of its life left.
    /// To be called now and then (daily is enough) by the control thread, since it reads files.
    ///
    /// After an error the certificates in use stay: half a renewal, a new chain whose key is not there yet, changes nothing.
    pub fn renew_if_due(&self, now: Timestamp) -> Result<Renewal, Vec<CertError>> {
        let renewed: Arc<[LoadedCertificate]> = match &self.source {
            Source::Files(files) => load_files(files)?,
            Source::Internal { ca, names } => Arc::from([ca.certificate_for(names, now).map_err(|error| vec![error])?]),
        };
        let current = self.current();
        let unchanged = current.len() == renewed.len()
            && current.iter().zip(renewed.iter()).all(|(old, new)| old.certified_key.cert == new.certified_key.cert);
        if unchanged {
            return Ok(Renewal::NotDue);
        }
        let not_after = renewed.iter().map(|loaded| loaded.facts.not_after).min().unwrap_or(now);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        Ok(Renewal::Replaced { not_after })
    }
}

impl ResolvesServerCert for SiteCertificates {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let usable =
            |loaded: &&LoadedCertificate| loaded.certified_key.key.choose_scheme(client_hello.signature_schemes()).is_some();
        // With one certificate there is nothing to choose, and rustls has the better alert when the client cannot use it.
        let chosen = if let [only] = &current[..] {
            only
        } else {
            let covering = client_hello
                .server_name()
                .and_then(|name| current.iter().filter(|loaded| loaded.facts.covers_name(name)).find(usable));
            covering.or_else(|| current.iter().find(usable)).or(current.first())?
        };
        Some(chosen.certified_key.clone())
    }
}

impl fmt::Debug for SiteCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.current().iter().map(|loaded| &loaded.facts)).finish()
    }
}

fn load_files(files: &[Certificate]) -> Result<Arc<[LoadedCertificate]>, Vec<CertError>> {
    let mut loaded = Vec::with_capacity(files.len());
    let mut errors = Vec::new();
    for file in files {
        match LoadedCertificate::load(file) {
            Ok(certificate) => loaded.push(certificate),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    // Stable, so among equals the file's order counts.
    loaded.sort_by_key(|certificate| match certificate.facts.key_algorithm {
        KeyAlgorithm::Rsa { .. } => KeyAlgorithm::Rsa { bits: 0 },
        other => other,
    });
    Ok(Arc::from(loaded))
}
