//! Settings of the whole process: admin endpoint, logs, threads, listener options, limits.

use crate::limiting::Rate;
use crate::listen_address::{ListenerPlace, SocketAccess};
use crate::placeholder::{Placeholder, Template};
use ipnet::IpNet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where metrics, health and the API are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admin {
    Off,
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Default for Admin {
    fn default() -> Self {
        Admin::Tcp(SocketAddr::from(([127, 0, 0, 1], 9180)))
    }
}

/// Text that is never shown: not in messages, not in logs, not in answers of the API.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for comparing with what somebody presents.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    pub target: LogTarget,
    pub format: AccessLogFormat,
}

impl Default for AccessLog {
    fn default() -> Self {
        AccessLog { target: LogTarget::Stdout, format: AccessLogFormat::Json }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum LogTarget {
    Off,
    Stdout,
    Stderr,
    File { path: PathBuf, rotation: Option<Rotation> },
}

/// Rename to `path.1`, `path.2`, … when `size_bytes` is reached; `keep` old files stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    pub size_bytes: u64,
    pub keep: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AccessLogFormat {
    Json,
    /// The Common Log Format with referer and user agent ("combined").
    Common,
    Template(Template),
}

impl AccessLogFormat {
    pub fn has_placeholder(&self, wanted: &Placeholder) -> bool {
        match self {
            AccessLogFormat::Template(template) => template.has(wanted),
            AccessLogFormat::Json | AccessLogFormat::Common => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    pub level: LogLevel,
}

impl Default for Log {
    fn default() -> Self {
        Log { level: LogLevel::Info }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub const NAMES: &'static [(&'static str, LogLevel)] = &[
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
}

/// What moves the bytes of connections, as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverChoice {
    /// What suits this kernel and this process.
    Auto,
    Epoll,
    IoUring,
}

impl DriverChoice {
    pub const NAMES: &'static [(&'static str, DriverChoice)] =
        &[("auto", DriverChoice::Auto), ("epoll", DriverChoice::Epoll), ("io-uring", DriverChoice::IoUring)];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The cgroup's CPU quota, or the cores this process may run on.
    Auto,
    Count(u16),
}

/// Options of one listening address (`listener ":443" { … }`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerOptions {
    pub place: ListenerPlace,
    /// Of a socket of this machine; as by default elsewhere.
    pub access: SocketAccess,
    /// Peers whose `X-Forwarded-*` headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Peers whose connections begin with a header of the PROXY protocol.
    pub proxy_protocol_from: Vec<IpNet>,
    /// `websocket-over-http2`: whether clients are offered WebSockets on streams of HTTP/2 (RFC 8441).
    pub websocket_over_http2: bool,
}

/// Bounds on what a client may send. Each has its name in the file, which refusals repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `header-bytes`: a whole request or response head.
    pub header_bytes: usize,
    /// `request-line`: method, target and version.
    pub request_line_bytes: usize,
    /// `header-count`
    pub header_count: usize,
    /// `connections-per-ip`: open client connections from one address, over all workers.
    pub connections_per_ip: u32,
    /// `header-timeout`: from the first byte of a head, or the start of a handshake, to its end.
    pub header_timeout: Duration,
    /// `keep-alive`: how long a client connection may wait for its next request.
    pub keep_alive: Duration,
    /// `body-rate`: bytes a second below which a request body counts as stalled.
    pub body_rate_bytes: u64,
    /// `h2-streams`: concurrent streams of one HTTP/2 connection.
    pub h2_streams: u32,
    /// `handshakes-per-network`: TLS handshakes of one IPv4 address or IPv6 /64, over all workers. The count of the
    /// rate may come at once.
    pub handshakes_per_network: Option<Rate>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            header_bytes: 64 << 10,
            request_line_bytes: 16 << 10,
            header_count: 128,
            connections_per_ip: 10_000,
            header_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            body_rate_bytes: 100,
            h2_streams: 256,
            handshakes_per_network: None,
        }
    }
}

/// Where keys of session tickets come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TicketKeySource {
    /// The process's own, which rotate.
    #[default]
    Own,
    /// The one that encrypts first.
    Files(Vec<PathBuf>),
    /// The storage, in which hosts make them for each other.
    Shared,
}

impl TicketKeySource {
    pub fn files(&self) -> &[PathBuf] {
        match self {
            TicketKeySource::Files(files) => files,
            TicketKeySource::Own | TicketKeySource::Shared => &[],
        }
    }
}

/// What the process may use of the machine's memory. Near the bound new requests are refused, so that those on their
/// way are finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// What the cgroup allows; without such a bound, what the machine has.
    #[default]
    Auto,
    Bytes(u64),
    /// No request is refused for want of memory.
    Off,
}
