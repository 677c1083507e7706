//! Paths and queries before and after `rewrite`, `strip-prefix` and `add-prefix`; which results are refused.
//! Normal form itself is tested where it is made, in `wire`.

use super::{AddPrefix, Rewrite, RewriteError, StripPrefix, TARGET_BYTES_MAX};
use crate::compile_error::CompileError;
use crate::context::Scratch;
use crate::fixtures::{context, request, target, template};
use proptest::prelude::{any, proptest};
use tidegate_wire::path::{Normalised, normalise};

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

#[test]
fn what_comes_out_is_normalised() {
    check(None, "/a/../b{path}", "/x", "/b/x");
    check(None, "/%7euser", "/x", "/~user");
    check(Some("^/(.*)$"), "/a/$1/../c", "/b", "/a/c");
    check(None, "/a/%2f", "/x", "/a/%2F");
}

#[test]
fn a_header_in_a_path_stays_in_the_path() {
    let check = |value: &str, expected: Result<&str, RewriteError>| {
        let seen = rewritten(None, "/t/{request.header.x}", "/a?q=1", &[&format!("X: {value}")]);
        assert_eq!(seen.as_deref().map_err(|error| *error), expected, "{value}");
    };
    check("v", Ok("/t/v?q=1"));
    check("v?admin=1", Ok("/t/v%3Fadmin=1?q=1"));
    check("v#x", Ok("/t/v%23x?q=1"));
    check("a b", Ok("/t/a%20b?q=1"));
    check("100%", Ok("/t/100%25?q=1"));
    check("../x", Ok("/x?q=1"));
    check("../../x", Err(RewriteError::EscapesRoot));
    check("%00", Err(RewriteError::NotAPath));
    check(&"y".repeat(TARGET_BYTES_MAX), Err(RewriteError::TooLong));
}

#[test]
fn text_that_is_no_path_is_refused() {
    let seen = rewritten(None, "{request.header.x}", "/a", &["X: https://evil.example/"]);
    assert_eq!(seen, Err(RewriteError::NotAPath));
    assert_eq!(rewritten(None, "{request.header.none}", "/a", &[]), Err(RewriteError::NotAPath));
    assert_eq!((RewriteError::NotAPath.status(), RewriteError::TooLong.status()), (400, 414));
}

#[test]
fn faults_that_are_seen_when_compiling() {
    let check = |pattern: Option<&str>, to: &str, expected: CompileError| {
        assert_eq!(Rewrite::new(pattern, &template(to)).err(), Some(expected), "{pattern:?} {to:?}");
    };
    check(None, "new", CompileError::NotAPath("new".into()));
    check(None, "", CompileError::NotAPath(String::new()));
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

proptest! {
    #[test]
    fn every_rewritten_path_is_in_normal_form(
        header in proptest::collection::vec(any::<u8>(), 0..40),
        path in "/[a-z./%?]{0,12}",
        to in "(/[a-z.]{0,3}){1,3}",
    ) {
        let rewrite = Rewrite::new(Some("^/(.*)"), &template(&format!("{to}/{{request.header.x}}$1")));
        let rewrite = rewrite.expect("a rewrite of the test");
        let mut head = request(&path, "example.com", &[]);
        head.fields.push(b"x", &header);
        if rewrite.apply(&mut head, &context(), &mut Scratch::default()).is_ok() {
            assert_eq!(normalise(head.path(), &mut Vec::new()), Normalised::Unchanged, "{}", head.path().escape_ascii());
        }
    }
}
