//! The internal CA on disk and in handshakes.

use super::support::{TLS12, TLS13, client, days, handshake, mode, now, site};
use crate::facts::{CertificateName, KeyAlgorithm};
use crate::internal_ca::{BACKDATED, INTERMEDIATE_LIFE, InternalCa, LEAF_LIFE, ROOT_LIFE};
use crate::process_state::TlsProcessState;
use crate::server::server_config;
use crate::site::{Renewal, ServedFiles, SiteCertificates};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fs;
use std::sync::{Arc, Barrier};
use tempfile::TempDir;
use tidegate_model::{Tls, TlsSource};

fn dns(name: &str) -> CertificateName {
    CertificateName::Dns(name.into())
}

#[test]
fn it_is_made_once_and_read_again() {
    let dir = TempDir::new().expect("a folder");
    let state = dir.path().join("var/tidegate");
    let first = InternalCa::open(&state, now()).expect("a new CA");
    let again = InternalCa::open(&state, now()).expect("the same CA");
    assert_eq!(first.root_certificate(), again.root_certificate());
    assert_eq!(CertificateDer::from_pem_file(again.root_pem_path()).expect("a PEM file"), first.root_certificate());
    let folder = state.join("internal-ca");
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("root.key")), 0o600);
    assert_eq!(mode(&folder.join("intermediate.key")), 0o600);
    assert_eq!(mode(&folder.join("lock")), 0o600);
    let mut files: Vec<_> = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    files.sort();
    assert_eq!(files, ["intermediate.crt", "intermediate.key", "lock", "root.crt", "root.key"]);
}

#[test]
fn those_who_open_it_at_once_get_the_same_root() {
    const OPENERS: usize = 4;
    let dir = TempDir::new().expect("a folder");
    let barrier = Barrier::new(OPENERS);
    let open = || {
        barrier.wait();
        InternalCa::open(dir.path(), now()).expect("a CA").root_certificate()
    };
    let roots: Vec<_> = std::thread::scope(|scope| {
        let openers: Vec<_> = (0..OPENERS).map(|_| scope.spawn(open)).collect();
        openers.into_iter().map(|opener| opener.join().expect("no panic")).collect()
    });
    assert!(roots.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_client_that_trusts_the_root_connects_to_every_name_of_the_site() {
    let dir = TempDir::new().expect("a folder");
    let state = TlsProcessState::new(dir.path().to_owned()).expect("state");
    let check = |addresses: &[&str], source: TlsSource, names: &[&str]| {
        let site = site(addresses, source);
        let certificates =
            SiteCertificates::load(&site, &state, &ServedFiles::new(), now()).expect("no fault").expect("TLS is on");
        let config = server_config(&Tls::default(), certificates, None, &state).expect("a configuration");
        // Opened anew, as a client after a restart would still trust it.
        let root = InternalCa::open(dir.path(), now()).expect("the same CA").root_certificate();
        for name in names {
            for versions in [TLS12, TLS13] {
                let connected = handshake(&Arc::new(client(&root, versions)), &config, name);
                assert!(connected.is_ok(), "{addresses:?} as {name}: {:?}", connected.err());
            }
        }
        let refused = handshake(&Arc::new(client(&root, TLS13)), &config, "elsewhere.test");
        assert!(refused.is_err(), "{addresses:?} must not be valid for any name");
    };
    check(&["localhost:8443", "app.localhost"], TlsSource::Automatic, &["localhost", "app.localhost"]);
    check(&["a.internal", "*.b.internal", "[::1]:8443"], TlsSource::Internal, &["a.internal", "x.b.internal", "::1"]);
    check(&[":8443"], TlsSource::Automatic, &["localhost", "127.0.0.1", "::1"]);
    check(&["_srv.a.internal"], TlsSource::Internal, &["_srv.a.internal"]);
    let long = format!("{}.{}.internal", "a".repeat(63), "b".repeat(63));
    check(&[&long], TlsSource::Internal, &[&long]);
}

#[test]
fn sites_without_tls_need_no_certificate_and_make_no_ca() {
    let dir = TempDir::new().expect("a folder");
    let state = TlsProcessState::new(dir.path().to_owned()).expect("state");
    for site in [site(&["a.test"], TlsSource::Off), site(&["http://a.test", "http://:8080"], TlsSource::Automatic)] {
        assert!(SiteCertificates::load(&site, &state, &ServedFiles::new(), now()).expect("no fault").is_none());
    }
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
}

#[test]
fn leaves_are_kept_while_more_than_a_third_of_their_life_is_left() {
    let dir = TempDir::new().expect("a folder");
    let start = now();
    let ca = Arc::new(InternalCa::open(dir.path(), start).expect("a CA"));
    let names = vec![dns("a.internal")];
    let first = ca.certificate_for(&names, start).expect("a leaf");
    assert_eq!(first.facts.key_algorithm, KeyAlgorithm::EcdsaP256);
    assert_eq!(first.facts.not_before, start - BACKDATED);
    assert_eq!(first.facts.not_after, start + LEAF_LIFE);
    let other = ca.certificate_for(&[dns("b.internal")], start).expect("a leaf");
    assert_ne!(first.certified_key.cert, other.certified_key.cert);
    let later = ca.certificate_for(&names, start + days(19)).expect("a leaf");
    assert_eq!(first.certified_key.cert, later.certified_key.cert);

    let site = SiteCertificates::from_internal_ca(ca.clone(), names, start).expect("certificates");
    assert!(matches!(site.renew_if_due(start + days(19)).renewal, Renewal::NotDue));
    let due = start + days(21);
    assert!(matches!(site.renew_if_due(due).renewal, Renewal::Replaced { not_after } if not_after == due + LEAF_LIFE));
    assert!(matches!(site.renew_if_due(due).renewal, Renewal::NotDue));
    assert_ne!(site.current().all()[0].certified_key.cert, first.certified_key.cert);
}

#[test]
fn no_leaf_outlives_its_root_and_an_expired_root_is_replaced() {
    let dir = TempDir::new().expect("a folder");
    let long_ago = now() - ROOT_LIFE + days(20);
    let old = InternalCa::open(dir.path(), long_ago).expect("a CA");
    let root_not_after = long_ago + ROOT_LIFE;
    assert_eq!(old.root_not_after(), root_not_after);
    let again = InternalCa::open(dir.path(), now()).expect("the same CA");
    assert_eq!(again.root_certificate(), old.root_certificate());
    assert_eq!(again.certificate_for(&[dns("a.internal")], now()).expect("a leaf").facts.not_after, root_not_after);
    let renewed = InternalCa::open(dir.path(), root_not_after + days(1)).expect("a new CA");
    assert_ne!(renewed.root_certificate(), old.root_certificate());
}

#[test]
fn damaged_state_is_refused_with_a_remedy_and_an_unfinished_one_is_made_anew() {
    let check = |damage: &dyn Fn(&std::path::Path), expected: &str| {
        let dir = TempDir::new().expect("a folder");
        drop(InternalCa::open(dir.path(), now()).expect("a CA"));
        let folder = dir.path().join("internal-ca");
        damage(&folder);
        let seen = match InternalCa::open(dir.path(), now()) {
            Ok(ca) => CertificateDer::from_pem_file(ca.root_pem_path()).map_or("lost", |_| "opened").to_owned(),
            Err(error) => {
                assert!(error.help().is_some_and(|help| !help.is_empty()), "{error} needs a remedy");
                error.message().replace(&format!("{}/", folder.display()), "")
            }
        };
        assert_eq!(seen, expected);
    };
    let elsewhere = TempDir::new().expect("a folder");
    drop(InternalCa::open(elsewhere.path(), now()).expect("another CA"));
    let other_key = elsewhere.path().join("internal-ca/root.key");
    let own = super::support::TinyCa::new();
    let remove = |file: std::path::PathBuf| fs::remove_file(file).expect("a file");
    let truncate = |file: std::path::PathBuf| {
        let text = fs::read_to_string(&file).expect("a file");
        fs::write(file, &text[..text.len() - 40]).expect("a writable file");
    };
    check(&|folder| remove(folder.join("root.crt")), "opened");
    check(&|folder| fs::write(folder.join("root.new"), "half").expect("a file"), "opened");
    // Nobody trusts the intermediate by itself.
    check(&|folder| remove(folder.join("intermediate.crt")), "opened");
    check(&|folder| remove(folder.join("intermediate.key")), "opened");
    check(&|folder| truncate(folder.join("intermediate.crt")), "opened");
    check(&|folder| assert!(fs::copy(&other_key, folder.join("intermediate.key")).is_ok()), "opened");
    // What the root's key is for is done, until the next intermediate.
    check(&|folder| remove(folder.join("root.key")), "opened");
    check(
        &|folder| fs::write(folder.join("root.crt"), "").expect("a file"),
        "the internal CA cannot be used: root.crt: it holds no certificate",
    );
    check(
        &|folder| truncate(folder.join("root.crt")),
        "the internal CA cannot be used: root.crt: it is not valid PEM: the line `-----END CERTIFICATE-----` is missing",
    );
    check(
        &|folder| fs::write(folder.join("root.crt"), own.issue(&["a.test"]).certificate.pem()).expect("a file"),
        "the internal CA cannot be used: root.crt: it is not a CA's certificate",
    );
    check(
        &|folder| fs::write(folder.join("root.crt"), own.certificate.pem()).expect("a file"),
        "the internal CA cannot be used: root.key: it does not belong to root.crt",
    );
    let check_key = |damage: &dyn Fn(std::path::PathBuf), expected: &str| {
        let damage = |folder: &std::path::Path| {
            remove(folder.join("intermediate.crt"));
            damage(folder.join("root.key"));
        };
        check(&damage, &format!("the internal CA cannot be used: root.key: {expected}"));
    };
    check_key(&remove, "there is a root.crt but not its key");
    check_key(&|key| fs::write(key, "").expect("a file"), "it holds no PKCS#8 key");
    check_key(&truncate, "it is not valid PEM: the line `-----END PRIVATE KEY-----` is missing");
    check_key(&|key| assert!(fs::copy(&other_key, key).is_ok()), "it does not belong to root.crt");
}

fn subject(certificate: &CertificateDer<'_>) -> String {
    crate::facts::parse(certificate).expect("a certificate").subject().to_string()
}

#[test]
fn an_intermediate_signs_and_is_sent_along() {
    let dir = TempDir::new().expect("a folder");
    let ca = InternalCa::open(dir.path(), now()).expect("a CA");
    let leaf = ca.certificate_for(&[dns("a.internal")], now()).expect("a leaf");
    let root = ca.root_certificate();
    let [leaf, intermediate] = &leaf.certified_key.cert[..] else { panic!("the chain is leaf and intermediate") };
    let path_length = |certificate: &CertificateDer<'_>| {
        let parsed = crate::facts::parse(certificate).expect("a certificate");
        let extension = parsed.basic_constraints().expect("readable constraints");
        extension.filter(|extension| extension.value.ca).and_then(|extension| extension.value.path_len_constraint)
    };
    assert_eq!([leaf, intermediate, &root].map(path_length), [None, Some(0), Some(1)]);
    assert!(subject(&root).starts_with("CN=Tidegate Internal CA "), "{}", subject(&root));
    assert!(subject(intermediate).starts_with("CN=Tidegate Intermediate CA "), "{}", subject(intermediate));
}

#[test]
fn the_intermediate_is_renewed_while_running_and_by_whoever_comes_first() {
    let dir = TempDir::new().expect("a folder");
    let start = now();
    let (ca, other) =
        (InternalCa::open(dir.path(), start).expect("a CA"), InternalCa::open(dir.path(), start).expect("the same"));
    let intermediate =
        |ca: &InternalCa, name: &str, at| ca.certificate_for(&[dns(name)], at).expect("a leaf").certified_key.cert[1].clone();
    let first = intermediate(&ca, "a.internal", start);
    assert_eq!(intermediate(&ca, "b.internal", start + days(240)), first);
    let second = intermediate(&ca, "c.internal", start + days(250));
    assert_ne!(second, first);
    assert_eq!(intermediate(&other, "d.internal", start + days(250)), second, "what one process renewed the other takes over");
    assert_eq!(InternalCa::open(dir.path(), start + days(250)).expect("the same").root_certificate(), ca.root_certificate());
}

#[test]
fn without_the_roots_key_an_intermediate_serves_to_its_end() {
    let dir = TempDir::new().expect("a folder");
    let start = now();
    let ca = InternalCa::open(dir.path(), start).expect("a CA");
    fs::remove_file(dir.path().join("internal-ca/root.key")).expect("a key");
    let end = start + INTERMEDIATE_LIFE;
    let late = ca.certificate_for(&[dns("a.internal")], end - days(2)).expect("a leaf");
    assert_eq!(late.facts.not_after, end, "no leaf outlives its intermediate");
    assert!(InternalCa::open(dir.path(), end - days(2)).is_ok());
    let refused = |error: crate::CertError| error.message().contains("root.key: there is a root.crt but not its key");
    assert!(ca.certificate_for(&[dns("b.internal")], end).is_err_and(refused));
    assert!(InternalCa::open(dir.path(), end).is_err_and(refused));
}

#[test]
fn a_root_of_an_earlier_version_goes_on_signing_leaves_itself() {
    use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose};
    let dir = TempDir::new().expect("a folder");
    let folder = dir.path().join("internal-ca");
    fs::create_dir(&folder).expect("a folder");
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Tidegate Internal CA box7");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().expect("a key");
    let root = params.self_signed(&key).expect("a root");
    fs::write(folder.join("root.key"), key.serialize_pem()).expect("a file");
    fs::write(folder.join("root.crt"), root.pem()).expect("a file");

    let state = TlsProcessState::new(dir.path().to_owned()).expect("state");
    let site = site(&["a.internal"], TlsSource::Internal);
    let certificates = SiteCertificates::load(&site, &state, &ServedFiles::new(), now()).expect("no fault").expect("TLS is on");
    assert_eq!(certificates.current().all()[0].certified_key.cert.len(), 1, "such a root may have no intermediate below it");
    let config = server_config(&Tls::default(), certificates, None, &state).expect("a configuration");
    assert!(handshake(&Arc::new(client(root.der(), TLS13)), &config, "a.internal").is_ok());
    assert_eq!(fs::read_to_string(folder.join("root.crt")).expect("a file"), root.pem());
    assert!(!folder.join("intermediate.crt").exists());
}

#[test]
fn a_wrong_clock_costs_neither_the_root_nor_the_leaves() {
    let dir = TempDir::new().expect("a folder");
    let start = now();
    let root = InternalCa::open(dir.path(), start).expect("a CA").root_certificate();
    // Far behind, as on a board without a battery: what is issued then holds nevertheless for clients with the right
    // time.
    let behind = InternalCa::open(dir.path(), start - days(3000)).expect("the same CA");
    assert_eq!(behind.root_certificate(), root);
    let leaf = behind.certificate_for(&[dns("a.internal")], start - days(3000)).expect("a leaf");
    assert_eq!((leaf.facts.not_before, leaf.facts.not_after), (start - BACKDATED, start + LEAF_LIFE));
    // Far ahead: another root is made, and the one that clients trust is kept.
    let ahead = InternalCa::open(dir.path(), start + days(4000)).expect("another CA");
    assert_ne!(ahead.root_certificate(), root);
    let folder = dir.path().join("internal-ca");
    for file in ["root.crt", "root.key"] {
        fs::rename(folder.join(format!("{file}.expired")), folder.join(file)).expect("the file before");
    }
    assert_eq!(InternalCa::open(dir.path(), start).expect("the first CA").root_certificate(), root);
}

#[test]
fn what_root_makes_in_the_folder_of_a_service_belongs_to_the_service() {
    use std::os::unix::fs::{MetadataExt, chown};
    const SERVICE: u32 = 4711;
    let dir = TempDir::new().expect("a folder");
    if chown(dir.path(), Some(SERVICE), Some(SERVICE)).is_err() {
        // Only root can give files away, so only root's files can be in the way.
        return;
    }
    drop(InternalCa::open(dir.path(), now()).expect("a CA"));
    let folder = dir.path().join("internal-ca");
    let inside = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    for path in inside.chain([folder.clone()]) {
        assert_eq!(fs::metadata(&path).expect("a file").uid(), SERVICE, "{}", path.display());
    }
}

#[test]
fn root_follows_no_link_of_somebody_else() {
    use std::os::unix::fs::{MetadataExt, chown, symlink};
    const SERVICE: u32 = 4711;
    let (dir, elsewhere) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let target = elsewhere.path().join("roots_own");
    fs::write(&target, "").expect("a file");
    let folder = dir.path().join("internal-ca");
    fs::create_dir(&folder).expect("a folder");
    symlink(&target, folder.join("lock")).expect("a link");
    if chown(dir.path(), Some(SERVICE), Some(SERVICE)).is_err() {
        // Only root can be led astray.
        return;
    }
    assert!(InternalCa::open(dir.path(), now()).is_err());
    fs::remove_dir_all(&folder).expect("a folder");
    symlink(elsewhere.path(), &folder).expect("a link");
    assert!(InternalCa::open(dir.path(), now()).is_err());
    for path in [target.as_path(), elsewhere.path()] {
        assert_eq!(fs::metadata(path).expect("it is there").uid(), 0, "{}", path.display());
    }
}
