//! One site's TLS settings and certificates as a rustls configuration.
//! Everything that costs something in a handshake or decides its security is set here by name, the default of rustls
//! included.

use crate::client_trust::ClientTrust;
use crate::error::CertError;
use crate::process_state::TlsProcessState;
use crate::provider::provider_with;
use crate::site::SiteCertificates;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConfig};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};
use std::sync::Arc;
use tidegate_model::{Tls, TlsVersion};

/// As OpenSSL's servers do: browsers open a second connection soon after the first, and each TLS 1.3 ticket serves
/// once.
pub const TLS13_TICKETS_PER_HANDSHAKE: usize = 2;

/// Of early data, for each connection. Clients send a record of 16 KiB at most; the rest is for refusing it, since
/// rustls counts what it has to skip against this bound each time that it looks at it: twice when it came with the
/// ClientHello, and once more with the Finished.
pub const EARLY_DATA_BYTES_MAX: u32 = 48 << 10;

/// Offered when the site names no protocols.
pub const DEFAULT_ALPN: &[&str] = &["h2", "http/1.1"];

/// Builds the configuration of one site.
///
/// `clients` are those of `tls.client_auth`, which says where they are read from. Fails when no cipher suite of
/// `tls.ciphers` can be used from `tls.min_version` on.
pub fn server_config(
    tls: &Tls,
    certificates: Arc<SiteCertificates>,
    clients: Option<&ClientTrust>,
    state: &TlsProcessState,
) -> Result<Arc<ServerConfig>, CertError> {
    let provider = provider_with(&tls.ciphers);
    let versions = usable_versions(tls.min_version, &provider.cipher_suites);
    if versions.is_empty() {
        return Err(CertError::Tls { problem: "`ciphers` names only suites of TLS 1.2, but `min` asks for TLS 1.3".into() });
    }
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(trust) => builder.with_client_cert_verifier(trust.verifier.clone()),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = if tls.alpn.is_empty() {
        DEFAULT_ALPN.iter().map(|name| name.as_bytes().to_vec()).collect()
    } else {
        tls.alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
    };
    // Our order, because OpenSSL's clients ask for AES-256 first whatever the hardware.
    config.ignore_client_order = true;
    // By ticket only: with both, rustls also stores the sessions of those who take tickets. Others get
    // `session_id_config`.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if tls.tickets {
        config.ticketer = match clients {
            None => state.tickets.shared(),
            // A resumed session is not verified again: one that began under other authorities, or none, must not go on
            // here.
            Some(trust) => state.tickets.for_policy(&trust.digest),
        };
        config.send_tls13_tickets = TLS13_TICKETS_PER_HANDSHAKE;
    } else {
        config.send_tls13_tickets = 0;
    }
    // For who asks for it there is `early_data_config`.
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// Settings for clients of TLS 1.3 where the site takes early data, `None` where it does not. What was recorded of a
/// client could be sent again, so sessions are kept here and each serves once (RFC 8446 section 8.1); a ticket that
/// carries its own session serves whoever brings it, as often as he does. The rest is seen to by rustls: the ticket is
/// young (section 8.3), the first one offered, and suite and protocol are the same.
pub fn early_data_config(tls: &Tls, usual: &ServerConfig, state: &TlsProcessState) -> Option<Arc<ServerConfig>> {
    // Both are errors of a configuration that comes from text. A session that goes on without its certificate being
    // looked at must not send requests before anything else of it is known either.
    if !tls.early_data || !tls.tickets || tls.client_auth.is_some() {
        return None;
    }
    let mut config = usual.clone();
    config.ticketer = Arc::new(NeverTickets);
    config.session_storage = state.early_data_sessions.shared();
    config.max_early_data_size = EARLY_DATA_BYTES_MAX;
    // Answers to early requests go out before the client's Finished; without, nothing would be won.
    config.send_half_rtt_data = true;
    Some(Arc::new(config))
}

/// Settings for clients of TLS 1.2 that take no tickets: the server keeps their sessions. `None` where nobody resumes,
/// or nobody speaks TLS 1.2.
pub fn session_id_config(tls: &Tls, usual: &ServerConfig, state: &TlsProcessState) -> Option<Arc<ServerConfig>> {
    let has_tls12 = usual.crypto_provider().cipher_suites.iter().any(|suite| suite.version() == &rustls::version::TLS12);
    if !tls.tickets || tls.min_version > TlsVersion::V1_2 || !has_tls12 {
        return None;
    }
    let mut config = usual.clone();
    config.ticketer = Arc::new(NeverTickets);
    config.session_storage = state.sessions.shared();
    Some(Arc::new(config))
}

#[derive(Debug)]
struct NeverTickets;

impl ProducesTickets for NeverTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _cipher: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// A version is offered only if a suite of it is. Otherwise a client that has TLS 1.3 would be led into it, find no
/// common suite and fail, though both sides could have spoken TLS 1.2.
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
