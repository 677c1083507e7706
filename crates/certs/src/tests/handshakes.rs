//! What clients get: real handshakes against the configurations that a site's settings make.

use super::support::{Connected, TLS12, TLS13, TinyCa, certificates, client, handshake};
use crate::process_state::TlsProcessState;
use crate::provider::provider_with;
use crate::server::{early_data_config, server_config};
use crate::site::{Renewal, SiteCertificates};
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{
    AlertDescription, CipherSuite, ClientConfig, Error, HandshakeKind, NamedGroup, ProtocolVersion, ServerConfig,
    SignatureAlgorithm, SignatureScheme,
};
use std::io::Write as _;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_model::{Certificate, CipherName, ClientAuth, ClientAuthMode, Tls, TlsVersion};

struct World {
    dir: TempDir,
    ca: TinyCa,
    state: TlsProcessState,
}

impl World {
    fn new() -> World {
        let dir = TempDir::new().expect("a folder");
        let state = TlsProcessState::new(dir.path().to_owned()).expect("state");
        World { dir, ca: TinyCa::new(), state }
    }

    fn pair(&self, name: &str) -> Certificate {
        self.ca.issue(&[name]).write(&self.dir, name)
    }

    fn rsa_pair(&self, name: &str) -> Certificate {
        self.ca.issue_with(&[name], &rcgen::PKCS_RSA_SHA256, |_| {}).write(&self.dir, &format!("{name}-rsa"))
    }

    fn server(&self, tls: &Tls, pairs: &[Certificate]) -> Arc<ServerConfig> {
        server_config(tls, certificates(pairs), None, &self.state).expect("a configuration")
    }

    fn client(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
        client(self.ca.certificate.der(), versions)
    }

    /// A client whose provider was changed, with every version that it then has suites for.
    fn client_with(&self, change: impl FnOnce(&mut CryptoProvider)) -> ClientConfig {
        let mut provider = CryptoProvider::clone(&provider_with(&[]));
        change(&mut provider);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.ca.certificate.der().clone()).expect("a usable root");
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("usable versions")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

fn leaf_of(connected: &Connected) -> Vec<u8> {
    connected.client.peer_certificates().and_then(<[_]>::first).expect("a server certificate").to_vec()
}

#[test]
fn ecdsa_is_shown_to_those_who_can_and_rsa_to_the_rest() {
    let world = World::new();
    let check = |pairs: &[Certificate], suites: &[CipherName], expected: SignatureAlgorithm| {
        let config = world.server(&Tls::default(), pairs);
        let provider = provider_with(suites);
        let client = Arc::new(world.client_with(|changed| changed.cipher_suites.clone_from(&provider.cipher_suites)));
        let connected = handshake(&client, &config, "a.test").unwrap_or_else(|error| panic!("{suites:?}: {error}"));
        let shown = leaf_of(&connected);
        let current = certificates(pairs).current();
        let algorithm = current
            .all()
            .iter()
            .find(|loaded| *loaded.certified_key.cert[0] == *shown)
            .map(|loaded| loaded.certified_key.key.algorithm());
        assert_eq!(algorithm, Some(expected), "for {suites:?}");
    };
    let (ecdsa, rsa) = (world.pair("a.test"), world.rsa_pair("a.test"));
    for pairs in [[ecdsa.clone(), rsa.clone()], [rsa.clone(), ecdsa.clone()]] {
        check(&pairs, &[], SignatureAlgorithm::ECDSA);
        check(&pairs, &[CipherName::Tls13Aes128GcmSha256], SignatureAlgorithm::ECDSA);
        check(&pairs, &[CipherName::EcdheEcdsaAes128GcmSha256, CipherName::EcdheRsaAes128GcmSha256], SignatureAlgorithm::ECDSA);
        check(&pairs, &[CipherName::EcdheRsaAes128GcmSha256], SignatureAlgorithm::RSA);
    }
    check(&[rsa], &[], SignatureAlgorithm::RSA);
}

#[test]
fn a_client_that_can_use_no_certificate_is_told_so() {
    let world = World::new();
    let config = world.server(&Tls::default(), &[world.pair("a.test")]);
    let provider = provider_with(&[CipherName::EcdheRsaAes128GcmSha256]);
    let client = Arc::new(world.client_with(|changed| changed.cipher_suites.clone_from(&provider.cipher_suites)));
    let error = handshake(&client, &config, "a.test").err();
    assert_eq!(error, Some(Error::AlertReceived(AlertDescription::HandshakeFailure)));
}

#[test]
fn of_certificates_for_different_names_the_one_for_the_asked_name_is_shown() {
    let world = World::new();
    let pairs = [world.pair("a.test"), world.pair("b.test"), world.pair("*.c.test")];
    let config = world.server(&Tls::default(), &pairs);
    let client = Arc::new(world.client(TLS13));
    for name in ["a.test", "b.test", "x.c.test"] {
        assert!(handshake(&client, &config, name).is_ok(), "for {name}");
    }
    assert!(handshake(&client, &config, "d.test").is_err(), "d.test is in none of them");
}

#[test]
fn ciphers_versions_and_protocols_follow_the_settings() {
    let world = World::new();
    let pairs = [world.pair("a.test")];
    let check = |tls: &Tls, client: ClientConfig, expected: Result<(ProtocolVersion, CipherSuite), AlertDescription>| {
        let config = world.server(tls, &pairs);
        let seen = match handshake(&Arc::new(client), &config, "a.test") {
            Ok(connected) => Ok((
                connected.server.protocol_version().expect("after the handshake"),
                connected.server.negotiated_cipher_suite().expect("after the handshake").suite(),
            )),
            Err(Error::AlertReceived(alert)) => Err(alert),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(seen, expected, "for {tls:?}");
    };
    let with_ciphers = |ciphers: &[CipherName]| Tls { ciphers: ciphers.to_vec(), ..Tls::default() };
    let only_13 = Tls { min_version: TlsVersion::V1_3, ..Tls::default() };
    // The client's order is turned around, to see that it does not count.
    let backwards = || world.client_with(|changed| changed.cipher_suites.reverse());
    let first = |index: usize| provider_with(&[]).cipher_suites[index].suite();
    check(&Tls::default(), backwards(), Ok((ProtocolVersion::TLSv1_3, first(0))));
    check(&Tls::default(), world.client(TLS12), Ok((ProtocolVersion::TLSv1_2, first(1))));
    check(&only_13, world.client(TLS13), Ok((ProtocolVersion::TLSv1_3, first(0))));
    check(&only_13, world.client(TLS12), Err(AlertDescription::ProtocolVersion));
    check(
        &with_ciphers(&[CipherName::Tls13Aes256GcmSha384, CipherName::Tls13Aes128GcmSha256]),
        world.client(TLS13),
        Ok((ProtocolVersion::TLSv1_3, CipherSuite::TLS13_AES_256_GCM_SHA384)),
    );
    // Both sides could speak TLS 1.3, but no suite of it is allowed.
    check(
        &with_ciphers(&[CipherName::EcdheEcdsaChacha20Poly1305Sha256]),
        backwards(),
        Ok((ProtocolVersion::TLSv1_2, CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256)),
    );
    let impossible = Tls { min_version: TlsVersion::V1_3, ..with_ciphers(&[CipherName::EcdheEcdsaAes128GcmSha256]) };
    let error = server_config(&impossible, certificates(&pairs), None, &world.state).err().map(|error| error.to_string());
    let expected = "TLS cannot be set up: `ciphers` names only suites of TLS 1.2, but `min` asks for TLS 1.3";
    assert_eq!(error.as_deref(), Some(expected));
}

#[test]
fn the_hybrid_key_exchange_is_used_with_clients_that_offer_it_first() {
    let world = World::new();
    let config = world.server(&Tls::default(), &[world.pair("a.test")]);
    let check = |groups: &[&'static dyn SupportedKxGroup], expected: NamedGroup| {
        let client = Arc::new(world.client_with(|changed| changed.kx_groups = groups.to_vec()));
        let connected = handshake(&client, &config, "a.test").unwrap_or_else(|error| panic!("{groups:?}: {error}"));
        let seen = connected.server.negotiated_key_exchange_group().map(SupportedKxGroup::name);
        assert_eq!(seen, Some(expected), "for {groups:?}");
    };
    check(&[kx_group::X25519MLKEM768, kx_group::X25519], NamedGroup::X25519MLKEM768);
    check(&[kx_group::X25519], NamedGroup::X25519);
    check(&[kx_group::SECP256R1], NamedGroup::secp256r1);
    check(&[kx_group::SECP384R1], NamedGroup::secp384r1);
}

#[test]
fn protocols_are_settled_in_the_sites_order() {
    let world = World::new();
    let pairs = [world.pair("a.test")];
    let check = |site: &[&str], offered: &[&str], expected: Option<&str>| {
        let tls = Tls { alpn: site.iter().map(|name| (*name).to_owned()).collect(), ..Tls::default() };
        let mut client = world.client(TLS13);
        client.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let connected = handshake(&Arc::new(client), &world.server(&tls, &pairs), "a.test").expect("a connection");
        assert_eq!(connected.server.alpn_protocol(), expected.map(str::as_bytes), "for {site:?} and {offered:?}");
    };
    check(&[], &["http/1.1", "h2"], Some("h2"));
    check(&[], &["http/1.1"], Some("http/1.1"));
    check(&[], &[], None);
    check(&["http/1.1"], &["h2", "http/1.1"], Some("http/1.1"));
    check(&["http/1.1", "h2"], &["h2", "http/1.1"], Some("http/1.1"));
}

#[test]
fn sessions_are_resumed_over_reloads_and_only_where_tickets_are_on() {
    let world = World::new();
    let pair = world.pair("a.test");
    let kinds = |versions, first: &Tls, second: &Tls, state: &TlsProcessState| {
        let client = Arc::new(world.client(versions));
        // Two configurations made one after the other, as before and after a reload.
        [(first, &world.state), (second, state)].map(|(tls, state)| {
            let config = server_config(tls, certificates(std::slice::from_ref(&pair)), None, state).expect("a configuration");
            let connected = handshake(&client, &config, "a.test").expect("a connection");
            assert_eq!(connected.client.handshake_kind(), connected.server.handshake_kind());
            connected.server.handshake_kind().expect("after the handshake")
        })
    };
    let on = Tls::default();
    let off = Tls { tickets: false, ..Tls::default() };
    let restarted = TlsProcessState::new(world.dir.path().to_owned()).expect("state");
    for versions in [TLS12, TLS13] {
        assert_eq!(kinds(versions, &on, &on, &world.state), [HandshakeKind::Full, HandshakeKind::Resumed]);
        assert_eq!(kinds(versions, &off, &off, &world.state), [HandshakeKind::Full, HandshakeKind::Full]);
        assert_eq!(kinds(versions, &on, &off, &world.state), [HandshakeKind::Full, HandshakeKind::Full]);
        assert_eq!(kinds(versions, &on, &on, &restarted), [HandshakeKind::Full, HandshakeKind::Full]);
    }
}

#[test]
fn early_data_is_taken_once_for_each_ticket_and_by_the_process_that_gave_it() {
    let world = World::new();
    let tls = Tls { early_data: true, ..Tls::default() };
    let usual = world.server(&tls, &[world.pair("a.test")]);
    let of = |state: &TlsProcessState| early_data_config(&tls, &usual, state).expect("it is wanted");
    let (config, restarted) = (of(&world.state), of(&TlsProcessState::new(world.dir.path().to_owned()).expect("state")));
    let mut client = world.client(TLS13);
    client.enable_early_data = true;
    let client = Arc::new(client);
    let name = || rustls_pki_types::ServerName::try_from("a.test").expect("a name");
    // The first bytes of a client that comes back.
    let returning = || {
        handshake(&client, &config, "a.test").expect("a first connection");
        let mut session = rustls::ClientConnection::new(client.clone(), name()).expect("a session");
        session.early_data().expect("a ticket for it").write_all(b"GET /").expect("within the bound");
        let mut flight = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut flight).expect("writing to memory");
        }
        flight
    };
    let is_taken = |flight: &[u8], config: &Arc<ServerConfig>| {
        let mut server = rustls::ServerConnection::new(config.clone()).expect("a session");
        server.read_tls(&mut &flight[..]).expect("reading from memory");
        server.process_new_packets().expect("a hello");
        server.early_data().is_some()
    };
    let flight = returning();
    assert!(!is_taken(&flight, &restarted) && is_taken(&flight, &config));
    assert!(!is_taken(&flight, &config), "a copy of it");
    // Where it is not wanted any more, the ticket is of no use at all.
    assert!(!is_taken(&returning(), &usual));
}

#[test]
fn early_data_is_not_taken_without_sessions_or_where_clients_are_asked_who_they_are() {
    let world = World::new();
    let pairs = [world.pair("a.test")];
    let check = |tls: &Tls, expected: bool| {
        let config = early_data_config(tls, &world.server(&Tls::default(), &pairs), &world.state);
        assert_eq!(config.is_some(), expected, "{tls:?}");
    };
    let wanted = Tls { early_data: true, ..Tls::default() };
    check(&Tls::default(), false);
    check(&wanted, true);
    check(&Tls { tickets: false, ..wanted.clone() }, false);
    let client_auth = Some(ClientAuth { ca: Vec::new(), crls: Vec::new(), mode: ClientAuthMode::Request, forward: None });
    check(&Tls { client_auth, ..wanted }, false);
}

#[test]
fn a_ticket_of_one_name_opens_nothing_under_another() {
    let world = World::new();
    let config = world.server(&Tls::default(), &[world.ca.issue(&["a.test", "b.test"]).write(&world.dir, "both")]);
    let mut client = world.client(TLS13);
    let store = Arc::new(OneNameForAll(rustls::client::ClientSessionMemoryCache::new(8)));
    client.resumption = rustls::client::Resumption::store(store);
    let client = Arc::new(client);
    let kind = |name| handshake(&client, &config, name).expect("a connection").server.handshake_kind();
    assert_eq!(kind("a.test"), Some(HandshakeKind::Full));
    assert_eq!(kind("a.test"), Some(HandshakeKind::Resumed));
    assert_eq!(kind("b.test"), Some(HandshakeKind::Full));
}

/// A client's store that offers the tickets of every server to every other, as a hostile client may.
#[derive(Debug)]
struct OneNameForAll(rustls::client::ClientSessionMemoryCache);

impl OneNameForAll {
    fn name() -> rustls_pki_types::ServerName<'static> {
        rustls_pki_types::ServerName::try_from("all.test").expect("a valid name")
    }
}

impl rustls::client::ClientSessionStore for OneNameForAll {
    fn set_kx_hint(&self, _: rustls_pki_types::ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(Self::name(), group);
    }
    fn kx_hint(&self, _: &rustls_pki_types::ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(&Self::name())
    }
    fn set_tls12_session(&self, _: rustls_pki_types::ServerName<'static>, value: rustls::client::Tls12ClientSessionValue) {
        self.0.set_tls12_session(Self::name(), value);
    }
    fn tls12_session(&self, _: &rustls_pki_types::ServerName<'_>) -> Option<rustls::client::Tls12ClientSessionValue> {
        self.0.tls12_session(&Self::name())
    }
    fn remove_tls12_session(&self, _: &rustls_pki_types::ServerName<'static>) {
        self.0.remove_tls12_session(&Self::name());
    }
    fn insert_tls13_ticket(&self, _: rustls_pki_types::ServerName<'static>, value: rustls::client::Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(Self::name(), value);
    }
    fn take_tls13_ticket(&self, _: &rustls_pki_types::ServerName<'static>) -> Option<rustls::client::Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(&Self::name())
    }
}

#[test]
fn files_renewed_on_disk_are_taken_over_while_running() {
    let world = World::new();
    let pair = world.pair("a.test");
    let site: Arc<SiteCertificates> = certificates(std::slice::from_ref(&pair));
    let config = server_config(&Tls::default(), site.clone(), None, &world.state).expect("a configuration");
    let client = || Arc::new(world.client(TLS13));
    let shown = || leaf_of(&handshake(&client(), &config, "a.test").expect("a connection"));
    let before = shown();
    let now = super::support::now();
    assert!(matches!(site.renew_if_due(now).renewal, Renewal::NotDue));

    // The chain is there, its key is not yet.
    let renewed = world.ca.issue(&["a.test"]);
    std::fs::write(pair.cert.name(), renewed.certificate.pem()).expect("a writable folder");
    assert!(!site.renew_if_due(now).errors.is_empty());
    assert_eq!(shown(), before);

    std::fs::write(pair.key.as_ref().expect("a separate key").name(), renewed.key.serialize_pem()).expect("a writable folder");
    assert!(matches!(site.renew_if_due(now).renewal, Renewal::Replaced { .. }));
    assert_eq!(shown(), renewed.certificate.der().to_vec());
}

#[test]
fn each_file_of_a_site_is_renewed_by_itself() {
    let world = World::new();
    let pairs = [world.pair("a.test"), world.pair("b.test")];
    let site: Arc<SiteCertificates> = certificates(&pairs);
    let config = server_config(&Tls::default(), site.clone(), None, &world.state).expect("a configuration");
    let client = Arc::new(world.client(TLS13));
    let shown = |name: &str| leaf_of(&handshake(&client, &config, name).expect("a connection"));
    let now = super::support::now();
    let before = shown("b.test");

    std::fs::write(pairs[1].cert.name(), "not a certificate").expect("a writable folder");
    let renewed = world.ca.issue(&["a.test"]);
    std::fs::write(pairs[0].cert.name(), renewed.certificate.pem()).expect("a writable folder");
    std::fs::write(pairs[0].key.as_ref().expect("a separate key").name(), renewed.key.serialize_pem())
        .expect("a writable folder");
    let outcome = site.renew_if_due(now);
    assert!(matches!(outcome.renewal, Renewal::Replaced { .. }), "{outcome:?}");
    assert_eq!(outcome.errors.len(), 1, "{outcome:?}");
    assert_eq!(shown("a.test"), renewed.certificate.der().to_vec());
    assert_eq!(shown("b.test"), before);

    // It is told again, and does what it can no second time.
    let outcome = site.renew_if_due(now);
    assert!(matches!(outcome.renewal, Renewal::NotDue) && outcome.errors.len() == 1, "{outcome:?}");
}

#[test]
fn among_many_the_certificate_of_the_name_is_chosen() {
    let world = World::new();
    let pairs = [
        world.rsa_pair("a.test"),
        world.pair("*.test"),
        world.pair("A.test"),
        world.pair("*.sub.a.test"),
        world.rsa_pair("only-rsa.test"),
        world.pair("x.sub.a.test"),
    ];
    let set = certificates(&pairs).current();
    let (ecdsa, rsa) = (SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256);
    let check = |name: Option<&str>, schemes: &[SignatureScheme], expected: usize| {
        let chosen = set.choose(name, schemes).expect("there is always one");
        let leaf = files_leaf(&pairs[expected]);
        assert!(*chosen.cert[0] == *leaf, "{name:?} with {schemes:?} is not number {expected}");
    };
    let both = [rsa, ecdsa];
    // The cheaper key, among those the file's order.
    check(Some("a.test"), &both, 1);
    check(Some("a.test"), &[rsa], 0);
    check(Some("A.TEST"), &[rsa], 0);
    check(Some("only-rsa.test"), &both, 1);
    check(Some("only-rsa.test"), &[rsa], 4);
    check(Some("x.sub.a.test"), &both, 3);
    check(Some("y.sub.a.test"), &both, 3);
    check(Some("z.y.sub.a.test"), &both, 1);
    check(Some("z.y.sub.a.test"), &[rsa], 0);
    check(None, &both, 1);
    check(None, &[rsa], 0);
    // Nothing fits; rustls says so to the client.
    check(Some("a.test"), &[SignatureScheme::ED25519], 1);
    check(Some("."), &both, 1);
    check(Some(".test"), &both, 1);
    check(Some(&"a".repeat(300)), &both, 1);
}

fn files_leaf(pair: &Certificate) -> Vec<u8> {
    certificates(std::slice::from_ref(pair)).current().all()[0].certified_key.cert[0].to_vec()
}
