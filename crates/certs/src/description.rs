//! A certificate as people and reports want it: who it is for, who signed it, with what, and its fingerprint. What a
//! server needs of its own certificates is in `facts.rs`; nothing here decides about trust.

use crate::facts::{self, CertificateName, KeyAlgorithm};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateDescription {
    /// As `CN=example.com, O=Example`.
    pub subject: String,
    pub issuer: String,
    /// Hexadecimal, lower case.
    pub serial: String,
    /// How its CA names it in renewal information (RFC 9773 section 4.1): the issuer's key and the serial number,
    /// joined by a dot.
    pub renewal_id: Option<String>,
    pub names: Vec<CertificateName>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub key_algorithm: KeyAlgorithm,
    pub signature: SignatureAlgorithm,
    /// Whether the certificate may sign others.
    pub is_authority: bool,
    /// Whether the certificate is its own issuer, as a root is.
    pub is_self_issued: bool,
    /// Where its standing can be asked for (OCSP).
    pub ocsp_responders: Vec<String>,
    /// Where its issuer's certificate is, for those who were not sent it.
    pub issuer_urls: Vec<String>,
    /// SHA-256 of the whole, as `AB:CD:…`.
    pub fingerprint: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// ECDSA or RSA with SHA-2, or Ed25519; its customary name.
    Sound(&'static str),
    /// MD5 and SHA-1: signatures that can be forged.
    Broken(&'static str),
    /// The identifier of one that is not known here.
    Other(String),
}

impl CertificateDescription {
    pub fn read(der: &[u8]) -> Result<CertificateDescription, String> {
        let certificate = facts::parse(der)?;
        let (ocsp_responders, issuer_urls) = facts::authority_information(&certificate);
        Ok(CertificateDescription {
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            serial: hex(certificate.raw_serial(), ""),
            renewal_id: renewal_id(&certificate),
            names: facts::names_of(&certificate),
            not_before: facts::timestamp(certificate.validity().not_before.timestamp()),
            not_after: facts::timestamp(certificate.validity().not_after.timestamp()),
            key_algorithm: facts::key_algorithm_of(&certificate),
            signature: SignatureAlgorithm::of(&certificate.signature_algorithm.algorithm.to_id_string()),
            is_authority: certificate.is_ca(),
            is_self_issued: certificate.subject().as_raw() == certificate.issuer().as_raw(),
            ocsp_responders,
            issuer_urls,
            fingerprint: fingerprint(der),
        })
    }
}

impl SignatureAlgorithm {
    fn of(identifier: &str) -> SignatureAlgorithm {
        use SignatureAlgorithm::{Broken, Other, Sound};
        match identifier {
            "1.2.840.10045.4.3.2" => Sound("ECDSA with SHA-256"),
            "1.2.840.10045.4.3.3" => Sound("ECDSA with SHA-384"),
            "1.2.840.10045.4.3.4" => Sound("ECDSA with SHA-512"),
            "1.2.840.113549.1.1.11" => Sound("RSA with SHA-256"),
            "1.2.840.113549.1.1.12" => Sound("RSA with SHA-384"),
            "1.2.840.113549.1.1.13" => Sound("RSA with SHA-512"),
            "1.2.840.113549.1.1.10" => Sound("RSA-PSS"),
            "1.3.101.112" => Sound("Ed25519"),
            "1.2.840.10045.4.1" => Broken("ECDSA with SHA-1"),
            "1.2.840.113549.1.1.5" => Broken("RSA with SHA-1"),
            "1.2.840.113549.1.1.4" => Broken("RSA with MD5"),
            other => Other(other.to_owned()),
        }
    }
}

impl std::fmt::Display for SignatureAlgorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SignatureAlgorithm::Sound(name) | SignatureAlgorithm::Broken(name) => f.write_str(name),
            SignatureAlgorithm::Other(identifier) => f.write_str(identifier),
        }
    }
}

fn renewal_id(certificate: &X509Certificate<'_>) -> Option<String> {
    let issuer_key = certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref(),
        _ => None,
    })?;
    let base64 = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    Some(format!("{}.{}", base64(issuer_key.0), base64(certificate.raw_serial())))
}

/// SHA-256 over the DER, as browsers and `openssl x509 -fingerprint -sha256` show it.
pub fn fingerprint(der: &[u8]) -> String {
    hex(digest(&SHA256, der).as_ref(), ":").to_ascii_uppercase()
}

fn hex(bytes: &[u8], between: &str) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
}
