//! What an answer of an auth server means, by its status, and a failure to get one. Pure.

use tidegate_telemetry::UpstreamError;

/// What becomes of a request by the answer about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMeaning {
    GoesOn,
    /// The answer is the client's, as it came.
    IsTheAnswer,
    /// As before, of who is not logged in: a browser may be sent to where it can.
    NotLoggedIn,
    Fault(AuthFault),
}

/// Why an answer cannot be used, or did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthFault {
    /// No server of its pool could be asked.
    Unreachable,
    /// As many questions are under way as may be.
    Busy,
    TooLate,
    /// 5xx.
    Failed,
    /// An answer that broke off, is none of HTTP, switches protocols, or has a status that says neither yes nor no.
    Broken,
    /// Longer than answers may be.
    TooLong,
}

impl AuthMeaning {
    /// `has_location`: the answer says where to go.
    pub fn of(status: u16, has_location: bool) -> AuthMeaning {
        match status {
            200..=299 => AuthMeaning::GoesOn,
            301 | 302 | 303 | 307 | 308 if has_location => AuthMeaning::IsTheAnswer,
            401 => AuthMeaning::NotLoggedIn,
            // These speak of the question, which the client did not ask: our connection or our framing is at fault.
            407 | 408 | 411 | 417 | 421 | 426 => AuthMeaning::Fault(AuthFault::Broken),
            400..=499 => AuthMeaning::IsTheAnswer,
            500..=599 => AuthMeaning::Fault(AuthFault::Failed),
            // 1xx, 300, 304 and the like, redirects to nowhere, and what is no status.
            _ => AuthMeaning::Fault(AuthFault::Broken),
        }
    }
}

impl AuthFault {
    /// What it means that no answer came. None: the client's request is at fault, whatever is allowed on errors.
    pub fn of(error: UpstreamError) -> Option<AuthFault> {
        Some(match error {
            UpstreamError::NoServer
            | UpstreamError::EmptyPool
            | UpstreamError::ContainersNotReady
            | UpstreamError::ResolveFailed
            | UpstreamError::ConnectFailed
            | UpstreamError::TlsFailed
            | UpstreamError::TlsRefused => AuthFault::Unreachable,
            UpstreamError::PoolFull | UpstreamError::QueueTimeout | UpstreamError::Overloaded => AuthFault::Busy,
            UpstreamError::ConnectTimeout
            | UpstreamError::FirstByteTimeout
            | UpstreamError::IdleTimeout
            | UpstreamError::TotalTimeout => AuthFault::TooLate,
            UpstreamError::BadStatus => AuthFault::Failed,
            UpstreamError::HeadTooLarge => AuthFault::TooLong,
            UpstreamError::ClosedEarly
            | UpstreamError::BodyCut
            | UpstreamError::BadResponse
            | UpstreamError::BadWebSocketAccept
            | UpstreamError::NoWebSocket
            | UpstreamError::Reset
            | UpstreamError::GoAway => AuthFault::Broken,
            UpstreamError::RequestHeadTooLarge => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{AuthFault, AuthMeaning};
    use tidegate_telemetry::UpstreamError;

    #[test]
    fn every_status_has_one_meaning() {
        use AuthFault::{Broken, Failed};
        use AuthMeaning::{Fault, GoesOn, IsTheAnswer, NotLoggedIn};
        let check = |statuses: &[u16], with: AuthMeaning, without: AuthMeaning| {
            for status in statuses {
                assert_eq!(AuthMeaning::of(*status, true), with, "{status} with a location");
                assert_eq!(AuthMeaning::of(*status, false), without, "{status} without");
            }
        };
        check(&[200, 201, 202, 204, 206, 299], GoesOn, GoesOn);
        check(&[401], NotLoggedIn, NotLoggedIn);
        check(&[400, 402, 403, 404, 405, 409, 410, 413, 414, 418, 429, 431, 451, 499], IsTheAnswer, IsTheAnswer);
        check(&[301, 302, 303, 307, 308], IsTheAnswer, Fault(Broken));
        check(&[300, 304, 305, 306, 310, 399], Fault(Broken), Fault(Broken));
        check(&[407, 408, 411, 417, 421, 426], Fault(Broken), Fault(Broken));
        check(&[500, 501, 502, 503, 504, 511, 599], Fault(Failed), Fault(Failed));
        check(&[0, 100, 101, 103, 199, 600, 999, u16::MAX], Fault(Broken), Fault(Broken));
        // Nothing but success lets anybody through.
        for status in 0..=999 {
            assert_eq!(AuthMeaning::of(status, true) == GoesOn, (200..300).contains(&status), "{status}");
        }
    }

    #[test]
    fn a_failure_is_the_servers_unless_the_question_was_too_large() {
        for error in UpstreamError::ALL {
            assert_eq!(AuthFault::of(*error).is_none(), *error == UpstreamError::RequestHeadTooLarge, "{error}");
        }
        assert_eq!(AuthFault::of(UpstreamError::FirstByteTimeout), Some(AuthFault::TooLate));
        assert_eq!(AuthFault::of(UpstreamError::ConnectFailed), Some(AuthFault::Unreachable));
        assert_eq!(AuthFault::of(UpstreamError::ClosedEarly), Some(AuthFault::Broken));
    }
}
