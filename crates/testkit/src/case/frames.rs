//! HTTP/2 frames written by hand, for what no well-behaved library would send: floods, bad pseudo-headers, broken
//! sequences.

use super::parse_command::{END_HEADERS, ERROR_CODES, FRAME_KINDS};
use super::script::{FloodKind, Frames};
use crate::connection::Connection;
use crate::http2::split_field;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0x0;
pub const HEADERS: u8 = 0x1;
const PRIORITY: u8 = 0x2;
pub const RST_STREAM: u8 = 0x3;
pub const SETTINGS: u8 = 0x4;
pub const PING: u8 = 0x6;
pub const GOAWAY: u8 = 0x7;
pub const WINDOW_UPDATE: u8 = 0x8;
pub const CONTINUATION: u8 = 0x9;
pub const END_STREAM: u8 = 0x1;
pub const ACK: u8 = 0x1;

/// Frames received and what was learnt from them.
#[derive(Default)]
pub struct FrameReader {
    /// Seen while another was waited for, in short, for failure messages.
    passed: Vec<String>,
}

pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    fn summary(&self) -> String {
        let code = match self.kind {
            GOAWAY => error_code(self, 4),
            RST_STREAM => error_code(self, 0),
            _ => None,
        };
        let code = code.and_then(|code| ERROR_CODES.get(code as usize)).copied().unwrap_or_default();
        let kind = FRAME_KINDS.get(self.kind as usize).copied().unwrap_or("unknown");
        format!("{kind} {code} flags {:#x} stream {}", self.flags, self.stream)
    }
}

pub async fn execute(connection: &mut Connection, reader: &mut FrameReader, command: &Frames) -> Result<(), String> {
    match command {
        Frames::Preface => {
            let bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
            connection.write(&bytes).await.map_err(|error| error.to_string())
        }
        Frames::Frame { kind, flags, stream, payload } => {
            connection.write(&frame(*kind, *flags, *stream, payload)).await.map_err(|error| error.to_string())
        }
        Frames::Headers { flags, stream, fields } => {
            let bytes = frame(HEADERS, *flags, *stream, &header_block(fields)?);
            connection.write(&bytes).await.map_err(|error| error.to_string())
        }
        Frames::Flood { kind, count } => {
            flood(connection, *kind, *count).await;
            Ok(())
        }
        Frames::ExpectGoaway(code) => {
            // A polite GOAWAY may come before the one that counts.
            reader.wait_for(connection, |frame| frame.kind == GOAWAY && error_code(frame, 4) == Some(*code)).await.map(|_| ())
        }
        Frames::ExpectFrame { kind, stream, flags } => {
            let fits = |frame: &Frame| {
                frame.kind == *kind && stream.is_none_or(|id| id == frame.stream) && flags.is_none_or(|own| own == frame.flags)
            };
            reader.wait_for(connection, fits).await.map(|_| ())
        }
        Frames::ExpectRst { stream, code } => {
            let reset = reader.wait_for(connection, |frame| frame.kind == RST_STREAM && frame.stream == *stream).await?;
            check_code(error_code(&reset, 0), *code)
        }
    }
}

impl FrameReader {
    /// The frames passed over, for failure messages; nothing on a connection without.
    pub fn seen(&self) -> String {
        if self.passed.is_empty() { String::new() } else { format!("; frames: {}", self.passed.join("; ")) }
    }

    /// Reads frames until one fits. Settings are acknowledged on the way, as any peer must.
    async fn wait_for(&mut self, connection: &mut Connection, fits: impl Fn(&Frame) -> bool) -> Result<Frame, String> {
        loop {
            while let Some(frame) = take_frame(&mut connection.received) {
                self.passed.push(frame.summary());
                if frame.kind == SETTINGS && frame.flags & ACK == 0 {
                    let _ = connection.write(&self::frame(SETTINGS, ACK, 0, &[])).await;
                }
                if fits(&frame) {
                    return Ok(frame);
                }
            }
            if !connection.receive().await {
                return Err(format!("the connection ended ({:?}) after the frames: {}", connection.end, self.passed.join("; ")));
            }
        }
    }
}

pub fn take_frame(received: &mut Vec<u8>) -> Option<Frame> {
    let header: [u8; 9] = received.get(..9)?.try_into().ok()?;
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
    if received.len() < 9 + length {
        return None;
    }
    let payload = received[9..9 + length].to_vec();
    received.drain(..9 + length);
    let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
    Some(Frame { kind: header[3], flags: header[4], stream, payload })
}

pub fn error_code(frame: &Frame, at: usize) -> Option<u32> {
    frame.payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
}

pub fn check_code(seen: Option<u32>, wanted: u32) -> Result<(), String> {
    match seen {
        Some(seen) if seen == wanted => Ok(()),
        Some(seen) => Err(format!("the code is {}", ERROR_CODES.get(seen as usize).unwrap_or(&"unknown"))),
        None => Err("a frame without a code".into()),
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// HPACK without its tables (RFC 7541 section 6.2.2), which is enough to say anything, also what is forbidden.
pub fn header_block(lines: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let mut block = Vec::new();
    for line in lines {
        let (name, value) = split_field(line)?;
        block.push(0x00);
        for text in [&name, &value] {
            push_length(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    Ok(block)
}

/// A field of 4,000 bytes fifteen times, each a byte on the wire: the decoder keeps it in its table, where the first
/// head has put it (RFC 7541 sections 6.1 and 6.2.1).
fn repeats(is_first: bool) -> Vec<u8> {
    // An index of the dynamic table, which begins at 62.
    const NEWEST: u8 = 0xbe;
    let mut block = Vec::new();
    if is_first {
        block.extend_from_slice(b"\x40\x01x");
        push_length(&mut block, 4000);
        block.extend_from_slice(&[b'v'; 4000]);
    }
    block.extend_from_slice(&[NEWEST; 15][usize::from(is_first)..]);
    block
}

/// An integer with a prefix of seven bits (RFC 7541 section 5.1).
fn push_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        block.push(length as u8);
        return;
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// Sends until all is sent or the peer has had enough. It reads while it writes: a peer that waits for its answers to
/// be read must not be able to stop the flood.
async fn flood(connection: &mut Connection, kind: FloodKind, count: u32) {
    let request: Vec<Vec<u8>> = [":method: GET", ":scheme: http", ":authority: example.com", ":path: /"]
        .iter()
        .map(|line| line.as_bytes().to_vec())
        .collect();
    let block = header_block(&request).unwrap_or_default();
    let mut bytes = match kind {
        FloodKind::Continuation => frame(HEADERS, END_STREAM, 1, &block),
        FloodKind::EmptyData | FloodKind::SmallData => frame(HEADERS, END_HEADERS, 1, &block),
        _ => Vec::new(),
    };
    for index in 0..count {
        let stream = index * 2 + 1;
        match kind {
            FloodKind::RapidReset => {
                bytes.extend_from_slice(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
                bytes.extend_from_slice(&frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            }
            FloodKind::Continuation => {
                let name = format!("x-{index}: {}", "y".repeat(100)).into_bytes();
                bytes.extend_from_slice(&frame(CONTINUATION, 0, 1, &header_block(&[name]).unwrap_or_default()));
            }
            FloodKind::Settings => bytes.extend_from_slice(&frame(SETTINGS, 0, 0, &[])),
            FloodKind::Ping => bytes.extend_from_slice(&frame(PING, 0, 0, &u64::from(index).to_be_bytes())),
            FloodKind::EmptyData => bytes.extend_from_slice(&frame(0, 0, 1, &[])),
            FloodKind::SmallData => bytes.extend_from_slice(&frame(0, 0, 1, b"x")),
            FloodKind::Priority => bytes.extend_from_slice(&frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 15])),
            FloodKind::WindowUpdate => bytes.extend_from_slice(&frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())),
            FloodKind::Repeats => {
                let block = [&block[..], &repeats(index == 0)].concat();
                bytes.extend_from_slice(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
            }
        }
    }
    if kind == FloodKind::SmallData {
        bytes.extend_from_slice(&frame(0, END_STREAM, 1, &[]));
    }
    let (mut reading, mut writing) = tokio::io::split(&mut connection.socket);
    let received = &mut connection.received;
    let read = async {
        let mut piece = [0; 16384];
        while let Ok(length @ 1..) = reading.read(&mut piece).await {
            received.extend_from_slice(&piece[..length]);
        }
    };
    let write = async {
        let sent = writing.write_all(&bytes).await;
        if sent.is_ok() {
            let _ = writing.flush().await;
        } else {
            // The peer closed in the middle: what it said before is still to be read.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}
