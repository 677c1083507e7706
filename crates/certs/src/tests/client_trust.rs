//! Which clients are let in: by whom they are signed, for what, for which names, and whether that was revoked.

use super::support::{TLS12, TLS13, TinyCa, certificates, client_with_certificate, handshake, now, pem, site, write};
use crate::check::check_site;
use crate::client_trust::ClientTrust;
use crate::process_state::TlsProcessState;
use crate::server::server_config;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, NameConstraints, RevokedCertParams, SerialNumber,
};
use rustls::{AlertDescription, Error, HandshakeKind};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::path::PathBuf;
use tempfile::TempDir;
use tidegate_model::{ClientAuth, ClientAuthMode, Tls, TlsSource};

fn settings(ca: &[&PathBuf], crls: &[&PathBuf]) -> ClientAuth {
    let paths = |files: &[&PathBuf]| files.iter().map(|file| (*file).clone().into()).collect();
    ClientAuth { ca: paths(ca), crls: paths(crls), mode: ClientAuthMode::Require, forward: None }
}

fn load_error(settings: &ClientAuth) -> String {
    let errors = ClientTrust::load(settings, now()).err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn authority(change: impl FnOnce(&mut CertificateParams)) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(rcgen::DnType::CommonName, "an authority of clients");
    change(&mut params);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

fn list(issuer: &CertifiedIssuer<'static, KeyPair>, revoked: &[u64], next_year: i32) -> rcgen::CertificateRevocationList {
    let at = rcgen::date_time_ymd(2020, 1, 1);
    let entry = |serial: &u64| RevokedCertParams {
        serial_number: SerialNumber::from(*serial),
        revocation_time: at,
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: at,
        next_update: rcgen::date_time_ymd(next_year, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: revoked.iter().map(entry).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(issuer).expect("a list")
}

struct World {
    dir: TempDir,
    servers: TinyCa,
    state: TlsProcessState,
}

impl World {
    fn new() -> World {
        let dir = TempDir::new().expect("a folder");
        let state = TlsProcessState::new(dir.path().to_owned()).expect("state");
        World { dir, servers: TinyCa::new(), state }
    }

    /// What the client of a certificate with these settings gets to hear, over both versions of TLS.
    fn refusal(
        &self,
        settings: &ClientAuth,
        issuer: &CertifiedIssuer<'static, KeyPair>,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
        more: &[CertificateDer<'static>],
    ) -> Option<AlertDescription> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let leaf = params.signed_by(&key, issuer).expect("a certificate");
        let mut chain = vec![leaf.der().clone()];
        chain.extend_from_slice(more);
        let trust = ClientTrust::load(settings, now()).expect("usable files");
        let pair = self.servers.issue(&["a.test"]).write(&self.dir, "server");
        let server = server_config(&Tls::default(), certificates(&[pair]), Some(&trust), &self.state).expect("settings");
        let seen = [TLS12, TLS13].map(|versions| {
            let client = client_with_certificate(self.servers.certificate.der(), versions, chain.clone(), &key);
            match handshake(&client, &server, "a.test") {
                Ok(_) => None,
                Err(Error::AlertReceived(alert)) => Some(alert),
                Err(other) => panic!("{other}"),
            }
        });
        assert_eq!(seen[0], seen[1], "both versions say the same");
        seen[0]
    }
}

#[test]
fn only_what_is_for_clients_and_within_the_constraints_of_its_authority() {
    let world = World::new();
    let root = authority(|_| {});
    let ca = write(&world.dir, "ca.pem", root.pem());
    let trusted = settings(&[&ca], &[]);
    let use_of = |purpose| move |params: &mut CertificateParams| params.extended_key_usages = vec![purpose];
    assert_eq!(world.refusal(&trusted, &root, &["a.test"], |_| {}, &[]), None);
    assert_eq!(world.refusal(&trusted, &root, &["a.test"], use_of(ExtendedKeyUsagePurpose::ClientAuth), &[]), None);
    let server_only = world.refusal(&trusted, &root, &["a.test"], use_of(ExtendedKeyUsagePurpose::ServerAuth), &[]);
    assert_eq!(server_only, Some(AlertDescription::UnsupportedCertificate));
    let stranger = authority(|_| {});
    assert_eq!(world.refusal(&trusted, &stranger, &["a.test"], |_| {}, &[]), Some(AlertDescription::DecryptError));

    // An authority beneath may speak for its own names only, and a client is none.
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(rcgen::DnType::CommonName, "of a team");
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName("team.test".into())],
        excluded_subtrees: Vec::new(),
    });
    let team = CertifiedIssuer::signed_by(params, KeyPair::generate().expect("a key"), &root).expect("an authority");
    let beneath = [team.der().clone()];
    assert_eq!(world.refusal(&trusted, &team, &["a.team.test"], |_| {}, &beneath), None);
    assert!(world.refusal(&trusted, &team, &["admin.test"], |_| {}, &beneath).is_some());
    let client =
        CertifiedIssuer::signed_by(CertificateParams::default(), KeyPair::generate().expect("a key"), &root).expect("a client");
    assert!(world.refusal(&trusted, &client, &["a.test"], |_| {}, &[client.der().clone()]).is_some());
}

#[test]
fn the_status_of_every_certificate_has_to_be_known() {
    let world = World::new();
    let (root, other) = (authority(|_| {}), authority(|params| params.distinguished_name.push(rcgen::DnType::CountryName, "DE")));
    let ca = write(&world.dir, "ca.pem", format!("{}{}", root.pem(), other.pem()));
    let fresh = write(&world.dir, "fresh.crl", list(&root, &[7], 2099).pem().expect("PEM"));
    let der = write(&world.dir, "fresh.der", list(&root, &[7], 2099).der());
    let stale = write(&world.dir, "stale.crl", list(&root, &[], 2021).pem().expect("PEM"));
    let with_serial = |serial: u64| move |params: &mut CertificateParams| params.serial_number = Some(SerialNumber::from(serial));
    let check = |crl: &PathBuf, issuer, serial: u64, expected: Option<AlertDescription>| {
        let seen = world.refusal(&settings(&[&ca], &[crl]), issuer, &["a.test"], with_serial(serial), &[]);
        assert_eq!(seen, expected, "{} {serial}", crl.display());
    };
    for crl in [&fresh, &der] {
        check(crl, &root, 8, None);
        check(crl, &root, 7, Some(AlertDescription::CertificateRevoked));
        check(crl, &other, 8, Some(AlertDescription::UnknownCA));
    }
    check(&stale, &root, 8, Some(AlertDescription::UnknownCA));
}

#[test]
fn the_digest_is_of_what_the_files_say() {
    let dir = TempDir::new().expect("a folder");
    let (a, b) = (authority(|_| {}), authority(|_| {}));
    let digest = |settings: &ClientAuth| ClientTrust::load(settings, now()).expect("usable files").digest;
    let first = write(&dir, "a.pem", a.pem());
    let both = write(&dir, "both.pem", format!("{}{}", a.pem(), b.pem()));
    let second = write(&dir, "b.pem", b.pem());
    let empty = write(&dir, "empty.crl", list(&a, &[], 2099).pem().expect("PEM"));
    let crl = write(&dir, "a.crl", list(&a, &[1], 2099).pem().expect("PEM"));
    let request = ClientAuth { mode: ClientAuthMode::Request, ..settings(&[&first], &[]) };
    let unverified = ClientAuth { mode: ClientAuthMode::Unverified, ..settings(&[&first], &[]) };
    let different = [
        digest(&unverified),
        digest(&ClientAuth { ca: Vec::new(), ..unverified.clone() }),
        digest(&settings(&[&first], &[])),
        digest(&settings(&[&second], &[])),
        digest(&settings(&[&both], &[])),
        digest(&settings(&[&first], &[&empty])),
        digest(&settings(&[&first], &[&crl])),
        digest(&request),
    ];
    for (position, one) in different.iter().enumerate() {
        assert!(!different[..position].contains(one), "number {position} is like one before");
    }
    assert_eq!(digest(&settings(&[&both], &[])), digest(&settings(&[&first, &second], &[])));
}

#[test]
fn who_is_taken_without_being_verified_is_judged_afterwards() {
    let dir = TempDir::new().expect("a folder");
    let (root, other) = (authority(|_| {}), authority(|_| {}));
    let ca = write(&dir, "ca.pem", root.pem());
    let unverified = ClientAuth { mode: ClientAuthMode::Unverified, ..settings(&[&ca], &[]) };
    let revoked = write(&dir, "ca.crl", list(&root, &[7], 2099).pem().expect("PEM"));
    let with_list = ClientAuth { crls: vec![revoked.into()], ..unverified.clone() };
    let nobody = ClientAuth { ca: Vec::new(), ..unverified.clone() };
    let signed = |issuer: &CertifiedIssuer<'static, KeyPair>, serial: u64, change: &dyn Fn(&mut CertificateParams)| {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let certificate = params.signed_by(&KeyPair::generate().expect("a key"), issuer).expect("a certificate");
        vec![Box::<[u8]>::from(&certificate.der()[..])]
    };
    let check = |settings: &ClientAuth, chain: &[Box<[u8]>], expected: Option<&str>| {
        let trust = ClientTrust::load(settings, now()).expect("usable files");
        assert!(!trust.verifier.client_auth_mandatory() && trust.verifier.offer_client_auth());
        let judge = trust.judge.expect("somebody says what is good");
        assert_eq!(judge.fault(chain, UnixTime::now()), expected);
    };
    let good = signed(&root, 1, &|_| {});
    check(&unverified, &good, None);
    check(&with_list, &good, None);
    check(&with_list, &signed(&root, 7, &|_| {}), Some("certificate revoked"));
    let foreign = "unable to verify the first certificate";
    check(&nobody, &good, Some(foreign));
    check(&unverified, &[], Some(foreign));
    let late = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    check(&unverified, &signed(&root, 1, &late), Some("certificate has expired"));
    let early = |params: &mut CertificateParams| params.not_before = rcgen::date_time_ymd(2090, 1, 1);
    check(&unverified, &signed(&root, 1, &early), Some("certificate is not yet valid"));
    let server = |params: &mut CertificateParams| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    check(&unverified, &signed(&root, 1, &server), Some("unsuitable certificate purpose"));
    let stranger = authority(|params| params.distinguished_name.push(rcgen::DnType::OrganizationName, "others"));
    check(&unverified, &signed(&stranger, 1, &|_| {}), Some(foreign));
    check(&unverified, &signed(&other, 1, &|_| {}), Some("certificate signature failure"));
    let trust = ClientTrust::load(&settings(&[&ca], &[]), now()).expect("usable files");
    assert!(trust.judge.is_none(), "a handshake that verifies leaves nothing to be said");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let dir = TempDir::new().expect("a folder");
    let root = authority(|_| {});
    let good = write(&dir, "good.pem", root.pem());
    let check = |settings: ClientAuth, expected: &[&str]| {
        let seen = load_error(&settings);
        assert!(!seen.is_empty(), "expected {expected:?}");
        for part in expected {
            assert!(seen.contains(part), "{part:?} is not in {seen:?}");
        }
    };
    let ca = |name: &str, text: &str| settings(&[&write(&dir, name, text)], &[]);
    let crl = |name: &str, bytes: &[u8]| settings(&[&good], &[&write(&dir, name, bytes)]);
    let missing = dir.path().join("missing.pem");
    check(settings(&[&missing], &[&missing]), &["cannot read", "missing.pem: there is no such file\n"]);
    check(ca("empty.pem", ""), &["empty.pem holds nothing in PEM form, not the certificate of an authority"]);
    check(ca("cut.pem", &root.pem()[..200]), &["cut.pem is not valid PEM: the line `-----END CERTIFICATE-----` is missing"]);
    check(ca("key.pem", &root.key().serialize_pem()), &["key.pem holds a private key"]);
    check(
        ca("locked.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n"),
        &["locked.pem holds an encrypted private key"],
    );
    check(ca("der.pem", "0\u{3}\u{2}\u{1}\u{1}"), &["der.pem holds DER (binary) data", "openssl x509 -inform der"]);
    let leaf =
        CertifiedIssuer::signed_by(CertificateParams::default(), KeyPair::generate().expect("a key"), &root).expect("a leaf");
    let with_leaf = format!("{}{}", root.pem(), leaf.pem());
    check(ca("leaf.pem", &with_leaf), &["certificate number 2 in", "leaf.pem (CN=", "is no certificate of an authority"]);
    check(crl("cert.crl", root.pem().as_bytes()), &["cert.crl holds a certificate, not a revocation list"]);
    check(
        crl("bad.crl", &[0x30, 0x01]),
        &["the revocation list in", "bad.crl cannot be used: it is not an X.509 revocation list"],
    );
    check(crl("bent.crl", pem("X509 CRL", b"bent").as_bytes()), &["bent.crl cannot be used"]);
}

#[test]
fn sessions_end_where_other_clients_are_let_in() {
    let world = World::new();
    let (root, other) = (authority(|_| {}), authority(|params| params.distinguished_name.push(rcgen::DnType::CountryName, "DE")));
    let ca = write(&world.dir, "ca.pem", root.pem());
    let both = write(&world.dir, "both.pem", format!("{}{}", root.pem(), other.pem()));
    let crl = write(&world.dir, "a.crl", list(&root, &[], 2099).pem().expect("PEM"));
    let pair = world.servers.issue(&["a.test"]).write(&world.dir, "server");
    let server = |clients: Option<&ClientAuth>| {
        let trust = clients.map(|settings| ClientTrust::load(settings, now()).expect("usable files"));
        server_config(&Tls::default(), certificates(std::slice::from_ref(&pair)), trust.as_ref(), &world.state).expect("settings")
    };
    let required = settings(&[&ca], &[]);
    let requested = ClientAuth { mode: ClientAuthMode::Request, ..required.clone() };
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["a.test".to_owned()]).expect("names");
    params.use_authority_key_identifier_extension = true;
    let leaf = params.signed_by(&key, &root).expect("a certificate");
    let check = |first: Option<&ClientAuth>, then: Option<&ClientAuth>, expected: HandshakeKind| {
        for versions in [TLS12, TLS13] {
            let chain = vec![leaf.der().clone()];
            let client = client_with_certificate(world.servers.certificate.der(), versions, chain, &key);
            handshake(&client, &server(first), "a.test").expect("a good certificate");
            let again = handshake(&client, &server(then), "a.test").expect("a good certificate");
            assert_eq!(again.server.handshake_kind(), Some(expected), "{first:?}, then {then:?}");
            // A resumed session knows its client.
            assert_eq!(again.server.peer_certificates().is_some(), then.is_some());
        }
    };
    check(Some(&required), Some(&required), HandshakeKind::Resumed);
    // Told or not told, the same clients are let in.
    let told = ClientAuth { forward: Some(tidegate_model::ClientCertificateForm::Xfcc), ..required.clone() };
    check(Some(&required), Some(&told), HandshakeKind::Resumed);
    for other in [&requested, &settings(&[&both], &[]), &settings(&[&ca], &[&crl])] {
        check(Some(&required), Some(other), HandshakeKind::Full);
        check(Some(other), Some(&required), HandshakeKind::Full);
    }
    check(None, None, HandshakeKind::Resumed);
    check(None, Some(&required), HandshakeKind::Full);
    check(None, Some(&requested), HandshakeKind::Full);
    check(Some(&required), None, HandshakeKind::Full);
}

#[test]
fn what_lets_in_nobody_or_too_many_is_said_before() {
    let dir = TempDir::new().expect("a folder");
    let named = |name: &'static str| {
        move |params: &mut CertificateParams| params.distinguished_name.push(rcgen::DnType::CommonName, name)
    };
    let (good, other) = (authority(named("good")), authority(named("other")));
    let old = authority(|params| {
        named("old")(params);
        params.not_after = rcgen::date_time_ymd(2021, 2, 3);
    });
    let weak = authority(|params| {
        named("weak")(params);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    });
    let file = |name: &str, ca: &CertifiedIssuer<'static, KeyPair>| write(&dir, &format!("{name}.pem"), ca.pem());
    let (good_pem, other_pem, old_pem, weak_pem) =
        (file("good", &good), file("other", &other), file("old", &old), file("weak", &weak));
    let crl = |name: &str, list: rcgen::CertificateRevocationList| write(&dir, name, list.pem().expect("PEM"));
    let (good_crl, stale, foreign) = (
        crl("good.crl", list(&good, &[], 2099)),
        crl("stale.crl", list(&good, &[], 2021)),
        crl("other.crl", list(&other, &[], 2099)),
    );
    let check = |settings: ClientAuth, expected: &[&str]| {
        let mut site = site(&["a.test"], TlsSource::Internal);
        site.tls.client_auth = Some(settings);
        let seen: Vec<String> = check_site(&site, now())
            .into_iter()
            .map(|finding| finding.message.replace(&format!("{}/", dir.path().display()), ""))
            .collect();
        assert_eq!(seen, expected);
    };
    check(settings(&[&good_pem], &[]), &[]);
    check(settings(&[&good_pem], &[&good_crl]), &[]);
    check(settings(&[&dir.path().join("none.pem")], &[]), &["cannot read none.pem: there is no such file"]);
    check(
        settings(&[&old_pem], &[]),
        &["the authority `CN=old` in old.pem expired on 3 February 2021, and what it signed is accepted all the same"],
    );
    check(
        settings(&[&weak_pem], &[]),
        &["the authority `CN=weak` in weak.pem may not sign certificates (its key usage lacks keyCertSign)"],
    );
    check(
        settings(&[&good_pem], &[&stale]),
        &["the revocation list of `CN=good` in stale.crl is out of date since 1 January 2021, so all its clients are refused"],
    );
    check(
        settings(&[&good_pem], &[&foreign]),
        &[
            "the revocation list in other.crl is of `CN=other`, which is none of the authorities in `ca=`",
            "no revocation list is of the authority `CN=good` in good.pem, so all its clients are refused",
        ],
    );
    check(
        settings(&[&good_pem, &other_pem], &[&good_crl]),
        &["no revocation list is of the authority `CN=other` in other.pem, so all its clients are refused"],
    );
    let roots = rustls_native_certs::load_native_certs().certs;
    if let Some(root) = roots.iter().find(|root| {
        webpki_roots::TLS_SERVER_ROOTS
            .iter()
            .any(|known| root.windows(known.subject_public_key_info.len()).any(|part| part == &*known.subject_public_key_info))
    }) {
        let bundle = write(&dir, "public.pem", pem("CERTIFICATE", root));
        let mut site = site(&["a.test"], TlsSource::Internal);
        site.tls.client_auth = Some(settings(&[&bundle], &[]));
        assert!(check_site(&site, now()).iter().any(|finding| finding.message.contains("signs for anybody on the Internet")));
    }
}
