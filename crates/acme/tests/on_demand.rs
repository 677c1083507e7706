//! Names on demand: who is asked, how often, and what never gets that far.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the line that did")]

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::{World, wanted};
use tidegate_acme::{News, Refusal};
use tidegate_model::{Acme, AcmeChallenge, OnDemand};
use tidegate_testkit::pebble::Options;

/// Says yes to names that begin with `yes`; what it was asked is kept.
struct Ask {
    settings: OnDemand,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Ask {
    fn start(names_per_hour: u32) -> Ask {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ask = format!("http://{}/may?x=1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).unwrap_or(0);
                let line = String::from_utf8_lossy(&bytes[..count]).lines().next().unwrap_or_default().to_owned();
                let status = if line.contains("domain=yes") && !line.contains("never") { "200 OK" } else { "403 Forbidden" };
                kept.lock().unwrap().push(line);
                let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        Ask { settings: OnDemand { ask, names_per_hour, wait: Duration::from_secs(20) }, asked }
    }

    /// An endpoint that allows no name.
    fn refusing() -> Ask {
        let mut ask = Ask::start(60);
        ask.settings.ask = ask.settings.ask.replace("/may?x=1", "/may?never=");
        ask
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[test]
fn who_is_asked_decides_and_is_asked_once() {
    let Some(world) = World::new(Options::default()) else { return };
    let acme = world.acme(&[AcmeChallenge::Http01]);
    let engine = world.engine();
    let ask = Ask::start(60);
    let demand = |name: &str| engine.demand(name, &acme, &ask.settings);
    assert_eq!(demand("yes.example"), Ok(()));
    assert!(engine.certificate("yes.example").is_new);
    assert_eq!(ask.asked(), ["GET /may?x=1&domain=yes.example HTTP/1.1"]);
    // Whoever asks again does not have it: it is told again, and nobody is asked.
    assert_eq!(demand("YES.example"), Ok(()));
    assert!(!engine.certificate("yes.example").is_new);
    assert!(matches!(demand("no.example"), Err(Refusal::NotAllowed(why)) if why.contains("403")));
    assert!(matches!(demand("no.example"), Err(Refusal::NotAllowed(_))));
    assert_eq!(ask.asked().len(), 2);
    for hostile in ["192.0.2.1", "localhost", "*.yes.example", "yes.example&domain=no", "yes..example", ""] {
        assert!(matches!(demand(hostile), Err(Refusal::NotAName(_))), "{hostile}");
    }
    assert_eq!(ask.asked().len(), 2);
    assert_eq!(world.pebble.issued(), 1);
    // A name that somebody wrote is not touched by what is on demand, nor the other way round.
    engine.want(&["written.example"], &acme);
    engine.certificate("written.example");
    engine.want(&[], &acme);
    assert_eq!(demand("yes.example"), Ok(()));
    drop(engine);

    // After a restart storage has it, so nobody needs to be asked.
    let engine = world.engine();
    let again = engine.demand("yes.example", &acme, &ask.settings);
    assert_eq!(again, Ok(()));
    assert!(!engine.certificate("yes.example").is_new);
    assert_eq!((ask.asked().len(), world.pebble.issued()), (2, 2));
}

#[test]
fn many_handshakes_for_one_name_are_one_order_and_names_of_an_hour_are_bounded() {
    let Some(world) = World::new(Options::default()) else { return };
    let acme = world.acme(&[AcmeChallenge::Http01]);
    let engine = world.engine();
    let ask = Ask::start(2);
    let all = async {
        let one = || engine.issuing.on_demand(wanted("yes1.example", &acme), &ask.settings);
        tokio::join!(one(), one(), one(), one())
    };
    assert_eq!(engine.runtime.block_on(all), (Ok(()), Ok(()), Ok(()), Ok(())));
    assert_eq!((ask.asked().len(), world.pebble.orders()), (1, 1));
    let demand = |name: &str| engine.demand(name, &acme, &ask.settings);
    assert_eq!(demand("yes2.example"), Ok(()));
    assert_eq!(demand("yes3.example"), Err(Refusal::TooMany));
    assert_eq!(world.pebble.orders(), 2);
}

#[test]
fn a_name_on_demand_that_fails_is_not_tried_at_every_handshake() {
    let Some(world) = World::new(Options::default()) else { return };
    world.pebble.dns("set-servfail", &serde_json::json!({"host": "yes.example."})).unwrap();
    let acme = world.acme(&[AcmeChallenge::Http01]);
    // As on the internet: a minute until the next attempt.
    let engine = world.engine_in(&world.storage(), tidegate_acme::Timing { back_off_factor: 1.0, ..support::quick() });
    let ask = Ask::start(60);
    let demand = || engine.demand("yes.example", &acme, &ask.settings);
    let first = demand();
    assert!(matches!(&first, Err(Refusal::Failed(fault)) if fault.cause.contains("yes.example")), "{first:?}");
    for _ in 0..3 {
        assert!(matches!(demand(), Err(Refusal::Failed(_))));
    }
    assert_eq!(world.pebble.orders(), 1);
    // It is forgotten, which happens after its answer.
    engine.until_status("forgetting", || engine.issuing.status().is_empty());
}

#[test]
fn a_name_that_is_refused_gets_none_although_an_order_for_it_has_failed() {
    let Some(world) = World::new(Options::default()) else { return };
    world.pebble.dns("set-servfail", &serde_json::json!({"host": "yes.example."})).unwrap();
    let acme = world.acme(&[AcmeChallenge::Http01]);
    let engine = world.engine();
    let (ask, refusing) = (Ask::start(60), Ask::refusing());
    assert!(matches!(engine.demand("yes.example", &acme, &ask.settings), Err(Refusal::Failed(_))));
    world.pebble.dns("clear-servfail", &serde_json::json!({"host": "yes.example."})).unwrap();
    // The engine of tests waits for moments only; once the name may be tried again, it is asked about again.
    let begin = std::time::Instant::now();
    loop {
        match engine.demand("yes.example", &acme, &refusing.settings) {
            Err(Refusal::NotAllowed(_)) => break,
            Err(Refusal::Failed(_)) if begin.elapsed() < Duration::from_secs(60) => thread::sleep(Duration::from_millis(50)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.pebble.issued(), 0);
}

#[test]
fn names_that_no_site_obtains_on_demand_any_more_are_given_up() {
    let Some(world) = World::new(Options::default()) else { return };
    let acme = world.acme(&[AcmeChallenge::Http01]);
    let engine = world.engine();
    let ask = Ask::start(60);
    assert_eq!(engine.demand("yes.example", &acme, &ask.settings), Ok(()));
    let site = tidegate_acme::OnDemandSite {
        hosts: vec![tidegate_model::HostPattern::Any],
        settings: ask.settings.clone(),
        acme: Arc::new(acme.clone()),
        listens: tidegate_acme::Listens { http: true, https: true },
    };
    engine.runtime.block_on(engine.issuing.want(Vec::new(), vec![site]));
    engine.until_status("name", || engine.issuing.status().len() == 1);
    engine.runtime.block_on(engine.issuing.want(Vec::new(), Vec::new()));
    engine.until_status("end of the name", || engine.issuing.status().is_empty());
    engine.until("withdrawal", |news| matches!(news, News::Withdrawn { name, .. } if name == "yes.example").then_some(()));
}

#[test]
fn nobody_who_answers_is_no_refusal() {
    let Some(world) = World::new(Options::default()) else { return };
    let engine = world.engine();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = OnDemand { ask: format!("http://{nobody}/"), names_per_hour: 60, wait: Duration::from_secs(20) };
    let acme: Acme = world.acme(&[AcmeChallenge::Http01]);
    let refused = engine.demand("yes.example", &acme, &settings);
    assert!(matches!(&refused, Err(Refusal::Failed(fault)) if fault.cause.contains("ask")), "{refused:?}");
    assert_eq!(world.pebble.orders(), 0);
}
