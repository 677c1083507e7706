//! What is asked next, after everything that may happen.

use super::{Ask, Course, Standing};
use crate::fault::Fault;
use std::time::{Duration, Instant};

fn page(next: Option<&str>) -> Ask {
    Ask::Page { next: next.map(Into::into) }
}

fn watch(from: &str) -> Ask {
    Ask::Watch { from: from.into() }
}

fn broken() -> Fault {
    Fault::Busy { message: "it is tired".to_owned(), retry_after: None }
}

/// A course that watches from version 5.
fn watching(now: Instant) -> Course {
    let mut course = Course::default();
    course.page("5", None);
    assert_eq!(course.ask(now), watch("5"));
    course
}

#[test]
fn a_kind_is_listed_page_by_page_and_watched_from_there() {
    let (mut course, now) = (Course::default(), Instant::now());
    assert_eq!(course.ask(now), page(None));
    course.page("5", Some("more".into()));
    assert_eq!(course.ask(now), page(Some("more")));
    course.page("5", None);
    assert_eq!(course.ask(now), watch("5"));
    course.heard(Some("8"));
    course.heard(None);
    course.closed(now, 0.0);
    assert_eq!(course.ask(now), Ask::Version);
    assert_eq!(course.at("9"), Standing::GoesOn);
    assert_eq!(course.ask(now), watch("8"), "a watch that came to its end goes on where it was");
}

#[test]
fn what_comes_next_depends_on_what_went_wrong() {
    let check = |fault: Fault, chance: f64, pause: Duration, then: Ask| {
        let now = Instant::now();
        let mut course = watching(now);
        course.failed(&fault, now, chance);
        if !pause.is_zero() {
            assert_eq!(course.ask(now), Ask::Rest { until: now + pause }, "{fault}");
        }
        assert_eq!(course.ask(now + pause), then, "{fault}");
    };
    let message = || "said".to_owned();
    check(broken(), 1.0, Duration::from_millis(500), Ask::Version);
    check(broken(), 0.0, Duration::from_millis(250), Ask::Version);
    check(Fault::Unauthorized { message: message() }, 1.0, Duration::from_millis(500), Ask::Version);
    check(Fault::Gone { message: message() }, 1.0, Duration::ZERO, page(None));
    check(Fault::Forbidden { message: message() }, 1.0, Duration::from_millis(500), page(None));
    check(Fault::Missing { message: message() }, 1.0, Duration::from_millis(500), page(None));
    check(Fault::LineTooLong { bytes_max: 2 }, 1.0, Duration::from_millis(500), page(None));
    let busy = Fault::Busy { message: message(), retry_after: Some(Duration::from_secs(7)) };
    check(busy, 1.0, Duration::from_secs(7), Ask::Version);
}

#[test]
fn pauses_double_up_to_half_a_minute_and_end_with_a_sign_of_life() {
    let check = |fault: Fault, then: Ask, most: [u128; 4]| {
        let mut now = Instant::now();
        let mut course = watching(now);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            course.failed(&fault, now, 1.0);
            let Ask::Rest { until } = course.ask(now) else { panic!("it rests") };
            pauses.push((until - now).as_millis());
            now = until;
            assert_eq!(course.ask(now), then);
        }
        assert_eq!(pauses[..5], [500, 1000, 2000, 4000, 8000]);
        assert_eq!(pauses[5..], most);
        (course, now)
    };
    // An API server that starts says so of rights that are there, for a moment.
    check(Fault::Forbidden { message: "said".to_owned() }, page(None), [10_000; 4]);
    let (mut course, now) = check(broken(), Ask::Version, [16_000, 30_000, 30_000, 30_000]);
    assert_eq!(course.at("5"), Standing::GoesOn);
    course.heard(Some("6"));
    course.failed(&broken(), now, 1.0);
    assert_eq!(course.ask(now), Ask::Rest { until: now + Duration::from_millis(500) });
}

#[test]
fn a_list_goes_on_with_the_page_that_failed_unless_it_is_forgotten() {
    let now = Instant::now();
    let mut course = Course::default();
    course.page("5", Some("more".into()));
    course.failed(&broken(), now, 0.0);
    assert_eq!(course.ask(now + Duration::from_secs(1)), page(Some("more")));
    course.failed(&Fault::Gone { message: "too old".to_owned() }, now, 0.0);
    assert_eq!(course.ask(now + Duration::from_secs(2)), page(None));
}

#[test]
fn a_server_that_forgets_at_once_what_it_has_just_said_is_not_asked_without_a_pause() {
    let now = Instant::now();
    let mut course = watching(now);
    let gone = Fault::Gone { message: "too old".to_owned() };
    course.failed(&gone, now, 1.0);
    assert_eq!(course.ask(now), page(None));
    course.failed(&gone, now, 1.0);
    assert_eq!(course.ask(now), Ask::Rest { until: now + Duration::from_secs(1) });
}

#[test]
fn a_watch_that_ends_as_it_begins_is_not_asked_for_without_a_pause() {
    let now = Instant::now();
    let mut course = watching(now);
    course.closed(now + Duration::from_millis(10), 1.0);
    let until = now + Duration::from_millis(510);
    assert_eq!(course.ask(now + Duration::from_millis(10)), Ask::Rest { until });
    assert_eq!(course.ask(until), Ask::Version);
    course.at("5");
    assert_eq!(course.ask(until), watch("5"));
    let later = until + Duration::from_secs(240);
    course.closed(later, 1.0);
    assert_eq!(course.ask(later), Ask::Version, "it was open for as long as watches are");
}

#[test]
fn a_server_that_was_set_back_is_listed_anew() {
    let check = |from: &str, at: &str, standing: Standing, then: Ask| {
        let now = Instant::now();
        let mut course = Course::default();
        course.page(from, None);
        course.ask(now);
        course.failed(&broken(), now, 0.0);
        let later = now + Duration::from_secs(1);
        assert_eq!(course.ask(later), Ask::Version);
        assert_eq!((course.at(at), course.ask(later)), (standing, then), "{from} {at}");
    };
    check("100", "100", Standing::GoesOn, watch("100"));
    check("100", "1000", Standing::GoesOn, watch("100"));
    check("100", "99", Standing::Rewound, page(None));
    check("1000", "999", Standing::Rewound, page(None));
    check("b", "a", Standing::GoesOn, watch("b"));
    check("7", "", Standing::GoesOn, watch("7"));
}
