//! Why a message was refused: one variant per rule, each with the status, the code for logs and metrics, and the
//! setting it comes from. The rules themselves are in `http1`, `authority`, `path` and `chunked`.

use std::fmt;

/// Why a head was refused. The connection cannot be used further: nobody knows where the next message starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadError {
    HeadTooLarge,
    RequestLineTooLong,
    TooManyFields,
    BareLf,
    ObsFold,
    SpaceBeforeColon,
    BadMethod,
    BadTarget,
    /// Not of the form `HTTP/x.y`.
    BadVersion,
    /// Well formed, but neither 1.0 nor 1.1.
    UnsupportedVersion,
    BadFieldName,
    /// NUL, another control byte, DEL, or a CR that no LF follows.
    BadFieldValue,
    BadAuthority,
    HostMissing,
    HostRepeated,
    TargetDisagreesWithHost,
    PathEscapesRoot,
    BadPercentEncoding,
    LengthAndTransferEncoding,
    BadContentLength,
    ContentLengthDisagrees,
    BadTransferEncoding,
    TransferEncodingInHttp10,
    /// TRACE or CONNECT with content (RFC 9110 sections 9.3.6 and 9.3.8).
    BodyNotAllowed,
    BadStatus,
    /// A missing, repeated, unknown or misplaced HTTP/2 pseudo-header field (RFC 9113 section 8.3).
    PseudoHeader,
}

impl HeadError {
    pub const ALL: &'static [HeadError] = &[
        HeadError::HeadTooLarge,
        HeadError::RequestLineTooLong,
        HeadError::TooManyFields,
        HeadError::BareLf,
        HeadError::ObsFold,
        HeadError::SpaceBeforeColon,
        HeadError::BadMethod,
        HeadError::BadTarget,
        HeadError::BadVersion,
        HeadError::UnsupportedVersion,
        HeadError::BadFieldName,
        HeadError::BadFieldValue,
        HeadError::BadAuthority,
        HeadError::HostMissing,
        HeadError::HostRepeated,
        HeadError::TargetDisagreesWithHost,
        HeadError::PathEscapesRoot,
        HeadError::BadPercentEncoding,
        HeadError::LengthAndTransferEncoding,
        HeadError::BadContentLength,
        HeadError::ContentLengthDisagrees,
        HeadError::BadTransferEncoding,
        HeadError::TransferEncodingInHttp10,
        HeadError::BodyNotAllowed,
        HeadError::BadStatus,
        HeadError::PseudoHeader,
    ];

    /// The status to answer a client with. A refused upstream answer is a 502 whatever this says.
    pub fn status(self) -> u16 {
        match self {
            HeadError::HeadTooLarge | HeadError::TooManyFields => 431,
            HeadError::RequestLineTooLong => 414,
            HeadError::UnsupportedVersion => 505,
            HeadError::BareLf
            | HeadError::ObsFold
            | HeadError::SpaceBeforeColon
            | HeadError::BadMethod
            | HeadError::BadTarget
            | HeadError::BadVersion
            | HeadError::BadFieldName
            | HeadError::BadFieldValue
            | HeadError::BadAuthority
            | HeadError::HostMissing
            | HeadError::HostRepeated
            | HeadError::TargetDisagreesWithHost
            | HeadError::PathEscapesRoot
            | HeadError::BadPercentEncoding
            | HeadError::LengthAndTransferEncoding
            | HeadError::BadContentLength
            | HeadError::ContentLengthDisagrees
            | HeadError::BadTransferEncoding
            | HeadError::TransferEncodingInHttp10
            | HeadError::BodyNotAllowed
            | HeadError::BadStatus
            | HeadError::PseudoHeader => 400,
        }
    }

    /// The code in logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            HeadError::HeadTooLarge => "head_too_large",
            HeadError::RequestLineTooLong => "request_line_too_long",
            HeadError::TooManyFields => "too_many_fields",
            HeadError::BareLf => "bare_lf",
            HeadError::ObsFold => "obs_fold",
            HeadError::SpaceBeforeColon => "space_before_colon",
            HeadError::BadMethod => "bad_method",
            HeadError::BadTarget => "bad_target",
            HeadError::BadVersion => "bad_version",
            HeadError::UnsupportedVersion => "unsupported_version",
            HeadError::BadFieldName => "bad_field_name",
            HeadError::BadFieldValue => "bad_field_value",
            HeadError::BadAuthority => "bad_authority",
            HeadError::HostMissing => "host_missing",
            HeadError::HostRepeated => "host_repeated",
            HeadError::TargetDisagreesWithHost => "target_disagrees_with_host",
            HeadError::PathEscapesRoot => "path_escapes_root",
            HeadError::BadPercentEncoding => "bad_percent_encoding",
            HeadError::LengthAndTransferEncoding => "length_and_transfer_encoding",
            HeadError::BadContentLength => "bad_content_length",
            HeadError::ContentLengthDisagrees => "content_length_disagrees",
            HeadError::BadTransferEncoding => "bad_transfer_encoding",
            HeadError::TransferEncodingInHttp10 => "transfer_encoding_in_http10",
            HeadError::BodyNotAllowed => "body_not_allowed",
            HeadError::BadStatus => "bad_status",
            HeadError::PseudoHeader => "pseudo_header",
        }
    }

    /// The configuration setting that the refusal comes from, as it is written in the file.
    pub fn setting(self) -> Option<&'static str> {
        match self {
            HeadError::HeadTooLarge => Some("limits header-bytes"),
            HeadError::RequestLineTooLong => Some("limits request-line"),
            HeadError::TooManyFields => Some("limits header-count"),
            _ => None,
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeadError::HeadTooLarge => "the message head is larger than `limits header-bytes` allows",
            HeadError::RequestLineTooLong => "the request line is longer than `limits request-line` allows",
            HeadError::TooManyFields => "there are more header fields than `limits header-count` allows",
            HeadError::BareLf => "a line of the head ends with LF instead of CR LF",
            HeadError::ObsFold => "a line of the head starts with white space",
            HeadError::SpaceBeforeColon => "there is white space in or after a field name",
            HeadError::BadMethod => "the method is not a token",
            HeadError::BadTarget => "the request target is not valid",
            HeadError::BadVersion => "the HTTP version cannot be read",
            HeadError::UnsupportedVersion => "the HTTP version is neither 1.0 nor 1.1",
            HeadError::BadFieldName => "a field name is not a token followed by a colon",
            HeadError::BadFieldValue => "a field value has a control byte in it",
            HeadError::BadAuthority => "the host is not a name or address with an optional port",
            HeadError::HostMissing => "the request names no host",
            HeadError::HostRepeated => "the request has more than one Host field",
            HeadError::TargetDisagreesWithHost => "the request target names another host than the Host field",
            HeadError::PathEscapesRoot => "the path leads above the root",
            HeadError::BadPercentEncoding => "a percent sign in the path is not followed by two hex digits other than 00",
            HeadError::LengthAndTransferEncoding => "there is both a Content-Length and a Transfer-Encoding",
            HeadError::BadContentLength => "the Content-Length is not one decimal number",
            HeadError::ContentLengthDisagrees => "there are Content-Length fields with different values",
            HeadError::BadTransferEncoding => "the Transfer-Encoding is not exactly `chunked`",
            HeadError::TransferEncodingInHttp10 => "an HTTP/1.0 message has a Transfer-Encoding",
            HeadError::BodyNotAllowed => "a TRACE or CONNECT request has a body",
            HeadError::BadStatus => "the status is not a number from 100 to 999",
            HeadError::PseudoHeader => "a pseudo-header field is missing, repeated, unknown or out of place",
        })
    }
}

impl std::error::Error for HeadError {}

/// Why a body was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyError {
    BadChunkSize,
    /// More digits than any real chunk has.
    ChunkTooLarge,
    BadChunkExtension,
    ChunkExtensionsTooLarge,
    /// The data of a chunk is not followed by CR LF.
    BadChunkEnd,
    BadTrailer,
    TrailersTooLarge,
    /// The connection ended before the body did.
    Truncated,
}

impl BodyError {
    pub const ALL: &'static [BodyError] = &[
        BodyError::BadChunkSize,
        BodyError::ChunkTooLarge,
        BodyError::BadChunkExtension,
        BodyError::ChunkExtensionsTooLarge,
        BodyError::BadChunkEnd,
        BodyError::BadTrailer,
        BodyError::TrailersTooLarge,
        BodyError::Truncated,
    ];

    /// The code in logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            BodyError::BadChunkSize => "bad_chunk_size",
            BodyError::ChunkTooLarge => "chunk_too_large",
            BodyError::BadChunkExtension => "bad_chunk_extension",
            BodyError::ChunkExtensionsTooLarge => "chunk_extensions_too_large",
            BodyError::BadChunkEnd => "bad_chunk_end",
            BodyError::BadTrailer => "bad_trailer",
            BodyError::TrailersTooLarge => "trailers_too_large",
            BodyError::Truncated => "body_truncated",
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyError::BadChunkSize => "a chunk size is not a hex number followed by CR LF",
            BodyError::ChunkTooLarge => "a chunk size has more than 15 digits",
            BodyError::BadChunkExtension => "a chunk extension is malformed",
            BodyError::ChunkExtensionsTooLarge => "the chunk extensions of the message are too long",
            BodyError::BadChunkEnd => "the data of a chunk is not followed by CR LF",
            BodyError::BadTrailer => "a trailer field is malformed",
            BodyError::TrailersTooLarge => "the trailer section is too large",
            BodyError::Truncated => "the connection ended before the body was complete",
        })
    }
}

impl std::error::Error for BodyError {}

#[cfg(test)]
mod tests {
    use super::{BodyError, HeadError};
    use std::collections::HashSet;

    #[test]
    fn every_refusal_has_its_own_code_and_sentence() {
        let heads = HeadError::ALL.iter().map(|error| (error.reason(), error.to_string()));
        let bodies = BodyError::ALL.iter().map(|error| (error.reason(), error.to_string()));
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
        check(HeadError::UnsupportedVersion, 505, None);
        check(HeadError::BadVersion, 400, None);
        check(HeadError::LengthAndTransferEncoding, 400, None);
    }
}
