//! What the cache holds, and what is to be removed from it.

use crate::schema::objects;

objects! {
    /// What the cache holds and has done since the process began.
    pub struct Cache {
        /// Answers in memory, and what they take.
        pub objects: u64,
        pub bytes: u64,
        pub hits: u64,
        pub stale_hits: u64,
        pub misses: u64,
        /// Requests that waited for another one's answer.
        pub collapsed: u64,
        pub stored: u64,
        pub evicted: u64,
        pub purged: u64,
        pub disk: Option<CacheDisk>,
    }

    /// The part of the cache that is on disk.
    pub struct CacheDisk {
        pub objects: u64,
        pub bytes: u64,
        pub read: u64,
        pub written: u64,
        pub evicted: u64,
        /// Files that were thrown away because they were not whole.
        pub damaged: u64,
        /// Times that the disk failed.
        pub errors: u64,
    }

    /// What is to be removed: all that any of these names.
    #[serde(deny_unknown_fields)]
    pub struct PurgeRequest {
        /// As `https://example.com/news/1`; with a `*` at its end all that begin so.
        pub urls: Option<Vec<String>>,
        /// As `Surrogate-Key` or `Cache-Tag` of the answers had them.
        pub tags: Option<Vec<String>>,
        pub all: Option<bool>,
        /// Whether what is kept becomes stale instead, and is asked about when it is wanted again.
        pub soft: Option<bool>,
    }

    /// How much was removed.
    pub struct Purged {
        pub purged: usize,
    }
}
