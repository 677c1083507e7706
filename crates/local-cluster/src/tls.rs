//! TLS on the side of the tests: configurations of scripted clients and upstreams, from the authority's files.

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a client accepts and offers.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// `1.2` or `1.3`, the only one spoken.
    pub versions: Vec<String>,
    pub alpn: Vec<Vec<u8>>,
    /// `rsa` or `ecdsa`: the only signatures accepted.
    pub only: Option<String>,
    pub send_sni: bool,
    /// PEM file with a chain and its key, shown to servers that ask for one.
    pub certificate: Option<PathBuf>,
}

/// A client that trusts `root`, or anything when there is none.
pub fn client_config(root: Option<&CertificateDer<'static>>, options: &ClientOptions) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let versions: Vec<&'static SupportedProtocolVersion> = if options.versions.is_empty() {
        rustls::DEFAULT_VERSIONS.to_vec()
    } else {
        options.versions.iter().map(|name| version(name)).collect::<Result<_, _>>()?
    };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(|error| error.to_string())?;
    let builder = match (root, &options.only) {
        (Some(root), None) => {
            let mut roots = RootCertStore::empty();
            roots.add(root.clone()).map_err(|error| error.to_string())?;
            builder.with_root_certificates(roots)
        }
        (_, only) => {
            let schemes = schemes(&provider, only.as_deref());
            builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustsAnyone { provider, schemes }))
        }
    };
    let mut config = match &options.certificate {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let (chain, key) = chain_and_key(file, file)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
        }
    };
    config.alpn_protocols.clone_from(&options.alpn);
    config.enable_sni = options.send_sni;
    config.resumption = Resumption::in_memory_sessions(64);
    Ok(config)
}

/// The first certificate of a PEM file.
pub fn root_of_file(path: &Path) -> Result<CertificateDer<'static>, String> {
    CertificateDer::from_pem_file(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A server that shows the certificate of these files, and with a `client_root` demands one that it signed.
pub fn server_config(
    cert: &Path,
    key: &Path,
    alpn: &[Vec<u8>],
    client_root: Option<&CertificateDer<'static>>,
) -> Result<ServerConfig, String> {
    let (chain, key) = chain_and_key(cert, key)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match client_root {
        None => builder.with_no_client_auth(),
        Some(root) => {
            let mut roots = RootCertStore::empty();
            roots.add(root.clone()).map_err(|error| error.to_string())?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| error.to_string())?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| error.to_string())?;
    config.alpn_protocols = alpn.to_vec();
    Ok(config)
}

fn chain_and_key(cert: &Path, key: &Path) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("{}: {error}", cert.display()))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| format!("{}: {error}", key.display()))?;
    Ok((chain, key))
}

fn version(name: &str) -> Result<&'static SupportedProtocolVersion, String> {
    match name {
        "1.2" => Ok(&rustls::version::TLS12),
        "1.3" => Ok(&rustls::version::TLS13),
        other => Err(format!("`{other}` is no TLS version that the tests speak")),
    }
}

fn schemes(provider: &CryptoProvider, only: Option<&str>) -> Vec<SignatureScheme> {
    let all = provider.signature_verification_algorithms.supported_schemes();
    all.into_iter()
        .filter(|scheme| {
            let name = format!("{scheme:?}");
            only.is_none_or(|only| if only == "rsa" { name.starts_with("RSA") } else { name.starts_with("ECDSA") })
        })
        .collect()
}

/// Checks signatures but not names and chains: for certificates that the proxy makes itself.
#[derive(Debug)]
struct TrustsAnyone {
    provider: Arc<CryptoProvider>,
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for TrustsAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
