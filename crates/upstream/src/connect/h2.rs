//! HTTP/2 connections to one server: shared by a worker's requests, opened one at a time, asked for a sign of life when
//! they are silent, and left alone when they end.

use crate::connect::lifespan::Lifespan;
use crate::connect::vitals::{Verdict, Vitals};
use crate::connect::{Client, Fresh, Owner, serves};
use crate::shared::ServerShared;
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use tidegate_model::KeepAlive;
use tidegate_telemetry::{PoolMetrics, UpstreamError, WorkerMetrics};
use tidegate_transport::h2_io::{H2Io, drive};
use tidegate_transport::rt::{self, Signal, Task};
use tidegate_transport::{ReadLimit, Sock, Stream};

/// Requests on one connection, below what the server allows: more connections spread over a server's threads.
const STREAMS_MAX: usize = 100;
/// What may be held unread of one answer. The connection's window has room for all of them: were it smaller, clients
/// that do not read their answers would use it up and starve everybody else's.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * STREAMS_MAX as u32;

/// What small DATA frames that nobody has read yet may cost in h2's own account (256 bytes less their size each): some
/// 65,000 of them. Its default ends connections of well-behaved streams; without any bound, a frame a byte would cost
/// memory many times its size.
pub const DATA_FRAME_BUDGET: usize = 16 << 20;

/// A request's handle on an HTTP/2 connection.
pub type H2Sender = SendRequest<Bytes>;

/// All HTTP/2 connections of one server.
#[derive(Default)]
pub struct H2Connections {
    open: RefCell<Vec<Shared>>,
    /// At most one for all requests, or one for each client where connections are not shared by clients.
    opening: RefCell<Vec<OpeningConnection>>,
    /// ALPN has settled on HTTP/1.1 before: nobody waits for a shared connection then.
    speaks_http1: Cell<bool>,
}

struct Shared {
    /// `None` once no new request goes to it: it ends with those that are on it.
    sender: Option<H2Sender>,
    state: Rc<ConnectionState>,
    traffic: Rc<dyn Traffic>,
    lifespan: Lifespan,
    vitals: Vitals,
    pings: Option<PingPong>,
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
    streams: Cell<usize>,
    /// No more requests go to it: it is ending, or broken.
    retired: Cell<bool>,
    ended: Cell<bool>,
    last_used: Cell<Instant>,
    shared: Arc<ServerShared>,
    worker: usize,
    metrics: Arc<PoolMetrics>,
}

/// One request's place on a connection.
pub struct Lease {
    pub sender: H2Sender,
    state: Rc<ConnectionState>,
}

impl Lease {
    /// No more requests go to this connection: it is ending, or broken.
    pub fn retire(&self) {
        self.state.retired.set(true);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.state.streams.set(self.state.streams.get() - 1);
        self.state.last_used.set(rt::now());
        if self.state.streams.get() == 0 {
            self.state.metrics.connections_active.decrement();
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
    pub async fn add<S: Sock>(
        &self,
        fresh: Fresh<S>,
        worker: usize,
        head_bytes_max: usize,
        metrics: &Arc<PoolMetrics>,
    ) -> Result<(), h2::Error> {
        let Fresh { stream, slot, lifespan, owner } = fresh;
        // The connection lives as long as its requests; each request has its own idle time.
        stream.sock.set_read_limit(ReadLimit::Idle(Duration::from_secs(24 * 3600)));
        let stream = Rc::new(stream);
        let traffic: Rc<dyn Traffic> = stream.clone();
        let io = H2Io::new(stream);
        let output = io.output();
        let handshake = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .enable_push(false)
            .max_header_list_size(head_bytes_max as u32)
            .data_frame_budget(DATA_FRAME_BUDGET)
            .handshake::<_, Bytes>(io);
        let (sender, mut connection) = drive(&output, handshake).await?;
        let now = rt::now();
        let state = Rc::new(ConnectionState {
            streams: Cell::new(0),
            retired: Cell::new(false),
            ended: Cell::new(false),
            last_used: Cell::new(now),
            shared: slot.server().clone(),
            worker,
            metrics: metrics.clone(),
        });
        let ended = state.clone();
        let pings = connection.ping_pong();
        let task = rt::spawn_abortable(async move {
            let _slot = slot;
            if let Err(error) = drive(&output, connection).await {
                tracing::debug!(%error, "an HTTP/2 connection to an upstream ended");
            }
            ended.ended.set(true);
        });
        let vitals = Vitals::new(now);
        self.open.borrow_mut().push(Shared { sender: Some(sender), state, traffic, lifespan, vitals, pings, task, owner });
        Ok(())
    }

    /// A place on the connection that was added last.
    pub fn lease_newest(&self) -> Option<Lease> {
        self.open.borrow_mut().last_mut()?.lease()
    }

    /// The server is in no pool any more: its connections end with the requests on them.
    pub fn leave(&self) {
        self.open.borrow_mut().clear();
    }

    /// Lets a connection without a request end; whether there was one.
    pub fn end_an_idle_one(&self) -> bool {
        let mut open = self.open.borrow_mut();
        let idle = open.iter_mut().find(|shared| shared.is_usable() && shared.state.streams.get() == 0);
        idle.is_some_and(|shared| shared.sender.take().is_some())
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
                shared.sender = None;
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
        self.sender.is_some() && !self.state.retired.get() && !self.state.ended.get()
    }

    fn lease(&mut self) -> Option<Lease> {
        let streams = self.state.streams.get();
        let sender = self.sender.as_ref().filter(|_| !self.state.retired.get())?;
        if streams >= STREAMS_MAX.min(sender.current_max_send_streams()) {
            return None;
        }
        let sender = sender.clone();
        if streams == 0 {
            self.state.metrics.connections_active.increment();
        }
        self.state.streams.set(streams + 1);
        if !self.lifespan.count_request() {
            self.sender = None;
        }
        Some(Lease { sender, state: self.state.clone() })
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
                if let Some(pings) = &mut self.pings {
                    // The answer to the one before is taken, so that there can be another; one that is still on its way
                    // asks as well.
                    let _ = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
                    let _ = pings.send_ping(Ping::opaque());
                }
                true
            }
            Verdict::GiveUp => {
                self.task.abort();
                self.state.ended.set(true);
                false
            }
        }
    }
}
