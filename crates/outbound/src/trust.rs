//! Whom to believe that they are who they say: the system's roots, or those of one file, which is read anew when it
//! changed. There is no switch to verify nothing; a server with its own CA is trusted by that CA's file.

use crate::fault::OutboundFault;
use crate::named::NamedCertificates;
use crate::stamp::Stamp;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tidegate_transport::tls_fault::{certificate_words, tls_words};

/// All roots of a system take half a MiB.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// As messages name a text that is no file.
const OF_TEXT: &str = "the text that was given";

/// Whose certificates are taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The system's; Mozilla's list as of this release when the system has none.
    System,
    /// The authorities in this PEM file, and no others.
    File(PathBuf),
    /// The authorities in this PEM text, and no others.
    Held(Arc<[u8]>),
}

pub struct Roots {
    source: Source,
    identity: Option<ClientIdentity>,
}

enum Source {
    System(OnceLock<Arc<ClientConfig>>),
    File { path: PathBuf, known: Arc<Mutex<KnownRoots>> },
    Held(Arc<ClientConfig>),
}

/// A file as it was read last.
struct KnownRoots {
    stamp: Stamp,
    config: Arc<ClientConfig>,
}

impl Roots {
    pub fn new(trust: Trust, identity: Option<ClientIdentity>) -> Result<Roots, OutboundFault> {
        let source = match trust {
            Trust::System => Source::System(OnceLock::new()),
            Trust::File(path) => {
                let known = read(&path, identity.as_ref())?;
                Source::File { path, known: Arc::new(Mutex::new(known)) }
            }
            Trust::Held(text) => {
                let of_text = |problem: String| unusable(Path::new(OF_TEXT), problem);
                Source::Held(of_authorities(&text, identity.as_ref()).map_err(of_text)?)
            }
        };
        Ok(Roots { source, identity })
    }

    /// For the next connection. Files are looked at in a thread that may wait for a disk.
    pub async fn client_config(&self) -> Result<Arc<ClientConfig>, OutboundFault> {
        match &self.source {
            Source::System(config) => match config.get() {
                Some(config) => Ok(config.clone()),
                None => {
                    let roots = blocking(|| Ok(trusted_roots()), Path::new("")).await?;
                    let built = build(roots, Vec::new(), self.identity.as_ref());
                    let built = built.map_err(|problem| unusable(Path::new("the system"), problem))?;
                    Ok(config.get_or_init(|| built).clone())
                }
            },
            Source::File { path, known } => {
                let (path_inside, known, identity) = (path.clone(), known.clone(), self.identity.clone());
                blocking(move || current(&path_inside, &known, identity.as_ref()), path).await
            }
            Source::Held(config) => Ok(config.clone()),
        }
    }

    /// For faults: `the system's roots`.
    pub fn source(&self) -> String {
        match &self.source {
            Source::System(_) => "the system's roots".to_owned(),
            Source::File { path, .. } => format!("the roots in {}", path.display()),
            Source::Held(_) => format!("the roots in {OF_TEXT}"),
        }
    }
}

/// Who we say that we are, to servers that ask their clients for a certificate.
#[derive(Clone)]
pub struct ClientIdentity {
    /// Leaf first.
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl ClientIdentity {
    /// A chain and its key, both in PEM. `Err` is a sentence without its subject.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<ClientIdentity, String> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = certificates.map_err(|error| format!("has a certificate that cannot be read: {error}"))?;
        if chain.is_empty() {
            return Err("holds no `-----BEGIN CERTIFICATE-----` block".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("has a key that cannot be read: {error}"))?;
        let identity = ClientIdentity { chain, key: Arc::new(key) };
        // What does not fit together is known now, and not at the first handshake.
        build(Arc::new(mozilla_roots()), Vec::new(), Some(&identity)).map_err(|problem| format!("cannot be used: {problem}"))?;
        Ok(identity)
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

fn current(
    path: &Path,
    known: &Mutex<KnownRoots>,
    identity: Option<&ClientIdentity>,
) -> Result<Arc<ClientConfig>, OutboundFault> {
    let now = std::fs::metadata(path).map(|metadata| Stamp::of(&metadata)).map_err(|error| unusable(path, error.to_string()))?;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.stamp != now {
        *known = read(path, identity)?;
    }
    Ok(known.config.clone())
}

fn read(path: &Path, identity: Option<&ClientIdentity>) -> Result<KnownRoots, OutboundFault> {
    let fault = |problem: String| unusable(path, problem);
    let file = File::open(path).map_err(|error| fault(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| fault(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| fault(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(fault(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    let config = of_authorities(&bytes, identity).map_err(fault)?;
    Ok(KnownRoots { stamp: Stamp::of(&metadata), config })
}

/// The authorities of a PEM text and no others. `Err` is a sentence about the text.
fn of_authorities(text: &[u8], identity: Option<&ClientIdentity>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for (index, certificate) in CertificateDer::pem_slice_iter(text).enumerate() {
        let added = certificate.map_err(|error| error.to_string()).and_then(|certificate| {
            certificates.push(certificate.clone());
            roots.add(certificate).map_err(|error| tls_words(&error))
        });
        added.map_err(|problem| format!("certificate number {} cannot be used: {problem}", index + 1))?;
    }
    if roots.is_empty() {
        return Err("it holds no `-----BEGIN CERTIFICATE-----` block".to_owned());
    }
    build(Arc::new(roots), certificates, identity)
}

fn unusable(path: &Path, problem: String) -> OutboundFault {
    OutboundFault::Roots { file: path.to_owned(), problem }
}

fn build(
    roots: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
    identity: Option<&ClientIdentity>,
) -> Result<Arc<ClientConfig>, String> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())).clone();
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier = NamedCertificates::new(roots, certificates, provider).map_err(|error| error.to_string())?;
    // `dangerous` because a verifier is given at all; what is not named in the file is verified by the library's own.
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity {
        Some(ClientIdentity { chain, key }) => {
            builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(|error| tls_words(&error))?
        }
        None => builder.with_no_client_auth(),
    };
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
