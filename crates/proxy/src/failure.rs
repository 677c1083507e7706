//! What goes wrong with a request, and whose fault it is: that decides the answer's status, the reason code in log and
//! metric, and whether another server may be tried.

use tidegate_middleware::Refusal;
use tidegate_telemetry::UpstreamError;
use tidegate_upstream::call::SendFault;
use tidegate_upstream::fault::{Progress, UpstreamFault};

/// Why the client's side of an exchange ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFault {
    /// Closed or reset, by the client or the network.
    Gone,
    /// The client did not take the answer for as long as it may stall.
    WriteStalled,
    /// Its request cannot be served on; answered where no answer has begun.
    Refused(Refusal),
}

impl ClientFault {
    /// The answer to give when none has begun; nobody is left to read one otherwise.
    pub fn refusal(self) -> Option<Refusal> {
        match self {
            ClientFault::Gone | ClientFault::WriteStalled => None,
            ClientFault::Refused(refusal) => Some(refusal),
        }
    }

    pub fn reason(self) -> &'static str {
        match self {
            ClientFault::Gone => "client_gone",
            ClientFault::WriteStalled => "client_write_stalled",
            ClientFault::Refused(refusal) => refusal.reason(),
        }
    }
}

/// What the log says of a client that left before its answer: there is no such status on the wire.
pub const STATUS_CLIENT_GONE: u16 = 499;

/// How an attempt at an upstream failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Client(ClientFault),
    Upstream(UpstreamFault),
}

impl From<SendFault> for Failure {
    fn from(fault: SendFault) -> Failure {
        match fault {
            SendFault::Upstream(fault) => Failure::Upstream(fault),
            SendFault::Unsendable(error) => Failure::Client(ClientFault::Refused(Refusal::BadBody(error))),
        }
    }
}

impl From<UpstreamFault> for Failure {
    fn from(fault: UpstreamFault) -> Failure {
        Failure::Upstream(fault)
    }
}

impl Failure {
    /// What of it was the upstream's.
    pub fn fault(&self) -> Option<UpstreamFault> {
        match self {
            Failure::Upstream(fault) => Some(*fault),
            Failure::Client(_) => None,
        }
    }

    pub fn upstream(error: UpstreamError, progress: Progress) -> Failure {
        UpstreamFault::new(error, progress).into()
    }
}
