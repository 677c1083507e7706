//! Why there is no answer. Each is one sentence without its subject, as in "the CA …", and names the host.
//! An answer with a status that says no is no fault of this crate; its meaning is the caller's.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboundFault {
    /// Nothing was sent: the URL leads nowhere.
    Url {
        url: String,
        problem: String,
    },
    /// The roots to trust cannot be used.
    Roots {
        file: PathBuf,
        problem: String,
    },
    Resolve {
        host: String,
        problem: String,
    },
    /// No address took a connection; each with its reason.
    Connect {
        host: String,
        attempts: Vec<(SocketAddr, String)>,
    },
    /// The server's certificate is not trusted.
    Certificate {
        host: String,
        problem: String,
    },
    /// Another failure of the handshake.
    Tls {
        host: String,
        problem: String,
    },
    TimedOut {
        host: String,
        stage: Stage,
        total: Duration,
    },
    /// The connection or the answer was broken off, or is no HTTP.
    Broken {
        host: String,
        problem: String,
    },
    BodyTooLarge {
        host: String,
        bytes_max: usize,
    },
}

/// What was being waited for when the time was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Resolving,
    Connecting,
    Handshaking,
    Answering,
}

impl OutboundFault {
    /// Whether the same may succeed later with nothing changed on our side.
    pub fn is_transient(&self) -> bool {
        match self {
            OutboundFault::Resolve { .. }
            | OutboundFault::Connect { .. }
            | OutboundFault::Tls { .. }
            | OutboundFault::TimedOut { .. }
            | OutboundFault::Broken { .. } => true,
            OutboundFault::Url { .. }
            | OutboundFault::Roots { .. }
            | OutboundFault::Certificate { .. }
            | OutboundFault::BodyTooLarge { .. } => false,
        }
    }

    /// Whether the request may have arrived although there is no answer; what is not safe to repeat is then better
    /// looked up.
    pub fn may_have_arrived(&self) -> bool {
        match self {
            OutboundFault::TimedOut { stage: Stage::Answering, .. }
            | OutboundFault::Broken { .. }
            | OutboundFault::BodyTooLarge { .. } => true,
            OutboundFault::TimedOut { stage: Stage::Resolving | Stage::Connecting | Stage::Handshaking, .. }
            | OutboundFault::Url { .. }
            | OutboundFault::Roots { .. }
            | OutboundFault::Resolve { .. }
            | OutboundFault::Connect { .. }
            | OutboundFault::Certificate { .. }
            | OutboundFault::Tls { .. } => false,
        }
    }
}

impl fmt::Display for OutboundFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutboundFault::Url { url, problem } => write!(f, "cannot be asked at {url}: {problem}"),
            OutboundFault::Roots { file, problem } => {
                write!(f, "cannot be verified with the roots in {}: {problem}", file.display())
            }
            OutboundFault::Resolve { host, problem } => write!(f, "at {host} cannot be found: {problem}"),
            OutboundFault::Connect { host, attempts } => {
                write!(f, "at {host} cannot be reached: ")?;
                for (index, (address, problem)) in attempts.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{address} {problem}")?;
                }
                Ok(())
            }
            OutboundFault::Certificate { host, problem } => {
                write!(f, "at {host} shows a certificate that is not trusted: {problem}")
            }
            OutboundFault::Tls { host, problem } => write!(f, "at {host} cannot be spoken to over TLS: {problem}"),
            OutboundFault::TimedOut { host, stage, total } => {
                let what = match stage {
                    Stage::Resolving => "its name was not looked up",
                    Stage::Connecting => "it took no connection",
                    Stage::Handshaking => "it did not finish the TLS handshake",
                    Stage::Answering => "it took the connection and did not answer",
                };
                write!(f, "at {host} timed out: {what} within {total:?}")
            }
            OutboundFault::Broken { host, problem } => write!(f, "at {host} {problem}"),
            OutboundFault::BodyTooLarge { host, bytes_max } => write!(f, "at {host} answers with more than {bytes_max} bytes"),
        }
    }
}

impl std::error::Error for OutboundFault {}
