//! How an attempt at a server failed, and how far the request got: that decides whether it may be sent again.

use std::io;
use tidegate_telemetry::UpstreamError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamFault {
    pub error: UpstreamError,
    pub progress: Progress,
}

/// How far the request got; decides whether it may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Not a byte was sent, or the upstream said that it did not look at the request.
    NothingSent,
    /// Sent at least in part; not a byte of an answer came.
    Sent,
    /// The answer has begun.
    Answering,
}

impl UpstreamFault {
    pub fn new(error: UpstreamError, progress: Progress) -> UpstreamFault {
        UpstreamFault { error, progress }
    }

    /// A failure before a byte was sent.
    pub fn unsent(error: UpstreamError) -> UpstreamFault {
        UpstreamFault::new(error, Progress::NothingSent)
    }
}

/// What an I/O error before the end of the answer's head means. The clock is that of the first byte to the end of the
/// head: an upstream that drips it is as late as one that is silent.
pub fn upstream_read_error(error: &io::Error) -> UpstreamError {
    match error.kind() {
        io::ErrorKind::TimedOut => UpstreamError::FirstByteTimeout,
        io::ErrorKind::InvalidData => UpstreamError::TlsFailed,
        io::ErrorKind::UnexpectedEof => UpstreamError::ClosedEarly,
        _ => UpstreamError::Reset,
    }
}
