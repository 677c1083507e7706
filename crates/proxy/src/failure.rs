//! What goes wrong with a request, and whose fault it is: that decides the answer's status, the reason code in log and
//! metric, and whether another server may be tried.

use tidegate_middleware::Refusal;
use tidegate_telemetry::UpstreamError;
use tidegate_upstream::call::SendFault;
use tidegate_upstream::fault::{Progress, UpstreamFault};
use tidegate_wire::BodyError;

/// Why the client's side of an exchange ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFault {
    /// Closed or reset, by the client or the network.
    Gone,
    BodyTooSlow,
    BodyTooLarge,
    /// The body's length has to be known before it is passed on, and it is too long to be found out.
    LengthUnstated,
    BadBody(BodyError),
    /// The body is not what its `Content-Encoding` says.
    BadCoding,
    /// Decoded, it becomes far more than was sent.
    Bomb,
    /// The client did not take the answer for as long as it may stall.
    WriteStalled,
}

impl ClientFault {
    /// The answer to give when none has begun; nobody is left to read one otherwise.
    pub fn refusal(self) -> Option<Refusal> {
        match self {
            ClientFault::Gone | ClientFault::WriteStalled => None,
            ClientFault::BodyTooSlow => Some(Refusal::BODY_TOO_SLOW),
            ClientFault::BodyTooLarge => Some(Refusal::BODY_TOO_LARGE),
            ClientFault::LengthUnstated => Some(Refusal::LENGTH_UNSTATED),
            ClientFault::BadCoding => Some(Refusal::BAD_CODING),
            ClientFault::Bomb => Some(Refusal::BOMB),
            ClientFault::BadBody(error) => Some(Refusal { status: 400, reason: error.reason(), setting: None }),
        }
    }

    pub fn reason(self) -> &'static str {
        match self {
            ClientFault::Gone => "client_gone",
            ClientFault::WriteStalled => "client_write_stalled",
            ClientFault::BodyTooSlow => Refusal::BODY_TOO_SLOW.reason,
            ClientFault::BodyTooLarge => Refusal::BODY_TOO_LARGE.reason,
            ClientFault::LengthUnstated => Refusal::LENGTH_UNSTATED.reason,
            ClientFault::BadCoding => Refusal::BAD_CODING.reason,
            ClientFault::Bomb => Refusal::BOMB.reason,
            ClientFault::BadBody(error) => error.reason(),
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
            SendFault::Unsendable(error) => Failure::Client(ClientFault::BadBody(error)),
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
