//! One site's TLS settings and certificates as a rustls configuration.
//! Everything that costs something in a handshake or decides its security is set here by name, the default of rustls included.

use crate::error::CertError;
use crate::provider::provider_with;
use crate::site::SiteCertificates;
use crate::survivors::TlsSurvivors;
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};
use std::sync::Arc;
use tidegate_model::{Tls, TlsVersion};

/// As OpenSSL's servers do: browsers open a second connection soon after the first, and each TLS 1.3 ticket serves once.
pub const TLS13_TICKETS_PER_HANDSHAKE: usize = 2;

/// Offered when the site names no protocols.
pub const DEFAULT_ALPN: &[&str] = &["h2", "http/1.1"];

/// Builds the configuration of one site.
///
/// Fails when no cipher suite of `tls.ciphers` can be used from `tls.min_version` on.
pub fn server_config(
    tls: &Tls,
    certificates: Arc<SiteCertificates>,
    survivors: &TlsSurvivors,
) -> Result<Arc<ServerConfig>, CertError> {
    let provider = provider_with(&tls.ciphers);
    let versions = usable_versions(tls.min_version, &provider.cipher_suites);
    if versions.is_empty() {
        return Err(CertError::Tls { problem: "`ciphers` names only suites of TLS 1.2, but `min` asks for TLS 1.3".into() });
    }
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = if tls.alpn.is_empty() {
        DEFAULT_ALPN.iter().map(|name| name.as_bytes().to_vec()).collect()
    } else {
        tls.alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
    };
    // Our order, because OpenSSL's clients ask for AES-256 first whatever the hardware.
    config.ignore_client_order = true;
    // Resumption is by ticket only. A session cache would be a lock that all workers write to, for clients older than RFC 5077.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if tls.tickets {
        config.ticketer = survivors.ticketer.clone();
        config.send_tls13_tickets = TLS13_TICKETS_PER_HANDSHAKE;
    } else {
        config.send_tls13_tickets = 0;
    }
    // Early data can be replayed by anybody who saw it; it needs a decision per request that nobody has asked for.
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// A version is offered only if a suite of it is. Otherwise a client that has TLS 1.3 would be led into it, find no common suite
/// and fail, though both sides could have spoken TLS 1.2.
fn usable_versions(min_version: TlsVersion, suites: &[SupportedCipherSuite]) -> Vec<&'static SupportedProtocolVersion> {
    let has = |wanted: &'static SupportedProtocolVersion| suites.iter().any(|suite| suite.version() == wanted);
    let mut versions = Vec::with_capacity(2);
    if has(&rustls::version::TLS13) {
        versions.push(&rustls::version::TLS13);
    }
    if min_version == TlsVersion::V1_2 && has(&rustls::version::TLS12) {
        versions.push(&rustls::version::TLS12);
    }
    versions
}
