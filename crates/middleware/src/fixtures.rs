//! What the tests of the steps share: templates written as text, a request head, a context.

use crate::context::{Context, RequestId};
use std::time::Duration;
use tidegate_access::{Identity, LogIn};
use tidegate_model::{Oidc, OidcProvider, Placeholder, Scheme, Template, TemplatePart};
use tidegate_tables::Maps;
use tidegate_wire::head::{Fields, Method, RequestHead, Span};

/// `{name}` is a placeholder and `$1` a capture, as in the file; everything else is literal.
pub(crate) fn template(text: &str) -> Template {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['{', '$']) {
        if start > 0 {
            parts.push(TemplatePart::Literal(rest[..start].into()));
        }
        rest = &rest[start + 1..];
        if let Some(digit) = rest.chars().next().and_then(|first| first.to_digit(10)) {
            parts.push(TemplatePart::Capture(digit as usize));
            rest = &rest[1..];
        } else {
            let (name, after) = rest.split_once('}').expect("a placeholder has an end");
            parts.push(TemplatePart::Placeholder(Placeholder::from_name(name).expect("a placeholder that exists")));
            rest = after;
        }
    }
    if !rest.is_empty() {
        parts.push(TemplatePart::Literal(rest.into()));
    }
    Template { parts }
}

/// `GET` of a target, with an authority and `Name: value` lines.
pub(crate) fn request(target: &str, authority: &str, lines: &[&str]) -> RequestHead {
    let mut head = RequestHead { method: Method::Get, ..RequestHead::default() };
    head.method_name = head.fields.append(&[b"GET"]);
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    head.set_path(path.as_bytes());
    head.set_query(query.map(str::as_bytes));
    let span = head.fields.append(&[authority.as_bytes()]);
    match tidegate_wire::authority::parse_authority(authority.as_bytes()) {
        Ok(parsed) => head.set_authority(span, &parsed),
        Err(_) => head.authority = span,
    }
    push_lines(&mut head.fields, lines);
    head
}

pub(crate) fn push_lines(fields: &mut Fields, lines: &[&str]) {
    for line in lines {
        let (name, value) = line.split_once(": ").expect("a field line of the test");
        fields.push(name.as_bytes(), value.as_bytes());
    }
}

/// The fields as lines, in order.
pub(crate) fn lines(fields: &Fields) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
}

pub(crate) fn target(head: &RequestHead) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let query = head.query().map(|query| format!("?{}", text(query))).unwrap_or_default();
    text(head.path()) + &query
}

pub(crate) fn context() -> Context<'static> {
    Context {
        scheme: Scheme::Https,
        port: 443,
        client_ip: [192, 0, 2, 1].into(),
        client_port: 40_000,
        peer_ip: [10, 0, 0, 9].into(),
        tls_sni: Some("sni.example.com"),
        tls_version: Some("TLSv1.3"),
        client_certificate: None,
        tls_ja4: Some("t13d1516h2_8daaf6152771_d8a2da3f94cd"),
        introduction: None,
        upstream_address: Some("10.0.0.4:8080"),
        request_id: RequestId(0xabc),
        given_id: None,
        identity: Some(Box::leak(Box::new(Identity::of_name("alice <a>", LogIn::Password)))),
        claims: None,
        error: None,
        now_unix_ms: 1_700_000_000_123,
        since_start: Duration::from_secs(1),
        asked_path: Span::default(),
        asked_query: None,
        told_query: None,
        upgrade: None,
        geo: tidegate_geo::Whereabouts::none(),
        maps: Maps::none(),
    }
}

/// A log-in at that provider, with nothing asked for.
pub(crate) fn oidc(issuer: &str) -> Oidc {
    let provider = OidcProvider {
        name: String::new(),
        issuer: issuer.into(),
        client: "me".into(),
        ca: None,
        secret: None,
        scopes: vec!["openid".into()],
        parameters: Vec::new(),
    };
    Oidc {
        provider,
        others: Vec::new(),
        session: Duration::from_hours(8),
        domain: None,
        callback: Oidc::CALLBACK.into(),
        logout: Oidc::LOGOUT.into(),
        after_logout: "/".into(),
        user: "email".into(),
        requirements: Vec::new(),
        headers: Vec::new(),
        access_token: None,
        id_token: None,
        asks_user_info: false,
        is_optional: false,
        leeway: Duration::ZERO,
    }
}
