//! Counts the frames a client sends on an HTTP/2 connection, beneath the library that speaks the protocol, and says
//! when they are an attack. It reads frame headers only (RFC 9113 section 4.1); whether frames are valid is the
//! library's business. The budgets are in `h2::floods`.

use crate::h2::floods::{Flood, Floods};
use crate::h2::frame::{ErrorCode, FRAME_HEAD_BYTES, FrameHead, FrameKind, ID_MAX, PADDED};
use std::time::Instant;

/// A GOAWAY with ENHANCE_YOUR_CALM, the last thing that is sent before the connection is closed. It names the highest
/// stream id, as only the library knows which one was really last.
pub fn goaway_enhance_your_calm() -> [u8; 17] {
    let mut frame = [0; 17];
    frame[..FRAME_HEAD_BYTES].copy_from_slice(&FrameHead::bytes(8, FrameKind::GoAway, 0, 0));
    frame[9..13].copy_from_slice(&ID_MAX.to_be_bytes());
    frame[13..].copy_from_slice(&(ErrorCode::EnhanceYourCalm as u32).to_be_bytes());
    frame
}

/// The account of one connection.
#[derive(Debug)]
pub struct H2Guard {
    /// The header of the next frame as far as it is there, and the pad length of a padded DATA frame.
    header: [u8; FRAME_HEAD_BYTES + 1],
    header_len: u8,
    /// Bytes to skip before the next header.
    payload_left: u32,
    floods: Floods,
}

impl H2Guard {
    pub fn new(now: Instant) -> H2Guard {
        H2Guard { header: [0; 10], header_len: 0, payload_left: 0, floods: Floods::new(now) }
    }

    /// Takes the next bytes from the client, in any fragmentation. After an error the connection is to be closed.
    pub fn observe(&mut self, mut bytes: &[u8], now: Instant) -> Result<(), Flood> {
        loop {
            let skipped = bytes.len().min(self.payload_left as usize);
            self.payload_left -= skipped as u32;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return Ok(());
            }
            let have = self.header_len as usize;
            let wanted = if have >= 9 { 10 } else { 9 };
            let piece = bytes.len().min(wanted - have);
            self.header[have..have + piece].copy_from_slice(&bytes[..piece]);
            self.header_len += piece as u8;
            bytes = &bytes[piece..];
            if have + piece == wanted {
                self.handle_header(now)?;
            }
        }
    }

    /// See [`Floods::note_sent`].
    pub fn note_sent(&mut self, bytes: usize) {
        self.floods.note_sent(bytes);
    }

    fn handle_header(&mut self, now: Instant) -> Result<(), Flood> {
        let [header @ .., pad_len] = self.header;
        let head = FrameHead::parse(&header);
        let is_padded_data = head.kind == FrameKind::Data as u8 && head.has(PADDED) && head.len > 0;
        if is_padded_data && self.header_len == 9 {
            return Ok(());
        }
        let pad_bytes = if is_padded_data { 1 + u32::from(pad_len) } else { 0 };
        self.payload_left = head.len - u32::from(is_padded_data);
        self.header_len = 0;
        self.floods.count(head, head.len.saturating_sub(pad_bytes), now)
    }
}

#[cfg(test)]
mod tests;
