//! Certificates and ACME accounts as certbot, Caddy and Traefik keep them: bytes in, one neutral structure and a report
//! out. Nothing is written here, and nobody is asked; the one place that touches a disk is `files.rs`. Start at
//! [`read`], then `select.rs`, which decides what is worth taking over.

mod caddy;
mod certbot;
mod directory;
mod files;
mod key;
mod select;
#[cfg(test)]
mod tests;
mod traefik;

pub use files::{FILES_MAX, Files, recognise};
pub use select::{Choice, Selected, select};

use jiff::Timestamp;
use std::fmt;
use std::path::Path;
use tidegate_certs::{CertificateDescription, CertificateName, KeyAlgorithm, LoadedCertificate};
use zeroize::Zeroizing;

/// Whose store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Certbot,
    Caddy,
    Traefik,
}

/// All that a store holds. What could not be read is in `skipped`, each with its reason.
#[derive(Debug, Default)]
pub struct ImportedStore {
    pub accounts: Vec<ImportedAccount>,
    pub certificates: Vec<ImportedCertificate>,
    pub skipped: Vec<Skipped>,
}

/// A pair that fits.
#[derive(Clone)]
pub struct ImportedCertificate {
    pub names: Vec<CertificateName>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub key_algorithm: KeyAlgorithm,
    /// Leaf first.
    pub chain_pem: String,
    /// PKCS#8, whatever it was.
    pub key_pem: Zeroizing<String>,
    /// Of the CA, where the store says it.
    pub directory: Option<String>,
    pub origin: Origin,
    /// Where it was found, for the report.
    pub from: String,
}

/// Who issued a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Public,
    /// A CA's test environment, which nobody trusts.
    Staging,
    /// The program's own CA.
    Internal,
}

#[derive(Clone)]
pub struct ImportedAccount {
    pub directory: String,
    /// The account's own address at the CA.
    pub url: String,
    pub email: Option<String>,
    pub key: AccountKey,
    pub from: String,
}

#[derive(Clone)]
pub enum AccountKey {
    /// PKCS#8 DER.
    EcdsaP256(Zeroizing<Vec<u8>>),
    /// Of a kind that Tidegate does not sign requests with; its name.
    Other(&'static str),
}

/// What was not taken over. `why` is completed by what to do, where something can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub what: String,
    pub why: String,
}

/// Reads a whole store.
pub fn read(program: Program, files: &Files, directory: Option<&str>) -> ImportedStore {
    let mut store = match program {
        Program::Certbot => certbot::read(files),
        Program::Caddy => caddy::read(files, directory),
        Program::Traefik => traefik::read(files, directory),
    };
    store.skipped.extend(files.faults().map(|(path, why)| Skipped { what: path.to_owned(), why: why.to_owned() }));
    store
}

impl AccountKey {
    /// Why an account cannot be taken over with this key, and what becomes of it.
    pub fn obstacle(&self) -> Option<String> {
        match self {
            AccountKey::EcdsaP256(_) => None,
            AccountKey::Other(kind) => Some(format!(
                "its key is {kind}, and Tidegate signs with ECDSA on P-256; a new account is made at this CA with the first order, which costs nothing. \
                 Where a CAA record names the account (accounturi), it has to name the new one"
            )),
        }
    }
}

impl ImportedCertificate {
    /// `Err` says what is wrong with the pair, in one sentence. `chain` and `key` are the name of a file and what is in
    /// it.
    fn check(chain: (&str, &[u8]), key: (&str, &[u8]), directory: Option<String>) -> Result<ImportedCertificate, String> {
        let ((chain_file, chain_pem), (key_file, key_pem)) = (chain, key);
        let pair = LoadedCertificate::from_pem((Path::new(chain_file), chain_pem), Some((Path::new(key_file), key_pem)));
        let loaded = pair.map_err(|error| error.to_string())?;
        let chain = &loaded.certified_key.cert;
        let leaf = CertificateDescription::read(&chain[0])?;
        if leaf.names.is_empty() {
            return Err("the certificate has no name that a server could have".to_owned());
        }
        let key_pem = key::to_pkcs8_pem(key_pem).ok_or("its key is of a kind that cannot be taken over")?;
        Ok(ImportedCertificate {
            names: leaf.names,
            not_before: leaf.not_before,
            not_after: leaf.not_after,
            key_algorithm: leaf.key_algorithm,
            chain_pem: chain.iter().map(|certificate| tidegate_certs::to_pem("CERTIFICATE", certificate)).collect(),
            key_pem,
            origin: if directory::is_staging(directory.as_deref(), &leaf.issuer) { Origin::Staging } else { Origin::Public },
            directory,
            from: chain_file.to_owned(),
        })
    }

    /// The certificate's names as one text.
    pub fn names_text(&self) -> String {
        self.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl Program {
    pub const NAMES: &'static [(&'static str, Program)] =
        &[("certbot", Program::Certbot), ("caddy", Program::Caddy), ("traefik", Program::Traefik)];
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Program::Certbot => "certbot",
            Program::Caddy => "Caddy",
            Program::Traefik => "Traefik",
        })
    }
}

impl fmt::Debug for ImportedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedCertificate").field("names", &self.names).field("from", &self.from).finish_non_exhaustive()
    }
}

impl fmt::Debug for ImportedAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedAccount").field("url", &self.url).field("email", &self.email).finish_non_exhaustive()
    }
}
