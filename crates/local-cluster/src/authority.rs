//! A tiny certificate authority for tests: names in, PEM files out.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, RsaKeySize, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What kind of leaf certificate to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    Ecdsa,
    Rsa,
    /// ECDSA, its time over.
    Expired,
    /// ECDSA, for clients and nothing else.
    Client,
    /// ECDSA, for servers and nothing else.
    Server,
    /// ECDSA, signed by itself and as if it were an authority's, as appliances have it.
    SelfSigned,
}

/// A root and the folder that its certificates are written to.
pub struct Authority {
    name: String,
    folder: PathBuf,
    /// Of the next certificate.
    serial: AtomicU64,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
    root_file: PathBuf,
}

/// The files of one certificate.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Chain and key in one file.
    pub combined: PathBuf,
    pub der: CertificateDer<'static>,
    pub serial: u64,
}

impl Authority {
    /// Makes a root named `name`; its certificate is `folder/<name>-ca.pem`.
    pub fn new(folder: &Path, name: &str) -> Result<Authority, String> {
        let mut params = CertificateParams::new(Vec::new()).map_err(|error| error.to_string())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, format!("Tidegate test authority {name}"));
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let root = params.self_signed(&key).map_err(|error| error.to_string())?;
        let root_file = folder.join(format!("{name}-ca.pem"));
        write(&root_file, &root.pem())?;
        Ok(Authority {
            name: name.to_owned(),
            serial: AtomicU64::new(1),
            folder: folder.to_owned(),
            issuer: Issuer::new(params, key),
            root: root.der().clone(),
            root_file,
        })
    }

    pub fn root(&self) -> &CertificateDer<'static> {
        &self.root
    }

    /// PEM file with the root.
    pub fn root_file(&self) -> &Path {
        &self.root_file
    }

    /// A certificate for `names`, DNS names, IP addresses and URIs joined by `+`. Files that exist already are not made
    /// again by callers: they keep what this returned.
    pub fn issue(&self, names: &str, kind: KeyKind) -> Result<CertificateFiles, String> {
        let text = |error: rcgen::Error| error.to_string();
        let subjects: Vec<String> = names.split('+').map(str::to_owned).collect();
        let (uris, others): (Vec<String>, Vec<String>) = subjects.iter().cloned().partition(|name| name.contains("://"));
        let mut params = CertificateParams::new(others).map_err(text)?;
        for uri in uris {
            params.subject_alt_names.push(SanType::URI(uri.try_into().map_err(text)?));
        }
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(SerialNumber::from(serial));
        params.distinguished_name.push(DnType::CommonName, subjects[0].clone());
        params.use_authority_key_identifier_extension = true;
        let key = match kind {
            KeyKind::Ecdsa => KeyPair::generate().map_err(text)?,
            KeyKind::SelfSigned => {
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
                params.use_authority_key_identifier_extension = false;
                KeyPair::generate().map_err(text)?
            }
            KeyKind::Rsa => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(text)?,
            KeyKind::Expired => {
                params.not_before = rcgen::date_time_ymd(2020, 1, 1);
                params.not_after = rcgen::date_time_ymd(2020, 2, 1);
                KeyPair::generate().map_err(text)?
            }
            KeyKind::Client => {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
                KeyPair::generate().map_err(text)?
            }
            KeyKind::Server => {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
                KeyPair::generate().map_err(text)?
            }
        };
        let certificate = match kind {
            KeyKind::SelfSigned => params.self_signed(&key),
            KeyKind::Ecdsa | KeyKind::Rsa | KeyKind::Expired | KeyKind::Client | KeyKind::Server => {
                params.signed_by(&key, &self.issuer)
            }
        };
        let certificate = certificate.map_err(text)?;
        let stem = format!("{}-{}-{kind:?}", self.name, names.replace('*', "_").replace(['/', ':'], "-")).to_lowercase();
        let files = CertificateFiles {
            cert: self.folder.join(format!("{stem}.crt")),
            key: self.folder.join(format!("{stem}.key")),
            combined: self.folder.join(format!("{stem}.pem")),
            der: certificate.der().clone(),
            serial,
        };
        write(&files.cert, &certificate.pem())?;
        write(&files.key, &key.serialize_pem())?;
        write(&files.combined, &format!("{}{}", certificate.pem(), key.serialize_pem()))?;
        Ok(files)
    }

    /// A revocation list with these certificates, in PEM; with `is_stale` one whose successor is overdue.
    pub fn revoke(&self, name: &str, revoked: &[&CertificateFiles], is_stale: bool) -> Result<PathBuf, String> {
        let since = rcgen::date_time_ymd(2020, 1, 1);
        let entry = |files: &&CertificateFiles| RevokedCertParams {
            serial_number: SerialNumber::from(files.serial),
            revocation_time: since,
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: since,
            next_update: rcgen::date_time_ymd(if is_stale { 2021 } else { 2099 }, 1, 1),
            crl_number: SerialNumber::from(self.serial.fetch_add(1, Ordering::Relaxed)),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(|error| error.to_string())?;
        let file = self.folder.join(format!("{name}.crl"));
        write(&file, &list)?;
        Ok(file)
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
