//! Certificates that were obtained: which one a name gets, what stands in until there is one, and the handshake of a
//! challenge.

use super::support::{TLS13, TinyCa, client, handshake, site};
use crate::facts::CertificateName;
use crate::files::LoadedCertificate;
use crate::obtained::challenge_config;
use crate::process_state::TlsProcessState;
use crate::provider::provider;
use crate::server::server_config;
use crate::site::{ServedFiles, SiteCertificates};
use jiff::Timestamp;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_model::TlsSource;
use x509_parser::prelude::{FromDer, X509Certificate};

struct World {
    _dir: TempDir,
    ca: TinyCa,
    state: TlsProcessState,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl World {
    fn new(addresses: &[&str]) -> World {
        let dir = TempDir::new().expect("a folder");
        let state = TlsProcessState::new(dir.path().to_owned()).expect("state");
        let ca = TinyCa::new();
        let site = site(addresses, TlsSource::Automatic);
        let certificates =
            SiteCertificates::load(&site, &state, &ServedFiles::new(), Timestamp::now()).expect("certificates").expect("TLS");
        let server = server_config(&site.tls, certificates, None, &state).expect("a configuration");
        let mut client = client(ca.certificate.der(), TLS13);
        // A session that is resumed shows no certificate.
        client.resumption = Resumption::disabled();
        let client = Arc::new(client);
        World { _dir: dir, ca, state, client, server }
    }

    fn obtain(&self, name: &str) {
        let pair = self.ca.issue(&[name]);
        let pem = format!("{}{}", pair.certificate.pem(), pair.key.serialize_pem());
        let loaded = LoadedCertificate::from_pem((Path::new("storage"), pem.as_bytes()), None).expect("a certificate");
        self.state.obtained.put(name, loaded);
    }

    fn is_trusted(&self, name: &str) -> bool {
        handshake(&self.client, &self.server, name).is_ok()
    }
}

#[test]
fn a_name_gets_its_own_certificate_then_that_of_the_wildcard_then_the_internal_cas() {
    let world = World::new(&["a.example.com", "*.example.com"]);
    assert!(!world.is_trusted("a.example.com"), "the internal CA stands in");
    world.obtain("*.example.com");
    assert!(world.is_trusted("a.example.com"));
    assert!(world.is_trusted("B.example.com"));
    world.obtain("b.example.com");
    assert!(world.is_trusted("b.example.com"));
    world.state.obtained.remove("*.example.com");
    assert!(!world.is_trusted("a.example.com"));
    assert!(world.is_trusted("b.example.com"));
}

#[test]
fn the_certificate_of_a_challenge_has_the_digest_and_no_other_name() {
    let name = CertificateName::Dns("a.example.com".into());
    let config = challenge_config(&name, [7; 32]).expect("a configuration");
    let certificate = shown_by(&config);
    let (_, parsed) = X509Certificate::from_der(&certificate).expect("a certificate");
    let identifier = x509_parser::oid_registry::Oid::from(&[1, 3, 6, 1, 5, 5, 7, 1, 31]).expect("an OID");
    let extension = parsed.get_extension_unique(&identifier).expect("no duplicates").expect("the extension");
    assert!(extension.critical);
    assert_eq!(extension.value[..2], [4, 32], "an octet string");
    assert_eq!(extension.value[2..], [7; 32]);
    let names = parsed.subject_alternative_name().expect("no duplicates").expect("names");
    assert_eq!(names.value.general_names.len(), 1);
}

fn shown_by(config: &Arc<ServerConfig>) -> CertificateDer<'static> {
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("usable versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TrustsAnybody))
        .with_no_client_auth();
    client.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let connected = handshake(&Arc::new(client), config, "a.example.com").expect("a handshake");
    assert_eq!(connected.client.alpn_protocol(), Some(&b"acme-tls/1"[..]));
    connected.client.peer_certificates().expect("a certificate")[0].clone().into_owned()
}

/// As a CA does: what a certificate that signed itself says is looked at, not who signed it.
#[derive(Debug)]
struct TrustsAnybody;

impl ServerCertVerifier for TrustsAnybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
