//! Rows for conditional and range requests that are answered from a stored answer.
//! All are asked of a body of a hundred bytes, unless a row says otherwise.

use super::{Answer, answer, is_in_304};
use crate::message::{Field, RequestHead, StoredHead};

const D1: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const D2: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn fields<'a>(lines: &'a [(&'a str, &'a str)]) -> Vec<Field<'a>> {
    lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

fn ask(status: u16, stored: &[(&str, &str)], request: &[(&str, &str)]) -> Answer {
    let stored = StoredHead::new(status, fields(stored).into_iter()).unwrap();
    answer(RequestHead::new(b"GET", &fields(request)), &stored, Some(100))
}

#[test]
fn tags_go_before_dates_and_are_compared_weakly() {
    let stored = [("etag", "\"a\""), ("last-modified", D1)];
    let check = |request: &[(&str, &str)], expected: Answer| assert_eq!(ask(200, &stored, request), expected, "{request:?}");
    check(&[("if-none-match", "\"a\"")], Answer::NotModified);
    check(&[("if-none-match", "W/\"a\"")], Answer::NotModified);
    check(&[("if-none-match", "\"x\", \"a\"")], Answer::NotModified);
    check(&[("if-none-match", "\"x\""), ("if-none-match", "\"a\"")], Answer::NotModified);
    check(&[("if-none-match", "*")], Answer::NotModified);
    check(&[("if-none-match", "a")], Answer::Whole);
    check(&[("if-none-match", "\"x, \"a\"")], Answer::Whole);
    check(&[("if-none-match", "\"b\""), ("if-modified-since", D1)], Answer::Whole);
    check(&[("if-modified-since", D1)], Answer::NotModified);
    check(&[("if-modified-since", D2)], Answer::NotModified);
    check(&[("if-modified-since", "Sun, 06 Nov 1994 08:49:36 GMT")], Answer::Whole);
    check(&[("if-modified-since", "x")], Answer::Whole);
    check(&[("if-none-match", "\"a\""), ("range", "bytes=0-1")], Answer::NotModified);
    assert_eq!(ask(404, &stored, &[("if-none-match", "\"a\"")]), Answer::Whole);
    assert_eq!(ask(200, &[("date", D1)], &[("if-modified-since", D1)]), Answer::NotModified);
    assert_eq!(ask(200, &[], &[("if-modified-since", D1)]), Answer::Whole);
    assert_eq!(ask(200, &[("last-modified", D1)], &[("if-none-match", "\"a\"")]), Answer::Whole);
}

#[test]
fn one_range_of_bytes_is_served() {
    let check = |range: &str, expected: Answer| assert_eq!(ask(200, &[], &[("range", range)]), expected, "{range}");
    check("bytes=0-0", Answer::Part { first: 0, last: 0 });
    check("bytes=10-19", Answer::Part { first: 10, last: 19 });
    check("BYTES=90-", Answer::Part { first: 90, last: 99 });
    check("bytes=90-1000", Answer::Part { first: 90, last: 99 });
    check("bytes=-10", Answer::Part { first: 90, last: 99 });
    check("bytes=-1000", Answer::Part { first: 0, last: 99 });
    check("bytes=5-99999999999999999999999", Answer::Part { first: 5, last: 99 });
    check("bytes=100-", Answer::NotSatisfiable);
    check("bytes=99999999999999999999999-", Answer::NotSatisfiable);
    check("bytes=-0", Answer::NotSatisfiable);
    for whole in ["bytes=0-1,5-6", "bytes=5-4", "bytes=-", "bytes=a-b", "lines=0-1", "bytes", "", "bytes=1--2", "bytes=+1-2"] {
        check(whole, Answer::Whole);
    }
    let stored = StoredHead::new(200, std::iter::empty()).unwrap();
    let range = fields(&[("range", "bytes=0-1")]);
    assert_eq!(answer(RequestHead::new(b"GET", &range), &stored, None), Answer::Whole);
    assert_eq!(answer(RequestHead::new(b"HEAD", &range), &stored, Some(100)), Answer::Whole);
    assert_eq!(answer(RequestHead::new(b"GET", &range), &stored, Some(0)), Answer::NotSatisfiable);
    assert_eq!(ask(404, &[], &[("range", "bytes=0-1")]), Answer::Whole);
}

#[test]
fn if_range_takes_strong_validators_only() {
    let part = Answer::Part { first: 0, last: 9 };
    let check = |stored: &[(&str, &str)], condition: &str, expected: Answer| {
        assert_eq!(ask(200, stored, &[("range", "bytes=0-9"), ("if-range", condition)]), expected, "{stored:?} {condition}");
    };
    check(&[("etag", "\"a\"")], "\"a\"", part);
    check(&[("etag", "\"a\"")], "\"b\"", Answer::Whole);
    check(&[("etag", "W/\"a\"")], "W/\"a\"", Answer::Whole);
    check(&[("etag", "\"a\"")], "W/\"a\"", Answer::Whole);
    check(&[("last-modified", D1), ("date", D2)], D1, part);
    check(&[("last-modified", D1), ("date", D1)], D1, Answer::Whole);
    check(&[("last-modified", D1), ("date", D2)], D2, Answer::Whole);
    check(&[], D1, Answer::Whole);
}

#[test]
fn a_304_leaves_out_what_describes_the_body() {
    let with_tag = StoredHead::new(200, fields(&[("etag", "\"a\"")]).into_iter()).unwrap();
    let without = StoredHead::new(200, std::iter::empty()).unwrap();
    for name in ["cache-control", "content-location", "date", "etag", "expires", "vary", "x-other"] {
        assert!(is_in_304(name.as_bytes(), &with_tag), "{name}");
    }
    for name in ["content-length", "content-type", "content-encoding", "last-modified"] {
        assert!(!is_in_304(name.as_bytes(), &with_tag), "{name}");
    }
    assert!(is_in_304(b"last-modified", &without));
}
