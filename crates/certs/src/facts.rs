//! What a certificate says of itself, as far as a server needs to know: names, dates, kind of key, and who signed it.
//! No trust decision is made here; clients make it. Reading happens once per load, never in a handshake.

use jiff::Timestamp;
use std::fmt;
use std::net::IpAddr;
use tidegate_model::HostPattern;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

/// A subject alternative name. The common name is not read: no client has looked at it for years.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CertificateName {
    /// Lower case; may begin with `*.`.
    Dns(String),
    Ip(IpAddr),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    pub names: Vec<CertificateName>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub key_algorithm: KeyAlgorithm,
    /// The chain stops being one after this many certificates; `None` when each is signed by the next.
    pub chain_broken_after: Option<usize>,
}

/// In the order in which they are preferred: what a signature costs the server, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyAlgorithm {
    EcdsaP256,
    Ed25519,
    EcdsaP384,
    EcdsaP521,
    Rsa { bits: u32 },
    Other,
}

impl CertificateFacts {
    /// Reads the leaf, which is `chain[0]`, and how the others follow. `Err` gives the index of the bad one and what is wrong.
    pub fn read(chain: &[impl AsRef<[u8]>]) -> Result<CertificateFacts, (usize, String)> {
        let mut certificates = Vec::with_capacity(chain.len());
        for (index, der) in chain.iter().enumerate() {
            certificates.push(parse(der.as_ref()).map_err(|problem| (index, problem))?);
        }
        let Some(leaf) = certificates.first() else { return Err((0, "the chain is empty".into())) };
        let chain_broken_after = certificates
            .windows(2)
            .position(|pair| pair[0].issuer().as_raw() != pair[1].subject().as_raw())
            .map(|index| index + 1);
        Ok(CertificateFacts {
            names: names_of(leaf),
            not_before: timestamp(leaf.validity().not_before.timestamp()),
            not_after: timestamp(leaf.validity().not_after.timestamp()),
            key_algorithm: key_algorithm_of(leaf),
            chain_broken_after,
        })
    }

    /// Whether every request for this host would find its name in the certificate.
    pub fn covers(&self, host: &HostPattern) -> bool {
        match host {
            HostPattern::Any => true,
            HostPattern::Exact(name) => self.covers_name(name),
            HostPattern::Wildcard(parent) => self.names.iter().any(
                |name| matches!(name, CertificateName::Dns(dns) if dns.strip_prefix("*.").is_some_and(|rest| rest == parent)),
            ),
            HostPattern::Ip(ip) => self.names.contains(&CertificateName::Ip(*ip)),
        }
    }

    /// RFC 6125 section 6.4: without case, and `*` stands for exactly one whole label.
    pub fn covers_name(&self, host: &str) -> bool {
        self.names.iter().any(|name| match name {
            CertificateName::Ip(_) => false,
            CertificateName::Dns(dns) => match dns.strip_prefix("*.") {
                None => dns.eq_ignore_ascii_case(host),
                Some(parent) => host.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(parent)),
            },
        })
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateName::Dns(name) => f.write_str(name),
            CertificateName::Ip(ip) => write!(f, "{ip}"),
        }
    }
}

impl fmt::Display for KeyAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyAlgorithm::EcdsaP256 => f.write_str("ECDSA P-256"),
            KeyAlgorithm::EcdsaP384 => f.write_str("ECDSA P-384"),
            KeyAlgorithm::EcdsaP521 => f.write_str("ECDSA P-521"),
            KeyAlgorithm::Ed25519 => f.write_str("Ed25519"),
            KeyAlgorithm::Rsa { bits } => write!(f, "RSA {bits}"),
            KeyAlgorithm::Other => f.write_str("another kind of key"),
        }
    }
}

/// The DER of a certificate's SubjectPublicKeyInfo, to compare with a private key's.
pub(crate) fn public_key_info(certificate: &[u8]) -> Option<Vec<u8>> {
    parse(certificate).ok().map(|parsed| parsed.public_key().raw.to_vec())
}

pub(crate) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err("bytes follow after its end".into()),
        Err(error) => Err(format!("it is not an X.509 certificate ({error})")),
    }
}

fn names_of(certificate: &X509Certificate<'_>) -> Vec<CertificateName> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let name_of = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(dns) => Some(CertificateName::Dns(dns.trim_end_matches('.').to_ascii_lowercase())),
        GeneralName::IPAddress(bytes) => <[u8; 4]>::try_from(*bytes)
            .map(IpAddr::from)
            .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
            .ok()
            .map(CertificateName::Ip),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name_of).collect()
}

fn key_algorithm_of(certificate: &X509Certificate<'_>) -> KeyAlgorithm {
    const ED25519: &str = "1.3.101.112";
    let info = certificate.public_key();
    match info.parsed() {
        Ok(PublicKey::RSA(key)) => KeyAlgorithm::Rsa { bits: key.key_size() as u32 },
        // The parser counts the bits of one coordinate, which for P-521 fill whole bytes.
        Ok(PublicKey::EC(point)) => match point.key_size() {
            256 => KeyAlgorithm::EcdsaP256,
            384 => KeyAlgorithm::EcdsaP384,
            521..=528 => KeyAlgorithm::EcdsaP521,
            _ => KeyAlgorithm::Other,
        },
        _ if info.algorithm.algorithm.to_id_string() == ED25519 => KeyAlgorithm::Ed25519,
        _ => KeyAlgorithm::Other,
    }
}

/// Dates outside what a time stamp can hold (year 9999 as "never") become the nearest one it can.
pub(crate) fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX })
}
