//! What a connection keeps with each stream: what came and was not read, what is to go out and has not gone, and who
//! waits for either. Who reads and writes it are the connection (`shared`) and the request (`stream`).

use super::held::{Held, HeldAccount};
use super::spare;
use std::task::Waker;
use tidegate_transport::Buf;
use tidegate_transport::buffer;
use tidegate_wire::h2::StreamKey;
use tidegate_wire::h2::connection::Connection;
use tidegate_wire::h2::frame::{ErrorCode, FRAME_PAYLOAD_MAX};
use tidegate_wire::head::{Fields, ResponseHead};
use tidegate_wire::{BodyError, HeadError};

/// Why nothing more comes on a stream, or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFault {
    Reset {
        code: ErrorCode,
        by_peer: bool,
    },
    /// A head of the peer's, or its trailers, broke a rule.
    Malformed(HeadError),
    /// The body of its message broke a rule, or where its trailers stand.
    BadBody(BodyError),
    /// The server has left and says that it has not looked at the request.
    Unprocessed,
    /// The connection ended under it.
    Lost,
    /// The peer broke a rule of the connection, which ended for it.
    Broken,
    /// What was to end it is larger than the peer takes; it was reset in its place.
    TooLarge,
}

/// Interim heads that wait behind one that nobody has read.
const UNREAD_HEADS_MAX: usize = 16;

/// What a stream takes without its head and its body: the state of its request, and a connection to a server.
const STREAM_BYTES: u32 = 12 << 10;

/// What a connection keeps with each stream.
#[derive(Default)]
pub struct Slot {
    /// Boxed, as every stream that waits has room for it.
    pub(super) arrived: Option<Box<Arrived>>,
    /// A head of the answer that nobody has read. Most answers have one.
    pub(super) head: Option<Box<ResponseHead>>,
    /// The answer to a HEAD.
    pub(super) is_bodiless: bool,
    /// Nothing more is read.
    pub(super) fault: Option<StreamFault>,
    /// The fault is that of trailers which broke a rule, and the answer may go out all the same.
    is_answerable: bool,
    /// Boxed, as it is there only while the peer's window or the connection is full.
    pub(super) outgoing: Option<Box<Outgoing>>,
    /// Whoever waits for a part of the body.
    pub(super) reader: Option<Waker>,
    /// Whoever waits until what it wrote is out, or until the stream is reset.
    pub(super) writer: Option<Waker>,
    pub(super) handles: u32,
    /// What the head takes of the request that came on it.
    request_head_bytes: u32,
    /// What its connection's account has of it.
    counted: Held,
    /// What was added to its window.
    pub(super) widened_bytes: u32,
}

/// What came of a message behind its first head, and was not read.
#[derive(Default)]
pub(super) struct Arrived {
    /// Of the body; no more than the stream's window.
    pub(super) body: Vec<u8>,
    pub(super) trailers: Option<Box<Fields>>,
    /// Heads behind one that nobody has read, where there were interim ones.
    #[expect(clippy::vec_box, reason = "they are lent as boxes")]
    more_heads: Vec<Box<ResponseHead>>,
}

impl Slot {
    /// A stream of ours, whose answer has no body if its request is a HEAD.
    pub(super) fn of_request(is_bodiless: bool) -> Slot {
        let mut slot = Slot::default();
        slot.is_bodiless = is_bodiless;
        slot
    }

    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let body = &mut self.arrived.get_or_insert_default().body;
            if body.capacity() == 0 {
                *body = spare::take();
            }
            body.extend_from_slice(bytes);
        }
        self.wake_reader();
    }

    pub(super) fn take_head(&mut self, head: Result<Box<ResponseHead>, HeadError>) {
        match head {
            Ok(head) if self.head.is_none() => self.head = Some(head),
            Ok(head) => {
                let more_heads = &mut self.arrived.get_or_insert_default().more_heads;
                if more_heads.len() < UNREAD_HEADS_MAX {
                    more_heads.push(head);
                } else {
                    self.fail(StreamFault::Malformed(HeadError::TooManyFields));
                }
            }
            Err(error) => self.fail(StreamFault::Malformed(error)),
        }
        self.wake_reader();
    }

    /// The next head that nobody has read.
    pub(super) fn next_head(&mut self) -> Option<Box<ResponseHead>> {
        let head = self.head.take()?;
        let more_heads = self.arrived.as_mut().map(|arrived| &mut arrived.more_heads);
        self.head = more_heads.filter(|heads| !heads.is_empty()).map(|heads| heads.remove(0));
        Some(head)
    }

    /// Trailers that break a rule end the message for who reads it; who writes may go on, where it is answerable.
    pub(super) fn take_trailers(&mut self, trailers: Result<Box<Fields>, HeadError>, is_answerable: bool) {
        match trailers {
            Ok(trailers) => self.arrived.get_or_insert_default().trailers = Some(trailers),
            Err(error) => self.end_malformed(StreamFault::Malformed(error), is_answerable),
        }
        self.wake_reader();
    }

    /// Ends the message for who reads it; who writes may go on, where it is answerable.
    pub(super) fn end_malformed(&mut self, fault: StreamFault, is_answerable: bool) {
        match self.fault {
            None if is_answerable => {
                self.fault = Some(fault);
                self.is_answerable = true;
                self.wake_reader();
            }
            Some(_) if is_answerable => {}
            None | Some(_) => self.fail(fault),
        }
    }

    pub(super) fn fail(&mut self, fault: StreamFault) {
        self.fault.get_or_insert(fault);
        self.is_answerable = false;
        self.outgoing = None;
        self.wake_reader();
        self.wake_writer();
    }

    /// Why nothing goes any more, and no head comes.
    pub(super) fn end(&self) -> Option<StreamFault> {
        self.fault.filter(|_| !self.is_answerable)
    }

    /// The head that was read of it is kept as long as it is.
    pub(super) fn keep_head(&mut self, head: &Fields) {
        self.request_head_bytes = u32_of(head.held_bytes());
    }

    /// Brings the account of its connection up to date.
    #[inline]
    pub(super) fn settle(&mut self, account: &mut HeldAccount) {
        let other_bytes = STREAM_BYTES + self.body_bytes();
        let held = Held { head_bytes: self.request_head_bytes.saturating_add(self.arrived_bytes()), other_bytes };
        account.change(std::mem::replace(&mut self.counted, held), held);
    }

    /// Takes the stream, which is over, out of the account.
    pub(super) fn leave(&self, account: &mut HeldAccount) {
        account.change(self.counted, Held::default());
    }

    /// Heads and trailers that nobody has read.
    #[inline]
    fn arrived_bytes(&self) -> u32 {
        let of_head = self.head.as_ref().map_or(0, |head| head.fields.held_bytes());
        let Some(arrived) = &self.arrived else { return u32_of(of_head) };
        let of_more: usize = arrived.more_heads.iter().map(|head| head.fields.held_bytes()).sum();
        u32_of(of_head + of_more + arrived.trailers.as_ref().map_or(0, |trailers| trailers.held_bytes()))
    }

    #[inline]
    fn body_bytes(&self) -> u32 {
        u32_of(self.unread_bytes() + self.outgoing.as_ref().map_or(0, |outgoing| outgoing.held_bytes()))
    }

    /// Bytes of the body that came and were not read.
    #[inline]
    pub(super) fn unread_bytes(&self) -> usize {
        self.arrived.as_ref().map_or(0, |arrived| arrived.body.len())
    }

    pub(super) fn take_arrived_trailers(&mut self) -> Option<Box<Fields>> {
        self.arrived.as_mut()?.trailers.take()
    }

    pub(super) fn has_trailers(&self) -> bool {
        self.arrived.as_ref().is_some_and(|arrived| arrived.trailers.is_some())
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    pub(super) fn wake_writer(&mut self) -> bool {
        let waker = self.writer.take();
        let is_waiting = waker.is_some();
        if let Some(waker) = waker {
            waker.wake();
        }
        is_waiting
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(arrived) = &mut self.arrived {
            spare::give_back(std::mem::take(&mut arrived.body));
        }
        while let Some(head) = self.next_head() {
            spare::give_back_head(head);
        }
    }
}

/// A piece of a body that has not gone out.
pub struct Outgoing {
    piece: Piece,
    /// The stream ends with it.
    finished: bool,
}

enum Piece {
    Leased(Buf),
    /// A copy of its size: what waits for the peer's window must not pin a buffer many times its size.
    Kept {
        bytes: Vec<u8>,
        at: usize,
    },
}

impl Outgoing {
    pub(super) fn new(piece: Buf, finished: bool) -> Outgoing {
        Outgoing { piece: Piece::Leased(piece), finished }
    }

    fn bytes(&self) -> &[u8] {
        match &self.piece {
            Piece::Leased(piece) => piece,
            Piece::Kept { bytes, at } => bytes.get(*at..).unwrap_or_default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// What it takes of memory.
    fn held_bytes(&self) -> usize {
        match &self.piece {
            Piece::Leased(_) => buffer::TOTAL,
            Piece::Kept { bytes, .. } => bytes.len(),
        }
    }

    pub(super) fn keep(&mut self) {
        if let Piece::Leased(piece) = &self.piece {
            self.piece = Piece::Kept { bytes: piece.to_vec(), at: 0 };
        }
    }

    /// Writes a frame of at most that many bytes; whether nothing is left.
    pub(super) fn send(&mut self, connection: &mut Connection<Slot>, key: StreamKey, bytes_max: usize) -> bool {
        let bytes = self.bytes();
        let count = bytes.len().min(bytes_max).min(FRAME_PAYLOAD_MAX);
        let is_whole = count == bytes.len();
        let (frame, _) = bytes.split_at(count);
        connection.send_data(key, frame, is_whole && self.finished, !is_whole);
        match &mut self.piece {
            Piece::Leased(piece) => piece.advance(count),
            Piece::Kept { at, .. } => *at += count,
        }
        is_whole
    }
}

/// No stream holds as much as does not fit.
fn u32_of(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
