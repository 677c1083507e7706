//! The records that a web server sends: BEGIN_REQUEST, PARAMS, STDIN, appended to a buffer of the
//! caller's. Bodies need not be copied: `stdin_frame` gives what is sent around them. What comes back is read in
//! `decode`.

use super::{ALIGNMENT, BEGIN_REQUEST, CONTENT_BYTES_MAX, HEADER_BYTES, PARAMS, RequestId, STDIN, VERSION};
use crate::pairs::Pairs;

/// Whether the application leaves the connection open after its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepConnection {
    Yes,
    No,
}

/// Opens a request, in the role of a responder.
pub fn encode_begin_request(out: &mut Vec<u8>, id: RequestId, keep: KeepConnection) {
    const ROLE_RESPONDER: u8 = 1;
    let flags = match keep {
        KeepConnection::Yes => 1,
        KeepConnection::No => 0,
    };
    out.extend_from_slice(&header(BEGIN_REQUEST, id, 8, 0));
    out.extend_from_slice(&[0, ROLE_RESPONDER, flags, 0, 0, 0, 0, 0]);
}

/// All the params of a request and the empty record that ends them.
///
/// PHP reads each record by itself and drops the connection when a pair goes on in the next one, so records end where
/// pairs do. A pair that no record can hold is split all the same, as the protocol allows; within the default bound of
/// [`Pairs`] there is hardly one.
pub fn encode_params(out: &mut Vec<u8>, id: RequestId, pairs: &Pairs) {
    let mut writer = ParamsWriter { header_at: None, out, id };
    for (name, value) in pairs.iter() {
        writer.put_pair(name, value);
    }
    writer.close();
    out.extend_from_slice(&header(PARAMS, id, 0, 0));
}

/// A piece of the request's body. Nothing for an empty piece, since an empty record would end the body.
pub fn encode_stdin(out: &mut Vec<u8>, id: RequestId, body: &[u8]) {
    for piece in body.chunks(CONTENT_BYTES_MAX) {
        let frame = frame(STDIN, id, piece.len());
        out.extend_from_slice(&frame.header);
        out.extend_from_slice(piece);
        out.extend_from_slice(frame.padding);
    }
}

/// The end of the request's body; also of one that has none.
pub fn encode_stdin_end(out: &mut Vec<u8>, id: RequestId) {
    out.extend_from_slice(&header(STDIN, id, 0, 0));
}

/// What is sent before and after a record's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub header: [u8; HEADER_BYTES],
    /// At most seven bytes.
    pub padding: &'static [u8],
}

/// The frame of a piece of the body that is sent from where it lies. `None` when it is empty, which would end the body,
/// or longer than [`CONTENT_BYTES_MAX`].
pub fn stdin_frame(id: RequestId, content_bytes: usize) -> Option<Frame> {
    (1..=CONTENT_BYTES_MAX).contains(&content_bytes).then(|| frame(STDIN, id, content_bytes))
}

fn frame(kind: u8, id: RequestId, content_bytes: usize) -> Frame {
    let padding = padding(content_bytes);
    Frame { header: header(kind, id, content_bytes, padding.len()), padding }
}

fn padding(content_bytes: usize) -> &'static [u8] {
    const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];
    &ZEROS[..content_bytes.next_multiple_of(ALIGNMENT) - content_bytes]
}

fn header(kind: u8, id: RequestId, content_bytes: usize, padding_bytes: usize) -> [u8; HEADER_BYTES] {
    debug_assert!(content_bytes <= CONTENT_BYTES_MAX && padding_bytes < ALIGNMENT);
    let [id_high, id_low] = id.get().to_be_bytes();
    let [length_high, length_low] = (content_bytes as u16).to_be_bytes();
    [VERSION, kind, id_high, id_low, length_high, length_low, padding_bytes as u8, 0]
}

struct ParamsWriter<'o> {
    out: &'o mut Vec<u8>,
    id: RequestId,
    /// Where the record that is being filled starts; its header is written when it is closed.
    header_at: Option<usize>,
}

impl ParamsWriter<'_> {
    fn put_pair(&mut self, name: &[u8], value: &[u8]) {
        let mut lengths = [0; 8];
        let name_end = put_length(&mut lengths, 0, name.len());
        let lengths_end = put_length(&mut lengths, name_end, value.len());
        if lengths_end + name.len() + value.len() > self.room() {
            self.close();
        }
        for part in [&lengths[..lengths_end], name, value] {
            self.put(part);
        }
    }

    fn put(&mut self, mut part: &[u8]) {
        while !part.is_empty() {
            if self.room() == 0 {
                self.close();
            }
            if self.header_at.is_none() {
                self.header_at = Some(self.out.len());
                self.out.extend_from_slice(&[0; HEADER_BYTES]);
            }
            let (now, later) = part.split_at(part.len().min(self.room()));
            self.out.extend_from_slice(now);
            part = later;
        }
    }

    /// Bytes that the open record, or else a new one, still takes.
    fn room(&self) -> usize {
        CONTENT_BYTES_MAX - self.header_at.map_or(0, |at| self.out.len() - at - HEADER_BYTES)
    }

    fn close(&mut self) {
        let Some(at) = self.header_at.take() else { return };
        let frame = frame(PARAMS, self.id, self.out.len() - at - HEADER_BYTES);
        self.out[at..at + HEADER_BYTES].copy_from_slice(&frame.header);
        self.out.extend_from_slice(frame.padding);
    }
}

/// Section 3.4: one byte up to 127, else four with the top bit set. [`Pairs`] keeps lengths far below 2^31. Says where
/// it ends.
fn put_length(lengths: &mut [u8; 8], at: usize, length: usize) -> usize {
    if length < 0x80 {
        lengths[at] = length as u8;
        at + 1
    } else {
        lengths[at..at + 4].copy_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes());
        at + 4
    }
}
