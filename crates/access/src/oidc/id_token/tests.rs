//! Tokens with each claim that has to fit, changed one by one.

use super::{IdToken, IdTokenFault, IdTokenGrant, LogOutToken, LogOutTokenFault};
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
    signed_as("", payload)
}

/// `more`: of the header.
fn signed_as(more: &str, payload: &str) -> String {
    let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", encoded(&format!(r#"{{"alg":"HS256","kid":"one"{more}}}"#)), encoded(payload));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A log-in for which nobody had to prove again who it is.
const LOG_IN: IdTokenGrant<'_> = IdTokenGrant::LogIn { nonce: "n", age_max: None };

const GOOD: &str = r#"{"iss":"https://idp.example.com","aud":"me","sub":"alice","nonce":"n","exp":1800000300,"iat":1800000000}"#;

#[test]
fn an_id_token_is_taken_for_its_log_in_and_client_alone() {
    let (keys, client) = (keys(), "me".to_owned());
    let check = |from: &str, to: &str, expected: Result<(), IdTokenFault>| {
        let payload = GOOD.replace(from, to);
        assert!(from.is_empty() || payload != GOOD);
        let token = signed(&payload);
        let expected_of = IdToken::expectation(ISSUER, &client, 60.0);
        let found = IdToken::verify((&token, "access"), &keys, &expected_of, LOG_IN, NOW);
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
    check("\"aud\":\"me\"", "\"aud\":[\"me\"]", Ok(()));
    check("\"aud\":\"me\"", "\"aud\":[\"you\",\"me\"]", Err(IdTokenFault::AuthorizedParty));
    check("\"aud\":\"me\"", "\"aud\":[\"you\",\"me\"],\"azp\":\"me\"", Ok(()));
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
    check(",\"iat\":1800000000", "", Err(IdTokenFault::NoIssueTime));
    check("\"iat\":1800000000", "\"iat\":\"now\"", Err(IdTokenFault::NoIssueTime));
    check("\"iat\":1800000000", "\"iat\":1800000059", Ok(()));
    check("\"iat\":1800000000", "\"iat\":1800000061", Err(IdTokenFault::IssueTime));
    check("\"iat\":1800000000", "\"iat\":1799999341", Ok(()));
    check("\"iat\":1800000000", "\"iat\":1799999339", Err(IdTokenFault::IssueTime));
    check("\"iat\"", "\"at_hash\":\"AAAAAAAAAAAAAAAAAAAAAA\",\"iat\"", Err(IdTokenFault::AccessToken));
    check("\"iat\"", "\"at_hash\":7,\"iat\"", Err(IdTokenFault::AccessToken));
    check("\"iat\"", &format!("\"at_hash\":\"{}\",\"iat\"", at_hash("other")), Err(IdTokenFault::AccessToken));
    check("\"iat\"", &format!("\"at_hash\":\"{}\",\"iat\"", at_hash("access")), Ok(()));
    let token = signed(GOOD);
    let begin = token.rfind('.').expect("a signature") + 1;
    let mut broken = token.clone();
    broken.replace_range(begin..=begin, if token[begin..].starts_with('A') { "B" } else { "A" });
    let found = IdToken::verify((&broken, "access"), &keys, &IdToken::expectation(ISSUER, &client, 60.0), LOG_IN, NOW);
    assert!(found.is_err());
}

fn at_hash(access_token: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, access_token.as_bytes());
    URL_SAFE_NO_PAD.encode(&digest.as_ref()[..16])
}

#[test]
fn a_log_in_that_was_to_be_fresh_is() {
    let (keys, client) = (keys(), "me".to_owned());
    let check = |claims: &str, expected: Result<(), IdTokenFault>| {
        let token = signed(&GOOD.replace("\"iat\"", &format!("{claims}\"iat\"")));
        let grant = IdTokenGrant::LogIn { nonce: "n", age_max: Some(300.0) };
        let found = IdToken::verify((&token, "access"), &keys, &IdToken::expectation(ISSUER, &client, 60.0), grant, NOW);
        assert_eq!(found.map(|_| ()), expected, "{claims}");
    };
    check("", Err(IdTokenFault::AuthenticationTime));
    check("\"auth_time\":\"1800000000\",", Err(IdTokenFault::AuthenticationTime));
    check("\"auth_time\":1800000000,", Ok(()));
    check("\"auth_time\":1799999640,", Ok(()));
    check("\"auth_time\":1799999639,", Err(IdTokenFault::AuthenticationTime));
}

#[test]
fn a_refresh_brings_a_token_of_the_same_person_clients_and_log_in() {
    let (keys, client) = (keys(), "me".to_owned());
    let expected_of = IdToken::expectation(ISSUER, &client, 60.0);
    let verify = |payload: &str, grant: IdTokenGrant<'_>, now: f64| {
        IdToken::verify((&signed(payload), "access"), &keys, &expected_of, grant, now)
    };
    let (before, _) = verify(GOOD, LOG_IN, NOW).expect("a token");
    let later = NOW + 3600.0;
    let check = |from: &str, to: &str, expected: Result<(), IdTokenFault>| {
        let next = GOOD.replace("1800000300", "1800003900").replace(from, to);
        let found = verify(&next, IdTokenGrant::Refresh { before: &before }, later);
        assert_eq!(found.map(|_| ()), expected, "{next}");
    };
    check("1800000000", "1800003600", Ok(()));
    check("\"nonce\":\"n\",", "", Ok(()));
    check("\"nonce\":\"n\"", "\"nonce\":\"m\"", Err(IdTokenFault::Nonce));
    check("alice", "bob", Err(IdTokenFault::OtherSubject));
    check("alice", "al\\u0069ce", Ok(()));
    check("\"aud\":\"me\"", "\"aud\":\"you\"", Err(TokenFault::Audience.into()));
    check("\"aud\":\"me\"", "\"aud\":[\"you\",\"me\"]", Err(IdTokenFault::AuthorizedParty));
    check("idp.example.com", "evil.example.com", Err(TokenFault::Issuer.into()));
    check("\"iat\":1800000000", "\"iat\":1800009000", Err(IdTokenFault::IssueTime));
    check("\"iat\"", "\"at_hash\":\"x\",\"iat\"", Err(IdTokenFault::AccessToken));
    // One that was for several clients is for the same ones.
    let both = GOOD.replace("\"aud\":\"me\"", "\"aud\":[\"me\",\"you\"],\"azp\":\"me\"");
    let (before, _) = verify(&both, LOG_IN, NOW).expect("a token");
    let found = verify(GOOD, IdTokenGrant::Refresh { before: &before }, NOW);
    assert_eq!(found.map(|_| ()), Err(IdTokenFault::OtherAudience));
    assert!(verify(&both, IdTokenGrant::Refresh { before: &before }, NOW).is_ok());
}

const OVER: &str = r#"{"iss":"https://idp.example.com","aud":"me","jti":"j","sid":"s","iat":1800000000,"exp":1800000120,
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
    check("\"jti\":\"j\",", "", Err(LogOutTokenFault::NoName));
    check("\"jti\":\"j\"", "\"jti\":\"\"", Err(LogOutTokenFault::NoName));
    check("\"jti\":\"j\"", "\"jti\":7", Err(LogOutTokenFault::NoName));
    // However long it says that it holds.
    check("\"iat\":1800000000,\"exp\":1800000120", "\"iat\":1799900000,\"exp\":1900000000", Err(TokenFault::Expired.into()));
}

#[test]
fn what_ends_a_session_says_what_it_is_and_how_long_it_is_to_be_remembered() {
    let (keys, client) = (keys(), "me".to_owned());
    let verify = |header: &str, payload: &str| {
        LogOutToken::verify(signed_as(header, payload).as_bytes(), &keys, &IdToken::expectation(ISSUER, &client, 60.0), NOW)
    };
    for fine in ["", ",\"typ\":\"logout+jwt\"", ",\"typ\":\"application/LOGOUT+JWT\"", ",\"typ\":\"JWT\""] {
        assert!(verify(fine, OVER).is_ok(), "{fine}");
    }
    for other in [",\"typ\":\"at+jwt\"", ",\"typ\":\"secevent+jwt\"", ",\"typ\":\"\""] {
        assert_eq!(verify(other, OVER), Err(TokenFault::Type.into()), "{other}");
    }
    let ends = |payload: &str| verify("", payload).expect("a token").ends;
    assert_eq!(ends(OVER), 1_800_000_180);
    assert_eq!(ends(&OVER.replace(",\"exp\":1800000120", "")), 1_800_000_660);
    assert_eq!(ends(&OVER.replace("1800000120", "1900000000")), 1_800_086_460);
}
