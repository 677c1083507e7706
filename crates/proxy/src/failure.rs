//! What goes wrong with a request, and whose fault it is: that decides the answer's status, the reason code in log and
//! metric, and whether another server may be tried.

use std::io;
use tidegate_exchange::ClientFault;
use tidegate_message::body::BodyFault;
use tidegate_middleware::Refusal;
use tidegate_telemetry::UpstreamError;
use tidegate_upstream::call::SendFault;
use tidegate_upstream::fault::{Progress, UpstreamFault};
use tidegate_wire::BodyError;

/// How an attempt at an upstream failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Client(ClientFault),
    Upstream(UpstreamFault),
}

impl From<ClientFault> for Failure {
    fn from(fault: ClientFault) -> Failure {
        Failure::Client(fault)
    }
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

/// What it means that the body of an answer cannot be read on.
pub fn upstream_body_fault(fault: &BodyFault) -> Failure {
    let error = match fault {
        BodyFault::Io(error) if error.kind() == io::ErrorKind::TimedOut => UpstreamError::IdleTimeout,
        BodyFault::Io(_) | BodyFault::Reset(_) | BodyFault::Framing(BodyError::Truncated) => UpstreamError::BodyCut,
        BodyFault::Framing(_) | BodyFault::Broken | BodyFault::Coding | BodyFault::Bomb => UpstreamError::BadResponse,
    };
    let reset = match fault {
        BodyFault::Reset(code) => *code,
        BodyFault::Io(_) | BodyFault::Framing(_) | BodyFault::Broken | BodyFault::Coding | BodyFault::Bomb => None,
    };
    UpstreamFault { reset, ..UpstreamFault::new(error, Progress::Answering) }.into()
}

/// The answer breaks off, and the client must see that its body was cut.
pub fn body_cut() -> Failure {
    Failure::upstream(UpstreamError::BodyCut, Progress::Answering)
}
