//! One request over HTTP/2 and its answer, on a connection that is kept. The protocol is that of the proxy, `wire::h2`.

use super::http1::{LIMITS, fields, is_end, no_http};
use super::side::{Asked, BodyIn, Broken};
use std::time::Instant;
use tidegate_compare::{Answer, Failure};
use tidegate_outbound::Stream;
use tidegate_wire::h2::StreamKey;
use tidegate_wire::h2::connection::{Connection, Event, Role};
use tidegate_wire::h2::frame::FRAME_PAYLOAD_MAX;
use tidegate_wire::h2::heads::RequestForm;
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::{Fields, HeaderId, Method, RequestHead, ResponseHead};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the server may send before it is read.
const WINDOW_BYTES: u32 = 1 << 20;
const READ_BYTES: usize = 16 << 10;

pub struct Http2Link {
    stream: Stream,
    connection: Connection<()>,
}

impl Http2Link {
    pub fn new(stream: Stream) -> Http2Link {
        let ours = OurSettings {
            streams_max: 0,
            initial_window_bytes: WINDOW_BYTES,
            connection_window_bytes: WINDOW_BYTES,
            header_list_bytes_max: LIMITS.head_bytes_max as u32,
            takes_protocol: false,
        };
        Http2Link { stream, connection: Connection::new(Role::Client, ours, Instant::now()) }
    }

    pub async fn ask(&mut self, asked: &Asked<'_>) -> Result<(Answer, bool), Broken> {
        let Some(key) = self.connection.open(()) else {
            return Err(Broken { failure: Failure::Closed, has_begun: false });
        };
        let body = asked.request.body.as_slice();
        let form = RequestForm { scheme: asked.scheme, wants_trailers: false, protocol: None };
        self.connection.send_request(key, &head(asked), form, &mut Vec::new(), body.is_empty());
        let mut exchange = Exchange {
            key,
            unsent: body,
            is_bodiless: asked.request.method == "HEAD",
            head: ResponseHead::default(),
            has_head: false,
            has_begun: false,
            body: BodyIn::new(asked.body_bytes),
            trailers: Fields::default(),
        };
        match self.run(&mut exchange).await {
            Ok(()) => {
                let Exchange { head, body, trailers, .. } = exchange;
                self.connection.release(key);
                let answer =
                    Answer { status: head.status, headers: fields(&head.fields), trailers: fields(&trailers), body: body.end() };
                Ok((answer, self.connection.free_streams() > 0))
            }
            Err(failure) => Err(Broken { failure, has_begun: exchange.has_begun }),
        }
    }

    async fn run(&mut self, exchange: &mut Exchange<'_>) -> Result<(), Failure> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            exchange.send(&mut self.connection);
            let output = self.connection.take_output(Vec::new());
            let sent = async {
                self.stream.write_all(&output).await?;
                self.stream.flush().await?;
                self.stream.read(&mut buffer).await
            };
            let count = match sent.await {
                Ok(count) => count,
                Err(error) if is_end(&error) => 0,
                Err(error) => return Err(Failure::Other(error.to_string())),
            };
            if count == 0 {
                return Err(if exchange.has_head { Failure::CutShort } else { Failure::Closed });
            }
            let mut input = buffer.get(..count).unwrap_or_default();
            if exchange.take(&mut self.connection, &mut input)? {
                return Ok(());
            }
        }
    }
}

/// The target as it was read: what is no path goes into `:path` all the same, for the server to judge.
fn head(asked: &Asked<'_>) -> RequestHead {
    let request = asked.request;
    let mut head = RequestHead { method: Method::of(request.method.as_bytes()), ..RequestHead::default() };
    head.method_name = head.fields.append(&[request.method.as_bytes()]);
    head.set_path(&request.target);
    head.fields.push_id(HeaderId::Host, asked.host);
    for (name, value) in &request.fields {
        head.fields.push(name.to_ascii_lowercase().as_bytes(), value);
    }
    if !request.body.is_empty() {
        head.fields.push_id(HeaderId::ContentLength, request.body.len().to_string().as_bytes());
    }
    head
}

/// A request under way.
struct Exchange<'a> {
    key: StreamKey,
    unsent: &'a [u8],
    is_bodiless: bool,
    head: ResponseHead,
    has_head: bool,
    /// Something came for this request.
    has_begun: bool,
    body: BodyIn,
    trailers: Fields,
}

impl Exchange<'_> {
    /// Sends of the body what the windows let out.
    fn send(&mut self, connection: &mut Connection<()>) {
        while !self.unsent.is_empty() {
            let open = connection.open_bytes(self.key).min(FRAME_PAYLOAD_MAX).min(self.unsent.len());
            if open == 0 {
                return;
            }
            let (piece, rest) = self.unsent.split_at(open);
            self.unsent = rest;
            connection.send_data(self.key, piece, rest.is_empty(), false);
        }
    }

    /// Takes what came; whether the answer is whole.
    fn take(&mut self, connection: &mut Connection<()>, input: &mut &[u8]) -> Result<bool, Failure> {
        while let Some(event) = connection.receive(input, Instant::now()).map_err(|end| no_http(&end))? {
            match event {
                Event::Response { key, ends_stream } => {
                    self.has_begun = true;
                    let read = connection.read_response(key, &LIMITS, self.is_bodiless, &mut self.head);
                    read.map_err(|end| no_http(&end))?.map_err(|error| no_http(&error))?;
                    self.has_head = self.head.status >= 200;
                    if ends_stream {
                        return Ok(true);
                    }
                }
                Event::Data { key, bytes, ends_stream } => {
                    let count = bytes.len();
                    if key == self.key {
                        self.body.push(bytes);
                    }
                    if ends_stream && key == self.key {
                        return Ok(true);
                    }
                    connection.free(key, count);
                }
                Event::Trailers { .. } => {
                    let read = connection.read_trailers(&LIMITS, &mut self.trailers);
                    read.map_err(|end| no_http(&end))?.map_err(|error| no_http(&error))?;
                    return Ok(true);
                }
                // RFC 9113 section 8.1: an answer that is whole before the request was is reset without an error.
                Event::Reset { .. } if self.has_head => return Err(Failure::CutShort),
                Event::Reset { .. } => {
                    self.has_begun = true;
                    return Err(Failure::Closed);
                }
                Event::Malformed { fault, .. } => return Err(no_http(&fault)),
                Event::GoAway { last_id, .. } if last_id < self.key.id() => return Err(Failure::Closed),
                Event::GoAway { .. } | Event::Pong | Event::Request { .. } => {}
            }
        }
        Ok(false)
    }
}
