//! Why a request got no right answer, and the name under which it is counted.
//! The kinds are a closed set, so that reports of different runs and peers can be put side by side.

use std::fmt;
use std::io;

use crate::client::response::BadResponse;

#[derive(Debug)]
pub enum Failure {
    /// Nobody listens.
    Refused,
    Reset,
    /// The end of the stream instead of an answer, or within it.
    Closed {
        within_answer: bool,
    },
    /// No complete answer within the time that a request has.
    TimedOut,
    Tls(String),
    /// A complete answer with another status than was expected.
    Status(u16),
    /// Not HTTP, or another body than was expected.
    Wrong(BadResponse),
    Http2(String),
    Other(io::Error),
}

impl Failure {
    pub fn kind(&self) -> String {
        match self {
            Failure::Refused => "refused".into(),
            Failure::Reset => "reset".into(),
            Failure::Closed { .. } => "closed".into(),
            Failure::TimedOut => "timed out".into(),
            Failure::Tls(_) => "TLS".into(),
            Failure::Status(status) => format!("status {status}"),
            Failure::Wrong(_) => "wrong answer".into(),
            Failure::Http2(_) => "HTTP/2".into(),
            Failure::Other(_) => "other".into(),
        }
    }

    /// On a connection that has rested, before a byte of the answer: the server closed it while the request was on its
    /// way, and every client library sends such a request again.
    pub fn may_be_sent_again(&self) -> bool {
        matches!(self, Failure::Reset | Failure::Closed { within_answer: false })
    }

    /// The connection is as good as before.
    pub fn leaves_connection_usable(&self) -> bool {
        matches!(self, Failure::Status(_))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Failure::Refused,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => Failure::Reset,
            io::ErrorKind::UnexpectedEof => Failure::Closed { within_answer: false },
            _ => Failure::Other(error),
        }
    }
}

impl From<BadResponse> for Failure {
    fn from(bad: BadResponse) -> Failure {
        Failure::Wrong(bad)
    }
}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Failure {
        let text = error.to_string();
        match error.into_io() {
            Some(io) => io.into(),
            None => Failure::Http2(text),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused => f.write_str("connection refused"),
            Failure::Reset => f.write_str("connection reset"),
            Failure::Closed { within_answer: false } => f.write_str("closed before the answer"),
            Failure::Closed { within_answer: true } => f.write_str("closed within the answer"),
            Failure::TimedOut => f.write_str("no answer in time"),
            Failure::Tls(error) => write!(f, "TLS: {error}"),
            Failure::Status(status) => write!(f, "status {status} instead of 200"),
            Failure::Wrong(bad) => bad.fmt(f),
            Failure::Http2(error) => write!(f, "HTTP/2: {error}"),
            Failure::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}
