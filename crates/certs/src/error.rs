//! What can be wrong with a certificate, a key or the internal CA: which file, what is wrong in one sentence, and what
//! to do about it. Rendering with line and column is the configuration's work; `check.rs` turns these into findings for
//! it.

use jiff::Timestamp;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub enum CertError {
    /// The file cannot be read.
    Read { file: PathBuf, error: std::io::Error },
    /// The file cannot be written.
    Write { file: PathBuf, error: std::io::Error },
    /// The file is larger than any of its kind.
    TooLarge { file: PathBuf, bytes_max: u64 },
    /// The file is no PEM.
    Pem { file: PathBuf, problem: String },
    /// The file has another thing in it.
    NoCertificate { file: PathBuf, holds: Contents },
    /// In a bundle of authorities of clients.
    NoAuthority { file: PathBuf, holds: Contents },
    /// `position` counts from 1.
    NotAnAuthority { file: PathBuf, position: usize, subject: String },
    /// In a file of revocation lists.
    NoRevocationList { file: PathBuf, holds: Contents },
    /// `position` counts from 1.
    RevocationList { file: PathBuf, position: usize, problem: String },
    /// `combined` says that the key was looked for in the certificate's own file, because no other was named.
    NoKey { file: PathBuf, holds: Contents, combined: bool },
    /// `position` counts from 1.
    Certificate { file: PathBuf, position: usize, problem: String },
    /// The key is of no use.
    Key { file: PathBuf, problem: String },
    /// The key is that of another certificate.
    KeyMismatch { cert: PathBuf, key: PathBuf },
    /// The key belongs to a certificate further down; `position` counts from 1.
    LeafNotFirst { file: PathBuf, position: usize },
    /// The certificate has ended, and would take the place of one that is good.
    Expired { file: PathBuf, not_after: Timestamp },
    /// The certificate's life has not begun, and it would take the place of one that is good.
    NotYetValid { file: PathBuf, not_before: Timestamp },
    /// A file of the internal CA.
    InternalCa { file: PathBuf, problem: String, help: &'static str },
    /// Bytes that were found, one more than the most that is read.
    TicketKey { file: PathBuf, bytes: usize, allowed: [usize; 2] },
    /// Tickets say by its name which key they were made with.
    TicketKeyTwice { file: PathBuf },
    /// Neither a host name nor an IP address.
    ServerName { name: String },
    /// TLS settings that cannot work together, or randomness that the system refused.
    Tls { problem: String },
}

/// What a PEM file holds instead of what was looked for. Decides which remedy is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    Nothing,
    Der,
    Certificate,
    Key,
    EncryptedKey,
    Request,
    PublicKey,
    Pkcs7,
    Pkcs12,
    JavaKeyStore,
    OpenSshKey,
    /// OpenSSL's own form, with words about trust behind the certificate.
    TrustedCertificate,
    Utf16,
}

impl CertError {
    pub(crate) fn pem(file: &Path, error: &rustls_pki_types::pem::Error) -> CertError {
        CertError::Pem { file: file.to_owned(), problem: pem_problem(error) }
    }

    /// The file that has to change, when there is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            CertError::Read { file, .. } | CertError::Write { file, .. } | CertError::TooLarge { file, .. } => Some(file),
            CertError::Pem { file, .. } | CertError::NoCertificate { file, .. } | CertError::NoKey { file, .. } => Some(file),
            CertError::NoAuthority { file, .. } | CertError::NotAnAuthority { file, .. } => Some(file),
            CertError::NoRevocationList { file, .. } | CertError::RevocationList { file, .. } => Some(file),
            CertError::Certificate { file, .. } | CertError::Key { file, .. } | CertError::KeyMismatch { key: file, .. } => {
                Some(file)
            }
            CertError::LeafNotFirst { file, .. } | CertError::Expired { file, .. } | CertError::NotYetValid { file, .. } => {
                Some(file)
            }
            CertError::InternalCa { file, .. } | CertError::TicketKey { file, .. } | CertError::TicketKeyTwice { file } => {
                Some(file)
            }
            CertError::ServerName { .. } | CertError::Tls { .. } => None,
        }
    }

    /// One sentence without a full stop.
    pub fn message(&self) -> String {
        match self {
            CertError::Read { file, error } => format!("cannot read {}: {}", file.display(), reason(error)),
            CertError::Write { file, error } => format!("cannot write {}: {}", file.display(), reason(error)),
            CertError::TooLarge { file, bytes_max } => {
                format!("{} is larger than {} MiB, which no PEM file needs to be", file.display(), bytes_max >> 20)
            }
            CertError::Pem { file, problem } => format!("{} is not valid PEM: {problem}", file.display()),
            CertError::NoCertificate { file, holds } => format!("{} holds {}, not a certificate", file.display(), holds.noun()),
            CertError::NoAuthority { file, holds } => {
                format!("{} holds {}, not the certificate of an authority", file.display(), holds.noun())
            }
            CertError::NotAnAuthority { file, position, subject } => {
                format!("certificate number {position} in {} ({subject}) is no certificate of an authority", file.display())
            }
            CertError::NoRevocationList { file, holds } => {
                format!("{} holds {}, not a revocation list", file.display(), holds.noun())
            }
            CertError::RevocationList { file, position: 1, problem } => {
                format!("the revocation list in {} cannot be used: {problem}", file.display())
            }
            CertError::RevocationList { file, position, problem } => {
                format!("revocation list number {position} in {} cannot be used: {problem}", file.display())
            }
            CertError::NoKey { file, holds: Contents::EncryptedKey, .. } => {
                format!("the private key in {} is encrypted", file.display())
            }
            CertError::NoKey { file, combined: true, .. } => format!("{} holds no private key", file.display()),
            CertError::NoKey { file, holds, .. } => format!("{} holds {}, not a private key", file.display(), holds.noun()),
            CertError::Certificate { file, position: 1, problem } => {
                format!("the certificate in {} cannot be used: {problem}", file.display())
            }
            CertError::Certificate { file, position, problem } => {
                format!("certificate number {position} in {} cannot be used: {problem}", file.display())
            }
            CertError::Key { file, problem } => format!("the private key in {} cannot be used: {problem}", file.display()),
            CertError::KeyMismatch { cert, key } if cert == key => {
                format!("the key in {} does not belong to the certificate in the same file", key.display())
            }
            CertError::KeyMismatch { cert, key } => {
                format!("the key in {} does not belong to the certificate in {}", key.display(), cert.display())
            }
            CertError::LeafNotFirst { file, position } => {
                format!("the certificates in {} are in the wrong order: the key belongs to number {position}", file.display())
            }
            CertError::Expired { file, not_after } => {
                format!("the certificate in {} expired on {}", file.display(), not_after.strftime("%-d %B %Y"))
            }
            CertError::NotYetValid { file, not_before } => {
                format!("the certificate in {} is not valid before {}", file.display(), not_before.strftime("%-d %B %Y"))
            }
            CertError::InternalCa { file, problem, .. } => {
                format!("the internal CA cannot be used: {}: {problem}", file.display())
            }
            CertError::TicketKey { file, bytes, allowed: [short, long] } => {
                let found = if bytes > long { format!("more than {long}") } else { bytes.to_string() };
                format!("the ticket key in {} has {found} bytes instead of {short} or {long}", file.display())
            }
            CertError::TicketKeyTwice { file } => format!("the ticket key in {} has the name of one before it", file.display()),
            CertError::ServerName { name } => format!("`{name}` is neither a host name nor an IP address"),
            CertError::Tls { problem } => format!("TLS cannot be set up: {problem}"),
        }
    }

    /// What to do, where it is not plain from the message.
    pub fn help(&self) -> Option<String> {
        match self {
            CertError::Read { error, .. } if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Some("let the user that runs tidegate read it".into())
            }
            CertError::Write { error, .. } if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Some("let the user that runs tidegate write there, or set STATE_DIRECTORY to a folder of its own".into())
            }
            CertError::Read { error, .. } if error.kind() == std::io::ErrorKind::IsADirectory => Some("name a file in it".into()),
            CertError::Pem { .. } => Some("copy it again as a whole, from where it was made".into()),
            CertError::NoCertificate { file, holds } => Some(holds.help_for_certificate(file)),
            CertError::NoAuthority { file, holds } => Some(holds.help_for_authority(file)),
            CertError::NotAnAuthority { .. } => {
                Some("name the authority that signed it; single clients are chosen with `match client-fingerprint=`".into())
            }
            CertError::NoRevocationList { .. } => {
                Some("it needs a `-----BEGIN X509 CRL-----` block, or to be a list in DER".into())
            }
            CertError::NoKey { file, holds, combined } => Some(holds.help_for_key(file, *combined)),
            CertError::Key { .. } => Some("keys may be RSA from 2048 bits, ECDSA on P-256, P-384 or P-521, or Ed25519".into()),
            CertError::KeyMismatch { .. } => Some("give the key that the certificate was requested with".into()),
            CertError::LeafNotFirst { .. } => {
                Some("put the server's own certificate first, then each certificate that signed the one before".into())
            }
            CertError::Expired { .. } | CertError::NotYetValid { .. } => {
                Some("put the one that is valid now there; if it is, set this machine's clock (NTP)".into())
            }
            CertError::InternalCa { help, .. } => Some((*help).into()),
            CertError::TicketKey { file, .. } | CertError::TicketKeyTwice { file } => {
                Some(format!("make a new one for all hosts: openssl rand 80 > {}", file.display()))
            }
            CertError::Read { .. }
            | CertError::Write { .. }
            | CertError::TooLarge { .. }
            | CertError::Certificate { .. }
            | CertError::RevocationList { .. }
            | CertError::ServerName { .. }
            | CertError::Tls { .. } => None,
        }
    }
}

impl fmt::Display for CertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        self.help().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl std::error::Error for CertError {}

impl From<rustls::Error> for CertError {
    fn from(error: rustls::Error) -> Self {
        CertError::Tls { problem: error.to_string() }
    }
}

impl Contents {
    fn noun(self) -> &'static str {
        match self {
            Contents::Nothing => "nothing in PEM form",
            Contents::Der => "DER (binary) data",
            Contents::Certificate => "a certificate",
            Contents::Key => "a private key",
            Contents::EncryptedKey => "an encrypted private key",
            Contents::Request => "a certificate request",
            Contents::PublicKey => "a public key",
            Contents::Pkcs7 => "a PKCS#7 bundle",
            Contents::Pkcs12 => "a PKCS#12 store (PFX)",
            Contents::JavaKeyStore => "a Java key store",
            Contents::OpenSshKey => "a key in the form of OpenSSH",
            Contents::TrustedCertificate => "a certificate in OpenSSL's own form (TRUSTED CERTIFICATE)",
            Contents::Utf16 => "text in UTF-16",
        }
    }

    /// For who looked for a certificate.
    fn help_for_certificate(self, file: &Path) -> String {
        match self {
            Contents::Key | Contents::EncryptedKey => "are `cert=` and `key=` swapped?".into(),
            Contents::Der => format!("convert it: openssl x509 -inform der -in {0} -out {0}.pem", file.display()),
            Contents::Request => "give the certificate that the CA returned for this request".into(),
            other => other.conversion(file).unwrap_or_else(|| "it needs a `-----BEGIN CERTIFICATE-----` block".into()),
        }
    }

    /// For who looked for the certificates of authorities.
    fn help_for_authority(self, file: &Path) -> String {
        let needed = || "it needs the certificate of each authority that signs for clients, in PEM".into();
        if self == Contents::Der { self.help_for_certificate(file) } else { self.conversion(file).unwrap_or_else(needed) }
    }

    /// For who looked for a key; `combined` is that of [`CertError::NoKey`].
    fn help_for_key(self, file: &Path, combined: bool) -> String {
        let shown = file.display();
        match (self, combined) {
            (Contents::EncryptedKey, _) => {
                format!("nobody can be asked for its pass phrase; decrypt it: openssl pkey -in {shown} -out {shown}.plain")
            }
            (Contents::Der, _) => format!("convert it: openssl pkey -inform der -in {shown} -out {shown}.pem"),
            (Contents::Certificate, false) => "are `cert=` and `key=` swapped?".into(),
            (other, _) => other.conversion(file).unwrap_or_else(|| {
                let missing = "it needs a `-----BEGIN PRIVATE KEY-----` block";
                let beside = "name the key's file with `key=`, or put the key into this file as well";
                if combined { beside.into() } else { missing.into() }
            }),
        }
    }

    /// How to make PEM of it, whatever was looked for.
    fn conversion(self, file: &Path) -> Option<String> {
        let file = file.display();
        Some(match self {
            Contents::Pkcs7 => format!(
                "take it apart: openssl pkcs7 -print_certs -in {file} -out {file}.pem (with -inform der, if it is binary)"
            ),
            Contents::Pkcs12 => {
                format!("take it apart: openssl pkcs12 -nodes -in {file} -out {file}.pem, which then is `cert=` and `key=`")
            }
            Contents::JavaKeyStore => format!(
                "convert it: keytool -importkeystore -deststoretype pkcs12 -srckeystore {file} -destkeystore {file}.p12, and that with openssl pkcs12"
            ),
            Contents::OpenSshKey => {
                "give the key that the certificate was requested with; those of OpenSSH are for log-ins".into()
            }
            Contents::TrustedCertificate => format!("convert it: openssl x509 -in {file} -out {file}.pem"),
            Contents::Utf16 => format!("convert it: iconv -f utf-16 -t utf-8 {file} > {file}.pem"),
            Contents::Nothing | Contents::Der | Contents::Certificate | Contents::Key => return None,
            Contents::EncryptedKey | Contents::Request | Contents::PublicKey => return None,
        })
    }
}

/// The system's words without Rust's "(os error 2)".
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::IsADirectory => "it is a folder".into(),
        _ => error.to_string(),
    }
}

/// What is wrong with a PEM file, for people.
pub(crate) fn pem_problem(error: &rustls_pki_types::pem::Error) -> String {
    use rustls_pki_types::pem::Error;
    match error {
        Error::MissingSectionEnd { end_marker } => {
            format!("the line `-----END {}-----` is missing", String::from_utf8_lossy(end_marker))
        }
        Error::IllegalSectionStart { line } => {
            format!("the line `{}` is incomplete", String::from_utf8_lossy(line).trim_end())
        }
        Error::Base64Decode(_) => "a block is not base64".into(),
        other => other.to_string(),
    }
}
