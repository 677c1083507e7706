//! A certificate chain and its key as they lie on disk or stand in the configuration: read, parsed, checked against
//! each other, ready to sign. Separate files and one combined PEM are both taken, with PKCS#8, SEC1 and PKCS#1 keys, as
//! certbot, cert-manager and OpenSSL write them.

use crate::error::{CertError, Contents};
use crate::facts::{CertificateFacts, Chain, KeyAlgorithm};
use crate::provider;
use crate::shared::share;
use crate::staple::StapleSlot;
use crate::unlike;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, retry_on_intr};
use rustls::crypto::aws_lc_rs::sign::any_ecdsa_type;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::pem::{PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use tidegate_model::{Certificate, Pem};

/// No chain comes near this, and a whole bundle of public roots is a fifth of it; a mistyped path to a disk image ends
/// here.
pub const PEM_BYTES_MAX: u64 = 1 << 20;
/// Most files with a chain and a key fit, and are read at once instead of in steps of 32 bytes, 64 bytes, …
const PEM_BYTES_USUAL: usize = 4 << 10;

/// A chain with its key, and what the leaf says of itself.
#[derive(Debug, Clone)]
pub struct LoadedCertificate {
    pub certified_key: Arc<CertifiedKey>,
    pub facts: Arc<CertificateFacts>,
    /// Of one whose responder is asked.
    pub staple: Option<Arc<StapleSlot>>,
}

impl LoadedCertificate {
    /// Reads and checks one pair. Errors name the file that has to change and what to do.
    pub fn load(certificate: &Certificate) -> Result<LoadedCertificate, CertError> {
        let cert = (certificate.cert.name(), &*read_pem(&certificate.cert)?);
        let Some(key) = &certificate.key else { return LoadedCertificate::from_pem(cert, None) };
        LoadedCertificate::from_pem(cert, Some((key.name(), &*read_pem(key)?)))
    }

    /// A certificate from bytes, with the names of the files that they came from; without a key, that is looked for
    /// beside the chain.
    pub fn from_pem(cert: (&Path, &[u8]), key: Option<(&Path, &[u8])>) -> Result<LoadedCertificate, CertError> {
        let (cert_file, cert_pem) = cert;
        let sections = Sections::parse(cert_file, cert_pem)?;
        if sections.certificates.is_empty() {
            return Err(CertError::NoCertificate { file: cert_file.to_owned(), holds: sections.contents });
        }
        let chain = Chain::parse(&sections.certificates).map_err(|(index, problem)| CertError::Certificate {
            file: cert_file.to_owned(),
            position: index + 1,
            problem,
        })?;
        let facts = CertificateFacts::of(&chain);
        let combined = key.is_none();
        let (key_file, found) = match key {
            None => (cert_file, (sections.key, sections.contents)),
            Some((key_file, key_pem)) => {
                let in_key_file = Sections::parse(key_file, key_pem)?;
                (key_file, (in_key_file.key, in_key_file.contents))
            }
        };
        let (Some(key_der), _) = found else {
            let key_pem = key.map_or(cert_pem, |(_, pem)| pem);
            return Err(no_key(key_file, key_pem, found.1, combined));
        };
        let kind = unlike::key_problem(&key_der);
        let key = load_key(key_der, facts.key_algorithm).map_err(|error| CertError::Key {
            file: key_file.to_owned(),
            problem: kind.unwrap_or_else(|| key_problem(&error)),
        })?;
        check_key(&*key, &chain, cert_file, key_file)?;
        drop(chain);
        let certified_key = Arc::new(CertifiedKey::new(share(sections.certificates), key));
        Ok(LoadedCertificate { certified_key, facts: Arc::new(facts), staple: None })
    }
}

impl LoadedCertificate {
    /// What a handshake is made with now, with a staple if there is one.
    pub fn served(&self) -> Arc<CertifiedKey> {
        match &self.staple {
            None => self.certified_key.clone(),
            Some(slot) => slot.served(),
        }
    }
}

/// The library tries each kind in turn, RSA first, and checks an ECDSA key twice on the way: a tenth of a start with
/// 50,000 of them.
fn load_key(key: PrivateKeyDer<'static>, of_certificate: KeyAlgorithm) -> Result<Arc<dyn SigningKey>, rustls::Error> {
    match of_certificate {
        KeyAlgorithm::EcdsaP256 | KeyAlgorithm::EcdsaP384 | KeyAlgorithm::EcdsaP521 => {
            if let Ok(key) = any_ecdsa_type(&key) {
                return Ok(key);
            }
        }
        KeyAlgorithm::Ed25519 | KeyAlgorithm::Rsa { .. } | KeyAlgorithm::Other => {}
    }
    provider::provider().key_provider.load_private_key(key)
}

/// One section of a PEM file (RFC 7468): lines of 64 characters.
pub fn to_pem(label: &str, der: &[u8]) -> String {
    const LINE: usize = 64;
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = &text[..];
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem + &format!("-----END {label}-----\n")
}

/// All certificates of a PEM file; at least one.
pub fn load_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, CertError> {
    chain_of(&Pem::File(file.to_owned()))
}

/// All certificates that are there; at least one.
pub(crate) fn chain_of(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, CertError> {
    let (certificates, holds) = sections_of(pem)?;
    if certificates.is_empty() {
        return Err(CertError::NoCertificate { file: pem.name().to_owned(), holds });
    }
    Ok(certificates)
}

/// The certificates that are there, and what to call it where there are none.
pub(crate) fn sections_of(pem: &Pem) -> Result<(Vec<CertificateDer<'static>>, Contents), CertError> {
    let sections = Sections::parse(pem.name(), &read_pem(pem)?)?;
    Ok((sections.certificates, sections.contents))
}

/// Somebody who puts a pipe in the place of a file must not hold up the control thread, so it is the opened file that
/// is looked at. `config` has the same for its own files, and neither crate may use the other.
pub(crate) fn open_regular(file: &Path) -> io::Result<File> {
    let not_regular = || io::Error::other("it is not a regular file");
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| open(file, flags, Mode::empty())).map_err(|error| match error {
        // What opening a socket gives.
        Errno::NXIO => not_regular(),
        other => other.into(),
    })?;
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::RegularFile => Ok(opened.into()),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(not_regular()),
    }
}

/// What is held, or the whole of a regular file; at most [`PEM_BYTES_MAX`].
pub(crate) fn read_pem(pem: &Pem) -> Result<Cow<'_, [u8]>, CertError> {
    read(pem, PEM_BYTES_MAX)
}

/// What is held, or the whole of a regular file; at most so many bytes.
pub(crate) fn read(pem: &Pem, bytes_max: u64) -> Result<Cow<'_, [u8]>, CertError> {
    match pem {
        Pem::File(path) => read_regular(path, bytes_max).map(Cow::Owned),
        Pem::Held(held) => Ok(Cow::Borrowed(held.reveal())),
    }
}

/// Reads a regular file of at most this many bytes.
pub(crate) fn read_regular(file: &Path, bytes_max: u64) -> Result<Vec<u8>, CertError> {
    let failed = |error| CertError::Read { file: file.to_owned(), error };
    let mut bytes = Vec::with_capacity(PEM_BYTES_USUAL);
    open_regular(file).map_err(failed)?.take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        return Err(CertError::TooLarge { file: file.to_owned(), bytes_max });
    }
    Ok(bytes)
}

struct Sections {
    certificates: Vec<CertificateDer<'static>>,
    /// The first one, when there are several.
    key: Option<PrivateKeyDer<'static>>,
    /// What to call the file when what is needed is not in it.
    contents: Contents,
}

impl Sections {
    fn parse(file: &Path, pem: &[u8]) -> Result<Sections, CertError> {
        let mut sections = Sections { certificates: Vec::new(), key: None, contents: Contents::Nothing };
        let pem = unlike::without_mark(pem);
        if holds_encrypted_key(pem) {
            sections.contents = Contents::EncryptedKey;
            // A key in the old encrypted form is not even base64; what precedes it may still be of use, and the message
            // is better.
        }
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
            let (kind, der) = match section {
                Ok(section) => section,
                Err(_) if sections.contents == Contents::EncryptedKey => break,
                Err(error) => return Err(CertError::pem(file, &error)),
            };
            let key: PrivateKeyDer<'static> = match kind {
                SectionKind::Certificate => {
                    sections.certificates.push(CertificateDer::from(der));
                    sections.note(Contents::Certificate);
                    continue;
                }
                SectionKind::PrivateKey => PrivatePkcs8KeyDer::from(der).into(),
                SectionKind::EcPrivateKey => PrivateSec1KeyDer::from(der).into(),
                SectionKind::RsaPrivateKey => PrivatePkcs1KeyDer::from(der).into(),
                SectionKind::Csr => {
                    sections.note(Contents::Request);
                    continue;
                }
                SectionKind::PublicKey => {
                    sections.note(Contents::PublicKey);
                    continue;
                }
                // Revocation lists, and kinds that a later library may know.
                _ => continue,
            };
            sections.note(Contents::Key);
            sections.key.get_or_insert(key);
        }
        if sections.contents == Contents::Nothing {
            sections.contents = unlike::contents_of(pem);
        }
        Ok(sections)
    }

    fn note(&mut self, contents: Contents) {
        if self.contents == Contents::Nothing {
            self.contents = contents;
        }
    }
}

/// `ENCRYPTED PRIVATE KEY` (PKCS#8) and `Proc-Type: 4,ENCRYPTED` (the older OpenSSL form).
fn holds_encrypted_key(pem: &[u8]) -> bool {
    // Most files do not have the word at all, and there may be tens of thousands of them.
    memmem::find(pem, b"ENCRYPTED").is_some()
        && pem
            .split(|byte| *byte == b'\n')
            .any(|line| line.starts_with(b"-----BEGIN ENCRYPTED PRIVATE KEY") || line.starts_with(b"Proc-Type: 4,ENCRYPTED"))
}

/// Says so where there is a key of a form that never fits.
fn no_key(file: &Path, pem: &[u8], holds: Contents, combined: bool) -> CertError {
    if unlike::is_dsa_key(pem) {
        return CertError::Key { file: file.to_owned(), problem: "it is a DSA key".into() };
    }
    CertError::NoKey { file: file.to_owned(), holds, combined }
}

fn key_problem(error: &rustls::Error) -> String {
    match error {
        rustls::Error::General(text) => text.clone(),
        other => other.to_string(),
    }
}

fn check_key(key: &dyn SigningKey, chain: &Chain<'_>, cert_file: &Path, key_file: &Path) -> Result<(), CertError> {
    // A key that does not tell its public half cannot be compared; the first handshake shows it.
    let Some(own) = key.public_key() else { return Ok(()) };
    match chain.position_of_key(&own) {
        Some(0) => Ok(()),
        Some(index) => Err(CertError::LeafNotFirst { file: cert_file.to_owned(), position: index + 1 }),
        None => Err(CertError::KeyMismatch { cert: cert_file.to_owned(), key: key_file.to_owned() }),
    }
}
