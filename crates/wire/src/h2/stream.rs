//! Streams of one connection (RFC 9113 section 5.1): the state of each, where they are found by their ids, and which of
//! those that are gone may still be spoken of.

use crate::h2::priority::Priority;
use crate::h2::window::{ReceiveWindow, SendWindow};
use std::collections::VecDeque;

/// A stream, as long as its owner has not released it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey {
    pub(super) slot: u32,
    pub(super) id: u32,
}

impl StreamKey {
    /// The id on the wire.
    pub fn id(self) -> u32 {
        self.id
    }
}

/// What may still come from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiving {
    /// No final head has come.
    Head,
    /// The head has come; `left` is what a declared length still promises.
    Body { left: Option<u64> },
    /// The peer has said all.
    Ended,
    /// The stream was reset. What was on its way when we did it is read past; a peer that did it has nothing on its
    /// way.
    Reset { by_peer: bool },
}

/// What we may still send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// No final head was sent.
    Head,
    Body,
    Ended,
    Reset,
}

/// One stream. `T` is what its owner keeps with it.
#[derive(Debug)]
pub struct Stream<T> {
    pub id: u32,
    pub receiving: Receiving,
    pub sending: Sending,
    pub send_window: SendWindow,
    pub receive_window: ReceiveWindow,
    pub priority: Priority,
    /// Whether the owner of the stream has more of the body.
    pub has_more: bool,
    /// The peer's message broke a rule behind its head: the stream ends with an error, behind the answer that says so.
    pub is_malformed: bool,
    pub user: T,
}

impl<T> Stream<T> {
    pub(super) fn is_over(&self) -> bool {
        let received = matches!(self.receiving, Receiving::Ended | Receiving::Reset { .. });
        received && matches!(self.sending, Sending::Ended | Sending::Reset)
    }

    pub(super) fn mark_reset(&mut self, by_peer: bool) {
        // What has come whole stays whole: a server may reset a request whose answer is complete (RFC 9113 section
        // 8.1).
        if self.receiving != Receiving::Ended {
            self.receiving = Receiving::Reset { by_peer };
        }
        self.sending = Sending::Reset;
        self.has_more = false;
    }
}

/// The streams that have an owner.
#[derive(Debug)]
pub struct Streams<T> {
    slots: Vec<Option<Stream<T>>>,
    free: Vec<u32>,
    /// By id, ascending: new streams come last.
    places: Vec<StreamKey>,
    /// Streams that we reset: the peer may have sent more before it knew. The oldest is forgotten first.
    reset: VecDeque<u32>,
}

/// As many as a client may have opened before it knows of the first reset, and some more.
const RESET_MAX: usize = 512;

impl<T> Default for Streams<T> {
    fn default() -> Streams<T> {
        Streams { slots: Vec::new(), free: Vec::new(), places: Vec::new(), reset: VecDeque::new() }
    }
}

impl<T> Streams<T> {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Takes a stream in; its id is above all others'.
    pub fn insert(&mut self, stream: Stream<T>) -> StreamKey {
        let id = stream.id;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(stream);
                slot
            }
            None => {
                // By a quarter: doubled, the room of many streams would be nobody's.
                if self.slots.len() == self.slots.capacity() {
                    self.slots.reserve_exact((self.slots.len() / 4).max(4));
                }
                self.slots.push(Some(stream));
                self.slots.len() as u32 - 1
            }
        };
        let key = StreamKey { slot, id };
        self.places.push(key);
        key
    }

    #[inline]
    pub fn lookup(&self, key: StreamKey) -> Option<&Stream<T>> {
        self.slots.get(key.slot as usize)?.as_ref().filter(|stream| stream.id == key.id)
    }

    #[inline]
    pub fn lookup_mut(&mut self, key: StreamKey) -> Option<&mut Stream<T>> {
        self.slots.get_mut(key.slot as usize)?.as_mut().filter(|stream| stream.id == key.id)
    }

    #[inline]
    pub fn find(&self, id: u32) -> Option<StreamKey> {
        // The newest are asked for most.
        match self.places.last() {
            Some(last) if last.id == id => return Some(*last),
            Some(_) | None => {}
        }
        let place = self.places.binary_search_by_key(&id, |key| key.id).ok()?;
        self.places.get(place).copied()
    }

    pub fn remove(&mut self, key: StreamKey) -> Option<T> {
        let stream = self.slots.get_mut(key.slot as usize)?.take_if(|stream| stream.id == key.id)?;
        if let Ok(place) = self.places.binary_search_by_key(&key.id, |key| key.id) {
            self.places.remove(place);
        }
        self.free.push(key.slot);
        if self.places.is_empty() {
            self.give_back();
        }
        Some(stream.user)
    }

    /// An idle connection keeps a few slots only.
    fn give_back(&mut self) {
        const KEPT: usize = 4;
        if self.slots.len() > KEPT {
            (self.slots, self.free, self.places) = (Vec::new(), Vec::new(), Vec::new());
        }
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = StreamKey> + '_ {
        self.places.iter().copied()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream<T>> {
        self.slots.iter_mut().flatten()
    }

    pub(super) fn note_reset(&mut self, id: u32) {
        if self.reset.len() == RESET_MAX {
            self.reset.pop_front();
        }
        self.reset.push_back(id);
    }

    pub(super) fn was_reset(&self, id: u32) -> bool {
        self.reset.contains(&id)
    }
}
