//! One request over HTTP/1.1 and its answer. The target goes out as it was read; the answer is read by the codec of the
//! proxy, so what that would refuse of an upstream is no answer here either.

use super::side::{Asked, BodyIn, Broken};
use std::io;
use tidegate_compare::{Answer, Failure};
use tidegate_outbound::Stream;
use tidegate_wire::chunked::Peer;
use tidegate_wire::head::Fields;
use tidegate_wire::http1::{BodyFraming, keep_alive_response, parse_response, response_framing};
use tidegate_wire::{BodyDecoder, HeadLimits, Method, Parsed, ResponseHead};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf};

const READ_BYTES: usize = 16 << 10;
pub const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 256 << 10, request_line_bytes_max: 64 << 10, fields_max: 512 };

pub struct Http1Link {
    stream: Stream,
    /// What came and was not read.
    input: Vec<u8>,
}

impl Http1Link {
    pub fn new(stream: Stream) -> Http1Link {
        Http1Link { stream, input: Vec::new() }
    }

    pub async fn ask(&mut self, asked: &Asked<'_>) -> Result<(Answer, bool), Broken> {
        let request = written(asked);
        let (read, mut write) = tokio::io::split(&mut self.stream);
        let mut reading = Reading { read, input: &mut self.input, has_begun: false };
        // A server may answer before it has read everything, and need not read the rest.
        let sending = async {
            let sent = async {
                write.write_all(&request).await?;
                write.flush().await
            };
            // If it cannot be sent, what has come says why, or the end of it does.
            drop(sent.await);
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            biased;
            outcome = reading.answer(asked) => outcome,
            () = sending => Err(Failure::Closed),
        };
        let has_begun = reading.has_begun;
        outcome.map_err(|failure| Broken { failure, has_begun })
    }
}

fn written(asked: &Asked<'_>) -> Vec<u8> {
    let request = asked.request;
    let mut out = Vec::with_capacity(512 + request.body.len());
    let mut put = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    put(&[request.method.as_bytes(), b" ", &request.target, b" HTTP/1.1\r\nHost: ", asked.host, b"\r\n"]);
    for (name, value) in &request.fields {
        put(&[name.as_bytes(), b": ", value, b"\r\n"]);
    }
    if !request.body.is_empty() || !request.is_safe() {
        put(&[b"Content-Length: ", request.body.len().to_string().as_bytes(), b"\r\n"]);
    }
    put(&[b"\r\n", &request.body]);
    out
}

struct Reading<'l> {
    read: ReadHalf<&'l mut Stream>,
    input: &'l mut Vec<u8>,
    has_begun: bool,
}

impl Reading<'_> {
    async fn answer(&mut self, asked: &Asked<'_>) -> Result<(Answer, bool), Failure> {
        let mut head = ResponseHead::default();
        loop {
            match parse_response(self.input, &LIMITS, &mut head).map_err(|error| no_http(&error))? {
                Parsed::Complete { consumed } => {
                    self.input.drain(..consumed);
                    if head.status >= 200 || head.status == 101 {
                        break;
                    }
                }
                Parsed::Partial if self.more().await? => {}
                Parsed::Partial if self.has_begun => return Err(Failure::CutShort),
                Parsed::Partial => return Err(Failure::Closed),
            }
        }
        let framing = response_framing(&head, Method::of(asked.request.method.as_bytes())).map_err(|error| no_http(&error))?;
        let mut decoder = BodyDecoder::new(framing, Peer::Upstream, &LIMITS);
        let mut body = BodyIn::new(asked.body_bytes);
        while !decoder.is_finished() {
            let decoded = decoder.decode_in_place(self.input).map_err(|error| no_http(&error))?;
            body.push(&self.input[decoded.payload]);
            self.input.drain(..decoded.consumed);
            if !decoded.finished && decoded.consumed == 0 && !self.more().await? {
                decoder.finish_at_end_of_stream().map_err(|_| Failure::CutShort)?;
            }
        }
        let is_kept =
            keep_alive_response(&head) && framing != BodyFraming::UntilClose && self.input.is_empty() && head.status != 101;
        let trailers = decoder.take_trailers().map(|trailers| fields(&trailers)).unwrap_or_default();
        Ok((Answer { status: head.status, headers: fields(&head.fields), trailers, body: body.end() }, is_kept))
    }

    /// Reads; `false` at the end.
    async fn more(&mut self) -> Result<bool, Failure> {
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let count = self.read.read(&mut self.input[start..]).await;
        self.input.truncate(start + count.as_ref().map_or(0, |count| *count));
        match count {
            Ok(count) => {
                self.has_begun |= count > 0;
                Ok(count > 0)
            }
            Err(_) if self.has_begun => Err(Failure::CutShort),
            Err(error) if is_end(&error) => Err(Failure::Closed),
            Err(error) => Err(Failure::Other(error.to_string())),
        }
    }
}

pub fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

pub fn no_http(error: &dyn std::error::Error) -> Failure {
    Failure::Other(format!("sends what is no answer: {error}"))
}

pub fn fields(fields: &Fields) -> Vec<(String, Vec<u8>)> {
    fields.iter().map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec())).collect()
}
