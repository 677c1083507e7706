//! Frames that come in, in any pieces: each is checked for its size, its stream and the state it comes in, and becomes
//! an event where somebody has to act. A fault ends the stream where RFC 9113 lets it, else the connection.

use super::block::{KEPT_BYTES, Purpose};
use super::{Connection, Event, Leaving, Role, SHUTDOWN_PING};
use crate::error::BodyError;
use crate::h2::PREFACE;
use crate::h2::fault::{ConnectionEnd, ConnectionFault, protocol_error, size_error};
use crate::h2::frame::{
    ACK, END_HEADERS, END_STREAM, ErrorCode, FRAME_HEAD_BYTES, FRAME_PAYLOAD_MAX, FrameHead, FrameKind, ID_MAX, PADDED, PRIORITY,
    write_frame,
};
use crate::h2::priority::Priority;
use crate::h2::settings::SETTING_BYTES;
use crate::h2::stream::{Receiving, Sending, StreamKey};
use std::time::Instant;

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameStage {
    Preface {
        seen: u8,
    },
    Head,
    /// The length of the padding of a DATA frame.
    PadLength(FrameHead),
    /// Content of a DATA frame; `padding` bytes follow.
    Data {
        key: StreamKey,
        left: u32,
        padding: u32,
        ends_stream: bool,
    },
    /// Any other frame; it is looked at when all of it is there.
    Payload(FrameHead),
    /// Bytes without a meaning for us.
    Skip {
        left: u32,
    },
}

type Received<'i> = Result<Option<Event<'i>>, ConnectionEnd>;

impl<T: Default> Connection<T> {
    /// Takes bytes from the front of `input`, up to the next event. `None`: all were taken, and nothing more is to be
    /// done for them. After an error only `output` is to be sent, in which the peer is told why.
    pub fn receive<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Received<'i> {
        let received = self.receive_frames(input, now);
        if let Err(why) = &received {
            self.end(*why);
        }
        received
    }

    fn receive_frames<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Received<'i> {
        self.skip_unread_block()?;
        loop {
            let event = match self.reading {
                FrameStage::Preface { seen } => {
                    self.read_preface(seen, input)?;
                    None
                }
                FrameStage::Head => match self.gather_frame_head(input) {
                    Some(head) => self.begin_frame(head, now)?,
                    None => return Ok(None),
                },
                FrameStage::PadLength(head) => match input.split_off_first() {
                    Some(padding) => self.begin_data(head, Some(*padding), now)?,
                    None => return Ok(None),
                },
                FrameStage::Data { key, left, padding, ends_stream } => {
                    if input.is_empty() && left > 0 {
                        return Ok(None);
                    }
                    self.take_data((key, left, padding, ends_stream), input)
                }
                FrameStage::Payload(head) => match self.gather_payload(head, input) {
                    Payload::Missing => return Ok(None),
                    Payload::Borrowed(payload) => self.take_frame(head, payload, now)?,
                    Payload::Gathered(payload) => {
                        let event = self.take_frame(head, &payload, now)?.map(Event::without_bytes);
                        self.partial = payload;
                        self.partial.clear();
                        self.partial.shrink_to(KEPT_BYTES);
                        event
                    }
                },
                FrameStage::Skip { left } => {
                    let skipped = input.len().min(left as usize);
                    *input = input.get(skipped..).unwrap_or_default();
                    let left = left - skipped as u32;
                    self.reading = if left == 0 { FrameStage::Head } else { FrameStage::Skip { left } };
                    None
                }
            };
            if event.is_some() {
                return Ok(event);
            }
            if input.is_empty() && !self.has_data_at_hand() {
                return Ok(None);
            }
        }
    }

    /// An empty DATA frame, or one whose content is all padding, has something to say without a byte more.
    fn has_data_at_hand(&self) -> bool {
        matches!(self.reading, FrameStage::Data { left: 0, .. })
            || matches!(self.reading, FrameStage::Payload(FrameHead { len: 0, .. }) | FrameStage::Skip { left: 0 })
    }

    fn read_preface(&mut self, seen: u8, input: &mut &[u8]) -> Result<(), ConnectionFault> {
        let expected = PREFACE.get(seen as usize..).unwrap_or_default();
        let count = expected.len().min(input.len());
        let (came, rest) = input.split_at(count);
        if !expected.starts_with(came) {
            return Err(protocol_error("the connection does not begin with the preface of HTTP/2"));
        }
        *input = rest;
        let seen = seen + count as u8;
        self.reading = if seen as usize == PREFACE.len() { FrameStage::Head } else { FrameStage::Preface { seen } };
        Ok(())
    }

    #[inline]
    fn gather_frame_head(&mut self, input: &mut &[u8]) -> Option<FrameHead> {
        let gathered = self.frame_head_len as usize;
        if gathered == 0
            && let Some((head, rest)) = input.split_first_chunk()
        {
            *input = rest;
            return Some(FrameHead::parse(head));
        }
        let count = (FRAME_HEAD_BYTES - gathered).min(input.len());
        let (came, rest) = input.split_at(count);
        self.frame_head[gathered..gathered + count].copy_from_slice(came);
        *input = rest;
        self.frame_head_len = (gathered + count) as u8;
        if gathered + count < FRAME_HEAD_BYTES {
            return None;
        }
        self.frame_head_len = 0;
        Some(FrameHead::parse(&self.frame_head))
    }

    fn begin_frame(&mut self, head: FrameHead, now: Instant) -> Result<Option<Event<'static>>, ConnectionEnd> {
        if head.len as usize > FRAME_PAYLOAD_MAX {
            return Err(size_error("a frame is larger than SETTINGS_MAX_FRAME_SIZE").into());
        }
        let kind = FrameKind::from_repr(head.kind);
        // RFC 9113 section 3.4: SETTINGS come first.
        if !self.has_peer_settings && (kind != Some(FrameKind::Settings) || head.has(ACK)) {
            return Err(protocol_error("the first frame is not SETTINGS").into());
        }
        // RFC 9113 section 6.10: nothing comes between the frames of a header block.
        if let Some(id) = self.block.awaits_continuation()
            && (kind != Some(FrameKind::Continuation) || head.stream != id)
        {
            return Err(protocol_error("a header block is interrupted by another frame").into());
        }
        match kind {
            Some(FrameKind::Data) if head.has(PADDED) => {
                if head.len == 0 {
                    self.count(head, 0, now)?;
                    return Err(size_error("a padded frame has no length of its padding").into());
                }
                self.reading = FrameStage::PadLength(head);
                Ok(None)
            }
            Some(FrameKind::Data) => self.begin_data(head, None, now),
            Some(_) => {
                self.count(head, head.len, now)?;
                if kind == Some(FrameKind::Headers) {
                    self.block.began.get_or_insert(now);
                }
                self.reading = FrameStage::Payload(head);
                Ok(None)
            }
            None => {
                self.count(head, head.len, now)?;
                self.reading = FrameStage::Skip { left: head.len };
                Ok(None)
            }
        }
    }

    /// Servers may reset streams and open windows as they like: they answer to us.
    fn count(&mut self, head: FrameHead, content_len: u32, now: Instant) -> Result<(), ConnectionEnd> {
        let kind = FrameKind::from_repr(head.kind);
        let is_answer = matches!(kind, Some(FrameKind::RstStream | FrameKind::WindowUpdate));
        if self.role == Role::Client && is_answer {
            return Ok(());
        }
        // A client that has its answer needs not send the rest: it saves work, and makes none.
        if kind == Some(FrameKind::RstStream) && self.is_answered(head.stream) {
            return Ok(());
        }
        Ok(self.floods.count(head, content_len, now)?)
    }

    /// Whether a stream that is not over has the whole answer.
    fn is_answered(&self, id: u32) -> bool {
        let stream = self.streams.find(id).and_then(|key| self.streams.lookup(key));
        stream.is_some_and(|stream| stream.sending == Sending::Ended && !stream.is_over())
    }

    fn begin_data(&mut self, head: FrameHead, pad: Option<u8>, now: Instant) -> Result<Option<Event<'static>>, ConnectionEnd> {
        let padding = pad.map_or(0, u32::from);
        let overhead = padding + u32::from(pad.is_some());
        let Some(content) = head.len.checked_sub(overhead) else {
            return Err(protocol_error("the padding of a frame is longer than the frame").into());
        };
        self.count(head, content, now)?;
        if head.stream == 0 {
            return Err(protocol_error("DATA on stream 0").into());
        }
        if !self.receive_window.receive(head.len) {
            let why = "the peer sends more than the window of the connection allows";
            return Err(ConnectionFault { code: ErrorCode::FlowControlError, why }.into());
        }
        // What streams hold is bounded by their own windows: one that nobody reads must not hold up the others.
        self.receive_window.free(head.len);
        self.announce_connection_window();
        self.reading = FrameStage::Skip { left: content + padding };
        let Some(key) = self.find_open(head.stream)? else { return Ok(None) };
        let ends_stream = head.has(END_STREAM);
        let Some(stream) = self.streams.lookup_mut(key) else { return Ok(None) };
        let fault = match &mut stream.receiving {
            Receiving::Reset { by_peer: false } => return Ok(None),
            Receiving::Reset { by_peer: true } => return Err(closed().into()),
            Receiving::Ended => Some(ErrorCode::StreamClosed),
            Receiving::Head => Some(ErrorCode::ProtocolError),
            Receiving::Body { left } => {
                if !stream.receive_window.receive(head.len) {
                    Some(ErrorCode::FlowControlError)
                } else if left.is_some_and(|left| content as u64 > left || (ends_stream && content as u64 != left)) {
                    // RFC 9113 section 8.1.1.
                    return self.malformed(key, BodyError::LengthDisagrees, now);
                } else {
                    *left = left.map(|left| left - content as u64);
                    None
                }
            }
        };
        if let Some(code) = fault {
            return self.stream_fault(key, code, now);
        }
        stream.receive_window.free(overhead);
        self.reading = FrameStage::Data { key, left: content, padding, ends_stream };
        Ok(None)
    }

    fn take_data<'i>(
        &mut self,
        (key, left, padding, ends_stream): (StreamKey, u32, u32, bool),
        input: &mut &'i [u8],
    ) -> Option<Event<'i>> {
        let count = input.len().min(left as usize);
        let (bytes, rest) = input.split_at(count);
        *input = rest;
        let left = left - count as u32;
        let is_last = left == 0;
        self.reading = match (is_last, padding) {
            (false, _) => FrameStage::Data { key, left, padding, ends_stream },
            (true, 0) => FrameStage::Head,
            (true, padding) => FrameStage::Skip { left: padding },
        };
        let stream = self.streams.lookup_mut(key).filter(|stream| matches!(stream.receiving, Receiving::Body { .. }))?;
        let ends_stream = is_last && ends_stream;
        if ends_stream {
            stream.receiving = Receiving::Ended;
        } else if bytes.is_empty() {
            self.announce_stream_window(key);
            return None;
        }
        Some(Event::Data { key, bytes, ends_stream })
    }

    /// The owned stream of that id; `None` where what comes is read past.
    fn find_open(&self, id: u32) -> Result<Option<StreamKey>, ConnectionEnd> {
        if let Some(key) = self.streams.find(id) {
            return Ok(Some(key));
        }
        if self.is_idle(id) {
            return Err(protocol_error("a frame on a stream that was not opened").into());
        }
        if self.is_read_past(id) {
            return Ok(None);
        }
        Err(closed().into())
    }

    /// What we reset, and what was opened after we said that we leave.
    fn is_read_past(&self, id: u32) -> bool {
        self.streams.was_reset(id) || matches!(self.leaving, Leaving::Final { last_id } if id > last_id)
    }

    /// Whether nobody has opened a stream of that id.
    fn is_idle(&self, id: u32) -> bool {
        match self.role {
            Role::Server => id.is_multiple_of(2) || id > self.last_peer_id,
            Role::Client => id.is_multiple_of(2) || id >= self.next_id,
        }
    }

    fn gather_payload<'i>(&mut self, head: FrameHead, input: &mut &'i [u8]) -> Payload<'i> {
        let len = head.len as usize;
        if self.partial.is_empty()
            && let Some((payload, rest)) = input.split_at_checked(len)
        {
            *input = rest;
            self.reading = FrameStage::Head;
            return Payload::Borrowed(payload);
        }
        let count = len.saturating_sub(self.partial.len()).min(input.len());
        let (came, rest) = input.split_at(count);
        self.partial.extend_from_slice(came);
        *input = rest;
        if self.partial.len() < len {
            return Payload::Missing;
        }
        self.reading = FrameStage::Head;
        Payload::Gathered(std::mem::take(&mut self.partial))
    }

    fn take_frame<'i>(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Received<'i> {
        match FrameKind::from_repr(head.kind) {
            Some(FrameKind::Headers) => self.take_headers(head, payload, now),
            Some(FrameKind::Continuation) => self.take_continuation(head, payload, now),
            Some(FrameKind::Settings) => self.take_settings(head, payload).map(|()| None),
            Some(FrameKind::WindowUpdate) => self.take_window_update(head, payload, now),
            Some(FrameKind::RstStream) => self.take_reset(head, payload),
            Some(FrameKind::Ping) => self.take_ping(head, payload),
            Some(FrameKind::GoAway) => self.take_go_away(head, payload),
            Some(FrameKind::Priority) => self.take_priority(head, payload, now),
            Some(FrameKind::PriorityUpdate) => self.take_priority_update(head, payload).map(|()| None),
            // Servers are never sent one, and we tell servers that we take none (RFC 9113 section 8.4).
            Some(FrameKind::PushPromise) => Err(protocol_error("PUSH_PROMISE, which was not allowed").into()),
            Some(FrameKind::Data) | None => Ok(None),
        }
    }

    fn take_headers<'i>(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Received<'i> {
        if head.stream == 0 {
            return Err(protocol_error("HEADERS on stream 0").into());
        }
        let mut fragment = without_padding(head, payload)?;
        let mut depends_on = None;
        if head.has(PRIORITY) {
            let Some((dependency, rest)) = fragment.split_first_chunk::<5>() else {
                return Err(size_error("HEADERS without the priority that its flags promise").into());
            };
            let [d0, d1, d2, d3, _weight] = *dependency;
            depends_on = Some(u32::from_be_bytes([d0, d1, d2, d3]) & ID_MAX);
            fragment = rest;
        }
        let ends_stream = head.has(END_STREAM);
        let mut purpose = self.purpose_of(head.stream, ends_stream)?;
        // RFC 7540 section 5.3.1, which RFC 9113 has taken back, has a stream error for it.
        if depends_on == Some(head.stream) && purpose == Purpose::Open {
            purpose = Purpose::Refuse(ErrorCode::ProtocolError);
        }
        self.block.begin(head.stream, purpose, ends_stream, fragment);
        if head.has(END_HEADERS) { self.finish_block(now) } else { Ok(None) }
    }

    /// What a header block on that stream is.
    fn purpose_of(&mut self, id: u32, ends_stream: bool) -> Result<Purpose, ConnectionEnd> {
        let Some(key) = self.streams.find(id) else { return self.purpose_of_new(id) };
        let Some(stream) = self.streams.lookup(key) else { return Ok(Purpose::Ignore) };
        Ok(match stream.receiving {
            Receiving::Head => Purpose::Response(key),
            Receiving::Reset { by_peer: false } => Purpose::Ignore,
            Receiving::Reset { by_peer: true } => return Err(closed().into()),
            Receiving::Ended => Purpose::Fault(key, ErrorCode::StreamClosed),
            // RFC 9113 section 8.1: trailers end their message, and a declared length is that of its content.
            Receiving::Body { .. } if !ends_stream => Purpose::Malformed(key, BodyError::BadTrailer),
            Receiving::Body { left: Some(1..) } => Purpose::Malformed(key, BodyError::LengthDisagrees),
            Receiving::Body { .. } => Purpose::Trailers(key),
        })
    }

    fn purpose_of_new(&mut self, id: u32) -> Result<Purpose, ConnectionEnd> {
        if self.role == Role::Client || id.is_multiple_of(2) || id <= self.last_peer_id {
            return self.find_open(id).map(|_| Purpose::Ignore);
        }
        if matches!(self.leaving, Leaving::Final { .. }) {
            return Ok(Purpose::Ignore);
        }
        self.last_peer_id = id;
        let has_place = self.streams.len() < self.ours.streams_max as usize;
        Ok(match has_place {
            true if self.is_full => Purpose::RefuseForMemory,
            true => Purpose::Open,
            false => Purpose::Refuse(ErrorCode::RefusedStream),
        })
    }

    fn take_continuation<'i>(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Received<'i> {
        if self.block.awaits_continuation().is_none() {
            return Err(protocol_error("CONTINUATION without HEADERS").into());
        }
        self.block.append(payload, self.ours.header_list_bytes_max)?;
        if head.has(END_HEADERS) { self.finish_block(now) } else { Ok(None) }
    }

    fn take_settings(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionEnd> {
        if head.stream != 0 {
            return Err(protocol_error("SETTINGS on a stream").into());
        }
        if head.has(ACK) {
            if !payload.is_empty() {
                return Err(size_error("an acknowledgement of SETTINGS with a payload").into());
            }
            if self.settings_sent.take().is_some() {
                let initial = self.ours.initial_window_bytes;
                self.streams.iter_mut().for_each(|stream| stream.receive_window.acknowledged(initial));
            }
            return Ok(());
        }
        let (settings, rest) = payload.as_chunks::<SETTING_BYTES>();
        if !rest.is_empty() {
            return Err(size_error("SETTINGS of a length that is no multiple of 6").into());
        }
        let before = self.peer;
        for setting in settings {
            self.peer.apply(*setting, self.role == Role::Client)?;
        }
        self.has_peer_settings = true;
        if self.peer.header_table_bytes != before.header_table_bytes {
            self.encoder.set_table_size_max(self.peer.header_table_bytes);
        }
        let change = i64::from(self.peer.initial_window_bytes) - i64::from(before.initial_window_bytes);
        if change != 0 {
            self.change_send_windows(change)?;
        }
        write_frame(&mut self.output, FrameKind::Settings, ACK, 0, &[]);
        Ok(())
    }

    /// RFC 9113 section 6.9.2: a new initial size holds for the streams that are there as well.
    fn change_send_windows(&mut self, change: i64) -> Result<(), ConnectionFault> {
        if self.streams.iter_mut().any(|stream| !stream.send_window.change(change)) {
            let why = "SETTINGS_INITIAL_WINDOW_SIZE makes a window larger than 2^31 - 1";
            return Err(ConnectionFault { code: ErrorCode::FlowControlError, why });
        }
        let keys: Vec<StreamKey> = self.streams.keys().collect();
        for key in keys {
            self.settle_readiness(key);
        }
        Ok(())
    }

    fn take_window_update<'i>(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Received<'i> {
        let Ok(increment) = <[u8; 4]>::try_from(payload) else {
            return Err(size_error("WINDOW_UPDATE of a length other than 4").into());
        };
        let increment = i64::from(u32::from_be_bytes(increment) & ID_MAX);
        if head.stream == 0 {
            if increment == 0 {
                return Err(protocol_error("WINDOW_UPDATE by nothing").into());
            }
            if !self.send_window.change(increment) {
                let why = "WINDOW_UPDATE makes the window of the connection larger than 2^31 - 1";
                return Err(ConnectionFault { code: ErrorCode::FlowControlError, why }.into());
            }
            return Ok(None);
        }
        let Some(key) = self.streams.find(head.stream) else {
            return if self.is_idle(head.stream) {
                Err(protocol_error("WINDOW_UPDATE on a stream that was not opened").into())
            } else {
                Ok(None)
            };
        };
        let Some(stream) = self.streams.lookup_mut(key) else { return Ok(None) };
        let is_over = stream.is_over();
        let fault = match increment {
            0 => Some(ErrorCode::ProtocolError),
            increment => (!stream.send_window.change(increment)).then_some(ErrorCode::FlowControlError),
        };
        match fault.filter(|_| !is_over) {
            Some(code) => self.stream_fault(key, code, now),
            None => {
                self.settle_readiness(key);
                Ok(None)
            }
        }
    }

    fn take_reset<'i>(&mut self, head: FrameHead, payload: &[u8]) -> Received<'i> {
        let Ok(code) = <[u8; 4]>::try_from(payload) else {
            return Err(size_error("RST_STREAM of a length other than 4").into());
        };
        let Some(key) = self.streams.find(head.stream) else {
            return if head.stream == 0 || self.is_idle(head.stream) {
                Err(protocol_error("RST_STREAM on a stream that was not opened").into())
            } else {
                Ok(None)
            };
        };
        self.ready.remove(key);
        let Some(stream) = self.streams.lookup_mut(key) else { return Ok(None) };
        if stream.is_over() {
            return Ok(None);
        }
        // RFC 9113 section 8.1: a server may say that it needs no more of a request than it has.
        let code = ErrorCode::of(u32::from_be_bytes(code));
        stream.mark_reset(true);
        Ok(Some(Event::Reset { key, code, by_peer: true }))
    }

    fn take_ping<'i>(&mut self, head: FrameHead, payload: &[u8]) -> Received<'i> {
        if head.stream != 0 {
            return Err(protocol_error("PING on a stream").into());
        }
        let Ok(payload) = <[u8; 8]>::try_from(payload) else {
            return Err(size_error("PING of a length other than 8").into());
        };
        if !head.has(ACK) {
            write_frame(&mut self.output, FrameKind::Ping, ACK, 0, &payload);
            return Ok(None);
        }
        if payload == SHUTDOWN_PING {
            self.go_on_with_shutdown();
        }
        Ok(Some(Event::Pong))
    }

    fn take_go_away<'i>(&mut self, head: FrameHead, payload: &[u8]) -> Received<'i> {
        if head.stream != 0 {
            return Err(protocol_error("GOAWAY on a stream").into());
        }
        let Some(([l0, l1, l2, l3, c0, c1, c2, c3], _debug)) = payload.split_first_chunk::<8>() else {
            return Err(size_error("GOAWAY of less than 8 bytes").into());
        };
        let last_id = u32::from_be_bytes([*l0, *l1, *l2, *l3]) & ID_MAX;
        // RFC 9113 section 6.8: the promise may become smaller, never larger.
        let last_id = self.peer_leaves.map_or(last_id, |before| before.min(last_id));
        self.peer_leaves = Some(last_id);
        Ok(Some(Event::GoAway { last_id, code: ErrorCode::of(u32::from_be_bytes([*c0, *c1, *c2, *c3])) }))
    }

    fn take_priority<'i>(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Received<'i> {
        if head.stream == 0 {
            return Err(protocol_error("PRIORITY on stream 0").into());
        }
        let owned = self.streams.find(head.stream);
        let Some(([d0, d1, d2, d3, _weight], [])) = payload.split_first_chunk::<5>() else {
            return match owned {
                Some(key) => self.stream_fault(key, ErrorCode::FrameSizeError, now),
                None => Err(size_error("PRIORITY of a length other than 5").into()),
            };
        };
        let depends_on_itself = u32::from_be_bytes([*d0, *d1, *d2, *d3]) & ID_MAX == head.stream;
        match (depends_on_itself, owned) {
            (true, Some(key)) => self.stream_fault(key, ErrorCode::ProtocolError, now),
            (true, None) if self.is_idle(head.stream) => Err(protocol_error("a stream depends on itself").into()),
            (true | false, _) => Ok(None),
        }
    }

    fn take_priority_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionEnd> {
        // RFC 9218 section 7.1.
        if head.stream != 0 || self.role == Role::Client {
            return Err(protocol_error("PRIORITY_UPDATE on a stream, or by a server").into());
        }
        let Some((id, value)) = payload.split_first_chunk::<4>() else {
            return Err(size_error("PRIORITY_UPDATE of less than 4 bytes").into());
        };
        let id = u32::from_be_bytes(*id) & ID_MAX;
        if id == 0 {
            return Err(protocol_error("PRIORITY_UPDATE for stream 0").into());
        }
        if let Some(key) = self.streams.find(id) {
            self.set_priority(key, Priority::parse(value));
        }
        Ok(())
    }

    /// Ends a message that broke a rule behind its head: answered first, where it was not.
    pub(super) fn malformed<'i>(&mut self, key: StreamKey, fault: BodyError, now: Instant) -> Received<'i> {
        let is_answerable = self.end_malformed(key, true, now)?;
        if let Some(stream) = self.streams.lookup_mut(key) {
            stream.receiving = Receiving::Reset { by_peer: false };
        }
        Ok(Some(Event::Malformed { key, fault, is_answerable }))
    }

    /// Ends a stream for a fault of the peer's.
    pub(super) fn stream_fault<'i>(&mut self, key: StreamKey, code: ErrorCode, now: Instant) -> Received<'i> {
        if self.role == Role::Server {
            self.floods.count_provoked_reset(now)?;
        }
        self.reset(key, code);
        Ok(Some(Event::Reset { key, code, by_peer: false }))
    }
}

/// RFC 9113 section 5.1, closed.
fn closed() -> ConnectionFault {
    ConnectionFault { code: ErrorCode::StreamClosed, why: "a frame on a stream that has ended" }
}

enum Payload<'i> {
    Missing,
    Borrowed(&'i [u8]),
    Gathered(Vec<u8>),
}

impl Event<'_> {
    /// The event, of a frame that is no DATA.
    fn without_bytes<'i>(self) -> Event<'i> {
        match self {
            Event::Request { key, ends_stream } => Event::Request { key, ends_stream },
            Event::Response { key, ends_stream } => Event::Response { key, ends_stream },
            Event::Trailers { key } => Event::Trailers { key },
            Event::Malformed { key, fault, is_answerable } => Event::Malformed { key, fault, is_answerable },
            Event::Data { key, ends_stream, .. } => Event::Data { key, bytes: &[], ends_stream },
            Event::Reset { key, code, by_peer } => Event::Reset { key, code, by_peer },
            Event::GoAway { last_id, code } => Event::GoAway { last_id, code },
            Event::Pong => Event::Pong,
        }
    }
}

/// RFC 9113 section 6.2.
fn without_padding(head: FrameHead, payload: &[u8]) -> Result<&[u8], ConnectionFault> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let Some((padding, rest)) = payload.split_first() else {
        return Err(size_error("a padded frame has no length of its padding"));
    };
    let content = rest.len().checked_sub(*padding as usize);
    let content = content.ok_or(protocol_error("the padding of a frame is longer than the frame"))?;
    Ok(rest.get(..content).unwrap_or_default())
}
