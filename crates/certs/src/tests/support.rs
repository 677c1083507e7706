//! A tiny CA, certificate files, sites, and a TLS handshake between two rustls connections in memory.

use crate::provider::provider;
use crate::site::{ServedFiles, SiteCertificates};
use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SignatureAlgorithm};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, ServerName};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_model::{Certificate, RouteOptions, Site, SiteAddress, Tls, TlsSource};

pub struct TinyCa {
    issuer: Issuer<'static, KeyPair>,
    pub certificate: rcgen::Certificate,
}

pub struct Pair {
    pub certificate: rcgen::Certificate,
    pub key: KeyPair,
}

impl TinyCa {
    pub fn new() -> TinyCa {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "tiny CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        TinyCa { issuer: Issuer::new(params, key), certificate }
    }

    pub fn issue(&self, names: &[&str]) -> Pair {
        self.issue_with(names, &rcgen::PKCS_ECDSA_P256_SHA256, |_| {})
    }

    pub fn issue_with(
        &self,
        names: &[&str],
        algorithm: &'static SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("valid names");
        change(&mut params);
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { certificate, key }
    }
}

impl Pair {
    pub fn write(&self, dir: &TempDir, name: &str) -> Certificate {
        Certificate {
            cert: write(dir, &format!("{name}.crt"), self.certificate.pem()).into(),
            key: Some(write(dir, &format!("{name}.key"), self.key.serialize_pem()).into()),
        }
    }
}

pub fn write(dir: &TempDir, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, contents).expect("a writable folder");
    path
}

pub fn pem(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for chunk in line.chunks(3) {
            let bits = (0..3).fold(0u32, |bits, index| bits << 8 | u32::from(*chunk.get(index).unwrap_or(&0)));
            let digits = (0..4).map(|index| ALPHABET[(bits >> (18 - 6 * index) & 63) as usize] as char);
            text.extend(digits.take(chunk.len() + 1));
            text.extend(std::iter::repeat_n('=', 3 - chunk.len()));
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

pub fn site(addresses: &[&str], source: TlsSource) -> Site {
    Site {
        origin: None,
        addresses: addresses.iter().map(|text| SiteAddress::parse(text).expect("a valid address")).collect(),
        tls: Tls { source, ..Tls::default() },
        options: RouteOptions::default(),
        steps: Vec::new(),
        routes: Vec::new(),
    }
}

pub fn now() -> Timestamp {
    // Whole seconds, as certificates have them.
    Timestamp::from_second(Timestamp::now().as_second()).expect("now is in range")
}

pub fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}

pub fn certificates(pairs: &[Certificate]) -> Arc<SiteCertificates> {
    SiteCertificates::from_files(pairs, None, &ServedFiles::new(), Timestamp::now()).expect("usable certificates")
}

/// A client that trusts this root and offers these versions, to be changed further before it is shared.
pub fn client(root: &CertificateDer<'static>, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a usable root");
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .expect("usable versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A client with a certificate of its own to show.
pub fn client_with_certificate(
    root: &CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
    chain: Vec<CertificateDer<'static>>,
    key: &KeyPair,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a usable root");
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions).expect("usable versions");
    Arc::new(builder.with_root_certificates(roots).with_client_auth_cert(chain, key).expect("a usable certificate"))
}

pub const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
pub const TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

pub struct Connected {
    pub client: ClientConnection,
    pub server: ServerConnection,
}

/// Runs the handshake to its end, tickets included. `Err` is what the client saw, or the server where the client saw
/// nothing wrong.
pub fn handshake(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>, name: &str) -> Result<Connected, rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).expect("a valid name");
    let mut client = ClientConnection::new(client.clone(), name)?;
    let mut server = ServerConnection::new(server.clone())?;
    // Both rounds of a TLS 1.2 handshake, tickets and alerts included, are over long before.
    for _ in 0..8 {
        let mut flight = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut flight).expect("writing to memory");
        }
        let mut reader = &flight[..];
        while !reader.is_empty() {
            server.read_tls(&mut reader).expect("reading from memory");
        }
        let served = server.process_new_packets();
        let mut flight = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut flight).expect("writing to memory");
        }
        let mut reader = &flight[..];
        while !reader.is_empty() {
            client.read_tls(&mut reader).expect("reading from memory");
        }
        client.process_new_packets()?;
        served?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking(), "the handshake did not end");
    Ok(Connected { client, server })
}

pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).expect("an existing file").permissions().mode() & 0o777
}
