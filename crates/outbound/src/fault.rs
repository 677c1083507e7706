//! Why there is no answer. Each is one sentence without its subject, as in "the CA …", and names the host.
//! An answer with a status that says no is no fault of this crate; its meaning is the caller's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutboundFault {
    /// Nothing was sent: the URL leads nowhere.
    #[error("cannot be asked at {url}: {problem}")]
    Url { url: String, problem: String },
    /// The roots to trust cannot be used.
    #[error("cannot be verified with the roots in {}: {problem}", .file.display())]
    Roots { file: PathBuf, problem: String },
    #[error("at {host} cannot be found: {problem}")]
    Resolve { host: String, problem: String },
    /// No address took a connection; each with its reason.
    #[error("at {host} cannot be reached: {}", joined(.attempts))]
    Connect { host: String, attempts: Vec<(SocketAddr, String)> },
    /// The server's certificate is not trusted.
    #[error("at {host} shows a certificate that is not trusted: {problem}")]
    Certificate { host: String, problem: String },
    /// Another failure of the handshake.
    #[error("at {host} cannot be spoken to over TLS: {problem}")]
    Tls { host: String, problem: String },
    #[error("at {host} timed out: {} within {total:?}", .stage.missing())]
    TimedOut { host: String, stage: Stage, total: Duration },
    /// The connection or the answer was broken off, or is no HTTP.
    #[error("at {host} {problem}")]
    Broken { host: String, problem: String },
    #[error("at {host} answers with more than {bytes_max} bytes")]
    BodyTooLarge { host: String, bytes_max: usize },
}

/// What was being waited for when the time was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Resolving,
    Connecting,
    Handshaking,
    Answering,
    /// The body of an answer that has begun.
    Continuing,
}

impl OutboundFault {
    /// Whether the same may succeed later with nothing changed on our side.
    pub fn is_transient(&self) -> bool {
        match self {
            OutboundFault::Resolve { .. } | OutboundFault::Connect { .. } | OutboundFault::Tls { .. } => true,
            OutboundFault::TimedOut { .. } | OutboundFault::Broken { .. } => true,
            OutboundFault::Url { .. } | OutboundFault::Roots { .. } => false,
            OutboundFault::Certificate { .. } | OutboundFault::BodyTooLarge { .. } => false,
        }
    }
}

impl Stage {
    fn missing(self) -> &'static str {
        match self {
            Stage::Resolving => "its name was not looked up",
            Stage::Connecting => "it took no connection",
            Stage::Handshaking => "it did not finish the TLS handshake",
            Stage::Continuing => "it sent nothing more",
            Stage::Answering => "it took the connection and did not answer",
        }
    }
}

fn joined(attempts: &[(SocketAddr, String)]) -> String {
    attempts.iter().map(|(address, problem)| format!("{address} {problem}")).collect::<Vec<_>>().join(", ")
}
