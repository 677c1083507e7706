//! Conditions, ranges and coded siblings, as whole answers.

use super::{ETAG_OF_HELLO, MODIFIED, Site, body, get, header, headers, short};
use crate::answer::Answer;
use crate::ask::{Ask, Method};
use crate::refused::Refused;
use std::time::Duration;

const DIGITS: &str = "0123456789abcdefghij";

#[test]
fn known_files_are_not_sent_again() {
    let site = Site::new(&[("a.txt", "hello")]);
    let etag = ETAG_OF_HELLO.as_bytes();
    let ask = Ask { if_none_match: Some(etag), ..get("/a.txt") };
    site.check(ask, "304");
    assert_eq!(headers(&site.answer(&ask)), [("etag", ETAG_OF_HELLO.into())]);
    site.check(Ask { method: Method::Head, ..ask }, "304");
    site.check(Ask { range: Some(b"bytes=0-1"), ..ask }, "304");
    site.check(Ask { if_none_match: Some(b"\"other\""), ..get("/a.txt") }, "200 hello");
    site.check(Ask { if_modified_since: Some(b"Sun, 06 Nov 1994 08:49:37 GMT"), ..get("/a.txt") }, "304");
    site.check(Ask { if_match: Some(b"\"other\""), ..get("/a.txt") }, "412 PreconditionFailed");
    site.check(Ask { if_match: Some(b"*"), ..get("/none") }, "404 NotFound");
}

#[test]
fn the_tag_changes_with_date_and_size_only() {
    let tag = |content: &str, modified: Duration| {
        let site = Site::new(&[]);
        site.write("a.txt", content, modified);
        header(&site.answer(&get("/a.txt")), "etag")
    };
    assert_eq!(tag("hello", MODIFIED), tag("other", MODIFIED));
    assert_ne!(tag("hello", MODIFIED), tag("hello", MODIFIED + Duration::from_nanos(1)));
    assert_ne!(tag("hello", MODIFIED), tag("hello!", MODIFIED));
}

#[test]
fn one_range_is_one_part() {
    let site = Site::new(&[("a.txt", DIGITS), ("empty", "")]);
    let check = |range: &str, expected: &str, content_range: &str| {
        let ask = Ask { range: Some(range.as_bytes()), ..get("/a.txt") };
        site.check(ask, expected);
        assert_eq!(header(&site.answer(&ask), "content-range"), content_range, "{range}");
    };
    check("bytes=0-3", "206 0123", "bytes 0-3/20");
    check("bytes=18-", "206 ij", "bytes 18-19/20");
    check("bytes=-1", "206 j", "bytes 19-19/20");
    check("bytes=0-99", &format!("206 {DIGITS}"), "bytes 0-19/20");
    check("bytes=3-4,0-2", "206 01234", "bytes 0-4/20");
    check("bytes=20-", "416 RangeNotSatisfiable { length: 20 }", "bytes */20");
    check("bytes=4-3", &format!("200 {DIGITS}"), "");
    check("lines=0-3", &format!("200 {DIGITS}"), "");
    let answer = site.answer(&Ask { range: Some(b"bytes=0-3"), ..get("/a.txt") });
    assert_eq!(header(&answer, "content-type"), "text/plain; charset=utf-8");
    assert!(!header(&answer, "etag").is_empty() && !header(&answer, "last-modified").is_empty());
    site.check(Ask { range: Some(b"bytes=0-"), ..get("/empty") }, "416 RangeNotSatisfiable { length: 0 }");
    site.check(Ask { range: Some(b"bytes=-5"), ..get("/empty") }, "200");
    let answer = site.answer(&Ask { method: Method::Head, range: Some(b"bytes=0-3"), ..get("/a.txt") });
    assert_eq!(answer.status(), 200);
    assert_eq!(Refused::RangeNotSatisfiable { length: 7 }.headers(), [("content-range", "bytes */7".into())]);
}

#[test]
fn several_ranges_are_a_multipart_body() {
    let site = Site::new(&[("a.txt", DIGITS)]);
    let answer = site.answer(&Ask { range: Some(b"bytes=10-12, 0-1,-1"), ..get("/a.txt") });
    let content_type = header(&answer, "content-type");
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect("a boundary");
    let part = |content_range: &str, content: &str| {
        let head = format!("content-type: text/plain; charset=utf-8\r\ncontent-range: bytes {content_range}/20");
        format!("--{boundary}\r\n{head}\r\n\r\n{content}\r\n")
    };
    let expected = [part("10-12", "abc"), part("0-1", "01"), part("19-19", "j"), format!("--{boundary}--\r\n")].concat();
    assert_eq!((answer.status(), body(&answer)), (206, expected));
    assert_eq!(header(&answer, "content-range"), "");
    let again = site.answer(&Ask { range: Some(b"bytes=10-12, 0-1"), ..get("/a.txt") });
    assert_ne!(header(&again, "content-type"), content_type, "each opened root has its own boundaries");
    let many = format!("bytes={}", ["0-0"; 17].join(","));
    site.check(Ask { range: Some(many.as_bytes()), ..get("/a.txt") }, &format!("200 {DIGITS}"));
}

#[test]
fn a_range_of_another_version_is_the_whole_file() {
    let site = Site::new(&[("a.txt", "hello")]);
    let check = |if_range: &str, expected: &str| {
        site.check(Ask { range: Some(b"bytes=1-2"), if_range: Some(if_range.as_bytes()), ..get("/a.txt") }, expected);
    };
    check(ETAG_OF_HELLO, "206 el");
    check(&format!("W/{ETAG_OF_HELLO}"), "200 hello");
    check("\"other\"", "200 hello");
    check("Sun, 06 Nov 1994 08:49:37 GMT", "206 el");
    check("Sun, 06 Nov 1994 08:49:38 GMT", "200 hello");
    // A range beyond the end of a new version is no fault of the client.
    site.check(Ask { range: Some(b"bytes=90-"), if_range: Some(b"\"other\""), ..get("/a.txt") }, "200 hello");
}

/// All of the same length and date, so that only their coding tells them apart.
fn coded() -> Site {
    let site = Site::new(&[("a.css", "plain"), ("a.css.gz", "gzips"), ("a.css.br", "brots"), ("b.css", "plain")]);
    site.write("b.css.gz", "old", MODIFIED.saturating_sub(Duration::from_nanos(1)));
    site.set(|settings| settings.precompressed = true)
}

#[test]
fn coded_siblings_are_for_those_who_accept_them() {
    let site = coded();
    let check = |path: &str, accept_encoding: &str, expected: &str, coding: &str, vary: &str| {
        let ask = Ask { accept_encoding: Some(accept_encoding.as_bytes()), ..get(path) };
        site.check(ask, expected);
        let answer = site.answer(&ask);
        assert_eq!(
            (header(&answer, "content-encoding"), header(&answer, "vary")),
            (coding.into(), vary.into()),
            "{accept_encoding}"
        );
        assert!(header(&answer, "content-type").starts_with("text/css"), "{accept_encoding}");
    };
    check("/a.css", "gzip, br, zstd", "200 brots", "br", "accept-encoding");
    check("/a.css", "gzip", "200 gzips", "gzip", "accept-encoding");
    check("/a.css", "gzip;q=0.5, br;q=0.4", "200 gzips", "gzip", "accept-encoding");
    check("/a.css", "*", "200 brots", "br", "accept-encoding");
    check("/a.css", "deflate", "200 plain", "", "accept-encoding");
    check("/a.css", "identity;q=0, deflate", "200 plain", "", "accept-encoding");
    check("/a.css", "", "200 plain", "", "accept-encoding");
    check("/b.css", "gzip", "200 plain", "", "");
    let off = coded().set(|settings| settings.precompressed = false);
    let answer = off.answer(&Ask { accept_encoding: Some(b"gzip"), ..get("/a.css") });
    assert_eq!((short(&answer), header(&answer, "vary")), ("200 plain".into(), String::new()));
    assert_eq!(header(&site.answer(&get("/a.css.gz")), "content-type"), "application/gzip");
}

#[test]
fn a_coded_sibling_is_a_representation_of_its_own() {
    let site = coded();
    let gzip = Ask { accept_encoding: Some(b"gzip"), ..get("/a.css") };
    let tags: Vec<String> = ["gzip", "br", "identity"]
        .map(|coding| header(&site.answer(&Ask { accept_encoding: Some(coding.as_bytes()), ..gzip }), "etag"))
        .into();
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
    let known = Ask { if_none_match: Some(tags[0].as_bytes()), ..gzip };
    site.check(known, "304");
    assert_eq!(header(&site.answer(&known), "vary"), "accept-encoding");
    site.check(Ask { accept_encoding: Some(b"br"), ..known }, "200 brots");
    site.check(Ask { range: Some(b"bytes=0-2"), ..gzip }, "206 gzi");
    assert_eq!(header(&site.answer(&Ask { range: Some(b"bytes=0-2"), ..gzip }), "content-range"), "bytes 0-2/5");
    // Which coding a multipart body would have is open to misreading.
    site.check(Ask { range: Some(b"bytes=0-1,4-5"), ..gzip }, "200 gzips");
    let Answer::File(head) = site.answer(&Ask { method: Method::Head, ..gzip }) else { panic!("a file") };
    assert_eq!(head.content_length, 5);
}

#[test]
fn index_and_fallback_have_coded_siblings_too() {
    let site = Site::new(&[("index.html", "plain"), ("index.html.zst", "zstd")]);
    let site = site.set(|settings| (settings.precompressed, settings.fallback) = (true, Some("index.html".into())));
    site.check(Ask { accept_encoding: Some(b"zstd"), ..get("/") }, "200 zstd");
    site.check(Ask { accept_encoding: Some(b"zstd"), ..get("/none") }, "200 zstd");
}
