//! The end of an answer that had begun when its upstream failed. Over HTTP/1.1 the connection ends; over HTTP/2 the
//! stream does, by a code that says what the upstream's did, and a call of gRPC by its status.

use tidegate_exchange::{Exchange, Responder};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::Sock;
use tidegate_upstream::fault::UpstreamFault;
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::head::Fields;

/// How the stream of an answer ends that had begun.
#[derive(Debug, PartialEq, Eq)]
enum StreamEnd {
    Reset(ErrorCode),
    /// Trailers of gRPC say that the server cannot be reached (UNAVAILABLE). A client of gRPC takes a reset for that
    /// only with REFUSED_STREAM, which would be a lie about a request whose answer has begun: it may send it again.
    Unavailable,
}

/// Ends the answer, so that the client sees that it is not whole.
pub(super) fn end_begun_answer<S: Sock>(exchange: &mut Exchange<'_, S>, fault: UpstreamFault) {
    let end = stream_end(fault, exchange.response.fields.is_grpc());
    match (end, &mut exchange.responder) {
        (StreamEnd::Unavailable, Responder::H2(responder)) => {
            let mut trailers = Fields::default();
            trailers.push(b"grpc-status", b"14");
            trailers.push(b"grpc-message", fault.error.reason().as_bytes());
            if responder.finish(Some(&trailers)).is_err() {
                responder.reset(ErrorCode::InternalError);
            }
        }
        (StreamEnd::Reset(code), responder) => responder.cut(code),
        (StreamEnd::Unavailable, responder) => responder.cut(ErrorCode::InternalError),
    }
}

/// Codes that speak of the answer are passed on. Those that speak of the connection to the upstream would say of the
/// client what it has not done; NO_ERROR would have a piece look like the whole; and REFUSED_STREAM would have the
/// client send again what somebody has begun to answer (RFC 9113 section 8.7). None of them becomes CANCEL: that says
/// that nobody wants the rest, which clients of gRPC show as cancelled by their own side and others not as an error at
/// all, and here the answer is lost to somebody who wants it. INTERNAL_ERROR is what is left to say.
fn stream_end(fault: UpstreamFault, is_grpc: bool) -> StreamEnd {
    let is_lost = matches!(fault.error, UpstreamError::BodyCut | UpstreamError::IdleTimeout);
    match fault.reset {
        Some(code @ (ErrorCode::Cancel | ErrorCode::EnhanceYourCalm | ErrorCode::InternalError)) => StreamEnd::Reset(code),
        None | Some(ErrorCode::RefusedStream) if is_grpc && is_lost => StreamEnd::Unavailable,
        None
        | Some(
            ErrorCode::NoError
            | ErrorCode::ProtocolError
            | ErrorCode::FlowControlError
            | ErrorCode::SettingsTimeout
            | ErrorCode::StreamClosed
            | ErrorCode::FrameSizeError
            | ErrorCode::RefusedStream
            | ErrorCode::CompressionError
            | ErrorCode::ConnectError
            | ErrorCode::InadequateSecurity
            | ErrorCode::Http11Required,
        ) => StreamEnd::Reset(ErrorCode::InternalError),
    }
}

#[cfg(test)]
mod tests {
    use super::{StreamEnd, stream_end};
    use tidegate_telemetry::UpstreamError;
    use tidegate_upstream::fault::{Progress, UpstreamFault};
    use tidegate_wire::h2::frame::ErrorCode;

    #[test]
    fn the_end_of_a_begun_answer_says_what_the_client_can_act_on() {
        let check = |reset: Option<ErrorCode>, of_grpc: StreamEnd, of_others: StreamEnd| {
            let fault = UpstreamFault { reset, ..UpstreamFault::new(UpstreamError::BodyCut, Progress::Answering) };
            assert_eq!((stream_end(fault, true), stream_end(fault, false)), (of_grpc, of_others), "{reset:?}");
        };
        let reset = StreamEnd::Reset;
        for code in [ErrorCode::Cancel, ErrorCode::EnhanceYourCalm, ErrorCode::InternalError] {
            check(Some(code), reset(code), reset(code));
        }
        check(None, StreamEnd::Unavailable, reset(ErrorCode::InternalError));
        check(Some(ErrorCode::RefusedStream), StreamEnd::Unavailable, reset(ErrorCode::InternalError));
        for code in [
            ErrorCode::NoError,
            ErrorCode::ProtocolError,
            ErrorCode::FlowControlError,
            ErrorCode::SettingsTimeout,
            ErrorCode::StreamClosed,
            ErrorCode::FrameSizeError,
            ErrorCode::CompressionError,
            ErrorCode::ConnectError,
            ErrorCode::InadequateSecurity,
            ErrorCode::Http11Required,
        ] {
            check(Some(code), reset(ErrorCode::InternalError), reset(ErrorCode::InternalError));
        }
    }

    #[test]
    fn an_answer_that_broke_a_rule_is_not_called_unavailable() {
        let fault = UpstreamFault::new(UpstreamError::BadResponse, Progress::Answering);
        assert_eq!(stream_end(fault, true), StreamEnd::Reset(ErrorCode::InternalError));
        let fault = UpstreamFault::new(UpstreamError::IdleTimeout, Progress::Answering);
        assert_eq!(stream_end(fault, true), StreamEnd::Unavailable);
    }
}
