//! Frames and header blocks, written by hand.

use tidegate_wire::h2::PREFACE;
use tidegate_wire::h2::frame::{ACK, FrameHead, FrameKind, write_frame};

/// GET / over http to the authority "a".
pub const GET: &[u8] = b"\x82\x84\x86\x01\x01a";
/// POST / over http to the authority "a".
pub const POST: &[u8] = b"\x83\x84\x86\x01\x01a";
/// The answer 200.
pub const OK: &[u8] = b"\x88";

/// A whole frame of any kind.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    [&[a, b, c, kind, flags, s0, s1, s2, s3], payload].concat()
}

/// A field without indexing and without Huffman code.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        let len = text.len();
        if len < 127 {
            field.push(len as u8);
        } else {
            let rest = len - 127;
            field.extend([127, rest as u8 & 127 | 128, (rest >> 7) as u8 & 127 | 128, (rest >> 14) as u8]);
        }
        field.extend(text.as_bytes());
    }
    field
}

/// How a client begins: the preface, empty SETTINGS, and the acknowledgement of ours.
pub fn client_begins() -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend(server_begins());
    bytes
}

/// How a server begins.
pub fn server_begins() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, FrameKind::Settings, 0, 0, &[]);
    write_frame(&mut bytes, FrameKind::Settings, ACK, 0, &[]);
    bytes
}

/// The frames that bytes are made of; what is no whole frame is left out.
pub fn parsed(mut bytes: &[u8]) -> Vec<(FrameHead, Vec<u8>)> {
    bytes = bytes.strip_prefix(&PREFACE[..]).unwrap_or(bytes);
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = FrameHead::parse(head);
        let Some((payload, rest)) = rest.split_at_checked(head.len as usize) else { break };
        frames.push((head, payload.to_vec()));
        bytes = rest;
    }
    frames
}
