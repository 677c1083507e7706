//! TLS towards upstream servers: whom to trust, what to show of ourselves, and the name to ask for.
//! Verified unless the configuration says otherwise. Connecting is `transport`'s work.

use crate::any_certificate::AnyCertificate;
use crate::error::CertError;
use crate::files::{LoadedCertificate, chain_of, read_pem};
use crate::process_state::TlsProcessState;
use crate::provider::provider;
use crate::trust::roots_of;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientConfig, Resumption};
use rustls::sign::SingleCertAndKey;
use rustls_pki_types::ServerName;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_model::{Certificate, TcpAddress, UpstreamTls};
use tidegate_outbound::{NamedCertificates, trusted_roots};

/// Sessions remembered for each client configuration, by server name; the least recently added goes first.
pub const UPSTREAM_SESSIONS_MAX: usize = 256;

/// The configuration for connecting with these settings, offering these protocols in this order.
///
/// As long as settings and the contents of the named files are the same, the same configuration comes back over
/// reloads, with the sessions that its connections collected: rustls resumes a session only under the verifier that saw
/// it begin.
pub fn upstream_client_config(
    tls: &UpstreamTls,
    alpn: &[&[u8]],
    state: &TlsProcessState,
) -> Result<Arc<ClientConfig>, CertError> {
    let key =
        UpstreamKey { tls: tls.clone(), alpn: alpn.iter().map(|name| name.to_vec()).collect(), files_digest: files_digest(tls)? };
    let mut configs = state.upstream_configs.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(config) = configs.get(&key) {
        return Ok(config.clone());
    }
    let config = Arc::new(build(tls, &key.alpn)?);
    // What no pool holds any more is from settings that are gone.
    configs.retain(|_, config| Arc::strong_count(config) > 1);
    configs.insert(key, config.clone());
    Ok(config)
}

/// The name to ask for (SNI) and to verify: the one configured, else the address's host.
pub fn upstream_server_name(address: &TcpAddress, tls: &UpstreamTls) -> Result<ServerName<'static>, CertError> {
    let name = tls.sni.as_deref().unwrap_or(&address.host);
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(ServerName::from(ip));
    }
    ServerName::try_from(name.to_owned()).map_err(|_| CertError::ServerName { name: name.to_owned() })
}

/// Client configurations by what they were made from.
#[derive(Default)]
pub(crate) struct UpstreamConfigs(Mutex<HashMap<UpstreamKey, Arc<ClientConfig>>>);

#[derive(PartialEq, Eq, Hash)]
struct UpstreamKey {
    tls: UpstreamTls,
    alpn: Vec<Vec<u8>>,
    files_digest: [u8; 32],
}

/// Everything that the named files say, so that a renewed one under the same name makes a new configuration.
fn files_digest(tls: &UpstreamTls) -> Result<[u8; 32], CertError> {
    let certificate = tls.client_certificate.as_ref().map(|(cert, key)| [cert, key]);
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for file in tls.ca.iter().chain(certificate.into_iter().flatten()) {
        let bytes = read_pem(file)?;
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(&bytes);
    }
    Ok(context.finish().as_ref().try_into().expect("SHA-256 gives 32 bytes"))
}

fn build(tls: &UpstreamTls, alpn: &[Vec<u8>]) -> Result<ClientConfig, CertError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let verifier: Arc<dyn ServerCertVerifier> = if tls.verify {
        let (roots, named) = match &tls.ca {
            Some(ca) => (Arc::new(roots_of(ca)?), chain_of(ca)?),
            None => (trusted_roots(), Vec::new()),
        };
        let verifier = NamedCertificates::new(roots, named, provider);
        Arc::new(verifier.map_err(|error| CertError::Tls { problem: error.to_string() })?)
    } else {
        // `verify=#false`: anybody on the path can be the upstream. What is still checked is that the peer holds the
        // key of the certificate it shows, without which the handshake would not even be one.
        Arc::new(AnyCertificate::of_whoever_has_its_key())
    };
    // `dangerous` because a verifier is given at all; with `verify` on it asks rustls's own.
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match &tls.client_certificate {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let loaded = LoadedCertificate::load(&Certificate { cert: cert.clone(), key: Some(key.clone()) })?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(loaded.certified_key)))
        }
    };
    config.alpn_protocols = alpn.to_vec();
    config.resumption = Resumption::in_memory_sessions(UPSTREAM_SESSIONS_MAX);
    Ok(config)
}
