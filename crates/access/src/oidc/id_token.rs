//! ID tokens (OpenID Connect Core section 3.1.3.7) and what providers send when a session ends (Back-Channel Logout 1.0
//! section 2.6): verified, and compared with what was asked.

use super::parts::{put, take};
use crate::base64url;
use crate::claims::{Claims, Expectation};
use crate::json::Value;
use crate::jws::{Jws, TokenFault};
use crate::key_set::KeySet;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::slice;
use thiserror::Error;

/// With a session it has to fit into cookies.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// What ends a session is as old as that at most, where it does not say itself when it ends.
const LOG_OUT_LIFE_SECONDS: f64 = 600.0;
const LOG_OUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Why an ID token is refused. The words continue "the ID token …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum IdTokenFault {
    #[error("{}", .0)]
    Token(TokenFault),
    #[error("is of another log-in (`nonce`)")]
    Nonce,
    #[error("was made for another client (`azp`)")]
    AuthorizedParty,
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

/// A verified one, as it lies in a session: taken apart, since that is a quarter shorter than its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdToken {
    header: Box<[u8]>,
    payload: Box<[u8]>,
    signature: Box<[u8]>,
}

impl IdToken {
    /// `nonce`: of the log-in that it was asked for; none for one that came of a refresh.
    pub fn verify(
        token: &str,
        keys: &KeySet,
        expected: &Expectation<'_>,
        client: &str,
        nonce: Option<&str>,
        now: f64,
    ) -> Result<(IdToken, Claims), IdTokenFault> {
        let jws = Jws::parse(token.as_bytes(), TOKEN_BYTES_MAX)?;
        jws.verify(keys)?;
        let claims = jws.into_claims()?;
        claims.check(expected, now)?;
        let text = |name: &str| claims.claim(name).and_then(Value::text);
        if nonce.is_some_and(|nonce| text("nonce").as_deref() != Some(nonce)) {
            return Err(IdTokenFault::Nonce);
        }
        if claims.claim("azp").is_some() && text("azp").as_deref() != Some(client) {
            return Err(IdTokenFault::AuthorizedParty);
        }
        if text("sub").is_none_or(|subject| subject.is_empty()) {
            return Err(IdTokenFault::Subject);
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

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for part in [&self.header, &self.payload, &self.signature] {
            put(out, part);
        }
    }

    pub(crate) fn read(rest: &mut &[u8]) -> Option<IdToken> {
        Some(IdToken { header: take(rest)?.into(), payload: take(rest)?.into(), signature: take(rest)?.into() })
    }
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
}

impl LogOutToken {
    pub fn verify(token: &[u8], keys: &KeySet, expected: &Expectation<'_>, now: f64) -> Result<LogOutToken, LogOutTokenFault> {
        let jws = Jws::parse(token, TOKEN_BYTES_MAX)?;
        jws.verify(keys)?;
        let claims = jws.into_claims()?;
        // Older providers leave out when it ends; then what counts is when it was made.
        let has_end = claims.claim("exp").is_some();
        claims.check(&Expectation { needs_expiry: false, ..*expected }, now)?;
        let made = claims.claim("iat").and_then(Value::number).ok_or(TokenFault::ClaimOfOtherType)?;
        if !has_end && now > made + LOG_OUT_LIFE_SECONDS {
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
        let text = |name: &str| claims.claim(name).and_then(Value::text).filter(|text| !text.is_empty());
        let (session, subject) = (text("sid").map(Into::into), text("sub").map(Into::into));
        if session.is_none() && subject.is_none() {
            return Err(LogOutTokenFault::Nobody);
        }
        Ok(LogOutToken { session, subject })
    }
}

#[cfg(test)]
mod tests;
