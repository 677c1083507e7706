//! Rows for conditions and for what a 304 changes.
//! Whether the result may still be stored is not asked here; that is in the rows of `storing`.

use super::{condition, is_about, updated};
use crate::message::{Field, ResponseHead, StoredHead};

fn fields<'a>(lines: &'a [(&'a str, &'a str)]) -> Vec<Field<'a>> {
    lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

fn head(lines: &[(&str, &str)]) -> StoredHead {
    StoredHead::new(200, fields(lines).into_iter()).unwrap()
}

#[test]
fn the_upstream_is_asked_by_every_validator_there_is() {
    let check = |stored: &[(&str, &str)], expected: &[(&str, &str)]| {
        assert_eq!(condition(&head(stored)).collect::<Vec<_>>(), fields(expected), "{stored:?}");
    };
    check(&[], &[]);
    check(&[("etag", "\"a\"")], &[("if-none-match", "\"a\"")]);
    check(&[("last-modified", "D")], &[("if-modified-since", "D")]);
    check(&[("etag", "W/\"a\""), ("last-modified", "D")], &[("if-none-match", "W/\"a\""), ("if-modified-since", "D")]);
}

#[test]
fn a_304_is_about_what_has_its_validator() {
    let check = |stored: &[(&str, &str)], not_modified: &[(&str, &str)], expected: bool| {
        let fields = fields(not_modified);
        let found = is_about(&head(stored), ResponseHead { status: 304, fields: &fields });
        assert_eq!(found, expected, "{stored:?} {not_modified:?}");
    };
    let stored = [("etag", "\"a\""), ("last-modified", "D")];
    check(&stored, &[], true);
    check(&stored, &[("etag", "\"a\"")], true);
    check(&stored, &[("etag", "W/\"a\"")], true);
    check(&stored, &[("etag", "\"b\"")], false);
    check(&stored, &[("etag", "\"a\""), ("last-modified", "E")], true);
    check(&stored, &[("last-modified", "D")], true);
    check(&stored, &[("last-modified", "E")], false);
    check(&[("last-modified", "D")], &[("etag", "\"a\"")], false);
    check(&stored, &[("etag", "\"a\""), ("etag", "\"b\"")], false);
}

#[test]
fn a_304_replaces_fields_but_not_those_about_the_body() {
    let stored = head(&[
        ("date", "D1"),
        ("etag", "\"a\""),
        ("cache-control", "max-age=1"),
        ("x-list", "1"),
        ("x-list", "2"),
        ("x-old", "o"),
        ("content-length", "5"),
        ("content-encoding", "gzip"),
    ]);
    let check = |not_modified: &[(&str, &str)], expected: &[(&str, &str)]| {
        let new = fields(not_modified);
        let found = updated(&stored, ResponseHead { status: 304, fields: &new });
        let mut expected = fields(expected);
        let mut found: Vec<_> = found.into_iter().filter(|field| !matches!(field.0, b"etag" | b"x-old")).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{not_modified:?}");
    };
    let kept = [("content-length", "5"), ("content-encoding", "gzip")];
    let lists = [("x-list", "1"), ("x-list", "2")];
    let old = ("cache-control", "max-age=1");
    check(&[("date", "D2")], &[&kept[..], &lists, &[old, ("date", "D2")]].concat());
    check(&[], &[&kept[..], &lists, &[old]].concat());
    let new = ("cache-control", "max-age=9");
    check(&[("date", "D2"), new, ("x-list", "3")], &[&kept[..], &[new, ("date", "D2"), ("x-list", "3")]].concat());
    let refused = [("date", "D2"), ("content-length", "9"), ("content-encoding", "br"), ("content-range", "x")];
    check(&refused, &[&kept[..], &lists, &[old, ("date", "D2")]].concat());
    let hop = [("date", "D2"), ("connection", "x-list"), ("x-list", "9"), ("keep-alive", "1"), ("transfer-encoding", "chunked")];
    check(&hop, &[&kept[..], &lists, &[old, ("date", "D2")]].concat());
    check(&[("date", "D2"), ("age", "4")], &[&kept[..], &lists, &[old, ("date", "D2"), ("age", "4")]].concat());
}
