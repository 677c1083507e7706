//! How the client's side of an exchange fails, and what is answered then. What was the upstream's fault is in the crate
//! `upstream`.

use std::io;
use tidegate_message::body::BodyFault;
use tidegate_middleware::Refusal;
use tidegate_wire::BodyError;

/// Why the client's side of an exchange ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFault {
    /// Closed or reset, by the client or the network.
    Gone,
    /// The client did not take the answer for as long as it may stall.
    WriteStalled,
    /// The request cannot be served any further, which is answered where no answer has begun.
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

/// A failure to write to the client.
pub fn gone(error: io::Error) -> ClientFault {
    if error.kind() == io::ErrorKind::TimedOut { ClientFault::WriteStalled } else { ClientFault::Gone }
}

/// A failure to read the request's body.
pub fn body_fault(fault: BodyFault) -> ClientFault {
    match fault {
        BodyFault::Io(error) if error.kind() == io::ErrorKind::TimedOut => ClientFault::Refused(Refusal::BodyTooSlow),
        BodyFault::Io(_) | BodyFault::Reset(_) | BodyFault::Broken | BodyFault::Framing(BodyError::Truncated) => {
            ClientFault::Gone
        }
        BodyFault::Framing(error) => ClientFault::Refused(Refusal::BadBody(error)),
        BodyFault::Coding => ClientFault::Refused(Refusal::BadCoding),
        BodyFault::Bomb => ClientFault::Refused(Refusal::Bomb),
    }
}
