//! What a token says of whom it was given to, and of itself: when it holds, who issued it and for whom. Claims are
//! looked up where they stand in its text.

use crate::json::Value;
use crate::jws::TokenFault;
use std::borrow::Cow;

/// Of a token that was verified.
#[derive(Debug)]
pub struct Claims {
    /// An object of JSON, checked.
    text: Box<str>,
    /// In seconds of Unix time.
    expires: Option<f64>,
    not_before: Option<f64>,
    kind: Option<Box<str>>,
}

/// What a token has to be for somebody who takes it.
#[derive(Debug, Clone, Copy)]
pub struct Expectation<'e> {
    /// Any, when it is left out.
    pub issuer: Option<&'e str>,
    /// Whom it may be for: one of them; anybody, when there are none.
    pub audiences: &'e [String],
    pub kind: Option<&'e str>,
    /// Tokens without `exp` hold for ever, and only who says so takes them.
    pub needs_expiry: bool,
    /// How far clocks may be apart, in seconds.
    pub leeway: f64,
}

impl Claims {
    pub(crate) fn read(payload: Vec<u8>, kind: Option<Box<str>>) -> Result<Claims, TokenFault> {
        let whole = Value::parse_object(&payload).map_err(TokenFault::Claims)?;
        let time = |name: &str| match whole.member(name) {
            None => Ok(None),
            Some(value) => value.number().map(Some).ok_or(TokenFault::ClaimOfOtherType),
        };
        let (expires, not_before) = (time("exp")?, time("nbf")?);
        let text = whole.raw().into();
        Ok(Claims { text, expires, not_before, kind })
    }

    /// What is known otherwise than by a token, such as in tests of who uses them.
    pub fn of_text(text: &str) -> Result<Claims, TokenFault> {
        Claims::read(text.into(), None)
    }

    fn whole(&self) -> Value<'_> {
        Value::known(&self.text)
    }

    pub fn bytes(&self) -> usize {
        self.text.len() + self.kind.as_ref().map_or(0, |kind| kind.len())
    }

    /// When nobody takes it any more.
    pub fn ends(&self, leeway: f64) -> Option<f64> {
        self.expires.map(|expires| expires + leeway)
    }

    /// Whether the token holds now, and is meant for whoever expects this of it.
    pub fn check(&self, expected: &Expectation<'_>, now_unix: f64) -> Result<(), TokenFault> {
        match self.expires {
            None if expected.needs_expiry => return Err(TokenFault::NoExpiry),
            // RFC 7519 section 4.1.4: on or after that time it is not taken.
            Some(expires) if now_unix >= expires + expected.leeway => return Err(TokenFault::Expired),
            None | Some(_) => {}
        }
        if self.not_before.is_some_and(|not_before| now_unix < not_before - expected.leeway) {
            return Err(TokenFault::NotYetValid);
        }
        if let Some(issuer) = expected.issuer {
            let said = self.text_of("iss")?.ok_or(TokenFault::Issuer)?;
            if said != issuer {
                return Err(TokenFault::Issuer);
            }
        }
        if !expected.audiences.is_empty() && !self.is_for(expected.audiences)? {
            return Err(TokenFault::Audience);
        }
        match expected.kind {
            Some(kind) if !self.kind.as_deref().is_some_and(|said| is_same_type(said, kind)) => Err(TokenFault::Type),
            Some(_) | None => Ok(()),
        }
    }

    fn text_of(&self, name: &str) -> Result<Option<Cow<'_, str>>, TokenFault> {
        let Some(value) = self.whole().member(name) else { return Ok(None) };
        value.text().map(Some).ok_or(TokenFault::ClaimOfOtherType)
    }

    /// RFC 7519 section 4.1.3: one text, or a list of them.
    fn is_for(&self, audiences: &[String]) -> Result<bool, TokenFault> {
        let Some(said) = self.whole().member("aud") else { return Ok(false) };
        let is_ours = |text: &str| audiences.iter().any(|audience| audience == text);
        if let Some(text) = said.text() {
            return Ok(is_ours(&text));
        }
        if !said.is_list() {
            return Err(TokenFault::ClaimOfOtherType);
        }
        for one in said.elements() {
            if is_ours(&one.text().ok_or(TokenFault::ClaimOfOtherType)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a claim of exactly that name is there, whatever it is.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.whole().member(name).is_some()
    }

    /// A claim by its name, or by its names from the outermost on with dots between them (`realm_access.roles`).
    pub fn claim(&self, name: &str) -> Option<Value<'_>> {
        claim_of(self.whole(), name)
    }

    /// Appends the claim as a header or a placeholder has it: text as it is, numbers and truth as they are written,
    /// lists with commas between what they hold. Objects, and lists that hold more than texts and numbers, or a text
    /// with a comma of its own, are written in JSON. False, and nothing: there is no such claim, or it is null.
    pub fn write(&self, name: &str, out: &mut Vec<u8>) -> bool {
        let Some(value) = self.claim(name).filter(|value| value.raw() != "null") else { return false };
        let stands_apart =
            |one: Value<'_>| !one.is_list() && !one.is_object() && one.text().is_none_or(|text| !text.contains(','));
        if !value.is_list() || !value.elements().all(stands_apart) {
            write_one(value, out);
            return true;
        }
        for (position, one) in value.elements().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            write_one(one, out);
        }
        true
    }
}

impl Claims {
    /// As [`write`](Self::write), of what means the same in a header field. A text with control characters or with
    /// space around it would come out as another one, which may be somebody else's name: nothing is said of it.
    pub fn write_field(&self, name: &str, out: &mut Vec<u8>) -> bool {
        let is_sayable =
            |value: Value<'_>| value.text().is_none_or(|text| text.trim() == text && !text.chars().any(char::is_control));
        let Some(value) = self.claim(name) else { return false };
        let is_said = if value.is_list() { value.elements().all(is_sayable) } else { is_sayable(value) };
        is_said && self.write(name, out)
    }
}

fn write_one(value: Value<'_>, out: &mut Vec<u8>) {
    match value.text() {
        Some(text) => out.extend_from_slice(text.as_bytes()),
        None => out.extend_from_slice(value.raw().as_bytes()),
    }
}

/// The claim of that name within an object. A name with dots that stands there as a whole comes first: those of some
/// issuers are URLs.
pub fn claim_of<'t>(object: Value<'t>, name: &str) -> Option<Value<'t>> {
    if let Some(value) = object.member(name) {
        return Some(value);
    }
    name.match_indices('.').find_map(|(dot, _)| {
        let inner = object.member(&name[..dot])?;
        claim_of(inner, &name[dot + 1..])
    })
}

/// RFC 7515 section 4.1.9: media types, whose `application/` may be left out.
pub(crate) fn is_same_type(said: &str, expected: &str) -> bool {
    const PREFIX: &str = "application/";
    let short = |name: &str| -> String {
        let name = name.to_ascii_lowercase();
        match name.strip_prefix(PREFIX) {
            Some(rest) if !rest.contains('/') => rest.to_owned(),
            Some(_) | None => name,
        }
    };
    short(said) == short(expected)
}

#[cfg(test)]
mod tests;
