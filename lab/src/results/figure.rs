//! The closed set of figures that a round can have: name, unit, and which way is better.
//! A figure means the same in every experiment; what it is divided by and over which time is said here and nowhere
//! else.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// User and system time of all threads and processes of the proxy, per answered request.
    CpuUsPerRequest,
    RequestsPerSecond,
    /// Right answers within the measured time.
    Requests,
    /// Requests without a right answer.
    Failed,
    /// Open loop: due, but never sent.
    Dropped,
    /// Sent again by the client: a kept connection was closed or reset under the request, before a byte of the answer.
    /// Whether the server had read the request, nobody can tell.
    SentAgain,
    LatencyMeanUs,
    LatencyP50Us,
    LatencyP75Us,
    LatencyP90Us,
    LatencyP95Us,
    LatencyP99Us,
    #[serde(rename = "latency-p99-9-us")]
    LatencyP999Us,
    LatencyMaxUs,
    /// Open loop: from the intended start to the sending, the 99th percentile.
    SentLateP99Us,
    HandshakesPerSecond,
    /// Of the handshakes, those that resumed a session.
    ResumedShare,
    /// On the wire, TLS included, while measured.
    ReceivedBytes,
    SentBytes,
    ReceivedBytesPerRequest,
    /// Cores that were kept busy, of those that the part has.
    ProxyCoresBusy,
    GeneratorCoresBusy,
    BackendCoresBusy,
    /// Cores that neither proxy nor generator nor backend had: other processes, the kernel's threads, the hypervisor.
    OtherCoresBusy,
    /// Resident memory of the proxy at the end of the measured time.
    ResidentMb,
    /// Resident memory of the freshly started proxy.
    ResidentAtStartMb,
    /// The most that was resident since the proxy started.
    ResidentPeakMb,
    /// Resident memory of the proxy some time after its load has ended, when allocators have given back what they do.
    ResidentAfterRestMb,
    /// Growth of resident memory for each idle TLS connection.
    IdleKibPerConnection,
    /// Growth of resident memory at start for each certificate, with what its name needs.
    KibPerCertificate,
    SocketCallsPerRequest,
    SystemCallsPerRequest,
    /// From the order to change until every new connection saw the change.
    SecondsToTakeEffect,
    /// From the start of the process to its first right answer.
    StartMs,
    /// Resident memory of the freshly started proxy, with what its processes share counted once.
    SharedOnceAtStartMb,
    /// From the writing of a changed route to the first answer that shows it, to a new connection.
    ChangeSeenMs,
    /// CPU time of a change: of all processes of the proxy, those that end by it included, and of the command that
    /// orders it.
    CpuMsPerChange,
    /// Changes that were made and seen within the phase.
    ChangesMade,
    /// While the configuration is changed again and again, to the calm phase before.
    LatencyP50Ratio,
    LatencyP99Ratio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
    /// Context, not merit.
    Neither,
}

impl Figure {
    /// As the head of a column.
    pub fn title(self) -> &'static str {
        match self {
            Figure::CpuUsPerRequest => "CPU µs/request",
            Figure::RequestsPerSecond => "requests/s",
            Figure::Requests => "requests",
            Figure::Failed => "failed",
            Figure::Dropped => "dropped",
            Figure::SentAgain => "sent again",
            Figure::LatencyMeanUs => "mean µs",
            Figure::LatencyP50Us => "p50 µs",
            Figure::LatencyP75Us => "p75 µs",
            Figure::LatencyP90Us => "p90 µs",
            Figure::LatencyP95Us => "p95 µs",
            Figure::LatencyP99Us => "p99 µs",
            Figure::LatencyP999Us => "p99.9 µs",
            Figure::LatencyMaxUs => "max µs",
            Figure::SentLateP99Us => "sent late, p99 µs",
            Figure::HandshakesPerSecond => "handshakes/s",
            Figure::ResumedShare => "resumed share",
            Figure::ReceivedBytes => "received bytes",
            Figure::SentBytes => "sent bytes",
            Figure::ReceivedBytesPerRequest => "received bytes/request",
            Figure::ProxyCoresBusy => "proxy cores busy",
            Figure::GeneratorCoresBusy => "generator cores busy",
            Figure::BackendCoresBusy => "backend cores busy",
            Figure::OtherCoresBusy => "cores busy with something else",
            Figure::ResidentMb => "resident MB",
            Figure::ResidentAtStartMb => "resident MB at start",
            Figure::ResidentPeakMb => "resident MB, peak",
            Figure::ResidentAfterRestMb => "resident MB, after a rest",
            Figure::IdleKibPerConnection => "KiB/idle connection",
            Figure::KibPerCertificate => "KiB/certificate",
            Figure::SocketCallsPerRequest => "socket calls/request",
            Figure::SystemCallsPerRequest => "system calls/request",
            Figure::SecondsToTakeEffect => "seconds to take effect",
            Figure::StartMs => "ms to the first answer",
            Figure::SharedOnceAtStartMb => "MB at start, shared pages once",
            Figure::ChangeSeenMs => "ms until a change is seen",
            Figure::CpuMsPerChange => "CPU ms/change",
            Figure::ChangesMade => "changes made",
            Figure::LatencyP50Ratio => "p50, × calm",
            Figure::LatencyP99Ratio => "p99, × calm",
        }
    }

    pub fn better(self) -> Better {
        match self {
            Figure::CpuUsPerRequest
            | Figure::Failed
            | Figure::Dropped
            | Figure::SentAgain
            | Figure::LatencyMeanUs
            | Figure::LatencyP50Us
            | Figure::LatencyP75Us
            | Figure::LatencyP90Us
            | Figure::LatencyP95Us
            | Figure::LatencyP99Us
            | Figure::LatencyP999Us
            | Figure::LatencyMaxUs
            | Figure::ResidentMb
            | Figure::ResidentAtStartMb
            | Figure::ResidentPeakMb
            | Figure::ResidentAfterRestMb
            | Figure::IdleKibPerConnection
            | Figure::KibPerCertificate
            | Figure::SocketCallsPerRequest
            | Figure::SystemCallsPerRequest
            | Figure::SecondsToTakeEffect
            | Figure::StartMs
            | Figure::SharedOnceAtStartMb
            | Figure::ChangeSeenMs
            | Figure::CpuMsPerChange
            | Figure::LatencyP50Ratio
            | Figure::LatencyP99Ratio => Better::Lower,
            Figure::RequestsPerSecond | Figure::Requests | Figure::HandshakesPerSecond => Better::Higher,
            Figure::SentLateP99Us
            | Figure::ResumedShare
            | Figure::ReceivedBytes
            | Figure::SentBytes
            | Figure::ReceivedBytesPerRequest
            | Figure::ProxyCoresBusy
            | Figure::GeneratorCoresBusy
            | Figure::BackendCoresBusy
            | Figure::OtherCoresBusy
            | Figure::ChangesMade => Better::Neither,
        }
    }

    /// Rates and latencies say nothing of the proxy when something else was the bottleneck; what a request costs stays
    /// true.
    pub fn needs_an_unlimited_run(self) -> bool {
        match self {
            Figure::RequestsPerSecond
            | Figure::Requests
            | Figure::Dropped
            | Figure::LatencyMeanUs
            | Figure::LatencyP50Us
            | Figure::LatencyP75Us
            | Figure::LatencyP90Us
            | Figure::LatencyP95Us
            | Figure::LatencyP99Us
            | Figure::LatencyP999Us
            | Figure::LatencyMaxUs
            | Figure::HandshakesPerSecond
            | Figure::LatencyP50Ratio
            | Figure::LatencyP99Ratio => true,
            Figure::CpuUsPerRequest
            | Figure::Failed
            | Figure::SentAgain
            | Figure::SentLateP99Us
            | Figure::ResumedShare
            | Figure::ReceivedBytes
            | Figure::SentBytes
            | Figure::ReceivedBytesPerRequest
            | Figure::ProxyCoresBusy
            | Figure::GeneratorCoresBusy
            | Figure::BackendCoresBusy
            | Figure::OtherCoresBusy
            | Figure::ResidentMb
            | Figure::ResidentAtStartMb
            | Figure::ResidentPeakMb
            | Figure::ResidentAfterRestMb
            | Figure::IdleKibPerConnection
            | Figure::KibPerCertificate
            | Figure::SocketCallsPerRequest
            | Figure::SystemCallsPerRequest
            | Figure::SecondsToTakeEffect
            | Figure::StartMs
            | Figure::SharedOnceAtStartMb
            | Figure::ChangeSeenMs
            | Figure::CpuMsPerChange
            | Figure::ChangesMade => false,
        }
    }
}
