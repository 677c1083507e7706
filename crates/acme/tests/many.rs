//! Many names in one run, with a CA that is in a bad mood.

mod support;

use std::collections::HashSet;
use support::World;
use tidegate_acme::{News, State};
use tidegate_model::AcmeChallenge;
use tidegate_testkit::pebble::Options;

const NAMES: usize = 200;

#[test]
fn two_hundred_names_in_one_run_although_a_third_of_all_nonces_is_refused() {
    let options = Options { nonces_rejected: 30, authorisations_reused: 50, ..Options::default() };
    let Some(world) = World::new(options) else { return };
    let names: Vec<String> = (0..NAMES).map(|index| format!("n{index}.example")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let engine = world.engine();
    engine.want(&all, &world.acme(&[AcmeChallenge::Http01]));
    let mut missing: HashSet<&str> = all.iter().copied().collect();
    engine.until("certificates of all", |news| {
        if let News::Certificate(certificate) = news {
            missing.remove(certificate.name.as_str());
        }
        missing.is_empty().then_some(())
    });
    let failures: Vec<_> =
        engine.seen.lock().unwrap().iter().filter(|news| matches!(news, News::Failed { .. })).cloned().collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(engine.issuing.status().iter().all(|status| status.state == State::Ready));
    assert_eq!((world.pebble.orders(), world.pebble.issued()), (NAMES, NAMES));
    assert_eq!(world.answers.left(), 0);
    // One account for all of them.
    assert_eq!(world.files("acme/accounts").len(), 1);
    drop(engine);

    // And all of them are there after a restart, at once.
    let engine = world.engine();
    engine.want(&all, &world.acme(&[AcmeChallenge::Http01]));
    engine.read();
    let read = engine.seen.lock().unwrap().iter().filter(|news| matches!(news, News::Certificate(one) if !one.is_new)).count();
    assert_eq!(read, NAMES);
    assert_eq!(world.pebble.issued(), NAMES);
}
