//! HTTP/2 connections to one server: shared by a worker's requests, opened one at a time, left alone when they end.

use crate::bounds::DATA_FRAME_BUDGET;
use crate::survivors::OpenSlot;
use crate::upstream::H2Sender;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_telemetry::{PoolMetrics, UpstreamError, WorkerMetrics};
use tidegate_transport::h2_io::{H2Io, drive};
use tidegate_transport::rt::{self, Signal};
use tidegate_transport::{ReadLimit, Sock, Stream};

/// Requests on one connection, below what the server allows: more connections spread over a server's threads.
const STREAMS_MAX: usize = 100;
/// What may be held unread of one answer. The connection's window has room for all of them: were it smaller, clients that do not read
/// their answers would use it up and starve everybody else's.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * STREAMS_MAX as u32;
/// A connection without a request for so long is closed.
const IDLE: Duration = Duration::from_secs(55);

/// All HTTP/2 connections of one server.
#[derive(Default)]
pub struct H2Connections {
    open: RefCell<Vec<Shared>>,
    opening: RefCell<Option<Attempt>>,
    /// ALPN has settled on HTTP/1.1 before: nobody waits for a shared connection then.
    speaks_http1: Cell<bool>,
}

struct Shared {
    sender: H2Sender,
    state: Rc<ConnectionState>,
    traffic: Rc<dyn Traffic>,
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
    ended: Cell<bool>,
    last_used: Cell<Instant>,
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
        self.state.ended.set(true);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.state.streams.set(self.state.streams.get() - 1);
        self.state.last_used.set(rt::now());
        if self.state.streams.get() == 0 {
            self.state.metrics.connections_active.decrement();
        }
    }
}

/// An attempt to open a connection. Those who wait for it learn that it is over, and why it failed if it did.
pub struct Opening<'a> {
    connections: &'a H2Connections,
    attempt: Attempt,
}

#[derive(Clone, Default)]
pub struct Attempt {
    over: Signal,
    failure: Rc<Cell<Option<UpstreamError>>>,
}

impl Opening<'_> {
    pub fn failed(&self, error: UpstreamError) {
        self.attempt.failure.set(Some(error));
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut current = self.connections.opening.borrow_mut();
        if current.as_ref().is_some_and(|attempt| Rc::ptr_eq(&attempt.failure, &self.attempt.failure)) {
            *current = None;
        }
        self.attempt.over.set();
    }
}

impl Attempt {
    /// Waits for somebody else's attempt; why it failed, if it did.
    pub async fn wait(self) -> Option<UpstreamError> {
        let waiter = self.over.waiter();
        poll_fn(|cx| waiter.poll_set(cx)).await;
        self.failure.get()
    }
}

impl H2Connections {
    /// A place on an open connection that has one.
    pub fn lease(&self) -> Option<Lease> {
        let mut open = self.open.borrow_mut();
        open.retain(|shared| !shared.state.ended.get());
        let shared =
            open.iter().find(|shared| shared.state.streams.get() < STREAMS_MAX.min(shared.sender.current_max_send_streams()))?;
        Some(shared.lease())
    }

    /// Whether waiting for a connection that is being opened is worth it.
    pub fn is_expected(&self, h2_only: bool) -> bool {
        h2_only || !self.speaks_http1.get()
    }

    pub fn learn_http1(&self) {
        self.speaks_http1.set(true);
    }

    pub fn opening(&self) -> Option<Attempt> {
        self.opening.borrow().clone()
    }

    pub fn begin_opening(&self) -> Opening<'_> {
        let attempt = Attempt::default();
        *self.opening.borrow_mut() = Some(attempt.clone());
        Opening { connections: self, attempt }
    }

    /// Starts HTTP/2 on a stream and keeps the connection for others.
    pub async fn add<S: Sock>(
        &self,
        stream: Stream<S>,
        slot: OpenSlot,
        head_bytes_max: usize,
        metrics: &Arc<PoolMetrics>,
    ) -> Result<Lease, h2::Error> {
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
        let (sender, connection) = drive(&output, handshake).await?;
        let state = Rc::new(ConnectionState {
            streams: Cell::new(0),
            ended: Cell::new(false),
            last_used: Cell::new(rt::now()),
            metrics: metrics.clone(),
        });
        let ended = state.clone();
        rt::spawn(async move {
            let _slot = slot;
            if let Err(error) = drive(&output, connection).await {
                tracing::debug!(%error, "an HTTP/2 connection to an upstream ended");
            }
            ended.ended.set(true);
        });
        let shared = Shared { sender, state, traffic };
        let lease = shared.lease();
        self.open.borrow_mut().push(shared);
        Ok(lease)
    }

    /// The server is in no pool any more: its connections end with the requests on them.
    pub fn leave(&self) {
        self.open.borrow_mut().clear();
    }

    /// Forgets ended connections and lets idle ones end.
    pub fn sweep(&self, now: Instant, worker: &WorkerMetrics) {
        for shared in self.open.borrow().iter() {
            let (received, sent) = shared.traffic.take();
            worker.upstream_bytes_received.add(received);
            worker.upstream_bytes_sent.add(sent);
        }
        self.open.borrow_mut().retain(|shared| {
            let state = &shared.state;
            !state.ended.get() && (state.streams.get() > 0 || now.saturating_duration_since(state.last_used.get()) < IDLE)
        });
    }
}

impl Shared {
    fn lease(&self) -> Lease {
        if self.state.streams.get() == 0 {
            self.state.metrics.connections_active.increment();
        }
        self.state.streams.set(self.state.streams.get() + 1);
        Lease { sender: self.sender.clone(), state: self.state.clone() }
    }
}
