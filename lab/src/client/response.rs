//! Reads HTTP/1.1 answers and compares them with what must come: status 200, the exact length, every byte of the body.
//! No socket here. It is strict on purpose: a proxy that answers something else is not doing the work that is being measured.

use std::fmt;

use memchr::memmem;

/// No proxy under test adds more than a few hundred bytes; a longer head is a fault worth seeing.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// One answer, in whatever pieces it comes. Begin the next one with [`Response::begin`].
#[derive(Debug, Default)]
pub struct Response {
    state: State,
    /// Holds a head that came in several pieces; empty otherwise.
    head: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Body {
        received: usize,
        close: bool,
    },
    Complete {
        close: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    NeedMore,
    /// `close`: the server will close the connection after this answer.
    Complete {
        close: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadResponse {
    HeadTooLong,
    Malformed,
    Status(u16),
    NoContentLength,
    Length { announced: usize, expected: usize },
    BodyDiffers { between: (usize, usize) },
    BytesAfterTheEnd,
}

impl Response {
    pub fn begin(&mut self) {
        self.state = State::Head;
        self.head.clear();
    }

    /// True before the first byte of the current answer.
    pub fn is_untouched(&self) -> bool {
        self.state == State::Head && self.head.is_empty()
    }

    /// Takes the next piece and compares it with `expected`, the whole body that must come.
    pub fn handle(&mut self, bytes: &[u8], expected: &[u8]) -> Result<Progress, BadResponse> {
        let body = match self.state {
            State::Head => match self.handle_head(bytes, expected.len())? {
                Some(body) => body,
                None => return Ok(Progress::NeedMore),
            },
            State::Body { .. } | State::Complete { .. } => bytes,
        };
        match self.state {
            State::Head => Ok(Progress::NeedMore),
            State::Complete { close } if body.is_empty() => Ok(Progress::Complete { close }),
            State::Complete { .. } => Err(BadResponse::BytesAfterTheEnd),
            State::Body { received, close } => {
                let end = received + body.len();
                if end > expected.len() {
                    return Err(BadResponse::BytesAfterTheEnd);
                }
                if expected[received..end] != *body {
                    return Err(BadResponse::BodyDiffers { between: (received, end) });
                }
                if end < expected.len() {
                    self.state = State::Body { received: end, close };
                    return Ok(Progress::NeedMore);
                }
                self.state = State::Complete { close };
                Ok(Progress::Complete { close })
            }
        }
    }

    /// Returns what follows the head, once the head is there.
    fn handle_head<'a>(&mut self, bytes: &'a [u8], expected_bytes: usize) -> Result<Option<&'a [u8]>, BadResponse> {
        let earlier = self.head.len();
        let end = if earlier == 0 {
            memmem::find(bytes, b"\r\n\r\n")
        } else {
            self.head.extend_from_slice(bytes);
            memmem::find(&self.head, b"\r\n\r\n")
        };
        let Some(end) = end.map(|end| end + 4) else {
            if earlier == 0 {
                self.head.extend_from_slice(bytes);
            }
            return if self.head.len() > HEAD_BYTES_MAX { Err(BadResponse::HeadTooLong) } else { Ok(None) };
        };
        let head = if earlier == 0 { &bytes[..end] } else { &self.head[..end] };
        let (announced, close) = parse_head(head)?;
        if announced != expected_bytes {
            return Err(BadResponse::Length { announced, expected: expected_bytes });
        }
        self.state = if announced == 0 { State::Complete { close } } else { State::Body { received: 0, close } };
        // An earlier piece cannot hold the whole empty line, or the head would have ended there.
        Ok(Some(&bytes[end - earlier..]))
    }
}

/// The announced length, and whether the server closes.
fn parse_head(head: &[u8]) -> Result<(usize, bool), BadResponse> {
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(parse_decimal);
    match status {
        Some(200) => {}
        Some(other) => return Err(BadResponse::Status(other as u16)),
        None => return Err(BadResponse::Malformed),
    }
    let mut content_length = None;
    let mut close = false;
    for line in lines.take_while(|line| !line.is_empty()) {
        let colon = line.iter().position(|&byte| byte == b':').ok_or(BadResponse::Malformed)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            content_length = Some(parse_decimal(value).ok_or(BadResponse::Malformed)?);
        } else if name.eq_ignore_ascii_case(b"connection") {
            close |= value.eq_ignore_ascii_case(b"close");
        }
    }
    Ok((content_length.ok_or(BadResponse::NoContentLength)?, close))
}

fn parse_decimal(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

impl fmt::Display for BadResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadResponse::HeadTooLong => write!(f, "the head of the answer is longer than {HEAD_BYTES_MAX} bytes"),
            BadResponse::Malformed => f.write_str("the head of the answer is not HTTP/1.1"),
            BadResponse::Status(status) => write!(f, "status {status} instead of 200"),
            BadResponse::NoContentLength => f.write_str("the answer has no Content-Length"),
            BadResponse::Length { announced, expected } => write!(f, "{announced} bytes announced instead of {expected}"),
            BadResponse::BodyDiffers { between: (start, end) } => write!(f, "the body differs between byte {start} and {end}"),
            BadResponse::BytesAfterTheEnd => f.write_str("bytes after the end of the answer"),
        }
    }
}

impl std::error::Error for BadResponse {}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"hello world";

    /// The answer must be judged the same whole, byte by byte, and cut in two at every place.
    fn check(answer: &str, expected: Result<Progress, BadResponse>) {
        let bytes = answer.as_bytes();
        let mut cuts = vec![vec![bytes], bytes.chunks(1).collect()];
        cuts.extend((1..bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]));
        for pieces in cuts {
            let mut response = Response::default();
            let mut judged = Ok(Progress::NeedMore);
            for piece in &pieces {
                judged = response.handle(piece, BODY);
                if judged.is_err() {
                    break;
                }
            }
            match (&judged, &expected) {
                // Where a body begins to differ depends on the pieces; that it does must not.
                (Err(BadResponse::BodyDiffers { .. }), Err(BadResponse::BodyDiffers { .. })) => {}
                _ => assert_eq!(judged, expected, "{answer:?} in {} pieces", pieces.len()),
            }
        }
    }

    #[test]
    fn right_answers_are_complete_however_they_are_cut() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world", Ok(Progress::Complete { close: false }));
        check("HTTP/1.1 200 OK\r\ncontent-length:11\r\nserver: x\r\n\r\nhello world", Ok(Progress::Complete { close: false }));
        check(
            "HTTP/1.1 200 \r\nConnection: Close\r\nContent-Length: 11\r\n\r\nhello world",
            Ok(Progress::Complete { close: true }),
        );
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello worl", Ok(Progress::NeedMore));
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r", Ok(Progress::NeedMore));
    }

    #[test]
    fn wrong_answers_are_named() {
        check("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 11\r\n\r\n", Err(BadResponse::Status(502)));
        check("HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\n", Err(BadResponse::Malformed));
        check("HTTP/1.1 200 OK\r\nContent-Length 11\r\n\r\n", Err(BadResponse::Malformed));
        check("HTTP/1.1 200 OK\r\nContent-Length: +11\r\n\r\n", Err(BadResponse::Malformed));
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Err(BadResponse::NoContentLength));
        check("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", Err(BadResponse::Length { announced: 12, expected: 11 }));
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello_world", Err(BadResponse::BodyDiffers { between: (0, 11) }));
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world!", Err(BadResponse::BytesAfterTheEnd));
    }

    #[test]
    fn a_head_without_an_end_is_refused() {
        let mut response = Response::default();
        let piece = [b'a'; 1024];
        let verdict = (0..9).map(|_| response.handle(&piece, BODY)).find(Result::is_err);
        assert_eq!(verdict, Some(Err(BadResponse::HeadTooLong)));
    }

    #[test]
    fn the_next_answer_begins_afresh() {
        let mut response = Response::default();
        for _ in 0..2 {
            response.begin();
            assert!(response.is_untouched());
            let verdict = response.handle(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world", BODY);
            assert_eq!(verdict, Ok(Progress::Complete { close: false }));
            assert!(!response.is_untouched());
        }
    }
}
