//! Redirects: the location for a template and a request, and that no request can lead it to another host.
//! How a location is encoded is tested with the templates, in `template`.

use super::Redirect;
use crate::context::View;
use crate::fixtures::{context, request, template};
use crate::refusal::Refusal;
use proptest::prelude::{any, proptest};
use tidegate_wire::head::{HeaderId, RequestHead, ResponseHead};

fn location(to: &str, status: u16, request: &RequestHead) -> (String, String) {
    let redirect = Redirect::new(&template(to), status);
    let (mut head, mut buffer, context) = (ResponseHead::default(), b"left over".to_vec(), context());
    let view = View { context: &context, request, response: None };
    let body = redirect.answer(view, &mut head, &mut buffer).expect("nothing leads elsewhere");
    let body = String::from_utf8_lossy(body).into_owned();
    assert_eq!(head.status, status);
    let location = head.fields.get(HeaderId::Location).expect("a redirect has a location");
    (String::from_utf8_lossy(location).into_owned(), body)
}

fn check(to: &str, target: &str, expected: &str) {
    let request = request(target, "old.example.com:80", &["X: a\r\nSet-Cookie: b"]);
    assert_eq!(location(to, 308, &request).0, expected, "{to} for {target}");
}

#[test]
fn the_location_is_made_of_the_request() {
    check("https://new.example.com{path}", "/a/b?q=1", "https://new.example.com/a/b");
    check("https://{host}{uri}", "/a/b?q=1", "https://old.example.com/a/b?q=1");
    check("https://{host}{uri}", "/a", "https://old.example.com/a");
    check("/fixed", "/a", "/fixed");
    check("/a b", "/a", "/a%20b");
    check("https://h/?from={request.header.x}", "/", "https://h/?from=a%0D%0ASet-Cookie:%20b");
    check("https://h{path}", "/a\"<>\\", "https://h/a%22%3C%3E%5C");
}

/// As `ReplacePrefixMatch` of the Gateway API has it.
#[test]
fn a_prefix_is_replaced_and_the_rest_stays() {
    let answer = |to: &str, prefix: &str, target: &str| {
        let (mut head, mut buffer, context) = (ResponseHead::default(), b"left over".to_vec(), context());
        let request = request(target, "old.example.com", &[]);
        let view = View { context: &context, request: &request, response: None };
        let redirect = Redirect::new(&template(to), 302).in_place_of(Some(prefix));
        redirect.answer(view, &mut head, &mut buffer).map(drop)?;
        Ok(String::from_utf8_lossy(head.fields.get(HeaderId::Location).expect("a location")).into_owned())
    };
    let check = |to: &str, prefix: &str, target: &str, expected: Result<&str, Refusal>| {
        let found: Result<String, Refusal> = answer(to, prefix, target);
        assert_eq!(found.as_ref().map(String::as_str).map_err(|refusal| *refusal), expected, "{target} {prefix} -> {to}");
    };
    check("/xyz", "/foo", "/foo/bar", Ok("/xyz/bar"));
    check("/xyz/", "/foo", "/foo/bar", Ok("/xyz/bar"));
    check("/xyz", "/foo/", "/foo/bar", Ok("/xyz/bar"));
    check("/xyz/", "/foo/", "/foo/bar", Ok("/xyz/bar"));
    check("/xyz", "/foo", "/foo", Ok("/xyz"));
    check("/xyz", "/foo", "/foo/", Ok("/xyz/"));
    check("/", "/foo", "/foo/bar", Ok("/bar"));
    check("/", "/foo", "/foo/", Ok("/"));
    check("/", "/foo", "/foo", Ok("/"));
    check("https://{host}/xyz", "/foo", "/foo/b%20r?q=1", Ok("https://old.example.com/xyz/b%20r?q=1"));
    check("https://new.example.com", "/", "/a", Ok("https://new.example.com/a"));
    check("/new", "", "/a", Ok("/new/a"));
    check("/xyz", "/foo", "/fool", Err(Refusal::RedirectNowhere));
    // No path of a client names a host.
    check("/", "/foo", "/foo//evil.example", Ok("/evil.example"));
    check("/", "/foo", "/foo/\\evil.example", Ok("/%5Cevil.example"));
}

#[test]
fn a_path_cannot_name_another_host() {
    check("{path}", "//evil.example/x", "/evil.example/x");
    check("{uri}", "///evil.example?q", "/evil.example?q");
    check("/{path}", "/evil.example", "/evil.example");
    check("{path}", "/\\evil.example", "/%5Cevil.example");
    check("//cdn.example{path}", "/x", "//cdn.example/x");
    check("https://h{path}", "//x", "https://h//x");
}

#[test]
fn a_location_has_a_host_of_the_configuration_and_its_scheme() {
    let check = |to: &str, value: &str, leads: bool| {
        let (mut head, mut buffer, context) = (ResponseHead::default(), Vec::new(), context());
        let mut request = request("/evil.example/x", "h", &[]);
        if !value.is_empty() {
            request.fields.push(b"x", value.as_bytes());
        }
        let view = View { context: &context, request: &request, response: None };
        let answer = Redirect::new(&template(to), 302).answer(view, &mut head, &mut buffer).map(drop);
        assert_eq!(answer, if leads { Ok(()) } else { Err(Refusal::RedirectNowhere) }, "{to} {value}");
    };
    check("https://{request.header.x}{uri}", "", false);
    check("https://{request.header.x}{uri}", "a.test", true);
    check("HTTP://{request.header.x}{uri}", "", false);
    check("//{request.header.x}{uri}", "", false);
    check("//{request.header.x}{uri}", "a.test", true);
    check("https://{request.header.x}.test{uri}", "", true);
    check("{request.header.x}", "", false);
    check("{request.header.x}", "javascript:alert(1)", false);
    check("{request.header.x}", "https:evil.example", false);
    check("app:{request.header.x}", "", true);
    check("{uri}", "", true);
}

#[test]
fn the_body_is_the_status() {
    assert_eq!(location("/x", 301, &request("/", "h", &[])).1, "301 Moved Permanently\n");
    assert_eq!(location("/x", 308, &request("/", "h", &[])).1, "308 Permanent Redirect\n");
}

/// What a client chooses is one piece of the location, in its host, its path and its query.
#[test]
fn a_text_of_the_client_stays_one_piece_of_the_location() {
    let answer = |to: &str, value: &str| {
        let (mut head, mut buffer, context) = (ResponseHead::default(), Vec::new(), context());
        let mut request = request("/a?q=1", "h", &[]);
        request.fields.push(b"x", value.as_bytes());
        let redirect = Redirect::new(&template(to), 302);
        let view = View { context: &context, request: &request, response: None };
        redirect.answer(view, &mut head, &mut buffer).map(drop)?;
        Ok(String::from_utf8_lossy(head.fields.get(HeaderId::Location).expect("a location")).into_owned())
    };
    let check = |to: &str, value: &str, expected: Result<&str, Refusal>| {
        assert_eq!(answer(to, value).as_ref().map(String::as_str).map_err(|refusal| *refusal), expected, "{value} in {to}");
    };
    check("https://{request.header.x}.example.com/", "evil.test/", Ok("https://evil.test%2F.example.com/"));
    check("https://{request.header.x}.example.com/", "evil.test#", Ok("https://evil.test%23.example.com/"));
    check("https://{request.header.x}.example.com/", "a@evil.test:1", Ok("https://a%40evil.test:1.example.com/"));
    check("https://{request.header.x}/y", "[2001:db8::1]:8443", Ok("https://[2001:db8::1]:8443/y"));
    check("/t/{request.header.x}", "a/b?c#d", Ok("/t/a%2Fb%3Fc%23d"));
    check("/t?v={request.header.x}", "../a&b=c", Ok("/t?v=..%2Fa%26b%3Dc"));
    check("/{request.header.x}", "/evil.test", Ok("/%2Fevil.test"));
    check("/{request.header.x}", "\\evil.test", Ok("/%5Cevil.test"));
    for dots in ["..", ".", "../x", "..\\x", "%2e%2e", "%252e%252e", "x/../y", "..;x"] {
        check("/t/{request.header.x}/y", dots, Err(Refusal::RedirectEscapesRoot));
        check("https://h/t/{request.header.x}", dots, Err(Refusal::RedirectEscapesRoot));
    }
}

proptest! {
    #[test]
    fn no_request_can_end_the_location(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut request = request("/", "h", &[]);
        request.set_path(&bytes);
        request.set_query(Some(&bytes));
        request.authority = request.fields.append(&[&bytes]);
        request.fields.push(b"x", &bytes);
        for to in ["{path}", "{uri}", "https://{host}/", "/{request.header.x}", "{query}"] {
            let (mut head, mut buffer, context) = (ResponseHead::default(), Vec::new(), context());
            let redirect = Redirect::new(&template(to), 302);
            let view = View { context: &context, request: &request, response: None };
            if redirect.answer(view, &mut head, &mut buffer).is_err() {
                continue;
            }
            let location = String::from_utf8_lossy(head.fields.get(HeaderId::Location).expect("a location"));
            assert!(location.bytes().all(|byte| byte.is_ascii_graphic()), "{location:?}");
            assert!(!location.starts_with("//"), "{location:?}");
        }
    }
}
