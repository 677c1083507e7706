//! Where tokens stand, and what is said to who has none that is good.

use super::{CompiledJwt, TokensUnclear, jwt_of};
use crate::context::Scratch;
use crate::fixtures::{lines, request};
use crate::refusal::TokenRefusal;
use tidegate_access::{Claims, TokenFault};
use tidegate_model::{ClaimHeader, ClaimRequirement, ClaimTest, Jwt, KeySource, Step, TokenIssuer, TokenPlace};

fn jwt() -> Jwt {
    let keys = KeySource::File("keys.json".into());
    Jwt {
        issuers: vec![TokenIssuer { keys, issuer: None, audiences: Vec::new() }],
        places: vec![TokenPlace::Authorization],
        requirements: Vec::new(),
        headers: Vec::new(),
        user: Jwt::USER.into(),
        realm: None,
        is_optional: false,
        forwards: true,
        needs_expiry: true,
        leeway: Jwt::LEEWAY,
        kind: None,
        token_bytes_max: Jwt::TOKEN_BYTES_MAX,
    }
}

#[test]
fn tokens_are_found_where_they_may_stand() {
    let places = vec![
        TokenPlace::Authorization,
        TokenPlace::Header("X-Assertion".into()),
        TokenPlace::Cookie("session".into()),
        TokenPlace::Query("access_token".into()),
    ];
    let all = CompiledJwt::new(&Jwt { places, ..jwt() });
    let usual = CompiledJwt::new(&jwt());
    let check = |target: &str, fields: &[&str], expected: Result<Option<&str>, TokensUnclear>, expected_usual| {
        let head = request(target, "example.com", fields);
        let seen = |compiled: &CompiledJwt| {
            compiled.token(&head).map(|token| token.map(|token| String::from_utf8_lossy(token).into_owned()))
        };
        let owned = |expected: Result<Option<&str>, TokensUnclear>| expected.map(|token| token.map(str::to_owned));
        assert_eq!((seen(&all), seen(&usual)), (owned(expected), owned(expected_usual)), "{target} {fields:?}");
    };
    check("/", &[], Ok(None), Ok(None));
    check("/", &["Authorization: Bearer a.b.c"], Ok(Some("a.b.c")), Ok(Some("a.b.c")));
    check("/", &["Authorization: bearer  a.b.c "], Ok(Some("a.b.c")), Ok(Some("a.b.c")));
    check("/", &["Authorization: Bearer\ta.b.c"], Ok(Some("a.b.c")), Ok(Some("a.b.c")));
    check("/", &["Authorization: Bearer"], Ok(None), Ok(None));
    check("/", &["Authorization: Bearera.b.c"], Ok(None), Ok(None));
    check("/", &["Authorization: Basic YTpi"], Ok(None), Ok(None));
    check("/", &["Authorization: Bearer a.b.c", "Authorization: Basic YTpi"], Err(TokensUnclear), Err(TokensUnclear));
    check("/", &["Authorization: Bearer a.b.c", "Authorization: Bearer a.b.c"], Err(TokensUnclear), Err(TokensUnclear));
    check("/", &["X-Assertion: a.b.c"], Ok(Some("a.b.c")), Ok(None));
    check("/", &["X-Assertion: Bearer a.b.c"], Ok(Some("a.b.c")), Ok(None));
    check("/", &["X-Assertion: a.b.c", "x-assertion: d.e.f"], Err(TokensUnclear), Ok(None));
    check("/", &["Cookie: a=b; session=a.b.c"], Ok(Some("a.b.c")), Ok(None));
    check("/", &["Cookie: session=a.b.c; session=d.e.f"], Err(TokensUnclear), Ok(None));
    check("/", &["Cookie: session=; a=b"], Ok(None), Ok(None));
    check("/?x=y&access_token=a.b.c", &[], Ok(Some("a.b.c")), Ok(None));
    check("/?access_token=a.b.c&access_token=d.e.f", &[], Err(TokensUnclear), Ok(None));
    check("/?access_tokens=a.b.c&ACCESS_TOKEN=d", &[], Ok(None), Ok(None));
    check("/?access%5Ftoken=a.b.c", &[], Ok(Some("a.b.c")), Ok(None));
    check("/?access_token=a.b.c&%61ccess_token=d.e.f", &[], Err(TokensUnclear), Ok(None));
    check("/?access%token=a&access%5=b&=c&d", &[], Ok(None), Ok(None));
    // The first place counts.
    check("/?access_token=q", &["Cookie: session=c", "Authorization: Bearer a"], Ok(Some("a")), Ok(Some("a")));
    check("/?access_token=q", &["Cookie: session=c", "Authorization: Basic a"], Ok(Some("c")), Ok(None));
}

#[test]
fn refusals_say_what_rfc_6750_says() {
    let check = |settings: Jwt, refusal: TokenRefusal, expected: Option<&str>| {
        assert_eq!(CompiledJwt::new(&settings).challenge(refusal).as_deref(), expected, "{refusal:?}");
    };
    let named = || Jwt { realm: Some("a \"b\" \\".into()), ..jwt() };
    check(jwt(), TokenRefusal::Missing, Some("Bearer"));
    check(named(), TokenRefusal::Missing, Some("Bearer realm=\"a \\\"b\\\" \\\\\""));
    let expired = "Bearer error=\"invalid_token\", error_description=\"the token has expired\"";
    check(jwt(), TokenRefusal::Refused(TokenFault::Expired), Some(expired));
    let named_expired = "Bearer realm=\"a \\\"b\\\" \\\\\", error=\"invalid_token\", error_description=\"the token has expired\"";
    check(named(), TokenRefusal::Refused(TokenFault::Expired), Some(named_expired));
    check(jwt(), TokenRefusal::Unclear, Some("Bearer error=\"invalid_request\""));
    check(jwt(), TokenRefusal::NotEnough, Some("Bearer error=\"insufficient_scope\""));
    let contains = |claim: &str, word: &str| ClaimRequirement { claim: claim.into(), test: ClaimTest::Contains(word.into()) };
    let requirements =
        vec![contains("scope", "read"), contains("roles", "admin"), contains("scp", "write"), contains("scope", "a\"b")];
    let scoped = "Bearer error=\"insufficient_scope\", scope=\"read write\"";
    check(Jwt { requirements, ..jwt() }, TokenRefusal::NotEnough, Some(scoped));
    check(jwt(), TokenRefusal::KeysMissing, None);
}

#[test]
fn claims_become_fields_that_end_nowhere_else() {
    let header = |name: &str, claim: &str| ClaimHeader { name: name.into(), claim: claim.into() };
    let headers = vec![header("X-User", "sub"), header("X-Roles", "roles"), header("X-None", "none")];
    let places = vec![TokenPlace::Authorization, TokenPlace::Header("X-Assertion".into())];
    let text = "{\"sub\":\"al\\r\\nX-Admin: yes\",\"roles\":[\"a\",\"b\"],\"exp\":1}";
    let claims = claims(text);
    let check = |forwards: bool, expected: &[&str]| {
        let compiled = CompiledJwt::new(&Jwt { headers: headers.clone(), places: places.clone(), forwards, ..jwt() });
        let sent = ["x_user: root", "X-None: root", "X-ROLES: root", "X-Assertion: t", "x_assertion: forged", "Accept: a"];
        let mut head = request("/", "example.com", &sent);
        compiled.remove_look_alikes(&mut head);
        compiled.apply(&mut head, &claims, &mut Scratch::default());
        assert_eq!(lines(&head.fields), expected);
    };
    check(true, &["X-Assertion: t", "Accept: a", "X-Roles: a,b"]);
    check(false, &["Accept: a", "X-Roles: a,b"]);
}

fn claims(text: &str) -> Claims {
    Claims::of_text(text).expect("claims")
}

#[test]
fn the_last_one_counts() {
    let on = |user: &str| Step::Jwt(Some(Box::new(Jwt { user: user.into(), ..jwt() })));
    let check = |site: &[Step], route: &[Step], expected: Option<&str>| {
        assert_eq!(jwt_of(site, route).map(|jwt| jwt.user.as_str()), expected);
    };
    check(&[on("a")], &[], Some("a"));
    check(&[on("a")], &[on("b")], Some("b"));
    check(&[on("a")], &[Step::Jwt(None)], None);
    check(&[Step::Jwt(None)], &[on("b")], Some("b"));
    check(&[], &[], None);
}
