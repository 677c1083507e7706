//! What can be wrong with a certificate, a key or the internal CA: which file, what is wrong in one sentence, and what to do about it.
//! Rendering with line and column is the configuration's work; `check.rs` turns these into findings for it.

use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub enum CertError {
    Read {
        file: PathBuf,
        error: std::io::Error,
    },
    Write {
        file: PathBuf,
        error: std::io::Error,
    },
    TooLarge {
        file: PathBuf,
        bytes_max: u64,
    },
    Pem {
        file: PathBuf,
        problem: String,
    },
    NoCertificate {
        file: PathBuf,
        holds: Contents,
    },
    NoKey {
        file: PathBuf,
        holds: Contents,
        /// The key was looked for in the certificate's own file, because no other was named.
        combined: bool,
    },
    /// `position` counts from 1.
    Certificate {
        file: PathBuf,
        position: usize,
        problem: String,
    },
    Key {
        file: PathBuf,
        problem: String,
    },
    KeyMismatch {
        cert: PathBuf,
        key: PathBuf,
    },
    /// The key belongs to a certificate further down; `position` counts from 1.
    LeafNotFirst {
        file: PathBuf,
        position: usize,
    },
    InternalCa {
        file: PathBuf,
        problem: &'static str,
        help: &'static str,
    },
    ServerName {
        name: String,
    },
    /// TLS settings that cannot work together, or randomness that the system refused.
    Tls {
        problem: String,
    },
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
}

impl CertError {
    /// The file that has to change, when there is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            CertError::Read { file, .. }
            | CertError::Write { file, .. }
            | CertError::TooLarge { file, .. }
            | CertError::Pem { file, .. }
            | CertError::NoCertificate { file, .. }
            | CertError::NoKey { file, .. }
            | CertError::Certificate { file, .. }
            | CertError::Key { file, .. }
            | CertError::KeyMismatch { key: file, .. }
            | CertError::LeafNotFirst { file, .. }
            | CertError::InternalCa { file, .. } => Some(file),
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
            CertError::InternalCa { file, problem, .. } => {
                format!("the internal CA cannot be used: {}: {problem}", file.display())
            }
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
            CertError::NoCertificate { file, holds } => Some(match holds {
                Contents::Key | Contents::EncryptedKey => "are `cert=` and `key=` swapped?".into(),
                Contents::Der => format!("convert it: openssl x509 -inform der -in {0} -out {0}.pem", file.display()),
                Contents::Request => "give the certificate that the CA returned for this request".into(),
                Contents::Nothing | Contents::PublicKey | Contents::Certificate => {
                    "it needs a `-----BEGIN CERTIFICATE-----` block".into()
                }
            }),
            CertError::NoKey { file, holds, combined } => Some(match (holds, combined) {
                (Contents::EncryptedKey, _) => {
                    format!(
                        "nobody can be asked for its pass phrase; decrypt it: openssl pkey -in {0} -out {0}.plain",
                        file.display()
                    )
                }
                (Contents::Der, _) => format!("convert it: openssl pkey -inform der -in {0} -out {0}.pem", file.display()),
                (_, true) => "name the key's file with `key=`, or put the key into this file as well".into(),
                (Contents::Certificate, false) => "are `cert=` and `key=` swapped?".into(),
                (Contents::Nothing | Contents::Key | Contents::Request | Contents::PublicKey, false) => {
                    "it needs a `-----BEGIN PRIVATE KEY-----` block".into()
                }
            }),
            CertError::Key { .. } => Some("keys may be RSA from 2048 bits, ECDSA on P-256, P-384 or P-521, or Ed25519".into()),
            CertError::KeyMismatch { .. } => Some("give the key that the certificate was requested with".into()),
            CertError::LeafNotFirst { .. } => {
                Some("put the server's own certificate first, then each certificate that signed the one before".into())
            }
            CertError::InternalCa { help, .. } => Some((*help).into()),
            CertError::Read { .. }
            | CertError::Write { .. }
            | CertError::TooLarge { .. }
            | CertError::Pem { .. }
            | CertError::Certificate { .. }
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
        }
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
