//! What one worker counts for itself: connections, bytes, handshakes, refusals.

use super::histogram::{Histogram, HistogramTotals};
use super::number::{Counter, Gauge};
use super::reason::ReasonCounters;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use strum::{IntoStaticStr, VariantArray};
use tidegate_model::TlsVersion;

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ListenerKind {
    Http,
    Https,
    Tcp,
}

impl ListenerKind {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum HandshakeKind {
    Full,
    Resumed,
}

impl HandshakeKind {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Why a client's handshake came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum HandshakeFailure {
    /// Not completed within `limits header-timeout`.
    Timeout,
    /// The client went away; scanners and health checks do this all day.
    ClientClosed,
    /// No site has the name the client asked for.
    UnknownName,
    /// The name that the client asked for has a port behind it.
    NameWithPort,
    /// The first bytes were plain HTTP.
    PlainHttp,
    /// No version, cipher suite, group or ALPN protocol in common.
    NothingInCommon,
    /// The client sent an alert, most often because it does not trust the certificate.
    ClientAlert,
    /// The client showed no certificate, and the site requires one.
    ClientCertificateMissing,
    /// Nobody signed it whom the site trusts.
    ClientCertificateUnknownCa,
    /// Over, or not begun.
    ClientCertificateExpired,
    ClientCertificateRevoked,
    /// Whether it was revoked cannot be told: no list of its authority, or one that is out of date.
    ClientCertificateRevocationUnknown,
    /// The client's certificate was not accepted for another reason.
    ClientCertificate,
    /// More handshakes of one network than `limits handshakes-per-network` allows.
    RateLimited,
    /// Bytes that are no TLS, or a client that broke the protocol.
    BadMessage,
    /// The name's certificate is still being obtained.
    NoCertificate,
    /// The fault is on this side.
    Internal,
}

impl HandshakeFailure {
    pub fn reason(self) -> &'static str {
        self.into()
    }

    /// Whether it is about who the client is.
    pub fn is_of_client_certificate(self) -> bool {
        self.reason().starts_with("client_certificate")
    }
}

/// **Single writer**. Aligned so that two workers' numbers never share a pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerMetrics {
    listeners: [ListenerMetrics; ListenerKind::VARIANTS.len()],
    handshakes: [[Counter; TLS_VERSIONS.len()]; HandshakeKind::VARIANTS.len()],
    handshake_times: [OnceLock<Box<Histogram>>; HandshakeKind::VARIANTS.len()],
    handshake_failures: [Counter; HandshakeFailure::VARIANTS.len()],
    /// Bytes on the wire, TLS and framing included.
    pub client_bytes_received: Counter,
    pub client_bytes_sent: Counter,
    pub upstream_bytes_received: Counter,
    pub upstream_bytes_sent: Counter,
    /// Requests that were answered, all sites together: what a change of the configuration is judged by.
    pub requests: Counter,
    /// Of these with a status from 500 on.
    pub server_errors: Counter,
    /// Of these the ones that something is wrong for, here or behind: no client had provoked them.
    pub failures: Counter,
    /// Requests that the proxy itself answered with an error, by reason code.
    pub refused: ReasonCounters,
    /// Requests that a limit with `dry-run` would have refused, by reason code.
    pub refused_on_trial: ReasonCounters,
    /// Connections that were closed before a request: over `connections-per-ip`, out of file descriptors.
    pub connections_refused: ReasonCounters,
    /// Connections that were ended because they held most when memory was short.
    pub connections_ended_for_memory: Counter,
    /// Connections that were passed on as they are, by why they ended.
    pub passthrough: ReasonCounters,
    /// Certificates of clients that are not good and were taken all the same.
    pub unverified_certificates: Counter,
    /// HTTP/2 connections closed because of a flood, by which.
    pub h2_floods: ReasonCounters,
    /// HTTP/2 streams that were refused because there is no more memory for their connection.
    pub h2_streams_refused: Counter,
    /// Bodies of requests that were read on behind their answer, by how that ended.
    pub unread_bodies: ReasonCounters,
    /// What was thrown away of them.
    pub unread_bytes: Counter,
    /// Panics caught at a connection's edge. Any is a bug worth reporting.
    pub panics_caught: Counter,
    /// 103 answers passed on.
    pub early_hints: Counter,
    /// Requests that went ahead before their client's handshake was over.
    pub early_requests: Counter,
    /// Lines handed to the writer thread.
    pub access_log_lines: Counter,
    /// Lines lost because the ring was full.
    pub access_log_dropped: Counter,
}

pub(super) const TLS_VERSIONS: [TlsVersion; 2] = [TlsVersion::V1_2, TlsVersion::V1_3];

/// Client connections of one kind of listener. **Single writer**.
#[derive(Debug, Default)]
pub struct ListenerMetrics {
    pub connections_opened: Counter,
    pub connections_active: Gauge,
}

impl WorkerMetrics {
    #[inline]
    pub fn listener(&self, kind: ListenerKind) -> &ListenerMetrics {
        &self.listeners[kind as usize]
    }

    /// A handshake that was completed, so long after the client's hello.
    pub fn handshake(&self, kind: HandshakeKind, version: TlsVersion, took: Duration) {
        self.handshakes[kind as usize][version as usize].increment();
        self.handshake_times[kind as usize].get_or_init(Box::default).record(took);
    }

    pub(super) fn add_handshake_times(&self, kind: HandshakeKind, times: &mut HistogramTotals) {
        if let Some(known) = self.handshake_times[kind as usize].get() {
            times.add(known);
        }
    }

    pub fn handshake_failed(&self, failure: HandshakeFailure) {
        self.handshake_failures[failure as usize].increment();
    }

    pub(super) fn handshakes_completed(&self) -> u64 {
        self.handshakes.iter().flatten().map(Counter::value).sum()
    }

    pub(super) fn handshakes_failed_in_all(&self) -> u64 {
        self.handshake_failures.iter().map(Counter::value).sum()
    }

    /// Handshakes that fail whoever asks: there is no certificate, or the fault is on this side.
    pub(super) fn handshakes_failed_by_us(&self) -> u64 {
        [HandshakeFailure::NoCertificate, HandshakeFailure::Internal].map(|failure| self.handshakes_failed(failure)).iter().sum()
    }

    pub(super) fn handshakes_of(&self, kind: HandshakeKind, version: TlsVersion) -> u64 {
        self.handshakes[kind as usize][version as usize].value()
    }

    pub(super) fn handshakes_failed(&self, failure: HandshakeFailure) -> u64 {
        self.handshake_failures[failure as usize].value()
    }
}

/// What the writer thread of the access log counts. Outlives a writer, hence atomic additions: two may overlap for a
/// moment.
#[derive(Debug, Default)]
pub struct LogWriterMetrics {
    write_failed: AtomicU64,
}

impl LogWriterMetrics {
    /// Lines lost because writing failed.
    pub fn add_write_failed(&self, lines: u64) {
        self.write_failed.fetch_add(lines, Ordering::Relaxed);
    }

    pub fn write_failed(&self) -> u64 {
        self.write_failed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{HandshakeFailure, HandshakeKind, HistogramTotals, ListenerKind, TLS_VERSIONS, WorkerMetrics};
    use std::time::Duration;
    use strum::VariantArray;

    #[test]
    fn every_list_is_in_the_order_of_its_discriminants() {
        assert!(ListenerKind::VARIANTS.iter().enumerate().all(|(position, kind)| *kind as usize == position));
        assert!(HandshakeKind::VARIANTS.iter().enumerate().all(|(position, kind)| *kind as usize == position));
        assert!(HandshakeFailure::VARIANTS.iter().enumerate().all(|(position, failure)| *failure as usize == position));
        assert!(TLS_VERSIONS.iter().enumerate().all(|(position, version)| *version as usize == position));
    }

    #[test]
    fn handshakes_are_told_apart() {
        let worker = WorkerMetrics::default();
        worker.handshake(HandshakeKind::Resumed, TLS_VERSIONS[1], Duration::from_millis(2));
        let mut times = HistogramTotals::default();
        worker.add_handshake_times(HandshakeKind::Full, &mut times);
        assert_eq!(times.count(), 0);
        worker.add_handshake_times(HandshakeKind::Resumed, &mut times);
        assert_eq!((times.count(), times.sum_us), (1, 2000));
        worker.handshake_failed(HandshakeFailure::PlainHttp);
        assert_eq!(worker.handshakes_of(HandshakeKind::Resumed, TLS_VERSIONS[1]), 1);
        assert_eq!(worker.handshakes_of(HandshakeKind::Full, TLS_VERSIONS[1]), 0);
        assert_eq!(worker.handshakes_failed(HandshakeFailure::PlainHttp), 1);
        assert_eq!(worker.handshakes_failed(HandshakeFailure::Timeout), 0);
    }
}
