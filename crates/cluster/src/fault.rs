//! Why the API server was of no use. Each is a sentence without its subject, as in "the API server …".

use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;
use tidegate_outbound::OutboundFault;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// The process runs in no pod, and nobody says where the API server is.
    #[error("is unknown: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is no pod")]
    NoCluster,
    /// What a pod has of its service account is not there.
    #[error("cannot be asked: {}: {problem}", .file.display())]
    NoAccount { file: PathBuf, problem: String },
    /// A token over plain HTTP to another machine.
    #[error("is not asked at {url}: the token would go over the network in plain text; write `https://`")]
    Exposed { url: String },
    /// Nothing was sent, for a reason of this machine.
    #[error("cannot be asked: {problem}")]
    Unasked { problem: String },
    #[error("{0}")]
    Outbound(#[from] OutboundFault),
    /// Status 401: the token is not, or no longer, one of an account. A new one may be on its way.
    #[error("does not know the account: {message}")]
    Unauthorized { message: String },
    /// Status 403: the account may not do this.
    #[error("refuses it: {message}")]
    Forbidden { message: String },
    /// Status 404: the kind or the object is not there.
    #[error("does not have it: {message}")]
    Missing { message: String },
    /// Status 410: the version that was asked from is forgotten.
    #[error("has forgotten the version that was asked from: {message}")]
    Gone { message: String },
    /// Status 409: somebody else was faster.
    #[error("has a newer version of it: {message}")]
    Conflict { message: String },
    /// Status 429, or 5xx: the same may succeed later.
    #[error("has no time: {message}")]
    Busy { message: String, retry_after: Option<Duration> },
    #[error("refuses it with status {status}: {message}")]
    Refused { status: u16, message: String },
    /// An answer that is not what was asked for.
    #[error("answers something else than was asked for: {problem}")]
    Unreadable { problem: String },
    #[error("sends a line of more than {bytes_max} bytes")]
    LineTooLong { bytes_max: usize },
}
