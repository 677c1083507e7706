//! Certificates that were obtained from a public CA, by name: put here by the control thread, found here by handshakes
//! of any site. Who obtains them is in the crate `acme`; what a site serves until there is one, in `site.rs`.

use crate::error::CertError;
use crate::facts::{CertificateFacts, CertificateName};
use crate::files::LoadedCertificate;
use crate::provider::provider;
use crate::staple::{StapleSlot, Staples};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What the ALPN of `tls-alpn-01` is (RFC 8737 section 6.2).
const ACME_TLS: &[u8] = b"acme-tls/1";

/// The process's table of obtained certificates. Written when one comes or goes; a handshake reads it once.
#[derive(Debug)]
pub struct ObtainedCertificates {
    /// By name in lower case; wildcards with their `*`, addresses as they are written.
    table: RwLock<HashMap<Box<str>, LoadedCertificate>>,
    staples: Arc<Staples>,
    /// Whether any site staples to them.
    are_stapled: AtomicBool,
}

impl ObtainedCertificates {
    pub fn new(staples: Arc<Staples>) -> ObtainedCertificates {
        ObtainedCertificates { table: RwLock::default(), staples, are_stapled: AtomicBool::new(false) }
    }

    /// From the next handshake on. Says what was there before.
    pub fn put(&self, name: &str, certificate: LoadedCertificate) -> Option<Arc<CertificateFacts>> {
        let certificate = if self.are_stapled() { self.attach(certificate) } else { certificate };
        let before = self.table.write().unwrap_or_else(PoisonError::into_inner).insert(name.into(), certificate);
        before.map(|before| before.facts)
    }

    pub fn remove(&self, name: &str) {
        self.table.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Whether responders are asked about them, those that are there included.
    pub fn set_stapled(&self, are_stapled: bool) {
        if self.are_stapled.swap(are_stapled, Ordering::AcqRel) == are_stapled {
            return;
        }
        for certificate in self.table.write().unwrap_or_else(PoisonError::into_inner).values_mut() {
            let plain = LoadedCertificate { staple: None, ..certificate.clone() };
            *certificate = if are_stapled { self.attach(plain) } else { plain };
        }
    }

    /// A responder may have said of it before that it is revoked, when other names had it.
    fn attach(&self, certificate: LoadedCertificate) -> LoadedCertificate {
        let certificate = self.staples.attach(certificate);
        if let Some(slot) = certificate.staple.as_ref().filter(|slot| slot.is_revoked()) {
            self.staples.note_revoked(slot);
        }
        certificate
    }

    pub fn are_stapled(&self) -> bool {
        self.are_stapled.load(Ordering::Acquire)
    }

    pub fn get(&self, name: &str) -> Option<LoadedCertificate> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The names that are served with the certificate of this slot. One that was imported may be for several.
    pub fn names_of(&self, slot: &Arc<StapleSlot>) -> Vec<String> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let is_of = |certificate: &LoadedCertificate| certificate.staple.as_ref().is_some_and(|known| Arc::ptr_eq(known, slot));
        table.iter().filter(|(_, certificate)| is_of(certificate)).map(|(name, _)| name.to_string()).collect()
    }

    /// For a name as a ClientHello has it: its own certificate before that of the wildcard above it.
    pub fn find(&self, server_name: &str, is_stapled: bool) -> Option<Arc<CertifiedKey>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        if table.is_empty() {
            return None;
        }
        let lower;
        let name = if server_name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            lower = server_name.to_ascii_lowercase();
            &lower
        } else {
            server_name
        };
        of_name(&table, name).map(|loaded| served(loaded, is_stapled))
    }

    /// The first of the names that has one, for clients that send no name.
    pub fn find_first(&self, names: &[CertificateName], is_stapled: bool) -> Option<Arc<CertifiedKey>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        if table.is_empty() {
            return None;
        }
        names.iter().find_map(|name| of_name(&table, &name.to_string())).map(|loaded| served(loaded, is_stapled))
    }
}

/// Its own, or that of the wildcard above it.
fn of_name<'t>(table: &'t HashMap<Box<str>, LoadedCertificate>, name: &str) -> Option<&'t LoadedCertificate> {
    let of_wildcard = || name.split_once('.').and_then(|(_, parent)| table.get(format!("*.{parent}").as_str()));
    table.get(name).or_else(of_wildcard)
}

fn served(certificate: &LoadedCertificate, is_stapled: bool) -> Arc<CertifiedKey> {
    if is_stapled { certificate.served() } else { certificate.certified_key.clone() }
}

/// What the handshake of a `tls-alpn-01` challenge is made with (RFC 8737 section 3): a certificate for the name alone,
/// signed by itself, with the digest of the key authorization in it.
pub fn challenge_config(name: &CertificateName, digest: [u8; 32]) -> Result<Arc<ServerConfig>, CertError> {
    let failed = |error: rcgen::Error| CertError::Tls { problem: format!("a certificate could not be made: {error}") };
    let mut params = CertificateParams::new(vec![name.to_string()]).map_err(failed)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&digest)];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let key_der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let signing_key = provider().key_provider.load_private_key(key_der)?;
    let certified_key = CertifiedKey::new(vec![certificate.der().clone()], signing_key);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(OnlyOne(Arc::new(certified_key))));
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// What rustls has for this reads the certificate first, and stops at the extension, which is critical.
#[derive(Debug)]
struct OnlyOne(Arc<CertifiedKey>);

impl ResolvesServerCert for OnlyOne {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}
