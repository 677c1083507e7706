//! Fixed and rendered answers: fields and body for each kind of content.
//! Placeholders by themselves are tested in `template`.

use super::Respond;
use crate::context::View;
use crate::fixtures::{context, lines, request, template};
use tidegate_wire::head::ResponseHead;

fn check(status: u16, body: &str, content_type: Option<&str>, expected_lines: &[&str], expected_body: &str) {
    let respond = Respond::new(status, &template(body), content_type);
    let request = request("/a\"b", "example.com", &["X: <b>"]);
    let mut head = ResponseHead::default();
    head.fields.push(b"x-left", b"over");
    let (mut buffer, context) = (b"left over".to_vec(), context());
    let seen = respond.answer(View { context: &context, request: &request, response: None }, &mut head, &mut buffer);
    assert_eq!(String::from_utf8_lossy(seen), expected_body);
    assert_eq!(head.status, status);
    assert_eq!(lines(&head.fields), expected_lines);
}

#[test]
fn the_answer_is_what_was_written() {
    let plain = "content-type: text/plain; charset=utf-8";
    check(200, "hello world", None, &[plain], "hello world");
    check(200, "{method} {host}", None, &[plain], "GET example.com");
    check(200, "", None, &[], "");
    check(404, "no", Some("text/x"), &["content-type: text/x"], "no");
    check(200, "x", Some(" text/x\r\nSet-Cookie: a "), &["content-type: text/x  Set-Cookie: a"], "x");
}

#[test]
fn statuses_without_a_body_have_none() {
    check(204, "text", None, &[], "");
    check(304, "{path}", Some("text/html"), &[], "");
}

#[test]
fn placeholders_are_escaped_for_the_type_of_the_body() {
    let html = "content-type: text/html; charset=utf-8";
    check(200, "<p>{request.header.x}</p>", Some("text/html; charset=utf-8"), &[html], "<p>&lt;b&gt;</p>");
    check(200, "\"{path}\"", Some("application/json"), &["content-type: application/json"], "\"/a\\\"b\"");
    check(200, "{path}", Some("application/problem+json"), &["content-type: application/problem+json"], "/a\\\"b");
    check(200, "{path}{request.header.x}", None, &["content-type: text/plain; charset=utf-8"], "/a\"b<b>");
}

#[test]
fn a_fixed_body_is_not_copied() {
    let respond = Respond::new(200, &template("fixed"), None);
    let (request, context, mut buffer) = (request("/", "h", &[]), context(), Vec::new());
    let view = View { context: &context, request: &request, response: None };
    assert_eq!(respond.answer(view, &mut ResponseHead::default(), &mut buffer), b"fixed");
    assert_eq!(buffer.capacity(), 0);
}
