//! Why the head of an answer was refused: one variant per rule, each with its code for logs and metrics.
//! The rules are in `answer` and `line`.

use std::fmt;

/// Why the head of an answer was refused. Nothing of the answer can be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnswerError {
    HeadTooLarge,
    TooManyFields,
    /// A line that does not begin with a token and a colon, as also one that continues the line before.
    BadFieldName,
    /// A control byte in the value, as also a CR that no LF follows.
    BadFieldValue,
    BadStatus,
    StatusRepeated,
    LocationEmpty,
    LocationRepeated,
    BadContentLength,
    ContentLengthDisagrees,
    /// A script cannot frame the message to the client; what it wrote with this in mind is no body that anybody could
    /// read.
    TransferEncoding,
    /// STDOUT ended before the head did.
    Truncated,
    /// Nothing came on STDOUT.
    NoAnswer,
}

impl AnswerError {
    pub const ALL: &'static [AnswerError] = &[
        AnswerError::HeadTooLarge,
        AnswerError::TooManyFields,
        AnswerError::BadFieldName,
        AnswerError::BadFieldValue,
        AnswerError::BadStatus,
        AnswerError::StatusRepeated,
        AnswerError::LocationEmpty,
        AnswerError::LocationRepeated,
        AnswerError::BadContentLength,
        AnswerError::ContentLengthDisagrees,
        AnswerError::TransferEncoding,
        AnswerError::Truncated,
        AnswerError::NoAnswer,
    ];

    /// The code in logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            AnswerError::HeadTooLarge => "cgi_head_too_large",
            AnswerError::TooManyFields => "cgi_too_many_fields",
            AnswerError::BadFieldName => "cgi_bad_field_name",
            AnswerError::BadFieldValue => "cgi_bad_field_value",
            AnswerError::BadStatus => "cgi_bad_status",
            AnswerError::StatusRepeated => "cgi_status_repeated",
            AnswerError::LocationEmpty => "cgi_location_empty",
            AnswerError::LocationRepeated => "cgi_location_repeated",
            AnswerError::BadContentLength => "cgi_bad_content_length",
            AnswerError::ContentLengthDisagrees => "cgi_content_length_disagrees",
            AnswerError::TransferEncoding => "cgi_transfer_encoding",
            AnswerError::Truncated => "cgi_head_truncated",
            AnswerError::NoAnswer => "cgi_no_answer",
        }
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AnswerError::HeadTooLarge => "the script's header section is longer than 32 KiB",
            AnswerError::TooManyFields => "the script sent more than 256 header fields",
            AnswerError::BadFieldName => "a header line of the script does not begin with a field name and a colon",
            AnswerError::BadFieldValue => "a header field of the script has a control character in its value",
            AnswerError::BadStatus => "the script's Status is not a number from 200 to 999, with or without a reason",
            AnswerError::StatusRepeated => "the script sent more than one Status",
            AnswerError::LocationEmpty => "the script sent an empty Location",
            AnswerError::LocationRepeated => "the script sent more than one Location",
            AnswerError::BadContentLength => "the script's Content-Length is not a number",
            AnswerError::ContentLengthDisagrees => "the script sent Content-Length values that differ",
            AnswerError::TransferEncoding => "the script sent Transfer-Encoding, which is not its to choose",
            AnswerError::Truncated => "the script's output ended within its header section",
            AnswerError::NoAnswer => "the script wrote no output",
        })
    }
}

impl std::error::Error for AnswerError {}
