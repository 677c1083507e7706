//! What one worker counts for one pool of upstream servers, and the closed set of what can go wrong with an upstream.

use super::histogram::{Histogram, HistogramTotals};
use super::number::{Counter, Gauge};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;
use strum::{IntoStaticStr, VariantArray};

/// Why a request got no good answer from an upstream. The same words stand in metrics, log lines and error answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum UpstreamError {
    /// The name has no address.
    ResolveFailed,
    /// Refused, unreachable, or out of local ports.
    ConnectFailed,
    ConnectTimeout,
    /// The handshake failed or the certificate was not accepted.
    TlsFailed,
    /// The server has ended the TLS connection with an alert: it does not take our certificate, or asks for one.
    TlsRefused,
    /// The head of the answer did not begin within `timeout first-byte`.
    FirstByteTimeout,
    /// Nothing came or went within `timeout idle`.
    IdleTimeout,
    /// The whole request took longer than `timeout total`.
    TotalTimeout,
    /// The connection ended before the answer's head.
    ClosedEarly,
    /// The connection ended inside the answer's body.
    BodyCut,
    /// What came is not an HTTP answer, or one that cannot be passed on safely.
    BadResponse,
    /// The server says that it has switched to WebSocket, and its `Sec-WebSocket-Accept` is not that of the key.
    #[strum(serialize = "bad_websocket_accept")]
    BadWebSocketAccept,
    /// The server took a WebSocket's handshake for an ordinary request.
    #[strum(serialize = "no_websocket")]
    NoWebSocket,
    /// The answer's head is larger than `limits header-bytes`.
    HeadTooLarge,
    /// The request's fields are larger than the HTTP/2 server says that it takes.
    RequestHeadTooLarge,
    /// Connection reset, broken pipe, or an HTTP/2 stream reset.
    Reset,
    /// GOAWAY or a connection error in HTTP/2.
    #[strum(serialize = "goaway")]
    GoAway,
    /// No server of the pool may be used.
    NoServer,
    /// The pool is declared to have no server.
    EmptyPool,
    /// The containers that the pool looks for are starting, unwell or about to be replaced.
    ContainersNotReady,
    /// Every server is at its `max-connections` or `max-requests`, and as many wait as may.
    PoolFull,
    /// Waited for a server for as long as `queue-timeout`.
    QueueTimeout,
    /// An answer came whose status the pool takes for a failure that another server may do better.
    BadStatus,
    /// The proxy itself is near its memory budget.
    Overloaded,
}

impl UpstreamError {
    pub const ALL: &[UpstreamError] = UpstreamError::VARIANTS;

    /// The reason code. It never changes once released: dashboards and alerts are written against it.
    pub const fn reason(self) -> &'static str {
        self.into_str()
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

/// What became of a request that was to be copied to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum MirrorResult {
    /// The copy was answered.
    Sent,
    Failed,
    /// As many were under way as may be.
    #[strum(serialize = "dropped_too_many")]
    TooMany,
    /// The request's body is larger than what is held of one.
    #[strum(serialize = "dropped_body_too_large")]
    BodyTooLarge,
    /// Copies hold as much memory as they may.
    #[strum(serialize = "dropped_no_memory")]
    NoMemory,
    /// The request itself did not get to its end.
    #[strum(serialize = "dropped_incomplete")]
    Incomplete,
}

impl MirrorResult {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What became of a question about a request, to the pool of a `forward-auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum AuthResult {
    /// The request went on.
    Allowed,
    /// As before, by an answer that is remembered.
    Remembered,
    /// The answer was the client's.
    Refused,
    /// There was none that can be used.
    Failed,
}

impl AuthResult {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// **Single writer**. Aligned so that two workers' numbers never share a pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct PoolMetrics {
    /// Attempts at servers of the pool, also such as came to no connection.
    pub requests: Counter,
    /// Attempts after the first.
    pub retries: Counter,
    /// Attempts after the first that the budget did not allow.
    pub retries_refused: Counter,
    /// Second attempts that began while the first was still going on.
    pub hedges: Counter,
    /// Requests that were sent to a server that is out, because nothing else was left.
    pub last_resort: Counter,
    /// Requests that wait for a server.
    pub queued: Gauge,
    /// Requests that found the queue full.
    pub queue_refused: Counter,
    /// Requests that waited because no server could be reached.
    pub awaited: Counter,
    pub connections_opened: Counter,
    /// Requests that went out on a connection that had served one before.
    pub connections_reused: Counter,
    /// Open connections with at least one request on them.
    pub connections_active: Gauge,
    /// Open connections that wait for the next request.
    pub connections_idle: Gauge,
    errors: [Counter; UpstreamError::ALL.len()],
    mirrored: [Counter; MirrorResult::VARIANTS.len()],
    asked: [Counter; AuthResult::VARIANTS.len()],
    times: [OnceLock<Box<Histogram>>; UpstreamTime::VARIANTS.len()],
}

/// What of a request's way to a server is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum UpstreamTime {
    /// In the queue, for a connection or for a permit; only of those that had to wait.
    Queue,
    /// To a connection of TCP or to a socket, where one was opened.
    Connect,
    /// The handshake with a server, where a connection was opened.
    TlsHandshake,
    /// From the last byte of the request sent to the first byte of the answer.
    FirstByte,
    /// From the begin of a connection, or of the request on a kept one, to the end of the answer.
    Whole,
}

impl PoolMetrics {
    pub fn error(&self, error: UpstreamError) {
        self.errors[error as usize].increment();
    }

    /// A request was to be copied to the pool.
    pub fn mirrored(&self, result: MirrorResult) {
        self.mirrored[result as usize].increment();
    }

    /// The pool was asked about a request.
    pub fn asked(&self, result: AuthResult) {
        self.asked[result as usize].increment();
    }

    #[inline]
    pub fn record(&self, time: UpstreamTime, took: Duration) {
        self.times[time as usize].get_or_init(Box::default).record(took);
    }
}

/// Several workers' numbers of one pool, added up.
#[derive(Debug, Clone, Default)]
pub struct PoolTotals {
    pub requests: u64,
    pub retries: u64,
    pub retries_refused: u64,
    pub hedges: u64,
    pub last_resort: u64,
    pub queued: i64,
    pub queue_refused: u64,
    pub awaited: u64,
    pub connections_opened: u64,
    pub connections_reused: u64,
    pub connections_active: i64,
    pub connections_idle: i64,
    pub errors: [u64; UpstreamError::ALL.len()],
    pub mirrored: [u64; MirrorResult::VARIANTS.len()],
    pub asked: [u64; AuthResult::VARIANTS.len()],
    pub(super) times: [HistogramTotals; UpstreamTime::VARIANTS.len()],
}

impl PoolTotals {
    pub fn add(&mut self, pool: &PoolMetrics) {
        self.requests += pool.requests.value();
        self.retries += pool.retries.value();
        self.retries_refused += pool.retries_refused.value();
        self.hedges += pool.hedges.value();
        self.last_resort += pool.last_resort.value();
        self.queued += pool.queued.value();
        self.queue_refused += pool.queue_refused.value();
        self.awaited += pool.awaited.value();
        self.connections_opened += pool.connections_opened.value();
        self.connections_reused += pool.connections_reused.value();
        self.connections_active += pool.connections_active.value();
        self.connections_idle += pool.connections_idle.value();
        for (total, counter) in self.errors.iter_mut().zip(&pool.errors) {
            *total += counter.value();
        }
        for (total, counter) in self.mirrored.iter_mut().zip(&pool.mirrored) {
            *total += counter.value();
        }
        for (total, counter) in self.asked.iter_mut().zip(&pool.asked) {
            *total += counter.value();
        }
        for (totals, time) in self.times.iter_mut().zip(&pool.times) {
            if let Some(time) = time.get() {
                totals.add(time);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MirrorResult, PoolMetrics, PoolTotals, UpstreamError, UpstreamTime};
    use std::time::Duration;
    use strum::VariantArray;

    #[test]
    fn each_time_has_a_place() {
        assert!(UpstreamTime::VARIANTS.iter().enumerate().all(|(position, time)| *time as usize == position));
        let pool = PoolMetrics::default();
        for (position, time) in UpstreamTime::VARIANTS.iter().enumerate() {
            pool.record(*time, Duration::from_micros(position as u64));
        }
        let mut totals = PoolTotals::default();
        totals.add(&pool);
        let sums: Vec<u64> = totals.times.iter().map(|time| time.sum_us).collect();
        assert_eq!(sums, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_became_of_copies_has_a_place_each() {
        assert!(MirrorResult::VARIANTS.iter().enumerate().all(|(position, result)| *result as usize == position));
        let pool = PoolMetrics::default();
        pool.mirrored(MirrorResult::Incomplete);
        let mut totals = PoolTotals::default();
        totals.add(&pool);
        assert_eq!(totals.mirrored, [0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn each_error_has_its_own_place_and_word() {
        let pool = PoolMetrics::default();
        for (position, error) in UpstreamError::ALL.iter().copied().enumerate() {
            assert_eq!(error as usize, position, "{error} stands where its discriminant says");
            for _ in 0..=position {
                pool.error(error);
            }
        }
        let mut totals = PoolTotals::default();
        totals.add(&pool);
        assert_eq!(totals.errors.to_vec(), (1..=UpstreamError::ALL.len() as u64).collect::<Vec<_>>());
        let words: std::collections::BTreeSet<_> = UpstreamError::ALL.iter().map(|error| error.reason()).collect();
        assert_eq!(words.len(), UpstreamError::ALL.len());
    }
}
