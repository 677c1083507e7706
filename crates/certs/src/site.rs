//! The certificates of one site, as rustls asks for them in each handshake: ECDSA and RSA side by side, replaced while
//! running. Which site answers is decided before, in `listener.rs`; here it is only which of its certificates the
//! client can use.

use crate::error::CertError;
use crate::files::LoadedCertificate;
use crate::internal_ca::InternalCa;
use crate::lookup::CertificateSet;
use crate::names::{certificate_names, machine_name};
use crate::obtained::ObtainedCertificates;
use crate::process_state::TlsProcessState;
use crate::stamp::Stamps;
use crate::staple::Staples;
use crate::{CertificateFacts, CertificateName};
use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_model::{Certificate, Pem, Site, TlsSource};
use tidegate_parallel::in_parallel;

/// What is served of pairs of files while the configuration changes around them.
pub type ServedFiles = HashMap<Certificate, LoadedCertificate>;

/// One site's certificates, read by every handshake without a lock.
pub struct SiteCertificates {
    source: Source,
    current: ArcSwap<CertificateSet>,
    /// `None` with `ocsp-stapling #false`.
    staples: Option<Arc<Staples>>,
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
    Files {
        files: Vec<Certificate>,
        read: Mutex<ReadFiles>,
    },
    Internal {
        ca: Arc<InternalCa>,
        names: Vec<CertificateName>,
    },
    /// Certificates that were obtained, by the name in the handshake. For names without one, that of the internal CA,
    /// made when the first client needs it.
    Obtained {
        obtained: Arc<ObtainedCertificates>,
        ca: Arc<InternalCa>,
        names: Vec<CertificateName>,
    },
}

struct ReadFiles {
    /// As they were when all of them were read last.
    stamps: Stamps,
    /// What is served of each, in the order of the files.
    loaded: Vec<LoadedCertificate>,
}

/// What came of looking at a site's certificates once more.
#[derive(Debug)]
pub struct Renewed {
    pub renewal: Renewal,
    /// Of those that stay as they were, since what is there now does not fit or has ended.
    pub errors: Vec<CertError>,
}

impl SiteCertificates {
    /// Reads the site's files, or has the internal CA issue for its names. `Ok(None)` when the site has no TLS.
    ///
    /// All faults are reported, not only the first. Of pairs that `served` has, one that is good is kept where the
    /// files hold one that is not.
    pub fn load(
        site: &Site,
        state: &TlsProcessState,
        served: &ServedFiles,
        now: Timestamp,
    ) -> Result<Option<Arc<SiteCertificates>>, Vec<CertError>> {
        let staples = site.tls.ocsp_stapling.then(|| state.staples.clone());
        match &site.tls.source {
            TlsSource::Off | TlsSource::Reject => Ok(None),
            TlsSource::Files(files) => Self::from_files(files, staples, served, now).map(Some),
            TlsSource::Automatic | TlsSource::Internal => {
                let names = certificate_names(&site.addresses, machine_name().as_deref());
                if names.is_empty() {
                    return Ok(None);
                }
                let ca = state.internal_ca(now).map_err(|error| vec![error])?;
                if site.tls.source == TlsSource::Automatic {
                    let source = Source::Obtained { obtained: state.obtained.clone(), ca, names };
                    return Ok(Some(Arc::new(SiteCertificates {
                        source,
                        current: ArcSwap::from_pointee(CertificateSet::new(Vec::new())),
                        staples,
                    })));
                }
                Self::from_internal_ca(ca, names, now).map(Some).map_err(|error| vec![error])
            }
        }
    }

    /// With `staples`, those that name a responder get what it says of them.
    pub fn from_files(
        files: &[Certificate],
        staples: Option<Arc<Staples>>,
        served: &ServedFiles,
        now: Timestamp,
    ) -> Result<Arc<SiteCertificates>, Vec<CertError>> {
        let mut stamps = stamps(files);
        let mut loaded = load_all(files, staples.as_deref())?;
        for (file, found) in files.iter().zip(&mut loaded) {
            let Some(held) = served.get(file) else { continue };
            if let Err(error) = is_still_or_newly_good(file, held, found, now) {
                let (error, help) = (error.message(), error.help());
                tracing::error!(error, help, "a certificate was not taken; the one before stays in use");
                // Whoever looks at the files next reads them again.
                stamps = Stamps::default();
                *found = with_staple(LoadedCertificate { staple: None, ..held.clone() }, staples.as_deref());
            }
        }
        let current = CertificateSet::new(loaded.clone());
        Ok(Arc::new(SiteCertificates {
            source: Source::Files { files: files.to_vec(), read: Mutex::new(ReadFiles { stamps, loaded }) },
            current: ArcSwap::from_pointee(current),
            staples,
        }))
    }

    pub fn from_internal_ca(
        ca: Arc<InternalCa>,
        names: Vec<CertificateName>,
        now: Timestamp,
    ) -> Result<Arc<SiteCertificates>, CertError> {
        let current = ArcSwap::from_pointee(CertificateSet::new(vec![ca.certificate_for(&names, now)?]));
        Ok(Arc::new(SiteCertificates { source: Source::Internal { ca, names }, current, staples: None }))
    }

    /// What is served of each pair of files; nothing for what comes from elsewhere.
    pub fn served_files(&self) -> Vec<(Certificate, LoadedCertificate)> {
        match &self.source {
            Source::Files { files, read } => {
                let read = read.lock().unwrap_or_else(PoisonError::into_inner);
                files.iter().cloned().zip(read.loaded.iter().cloned()).collect()
            }
            Source::Internal { .. } | Source::Obtained { .. } => Vec::new(),
        }
    }

    /// Whether responders are asked about them, where they name one.
    pub fn are_stapled(&self) -> bool {
        self.staples.is_some()
    }

    /// Most preferred first.
    pub fn current(&self) -> Arc<CertificateSet> {
        self.current.load_full()
    }

    /// Takes over files that were renewed on disk, and re-issues from the internal CA what has less than a third of its
    /// life left. To be called now and then (daily is enough) by the control thread, since it reads files.
    ///
    /// Each file is for itself: half a renewal, a new chain whose key is not there yet, changes nothing of it, and
    /// holds up no other.
    pub fn renew_if_due(&self, now: Timestamp) -> Renewed {
        match &self.source {
            Source::Files { files, read } => {
                let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
                self.renew_files(files, &mut read, now)
            }
            // Nobody has needed it so far.
            Source::Obtained { .. } if self.current().all().is_empty() => {
                Renewed { renewal: Renewal::NotDue, errors: Vec::new() }
            }
            Source::Internal { ca, names } | Source::Obtained { ca, names, .. } => match ca.certificate_for(names, now) {
                Ok(issued) if self.current().all().iter().any(|held| held.certified_key.cert == issued.certified_key.cert) => {
                    Renewed { renewal: Renewal::NotDue, errors: Vec::new() }
                }
                Ok(issued) => Renewed { renewal: self.replace(vec![issued], now), errors: Vec::new() },
                Err(error) => Renewed { renewal: Renewal::NotDue, errors: vec![error] },
            },
        }
    }

    fn renew_files(&self, files: &[Certificate], read: &mut ReadFiles, now: Timestamp) -> Renewed {
        let stamps = stamps(files);
        if stamps.are_of_what_was_read_at(&read.stamps) {
            return Renewed { renewal: Renewal::NotDue, errors: Vec::new() };
        }
        let (mut errors, mut is_changed) = (Vec::new(), false);
        let outcomes = load_each(files, self.staples.as_deref());
        for ((file, outcome), held) in files.iter().zip(outcomes).zip(&mut read.loaded) {
            let checked = outcome.and_then(|found| is_still_or_newly_good(file, held, &found, now).map(|()| found));
            match checked {
                Err(error) => errors.push(error),
                Ok(found) if found.certified_key.cert == held.certified_key.cert => {}
                Ok(found) => {
                    *held = found;
                    is_changed = true;
                }
            }
        }
        if errors.is_empty() {
            read.stamps = stamps;
        }
        let renewal = if is_changed { self.replace(read.loaded.clone(), now) } else { Renewal::NotDue };
        Renewed { renewal, errors }
    }

    fn replace(&self, certificates: Vec<LoadedCertificate>, now: Timestamp) -> Renewal {
        let not_after = certificates.iter().map(|loaded| loaded.facts.not_after).min().unwrap_or(now);
        self.current.store(Arc::new(CertificateSet::new(certificates)));
        Renewal::Replaced { not_after }
    }
}

impl SiteCertificates {
    /// The certificate of the internal CA, until a public one is there.
    fn stand_in(&self, ca: &InternalCa, names: &[CertificateName]) -> Option<Arc<CertifiedKey>> {
        if let Some(first) = self.current.load().all().first() {
            return Some(first.certified_key.clone());
        }
        let issued = ca.certificate_for(names, Timestamp::now());
        let issued = issued.inspect_err(|error| tracing::error!(%error, "the internal CA cannot issue")).ok()?;
        let certified_key = issued.certified_key.clone();
        self.current.store(Arc::new(CertificateSet::new(vec![issued])));
        Some(certified_key)
    }
}

impl ResolvesServerCert for SiteCertificates {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Source::Obtained { obtained, ca, names } = &self.source {
            let is_stapled = self.staples.is_some();
            let found = match client_hello.server_name() {
                Some(name) => obtained.find(name, is_stapled),
                None => obtained.find_first(names, is_stapled),
            };
            return found.or_else(|| self.stand_in(ca, names));
        }
        self.current.load().choose(client_hello.server_name(), client_hello.signature_schemes())
    }
}

impl fmt::Debug for SiteCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.current().all().iter().map(|loaded| &loaded.facts)).finish()
    }
}

/// Taken before the files are read, see there.
fn stamps(files: &[Certificate]) -> Stamps {
    Stamps::of(files.iter().flat_map(|file| std::iter::once(&file.cert).chain(&file.key)).filter_map(Pem::file))
}

/// Whoever puts an old one in the place of a good one does not mean it; at a start there would be no other.
fn is_still_or_newly_good(
    file: &Certificate,
    held: &LoadedCertificate,
    found: &LoadedCertificate,
    now: Timestamp,
) -> Result<(), CertError> {
    let CertificateFacts { not_before, not_after, .. } = *found.facts;
    let is_held_good = held.facts.not_before <= now && now < held.facts.not_after;
    if is_held_good && not_after <= now {
        return Err(CertError::Expired { file: file.cert.name().to_owned(), not_after });
    }
    if is_held_good && now < not_before {
        return Err(CertError::NotYetValid { file: file.cert.name().to_owned(), not_before });
    }
    Ok(())
}

/// All of them, or what is wrong with each that is not usable.
fn load_all(files: &[Certificate], staples: Option<&Staples>) -> Result<Vec<LoadedCertificate>, Vec<CertError>> {
    let (mut loaded, mut errors) = (Vec::with_capacity(files.len()), Vec::new());
    for outcome in load_each(files, staples) {
        match outcome {
            Ok(certificate) => loaded.push(certificate),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(loaded) } else { Err(errors) }
}

/// In the order of the files.
fn load_each(files: &[Certificate], staples: Option<&Staples>) -> Vec<Result<LoadedCertificate, CertError>> {
    in_parallel(files, |file: &Certificate| Ok(with_staple(LoadedCertificate::load(file)?, staples)))
}

fn with_staple(certificate: LoadedCertificate, staples: Option<&Staples>) -> LoadedCertificate {
    match staples {
        Some(staples) => staples.attach(certificate),
        None => certificate,
    }
}
