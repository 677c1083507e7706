//! The internal CA on disk and in handshakes.

use super::support::{TLS12, TLS13, client, days, handshake, mode, now, site};
use crate::facts::{CertificateName, KeyAlgorithm};
use crate::internal_ca::{BACKDATED, InternalCa, LEAF_LIFE, ROOT_LIFE};
use crate::server::server_config;
use crate::site::{Renewal, SiteCertificates};
use crate::survivors::TlsSurvivors;
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
    assert_eq!(CertificateDer::from_pem_file(again.root_pem_path()).expect("a PEM file"), *first.root_certificate());
    let folder = state.join("internal-ca");
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("root.key")), 0o600);
    assert_eq!(mode(&folder.join("lock")), 0o600);
    let mut files: Vec<_> = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    files.sort();
    assert_eq!(files, ["lock", "root.crt", "root.key"]);
}

#[test]
fn those_who_open_it_at_once_get_the_same_root() {
    const OPENERS: usize = 4;
    let dir = TempDir::new().expect("a folder");
    let barrier = Barrier::new(OPENERS);
    let open = || {
        barrier.wait();
        InternalCa::open(dir.path(), now()).expect("a CA").root_certificate().clone()
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
    let survivors = TlsSurvivors::new(dir.path().to_owned()).expect("survivors");
    let check = |addresses: &[&str], source: TlsSource, names: &[&str]| {
        let site = site(addresses, source);
        let certificates = SiteCertificates::load(&site, &survivors, now()).expect("no fault").expect("TLS is on");
        let config = server_config(&Tls::default(), certificates, &survivors).expect("a configuration");
        // Opened anew, as a client after a restart would still trust it.
        let root = InternalCa::open(dir.path(), now()).expect("the same CA").root_certificate().clone();
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
    let survivors = TlsSurvivors::new(dir.path().to_owned()).expect("survivors");
    for site in [site(&["a.test"], TlsSource::Off), site(&["http://a.test", "http://:8080"], TlsSource::Automatic)] {
        assert!(SiteCertificates::load(&site, &survivors, now()).expect("no fault").is_none());
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
    let later = ca.certificate_for(&names, start + days(59)).expect("a leaf");
    assert_eq!(first.certified_key.cert, later.certified_key.cert);

    let site = SiteCertificates::from_internal_ca(ca.clone(), names, start).expect("certificates");
    assert!(matches!(site.renew_if_due(start + days(59)), Ok(Renewal::NotDue)));
    let due = start + days(61);
    assert!(matches!(site.renew_if_due(due), Ok(Renewal::Replaced { not_after }) if not_after == due + LEAF_LIFE));
    assert!(matches!(site.renew_if_due(due), Ok(Renewal::NotDue)));
    assert_ne!(site.current()[0].certified_key.cert, first.certified_key.cert);
}

#[test]
fn no_leaf_outlives_its_root_and_an_expired_root_is_replaced() {
    let dir = TempDir::new().expect("a folder");
    let long_ago = now() - ROOT_LIFE + days(30);
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
    check(&|folder| fs::remove_file(folder.join("root.crt")).expect("a file"), "opened");
    check(&|folder| fs::write(folder.join("root.new"), "half").expect("a file"), "opened");
    check(
        &|folder| fs::remove_file(folder.join("root.key")).expect("a file"),
        "the internal CA cannot be used: root.key: there is a root.crt but not its key",
    );
    check(
        &|folder| fs::write(folder.join("root.crt"), "").expect("a file"),
        "the internal CA cannot be used: root.crt: it holds no certificate",
    );
    check(
        &|folder| fs::write(folder.join("root.key"), "").expect("a file"),
        "the internal CA cannot be used: root.key: it holds no PKCS#8 key",
    );
    check(
        &|folder| assert!(fs::copy(&other_key, folder.join("root.key")).is_ok()),
        "the internal CA cannot be used: root.key: it does not belong to root.crt",
    );
    check(
        &|folder| fs::write(folder.join("root.crt"), own.certificate.pem()).expect("a file"),
        "the internal CA cannot be used: root.key: it does not belong to root.crt",
    );
}
