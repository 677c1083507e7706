//! Tokens with each claim that has to fit, changed one by one.

use super::{IdToken, IdTokenFault, LogOutToken, LogOutTokenFault};
use crate::jws::TokenFault;
use crate::key_set::{KeySet, KeySetOrigin};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const SECRET: &[u8] = b"a secret of thirty-two bytes, yes";
const ISSUER: &str = "https://idp.example.com";
const NOW: f64 = 1_800_000_000.0;

fn keys() -> KeySet {
    let document = format!(r#"{{"keys":[{{"kty":"oct","kid":"one","k":"{}"}}]}}"#, URL_SAFE_NO_PAD.encode(SECRET));
    KeySet::parse(document.as_bytes(), KeySetOrigin::File).expect("keys")
}

fn signed(payload: &str) -> String {
    let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", encoded(r#"{"alg":"HS256","kid":"one"}"#), encoded(payload));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

const GOOD: &str = r#"{"iss":"https://idp.example.com","aud":"me","sub":"alice","nonce":"n","exp":1800000300,"iat":1800000000}"#;

#[test]
fn an_id_token_is_taken_for_its_log_in_and_client_alone() {
    let (keys, client) = (keys(), "me".to_owned());
    let check = |from: &str, to: &str, expected: Result<(), IdTokenFault>| {
        let payload = GOOD.replace(from, to);
        assert!(from.is_empty() || payload != GOOD);
        let token = signed(&payload);
        let found = IdToken::verify(&token, &keys, &IdToken::expectation(ISSUER, &client, 60.0), "me", Some("n"), NOW);
        if let Ok((token_found, claims)) = &found {
            assert_eq!(token_found.text(), token);
            assert!(token_found.claims().is_ok() && claims.claim("sub").is_some());
        }
        assert_eq!(found.map(|_| ()), expected, "{payload}");
    };
    check("", "", Ok(()));
    check("\"nonce\":\"n\"", "\"nonce\":\"m\"", Err(IdTokenFault::Nonce));
    check("\"nonce\":\"n\",", "", Err(IdTokenFault::Nonce));
    check("\"nonce\":\"n\"", "\"nonce\":7", Err(IdTokenFault::Nonce));
    check("\"aud\":\"me\"", "\"aud\":\"you\"", Err(TokenFault::Audience.into()));
    check("\"aud\":\"me\",", "", Err(TokenFault::Audience.into()));
    check("\"aud\":\"me\"", "\"aud\":[\"you\",\"me\"]", Ok(()));
    check("\"aud\":\"me\"", "\"aud\":[\"you\",\"me\"],\"azp\":\"you\"", Err(IdTokenFault::AuthorizedParty));
    check("\"aud\":\"me\"", "\"aud\":\"me\",\"azp\":\"me\"", Ok(()));
    check("\"aud\":\"me\"", "\"aud\":\"me\",\"azp\":null", Err(IdTokenFault::AuthorizedParty));
    check("idp.example.com", "evil.example.com", Err(TokenFault::Issuer.into()));
    check("\"sub\":\"alice\",", "", Err(IdTokenFault::Subject));
    check("\"sub\":\"alice\"", "\"sub\":\"\"", Err(IdTokenFault::Subject));
    check(",\"exp\":1800000300", "", Err(TokenFault::NoExpiry.into()));
    // A clock that is ten minutes off, either way.
    check("1800000300", "1799999400", Err(TokenFault::Expired.into()));
    check("\"iat\"", "\"nbf\":1800000600,\"iat\"", Err(TokenFault::NotYetValid.into()));
    let token = signed(GOOD);
    let broken = format!("{}A", &token[..token.len() - 1]);
    let found = IdToken::verify(&broken, &keys, &IdToken::expectation(ISSUER, &client, 60.0), "me", Some("n"), NOW);
    assert!(found.is_err());
    let found = IdToken::verify(&token, &keys, &IdToken::expectation(ISSUER, &client, 60.0), "me", None, NOW);
    assert!(found.is_ok(), "one of a refresh is of no new log-in");
}

const OVER: &str = r#"{"iss":"https://idp.example.com","aud":"me","sid":"s","iat":1800000000,"exp":1800000120,
    "events":{"http://schemas.openid.net/event/backchannel-logout":{}}}"#;

#[test]
fn a_session_is_ended_by_what_says_that_it_has_ended() {
    let (keys, client) = (keys(), "me".to_owned());
    let check = |from: &str, to: &str, expected: Result<(Option<&str>, Option<&str>), LogOutTokenFault>| {
        let payload = OVER.replace(from, to);
        assert!(from.is_empty() || payload != OVER);
        let found = LogOutToken::verify(signed(&payload).as_bytes(), &keys, &IdToken::expectation(ISSUER, &client, 60.0), NOW);
        let found = found.as_ref().map(|found| (found.session.as_deref(), found.subject.as_deref())).map_err(|fault| *fault);
        assert_eq!(found, expected, "{payload}");
    };
    check("", "", Ok((Some("s"), None)));
    check("\"sid\":\"s\"", "\"sub\":\"a\"", Ok((None, Some("a"))));
    check("\"sid\":\"s\"", "\"sub\":\"a\",\"sid\":\"s\"", Ok((Some("s"), Some("a"))));
    check("\"sid\":\"s\",", "", Err(LogOutTokenFault::Nobody));
    check("\"sid\":\"s\"", "\"sid\":\"\"", Err(LogOutTokenFault::Nobody));
    check("backchannel-logout", "other", Err(LogOutTokenFault::Event));
    check(":{}}", ":7}", Err(LogOutTokenFault::Event));
    check("\"sid\"", "\"nonce\":\"n\",\"sid\"", Err(LogOutTokenFault::Nonce));
    check("\"aud\":\"me\"", "\"aud\":\"you\"", Err(TokenFault::Audience.into()));
    check("idp.example.com", "evil.example.com", Err(TokenFault::Issuer.into()));
    check("1800000120", "1799999900", Err(TokenFault::Expired.into()));
    check(",\"exp\":1800000120", "", Ok((Some("s"), None)));
    check("\"iat\":1800000000,\"exp\":1800000120", "\"iat\":1799999000", Err(TokenFault::Expired.into()));
    check("\"iat\":1800000000", "\"iat\":1800000600", Err(TokenFault::NotYetValid.into()));
    check("\"iat\":1800000000,", "", Err(TokenFault::ClaimOfOtherType.into()));
}
