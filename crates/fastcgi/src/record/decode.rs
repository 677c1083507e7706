//! What an application answers, decoded in any fragmentation and without buffering: content is handed out where it
//! lies. Not how much of it is too much: STDOUT and STDERR are bounded by whoever keeps them. What is sent is made in
//! `encode`.
//!
//! ```text
//! Header ──STDOUT, STDERR, GET_VALUES_RESULT──▶ Content ──all handed out──▶ Padding ──▶ Header
//!   ├─────UNKNOWN_TYPE──▶ Fixed ──eight bytes──▶ Padding ──▶ Header
//!   └─────END_REQUEST───▶ Fixed ──eight bytes──▶ Finished
//! ```

use super::{END_REQUEST, GET_VALUES_RESULT, HEADER_BYTES, RequestId, STDERR, STDOUT, UNKNOWN_TYPE, VERSION};
use std::fmt;

/// A fact of the answer. Content comes in pieces, which say nothing about how it was cut into records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Never empty.
    Stdout(&'a [u8]),
    /// What the application has to complain about. Never empty.
    Stderr(&'a [u8]),
    /// Content of an answer to GET_VALUES, which this crate does not ask. Never empty.
    Values(&'a [u8]),
    /// The application does not know records of the type that it names here.
    UnknownType(u8),
    /// The request is over; nothing may come after it. Whether the connection can take another is
    /// [`Decoder::is_reusable`].
    End { app_status: u32, protocol_status: ProtocolStatus },
}

/// How the application ended a request (section 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolStatus {
    RequestComplete,
    /// Refused: it serves one request per connection.
    CannotMultiplex,
    /// Refused: out of some resource.
    Overloaded,
    /// Refused: it is no responder.
    UnknownRole,
}

/// Why an answer was refused. The connection cannot be used further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    UnsupportedVersion(u8),
    /// A type that applications do not send, or not for the connection as a whole.
    UnexpectedType(u8),
    WrongRequestId {
        expected: u16,
        found: u16,
    },
    /// END_REQUEST and UNKNOWN_TYPE have eight bytes.
    BadLength {
        record_type: u8,
        content_bytes: u16,
    },
    UnknownProtocolStatus(u8),
    /// STDOUT or STDERR with content after the empty record that ends that stream.
    ContentAfterStreamEnd,
    BytesAfterEndRequest,
    /// More than [`IDLE_RECORDS_MAX`] in a row that carried nothing of the answer.
    TooManyIdleRecords,
    /// The connection ended before the request did.
    Truncated,
}

/// Records in a row without a byte of STDOUT or STDERR: enough for the ends of both streams, and for what an
/// application may say about the connection. Without a bound, a stream of empty records would keep a request alive that
/// gets no answer.
pub const IDLE_RECORDS_MAX: u8 = 16;

/// Decodes the answer to one request. The next one on the connection has a new decoder.
#[derive(Debug)]
pub struct Decoder {
    id: RequestId,
    state: State,
    /// A header, or the eight bytes of END_REQUEST or UNKNOWN_TYPE, that came in pieces.
    partial: [u8; HEADER_BYTES],
    idle_records: u8,
    stdout_ended: bool,
    stderr_ended: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Header { filled: u8 },
    Content { stream: Stream, left: u16, padding: u8 },
    Fixed { message: Message, filled: u8, padding: u8 },
    Padding { left: u8 },
    Finished { padding_left: u8 },
    Failed(RecordError),
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
    Values,
}

#[derive(Debug, Clone, Copy)]
enum Message {
    End,
    UnknownType,
}

/// The records that an application sends.
#[derive(Debug, Clone, Copy)]
enum RecordKind {
    Stdout,
    Stderr,
    EndRequest,
    GetValuesResult,
    UnknownType,
}

impl RecordKind {
    fn of(record_type: u8) -> Option<RecordKind> {
        match record_type {
            STDOUT => Some(RecordKind::Stdout),
            STDERR => Some(RecordKind::Stderr),
            END_REQUEST => Some(RecordKind::EndRequest),
            GET_VALUES_RESULT => Some(RecordKind::GetValuesResult),
            UNKNOWN_TYPE => Some(RecordKind::UnknownType),
            _ => None,
        }
    }
}

/// One step of the decoder.
enum Step<'a> {
    Event(Event<'a>),
    /// There was something to skip; go on.
    Skipped,
}

impl Decoder {
    pub fn new(id: RequestId) -> Decoder {
        Decoder {
            id,
            state: State::Header { filled: 0 },
            partial: [0; HEADER_BYTES],
            idle_records: 0,
            stdout_ended: false,
            stderr_ended: false,
        }
    }

    /// The next event of `input`, which is shortened by what was read; `None` when all of it was. Call it until it says
    /// `None`: what comes after [`Event::End`] is refused here, and shows that the connection must not be used again.
    /// An error is final and is repeated.
    pub fn feed<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, RecordError> {
        if let State::Failed(error) = self.state {
            return Err(error);
        }
        while !input.is_empty() {
            match self.step(input) {
                Ok(Step::Event(event)) => return Ok(Some(event)),
                Ok(Step::Skipped) => {}
                Err(error) => {
                    self.state = State::Failed(error);
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// What the end of the connection means: an error unless the request is over.
    pub fn end_of_input(&self) -> Result<(), RecordError> {
        match self.state {
            State::Finished { .. } => Ok(()),
            State::Failed(error) => Err(error),
            State::Header { .. } | State::Content { .. } | State::Fixed { .. } | State::Padding { .. } => {
                Err(RecordError::Truncated)
            }
        }
    }

    /// END_REQUEST was read.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished { .. })
    }

    /// END_REQUEST was read and its padding too: if we asked to keep the connection, the next request can go out on it.
    pub fn is_reusable(&self) -> bool {
        matches!(self.state, State::Finished { padding_left: 0 })
    }

    fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, RecordError> {
        match self.state {
            State::Header { filled } => {
                let filled = self.fill(filled, input);
                if usize::from(filled) < HEADER_BYTES {
                    self.state = State::Header { filled };
                } else {
                    self.state = self.after_header()?;
                }
                Ok(Step::Skipped)
            }
            State::Content { stream, left, padding } => {
                let content = take(input, usize::from(left));
                let left = left - content.len() as u16;
                self.state = if left > 0 { State::Content { stream, left, padding } } else { after_content(padding) };
                Ok(Step::Event(match stream {
                    Stream::Stdout => Event::Stdout(content),
                    Stream::Stderr => Event::Stderr(content),
                    Stream::Values => Event::Values(content),
                }))
            }
            State::Fixed { message, filled, padding } => {
                let filled = self.fill(filled, input);
                if usize::from(filled) < HEADER_BYTES {
                    self.state = State::Fixed { message, filled, padding };
                    return Ok(Step::Skipped);
                }
                self.after_fixed(message, padding).map(Step::Event)
            }
            State::Padding { left } => {
                let left = left - take(input, usize::from(left)).len() as u8;
                self.state = after_content(left);
                Ok(Step::Skipped)
            }
            State::Finished { padding_left: 0 } => Err(RecordError::BytesAfterEndRequest),
            State::Finished { padding_left } => {
                let padding_left = padding_left - take(input, usize::from(padding_left)).len() as u8;
                self.state = State::Finished { padding_left };
                Ok(Step::Skipped)
            }
            State::Failed(error) => Err(error),
        }
    }

    fn fill(&mut self, filled: u8, input: &mut &[u8]) -> u8 {
        let at = usize::from(filled);
        let bytes = take(input, HEADER_BYTES - at);
        self.partial[at..at + bytes.len()].copy_from_slice(bytes);
        filled + bytes.len() as u8
    }

    fn after_header(&mut self) -> Result<State, RecordError> {
        let [version, record_type, id_high, id_low, length_high, length_low, padding, _] = self.partial;
        if version != VERSION {
            return Err(RecordError::UnsupportedVersion(version));
        }
        let kind = RecordKind::of(record_type).ok_or(RecordError::UnexpectedType(record_type))?;
        let expected = match kind {
            RecordKind::Stdout | RecordKind::Stderr | RecordKind::EndRequest => self.id.get(),
            RecordKind::GetValuesResult | RecordKind::UnknownType => 0,
        };
        let found = u16::from_be_bytes([id_high, id_low]);
        if found != expected {
            return Err(RecordError::WrongRequestId { expected, found });
        }
        let length = u16::from_be_bytes([length_high, length_low]);
        let is_output = length > 0 && matches!(kind, RecordKind::Stdout | RecordKind::Stderr);
        self.idle_records = if is_output { 0 } else { self.idle_records + 1 };
        if self.idle_records > IDLE_RECORDS_MAX {
            return Err(RecordError::TooManyIdleRecords);
        }
        match kind {
            RecordKind::Stdout => content(Stream::Stdout, length, padding, &mut self.stdout_ended),
            RecordKind::Stderr => content(Stream::Stderr, length, padding, &mut self.stderr_ended),
            RecordKind::GetValuesResult if length > 0 => Ok(State::Content { stream: Stream::Values, left: length, padding }),
            RecordKind::GetValuesResult => Ok(after_content(padding)),
            RecordKind::EndRequest | RecordKind::UnknownType if usize::from(length) != HEADER_BYTES => {
                Err(RecordError::BadLength { record_type, content_bytes: length })
            }
            RecordKind::EndRequest => Ok(State::Fixed { message: Message::End, filled: 0, padding }),
            RecordKind::UnknownType => Ok(State::Fixed { message: Message::UnknownType, filled: 0, padding }),
        }
    }

    fn after_fixed(&mut self, message: Message, padding: u8) -> Result<Event<'static>, RecordError> {
        let [first, second, third, fourth, status, ..] = self.partial;
        match message {
            Message::UnknownType => {
                self.state = after_content(padding);
                Ok(Event::UnknownType(first))
            }
            Message::End => {
                let protocol_status = match status {
                    0 => ProtocolStatus::RequestComplete,
                    1 => ProtocolStatus::CannotMultiplex,
                    2 => ProtocolStatus::Overloaded,
                    3 => ProtocolStatus::UnknownRole,
                    other => return Err(RecordError::UnknownProtocolStatus(other)),
                };
                self.state = State::Finished { padding_left: padding };
                Ok(Event::End { app_status: u32::from_be_bytes([first, second, third, fourth]), protocol_status })
            }
        }
    }
}

/// A record of STDOUT or STDERR. An empty one ends the stream; several of them are harmless.
fn content(stream: Stream, length: u16, padding: u8, ended: &mut bool) -> Result<State, RecordError> {
    if length == 0 {
        *ended = true;
        return Ok(after_content(padding));
    }
    if *ended {
        return Err(RecordError::ContentAfterStreamEnd);
    }
    Ok(State::Content { stream, left: length, padding })
}

fn after_content(padding: u8) -> State {
    if padding > 0 { State::Padding { left: padding } } else { State::Header { filled: 0 } }
}

/// Takes up to `bytes_max` from the front of `input`.
fn take<'a>(input: &mut &'a [u8], bytes_max: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(input.len().min(bytes_max));
    *input = rest;
    taken
}

impl RecordError {
    /// The code in logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            RecordError::UnsupportedVersion(_) => "fastcgi_unsupported_version",
            RecordError::UnexpectedType(_) => "fastcgi_unexpected_type",
            RecordError::WrongRequestId { .. } => "fastcgi_wrong_request_id",
            RecordError::BadLength { .. } => "fastcgi_bad_length",
            RecordError::UnknownProtocolStatus(_) => "fastcgi_unknown_protocol_status",
            RecordError::ContentAfterStreamEnd => "fastcgi_content_after_stream_end",
            RecordError::BytesAfterEndRequest => "fastcgi_bytes_after_end_request",
            RecordError::TooManyIdleRecords => "fastcgi_too_many_idle_records",
            RecordError::Truncated => "fastcgi_truncated",
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::UnsupportedVersion(version) => write!(f, "a FastCGI record has version {version}, not 1"),
            RecordError::UnexpectedType(kind) => {
                write!(f, "the application sent a FastCGI record of type {kind}, which is not its to send")
            }
            RecordError::WrongRequestId { expected, found } => {
                write!(f, "a FastCGI record belongs to request {found}, not to {expected}")
            }
            RecordError::BadLength { record_type, content_bytes } => {
                write!(f, "a FastCGI record of type {record_type} has {content_bytes} bytes of content, not 8")
            }
            RecordError::UnknownProtocolStatus(status) => {
                write!(f, "the application ended the request with the unknown FastCGI protocol status {status}")
            }
            RecordError::ContentAfterStreamEnd => f.write_str("STDOUT or STDERR goes on after its end"),
            RecordError::BytesAfterEndRequest => f.write_str("the application sent more after the end of the request"),
            RecordError::TooManyIdleRecords => {
                write!(f, "the application sent more than {IDLE_RECORDS_MAX} FastCGI records in a row without any output")
            }
            RecordError::Truncated => f.write_str("the application closed the connection before the end of the request"),
        }
    }
}

impl std::error::Error for RecordError {}

impl fmt::Display for ProtocolStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProtocolStatus::RequestComplete => "the request is complete",
            ProtocolStatus::CannotMultiplex => "the application serves one request per connection",
            ProtocolStatus::Overloaded => "the application is overloaded",
            ProtocolStatus::UnknownRole => "the application is no responder",
        })
    }
}
