//! Connections to upstreams: whom they trust, and what of them is kept.

use super::support::{Connected, TinyCa, certificates, handshake, write};
use crate::error::CertError;
use crate::process_state::TlsProcessState;
use crate::server::server_config;
use crate::upstream::{upstream_client_config, upstream_server_name};
use rustls::{HandshakeKind, ServerConfig};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_model::{TcpAddress, Tls, UpstreamTls};

struct World {
    dir: TempDir,
    ca: TinyCa,
    state: TlsProcessState,
    server: Arc<ServerConfig>,
}

impl World {
    fn new() -> World {
        let dir = TempDir::new().expect("a folder");
        let ca = TinyCa::new();
        let state = TlsProcessState::new(dir.path().to_owned()).expect("state");
        let pair = ca.issue(&["api.internal", "127.0.0.1"]).write(&dir, "upstream");
        let server = server_config(&Tls::default(), certificates(&[pair]), None, &state).expect("a configuration");
        write(&dir, "ca.pem", ca.certificate.pem());
        write(&dir, "other-ca.pem", TinyCa::new().certificate.pem());
        World { dir, ca, state, server }
    }

    fn tls(&self, ca: Option<&str>, verify: bool) -> UpstreamTls {
        UpstreamTls { ca: ca.map(|name| self.dir.path().join(name).into()), verify, ..UpstreamTls::default() }
    }

    fn connect(&self, tls: &UpstreamTls, name: &str) -> Result<Connected, rustls::Error> {
        let config = upstream_client_config(tls, &[b"h2", b"http/1.1"], &self.state).expect("a configuration");
        handshake(&config, &self.server, name)
    }
}

#[test]
fn an_upstream_is_verified_unless_that_is_turned_off() {
    let world = World::new();
    let check = |ca: Option<&str>, verify: bool, name: &str, expected: bool| {
        let seen = world.connect(&world.tls(ca, verify), name);
        assert_eq!(seen.is_ok(), expected, "with {ca:?}, verify {verify}, as {name}: {:?}", seen.err());
    };
    check(Some("ca.pem"), true, "api.internal", true);
    check(Some("ca.pem"), true, "127.0.0.1", true);
    check(Some("ca.pem"), true, "other.internal", false);
    check(Some("other-ca.pem"), true, "api.internal", false);
    check(None, true, "api.internal", false);
    check(None, false, "api.internal", true);
    check(None, false, "other.internal", true);
    check(Some("other-ca.pem"), false, "api.internal", true);
}

#[test]
fn the_same_settings_keep_their_sessions_and_other_settings_do_not_inherit_them() {
    let world = World::new();
    let kind = |tls: &UpstreamTls| world.connect(tls, "api.internal").expect("a connection").client.handshake_kind();
    let verified = world.tls(Some("ca.pem"), true);
    let unverified = world.tls(Some("ca.pem"), false);
    assert_eq!(kind(&unverified), Some(HandshakeKind::Full));
    assert_eq!(kind(&unverified), Some(HandshakeKind::Resumed));
    assert_eq!(kind(&verified), Some(HandshakeKind::Full), "a session that began unverified must not spare the verification");
    let held = upstream_client_config(&verified, &[b"h2", b"http/1.1"], &world.state).expect("a configuration");
    assert_eq!(kind(&verified), Some(HandshakeKind::Resumed));

    // The same file with the old root and one more: another trust, so another configuration.
    let both = format!("{}{}", world.ca.certificate.pem(), TinyCa::new().certificate.pem());
    write(&world.dir, "ca.pem", both);
    assert_eq!(kind(&verified), Some(HandshakeKind::Full));
    let renewed = upstream_client_config(&verified, &[b"h2", b"http/1.1"], &world.state).expect("a configuration");
    assert!(!Arc::ptr_eq(&held, &renewed));
    let other_alpn = upstream_client_config(&verified, &[b"http/1.1"], &world.state).expect("a configuration");
    assert!(!Arc::ptr_eq(&other_alpn, &renewed));
    assert_eq!(other_alpn.alpn_protocols, [b"http/1.1".to_vec()]);
}

#[test]
fn a_client_certificate_is_shown_to_an_upstream_that_asks() {
    let world = World::new();
    let own = world.ca.issue(&["tidegate.internal"]);
    let pair = own.write(&world.dir, "client");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(world.ca.certificate.der().clone()).expect("a usable root");
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crate::provider())
        .build()
        .expect("a verifier");
    let upstream = world.ca.issue(&["api.internal"]);
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(upstream.key.serialize_der());
    let asking = ServerConfig::builder_with_provider(crate::provider())
        .with_safe_default_protocol_versions()
        .expect("usable versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![upstream.certificate.der().clone()], key.into())
        .expect("a usable pair");
    let without = world.tls(Some("ca.pem"), true);
    let with = UpstreamTls { client_certificate: pair.key.map(|key| (pair.cert, key)), ..without.clone() };
    let asking = Arc::new(asking);
    let connect = |tls: &UpstreamTls| {
        let config = upstream_client_config(tls, &[], &world.state).expect("a configuration");
        handshake(&config, &asking, "api.internal")
    };
    let connected = connect(&with).expect("a connection");
    assert_eq!(connected.server.peer_certificates(), Some(&[own.certificate.der().clone()][..]));
    assert!(connect(&without).is_err());
}

#[test]
fn the_name_to_verify_is_the_configured_one_or_the_address() {
    let check = |address: &str, sni: Option<&str>, expected: &str| {
        let address = TcpAddress::parse(address).expect("a valid address");
        let tls = UpstreamTls { sni: sni.map(str::to_owned), ..UpstreamTls::default() };
        let seen = upstream_server_name(&address, &tls).map_or_else(|error| error.to_string(), |name| name.to_str().into_owned());
        assert_eq!(seen, expected, "for {address} with {sni:?}");
    };
    check("https://api.internal", None, "api.internal");
    check("https://10.0.0.4", None, "10.0.0.4");
    check("https://[::1]:8443", None, "::1");
    check("https://10.0.0.4", Some("api.internal"), "api.internal");
    check("https://api.internal", Some("10.0.0.4"), "10.0.0.4");
    check("https://my_service:443", None, "my_service");
    check("https://10.0.0.4", Some("not a name"), "`not a name` is neither a host name nor an IP address");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let world = World::new();
    let check = |tls: &UpstreamTls, expected: &str| {
        let error: CertError = upstream_client_config(tls, &[], &world.state).expect_err("an unusable file");
        assert_eq!(error.message().replace(&format!("{}/", world.dir.path().display()), ""), expected);
    };
    check(&world.tls(Some("missing.pem"), true), "cannot read missing.pem: there is no such file");
    write(&world.dir, "empty.pem", "");
    check(&world.tls(Some("empty.pem"), true), "empty.pem holds nothing in PEM form, not a certificate");
    let pair = world.ca.issue(&["a.test"]).write(&world.dir, "client");
    let other = world.ca.issue(&["a.test"]).write(&world.dir, "other");
    let mixed = UpstreamTls { client_certificate: other.key.map(|key| (pair.cert, key)), ..UpstreamTls::default() };
    check(&mixed, "the key in other.key does not belong to the certificate in client.crt");
}
