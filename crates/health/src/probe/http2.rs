//! One request over HTTP/2 and its answer, with every bound far below the protocol's defaults. The protocol is that of
//! requests, `wire::h2`; nothing else is on the connection. What is asked is in `http` and `grpc`.

use crate::fault::{ProbeFault, causes};
use crate::probe::HEAD_BYTES_MAX;
use std::time::Instant;
use tidegate_wire::HeadLimits;
use tidegate_wire::h2::StreamKey;
use tidegate_wire::h2::connection::{Connection, Event, Role};
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::FRAME_PAYLOAD_MAX;
use tidegate_wire::h2::heads::RequestForm;
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::head::{Fields, Method, RequestHead, ResponseHead};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What the server may send before it is read; more than is looked at of a body.
const WINDOW_BYTES: u32 = 64 << 10;
/// One read.
const READ_BYTES: usize = 16 << 10;
/// Fields that an answer to a check may have.
const FIELDS_MAX: usize = 128;

/// What is asked.
pub struct Question<'q> {
    pub head: &'q RequestHead,
    pub scheme: &'static str,
    /// Small: it goes out with the head.
    pub body: Option<&'q [u8]>,
    /// How much of the answer's body is of use.
    pub body_bytes_max: usize,
}

/// What was answered.
#[derive(Default)]
pub struct Told {
    pub head: ResponseHead,
    /// The beginning of the body.
    pub body: Vec<u8>,
    pub trailers: Option<Fields>,
}

/// Asks, and reads the answer as far as it is of use: to its end, or until the body is longer than what is wanted.
pub async fn ask<S>(mut stream: S, question: &Question<'_>) -> Result<Told, ProbeFault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ours = OurSettings {
        streams_max: 0,
        initial_window_bytes: WINDOW_BYTES,
        connection_window_bytes: WINDOW_BYTES,
        header_list_bytes_max: HEAD_BYTES_MAX as u32,
        takes_protocol: false,
    };
    let mut connection: Connection<()> = Connection::new(Role::Client, ours, Instant::now());
    let key = connection.open(()).ok_or_else(|| fault("no stream can be opened"))?;
    send(&mut connection, key, question);
    let mut asking = Asking { connection, key, question, told: Told::default(), has_head: false };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let output = asking.connection.take_output(Vec::new());
        stream.write_all(&output).await.map_err(|error| ProbeFault::Http { why: causes(&error) })?;
        stream.flush().await.map_err(|error| ProbeFault::Http { why: causes(&error) })?;
        let count = stream.read(&mut buffer).await.map_err(|error| ProbeFault::Http { why: causes(&error) })?;
        if count == 0 {
            return Err(fault("the server closed the connection before its answer was complete"));
        }
        let mut input = buffer.get(..count).unwrap_or_default();
        if asking.take(&mut input)? {
            return Ok(asking.told);
        }
    }
}

fn send(connection: &mut Connection<()>, key: StreamKey, question: &Question<'_>) {
    // A check that wants trailers is one by gRPC, whose servers insist on the word.
    let wants_trailers = question.body.is_some();
    let mut scratch = Vec::new();
    let form = RequestForm { scheme: question.scheme, wants_trailers, protocol: None };
    connection.send_request(key, question.head, form, &mut scratch, question.body.is_none());
    if let Some(body) = question.body {
        // The first window of every server has room for it.
        for (at, piece) in body.chunks(FRAME_PAYLOAD_MAX).enumerate() {
            connection.send_data(key, piece, (at + 1) * FRAME_PAYLOAD_MAX >= body.len(), false);
        }
    }
}

/// A question whose answer comes.
struct Asking<'q> {
    connection: Connection<()>,
    key: StreamKey,
    question: &'q Question<'q>,
    told: Told,
    has_head: bool,
}

impl Asking<'_> {
    /// Takes what came; whether the answer is there.
    fn take(&mut self, input: &mut &[u8]) -> Result<bool, ProbeFault> {
        let limits = HeadLimits { head_bytes_max: HEAD_BYTES_MAX, fields_max: FIELDS_MAX, ..HeadLimits::default() };
        while let Some(event) = self.connection.receive(input, Instant::now()).map_err(end_fault)? {
            match event {
                Event::Response { ends_stream, .. } => {
                    let is_bodiless = self.question.head.method == Method::Head;
                    let read = self.connection.read_response(self.key, &limits, is_bodiless, &mut self.told.head);
                    read.map_err(end_fault)?.map_err(|error| ProbeFault::Http { why: causes(&error) })?;
                    self.has_head = self.told.head.status >= 200;
                    if ends_stream || (self.has_head && self.question.body_bytes_max == 0) {
                        return Ok(true);
                    }
                }
                Event::Data { bytes, ends_stream, .. } => {
                    let wanted = self.question.body_bytes_max - self.told.body.len();
                    self.told.body.extend_from_slice(bytes.get(..wanted).unwrap_or(bytes));
                    let count = bytes.len();
                    if ends_stream || self.told.body.len() == self.question.body_bytes_max {
                        return Ok(true);
                    }
                    self.connection.free(self.key, count);
                }
                Event::Trailers { .. } => {
                    let mut trailers = Fields::default();
                    let read = self.connection.read_trailers(&limits, &mut trailers);
                    read.map_err(end_fault)?.map_err(|error| ProbeFault::Http { why: causes(&error) })?;
                    self.told.trailers = Some(trailers);
                    return Ok(true);
                }
                Event::Reset { code, .. } => return Err(fault(&format!("the request was reset: {}", code.name()))),
                Event::Malformed { fault: broken, .. } => return Err(ProbeFault::Http { why: causes(&broken) }),
                Event::GoAway { last_id, code } if last_id < self.key.id() => {
                    return Err(fault(&format!("the server takes no requests: {}", code.name())));
                }
                Event::GoAway { .. } | Event::Pong | Event::Request { .. } => {}
            }
        }
        Ok(false)
    }
}

fn end_fault(end: ConnectionEnd) -> ProbeFault {
    ProbeFault::Http { why: causes(&end) }
}

fn fault(why: &str) -> ProbeFault {
    ProbeFault::Http { why: why.to_owned() }
}
