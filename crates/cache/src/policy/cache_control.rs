//! `Cache-Control` of requests and responses (RFC 9111 section 5.2), read so that whatever is malformed restricts and
//! never permits. What the directives lead to is in `storing` and `serving`.

use super::targeted::{self, Value};
use crate::message::{Field, has, is_token, members, values};

/// The largest number of seconds that counts (RFC 9111 section 1.2.2).
pub const DELTA_SECONDS_MAX: u64 = 1 << 31;
/// Names that a qualified `no-cache` or `private` may list; one with more counts as unqualified.
const LISTED_MAX: usize = 32;

/// A directive with seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delta {
    #[default]
    Absent,
    /// No number, or two that differ: to be taken as stale (RFC 9111 section 4.2.1).
    Invalid,
    Seconds(u64),
}

impl Delta {
    /// What it allows; an invalid one allows nothing.
    pub fn allowed(self) -> Option<u64> {
        match self {
            Delta::Absent => None,
            Delta::Invalid => Some(0),
            Delta::Seconds(seconds) => Some(seconds),
        }
    }

    fn add(&mut self, other: Delta) {
        *self = match *self {
            Delta::Absent => other,
            same if same == other => same,
            Delta::Invalid | Delta::Seconds(_) => Delta::Invalid,
        };
    }
}

/// How much of an answer `no-cache` or `private` is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scope {
    #[default]
    Nothing,
    /// These fields, in lower case.
    Fields(Vec<Vec<u8>>),
    Whole,
}

impl Scope {
    fn add(&mut self, other: Scope) {
        match (&mut *self, other) {
            (Scope::Whole, _) | (_, Scope::Nothing) => {}
            (Scope::Fields(fields), Scope::Fields(more)) if fields.len() + more.len() <= LISTED_MAX => fields.extend(more),
            (Scope::Nothing, other) => *self = other,
            (Scope::Fields(_), Scope::Fields(_) | Scope::Whole) => *self = Scope::Whole,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseDirectives {
    /// Also set by quoting that cannot be told apart: a `no-store` may be hidden in it.
    pub no_store: bool,
    pub no_cache: Scope,
    pub private: Scope,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    pub immutable: bool,
    pub max_age: Delta,
    pub s_maxage: Delta,
    pub stale_while_revalidate: Delta,
    pub stale_if_error: Delta,
    /// Whether the directives come from `CDN-Cache-Control`: then `Expires` does not count either (RFC 9213 section
    /// 2.2).
    pub is_targeted: bool,
}

impl ResponseDirectives {
    /// Of `CDN-Cache-Control` where there is one that can be read, or else as [`ResponseDirectives::read`].
    pub fn read_targeted(fields: &[Field<'_>]) -> ResponseDirectives {
        let Some(members) = targeted::dictionary(values(fields, "cdn-cache-control")) else {
            return ResponseDirectives::read(fields);
        };
        let mut directives = ResponseDirectives { is_targeted: true, ..ResponseDirectives::default() };
        for (name, value) in members {
            let argument = match value {
                Value::False => continue,
                Value::True => Argument::None,
                Value::Integer(digits) => Argument::Token(digits),
                // Only names of fields are text; seconds in quotes are malformed here.
                Value::Text(names) if matches!(name, b"no-cache" | b"private") => Argument::Quoted(names),
                Value::Text(_) | Value::Other => Argument::Malformed,
            };
            directives.add(&Directive { name, argument });
        }
        directives
    }

    pub fn read(fields: &[Field<'_>]) -> ResponseDirectives {
        let mut directives = ResponseDirectives::default();
        for directive in values(fields, "cache-control").flat_map(members).map(Directive::read) {
            directives.add(&directive);
        }
        directives
    }

    fn add(&mut self, directive: &Directive<'_>) {
        match directive.name.to_ascii_lowercase().as_slice() {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache.add(directive.scope()),
            b"private" => self.private.add(directive.scope()),
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"immutable" => self.immutable = true,
            b"max-age" => self.max_age.add(directive.delta()),
            b"s-maxage" => self.s_maxage.add(directive.delta()),
            b"stale-while-revalidate" => self.stale_while_revalidate.add(directive.delta()),
            b"stale-if-error" => self.stale_if_error.add(directive.delta()),
            _ => {}
        }
        if matches!(directive.argument, Argument::Unclear) {
            self.no_store = true;
        }
    }
}

/// How stale an answer the client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaxStale {
    #[default]
    No,
    Seconds(u64),
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestDirectives {
    pub no_store: bool,
    pub no_cache: bool,
    pub only_if_cached: bool,
    pub max_age: Option<u64>,
    pub min_fresh: Option<u64>,
    pub max_stale: MaxStale,
}

impl RequestDirectives {
    /// With `obeys` off, only what cannot be used to reach the upstream at will is read: `no-store` and
    /// `only-if-cached`.
    pub fn read(fields: &[Field<'_>], obeys: bool) -> RequestDirectives {
        let mut read = RequestDirectives::default();
        let (mut max_age, mut min_fresh) = (Delta::Absent, Delta::Absent);
        for directive in values(fields, "cache-control").flat_map(members).map(Directive::read) {
            match directive.name.to_ascii_lowercase().as_slice() {
                b"no-store" => read.no_store = true,
                b"no-cache" => read.no_cache = true,
                b"only-if-cached" => read.only_if_cached = true,
                b"max-age" => max_age.add(directive.delta()),
                b"min-fresh" => min_fresh.add(directive.delta()),
                b"max-stale" => read.max_stale = directive.max_stale(),
                _ => {}
            }
        }
        // RFC 9111 section 5.4: Pragma is for clients that know no Cache-Control.
        if !has(fields, "cache-control") {
            read.no_cache = values(fields, "pragma").flat_map(members).any(|pragma| pragma.eq_ignore_ascii_case(b"no-cache"));
        }
        if !obeys {
            let RequestDirectives { no_store, only_if_cached, .. } = read;
            return RequestDirectives { no_store, only_if_cached, ..RequestDirectives::default() };
        }
        read.max_age = max_age.allowed();
        read.min_fresh = match min_fresh {
            Delta::Absent | Delta::Invalid => None,
            Delta::Seconds(seconds) => Some(seconds),
        };
        read
    }
}

struct Directive<'a> {
    name: &'a [u8],
    argument: Argument<'a>,
}

enum Argument<'a> {
    None,
    Token(&'a [u8]),
    /// What is between the quotes, escapes and all.
    Quoted(&'a [u8]),
    /// Blanks around the equals sign, or something that is neither token nor quoted string.
    Malformed,
    /// A quote where none belongs, or one that does not end: where this directive ends cannot be told.
    Unclear,
}

impl<'a> Directive<'a> {
    fn read(member: &'a [u8]) -> Directive<'a> {
        let Some(equals) = member.iter().position(|byte| *byte == b'=') else {
            let argument = if member.contains(&b'"') { Argument::Unclear } else { Argument::None };
            return Directive { name: member, argument };
        };
        let (name, value) = (&member[..equals], &member[equals + 1..]);
        let argument = match value {
            _ if name.contains(&b'"') => Argument::Unclear,
            [b'"', rest @ ..] => quoted(rest),
            _ if value.contains(&b'"') => Argument::Unclear,
            _ if is_token(value) && is_token(name) => Argument::Token(value),
            _ => Argument::Malformed,
        };
        let argument = if is_token(name) || matches!(argument, Argument::Unclear) { argument } else { Argument::Malformed };
        Directive { name: name.trim_ascii(), argument }
    }

    fn delta(&self) -> Delta {
        match self.argument {
            Argument::Token(digits) | Argument::Quoted(digits) => seconds(digits),
            Argument::None | Argument::Malformed | Argument::Unclear => Delta::Invalid,
        }
    }

    /// Without argument, any staleness is meant (RFC 9111 section 5.2.1.2); a malformed one allows none.
    fn max_stale(&self) -> MaxStale {
        match (&self.argument, self.delta()) {
            (Argument::None, _) => MaxStale::Any,
            (_, Delta::Seconds(seconds)) => MaxStale::Seconds(seconds),
            (_, Delta::Absent | Delta::Invalid) => MaxStale::No,
        }
    }

    /// A list that cannot be read is about the whole answer.
    fn scope(&self) -> Scope {
        let (Argument::Token(list) | Argument::Quoted(list)) = self.argument else { return Scope::Whole };
        let names: Vec<Vec<u8>> = members(list).take(LISTED_MAX + 1).map(<[u8]>::to_ascii_lowercase).collect();
        let is_list = !names.is_empty() && names.len() <= LISTED_MAX && names.iter().all(|name| is_token(name));
        if is_list { Scope::Fields(names) } else { Scope::Whole }
    }
}

/// `rest` is what comes after the opening quote.
fn quoted(rest: &[u8]) -> Argument<'_> {
    let mut is_escaped = false;
    for (place, byte) in rest.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' if place + 1 == rest.len() => return Argument::Quoted(&rest[..place]),
            b'"' if rest[place + 1..].contains(&b'"') => return Argument::Unclear,
            b'"' => return Argument::Malformed,
            _ => {}
        }
    }
    Argument::Unclear
}

/// Digits only; a number too large counts as the largest there is.
pub fn seconds(digits: &[u8]) -> Delta {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Delta::Invalid;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Delta::Seconds(digits.iter().fold(0, add).min(DELTA_SECONDS_MAX))
}

#[cfg(test)]
mod tests;
