//! Frames (RFC 9113 section 4 and 6): their headers as bytes and as values, their kinds, flags and error codes. What a
//! frame may do in which state is in `connection`.

use strum::{EnumIter, FromRepr, IntoStaticStr};

/// Bytes of a frame's header.
pub const FRAME_HEAD_BYTES: usize = 9;

/// Payload of the largest frame that we take and send: what every endpoint takes (RFC 9113 section 4.2). We never
/// offer more, as a larger frame only keeps other streams waiting.
pub const FRAME_PAYLOAD_MAX: usize = 16_384;

/// The highest stream id, and the largest size of a window.
pub const ID_MAX: u32 = 0x7fff_ffff;

/// What a frame is for. Kinds that nobody here knows are skipped (RFC 9113 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromRepr, EnumIter)]
#[repr(u8)]
pub enum FrameKind {
    Data = 0x0,
    Headers = 0x1,
    Priority = 0x2,
    RstStream = 0x3,
    Settings = 0x4,
    PushPromise = 0x5,
    Ping = 0x6,
    GoAway = 0x7,
    WindowUpdate = 0x8,
    Continuation = 0x9,
    /// RFC 9218 section 7.1.
    PriorityUpdate = 0x10,
}

/// The flag of DATA and HEADERS that ends a stream's half.
pub const END_STREAM: u8 = 0x1;
/// The flag of SETTINGS and PING that marks an answer.
pub const ACK: u8 = 0x1;
/// The flag of HEADERS and CONTINUATION that ends a header block.
pub const END_HEADERS: u8 = 0x4;
/// The flag of DATA and HEADERS that says that padding follows.
pub const PADDED: u8 = 0x8;
/// The flag of HEADERS that says that a dependency (RFC 7540) comes first.
pub const PRIORITY: u8 = 0x20;

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of payload, less than 2^24.
    pub len: u32,
    /// As on the wire, see [`FrameKind`].
    pub kind: u8,
    pub flags: u8,
    /// Without its reserved bit.
    pub stream: u32,
}

impl FrameHead {
    #[inline]
    pub fn parse(bytes: &[u8; FRAME_HEAD_BYTES]) -> FrameHead {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *bytes;
        let stream = u32::from_be_bytes([s0, s1, s2, s3]) & ID_MAX;
        FrameHead { len: u32::from_be_bytes([0, a, b, c]), kind, flags, stream }
    }

    #[inline]
    pub fn bytes(len: usize, kind: FrameKind, flags: u8, stream: u32) -> [u8; FRAME_HEAD_BYTES] {
        let [_, a, b, c] = (len as u32).to_be_bytes();
        let [s0, s1, s2, s3] = stream.to_be_bytes();
        [a, b, c, kind as u8, flags, s0, s1, s2, s3]
    }

    #[inline]
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a whole frame.
pub fn write_frame(out: &mut Vec<u8>, kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&FrameHead::bytes(payload.len(), kind, flags, stream));
    out.extend_from_slice(payload);
}

/// Why a stream or a connection ends (RFC 9113 section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromRepr, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(u32)]
pub enum ErrorCode {
    NoError = 0x0,
    ProtocolError = 0x1,
    InternalError = 0x2,
    FlowControlError = 0x3,
    SettingsTimeout = 0x4,
    StreamClosed = 0x5,
    FrameSizeError = 0x6,
    RefusedStream = 0x7,
    Cancel = 0x8,
    CompressionError = 0x9,
    ConnectError = 0xa,
    EnhanceYourCalm = 0xb,
    InadequateSecurity = 0xc,
    #[strum(serialize = "HTTP_1_1_REQUIRED")]
    Http11Required = 0xd,
}

impl ErrorCode {
    /// The code that was sent; what nobody knows counts as INTERNAL_ERROR (RFC 9113 section 7).
    pub fn of(code: u32) -> ErrorCode {
        ErrorCode::from_repr(code).unwrap_or(ErrorCode::InternalError)
    }

    /// The name in the RFC.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
