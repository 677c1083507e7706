//! Handles of requests that share another one's fetch: waiting for its head, then reading its body along. Both are
//! polled by hand with a `std::task::Context`, so that any executor can drive them, and may be dropped at any time.

use super::Store;
use super::flight::{Broken, Flight, Opening, Standing};
use super::object::Object;
use super::ticket::FetchTicket;
use crate::message::Field;
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A place in the queue of those who wait for a fetch. When `Settings::wait_seconds_max` is over, drop it and forward
/// the request.
pub struct WaitHandle {
    store: Store,
    /// None once it was served: what is being fetched must not be kept by one who has no part in it any more.
    place: Option<(Arc<Flight>, u64)>,
}

pub enum WaitOutcome {
    /// The head is known, and the body comes as it is fetched.
    Read(Reader),
    /// The stored answer was validated, or found on disk.
    Serve(Arc<Object>),
    /// The fetch failed, and this request is the next to try.
    Fetch(FetchTicket),
    /// The fetch was for another variant, or broke off in the body: look up again.
    LookUpAgain,
    /// The answer is not to be shared: forward the request, without storing.
    Alone,
}

impl WaitHandle {
    pub(super) fn new(store: Store, flight: Arc<Flight>, id: u64) -> WaitHandle {
        WaitHandle { store, place: Some((flight, id)) }
    }

    /// `request` are the fields that the lookup was made with. After `Ready`, polling again gives `Alone`.
    pub fn poll(&mut self, request: &[Field<'_>], context: &mut Context<'_>) -> Poll<WaitOutcome> {
        let Some((flight, id)) = self.place.clone() else { return Poll::Ready(WaitOutcome::Alone) };
        let Poll::Ready(standing) = flight.poll_waiter(id, request, context) else { return Poll::Pending };
        self.place = None;
        Poll::Ready(match standing {
            Standing::Leader => WaitOutcome::Fetch(FetchTicket::new(self.store.clone(), flight)),
            Standing::Reader(opening, place) => WaitOutcome::Read(Reader::new(flight, opening, place)),
            Standing::Settled(object) => WaitOutcome::Serve(object),
            Standing::LookUpAgain => WaitOutcome::LookUpAgain,
            Standing::Alone => WaitOutcome::Alone,
        })
    }
}

impl Drop for WaitHandle {
    fn drop(&mut self) {
        if let Some((flight, id)) = self.place.take()
            && flight.leave(id)
        {
            self.store.inner.forget_abandoned(&flight);
        }
    }
}

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
