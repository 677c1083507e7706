//! The numbers. Each belongs to one worker thread, which alone writes it; the scraping thread reads and adds up.
//! [`number`] and [`histogram`] are the parts, [`worker`], [`site`], [`pool`] and [`server`] what they are put together
//! to. What is rare, such as [`server_state`], any thread may write. [`registry`] finds them again over reloads,
//! `prometheus` writes them as text.

mod answers;
mod arm;
mod busiest;
mod cache;
mod certificates;
mod configuration;
mod discovery;
mod histogram;
mod kubernetes;
mod log_ins;
mod memory;
mod number;
mod pool;
mod process;
mod prometheus;
mod reason;
mod registry;
mod server;
mod server_state;
mod site;
mod table;
mod token_keys;
mod worker;

#[cfg(test)]
mod tests;

pub use answers::{AnswerKind, MethodLabel, ProtocolLabel};
pub use arm::ArmMetrics;
pub use cache::{CacheDiskNumbers, CacheMetrics, CacheNumbers};
pub use certificates::{
    CERTIFICATE_SERIES_MAX, CertificateEnd, CertificateMetrics, ObtainedNumbers, OnDemandResult, StapleNumbers,
};
pub use configuration::{ChangeResult, ConfigurationMetrics};
pub use discovery::DiscoveryMetrics;
pub use histogram::{Histogram, HistogramTotals};
pub use kubernetes::{KubernetesFigures, KubernetesMetrics, WritingFigures};
pub use log_ins::LogInMetrics;
pub use memory::MemoryMetrics;
pub use number::{Counter, Gauge, SharedNumber};
pub use pool::{AuthResult, MirrorResult, PoolMetrics, PoolTotals, UpstreamError, UpstreamTime};
pub use reason::{REASONS_MAX, ReasonCounters};
pub use registry::{
    ARM_SERIES_MAX, DISCOVERY_SERIES_MAX, POOL_SERIES_MAX, Registry, SERVER_SERIES_MAX, SITE_SERIES_MAX, SITES_COUNTED_MAX,
    Traffic,
};
pub use server::{ServerCounts, ServerMetrics, ServerTotals};
pub use server_state::{ServerStateMetrics, ServerWord};
pub use site::SiteMetrics;
pub use token_keys::TokenKeyMetrics;
pub use worker::{HandshakeFailure, HandshakeKind, ListenerKind, ListenerMetrics, LogWriterMetrics, WorkerMetrics};
