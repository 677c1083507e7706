//! FastCGI servers as one worker has them: their addresses, the connections that are kept, and how one is made. What is
//! said on a connection is in `reply` and `params`.

use super::compiled::CompiledFastCgi;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_fastcgi::Pairs;
use tidegate_model::{FastCgiAddress, FastCgiKeepAlive};
use tidegate_telemetry::{EventGate, PoolMetrics, Registry, UpstreamError};
use tidegate_transport::rt::{self, Signal};
use tidegate_transport::{Sock, Stream};
use tidegate_upstream::connect::eyeballs;

/// All params of a request: each byte of a path is in several of them, and heads may be 64 KiB and more.
pub const PARAMS_BYTES_MAX: usize = 512 << 10;
/// How long the addresses of a name are used before it is looked up again.
const ADDRESSES_LIFE: Duration = Duration::from_secs(10);
/// A server that had no request for so long is forgotten, with what was learnt of it.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// Failures to connect that a process logs per second.
static CAUSES: EventGate = EventGate::new(5);

/// The FastCGI servers that this worker has had requests for.
pub struct FastCgiServers<S: Sock> {
    known: RefCell<HashMap<Arc<str>, Rc<FastCgiServer<S>>>>,
    /// Where the params of a request are gathered.
    pub pairs: RefCell<Pairs>,
}

impl<S: Sock> Default for FastCgiServers<S> {
    fn default() -> Self {
        FastCgiServers { known: RefCell::default(), pairs: RefCell::new(Pairs::new(PARAMS_BYTES_MAX)) }
    }
}

/// A FastCGI server as a worker has it. Its numbers stand beside those of pools, under its address.
pub struct FastCgiServer<S: Sock> {
    pub name: Arc<str>,
    address: FastCgiAddress,
    /// The one that became idle last at the back.
    idle: RefCell<VecDeque<Idle<S>>>,
    pub metrics: Arc<PoolMetrics>,
    used: Cell<Instant>,
    names: Rc<Addresses>,
    /// The position among the addresses to try first.
    turn: Cell<usize>,
}

struct Idle<S: Sock> {
    stream: Box<Stream<S>>,
    until: Instant,
}

impl<S: Sock> Drop for FastCgiServer<S> {
    fn drop(&mut self) {
        self.metrics.connections_idle.add(-(self.idle.borrow().len() as i64));
    }
}

impl<S: Sock> FastCgiServers<S> {
    /// The server that a step names.
    pub fn server(&self, step: &CompiledFastCgi, worker: usize, registry: &Registry) -> Rc<FastCgiServer<S>> {
        let now = rt::now();
        if let Some(server) = self.known.borrow().get(&step.name) {
            server.used.set(now);
            return server.clone();
        }
        let server = Rc::new(FastCgiServer {
            name: step.name.clone(),
            address: step.address.clone(),
            idle: RefCell::default(),
            metrics: registry.pool(worker, &step.name),
            used: Cell::new(now),
            names: Rc::default(),
            turn: Cell::new(0),
        });
        self.known.borrow_mut().insert(step.name.clone(), server.clone());
        server
    }

    /// Closes connections that were idle for long enough or that the server has closed.
    pub fn sweep(&self, now: Instant) {
        let mut known = self.known.borrow_mut();
        for server in known.values() {
            server.sweep(now);
        }
        known.retain(|_, server| {
            Rc::strong_count(server) > 1
                || !server.idle.borrow().is_empty()
                || now.saturating_duration_since(server.used.get()) < FORGOTTEN_AFTER
        });
    }
}

impl<S: Sock> FastCgiServer<S> {
    /// A kept connection. `certain`: the request must not be sent twice, so the kernel is asked whether the connection
    /// still stands.
    pub fn take_idle(&self, certain: bool, now: Instant) -> Option<Box<Stream<S>>> {
        loop {
            let idle = self.idle.borrow_mut().pop_back()?;
            self.metrics.connections_idle.decrement();
            let is_stale = || if certain { idle.stream.sock.stale_now() } else { idle.stream.sock.stale() };
            if idle.until > now && !is_stale() {
                self.metrics.connections_reused.increment();
                return Some(idle.stream);
            }
        }
    }

    pub fn put_idle(&self, stream: Box<Stream<S>>, keep: &FastCgiKeepAlive, now: Instant) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < keep.connections as usize {
            idle.push_back(Idle { stream, until: now + keep.idle });
            self.metrics.connections_idle.increment();
        }
    }

    fn sweep(&self, now: Instant) {
        self.idle.borrow_mut().retain(|idle| {
            let stays = idle.until > now && !idle.stream.sock.stale();
            if !stays {
                self.metrics.connections_idle.decrement();
            }
            stays
        });
    }

    /// A new connection, within `limit`; the look-up of its name is a part of that.
    pub async fn connect(&self, limit: Duration) -> Result<Box<Stream<S>>, UpstreamError> {
        let sock = match rt::timeout(limit, self.reach(limit)).await {
            Some(reached) => reached?,
            None => {
                let cause = match self.address {
                    FastCgiAddress::Unix(_) => "nobody took the connection in time: all of its processes are busy, or it hangs",
                    FastCgiAddress::Tcp { .. } => "no connection in time",
                };
                self.log_cause(UpstreamError::ConnectTimeout, &cause);
                return Err(UpstreamError::ConnectTimeout);
            }
        };
        self.metrics.connections_opened.increment();
        Ok(Box::new(Stream::plain(sock)))
    }

    async fn reach(&self, limit: Duration) -> Result<S, UpstreamError> {
        let connected = match &self.address {
            FastCgiAddress::Unix(path) => S::connect_unix(path).await,
            FastCgiAddress::Tcp { host, port } => {
                let addresses = match host.parse::<IpAddr>() {
                    Ok(ip) => Rc::new([SocketAddr::new(ip, *port)]),
                    Err(_) => self.names.of(host, *port).await.map_err(|error| {
                        self.log_cause(UpstreamError::ResolveFailed, &error);
                        UpstreamError::ResolveFailed
                    })?,
                };
                let connected = eyeballs::connect(&addresses, &self.turn, limit, S::connect, |_| ()).await;
                connected.map_err(|fault| fault.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
            }
        };
        connected.map_err(|error| {
            self.log_cause(UpstreamError::ConnectFailed, &error);
            UpstreamError::ConnectFailed
        })
    }

    fn log_cause(&self, error: UpstreamError, cause: &dyn std::fmt::Display) {
        if let Some(suppressed) = CAUSES.allow(rt::now()) {
            let server = &self.name;
            tracing::warn!(%server, reason = error.reason(), %cause, suppressed, "a FastCGI server cannot be reached");
        }
    }
}

/// What a name stands for. One look-up is on its way at a time, whoever waits for it, and what was found last is used
/// until another is found: a resolver that is silent takes no server away.
#[derive(Default)]
struct Addresses {
    found: RefCell<Option<(Instant, Rc<[SocketAddr]>)>>,
    under_way: RefCell<Option<Signal>>,
    error: RefCell<Option<String>>,
}

impl Addresses {
    async fn of(self: &Rc<Self>, host: &str, port: u16) -> Result<Rc<[SocketAddr]>, String> {
        if let Some((since, addresses)) = &*self.found.borrow() {
            if since.elapsed() > ADDRESSES_LIFE {
                self.look_up(host, port);
            }
            return Ok(addresses.clone());
        }
        let waiter = self.look_up(host, port).waiter();
        poll_fn(|cx| waiter.poll_set(cx)).await;
        let found = self.found.borrow().as_ref().map(|(_, addresses)| addresses.clone());
        found.ok_or_else(|| self.error.borrow().clone().unwrap_or_else(|| "the name has no address".to_owned()))
    }

    /// Set when the answer is there.
    fn look_up(self: &Rc<Self>, host: &str, port: u16) -> Signal {
        if let Some(signal) = &*self.under_way.borrow() {
            return signal.clone();
        }
        let signal = Signal::default();
        *self.under_way.borrow_mut() = Some(signal.clone());
        let (this, host) = (self.clone(), host.to_owned());
        rt::spawn(async move {
            match rt::look_up(&host, port).await {
                Ok(addresses) if !addresses.is_empty() => *this.found.borrow_mut() = Some((rt::now(), addresses.into())),
                Ok(_) => *this.error.borrow_mut() = None,
                Err(error) => *this.error.borrow_mut() = Some(error.to_string()),
            }
            if let Some(signal) = this.under_way.take() {
                signal.set();
            }
        });
        signal
    }
}
