//! The numbers. Each belongs to one worker thread, which alone writes it; the scraping thread reads and adds up.
//! [`number`] and [`histogram`] are the parts, [`worker`], [`site`] and [`pool`] what they are put together to,
//! [`registry`] finds them again over reloads, `prometheus` writes them as text.

mod configuration;
mod histogram;
mod number;
mod pool;
mod process;
mod prometheus;
mod reason;
mod registry;
mod site;
mod worker;

#[cfg(test)]
mod tests;

pub use configuration::{ChangeResult, ConfigurationMetrics};
pub use histogram::{Histogram, HistogramTotals};
pub use number::{Counter, Gauge};
pub use pool::{PoolMetrics, PoolTotals, UpstreamError};
pub use reason::{REASONS_MAX, ReasonCounters};
pub use registry::{POOL_SERIES_MAX, Registry, SITE_SERIES_MAX, Traffic};
pub use site::SiteMetrics;
pub use worker::{HandshakeFailure, HandshakeKind, ListenerKind, ListenerMetrics, LogWriterMetrics, WorkerMetrics};
