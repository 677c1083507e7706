//! A request as it is sent to both servers, and why one of a log is not.

use std::fmt;

/// Fields that one request may have.
pub const FIELDS_MAX: usize = 100;

/// A request. Its target is sent as it is, byte for byte, so that what servers make of odd ones is seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// Where it begins in what was read.
    pub line: usize,
    pub method: String,
    /// In origin form, or `*`.
    pub target: Vec<u8>,
    pub host: Option<Vec<u8>>,
    /// Without `Host`, and without those of a connection and of a body.
    pub fields: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl Request {
    /// By RFC 9110 section 9.2.1: to ask for it changes nothing.
    pub fn is_safe(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE")
    }

    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }

    /// Sets a field, in place of those of the same name.
    pub fn set_field(&mut self, name: &str, value: &[u8]) {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.fields.push((name.to_owned(), value.to_vec()));
    }
}

/// Why a line of an access log is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftOut {
    /// A method that may change something, where nobody said that all are to be sent.
    Unsafe,
    /// A tunnel, or a connection that became something else than HTTP.
    Tunnel,
    /// The log has its beginning only.
    CutShort,
    /// The client did not send a request that can be sent again.
    NoRequest,
    /// Not a line of a form that is known.
    Unknown,
    /// Longer than a line may be.
    TooLong,
}

impl LeftOut {
    /// For programs.
    pub fn word(self) -> &'static str {
        match self {
            LeftOut::Unsafe => "unsafe_method",
            LeftOut::Tunnel => "tunnel",
            LeftOut::CutShort => "cut_short",
            LeftOut::NoRequest => "no_request",
            LeftOut::Unknown => "unknown_line",
            LeftOut::TooLong => "too_long",
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::Unsafe => {
                "with a method that may change something; --all-methods sends them, without a body where a log has none"
            }
            LeftOut::Tunnel => "tunnels and WebSockets, which have no answer to compare",
            LeftOut::CutShort => "of which the log has the beginning only",
            LeftOut::NoRequest => "without a request that could be sent again",
            LeftOut::Unknown => "in no known form",
            LeftOut::TooLong => "that are too long",
        })
    }
}

/// Letters of methods and of names of fields (RFC 9110 section 5.6.2).
pub fn is_token(text: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_letter)
}

/// What can stand in a request line: no blank, no control character.
pub fn is_target(target: &[u8]) -> bool {
    let is_form = target.starts_with(b"/") || target == b"*";
    is_form && target.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

/// What can stand in a field: a value cannot end its line.
pub fn is_value(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

/// A whole field, for those that are given to all requests.
pub fn is_field(name: &str, value: &str) -> bool {
    is_token(name.as_bytes()) && is_value(value.as_bytes())
}

/// A host as `Host` has it: something without a blank, a slash or a control character.
pub fn is_host(host: &[u8]) -> bool {
    !host.is_empty() && host.iter().all(|byte| *byte > b' ' && *byte != 0x7f && !b"/?#@\\\"".contains(byte))
}

/// Fields that are written anew for each server, or would make of a request something else than one with an answer.
pub fn is_of_connection(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "connection",
        "content-length",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The target and the host of `/path`, `*` or `http://host/path`.
pub fn split_target(text: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let Some(rest) = after_scheme(text) else {
        return is_target(text).then(|| (text.to_vec(), None));
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (host, rest) = rest.split_at(end);
    let target = if rest.starts_with(b"/") { rest.to_vec() } else { [b"/", rest].concat() };
    (is_host(host) && is_target(&target)).then(|| (target, Some(host.to_vec())))
}

fn after_scheme(text: &[u8]) -> Option<&[u8]> {
    let behind = |scheme: &[u8]| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    behind(b"http://").or_else(|| behind(b"https://"))
}
