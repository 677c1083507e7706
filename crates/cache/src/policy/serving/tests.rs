//! Rows for what a stored answer may be used for, by age and by what the client says.
//! How its terms come about is in the rows of `storing`.

use super::{StaleReason, Staleness, ValidationReason, Verdict, judge, on_error};
use crate::message::Now;
use crate::policy::cache_control::{MaxStale, RequestDirectives};
use crate::policy::storing::{Terms, Validation};

const NONE: RequestDirectives = RequestDirectives {
    no_store: false,
    no_cache: false,
    only_if_cached: false,
    max_age: None,
    min_fresh: None,
    max_stale: MaxStale::No,
};
/// Ten seconds old when it came at 1000, fresh for 100, so until 1090.
const TERMS: Terms = Terms {
    received_seconds: 1000,
    initial_age_seconds: 10,
    lifetime_seconds: 100,
    stale_while_revalidate_seconds: 0,
    stale_if_error_seconds: 0,
    validation: Validation::WhenConvenient,
    immutable: false,
};

fn stale(why: StaleReason, age_seconds: u64, stale_seconds: u64) -> Verdict {
    Verdict::Stale(why, Staleness { age_seconds, stale_seconds })
}

#[test]
fn it_is_fresh_until_its_age_reaches_its_lifetime() {
    let check = |now: u64, expected: Verdict| assert_eq!(judge(NONE, &TERMS, None, Now::at(now)), expected, "{now}");
    check(1000, Verdict::Fresh { age_seconds: 10, ttl_seconds: 90 });
    check(1089, Verdict::Fresh { age_seconds: 99, ttl_seconds: 1 });
    check(1090, Verdict::Validate(ValidationReason::Stale));
    // A clock behind the receipt does not make it older.
    check(900, Verdict::Fresh { age_seconds: 10, ttl_seconds: 90 });
    check(u64::MAX, Verdict::Validate(ValidationReason::Stale));
}

#[test]
fn clients_may_ask_for_fresher_and_for_staler() {
    let check = |request: RequestDirectives, terms: &Terms, now: u64, expected: Verdict| {
        assert_eq!(judge(request, terms, None, Now::at(now)), expected, "{request:?} {now}");
    };
    let fresh = |age_seconds| Verdict::Fresh { age_seconds, ttl_seconds: 100 - age_seconds };
    let refused = Verdict::Validate(ValidationReason::Request);
    check(RequestDirectives { no_cache: true, ..NONE }, &TERMS, 1000, refused);
    check(RequestDirectives { max_age: Some(10), ..NONE }, &TERMS, 1000, fresh(10));
    check(RequestDirectives { max_age: Some(9), ..NONE }, &TERMS, 1000, refused);
    check(RequestDirectives { max_age: Some(0), ..NONE }, &Terms { immutable: true, ..TERMS }, 1000, fresh(10));
    check(RequestDirectives { no_cache: true, ..NONE }, &Terms { immutable: true, ..TERMS }, 1000, refused);
    check(RequestDirectives { min_fresh: Some(90), ..NONE }, &TERMS, 1000, fresh(10));
    check(RequestDirectives { min_fresh: Some(91), ..NONE }, &TERMS, 1000, refused);
    check(RequestDirectives { min_fresh: Some(1), max_stale: MaxStale::Any, ..NONE }, &TERMS, 1095, refused);
    let takes = |max_stale| RequestDirectives { max_stale, ..NONE };
    check(takes(MaxStale::Seconds(5)), &TERMS, 1095, stale(StaleReason::MaxStale, 105, 5));
    check(takes(MaxStale::Seconds(4)), &TERMS, 1095, Verdict::Validate(ValidationReason::Stale));
    check(takes(MaxStale::Any), &TERMS, 9000, stale(StaleReason::MaxStale, 8010, 7910));
    check(RequestDirectives { max_age: Some(50), max_stale: MaxStale::Any, ..NONE }, &TERMS, 1095, refused);
    let strict = Terms { validation: Validation::OnceStale, ..TERMS };
    check(takes(MaxStale::Any), &strict, 1095, Verdict::Validate(ValidationReason::Stale));
    check(takes(MaxStale::Any), &strict, 1000, fresh(10));
    let never = Terms { validation: Validation::Always, ..TERMS };
    check(takes(MaxStale::Any), &never, 1000, Verdict::Validate(ValidationReason::NoCache));
    for (terms, now) in [(&TERMS, 1095), (&never, 1000)] {
        check(RequestDirectives { only_if_cached: true, ..NONE }, terms, now, Verdict::GatewayTimeout);
    }
    check(RequestDirectives { only_if_cached: true, ..NONE }, &TERMS, 1000, fresh(10));
}

#[test]
fn stale_answers_bridge_a_revalidation_and_an_error_for_as_long_as_they_say() {
    let terms = Terms { stale_while_revalidate_seconds: 10, stale_if_error_seconds: 20, ..TERMS };
    let check = |now: u64, expected: Verdict, on_failure: Option<u64>| {
        assert_eq!(judge(NONE, &terms, None, Now::at(now)), expected, "{now}");
        assert_eq!(on_error(&terms, None, Now::at(now)).map(|found| found.stale_seconds), on_failure, "{now}");
    };
    check(1089, Verdict::Fresh { age_seconds: 99, ttl_seconds: 1 }, None);
    check(1090, stale(StaleReason::WhileRevalidate, 100, 0), Some(0));
    check(1099, stale(StaleReason::WhileRevalidate, 109, 9), Some(9));
    check(1100, Verdict::Validate(ValidationReason::Stale), Some(10));
    check(1109, Verdict::Validate(ValidationReason::Stale), Some(19));
    check(1110, Verdict::Validate(ValidationReason::Stale), None);
    let strict = Terms { validation: Validation::OnceStale, ..terms.clone() };
    assert_eq!(judge(NONE, &strict, None, Now::at(1090)), Verdict::Validate(ValidationReason::Stale));
    assert_eq!(on_error(&strict, None, Now::at(1090)), None);
}

#[test]
fn a_soft_purge_makes_stale_from_that_moment() {
    let terms = Terms { stale_while_revalidate_seconds: 10, ..TERMS };
    let check = |terms: &Terms, now: u64, expected: Verdict| {
        assert_eq!(judge(NONE, terms, Some(1020), Now::at(now)), expected, "{now}");
    };
    check(&TERMS, 1020, Verdict::Validate(ValidationReason::Stale));
    check(&terms, 1025, stale(StaleReason::WhileRevalidate, 35, 5));
    check(&terms, 1030, Verdict::Validate(ValidationReason::Stale));
}
