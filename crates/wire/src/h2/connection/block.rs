//! Header blocks: gathered from HEADERS and CONTINUATION within bounds, then decoded into the head of a message. Every
//! block is decoded, also of a stream that nobody wants: the tables of both sides stay the same only so (RFC 9113
//! section 4.3).

use super::{Connection, Event, Role};
use crate::error::{BodyError, HeadError};
use crate::h2::fault::{ConnectionEnd, ConnectionFault};
use crate::h2::frame::{ErrorCode, FRAME_PAYLOAD_MAX, FrameKind, write_frame};
use crate::h2::heads::{AdmittedRequest, RequestReader, ResponseReader, TrailersReader, is_malformed};
use crate::h2::hpack::{CompressionError, FieldName, FieldSink};
use crate::h2::priority::Priority;
use crate::h2::stream::{Receiving, Sending, StreamKey};
use crate::head::{Fields, HeaderId, RequestHead, ResponseHead, Span};
use crate::http1::{BodyFraming, content_length};
use crate::limits::HeadLimits;
use std::time::Instant;

/// The header block that comes, or waits to be read.
#[derive(Debug, Default)]
pub(super) struct HeaderBlock {
    bytes: Vec<u8>,
    /// When its first frame began.
    pub(super) began: Option<Instant>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    None,
    /// CONTINUATION follows.
    Coming { id: u32, purpose: Purpose, ends_stream: bool },
    /// All is there, and its owner was told.
    Waiting { ends_stream: bool },
}

/// What becomes of a header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A request, whose stream begins with it.
    Open,
    Response(StreamKey),
    Trailers(StreamKey),
    /// Nobody wants it.
    Ignore,
    /// A new stream that is not taken.
    Refuse(ErrorCode),
    /// A new stream that there is no memory for.
    RefuseForMemory,
    /// The stream ends, as it may not come now.
    Fault(StreamKey, ErrorCode),
    /// Trailers that end a message which broke a rule.
    Malformed(StreamKey, BodyError),
}

/// Kept for the next block, or frame in pieces; larger ones are given back.
pub(super) const KEPT_BYTES: usize = 4096;

impl HeaderBlock {
    pub(super) fn awaits_continuation(&self) -> Option<u32> {
        match self.stage {
            Stage::Coming { id, .. } => Some(id),
            Stage::None | Stage::Waiting { .. } => None,
        }
    }

    pub(super) fn begin(&mut self, id: u32, purpose: Purpose, ends_stream: bool, fragment: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(fragment);
        self.stage = Stage::Coming { id, purpose, ends_stream };
    }

    /// Takes in what CONTINUATION has. A list of fields is hardly ever longer in its compressed form than it may be at
    /// all; twice that is for whoever is clumsy, and what is longer is an attack.
    pub(super) fn append(&mut self, fragment: &[u8], list_bytes_max: u32) -> Result<(), ConnectionFault> {
        let bytes_max = (list_bytes_max as usize).saturating_mul(2).saturating_add(FRAME_PAYLOAD_MAX);
        if self.bytes.len() + fragment.len() > bytes_max {
            return Err(ConnectionFault { code: ErrorCode::EnhanceYourCalm, why: "a header block is far too large" });
        }
        self.bytes.extend_from_slice(fragment);
        Ok(())
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The block is done with.
    pub(super) fn close(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.stage = Stage::None;
    }
}

type ReadHead<T> = Result<Result<T, HeadError>, ConnectionEnd>;

impl<T: Default> Connection<T> {
    pub(super) fn finish_block<'i>(&mut self, now: Instant) -> Result<Option<Event<'i>>, ConnectionEnd> {
        self.block.began = None;
        let Stage::Coming { id, purpose, ends_stream } = self.block.stage else { return Ok(None) };
        self.block.stage = Stage::Waiting { ends_stream };
        let event = match purpose {
            Purpose::Open => Event::Request { key: self.open_for_peer(id, ends_stream), ends_stream },
            Purpose::Response(key) => Event::Response { key, ends_stream },
            Purpose::Trailers(key) => {
                self.end_receiving(key);
                Event::Trailers { key }
            }
            Purpose::Ignore => {
                self.skip_unread_block()?;
                return Ok(None);
            }
            Purpose::Refuse(code) => {
                self.refuse_stream(id, code)?;
                // Who does not know our bound yet may pass it; whoever breaks a rule pays as for any reset.
                if code != ErrorCode::RefusedStream {
                    self.floods.count_provoked_reset(now)?;
                }
                return Ok(None);
            }
            Purpose::RefuseForMemory => {
                self.refused_for_memory = self.refused_for_memory.saturating_add(1);
                self.refuse_stream(id, ErrorCode::RefusedStream)?;
                self.floods.count_refused_for_memory(now)?;
                return Ok(None);
            }
            Purpose::Fault(key, code) => {
                self.skip_unread_block()?;
                return self.stream_fault(key, code, now);
            }
            Purpose::Malformed(key, fault) => {
                self.skip_unread_block()?;
                return self.malformed(key, fault, now);
            }
        };
        Ok(Some(event))
    }

    /// Says that a new stream is not taken. Its block goes through the decoder all the same, into nothing.
    fn refuse_stream(&mut self, id: u32, code: ErrorCode) -> Result<(), ConnectionEnd> {
        self.skip_unread_block()?;
        write_frame(&mut self.output, FrameKind::RstStream, 0, id, &(code as u32).to_be_bytes());
        self.streams.note_reset(id);
        Ok(())
    }

    fn open_for_peer(&mut self, id: u32, ends_stream: bool) -> StreamKey {
        self.floods.note_taken();
        let mut stream = self.stream_of(id, T::default());
        stream.receiving = if ends_stream { Receiving::Ended } else { Receiving::Body { left: None } };
        self.streams.insert(stream)
    }

    fn end_receiving(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.lookup_mut(key) {
            stream.receiving = Receiving::Ended;
        }
    }

    /// Decodes a block that its owner was told of and did not read, or that nobody wants.
    pub(super) fn skip_unread_block(&mut self) -> Result<(), ConnectionEnd> {
        if matches!(self.block.stage, Stage::Waiting { .. }) {
            let decoded = self.decoder.decode(&self.block.bytes, &mut Nowhere::default()).map(|_whatever_it_held| ());
            self.block.close();
            decoded?;
        }
        Ok(())
    }

    /// Reads the head of the request that was told of last. A head that breaks a rule is the inner error: it may be
    /// answered with 400 on its stream. The outer error ends the connection, as one of [`receive`](Self::receive) does.
    pub fn read_request(&mut self, key: StreamKey, limits: &HeadLimits, head: &mut RequestHead) -> ReadHead<AdmittedRequest> {
        let Stage::Waiting { ends_stream } = self.block.stage else { return Ok(Err(HeadError::PseudoHeader)) };
        let reader = RequestReader { limits, takes_protocol: self.ours.takes_protocol };
        let read = reader.read(&mut self.decoder, &self.block.bytes, ends_stream, head);
        let admitted = match self.close_block(read)? {
            Ok(admitted) => admitted,
            Err(fault) => return Ok(Err(fault)),
        };
        if let Some(stream) = self.streams.lookup_mut(key) {
            if let (Receiving::Body { left }, BodyFraming::Length(length)) = (&mut stream.receiving, admitted.framing) {
                *left = Some(length);
            }
            if let Some(value) = head.fields.get(HeaderId::Priority) {
                stream.priority = Priority::parse(value);
            }
        }
        Ok(Ok(admitted))
    }

    /// Reads the head of the answer that was told of last. Interim heads (1xx) are followed by another.
    /// `is_bodiless`: the request was a HEAD, so that a declared length is of nothing that comes. Errors are those of
    /// [`read_request`](Self::read_request); an inner one is the upstream's fault.
    pub fn read_response(
        &mut self,
        key: StreamKey,
        limits: &HeadLimits,
        is_bodiless: bool,
        head: &mut ResponseHead,
    ) -> ReadHead<()> {
        let Stage::Waiting { ends_stream } = self.block.stage else { return Ok(Err(HeadError::PseudoHeader)) };
        let read = ResponseReader { limits }.read(&mut self.decoder, &self.block.bytes, head);
        if let Err(fault) = self.close_block(read)? {
            return Ok(Err(fault));
        }
        let is_interim = (100..200).contains(&head.status);
        // RFC 9110 sections 15.3.5 and 15.4.5.
        let has_length = !is_interim && !is_bodiless && !matches!(head.status, 204 | 304);
        let declared = match head.fields.has(HeaderId::ContentLength).then(|| content_length(&head.fields)) {
            Some(Err(fault)) => return Ok(Err(fault)),
            Some(Ok(length)) => Some(length).filter(|_| has_length),
            None => None,
        };
        let Some(stream) = self.streams.lookup_mut(key) else { return Ok(Ok(())) };
        stream.receiving = match (is_interim, ends_stream) {
            // RFC 9113 section 8.1: a final head follows.
            (true, true) => return Ok(Err(HeadError::BadStatus)),
            (true, false) => Receiving::Head,
            // RFC 9113 section 8.1.1.
            (false, true) if declared.is_some_and(|length| length > 0) => return Ok(Err(HeadError::BadContentLength)),
            (false, true) => Receiving::Ended,
            (false, false) => Receiving::Body { left: declared },
        };
        Ok(Ok(()))
    }

    /// Reads the trailers that were told of last. Errors are those of [`read_request`](Self::read_request).
    pub fn read_trailers(&mut self, limits: &HeadLimits, trailers: &mut Fields) -> ReadHead<()> {
        let read = TrailersReader { limits }.read(&mut self.decoder, &self.block.bytes, trailers);
        self.close_block(read)
    }

    fn close_block<A>(&mut self, read: Result<Result<A, HeadError>, CompressionError>) -> ReadHead<A> {
        self.block.close();
        read.map_err(|error| {
            let why = ConnectionEnd::Compression(error);
            self.end(why);
            why
        })
    }

    /// Ends a stream whose message broke a rule, once an answer was given or none can be. What that costs us counts
    /// against a client (CVE-2025-8671).
    pub fn reset_for_fault(&mut self, key: StreamKey, now: Instant) -> Result<(), ConnectionEnd> {
        self.count_fault(now)?;
        self.reset_malformed(key);
        Ok(())
    }

    /// Ends a stream whose trailers broke a rule, see [`end_malformed`](Self::end_malformed).
    pub fn end_for_trailers(&mut self, key: StreamKey, fault: HeadError, now: Instant) -> Result<bool, ConnectionEnd> {
        self.end_malformed(key, is_malformed(fault), now)
    }

    /// Ends a stream whose message broke a rule behind its head. Whether its owner may say so first, since it has
    /// answered nothing: then the reset goes out behind that, when the stream is released, where the rule is one of
    /// HTTP/2 (`is_of_http2`).
    pub(super) fn end_malformed(&mut self, key: StreamKey, is_of_http2: bool, now: Instant) -> Result<bool, ConnectionEnd> {
        let is_unanswered = self.streams.lookup(key).is_some_and(|stream| stream.sending == Sending::Head);
        if self.role == Role::Client || !is_unanswered {
            self.reset_for_fault(key, now)?;
            return Ok(false);
        }
        if is_of_http2 {
            self.count_fault(now)?;
            if let Some(stream) = self.streams.lookup_mut(key) {
                stream.is_malformed = true;
            }
        }
        Ok(true)
    }

    fn count_fault(&mut self, now: Instant) -> Result<(), ConnectionEnd> {
        if self.role == Role::Server
            && let Err(flood) = self.floods.count_provoked_reset(now)
        {
            self.end(flood.into());
            return Err(flood.into());
        }
        Ok(())
    }
}

/// Takes fields that nobody wants.
#[derive(Default)]
struct Nowhere(Vec<u8>);

impl FieldSink for Nowhere {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    fn room(&self) -> usize {
        0
    }

    fn field(&mut self, _: FieldName, _: Span, _: Span, _: bool) {}
}
