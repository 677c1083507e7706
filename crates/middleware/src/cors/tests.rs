//! What a browser is told, before a request and with its answer.

use super::CompiledCors;
use crate::fixtures::{lines, push_lines, request};
use std::time::Duration;
use tidegate_model::{Cors, OriginPattern, Origins};
use tidegate_wire::head::{Method, RequestHead, ResponseHead};

fn exact(origin: &str) -> OriginPattern {
    OriginPattern::Exact(origin.into())
}

fn below(start: &str, end: &str) -> OriginPattern {
    OriginPattern::Below { start: start.into(), end: end.into() }
}

fn cors(origins: Origins) -> Cors {
    Cors {
        origins,
        methods: vec!["GET".into(), "PUT".into()],
        headers: None,
        exposed: Vec::new(),
        credentials: false,
        max_age: Duration::from_secs(600),
        private_network: false,
    }
}

fn app() -> Cors {
    cors(Origins::Listed(vec![exact("https://app.test"), below("https://", ".app.test")]))
}

fn options(fields: &[&str]) -> RequestHead {
    let mut head = request("/", "api.test", fields);
    head.method = Method::Options;
    head.method_name = head.fields.append(&[b"OPTIONS"]);
    head
}

/// The fields of an answer that had these of the upstream.
fn check(cors: &Cors, request: &RequestHead, of_upstream: &[&str], expected: &[&str]) {
    let mut response = ResponseHead::default();
    push_lines(&mut response.fields, of_upstream);
    CompiledCors::new(cors).apply(request, &mut response);
    assert_eq!(lines(&response.fields), expected, "{:?}", lines(&request.fields));
}

const VARY: &str = "vary: Origin";

#[test]
fn answers_say_who_may_read_them() {
    let get = |origin: &str| request("/", "api.test", &[&format!("Origin: {origin}")]);
    check(&app(), &get("https://app.test"), &[], &[VARY, "access-control-allow-origin: https://app.test"]);
    check(&app(), &get("https://b.app.test"), &[], &[VARY, "access-control-allow-origin: https://b.app.test"]);
    check(&app(), &get("https://evil.test"), &[], &[VARY]);
    check(&app(), &get("http://app.test"), &[], &[VARY]);
    check(&app(), &get("null"), &[], &[VARY]);
    check(&app(), &request("/", "api.test", &[]), &["X: y"], &["X: y", VARY]);
    let credentials = Cors { credentials: true, exposed: vec!["X-A".into(), "X-B".into()], ..app() };
    let allowed = [
        VARY,
        "access-control-allow-origin: https://app.test",
        "access-control-allow-credentials: true",
        "access-control-expose-headers: X-A, X-B",
    ];
    check(&credentials, &get("https://app.test"), &[], &allowed);
    let any = cors(Origins::Any);
    check(&any, &get("https://evil.test"), &[], &["access-control-allow-origin: *"]);
    check(&any, &request("/", "api.test", &[]), &[], &["access-control-allow-origin: *"]);
}

#[test]
fn what_the_upstream_says_is_replaced() {
    let of_upstream = ["Access-Control-Allow-Origin: *", "Access-Control-Allow-Credentials: true", "X: y"];
    check(&app(), &request("/", "api.test", &["Origin: https://evil.test"]), &of_upstream, &["X: y", VARY]);
}

#[test]
fn a_preflight_is_told_what_may_be_asked() {
    let ask = |fields: &[&str]| {
        let fields: Vec<&str> = ["Origin: https://app.test"].iter().chain(fields).copied().collect();
        options(&fields)
    };
    let asked = "vary: Access-Control-Request-Method, Access-Control-Request-Headers";
    let allowed = "access-control-allow-origin: https://app.test";
    let methods = "access-control-allow-methods: GET, PUT";
    let age = "access-control-max-age: 600";
    let put = "Access-Control-Request-Method: PUT";
    check(&app(), &ask(&[put]), &[], &[VARY, asked, allowed, methods, age]);
    let headers = "Access-Control-Request-Headers: x-a,x-b";
    check(&app(), &ask(&[put, headers]), &[], &[VARY, asked, allowed, methods, "access-control-allow-headers: x-a,x-b", age]);
    let named = Cors { headers: Some(vec!["X-C".into()]), ..app() };
    check(&named, &ask(&[put, headers]), &[], &[VARY, asked, allowed, methods, "access-control-allow-headers: X-C", age]);
    check(&app(), &ask(&["Access-Control-Request-Method: DELETE"]), &[], &[VARY, asked]);
    check(&app(), &options(&["Origin: https://evil.test", put]), &[], &[VARY, asked]);
    let private = "Access-Control-Request-Private-Network: true";
    check(&app(), &ask(&[put, private]), &[], &[VARY, asked, allowed, methods, age]);
    let opened = Cors { private_network: true, ..app() };
    let told = "access-control-allow-private-network: true";
    check(&opened, &ask(&[put, private]), &[], &[VARY, asked, allowed, methods, age, told]);
}

#[test]
fn only_a_question_is_a_preflight() {
    let check = |head: &RequestHead, expected: bool| assert_eq!(CompiledCors::is_preflight(head), expected);
    check(&options(&["Origin: a", "Access-Control-Request-Method: GET"]), true);
    check(&options(&["Origin: a"]), false);
    check(&options(&["Access-Control-Request-Method: GET"]), false);
    check(&request("/", "a", &["Origin: a", "Access-Control-Request-Method: GET"]), false);
}

#[test]
fn a_pattern_ends_where_the_host_does() {
    let check =
        |origin: &str, expected: bool| assert_eq!(below("https://", ".app.test").fits(origin.as_bytes()), expected, "{origin}");
    check("https://a.app.test", true);
    check("https://A.b.App.Test", true);
    check("https://.app.test", false);
    check("https://app.test", false);
    check("https://evil.test/.app.test", false);
    check("https://evil.test#.app.test", false);
    check("https://a@b.app.test", false);
    check("http://a.app.test", false);
    check("https://a.app.test.evil.test", false);
    check("https://a.app.test:8443", false);
}
