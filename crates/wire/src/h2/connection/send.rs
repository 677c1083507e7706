//! What goes out: heads, bodies as the windows allow and in the order of priorities, resets, pings, and the windows
//! that we open again. All of it is appended to `output`.

use super::{Connection, Role};
use crate::h2::frame::{
    END_HEADERS, END_STREAM, ErrorCode, FRAME_HEAD_BYTES, FRAME_PAYLOAD_MAX, FrameHead, FrameKind, ID_MAX, write_frame,
};
use crate::h2::heads::{RequestForm, write_request, write_response, write_trailers};
use crate::h2::hpack::Encoder;
use crate::h2::priority::Priority;
use crate::h2::stream::{Receiving, Sending, StreamKey};
use crate::head::{Fields, RequestHead, ResponseHead};

impl<T: Default> Connection<T> {
    /// Streams that we may open now, beside those that are open. None once either side leaves, or when all ids are
    /// used.
    pub fn free_streams(&self) -> usize {
        if self.is_leaving() || self.next_id > ID_MAX {
            return 0;
        }
        (self.peer.streams_max as usize).saturating_sub(self.streams.len())
    }

    /// Opens a stream of ours, where [`free_streams`](Self::free_streams) has one.
    pub fn open(&mut self, user: T) -> Option<StreamKey> {
        if self.role != Role::Client || self.free_streams() == 0 {
            return None;
        }
        let stream = self.stream_of(self.next_id, user);
        self.next_id += 2;
        Some(self.streams.insert(stream))
    }

    /// Sends the head of a request. `scratch` is for a path with its query.
    pub fn send_request(
        &mut self,
        key: StreamKey,
        head: &RequestHead,
        form: RequestForm<'_>,
        scratch: &mut Vec<u8>,
        ends_stream: bool,
    ) {
        self.send_block(key, ends_stream, Sending::Head, |encoder, output| {
            write_request(encoder, head, form, scratch, output);
        });
    }

    /// Sends the head of an answer; an interim one (1xx) is followed by another.
    pub fn send_response(&mut self, key: StreamKey, head: &ResponseHead, ends_stream: bool) {
        let is_interim = (100..200).contains(&head.status);
        self.send_block(key, ends_stream, Sending::Head, |encoder, output| write_response(encoder, head, output));
        if is_interim
            && let Some(stream) = self.streams.lookup_mut(key)
            && stream.sending == Sending::Body
        {
            stream.sending = Sending::Head;
        }
    }

    /// Ends a body with trailers.
    pub fn send_trailers(&mut self, key: StreamKey, trailers: &Fields) {
        self.send_block(key, true, Sending::Body, |encoder, output| write_trailers(encoder, trailers, output));
    }

    /// Writes a header block into frames, where the stream is as far as `at`. A block larger than a frame goes on in
    /// CONTINUATION.
    fn send_block(&mut self, key: StreamKey, ends_stream: bool, at: Sending, write: impl FnOnce(&mut Encoder, &mut Vec<u8>)) {
        let Some(stream) = self.streams.lookup_mut(key).filter(|stream| stream.sending == at) else { return };
        stream.sending = if ends_stream { Sending::Ended } else { Sending::Body };
        let start = self.output.len();
        self.output.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
        write(&mut self.encoder, &mut self.output);
        let flags = if ends_stream { END_STREAM } else { 0 };
        let block_bytes = self.output.len() - start - FRAME_HEAD_BYTES;
        if block_bytes <= FRAME_PAYLOAD_MAX {
            let head = FrameHead::bytes(block_bytes, FrameKind::Headers, flags | END_HEADERS, key.id);
            self.output[start..start + FRAME_HEAD_BYTES].copy_from_slice(&head);
            return;
        }
        let block = self.output.split_off(start + FRAME_HEAD_BYTES);
        self.output.truncate(start);
        let mut pieces = block.chunks(FRAME_PAYLOAD_MAX).peekable();
        let mut kind = (FrameKind::Headers, flags);
        while let Some(piece) = pieces.next() {
            let end = if pieces.peek().is_none() { END_HEADERS } else { 0 };
            write_frame(&mut self.output, kind.0, kind.1 | end, key.id, piece);
            kind = (FrameKind::Continuation, 0);
        }
    }

    /// Says that the owner of a stream has more of its body to send, so that its turn comes.
    pub fn offer(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.lookup_mut(key).filter(|stream| stream.sending == Sending::Body) {
            stream.has_more = true;
            self.settle_readiness(key);
        }
    }

    /// The stream whose turn it is to send, and how much of its body may go into one frame.
    pub fn next_to_send(&mut self) -> Option<(StreamKey, usize)> {
        let of_connection = self.send_window.open_bytes();
        if of_connection == 0 || self.ready.is_empty() {
            return None;
        }
        let key = self.ready.next()?;
        let of_stream = self.streams.lookup(key)?.send_window.open_bytes();
        Some((key, of_connection.min(of_stream).min(FRAME_PAYLOAD_MAX)))
    }

    /// What the peer lets out on a stream, whoever's turn it is.
    pub fn open_bytes(&self, key: StreamKey) -> usize {
        let of_stream = self.streams.lookup(key).map_or(0, |stream| stream.send_window.open_bytes());
        of_stream.min(self.send_window.open_bytes())
    }

    /// Says that the owner of a stream has nothing more to send for now.
    pub fn send_nothing_more(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.lookup_mut(key) {
            stream.has_more = false;
            self.settle_readiness(key);
        }
    }

    /// How much of a body may be sent on the stream at once, when no other stream waits for its turn.
    pub fn sendable(&self, key: StreamKey) -> usize {
        match self.streams.lookup(key) {
            Some(stream) if self.ready.is_empty() && stream.sending == Sending::Body => {
                stream.send_window.open_bytes().min(self.send_window.open_bytes())
            }
            Some(_) | None => 0,
        }
    }

    /// Appends a piece of a body: no more than the windows allow, and no more than a frame has. `has_more`: its owner
    /// holds some of it that did not go.
    pub fn send_data(&mut self, key: StreamKey, bytes: &[u8], ends_stream: bool, has_more: bool) {
        let Some(stream) = self.streams.lookup_mut(key).filter(|stream| stream.sending == Sending::Body) else { return };
        debug_assert!(bytes.len() <= FRAME_PAYLOAD_MAX);
        stream.send_window.spend(bytes.len());
        self.send_window.spend(bytes.len());
        stream.has_more = has_more;
        if ends_stream {
            stream.sending = Sending::Ended;
        }
        write_frame(&mut self.output, FrameKind::Data, if ends_stream { END_STREAM } else { 0 }, key.id, bytes);
        self.settle_readiness(key);
    }

    /// A stream is ready when it has something to send and a window for it.
    pub(super) fn settle_readiness(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.lookup(key) else { return };
        if stream.has_more && stream.send_window.open_bytes() > 0 {
            self.ready.insert(key, stream.priority);
        } else if !self.ready.is_empty() {
            self.ready.remove(key);
        }
    }

    /// How urgent a stream is from here on.
    pub fn set_priority(&mut self, key: StreamKey, priority: Priority) {
        if let Some(stream) = self.streams.lookup_mut(key) {
            stream.priority = priority;
            self.settle_readiness(key);
        }
    }

    /// Ends both halves of a stream at once, where it is not over.
    pub fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        let Some(stream) = self.streams.lookup_mut(key).filter(|stream| !stream.is_over()) else { return };
        let code = if stream.is_malformed { ErrorCode::ProtocolError } else { code };
        stream.mark_reset(false);
        self.ready.remove(key);
        self.streams.note_reset(key.id);
        // Streams that a broken connection takes along are let go behind its last frame.
        if !self.has_ended {
            write_frame(&mut self.output, FrameKind::RstStream, 0, key.id, &(code as u32).to_be_bytes());
        }
    }

    /// Says on a stream that its message was malformed, also behind an answer that has ended: a client that waits for
    /// the reset gets it.
    pub(super) fn reset_malformed(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.lookup_mut(key) {
            stream.mark_reset(false);
            self.ready.remove(key);
            self.streams.note_reset(key.id());
        }
        let code = (ErrorCode::ProtocolError as u32).to_be_bytes();
        write_frame(&mut self.output, FrameKind::RstStream, 0, key.id, &code);
    }

    /// The owner of a stream needs it no more. A stream that is not over is reset: with NO_ERROR where a server has
    /// answered and needs no more of the request (RFC 9113 section 8.1), else with CANCEL.
    pub fn release(&mut self, key: StreamKey) -> Option<T> {
        let stream = self.streams.lookup(key)?;
        let has_answered = self.role == Role::Server && stream.sending == Sending::Ended;
        if stream.is_malformed && stream.sending != Sending::Reset && !self.has_ended {
            self.reset_malformed(key);
        } else if !stream.is_over() {
            // A head that was never sent has opened nothing.
            let is_unopened = self.role == Role::Client && stream.sending == Sending::Head;
            if !is_unopened {
                self.reset(key, if has_answered { ErrorCode::NoError } else { ErrorCode::Cancel });
            }
        }
        if !self.ready.is_empty() {
            self.ready.remove(key);
        }
        self.streams.remove(key)
    }

    /// Bytes of a body were read, and as many more may come.
    pub fn free(&mut self, key: StreamKey, bytes: usize) {
        if let Some(stream) = self.streams.lookup_mut(key) {
            stream.receive_window.free(u32::try_from(bytes).unwrap_or(ID_MAX));
            self.announce_stream_window(key);
        }
    }

    /// Makes the window of a stream larger, for a body that is being read.
    pub fn widen(&mut self, key: StreamKey, bytes: u32) {
        if let Some(stream) = self.streams.lookup_mut(key) {
            stream.receive_window.widen(bytes);
            self.announce_stream_window(key);
        }
    }

    /// Asks for a sign of life.
    pub fn ping(&mut self) {
        write_frame(&mut self.output, FrameKind::Ping, 0, 0, &[0; 8]);
    }

    pub(super) fn announce_connection_window(&mut self) {
        if let Some(increment) = self.receive_window.take_increment() {
            write_frame(&mut self.output, FrameKind::WindowUpdate, 0, 0, &increment.to_be_bytes());
        }
    }

    pub(super) fn announce_stream_window(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.lookup_mut(key) else { return };
        if matches!(stream.receiving, Receiving::Body { .. })
            && let Some(increment) = stream.receive_window.take_increment()
        {
            write_frame(&mut self.output, FrameKind::WindowUpdate, 0, key.id, &increment.to_be_bytes());
        }
    }
}
