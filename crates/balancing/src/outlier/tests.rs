//! Ejection as a pool lives it: who is out, for how long, and who may not be.

use super::{Ejections, Sample, Why};
use std::time::Duration;
use tidegate_model::Outlier;

const WHY: Why = Why::ConsecutiveFailures(5);

fn settings() -> Outlier {
    Outlier { eject: at(10), eject_max: at(60), ..Outlier::default() }
}

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

/// Fails at each of the seconds, having returned when its time was over; how long it is out each time, in seconds.
fn check_times(failures_at: &[u64], expected: &[u64]) {
    let mut ejections = Ejections::default();
    let mut seen = Vec::new();
    let mut until = None;
    for second in failures_at {
        if let Some(until) = until {
            ejections.returned(1, until);
        }
        let ejection = ejections.consider(&settings(), 1, WHY, 3, at(*second)).expect("it may be out");
        seen.push(ejection.until.saturating_sub(at(*second)).as_secs());
        until = Some(ejection.until);
    }
    assert_eq!(seen, expected, "{failures_at:?}");
}

#[test]
fn the_time_doubles_in_a_row_and_is_forgotten_by_serving() {
    check_times(&[0, 11, 32, 73, 134], &[10, 20, 40, 60, 60]);
    // Served nine seconds, then ten, then thirty.
    check_times(&[0, 19], &[10, 20]);
    check_times(&[0, 20], &[10, 10]);
    check_times(&[0, 11, 32, 102], &[10, 20, 40, 10]);
    check_times(&[0, 11, 32, 82], &[10, 20, 40, 40]);
    check_times(&[0, 1_000_000], &[10, 10]);
}

#[test]
fn a_server_that_fails_its_trial_is_out_again_for_longer() {
    let mut ejections = Ejections::default();
    let mut consider = |second| ejections.consider(&settings(), 1, WHY, 2, at(second)).map(|ejection| ejection.until);
    assert_eq!(consider(0), Some(at(10)));
    assert_eq!(consider(9), None, "it is out already");
    assert_eq!(consider(10), Some(at(30)));
}

#[test]
fn only_a_part_of_a_pool_is_out_at_once() {
    let check = |servers: usize, percent: u8, expected: usize| {
        let mut ejections = Ejections::default();
        let settings = Outlier { ejected_percent_max: percent, ..settings() };
        let out = (0..servers as u64).filter(|server| ejections.consider(&settings, *server, WHY, servers, at(0)).is_some());
        assert_eq!(out.count(), expected, "{percent} % of {servers}");
        assert_eq!(ejections.out(), expected);
    };
    check(0, 50, 0);
    check(1, 100, 0);
    check(2, 50, 1);
    check(3, 50, 1);
    check(3, 0, 1);
    check(3, 100, 2);
    check(10, 50, 5);
    check(10, 29, 2);
}

#[test]
fn who_returns_or_leaves_makes_room() {
    let mut ejections = Ejections::default();
    let consider = |ejections: &mut Ejections, server| ejections.consider(&settings(), server, WHY, 3, at(100)).is_some();
    assert!(consider(&mut ejections, 1));
    assert!(!consider(&mut ejections, 2));
    ejections.returned(1, at(100));
    assert!(consider(&mut ejections, 2));
    assert!(!consider(&mut ejections, 3));
    ejections.forget(|server| server != 2);
    assert!(consider(&mut ejections, 3));
    assert_eq!(ejections.records.len(), 2, "what left is not kept");
}

#[test]
fn times_without_end_do_no_harm() {
    let mut ejections = Ejections::default();
    let settings = Outlier { eject: Duration::MAX, eject_max: Duration::MAX, ..settings() };
    for round in 0..100 {
        let ejection = ejections.consider(&settings, 1, WHY, 2, Duration::MAX).expect("nothing else is out");
        assert_eq!(ejection.until, Duration::MAX);
        assert!(ejection.times <= 31, "{round}: {}", ejection.times);
    }
    let nothing = Outlier { eject: Duration::ZERO, eject_max: Duration::ZERO, ..settings };
    let ejection = ejections.consider(&nothing, 7, WHY, 5, at(3)).expect("room for two");
    assert_eq!(ejection.until, at(3));
    ejections.returned(7, at(3));
    assert_eq!(ejections.consider(&nothing, 7, WHY, 5, at(3)).map(|ejection| ejection.times), Some(1));
}

/// Good and bad answers of each server; then the positions of those that are out.
fn check_judge(answers: &[(u64, u64)], expected: &[u64]) {
    let samples: Vec<_> = answers
        .iter()
        .enumerate()
        .map(|(server, (good, bad))| Sample { server: server as u64, good: *good, bad: *bad })
        .collect();
    let mut out: Vec<u64> = Ejections::default().judge(&settings(), &samples, at(0)).iter().map(|(server, _)| *server).collect();
    out.sort_unstable();
    assert_eq!(out, expected, "{answers:?}");
}

#[test]
fn a_server_far_below_the_others_is_out() {
    check_judge(&[(100, 0), (100, 0), (60, 40)], &[2]);
    check_judge(&[(50, 50), (100, 0), (97, 3), (100, 0)], &[0]);
    check_judge(&[(1, 99), (100, 0), (100, 0), (100, 0), (2, 98), (100, 0), (99, 1), (100, 0)], &[0, 4]);
    check_judge(&[(0, 100), (60, 40), (98, 2), (100, 0), (100, 0), (99, 1), (100, 0), (100, 0)], &[0]);
}

#[test]
fn who_is_near_or_hardly_known_stays() {
    // Too few servers, too few requests of one, too few bad answers, too near.
    check_judge(&[(100, 0), (60, 40)], &[]);
    check_judge(&[(100, 0), (100, 0), (0, 49)], &[]);
    check_judge(&[(100, 0), (100, 0), (100, 0), (41, 9)], &[]);
    check_judge(&[(1000, 0), (1000, 0), (910, 90)], &[]);
    // All are bad, or differ as a matter of course.
    check_judge(&[(50, 50), (50, 50), (50, 50)], &[]);
    check_judge(&[(90, 10), (50, 50), (70, 30), (40, 60)], &[]);
    check_judge(&[(0, 0), (0, 0), (0, 0)], &[]);
    check_judge(&[], &[]);
}

#[test]
fn judging_keeps_to_the_settings_and_says_why() {
    let samples = [(100, 0), (100, 0), (60, 40)].map(|(good, bad)| Sample { server: good + bad * 7, good, bad });
    let mut ejections = Ejections::default();
    let off = Outlier { success_rate: false, ..settings() };
    assert_eq!(ejections.judge(&off, &samples, at(0)), []);
    let out = ejections.judge(&settings(), &samples, at(0));
    assert_eq!(out[0].1.why, Why::SuccessRate { percent: 60, others_percent: 100 });
    assert_eq!(ejections.judge(&settings(), &samples, at(5)), [], "it is out already");
}

#[test]
fn reasons_read_as_a_log_line() {
    let check = |why: Why, expected: &str| assert_eq!(why.to_string(), expected);
    check(Why::ConsecutiveFailures(1), "1 failure");
    check(Why::ConsecutiveFailures(5), "5 failures in a row");
    check(Why::SuccessRate { percent: 43, others_percent: 99 }, "43 % of its answers were good, 99 % of those of the others");
}
