//! One handshake as a CA makes it for `tls-alpn-01` (RFC 8737): the answer must speak `acme-tls/1` and show a
//! certificate with our digest. Nobody is trusted by it: who has the digest is us, since it was drawn at random a
//! moment ago.

use crate::preflight::verdict::ProbeAnswer;
use rustls::{ClientConfig, Error};
use rustls_pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tidegate_certs::{AnyCertificate, provider};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const ALPN: &[u8] = b"acme-tls/1";

pub async fn ask(at: SocketAddr, server_name: &str, digest: &[u8; 32]) -> ProbeAnswer {
    let (Some(config), Ok(name)) = (config(), ServerName::try_from(server_name.to_owned())) else {
        return ProbeAnswer::None("the handshake cannot be made".into());
    };
    let stream = match TcpStream::connect(at).await {
        Ok(stream) => stream,
        Err(error) => return ProbeAnswer::None(error.to_string()),
    };
    match TlsConnector::from(config).connect(name, stream).await {
        Ok(stream) => {
            let (_, connection) = stream.get_ref();
            let leaf = connection.peer_certificates().and_then(|chain| chain.first());
            let has_digest = leaf.is_some_and(|leaf| leaf.windows(digest.len()).any(|window| window == digest));
            match (connection.alpn_protocol() == Some(ALPN), has_digest) {
                (true, true) => ProbeAnswer::Ours,
                (true, false) => ProbeAnswer::Another("it answers challenges with another certificate".into()),
                (false, _) => ProbeAnswer::Another("it does not speak acme-tls/1".into()),
            }
        }
        Err(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            // A server that does not know the protocol ends the handshake with an alert, as it should.
            Some(Error::AlertReceived(_)) => ProbeAnswer::Another("it refuses acme-tls/1".into()),
            Some(problem) => ProbeAnswer::Another(format!("its TLS cannot be read: {problem}")),
            None => ProbeAnswer::None(format!("the TLS handshake was broken off: {error}")),
        },
    }
}

fn config() -> Option<Arc<ClientConfig>> {
    static CONFIG: OnceLock<Option<Arc<ClientConfig>>> = OnceLock::new();
    let build = || {
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().ok()?;
        // The certificate of a challenge is self-signed, and its extension is critical and none that verifiers know.
        // The digest is proof enough.
        let verifier = Arc::new(AnyCertificate::of_anybody());
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Some(Arc::new(config))
    };
    CONFIG.get_or_init(build).clone()
}
