//! `jwt`: where in a request a token stands, what its claims become, and how clients are told what is wrong
//! (RFC 6750). Whose key has signed it is found out by whoever runs the steps (`proxy`), who has the keys.

use crate::context::Scratch;
use crate::refusal::{Refusal, TokenRefusal};
use crate::template::{Target, encode};
use std::borrow::Cow;
use std::fmt::Write as _;
use tidegate_access::{Claims, Expectation, TokenFault, is_met};
use tidegate_model::{ClaimHeader, ClaimTest, Jwt, Step, TokenPlace, log_ins};
use tidegate_routing::cookie_values;
use tidegate_wire::head::{HeaderId, RequestHead};

#[derive(Debug, PartialEq, Eq)]
pub struct CompiledJwt {
    pub settings: Jwt,
    /// The beginning of each `WWW-Authenticate`.
    challenge: Box<str>,
    /// Words that `scope` has to have, for who has not.
    scope: Option<Box<str>>,
}

/// A request says twice who it is from, and others might believe the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokensUnclear;

impl CompiledJwt {
    pub fn new(jwt: &Jwt) -> CompiledJwt {
        let realm = jwt.realm.as_ref().map(|realm| realm.replace('\\', "\\\\").replace('"', "\\\""));
        let challenge = realm.map_or_else(|| "Bearer".to_owned(), |realm| format!("Bearer realm=\"{realm}\""));
        let of_scope = jwt.requirements.iter().filter_map(|requirement| match (&*requirement.claim, &requirement.test) {
            ("scope" | "scp", ClaimTest::Contains(word)) if word.bytes().all(is_of_scope) => Some(word.as_str()),
            _ => None,
        });
        let scope = of_scope.collect::<Vec<_>>().join(" ");
        CompiledJwt {
            settings: jwt.clone(),
            challenge: challenge.into(),
            scope: Some(scope).filter(|scope| !scope.is_empty()).map(Into::into),
        }
    }

    /// The token of a request: of the places where one may stand, the first that has one. None: it has none.
    pub fn token<'h>(&'h self, head: &'h RequestHead) -> Result<Option<&'h [u8]>, TokensUnclear> {
        for place in &self.settings.places {
            let found = match place {
                TokenPlace::Authorization => only(head.fields.all(HeaderId::Authorization))?.and_then(bearer),
                TokenPlace::Header(name) => {
                    only(head.fields.all_named(name.as_bytes()))?.map(|value| bearer(value).unwrap_or(value.trim_ascii()))
                }
                TokenPlace::Cookie(name) => only(cookie_values(&head.fields, name.as_bytes()))?,
                TokenPlace::Query(name) => only(parameters(head.query().unwrap_or_default(), name.as_bytes()))?,
            };
            if let Some(token) = found.filter(|token| !token.is_empty()) {
                return Ok(Some(token));
            }
        }
        Ok(None)
    }

    /// Of a field that tokens stand in, another spelling may be read by a server behind us in place of the one that was
    /// verified.
    pub fn remove_look_alikes(&self, head: &mut RequestHead) {
        for place in &self.settings.places {
            if let TokenPlace::Header(name) = place {
                head.fields.remove_look_alikes(name.as_bytes());
            }
        }
    }

    /// What a token of the issuer at that position has to be.
    pub fn expectation(&self, issuer: usize) -> Expectation<'_> {
        let of_issuer = &self.settings.issuers[issuer];
        Expectation {
            issuer: of_issuer.issuer.as_deref(),
            audiences: &of_issuer.audiences,
            kind: self.settings.kind.as_deref(),
            needs_expiry: self.settings.needs_expiry,
            leeway: self.settings.leeway.as_secs_f64(),
        }
    }

    /// Whether the claims are what is required of them.
    pub fn is_enough(&self, claims: &Claims) -> bool {
        self.settings.requirements.iter().all(|requirement| is_met(requirement, claims))
    }

    /// Tells the upstream what the claims say. Of a claim that is not there, or that a field would say otherwise,
    /// nothing is said.
    pub fn apply(&self, head: &mut RequestHead, claims: &Claims, scratch: &mut Scratch) {
        tell_claims(&self.settings.headers, head, claims, scratch);
        self.remove_tokens(head);
    }

    /// Takes tokens out of fields of their own, where they are not for the upstream. What stands in `Authorization`
    /// goes when all steps have seen it.
    pub fn remove_tokens(&self, head: &mut RequestHead) {
        if !self.settings.forwards {
            for place in &self.settings.places {
                if let TokenPlace::Header(name) = place {
                    head.fields.remove_spellings(name.as_bytes());
                }
            }
        }
    }

    /// The value of `WWW-Authenticate` beside a refusal, where that is one of its own.
    pub fn challenge_of(&self, refusal: Refusal) -> Option<Cow<'_, str>> {
        if let Refusal::Token(token) = refusal { self.challenge(token).map(Cow::Owned) } else { None }
    }

    /// The value of `WWW-Authenticate` for a refusal, where it is the client's to do something.
    pub fn challenge(&self, refusal: TokenRefusal) -> Option<String> {
        // RFC 6750 section 3.1: without a token nothing is said but what is wanted.
        let (error, description): (&str, Option<TokenFault>) = match refusal {
            TokenRefusal::Missing => return Some(self.challenge.to_string()),
            TokenRefusal::Refused(fault) => ("invalid_token", Some(fault)),
            TokenRefusal::Unclear => ("invalid_request", None),
            TokenRefusal::NotEnough => ("insufficient_scope", None),
            TokenRefusal::KeysMissing => return None,
        };
        let separator = if self.settings.realm.is_some() { "," } else { "" };
        let mut value = format!("{}{separator} error=\"{error}\"", self.challenge);
        if let Some(fault) = description {
            let _ = write!(value, ", error_description=\"the token {}\"", fault.to_string().replace(['"', '\\'], ""));
        }
        if let (TokenRefusal::NotEnough, Some(scope)) = (refusal, &self.scope) {
            let _ = write!(value, ", scope=\"{scope}\"");
        }
        Some(value)
    }
}

/// Sets the fields that claims are told by. What a client has said there in any spelling goes.
pub(crate) fn tell_claims(headers: &[ClaimHeader], head: &mut RequestHead, claims: &Claims, scratch: &mut Scratch) {
    let mut text = Vec::new();
    for header in headers {
        head.fields.remove_spellings(header.name.as_bytes());
        text.clear();
        if claims.write_field(&header.claim, &mut text) {
            scratch.rendered.clear();
            encode(Target::HeaderValue, &text, &mut scratch.rendered);
            head.fields.push(header.name.as_bytes(), scratch.rendered.trim_ascii());
        }
    }
}

/// The step that counts among those of a site and of one of its routes.
pub fn jwt_of<'s>(site_steps: &'s [Step], route_steps: &'s [Step]) -> Option<&'s Jwt> {
    log_ins(site_steps, route_steps).flat_map(Step::parts).find_map(|step| match step {
        Step::Jwt(Some(jwt)) => Some(&**jwt),
        _ => None,
    })
}

pub(crate) fn only<'h>(mut values: impl Iterator<Item = &'h [u8]>) -> Result<Option<&'h [u8]>, TokensUnclear> {
    let first = values.next();
    if values.next().is_some() { Err(TokensUnclear) } else { Ok(first) }
}

/// RFC 6750 section 2.1. Another scheme is nobody's token.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(b"Bearer".len())?;
    // A tab is no separator (RFC 9110 section 11.4), but servers take it for one: then it is a token here as well.
    let is_apart = matches!(rest.first(), Some(b' ' | b'\t'));
    (scheme.eq_ignore_ascii_case(b"Bearer") && is_apart).then(|| rest.trim_ascii())
}

/// Values as they are written: what a token is made of needs no encoding. A name that is encoded is the same to whoever
/// reads the query behind us, so that it counts.
pub(crate) fn parameters<'q>(query: &'q [u8], name: &'q [u8]) -> impl Iterator<Item = &'q [u8]> {
    query.split(|byte| *byte == b'&').filter_map(move |pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        decoded(&pair[..equals]).eq(name.iter().copied()).then(|| &pair[equals + 1..])
    })
}

/// What triplets of `%` stand for, and all else as it is.
pub(crate) fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (byte, length) = match *rest {
            [b'%', high, low, ..] => match (hexadecimal(high), hexadecimal(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (b'%', 1),
            },
            [byte, ..] => (byte, 1),
            [] => return None,
        };
        rest = &rest[length..];
        Some(byte)
    })
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

/// RFC 6749 section 3.3.
fn is_of_scope(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests;
