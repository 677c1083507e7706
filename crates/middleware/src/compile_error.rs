//! Why a step of the model cannot be compiled. `config` finds these faults first, with their place in the file; this is
//! the second line.

use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub enum CompileError {
    Regex(regex::Error),
    /// Not a token (RFC 9110 section 5.6.2).
    HeaderName(String),
    /// Says where a message ends or belongs to one connection; the proxy writes it itself.
    ReservedHeader(String),
    /// A request has exactly one `Host`: it can be set, but not added to or removed.
    HostMustStay,
    /// `Host` set to something that is no `host[:port]`.
    NotAHost(String),
    /// The new text of a `rewrite`, or a prefix, that does not begin with `/` or has dot segments.
    NotAPath(String),
    /// `$n` with fewer groups in the pattern, or without one.
    NoSuchCapture(usize),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Regex(error) => error.fmt(f),
            CompileError::HeaderName(name) => write!(f, "`{name}` is not a header name"),
            CompileError::ReservedHeader(name) => write!(f, "`{name}` is written by the proxy itself and cannot be changed"),
            CompileError::HostMustStay => write!(f, "`Host` can be set, but not added or removed: a request has exactly one"),
            CompileError::NotAHost(text) => write!(f, "`{text}` is not a host"),
            CompileError::NotAPath(text) => write!(f, "`{text}` does not begin with `/`, or has dot segments"),
            CompileError::NoSuchCapture(number) => write!(f, "the pattern has no group for `${number}`"),
        }
    }
}

impl std::error::Error for CompileError {}

impl From<regex::Error> for CompileError {
    fn from(error: regex::Error) -> CompileError {
        CompileError::Regex(error)
    }
}
