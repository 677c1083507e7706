//! The cache as a route uses it: the store under the route's rules, and what keeps its answers apart from others'.

use super::tier::CacheTier;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tidegate_cache::{Rules, Store};
use tidegate_middleware::IdentityFields;
use tidegate_model::{Cache, MatchLine, Purging};

/// Fields that are written when the request goes to its upstream, after it was looked for: what depends on them is kept
/// for nobody.
const WRITTEN_LATER: &[&str] = &["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port"];

/// The cache as a route uses it.
pub struct RouteCache {
    pub tier: Arc<CacheTier>,
    /// The tier's, under the rules of the route.
    pub(crate) store: Store,
    /// Keeps apart what sites answer that have the same host on other ports, and routes with conditions. A client names
    /// any host that it likes: by the host alone one site could fill another's part of the cache.
    pub(crate) partition: Box<[u8]>,
    /// Fields by which the site tells upstreams of the client: what they say is part of what upstreams answer by.
    pub(crate) told_of_client: Box<[Box<[u8]>]>,
    pub(crate) purging: Purging,
}

impl RouteCache {
    pub fn new(cache: &Cache, (site, told): (&str, &IdentityFields), matches: &[MatchLine], tier: &Arc<CacheTier>) -> RouteCache {
        let seconds = |time: Duration| time.as_secs();
        let rules = Rules {
            heuristic_percent: u64::from(cache.heuristic_percent),
            negative_seconds: cache.fresh.iter().map(|(status, time)| (*status, seconds(*time))).collect(),
            stale_while_revalidate_seconds: seconds(cache.stale_while_revalidate),
            stale_if_error_seconds: seconds(cache.stale_if_error),
            stores_set_cookie: cache.keeps_set_cookie,
            obeys_request_directives: cache.obeys_clients,
            fetches_whole_for_ranges: cache.whole_for_ranges,
            unkeyed_fields: WRITTEN_LATER,
            obeys_cdn_cache_control: cache.obeys_cdn_cache_control,
            ..Rules::default()
        };
        let mut partition = site.as_bytes().to_vec();
        if !matches.is_empty() {
            partition.extend_from_slice(b"\nmatch ");
            partition.extend_from_slice(&identity(matches).to_be_bytes());
        }
        if cache.keeps_set_cookie {
            // When it is forbidden again, what was kept under it is not found any more.
            partition.extend_from_slice(b"\nset-cookie");
        }
        RouteCache {
            tier: tier.clone(),
            store: tier.store().ruled_by(Arc::new(rules)),
            partition: partition.into(),
            told_of_client: told.names().map(Into::into).collect(),
            purging: cache.purging.clone(),
        }
    }
}

/// A number that is the same for the same conditions, also after a restart. Where it is not, answers are fetched anew.
fn identity(matches: &[MatchLine]) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{matches:?}").hash(&mut hasher);
    hasher.finish()
}
