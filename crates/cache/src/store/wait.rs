//! Waiting for the head of an answer that another request fetches; its body is then read along by a `reader`. Polled by
//! hand with a `std::task::Context`, so that any executor can drive it, and may be dropped at any time.

use super::Store;
use super::flight::{Flight, Standing};
use super::object::Object;
use super::reader::Reader;
use super::ticket::FetchTicket;
use crate::message::Field;
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
