//! When a token holds, and for whom.

use super::{Claims, Expectation};
use crate::json::{JsonFault, Value};
use crate::jws::TokenFault;

const NOW: f64 = 1_000_000.0;
const ANY: Expectation<'_> = Expectation { issuer: None, audiences: &[], kind: None, needs_expiry: true, leeway: 60.0 };

fn outcome(text: &str, kind: Option<&str>, expected: &Expectation<'_>) -> Result<(), TokenFault> {
    Claims::read(text.into(), kind.map(Into::into))?.check(expected, NOW)
}

#[test]
fn times_have_a_leeway() {
    let check = |text: &str, expected: Result<(), TokenFault>| assert_eq!(outcome(text, None, &ANY), expected, "{text}");
    check(r#"{"exp":1000001}"#, Ok(()));
    check(r#"{"exp":999941}"#, Ok(()));
    check(r#"{"exp":999940}"#, Err(TokenFault::Expired));
    check(r#"{"exp":999940.5}"#, Ok(()));
    check(r#"{"exp":1e6}"#, Ok(()));
    check(r#"{"exp":-1}"#, Err(TokenFault::Expired));
    check(r#"{"exp":99999999999999999999}"#, Ok(()));
    // Clocks ten minutes off, in both directions.
    check(r#"{"exp":999400}"#, Err(TokenFault::Expired));
    check(r#"{"exp":2000000,"nbf":1000600}"#, Err(TokenFault::NotYetValid));
    check(r#"{"exp":2000000,"nbf":1000060}"#, Ok(()));
    check(r#"{"exp":2000000,"nbf":1000061}"#, Err(TokenFault::NotYetValid));
    check("{}", Err(TokenFault::NoExpiry));
    for other in [r#"{"exp":"1000001"}"#, r#"{"exp":null}"#, r#"{"exp":[1]}"#, r#"{"exp":1e400}"#, r#"{"exp":2e6,"nbf":"0"}"#] {
        check(other, Err(TokenFault::ClaimOfOtherType));
    }
    check(r#"{"exp":1,"exp":2000000}"#, Err(TokenFault::Claims(JsonFault::DuplicateMember)));
    check("[]", Err(TokenFault::Claims(JsonFault::NotAnObject)));
    check("foo", Err(TokenFault::Claims(JsonFault::Malformed)));
    check(&"{\"a\":".repeat(2000), Err(TokenFault::Claims(JsonFault::TooDeep)));
    let many: Vec<String> = (0..1000).map(|number| format!("\"{number}\":0")).collect();
    check(&format!("{{{}}}", many.join(",")), Err(TokenFault::Claims(JsonFault::TooManyMembers)));
    assert_eq!(outcome("{}", None, &Expectation { needs_expiry: false, ..ANY }), Ok(()));
    assert_eq!(outcome(r#"{"exp":1}"#, None, &Expectation { needs_expiry: false, ..ANY }), Err(TokenFault::Expired));
}

#[test]
fn a_token_is_somebody_s_for_somebody() {
    let audiences = ["api".to_owned(), "web".to_owned()];
    let expected = Expectation { issuer: Some("https://idp"), audiences: &audiences, needs_expiry: false, ..ANY };
    let check = |text: &str, result: Result<(), TokenFault>| assert_eq!(outcome(text, None, &expected), result, "{text}");
    check(r#"{"iss":"https://idp","aud":"api"}"#, Ok(()));
    check(r#"{"iss":"https://idp","aud":["x","web"]}"#, Ok(()));
    check(r#"{"iss":"https://idp/","aud":"api"}"#, Err(TokenFault::Issuer));
    check(r#"{"iss":"https://IDP","aud":"api"}"#, Err(TokenFault::Issuer));
    check(r#"{"aud":"api"}"#, Err(TokenFault::Issuer));
    check(r#"{"iss":["https://idp"],"aud":"api"}"#, Err(TokenFault::ClaimOfOtherType));
    check(r#"{"iss":"https://idp"}"#, Err(TokenFault::Audience));
    check(r#"{"iss":"https://idp","aud":[]}"#, Err(TokenFault::Audience));
    check(r#"{"iss":"https://idp","aud":"api2"}"#, Err(TokenFault::Audience));
    check(r#"{"iss":"https://idp","aud":{"api":1}}"#, Err(TokenFault::ClaimOfOtherType));
    check(r#"{"iss":"https://idp","aud":[7,"api"]}"#, Err(TokenFault::ClaimOfOtherType));
}

#[test]
fn the_type_is_a_media_type_or_the_end_of_one() {
    let check = |said: Option<&str>, expected: Result<(), TokenFault>| {
        let wanted = Expectation { kind: Some("at+jwt"), needs_expiry: false, ..ANY };
        assert_eq!(outcome("{}", said, &wanted), expected, "{said:?}");
    };
    check(Some("at+jwt"), Ok(()));
    check(Some("AT+JWT"), Ok(()));
    check(Some("application/at+jwt"), Ok(()));
    check(Some("JWT"), Err(TokenFault::Type));
    check(Some("text/at+jwt"), Err(TokenFault::Type));
    check(None, Err(TokenFault::Type));
}

#[test]
fn claims_are_found_and_written() {
    let text = r#"{"sub":"al\u00efce","n":1.50,"ok":true,"nil":null,"list":["a","b",3],"deep":{"er":{"x":"y"},"a.b":"c"},
        "https://e.com/x":{"y":"z"},"mixed":[{"a":1}],"none":[]}"#;
    let claims = Claims::read(text.into(), None).expect("claims");
    let check = |name: &str, expected: Option<&str>| {
        let mut out = Vec::new();
        let is_there = claims.write(name, &mut out);
        assert_eq!(is_there.then(|| String::from_utf8(out).expect("text")).as_deref(), expected, "{name}");
    };
    check("sub", Some("al\u{ef}ce"));
    check("n", Some("1.50"));
    check("ok", Some("true"));
    check("nil", None);
    check("missing", None);
    check("list", Some("a,b,3"));
    check("none", Some(""));
    check("mixed", Some("[{\"a\":1}]"));
    check("deep.er.x", Some("y"));
    check("deep.er", Some("{\"x\":\"y\"}"));
    check("deep.a.b", Some("c"));
    check("deep.er.x.z", None);
    check("https://e.com/x.y", Some("z"));
    check("", None);
    check(".", None);
    assert_eq!(claims.claim("deep.er.x").map(Value::raw), Some("\"y\""));
}

#[test]
fn a_header_field_says_of_a_claim_what_it_says_or_nothing() {
    let text = "{\"plain\":\"alice\",\"nul\":\"alice\\u0000\",\"line\":\"a\\r\\nX-User: root\",\"space\":\" alice\",\"inner\":\"a b\",\"comma\":[\"a,admin\",\"b\"],\"list\":[\"a\",\"b\\n\"],\"n\":5,\"nil\":null}";
    let claims = Claims::read(text.into(), None).expect("claims");
    let check = |name: &str, expected: Option<&str>| {
        let mut out = Vec::new();
        let is_said = claims.write_field(name, &mut out);
        assert_eq!(is_said.then(|| String::from_utf8(out).expect("text")).as_deref(), expected, "{name}");
    };
    check("plain", Some("alice"));
    check("inner", Some("a b"));
    check("n", Some("5"));
    check("comma", Some("[\"a,admin\",\"b\"]"));
    for name in ["nul", "line", "space", "list", "nil", "missing"] {
        check(name, None);
    }
}
