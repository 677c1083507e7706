//! How a server that fails is noticed, left, and tried again, and what becomes of the request that met it. The
//! decisions are made in `health` and `proxy`, from these settings.

use crate::matching::TextPattern;
use std::time::Duration;

/// Servers are asked whether they are well.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    pub probe: Probe,
    /// Between two questions to a server that is up, more or less a tenth by chance.
    pub interval: Duration,
    /// How often a server is checked that is down or not known yet.
    pub interval_down: Duration,
    pub timeout: Duration,
    /// Good answers in a row that bring a server up.
    pub rise: u32,
    /// Bad answers in a row that take a server down.
    pub fall: u32,
    /// Asked on this port instead of the server's own.
    pub port: Option<u16>,
}

impl Health {
    pub const INTERVAL: Duration = Duration::from_secs(2);
    pub const INTERVAL_DOWN: Duration = Duration::from_secs(1);
    pub const TIMEOUT: Duration = Duration::from_secs(1);
    pub const RISE: u32 = 2;
    pub const FALL: u32 = 3;
}

#[derive(Debug, Clone, PartialEq)]
pub enum Probe {
    Http(HttpProbe),
    /// A connection that opens is enough, unless something is said on it.
    Tcp(Talk),
    /// A handshake that completes is enough.
    Tls,
    /// The gRPC health protocol (`grpc.health.v1.Health/Check`), of one service or, without a name, of the whole
    /// server.
    Grpc {
        service: Option<String>,
    },
}

/// What is said on a connection, and what has to come back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Talk {
    pub send: Option<String>,
    /// What the first 64 KiB have to be, begin with, or contain.
    pub receive: Option<TextPattern>,
}

impl Probe {
    pub const NAMES: &'static [&'static str] = &["http", "tcp", "tls", "grpc"];

    pub fn name(&self) -> &'static str {
        match self {
            Probe::Http(_) => "http",
            Probe::Tcp(_) => "tcp",
            Probe::Tls => "tls",
            Probe::Grpc { .. } => "grpc",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct HttpProbe {
    /// Begins with `/`.
    pub path: String,
    /// A method's name, in capitals.
    pub method: String,
    /// Instead of the server's own address.
    pub host: Option<String>,
    /// Further fields, by name and value.
    pub headers: Vec<(String, String)>,
    /// A redirect is not followed: it is as good as its status.
    pub expect: Vec<StatusRange>,
    /// What the first 64 KiB of the body have to contain or match.
    pub body: Option<TextPattern>,
}

/// Both ends count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    pub first: u16,
    pub last: u16,
}

impl StatusRange {
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

/// A server that fails requests gets none for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlier {
    /// Failures in a row: refused and broken connections, timeouts, answers of 500, 502, 503 and 504.
    pub failures: u32,
    /// The first time out; doubled each time in a row, up to `eject_max`.
    pub eject: Duration,
    pub eject_max: Duration,
    /// Percent of the pool's servers that may be out at once, one always; 0 to 100. Servers beyond go on in spite of
    /// their failures.
    pub ejected_percent_max: u8,
    /// A server whose share of good answers within ten seconds is far below that of the others is out as well.
    pub success_rate: bool,
}

impl Default for Outlier {
    fn default() -> Self {
        Outlier {
            failures: 5,
            eject: Duration::from_secs(10),
            eject_max: Duration::from_secs(300),
            ejected_percent_max: 50,
            success_rate: true,
        }
    }
}

/// A request that failed is sent again where that is safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Times that a request is sent again, after the first; at most [`Retry::ATTEMPTS_MAX`].
    pub attempts: u8,
    pub on: RetryOn,
    /// Of the requests of the last ten seconds, percent that may be sent again; an outage is never multiplied by more.
    pub budget_percent: u8,
    /// From the choice of a server to the first byte of its answer; then another one is tried. `None`: as long as
    /// `timeout` says.
    pub try_timeout: Option<Duration>,
    /// No attempt begins later than so long after its request came. `None`: as many as there may be.
    pub within: Option<Duration>,
    /// How long a request that failed waits before it is sent again. `None`: not at all.
    pub backoff: Option<Backoff>,
    /// How long a request waits for a server when none can be reached, before that is its answer. `None`: not at all.
    pub wait: Option<Duration>,
    /// What of a request's body is kept to be sent again.
    pub body_bytes: usize,
}

impl Retry {
    pub const ATTEMPTS_MAX: u8 = 10;
    pub const WAIT: Duration = Duration::from_secs(10);
    pub const BODY_BYTES: usize = 64 << 10;
    pub const BODY_BYTES_MAX: usize = 16 << 20;
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: 2,
            on: RetryOn::default(),
            budget_percent: 20,
            try_timeout: None,
            within: None,
            backoff: None,
            wait: None,
            body_bytes: Retry::BODY_BYTES,
        }
    }
}

/// Pauses between attempts, each twice as long as the one before, more or less by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Before a request is sent again for the first time. No pause is shorter.
    pub first: Duration,
    /// No pause is longer; at least `first`.
    pub max: Duration,
}

impl Backoff {
    /// The longest pause where nothing is said of it, in first ones.
    pub const GROWTH: u32 = 10;

    pub fn of(first: Duration) -> Backoff {
        Backoff { first, max: first * Backoff::GROWTH }
    }
}

/// What a route says of sending its requests again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RouteRetry {
    /// What the pool says.
    #[default]
    OfPool,
    Off,
    Own(Retry),
}

/// What a request is sent again for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOn {
    /// No connection: nothing was sent, so any request may go elsewhere.
    pub connect: bool,
    /// The connection broke before the first byte of the answer; idempotent requests only.
    pub reset: bool,
    /// Nothing came within `timeout first-byte` or the retry's own limit; idempotent requests only.
    pub timeout: bool,
    /// Answers of these statuses, 400 to 599; idempotent requests only.
    pub statuses: Vec<u16>,
}

impl RetryOn {
    pub const NAMES: &'static [&'static str] = &["connect", "reset", "timeout"];
}

impl Default for RetryOn {
    fn default() -> Self {
        RetryOn { connect: true, reset: true, timeout: false, statuses: Vec::new() }
    }
}

/// An idempotent request without a body that is not answered within `after` is sent to a second server as well; who
/// answers first wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hedge {
    pub after: Duration,
}
