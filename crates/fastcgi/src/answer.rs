//! The head of an answer, as a script writes it to STDOUT (RFC 3875 section 6). What follows it is the body and is left
//! where it is. Which fields reach the client, and how the body is framed for it, is for the caller; the stream comes
//! out of `record`.

mod error;
mod line;
#[cfg(test)]
mod tests;

pub use error::AnswerError;

use line::Line;
use memchr::memchr;

/// The whole head, from its first byte to the end of the empty line.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Field lines of a head.
pub const FIELDS_MAX: usize = 256;

/// The head of an answer.
#[derive(Debug, Clone, Default)]
pub struct AnswerHead {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    status: Option<Status>,
    /// The field's place in `fields`.
    location: Option<usize>,
    content_length: Option<u64>,
}

/// What an answer is (RFC 3875 section 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Document,
    /// The server is to answer as if the client had asked for the path and query in Location, which is the only field.
    /// A script can send itself round in circles: whoever follows counts. It may also be passed on as a client
    /// redirect, which leaves the routes in charge.
    LocalRedirect,
    /// The client is to go elsewhere; Location is among the fields.
    ClientRedirect,
}

#[derive(Debug)]
pub enum Progress {
    /// All of the input was read and the head goes on.
    NeedMore,
    Complete(AnswerHead),
}

/// Reads a head in any fragmentation.
#[derive(Debug, Default)]
pub struct AnswerParser {
    head: AnswerHead,
    /// Where the line that is not complete yet starts.
    line_start: usize,
}

/// Places in the head's bytes.
#[derive(Debug, Clone, Copy)]
struct Field {
    start: u16,
    name_end: u16,
    value_start: u16,
    value_end: u16,
}

#[derive(Debug, Clone, Copy)]
struct Status {
    code: u16,
    reason_start: u16,
    reason_end: u16,
}

impl AnswerParser {
    pub fn new() -> AnswerParser {
        AnswerParser::default()
    }

    /// Reads on in STDOUT. `stdout` is shortened by what belongs to the head; after [`Progress::Complete`] what is left
    /// of it is body. The parser is then as new; after an error it must not be used further.
    pub fn feed(&mut self, stdout: &mut &[u8]) -> Result<Progress, AnswerError> {
        while !stdout.is_empty() {
            let line_feed = memchr(b'\n', stdout);
            let (piece, rest) = stdout.split_at(line_feed.map_or(stdout.len(), |at| at + 1));
            if piece.len() > HEAD_BYTES_MAX - self.head.bytes.len() {
                return Err(AnswerError::HeadTooLarge);
            }
            self.head.bytes.extend_from_slice(piece);
            *stdout = rest;
            if line_feed.is_none() {
                break;
            }
            match line::parse(&self.head.bytes, self.line_start)? {
                Line::Empty => return Ok(Progress::Complete(std::mem::take(self).head)),
                Line::Field(field) => self.head.add(field)?,
            }
            self.line_start = self.head.bytes.len();
        }
        Ok(Progress::NeedMore)
    }

    /// What it means that STDOUT ended before the head did.
    pub fn end_of_input(&self) -> AnswerError {
        if self.head.bytes.is_empty() { AnswerError::NoAnswer } else { AnswerError::Truncated }
    }
}

impl AnswerHead {
    /// 200 to 999. Where the script gives none it is 200, or 302 for a client redirect.
    pub fn status(&self) -> u16 {
        match (self.status, self.kind()) {
            (Some(status), _) => status.code,
            (None, Kind::ClientRedirect) => 302,
            (None, Kind::Document | Kind::LocalRedirect) => 200,
        }
    }

    /// As the script wrote it; empty when it did not.
    pub fn reason(&self) -> &[u8] {
        self.status.map_or(b"", |status| &self.bytes[usize::from(status.reason_start)..usize::from(status.reason_end)])
    }

    pub fn kind(&self) -> Kind {
        // Section 6.2.2: Location and nothing else. A document that happens to have a Location, or a field that an
        // attacker brought into a script's answer, must not send a request past the routes of this server.
        // `//host/path` means another host to every client.
        let is_alone = self.fields.len() == 1 && self.content_length.is_none();
        match (self.location(), self.status) {
            (None, _) => Kind::Document,
            (Some(_), Some(status)) if (300..400).contains(&status.code) => Kind::ClientRedirect,
            (Some(_), Some(_)) => Kind::Document,
            (Some(location), None) if is_alone && location.starts_with(b"/") && !location.starts_with(b"//") => {
                Kind::LocalRedirect
            }
            (Some(_), None) => Kind::ClientRedirect,
        }
    }

    /// The value of Location, never empty. It is not checked as a URI: a local redirect's begins with one slash, and
    /// what follows is to be read as strictly as a client's request target.
    pub fn location(&self) -> Option<&[u8]> {
        self.location.map(|place| self.field(self.fields[place]).1)
    }

    /// What the script says about the length of its body; it may write more or less.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Whether a body may go to the client; what the script wrote of one is to be dropped otherwise. `method` is that
    /// of the request.
    pub fn body_allowed(&self, method: &[u8]) -> bool {
        method != b"HEAD" && !matches!(self.status(), 204 | 304)
    }

    /// Names and values, in order and as the script wrote them, without Status and Content-Length, which are given
    /// above, and without those that are about a connection (RFC 3875 section 6.3.4): Connection, Keep-Alive,
    /// Proxy-Connection, TE, Trailer, Upgrade.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| self.field(*field))
    }

    fn field(&self, field: Field) -> (&[u8], &[u8]) {
        (
            &self.bytes[usize::from(field.start)..usize::from(field.name_end)],
            &self.bytes[usize::from(field.value_start)..usize::from(field.value_end)],
        )
    }

    fn add(&mut self, field: Field) -> Result<(), AnswerError> {
        let (name, value) = self.field(field);
        match Name::of(name) {
            Name::Status => {
                if self.status.is_some() {
                    return Err(AnswerError::StatusRepeated);
                }
                self.status = Some(line::parse_status(&self.bytes, field).ok_or(AnswerError::BadStatus)?);
                return Ok(());
            }
            Name::ContentLength => {
                let length = line::parse_content_length(value).ok_or(AnswerError::BadContentLength)?;
                if self.content_length.is_some_and(|before| before != length) {
                    return Err(AnswerError::ContentLengthDisagrees);
                }
                self.content_length = Some(length);
                return Ok(());
            }
            Name::TransferEncoding => return Err(AnswerError::TransferEncoding),
            Name::Connection => return Ok(()),
            Name::Location => {
                if self.location.is_some() {
                    return Err(AnswerError::LocationRepeated);
                }
                if value.is_empty() {
                    return Err(AnswerError::LocationEmpty);
                }
                self.location = Some(self.fields.len());
            }
            Name::Other => {}
        }
        if self.fields.len() == FIELDS_MAX {
            return Err(AnswerError::TooManyFields);
        }
        self.fields.push(field);
        Ok(())
    }
}

/// The fields that mean something here.
#[derive(Debug, Clone, Copy)]
enum Name {
    Status,
    Location,
    ContentLength,
    TransferEncoding,
    /// About a connection, which is ours and not the script's.
    Connection,
    Other,
}

impl Name {
    fn of(name: &[u8]) -> Name {
        const CONNECTION: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"];
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("status") {
            Name::Status
        } else if is("location") {
            Name::Location
        } else if is("content-length") {
            Name::ContentLength
        } else if is("transfer-encoding") {
            Name::TransferEncoding
        } else if CONNECTION.into_iter().any(is) {
            Name::Connection
        } else {
            Name::Other
        }
    }
}
