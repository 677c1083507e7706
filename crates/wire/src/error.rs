//! Why a message was refused: one variant per rule, each with the status, the code for logs and metrics, and the
//! setting it comes from. The rules themselves are in `http1`, `authority`, `path` and `chunked`.

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

/// Why a head was refused. The connection cannot be used further: nobody knows where the next message starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum HeadError {
    #[error("the message head is larger than `limits header-bytes` allows")]
    HeadTooLarge,
    #[error("the request line is longer than `limits request-line` allows")]
    RequestLineTooLong,
    #[error("there are more header fields than `limits header-count` allows")]
    TooManyFields,
    #[error("a line of the head ends with LF instead of CR LF")]
    BareLf,
    #[error("a line of the head starts with white space")]
    ObsFold,
    #[error("there is white space in or after a field name")]
    SpaceBeforeColon,
    #[error("the method is not a token")]
    BadMethod,
    #[error("the request target is not valid")]
    BadTarget,
    /// Not of the form `HTTP/x.y`.
    #[error("the HTTP version cannot be read")]
    BadVersion,
    /// Well formed, but neither 1.0 nor 1.1.
    #[error("the HTTP version is neither 1.0 nor 1.1")]
    UnsupportedVersion,
    #[error("a field name is not a token followed by a colon")]
    BadFieldName,
    /// NUL, another control byte, DEL, or a CR that no LF follows.
    #[error("a field value has a control byte in it")]
    BadFieldValue,
    #[error("the host is not a name or address with an optional port")]
    BadAuthority,
    #[error("the request names no host")]
    HostMissing,
    #[error("the request has more than one Host field")]
    HostRepeated,
    /// Not a list (RFC 9110 section 11.6.2): servers read the first, the last, or both as one.
    #[error("the request has more than one Authorization field")]
    AuthorizationRepeated,
    #[error("the request target names another host than the Host field")]
    TargetDisagreesWithHost,
    #[error("the path leads above the root")]
    PathEscapesRoot,
    /// `/x/..;/admin`, which is `/admin` to servers that cut parameters off first.
    #[error("the path has a dot segment with parameters")]
    PathDotsWithParameter,
    #[error("a percent sign in the path is not followed by two hex digits other than 00")]
    BadPercentEncoding,
    #[error("there is both a Content-Length and a Transfer-Encoding")]
    LengthAndTransferEncoding,
    #[error("the Content-Length is not one decimal number")]
    BadContentLength,
    #[error("there are Content-Length fields with different values")]
    ContentLengthDisagrees,
    #[error("the Transfer-Encoding is not exactly `chunked`")]
    BadTransferEncoding,
    /// A coding by its name, and well formed (RFC 9112 section 6.1).
    #[error("the Transfer-Encoding names a coding other than `chunked`")]
    UnknownTransferCoding,
    #[error("an HTTP/1.0 message has a Transfer-Encoding")]
    TransferEncodingInHttp10,
    /// TRACE or CONNECT with content (RFC 9110 sections 9.3.6 and 9.3.8).
    #[error("a TRACE or CONNECT request has a body")]
    BodyNotAllowed,
    #[error("the status is not a number from 100 to 999")]
    BadStatus,
    /// A missing, repeated, unknown or misplaced HTTP/2 pseudo-header field (RFC 9113 section 8.3).
    #[error("a pseudo-header field is missing, repeated, unknown or out of place")]
    PseudoHeader,
    /// An extended CONNECT that our settings do not offer (RFC 8441 section 4).
    #[error("`listener websocket-over-http2` offers no extended CONNECT")]
    ProtocolNotOffered,
    /// RFC 6455 sections 11.3.1 and 11.3.5. Which of them counts, every server decides for itself.
    #[error("a handshake for a WebSocket has Sec-WebSocket-Key or Sec-WebSocket-Version more than once")]
    WebsocketFieldRepeated,
    /// RFC 9113 section 8.2.2.
    #[error("a field speaks of a connection of HTTP/1.1, which this is not")]
    ConnectionField,
}

impl HeadError {
    /// The status to answer a client with. A refused upstream answer is a 502 whatever this says.
    pub fn status(self) -> u16 {
        match self {
            HeadError::HeadTooLarge | HeadError::TooManyFields => 431,
            HeadError::RequestLineTooLong => 414,
            HeadError::UnsupportedVersion => 505,
            HeadError::UnknownTransferCoding => 501,
            _ => 400,
        }
    }

    /// The code in logs and metrics.
    pub fn reason(self) -> &'static str {
        self.into()
    }

    /// The configuration setting that the refusal comes from, as it is written in the file.
    pub fn setting(self) -> Option<&'static str> {
        match self {
            HeadError::HeadTooLarge => Some("limits header-bytes"),
            HeadError::RequestLineTooLong => Some("limits request-line"),
            HeadError::TooManyFields => Some("limits header-count"),
            HeadError::ProtocolNotOffered => Some("listener websocket-over-http2"),
            _ => None,
        }
    }
}

/// Why a body was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum BodyError {
    #[error("a chunk size is not a hex number followed by CR LF")]
    BadChunkSize,
    /// More digits than any real chunk has.
    #[error("a chunk size has more than 15 digits")]
    ChunkTooLarge,
    #[error("a chunk extension is malformed")]
    BadChunkExtension,
    #[error("the chunk extensions of the message are too long")]
    ChunkExtensionsTooLarge,
    /// The data of a chunk is not followed by CR LF.
    #[error("the data of a chunk is not followed by CR LF")]
    BadChunkEnd,
    #[error("a trailer field is malformed")]
    BadTrailer,
    #[error("the trailer section is too large")]
    TrailersTooLarge,
    /// Over HTTP/2, whose frames tell where a body ends; HTTP/1 has nothing else that could.
    #[error("the body is not as long as its Content-Length says")]
    #[strum(serialize = "body_length")]
    LengthDisagrees,
    /// The connection ended before the body did.
    #[error("the connection ended before the body was complete")]
    #[strum(serialize = "body_truncated")]
    Truncated,
}

impl BodyError {
    /// The code in logs and metrics.
    pub fn reason(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyError, HeadError};
    use std::collections::HashSet;
    use strum::VariantArray;

    #[test]
    fn every_refusal_has_its_own_code_and_sentence() {
        let heads = HeadError::VARIANTS.iter().map(|error| (error.reason(), error.to_string()));
        let bodies = BodyError::VARIANTS.iter().map(|error| (error.reason(), error.to_string()));
        let (mut codes, mut sentences) = (HashSet::new(), HashSet::new());
        for (code, sentence) in heads.chain(bodies) {
            assert!(code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'), "{code}");
            assert!(codes.insert(code), "{code} twice");
            assert!(sentences.insert(sentence), "the sentence of {code} twice");
        }
    }

    #[test]
    fn limits_are_named_with_their_status() {
        let check = |error: HeadError, status: u16, setting: Option<&str>| {
            assert_eq!((error.status(), error.setting()), (status, setting));
            assert!(setting.is_none_or(|setting| error.to_string().contains(setting)), "{error}");
        };
        check(HeadError::HeadTooLarge, 431, Some("limits header-bytes"));
        check(HeadError::TooManyFields, 431, Some("limits header-count"));
        check(HeadError::RequestLineTooLong, 414, Some("limits request-line"));
        check(HeadError::ProtocolNotOffered, 400, Some("listener websocket-over-http2"));
        check(HeadError::UnsupportedVersion, 505, None);
        check(HeadError::UnknownTransferCoding, 501, None);
        check(HeadError::BadVersion, 400, None);
        check(HeadError::LengthAndTransferEncoding, 400, None);
    }
}
