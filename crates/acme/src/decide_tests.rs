//! Cases of `decide`: what is next for a name, told by what it holds and what went wrong.

use super::*;
use crate::certificate::Leaf;
use crate::stored::Advice;
use rustls_pki_types::CertificateDer;

const CA: &str = "https://ca.example/directory";
const STAGING: &str = "https://staging.ca.example/directory";
const OTHER: &str = "https://other.example/directory";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn held(begin: &str, end: &str) -> Held {
    let leaf = Leaf {
        not_before: at(begin),
        not_after: at(end),
        chain_not_after: at(end),
        serial: "01ab".into(),
        renewal_id: None,
        der: CertificateDer::from(Vec::new()),
    };
    let mut held = Held::new(leaf, None);
    held.facts.directory = Some(CA.into());
    held
}

fn ca(directory: &'static str, staging: Option<&'static str>) -> Authority<'static> {
    Authority { directory, staging, resting_until: None }
}

fn fail(history: &mut History, blame: Blame, directory: &str, now: Timestamp) {
    note_failure(history, &Cause::new(blame, "it failed", "mend it"), Some(directory), false, now, 0.5);
}

const NOW: &str = "2026-06-01T00:00:00Z";

#[test]
fn renewal_is_at_two_thirds_of_a_life_and_at_half_of_a_short_one() {
    fn check(begin: &str, end: &str, from: &str, until: &str) {
        let due = renew_at(&held(begin, end));
        assert!(at(from) <= due && due <= at(until), "{begin} to {end}: {due}");
    }
    check("2026-01-01T00:00:00Z", "2026-04-01T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-06T12:00:00Z");
    check("2026-01-01T00:00:00Z", "2026-01-07T16:00:00Z", "2026-01-04T08:00:00Z", "2026-01-04T16:00:00Z");
    // A certificate that ends before it begins is due now, and nothing overflows.
    check("2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
}

#[test]
fn the_ca_says_when_to_renew_and_its_window_may_have_begun() {
    let mut one = held("2026-05-01T00:00:00Z", "2026-07-30T00:00:00Z");
    let window =
        |start: &str, end: &str| Some(Advice { start: at(start), end: at(end), explanation: None, ask_again_at: at(NOW) });
    one.facts.advice = window("2026-06-20T00:00:00Z", "2026-06-22T00:00:00Z");
    let due = renew_at(&one);
    assert!(at("2026-06-20T00:00:00Z") <= due && due <= at("2026-06-22T00:00:00Z"), "{due}");
    assert_eq!(decide(Some(&one), &History::default(), &[ca(CA, None)], false, at(NOW)), Next::Wait { until: due });
    one.facts.advice = window("2026-05-02T00:00:00Z", "2026-05-03T00:00:00Z");
    let next = decide(Some(&one), &History::default(), &[ca(CA, None)], false, at(NOW));
    assert_eq!(next, Next::Order { authority: 0, stage: Stage::Production, why: Why::Due });
    // A window that makes no sense is no advice (RFC 9773 section 4.2).
    one.facts.advice = window("2027-05-03T00:00:00Z", "2026-05-02T00:00:00Z");
    assert!(renew_at(&one) < one.leaf.not_after);
}

#[test]
fn what_is_good_is_not_ordered_again() {
    fn check(held: Option<Held>, is_asked: bool, expected: Option<Why>) {
        let next = decide(held.as_ref(), &History::default(), &[ca(CA, None), ca(OTHER, None)], is_asked, at(NOW));
        let why = match next {
            Next::Order { why, .. } => Some(why),
            Next::Wait { .. } | Next::ClockWrong(_) => None,
        };
        assert_eq!(why, expected, "{held:?}");
    }
    let good = || held("2026-05-20T00:00:00Z", "2026-08-20T00:00:00Z");
    let from = |directory: Option<&str>| {
        let mut held = good();
        held.facts.directory = directory.map(str::to_owned);
        Some(held)
    };
    check(Some(good()), false, None);
    check(Some(good()), true, Some(Why::Asked));
    check(None, false, Some(Why::First));
    check(from(Some(OTHER)), false, None);
    check(from(Some(STAGING)), false, Some(Why::Moved));
    check(from(None), false, None);
    let mut revoked = good();
    revoked.facts.is_revoked = true;
    check(Some(revoked), false, Some(Why::Revoked));
    check(Some(held("2026-01-01T00:00:00Z", "2026-04-01T00:00:00Z")), false, Some(Why::Due));
}

#[test]
fn lateness_begins_with_the_last_sixth() {
    let one = held("2026-01-01T00:00:00Z", "2026-03-02T00:00:00Z");
    assert!(!is_late(&one, at("2026-02-19T00:00:00Z")));
    assert!(is_late(&one, at("2026-02-20T01:00:00Z")));
    assert!(is_late(&one, at("2026-04-20T01:00:00Z")));
}

#[test]
fn other_settings_than_those_that_failed_are_tried_at_once() {
    let acme = |email: &str| Acme { email: Some(email.into()), ..Acme::default() };
    let wait = |failed_with: Option<&Acme>, now: &Acme| {
        let mut history = History::default();
        fail(&mut history, Blame::Setup, CA, at(NOW));
        history.trouble.as_mut().unwrap().settings = failed_with.map(mark_of);
        forget_wait_of_other_settings(&mut history, now);
        history.trouble.unwrap().again_at.duration_since(at(NOW)).as_secs()
    };
    let (one, other) = (acme("a@example.com"), acme("b@example.com"));
    assert_eq!(wait(Some(&one), &one), 60, "the same settings wait");
    assert_eq!(wait(Some(&one), &other), 0, "others may have mended it");
    assert_eq!(wait(None, &other), 60, "an earlier version did not say with which");
    assert_eq!(mark_of(&one), mark_of(&acme("a@example.com")));
}

#[test]
fn waits_double_up_to_a_day_and_a_storage_is_tried_again_soon() {
    fn check(blame: Blame, failures: usize, expected_secs: i64) {
        let mut history = History::default();
        for _ in 0..failures {
            fail(&mut history, blame, CA, at(NOW));
        }
        let again = history.trouble.unwrap().again_at;
        assert_eq!(again.duration_since(at(NOW)).as_secs(), expected_secs, "{blame:?} {failures}");
    }
    check(Blame::Setup, 1, 60);
    check(Blame::Setup, 2, 120);
    check(Blame::Setup, 5, 960);
    check(Blame::Setup, 40, 24 * 3600);
    check(Blame::Preflight, 40, 15 * 60);
    check(Blame::Storage, 3, 240);
    let spread = |share| back_off(3, share, BACK_OFF_MAX).as_secs();
    assert_eq!((spread(0.0), spread(0.5), spread(1.0)), (180, 240, 300));
}

#[test]
fn after_a_failure_of_ours_staging_is_asked_first_and_then_production() {
    let mut history = History::default();
    let cas = [ca(CA, Some(STAGING))];
    let later = |minutes: i64| at(NOW).checked_add(SignedDuration::from_mins(minutes)).unwrap();
    let stage = |history: &History, minutes: i64| match decide(None, history, &cas, false, later(minutes)) {
        Next::Order { stage, .. } => Some(stage),
        Next::Wait { .. } | Next::ClockWrong(_) => None,
    };
    assert_eq!(stage(&history, 0), Some(Stage::Production));
    fail(&mut history, Blame::Setup, CA, later(0));
    assert_eq!(stage(&history, 0), None);
    assert_eq!(stage(&history, 2), Some(Stage::Staging));
    note_rehearsal(&mut history, later(2));
    assert_eq!(stage(&history, 2), Some(Stage::Production));
    fail(&mut history, Blame::Setup, CA, later(2));
    assert_eq!(stage(&history, 60), Some(Stage::Staging));
    // A staging directory that is down holds nobody up.
    note_failure(&mut history, &Cause::new(Blame::Authority, "down", "wait"), Some(STAGING), true, later(60), 0.5);
    assert_eq!(stage(&history, 120), Some(Stage::Production));
    assert!(history.refusals.is_empty());
    note_success(&mut history, CA);
    assert_eq!(history.failures_in_a_row, 0);
    // Whoever has no staging is asked again, in its time.
    fail(&mut history, Blame::Setup, OTHER, later(0));
    let next = decide(None, &history, &[ca(OTHER, None)], false, later(2));
    assert_eq!(next, Next::Order { authority: 0, stage: Stage::Production, why: Why::First });
}

#[test]
fn the_next_ca_is_asked_when_the_first_fails_by_itself() {
    let cas = [ca(CA, None), ca(OTHER, None)];
    let later = |minutes: i64| at(NOW).checked_add(SignedDuration::from_mins(minutes)).unwrap();
    let chosen = |history: &History| match decide(None, history, &cas, false, later(10_000)) {
        Next::Order { authority, .. } => authority,
        next => panic!("{next:?}"),
    };
    let mut history = History::default();
    let mut seen = Vec::new();
    for _ in 0..7 {
        let authority = chosen(&history);
        seen.push(authority);
        fail(&mut history, Blame::Authority, cas[authority].directory, later(0));
    }
    assert_eq!(seen, [0, 0, 1, 1, 0, 0, 1]);
    // What is ours is not mended by asking somebody else.
    let mut history = History::default();
    for _ in 0..5 {
        fail(&mut history, Blame::Setup, CA, later(0));
    }
    assert_eq!(chosen(&history), 0);
}

#[test]
fn who_is_limited_waits_as_long_as_it_was_told_or_asks_another() {
    let until = at("2026-06-03T00:00:00Z");
    let mut history = History::default();
    fail(&mut history, Blame::Limited { until: Some(until) }, CA, at(NOW));
    let soon = at("2026-06-01T01:00:00Z");
    assert_eq!(decide(None, &history, &[ca(CA, None)], false, soon), Next::Wait { until });
    let next = decide(None, &history, &[ca(CA, None), ca(OTHER, None)], false, soon);
    assert_eq!(next, Next::Order { authority: 1, stage: Stage::Production, why: Why::First });
    // A CA that says "in a hundred years" is asked after eight days all the same.
    let never = Blame::Limited { until: Some(at("2126-01-01T00:00:00Z")) };
    fail(&mut history, never, CA, at(NOW));
    assert_eq!(decide(None, &history, &[ca(CA, None)], false, soon), Next::Wait { until: at("2026-06-09T00:00:00Z") });
    // One that rests for all names is left alone by each.
    let resting = Authority { resting_until: Some(until), ..ca(CA, None) };
    assert_eq!(decide(None, &History::default(), &[resting], true, soon), Next::Wait { until });
}

#[test]
fn a_clock_that_cannot_be_right_is_named() {
    let next = decide(None, &History::default(), &[ca(CA, None)], false, at("1970-01-01T00:01:00Z"));
    assert!(matches!(next, Next::ClockWrong(cause) if cause.text.contains("1970-01-01 00:01")));
}
