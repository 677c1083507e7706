//! Reading a body along while another request fetches it. Polled by hand with a `std::task::Context`, so that any
//! executor can drive it, and may be dropped at any time.

use super::flight::{Broken, Flight, Opening};
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Reads a body along while another request fetches it.
pub struct Reader {
    flight: Arc<Flight>,
    opening: Arc<Opening>,
    place: (u64, u64),
    is_over: bool,
}

impl Reader {
    pub(super) fn new(flight: Arc<Flight>, opening: Arc<Opening>, place: (u64, u64)) -> Reader {
        Reader { flight, opening, place, is_over: false }
    }

    /// Head, terms and, if the upstream gave it, the length of the body.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// The next chunk; `None` at the end. After an error the connection to the client has to be broken off, so that it
    /// does not take the part for the whole.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let polled = self.flight.poll_reader(&mut self.place, context);
        self.is_over = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.flight.leave_reading(self.place);
    }
}
