//! A pool: the servers a `proxy` step chooses from, and how connections to them are made and kept. How servers are
//! found that nobody wrote is in `discover`; how one that fails is noticed, left and tried again, in `resilience`.

use crate::address::{Scheme, UpstreamAddress};
use crate::balance::{Balance, Sticky};
use crate::discover::Discover;
use crate::origin::Origin;
use crate::pem::Pem;
use crate::resilience::{Health, Hedge, Outlier, Retry};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A pool's identity over reloads: its name, or for a pool written in place what it contains.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolName(pub Arc<str>);

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    pub name: PoolName,
    /// Where it comes from, if that is known.
    pub origin: Option<Arc<Origin>>,
    /// In file order. Empty where `discover` is not, and where the pool is declared so.
    pub servers: Vec<Server>,
    /// Where more servers come from, in file order.
    pub discover: Vec<Discover>,
    pub balance: Balance,
    /// Where this proxy stands: servers of the same zone are preferred.
    pub zone: Option<Arc<str>>,
    pub sticky: Option<Sticky>,
    /// `None`: servers are not asked.
    pub health: Option<Health>,
    /// `None`: what servers do with requests is not held against them.
    pub outlier: Option<Outlier>,
    /// How long a server that comes into use takes to its full share; zero is none.
    pub slow_start: Duration,
    pub timeouts: Timeouts,
    /// `None`: a request is sent once.
    pub retry: Option<Retry>,
    pub hedge: Option<Hedge>,
    pub bounds: Bounds,
    pub keep_alive: KeepAlive,
    pub protocol: Protocol,
    /// How servers with an `https` address are spoken to.
    pub tls: UpstreamTls,
    /// The header that each connection begins with, to say whose it is.
    pub send_proxy_protocol: Option<ProxyProtocol>,
}

impl Pool {
    /// Whether it is declared to have no server at all, now and as long as nobody changes it.
    pub fn is_declared_empty(&self) -> bool {
        self.servers.is_empty() && self.discover.is_empty()
    }

    /// Servers with every setting as it is when nothing is written.
    pub fn new(name: PoolName, servers: Vec<Server>) -> Pool {
        Pool {
            name,
            origin: None,
            servers,
            discover: Vec::new(),
            balance: Balance::default(),
            zone: None,
            sticky: None,
            health: None,
            outlier: Some(Outlier::default()),
            slow_start: Duration::ZERO,
            timeouts: Timeouts::default(),
            retry: Some(Retry::default()),
            hedge: None,
            bounds: Bounds::default(),
            keep_alive: KeepAlive::default(),
            protocol: Protocol::default(),
            tls: UpstreamTls::default(),
            send_proxy_protocol: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub address: UpstreamAddress,
    /// Share of the traffic, 1 to 256.
    pub weight: u32,
    /// Servers of a higher number are used only when none of a lower one can be. 0 to [`Server::PRIORITY_MAX`]; a
    /// backup is 1.
    pub priority: u8,
    /// Where it stands.
    pub zone: Option<Arc<str>>,
    pub bounds: ServerBounds,
}

/// How much one server is asked to do at a time; what is `None` is as the pool says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerBounds {
    pub connections: Option<u32>,
    /// In flight.
    pub requests: Option<u32>,
}

impl Server {
    pub const WEIGHT_MAX: u32 = 256;
    pub const PRIORITY_MAX: u8 = 7;
    /// What `backup=#true` means.
    pub const BACKUP: u8 = 1;

    /// A server as an address alone means it.
    pub fn new(address: UpstreamAddress) -> Server {
        Server { address, weight: 1, priority: 0, zone: None, bounds: ServerBounds::default() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// From the last byte of the request sent to the first byte of the answer.
    pub first_byte: Duration,
    /// Between two bytes of a body, a stream or a tunnel.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { connect: Duration::from_secs(5), first_byte: Duration::from_secs(60), idle: Duration::from_secs(3600) }
    }
}

/// How much a server is asked to do at a time, over all workers, and what happens to requests beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Connections to each server; `None` is unbounded.
    pub connections_per_server: Option<u32>,
    /// Requests in flight at each server; `None` is unbounded.
    pub requests_per_server: Option<u32>,
    /// Requests in flight in the whole pool; `None` is unbounded.
    pub requests_per_pool: Option<u32>,
    /// Requests that wait in the pool when a bound is reached; those beyond are refused at once.
    pub queue: u32,
    /// How long one waits.
    pub queue_timeout: Duration,
    /// Learns from latency how many requests each server can have in flight.
    pub adaptive: Option<Adaptive>,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            connections_per_server: None,
            requests_per_server: None,
            requests_per_pool: None,
            queue: 1024,
            queue_timeout: Duration::from_secs(5),
            adaptive: None,
        }
    }
}

impl Bounds {
    /// The most that can be written of connections and of requests.
    pub const COUNT_MAX: u32 = 1_000_000;

    /// What holds for a server that has bounds of its own.
    pub fn and(self, server: ServerBounds) -> Bounds {
        Bounds {
            connections_per_server: server.connections.or(self.connections_per_server),
            requests_per_server: server.requests.or(self.requests_per_server),
            ..self
        }
    }

    /// Whether requests in flight have to be counted over all workers.
    pub fn counts_requests(&self) -> bool {
        self.requests_per_server.is_some() || self.requests_per_pool.is_some() || self.adaptive.is_some()
    }
}

/// The bound of requests in flight at a server that is learnt stays between these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adaptive {
    pub least: u32,
    pub most: u32,
}

impl Default for Adaptive {
    fn default() -> Self {
        Adaptive { least: 4, most: 1000 }
    }
}

/// How long connections to servers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle connections that each worker keeps to each server.
    pub connections: u32,
    /// Without a request for so long, a connection is closed; what a server announces or is seen to do may make it
    /// less.
    pub idle: Duration,
    /// Requests on one connection, less up to a tenth by chance so that not all end at once; `None` is unbounded.
    pub requests: Option<u32>,
    /// Age of a connection after which it gets no new request, less up to a tenth by chance; `None` is unbounded.
    pub age: Option<Duration>,
    /// Connections that each worker holds open to each server before they are needed.
    pub warm: u32,
    /// A silent HTTP/2 connection with requests on it is asked for a sign of life after so long, and given up after as
    /// long again; `None` is never.
    pub ping: Option<Duration>,
}

impl Default for KeepAlive {
    fn default() -> Self {
        KeepAlive {
            connections: KeepAlive::CONNECTIONS_MAX,
            idle: Duration::from_secs(55),
            requests: None,
            age: None,
            warm: 0,
            ping: Some(Duration::from_secs(30)),
        }
    }
}

impl KeepAlive {
    pub const CONNECTIONS_MAX: u32 = 512;

    /// As it is when nothing is written. Of FastCGI none is kept: PHP-FPM gives each connection a process of its own,
    /// and one that is idle is missing elsewhere.
    pub fn of(protocol: Protocol) -> KeepAlive {
        match protocol {
            Protocol::Auto | Protocol::Http1 | Protocol::H2 | Protocol::H2c => KeepAlive::default(),
            Protocol::FastCgi => KeepAlive { connections: 0, idle: Duration::from_secs(10), ..KeepAlive::default() },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Over TLS what ALPN settles; in plain text HTTP/1.1, and h2c for gRPC requests, which nothing else can carry.
    #[default]
    Auto,
    Http1,
    H2,
    H2c,
    /// Requests are answered by scripts.
    FastCgi,
}

impl Protocol {
    pub const NAMES: &'static [(&'static str, Protocol)] = &[
        ("auto", Protocol::Auto),
        ("http1", Protocol::Http1),
        ("h2", Protocol::H2),
        ("h2c", Protocol::H2c),
        ("fastcgi", Protocol::FastCgi),
    ];

    pub fn name(self) -> &'static str {
        Protocol::NAMES.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }

    /// Whether requests go as they are, and not as what a script is told of them.
    pub fn is_http(self) -> bool {
        match self {
            Protocol::Auto | Protocol::Http1 | Protocol::H2 | Protocol::H2c => true,
            Protocol::FastCgi => false,
        }
    }

    /// Whether it is HTTP/2 whatever a handshake settles.
    pub fn is_always_h2(self) -> bool {
        match self {
            Protocol::H2 | Protocol::H2c => true,
            Protocol::Auto | Protocol::Http1 | Protocol::FastCgi => false,
        }
    }

    /// Whether addresses have to have TLS, or must not have it; `None` where either will do.
    pub fn only_scheme(self) -> Option<Scheme> {
        match self {
            Protocol::H2 => Some(Scheme::Https),
            Protocol::H2c | Protocol::FastCgi => Some(Scheme::Http),
            Protocol::Auto | Protocol::Http1 => None,
        }
    }
}

/// A connection begins with who the client is, so connections are not shared by clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    V1,
    V2(ProxyFacts),
}

impl ProxyProtocol {
    pub const NAMES: &'static [(&'static str, ProxyProtocol)] =
        &[("v1", ProxyProtocol::V1), ("v2", ProxyProtocol::V2(ProxyFacts::NONE))];

    /// What a header says besides the addresses.
    pub fn facts(self) -> ProxyFacts {
        match self {
            ProxyProtocol::V1 => ProxyFacts::NONE,
            ProxyProtocol::V2(facts) => facts,
        }
    }
}

/// What a header of version 2 can say of a client's connection besides its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyFact {
    /// The name that the client has asked for in its TLS handshake.
    Authority,
    /// What is spoken on the connection.
    Alpn,
    /// An identifier that the log has as well.
    UniqueId,
    /// Version, cipher suite, and whom the client's certificate names.
    Tls,
    /// Over the header itself.
    Checksum,
}

impl ProxyFact {
    pub const NAMES: &'static [(&'static str, ProxyFact)] = &[
        ("authority", ProxyFact::Authority),
        ("alpn", ProxyFact::Alpn),
        ("unique-id", ProxyFact::UniqueId),
        ("ssl", ProxyFact::Tls),
        ("crc32c", ProxyFact::Checksum),
    ];
}

/// Some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyFacts(u8);

impl ProxyFacts {
    pub const NONE: ProxyFacts = ProxyFacts(0);

    #[must_use]
    pub fn with(self, fact: ProxyFact) -> ProxyFacts {
        ProxyFacts(self.0 | 1 << fact as u8)
    }

    pub fn has(self, fact: ProxyFact) -> bool {
        self.0 & 1 << fact as u8 != 0
    }

    pub fn is_empty(self) -> bool {
        self == ProxyFacts::NONE
    }

    /// The words for them, in the order of the list.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        ProxyFact::NAMES.iter().filter(move |(_, fact)| self.has(*fact)).map(|(name, _)| *name)
    }
}

/// Verified by default, against the system's roots and the server's own name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// The bundle to trust instead of the system's roots.
    pub ca: Option<Pem>,
    /// Name to ask for and to verify, instead of the address's host.
    pub sni: Option<String>,
    /// Client certificate chain and key.
    pub client_certificate: Option<(Pem, Pem)>,
    pub verify: bool,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        UpstreamTls { ca: None, sni: None, client_certificate: None, verify: true }
    }
}
