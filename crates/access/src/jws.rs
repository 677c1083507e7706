//! A token in its compact form (RFC 7515 section 7.1): three texts between dots. What its header says is looked at as a
//! claim of a stranger: it picks a key out of a set that somebody trusted, and nothing else of it is followed (`jwk`,
//! `jku`, `x5u`, `x5c`). A header that asks for what is not known here (`crit`) is refused.

use crate::base64url;
use crate::claims::Claims;
use crate::json::{JsonFault, Value};
use crate::key::{Algorithm, KEY_ID_BYTES_MAX};
use crate::key_set::KeySet;
use std::borrow::Cow;
use thiserror::Error;

/// Of the whole token, where nobody says otherwise. Those with hundreds of groups have six kilobytes.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Of the header, as it is written. Its names are compared with each other before anything is verified.
pub const HEADER_BYTES_MAX: usize = 4096;
/// Keys that one token is tried with: each costs a signature's verification.
pub const CANDIDATES_MAX: usize = 4;

/// Why a token is refused. The words continue "the token …", and repeat nothing that stands in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenFault {
    #[error("is longer than may be")]
    TooLong,
    /// Encrypted ones (RFC 7516) have five.
    #[error("is not three texts with dots between them")]
    Shape,
    #[error("is not written in base64url without padding")]
    Encoding,
    #[error("has a header that {0}")]
    Header(JsonFault),
    #[error("has a header without a readable `alg`, `kid` or `typ`")]
    HeaderMember,
    /// Of `none`, too.
    #[error("says that it is signed in a way that is not accepted")]
    UnknownAlgorithm,
    #[error("has a critical extension (`crit`)")]
    Critical,
    /// Keys that are newer than those at hand may have it.
    #[error("is signed by a key that is not among those of its issuer")]
    UnknownKey,
    #[error("names no key, and too many of its issuer's may have signed it")]
    AmbiguousKey,
    #[error("is signed in a way that its key is not for")]
    AlgorithmOfKey,
    #[error("has a wrong signature")]
    Signature,
    #[error("has claims that {0}")]
    Claims(JsonFault),
    #[error("has an `exp`, `nbf`, `iss` or `aud` that cannot be read")]
    ClaimOfOtherType,
    #[error("has no time at which it ends (`exp`)")]
    NoExpiry,
    #[error("has expired")]
    Expired,
    #[error("is not valid yet")]
    NotYetValid,
    #[error("was issued by somebody else")]
    Issuer,
    #[error("is for somebody else (`aud`)")]
    Audience,
    #[error("is of another type (`typ`)")]
    Type,
}

impl TokenFault {
    /// The code for log and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            TokenFault::TooLong
            | TokenFault::Shape
            | TokenFault::Encoding
            | TokenFault::Header(_)
            | TokenFault::HeaderMember
            | TokenFault::UnknownAlgorithm
            | TokenFault::Critical
            | TokenFault::Claims(_)
            | TokenFault::ClaimOfOtherType => "token_malformed",
            TokenFault::UnknownKey | TokenFault::AmbiguousKey => "token_key_unknown",
            TokenFault::AlgorithmOfKey | TokenFault::Signature => "token_signature",
            TokenFault::NoExpiry | TokenFault::Expired => "token_expired",
            TokenFault::NotYetValid => "token_too_early",
            TokenFault::Issuer | TokenFault::Audience | TokenFault::Type => "token_for_others",
        }
    }
}

/// A token taken apart. Nothing of it is true yet.
#[derive(Debug)]
pub struct Jws<'t> {
    /// What was signed.
    message: &'t [u8],
    payload: Vec<u8>,
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: Option<Box<str>>,
    kind: Option<Box<str>>,
}

impl<'t> Jws<'t> {
    pub fn parse(token: &'t [u8], bytes_max: usize) -> Result<Jws<'t>, TokenFault> {
        if token.len() > bytes_max {
            return Err(TokenFault::TooLong);
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let (Some(header), Some(payload), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenFault::Shape);
        };
        if header.is_empty() || signature.is_empty() {
            return Err(TokenFault::Shape);
        }
        if header.len() > HEADER_BYTES_MAX {
            return Err(TokenFault::TooLong);
        }
        let message = &token[..header.len() + 1 + payload.len()];
        let decode = |part| base64url::decode(part).ok_or(TokenFault::Encoding);
        let header = decode(header)?;
        let (algorithm, key_id, kind) = read_header(&header)?;
        Ok(Jws { message, payload: decode(payload)?, signature: decode(signature)?, algorithm, key_id, kind })
    }

    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Who the token says has issued it, to find the keys that it may be verified with.
    pub fn issuer_said(&self) -> Option<Cow<'_, str>> {
        Value::parse_unvouched(&self.payload).ok()?.member("iss")?.text()
    }

    /// Whether one of these keys has signed the token.
    pub fn verify(&self, keys: &KeySet) -> Result<(), TokenFault> {
        let mut tried = 0;
        for key in keys.candidates(self.key_id(), self.algorithm) {
            if tried >= CANDIDATES_MAX {
                return Err(TokenFault::AmbiguousKey);
            }
            tried += 1;
            if key.verifies(self.algorithm, self.message, &self.signature) {
                return Ok(());
            }
        }
        match self.key_id() {
            Some(id) if !keys.has(id) => Err(TokenFault::UnknownKey),
            _ if tried == 0 => Err(TokenFault::AlgorithmOfKey),
            _ => Err(TokenFault::Signature),
        }
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What kind of token it says it is (`typ`).
    pub(crate) fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// What a token says, for who has verified it.
    pub fn into_claims(self) -> Result<Claims, TokenFault> {
        Claims::read(self.payload, self.kind)
    }

    #[cfg(test)]
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }
}

type Header = (Algorithm, Option<Box<str>>, Option<Box<str>>);

fn read_header(header: &[u8]) -> Result<Header, TokenFault> {
    let header = Value::parse_object(header).map_err(TokenFault::Header)?;
    let text = |name: &str| match header.member(name) {
        None => Ok(None),
        Some(value) => value.text().map(Some).ok_or(TokenFault::HeaderMember),
    };
    // RFC 7515 section 4.1.11: what is not understood must not be passed over, and nothing is.
    if header.member("crit").is_some() {
        return Err(TokenFault::Critical);
    }
    let algorithm = text("alg")?.ok_or(TokenFault::HeaderMember)?;
    let algorithm = Algorithm::of_name(&algorithm).ok_or(TokenFault::UnknownAlgorithm)?;
    let (key_id, kind) = (text("kid")?, text("typ")?);
    if key_id.as_ref().is_some_and(|id| id.len() > KEY_ID_BYTES_MAX) {
        return Err(TokenFault::HeaderMember);
    }
    Ok((algorithm, key_id.map(Into::into), kind.map(Into::into)))
}

#[cfg(test)]
mod tests;
