//! One of our connections and everything that its owner learns, written down. The owner reads heads as they come, reads
//! bodies at once, and answers a malformed head as the proxy does, by a reset.

use std::time::Instant;
use tidegate_wire::h2::connection::{Connection, Event, Role};
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::h2::heads::RequestForm;
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::h2::{DEFAULT_WINDOW_BYTES, StreamKey};
use tidegate_wire::head::Fields;
use tidegate_wire::http1::parse_request;
use tidegate_wire::{HeadError, HeadLimits, RequestHead, ResponseHead};

/// What an owner learns, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The head of a request or of an answer: pseudo-headers that count, and the fields.
    Head {
        stream: u32,
        text: String,
        ends_stream: bool,
    },
    /// A head or trailers that broke a rule.
    Malformed {
        stream: u32,
        why: HeadError,
    },
    Data {
        stream: u32,
        bytes: Vec<u8>,
        ends_stream: bool,
    },
    Trailers {
        stream: u32,
        text: String,
    },
    Reset {
        stream: u32,
        code: ErrorCode,
        by_peer: bool,
    },
    GoAway {
        last_id: u32,
        code: ErrorCode,
    },
    Pong,
}

pub struct Endpoint {
    pub connection: Connection<()>,
    pub facts: Vec<Fact>,
    pub end: Option<ConnectionEnd>,
    /// Whether bodies are read as they come.
    pub reads: bool,
    pub now: Instant,
}

pub fn settings() -> OurSettings {
    OurSettings {
        streams_max: 100,
        initial_window_bytes: DEFAULT_WINDOW_BYTES,
        connection_window_bytes: 1 << 20,
        header_list_bytes_max: 65_536,
        takes_protocol: false,
    }
}

impl Endpoint {
    pub fn new(role: Role) -> Endpoint {
        let now = Instant::now();
        let connection = Connection::new(role, settings(), now);
        Endpoint { connection, facts: Vec::new(), end: None, reads: true, now }
    }

    /// Opens a stream with a request whose body follows, if it `has_body`.
    pub fn ask(&mut self, text: &str, has_body: bool) -> StreamKey {
        let mut head = RequestHead::default();
        parse_request(text.as_bytes(), &HeadLimits::default(), &mut head).expect("a request");
        let key = self.connection.open(()).expect("a free stream");
        let form = RequestForm { scheme: "http", wants_trailers: false, protocol: None };
        self.connection.send_request(key, &head, form, &mut Vec::new(), !has_body);
        key
    }

    /// The stream of that id, where there is one.
    pub fn key(&self, id: u32) -> Option<StreamKey> {
        self.connection.keys().find(|key| key.id() == id)
    }

    /// Takes bytes that came, until the connection ends.
    pub fn receive(&mut self, bytes: &[u8]) {
        let mut input = bytes;
        while self.end.is_none() {
            let taken = match self.connection.receive(&mut input, self.now) {
                Ok(None) => break,
                Ok(Some(event)) => take(&mut self.connection, &mut self.facts, event, self.now, self.reads),
                Err(end) => Err(end),
            };
            self.end = taken.err();
        }
    }
}

fn take(
    connection: &mut Connection<()>,
    facts: &mut Vec<Fact>,
    event: Event<'_>,
    now: Instant,
    reads: bool,
) -> Result<(), ConnectionEnd> {
    let limits = HeadLimits::default();
    let (stream, fact) = match event {
        Event::Request { key, ends_stream } => {
            let mut head = RequestHead::default();
            let read = connection.read_request(key, &limits, &mut head)?;
            let text = || {
                let authority = String::from_utf8_lossy(head.authority()).into_owned();
                let target = String::from_utf8_lossy(head.path()).into_owned();
                let query = head.query().map(|query| format!("?{}", String::from_utf8_lossy(query))).unwrap_or_default();
                let method = String::from_utf8_lossy(head.method_name()).into_owned();
                format!("{method} {authority} {target}{query}\n{}", written(&head.fields, true))
            };
            (key, read.map(|_| Fact::Head { stream: key.id(), text: text(), ends_stream }))
        }
        Event::Response { key, ends_stream } => {
            let mut head = ResponseHead::default();
            let read = connection.read_response(key, &limits, false, &mut head)?;
            let text = || format!("{}\n{}", head.status, written(&head.fields, false));
            (key, read.map(|()| Fact::Head { stream: key.id(), text: text(), ends_stream }))
        }
        Event::Trailers { key } => {
            let mut trailers = Fields::default();
            let read = connection.read_trailers(&limits, &mut trailers)?;
            (key, read.map(|()| Fact::Trailers { stream: key.id(), text: written(&trailers, false) }))
        }
        Event::Data { key, bytes, ends_stream } => {
            if reads {
                connection.free(key, bytes.len());
            }
            match facts.last_mut() {
                // In how many pieces a frame came does not matter.
                Some(Fact::Data { stream, bytes: before, ends_stream: ended }) if *stream == key.id() => {
                    before.extend(bytes);
                    *ended |= ends_stream;
                    return Ok(());
                }
                _ => (key, Ok(Fact::Data { stream: key.id(), bytes: bytes.to_vec(), ends_stream })),
            }
        }
        Event::Reset { key, code, by_peer } => (key, Ok(Fact::Reset { stream: key.id(), code, by_peer })),
        // The owner of the stream has nothing to say.
        Event::Malformed { key, is_answerable, .. } => {
            if is_answerable {
                connection.release(key);
            }
            (key, Ok(Fact::Reset { stream: key.id(), code: ErrorCode::ProtocolError, by_peer: false }))
        }
        Event::GoAway { last_id, code } => {
            facts.push(Fact::GoAway { last_id, code });
            return Ok(());
        }
        Event::Pong => {
            facts.push(Fact::Pong);
            return Ok(());
        }
    };
    match fact {
        Ok(fact) => facts.push(fact),
        Err(why) => {
            facts.push(Fact::Malformed { stream: stream.id(), why });
            connection.reset_for_fault(stream, now)?;
        }
    }
    Ok(())
}

/// Fields as lines; `Host` of a request is its authority.
fn written(fields: &Fields, of_request: bool) -> String {
    let lines = fields.iter().filter(|(name, _)| !of_request || !name.eq_ignore_ascii_case(b"host"));
    let lines: Vec<String> = lines.map(|(name, value)| format!("{}: {}\n", name.escape_ascii(), value.escape_ascii())).collect();
    lines.concat()
}
