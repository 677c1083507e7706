//! The certificates of the internal CA, made and read: root, intermediate, leaf. Data and `now` in, certificates out;
//! no file is touched here.
//!
//! ```text
//!     root          CA, path length 1       trusted by clients, signs intermediates
//!     intermediate  CA, path length 0       sent with each leaf, signs leaves
//!     leaf          TLS server              for the names of one site
//! ```
//! A root of path length 0, as earlier versions made them, signs leaves itself. There are no name constraints: which
//! names sites have changes with the configuration, and a root that is installed once on many devices cannot follow it.

use super::{BACKDATED, INTERMEDIATE_LIFE, LEAF_LIFE, ROOT_LIFE};
use crate::error::CertError;
use crate::facts::{self, CertificateFacts, CertificateName};
use crate::files::LoadedCertificate;
use crate::names::machine_name;
use crate::provider;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use std::time::Duration;
use x509_parser::x509::AttributeTypeAndValue;

/// X.520 bounds a common name at 64 characters.
const COMMON_NAME_MAX: usize = 64;
/// What the longest of the names below leaves of it.
const MACHINE_NAME_MAX: usize = 30;
const ROOT_NAME: &str = "Tidegate Internal CA";
const INTERMEDIATE_NAME: &str = "Tidegate Intermediate CA";

/// The root as clients trust it, without its key.
pub struct Root {
    pub certificate: CertificateDer<'static>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// False for those of earlier versions.
    pub may_sign_authorities: bool,
    common_name: String,
}

pub struct Intermediate {
    pub certificate: CertificateDer<'static>,
    pub key: KeyPair,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    common_name: String,
}

/// Signs leaves: the intermediate, or a root that may have none.
pub struct Signer {
    issuer: Issuer<'static, KeyPair>,
    /// What follows the leaf. The root is left out: who trusts it has it, and to others it proves nothing.
    chain: Vec<CertificateDer<'static>>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Root {
    /// Named for its machine, so that a trust store with several can be read by people, and never like another: NSS
    /// takes certificates of one name for generations of the same.
    pub fn make(now: Timestamp) -> Result<(Root, KeyPair), CertError> {
        let unique = random_suffix()?;
        let suffix = match machine_name() {
            Some(name) if name != "localhost" => format!("{} {unique}", name.chars().take(MACHINE_NAME_MAX).collect::<String>()),
            _ => unique,
        };
        let mut params = authority_params(&format!("{ROOT_NAME} {suffix}"), 1);
        set_validity(&mut params, now - BACKDATED, now + ROOT_LIFE);
        let key = KeyPair::generate().map_err(signing_failed)?;
        let certificate = params.self_signed(&key).map_err(signing_failed)?;
        let root = Root::read(certificate.der().clone()).map_err(|problem| CertError::Tls { problem: problem.to_owned() })?;
        Ok((root, key))
    }

    /// `Err` says what is wrong with it.
    pub fn read(certificate: CertificateDer<'static>) -> Result<Root, &'static str> {
        let parsed = facts::parse(&certificate).map_err(|_| "it is not an X.509 certificate")?;
        let common_name = common_name(&parsed).filter(|_| parsed.subject().iter_attributes().count() == 1);
        let common_name = common_name.ok_or("it was not made by tidegate")?;
        let constraints = parsed.basic_constraints().ok().flatten().map(|extension| extension.value);
        let Some(constraints) = constraints.filter(|constraints| constraints.ca) else {
            return Err("it is not a CA's certificate");
        };
        let may_sign_authorities = constraints.path_len_constraint != Some(0);
        let not_before = facts::timestamp(parsed.validity().not_before.timestamp());
        let not_after = facts::timestamp(parsed.validity().not_after.timestamp());
        Ok(Root { certificate, not_before, not_after, may_sign_authorities, common_name })
    }

    pub fn is_key(&self, key: &KeyPair) -> bool {
        facts::public_key_info(&self.certificate).as_deref() == Some(&key.subject_public_key_info()[..])
    }
}

impl Intermediate {
    /// Signed with the root's key, which the caller then lets go of.
    pub fn make(root: &Root, root_key: KeyPair, now: Timestamp) -> Result<Intermediate, CertError> {
        let suffix = root.common_name.strip_prefix(ROOT_NAME).unwrap_or_default();
        let mut params = authority_params(&bounded(&format!("{INTERMEDIATE_NAME}{suffix}")), 0);
        let (not_before, not_after) = validity(now, INTERMEDIATE_LIFE, root.not_before, root.not_after);
        set_validity(&mut params, not_before, not_after);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(signing_failed)?;
        let issuer = Issuer::new(authority_params(&root.common_name, 1), root_key);
        let certificate = params.signed_by(&key, &issuer).map_err(signing_failed)?.der().clone();
        Intermediate::read(certificate, key, root).map_err(|problem| CertError::Tls { problem: problem.to_owned() })
    }

    /// `Err` says why it cannot be used below this root.
    pub fn read(certificate: CertificateDer<'static>, key: KeyPair, root: &Root) -> Result<Intermediate, &'static str> {
        let parsed = facts::parse(&certificate).map_err(|_| "it is not an X.509 certificate")?;
        if parsed.public_key().raw != &key.subject_public_key_info()[..] {
            return Err("its key is another one");
        }
        let root_parsed = facts::parse(&root.certificate).map_err(|_| "its root is not an X.509 certificate")?;
        if parsed.issuer().as_raw() != root_parsed.subject().as_raw() {
            return Err("it was not signed by root.crt");
        }
        let root_key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &root_parsed.public_key().subject_public_key.data);
        root_key
            .verify(parsed.tbs_certificate.as_ref(), &parsed.signature_value.data)
            .map_err(|_| "it was not signed by root.crt")?;
        let common_name = common_name(&parsed).ok_or("it was not made by tidegate")?;
        let not_before = facts::timestamp(parsed.validity().not_before.timestamp());
        let not_after = facts::timestamp(parsed.validity().not_after.timestamp());
        Ok(Intermediate { certificate, key, not_before, not_after, common_name })
    }

    pub fn validity(&self) -> (Timestamp, Timestamp) {
        (self.not_before, self.not_after)
    }
}

impl Signer {
    pub fn root(root: &Root, key: KeyPair) -> Result<Signer, CertError> {
        let issuer = Issuer::new(authority_params(&root.common_name, 0), key);
        let signer = Signer { issuer, chain: Vec::new(), not_before: root.not_before, not_after: root.not_after };
        signer.tried(&root.certificate)
    }

    pub fn intermediate(root: &Root, intermediate: Intermediate) -> Result<Signer, CertError> {
        let Intermediate { certificate, key, not_before, not_after, common_name } = intermediate;
        let issuer = Issuer::new(authority_params(&common_name, 0), key);
        let not_after = not_after.min(root.not_after);
        Signer { issuer, chain: vec![certificate.clone()], not_before, not_after }.tried(&certificate)
    }

    pub fn issue(&self, names: &[CertificateName], now: Timestamp) -> Result<LoadedCertificate, CertError> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.iter().map(alternative_name).collect::<Result<_, _>>()?;
        // Only people read it.
        let common_name = names.first().map(ToString::to_string).filter(|name| name.len() <= COMMON_NAME_MAX);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name.unwrap_or_else(|| "Tidegate".into()));
        let (not_before, not_after) = validity(now, LEAF_LIFE, self.not_before, self.not_after);
        set_validity(&mut params, not_before, not_after);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(signing_failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(signing_failed)?;
        let chain: Vec<_> = std::iter::once(certificate.der().clone()).chain(self.chain.iter().cloned()).collect();
        let facts = CertificateFacts::read(&chain).map_err(|(_, problem)| CertError::Tls { problem })?;
        let key_der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signing_key = provider::provider().key_provider.load_private_key(key_der)?;
        let certified_key = Arc::new(CertifiedKey::new(chain, signing_key));
        Ok(LoadedCertificate { certified_key, facts: Arc::new(facts), staple: None })
    }

    /// The issuer's name is written anew into each leaf, so it has to come out byte for byte as the issuer has it.
    fn tried(self, own: &CertificateDer<'static>) -> Result<Signer, CertError> {
        let trial = self.issue(&[], self.not_before)?;
        let leaf = facts::parse(&trial.certified_key.cert[0]).map_err(|problem| CertError::Tls { problem })?;
        let own = facts::parse(own).map_err(|problem| CertError::Tls { problem })?;
        if leaf.issuer().as_raw() != own.subject().as_raw() {
            return Err(CertError::Tls { problem: "the internal CA's certificate was not made by tidegate".into() });
        }
        Ok(self)
    }
}

fn authority_params(common_name: &str, path_length: u8) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(path_length));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// The one common name, when it is all of the subject's that counts.
fn common_name(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Option<String> {
    match &certificate.subject().iter_common_name().map(AttributeTypeAndValue::as_str).collect::<Vec<_>>()[..] {
        [Ok(name)] => Some((*name).to_owned()),
        _ => None,
    }
}

fn bounded(name: &str) -> String {
    name.chars().take(COMMON_NAME_MAX).collect()
}

fn random_suffix() -> Result<String, CertError> {
    let mut bytes = [0; 4];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| CertError::Tls { problem: "the system gave no random bytes".into() })?;
    Ok(format!("{:08x}", u32::from_be_bytes(bytes)))
}

fn alternative_name(name: &CertificateName) -> Result<SanType, CertError> {
    match name {
        CertificateName::Ip(ip) => Ok(SanType::IpAddress(*ip)),
        CertificateName::Dns(dns) => {
            Ok(SanType::DnsName(dns.as_str().try_into().map_err(|_| CertError::ServerName { name: dns.clone() })?))
        }
    }
}

/// From a little before now, within the life of the issuer. A clock that stands before the issuer was made is wrong,
/// and what is issued then holds from the earliest time that it can be.
fn validity(
    now: Timestamp,
    life: jiff::SignedDuration,
    issuer_begin: Timestamp,
    issuer_end: Timestamp,
) -> (Timestamp, Timestamp) {
    let now = now.max(issuer_begin + BACKDATED);
    (now - BACKDATED, (now + life).min(issuer_end))
}

/// rcgen takes the type of the `time` crate, which is reached here without naming that crate: its own constructor plus
/// a `Duration`.
fn set_validity(params: &mut CertificateParams, not_before: Timestamp, not_after: Timestamp) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since_epoch = |at: Timestamp| Duration::from_secs(at.as_second().max(0) as u64);
    params.not_before = epoch + since_epoch(not_before);
    params.not_after = epoch + since_epoch(not_after);
}

fn signing_failed(error: rcgen::Error) -> CertError {
    CertError::Tls { problem: format!("a certificate could not be made: {error}") }
}
