//! What the proxy says about itself: counters and histograms, their Prometheus text, readiness, the access log, and the
//! log of events. Nothing here decides anything about a request. Workers write, one other thread reads; [`metrics`]
//! holds the numbers, [`access_log`] the line per request, [`events`] the log of everything else.

pub mod access_log;
pub mod events;
pub mod metrics;
mod readiness;

pub use access_log::{
    AccessLogSenders, AccessLogs, AccessRecord, HeaderLookup, LogPlan, RecordIntroduction, RecordTls, RecordUpstream,
};
pub use events::{EventGate, EventsGuard};
pub use metrics::{
    AnswerKind, ArmMetrics, AuthResult, CacheDiskNumbers, CacheMetrics, CacheNumbers, CertificateEnd, CertificateMetrics,
    ChangeResult, ConfigurationMetrics, Counter, DiscoveryMetrics, Gauge, HandshakeFailure, HandshakeKind, Histogram,
    KubernetesFigures, ListenerKind, ListenerMetrics, LogWriterMetrics, MemoryMetrics, MethodLabel, MirrorResult,
    ObtainedNumbers, OnDemandResult, PoolMetrics, PoolTotals, ProtocolLabel, Registry, ServerCounts, ServerMetrics,
    ServerStateMetrics, ServerTotals, ServerWord, SiteMetrics, StapleNumbers, Traffic, UpstreamError, UpstreamTime,
    WorkerMetrics, WritingFigures,
};
pub use readiness::{Readiness, ReadinessState};
