//! One connection of HTTP/2, of a server or of a client: bytes and the time go in, events and bytes come out. It owns
//! the state of the protocol and no socket, no clock and no task; bodies are its owner's.
//!
//! What comes in is in `receive` (frames) and `block` (heads, which are put together of several frames); what goes out
//! is in `send`.

mod block;
mod receive;
mod send;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use crate::error::BodyError;
use crate::h2::PREFACE;
use crate::h2::fault::{ConnectionEnd, ConnectionFault};
use crate::h2::floods::Floods;
use crate::h2::frame::{ErrorCode, FRAME_HEAD_BYTES, FrameKind, ID_MAX, write_frame};
use crate::h2::hpack::{DEFAULT_TABLE_SIZE, Decoder, Encoder};
use crate::h2::priority::{Priority, Ready};
use crate::h2::settings::{OurSettings, PeerSettings};
use crate::h2::stream::{Receiving, Sending, Stream, StreamKey, Streams};
use crate::h2::window::{DEFAULT_WINDOW_BYTES, ReceiveWindow, SendWindow};
use block::HeaderBlock;
use receive::FrameStage;
use std::time::{Duration, Instant};

/// How long the peer may take to acknowledge our SETTINGS (RFC 9113 section 6.5.3).
pub const SETTINGS_TIME_MAX: Duration = Duration::from_secs(10);

/// What the PING behind the first GOAWAY says: its answer means that the client knows.
const SHUTDOWN_PING: [u8; 8] = *b"shutdown";

/// Whose side this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Server,
    Client,
}

/// What came, as far as the owner of the connection has to act.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// A request: read its head next, by [`Connection::read_request`].
    Request { key: StreamKey, ends_stream: bool },
    /// A head of an answer, interim or final: read it next, by [`Connection::read_response`].
    Response { key: StreamKey, ends_stream: bool },
    /// The end of a message: read it next, by [`Connection::read_trailers`].
    Trailers { key: StreamKey },
    /// A message broke a rule behind its head: what follows of it is read past. `is_answerable`: its owner may answer
    /// before the stream ends for it; else it was reset.
    Malformed { key: StreamKey, fault: BodyError, is_answerable: bool },
    /// A piece of a body. Once its owner has read it, [`Connection::free`] lets more come.
    Data { key: StreamKey, bytes: &'i [u8], ends_stream: bool },
    /// The stream was reset, by the peer or by us for a fault of the peer's.
    Reset { key: StreamKey, code: ErrorCode, by_peer: bool },
    /// The peer takes no more streams. Those of ours above `last_id` were not processed.
    GoAway { last_id: u32, code: ErrorCode },
    /// The answer to a PING of ours.
    Pong,
}

/// How far the end of a connection was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// The peer opens no more streams once it knows.
    Announced,
    /// The peer knows. What it had begun by then may lie behind its answer, and comes before the next one.
    Known,
    /// No stream above this id is taken.
    Final {
        last_id: u32,
    },
}

/// A connection. `T` is what its owner keeps with each stream.
#[derive(Debug)]
pub struct Connection<T> {
    /// Frames to be sent, in order. Whoever sends them empties it, see [`take_output`](Connection::take_output).
    pub output: Vec<u8>,
    role: Role,
    ours: OurSettings,
    peer: PeerSettings,
    /// When our SETTINGS went out, until they are acknowledged.
    settings_sent: Option<Instant>,
    streams: Streams<T>,
    ready: Ready,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    encoder: Encoder,
    decoder: Decoder,
    reading: FrameStage,
    frame_head: [u8; FRAME_HEAD_BYTES],
    frame_head_len: u8,
    /// The payload of a frame that has not come whole; none of a body.
    partial: Vec<u8>,
    block: HeaderBlock,
    has_peer_settings: bool,
    /// The highest id of a stream that the peer opened.
    last_peer_id: u32,
    /// The id of the next stream that we open.
    next_id: u32,
    leaving: Leaving,
    /// The peer's streams hold as much memory as they may: no more of them are taken.
    is_full: bool,
    /// Streams that were not taken for it, since that was last asked.
    refused_for_memory: u32,
    /// What the peer's GOAWAY said.
    peer_leaves: Option<u32>,
    /// Why the connection ends was said: nothing follows.
    has_ended: bool,
    floods: Floods,
}

impl<T: Default> Connection<T> {
    /// A connection that begins: its first bytes are in `output`.
    pub fn new(role: Role, ours: OurSettings, now: Instant) -> Connection<T> {
        let mut connection = Connection {
            output: Vec::new(),
            role,
            ours,
            peer: PeerSettings::default(),
            settings_sent: Some(now),
            streams: Streams::default(),
            ready: Ready::default(),
            send_window: SendWindow::new(DEFAULT_WINDOW_BYTES),
            receive_window: ReceiveWindow::new(DEFAULT_WINDOW_BYTES),
            encoder: Encoder::new(),
            decoder: Decoder::new(DEFAULT_TABLE_SIZE),
            reading: if role == Role::Server { FrameStage::Preface { seen: 0 } } else { FrameStage::Head },
            frame_head: [0; FRAME_HEAD_BYTES],
            frame_head_len: 0,
            partial: Vec::new(),
            block: HeaderBlock::default(),
            has_peer_settings: false,
            last_peer_id: 0,
            next_id: 1,
            leaving: Leaving::No,
            is_full: false,
            refused_for_memory: 0,
            peer_leaves: None,
            has_ended: false,
            floods: Floods::new(now),
        };
        connection.begin();
        connection
    }

    fn begin(&mut self) {
        if self.role == Role::Client {
            self.output.extend_from_slice(PREFACE);
        }
        self.ours.write(self.role == Role::Client, &mut self.output);
        self.receive_window.widen(self.ours.connection_window_bytes);
        self.announce_connection_window();
    }

    /// What is to be sent, for whoever sends it now; `next` takes its place.
    pub fn take_output(&mut self, next: Vec<u8>) -> Vec<u8> {
        self.floods.note_sent(self.output.len());
        std::mem::replace(&mut self.output, next)
    }

    /// Streams that have an owner, those that are over included.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// The streams that have an owner, the oldest first.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = StreamKey> + '_ {
        self.streams.keys()
    }

    /// What the owner keeps with a stream.
    #[inline]
    pub fn user(&mut self, key: StreamKey) -> Option<&mut T> {
        self.streams.lookup_mut(key).map(|stream| &mut stream.user)
    }

    /// Whether the peer may still send something on the stream.
    pub fn is_receiving(&self, key: StreamKey) -> bool {
        self.streams.lookup(key).is_some_and(|stream| matches!(stream.receiving, Receiving::Head | Receiving::Body { .. }))
    }

    /// Whether something may still be sent on the stream.
    pub fn is_sending(&self, key: StreamKey) -> bool {
        self.streams.lookup(key).is_some_and(|stream| matches!(stream.sending, Sending::Head | Sending::Body))
    }

    /// Whether all of the peer's message has come.
    pub fn has_come_whole(&self, key: StreamKey) -> bool {
        self.streams.lookup(key).is_some_and(|stream| stream.receiving == Receiving::Ended)
    }

    /// Whether a stream waits for its turn to send and there is a window for it.
    pub fn has_turns(&self) -> bool {
        !self.ready.is_empty() && self.send_window.open_bytes() > 0
    }

    /// Whether the peer has begun as it should, with its SETTINGS.
    pub fn has_begun(&self) -> bool {
        self.has_peer_settings
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether no stream is left and none will come.
    pub fn is_done(&self) -> bool {
        let is_announced = matches!(self.leaving, Leaving::Final { .. }) || self.peer_leaves.is_some();
        is_announced && self.streams.len() == 0
    }

    /// What the peer has said of itself.
    pub fn peer(&self) -> &PeerSettings {
        &self.peer
    }

    /// When the head that is coming began to come, until it is whole.
    pub fn head_began(&self) -> Option<Instant> {
        self.block.began
    }

    /// What a frame and a head take that have not come whole.
    pub fn unfinished_bytes(&self) -> usize {
        self.partial.capacity() + self.block.held_bytes()
    }

    /// Whether the peer should have acknowledged our SETTINGS by now.
    pub fn is_acknowledgement_overdue(&self, now: Instant) -> bool {
        self.settings_sent.is_some_and(|sent| now.saturating_duration_since(sent) >= SETTINGS_TIME_MAX)
    }

    /// The peer did not acknowledge our SETTINGS.
    pub fn end_for_settings(&mut self) {
        self.end(ConnectionEnd::Fault(ConnectionFault {
            code: ErrorCode::SettingsTimeout,
            why: "the peer has not acknowledged SETTINGS",
        }));
    }

    /// Says whether the peer's streams hold as much memory as they may. Another one is refused before anything of its
    /// head is kept, and a peer that goes on opening them ends the connection.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Streams that were refused for want of memory since this was last asked.
    pub fn take_refused_for_memory(&mut self) -> u32 {
        std::mem::take(&mut self.refused_for_memory)
    }

    /// Whether the peer is told, or tells us, to open no more streams.
    pub fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No || self.peer_leaves.is_some()
    }

    /// How many of our streams the peer has taken, or may have, where it has said that it takes no more.
    pub fn taken_before_leaving(&self) -> Option<u32> {
        let last_id = self.peer_leaves?.min(self.next_id.saturating_sub(1));
        Some(last_id.div_ceil(2))
    }

    /// Takes no more streams. A client is asked to open none; those that it opens before it knows are served: only when
    /// it has answered the PING behind is said which was the last (RFC 9113 section 6.8), and another one behind that,
    /// since many clients answer a PING before they send what they have begun. A server is told that ours were the
    /// last.
    pub fn shut_down(&mut self) {
        match (self.leaving, self.role) {
            (Leaving::No, Role::Server) => {
                self.leaving = Leaving::Announced;
                self.write_go_away(ID_MAX, ErrorCode::NoError);
                self.write_shutdown_ping();
            }
            (Leaving::No, Role::Client) => {
                self.leaving = Leaving::Final { last_id: 0 };
                self.write_go_away(0, ErrorCode::NoError);
            }
            (Leaving::Announced | Leaving::Known | Leaving::Final { .. }, _) => {}
        }
    }

    /// The client sends nothing more, but may read on: what has come whole is answered. What has not never will be, and
    /// a head that came in part is forgotten.
    pub fn end_input(&mut self) {
        self.block.close();
        self.block.began = None;
        if !matches!(self.leaving, Leaving::Final { .. }) {
            self.leaving = Leaving::Final { last_id: self.last_peer_id };
            self.write_go_away(self.last_peer_id, ErrorCode::NoError);
        }
    }

    /// Says why the connection ends. Nothing may follow.
    pub fn end(&mut self, why: ConnectionEnd) {
        self.leaving = Leaving::Final { last_id: self.last_peer_id };
        if !std::mem::replace(&mut self.has_ended, true) {
            self.write_go_away(self.last_peer_id, why.code());
        }
    }

    /// The peer has answered a PING of [`Connection::shut_down`].
    fn go_on_with_shutdown(&mut self) {
        match self.leaving {
            Leaving::Announced => {
                self.leaving = Leaving::Known;
                self.write_shutdown_ping();
            }
            Leaving::Known => {
                let last_id = self.last_peer_id;
                self.leaving = Leaving::Final { last_id };
                self.write_go_away(last_id, ErrorCode::NoError);
            }
            Leaving::No | Leaving::Final { .. } => {}
        }
    }

    fn write_shutdown_ping(&mut self) {
        write_frame(&mut self.output, FrameKind::Ping, 0, 0, &SHUTDOWN_PING);
    }

    fn write_go_away(&mut self, last_id: u32, code: ErrorCode) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last_id.to_be_bytes());
        payload[4..].copy_from_slice(&(code as u32).to_be_bytes());
        write_frame(&mut self.output, FrameKind::GoAway, 0, 0, &payload);
    }

    fn stream_of(&self, id: u32, user: T) -> Stream<T> {
        Stream {
            id,
            receiving: Receiving::Head,
            sending: Sending::Head,
            send_window: SendWindow::new(self.peer.initial_window_bytes),
            receive_window: match self.settings_sent {
                Some(_) => ReceiveWindow::before_settings(self.ours.initial_window_bytes),
                None => ReceiveWindow::new(self.ours.initial_window_bytes),
            },
            priority: Priority::default(),
            has_more: false,
            is_malformed: false,
            user,
        }
    }
}
