//! Tokens that others have made, tokens that nobody should take, and another reader beside ours.

use super::{CANDIDATES_MAX, HEADER_BYTES_MAX, Jws, TOKEN_BYTES_MAX, TokenFault};
use crate::json::JsonFault;
use crate::key_set::{KeySet, KeySetOrigin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use aws_lc_rs::{hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::panic::AssertUnwindSafe;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn set(document: &str) -> KeySet {
    KeySet::parse(document.as_bytes(), KeySetOrigin::File).expect("a set of keys")
}

fn verified(token: &str, keys: &KeySet) -> Result<Vec<u8>, TokenFault> {
    let jws = Jws::parse(token.as_bytes(), TOKEN_BYTES_MAX)?;
    jws.verify(keys)?;
    Ok(jws.payload().to_vec())
}

const SECRET: &[u8] = b"a secret of thirty-two bytes, yes";

fn secret_set() -> KeySet {
    set(&format!(r#"{{"keys":[{{"kty":"oct","kid":"one","k":"{}"}}]}}"#, encoded(SECRET)))
}

/// A token with this header, signed as HS256 whatever the header says.
fn signed(header: &str, payload: impl AsRef<[u8]>) -> String {
    let message = format!("{}.{}", encoded(header), encoded(payload));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes());
    format!("{message}.{}", encoded(signature))
}

#[test]
fn headers_are_refused_before_a_signature_is_looked_at() {
    let keys = secret_set();
    let check = |header: &str, expected: Result<(), TokenFault>| {
        assert_eq!(verified(&signed(header, "{}"), &keys).map(|_| ()), expected, "{header}");
    };
    check(r#"{"alg":"HS256","kid":"one"}"#, Ok(()));
    check(r#"{"alg":"HS256"}"#, Ok(()));
    check(r#" { "typ" : "JWT" , "alg" : "\u0048S256" } "#, Ok(()));
    for none in ["none", "None", "NONE", "nOnE", "", "hs256", "HS1", "RSA-OAEP", "dir"] {
        check(&format!(r#"{{"alg":"{none}"}}"#), Err(TokenFault::UnknownAlgorithm));
    }
    check("{}", Err(TokenFault::HeaderMember));
    check(r#"{"alg":null}"#, Err(TokenFault::HeaderMember));
    check(r#"{"alg":["HS256"]}"#, Err(TokenFault::HeaderMember));
    check(r#"{"alg":"HS256","kid":7}"#, Err(TokenFault::HeaderMember));
    check(r#"{"alg":"HS256","typ":{}}"#, Err(TokenFault::HeaderMember));
    check(&format!(r#"{{"alg":"HS256","kid":"{}"}}"#, "k".repeat(513)), Err(TokenFault::HeaderMember));
    check(r#"{"alg":"HS256","crit":["exp"],"exp":1}"#, Err(TokenFault::Critical));
    check(r#"{"alg":"HS256","crit":["b64"],"b64":false}"#, Err(TokenFault::Critical));
    check(r#"{"alg":"HS256","crit":[]}"#, Err(TokenFault::Critical));
    check(r#"{"alg":"HS256","crit":null}"#, Err(TokenFault::Critical));
    check(r#"{"alg":"none","alg":"HS256"}"#, Err(TokenFault::Header(JsonFault::DuplicateMember)));
    check(r#"{"alg":"HS256","\u0061lg":"none"}"#, Err(TokenFault::Header(JsonFault::DuplicateMember)));
    check(r#"{"alg":"HS256","x":{"a":1,"a":2}}"#, Err(TokenFault::Header(JsonFault::DuplicateMember)));
    check(r#"["HS256"]"#, Err(TokenFault::Header(JsonFault::NotAnObject)));
    check(r#"{"alg":"HS256"}{}"#, Err(TokenFault::Header(JsonFault::Malformed)));
    check(&"{\"a\":".repeat(400), Err(TokenFault::Header(JsonFault::TooDeep)));
    check(&format!(r#"{{"alg":"HS256","x":"{}"}}"#, "x".repeat(HEADER_BYTES_MAX)), Err(TokenFault::TooLong));
    for kid in ["../../../etc/passwd", "' OR 1=1 --", "https://evil.example/jwks.json", "one\\u0000"] {
        check(&format!(r#"{{"alg":"HS256","kid":"{kid}"}}"#), Err(TokenFault::UnknownKey));
    }
}

#[test]
fn shapes_that_are_no_token() {
    let keys = secret_set();
    let good = signed(r#"{"alg":"HS256"}"#, "{}");
    assert_eq!(verified(&good, &keys).as_deref(), Ok(&b"{}"[..]));
    let [header, payload, signature] = good.split('.').collect::<Vec<_>>().try_into().expect("three parts");
    let check = |token: &str, expected: TokenFault| assert_eq!(verified(token, &keys).err(), Some(expected), "{token}");
    check("", TokenFault::Shape);
    check(".", TokenFault::Shape);
    check("..", TokenFault::Shape);
    check(&format!("{header}.{payload}"), TokenFault::Shape);
    check(&format!("{header}.{payload}."), TokenFault::Shape);
    check(&format!(".{payload}.{signature}"), TokenFault::Shape);
    check(&format!("{good}."), TokenFault::Shape);
    check(&format!("{header}.{payload}.{signature}.{payload}.{signature}"), TokenFault::Shape);
    check(&format!("{header}=.{payload}.{signature}"), TokenFault::Encoding);
    check(&format!("{header}.{payload}.{signature}="), TokenFault::Encoding);
    check(&format!(" {good}"), TokenFault::Encoding);
    check(&format!("{good}\n"), TokenFault::Encoding);
    check(&format!("{header}.{payload}.{}", &signature[..signature.len() - 1]), TokenFault::Encoding);
    check(&format!("{header}.{payload}.{}", encoded([0; 32])), TokenFault::Signature);
    check(&format!("{header}.{payload}.{}", encoded([0; 31])), TokenFault::Signature);
    check(&format!("{header}..{signature}"), TokenFault::Signature);
    check(&"a".repeat(TOKEN_BYTES_MAX + 1), TokenFault::TooLong);
    check(&"a".repeat(64 * 1024), TokenFault::TooLong);
}

/// A key of a curve, as a pair and as a JWK.
fn curve_key(id: &str) -> (EcdsaKeyPair, String) {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let point = pair.public_key().as_ref();
    let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
    (pair, format!(r#"{{"kty":"EC","crv":"P-256","kid":"{id}","x":"{x}","y":"{y}"}}"#))
}

fn curve_signed(pair: &EcdsaKeyPair, header: &str) -> String {
    let message = format!("{}.{}", encoded(header), encoded("{}"));
    let signature = pair.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
    format!("{message}.{}", encoded(signature))
}

#[test]
fn the_key_says_what_it_is_for_and_not_the_token() {
    let (pair, jwk) = curve_key("ec");
    let keys = set(&format!(r#"{{"keys":[{jwk}]}}"#));
    assert_eq!(verified(&curve_signed(&pair, r#"{"alg":"ES256","kid":"ec"}"#), &keys).map(|_| ()), Ok(()));
    for other in ["ES384", "RS256", "PS256", "HS256", "EdDSA"] {
        let token = curve_signed(&pair, &format!(r#"{{"alg":"{other}","kid":"ec"}}"#));
        assert_eq!(verified(&token, &keys).err(), Some(TokenFault::AlgorithmOfKey), "{other}");
    }
    // The oldest of all attacks: the public key, which everybody has, as the secret of an HMAC.
    let point = pair.public_key().as_ref();
    for secret in [point, &point[1..], jwk.as_bytes()] {
        let message = format!("{}.{}", encoded(r#"{"alg":"HS256","kid":"ec"}"#), encoded("{}"));
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
        assert_eq!(verified(&format!("{message}.{}", encoded(signature)), &keys).err(), Some(TokenFault::AlgorithmOfKey));
    }
}

#[test]
fn keys_that_a_token_brings_are_nobody_s() {
    let (pair, jwk) = curve_key("mine");
    let (_, theirs) = curve_key("theirs");
    let keys = set(&format!(r#"{{"keys":[{theirs}]}}"#));
    let check = |header: &str, expected: TokenFault| {
        assert_eq!(verified(&curve_signed(&pair, header), &keys).err(), Some(expected), "{header}");
    };
    check(&format!(r#"{{"alg":"ES256","jwk":{jwk}}}"#), TokenFault::Signature);
    check(&format!(r#"{{"alg":"ES256","kid":"mine","jwk":{jwk}}}"#), TokenFault::UnknownKey);
    check(&format!(r#"{{"alg":"ES256","kid":"theirs","jwk":{jwk}}}"#), TokenFault::Signature);
    check(r#"{"alg":"ES256","kid":"theirs","jku":"https://evil.example/jwks.json"}"#, TokenFault::Signature);
    check(r#"{"alg":"ES256","kid":"theirs","x5u":"https://evil.example/x.pem","x5c":["AAAA"]}"#, TokenFault::Signature);
}

#[test]
fn a_token_without_a_key_s_name_is_tried_with_few() {
    let pairs: Vec<(EcdsaKeyPair, String)> = (0..=CANDIDATES_MAX).map(|number| curve_key(&format!("k{number}"))).collect();
    let of_first = |keys: usize| {
        let jwks: Vec<&str> = pairs[..keys].iter().map(|(_, jwk)| jwk.as_str()).collect();
        set(&format!(r#"{{"keys":[{}]}}"#, jwks.join(",")))
    };
    let last = |keys: usize, header: &str| curve_signed(&pairs[keys - 1].0, header);
    let nameless = r#"{"alg":"ES256"}"#;
    assert!(verified(&last(CANDIDATES_MAX, nameless), &of_first(CANDIDATES_MAX)).is_ok());
    let many = CANDIDATES_MAX + 1;
    assert_eq!(verified(&last(many, nameless), &of_first(many)).err(), Some(TokenFault::AmbiguousKey));
    assert!(verified(&last(many, &format!(r#"{{"alg":"ES256","kid":"k{CANDIDATES_MAX}"}}"#)), &of_first(many)).is_ok());
    // A key without a name may be the one that the token names otherwise.
    let without_name = set(&format!(r#"{{"keys":[{}]}}"#, pairs[0].1.replace(r#""kid":"k0","#, "")));
    assert!(verified(&curve_signed(&pairs[0].0, r#"{"alg":"ES256","kid":"x"}"#), &without_name).is_ok());
    assert_eq!(
        verified(&curve_signed(&pairs[1].0, r#"{"alg":"ES256","kid":"x"}"#), &without_name).err(),
        Some(TokenFault::UnknownKey)
    );
}

#[test]
fn examples_of_rfc_7515_and_8037() {
    // RFC 7515, appendix A.1.
    let hmac = r#"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}"#;
    let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let jws = Jws::parse(token.as_bytes(), TOKEN_BYTES_MAX).expect("a token");
    jws.verify(&set(hmac)).expect("a signature");
    assert_eq!(jws.issuer_said().as_deref(), Some("joe"));
    let claims = jws.into_claims().expect("claims");
    assert_eq!(claims.claim("http://example.com/is_root").map(crate::json::Value::raw), Some("true"));
    // Appendix A.3.
    let curve = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    let token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    assert!(verified(token, &set(curve)).is_ok());
    assert_eq!(verified(&token.replace("U1Q", "U1R"), &set(curve)).err(), Some(TokenFault::Encoding));
    assert_eq!(verified(&token.replace("U1Q", "U2Q"), &set(curve)).err(), Some(TokenFault::Signature));
    // Appendix A.5 is unsecured.
    let unsecured =
        "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.";
    assert_eq!(verified(unsecured, &set(hmac)).err(), Some(TokenFault::Shape));
    // RFC 8037, appendices A.2 and A.4.
    let edwards = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    let token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    assert_eq!(verified(token, &set(edwards)).as_deref(), Ok(&b"Example of Ed25519 signing"[..]));
}

#[test]
fn another_reader_takes_what_we_take() {
    use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
    let random = |length: usize| {
        let mut bytes = vec![0; length];
        rand::fill(&mut bytes).expect("randomness");
        bytes
    };
    let edwards = Ed25519KeyPair::generate().expect("a key");
    let edwards_jwk = format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"ed","x":"{}"}}"#, encoded(edwards.public_key().as_ref()));
    let edwards_der = edwards.to_pkcs8().expect("a document");
    let (curve, curve_jwk) = curve_key("ec");
    let curve_der = curve.to_pkcs8v1().expect("a document");
    let secret = random(64);
    let secret_jwk = format!(r#"{{"kty":"oct","kid":"hs","k":"{}"}}"#, encoded(&secret));
    let keys = set(&format!(r#"{{"keys":[{edwards_jwk},{curve_jwk},{secret_jwk}]}}"#));
    let cases = [
        (Algorithm::EdDSA, "ed", EncodingKey::from_ed_der(edwards_der.as_ref()), &edwards_jwk),
        (Algorithm::ES256, "ec", EncodingKey::from_ec_der(curve_der.as_ref()), &curve_jwk),
        (Algorithm::HS256, "hs", EncodingKey::from_secret(&secret), &secret_jwk),
        (Algorithm::HS384, "hs", EncodingKey::from_secret(&secret), &secret_jwk),
        (Algorithm::HS512, "hs", EncodingKey::from_secret(&secret), &secret_jwk),
    ];
    for (algorithm, id, signing, jwk) in cases {
        let mut header = Header::new(algorithm);
        header.kid = Some(id.to_owned());
        let claims =
            serde_json::json!({"sub": "alice", "exp": 4_000_000_000u64, "list": ["a", 1, null], "text": "ä\u{1f600}\"\\"});
        let token = jsonwebtoken::encode(&header, &claims, &signing).expect("a token");
        let ours = verified(&token, &keys).expect("we take it");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&ours).expect("JSON"), claims);
        let theirs = DecodingKey::from_jwk(&serde_json::from_str(jwk).expect("a JWK")).expect("a key");
        let mut validation = Validation::new(algorithm);
        validation.validate_aud = false;
        let taken = |token: &str| jsonwebtoken::decode::<serde_json::Value>(token, &theirs, &validation).is_ok();
        assert!(taken(&token));
        // Each byte of it exchanged: nobody takes it any more.
        for position in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("text");
            let (ours, theirs) = (verified(&changed, &keys).is_ok(), taken(&changed));
            assert_eq!((ours, theirs), (false, false), "{algorithm:?}, byte {position}");
        }
    }
}

#[test]
fn no_bytes_make_it_panic_and_none_are_signed() {
    let (_, curve) = curve_key("ec");
    let edwards = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    let keys = set(&format!(r#"{{"keys":[{curve},{edwards},{{"kty":"oct","k":"{}"}}]}}"#, encoded([7; 64])));
    let keys = AssertUnwindSafe(keys);
    bolero::check!().for_each(|bytes: &[u8]| {
        let keys = &keys;
        // As they are, and as header and payload of something that is a token in form.
        let whole = [bytes.to_vec(), format!("{}.{}.{}", encoded(bytes), encoded(bytes), encoded(bytes)).into_bytes()];
        for token in &whole {
            if let Ok(jws) = Jws::parse(token, TOKEN_BYTES_MAX) {
                drop(jws.issuer_said());
                assert!(jws.verify(keys).is_err(), "{token:?}");
                drop(jws.into_claims());
            }
        }
        drop(KeySet::parse(bytes, KeySetOrigin::Address));
    });
}
