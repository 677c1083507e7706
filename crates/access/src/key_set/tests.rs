//! Sets of keys as issuers publish them, and as they should not.

use super::{KEYS_MAX, KeySet, KeySetFault, KeySetOrigin, SET_BYTES_MAX};
use crate::json::JsonFault;
use crate::key::{Algorithm, KeyFault};

const CURVE: &str = r#""kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#;
const EDWARDS: &str = r#""kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;
const SECRET: &str =
    r#""kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow""#;

fn parse(keys: &str, origin: KeySetOrigin) -> Result<KeySet, KeySetFault> {
    KeySet::parse(format!("{{\"keys\":[{keys}]}}").as_bytes(), origin)
}

#[test]
fn what_cannot_be_used_is_left_out_and_told() {
    let good = format!("{{{CURVE},\"kid\":\"good\"}}");
    let check = |jwk: &str, expected: Option<KeyFault>| {
        let set = parse(&format!("{jwk},{good}"), KeySetOrigin::Address).expect("one is good");
        assert_eq!(set.skipped.first().map(|skipped| skipped.fault), expected, "{jwk}");
        assert_eq!(set.len(), if expected.is_none() { 2 } else { 1 });
    };
    let curve = |more: &str| format!("{{{CURVE},{more}}}");
    check(&curve(r#""alg":"ES256""#), None);
    check(&curve(r#""use":"sig","key_ops":["sign","verify"],"x5c":["AAAA"],"unknown":{"a":1}"#), None);
    check(&format!("{{{EDWARDS}}}"), None);
    check(&format!("{{{EDWARDS},\"alg\":\"Ed25519\"}}"), None);
    check(&curve(r#""use":"enc""#), Some(KeyFault::OtherPurpose));
    check(&curve(r#""key_ops":["encrypt"]"#), Some(KeyFault::OtherPurpose));
    check(&curve(r#""alg":"ES384""#), Some(KeyFault::OtherPurpose));
    check(&curve(r#""alg":"HS256""#), Some(KeyFault::OtherPurpose));
    check(&curve(r#""alg":"ECDH-ES""#), Some(KeyFault::OtherPurpose));
    check(&curve(r#""alg":7"#), Some(KeyFault::Malformed));
    check(&curve(r#""kid":7"#), Some(KeyFault::Malformed));
    check(&curve(r#""d":"AAAA""#), Some(KeyFault::Private));
    check(&format!("{{{SECRET}}}"), Some(KeyFault::PublishedSecret));
    check(r#"{"kty":"AKP","alg":"ML-DSA-44"}"#, Some(KeyFault::UnknownKind));
    check(r#"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#, Some(KeyFault::UnknownKind));
    check(r#"{"kty":"OKP","crv":"X25519","x":"AA"}"#, Some(KeyFault::UnknownKind));
    check(r#"{"crv":"P-256"}"#, Some(KeyFault::Malformed));
    check("7", Some(KeyFault::Malformed));
    check(&format!("{{{}}}", CURVE.replace("VEU", "VEV")), Some(KeyFault::Malformed));
    check(&format!("{{{}}}", CURVE.replace("f83", "f84")), Some(KeyFault::Malformed));
    check(r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#, Some(KeyFault::Weak));
    check(&format!(r#"{{"kty":"RSA","n":"{}","e":"AQ"}}"#, "_".repeat(342)), Some(KeyFault::Malformed));
    check(&format!(r#"{{"kty":"RSA","n":"{}w","e":"AQ"}}"#, "_".repeat(341)), Some(KeyFault::Weak));
    check(&format!(r#"{{"kty":"RSA","n":"{}","e":"AQAB"}}"#, "_".repeat(16_384)), Some(KeyFault::Weak));
}

#[test]
fn sets_have_bounds_and_a_bad_one_is_none() {
    let check = |document: String, expected: KeySetFault| {
        assert_eq!(KeySet::parse(document.as_bytes(), KeySetOrigin::Address).err(), Some(expected));
    };
    let keys = |count: usize| vec![format!("{{{EDWARDS}}}"); count].join(",");
    assert_eq!(parse(&keys(KEYS_MAX), KeySetOrigin::Address).map(|set| set.len()), Ok(KEYS_MAX));
    check(format!("{{\"keys\":[{}]}}", keys(KEYS_MAX + 1)), KeySetFault::TooManyKeys);
    check(format!("{{\"keys\":[{}]}}", keys(1000)), KeySetFault::TooManyKeys);
    check(" ".repeat(SET_BYTES_MAX + 1), KeySetFault::TooLong);
    check("x".repeat(10 * 1024 * 1024), KeySetFault::TooLong);
    check("<html>".into(), KeySetFault::Json(JsonFault::Malformed));
    check("[]".into(), KeySetFault::Json(JsonFault::NotAnObject));
    check("{\"keys\":[],\"keys\":[]}".into(), KeySetFault::Json(JsonFault::DuplicateMember));
    check("{}".into(), KeySetFault::NoKeys);
    check("{\"keys\":{}}".into(), KeySetFault::NoKeys);
    check("{\"keys\":[]}".into(), KeySetFault::NothingUsable(None));
    check(format!("{{\"keys\":[{{{SECRET}}}]}}"), KeySetFault::NothingUsable(Some(KeyFault::PublishedSecret)));
    assert_eq!(parse(&format!("{{{SECRET}}}"), KeySetOrigin::File).map(|set| set.len()), Ok(1));
    assert_eq!(KeySet::parse(format!("{{{EDWARDS}}}").as_bytes(), KeySetOrigin::Address).map(|set| set.len()), Ok(1));
}

#[test]
fn keys_are_picked_by_name_and_kind() {
    let set = parse(
        &format!("{{{CURVE},\"kid\":\"a\"}},{{{EDWARDS},\"kid\":\"a\"}},{{{EDWARDS}}},{{{SECRET},\"kid\":\"s\"}}"),
        KeySetOrigin::File,
    )
    .expect("a set");
    let check = |id: Option<&str>, algorithm: Algorithm, expected: &[Option<&str>]| {
        let ids: Vec<Option<&str>> = set.candidates(id, algorithm).map(|key| key.id.as_deref()).collect();
        assert_eq!(ids, expected, "{id:?} {algorithm:?}");
    };
    check(Some("a"), Algorithm::Es256, &[Some("a")]);
    check(Some("a"), Algorithm::EdDsa, &[Some("a"), None]);
    check(Some("b"), Algorithm::EdDsa, &[None]);
    check(Some("b"), Algorithm::Es256, &[]);
    check(None, Algorithm::EdDsa, &[Some("a"), None]);
    check(Some("s"), Algorithm::Hs256, &[Some("s")]);
    check(Some("s"), Algorithm::Hs512, &[Some("s")]);
    check(Some("s"), Algorithm::Rs256, &[]);
    assert!(set.has("a") && !set.has("b"));
}
