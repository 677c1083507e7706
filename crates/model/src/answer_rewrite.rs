//! `rewrite-location`, `rewrite-cookie-path` and `rewrite-cookie-domain`: what a server's answers say of where
//! something is, said otherwise. What follows from the prefix of an application by itself is `rewrite-location=#true`
//! of `proxy`.

use crate::placeholder::Template;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerRewrite {
    pub part: AnswerPart,
    pub from: RewrittenText,
    /// What stands in its place; `{host}` and `{scheme}` alone, since answers may be kept for others.
    pub to: Template,
}

impl AnswerRewrite {
    /// Each is looked at for every field of an answer.
    pub const RULES_MAX: usize = 32;
}

/// Which part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPart {
    /// `Location`, and the address in `Refresh`.
    Location,
    /// `Path` of a cookie.
    CookiePath,
    /// `Domain` of a cookie.
    CookieDomain,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewrittenText {
    /// The beginning of a location or a path, of which the rest stays; the whole of a domain, in any case.
    Plain(String),
    /// An expression that is found anywhere; all of the text is replaced.
    Expression(String),
}
