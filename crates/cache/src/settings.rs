//! What an operator can set about the cache, with the defaults and why they are what they are: of a store, and of what
//! a route lets into it. Bounds that nobody needs to change are constants beside the code that keeps them.

/// Settings of one store. All byte counts are of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Everything the memory tier holds: bodies, heads, keys, an allowance for tables, and bodies that are being
    /// fetched. Default 256 MiB.
    pub bytes_max: u64,
    /// The part of `bytes_max` that is set aside for bodies on their way in. What does not fit is not stored. Default
    /// 64 MiB, eight of the largest objects at a time; at most half of `bytes_max` is used.
    pub in_flight_bytes_max: u64,
    /// The largest object that is stored, with its head. Default 8 MiB: larger ones push out hundreds of small ones.
    pub object_bytes_max: u64,
    /// Variants of one URL that are kept (`Vary`); the oldest goes when one more comes. Default 32.
    pub variants_max: usize,
    /// Requests that may wait for one fetch; those beyond go to the upstream on their own. Default 65,536.
    pub waiters_max: usize,
    /// How long a request should wait for another one's head before it goes on its own. The caller keeps the time and
    /// drops the `WaitHandle`. Default 5 seconds.
    pub wait_seconds_max: u64,
    /// How long requests for a URL are not collapsed after its answer could not be stored. Default 10 seconds.
    pub uncacheable_seconds: u64,
}

/// What a route says about its answers. Two routes may share a store and differ in these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Heuristic freshness in percent of the time since `Last-Modified` (RFC 9111 section 4.2.2). Default 10; 0 is
    /// none.
    pub heuristic_percent: u64,
    /// The most that heuristic freshness may be. Default 86,400 seconds.
    pub heuristic_seconds_max: u64,
    /// Status and seconds for which it is fresh when the answer does not say itself, such as `(404, 30)`. Default none.
    pub negative_seconds: Vec<(u16, u64)>,
    /// `stale-while-revalidate` of answers that do not give one. Default 0, which is none.
    pub stale_while_revalidate_seconds: u64,
    /// `stale-if-error` of answers that do not give one. Default 0, which is none.
    pub stale_if_error_seconds: u64,
    /// Answers with `Set-Cookie` are stored with it. Default no: one user's session would be given to all.
    pub stores_set_cookie: bool,
    /// Fields of requests that the caller writes after the lookup, in lower case: an answer whose `Vary` names one is
    /// not stored. Default none.
    pub unkeyed_fields: &'static [&'static str],
    /// `Cache-Control` and `Pragma` of requests are obeyed, as the RFC asks. Default yes; an operator whose clients use
    /// them to reach the upstream at will says no. `no-store` and `only-if-cached` count either way.
    pub obeys_request_directives: bool,
    /// A range of what is not stored makes the cache fetch the whole. Default no: the range is forwarded and nothing is
    /// stored.
    pub fetches_whole_for_ranges: bool,
    /// `CDN-Cache-Control` goes before `Cache-Control` and `Expires` (RFC 9213). Default no: behind a CDN it is that
    /// one's, and an upstream that purges there would leave what is kept here.
    pub obeys_cdn_cache_control: bool,
}

/// Settings of the tier on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSettings {
    /// A folder of its own: other files in it are left alone, but a damaged file with this cache's ending is deleted.
    pub folder: std::path::PathBuf,
    /// Sizes of all files together. Default 10 GiB.
    pub bytes_max: u64,
    /// Objects, each of which takes about 400 bytes of memory and its URL for the index. Default 200,000.
    pub objects_max: usize,
    /// How long the tier rests after an error of the file system. Default 60 seconds.
    pub off_seconds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            bytes_max: 256 << 20,
            in_flight_bytes_max: 64 << 20,
            object_bytes_max: 8 << 20,
            variants_max: 32,
            waiters_max: 65_536,
            wait_seconds_max: 5,
            uncacheable_seconds: 10,
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            heuristic_percent: 10,
            heuristic_seconds_max: 86_400,
            negative_seconds: Vec::new(),
            stale_while_revalidate_seconds: 0,
            stale_if_error_seconds: 0,
            stores_set_cookie: false,
            unkeyed_fields: &[],
            obeys_request_directives: true,
            fetches_whole_for_ranges: false,
            obeys_cdn_cache_control: false,
        }
    }
}

impl DiskSettings {
    pub fn new(folder: std::path::PathBuf) -> DiskSettings {
        DiskSettings { folder, bytes_max: 10 << 30, objects_max: 200_000, off_seconds: 60 }
    }
}
