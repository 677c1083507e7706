//! HTTP/2 connections to one server: shared by a worker's requests, opened one at a time, asked for a sign of life when
//! they are silent, and left alone when they end.

use crate::connect::causes::{log_broken_rule, log_broken_tls};
use crate::connect::lifespan::Lifespan;
use crate::connect::vitals::{Verdict, Vitals};
use crate::connect::{Client, Fresh, Owner, serves};
use crate::fault::{Standing, tls_error};
use crate::shared::ServerShared;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_message::h2::{FrameIo, H2Shared, Nobody, StreamFault};
use tidegate_model::{KeepAlive, PoolName};
use tidegate_telemetry::{PoolMetrics, UpstreamError, WorkerMetrics};
use tidegate_transport::rt::{self, Signal, Task};
use tidegate_transport::{ReadLimit, Sock, Stream, memory};
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::{HeadError, HeadLimits};

/// Requests on one connection, below what the server allows: more connections spread over a server's threads.
const STREAMS_MAX: usize = 100;
/// What may be held unread of one answer, where there is memory for it. The connection's window has room for all of
/// them: were it smaller, clients that do not read their answers would use it up and starve everybody else's.
const STREAM_WINDOW_BYTES_MOST: u32 = 256 << 10;
/// At the least, for a full frame.
const STREAM_WINDOW_BYTES_LEAST: u32 = 16 << 10;
/// The part of the memory budget that the answers on one connection may take: 25 MiB, which all windows are at the
/// most, is that of 400 MiB.
const CONNECTION_PART: u64 = 16;

/// The window of a stream on a connection that is opened now.
fn stream_window_bytes(budget_bytes: Option<u64>) -> u32 {
    let of_budget = budget_bytes.map_or(u64::MAX, |bytes| bytes / CONNECTION_PART / STREAMS_MAX as u64);
    let bytes = u32::try_from(of_budget).unwrap_or(u32::MAX);
    bytes.clamp(STREAM_WINDOW_BYTES_LEAST, STREAM_WINDOW_BYTES_MOST)
}

/// A last GOAWAY may take so long.
const GOAWAY_GRACE: Duration = Duration::from_millis(500);

/// All HTTP/2 connections of one server.
#[derive(Default)]
pub struct H2Connections {
    open: RefCell<Vec<Shared>>,
    /// Attempts: one for as many requests as a connection will have room for, or for each client where connections are
    /// not shared by clients.
    opening: RefCell<Vec<OpeningConnection>>,
    /// Streams that the server let a connection have when it was last asked. The next one begins with as many: its
    /// requests are sent before its SETTINGS come, and those above them would be refused.
    streams_known: Cell<Option<usize>>,
    taken: Rc<Taken>,
    /// ALPN has settled on HTTP/1.1 before: nobody waits for a shared connection then.
    speaks_http1: Cell<bool>,
    /// Whether the server offers extended CONNECT, as its last SETTINGS have said that were asked for it.
    takes_protocol: Cell<Option<bool>>,
}

/// After how many requests the server has left a connection whose others it had not looked at, where it has done so.
/// The next connection gets no more of them at once: requests that go down together with each connection would be sent
/// again and again. Beyond that number it has one at a time, and one more for each that is answered.
#[derive(Default)]
struct Taken(Cell<Option<NonZeroU32>>);

impl Taken {
    /// The server took so many of a connection's requests, and left the others.
    fn left_after(&self, requests: u32) {
        self.0.set(NonZeroU32::new(requests.max(1)));
    }

    /// How many requests may be on a connection on which so many are over.
    #[inline]
    fn room(&self, over: u32) -> usize {
        let Some(known) = self.0.get() else { return STREAMS_MAX };
        if over >= STREAMS_MAX as u32 + known.get() {
            // A connection that lasts for longer than the last one has: nothing is known of the server any more.
            self.0.set(None);
        }
        let beyond = over.saturating_sub(known.get());
        (known.get().saturating_sub(over).max(beyond + 1) as usize).min(STREAMS_MAX)
    }
}

/// Of a connection that is added.
#[derive(Clone, Copy)]
pub struct ConnectionTerms<'p> {
    pub pool: &'p PoolName,
    pub server: &'p Arc<str>,
    pub metrics: &'p Arc<PoolMetrics>,
    pub worker: usize,
    pub limits: HeadLimits,
    /// Nobody needs it yet.
    pub is_ahead: bool,
}

/// What the requests on a connection learn that was ended because the server broke a rule.
fn fault_of(end: ConnectionEnd) -> StreamFault {
    if end.is_for_size_of_head() { StreamFault::Malformed(HeadError::HeadTooLarge) } else { StreamFault::Broken }
}

struct Shared {
    state: Rc<ConnectionState>,
    traffic: Rc<dyn Traffic>,
    lifespan: Lifespan,
    vitals: Vitals,
    /// Requests that it had ever had when it was looked at last.
    had: u32,
    task: Task,
    /// Where connections are not shared by clients.
    owner: Option<Box<Owner>>,
}

/// Bytes since the last question, whatever the socket is.
trait Traffic {
    fn take(&self) -> (u64, u64);
}

impl<S: Sock> Traffic for Stream<S> {
    fn take(&self) -> (u64, u64) {
        (self.take_received_bytes(), self.take_sent_bytes())
    }
}

struct ConnectionState {
    h2: Rc<H2Shared>,
    streams: Cell<usize>,
    /// Requests that were on it and are over.
    over: Cell<u32>,
    taken: Rc<Taken>,
    /// No more requests go to it: it ends with those that are on it.
    retired: Cell<bool>,
    /// A request on it had an answer, or it stood open before anybody needed it.
    is_proven: Cell<bool>,
    ended: Cell<bool>,
    /// What TLS failed with, where that ended the connection.
    broken_tls: Cell<Option<UpstreamError>>,
    last_used: Cell<Instant>,
    shared: Arc<ServerShared>,
    worker: usize,
    metrics: Arc<PoolMetrics>,
}

impl ConnectionState {
    /// The connection is gone: its requests learn so, and why.
    fn end(&self, fault: StreamFault) {
        self.ended.set(true);
        self.h2.lose(fault);
    }

    /// Lets no more requests on the connection.
    fn retire(&self) {
        self.retired.set(true);
        if self.streams.get() == 0 {
            self.h2.shut_down();
        }
    }
}

/// One request's place on a connection.
pub struct Lease {
    state: Rc<ConnectionState>,
    standing: Standing,
}

impl Lease {
    /// What the connection had shown before this request.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The head of the answer has come.
    pub fn note_answered(&self) {
        self.state.is_proven.set(true);
    }

    /// Why the requests on a connection that is gone have failed.
    pub fn loss(&self) -> UpstreamError {
        self.state.broken_tls.get().unwrap_or(UpstreamError::ClosedEarly)
    }

    /// The connection, to send the request on.
    pub fn connection(&self) -> &Rc<H2Shared> {
        &self.state.h2
    }

    pub fn has_ended(&self) -> bool {
        self.state.ended.get()
    }

    /// No more requests go to this connection: it is ending, or broken.
    pub fn retire(&self) {
        self.state.retire();
    }

    /// The server has left the connection without a look at this request. Whether it took others.
    pub fn note_left(&self) -> bool {
        self.retire();
        // Where it is we that leave, nothing is learnt of it.
        let Some(taken) = self.connection().taken_before_leaving() else { return false };
        self.state.taken.left_after(taken);
        taken > 0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.state.streams.set(self.state.streams.get() - 1);
        self.state.over.set(self.state.over.get().saturating_add(1));
        self.state.last_used.set(rt::now());
        if self.state.streams.get() == 0 {
            self.state.metrics.connections_active.decrement();
            if self.state.retired.get() {
                self.state.h2.shut_down();
            }
        }
        // Who waits for a connection in this worker can have the stream; another worker's needs the connection's place.
        match self.state.shared.queue.next_worker() {
            Some(worker) if worker == self.state.worker => self.state.shared.queue.call_next(),
            Some(_) if self.state.streams.get() == 0 => self.retire(),
            Some(_) | None => {}
        }
    }
}

/// An attempt to open a connection. Those who wait for it learn that it is over, and why it failed if it did.
pub struct Opening<'a> {
    connections: &'a H2Connections,
    attempt: OpeningConnection,
}

#[derive(Clone, Default)]
pub struct OpeningConnection {
    over: Signal,
    /// Requests that will be on the connection, whoever opens it included.
    expecting: Rc<Cell<usize>>,
    failure: Rc<Cell<Option<UpstreamError>>>,
    client: Option<Client>,
}

impl Opening<'_> {
    pub fn failed(&self, error: UpstreamError) {
        self.attempt.failure.set(Some(error));
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.connections.opening.borrow_mut().retain(|attempt| !Rc::ptr_eq(&attempt.failure, &self.attempt.failure));
        self.attempt.over.set();
    }
}

impl OpeningConnection {
    /// Waits for somebody else's attempt; why it failed, if it did.
    pub async fn wait(self) -> Option<UpstreamError> {
        self.expecting.set(self.expecting.get() + 1);
        let waiter = self.over.waiter();
        poll_fn(|cx| waiter.poll_set(cx)).await;
        self.failure.get()
    }
}

impl H2Connections {
    /// A place on an open connection that has one; `client` is whose it must be, where connections are not shared by
    /// clients.
    pub fn lease(&self, client: Option<&Client>) -> Option<Lease> {
        let mut open = self.open.borrow_mut();
        open.retain(|shared| {
            self.learn_streams(shared);
            !shared.state.ended.get()
        });
        let streams = self.streams_known.get().unwrap_or(STREAMS_MAX);
        open.iter_mut().filter(|shared| serves(shared.owner.as_deref(), client)).find_map(|shared| shared.lease(streams))
    }

    /// How many requests wait for a connection that is being opened. Where the server last took none, its SETTINGS will
    /// say how many of them it takes now.
    fn streams_expected(&self) -> usize {
        let known = self.streams_known.get().filter(|streams| *streams > 0);
        self.taken.room(0).min(known.unwrap_or(STREAMS_MAX))
    }

    /// Whether a connection is there on which the server takes no streams at all for now, or one on which it has yet to
    /// say that it takes some again. Another one would get no more.
    pub fn is_withheld(&self, client: Option<&Client>) -> bool {
        let has_none = |shared: &Shared| {
            let h2 = &shared.state.h2;
            if h2.has_begun() { h2.peer_streams_max() == 0 } else { self.streams_known.get() == Some(0) }
        };
        let open = self.open.borrow();
        open.iter().any(|shared| shared.is_usable() && serves(shared.owner.as_deref(), client) && has_none(shared))
    }

    fn learn_streams(&self, shared: &Shared) {
        if shared.state.h2.has_begun() {
            self.streams_known.set(Some(shared.state.h2.peer_streams_max().min(STREAMS_MAX)));
        }
    }

    /// Whether a new request would find a connection, full or not.
    pub fn has_usable(&self) -> bool {
        self.open.borrow().iter().any(Shared::is_usable)
    }

    /// Whether waiting for a connection that is being opened is worth it.
    pub fn is_expected(&self, h2_only: bool) -> bool {
        h2_only || !self.speaks_http1.get()
    }

    pub fn learn_http1(&self) {
        self.speaks_http1.set(true);
    }

    pub fn takes_protocol(&self) -> Option<bool> {
        self.takes_protocol.get()
    }

    pub fn learn_protocol(&self, takes_protocol: bool) {
        self.takes_protocol.set(Some(takes_protocol));
    }

    /// An attempt to open a connection that the client's requests may use, and that has room for one more.
    pub fn opening(&self, client: Option<&Client>) -> Option<OpeningConnection> {
        let streams = self.streams_expected();
        let has_room = |attempt: &&OpeningConnection| attempt.client.as_ref() == client && attempt.expecting.get() < streams;
        self.opening.borrow().iter().find(has_room).cloned()
    }

    pub fn begin_opening(&self, client: Option<Client>) -> Opening<'_> {
        let attempt = OpeningConnection { client, ..OpeningConnection::default() };
        attempt.expecting.set(1);
        self.opening.borrow_mut().push(attempt.clone());
        Opening { connections: self, attempt }
    }

    /// Starts HTTP/2 on a stream and keeps the connection. [`lease_newest`](Self::lease_newest) has a place on it until
    /// something else is awaited, unless the server took no streams when it was last asked.
    pub fn add<S: Sock>(&self, fresh: Fresh<S>, terms: ConnectionTerms<'_>) {
        let Fresh { stream, slot, lifespan, owner } = fresh;
        let ConnectionTerms { pool, server, metrics, worker, limits, is_ahead } = terms;
        let (pool, server) = (pool.clone(), server.clone());
        // The connection lives as long as its requests; each request has its own idle time.
        stream.sock.set_read_limit(ReadLimit::Idle(Duration::from_secs(24 * 3600)));
        let stream = Rc::new(stream);
        let traffic: Rc<dyn Traffic> = stream.clone();
        let window_bytes = stream_window_bytes(memory::budget_bytes());
        let ours = OurSettings {
            streams_max: 0,
            initial_window_bytes: window_bytes,
            connection_window_bytes: window_bytes * STREAMS_MAX as u32,
            header_list_bytes_max: limits.head_bytes_max as u32,
            takes_protocol: false,
        };
        let now = rt::now();
        let h2 = H2Shared::new(Role::Client, ours, limits, window_bytes, now);
        let state = Rc::new(ConnectionState {
            h2: h2.clone(),
            streams: Cell::new(0),
            over: Cell::new(0),
            taken: self.taken.clone(),
            retired: Cell::new(false),
            is_proven: Cell::new(is_ahead),
            ended: Cell::new(false),
            broken_tls: Cell::new(None),
            last_used: Cell::new(now),
            shared: slot.server().clone(),
            worker,
            metrics: metrics.clone(),
        });
        let ended = state.clone();
        let task = rt::spawn_abortable(async move {
            let _slot = slot;
            let mut frames = FrameIo::new(h2, stream);
            let end = poll_fn(|cx| frames.poll(cx, &mut Nobody)).await;
            if let Some(end) = end {
                log_broken_rule(&pool, &server, &end);
            }
            if let Some(error) = frames.take_read_fault().filter(|error| error.kind() == io::ErrorKind::InvalidData) {
                let fault = tls_error(&error);
                ended.broken_tls.set(Some(fault));
                log_broken_tls(Some(&pool.0), fault, &error);
            }
            // What was said last, such as why the connection ends.
            let _ = rt::timeout(GOAWAY_GRACE, poll_fn(|cx| frames.poll_send(cx))).await;
            ended.end(end.map_or(StreamFault::Lost, fault_of));
        });
        let vitals = Vitals::new(now);
        self.open.borrow_mut().push(Shared { state, traffic, lifespan, vitals, had: 0, task, owner });
    }

    /// A place on the connection that was added last.
    pub fn lease_newest(&self) -> Option<Lease> {
        self.open.borrow_mut().last_mut()?.lease(self.streams_known.get().unwrap_or(STREAMS_MAX))
    }

    /// The server is in no pool any more: its connections end with the requests on them.
    pub fn leave(&self) {
        for shared in self.open.take() {
            shared.state.retire();
        }
    }

    /// Lets a connection without a request end; whether there was one.
    pub fn end_an_idle_one(&self) -> bool {
        let open = self.open.borrow();
        let idle = open.iter().find(|shared| shared.is_usable() && shared.state.streams.get() == 0);
        idle.is_some_and(|shared| {
            shared.state.retire();
            true
        })
    }

    /// Forgets ended connections, lets idle and old ones end, and asks silent ones whether they are alive. How many of
    /// them are not.
    pub fn sweep(&self, now: Instant, keep_alive: &KeepAlive, worker: &WorkerMetrics) -> usize {
        let mut given_up = 0;
        self.open.borrow_mut().retain_mut(|shared| {
            let (received, sent) = shared.traffic.take();
            worker.upstream_bytes_received.add(received);
            worker.upstream_bytes_sent.add(sent);
            self.learn_streams(shared);
            if shared.state.ended.get() {
                return false;
            }
            if shared.is_done(now, keep_alive.idle) {
                shared.state.retire();
            }
            let is_alive = keep_alive.ping.is_none_or(|ping| shared.look(now, received > 0, ping));
            given_up += usize::from(!is_alive);
            is_alive
        });
        given_up
    }
}

impl Shared {
    fn is_usable(&self) -> bool {
        !self.state.retired.get() && !self.state.ended.get() && !self.state.h2.is_leaving()
    }

    /// A place, where there is one. Until the server's SETTINGS have come it is taken to have `streams_expected`.
    fn lease(&mut self, streams_expected: usize) -> Option<Lease> {
        let streams = self.state.streams.get();
        let h2 = &self.state.h2;
        let streams_max = if h2.has_begun() { h2.peer_streams_max().min(STREAMS_MAX) } else { streams_expected };
        if !self.is_usable() || streams >= streams_max || streams >= self.state.taken.room(self.state.over.get()) {
            return None;
        }
        if streams == 0 {
            self.state.metrics.connections_active.increment();
        }
        self.state.streams.set(streams + 1);
        if !self.lifespan.count_request() {
            self.state.retire();
        }
        let standing = match (self.state.is_proven.get(), streams + self.state.over.get() as usize) {
            (true, _) => Standing::Proven,
            (false, 0) => Standing::New,
            (false, _) => Standing::Untried,
        };
        Some(Lease { state: self.state.clone(), standing })
    }

    /// No new request may use it, none will, or none has for a long time.
    fn is_done(&self, now: Instant, idle: Duration) -> bool {
        let is_idle = self.state.streams.get() == 0 && now.saturating_duration_since(self.state.last_used.get()) >= idle;
        let is_left = self.owner.as_ref().is_some_and(|owner| owner.is_gone());
        is_idle || is_left || self.state.retired.get() || self.lifespan.is_over(now)
    }

    /// False when the peer is gone: then the requests on the connection fail, as if it had been reset.
    fn look(&mut self, now: Instant, has_received: bool, ping: Duration) -> bool {
        let streams = self.state.streams.get();
        let had = self.state.over.get().saturating_add(streams as u32);
        let has_requests = streams > 0 || std::mem::replace(&mut self.had, had) != had;
        match self.vitals.look(now, has_received, has_requests, ping) {
            Verdict::Fine => true,
            Verdict::Ask => {
                self.state.h2.ping();
                true
            }
            Verdict::GiveUp => {
                self.task.abort();
                self.state.end(StreamFault::Lost);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{STREAM_WINDOW_BYTES_LEAST, STREAM_WINDOW_BYTES_MOST, stream_window_bytes};

    #[test]
    fn windows_are_as_large_as_the_memory_allows() {
        let check = |budget: Option<u64>, expected: u32| assert_eq!(stream_window_bytes(budget), expected, "{budget:?}");
        check(None, STREAM_WINDOW_BYTES_MOST);
        check(Some(16 << 30), STREAM_WINDOW_BYTES_MOST);
        check(Some(400 << 20), STREAM_WINDOW_BYTES_MOST);
        check(Some(64 << 20), 41_943);
        check(Some(16 << 20), STREAM_WINDOW_BYTES_LEAST);
        check(Some(0), STREAM_WINDOW_BYTES_LEAST);
    }
}
