//! Settings of the whole process: admin endpoint, logs, threads, listener options, limits.

use crate::address::HostPattern;
use crate::limiting::Rate;
use crate::listen_address::{ListenerPlace, SocketAccess};
use crate::placeholder::{Placeholder, Template};
use crate::resilience::StatusRange;
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where metrics, health and the API are served.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Admin {
    /// Nobody said where.
    #[default]
    Default,
    Off,
    /// In file order, at least one; no two at one place.
    At(Vec<AdminEndpoint>),
}

/// One place where they are served, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminEndpoint {
    pub place: AdminPlace,
    pub serves: AdminServes,
    /// What a client of the API has to present. `None`: one that the process makes for itself and keeps in its state
    /// folder.
    pub token: Option<Secret>,
    /// What lets a client of the API look, and change nothing.
    pub read_token: Option<Secret>,
    /// Names, beside those that no site on the internet can have, by which `/metrics` is answered. Exact ones and
    /// wildcards only.
    pub hosts: Vec<HostPattern>,
    /// Nobody wrote it: a process that cannot have it goes on without.
    pub is_implied: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminPlace {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminServes {
    /// The API as well.
    Everything,
    /// `/metrics`, `/healthz` and `/readyz`.
    Metrics,
}

impl AdminServes {
    pub const NAMES: &'static [(&'static str, AdminServes)] =
        &[("everything", AdminServes::Everything), ("metrics", AdminServes::Metrics)];
}

/// The socket in the state folder on which the API is served where no `admin` serves it.
pub const ADMIN_SOCKET: &str = "admin.sock";
/// Where metrics and health are served when no `admin` is written.
pub const ADMIN_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9180);

impl Admin {
    /// All places, those included that nobody wrote: the API is on a socket of the state folder unless somebody on this
    /// machine reaches it elsewhere.
    pub fn endpoints(&self, state_dir: &Path) -> Vec<AdminEndpoint> {
        let socket = AdminEndpoint {
            is_implied: true,
            ..AdminEndpoint::new(AdminPlace::Unix(state_dir.join(ADMIN_SOCKET)), AdminServes::Everything)
        };
        match self {
            Admin::Off => Vec::new(),
            Admin::Default => vec![socket, AdminEndpoint::new(AdminPlace::Tcp(ADMIN_ADDRESS), AdminServes::Metrics)],
            Admin::At(written) if written.iter().any(AdminEndpoint::has_api_for_this_machine) => written.clone(),
            Admin::At(written) => [vec![socket], written.clone()].concat(),
        }
    }
}

impl AdminEndpoint {
    /// A place that asks for no other token than the process's own, and knows no more names.
    pub fn new(place: AdminPlace, serves: AdminServes) -> AdminEndpoint {
        AdminEndpoint { place, serves, token: None, read_token: None, hosts: Vec::new(), is_implied: false }
    }

    /// Whether a command on this machine can use the API there. On an address of the network nobody can before there is
    /// a token.
    fn has_api_for_this_machine(&self) -> bool {
        self.serves == AdminServes::Everything
            && match &self.place {
                AdminPlace::Unix(_) => true,
                AdminPlace::Tcp(address) => self.token.is_some() || address.ip().is_loopback() || address.ip().is_unspecified(),
            }
    }
}

impl fmt::Display for AdminPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminPlace::Tcp(address) => write!(f, "{address}"),
            AdminPlace::Unix(path) => write!(f, "unix:{}", path.display()),
        }
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
    pub when: LogConditions,
}

/// Which requests have a line. All of them have to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogConditions {
    /// Any of these, by their names; empty is any.
    pub sites: Vec<String>,
    /// Any of these; empty is any, and none.
    pub statuses: Vec<StatusRange>,
    /// Requests that took at least so long.
    pub slower_than: Option<Duration>,
}

impl AccessLog {
    /// Each has a thread, and a ring in each worker.
    pub const LOGS_MAX: usize = 8;
}

impl Default for AccessLog {
    fn default() -> Self {
        AccessLog { target: LogTarget::Stdout, format: AccessLogFormat::Json, when: LogConditions::default() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum LogTarget {
    Off,
    Stdout,
    Stderr,
    File { path: PathBuf, rotation: Option<Rotation> },
    Syslog(Syslog),
}

/// A daemon of syslog (RFC 5424).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syslog {
    pub place: SyslogPlace,
    /// The number of the facility, 0 to 23.
    pub facility: u8,
    /// The name of the application.
    pub tag: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyslogPlace {
    Unix(PathBuf),
    Udp(SocketAddr),
}

impl Syslog {
    /// RFC 5424, table 1, in the words of every daemon.
    pub const FACILITIES: [&str; 24] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp", "audit",
        "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
    ];
    pub const FACILITY: u8 = 16;
    pub const TAG: &str = "tidegate";
    /// RFC 5424 section 6.2.5.
    pub const TAG_BYTES_MAX: usize = 48;
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
    /// `client-ip-header`: the header in which they name the client, where it is another one than `X-Forwarded-For`.
    pub client_ip_header: Option<String>,
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
