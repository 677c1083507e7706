//! Reads HTTP/1.1 answers: status, framing, and the body through `body`. No socket here.
//! It is strict on purpose: a proxy that answers something else is not doing the work that is being measured.
//! An answer with another status is read to its end, so that the connection can go on.

use std::fmt;

use memchr::{memchr, memmem};

use crate::client::body::{BodyCheck, Expected};

/// No proxy under test adds more than a few hundred bytes; a longer head is a fault worth seeing.
const HEAD_BYTES_MAX: usize = 8 * 1024;
const CHUNK_LINE_BYTES_MAX: usize = 1024;

/// One answer, in whatever pieces it comes. Begin the next one with [`Response::begin`].
#[derive(Debug, Default)]
pub struct Response {
    state: State,
    /// Holds a head or a line of the chunked framing that came in several pieces; empty otherwise.
    partial: Vec<u8>,
    body: BodyCheck,
    status: u16,
    close: bool,
    started: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Length {
        remaining: u64,
    },
    UntilClose,
    ChunkSize,
    ChunkData {
        remaining: u64,
    },
    /// The line end behind a chunk.
    ChunkEnd,
    Trailer,
    Complete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseProgress {
    NeedMore,
    Complete {
        status: u16,
        /// The server will close the connection after this answer.
        close: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadResponse {
    HeadTooLong,
    Malformed,
    MalformedChunk,
    Length { received: usize, expected: usize },
    BodyDiffers { between: (usize, usize) },
    BytesAfterTheEnd,
    UnknownCoding,
    NotDecodable,
    NotCompressed,
}

/// What the head says about the rest.
struct Head {
    status: u16,
    framing: State,
    close: bool,
    body: BodyCheck,
}

impl Response {
    pub fn begin(&mut self) {
        self.partial.clear();
        *self = Response { partial: std::mem::take(&mut self.partial), ..Response::default() };
    }

    /// True before the first byte of the current answer.
    pub fn is_untouched(&self) -> bool {
        !self.started
    }

    /// Takes the next piece and compares it with what is expected.
    pub fn handle(&mut self, mut bytes: &[u8], expected: &Expected) -> Result<ResponseProgress, BadResponse> {
        self.started |= !bytes.is_empty();
        while !bytes.is_empty() && self.state != State::Complete {
            bytes = self.advance(bytes, expected)?;
        }
        match self.state {
            State::Complete if bytes.is_empty() => Ok(ResponseProgress::Complete { status: self.status, close: self.close }),
            State::Complete => Err(BadResponse::BytesAfterTheEnd),
            _ => Ok(ResponseProgress::NeedMore),
        }
    }

    /// The stream has ended: right only where the end of the stream is the end of the body.
    pub fn handle_end(&mut self, expected: &Expected) -> Result<Option<u16>, BadResponse> {
        match self.state {
            State::UntilClose => {
                self.body.finish(expected)?;
                Ok(Some(self.status))
            }
            _ => Ok(None),
        }
    }

    /// Uses up some of `bytes` and returns the rest.
    fn advance<'a>(&mut self, bytes: &'a [u8], expected: &Expected) -> Result<&'a [u8], BadResponse> {
        match self.state {
            State::Head => {
                let Some(rest) = self.take_head(bytes, expected)? else { return Ok(&[]) };
                if self.state == State::Complete {
                    self.body.finish(expected)?;
                }
                Ok(rest)
            }
            State::Length { remaining } => {
                let (now, rest) = split(bytes, remaining);
                self.body.take(now, expected)?;
                match remaining - now.len() as u64 {
                    0 => self.complete(expected)?,
                    remaining => self.state = State::Length { remaining },
                }
                Ok(rest)
            }
            State::UntilClose => {
                self.body.take(bytes, expected)?;
                Ok(&[])
            }
            State::ChunkSize => {
                let Some((size, rest)) = self.take_line(bytes, parse_chunk_size)? else { return Ok(&[]) };
                self.state = if size == 0 { State::Trailer } else { State::ChunkData { remaining: size } };
                Ok(rest)
            }
            State::ChunkData { remaining } => {
                let (now, rest) = split(bytes, remaining);
                self.body.take(now, expected)?;
                let remaining = remaining - now.len() as u64;
                self.state = if remaining == 0 { State::ChunkEnd } else { State::ChunkData { remaining } };
                Ok(rest)
            }
            State::ChunkEnd => {
                let Some((empty, rest)) = self.take_line(bytes, |line| Some(line.is_empty()))? else { return Ok(&[]) };
                if !empty {
                    return Err(BadResponse::MalformedChunk);
                }
                self.state = State::ChunkSize;
                Ok(rest)
            }
            State::Trailer => {
                let Some((last, rest)) = self.take_line(bytes, |line| Some(line.is_empty()))? else { return Ok(&[]) };
                if last {
                    self.complete(expected)?;
                }
                Ok(rest)
            }
            State::Complete => Ok(bytes),
        }
    }

    fn complete(&mut self, expected: &Expected) -> Result<(), BadResponse> {
        self.state = State::Complete;
        self.body.finish(expected)
    }

    /// Returns what follows the head, once the head is there. Interim answers (1xx) are passed over.
    fn take_head<'a>(&mut self, bytes: &'a [u8], expected: &Expected) -> Result<Option<&'a [u8]>, BadResponse> {
        let earlier = self.partial.len();
        let end = if earlier == 0 {
            memmem::find(bytes, b"\r\n\r\n")
        } else {
            self.partial.extend_from_slice(bytes);
            memmem::find(&self.partial, b"\r\n\r\n")
        };
        let Some(end) = end.map(|end| end + 4) else {
            if earlier == 0 {
                self.partial.extend_from_slice(bytes);
            }
            return if self.partial.len() > HEAD_BYTES_MAX { Err(BadResponse::HeadTooLong) } else { Ok(None) };
        };
        let head = parse_head(if earlier == 0 { &bytes[..end] } else { &self.partial[..end] }, expected)?;
        self.partial.clear();
        if !(100..200).contains(&head.status) {
            self.status = head.status;
            self.close = head.close;
            self.state = head.framing;
            self.body = head.body;
        }
        // An earlier piece cannot hold the whole empty line, or the head would have ended there.
        Ok(Some(&bytes[end - earlier..]))
    }

    /// A line without its end, as `parse` reads it, and what follows it.
    fn take_line<'a, T>(
        &mut self,
        bytes: &'a [u8],
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<(T, &'a [u8])>, BadResponse> {
        let Some(end) = memchr(b'\n', bytes) else {
            self.partial.extend_from_slice(bytes);
            return if self.partial.len() > CHUNK_LINE_BYTES_MAX { Err(BadResponse::MalformedChunk) } else { Ok(None) };
        };
        self.partial.extend_from_slice(&bytes[..end]);
        let line = self.partial.strip_suffix(b"\r").ok_or(BadResponse::MalformedChunk)?;
        let parsed = parse(line).ok_or(BadResponse::MalformedChunk)?;
        self.partial.clear();
        Ok(Some((parsed, &bytes[end + 1..])))
    }
}

fn split(bytes: &[u8], at: u64) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len().min(usize::try_from(at).unwrap_or(usize::MAX)))
}

fn parse_chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

fn parse_head(head: &[u8], expected: &Expected) -> Result<Head, BadResponse> {
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(parse_decimal);
    let status = status.filter(|status| *status >= 100).ok_or(BadResponse::Malformed)? as u16;
    let mut content_length = None;
    let mut chunked = false;
    let mut close = false;
    let mut encoding = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        let colon = memchr(b':', line).ok_or(BadResponse::Malformed)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            content_length = Some(parse_decimal(value).ok_or(BadResponse::Malformed)?);
        } else if name.eq_ignore_ascii_case(b"connection") {
            close |= value.eq_ignore_ascii_case(b"close");
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked |= value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"content-encoding") {
            encoding = Some(value);
        }
    }
    let framing = match (status, chunked, content_length) {
        (100..=199 | 204 | 304, _, _) => State::Complete,
        (_, true, _) => State::ChunkSize,
        (_, false, Some(0)) => State::Complete,
        (_, false, Some(remaining)) => State::Length { remaining },
        (_, false, None) => State::UntilClose,
    };
    // What comes with a wrong status is nobody's page.
    let body = if status == 200 { BodyCheck::begin(encoding, expected)? } else { BodyCheck::Ignored };
    Ok(Head { status, framing, close: close || framing == State::UntilClose, body })
}

fn parse_decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

impl fmt::Display for BadResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadResponse::HeadTooLong => write!(f, "the head of the answer is longer than {HEAD_BYTES_MAX} bytes"),
            BadResponse::Malformed => f.write_str("the head of the answer is not HTTP/1.1"),
            BadResponse::MalformedChunk => f.write_str("the chunked framing of the answer is broken"),
            BadResponse::Length { received, expected } => write!(f, "{received} bytes of body instead of {expected}"),
            BadResponse::BodyDiffers { between: (start, end) } => write!(f, "the body differs between byte {start} and {end}"),
            BadResponse::BytesAfterTheEnd => f.write_str("bytes after the end of the answer"),
            BadResponse::UnknownCoding => f.write_str("a Content-Encoding that nobody asked for"),
            BadResponse::NotCompressed => f.write_str("the answer is not compressed"),
            BadResponse::NotDecodable => f.write_str("the body is not of its Content-Encoding"),
        }
    }
}

impl std::error::Error for BadResponse {}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: Result<ResponseProgress, BadResponse> = Ok(ResponseProgress::Complete { status: 200, close: false });

    /// The answer must be judged the same whole, byte by byte, and cut in two at every place.
    fn check(answer: &str, expected: Result<ResponseProgress, BadResponse>) {
        let body = Expected::new(b"hello world".to_vec());
        let bytes = answer.as_bytes();
        let mut cuts = vec![vec![bytes], bytes.chunks(1).collect()];
        cuts.extend((1..bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]));
        for pieces in cuts {
            let mut response = Response::default();
            let mut judged = Ok(ResponseProgress::NeedMore);
            for piece in &pieces {
                judged = response.handle(piece, &body);
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
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world", RIGHT);
        check("HTTP/1.1 200 OK\r\ncontent-length:11\r\nserver: x\r\n\r\nhello world", RIGHT);
        check("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world", RIGHT);
        check(
            "HTTP/1.1 200 \r\nConnection: Close\r\nContent-Length: 11\r\n\r\nhello world",
            Ok(ResponseProgress::Complete { status: 200, close: true }),
        );
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello worl", Ok(ResponseProgress::NeedMore));
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r", Ok(ResponseProgress::NeedMore));
    }

    #[test]
    fn chunked_answers_are_put_together() {
        const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&format!("{HEAD}b\r\nhello world\r\n0\r\n\r\n"), RIGHT);
        check(&format!("{HEAD}5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n"), RIGHT);
        check(&format!("{HEAD}b\r\nhello world\r\n"), Ok(ResponseProgress::NeedMore));
        check(&format!("{HEAD}b\r\nhello worldx\r\n"), Err(BadResponse::MalformedChunk));
        check(&format!("{HEAD}x\r\n"), Err(BadResponse::MalformedChunk));
        check(&format!("{HEAD}b\nhello world\r\n"), Err(BadResponse::MalformedChunk));
        check(&format!("{HEAD}5\r\nhello\r\n0\r\n\r\n"), Err(BadResponse::Length { received: 5, expected: 11 }));
    }

    #[test]
    fn answers_with_another_status_are_read_to_their_end() {
        let complete = |status| Ok(ResponseProgress::Complete { status, close: false });
        check("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops", complete(502));
        check("HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", complete(503));
        check("HTTP/1.1 204 No Content\r\n\r\n", complete(204));
        check("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", complete(404));
    }

    #[test]
    fn wrong_answers_are_named() {
        check("HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\n", Err(BadResponse::Malformed));
        check("HTTP/1.1 200 OK\r\nContent-Length 11\r\n\r\n", Err(BadResponse::Malformed));
        check("HTTP/1.1 200 OK\r\nContent-Length: +11\r\n\r\n", Err(BadResponse::Malformed));
        check("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Err(BadResponse::Length { received: 0, expected: 11 }));
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Err(BadResponse::Length { received: 5, expected: 11 }));
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello_world", Err(BadResponse::BodyDiffers { between: (0, 11) }));
        check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world!", Err(BadResponse::BytesAfterTheEnd));
    }

    #[test]
    fn a_body_may_end_with_the_stream() {
        let expected = Expected::new(b"hello world".to_vec());
        let mut response = Response::default();
        assert_eq!(response.handle(b"HTTP/1.1 200 OK\r\n\r\nhello world", &expected), Ok(ResponseProgress::NeedMore));
        assert_eq!(response.handle_end(&expected), Ok(Some(200)));
        response.begin();
        assert_eq!(
            response.handle(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhell", &expected),
            Ok(ResponseProgress::NeedMore)
        );
        assert_eq!(response.handle_end(&expected), Ok(None));
    }

    #[test]
    fn a_head_without_an_end_is_refused() {
        let mut response = Response::default();
        let expected = Expected::new(Vec::new());
        let piece = [b'a'; 1024];
        let verdict = (0..9).map(|_| response.handle(&piece, &expected)).find(Result::is_err);
        assert_eq!(verdict, Some(Err(BadResponse::HeadTooLong)));
    }

    #[test]
    fn the_next_answer_begins_afresh() {
        let expected = Expected::new(b"hello world".to_vec());
        let mut response = Response::default();
        for _ in 0..2 {
            response.begin();
            assert!(response.is_untouched());
            assert_eq!(response.handle(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world", &expected), RIGHT);
            assert!(!response.is_untouched());
        }
    }
}
