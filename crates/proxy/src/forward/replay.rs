//! What is kept of a request's body while the request may have to be sent again, and what that takes of memory.

use super::collected::Collected;
use crate::listening::{ConnectionFacts, HeldForConnection};
use std::rc::Rc;
use tidegate_exchange::Pooled;
use tidegate_transport::buffer::CAPACITY;

/// What is kept of a body is in no account below this: most bodies are smaller, and have nothing to tell.
const REPLAY_UNTOLD_BYTES: usize = 16 << 10;

/// The beginning of the request's body, kept while the request may have to be sent again.
pub(crate) enum Replay {
    /// Nothing of the body was taken yet, and nothing will be kept: what has arrived must not be sent twice, and no
    /// server would say that it has not looked at it.
    Unkept,
    /// Nothing of the body was taken yet; of so much will be kept.
    Untouched(usize),
    Kept(Box<KeptBody>),
    /// More was taken than is kept.
    Lost,
    /// All of the body, which was collected before it went anywhere.
    Whole(Box<Collected>),
}

impl Replay {
    pub(crate) fn of(may_be_repeated: bool, bytes_max: usize) -> Replay {
        if may_be_repeated { Replay::Untouched(bytes_max) } else { Replay::Unkept }
    }

    /// What was kept behind the piece that is sent with the request's head.
    pub(super) fn kept_rest(&self) -> Option<&[u8]> {
        match self {
            Replay::Kept(kept) => kept.bytes.get(CAPACITY..).filter(|rest| !rest.is_empty()),
            Replay::Unkept | Replay::Untouched(_) | Replay::Lost | Replay::Whole(_) => None,
        }
    }

    /// Whether not all of what is here is sent with the request's head.
    pub(super) fn has_rest(&self) -> bool {
        self.with_rest().is_some() || self.kept_rest().is_some()
    }

    /// A collected body of which not all is sent with the request's head.
    pub(super) fn with_rest(&self) -> Option<&Collected> {
        match self {
            Replay::Whole(body) => Some(&**body).filter(|body| body.has_rest()),
            Replay::Unkept | Replay::Untouched(_) | Replay::Kept(_) | Replay::Lost => None,
        }
    }

    /// A piece is taken from the client.
    pub(super) fn note(&mut self, piece: &[u8], facts: &Rc<ConnectionFacts>) {
        let mut kept = match std::mem::replace(self, Replay::Lost) {
            Replay::Untouched(bytes_max) => Box::new(KeptBody { bytes: Pooled::take(), bytes_max, held: None }),
            Replay::Kept(kept) => kept,
            Replay::Unkept | Replay::Lost | Replay::Whole(_) => return,
        };
        if kept.bytes.len() + piece.len() <= kept.bytes_max {
            kept.add(piece, facts);
            *self = Replay::Kept(kept);
        }
    }

    /// Trailers are not kept.
    pub(super) fn note_trailers(&mut self) {
        *self = Replay::Lost;
    }

    pub(super) fn is_whole(&self) -> bool {
        match self {
            Replay::Unkept | Replay::Untouched(_) | Replay::Kept(_) | Replay::Whole(_) => true,
            Replay::Lost => false,
        }
    }

    /// Nothing of the body went anywhere: what an attempt takes itself is all that there is.
    pub(super) fn is_untouched(&self) -> bool {
        match self {
            Replay::Unkept | Replay::Untouched(_) => true,
            Replay::Kept(_) | Replay::Lost => false,
            Replay::Whole(body) => body.len() == 0,
        }
    }
}

/// What is kept of a body.
pub(crate) struct KeptBody {
    bytes: Pooled<Vec<u8>>,
    bytes_max: usize,
    /// What that takes, once it is much.
    held: Option<HeldForConnection>,
}

impl KeptBody {
    /// What is sent with the request's head.
    pub(super) fn first(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().min(CAPACITY)]
    }

    fn add(&mut self, piece: &[u8], facts: &Rc<ConnectionFacts>) {
        let (before, wanted) = (self.bytes.capacity(), self.bytes.len() + piece.len());
        if wanted > before {
            // By doubling, but to no more than is ever kept.
            let grown = wanted.max(2 * before).min(self.bytes_max);
            if grown > REPLAY_UNTOLD_BYTES {
                self.held.get_or_insert_with(|| HeldForConnection::new(facts, 0)).set(grown);
            }
            let length = self.bytes.len();
            self.bytes.reserve_exact(grown - length);
        }
        self.bytes.extend_from_slice(piece);
    }
}
