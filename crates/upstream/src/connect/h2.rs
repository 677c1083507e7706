//! HTTP/2 connections to one server: shared by a worker's requests, opened one at a time, asked for a sign of life when
//! they are silent, and left alone when they end.

use crate::connect::lifespan::Lifespan;
use crate::connect::vitals::{Verdict, Vitals};
use crate::connect::{Client, Fresh, Owner, serves};
use crate::shared::ServerShared;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_message::h2::{FrameIo, H2Shared, Nobody};
use tidegate_model::KeepAlive;
use tidegate_telemetry::{PoolMetrics, UpstreamError, WorkerMetrics};
use tidegate_transport::rt::{self, Signal, Task};
use tidegate_transport::{ReadLimit, Sock, Stream};
use tidegate_wire::HeadLimits;
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::settings::OurSettings;

/// Requests on one connection, below what the server allows: more connections spread over a server's threads.
const STREAMS_MAX: usize = 100;
/// What may be held unread of one answer. The connection's window has room for all of them: were it smaller, clients
/// that do not read their answers would use it up and starve everybody else's.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * STREAMS_MAX as u32;

/// A last GOAWAY may take so long.
const GOAWAY_GRACE: Duration = Duration::from_millis(500);

/// All HTTP/2 connections of one server.
#[derive(Default)]
pub struct H2Connections {
    open: RefCell<Vec<Shared>>,
    /// At most one for all requests, or one for each client where connections are not shared by clients.
    opening: RefCell<Vec<OpeningConnection>>,
    /// ALPN has settled on HTTP/1.1 before: nobody waits for a shared connection then.
    speaks_http1: Cell<bool>,
    /// Whether the server offers extended CONNECT, as its last SETTINGS have said that were asked for it.
    takes_protocol: Cell<Option<bool>>,
}

struct Shared {
    state: Rc<ConnectionState>,
    traffic: Rc<dyn Traffic>,
    lifespan: Lifespan,
    vitals: Vitals,
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
    /// No more requests go to it: it ends with those that are on it.
    retired: Cell<bool>,
    ended: Cell<bool>,
    last_used: Cell<Instant>,
    shared: Arc<ServerShared>,
    worker: usize,
    metrics: Arc<PoolMetrics>,
}

impl ConnectionState {
    /// The connection is gone: its requests learn so.
    fn end(&self) {
        self.ended.set(true);
        self.h2.lose();
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
}

impl Lease {
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
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.state.streams.set(self.state.streams.get() - 1);
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
        open.retain(|shared| !shared.state.ended.get());
        open.iter_mut().filter(|shared| serves(shared.owner.as_deref(), client)).find_map(Shared::lease)
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

    /// An attempt to open a connection that the client's requests may use.
    pub fn opening(&self, client: Option<&Client>) -> Option<OpeningConnection> {
        self.opening.borrow().iter().find(|attempt| attempt.client.as_ref() == client).cloned()
    }

    pub fn begin_opening(&self, client: Option<Client>) -> Opening<'_> {
        let attempt = OpeningConnection { client, ..OpeningConnection::default() };
        self.opening.borrow_mut().push(attempt.clone());
        Opening { connections: self, attempt }
    }

    /// Starts HTTP/2 on a stream and keeps the connection. [`lease_newest`](Self::lease_newest) has a place on it until
    /// something else is awaited.
    pub fn add<S: Sock>(&self, fresh: Fresh<S>, worker: usize, limits: HeadLimits, metrics: &Arc<PoolMetrics>) {
        let Fresh { stream, slot, lifespan, owner } = fresh;
        // The connection lives as long as its requests; each request has its own idle time.
        stream.sock.set_read_limit(ReadLimit::Idle(Duration::from_secs(24 * 3600)));
        let stream = Rc::new(stream);
        let traffic: Rc<dyn Traffic> = stream.clone();
        let ours = OurSettings {
            streams_max: 0,
            initial_window_bytes: STREAM_WINDOW_BYTES,
            connection_window_bytes: CONNECTION_WINDOW_BYTES,
            header_list_bytes_max: limits.head_bytes_max as u32,
            takes_protocol: false,
        };
        let now = rt::now();
        let h2 = H2Shared::new(Role::Client, ours, limits, STREAM_WINDOW_BYTES, now);
        let state = Rc::new(ConnectionState {
            h2: h2.clone(),
            streams: Cell::new(0),
            retired: Cell::new(false),
            ended: Cell::new(false),
            last_used: Cell::new(now),
            shared: slot.server().clone(),
            worker,
            metrics: metrics.clone(),
        });
        let ended = state.clone();
        let task = rt::spawn_abortable(async move {
            let _slot = slot;
            let mut io = FrameIo::new(h2, stream);
            if let Some(end) = poll_fn(|cx| io.poll(cx, &mut Nobody)).await {
                tracing::debug!(error = %end, "an HTTP/2 connection to an upstream ended");
            }
            // What was said last, such as why the connection ends.
            let _ = rt::timeout(GOAWAY_GRACE, poll_fn(|cx| io.poll_send(cx))).await;
            ended.end();
        });
        let vitals = Vitals::new(now);
        self.open.borrow_mut().push(Shared { state, traffic, lifespan, vitals, task, owner });
    }

    /// A place on the connection that was added last.
    pub fn lease_newest(&self) -> Option<Lease> {
        self.open.borrow_mut().last_mut()?.lease()
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

    fn lease(&mut self) -> Option<Lease> {
        let streams = self.state.streams.get();
        if !self.is_usable() || streams >= STREAMS_MAX.min(self.state.h2.peer_streams_max()) {
            return None;
        }
        if streams == 0 {
            self.state.metrics.connections_active.increment();
        }
        self.state.streams.set(streams + 1);
        if !self.lifespan.count_request() {
            self.state.retire();
        }
        Some(Lease { state: self.state.clone() })
    }

    /// No new request may use it, none will, or none has for a long time.
    fn is_done(&self, now: Instant, idle: Duration) -> bool {
        let is_idle = self.state.streams.get() == 0 && now.saturating_duration_since(self.state.last_used.get()) >= idle;
        let is_left = self.owner.as_ref().is_some_and(|owner| owner.is_gone());
        is_idle || is_left || self.state.retired.get() || self.lifespan.is_over(now)
    }

    /// False when the peer is gone: then the requests on the connection fail, as if it had been reset.
    fn look(&mut self, now: Instant, has_received: bool, ping: Duration) -> bool {
        match self.vitals.look(now, has_received, self.state.streams.get() > 0, ping) {
            Verdict::Fine => true,
            Verdict::Ask => {
                self.state.h2.ping();
                true
            }
            Verdict::GiveUp => {
                self.task.abort();
                self.state.end();
                false
            }
        }
    }
}
