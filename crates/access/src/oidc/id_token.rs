//! ID tokens (OpenID Connect Core section 3.1.3.7) and what providers send when a session ends (Back-Channel Logout 1.0
//! section 2.6): verified, and compared with what was asked.

use super::parts::{put, take};
use crate::base64url;
use crate::claims::{Claims, Expectation, is_same_type};
use crate::json::Value;
use crate::jws::{Jws, TokenFault};
use crate::key::Algorithm;
use crate::key_set::KeySet;
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::borrow::Cow;
use std::slice;
use thiserror::Error;

/// With a session it has to fit into cookies.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// An ID token of a log-in is made while that lasts.
const AGE_SECONDS_MAX: f64 = 600.0;
/// What ends a session is as old as that at most, where it does not say itself when it ends.
const LOG_OUT_LIFE_SECONDS: f64 = 600.0;
/// However long it says that it holds: so long it is remembered.
const LOG_OUT_LIFE_SECONDS_MAX: f64 = 86_400.0;
/// Some providers say what every token is.
const LOG_OUT_TYPES: [&str; 2] = ["logout+jwt", "JWT"];
const LOG_OUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Why an ID token is refused. The words continue "the ID token …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum IdTokenFault {
    #[error("{}", .0)]
    Token(TokenFault),
    #[error("is of another log-in (`nonce`)")]
    Nonce,
    #[error("was made for another client, or for several without a word of which one (`azp`)")]
    AuthorizedParty,
    #[error("does not say when it was made (`iat`)")]
    NoIssueTime,
    #[error("was not made just now, as it says itself (`iat`)")]
    IssueTime,
    #[error("is not of the access token beside it (`at_hash`)")]
    AccessToken,
    #[error("does not say when somebody has logged in last, or that was too long ago (`auth_time`, for `max_age`)")]
    AuthenticationTime,
    #[error("is of other clients than before (`aud`)")]
    OtherAudience,
    #[error("names nobody (`sub`)")]
    Subject,
    #[error("names somebody else than before (`sub`)")]
    OtherSubject,
}

impl From<TokenFault> for IdTokenFault {
    fn from(fault: TokenFault) -> IdTokenFault {
        IdTokenFault::Token(fault)
    }
}

/// What an ID token has come of.
#[derive(Debug, Clone, Copy)]
pub enum IdTokenGrant<'g> {
    /// A log-in with that nonce. `age_max`: how long ago somebody may have proved who it is, in seconds, where the
    /// provider was asked for that (`max_age`).
    LogIn { nonce: &'g str, age_max: Option<f64> },
    /// A refresh, with what was known before.
    Refresh { before: &'g IdToken },
}

/// A verified one, as it lies in a session: taken apart, since that is a quarter shorter than its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdToken {
    header: Box<[u8]>,
    payload: Box<[u8]>,
    signature: Box<[u8]>,
}

impl IdToken {
    /// `access_token`: the one beside it.
    pub fn verify(
        (token, access_token): (&str, &str),
        keys: &KeySet,
        expected: &Expectation<'_>,
        grant: IdTokenGrant<'_>,
        now: f64,
    ) -> Result<(IdToken, Claims), IdTokenFault> {
        let jws = Jws::parse(token.as_bytes(), TOKEN_BYTES_MAX)?;
        jws.verify(keys)?;
        let algorithm = jws.algorithm();
        let claims = jws.into_claims()?;
        claims.check(expected, now)?;
        check_party(&claims, expected)?;
        if text_of(&claims, "sub").is_none_or(|subject| subject.is_empty()) {
            return Err(IdTokenFault::Subject);
        }
        let made = claims.claim("iat").and_then(Value::number).ok_or(IdTokenFault::NoIssueTime)?;
        if made > now + expected.leeway {
            return Err(IdTokenFault::IssueTime);
        }
        check_access_token(&claims, algorithm, access_token)?;
        match grant {
            IdTokenGrant::LogIn { nonce, age_max } => {
                if text_of(&claims, "nonce").as_deref() != Some(nonce) {
                    return Err(IdTokenFault::Nonce);
                }
                if made < now - AGE_SECONDS_MAX - expected.leeway {
                    return Err(IdTokenFault::IssueTime);
                }
                let authenticated = claims.claim("auth_time").and_then(Value::number);
                let is_too_old = |age: f64| authenticated.is_none_or(|at| now > at + age + expected.leeway);
                if age_max.is_some_and(is_too_old) {
                    return Err(IdTokenFault::AuthenticationTime);
                }
            }
            IdTokenGrant::Refresh { before } => check_same(&claims, &before.claims()?)?,
        }
        Ok((IdToken::of_text(token).ok_or(TokenFault::Shape)?, claims))
    }

    fn of_text(token: &str) -> Option<IdToken> {
        let mut parts = token.split('.').map(|part| base64url::decode(part.as_bytes()).map(Into::into));
        Some(IdToken { header: parts.next()??, payload: parts.next()??, signature: parts.next()?? })
    }

    /// Whom the client is to be for a token of that issuer and client.
    pub fn expectation<'e>(issuer: &'e str, client: &'e String, leeway: f64) -> Expectation<'e> {
        Expectation { issuer: Some(issuer), audiences: slice::from_ref(client), kind: None, needs_expiry: true, leeway }
    }

    /// As the provider has sent it: each of its parts has one spelling.
    pub fn text(&self) -> String {
        [&self.header, &self.payload, &self.signature].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
    }

    pub fn claims(&self) -> Result<Claims, TokenFault> {
        Claims::read(self.payload.to_vec(), None)
    }

    /// With the members of an object, none of which is a claim already.
    pub(crate) fn claims_and(&self, more: &str) -> Result<Claims, TokenFault> {
        let inner = more.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        let Some(open) = self.payload.trim_ascii_end().strip_suffix(b"}").filter(|_| !inner.is_empty()) else {
            return self.claims();
        };
        Claims::read([open, b",", inner.as_bytes(), b"}"].concat(), None)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for part in [&self.header, &self.payload, &self.signature] {
            put(out, part);
        }
    }

    pub(crate) fn read(rest: &mut &[u8]) -> Option<IdToken> {
        Some(IdToken { header: take(rest)?.into(), payload: take(rest)?.into(), signature: take(rest)?.into() })
    }
}

fn text_of<'c>(claims: &'c Claims, name: &str) -> Option<Cow<'c, str>> {
    claims.claim(name).and_then(Value::text)
}

/// Whom a token is for: one, or several.
fn audiences_of(claims: &Claims) -> Vec<Cow<'_, str>> {
    let Some(said) = claims.claim("aud") else { return Vec::new() };
    match said.text() {
        Some(one) => vec![one],
        None => said.elements().filter_map(Value::text).collect(),
    }
}

/// OpenID Connect Core section 3.1.3.7, numbers 3 to 5: of several clients, the one that has asked is named.
fn check_party(claims: &Claims, expected: &Expectation<'_>) -> Result<(), IdTokenFault> {
    let is_ours = |name: &Cow<'_, str>| expected.audiences.iter().any(|audience| *audience == **name);
    let is_fine = match claims.claim("azp") {
        Some(party) => party.text().is_some_and(|party| is_ours(&party)),
        None => audiences_of(claims).iter().all(is_ours),
    };
    if is_fine { Ok(()) } else { Err(IdTokenFault::AuthorizedParty) }
}

/// Section 3.1.3.8: half of the access token's digest, by the function that goes with the signature.
fn check_access_token(claims: &Claims, algorithm: Algorithm, access_token: &str) -> Result<(), IdTokenFault> {
    let Some(said) = claims.claim("at_hash") else { return Ok(()) };
    let digest = digest::digest(algorithm.digest(), access_token.as_bytes());
    let half = URL_SAFE_NO_PAD.encode(&digest.as_ref()[..digest.as_ref().len() / 2]);
    if said.text().as_deref() == Some(&half) { Ok(()) } else { Err(IdTokenFault::AccessToken) }
}

/// Section 12.2: what a refresh brings is of the same person, clients and log-in.
fn check_same(claims: &Claims, before: &Claims) -> Result<(), IdTokenFault> {
    if text_of(claims, "sub") != text_of(before, "sub") {
        return Err(IdTokenFault::OtherSubject);
    }
    let now_for = audiences_of(claims);
    if !audiences_of(before).iter().all(|audience| now_for.contains(audience)) {
        return Err(IdTokenFault::OtherAudience);
    }
    // There should be none, and some providers repeat it.
    if claims.claim("nonce").is_some() && text_of(claims, "nonce") != text_of(before, "nonce") {
        return Err(IdTokenFault::Nonce);
    }
    Ok(())
}

/// Why a message that a session has ended is not believed. The words continue "the logout token …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LogOutTokenFault {
    #[error("{}", .0)]
    Token(TokenFault),
    #[error("does not say that a session has ended (`events`)")]
    Event,
    /// An ID token would have one.
    #[error("has a `nonce`, and must have none")]
    Nonce,
    #[error("names neither a session (`sid`) nor somebody (`sub`)")]
    Nobody,
    #[error("has no name of its own (`jti`)")]
    NoName,
}

impl From<TokenFault> for LogOutTokenFault {
    fn from(fault: TokenFault) -> LogOutTokenFault {
        LogOutTokenFault::Token(fault)
    }
}

/// Whose session has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOutToken {
    pub session: Option<String>,
    pub subject: Option<String>,
    /// Of this message alone: it is believed once.
    pub name: String,
    /// From then on nobody believes it, in seconds of Unix time.
    pub ends: u64,
}

impl LogOutToken {
    pub fn verify(token: &[u8], keys: &KeySet, expected: &Expectation<'_>, now: f64) -> Result<LogOutToken, LogOutTokenFault> {
        let jws = Jws::parse(token, TOKEN_BYTES_MAX)?;
        jws.verify(keys)?;
        if jws.kind().is_some_and(|kind| !LOG_OUT_TYPES.iter().any(|known| is_same_type(kind, known))) {
            return Err(TokenFault::Type.into());
        }
        let claims = jws.into_claims()?;
        claims.check(&Expectation { needs_expiry: false, ..*expected }, now)?;
        let made = claims.claim("iat").and_then(Value::number).ok_or(TokenFault::ClaimOfOtherType)?;
        // Older providers leave out when it ends; then what counts is when it was made.
        let ends = claims.ends(0.0).map_or(made + LOG_OUT_LIFE_SECONDS, |ends| ends.min(made + LOG_OUT_LIFE_SECONDS_MAX));
        let ends = ends + expected.leeway;
        if now >= ends {
            return Err(TokenFault::Expired.into());
        }
        if made > now + expected.leeway {
            return Err(TokenFault::NotYetValid.into());
        }
        let event = claims.claim("events").and_then(|events| events.member(LOG_OUT_EVENT));
        if !event.is_some_and(Value::is_object) {
            return Err(LogOutTokenFault::Event);
        }
        if claims.claim("nonce").is_some() {
            return Err(LogOutTokenFault::Nonce);
        }
        let text = |name: &str| text_of(&claims, name).filter(|text| !text.is_empty()).map(Cow::into_owned);
        let (session, subject) = (text("sid"), text("sub"));
        if session.is_none() && subject.is_none() {
            return Err(LogOutTokenFault::Nobody);
        }
        let name = text("jti").ok_or(LogOutTokenFault::NoName)?;
        Ok(LogOutToken { session, subject, name, ends: ends.ceil() as u64 })
    }
}

#[cfg(test)]
mod tests;
