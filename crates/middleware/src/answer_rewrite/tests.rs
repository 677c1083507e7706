//! Rules for answers: what they take, what they leave alone, and that no server's text becomes more than it was.

use super::{AnswerRewrites, GROWTH_MAX};
use crate::context::View;
use crate::fixtures::{context, request, template};
use proptest::prelude::{any, proptest};
use tidegate_model::{AnswerPart, AnswerRewrite, RewrittenText};
use tidegate_wire::head::Fields;

fn rule(part: AnswerPart, from: &str, to: &str) -> AnswerRewrite {
    let from = match from.strip_prefix('~') {
        Some(expression) => RewrittenText::Expression(expression.to_owned()),
        None => RewrittenText::Plain(from.to_owned()),
    };
    // `$1` is read by the configuration.
    let mut to = template(to);
    if let RewrittenText::Expression(_) = &from {
        to = with_captures(to);
    }
    AnswerRewrite { part, from, to }
}

fn with_captures(template: tidegate_model::Template) -> tidegate_model::Template {
    use tidegate_model::{Template, TemplatePart};
    let mut parts = Vec::new();
    for part in template.parts {
        let TemplatePart::Literal(text) = &part else {
            parts.push(part);
            continue;
        };
        for (position, piece) in text.split("$1").enumerate() {
            if position > 0 {
                parts.push(TemplatePart::Capture(1));
            }
            if !piece.is_empty() {
                parts.push(TemplatePart::Literal(piece.to_owned()));
            }
        }
    }
    Template { parts }
}

fn rewritten(rules: &[AnswerRewrite], name: &str, value: &[u8]) -> String {
    let rules = AnswerRewrites::new(rules).expect("rules").expect("some");
    let (context, request) = (context(), request("/", "shop.example.com", &[]));
    let view = View { context: &context, request: &request, response: None };
    let mut fields = Fields::default();
    fields.push(name.as_bytes(), value);
    rules.apply(view, &mut fields);
    let value = fields.all_named(name.as_bytes()).next().expect("the field");
    String::from_utf8_lossy(value).into_owned()
}

fn check(rules: &[(AnswerPart, &str, &str)], name: &str, value: &str, expected: &str) {
    let compiled: Vec<_> = rules.iter().map(|(part, from, to)| rule(*part, from, to)).collect();
    assert_eq!(rewritten(&compiled, name, value.as_bytes()), expected, "{rules:?} for {value}");
}

use AnswerPart::{CookieDomain, CookiePath, Location};

#[test]
fn a_location_that_begins_so_begins_otherwise() {
    let rules = &[(Location, "http://10.0.0.4:8000/two/", "/one/"), (Location, "http://10.0.0.4:8000/", "{scheme}://{host}/")];
    check(rules, "location", "http://10.0.0.4:8000/two/x?q=1#f", "/one/x?q=1#f");
    check(rules, "location", "http://10.0.0.4:8000/x", "https://shop.example.com/x");
    check(rules, "location", "http://10.0.0.40/x", "http://10.0.0.40/x");
    check(rules, "location", "/two/x", "/two/x");
    check(rules, "content-location", "http://10.0.0.4:8000/x", "http://10.0.0.4:8000/x");
    check(rules, "refresh", "5; url=\"http://10.0.0.4:8000/two/x\"", "5; url=\"/one/x\"");
    check(rules, "refresh", "5", "5");
}

#[test]
fn an_expression_replaces_all_of_it() {
    let rules = &[(Location, "~^https?://[^/]+/app/(.*)$", "/$1")];
    check(rules, "location", "http://a.internal/app/x?y", "/x?y");
    check(rules, "location", "http://a.internal/other", "http://a.internal/other");
    check(&[(Location, "~internal", "https://{host}/")], "location", "http://a.internal/other", "https://shop.example.com/");
}

#[test]
fn a_path_never_becomes_another_host() {
    check(&[(Location, "/two", "")], "location", "/two//evil.example", "/evil.example");
    check(&[(Location, "/two", "")], "location", "/two/\\evil.example", "/evil.example");
    check(&[(Location, "/two/", "/")], "location", "/two//evil.example", "/evil.example");
    check(&[(Location, "~^/two(.*)", "$1")], "location", "/two//evil.example", "/evil.example");
    check(&[(Location, "/two", "//cdn.example")], "location", "/two/x", "//cdn.example/x");
    // Nothing is no address.
    check(&[(Location, "/two", "")], "location", "/two", "/two");
}

#[test]
fn cookies_are_for_the_path_and_the_domain_that_clients_see() {
    let rules = &[(CookiePath, "/two/", "/"), (CookiePath, "/", "/app/"), (CookieDomain, "internal.example", "{host}")];
    check(rules, "set-cookie", "a=b; Path=/two/x; HttpOnly", "a=b; Path=/x; HttpOnly");
    check(rules, "set-cookie", "a=b; path=/", "a=b; Path=/app/");
    check(rules, "set-cookie", "a=b; Domain=.Internal.example; Secure", "a=b; Domain=shop.example.com; Secure");
    check(rules, "set-cookie", "a=b; Domain=other.example; Secure", "a=b; Domain=other.example; Secure");
    check(rules, "set-cookie", "a=/two/", "a=/two/");
    check(rules, "set-cookie", "__Host-a=b; Path=/", "__Host-a=b; Path=/");
    check(
        &[(CookieDomain, "~^(.*)\\.internal$", "$1.example.com")],
        "set-cookie",
        "a=b; Domain=x.internal",
        "a=b; Domain=x.example.com",
    );
    // No path, and no further attribute.
    check(&[(CookiePath, "/two", "one")], "set-cookie", "a=b; Path=/two", "a=b; Path=/two");
    check(&[(CookiePath, "/two", "/a; Domain=x")], "set-cookie", "a=b; Path=/two", "a=b; Path=/two");
}

#[test]
fn a_head_grows_so_much_and_no_more() {
    let rules = [rule(Location, "/", &format!("/{}", "x".repeat(1024)))];
    let rules = AnswerRewrites::new(&rules).expect("rules").expect("some");
    let (context, request) = (context(), request("/", "h", &[]));
    let view = View { context: &context, request: &request, response: None };
    let mut fields = Fields::default();
    for _ in 0..1_000 {
        fields.push(b"location", b"/");
    }
    let before = fields.bytes.len();
    rules.apply(view, &mut fields);
    assert!(fields.bytes.len() - before < GROWTH_MAX + 100 * 1_000);
    assert_eq!(fields.all_named(b"location").last(), Some(&b"/"[..]));
}

proptest! {
    #[test]
    fn no_text_of_a_server_ends_its_field(value in proptest::collection::vec(any::<u8>(), 0..60)) {
        let value: Vec<u8> = value.into_iter().filter(|byte| !byte.is_ascii_control()).collect();
        for (part, name) in [(Location, "location"), (Location, "refresh"), (CookiePath, "set-cookie"), (CookieDomain, "set-cookie")] {
            for (from, to) in [("~(.*)", "/$1"), ("/", "/b"), ("~(.*)", "$1")] {
                let made = rewritten(&[rule(part, from, to)], name, &value);
                assert!(!made.chars().any(|c| c.is_ascii_control()), "{made:?}");
            }
        }
    }
}
