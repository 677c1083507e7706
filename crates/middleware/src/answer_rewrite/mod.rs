//! `rewrite-location`, `rewrite-cookie-path`, `rewrite-cookie-domain`: rules for what a server's answers say of where
//! something is. What follows from a prefix that was taken off is translated in `mount`.
//!
//! A server's text is no more trusted than a client's: what is made of it never begins another attribute of a cookie,
//! names no other host where a path was named, and adds no more than [`GROWTH_MAX`] to a head.

#[cfg(test)]
mod tests;

use crate::compile_error::CompileError;
use crate::context::View;
use crate::mount::{NewAttribute, is_of_host, refreshed, with_attributes};
use crate::template::{CompiledTemplate, Found, Target};
use regex::bytes::Regex;
use tidegate_model::{AnswerPart, AnswerRewrite, PathExpressions, RewrittenText, expression};
use tidegate_wire::head::{Fields, HeaderId};

/// What all rules may add to one head; a field that would be too much stays as it is.
const GROWTH_MAX: usize = 64 << 10;

#[derive(Debug)]
pub struct AnswerRewrites {
    rules: Box<[AnswerRule]>,
}

#[derive(Debug)]
struct AnswerRule {
    part: AnswerPart,
    from: From,
    to: CompiledTemplate,
}

#[derive(Debug)]
enum From {
    Plain(Box<[u8]>),
    Expression(Regex),
}

impl AnswerRewrites {
    /// `None` where there is no rule.
    pub fn new(rules: &[AnswerRewrite]) -> Result<Option<Box<AnswerRewrites>>, CompileError> {
        let rules = rules.iter().map(AnswerRule::new).collect::<Result<Box<[AnswerRule]>, _>>()?;
        Ok((!rules.is_empty()).then(|| Box::new(AnswerRewrites { rules })))
    }

    /// `view` is of the request that is answered.
    pub fn apply(&self, view: View<'_>, fields: &mut Fields) {
        let mut left = GROWTH_MAX;
        fields.change_values(|id, name, value| {
            let changed = match id {
                HeaderId::Location => self.rewritten(AnswerPart::Location, value, view),
                HeaderId::SetCookie => self.cookie(value, view),
                HeaderId::Other if name.eq_ignore_ascii_case(b"refresh") => {
                    refreshed(value, |address| self.rewritten(AnswerPart::Location, address, view))
                }
                _ => None,
            }?;
            left = left.checked_sub(changed.len())?;
            Some(changed)
        });
    }

    /// What the first rule that fits makes of it.
    fn rewritten(&self, part: AnswerPart, text: &[u8], view: View<'_>) -> Option<Vec<u8>> {
        let rule = self.rules.iter().filter(|rule| rule.part == part).find(|rule| rule.fits(text))?;
        rule.rewritten(text, view).filter(|made| made != text)
    }

    /// RFC 6265 section 4.1.1. A cookie whose name begins with `__Host-` keeps the path and the domain that browsers
    /// want.
    fn cookie(&self, value: &[u8], view: View<'_>) -> Option<Vec<u8>> {
        if is_of_host(value) {
            return None;
        }
        with_attributes(value, |name, text| {
            let made = if name.eq_ignore_ascii_case(b"path") {
                self.rewritten(AnswerPart::CookiePath, text, view).map(NewAttribute::Path)
            } else if name.eq_ignore_ascii_case(b"domain") {
                self.rewritten(AnswerPart::CookieDomain, text, view).map(NewAttribute::Domain)
            } else {
                None
            };
            made.unwrap_or(NewAttribute::AsItIs)
        })
    }
}

impl AnswerRule {
    fn new(rule: &AnswerRewrite) -> Result<AnswerRule, CompileError> {
        let AnswerRewrite { part, from, to } = rule;
        let target = match part {
            AnswerPart::Location => Target::Url,
            AnswerPart::CookiePath | AnswerPart::CookieDomain => Target::HeaderValue,
        };
        let to = CompiledTemplate::new(to, target);
        let (from, groups) = match from {
            RewrittenText::Plain(text) => (From::Plain(text.as_bytes().into()), 0),
            RewrittenText::Expression(text) => {
                let regex = expression(text).build()?;
                let groups = regex.captures_len();
                (From::Expression(regex), groups)
            }
        };
        match to.capture_max() {
            Some(number) if number >= groups => Err(CompileError::NoSuchCapture(number)),
            Some(_) | None => Ok(AnswerRule { part: *part, from, to }),
        }
    }

    fn fits(&self, text: &[u8]) -> bool {
        match (&self.from, self.part) {
            (From::Plain(domain), AnswerPart::CookieDomain) => without_dot(text).eq_ignore_ascii_case(without_dot(domain)),
            (From::Plain(start), AnswerPart::Location | AnswerPart::CookiePath) => text.starts_with(start),
            (From::Expression(regex), _) => regex.is_match(text),
        }
    }

    /// What a text becomes that fits. `None`: nothing that may stand there.
    fn rewritten(&self, text: &[u8], view: View<'_>) -> Option<Vec<u8>> {
        let mut made = Vec::new();
        match &self.from {
            From::Plain(start) => {
                self.to.render(view, &mut made);
                let rest = if self.part == AnswerPart::CookieDomain { b"" } else { &text[start.len()..] };
                // Where both have one, a slash is one slash.
                let is_twice = made.last() == Some(&b'/') && rest.first() == Some(&b'/');
                made.extend_from_slice(&rest[usize::from(is_twice)..]);
            }
            From::Expression(regex) => {
                let found = regex.captures(text).map(|captures| Found { captures, expressions: PathExpressions::Encoded });
                self.to.render_captures(view, found.as_ref(), &mut made);
            }
        }
        match self.part {
            AnswerPart::Location => self.keep_host(&mut made),
            AnswerPart::CookiePath if made.first() != Some(&b'/') || ends_attribute(&made) => return None,
            AnswerPart::CookieDomain if ends_attribute(&made) => return None,
            AnswerPart::CookiePath | AnswerPart::CookieDomain => {}
        }
        (!made.is_empty()).then_some(made)
    }

    /// `//host` is another host to who reads it, and a backslash is a slash to browsers: what a rule makes a path of is
    /// one of this host, unless the rule says otherwise.
    fn keep_host(&self, made: &mut Vec<u8>) {
        if !self.to.literal_start().starts_with(b"//") {
            let slashes = made.iter().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
            made.drain(1.min(slashes)..slashes);
        }
    }
}

fn ends_attribute(text: &[u8]) -> bool {
    text.iter().any(|byte| *byte == b';' || byte.is_ascii_control())
}

fn without_dot(domain: &[u8]) -> &[u8] {
    domain.strip_prefix(b".").unwrap_or(domain)
}
