//! Which answers are compressed, and what their heads say then.

use super::{CompiledCompress, settle};
use crate::fixtures::{lines, push_lines, request};
use tidegate_model::{Coding, Compress};
use tidegate_wire::head::{Method, ResponseHead};

fn response(status: u16, fields: &[&str]) -> ResponseHead {
    let mut response = ResponseHead { status, ..ResponseHead::default() };
    push_lines(&mut response.fields, fields);
    response
}

const HTML: &str = "Content-Type: text/html; charset=utf-8";
const VARY: &str = "vary: Accept-Encoding";

/// Whether an answer of that length is compressed, and whether it says that it might have been.
fn check(request_fields: &[&str], status: u16, fields: &[&str], length: Option<u64>, expected: (bool, bool)) {
    let compress = CompiledCompress::new(&Compress::default());
    let request = request("/", "example.com", request_fields);
    let mut response = response(status, fields);
    let is_coded = compress.choose(&request, &mut response, length).is_some();
    let varies = lines(&response.fields).iter().any(|line| line == VARY);
    assert_eq!((is_coded, varies), expected, "{request_fields:?} {status} {fields:?} {length:?}");
}

#[test]
fn what_compresses_well_is_compressed() {
    let accepts = &["Accept-Encoding: gzip"];
    let check = |fields: &[&str], expected: bool| check(accepts, 200, fields, None, (expected, expected));
    check(&[HTML], true);
    check(&["Content-Type: TEXT/plain"], true);
    check(&["Content-Type: application/json"], true);
    check(&["Content-Type: application/problem+json"], true);
    check(&["Content-Type: application/atom+xml;x=y"], true);
    check(&["Content-Type: text/event-stream"], true);
    check(&["Content-Type: image/svg+xml"], true);
    check(&["Content-Type: image/png"], false);
    check(&["Content-Type: application/octet-stream"], false);
    check(&["Content-Type: application/grpc"], false);
    check(&["Content-Type: applicationx+json"], false);
    check(&["Content-Type: text"], false);
    check(&["Content-Type: "], false);
    check(&[], false);
}

#[test]
fn what_must_not_be_changed_is_not() {
    let accepts = &["Accept-Encoding: gzip"];
    let check = |status: u16, field: &str, expected: bool| {
        check(accepts, status, &[HTML, field], Some(10_000), (expected, expected));
    };
    check(200, "A: b", true);
    check(404, "A: b", true);
    for status in [101, 204, 205, 206, 304] {
        check(status, "A: b", false);
    }
    check(200, "Content-Range: bytes 0-1/2", false);
    check(200, "Content-Encoding: br", false);
    check(200, "Content-Encoding: identity", true);
    check(200, "Cache-Control: max-age=5, No-Transform", false);
    check(200, "Cache-Control: no-store", true);
}

#[test]
fn short_answers_go_out_as_they_are() {
    let check = |length: Option<u64>, expected: bool| check(&["Accept-Encoding: br"], 200, &[HTML], length, (expected, expected));
    check(Some(0), false);
    check(Some(511), false);
    check(Some(512), true);
    check(None, true);
}

#[test]
fn what_another_client_would_get_is_said() {
    check(&[], 200, &[HTML], None, (false, true));
    check(&["Accept-Encoding: identity"], 200, &[HTML], None, (false, true));
    check(&["Accept-Encoding: gzip"], 200, &[HTML, "Vary: Origin"], None, (true, true));
    check(&["Accept-Encoding: gzip"], 200, &[HTML, "Vary: Origin, accept-encoding"], None, (true, false));
    check(&["Accept-Encoding: gzip"], 200, &[HTML, "Vary: *"], None, (true, false));
}

#[test]
fn requests_that_another_site_caused_get_nothing_to_measure() {
    let check = |fields: &[&str], expected: bool| {
        let fields: Vec<&str> = fields.iter().copied().chain(["Accept-Encoding: gzip"]).collect();
        check(&fields, 200, &[HTML], None, (expected, true));
    };
    check(&["Sec-Fetch-Site: cross-site", "Cookie: id=1"], false);
    check(&["Sec-Fetch-Site: cross-site", "Authorization: Basic x"], false);
    check(&["Sec-Fetch-Site: cross-site"], true);
    check(&["Sec-Fetch-Site: cross-site", "Cookie: id=1", "Sec-Fetch-User: ?1"], true);
    check(&["Sec-Fetch-Site: same-origin", "Cookie: id=1"], true);
    check(&["Cookie: id=1"], true);
}

#[test]
fn a_head_request_is_told_what_a_get_would_vary_by() {
    let compress = CompiledCompress::new(&Compress::default());
    let mut head = request("/", "example.com", &["Accept-Encoding: gzip"]);
    head.method = Method::Head;
    let mut response = response(200, &[HTML, "Content-Length: 1000"]);
    assert_eq!(compress.choose(&head, &mut response, Some(1000)), None);
    assert_eq!(lines(&response.fields), [HTML, "Content-Length: 1000", VARY]);
}

#[test]
fn the_head_becomes_that_of_the_coded_body() {
    let check = |fields: &[&str], expected: &[&str]| {
        let mut response = response(200, fields);
        settle(&mut response, Coding::Brotli);
        assert_eq!(lines(&response.fields), expected, "{fields:?}");
    };
    check(&[HTML, "Content-Length: 5"], &[HTML, "content-encoding: br"]);
    check(&["ETag: \"a\""], &["content-encoding: br", "etag: W/\"a\""]);
    check(&["ETag: W/\"a\""], &["ETag: W/\"a\"", "content-encoding: br"]);
    check(&["Accept-Ranges: bytes", "Content-MD5: x", "Content-Encoding: identity"], &["content-encoding: br"]);
}
