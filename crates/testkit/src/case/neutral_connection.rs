//! One HTTP/2 connection of a client that is written by hand, so that it can say what no library would: heads are
//! encoded as they stand, without tables. What it receives is checked more strictly than browsers do. The commands of
//! a case are in `neutral.rs`.

use super::frames::{
    ACK, CONTINUATION, DATA, END_STREAM, Frame, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, error_code,
    frame, header_block, take_frame,
};
use super::parse_command::{END_HEADERS, ERROR_CODES};
use super::script::Request;
use crate::connection::{Connection, Socket};
use crate::head::Head;
use std::collections::{BTreeMap, VecDeque};

/// Wide windows, so that what holds a transfer up is the proxy or the script.
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// The windows and the size of frames that a peer has before it says others (RFC 9113 section 6.5.2).
const WINDOW_DEFAULT: i64 = 65_535;
const FRAME_BYTES_MAX: usize = 16_384;
const SETTING_ENABLE_PUSH: u16 = 2;
const SETTING_INITIAL_WINDOW: u16 = 4;

/// One request and its answer.
#[derive(Default)]
pub struct NeutralStream {
    /// Received and not yet asked for; interim ones as well.
    pub heads: VecDeque<Head>,
    /// The head that is not an interim one has come.
    has_answer: bool,
    /// The length that the answer's head gives, when its body has to have it.
    promised: Option<u64>,
    is_head_request: bool,
    received_bytes: u64,
    pub data: Vec<u8>,
    pub trailers: Head,
    pub is_ended: bool,
    /// A case has read its body to the end.
    pub is_read: bool,
    pub reset: Option<u32>,
    /// The answer is whole, and nobody wants the rest of the request (RFC 9113 section 8.1).
    is_stopped: bool,
    /// What no server may send.
    pub fault: Option<String>,
    send_window: i64,
    /// Bytes of the request's body that are to come, when its head says how many.
    left: Option<u64>,
    is_sent: bool,
}

/// A block of fields that may come in several frames.
struct Block {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
}

pub struct NeutralConnection {
    pub socket: Connection,
    decoder: fluke_hpack::Decoder<'static>,
    pub streams: BTreeMap<u32, NeutralStream>,
    /// Of the request sent last.
    pub sending: u32,
    send_window: i64,
    initial_window: i64,
    block: Option<Block>,
    pongs: u64,
    pub goaway: Option<u32>,
    fault: Option<String>,
}

impl NeutralConnection {
    pub async fn open(socket: Socket) -> NeutralConnection {
        let mut connection = NeutralConnection {
            socket: Connection::new(socket),
            decoder: fluke_hpack::Decoder::new(),
            streams: BTreeMap::new(),
            sending: 0,
            send_window: WINDOW_DEFAULT,
            initial_window: WINDOW_DEFAULT,
            block: None,
            pongs: 0,
            goaway: None,
            fault: None,
        };
        let mut settings = Vec::new();
        for (setting, value) in [(SETTING_ENABLE_PUSH, 0), (SETTING_INITIAL_WINDOW, STREAM_WINDOW)] {
            settings.extend_from_slice(&setting.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        let window = (CONNECTION_WINDOW - WINDOW_DEFAULT as u32).to_be_bytes();
        let bytes = [PREFACE, &frame(SETTINGS, 0, 0, &settings), &frame(WINDOW_UPDATE, 0, 0, &window)].concat();
        // Whoever is turned away at once is told so by what is read.
        let _ = connection.socket.write(&bytes).await;
        connection
    }

    /// What happened to the connection, for messages.
    pub fn end(&self) -> String {
        let code = self.goaway.map(|code| format!(", GOAWAY {}", code_name(code))).unwrap_or_default();
        format!("the connection ended ({:?}{code})", self.socket.end)
    }

    /// The stream, which a case has asked for something on.
    pub fn stream(&mut self, id: u32) -> Result<&mut NeutralStream, String> {
        self.streams.get_mut(&id).ok_or_else(|| "nothing was asked on this connection".to_owned())
    }

    pub async fn request(&mut self, request: &Request, scheme: &str, cookies: Option<String>) -> Result<u32, String> {
        let id = if self.sending == 0 { 1 } else { self.sending + 2 };
        let pseudo = |name: &str, value: &[u8]| [name.as_bytes(), b": ", value].concat();
        let mut fields = vec![pseudo(":method", &request.method), pseudo(":scheme", scheme.as_bytes())];
        fields.extend(request.host.iter().map(|host| pseudo(":authority", host)));
        fields.push(pseudo(":path", &request.target));
        fields.extend(request.fields.iter().map(|line| in_lower_case(line)));
        fields.extend(cookies.map(|value| format!("cookie: {value}").into_bytes()));
        let has_body = request.has_body();
        let block = header_block(&fields)?;
        let mut pieces = block.chunks(FRAME_BYTES_MAX).peekable();
        let (mut kind, mut flags) = (HEADERS, if has_body { 0 } else { END_STREAM });
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next() {
            let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
            bytes.extend_from_slice(&frame(kind, flags | last, id, piece));
            (kind, flags) = (CONTINUATION, 0);
        }
        self.sending = id;
        let stream = NeutralStream {
            is_head_request: request.method == b"HEAD",
            send_window: self.initial_window,
            left: request.length(),
            is_sent: !has_body,
            ..NeutralStream::default()
        };
        self.streams.insert(id, stream);
        let sent = self.write(&bytes).await;
        if !request.may_fail {
            sent?;
        }
        if !request.body.is_empty() {
            self.send_data(&request.body).await?;
        }
        Ok(id)
    }

    /// The body of the request sent last goes on; with its last byte, when its length is known, the stream ends.
    pub async fn send_data(&mut self, bytes: &[u8]) -> Result<(), String> {
        let id = self.sending;
        let mut rest = bytes;
        loop {
            let connection_window = self.send_window;
            let stream = self.stream(id)?;
            if let Some(code) = stream.reset {
                return Err(format!("the stream was reset with {}", code_name(code)));
            }
            if stream.is_stopped {
                return Err("the other side has answered, and wants no more".into());
            }
            let window = connection_window.min(stream.send_window).max(0) as usize;
            let (piece, after) = rest.split_at(rest.len().min(window).min(FRAME_BYTES_MAX));
            if piece.is_empty() && !rest.is_empty() {
                if !self.receive().await? {
                    return Err(self.end());
                }
                continue;
            }
            stream.send_window -= piece.len() as i64;
            stream.left = stream.left.map(|left| left.saturating_sub(piece.len() as u64));
            let ends = stream.left == Some(0);
            stream.is_sent |= ends;
            self.send_window -= piece.len() as i64;
            self.write(&frame(DATA, if ends { END_STREAM } else { 0 }, id, piece)).await?;
            rest = after;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    pub async fn end_body(&mut self) -> Result<(), String> {
        let id = self.sending;
        if std::mem::replace(&mut self.stream(id)?.is_sent, true) {
            return Ok(());
        }
        self.write(&frame(DATA, END_STREAM, id, b"")).await
    }

    pub async fn send_trailers(&mut self, lines: &[Vec<u8>]) -> Result<(), String> {
        let id = self.sending;
        self.stream(id)?.is_sent = true;
        let lines: Vec<Vec<u8>> = lines.iter().map(|line| in_lower_case(line)).collect();
        self.write(&frame(HEADERS, END_STREAM | END_HEADERS, id, &header_block(&lines)?)).await
    }

    /// Waits until the other side has answered to this PING, and with it has taken what came before.
    pub async fn round_trip(&mut self) -> Result<(), String> {
        let wanted = self.pongs + 1;
        self.write(&frame(PING, 0, 0, b"neutral!")).await?;
        while self.pongs < wanted {
            if !self.receive().await? {
                return Err(self.end());
            }
        }
        if self.goaway.is_some() { Err(self.end()) } else { Ok(()) }
    }

    /// Gives back the window of what a case has read.
    pub async fn consumed(&mut self, id: u32, bytes: usize) {
        let Some(increment) = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0) else { return };
        let increment = increment.to_be_bytes();
        let both = [frame(WINDOW_UPDATE, 0, 0, &increment), frame(WINDOW_UPDATE, 0, id, &increment)].concat();
        // Whether the other side still wants it, it says in what is read.
        let _ = self.socket.write(&both).await;
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.write(bytes).await.map_err(|error| error.to_string())
    }

    /// Takes what has come, or waits for more; false when the other side has ended the connection.
    pub async fn receive(&mut self) -> Result<bool, String> {
        let mut is_news = false;
        while let Some(received) = take_frame(&mut self.socket.received) {
            self.take(received).await;
            is_news = true;
        }
        match self.fault.clone() {
            Some(fault) => Err(fault),
            None => Ok(is_news || self.socket.receive().await),
        }
    }

    async fn take(&mut self, received: Frame) {
        let Frame { kind, flags, stream: id, .. } = received;
        match kind {
            DATA => self.take_data(id, flags & END_STREAM != 0, &received.payload),
            HEADERS => {
                self.block = Some(Block { stream: id, ends_stream: flags & END_STREAM != 0, bytes: received.payload });
                self.take_block(flags);
            }
            CONTINUATION => {
                if let Some(block) = &mut self.block {
                    block.bytes.extend_from_slice(&received.payload);
                }
                self.take_block(flags);
            }
            RST_STREAM => {
                let code = error_code(&received, 0);
                match self.streams.get_mut(&id) {
                    Some(stream) if stream.is_ended => stream.is_stopped = true,
                    Some(stream) => stream.reset = code,
                    None => {}
                }
            }
            SETTINGS if flags & ACK == 0 => {
                self.take_settings(&received.payload);
                let _ = self.socket.write(&frame(SETTINGS, ACK, 0, &[])).await;
            }
            PING if flags & ACK == 0 => {
                let _ = self.socket.write(&frame(PING, ACK, 0, &received.payload)).await;
            }
            PING => self.pongs += 1,
            GOAWAY => self.goaway = error_code(&received, 4),
            WINDOW_UPDATE => {
                let increment = i64::from(error_code(&received, 0).unwrap_or(0));
                match self.streams.get_mut(&id) {
                    Some(stream) => stream.send_window += increment,
                    None if id == 0 => self.send_window += increment,
                    None => {}
                }
            }
            _ => {}
        }
    }

    fn take_settings(&mut self, payload: &[u8]) {
        for entry in payload.chunks_exact(6) {
            let value = i64::from(u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]));
            if u16::from_be_bytes([entry[0], entry[1]]) == SETTING_INITIAL_WINDOW {
                let change = value - self.initial_window;
                self.initial_window = value;
                self.streams.values_mut().for_each(|stream| stream.send_window += change);
            }
        }
    }

    fn take_data(&mut self, id: u32, ends: bool, bytes: &[u8]) {
        let Some(stream) = self.streams.get_mut(&id) else {
            self.fault = Some(format!("DATA on stream {id}, which was never opened"));
            return;
        };
        if !stream.has_answer || stream.is_ended {
            stream.fault = Some("DATA where none may be".into());
        }
        stream.data.extend_from_slice(bytes);
        stream.received_bytes += bytes.len() as u64;
        stream.end_if(ends);
    }

    fn take_block(&mut self, flags: u8) {
        if flags & END_HEADERS == 0 {
            return;
        }
        let Some(block) = self.block.take() else { return };
        let fields = match self.decoder.decode(&block.bytes) {
            Ok(fields) => fields,
            Err(error) => {
                self.fault = Some(format!("a block of fields that cannot be read: {error:?}"));
                return;
            }
        };
        let fields: Vec<_> =
            fields.into_iter().map(|(name, value)| (String::from_utf8_lossy(&name).into_owned(), value)).collect();
        let Some(stream) = self.streams.get_mut(&block.stream) else {
            self.fault = Some(format!("HEADERS on stream {}, which was never opened", block.stream));
            return;
        };
        stream.take_head(Head { start: String::new(), fields });
        stream.end_if(block.ends_stream);
    }
}

impl NeutralStream {
    fn take_head(&mut self, head: Head) {
        if let Some((name, _)) = head.fields.iter().find(|(name, _)| is_of_http1(name)) {
            self.fault = Some(format!("{name} has no place in HTTP/2; the head:\n{}", head.text()));
        }
        if self.has_answer {
            self.trailers = head;
            return;
        }
        let status = head.status().unwrap_or_default();
        self.has_answer = !(100..200).contains(&status);
        let has_body = !self.is_head_request && status != 304;
        self.promised = if has_body { head.value("content-length").and_then(|value| number(&value)) } else { None };
        self.heads.push_back(head);
    }

    /// RFC 9113 section 8.1.1: a length that is not that of the body makes an answer malformed.
    fn end_if(&mut self, ends: bool) {
        self.is_ended |= ends;
        if let Some(promised) = self.promised
            && ends
            && promised != self.received_bytes
        {
            self.fault = Some(format!("an answer of {promised} bytes ended well with {}", self.received_bytes));
        }
    }

    pub fn is_over(&self) -> bool {
        self.is_ended || self.reset.is_some() || self.fault.is_some()
    }

    /// Why nothing more comes, when it ended badly.
    pub fn failure(&self) -> Option<String> {
        let reset = self.reset.map(|code| format!("the stream was reset with {}", code_name(code)));
        self.fault.clone().or(reset)
    }
}

pub fn code_name(code: u32) -> &'static str {
    ERROR_CODES.get(code as usize).copied().unwrap_or("an unknown code")
}

fn number(value: &[u8]) -> Option<u64> {
    String::from_utf8_lossy(value).parse().ok()
}

/// RFC 9113 section 8.2: names are sent in lower case. Another case is a fault of HTTP/2 alone.
fn in_lower_case(line: &[u8]) -> Vec<u8> {
    let end = line.iter().position(|byte| *byte == b':').unwrap_or(0);
    [line[..end].to_ascii_lowercase().as_slice(), &line[end..]].concat()
}

/// RFC 9113 section 8.2.2: what speaks of a connection, and names in upper case.
fn is_of_http1(name: &str) -> bool {
    let of_connection = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    of_connection.contains(&name) || name.bytes().any(|byte| byte.is_ascii_uppercase())
}
