//! What becomes of a server by what is said of it. Time is given, so nothing here depends on the speed of the machine.
//! Not beside the code, for the reason in `queue_tests`.

use crate::health::{Cause, Checked, Health, HealthNews, PROBE_MOST, Probing, State, Ticks, Usage, Why};
use std::time::{Duration, Instant};
use tidegate_balancing::{HealthStatus as Tier, outlier};

const SECOND: Duration = Duration::from_secs(1);
const WHY: outlier::Why = outlier::Why::ConsecutiveFailures(5);

fn health() -> (Health, Instant) {
    let began = Instant::now();
    (Health::new(began, HealthNews::default()), began)
}

#[test]
fn what_is_known_of_a_server_decides_whether_it_is_chosen() {
    let check = |change: fn(&Health, Instant), expected: Tier, why: Option<Why>| {
        let (health, now) = health();
        change(&health, now);
        assert_eq!((health.tier(now), health.why(SECOND, now)), (expected, why));
    };
    check(|_, _| {}, Tier::Serving, None);
    check(|health, _| health.set_drained(true), Tier::Closed, Some(Why::Drained));
    check(|health, _| health.set_leaving(true), Tier::Closed, Some(Why::Leaving));
    check(|health, now| health.set_checked(Checked::Unknown, now), Tier::Unknown, Some(Why::Unknown));
    check(|health, now| health.set_checked(Checked::Up, now), Tier::Serving, None);
    check(|health, now| health.set_checked(Checked::Down, now), Tier::Unhealthy, Some(Why::Down));
    check(|health, now| health.back_off(now, SECOND), Tier::Unhealthy, Some(Why::Unreachable(SECOND)));
    check(|health, now| health.pause(now, SECOND), Tier::Unhealthy, Some(Why::Paused(SECOND)));
    check(|health, _| health.eject(SECOND * 10, WHY), Tier::Unhealthy, Some(Why::Ejected(SECOND * 10)));
    // Who is drained and down is drained.
    let both = |health: &Health, now| {
        health.set_checked(Checked::Down, now);
        health.set_drained(true);
    };
    check(both, Tier::Closed, Some(Why::Drained));
}

#[test]
fn one_request_finds_out_whether_a_server_is_well_again() {
    let (health, began) = health();
    assert_eq!(health.begin_probe(began), Probing::NotNeeded);
    health.eject(SECOND * 10, WHY);
    let later = began + SECOND * 10;
    assert_eq!((health.tier(later), health.why(SECOND, later)), (Tier::Serving, Some(Why::Probed)));
    assert_eq!(health.begin_probe(later), Probing::This);
    assert_eq!((health.begin_probe(later), health.tier(later)), (Probing::Another, Tier::Unhealthy));
    health.found_nothing_out();
    assert_eq!((health.tier(later), health.begin_probe(later)), (Tier::Serving, Probing::This));
    // What was on its way when it was ejected says nothing of how it is now.
    health.served_well();
    assert!(health.is_out());
    assert!(health.come_back(later));
    assert!(!health.is_out() && !health.is_ejected());
    assert_eq!(health.tier(later), Tier::Serving);
    assert!(!health.come_back(later), "it was there");
}

#[test]
fn failures_are_counted_in_a_row() {
    let (health, _) = health();
    assert_eq!([health.failed(), health.failed()], [1, 2]);
    health.served_well();
    assert_eq!(health.failed(), 1);
    health.eject(SECOND, WHY);
    assert_eq!((health.failed(), health.last_ejection()), (1, Some(WHY)));
}

#[test]
fn who_came_back_before_its_time_begins_anew() {
    let backs_off_for = |come_back: fn(&Health, Instant)| {
        let (health, began) = health();
        health.set_checked(Checked::Down, began);
        health.eject(SECOND * 60, WHY);
        come_back(&health, began);
        health.back_off(began, SECOND);
        health.why(Duration::ZERO, began)
    };
    assert_eq!(backs_off_for(|health, now| health.set_checked(Checked::Up, now)), Some(Why::Unreachable(SECOND)));
    let by_request = |health: &Health, now: Instant| {
        health.set_checked(Checked::Unasked, now);
        health.come_back(now);
    };
    assert_eq!(backs_off_for(by_request), Some(Why::Unreachable(SECOND)));
}

#[test]
fn a_short_pause_does_not_shorten_a_longer_one() {
    let (health, began) = health();
    health.eject(SECOND * 60, WHY);
    health.back_off(began, SECOND);
    assert_eq!(health.why(SECOND, began + SECOND * 2), Some(Why::Ejected(SECOND * 58)));
}

#[test]
fn checks_bring_back_who_was_down_and_not_who_was_up() {
    let (health, began) = health();
    health.set_checked(Checked::Up, began);
    health.eject(SECOND * 10, WHY);
    health.set_checked(Checked::Up, began);
    assert_eq!(health.tier(began), Tier::Unhealthy, "its requests fail, whatever its checks say");
    health.set_checked(Checked::Down, began);
    assert_eq!(health.checked(), Checked::Down);
    health.set_checked(Checked::Up, began);
    assert_eq!((health.tier(began), health.checked()), (Tier::Serving, Checked::Up));
}

#[test]
fn who_comes_into_use_gets_its_share_little_by_little() {
    let (health, began) = health();
    let share = |at: u32| health.share(SECOND * 10, began + SECOND * at);
    assert_eq!(share(0), 256);
    health.begin_slowly(began + SECOND * 5);
    assert_eq!((share(5), share(10), share(15), share(16)), (26, 141, 256, 256));
    assert_eq!(health.why(SECOND * 10, began + SECOND * 16), None);
}

#[test]
fn a_client_stays_with_a_server_that_is_drained_and_not_with_one_that_is_down() {
    let (health, now) = health();
    assert!(health.keeps_its_own(now));
    health.set_drained(true);
    health.set_leaving(true);
    assert!(health.keeps_its_own(now));
    health.set_checked(Checked::Down, now);
    assert!(!health.keeps_its_own(now));
    health.set_checked(Checked::Up, now);
    health.back_off(now, SECOND);
    assert!(!health.keeps_its_own(now));
}

#[test]
fn one_request_finds_out_and_another_one_when_it_takes_too_long() {
    let began = Instant::now();
    let at = |seconds: u64| began + Duration::from_secs(seconds);
    let health = Health::new(began, HealthNews::default());
    assert_eq!(health.begin_probe(at(0)), Probing::NotNeeded);
    health.back_off(at(0), Duration::from_secs(5));
    assert_eq!((health.tier(at(4)), health.tier(at(5))), (Tier::Unhealthy, Tier::Serving));
    assert_eq!(health.begin_probe(at(5)), Probing::This);
    assert_eq!((health.tier(at(6)), health.begin_probe(at(6))), (Tier::Unhealthy, Probing::Another));
    let late = at(6) + PROBE_MOST;
    assert_eq!((health.tier(late), health.begin_probe(late)), (Tier::Serving, Probing::This));
    assert_eq!(health.tier(late), Tier::Unhealthy);
    health.found_nothing_out();
    assert_eq!(health.begin_probe(late), Probing::This);
    assert!(!health.come_back(late), "it was not ejected");
    assert_eq!((health.tier(late), health.begin_probe(late)), (Tier::Serving, Probing::NotNeeded));
}

#[test]
fn every_state_is_the_same_out_of_its_word() {
    let (until, since) = (Ticks((1 << 37) - 1), Ticks((1 << 19) - 1));
    let causes = [Cause::Unreachable, Cause::Paused, Cause::Ejected];
    let out = causes.into_iter().flat_map(|cause| [Usage::Out { cause, until }, Usage::Probed { cause, until, since }]);
    let usages: Vec<_> = out.chain([Usage::InUse]).collect();
    for checked in [Checked::Unasked, Checked::Unknown, Checked::Up, Checked::Down] {
        for bits in 0..4 {
            for usage in &usages {
                let state = State { is_drained: bits & 1 != 0, is_leaving: bits & 2 != 0, checked, usage: *usage };
                assert_eq!(State::of(state.word()), state);
            }
        }
    }
}

#[test]
fn of_many_that_come_at_once_one_finds_out() {
    let (health, began) = health();
    for round in 1..200 {
        health.back_off(began, Duration::from_millis(8 * round));
        let now = began + Duration::from_millis(8 * round);
        let probe = || (0..50).filter(|_| health.begin_probe(now) == Probing::This).count();
        let found: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(probe)).collect();
            threads.into_iter().map(|thread| thread.join().expect("an end")).sum()
        });
        assert_eq!(found, 1, "round {round}");
        assert!(!health.come_back(now) && !health.is_out());
    }
}

#[test]
fn why_it_was_ejected_last_and_how_often() {
    let (health, _) = health();
    let rate = outlier::Why::SuccessRate { percent: 40, others_percent: 100 };
    for why in [WHY, rate, outlier::Why::ConsecutiveFailures(u32::MAX)] {
        health.eject(SECOND, why);
        assert_eq!(health.last_ejection(), Some(why));
    }
    assert_eq!((health.take_ejections(), health.take_ejections()), (3, 0));
    assert_eq!(health.last_ejection(), Some(outlier::Why::ConsecutiveFailures(u32::MAX)));
}

#[test]
fn only_what_happens_to_a_server_is_news_of_its_pool() {
    let (news, now) = (HealthNews::default(), Instant::now());
    let servers = [Health::new(now, news.clone()), Health::new(now, news.clone())];
    assert!(news.take(), "nobody has looked at the pool");
    assert!(!news.take());
    servers.iter().for_each(Health::served_well);
    assert_eq!(servers[0].failed(), 1);
    assert!(!news.take(), "nothing of this changes what is shown");
    let check = |happen: fn(&Health, Instant)| {
        happen(&servers[1], now);
        assert_eq!([news.take(), news.take()], [true, false]);
    };
    check(|health, _| health.set_drained(true));
    check(|health, now| health.set_checked(Checked::Down, now));
    check(|health, now| health.eject(health.elapsed(now) + SECOND, WHY));
    check(|health, now| assert!(health.come_back(now)));
    check(Health::begin_slowly);
}
