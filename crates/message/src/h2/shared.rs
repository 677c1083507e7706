//! One connection as its driver and its requests share it: the state of the protocol, and for each stream what has come
//! of a body and was not read, what is to go out and has not gone, and who waits for either.

use super::held::HeldAccount;
use super::slot::{Outgoing, Slot, StreamFault};
use super::spare;
use super::stream::StreamHandle;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Waker;
use std::time::Instant;
use tidegate_transport::buffer::CAPACITY;
use tidegate_wire::h2::StreamKey;
use tidegate_wire::h2::connection::{Connection, Event, Role};
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::{ErrorCode, FRAME_HEAD_BYTES};
use tidegate_wire::h2::heads::{AdmittedRequest, RequestForm, fields_fit, request_fits};
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::head::{Fields, Method, RequestHead};
use tidegate_wire::{HeadError, HeadLimits};

/// Frames that gather before bodies wait and nothing more is read; heads and control frames may pass it.
pub const OUTPUT_BYTES_MAX: usize = CAPACITY;

/// A DATA frame that is smaller, and not the end of its piece, waits for the next output.
const LEAST_FRAME_BYTES: usize = 1024;

/// How much larger the windows of all streams of a connection together may be made than they are at first.
pub const WIDENING_BYTES_MAX: u32 = 1 << 20;

/// A connection of HTTP/2 as its driver and its requests share it.
pub struct H2Shared {
    pub(super) state: RefCell<State>,
}

pub(super) struct State {
    pub(super) connection: Connection<Slot>,
    limits: HeadLimits,
    /// What a stream's window is made when somebody reads its body.
    window_bytes: u32,
    pub(super) initial_window_bytes: u32,
    /// What may still be added to windows.
    pub(super) widening_left: u32,
    pub(super) held: HeldAccount,
    /// When something came last.
    heard_at: Instant,
    driver: Driver,
}

/// Who sends what requests have written.
enum Driver {
    /// Woken when there is something to send.
    Waiting(Option<Waker>),
    /// Sends before it waits, whatever is written meanwhile.
    Running,
}

/// The head of a request to a server, and what goes with it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    pub head: &'r RequestHead,
    pub scheme: &'r str,
    /// The answer may have trailers.
    pub wants_trailers: bool,
    /// What an extended CONNECT asks to speak.
    pub protocol: Option<&'r [u8]>,
    /// Nothing follows the head.
    pub ends_stream: bool,
}

/// Why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSent {
    /// The server takes no more streams.
    NoStream,
    /// The server has said that it takes no field list of this size (SETTINGS_MAX_HEADER_LIST_SIZE).
    TooLarge,
}

/// A stream that the peer opened; its head is to be read.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    pub key: StreamKey,
    pub ends_stream: bool,
}

impl H2Shared {
    /// A connection that begins. `window_bytes` is what a stream's window becomes once its body is read.
    pub fn new(role: Role, ours: OurSettings, limits: HeadLimits, window_bytes: u32, now: Instant) -> Rc<H2Shared> {
        let state = State {
            connection: Connection::new(role, ours, now),
            limits,
            window_bytes,
            initial_window_bytes: ours.initial_window_bytes,
            widening_left: WIDENING_BYTES_MAX,
            held: HeldAccount::new(ours.streams_max),
            heard_at: now,
            driver: Driver::Waiting(None),
        };
        Rc::new(H2Shared { state: RefCell::new(state) })
    }

    /// The driver runs from here on, until [`wait`](Self::wait).
    pub fn run(&self) {
        let mut state = self.state.borrow_mut();
        state.lend_output();
        state.driver = Driver::Running;
    }

    /// The driver waits, and is woken when there is something to send.
    pub fn wait(&self, waker: &Waker) {
        let mut state = self.state.borrow_mut();
        state.driver = Driver::Waiting(Some(waker.clone()));
        if state.connection.output.is_empty() {
            spare::give_back(std::mem::take(&mut state.connection.output));
        }
    }

    /// Whether the peer has begun as it should, with its SETTINGS.
    pub fn has_begun(&self) -> bool {
        self.state.borrow().connection.has_begun()
    }

    /// When something came last, whatever it was.
    pub fn heard_at(&self) -> Instant {
        self.state.borrow().heard_at
    }

    /// Whether no stream is left and none will come.
    pub fn is_done(&self) -> bool {
        self.state.borrow().connection.is_done()
    }

    /// When the head that is coming began to come, until it is whole.
    pub fn head_began(&self) -> Option<Instant> {
        self.state.borrow().connection.head_began()
    }

    /// Takes bytes from the front of `input`, up to the next stream that the peer opened; `None` when all were taken.
    pub fn receive(&self, input: &mut &[u8], now: Instant) -> Result<Option<Opened>, ConnectionEnd> {
        let mut state = self.state.borrow_mut();
        state.heard_at = now;
        let State { connection, limits, held, .. } = &mut *state;
        connection.set_full(held.is_full());
        while let Some(event) = connection.receive(input, now)? {
            match event {
                Event::Request { key, ends_stream } => return Ok(Some(Opened { key, ends_stream })),
                Event::Response { key, .. } => {
                    let is_bodiless = connection.user(key).is_some_and(|slot| slot.is_bodiless);
                    let mut head = spare::take_head();
                    let read = connection.read_response(key, limits, is_bodiless, &mut head)?;
                    if let Some(slot) = connection.user(key) {
                        slot.take_head(read.map(|()| head));
                        slot.settle(held);
                    }
                    if read.is_err() {
                        connection.reset_for_fault(key, now)?;
                    }
                }
                // What a client says is about streams that its server opens (RFC 9113 section 6.8), and there are none.
                Event::GoAway { .. } if connection.role() == Role::Server => {}
                Event::GoAway { last_id, .. } => {
                    let unprocessed: Vec<StreamKey> = connection.keys().filter(|key| key.id() > last_id).collect();
                    for key in unprocessed {
                        if let Some(slot) = connection.user(key) {
                            slot.fail(StreamFault::Unprocessed);
                            slot.settle(held);
                        }
                    }
                }
                Event::Pong => {}
                Event::Data { key, bytes, .. } => {
                    if let Some(slot) = connection.user(key) {
                        slot.take_in(bytes);
                        slot.settle(held);
                    }
                }
                Event::Trailers { key } => {
                    let mut trailers = Box::<Fields>::default();
                    let read = connection.read_trailers(limits, &mut trailers)?;
                    let is_answerable = match read {
                        Ok(()) => true,
                        Err(fault) => connection.end_for_trailers(key, fault, now)?,
                    };
                    if let Some(slot) = connection.user(key) {
                        slot.take_trailers(read.map(|()| trailers), is_answerable);
                        slot.settle(held);
                    }
                }
                Event::Malformed { key, fault, is_answerable } => {
                    if let Some(slot) = connection.user(key) {
                        slot.end_malformed(StreamFault::BadBody(fault), is_answerable);
                        slot.settle(held);
                    }
                }
                Event::Reset { key, code, by_peer } => {
                    if let Some(slot) = connection.user(key) {
                        slot.fail(StreamFault::Reset { code, by_peer });
                        slot.settle(held);
                    }
                }
            }
        }
        held.set_unfinished(connection.unfinished_bytes());
        Ok(None)
    }

    /// What its streams take of memory, and a head that has not come whole.
    pub fn held_bytes(&self) -> usize {
        self.state.try_borrow().map_or(0, |state| state.held.bytes())
    }

    /// Reads the head of a stream that was opened, and hands out the stream.
    pub fn read_request(
        self: &Rc<Self>,
        opened: Opened,
        limits: &HeadLimits,
        head: &mut RequestHead,
    ) -> Result<(StreamHandle, Result<AdmittedRequest, HeadError>), ConnectionEnd> {
        let handle = StreamHandle::new(self, opened.key);
        let mut state = self.state.borrow_mut();
        let State { connection, held, .. } = &mut *state;
        let read = connection.read_request(opened.key, limits, head)?;
        if read.is_ok()
            && let Some(slot) = connection.user(opened.key)
        {
            head.fields.trim();
            slot.keep_head(&head.fields);
            slot.settle(held);
        }
        drop(state);
        Ok((handle, read))
    }

    /// Opens a stream to a server with the head of a request.
    pub fn send_request(self: &Rc<Self>, request: &Request<'_>) -> Result<StreamHandle, NotSent> {
        let mut state = self.state.borrow_mut();
        let Request { head, scheme, wants_trailers, protocol, ends_stream } = *request;
        let form = RequestForm { scheme, wants_trailers, protocol };
        if !request_fits(head, form, state.connection.peer().header_list_bytes_max) {
            return Err(NotSent::TooLarge);
        }
        let is_bodiless = head.method == Method::Head;
        let key = state.connection.open(Slot::of_request(is_bodiless)).ok_or(NotSent::NoStream)?;
        state.lend_output();
        let mut scratch = spare::take();
        state.connection.send_request(key, head, form, &mut scratch, ends_stream);
        spare::give_back(scratch);
        state.wake_driver();
        drop(state);
        Ok(StreamHandle::new(self, key))
    }

    /// Streams that the peer lets us have open at the same time.
    pub fn peer_streams_max(&self) -> usize {
        self.state.borrow().connection.peer().streams_max as usize
    }

    /// Whether the peer takes extended CONNECT; not known before its SETTINGS have come.
    pub fn peer_takes_protocol(&self) -> Option<bool> {
        let connection = &self.state.borrow().connection;
        connection.has_begun().then(|| connection.peer().takes_protocol)
    }

    /// The peer says nothing more. Whether it is a client that waits for answers to what it has sent whole; its other
    /// streams are lost.
    pub(super) fn end_input(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let State { connection, held, .. } = &mut *state;
        if connection.role() == Role::Client {
            return false;
        }
        let keys: Vec<StreamKey> = connection.keys().collect();
        let mut is_waiting = false;
        for key in keys {
            let (has_come_whole, is_sending) = (connection.has_come_whole(key), connection.is_sending(key));
            is_waiting |= has_come_whole && is_sending;
            if let Some(slot) = connection.user(key).filter(|_| !has_come_whole) {
                slot.fail(StreamFault::Lost);
                slot.settle(held);
            }
        }
        if is_waiting {
            state.lend_output();
            state.connection.end_input();
            let State { connection, held, .. } = &mut *state;
            held.set_unfinished(connection.unfinished_bytes());
        }
        is_waiting
    }

    /// Whether either side has said that it takes no more streams.
    pub fn is_leaving(&self) -> bool {
        self.state.borrow().connection.is_leaving()
    }

    /// How many of our streams the server has taken that has said that it leaves.
    pub fn taken_before_leaving(&self) -> Option<u32> {
        self.state.borrow().connection.taken_before_leaving()
    }

    /// Asks for a sign of life.
    pub fn ping(&self) {
        let mut state = self.state.borrow_mut();
        state.connection.ping();
        state.wake_driver();
    }

    /// Writes bodies that wait, as the windows and the output have room, in the order of priorities. Whether anybody
    /// has something to do because of it.
    pub fn write_bodies(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let State { connection, held, .. } = &mut *state;
        let mut has_woken = false;
        while connection.has_turns() {
            let room = OUTPUT_BYTES_MAX.saturating_sub(connection.output.len() + FRAME_HEAD_BYTES);
            if room < LEAST_FRAME_BYTES {
                break;
            }
            let Some((key, bytes_max)) = connection.next_to_send() else { break };
            let outgoing = connection.user(key).and_then(|slot| slot.outgoing.take());
            let Some(mut outgoing) = outgoing else {
                connection.send_nothing_more(key);
                continue;
            };
            let is_whole = outgoing.send(connection, key, bytes_max.min(room));
            if let Some(slot) = connection.user(key) {
                if is_whole {
                    has_woken |= slot.wake_writer();
                } else {
                    slot.outgoing = Some(outgoing);
                }
                slot.settle(held);
            }
        }
        has_woken
    }

    /// Streams that were refused for want of memory since this was last asked.
    pub fn take_refused_for_memory(&self) -> u32 {
        self.state.borrow_mut().connection.take_refused_for_memory()
    }

    /// Bytes that wait to be sent.
    pub fn output_bytes(&self) -> usize {
        self.state.borrow().connection.output.len()
    }

    /// What is to be sent, for [`FrameIo`](super::FrameIo).
    pub(super) fn take_output(&self) -> Option<Vec<u8>> {
        let mut state = self.state.borrow_mut();
        if state.connection.output.is_empty() {
            return None;
        }
        Some(state.connection.take_output(spare::take()))
    }

    /// Has no more streams opened; the connection ends with those that are there.
    pub fn shut_down(&self) {
        let mut state = self.state.borrow_mut();
        state.connection.shut_down();
        state.wake_driver();
    }

    /// Says why the connection ends.
    pub fn end(&self, why: ConnectionEnd) {
        self.state.borrow_mut().connection.end(why);
    }

    /// Ends the connection when the peer should have acknowledged our SETTINGS. Whether it should.
    pub fn end_unacknowledged(&self, now: Instant) -> bool {
        let connection = &mut self.state.borrow_mut().connection;
        let is_overdue = connection.is_acknowledgement_overdue(now);
        if is_overdue {
            connection.end_for_settings();
        }
        is_overdue
    }

    /// The connection is gone: whoever waits on a stream of it learns so, and why.
    pub fn lose(&self, fault: StreamFault) {
        let mut state = self.state.borrow_mut();
        let State { connection, held, .. } = &mut *state;
        let keys: Vec<StreamKey> = connection.keys().collect();
        for key in keys {
            if let Some(slot) = connection.user(key) {
                slot.fail(fault);
                slot.settle(held);
            }
        }
    }
}

impl State {
    /// Has what is written go into a vector that others have used before. A connection that waits holds none: its
    /// answers may have been long.
    pub(super) fn lend_output(&mut self) {
        if self.connection.output.capacity() == 0 {
            self.connection.output = spare::take();
        }
    }

    /// Has what was written sent.
    pub(super) fn wake_driver(&mut self) {
        if let Driver::Waiting(waker) = &mut self.driver
            && let Some(waker) = waker.take()
        {
            waker.wake();
        }
    }

    /// Whether a server takes trailers of that size; the stream ends where it does not. Clients that want less of an
    /// answer than it has are sent it: what they have said is advice.
    pub(super) fn takes_trailers(&mut self, key: StreamKey, trailers: &Fields) -> bool {
        let is_of_client = self.connection.role() == Role::Server;
        if is_of_client || fields_fit(trailers, self.connection.peer().header_list_bytes_max) {
            return true;
        }
        self.lend_output();
        self.connection.reset(key, ErrorCode::Cancel);
        let State { connection, held, .. } = &mut *self;
        if let Some(slot) = connection.user(key) {
            slot.fail(StreamFault::TooLarge);
            slot.settle(held);
        }
        self.wake_driver();
        false
    }

    /// Makes the window of a stream larger whose body somebody reads, as far as the connection has something left.
    pub(super) fn widen(&mut self, key: StreamKey) {
        let more = self.window_bytes.saturating_sub(self.initial_window_bytes);
        if more == 0 || more > self.widening_left || !self.connection.is_receiving(key) || self.held.is_short() {
            return;
        }
        let Some(slot) = self.connection.user(key).filter(|slot| slot.widened_bytes == 0) else { return };
        slot.widened_bytes = more;
        self.widening_left -= more;
        self.connection.widen(key, self.window_bytes);
    }

    /// Sends a piece of a body at once, as far as nothing is in its way; what is left waits for its turn.
    pub(super) fn send(&mut self, key: StreamKey, mut outgoing: Outgoing) {
        self.lend_output();
        let State { connection, held, .. } = self;
        loop {
            let room = OUTPUT_BYTES_MAX.saturating_sub(connection.output.len() + FRAME_HEAD_BYTES);
            let bytes_max = connection.sendable(key).min(room);
            let fits = outgoing.len() <= bytes_max;
            if !fits && bytes_max < LEAST_FRAME_BYTES {
                break;
            }
            if outgoing.send(connection, key, bytes_max) {
                return self.wake_driver();
            }
        }
        // The peer lets nothing more out, or byte by byte.
        if connection.open_bytes(key) < LEAST_FRAME_BYTES {
            outgoing.keep();
        }
        if let Some(slot) = connection.user(key) {
            slot.outgoing = Some(Box::new(outgoing));
            slot.settle(held);
        }
        if held.is_short() {
            connection.reset(key, ErrorCode::EnhanceYourCalm);
            if let Some(slot) = connection.user(key) {
                slot.fail(StreamFault::Reset { code: ErrorCode::EnhanceYourCalm, by_peer: false });
                slot.settle(held);
            }
        } else {
            connection.offer(key);
        }
        self.wake_driver();
    }
}
