//! Several threads say something of a server at the same time: nothing that was said is lost.

use crate::health::{Checked, Health, HealthNews, Probing};
use loom::thread;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_balancing::HealthStatus;
use tidegate_balancing::outlier::Why;

const SECOND: Duration = Duration::from_secs(1);

/// What two threads do to a server at the same time, and what holds afterwards. `before` happens when the process
/// begins, the rest ten seconds later.
fn check(
    before: fn(&Health, Instant),
    one: fn(&Health, Instant),
    other: fn(&Health, Instant),
    after: fn(&Health, Instant) -> bool,
) {
    loom::model(move || {
        let began = Instant::now();
        let now = began + SECOND * 10;
        let health = Arc::new(Health::new(began, HealthNews::default()));
        before(&health, began);
        let shared = health.clone();
        let beside = thread::spawn(move || other(&shared, now));
        one(&health, now);
        beside.join().expect("no panic");
        assert!(after(&health, now), "{health:?}");
    });
}

#[test]
fn one_of_two_requests_finds_out() {
    loom::model(|| {
        let began = Instant::now();
        let now = began + SECOND * 10;
        let health = Arc::new(Health::new(began, HealthNews::default()));
        health.back_off(began, SECOND);
        let shared = health.clone();
        let beside = thread::spawn(move || shared.begin_probe(now));
        let both = [health.begin_probe(now), beside.join().expect("no panic")];
        assert!(both == [Probing::This, Probing::Another] || both == [Probing::Another, Probing::This], "{both:?}");
    });
}

#[test]
fn what_is_said_at_the_same_time_is_all_kept() {
    check(
        |_, _| {},
        |health, _| health.set_drained(true),
        |health, now| health.back_off(now, SECOND),
        |health, _| health.is_drained() && health.is_out(),
    );
    check(
        |_, _| {},
        |health, now| health.set_checked(Checked::Down, now),
        |health, _| health.set_leaving(true),
        |health, _| health.checked() == Checked::Down && health.is_leaving(),
    );
    check(
        |health, now| health.set_checked(Checked::Down, now),
        |health, now| health.set_checked(Checked::Up, now),
        |health, _| health.set_drained(true),
        |health, _| health.checked() == Checked::Up && health.is_drained(),
    );
}

/// The server cannot be reached by one request while another's failures put it out.
#[test]
fn an_ejection_is_not_cut_short_by_a_shorter_time() {
    check(
        |_, _| {},
        |health, now| health.eject(health.elapsed(now) + SECOND * 5, Why::ConsecutiveFailures(5)),
        |health, now| health.back_off(now, SECOND),
        |health, now| health.is_ejected() && health.tier(now + SECOND * 4) == HealthStatus::Unhealthy,
    );
}

#[test]
fn each_ejection_and_each_failure_counts_once() {
    check(
        |_, _| {},
        |health, now| health.eject(health.elapsed(now), Why::ConsecutiveFailures(5)),
        |health, now| health.eject(health.elapsed(now), Why::ConsecutiveFailures(6)),
        |health, _| health.take_ejections() == 2 && health.take_ejections() == 0,
    );
    loom::model(|| {
        let health = Arc::new(Health::new(Instant::now(), HealthNews::default()));
        let shared = health.clone();
        let beside = thread::spawn(move || shared.failed());
        let counts = [health.failed(), beside.join().expect("no panic")];
        assert!(counts == [1, 2] || counts == [2, 1], "{counts:?}");
    });
}

#[test]
fn the_count_of_ejections_is_taken_whole() {
    loom::model(|| {
        let health = Arc::new(Health::new(Instant::now(), HealthNews::default()));
        let shared = health.clone();
        let beside = thread::spawn(move || shared.eject(SECOND, Why::ConsecutiveFailures(5)));
        let taken = health.take_ejections();
        beside.join().expect("no panic");
        assert_eq!(taken + health.take_ejections(), 1);
        assert_eq!(health.last_ejection(), Some(Why::ConsecutiveFailures(5)));
    });
}

/// A worker sees that a server has its whole share while another lets it begin anew.
#[test]
fn a_server_that_begins_anew_is_not_taken_for_one_that_began_long_ago() {
    check(
        Health::begin_slowly,
        |health, now| {
            health.share(SECOND, now);
        },
        Health::begin_slowly,
        |health, now| health.share(SECOND, now) < 256,
    );
}
