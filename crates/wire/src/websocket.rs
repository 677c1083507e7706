//! Where WebSocket frames begin and end (RFC 6455 section 5.2) in one direction of a tunnel, so that a close frame can
//! be put between two. It looks at headers only: payloads are skipped unread, and nothing is refused. Who closes which
//! tunnel when is `proxy`'s business.
//!
//! ```text
//! Boundary ──▶ Length ──▶ Extended ──▶ Skip ──mask and payload over──▶ Boundary
//!                 └───────────┴──impossible length──▶ Lost
//! ```

use crate::error::HeadError;
use crate::head::Fields;

/// What the protocol is called in `Upgrade` and `:protocol`.
pub const PROTOCOL: &[u8] = b"websocket";
/// The fields of a handshake over HTTP/1.1 that show that its server has understood it (RFC 6455 section 4). HTTP/2
/// has no use for them (RFC 8441 section 5).
pub const KEY_FIELD: &[u8] = b"sec-websocket-key";
pub const ACCEPT_FIELD: &[u8] = b"sec-websocket-accept";
/// What is hashed behind the key.
pub const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
pub const KEY_BYTES: usize = 16;

/// Fields of which a handshake has one at most. `Sec-WebSocket-Protocol` and `-Extensions` are lists, which may stand
/// in several (RFC 6455 sections 11.3.2 and 11.3.4).
const SINGLE_FIELDS: [&[u8]; 2] = [KEY_FIELD, b"sec-websocket-version"];

/// The status code of a server that goes away (RFC 6455 section 7.4.1).
pub const GOING_AWAY: u16 = 1001;
/// A close frame with a status and a masking key.
const CLOSE_FRAME_BYTES_MAX: usize = 8;

const OPCODE_BITS: u8 = 0x0f;
/// Opcodes from here on are control frames (section 5.5).
const OPCODE_CONTROL: u8 = 0x8;
const OPCODE_CLOSE: u8 = 0x8;
const FINAL_BIT: u8 = 0x80;
const MASK_BIT: u8 = 0x80;
const MASK_BYTES: u64 = 4;
const LENGTH_BITS: u8 = 0x7f;
const LENGTH_IN_2_BYTES: u8 = 126;
const LENGTH_IN_8_BYTES: u8 = 127;

/// Whether a handshake, of either version of HTTP, has only one of what may stand in it once.
pub fn check_handshake(fields: &Fields) -> Result<(), HeadError> {
    let is_repeated = |name: &&[u8]| fields.all_named(name).nth(1).is_some();
    if SINGLE_FIELDS.iter().any(is_repeated) { Err(HeadError::WebsocketFieldRepeated) } else { Ok(()) }
}

/// Follows the frames of one direction. Its cost grows with the number of frames, not with their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    state: FrameState,
    close_began: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FrameState {
    #[default]
    Boundary,
    /// The first byte was read.
    Length { control: bool },
    /// Inside the longer forms of a length.
    Extended { bytes_left: u8, value: u64, masked: bool },
    /// Masking key and payload; never zero.
    Skip { bytes_left: u64 },
    /// This was no WebSocket, or its sender is broken: no boundary is known any more.
    Lost,
}

impl Frames {
    pub fn new() -> Frames {
        Frames::default()
    }

    /// The next bytes of this direction, cut anywhere.
    #[inline]
    pub fn advance(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            at += self.step(&bytes[at..]);
        }
    }

    /// Whether the bytes so far end with a frame's end. A message may still be incomplete: control frames may stand
    /// between its fragments (section 5.4).
    pub fn is_at_boundary(&self) -> bool {
        self.state == FrameState::Boundary
    }

    /// Whether a close frame has at least begun. After it no frame may follow in this direction (section 5.5.1).
    pub fn saw_close(&self) -> bool {
        self.close_began
    }

    /// Whether the bytes cannot be WebSocket frames, so that nothing may ever be put between them.
    pub fn is_lost(&self) -> bool {
        self.state == FrameState::Lost
    }

    /// The first offset in `bytes`, which follow what was given to [`Frames::advance`], before which a control frame
    /// may be put; `bytes.len()` when that is their end. None while a frame goes on beyond them, after a close frame
    /// and when boundaries are lost.
    pub fn next_boundary(&self, bytes: &[u8]) -> Option<usize> {
        let mut ahead = *self;
        let mut at = 0;
        while !ahead.is_at_boundary() && at < bytes.len() {
            at += ahead.step(&bytes[at..]);
        }
        (ahead.is_at_boundary() && !ahead.close_began).then_some(at)
    }

    /// One byte of a header, or as much as there is to skip. Says how much of `bytes`, which are not empty, it took.
    #[inline]
    fn step(&mut self, bytes: &[u8]) -> usize {
        let byte = bytes[0];
        self.state = match self.state {
            FrameState::Boundary => {
                let opcode = byte & OPCODE_BITS;
                self.close_began |= opcode == OPCODE_CLOSE;
                FrameState::Length { control: opcode >= OPCODE_CONTROL }
            }
            FrameState::Length { control } => after_length(control, byte),
            FrameState::Extended { bytes_left, value, masked } => {
                after_extended(bytes_left, value << 8 | u64::from(byte), masked)
            }
            FrameState::Skip { bytes_left } => {
                let piece = usize::try_from(bytes_left).unwrap_or(usize::MAX).min(bytes.len());
                self.state = skip(bytes_left - piece as u64);
                return piece;
            }
            FrameState::Lost => return bytes.len(),
        };
        1
    }
}

fn after_length(control: bool, byte: u8) -> FrameState {
    let masked = byte & MASK_BIT != 0;
    match byte & LENGTH_BITS {
        // Control frames have no longer form (section 5.5), so this cannot be one.
        LENGTH_IN_2_BYTES | LENGTH_IN_8_BYTES if control => FrameState::Lost,
        LENGTH_IN_2_BYTES => FrameState::Extended { bytes_left: 2, value: 0, masked },
        LENGTH_IN_8_BYTES => FrameState::Extended { bytes_left: 8, value: 0, masked },
        length => payload(u64::from(length), masked),
    }
}

fn after_extended(bytes_left: u8, value: u64, masked: bool) -> FrameState {
    match bytes_left - 1 {
        0 if value > i64::MAX as u64 => FrameState::Lost,
        0 => payload(value, masked),
        bytes_left => FrameState::Extended { bytes_left, value, masked },
    }
}

/// A length of at most 63 bits and the mask fit 64 bits together.
fn payload(length: u64, masked: bool) -> FrameState {
    skip(if masked { length + MASK_BYTES } else { length })
}

fn skip(bytes_left: u64) -> FrameState {
    if bytes_left == 0 { FrameState::Boundary } else { FrameState::Skip { bytes_left } }
}

/// The bytes of one close frame, without allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseFrame {
    bytes: [u8; CLOSE_FRAME_BYTES_MAX],
    length: usize,
}

impl CloseFrame {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A close frame with the status `code` and no text. Towards a server it must be masked with unpredictable bytes,
/// towards a client it must not be masked (section 5.1).
pub fn close_frame(code: u16, masked: Option<[u8; 4]>) -> CloseFrame {
    let [high, low] = code.to_be_bytes();
    let first = FINAL_BIT | OPCODE_CLOSE;
    match masked {
        Some([a, b, c, d]) => CloseFrame { bytes: [first, MASK_BIT | 2, a, b, c, d, high ^ a, low ^ b], length: 8 },
        None => CloseFrame { bytes: [first, 2, high, low, 0, 0, 0, 0], length: 4 },
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, GOING_AWAY, check_handshake, close_frame};
    use crate::error::HeadError;
    use crate::head::Fields;
    use bolero::check;

    const ITERATIONS: usize = 3_000;
    /// Payload bytes that look like headers when they are not skipped.
    const PAYLOAD: u8 = 0x88;

    #[test]
    fn a_handshake_has_one_key_and_one_version() {
        let check = |names: &[&str], expected: Result<(), HeadError>| {
            let mut fields = Fields::default();
            for name in names {
                fields.push(name.as_bytes(), b"13");
            }
            assert_eq!(check_handshake(&fields), expected, "{names:?}");
        };
        let repeated = Err(HeadError::WebsocketFieldRepeated);
        check(&[], Ok(()));
        check(&["Sec-WebSocket-Key", "Sec-WebSocket-Version"], Ok(()));
        check(&["Sec-WebSocket-Version", "x-a", "sec-websocket-version"], repeated);
        check(&["sec-websocket-key", "SEC-WEBSOCKET-KEY"], repeated);
        check(
            &["sec-websocket-protocol", "sec-websocket-protocol", "sec-websocket-extensions", "sec-websocket-extensions"],
            Ok(()),
        );
    }

    /// One frame as the RFC draws it, written apart from the code that reads it.
    fn frame(first: u8, length: usize, masked: bool) -> Vec<u8> {
        let mask = if masked { 0x80 } else { 0 };
        let mut frame = vec![first];
        match length {
            0..126 => frame.push(mask | length as u8),
            126..65536 => {
                frame.push(mask | 0x7e);
                frame.extend((length as u16).to_be_bytes());
            }
            _ => {
                frame.push(mask | 0x7f);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.resize(frame.len() + length + if masked { 4 } else { 0 }, PAYLOAD);
        frame
    }

    fn after(bytes: &[u8]) -> Frames {
        let mut frames = Frames::new();
        frames.advance(bytes);
        frames
    }

    /// Which of boundary, close and loss hold after `bytes`.
    fn check_state(bytes: &[u8], expected: &str) {
        let frames = after(bytes);
        let facts = [(frames.is_at_boundary(), "boundary"), (frames.saw_close(), "close"), (frames.is_lost(), "lost")];
        let seen: Vec<&str> = facts.into_iter().filter_map(|(holds, name)| holds.then_some(name)).collect();
        assert_eq!(seen.join(" "), expected, "after {:02x?}", &bytes[..bytes.len().min(16)]);
    }

    #[test]
    fn frames_end_where_their_length_says() {
        check_state(b"", "boundary");
        for masked in [false, true] {
            for length in [0, 1, 125, 126, 127, 255, 256, 65535, 65536, 70000] {
                let whole = frame(0x82, length, masked);
                check_state(&whole, "boundary");
                check_state(&whole[..whole.len() - 1], "");
                check_state(&[&whole[..], &[0x81]].concat(), "");
            }
        }
        // A long form for a short length is not minimal, but its end is certain.
        check_state(&[0x82, 126, 0, 1, 0xff], "boundary");
    }

    #[test]
    fn a_boundary_lies_between_fragments_as_well() {
        check_state(&frame(0x01, 5, true), "boundary");
        check_state(&[frame(0x01, 5, true), frame(0x89, 0, true)].concat(), "boundary");
    }

    #[test]
    fn a_close_frame_is_seen_from_its_first_byte() {
        check_state(&[0x88], "close");
        check_state(&frame(0x88, 2, true), "boundary close");
        check_state(&[frame(0x81, 3, false), frame(0x88, 0, false)].concat(), "boundary close");
        check_state(&frame(0x82, 3, false), "boundary");
    }

    #[test]
    fn impossible_lengths_lose_the_boundaries_for_good() {
        let top_bit = [0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0];
        check_state(&top_bit, "lost");
        check_state(&[&top_bit[..], &frame(0x82, 0, false)].concat(), "lost");
        check_state(&[0x89, 126], "lost");
        check_state(&[0x88, 0xff], "close lost");
        check_state(&[0x82, 127, 0x7f, 255, 255, 255, 255, 255, 255, 255], "");
        check_state(&[0x82, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 0, 0], "");
    }

    fn check_next(before: &[u8], bytes: &[u8], expected: Option<usize>) {
        assert_eq!(after(before).next_boundary(bytes), expected, "{before:02x?} then {bytes:02x?}");
    }

    #[test]
    fn the_next_boundary_is_the_first_one() {
        check_next(b"", b"", Some(0));
        check_next(b"", &frame(0x82, 3, false), Some(0));
        check_next(&[0x82], &[1, 0, 0x82, 0], Some(2));
        check_next(&[0x82, 3, 0], &[0, 0], Some(2));
        check_next(&[0x82, 3, 0], &[0], None);
        check_next(&[0x82, 3, 0], &[], None);
        check_next(&[0x88], &[0], None);
        check_next(&frame(0x88, 0, false), &[], None);
        check_next(&[0x89, 127], &[0; 40], None);
    }

    #[test]
    fn a_close_frame_is_one_whole_close_frame() {
        fn check_close(masked: Option<[u8; 4]>, expected: &[u8]) {
            let made = close_frame(GOING_AWAY, masked);
            assert_eq!(made.as_bytes(), expected);
            check_state(made.as_bytes(), "boundary close");
        }
        check_close(None, &[0x88, 2, 0x03, 0xe9]);
        check_close(Some([0xff, 0x00, 1, 2]), &[0x88, 0x82, 0xff, 0x00, 1, 2, 0xfc, 0xe9]);
    }

    /// First byte, length, masked.
    type Drawn = (u8, u16, bool);

    #[test]
    fn cuts_change_nothing_and_boundaries_are_where_frames_were_joined() {
        check!().with_iterations(ITERATIONS).with_type::<(Vec<Drawn>, Vec<u16>)>().for_each(|(drawn, cuts)| {
            let mut bytes = Vec::new();
            let mut boundaries = vec![(0, true)];
            let mut open = true;
            for (first, length, masked) in drawn.iter().take(8) {
                let control = first & 0x0f >= 8;
                bytes.extend(frame(*first, usize::from(*length) % if control { 126 } else { 70_000 }, *masked));
                open &= first & 0x0f != 8;
                boundaries.push((bytes.len(), open));
            }
            let mut cuts: Vec<usize> = cuts.iter().take(8).map(|cut| usize::from(*cut) % (bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let (mut frames, mut from) = (Frames::new(), 0);
            for cut in cuts {
                frames.advance(&bytes[from..cut]);
                from = cut;
                assert_eq!(frames.is_at_boundary(), boundaries.iter().any(|(at, _)| *at == cut));
                let next = boundaries.iter().find(|(at, _)| *at >= cut).filter(|(_, open)| *open);
                assert_eq!(frames.next_boundary(&bytes[cut..]), next.map(|(at, _)| at - cut));
            }
            frames.advance(&bytes[from..]);
            assert_eq!(frames, after(&bytes));
            assert!(frames.is_at_boundary());
        });
    }

    #[test]
    fn any_bytes_give_the_same_however_they_are_cut() {
        check!().with_iterations(ITERATIONS).with_type::<Vec<u8>>().for_each(|bytes| {
            let mut one_by_one = Frames::new();
            for byte in bytes {
                one_by_one.advance(&[*byte]);
            }
            assert_eq!(one_by_one, after(bytes));
        });
    }
}
