//! `cache`: what a route lets be kept of its answers, and where the process keeps them. What may be kept at all is RFC
//! 9111's, in the crate of that name.

use crate::process::Secret;
use ipnet::IpNet;
use std::path::PathBuf;
use std::time::Duration;

/// `cache` of a site or a route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cache {
    /// Statuses, and how long their answers are fresh when they do not say it themselves.
    pub fresh: Vec<(u16, Duration)>,
    /// How long an answer is fresh that only says when it was last changed, in percent of the time since then.
    pub heuristic_percent: u8,
    /// For answers that do not say it.
    pub stale_while_revalidate: Duration,
    pub stale_if_error: Duration,
    /// `Cache-Control` of requests reaches the upstream.
    pub obeys_clients: bool,
    /// A range of what is not kept makes the whole be fetched.
    pub whole_for_ranges: bool,
    /// Answers with `Set-Cookie` are kept, with it.
    pub keeps_set_cookie: bool,
    /// `CDN-Cache-Control` of answers goes before `Cache-Control` and `Expires`.
    pub obeys_cdn_cache_control: bool,
    pub purging: Purging,
}

/// Who may send PURGE. Nobody, when both are empty: then it is a method like others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purging {
    pub from: Vec<IpNet>,
    /// What a client presents as `Authorization: Bearer …`.
    pub token: Option<Secret>,
}

impl Purging {
    pub fn is_open(&self) -> bool {
        !self.from.is_empty() || self.token.is_some()
    }
}

/// The store, of which a process has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStore {
    /// `None`: 256 MiB, and no more than a quarter of what the process may use.
    pub memory_bytes: Option<u64>,
    /// The largest answer that is kept.
    pub object_bytes_max: u64,
    pub disk: Option<CacheDisk>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDisk {
    pub folder: PathBuf,
    pub bytes_max: u64,
}

impl CacheStore {
    pub const MEMORY_BYTES: u64 = 256 << 20;
    pub const OBJECT_BYTES_MAX: u64 = 8 << 20;
    pub const DISK_BYTES: u64 = 10 << 30;
}

impl Default for CacheStore {
    fn default() -> Self {
        CacheStore { memory_bytes: None, object_bytes_max: CacheStore::OBJECT_BYTES_MAX, disk: None }
    }
}
