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

/// What the connection of an attempt was before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Was {
    Fresh,
    /// The connection had served a request before.
    Pooled,
    /// HTTP/2, with the requests of others.
    Shared(Standing),
}

/// What a connection of HTTP/2 had shown before a request came to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: the request is its first.
    New,
    /// Others were sent on it, and none had an answer.
    Untried,
    /// A request on it had an answer, or it stood open before anybody needed it.
    Proven,
}

impl Was {
    /// Whether the request came to a connection that was there.
    pub fn is_reused(self) -> bool {
        match self {
            Was::Fresh | Was::Shared(Standing::New) => false,
            Was::Pooled | Was::Shared(Standing::Untried | Standing::Proven) => true,
        }
    }

    /// A kept connection ended under the request: the server closed it a moment before, as it may (RFC 9112 section
    /// 9.5), and did nothing wrong. One that never answered may have ended because of the request, which would take
    /// down the next with it. What a server of HTTP/2 has not looked at (RFC 9113 section 8.7) is a race on any.
    pub fn is_race(self, fault: UpstreamFault) -> bool {
        let is_end = matches!(fault.error, UpstreamError::ClosedEarly | UpstreamError::Reset | UpstreamError::GoAway);
        match self {
            Was::Fresh => false,
            Was::Pooled => is_end && fault.progress != Progress::Answering,
            Was::Shared(_) if !fault.progress.has_reached_server() => is_end,
            // A stream that is reset after it was taken is the server's answer.
            Was::Shared(Standing::Proven) => fault.error == UpstreamError::ClosedEarly && fault.progress == Progress::Sent,
            Was::Shared(Standing::New | Standing::Untried) => false,
        }
    }

    /// Whether the server's other kept connections may be as old as the one that ended in a race: they are passed by
    /// then, so that no request ends several of them.
    pub fn ends_with_others(self, fault: UpstreamFault) -> bool {
        match self {
            Was::Fresh => false,
            Was::Pooled => true,
            Was::Shared(_) => fault.progress.has_reached_server(),
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

#[cfg(test)]
mod tests {
    use super::{Progress, Standing, UpstreamFault, Was};
    use tidegate_telemetry::UpstreamError;

    #[test]
    fn a_race_is_lost_on_connections_that_have_answered() {
        use Progress::{Answering, NothingSent, PassedOver, Sent};
        use Standing::{New, Proven, Untried};
        use UpstreamError::{BadResponse, ClosedEarly, FirstByteTimeout, GoAway, Reset};
        let check = |was: Was, error: UpstreamError, races: &[Progress]| {
            for progress in [NothingSent, PassedOver, Sent, Answering] {
                let is_race = was.is_race(UpstreamFault::new(error, progress));
                assert_eq!(is_race, races.contains(&progress), "{was:?}, {error}, {progress:?}");
            }
        };
        for error in [ClosedEarly, Reset, GoAway] {
            check(Was::Fresh, error, &[]);
            check(Was::Pooled, error, &[NothingSent, PassedOver, Sent]);
            check(Was::Shared(New), error, &[NothingSent, PassedOver]);
            check(Was::Shared(Untried), error, &[NothingSent, PassedOver]);
        }
        check(Was::Shared(Proven), ClosedEarly, &[NothingSent, PassedOver, Sent]);
        check(Was::Shared(Proven), Reset, &[NothingSent, PassedOver]);
        check(Was::Shared(Proven), GoAway, &[NothingSent, PassedOver]);
        for was in [Was::Fresh, Was::Pooled, Was::Shared(New), Was::Shared(Untried), Was::Shared(Proven)] {
            check(was, BadResponse, &[]);
            check(was, FirstByteTimeout, &[]);
        }
    }
}
