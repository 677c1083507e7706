//! Every placeholder, and the promise that nothing a client sends leaves the place it is put into.
//! The steps that use templates test only what they add.

use super::{CompiledTemplate, Target};
use crate::context::{Context, View};
use crate::fixtures::{context, request, template};
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::sample::select;
use tidegate_model::{Placeholder, Template, TemplatePart};
use tidegate_wire::head::{RequestHead, ResponseHead};

fn check(target: Target, text: &str, head: &RequestHead, expected: &str) {
    let mut response = ResponseHead::default();
    response.fields.push(b"ETag", b"\"1\"");
    let mut out = Vec::new();
    let context = context();
    CompiledTemplate::new(&template(text), target)
        .render(View { context: &context, request: head, response: Some(&response) }, &mut out);
    assert_eq!(String::from_utf8_lossy(&out), expected, "{text} for {target:?}");
}

#[test]
fn every_placeholder() {
    let head = request("/a/b?x=1", "Example.com:8443", &["X-A: 1", "x-a: 2", "Cookie: a=1", "Cookie: b=2"]);
    let check = |text, expected| check(Target::Text, text, &head, expected);
    check("", "");
    check("plain", "plain");
    check("{host}", "example.com");
    check("{path}", "/a/b");
    check("{query}", "x=1");
    check("{uri}", "/a/b?x=1");
    check("{query.suffix}", "?x=1");
    check("{request.query.x}", "1");
    check("{request.query.y}", "");
    check("{method}", "GET");
    check("{scheme}", "https");
    check("{client.ip}", "192.0.2.1");
    check("{client.port}", "40000");
    check("{port}", "443");
    check("{forwarded_for}", "10.0.0.9");
    check("{tls.sni}", "sni.example.com");
    check("{tls.version}", "TLSv1.3");
    check("{tls.ja4}", "t13d1516h2_8daaf6152771_d8a2da3f94cd");
    check("{request.header.X-A}", "1, 2");
    check("{request.header.cookie}", "a=1; b=2");
    check("{request.header.none}", "");
    check("{response.header.etag}", "\"1\"");
    check("{upstream.address}", "10.0.0.4:8080");
    check("{request.id}", "00000000000000000000000000000abc");
    check("{time.unix_ms}", "1700000000123");
    check("<{host}|{path}>", "<example.com|/a/b>");
}

#[test]
fn what_was_asked_for_stays_whatever_steps_have_made_of_it() {
    let mut head = request("/a%2Fb?x=1&y=a%20b", "h", &["X-Forwarded-For: 192.0.2.7"]);
    let asked = Context { asked_path: head.path, asked_query: head.query, told_query: head.query, ..context() };
    head.set_path(b"/other");
    head.set_query(None);
    let check = |target, text: &str, expected: &str| {
        let mut out = Vec::new();
        let view = View { context: &asked, request: &head, response: None };
        CompiledTemplate::new(&template(text), target).render(view, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{text} for {target:?}");
    };
    check(Target::HeaderValue, "{uri} {asked.uri}", "/other /a%2Fb?x=1&y=a%20b");
    check(Target::Url, "https://h{asked.uri}", "https://h/a%2Fb?x=1&y=a%20b");
    check(Target::Url, "https://h/?back={asked.uri.escaped}", "https://h/?back=%2Fa%252Fb%3Fx%3D1%26y%3Da%2520b");
    check(Target::RequestTarget, "/x{asked.uri}", "/x/a%2Fb?x=1&y=a%20b");
    check(Target::RequestTarget, "/x{query.suffix}", "/x");
    check(Target::HeaderValue, "{forwarded_for}", "192.0.2.7, 10.0.0.9");
}

#[test]
fn what_is_not_there_is_empty() {
    let head = request("/", "", &[]);
    let plain = Context { tls_sni: None, tls_version: None, tls_ja4: None, upstream_address: None, ..context() };
    for text in
        ["{host}", "{query}", "{tls.sni}", "{tls.version}", "{tls.ja4}", "{upstream.address}", "{response.header.etag}", "$1"]
    {
        let mut out = Vec::new();
        let view = View { context: &plain, request: &head, response: None };
        CompiledTemplate::new(&template(text), Target::Text).render(view, &mut out);
        assert_eq!(out, b"", "{text}");
    }
}

#[test]
fn hosts_keep_the_brackets_of_ipv6_and_lose_the_port() {
    let check = |authority: &str, expected: &str| check(Target::Url, "{host}", &request("/", authority, &[]), expected);
    check("example.com", "example.com");
    check("example.com:80", "example.com");
    check("[2001:db8::1]", "[2001:db8::1]");
    check("[2001:db8::1]:8443", "[2001:db8::1]");
}

#[test]
fn a_mapped_client_address_is_shown_as_ipv4() {
    let mapped = Context { client_ip: "::ffff:192.0.2.9".parse().expect("an address"), ..context() };
    let (head, mut out) = (request("/", "", &[]), Vec::new());
    let view = View { context: &mapped, request: &head, response: None };
    CompiledTemplate::new(&template("{client.ip}"), Target::Text).render(view, &mut out);
    assert_eq!(out, b"192.0.2.9");
}

#[test]
fn bytes_are_encoded_for_where_they_go() {
    let head = request("/a\"<b>%20%c3", "h", &["X: a\r\nSet-Cookie: x=1\0\u{7f}", "Y: é &?#'\"\\", "Z: %zz%2"]);
    check(Target::HeaderValue, "{request.header.x}", &head, "a  Set-Cookie: x=1  ");
    check(Target::HeaderValue, "a\r\nb\tc", &head, "a  b\tc");
    check(Target::HeaderValue, "{request.header.y}", &head, "é &?#'\"\\");
    check(Target::Url, "{path}", &head, "/a%22%3Cb%3E%20%c3");
    check(Target::Url, "https://h/{request.header.x}", &head, "https://h/a%0D%0ASet-Cookie:%20x%3D1%00%7F");
    check(Target::Url, "{request.header.y}", &head, "%C3%A9%20%26%3F%23'%22%5C");
    check(Target::Url, "{request.header.z}", &head, "%25zz%252");
    check(Target::Url, "/é?a=1#top", &head, "/%C3%A9?a=1#top");
    check(Target::RequestTarget, "{path}", &head, "/a\"<b>%20%c3");
    check(Target::RequestTarget, "{request.header.y}", &head, "%C3%A9%20%26%3F%23'%22%5C");
    check(Target::RequestTarget, "/{query}?{query}", &request("/?a?b=c/d", "h", &[]), "/a%3Fb%3Dc%2Fd?a?b=c/d");
    check(Target::RequestTarget, "/x y?a=1#b", &head, "/x%20y?a=1%23b");
    check(Target::RequestTarget, "{uri}?", &request("/a?b?c", "h", &[]), "/a?b?c?");
    check(Target::Html, "<p>{request.header.y}</p>", &head, "<p>é &amp;?#&#39;&quot;\\</p>");
    check(Target::Html, "{path}", &head, "/a&quot;&lt;b&gt;%20%c3");
    check(Target::Json, "\"p\":", &head, "\"p\":");
    check(Target::Json, "\"{request.header.y}\"", &head, "\"é &?#'\\\"\\\\\"");
    check(Target::Json, "{request.header.x}", &head, "a\\u000D\\u000ASet-Cookie: x=1\\u0000\u{7f}");
}

#[test]
fn neighbouring_literals_are_one_and_need_no_rendering() {
    let literal = |text: &str| TemplatePart::Literal(text.into());
    let compiled = CompiledTemplate::new(&Template { parts: vec![literal("a"), literal(""), literal("b")] }, Target::Text);
    assert_eq!(compiled.as_literal(), Some(b"ab".as_slice()));
    assert_eq!(CompiledTemplate::new(&Template::default(), Target::Text).as_literal(), Some(b"".as_slice()));
    assert_eq!(CompiledTemplate::new(&template("a{path}"), Target::Text).as_literal(), None);
}

/// A head whose every part holds the same bytes, as no parser would let through: the templates must be safe without its
/// help.
fn hostile_head(bytes: &[u8]) -> (RequestHead, ResponseHead) {
    let mut head = RequestHead::default();
    head.method_name = head.fields.append(&[bytes]);
    head.authority = head.fields.append(&[bytes]);
    head.set_path(bytes);
    head.set_query(Some(bytes));
    head.fields.push(b"x", bytes);
    let mut response = ResponseHead::default();
    response.fields.push(b"x", bytes);
    (head, response)
}

fn any_template() -> impl Strategy<Value = Template> {
    let mut placeholders: Vec<Placeholder> = Placeholder::PLAIN.iter().map(|(_, placeholder)| placeholder.clone()).collect();
    placeholders.push(Placeholder::RequestHeader("x".into()));
    placeholders.push(Placeholder::ResponseHeader("x".into()));
    let part = prop_oneof![
        select(placeholders).prop_map(TemplatePart::Placeholder),
        ".{0,4}".prop_map(TemplatePart::Literal),
        "[\r\n\0%?#\"<]{0,3}".prop_map(TemplatePart::Literal),
    ];
    proptest::collection::vec(part, 0..6).prop_map(|parts| Template { parts })
}

proptest! {
    #[test]
    fn nothing_a_client_sends_leaves_its_place(
        template in any_template(),
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), select(b"\r\n\0%?#\"<\\ /".to_vec())], 0..40),
    ) {
        let (head, response) = hostile_head(&bytes);
        let name = String::from_utf8_lossy(&bytes);
        let context = Context { tls_sni: Some(&name), upstream_address: Some(&name), ..context() };
        let render = |target| {
            let mut out = Vec::new();
            let view = View { context: &context, request: &head, response: Some(&response) };
            CompiledTemplate::new(&template, target).render(view, &mut out);
            out
        };
        let value = render(Target::HeaderValue);
        assert!(value.iter().all(|byte| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f)), "{}", value.escape_ascii());
        for target in [Target::Url, Target::RequestTarget] {
            let text = render(target);
            assert!(text.iter().all(u8::is_ascii_graphic), "{}", text.escape_ascii());
            for (position, _) in text.iter().enumerate().filter(|(_, byte)| **byte == b'%') {
                let triplet = text.get(position + 1..position + 3);
                assert!(triplet.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)), "{}", text.escape_ascii());
            }
        }
        assert!(!render(Target::RequestTarget).contains(&b'#'));
    }
}
