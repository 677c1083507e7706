//! SETTINGS (RFC 9113 section 6.5): what the peer says of itself, with the bounds of each value, and what we say.

use crate::h2::fault::ConnectionFault;
use crate::h2::frame::{ErrorCode, FRAME_PAYLOAD_MAX, FrameKind, ID_MAX, write_frame};
use crate::h2::window::DEFAULT_WINDOW_BYTES;

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
/// RFC 8441 section 3.
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
/// RFC 9218 section 2.1.
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// Bytes of one setting.
pub const SETTING_BYTES: usize = 6;

/// What the peer has said. How large its frames may be is not kept, as ours are never larger than all must take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    pub header_table_bytes: u32,
    /// Streams that we may have open.
    pub streams_max: u32,
    pub initial_window_bytes: u32,
    pub header_list_bytes_max: u32,
    pub takes_protocol: bool,
}

impl Default for PeerSettings {
    /// What holds before the first SETTINGS (RFC 9113 section 6.5.2).
    fn default() -> PeerSettings {
        PeerSettings {
            header_table_bytes: 4096,
            streams_max: u32::MAX,
            initial_window_bytes: DEFAULT_WINDOW_BYTES,
            header_list_bytes_max: u32::MAX,
            takes_protocol: false,
        }
    }
}

impl PeerSettings {
    /// Takes one setting in. `of_server`: a server sent it, which must not allow us to push.
    pub fn apply(&mut self, setting: [u8; SETTING_BYTES], of_server: bool) -> Result<(), ConnectionFault> {
        let [i0, i1, v0, v1, v2, v3] = setting;
        let value = u32::from_be_bytes([v0, v1, v2, v3]);
        let fault = |code, why| Err(ConnectionFault { code, why });
        match u16::from_be_bytes([i0, i1]) {
            HEADER_TABLE_SIZE => self.header_table_bytes = value,
            ENABLE_PUSH if value > 1 || (of_server && value == 1) => {
                return fault(ErrorCode::ProtocolError, "SETTINGS_ENABLE_PUSH has no value that it may have");
            }
            MAX_CONCURRENT_STREAMS => self.streams_max = value,
            INITIAL_WINDOW_SIZE if value > ID_MAX => {
                return fault(ErrorCode::FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE is over 2^31 - 1");
            }
            INITIAL_WINDOW_SIZE => self.initial_window_bytes = value,
            MAX_FRAME_SIZE if !(FRAME_PAYLOAD_MAX as u32..1 << 24).contains(&value) => {
                return fault(ErrorCode::ProtocolError, "SETTINGS_MAX_FRAME_SIZE is out of its bounds");
            }
            MAX_HEADER_LIST_SIZE => self.header_list_bytes_max = value,
            // RFC 8441 section 3: what was offered is not taken back.
            ENABLE_CONNECT_PROTOCOL if value > 1 || (value == 0 && self.takes_protocol) => {
                return fault(ErrorCode::ProtocolError, "SETTINGS_ENABLE_CONNECT_PROTOCOL has no value that it may have");
            }
            ENABLE_CONNECT_PROTOCOL => self.takes_protocol = value == 1,
            NO_RFC7540_PRIORITIES if value > 1 => {
                return fault(ErrorCode::ProtocolError, "SETTINGS_NO_RFC7540_PRIORITIES has no value that it may have");
            }
            // RFC 9113 section 6.5.2: settings that nobody knows are ignored.
            _ => {}
        }
        Ok(())
    }
}

/// What we say once, when a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OurSettings {
    /// Streams that the peer may have open; none for servers, as nothing may be pushed.
    pub streams_max: u32,
    /// What the peer may send of a message before anybody asks for more.
    pub initial_window_bytes: u32,
    /// What the peer may send of all messages together.
    pub connection_window_bytes: u32,
    pub header_list_bytes_max: u32,
    /// Extended CONNECT is taken (RFC 8441).
    pub takes_protocol: bool,
}

impl OurSettings {
    /// Appends the SETTINGS frame of a server, or of a client.
    pub fn write(&self, is_client: bool, out: &mut Vec<u8>) {
        let mut payload = Vec::with_capacity(5 * SETTING_BYTES);
        let mut say = |id: u16, value: u32| {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        };
        if is_client {
            say(ENABLE_PUSH, 0);
        } else {
            say(MAX_CONCURRENT_STREAMS, self.streams_max);
        }
        say(INITIAL_WINDOW_SIZE, self.initial_window_bytes);
        say(MAX_HEADER_LIST_SIZE, self.header_list_bytes_max);
        if self.takes_protocol {
            say(ENABLE_CONNECT_PROTOCOL, 1);
        }
        if !is_client {
            say(NO_RFC7540_PRIORITIES, 1);
        }
        write_frame(out, FrameKind::Settings, 0, 0, &payload);
    }
}
