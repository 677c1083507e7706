//! What servers are told of a client's connection besides its addresses, where `send-proxy-protocol` has `tlv=`. How a
//! header is written is in `wire`; what came in by one is read in `serve::introduced`.

use crate::connection::Connection;
use tidegate_model::{ProxyFact, ProxyProtocol};
use tidegate_transport::Sock;
use tidegate_wire::proxy_protocol::{CertificateSaid, Extensions, TlsSaid};

/// Of what is wanted, each where it is known. `id` is that of the log.
pub fn introduction<S: Sock>(connection: &Connection<S>, wanted: Option<ProxyProtocol>, id: &str) -> Option<Box<Extensions>> {
    let facts = wanted.map(ProxyProtocol::facts).filter(|facts| !facts.is_empty())?;
    let came = connection.introduction.as_deref();
    let mut extensions = Extensions::default();
    if let Some(tls) = connection.tls.as_ref().filter(|_| facts.has(ProxyFact::Alpn)) {
        extensions.alpn(if tls.h2 { b"h2" } else { b"http/1.1" });
    }
    if facts.has(ProxyFact::Authority) {
        let of_balancer = || came.map(|came| came.authority()).unwrap_or_default();
        extensions.authority(connection.server_name.as_deref().unwrap_or_else(of_balancer));
    }
    if facts.has(ProxyFact::UniqueId) {
        let of_balancer = came.map(|came| came.unique_id()).filter(|id| !id.is_empty());
        extensions.unique_id(of_balancer.unwrap_or(id.as_bytes()));
    }
    if let Some(tls) = connection.tls.as_ref().filter(|_| facts.has(ProxyFact::Tls)) {
        let certificate = connection.client_certificate.as_deref();
        let named = |certificate: &'_ tidegate_wire::ClientCertificate| certificate.facts()?.common_name.clone();
        let common_name = certificate.and_then(named);
        extensions.tls(TlsSaid {
            version: &format!("TLSv{}", tls.version),
            cipher: tls.cipher_suite,
            is_resumed: tls.resumed,
            certificate: certificate.map(|_| CertificateSaid { common_name: common_name.as_deref() }),
        });
    }
    if facts.has(ProxyFact::Checksum) {
        extensions.checksum();
    }
    Some(Box::new(extensions))
}
