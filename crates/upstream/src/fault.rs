//! How an attempt at a server failed, and how far the request got: that decides whether it may be sent again.

use std::io;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::tls_fault::is_alert_of_peer;
use tidegate_wire::h2::frame::ErrorCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamFault {
    pub error: UpstreamError,
    pub progress: Progress,
    /// The code by which the server ended the stream of its answer.
    pub reset: Option<ErrorCode>,
}

/// How far the request got; decides whether it may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Not a byte was sent, or the upstream said that it did not look at the request.
    NothingSent,
    /// The upstream said that it did not look at the request, on a connection on which it took others.
    PassedOver,
    /// Sent at least in part; not a byte of an answer came.
    Sent,
    /// The answer has begun.
    Answering,
}

impl Progress {
    /// Whether the server may have looked at the request.
    pub fn has_reached_server(self) -> bool {
        match self {
            Progress::NothingSent | Progress::PassedOver => false,
            Progress::Sent | Progress::Answering => true,
        }
    }
}

impl UpstreamFault {
    pub fn new(error: UpstreamError, progress: Progress) -> UpstreamFault {
        UpstreamFault { error, progress, reset: None }
    }

    /// A failure before a byte was sent.
    pub fn unsent(error: UpstreamError) -> UpstreamFault {
        UpstreamFault::new(error, Progress::NothingSent)
    }
}

/// The connection of an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Was {
    Fresh,
    /// The connection had served a request before.
    Pooled,
    /// HTTP/2, with the requests of others.
    Shared,
}

impl Was {
    /// A kept connection ended under the request: the server closed it a moment before, as it may (RFC 9112 section
    /// 9.5), and did nothing wrong.
    pub fn is_race(self, fault: UpstreamFault) -> bool {
        let is_end = matches!(fault.error, UpstreamError::ClosedEarly | UpstreamError::Reset | UpstreamError::GoAway);
        match self {
            Was::Fresh => false,
            Was::Pooled => is_end && fault.progress != Progress::Answering,
            // A stream that is reset after it was taken is the server's answer.
            Was::Shared if fault.error == UpstreamError::Reset => !fault.progress.has_reached_server(),
            Was::Shared => is_end && fault.progress != Progress::Answering,
        }
    }
}

/// What an I/O error before the end of the answer's head means. The clock is that of the first byte to the end of the
/// head: an upstream that drips it is as late as one that is silent.
pub fn upstream_read_error(error: &io::Error) -> UpstreamError {
    match error.kind() {
        io::ErrorKind::TimedOut => UpstreamError::FirstByteTimeout,
        io::ErrorKind::InvalidData => tls_error(error),
        io::ErrorKind::UnexpectedEof => UpstreamError::ClosedEarly,
        _ => UpstreamError::Reset,
    }
}

/// What a failure of TLS means. An alert is the server's word: in TLS 1.3 that it asks for a certificate comes behind
/// the handshake, when the request is on its way.
pub fn tls_error(error: &io::Error) -> UpstreamError {
    if is_alert_of_peer(error) { UpstreamError::TlsRefused } else { UpstreamError::TlsFailed }
}
