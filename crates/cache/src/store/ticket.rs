//! What the one request holds that fetches for all: first a ticket, and once the head is known and may be stored, a
//! writer for the body. Dropping either at any time is safe, and means that the fetch failed.

use super::counters::count;
use super::flight::{Flight, Opening};
use super::object::{CHUNK_BYTES_MAX, OBJECT_OVERHEAD_BYTES, Object, compacted};
use super::reader::Reader;
use super::{Inner, Store};
use crate::key::Key;
use crate::message::{Field, Now, ResponseHead};
use crate::policy::serving::{Staleness, Verdict, judge, on_error};
use crate::policy::storing::{Exchange, Storable, WhyNot, for_one, storable};
use crate::policy::{RequestDirectives, revalidation};
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Bytes that are held of a body which is not stored, for those who read it along at different speeds.
const PASSING_BYTES_MAX: u64 = 1 << 20;

/// The right, and the duty, to fetch.
pub struct FetchTicket {
    store: Store,
    flight: Arc<Flight>,
    /// The stored answer to ask about; from the store, or from disk.
    stale: Option<Arc<Object>>,
    is_used: bool,
}

/// What to do with the answer whose head was given.
pub enum Begun {
    /// Give the body to the writer as fast as it comes. The client of the request that asks reads it along like all the
    /// others ([`Writer::reader`]), so that one that is slow holds nobody up.
    Storing(Writer),
    /// The stored answer holds: serve this. `false` if it is not kept for others.
    Validated(Arc<Object>, bool),
    /// The 304 is not about what is stored: ask again, without condition.
    AskAgain(FetchTicket),
    /// Serve it, as if there were no cache.
    NotStored(WhyNot),
}

/// What has become of an object that was found on disk.
pub enum Adopted {
    Serve(Arc<Object>),
    /// What was kept is stale, or another variant: fetch, with the condition that the ticket gives now.
    Fetch(FetchTicket),
}

impl FetchTicket {
    pub(super) fn new(store: Store, flight: Arc<Flight>) -> FetchTicket {
        let stale = flight.stale.clone();
        FetchTicket { store, flight, stale, is_used: false }
    }

    pub(super) fn flight(&self) -> &Arc<Flight> {
        &self.flight
    }

    pub fn key(&self) -> &Key {
        &self.flight.key
    }

    /// The answer that is asked about, if there is one.
    pub fn stale(&self) -> Option<&Arc<Object>> {
        self.stale.as_ref()
    }

    /// The fields to send in place of `revalidation::REPLACED_FIELDS` of the client.
    pub fn condition(&self) -> impl Iterator<Item = Field<'_>> {
        self.stale.iter().flat_map(|stale| revalidation::condition(&stale.head))
    }

    /// The head of the answer. `exchange.request` is the client's request.
    pub fn begin(mut self, exchange: Exchange<'_>) -> Begun {
        match self.stale.clone() {
            Some(stale) if exchange.response.status == 304 => self.validated(&stale, exchange),
            Some(_) | None => match self.admissible(exchange) {
                Ok(storable) => self.open(storable),
                Err(why) => {
                    self.give_up(exchange, why);
                    Begun::NotStored(why)
                }
            },
        }
    }

    /// The stored answer in place of an error of the upstream (RFC 5861 section 4), for this request and all who wait.
    /// To be asked when there is no answer, or one of 500, 502, 503 and 504.
    pub fn serve_stale(&mut self, now: Now) -> Option<(Arc<Object>, Staleness)> {
        let stale = self.stale.clone()?;
        let staleness = on_error(&stale.terms, stale.stale_since(), now)?;
        self.is_used = true;
        self.store.inner.remove_flight(&self.flight);
        self.flight.settle(stale.clone());
        count(&self.store.inner.accounts.counters.stale_hits);
        Some((stale, staleness))
    }

    /// Takes an object from the disk in, unless the ticket has a newer one to ask about. `request` is the client's.
    pub fn adopt(mut self, object: Object, request: &[Field<'_>], now: Now) -> Adopted {
        let object = Arc::new(object);
        let received = |object: &Arc<Object>| object.terms.received_seconds;
        let is_older = self.stale.as_ref().is_some_and(|stale| received(stale) >= received(&object));
        if is_older || object.key != self.flight.key || !object.fits(request) {
            return Adopted::Fetch(self);
        }
        let directives = RequestDirectives::read(request, self.store.rules.obeys_request_directives);
        let is_fresh = matches!(judge(directives, &object.terms, object.stale_since(), now), Verdict::Fresh { .. });
        if !is_fresh || !self.store.inner.insert(&object, &self.flight) {
            self.stale = Some(object);
            return Adopted::Fetch(self);
        }
        self.is_used = true;
        self.flight.settle(object.clone());
        Adopted::Serve(object)
    }

    fn admissible(&self, exchange: Exchange<'_>) -> Result<Storable, WhyNot> {
        let storable = storable(&self.store.rules, exchange)?;
        let head_bytes = storable.head.bytes() as u64 + OBJECT_OVERHEAD_BYTES;
        let bytes = storable.content_length.unwrap_or(0).saturating_add(head_bytes);
        let fits = bytes <= self.store.inner.accounts.object_bytes_max() && self.store.inner.accounts.can_ever_store(bytes);
        if fits { Ok(storable) } else { Err(WhyNot::TooLarge) }
    }

    fn open(&mut self, storable: Storable) -> Begun {
        self.is_used = true;
        let Storable { head, terms, vary, secondary, content_length, .. } = storable.clone();
        let is_shared = !terms.is_never_fresh();
        if !is_shared {
            // Nobody may be given it without asking the upstream first, so waiting for it is no use.
            self.store.inner.set_uncacheable(&self.flight.key, terms.received_seconds);
            self.store.inner.remove_flight(&self.flight);
        }
        self.flight.open(Arc::new(Opening { head, terms, vary, secondary, content_length }), is_shared);
        let (inner, flight) = (self.store.inner.clone(), self.flight.clone());
        Begun::Storing(Writer { inner, flight, storable: Some(storable), body_bytes: 0, state: WriterState::Storing })
    }

    fn validated(mut self, stale: &Arc<Object>, exchange: Exchange<'_>) -> Begun {
        if !revalidation::is_about(&stale.head, exchange.response) {
            self.stale = None;
            return Begun::AskAgain(self);
        }
        let fields = revalidation::updated(&stale.head, exchange.response);
        let response = ResponseHead { status: stale.head.status, fields: &fields };
        let updated = Exchange { response, ..exchange };
        self.is_used = true;
        match storable(&self.store.rules, updated) {
            Ok(storable) => {
                let is_shared = !storable.terms.is_never_fresh();
                let object = Arc::new(Object::new(stale.key.clone(), storable, stale.body.clone()));
                let is_stored = self.store.inner.insert(&object, &self.flight);
                if is_shared {
                    self.flight.settle(object.clone());
                } else {
                    self.flight.release();
                }
                Begun::Validated(object, is_stored)
            }
            Err(why) => {
                // The client is still to be given what was validated for it, with what the 304 says to it alone, such
                // as a cookie.
                let object = for_one(&self.store.rules, updated).map(|(head, terms)| {
                    let (vary, secondary) = (stale.vary.clone(), stale.secondary.clone());
                    let storable = Storable { head, terms, vary, secondary, tags: Box::default(), content_length: None };
                    Arc::new(Object::new(stale.key.clone(), storable, stale.body.clone()))
                });
                self.give_up(exchange, why);
                Begun::Validated(object.unwrap_or_else(|| stale.clone()), false)
            }
        }
    }

    /// Sends those who wait on their own, and keeps others from waiting for the same.
    fn give_up(&mut self, exchange: Exchange<'_>, why: WhyNot) {
        self.is_used = true;
        let is_error = exchange.response.status >= 500;
        let is_about_url = match why {
            // It says something about this request only. A client must not be able to empty the cache by asking so.
            WhyNot::RequestNoStore | WhyNot::Method | WhyNot::Authorization | WhyNot::Purged => false,
            // Each new client is given its cookie; what is stored has none.
            WhyNot::SetCookie => self.stale.is_none(),
            WhyNot::Status
            | WhyNot::NoStore
            | WhyNot::Private
            | WhyNot::Vary
            | WhyNot::Encoding
            | WhyNot::Tags
            | WhyNot::NoFreshness
            | WhyNot::Malformed
            | WhyNot::TooLarge => !is_error,
        };
        // What is stored is outdated by an answer of another kind; an error leaves it for `stale-if-error`.
        if is_about_url {
            self.store.inner.set_uncacheable(&self.flight.key, exchange.received.seconds);
            if let Some(stale) = self.stale.take() {
                self.store.inner.remove_object(&stale);
            }
        }
        self.store.inner.remove_flight(&self.flight);
        self.flight.release();
    }
}

impl Drop for FetchTicket {
    fn drop(&mut self) {
        if !self.is_used && self.flight.fail() {
            self.store.inner.remove_flight(&self.flight);
        }
    }
}

/// Takes the body in, for the store and for those who read along.
pub struct Writer {
    inner: Arc<Inner>,
    flight: Arc<Flight>,
    storable: Option<Storable>,
    body_bytes: u64,
    state: WriterState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriterState {
    Storing,
    /// Too large: only those who read along get it.
    Passing,
    Finished,
}

impl Writer {
    /// One piece of the body, copied so that a small piece does not keep a large read buffer. Says whether the body is
    /// still going to be stored. When it turns out too large, those who read along go on: each piece is kept until all
    /// have read it, up to a megabyte more than an object may have, and who falls behind further is cut off.
    /// [`Writer::poll_room`] tells when to wait for them instead.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        self.body_bytes += piece.len() as u64;
        for part in piece.chunks(CHUNK_BYTES_MAX) {
            let chunk = Bytes::copy_from_slice(part);
            let bytes_max = self.body_bytes_max();
            if self.state == WriterState::Storing && !self.flight.keep(&chunk, bytes_max) {
                self.give_up();
            }
            if self.state == WriterState::Passing {
                // What was kept until it turned out too large may still have to be read.
                self.flight.pass(&chunk, bytes_max + PASSING_BYTES_MAX);
            }
        }
        self.state == WriterState::Storing
    }

    /// Pending while the slowest of those who read along a body that is not stored is so far behind that it may soon be
    /// cut off. A caller waits as long as it likes, its own client being held up, and then pushes all the same.
    pub fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.flight.poll_room(PASSING_BYTES_MAX / 4, context)
    }

    /// The end of the body. The object, if it was stored.
    pub fn finish(mut self) -> Result<Arc<Object>, WhyNot> {
        let Some(storable) = self.storable.take() else { return Err(WhyNot::TooLarge) };
        let is_whole = storable.content_length.is_none_or(|length| length == self.body_bytes);
        if !is_whole {
            return Err(WhyNot::Malformed);
        }
        let is_storing = self.state == WriterState::Storing;
        self.state = WriterState::Finished;
        if !is_storing {
            self.flight.end(true);
            return Err(WhyNot::TooLarge);
        }
        let body = compacted(self.flight.chunks().iter());
        let object = Arc::new(Object::new(self.flight.key.clone(), storable, body));
        let is_stored = self.inner.insert(&object, &self.flight);
        self.flight.end(true);
        if is_stored { Ok(object) } else { Err(WhyNot::Purged) }
    }

    /// A reader of all of it. To be asked for before the first piece is given; `None` when it is too late.
    pub fn reader(&self) -> Option<Reader> {
        let (opening, place) = self.flight.read_from_start()?;
        Some(Reader::new(self.flight.clone(), opening, place))
    }

    /// Whether somebody reads it along.
    pub fn has_readers(&self) -> bool {
        self.flight.has_readers()
    }

    /// Requests that come from now on ask for themselves; those that read along go on.
    pub fn part_company(&self) {
        self.inner.remove_flight(&self.flight);
    }

    /// Whether somebody still wants what is fetched: it is being stored, or read along.
    pub fn is_wanted(&self) -> bool {
        self.state == WriterState::Storing || self.flight.has_readers()
    }

    fn body_bytes_max(&self) -> u64 {
        let head_bytes = self.storable.as_ref().map_or(0, |storable| storable.head.bytes() as u64) + OBJECT_OVERHEAD_BYTES;
        self.inner.accounts.object_bytes_max().saturating_sub(head_bytes)
    }

    fn give_up(&mut self) {
        self.state = WriterState::Passing;
        if let Some(storable) = &self.storable {
            self.inner.set_uncacheable(&self.flight.key, storable.terms.received_seconds);
        }
        self.inner.remove_flight(&self.flight);
        self.flight.begin_passing();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.state != WriterState::Finished {
            self.inner.remove_flight(&self.flight);
            self.flight.end(false);
        }
    }
}
