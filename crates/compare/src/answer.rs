//! What a server answered, as far as it is kept to be compared.

use std::fmt;

/// A final answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// As they came; names in any case.
    pub headers: Vec<(String, Vec<u8>)>,
    pub trailers: Vec<(String, Vec<u8>)>,
    pub body: Body,
}

/// The beginning of a body, and a digest of all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body {
    pub kept: Vec<u8>,
    pub bytes: u64,
    pub digest: Vec<u8>,
}

impl Body {
    pub fn is_whole(&self) -> bool {
        self.kept.len() as u64 == self.bytes
    }
}

impl Answer {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Answered(Answer),
    Failed(Failure),
}

impl Outcome {
    pub fn status(&self) -> Option<u16> {
        match self {
            Outcome::Answered(answer) => Some(answer.status),
            Outcome::Failed(_) => None,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Closed or reset before an answer had begun, which servers do on purpose as well.
    Closed,
    /// The answer began, and its end did not come.
    CutShort,
    TimedOut,
    /// No connection, no TLS, or no HTTP; with the reason.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Closed => f.write_str("closes the connection"),
            Failure::CutShort => f.write_str("breaks off its answer"),
            Failure::TimedOut => f.write_str("does not answer in time"),
            Failure::Other(why) => f.write_str(why),
        }
    }
}
