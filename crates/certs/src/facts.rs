//! What a certificate says of itself, as far as a server needs to know: names, dates, kind of key, and who signed it.
//! No trust decision is made here; clients make it. Reading happens once per load, never in a handshake.

use crate::unlike;
use jiff::Timestamp;
use std::fmt;
use std::net::IpAddr;
use tidegate_model::HostPattern;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Version};
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
    /// `None` for most: it neither names a responder nor asks for a staple.
    pub ocsp: Option<Box<OcspFacts>>,
    /// Of version 3, as it has to be for a browser to look at its names.
    pub is_version_3: bool,
    /// Of the certificates above the leaf the one that ends first: its number, counted from 1 with the leaf, and its
    /// end.
    pub first_authority_to_end: Option<(usize, Timestamp)>,
}

/// What a certificate says of stapled answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcspFacts {
    /// Where its standing can be asked for; the first that is HTTP.
    pub responder: Option<String>,
    /// Clients are to refuse it without a staple (RFC 7633).
    pub must_staple: bool,
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

/// Certificates that were parsed, the leaf first; at least one.
pub(crate) struct Chain<'c> {
    certificates: Vec<X509Certificate<'c>>,
}

impl<'c> Chain<'c> {
    /// `Err` gives the index of the bad one and what is wrong.
    pub fn parse(chain: &'c [impl AsRef<[u8]>]) -> Result<Chain<'c>, (usize, String)> {
        let mut certificates = Vec::with_capacity(chain.len());
        for (index, der) in chain.iter().enumerate() {
            certificates.push(parse(der.as_ref()).map_err(|problem| (index, problem))?);
        }
        if certificates.is_empty() { Err((0, "the chain is empty".into())) } else { Ok(Chain { certificates }) }
    }

    /// Which one has this public key.
    pub fn position_of_key(&self, public_key_info: &[u8]) -> Option<usize> {
        self.certificates.iter().position(|certificate| certificate.public_key().raw == public_key_info)
    }
}

impl CertificateFacts {
    /// Reads the leaf, which is `chain[0]`, and how the others follow. `Err` gives the index of the bad one and what is
    /// wrong.
    pub fn read(chain: &[impl AsRef<[u8]>]) -> Result<CertificateFacts, (usize, String)> {
        Ok(CertificateFacts::of(&Chain::parse(chain)?))
    }

    pub(crate) fn of(chain: &Chain<'_>) -> CertificateFacts {
        let certificates = &chain.certificates;
        let leaf = &certificates[0];
        let chain_broken_after = certificates
            .windows(2)
            .position(|pair| pair[0].issuer().as_raw() != pair[1].subject().as_raw())
            .map(|index| index + 1);
        let ends = certificates.iter().enumerate().skip(1);
        let ends = ends.map(|(index, authority)| (index + 1, timestamp(authority.validity().not_after.timestamp())));
        CertificateFacts {
            names: names_of(leaf),
            not_before: timestamp(leaf.validity().not_before.timestamp()),
            not_after: timestamp(leaf.validity().not_after.timestamp()),
            key_algorithm: key_algorithm_of(leaf),
            chain_broken_after,
            ocsp: ocsp_facts(leaf),
            is_version_3: leaf.version() == X509Version::V3,
            first_authority_to_end: ends.min_by_key(|(_, end)| *end),
        }
    }

    pub fn must_staple(&self) -> bool {
        self.ocsp.as_ref().is_some_and(|ocsp| ocsp.must_staple)
    }

    /// Whether every request for this host would find its name in the certificate; of names below at any depth, those
    /// of one label, since no certificate is for more.
    pub fn covers(&self, host: &HostPattern) -> bool {
        match host {
            HostPattern::Any | HostPattern::Socket(_) => true,
            HostPattern::Exact(name) => self.covers_name(name),
            HostPattern::Wildcard(parent) | HostPattern::DeepWildcard(parent) => self.names.iter().any(
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
pub fn public_key_info(certificate: &[u8]) -> Option<Vec<u8>> {
    parse(certificate).ok().map(|parsed| parsed.public_key().raw.to_vec())
}

pub(crate) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err("bytes follow after its end".into()),
        Err(_) if let Some((there, whole)) = unlike::cut_off(der) => {
            Err(format!("it was cut off: {there} of its {whole} bytes are there; copy it again as a whole"))
        }
        Err(error) => Err(format!("it is not an X.509 certificate ({error})")),
    }
}

pub(crate) fn names_of(certificate: &X509Certificate<'_>) -> Vec<CertificateName> {
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

/// OCSP responders, and where the issuer's certificate is (RFC 5280 section 4.2.2.1).
pub(crate) fn authority_information(certificate: &X509Certificate<'_>) -> (Vec<String>, Vec<String>) {
    const OCSP: &str = "1.3.6.1.5.5.7.48.1";
    const CA_ISSUERS: &str = "1.3.6.1.5.5.7.48.2";
    let (mut ocsp, mut issuers) = (Vec::new(), Vec::new());
    for extension in certificate.extensions() {
        let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else { continue };
        for description in &access.accessdescs {
            let GeneralName::URI(uri) = &description.access_location else { continue };
            match description.access_method.to_id_string().as_str() {
                OCSP => ocsp.push((*uri).to_owned()),
                CA_ISSUERS => issuers.push((*uri).to_owned()),
                _ => {}
            }
        }
    }
    (ocsp, issuers)
}

fn ocsp_facts(certificate: &X509Certificate<'_>) -> Option<Box<OcspFacts>> {
    let is_http = |url: &String| url.starts_with("http://") || url.starts_with("https://");
    let responder = authority_information(certificate).0.into_iter().find(is_http);
    let must_staple = must_staple(certificate);
    (must_staple || responder.is_some()).then(|| Box::new(OcspFacts { responder, must_staple }))
}

/// `id-pe-tlsfeature` with `status_request` among its numbers (RFC 7633 section 4).
fn must_staple(certificate: &X509Certificate<'_>) -> bool {
    /// 1.3.6.1.5.5.7.1.24
    const TLS_FEATURE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x18];
    const STATUS_REQUEST: u32 = 5;
    certificate
        .extensions()
        .iter()
        .filter(|extension| extension.oid.as_bytes() == TLS_FEATURE)
        .any(|extension| Vec::<u32>::from_der(extension.value).is_ok_and(|(_, features)| features.contains(&STATUS_REQUEST)))
}

pub(crate) fn key_algorithm_of(certificate: &X509Certificate<'_>) -> KeyAlgorithm {
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
