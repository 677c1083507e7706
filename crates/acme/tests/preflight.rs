//! The look before the order, over real sockets and a real name server: what is certain to fail costs no order, what is
//! fine is ordered.

mod support;

use serde_json::json;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use support::World;
use tidegate_acme::{ChallengeChange, Listens, Wanted};
use tidegate_model::{Acme, AcmeChallenge, AcmeDns, DnsProvider};
use tidegate_testkit::pebble::{Options, Pebble};
use tidegate_testkit::ports::listen_beside;

/// With the look before; names are looked up at the CA's own name server.
fn careful(world: &World, challenge: AcmeChallenge) -> Acme {
    let provider = DnsProvider::Exec { command: "/nonexistent".into() };
    let dns = AcmeDns { provider, propagation: AcmeDns::PROPAGATION, resolver: Some(world.pebble.dns) };
    Acme { preflight: true, dns: Some(dns), ..world.acme(&[challenge]) }
}

#[test]
fn what_is_fine_is_ordered_and_leaves_nothing_behind() {
    for challenge in [AcmeChallenge::Http01, AcmeChallenge::TlsAlpn01] {
        let Some(world) = World::new(Options::default()) else { return };
        let engine = world.engine();
        engine.want(&["a.example"], &careful(&world, challenge));
        engine.certificate("a.example");
        assert_eq!(world.answers.left(), 0);
        // It was asked as the CA asks: one answer for us and one for the CA.
        let added =
            |change: &&ChallengeChange| matches!(change, ChallengeChange::AddHttp { .. } | ChallengeChange::AddTls { .. });
        assert_eq!(world.answers.changes.lock().unwrap().iter().filter(added).count(), 2, "{challenge}");
    }
}

#[test]
fn a_name_without_an_address_is_not_ordered() {
    let Some(world) = World::new(Options::default()) else { return };
    world.pebble.dns("set-default-ipv4", &json!({"ip": ""})).unwrap();
    let engine = world.engine();
    engine.want(&["a.example"], &careful(&world, AcmeChallenge::Http01));
    let fault = engine.failure("a.example");
    assert!(fault.cause.contains("a.example has no address") && fault.remedy.contains("A or AAAA"), "{fault:?}");
    assert_eq!(world.pebble.orders(), 0);
    world.pebble.dns("add-a", &json!({"host": "a.example.", "addresses": ["127.0.0.1"]})).unwrap();
    engine.certificate("a.example");
}

#[test]
fn another_server_at_the_port_is_not_ordered_for() {
    fn check(challenge: AcmeChallenge, serve: impl Fn(SocketAddr), expected: &str) {
        let Some(world) = World::without_answers(Options::default()) else { return };
        let port = |pebble: &Pebble| if challenge == AcmeChallenge::Http01 { pebble.http_port } else { pebble.https_port };
        serve(SocketAddr::from(([127, 0, 0, 1], port(&world.pebble))));
        let engine = world.engine();
        engine.want(&["a.example"], &careful(&world, challenge));
        let fault = engine.failure("a.example");
        assert!(fault.cause.contains(expected), "{fault:?}");
        assert_eq!(world.pebble.orders(), 0);
    }
    let apache = |address: SocketAddr| {
        let listener = listen_beside(address).unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nServer: Apache\r\nContent-Length: 0\r\n\r\n");
            }
        });
    };
    check(AcmeChallenge::Http01, apache, "another server answers on port 80 (status 404 from Apache)");
    check(AcmeChallenge::TlsAlpn01, apache, "another server answers on port 443 (its TLS cannot be read");
    check(AcmeChallenge::Http01, |_| {}, "nothing answers there on port 80: Connection refused");
}

#[test]
fn a_wildcard_without_a_provider_and_a_name_without_a_listener_are_told() {
    let Some(world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    engine.want(&["*.a.example"], &world.acme(&[]));
    assert!(engine.failure("*.a.example").cause.contains("needs the challenge dns-01"));
    let acme = std::sync::Arc::new(world.acme(&[]));
    let listens = Listens { http: false, https: false };
    engine.runtime.block_on(engine.issuing.want(vec![Wanted { name: "a.example".into(), acme, listens }], Vec::new()));
    assert!(engine.failure("a.example").cause.contains("nothing listens where a CA would look"));
    engine.want(&["b\u{fc}cher.example"], &world.acme(&[]));
    assert!(engine.failure("b\u{fc}cher.example").cause.contains("ASCII"));
    assert_eq!(world.pebble.orders(), 0);
}
