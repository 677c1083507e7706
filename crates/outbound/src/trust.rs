//! Whom to believe that they are who they say: the system's roots, or those of one file, which is read anew when it
//! changed. There is no switch to verify nothing; a server with its own CA is trusted by that CA's file.

use crate::fault::OutboundFault;
use crate::named::NamedCertificates;
use crate::stamp::Stamp;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tidegate_transport::tls_fault::{certificate_words, tls_words};

/// All roots of a system take half a MiB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Whose certificates are taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The system's; Mozilla's list as of this release when the system has none.
    System,
    /// The authorities in this PEM file, and no others.
    File(PathBuf),
}

pub struct Roots(Source);

enum Source {
    System(OnceLock<Arc<ClientConfig>>),
    File { path: PathBuf, known: Arc<Mutex<KnownRoots>> },
}

/// A file as it was read last.
struct KnownRoots {
    stamp: Stamp,
    config: Arc<ClientConfig>,
}

impl Roots {
    pub fn new(trust: Trust) -> Result<Roots, OutboundFault> {
        Ok(Roots(match trust {
            Trust::System => Source::System(OnceLock::new()),
            Trust::File(path) => {
                let known = read(&path)?;
                Source::File { path, known: Arc::new(Mutex::new(known)) }
            }
        }))
    }

    /// For the next connection. Files are looked at in a thread that may wait for a disk.
    pub async fn client_config(&self) -> Result<Arc<ClientConfig>, OutboundFault> {
        match &self.0 {
            Source::System(config) => match config.get() {
                Some(config) => Ok(config.clone()),
                None => {
                    let roots = blocking(|| Ok(trusted_roots()), Path::new("")).await?;
                    let built = build(roots, Vec::new()).map_err(|problem| unusable(Path::new("the system"), problem))?;
                    Ok(config.get_or_init(|| built).clone())
                }
            },
            Source::File { path, known } => {
                let (path_inside, known) = (path.clone(), known.clone());
                blocking(move || current(&path_inside, &known), path).await
            }
        }
    }

    /// For faults: `the system's roots`.
    pub fn source(&self) -> String {
        match &self.0 {
            Source::System(_) => "the system's roots".to_owned(),
            Source::File { path, .. } => format!("the roots in {}", path.display()),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OutboundFault> + Send + 'static,
    path: &Path,
) -> Result<T, OutboundFault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(unusable(path, "reading them was broken off".to_owned())),
    }
}

fn current(path: &Path, known: &Mutex<KnownRoots>) -> Result<Arc<ClientConfig>, OutboundFault> {
    let now = std::fs::metadata(path).map(|metadata| Stamp::of(&metadata)).map_err(|error| unusable(path, error.to_string()))?;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.stamp != now {
        *known = read(path)?;
    }
    Ok(known.config.clone())
}

fn read(path: &Path) -> Result<KnownRoots, OutboundFault> {
    let fault = |problem: String| unusable(path, problem);
    let file = File::open(path).map_err(|error| fault(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| fault(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| fault(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(fault(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for (index, certificate) in CertificateDer::pem_slice_iter(&bytes).enumerate() {
        let added = certificate.map_err(|error| error.to_string()).and_then(|certificate| {
            certificates.push(certificate.clone());
            roots.add(certificate).map_err(|error| tls_words(&error))
        });
        added.map_err(|problem| fault(format!("certificate number {} cannot be used: {problem}", index + 1)))?;
    }
    if roots.is_empty() {
        return Err(fault("it holds no `-----BEGIN CERTIFICATE-----` block".to_owned()));
    }
    let config = build(Arc::new(roots), certificates).map_err(fault)?;
    Ok(KnownRoots { stamp: Stamp::of(&metadata), config })
}

fn unusable(path: &Path, problem: String) -> OutboundFault {
    OutboundFault::Roots { file: path.to_owned(), problem }
}

fn build(roots: Arc<RootCertStore>, certificates: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, String> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())).clone();
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier = NamedCertificates::new(roots, certificates, provider).map_err(|error| error.to_string())?;
    // `dangerous` because a verifier is given at all; what is not named in the file is verified by the library's own.
    let mut config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The system's roots, read once; Mozilla's list when there are none, as in an image built FROM scratch.
pub fn trusted_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let load = || {
        let roots = system_roots().unwrap_or_else(|error| {
            tracing::warn!(
                error,
                "the system has no trusted roots; upstreams, CAs and APIs are verified against Mozilla's list as of this release"
            );
            mozilla_roots()
        });
        Arc::new(roots)
    };
    ROOTS.get_or_init(load).clone()
}

/// The system's roots, or why there are none. Every system's list holds a few that no longer follow the rules; they are
/// left out, as everywhere.
pub fn system_roots() -> Result<RootCertStore, String> {
    let native = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(native.certs);
    if taken == 0 {
        return Err(native.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string));
    }
    Ok(roots)
}

/// Mozilla's, as of this release.
pub fn mozilla_roots() -> RootCertStore {
    webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()
}

/// Why a certificate is not taken, for people.
pub fn certificate_problem(error: &CertificateError, source: String) -> String {
    match error {
        CertificateError::UnknownIssuer => format!("none of {source} stands behind it"),
        other => certificate_words(other),
    }
}
