//! What goes wrong at a real CA, and that it is named, costs nothing that it need not, and mends itself.

mod support;

use serde_json::json;
use std::net::TcpListener;
use std::time::Duration;
use support::{ReadOnly, World, quick};
use tidegate_acme::{News, Refusal, RevocationReason, State, Timing};
use tidegate_model::{Acme, AcmeAuthority, AcmeChallenge, AcmeExternalAccount, Secret};
use tidegate_testkit::pebble::{Options, Pebble};

#[test]
fn a_name_that_leads_elsewhere_is_told_with_cause_and_remedy() {
    let Some(world) = World::new(Options::default()) else { return };
    world.pebble.dns("set-servfail", &json!({"host": "lost.example."})).unwrap();
    let engine = world.engine();
    engine.want(&["lost.example", "fine.example"], &world.acme(&[AcmeChallenge::Http01]));
    let fault = engine.failure("lost.example");
    assert!(fault.cause.contains("lost.example"), "{fault:?}");
    assert!(!fault.remedy.is_empty() && !fault.cause.contains('\n'), "{fault:?}");
    let status = engine.status("lost.example");
    assert!(status.state != State::Ready && status.failures_in_a_row >= 1 && status.last_fault.is_some(), "{status:?}");
    engine.certificate("fine.example");
    assert_eq!(world.answers.left(), 0);
    // Mended, it gets its certificate by itself.
    world.pebble.dns("clear-servfail", &json!({"host": "lost.example."})).unwrap();
    engine.certificate("lost.example");
    assert_eq!(engine.status("lost.example").failures_in_a_row, 0);
}

#[test]
fn what_one_challenge_cannot_another_can() {
    let Some(world) = World::new(Options::default()) else { return };
    // Nothing answers where the CA comes to for tls-alpn-01.
    world.answers.refuse_tls();
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01]));
    engine.certificate("a.example");
    assert_eq!((world.pebble.orders(), world.pebble.issued()), (2, 1));
    assert!(engine.seen.lock().unwrap().iter().all(|news| !matches!(news, News::Failed { .. })));
}

#[test]
fn a_second_ca_is_asked_when_the_first_is_away() {
    let Some(world) = World::new(Options::default()) else { return };
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let away = AcmeAuthority { name: "away".into(), directory: format!("https://{nobody}/dir"), ..world.authority() };
    let acme = Acme { authorities: vec![away, world.authority()], ..world.acme(&[AcmeChallenge::Http01]) };
    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    let fault = engine.failure("a.example");
    assert!(fault.cause.contains("away") && fault.cause.contains("cannot be reached"), "{fault:?}");
    let certificate = engine.certificate("a.example");
    assert_eq!(certificate.directory.as_deref(), Some(world.pebble.directory.as_str()));
}

#[test]
fn a_ca_that_hangs_is_named_and_left() {
    let Some(world) = World::new(Options::default()) else { return };
    // The kernel takes the connections, and nobody ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = format!("https://{}/dir", silent.local_addr().unwrap());
    let hanging = AcmeAuthority { name: "hanging".into(), directory, ..world.authority() };
    let acme = Acme { authorities: vec![hanging, world.authority()], ..world.acme(&[AcmeChallenge::Http01]) };
    let engine = world.engine_in(&world.storage(), Timing { request_max: Duration::from_millis(300), ..quick() });
    engine.want(&["a.example"], &acme);
    let fault = engine.failure("a.example");
    assert!(fault.cause.contains("hanging") && fault.cause.contains("timed out"), "{fault:?}");
    engine.certificate("a.example");
}

#[test]
fn an_expired_certificate_of_the_ca_itself_is_named() {
    let Some(world) = World::new(Options { is_expired: true, ..Options::default() }) else { return };
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::Http01]));
    let fault = engine.failure("a.example");
    assert!(fault.cause.contains("it has expired") && fault.remedy.contains("clock"), "{fault:?}");
}

#[test]
fn after_a_failure_the_next_try_goes_to_staging_first() {
    let Some(world) = World::new(Options::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let ports = (world.pebble.http_port, world.pebble.https_port);
    let options = Options { http_port: ports.0, https_port: ports.1, ..Options::default() };
    let Some(staging) = Pebble::start(folder.path(), options).unwrap() else { return };
    // One root file for both: the CA's and its staging directory's.
    let roots = world.folder.path().join("both.pem");
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    std::fs::write(&roots, read(&world.pebble.root) + &read(&staging.root)).unwrap();
    let authority = AcmeAuthority { staging: Some(staging.directory.clone()), root: Some(roots), ..world.authority() };
    let acme = Acme { authorities: vec![authority], ..world.acme(&[AcmeChallenge::Http01]) };
    for pebble in [&world.pebble, &staging] {
        pebble.dns("set-servfail", &json!({"host": "a.example."})).unwrap();
    }
    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    let first = engine.failure("a.example");
    assert!(!first.cause.contains("staging"), "{first:?}");
    let second = engine.failure("a.example");
    assert!(second.cause.contains("staging"), "{second:?}");
    for pebble in [&world.pebble, &staging] {
        pebble.dns("clear-servfail", &json!({"host": "a.example."})).unwrap();
    }
    let certificate = engine.certificate("a.example");
    assert_eq!(certificate.directory.as_deref(), Some(world.pebble.directory.as_str()));
    assert_eq!((world.pebble.orders(), world.pebble.issued()), (2, 1));
    assert!(staging.orders() >= 2 && staging.issued() == 1);
}

#[test]
fn what_cannot_be_kept_is_not_ordered_and_the_last_good_one_stays() {
    let Some(world) = World::new(Options::default()) else { return };
    let acme = world.acme(&[AcmeChallenge::Http01]);
    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    let first = engine.certificate("a.example");
    let orders = world.pebble.orders();
    let storage = world.storage();
    let Some(read_only) = ReadOnly::make(&storage) else {
        eprintln!("skipped: nothing makes a folder read-only for this user");
        return;
    };
    let refused = engine.renew("a.example").unwrap_err();
    let Refusal::Failed(fault) = refused else { panic!("{refused:?}") };
    assert!(fault.cause.contains("cannot be kept"), "{fault:?}");
    assert_eq!(world.pebble.orders(), orders);
    let status = engine.status("a.example");
    assert_eq!((status.state, status.serial), (State::Ready, Some(first.serial)));
    drop(read_only);
    engine.renew("a.example").unwrap();
}

#[test]
fn an_account_must_be_bound_where_the_ca_says_so() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let external_accounts = vec![("kid-1".to_owned(), key.to_owned())];
    let Some(world) = World::new(Options { external_accounts, ..Options::default() }) else { return };
    let with = |key_id: &str, key: &str| {
        let external = AcmeExternalAccount { key_id: key_id.into(), hmac_key: Secret::new(key) };
        let authority = AcmeAuthority { external_account: Some(external), ..world.authority() };
        Acme { authorities: vec![authority], ..world.acme(&[AcmeChallenge::Http01]) }
    };
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::Http01]));
    let fault = engine.failure("a.example");
    assert!(fault.remedy.contains("eab"), "{fault:?}");
    engine.want(&["a.example"], &with("kid-1", "d3Jvbmc"));
    let fault = engine.failure_after("a.example", |fault| fault.remedy.contains("HMAC"));
    assert!(!format!("{fault:?}").contains("d3Jvbmc"), "{fault:?}");
    engine.want(&["a.example"], &with("kid-1", key));
    engine.certificate("a.example");
}

#[test]
fn an_account_that_the_ca_has_forgotten_is_made_anew() {
    let Some(mut world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::Http01]));
    let first = engine.certificate("a.example");
    world.pebble.restart().unwrap();
    engine.renew("a.example").unwrap();
    assert_ne!(engine.certificate("a.example").serial, first.serial);
}

#[test]
fn another_address_of_mail_takes_the_account_over() {
    let Some(world) = World::new(Options::default()) else { return };
    let with = |email: &str| Acme { email: Some(email.into()), ..world.acme(&[AcmeChallenge::Http01]) };
    let engine = world.engine();
    engine.want(&["a.example"], &with("one@example.com"));
    engine.certificate("a.example");
    engine.want(&["a.example", "b.example"], &with("two@example.com"));
    engine.certificate("b.example");
    let accounts = world.files("acme/accounts");
    assert!(accounts.len() == 1 && accounts[0].contains("two@example.com"), "{accounts:?}");
}

#[test]
fn a_revoked_certificate_is_in_use_until_another_one_is_obtained() {
    let Some(world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::Http01]));
    let first = engine.certificate("a.example");
    engine.runtime.block_on(engine.issuing.revoke("a.example", RevocationReason::KeyCompromise)).unwrap();
    let second = engine.certificate("a.example");
    assert_ne!(first.serial, second.serial);
    let seen = engine.seen.lock().unwrap();
    assert!(!seen.iter().any(|news| matches!(news, News::Withdrawn { .. })), "it is better than none: {seen:?}");
    assert_eq!(world.pebble.requests("POST /revoke-cert").min(1), 1);
    drop(seen);
    let unknown = engine.runtime.block_on(engine.issuing.revoke("b.example", RevocationReason::Unspecified));
    assert_eq!(unknown, Err(Refusal::NotWanted));
}

#[test]
fn what_is_in_storage_and_torn_is_ordered_again() {
    let Some(world) = World::new(Options::default()) else { return };
    let acme = world.acme(&[AcmeChallenge::Http01]);
    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    let first = engine.certificate("a.example");
    drop(engine);
    let bundle = world.storage().join("acme/certificates/a.example/bundle.pem");
    std::fs::write(&bundle, &first.bundle.0.as_bytes()[..300]).unwrap();
    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    assert!(engine.failure("a.example").cause.contains("of no use"));
    assert_ne!(engine.certificate("a.example").serial, first.serial);
}
