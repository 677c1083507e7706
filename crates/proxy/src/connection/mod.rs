//! A client connection from accept to end: the ClientHello's name, the handshake, then HTTP/1 or HTTP/2. Requests are lived in `request`.

mod h1;
mod h2;
mod refused;
mod tls;

use crate::bounds::CLIENT_WRITE_IDLE;
use crate::failure::Refusal;
use crate::worker::{Worker, WorkerSnapshot};
use std::cell::{Cell, OnceCell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_model::Scheme;
use tidegate_routing::SiteId;
use tidegate_telemetry::ListenerKind;
use tidegate_transport::{ReadLimit, Sock, Stream, TlsFacts, rt};

/// After an answer that ends the connection, unread input is thrown away for so long and so much: closing at once would make the
/// kernel send a reset, which can destroy the answer before the client has read it.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// One client connection as its requests see it.
pub struct Connection<S: Sock> {
    pub worker: Rc<Worker<S>>,
    pub stream: Rc<Stream<S>>,
    pub client: SocketAddr,
    pub tls: Option<TlsFacts>,
    /// The name in the ClientHello.
    pub server_name: Option<Box<str>>,
    /// The site whose TLS settings the connection has.
    pub tls_site: Option<SiteId>,
    listen_address: SocketAddr,
    local_ip: OnceCell<IpAddr>,
    client_ip_text: OnceCell<Box<str>>,
    /// The snapshot looked at last, and the listener's place in it.
    snapshot: RefCell<(Rc<WorkerSnapshot<S>>, usize)>,
    is_h2: Cell<bool>,
}

/// Takes over an accepted socket: counts it, refuses it when its address has too many, else serves it in a task of its own.
pub fn spawn<S: Sock>(worker: &Rc<Worker<S>>, sock: S, client: SocketAddr, listen_address: SocketAddr) {
    let client = SocketAddr::new(client.ip().to_canonical(), client.port());
    let snapshot = worker.snapshot();
    let Some(position) = snapshot.shared.listeners.iter().position(|listener| listener.address == listen_address) else { return };
    if !worker.process.clients().try_add(client.ip(), snapshot.shared.limits.connections_per_ip) {
        worker.metrics.connections_refused.increment("connections_per_ip");
        if let Some(suppressed) = worker.gates.accept.allow(Instant::now()) {
            tracing::warn!(client = %client.ip(), suppressed, setting = "limits connections-per-ip", "a client has too many connections");
        }
        return;
    }
    let counted = Counted::new(worker.clone(), client.ip(), snapshot.shared.listeners[position].scheme);
    sock.set_write_idle(CLIENT_WRITE_IDLE);
    let connection = Connection {
        worker: worker.clone(),
        stream: Rc::new(Stream::plain(sock)),
        client,
        tls: None,
        server_name: None,
        tls_site: None,
        listen_address,
        local_ip: OnceCell::new(),
        client_ip_text: OnceCell::new(),
        snapshot: RefCell::new((snapshot, position)),
        is_h2: Cell::new(false),
    };
    rt::spawn(async move {
        let _counted = counted;
        serve(connection).await;
    });
}

async fn serve<S: Sock>(mut connection: Connection<S>) {
    let is_h2 = match connection.listener_scheme() {
        Scheme::Http => false,
        Scheme::Https => match Box::pin(tls::accept(&mut connection)).await {
            Some(facts) => {
                connection.tls = Some(facts);
                facts.h2
            }
            None => return,
        },
    };
    if is_h2 {
        // Boxed: the future of an HTTP/2 connection is large, and HTTP/1 connections must not carry its size.
        Box::pin(h2::serve(Rc::new(connection))).await;
    } else {
        h1::serve(connection).await;
    }
}

impl<S: Sock> Connection<S> {
    /// The snapshot that is valid now and this connection's listener in it. When the listener is gone the connection keeps the
    /// snapshot that still had it.
    #[inline]
    pub fn current_snapshot(&self) -> (Rc<WorkerSnapshot<S>>, usize) {
        let newest = self.worker.snapshot();
        let mut known = self.snapshot.borrow_mut();
        if !Rc::ptr_eq(&newest, &known.0)
            && let Some(position) = newest.shared.listeners.iter().position(|listener| listener.address == self.listen_address)
        {
            *known = (newest, position);
        }
        known.clone()
    }

    /// How long the client may wait with its next request.
    fn keep_alive(&self) -> Duration {
        self.snapshot.borrow().0.shared.limits.keep_alive
    }

    fn listener_scheme(&self) -> Scheme {
        let known = self.snapshot.borrow();
        known.0.shared.listeners[known.1].scheme
    }

    /// The address the client connected to, asked for only where a site is named by its address.
    pub fn local_ip(&self) -> IpAddr {
        let known = self.snapshot.borrow();
        if !known.0.shared.listeners[known.1].needs_local_ip {
            return IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        }
        *self
            .local_ip
            .get_or_init(|| self.stream.sock.local_ip().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ip| ip.to_canonical()))
    }

    /// The client's address in text, made once per connection.
    pub fn client_ip_text(&self) -> &[u8] {
        self.client_ip_text.get_or_init(|| self.client.ip().to_string().into()).as_bytes()
    }

    pub fn is_h2(&self) -> bool {
        self.is_h2.get()
    }

    pub fn listen_port(&self) -> u16 {
        self.listen_address.port()
    }

    pub fn is_draining(&self) -> bool {
        self.worker.draining.is_set()
    }

    /// Counts a refusal, and logs it without letting a flood of them flood the log.
    pub fn note_refusal(&self, refusal: Refusal, client_ip: IpAddr) {
        self.worker.metrics.refused.increment(refusal.reason);
        let Some(suppressed) = self.worker.gates.refused.allow(Instant::now()) else { return };
        match refusal.setting {
            Some(setting) => {
                tracing::info!(client = %client_ip, status = refusal.status, reason = refusal.reason, setting, suppressed, "request refused");
            }
            None => {
                tracing::debug!(client = %client_ip, status = refusal.status, reason = refusal.reason, suppressed, "request refused");
            }
        }
    }

    /// Adds what went over the socket since the last call to the worker's counters.
    pub fn account_bytes(&self) {
        self.worker.metrics.client_bytes_received.add(self.stream.take_received_bytes());
        self.worker.metrics.client_bytes_sent.add(self.stream.take_sent_bytes());
    }

    /// As [`account_bytes`](Self::account_bytes), for a connection to an upstream.
    pub fn account_upstream_bytes(&self, stream: &Stream<S>) {
        self.worker.metrics.upstream_bytes_received.add(stream.take_received_bytes());
        self.worker.metrics.upstream_bytes_sent.add(stream.take_sent_bytes());
    }

    /// Ends our side and throws away what the client still sends, within bounds.
    pub async fn linger(&self) {
        self.stream.close().await;
        self.stream.sock.set_read_limit(ReadLimit::Until(rt::now() + LINGER));
        let mut thrown_away = 0;
        while let Ok(data) = self.stream.read().await {
            thrown_away += data.len();
            if data.is_empty() || thrown_away > LINGER_BYTES_MAX {
                return;
            }
        }
    }
}

/// Counts a connection as long as it lives, panics included.
struct Counted<S: Sock> {
    worker: Rc<Worker<S>>,
    ip: IpAddr,
    kind: ListenerKind,
}

impl<S: Sock> Counted<S> {
    fn new(worker: Rc<Worker<S>>, ip: IpAddr, scheme: Scheme) -> Counted<S> {
        let kind = match scheme {
            Scheme::Http => ListenerKind::Http,
            Scheme::Https => ListenerKind::Https,
        };
        let listener = worker.metrics.listener(kind);
        listener.connections_opened.increment();
        listener.connections_active.increment();
        worker.connection_opened();
        Counted { worker, ip, kind }
    }
}

impl<S: Sock> Drop for Counted<S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.metrics.panics_caught.increment();
        }
        self.worker.metrics.listener(self.kind).connections_active.decrement();
        self.worker.process.clients().remove(self.ip);
        self.worker.connection_ended();
    }
}
