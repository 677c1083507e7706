//! Orders at a real CA (pebble) by each kind of challenge, kept and read back.

mod support;

use support::World;
use tidegate_acme::State;
use tidegate_model::{AcmeChallenge, AcmeKeyType};
use tidegate_testkit::pebble::Options;

#[test]
fn a_name_gets_its_certificate_by_http_and_keeps_it() {
    let Some(world) = World::new(Options::default()) else { return };
    let acme = world.acme(&[AcmeChallenge::Http01]);
    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    let certificate = engine.certificate("a.example");
    assert!(certificate.is_new);
    assert_eq!(certificate.directory.as_deref(), Some(world.pebble.directory.as_str()));
    assert_eq!(engine.status("a.example").state, State::Ready);
    assert_eq!(world.answers.left(), 0);
    assert_eq!((world.pebble.orders(), world.pebble.issued()), (1, 1));
    drop(engine);

    let engine = world.engine();
    engine.want(&["a.example"], &acme);
    let kept = engine.certificate("a.example");
    assert!(!kept.is_new);
    assert_eq!(kept.bundle, certificate.bundle);
    engine.read();
    assert_eq!((world.pebble.orders(), world.pebble.issued()), (1, 1));
}

#[test]
fn a_name_gets_its_certificate_in_the_handshake() {
    let Some(world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    engine.want(&["b.example", "127.0.0.1"], &world.acme(&[AcmeChallenge::TlsAlpn01]));
    assert!(engine.certificate("b.example").is_new);
    assert_eq!(world.answers.left(), 0);
}

#[test]
fn an_address_gets_its_certificate() {
    let Some(world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    engine.want(&["127.0.0.1"], &world.acme(&[AcmeChallenge::Http01]));
    engine.certificate("127.0.0.1");
}

#[test]
fn every_type_of_key_is_issued_for() {
    let Some(world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    let kinds = [AcmeKeyType::EcdsaP256, AcmeKeyType::EcdsaP384, AcmeKeyType::Rsa2048];
    for (index, key_type) in kinds.into_iter().enumerate() {
        let name = format!("k{index}.example");
        let acme = tidegate_model::Acme { key_type, ..world.acme(&[AcmeChallenge::Http01]) };
        engine.want(&[&name], &acme);
        engine.certificate(&name);
    }
}

#[test]
fn a_new_certificate_can_be_asked_for() {
    let Some(world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::Http01]));
    let first = engine.certificate("a.example");
    engine.renew("a.example").unwrap();
    let second = engine.certificate("a.example");
    assert_ne!(first.serial, second.serial);
    assert_ne!(first.bundle, second.bundle);
    drop(engine);

    // Also of an engine that has not read storage yet.
    let engine = world.engine();
    engine.want(&["a.example"], &world.acme(&[AcmeChallenge::Http01]));
    engine.renew("a.example").unwrap();
    let issued = |news: &tidegate_acme::News| matches!(news, tidegate_acme::News::Certificate(one) if one.is_new).then_some(());
    engine.until("a new certificate", issued);
    let unknown = engine.renew("other.example").unwrap_err();
    assert_eq!(unknown, tidegate_acme::Refusal::NotWanted);
}

#[test]
fn a_wildcard_and_the_name_above_it_are_shown_by_records_of_dns() {
    let Some(world) = World::new(Options::default()) else { return };
    let acme = world.acme_with_dns();
    let engine = world.engine();
    engine.want(&["*.w.example", "w.example"], &acme);
    engine.both("*.w.example", "w.example");
    let calls = world.dns_calls();
    let of = |what: &str| {
        calls.iter().filter(|call| call.starts_with(what)).map(|call| call[what.len()..].to_owned()).collect::<Vec<_>>()
    };
    let (mut presented, mut cleaned) = (of("present "), of("cleanup "));
    presented.sort();
    cleaned.sort();
    assert!(presented.iter().all(|call| call.starts_with("_acme-challenge.w.example")), "{calls:?}");
    assert_eq!((presented.len(), &presented), (2, &cleaned));
}
