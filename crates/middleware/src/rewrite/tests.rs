//! Paths and queries before and after `rewrite`, `strip-prefix` and `add-prefix`; which results are refused.
//! Normal form itself is tested where it is made, in `wire`.

use super::{AddPrefix, Rewrite, RewriteError, StripPrefix, TARGET_BYTES_MAX};
use crate::compile_error::CompileError;
use crate::context::Scratch;
use crate::fixtures::{context, request, target, template};
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::sample::select;
use tidegate_model::{EncodedSlashes, PathExpressions, PathParameters, PathPolicy, Slashes};
use tidegate_routing::path_policy::PathRefusal;
use tidegate_wire::path::{Climb, Normalised, climb, normalise};

fn rewritten(pattern: Option<&str>, to: &str, given: &str, lines: &[&str]) -> Result<String, RewriteError> {
    let rewrite = Rewrite::new(pattern, &template(to)).expect("a rewrite of the test");
    let mut head = request(given, "example.com", lines);
    let before = target(&head);
    let applied = rewrite.apply(&mut head, &context(), &mut Scratch::default());
    if applied.is_err() {
        assert_eq!(target(&head), before, "a refused rewrite changes nothing");
    }
    applied.map(|()| target(&head))
}

fn check(pattern: Option<&str>, to: &str, given: &str, expected: &str) {
    assert_eq!(rewritten(pattern, to, given, &[]).as_deref(), Ok(expected), "{pattern:?} {to:?} on {given}");
}

#[test]
fn the_path_is_replaced_and_the_query_kept() {
    check(None, "/new", "/old", "/new");
    check(None, "/new", "/old?a=1", "/new?a=1");
    check(None, "/new{path}", "/old?a=1", "/new/old?a=1");
    check(None, "{path}", "/old", "/old");
    check(None, "/{host}{path}", "/x", "/example.com/x");
    check(None, "/new?b=2", "/old?a=1", "/new?b=2");
    check(None, "/new?b=2&{query}", "/old?a=1", "/new?b=2&a=1");
    check(None, "/new?b=2&{query}", "/old", "/new?b=2");
    check(None, "/new?b=2&{query}", "/old?", "/new?b=2");
    check(None, "/new?b=2&c={query}", "/old", "/new?b=2&c=");
    check(None, "/new?", "/old?a=1", "/new");
    check(None, "/new{uri}", "/old?a=1", "/new/old?a=1");
    check(None, "/new{uri}", "/old", "/new/old");
    check(None, "/new?u={uri}", "/old?a=1?2", "/new?u=/old?a=1?2");
    check(None, "/é", "/old", "/%C3%A9");
    check(None, "/new", "*", "*");
}

#[test]
fn captures_of_a_pattern() {
    check(Some("^/old/(.*)"), "/new/$1", "/old/a/b", "/new/a/b");
    check(Some("^/old/(.*)"), "/new/$1", "/old/", "/new/");
    check(Some("^/old/(.*)"), "/new/$1", "/other", "/other");
    check(Some("^/(a)?(b)?$"), "/$2-$1", "/b", "/b-");
    check(Some("b"), "/x$0", "/abc", "/xb");
    check(Some("^/old"), "/new", "/old/a?q", "/new?q");
    check(Some("^/old"), "/new", "/other?q", "/other?q");
    check(Some("^/item/([0-9]+)$"), "/item?id=$1", "/item/7?a=1", "/item?id=7");
    check(Some("^/item/([0-9]+)$"), "/item?id=$1&{query}", "/item/7?a=1", "/item?id=7&a=1");
    check(Some("^/([^/]+)/([^/]+)"), "/$2/$1", "/%2F/b", "/b/%2F");
}

/// What is found is bytes, and stands for the same bytes where it is put.
#[test]
fn what_is_found_in_a_decoded_path_is_encoded_again() {
    let policy =
        PathPolicy { encoded_slashes: EncodedSlashes::Pass, expressions: PathExpressions::Decoded, ..PathPolicy::DEFAULT };
    let check = |pattern: &str, to: &str, given: &str, expected: Result<&str, RewriteError>| {
        let rewrite = Rewrite::new(Some(pattern), &template(to)).expect("a rewrite of the test").under(policy);
        let mut head = request(given, "example.com", &[]);
        let applied = rewrite.apply(&mut head, &context(), &mut Scratch::default()).map(|()| target(&head));
        assert_eq!(applied.as_deref().map_err(|error| *error), expected, "{pattern} {to} on {given}");
    };
    check("^/a b/(.*)$", "/$1", "/a%20b/c%20d", Ok("/c%20d"));
    check("^/a/(.*)$", "/$1", "/a/100%25", Ok("/100%25"));
    check("^/a/(.*)$", "/$1", "/a/%252F", Ok("/%252F"));
    check("^/a/(.*)$", "/$1", "/a/x%3Fy%23z", Ok("/x%3Fy%23z"));
    check("^/a/(.*)$", "/$1", "/a/%C3%A9%0A%22", Ok("/%C3%A9%0A%22"));
    check("^/a/(.)", "/$1", "/a/%C3%A9", Ok("/%C3"));
    check("^/a%20b", "/x", "/a%20b", Ok("/a%20b"));
    check("^/a/(.*)$", "/b?c=$1&d=e", "/a/1&d=2", Ok("/b?c=1%26d=2&d=e"));
    check("^/a/(.*)$", "/b?c=$1", "/a/1+1%252B%20", Ok("/b?c=1%2B1%252B%20"));
    check("^/a(.*)$", "/$1", "/a%252e.", Err(RewriteError::EscapesRoot));
}

/// Slashes are merged by default in paths of requests; none come back by a text that was cut, or between two texts.
#[test]
fn slashes_that_meet_are_one_where_they_are_merged() {
    check(Some("^/a(.*)$"), "/b/$1", "/a/x", "/b/x");
    check(Some("^/a(.*)$"), "/$1", "/a/x", "/x");
    check(Some("^/a(/.*)/b$"), "$1/c", "/a//b", "/c");
    check(Some("^/([^/]*)/?(.*)$"), "/$2/$1/z", "/a", "/a/z");
    check(None, "/new/{path}", "/old/", "/new/old/");
    check(None, "/{uri}", "/x?a=//b", "/x?a=//b");
    check(None, "/x?p=/{path}", "/y", "/x?p=//y");
    // What is written side by side is meant.
    check(Some("^/fetch/(.*)$"), "/get/http://$1", "/fetch/a", "/get/http://a");
    check(None, "/get//x", "/y", "/get//x");
    let keep = PathPolicy { slashes: Slashes::Keep, ..PathPolicy::DEFAULT };
    let rewrite = Rewrite::new(Some("^/a(.*)$"), &template("/b/$1")).expect("a rewrite of the test").under(keep);
    let mut head = request("/a/x", "example.com", &[]);
    assert_eq!(rewrite.apply(&mut head, &context(), &mut Scratch::default()), Ok(()));
    assert_eq!(target(&head), "/b//x");
}

#[test]
fn what_comes_out_is_normalised() {
    check(None, "/%7euser", "/x", "/~user");
    check(None, "/a/%2f", "/x", "/a/%2F");
    check(None, "/a^{path}", "/x", "/a%5E/x");
}

/// What a client chooses freely is one segment of the path, whichever placeholder brings it.
#[test]
fn a_text_of_the_client_stays_one_piece_of_the_path() {
    let check = |value: &str, expected: Result<&str, RewriteError>| {
        let lines = [format!("X: {value}"), format!("Cookie: x={value}")];
        let lines = lines.each_ref().map(String::as_str);
        for to in ["/t/{request.header.x}/end", "/t/{request.cookie.x}/end"] {
            let seen = rewritten(None, to, "/a?q=1", &lines);
            let expected = expected.map(|piece| format!("/t/{piece}/end?q=1"));
            assert_eq!(seen, expected, "{value:?} in {to}");
        }
    };
    check("v", Ok("v"));
    check("v?admin=1", Ok("v%3Fadmin%3D1"));
    check("v#x", Ok("v%23x"));
    check("a b", Ok("a%20b"));
    check("100%", Ok("100%25"));
    check("a/b", Ok("a%2Fb"));
    check("a%2fb", Ok("a%252fb"));
    check("a\\b", Ok("a%5Cb"));
    check("a\"b", Ok("a%22b"));
    check("a&b=c+d", Ok("a%26b%3Dc%2Bd"));
    check("é", Ok("%C3%A9"));
    check("...", Ok("..."));
    check("a..", Ok("a.."));
    check("..a", Ok("..a"));
    for dots in [
        ".",
        "..",
        "../x",
        "../../x",
        "x/..",
        "x/../y",
        "./x",
        "/..",
        "..\\x",
        "x\\..\\y",
        "%2e%2e",
        "%2e",
        ".%2E/x",
        "..%2fx",
        "..%2Fx",
        "x%2f..%2fy",
        "..%5cx",
        "%252e%252e%252fx",
        "%25252e",
        "..%3bx",
    ] {
        check(dots, Err(RewriteError::EscapesRoot));
    }
    for nul in ["%00", "a%00b", "a%2500"] {
        check(nul, Err(RewriteError::NotAPath));
    }
    let parameter = rewritten(None, "/t/{request.header.x}/end", "/a", &["X: ..;x"]);
    assert_eq!(parameter, Err(RewriteError::EscapesRoot));
    let long = format!("X: {}", "y".repeat(TARGET_BYTES_MAX));
    assert_eq!(rewritten(None, "/t/{request.header.x}", "/a", &[&long]), Err(RewriteError::TooLong));
}

/// Dots that only come together in the new path: of two texts, of a text and what is written, of a path that a pattern
/// cut in the middle of a segment.
#[test]
fn dots_that_come_together_are_refused() {
    let check = |pattern: Option<&str>, to: &str, given: &str, lines: &[&str]| {
        assert_eq!(rewritten(pattern, to, given, lines), Err(RewriteError::EscapesRoot), "{pattern:?} {to} on {given}");
    };
    check(None, "/t/{request.header.x}{request.header.x}/y", "/", &["X: ."]);
    check(None, "/t/.{request.header.x}/y", "/", &["X: ."]);
    check(None, "/t/.{request.header.x}", "/", &[]);
    check(Some("^/files-(.*)$"), "/files/$1", "/files-../admin", &[]);
    check(Some("^/files-(.*)$"), "/files/$1", "/files-..%2Fadmin", &[]);
    check(Some("^/files-(.*)$"), "/files/$1", "/files-..", &[]);
    check(Some("^/x(.+)y$"), "/$1", "/x..y", &[]);
    check(None, "/base{path}", "/..%2Fadmin", &[]);
    check(None, "/base/{query}", "/a?../x", &[]);
}

/// A server that decodes slashes, merges them or cuts off parameters is said to be there by `path-policy`.
#[test]
fn the_policy_of_the_route_holds_for_texts_of_clients() {
    let check = |policy: PathPolicy, to: &str, value: &str, expected: Result<&str, RewriteError>| {
        let rewrite = Rewrite::new(None, &template(to)).expect("a rewrite of the test").under(policy);
        let mut head = request("/a", "example.com", &[&format!("X: {value}")]);
        let applied = rewrite.apply(&mut head, &context(), &mut Scratch::default());
        let path = String::from_utf8_lossy(head.path()).into_owned();
        assert_eq!(applied.map(|()| path).as_ref().map(String::as_str), expected.as_ref().map(|path| *path), "{value} in {to}");
    };
    let to = "/t/{request.header.x}/end";
    let refused = |refusal| Err(RewriteError::AgainstPolicy(refusal));
    let decode = PathPolicy { encoded_slashes: EncodedSlashes::Decode, ..PathPolicy::DEFAULT };
    let no_encoded = PathPolicy { encoded_slashes: EncodedSlashes::Refuse, ..PathPolicy::DEFAULT };
    let no_double = PathPolicy { slashes: Slashes::Refuse, ..PathPolicy::DEFAULT };
    let no_parameters = PathPolicy { parameters: PathParameters::Refuse, ..PathPolicy::DEFAULT };
    check(decode, to, "a/b", refused(PathRefusal::EncodedSlash));
    check(decode, to, "a\\b", Ok("/t/a%5Cb/end"));
    check(no_encoded, to, "a/b", refused(PathRefusal::EncodedSlash));
    check(no_encoded, to, "a\\b", refused(PathRefusal::EncodedSlash));
    check(no_encoded, to, "ab", Ok("/t/ab/end"));
    check(no_encoded, "/t%2Fu", "", Ok("/t%2Fu"));
    check(no_double, to, "", refused(PathRefusal::Slashes));
    check(no_parameters, to, "a;b", refused(PathRefusal::Parameters));
    let keep = PathPolicy { slashes: Slashes::Keep, ..PathPolicy::DEFAULT };
    check(PathPolicy::DEFAULT, to, "", Ok("/t/end"));
    check(keep, to, "", Ok("/t//end"));
    check(PathPolicy::DEFAULT, to, "a;b", Ok("/t/a%3Bb/end"));
}

#[test]
fn a_text_of_the_client_adds_nothing_to_the_query() {
    let check = |to: &str, expected: &str| {
        let seen = rewritten(None, to, "/a?q=1/..", &["X: a&role=admin#+..", "Cookie: x=a&b"]);
        assert_eq!(seen.as_deref(), Ok(expected), "{to}");
    };
    check("/t?v={request.header.x}&w=1", "/t?v=a%26role%3Dadmin%23%2B..&w=1");
    check("/t?v={request.cookie.x}", "/t?v=a%26b");
    check("/t?{query}&v={request.header.x}", "/t?q=1/..&v=a%26role%3Dadmin%23%2B..");
    check("{uri}&v={request.header.x}", "/a?q=1/..&v=a%26role%3Dadmin%23%2B..");
}

#[test]
fn text_that_is_no_path_is_refused() {
    assert_eq!(rewritten(Some("^/(.*)"), "$1", "/a", &[]), Err(RewriteError::NotAPath));
    assert_eq!(rewritten(Some("^/(b)?"), "$1", "/a", &[]), Err(RewriteError::NotAPath));
    assert_eq!((RewriteError::NotAPath.status(), RewriteError::TooLong.status()), (400, 414));
}

#[test]
fn faults_that_are_seen_when_compiling() {
    let check = |pattern: Option<&str>, to: &str, expected: CompileError| {
        assert_eq!(Rewrite::new(pattern, &template(to)).err(), Some(expected), "{pattern:?} {to:?}");
    };
    check(None, "new", CompileError::NotAPath("new".into()));
    check(None, "", CompileError::NotAPath(String::new()));
    check(None, "{request.header.x}", CompileError::NotAPath("{request.header.x}".into()));
    check(None, "/a/../b{path}", CompileError::NotAPath("/a/../b{path}".into()));
    check(Some("^/(.*)$"), "/a/$1/%2E%2e", CompileError::NotAPath("/a/$1/%2E%2e".into()));
    check(None, "/a$1", CompileError::NoSuchCapture(1));
    check(Some("^/(.*)"), "/$2", CompileError::NoSuchCapture(2));
    assert!(matches!(Rewrite::new(Some("("), &template("/")), Err(CompileError::Regex(_))));
    assert_eq!(StripPrefix::new("api").err(), Some(CompileError::NotAPath("api".into())));
    assert_eq!(AddPrefix::new("../x").err(), Some(CompileError::NotAPath("../x".into())));
}

#[test]
fn strip_prefix_takes_whole_segments() {
    let check = |prefix: &str, given: &str, expected: &str| {
        let mut head = request(given, "example.com", &[]);
        StripPrefix::new(prefix).expect("a prefix of the test").apply(&mut head);
        assert_eq!(target(&head), expected, "{prefix} from {given}");
    };
    for prefix in ["/api", "/api/", "/%61pi"] {
        check(prefix, "/api/x?q", "/x?q");
        check(prefix, "/api", "/");
        check(prefix, "/api?q", "/?q");
        check(prefix, "/api/", "/");
        check(prefix, "/apix", "/apix");
        check(prefix, "/x/api", "/x/api");
        check(prefix, "/API/x", "/API/x");
        check(prefix, "/api/api/x", "/api/x");
        check(prefix, "*", "*");
    }
    check("/", "/api/x", "/api/x");
    check("/é", "/%C3%A9/x", "/x");
}

#[test]
fn add_prefix_stands_in_front() {
    let check = |prefix: &str, given: &str, expected: &str| {
        let mut head = request(given, "example.com", &[]);
        AddPrefix::new(prefix).expect("a prefix of the test").apply(&mut head).expect("short enough");
        assert_eq!(target(&head), expected, "{prefix} before {given}");
    };
    check("/v1", "/x?q", "/v1/x?q");
    check("/v1/", "/x", "/v1/x");
    check("/v1", "/", "/v1/");
    check("/", "/x", "/x");
    check("/a b", "/x", "/a%20b/x");
    check("/v1", "*", "*");
    let mut long = request(&format!("/{}", "x".repeat(TARGET_BYTES_MAX)), "example.com", &[]);
    assert_eq!(AddPrefix::new("/v1").expect("a prefix").apply(&mut long), Err(RewriteError::TooLong));
}

/// Text that is as likely to mean something in a path as not.
fn hostile_text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        select(vec![".", "..", "/", "\\", "%2e", "%2F", "%5c", "%25", "%00", ";", "?", "#", "&", "a"])
            .prop_map(|piece| piece.as_bytes().to_vec()),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let code = text.get(at + 1..at + 3).filter(|_| text[at] == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(byte.unwrap_or(text[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    out
}

proptest! {
    #[test]
    fn every_rewritten_path_is_in_normal_form(header in hostile_text(), path in "/[a-z./%?]{0,12}", to in "(/[a-z]{0,3}){1,3}") {
        let rewrite = Rewrite::new(Some("^/(.*)"), &template(&format!("{to}/{{request.header.x}}$1")));
        let rewrite = rewrite.expect("a rewrite of the test");
        let mut head = request(&path, "example.com", &[]);
        head.fields.push(b"x", &header);
        if rewrite.apply(&mut head, &context(), &mut Scratch::default()).is_ok() {
            assert_eq!(normalise(head.path(), &mut Vec::new()), Normalised::Unchanged, "{}", head.path().escape_ascii());
            assert_eq!(climb(head.path()), Climb::Nowhere, "{}", head.path().escape_ascii());
        }
    }

    /// A server that decodes the segment reads the very text that was sent, and sees the segments that were written.
    #[test]
    fn what_a_client_sends_is_one_segment(value in hostile_text()) {
        let rewrite = Rewrite::new(None, &template("/t/{request.header.x}/end?v={request.header.x}")).expect("a rewrite");
        let mut head = request("/a", "example.com", &[]);
        head.fields.push(b"x", &value);
        if rewrite.apply(&mut head, &context(), &mut Scratch::default()).is_ok() {
            let segments: Vec<&[u8]> = head.path().split(|byte| *byte == b'/').collect();
            // Slashes are merged, so that of nothing there is no segment.
            let own: Vec<Vec<u8>> = if value.is_empty() { vec![] } else { vec![value.clone()] };
            let expected = [vec![vec![], b"t".to_vec()], own, vec![b"end".to_vec()]].concat();
            assert_eq!(segments.into_iter().map(decoded).collect::<Vec<_>>(), expected, "{}", head.path().escape_ascii());
            let query = head.query().expect("a query");
            assert!(!query.iter().any(|byte| matches!(byte, b'&' | b'#' | b'+' | b';' | b'?')), "{}", query.escape_ascii());
            assert_eq!(decoded(query), [b"v=", &value[..]].concat());
        } else {
            assert_ne!(climb(&value), Climb::Nowhere, "{}", value.escape_ascii());
        }
    }
}
