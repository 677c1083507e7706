//! Getting a connection to a server: the one used last, or a fresh one, over TLS where the server speaks it.
//! What is sent on it is in `forward`; HTTP/2 connections, which many requests share, are in `h2`.

pub mod h2;
pub mod waiting;

use crate::failure::{Failure, Reach};
use crate::pool::{H1Connection, Server, WorkerPool};
use crate::snapshot::{CompiledServer, UpstreamTlsConfigs};
use crate::survivors::OpenSlot;
use ::h2::client::SendRequest;
use bytes::Bytes;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_model::Protocol;
use tidegate_telemetry::{EventGate, UpstreamError};
use tidegate_transport::{ReadLimit, Sock, Stream, rt};

/// How often a wait for a free connection looks for those that other workers have freed. Only pools with `max-connections` ever wait.
const FULL_POLL: Duration = Duration::from_millis(25);

/// What the request needs of its connection.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// The request must not be sent twice, so the connection must be certain.
    pub certain: bool,
    /// An upgrade, which HTTP/2 has not.
    pub http1_only: bool,
    /// gRPC, which HTTP/1.1 cannot carry.
    pub prefers_h2: bool,
    /// The connection must be a fresh one: a pooled one has just failed.
    pub fresh: bool,
    /// The largest head that an answer may have.
    pub head_bytes_max: usize,
}

pub enum Connection<S: Sock> {
    H1(H1Connection<S>),
    H2(h2::Lease),
}

/// An open connection to the server at `position`, if there is one that will do.
pub fn take<S: Sock>(pool: &WorkerPool<S>, position: usize, need: Need) -> Option<Connection<S>> {
    if need.fresh {
        return None;
    }
    let server = &pool.servers[position];
    let want = wanted(pool, position, need);
    let shared = match want {
        Wanted::H1 => None,
        Wanted::H2 | Wanted::Either => server.h2.lease().map(Connection::H2),
    };
    let connection = match want {
        Wanted::H2 => shared,
        Wanted::H1 | Wanted::Either => {
            shared.or_else(|| server.take_idle(rt::now(), need.certain, &pool.metrics).map(Connection::H1))
        }
    };
    if connection.is_some() {
        pool.metrics.connections_reused.increment();
    }
    connection
}

/// Opens a connection to the server at `position`, or joins others that wait for the same one.
pub async fn open<S: Sock>(pool: &WorkerPool<S>, position: usize, need: Need) -> Result<Connection<S>, Failure> {
    let server = &pool.servers[position];
    let compiled = &pool.compiled.servers[position];
    match wanted(pool, position, need) {
        Wanted::H1 => open_own(pool, server, compiled, Wanted::H1, need).await,
        want @ (Wanted::H2 | Wanted::Either) => open_shared(pool, server, compiled, want, need).await,
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
}

fn protocol_wanted(protocol: Protocol, tls: bool, need: Need) -> Wanted {
    match (protocol, tls) {
        _ if need.http1_only => Wanted::H1,
        (Protocol::Http1, _) => Wanted::H1,
        (Protocol::H2 | Protocol::H2c, _) => Wanted::H2,
        (Protocol::Auto, true) => Wanted::Either,
        (Protocol::Auto, false) if need.prefers_h2 => Wanted::H2,
        (Protocol::Auto, false) => Wanted::H1,
    }
}

/// Opens a connection that may turn out to be HTTP/2. Requests that arrive meanwhile wait for it instead of opening one each, and share its
/// failure: a server that hangs must not hang for everybody in turn.
async fn open_shared<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
    need: Need,
) -> Result<Connection<S>, Failure> {
    let until = rt::now() + pool.compiled.model.timeouts.connect;
    // A server of which nothing is known yet may speak HTTP/1.1 only; then everybody opens their own after the first has found out.
    while server.h2.is_expected(want == Wanted::H2)
        && let Some(attempt) = server.h2.opening()
    {
        match rt::timeout(until.saturating_duration_since(rt::now()), attempt.wait()).await {
            None => return Err(failed(UpstreamError::ConnectTimeout)),
            Some(Some(error)) => return Err(failed(error)),
            Some(None) => {}
        }
        if let Some(lease) = server.h2.lease() {
            pool.metrics.connections_reused.increment();
            return Ok(Connection::H2(lease));
        }
    }
    let opening = server.h2.begin_opening();
    let outcome = open_own(pool, server, compiled, want, need).await;
    if let Err(Failure::Upstream(fault)) = &outcome {
        opening.failed(fault.error);
    }
    outcome
}

/// Opens a connection within `timeout connect`, TLS included.
async fn open_own<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
    need: Need,
) -> Result<Connection<S>, Failure> {
    let limit = pool.compiled.model.timeouts.connect;
    let started = rt::now();
    let slot = match wait_for_slot(pool, server, compiled, want, started + limit).await? {
        Slot::Free(slot) => slot,
        Slot::Connection(connection) => return Ok(connection),
    };
    let opened = rt::timeout(limit, establish(pool, server, compiled, want)).await;
    let outcome = match opened {
        Some(outcome) => outcome,
        None => Err(UpstreamError::ConnectTimeout),
    };
    match outcome {
        Ok((stream, is_h2)) => {
            server.state().cooling_until.set(None);
            pool.metrics.connections_opened.increment();
            if is_h2 {
                let lease = server
                    .h2
                    .add(stream, slot, need.head_bytes_max, &pool.metrics)
                    .await
                    .map_err(|_| failed(UpstreamError::ConnectFailed))?;
                return Ok(Connection::H2(lease));
            }
            server.h2.learn_http1();
            Ok(Connection::H1(H1Connection::fresh(stream, slot)))
        }
        Err(error) => {
            server.state().cooling_until.set(Some(rt::now() + crate::balance::COOL_DOWN));
            Err(failed(error))
        }
    }
}

fn failed(error: UpstreamError) -> Failure {
    Failure::upstream(error, Reach::NothingSent)
}

enum Slot<S: Sock> {
    Free(OpenSlot),
    Connection(Connection<S>),
}

/// A place under `max-connections`. While there is none, connections that become idle here are taken, and those idle in other workers are
/// closed for us; after `timeout connect` the pool counts as full.
async fn wait_for_slot<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
    until: Instant,
) -> Result<Slot<S>, Failure> {
    let max = pool.compiled.model.bounds.connections_per_server;
    if let Some(slot) = compiled.shared.try_open(max) {
        return Ok(Slot::Free(slot));
    }
    let _wanted = compiled.shared.want();
    let turn = server.waiting.join();
    loop {
        // Woken when a connection of this worker becomes free, in the order of arrival; what other workers free is looked for.
        let _ = rt::timeout(FULL_POLL, turn.wait()).await;
        if let Some(slot) = compiled.shared.try_open(max) {
            return Ok(Slot::Free(slot));
        }
        if want != Wanted::H1
            && let Some(lease) = server.h2.lease()
        {
            return Ok(Slot::Connection(Connection::H2(lease)));
        }
        if want != Wanted::H2
            && let Some(connection) = server.take_idle(rt::now(), true, &pool.metrics)
        {
            return Ok(Slot::Connection(Connection::H1(connection)));
        }
        if rt::now() >= until {
            return Err(failed(UpstreamError::PoolFull));
        }
    }
}

async fn establish<S: Sock>(
    pool: &WorkerPool<S>,
    server: &Rc<Server<S>>,
    compiled: &CompiledServer,
    want: Wanted,
) -> Result<(Stream<S>, bool), UpstreamError> {
    let sock = connect(pool, server, compiled).await?;
    let stream = Stream::plain(sock);
    stream.sock.set_write_idle(pool.compiled.model.timeouts.first_byte);
    let (Some(name), Some(configs)) = (&compiled.tls_name, &pool.compiled.tls) else {
        return Ok((stream, want == Wanted::H2));
    };
    stream.sock.set_read_limit(ReadLimit::Idle(pool.compiled.model.timeouts.connect));
    let outcome = async {
        stream.begin_tls_client(tls_config(configs, want), name.clone())?;
        stream.handshake().await
    };
    let facts = outcome.await.map_err(|error| {
        log_cause(pool, compiled, UpstreamError::TlsFailed, &error);
        UpstreamError::TlsFailed
    })?;
    match want {
        Wanted::H2 if !facts.h2 => Err(UpstreamError::TlsFailed),
        Wanted::H1 | Wanted::H2 | Wanted::Either => Ok((stream, facts.h2)),
    }
}

fn tls_config(configs: &UpstreamTlsConfigs, want: Wanted) -> &Arc<rustls::ClientConfig> {
    match want {
        Wanted::H1 => &configs.http1,
        Wanted::H2 => &configs.h2,
        Wanted::Either => &configs.any,
    }
}

/// Tries the server's addresses in turn, beginning with the one that worked last.
async fn connect<S: Sock>(pool: &WorkerPool<S>, server: &Rc<Server<S>>, compiled: &CompiledServer) -> Result<S, UpstreamError> {
    let count = compiled.addresses.len();
    let mut error = UpstreamError::ResolveFailed;
    for step in 0..count {
        let turn = (server.address_turn.get() + step) % count;
        match S::connect(compiled.addresses[turn]).await {
            Ok(sock) => {
                server.address_turn.set(turn);
                return Ok(sock);
            }
            Err(fault) => {
                error = connect_error(&fault);
                log_cause(pool, compiled, error, &fault);
            }
        }
    }
    Err(error)
}

/// Refusals and handshake faults a process logs per second, whatever the load.
static CAUSES: EventGate = EventGate::new(5);

/// Why a server cannot be reached, in the words of the system or of TLS: the reason code alone does not say what to mend.
fn log_cause<S: Sock>(pool: &WorkerPool<S>, compiled: &CompiledServer, error: UpstreamError, cause: &io::Error) {
    if let Some(suppressed) = CAUSES.allow(rt::now()) {
        let (pool, server) = (&pool.compiled.name, &compiled.authority);
        tracing::warn!(%pool, %server, reason = error.reason(), %cause, suppressed, "an upstream server cannot be reached");
    }
}

fn connect_error(error: &io::Error) -> UpstreamError {
    match error.kind() {
        io::ErrorKind::TimedOut => UpstreamError::ConnectTimeout,
        _ => UpstreamError::ConnectFailed,
    }
}

/// A request's handle on an HTTP/2 connection.
pub type H2Sender = SendRequest<Bytes>;
