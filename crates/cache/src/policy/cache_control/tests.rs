//! Rows for `Cache-Control`: what counts, what is malformed, and that malformed never permits. The parser's rules are
//! those of RFC 9111 sections 4.2.1 and 5.2.

use super::{DELTA_SECONDS_MAX, Delta, MaxStale, RequestDirectives, ResponseDirectives, Scope};
use crate::message::Field;

fn response(lines: &[&str]) -> ResponseDirectives {
    let fields: Vec<Field<'_>> = lines.iter().map(|line| (&b"cache-control"[..], line.as_bytes())).collect();
    ResponseDirectives::read(&fields)
}

fn request(lines: &[&str]) -> RequestDirectives {
    let fields: Vec<Field<'_>> = lines.iter().map(|line| (&b"cache-control"[..], line.as_bytes())).collect();
    RequestDirectives::read(&fields, true)
}

#[test]
fn seconds_are_digits_bare_or_quoted_and_anything_else_is_invalid() {
    let check = |lines: &[&str], expected: Delta| assert_eq!(response(lines).max_age, expected, "{lines:?}");
    check(&["max-age=3600"], Delta::Seconds(3600));
    check(&["MaX-aGe=3600"], Delta::Seconds(3600));
    check(&["max-age=\"3600\""], Delta::Seconds(3600));
    check(&["max-age=003600"], Delta::Seconds(3600));
    check(&["max-age=0"], Delta::Seconds(0));
    check(&["foo, , max-age=5 , bar=\"a, b\""], Delta::Seconds(5));
    check(&["max-age=2147483649"], Delta::Seconds(DELTA_SECONDS_MAX));
    check(&["max-age=99999999999999999999999999"], Delta::Seconds(DELTA_SECONDS_MAX));
    for invalid in ["max-age", "max-age=", "max-age=\"\"", "max-age=-1", "max-age=+1", "max-age=1.5", "max-age='3600'"] {
        check(&[invalid], Delta::Invalid);
    }
    for invalid in ["max-age =3600", "max-age= 3600", "max-age=a3600", "max-age=3600a", "max-age=1 000", "max-age=\"36\"00"] {
        check(&[invalid], Delta::Invalid);
    }
    check(&["max-age=\"36\\00\""], Delta::Invalid);
    check(&["xmax-age=3600"], Delta::Absent);
    check(&["max-age3600"], Delta::Absent);
}

#[test]
fn repeated_seconds_that_differ_are_invalid() {
    let check = |lines: &[&str], expected: Delta| assert_eq!(response(lines).max_age, expected, "{lines:?}");
    check(&["max-age=10, max-age=10"], Delta::Seconds(10));
    check(&["max-age=10", "max-age=10"], Delta::Seconds(10));
    check(&["max-age=10, max-age=20"], Delta::Invalid);
    check(&["max-age=10", "max-age=20"], Delta::Invalid);
    check(&["max-age=10, max-age=x"], Delta::Invalid);
    check(&["max-age=10, max-age=20, max-age=10"], Delta::Invalid);
}

#[test]
fn a_directive_within_quotes_is_none() {
    let found = response(&["extension=\"max-age=100\", private2=\"no-store, max-age=9\""]);
    assert_eq!(found, ResponseDirectives::default());
    let found = response(&["extension=\"\\\", max-age=100\", s-maxage=5"]);
    assert_eq!((found.max_age, found.s_maxage), (Delta::Absent, Delta::Seconds(5)));
}

#[test]
fn quoting_that_may_hide_a_directive_forbids_storing() {
    let check = |line: &str, expected: bool| assert_eq!(response(&[line]).no_store, expected, "{line}");
    check("max-age=10, foo=\"bar, no-store", true);
    check("max-age=1\"0, no-store\"", true);
    check("\"max-age=10, no-store\"", true);
    check("foo=\"a\" \"b, no-store\"", true);
    check("max-age=10, foo=\"bar\"", false);
}

#[test]
fn restricting_directives_count_whatever_their_argument() {
    for line in ["no-store", "NO-STORE", "no-store=1", "no-store=", "a=b,no-store", "no-store =\"x\""] {
        assert!(response(&[line]).no_store, "{line}");
    }
    for line in ["must-revalidate", "must-revalidate=0"] {
        assert!(response(&[line]).must_revalidate, "{line}");
    }
}

#[test]
fn a_list_of_fields_qualifies_and_a_broken_one_does_not() {
    let fields = |names: &[&str]| Scope::Fields(names.iter().map(|name| name.as_bytes().to_vec()).collect());
    let check = |line: &str, expected: Scope| {
        assert_eq!(response(&[line]).no_cache, expected, "{line}");
        assert_eq!(response(&[&line.replace("no-cache", "private")]).private, expected, "{line}");
    };
    check("no-cache", Scope::Whole);
    check("no-cache=\"Set-Cookie\"", fields(&["set-cookie"]));
    check("no-cache=set-cookie", fields(&["set-cookie"]));
    check("no-cache=\"a, b\", no-cache=\"c\"", fields(&["a", "b", "c"]));
    check("no-cache=\"a\", no-cache", Scope::Whole);
    check("no-cache, no-cache=\"a\"", Scope::Whole);
    for broken in ["no-cache=", "no-cache=\"\"", "no-cache=\"a b\"", "no-cache= \"a\"", "no-cache=\"a", "no-cache=\", ,\""] {
        check(broken, Scope::Whole);
    }
    check(&format!("no-cache=\"{}\"", "x, ".repeat(1000)), Scope::Whole);
}

#[test]
fn requests_say_what_they_take() {
    let none = RequestDirectives::default();
    let check = |lines: &[&str], expected: RequestDirectives| assert_eq!(request(lines), expected, "{lines:?}");
    check(&["no-cache"], RequestDirectives { no_cache: true, ..none });
    check(&["no-store, only-if-cached"], RequestDirectives { no_store: true, only_if_cached: true, ..none });
    check(&["max-age=5"], RequestDirectives { max_age: Some(5), ..none });
    check(&["max-age=x"], RequestDirectives { max_age: Some(0), ..none });
    check(&["min-fresh=5"], RequestDirectives { min_fresh: Some(5), ..none });
    check(&["min-fresh=x"], none);
    check(&["max-stale"], RequestDirectives { max_stale: MaxStale::Any, ..none });
    check(&["max-stale=7"], RequestDirectives { max_stale: MaxStale::Seconds(7), ..none });
    check(&["max-stale=x"], none);
}

#[test]
fn pragma_counts_only_without_cache_control() {
    let pragma: Field<'_> = (b"pragma", b"no-cache");
    let other: Field<'_> = (b"cache-control", b"max-stale=1");
    assert!(RequestDirectives::read(&[pragma], true).no_cache);
    assert!(!RequestDirectives::read(&[pragma, other], true).no_cache);
    assert!(!RequestDirectives::read(&[pragma], false).no_cache);
}

#[test]
fn any_bytes_are_read_and_an_appended_no_store_is_never_lost() {
    bolero::check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
        let line: Field<'_> = (b"cache-control", bytes);
        let found = ResponseDirectives::read(&[line]);
        for delta in [found.max_age, found.s_maxage, found.stale_if_error] {
            assert!(delta.allowed().unwrap_or(0) <= DELTA_SECONDS_MAX);
        }
        let _ = RequestDirectives::read(&[line], true);
        let with = [bytes, b", no-store"].concat();
        assert!(ResponseDirectives::read(&[(b"cache-control", &with)]).no_store, "{}", bytes.escape_ascii());
        let before = [b"no-store, ", bytes].concat();
        assert!(ResponseDirectives::read(&[(b"cache-control", &before)]).no_store);
    });
}
