//! Rows for what is stored and how long it is fresh: the behaviours of RFC 9111 sections 3, 4.2 and 5 that caches are
//! commonly compared by.

use super::{Exchange, Storable, Validation, WhyNot, storable, withheld};
use crate::message::{Field, Now, RequestHead, ResponseHead};
use crate::settings::Rules;

/// When all of these exchanges take place.
const NOW: u64 = 1_700_000_000;

fn date(seconds: u64) -> String {
    httpdate::fmt_http_date(Now::at(seconds).wall)
}

fn fields<'a>(lines: &'a [(&'a str, &'a str)]) -> Vec<Field<'a>> {
    lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

fn decide(rules: &Rules, request: &[(&str, &str)], status: u16, response: &[(&str, &str)]) -> Result<Storable, WhyNot> {
    let (request, response) = (fields(request), fields(response));
    let request = RequestHead::new(b"GET", &request);
    let response = ResponseHead { status, fields: &response };
    storable(rules, Exchange { request, response, sent: Now::at(NOW - 2), received: Now::at(NOW) })
}

fn lifetime(status: u16, response: &[(&str, &str)]) -> Result<u64, WhyNot> {
    decide(&Rules::default(), &[], status, response).map(|storable| storable.terms.lifetime_seconds)
}

#[test]
fn freshness_comes_from_the_most_specific_field() {
    let (now, later, earlier) = (date(NOW), date(NOW + 100), date(NOW - 100));
    let check = |response: &[(&str, &str)], expected: u64| {
        let with_tag = [response, &[("etag", "\"a\"")]].concat();
        assert_eq!(lifetime(200, &with_tag), Ok(expected), "{response:?}");
    };
    check(&[("cache-control", "max-age=60")], 60);
    check(&[("cache-control", "max-age=60, s-maxage=5")], 5);
    check(&[("cache-control", "max-age=5, s-maxage=60")], 60);
    check(&[("cache-control", "max-age=60"), ("expires", &earlier), ("date", &now)], 60);
    check(&[("cache-control", "max-age=0"), ("expires", &later), ("date", &now)], 0);
    check(&[("cache-control", "max-age=x"), ("expires", &later), ("date", &now)], 0);
    check(&[("cache-control", "s-maxage=x, max-age=60")], 0);
    check(&[("cache-control", "public"), ("expires", &later), ("date", &now)], 100);
    check(&[("expires", &later), ("date", &now)], 100);
    check(&[("expires", &later), ("date", &earlier)], 200);
    check(&[("expires", &later)], 100);
    check(&[("expires", &later), ("date", "yesterday")], 100);
    check(&[("expires", &earlier), ("date", &now)], 0);
    check(&[("expires", "0"), ("date", &now)], 0);
    check(&[("expires", "-1"), ("last-modified", &date(NOW - 5000))], 0);
    check(&[("expires", &later), ("expires", &later), ("date", &now)], 100);
    check(&[("expires", &later), ("expires", &earlier), ("date", &now)], 0);
    check(&[("cache-control", "max-age=99999999999999999999")], 1 << 31);
}

#[test]
fn heuristic_freshness_is_a_part_of_the_time_unchanged_where_the_status_allows_it() {
    let modified = date(NOW - 1000);
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert_eq!(lifetime(status, &[("last-modified", &modified)]), Ok(100), "{status}");
    }
    for status in [201, 202, 302, 303, 307, 400, 403, 500, 502, 503, 504, 599] {
        assert_eq!(lifetime(status, &[("last-modified", &modified)]), Err(WhyNot::Status), "{status}");
        assert_eq!(lifetime(status, &[("last-modified", &modified), ("cache-control", "public")]), Ok(100), "{status}");
        assert_eq!(lifetime(status, &[("cache-control", "max-age=7")]), Ok(7), "{status}");
    }
    let check = |response: &[(&str, &str)], expected: u64| assert_eq!(lifetime(200, response), Ok(expected), "{response:?}");
    check(&[("last-modified", &date(0))], 86_400);
    check(&[("last-modified", &date(NOW + 1000))], 0);
    check(&[("last-modified", &modified), ("pragma", "no-cache")], 0);
    check(&[("last-modified", "long ago")], 0);
    let rules = Rules { heuristic_percent: 50, heuristic_seconds_max: 400, ..Rules::default() };
    let found = decide(&rules, &[], 200, &[("last-modified", &modified)]).unwrap();
    assert_eq!(found.terms.lifetime_seconds, 400);
}

#[test]
fn what_either_side_forbids_is_not_stored() {
    let fresh = ("cache-control", "max-age=60");
    let check = |request: &[(&str, &str)], response: &[(&str, &str)], expected: Result<(), WhyNot>| {
        let found = decide(&Rules::default(), request, 200, response).map(|_| ());
        assert_eq!(found, expected, "{request:?} {response:?}");
    };
    check(&[], &[fresh], Ok(()));
    check(&[], &[("cache-control", "no-store, max-age=60")], Err(WhyNot::NoStore));
    check(&[], &[fresh, ("cache-control", "No-Store")], Err(WhyNot::NoStore));
    check(&[], &[("cache-control", "no-store, must-understand, max-age=60")], Ok(()));
    check(&[], &[("cache-control", "private, max-age=60")], Err(WhyNot::Private));
    check(&[], &[("cache-control", "private=\"x-user\", max-age=60")], Ok(()));
    check(&[], &[("cache-control", "private=\"vary\", max-age=60")], Err(WhyNot::Private));
    check(&[], &[fresh, ("set-cookie", "a=b")], Err(WhyNot::SetCookie));
    check(&[], &[("cache-control", "no-cache=\"set-cookie\", max-age=60"), ("set-cookie", "a=b")], Ok(()));
    check(&[], &[fresh, ("vary", "*")], Err(WhyNot::Vary));
    check(&[], &[fresh, ("vary", "accept, *")], Err(WhyNot::Vary));
    check(&[], &[fresh, ("vary", "a b")], Err(WhyNot::Vary));
    check(&[("cache-control", "no-store")], &[fresh], Err(WhyNot::RequestNoStore));
    check(&[("authorization", "x")], &[fresh], Err(WhyNot::Authorization));
    for shared in ["max-age=60, public", "max-age=60, must-revalidate", "s-maxage=60"] {
        check(&[("authorization", "x")], &[("cache-control", shared)], Ok(()));
    }
    check(&[("authorization", "x")], &[("cache-control", "s-maxage=x, max-age=60")], Err(WhyNot::Authorization));
    check(&[], &[], Err(WhyNot::NoFreshness));
    check(&[], &[("etag", "\"a\"")], Ok(()));
    check(&[], &[("cache-control", "max-age=0")], Err(WhyNot::NoFreshness));
    check(&[], &[("cache-control", "max-age=0, stale-while-revalidate=9")], Ok(()));
    check(&[], &[("cache-control", "no-cache")], Err(WhyNot::NoFreshness));
    check(&[], &[("cache-control", "no-cache"), ("etag", "\"a\"")], Ok(()));
    check(&[], &[fresh, ("content-length", "1"), ("content-length", "2")], Err(WhyNot::Malformed));
    check(&[], &[fresh, ("vary", "accept-encoding"), ("content-encoding", "deflate")], Err(WhyNot::Encoding));
    check(&[], &[fresh, ("vary", "accept-encoding"), ("content-encoding", "GZIP")], Ok(()));
}

#[test]
fn methods_and_statuses_that_are_never_stored() {
    let fresh = [("cache-control", "max-age=60")];
    for status in [100, 103, 199, 206, 304, 425, 600, 999] {
        assert_eq!(lifetime(status, &fresh), Err(WhyNot::Status), "{status}");
    }
    for status in [299, 499, 599] {
        assert_eq!(lifetime(status, &fresh), Ok(60), "{status}");
        assert_eq!(lifetime(status, &[("cache-control", "max-age=60, must-understand")]), Err(WhyNot::Status), "{status}");
    }
    for method in ["HEAD", "POST", "PUT", "get", ""] {
        let response = fields(&fresh);
        let request = RequestHead::new(method.as_bytes(), &[]);
        let response = ResponseHead { status: 200, fields: &response };
        let exchange = Exchange { request, response, sent: Now::at(NOW), received: Now::at(NOW) };
        assert_eq!(storable(&Rules::default(), exchange), Err(WhyNot::Method), "{method}");
    }
}

#[test]
fn settings_allow_cookies_and_negative_answers() {
    let rules = Rules { stores_set_cookie: true, negative_seconds: vec![(404, 30), (403, 5)], ..Rules::default() };
    let check = |status: u16, response: &[(&str, &str)], expected: Result<u64, WhyNot>| {
        let found = decide(&rules, &[], status, response).map(|storable| storable.terms.lifetime_seconds);
        assert_eq!(found, expected, "{status} {response:?}");
    };
    check(200, &[("cache-control", "max-age=60"), ("set-cookie", "a=b")], Ok(60));
    check(404, &[], Ok(30));
    check(403, &[], Ok(5));
    check(410, &[], Err(WhyNot::NoFreshness));
    check(404, &[("cache-control", "max-age=3")], Ok(3));
    check(404, &[("cache-control", "no-store")], Err(WhyNot::NoStore));
}

#[test]
fn age_at_receipt_is_the_larger_of_what_dates_and_caches_say() {
    let check = |response: &[(&str, &str)], expected: u64| {
        let with = [response, &[("cache-control", "max-age=3600"), ("etag", "\"a\"")]].concat();
        let found = decide(&Rules::default(), &[], 200, &with).unwrap();
        assert_eq!(found.terms.initial_age_seconds, expected, "{response:?}");
    };
    // The exchange took two seconds.
    check(&[], 2);
    check(&[("date", &date(NOW))], 2);
    check(&[("date", &date(NOW - 50))], 50);
    check(&[("date", &date(NOW + 50))], 2);
    check(&[("age", "30")], 32);
    check(&[("age", "30"), ("date", &date(NOW - 50))], 50);
    check(&[("age", "60, 30")], 62);
    check(&[("age", "60"), ("age", "30")], 62);
    check(&[("age", "x")], 2);
    check(&[("age", "-5")], 2);
    check(&[("age", "7.5")], 2);
    check(&[("age", "99999999999999")], (1 << 31) + 2);
}

#[test]
fn when_stale_may_be_served_is_taken_from_the_directives() {
    let check = |directives: &str, expected: Validation| {
        let found = decide(&Rules::default(), &[], 200, &[("cache-control", directives), ("etag", "\"a\"")]).unwrap();
        assert_eq!(found.terms.validation, expected, "{directives}");
    };
    check("max-age=1", Validation::WhenConvenient);
    check("max-age=1, must-revalidate", Validation::OnceStale);
    check("max-age=1, proxy-revalidate", Validation::OnceStale);
    check("s-maxage=1", Validation::OnceStale);
    check("s-maxage=1, stale-while-revalidate=5", Validation::WhenConvenient);
    check("s-maxage=1, stale-if-error=5, must-revalidate", Validation::OnceStale);
    check("max-age=1, no-cache", Validation::Always);
    check("max-age=1, no-cache=\"set-cookie\"", Validation::WhenConvenient);
    check("max-age=1, no-cache=\"etag\"", Validation::Always);
}

#[test]
fn fields_of_one_connection_and_withheld_ones_are_left_out() {
    let response = [
        ("cache-control", "max-age=60, private=\"x-user\", no-cache=\"x-secret\""),
        ("connection", "X-Hop, keep-alive, Content-Type"),
        ("keep-alive", "timeout=5"),
        ("x-hop", "1"),
        ("x-user", "u"),
        ("x-secret", "s"),
        ("content-type", "text/plain"),
        ("proxy-authenticate", "Basic"),
        ("transfer-encoding", "chunked"),
        ("age", "5"),
        ("x-kept", "k"),
        ("content-range", "bytes 0-1/2"),
        ("cache-status", "inner; hit"),
    ];
    let head = decide(&Rules::default(), &[], 200, &response).unwrap().head;
    let names: Vec<_> = head.fields().map(|field| std::str::from_utf8(field.0).unwrap()).collect();
    assert_eq!(names, ["cache-control", "content-type", "x-kept", "content-range", "cache-status", "date"]);
    assert_eq!(head.get("date").unwrap(), date(NOW).as_bytes());
    // Who asked gets those that were named, but nobody those of the connection.
    let response = fields(&response);
    let names: Vec<_> = withheld(&response, &head).map(|field| std::str::from_utf8(field.0).unwrap()).collect();
    assert_eq!(names, ["x-user", "x-secret"]);
}

#[test]
fn the_field_for_caches_in_front_of_upstreams_counts_where_it_is_asked_for() {
    let (now, later) = (date(NOW), date(NOW + 100));
    let check = |cdn: &str, response: &[(&str, &str)], on: Result<u64, WhyNot>, off: Result<u64, WhyNot>| {
        let response = [response, &[("cdn-cache-control", cdn), ("date", &now)]].concat();
        for (obeys, expected) in [(true, on), (false, off)] {
            let rules = Rules { obeys_cdn_cache_control: obeys, ..Rules::default() };
            let found = decide(&rules, &[], 200, &response).map(|storable| storable.terms.lifetime_seconds);
            assert_eq!(found, expected, "{response:?} {obeys}");
        }
    };
    let never = Err(WhyNot::NoFreshness);
    check("max-age=60", &[], Ok(60), never);
    check("max-age=60", &[("cache-control", "no-store")], Ok(60), Err(WhyNot::NoStore));
    check("max-age=60", &[("cache-control", "max-age=5"), ("expires", &later)], Ok(60), Ok(5));
    check("s-maxage=7, max-age=60", &[], Ok(7), never);
    check("max-age=0", &[("expires", &later)], never, Ok(100));
    check("foo", &[("expires", &later)], never, Ok(100));
    check("no-store, max-age=60", &[("cache-control", "max-age=5")], Err(WhyNot::NoStore), Ok(5));
    check("private, max-age=60", &[("cache-control", "max-age=5")], Err(WhyNot::Private), Ok(5));
    check("private=\"vary\", max-age=60", &[], Err(WhyNot::Private), never);
    check("private=?0, max-age=60", &[], Ok(60), never);
    check("max-age=\"60\"", &[("cache-control", "max-age=5")], never, Ok(5));
    check("max-age=-60", &[("cache-control", "max-age=5")], never, Ok(5));
    check("max-age=60, &", &[("cache-control", "max-age=5")], Ok(5), Ok(5));
    check("", &[("cache-control", "max-age=5")], Ok(5), Ok(5));
}
