//! Getting a connection to a server: the one used last, or a fresh one, over TLS where the server speaks it.
//! HTTP/2 connections, which many requests share, are in `h2`.

pub(crate) mod causes;
pub mod eyeballs;
pub mod h2;
pub mod lifespan;
mod owner;
mod vitals;
pub mod warm;
mod warming;
mod websocket;

use self::causes::log_cause;
pub use self::causes::log_given_up;
pub use self::owner::{Client, Fresh, Owner, serves};
pub use self::warming::{AGE_LEAST, Warming};

use crate::compiled::{CompiledServer, UpstreamTlsConfigs};
use crate::connect::lifespan::Lifespan;
use crate::fault::{UpstreamFault, tls_error};
use crate::pool::{H1Connection, Queued, Server, WorkerPool};
use crate::shared::OpenSlot;
use std::any::Any;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_model::{Protocol, ProxyProtocol, ServerAddresses};
use tidegate_telemetry::{UpstreamError, UpstreamTime};
use tidegate_transport::{Buf, ReadLimit, Sock, Stream, rt};
use tidegate_wire::proxy_protocol::{Extensions, HeaderVersion, encode_with};
use tidegate_wire::{HeadLimits, proxy_protocol};

/// How often a request in the queue for a connection looks for a free stream of its worker's. Only pools with
/// `max-connections` ever wait.
const QUEUE_POLL: Duration = Duration::from_millis(25);
/// A connection that has not come by then is given up as soon as its server leaves the pool. Most are there before, and
/// need no place among those that are told.
const CONNECTED_SOON: Duration = Duration::from_millis(50);

/// What the request needs of its connection.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// The request must not be sent twice, so the connection must be certain.
    pub certain: bool,
    pub upgrade: Upgrade,
    /// gRPC, which HTTP/1.1 cannot carry.
    pub prefers_h2: bool,
    /// The connection must be a fresh one: a pooled one has just failed.
    pub fresh: bool,
    /// How long a connection may take to stand, the handshake included.
    pub connect: Duration,
    /// The largest head that an answer may have.
    pub head_limits: HeadLimits,
    /// Whose request it is, where a server is told by the connection: then no connection has requests of two clients.
    pub client: Option<Client>,
}

/// What the connection is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upgrade {
    None,
    /// A stream of HTTP/2 does as well, where the server offers it (RFC 8441).
    WebSocket,
    /// HTTP/2 has no other upgrades.
    Other,
}

/// Who has a connection opened.
#[derive(Debug, Clone)]
pub struct Opener {
    /// Decides how long the connection may be used; uniform over all its bits.
    pub random: u64,
    /// Alive for as long as the client's connection.
    pub client: Weak<dyn Any>,
    /// The identifier of the request that it is opened for, for the log.
    pub request: Option<Box<str>>,
    /// What servers are told of the client besides its addresses.
    pub introduction: Option<Box<Extensions>>,
    /// What its connection took until it stood.
    pub took: Cell<OpeningTook>,
}

/// How long the parts of opening a connection took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpeningTook {
    /// In the queue, for a place under `max-connections`.
    pub queue: Duration,
    pub connect: Duration,
    /// `None`: no TLS.
    pub tls: Option<Duration>,
}

impl Opener {
    pub fn new(random: u64, client: Weak<dyn Any>) -> Opener {
        Opener { random, client, request: None, introduction: None, took: Cell::default() }
    }
}

pub enum Connection<S: Sock> {
    H1(Box<H1Connection<S>>),
    H2(h2::Lease),
    FastCgi(Box<H1Connection<S>>),
}

/// An open connection to the server at `position`, if there is one that will do.
pub fn take<S: Sock>(pool: &WorkerPool<S>, position: usize, need: Need) -> Option<Connection<S>> {
    if need.fresh {
        return None;
    }
    let server = &pool.servers[position];
    if need.upgrade == Upgrade::WebSocket
        && let Some(shared) = websocket::take(pool, position, need)
    {
        return Some(shared);
    }
    let want = wanted(pool, position, need);
    let shared = match want {
        Wanted::H1 | Wanted::FastCgi | Wanted::Bare => None,
        Wanted::H2 | Wanted::Either => server.h2.lease(need.client.as_ref()).map(Connection::H2),
    };
    let connection = match want {
        Wanted::H2 | Wanted::Bare => shared,
        Wanted::FastCgi => {
            server.take_idle(rt::now(), need.certain, need.client.as_ref(), &pool.metrics).map(Connection::FastCgi)
        }
        Wanted::H1 | Wanted::Either => {
            shared.or_else(|| server.take_idle(rt::now(), need.certain, need.client.as_ref(), &pool.metrics).map(Connection::H1))
        }
    };
    if connection.is_some() {
        pool.metrics.connections_reused.increment();
    }
    connection
}

/// Opens a connection to the server at `position`, or joins others that wait for the same one.
pub async fn open<S: Sock>(
    pool: &WorkerPool<S>,
    position: usize,
    need: Need,
    opener: &Opener,
) -> Result<Connection<S>, UpstreamFault> {
    let server = &pool.servers[position];
    let compiled = &pool.compiled.servers[position];
    if need.upgrade == Upgrade::WebSocket
        && let Some(shared) = Box::pin(websocket::open(pool, position, need, opener)).await?
    {
        return Ok(shared);
    }
    match wanted(pool, position, need) {
        want @ (Wanted::H1 | Wanted::FastCgi | Wanted::Bare) => open_own(pool, server, compiled, want, need, opener).await,
        want @ (Wanted::H2 | Wanted::Either) => open_shared(pool, server, compiled, want, need, opener).await,
    }
}

/// Opens a connection that is nobody else's before or after, and on which nothing is known to be spoken.
pub async fn open_bare<S: Sock>(
    pool: &WorkerPool<S>,
    position: usize,
    need: Need,
    opener: &Opener,
) -> Result<Box<H1Connection<S>>, UpstreamFault> {
    match open_own(pool, &pool.servers[position], &pool.compiled.servers[position], Wanted::Bare, need, opener).await? {
        Connection::H1(connection) => Ok(connection),
        Connection::H2(_) | Connection::FastCgi(_) => Err(UpstreamFault::unsent(UpstreamError::ConnectFailed)),
    }
}

fn wanted<S: Sock>(pool: &WorkerPool<S>, position: usize, need: Need) -> Wanted {
    protocol_wanted(pool.compiled.model.protocol, pool.compiled.servers[position].tls_name.is_some(), need)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    H1,
    H2,
    /// What ALPN settles.
    Either,
    FastCgi,
    /// A fresh connection for whatever its client speaks.
    Bare,
}

impl Wanted {
    /// Whether requests of one client may share the connection, as those over HTTP/2 do.
    fn may_be_shared(self) -> bool {
        match self {
            Wanted::H2 | Wanted::Either => true,
            Wanted::H1 | Wanted::FastCgi | Wanted::Bare => false,
        }
    }

    /// Whether a connection that one request has for itself, and that is kept behind it, is of use.
    fn may_be_kept(self) -> bool {
        match self {
            Wanted::H1 | Wanted::Either | Wanted::FastCgi => true,
            Wanted::H2 | Wanted::Bare => false,
        }
    }
}

fn protocol_wanted(protocol: Protocol, tls: bool, need: Need) -> Wanted {
    match (protocol, tls) {
        (Protocol::FastCgi, _) => Wanted::FastCgi,
        (Protocol::Http1, _) => Wanted::H1,
        _ if need.upgrade != Upgrade::None => Wanted::H1,
        (Protocol::H2 | Protocol::H2c, _) => Wanted::H2,
        (Protocol::Auto, true) => Wanted::Either,
        (Protocol::Auto, false) if need.prefers_h2 => Wanted::H2,
        (Protocol::Auto, false) => Wanted::H1,
    }
}

/// Opens a connection that may turn out to be HTTP/2. Requests that arrive meanwhile wait for it instead of opening one
/// each, and share its failure: a server that hangs must not hang for everybody in ticket.
async fn open_shared<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
    need: Need,
    opener: &Opener,
) -> Result<Connection<S>, UpstreamFault> {
    let client = need.client.as_ref();
    let stream_until = rt::now() + pool.compiled.model.bounds.queue_timeout;
    let slot = loop {
        if let Some(lease) = join(server, want, &need).await? {
            pool.metrics.connections_reused.increment();
            return Ok(Connection::H2(lease));
        }
        if server.h2.is_withheld(client) {
            match wait_for_stream(pool, server, compiled, client, stream_until, &opener.took).await? {
                Some(lease) => return Ok(Connection::H2(lease)),
                None => continue,
            }
        }
        let slot = match wait_for_slot(pool, server, compiled, want, client, &opener.took).await? {
            Slot::Free(slot) => slot,
            Slot::Connection(connection) => return Ok(connection),
        };
        // While this one stood in the queue.
        if joinable(server, want, client).is_none() && !server.h2.is_withheld(client) {
            break slot;
        }
    };
    let opening = server.h2.begin_opening(need.client);
    let outcome = open_at(pool, server, compiled, want, need, opener, slot).await;
    if let Err(fault) = &outcome {
        opening.failed(fault.error);
    }
    drop(opening);
    if let Some(connection) = outcome? {
        return Ok(connection);
    }
    let lease = wait_for_stream(pool, server, compiled, client, stream_until, &opener.took).await?;
    // The server ended it before it took anything.
    lease.map(Connection::H2).ok_or(UpstreamFault::unsent(UpstreamError::ClosedEarly))
}

/// Somebody else's attempt at a connection. A server of which nothing is known yet may speak HTTP/1.1 only; then
/// everybody opens their own after the first has found out.
fn joinable<S: Sock>(server: &Server<S>, want: Wanted, client: Option<&Client>) -> Option<h2::OpeningConnection> {
    server.h2.opening(client).filter(|_| server.h2.is_expected(want == Wanted::H2))
}

/// A place on a connection that somebody else opens, as long as there is one that has room.
async fn join<S: Sock>(server: &Server<S>, want: Wanted, need: &Need) -> Result<Option<h2::Lease>, UpstreamFault> {
    let until = rt::now() + need.connect;
    while let Some(attempt) = joinable(server, want, need.client.as_ref()) {
        match rt::timeout(until.saturating_duration_since(rt::now()), attempt.wait()).await {
            None => return Err(UpstreamFault::unsent(UpstreamError::ConnectTimeout)),
            Some(Some(error)) => return Err(UpstreamFault::unsent(error)),
            Some(None) => {}
        }
        if let Some(lease) = server.h2.lease(need.client.as_ref()) {
            return Ok(Some(lease));
        }
    }
    Ok(None)
}

/// A stream of a server that takes none for now (SETTINGS_MAX_CONCURRENT_STREAMS of 0), once it takes some again. As
/// many wait as for connections, and for as long. `None`: no such connection is there any more.
async fn wait_for_stream<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    client: Option<&Client>,
    until: Instant,
    took: &Cell<OpeningTook>,
) -> Result<Option<h2::Lease>, UpstreamFault> {
    let Some(_place) = compiled.shared.awaiting_stream.enter(pool.compiled.model.bounds.queue) else {
        pool.metrics.queue_refused.increment();
        return Err(UpstreamFault::unsent(UpstreamError::PoolFull));
    };
    let queued = Queued::new(&pool.metrics);
    let outcome = loop {
        if let Some(lease) = server.h2.lease(client) {
            break Ok(Some(lease));
        }
        if !server.h2.is_withheld(client) {
            break Ok(None);
        }
        let left = until.saturating_duration_since(rt::now());
        if left.is_zero() {
            break Err(UpstreamFault::unsent(UpstreamError::QueueTimeout));
        }
        if server.gone().is_set() {
            break Err(UpstreamFault::unsent(UpstreamError::ConnectFailed));
        }
        rt::sleep(left.min(QUEUE_POLL)).await;
    };
    let before = took.get();
    took.set(OpeningTook { queue: before.queue + queued.waited(), ..before });
    outcome
}

/// Opens a connection that nobody else waits for.
async fn open_own<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
    need: Need,
    opener: &Opener,
) -> Result<Connection<S>, UpstreamFault> {
    let slot = match wait_for_slot(pool, server, compiled, want, need.client.as_ref(), &opener.took).await? {
        Slot::Free(slot) => slot,
        Slot::Connection(connection) => return Ok(connection),
    };
    let opened = open_at(pool, server, compiled, want, need, opener, slot).await?;
    opened.ok_or(UpstreamFault::unsent(UpstreamError::ConnectFailed))
}

/// Opens a connection in its place, within `timeout connect`, TLS included. `None`: it is there, and its server has yet
/// to say that it takes requests.
async fn open_at<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
    need: Need,
    opener: &Opener,
    slot: OpenSlot,
) -> Result<Option<Connection<S>>, UpstreamFault> {
    let established = establish_in_time(pool, server, compiled, want, need, opener).await;
    let Established { stream, is_h2, connect, tls } = established.map_err(UpstreamFault::unsent)?;
    opener.took.set(OpeningTook { connect, tls, ..opener.took.get() });
    pool.metrics.connections_opened.increment();
    pool.compiled.shared.awaiting.note_reached();
    let lifespan = Lifespan::new(&pool.compiled.model.keep_alive, opener.random, rt::now());
    let owner = need.client.map(|client| Box::new(Owner { client, connection: opener.client.clone() }));
    let fresh = Fresh { stream, slot, lifespan, owner };
    if is_h2 {
        server.h2.add(fresh, h2_terms(pool, server, compiled, need.head_limits));
        return Ok(server.h2.lease_newest().map(Connection::H2));
    }
    match want {
        Wanted::FastCgi => return Ok(Some(Connection::FastCgi(H1Connection::fresh(fresh)))),
        Wanted::H1 | Wanted::H2 | Wanted::Either => server.h2.learn_http1(),
        Wanted::Bare => {}
    }
    Ok(Some(Connection::H1(H1Connection::fresh(fresh))))
}

/// Of a connection of HTTP/2 that a request waits for.
fn h2_terms<'p, S: Sock>(
    pool: &'p WorkerPool<S>,
    server: &Server<S>,
    compiled: &'p CompiledServer,
    limits: HeadLimits,
) -> h2::ConnectionTerms<'p> {
    let (worker, metrics) = (server.worker(), &pool.metrics);
    h2::ConnectionTerms { pool: &pool.compiled.name, server: &compiled.authority, metrics, worker, limits, is_ahead: false }
}

enum Slot<S: Sock> {
    Free(OpenSlot),
    Connection(Connection<S>),
}

/// A place under `max-connections`. While there is none, requests wait in the order of their arrival, over all workers:
/// for connections that become idle here, and for the places of those that become idle in other workers, which are
/// closed for us.
async fn wait_for_slot<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
    client: Option<&Client>,
    took: &Cell<OpeningTook>,
) -> Result<Slot<S>, UpstreamFault> {
    let bounds = &pool.compiled.model.bounds;
    let queue = &compiled.shared.queue;
    if queue.is_empty()
        && let Some(slot) = free_slot(server, compiled, want, client)
    {
        return Ok(Slot::Free(slot));
    }
    let until = rt::now() + bounds.queue_timeout;
    let Some(ticket) = queue.join(server.worker(), bounds.queue) else {
        pool.metrics.queue_refused.increment();
        return Err(UpstreamFault::unsent(UpstreamError::PoolFull));
    };
    let queued = Queued::new(&pool.metrics);
    let waited = || took.set(OpeningTook { queue: queued.waited(), ..took.get() });
    let mut is_called = false;
    loop {
        if (is_called || ticket.is_first())
            && let Some(slot) = free_slot(server, compiled, want, client)
        {
            waited();
            return Ok(Slot::Free(slot));
        }
        if want.may_be_shared()
            && let Some(lease) = server.h2.lease(client)
        {
            waited();
            return Ok(Slot::Connection(Connection::H2(lease)));
        }
        if want.may_be_kept()
            && (is_called || ticket.is_first())
            && let Some(connection) = server.take_idle(rt::now(), true, client, &pool.metrics)
        {
            waited();
            let kept = if want == Wanted::FastCgi { Connection::FastCgi(connection) } else { Connection::H1(connection) };
            return Ok(Slot::Connection(kept));
        }
        let left = until.saturating_duration_since(rt::now());
        if left.is_zero() {
            waited();
            return Err(UpstreamFault::unsent(UpstreamError::QueueTimeout));
        }
        if server.gone().is_set() {
            waited();
            return Err(UpstreamFault::unsent(UpstreamError::ConnectFailed));
        }
        // Streams of HTTP/2 connections that others of this worker opened are looked for.
        is_called = rt::timeout(left.min(QUEUE_POLL), ticket.wait()).await.is_some();
    }
}

/// A place under `max-connections`. Where connections are not shared by clients, or an idle one is of no use, one that
/// is idle makes room.
fn free_slot<S: Sock>(server: &Server<S>, compiled: &CompiledServer, want: Wanted, client: Option<&Client>) -> Option<OpenSlot> {
    let max = compiled.connections_max();
    let free = compiled.shared.try_open(max);
    if free.is_none() && (client.is_some() || want == Wanted::Bare) && server.end_an_idle_one() {
        return compiled.shared.try_open(max);
    }
    free
}

/// An open connection, and what it took.
struct Established<S: Sock> {
    stream: Stream<S>,
    is_h2: bool,
    connect: Duration,
    tls: Option<Duration>,
}

/// Within `timeout connect`, TLS included, and for as long as the server is in a pool: an address that nobody has any
/// more answers nothing.
async fn establish_in_time<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
    need: Need,
    opener: &Opener,
) -> Result<Established<S>, UpstreamError> {
    let mut establishing = pin!(establish(pool, server, compiled, want, need, opener));
    let soon = need.connect.min(CONNECTED_SOON);
    if let Some(established) = rt::timeout(soon, establishing.as_mut()).await {
        return established;
    }
    let rest = rt::timeout(need.connect.saturating_sub(soon), unless_gone(server, establishing));
    // Boxed, as every branch that the common request does not take.
    match Box::pin(rest).await {
        Some(Some(established)) => established,
        Some(None) => {
            let cause = io::Error::new(io::ErrorKind::NotConnected, "the server has left the pool");
            log_cause(&pool.compiled, compiled, UpstreamError::ConnectFailed, &cause, opener.request.as_deref());
            Err(UpstreamError::ConnectFailed)
        }
        None => Err(UpstreamError::ConnectTimeout),
    }
}

/// `None`: the server has left its pool before.
async fn unless_gone<S: Sock, T>(server: &Server<S>, mut doing: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let gone = server.gone().waiter();
    poll_fn(|cx| match doing.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => gone.poll_set(cx).map(|()| None),
    })
    .await
}

async fn establish<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
    need: Need,
    opener: &Opener,
) -> Result<Established<S>, UpstreamError> {
    let request = opener.request.as_deref();
    let began = rt::now();
    let sock = connect(pool, server, compiled, need.connect, request).await?;
    let connect = time_of(pool, UpstreamTime::Connect, began);
    let stream = Stream::plain(sock);
    stream.sock.set_write_idle(pool.compiled.model.timeouts.first_byte);
    if let (Some(protocol), Some(client)) = (pool.compiled.model.send_proxy_protocol, &need.client) {
        introduce(&stream, protocol, client, opener.introduction.as_deref()).await.map_err(|error| {
            log_cause(&pool.compiled, compiled, UpstreamError::ConnectFailed, &error, request);
            UpstreamError::ConnectFailed
        })?;
    }
    let (Some(name), Some(configs)) = (&compiled.tls_name, &pool.compiled.tls) else {
        return Ok(Established { stream, is_h2: want == Wanted::H2, connect, tls: None });
    };
    let began = rt::now();
    stream.sock.set_read_limit(ReadLimit::Idle(need.connect));
    let outcome = async {
        stream.begin_tls_client(tls_config(configs, want), name.clone())?;
        stream.handshake().await
    };
    let facts = match outcome.await {
        Ok(facts) => facts,
        Err(error) => {
            let fault = tls_error(&error);
            log_cause(&pool.compiled, compiled, fault, &error, request);
            // The alert that tells the server why.
            let _ = stream.flush().await;
            return Err(fault);
        }
    };
    let tls = Some(time_of(pool, UpstreamTime::TlsHandshake, began));
    match want {
        Wanted::H2 if !facts.h2 => Err(UpstreamError::TlsFailed),
        Wanted::H1 | Wanted::H2 | Wanted::Either | Wanted::FastCgi | Wanted::Bare => {
            Ok(Established { stream, is_h2: facts.h2, connect, tls })
        }
    }
}

fn time_of<S: Sock>(pool: &WorkerPool<S>, time: UpstreamTime, began: Instant) -> Duration {
    let took = rt::now().saturating_duration_since(began);
    pool.metrics.record(time, took);
    took
}

/// Says whose connection it is, before anything else and before TLS.
async fn introduce<S: Sock>(
    stream: &Stream<S>,
    protocol: ProxyProtocol,
    Client { source, destination }: &Client,
    extensions: Option<&Extensions>,
) -> io::Result<()> {
    let version = match (protocol, extensions) {
        (ProxyProtocol::V1, _) => HeaderVersion::V1,
        (ProxyProtocol::V2(_), None) => HeaderVersion::V2,
        (ProxyProtocol::V2(_), Some(extensions)) => {
            return stream.write(Buf::copy_of(&encode_with(*source, *destination, extensions))).await;
        }
    };
    stream.write(Buf::copy_of(proxy_protocol::encode(version, *source, *destination).as_bytes())).await
}

fn tls_config(configs: &UpstreamTlsConfigs, want: Wanted) -> &Arc<rustls::ClientConfig> {
    match want {
        Wanted::H1 => &configs.http1,
        Wanted::H2 => &configs.h2,
        Wanted::Either => &configs.any,
        Wanted::FastCgi | Wanted::Bare => &configs.bare,
    }
}

/// Connects to one of the server's addresses, or to its socket.
async fn connect<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    limit: Duration,
    request: Option<&str>,
) -> Result<S, UpstreamError> {
    let failed = |fault: &io::Error| log_cause(&pool.compiled, compiled, connect_error(fault), fault, request);
    let connected = match &compiled.addresses {
        ServerAddresses::Tcp(addresses) => eyeballs::connect(addresses, &server.address_turn, limit, S::connect, failed).await,
        // Boxed, as every branch that the common request does not take.
        ServerAddresses::Unix(path) => Box::pin(S::connect_unix(path)).await.inspect_err(failed).map_err(Some),
    };
    connected.map_err(|fault| fault.as_ref().map_or(UpstreamError::ResolveFailed, connect_error))
}

fn connect_error(error: &io::Error) -> UpstreamError {
    match error.kind() {
        io::ErrorKind::TimedOut => UpstreamError::ConnectTimeout,
        _ => UpstreamError::ConnectFailed,
    }
}

#[cfg(test)]
pub(crate) mod tests;
