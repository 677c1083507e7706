//! The cache as the process has it: its bounds follow the configuration, its numbers go into the metrics. What is kept
//! and given is decided on the workers, in `proxy::cached`.

use crate::control::Control;
use tidegate_cache::store::PurgeKind;
use tidegate_cache::{Key, Purge};
use tidegate_model::{CacheStore, Configuration};
use tidegate_proxy::cached::TierSettings;
use tidegate_telemetry::{CacheDiskNumbers, CacheNumbers};

/// The part of the memory budget that the cache takes when nobody says how much.
const BUDGET_PARTS: u64 = 4;

/// What somebody wants to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeRequest {
    /// A URL; with a `*` at its end all that begin so.
    Url(String),
    Tag(String),
    All,
}

impl PurgeRequest {
    /// Fails with what is wrong with it.
    fn compile(&self) -> Result<Purge, String> {
        match self {
            PurgeRequest::All => Ok(Purge::All),
            PurgeRequest::Tag(tag) if tag.trim().is_empty() => Err("the tag is empty".into()),
            PurgeRequest::Tag(tag) => Ok(Purge::Tag(tag.trim().as_bytes().to_vec())),
            PurgeRequest::Url(url) => {
                let key = Key::from_url(url.as_bytes())
                    .ok_or_else(|| format!("`{url}` is not a URL, as `https://example.com/news/1`"))?;
                Ok(match key.url().strip_suffix(b"*") {
                    Some(prefix) => Purge::Prefix(prefix.to_vec()),
                    None => Purge::Url(key),
                })
            }
        }
    }
}

impl Control {
    /// Gives the cache the bounds of the configuration that runs. What cannot be had of it is logged, and the cache
    /// goes on without.
    pub(crate) fn configure_cache(&mut self) {
        let configuration = self.running.configuration.clone();
        if !caches(&configuration) {
            return;
        }
        let CacheStore { memory_bytes, object_bytes_max, disk } = configuration.cache.clone();
        let budget = self.budget.bytes(configuration.memory).map_or(u64::MAX, |bytes| bytes / BUDGET_PARTS);
        let memory_bytes = memory_bytes.unwrap_or_else(|| CacheStore::MEMORY_BYTES.min(budget));
        let disk = disk.map(|disk| (disk.folder, disk.bytes_max));
        let settings = TierSettings { memory_bytes, object_bytes_max: object_bytes_max.min(memory_bytes / 4), disk };
        if let Err(error) = self.process.cache.configure(settings) {
            tracing::error!(%error, "the cache has no threads for its disk, and goes on in memory");
        }
    }

    /// Shows what the cache holds and has done, if there is one or was one.
    pub(crate) fn show_cache(&self) {
        if self.process.cache.is_configured() {
            self.registry().cache().set(self.cache_numbers());
        }
    }

    /// What the cache holds and has done since the process began.
    pub fn cache_numbers(&self) -> CacheNumbers {
        let counts = self.process.cache.counts();
        let memory = counts.memory;
        let disk = counts.disk.map(|disk| CacheDiskNumbers {
            objects: disk.objects,
            bytes: disk.bytes,
            read: disk.read,
            written: disk.written,
            evicted: disk.evicted,
            damaged: disk.damaged,
            errors: disk.errors,
        });
        CacheNumbers {
            hits: memory.hits,
            stale_hits: memory.stale_hits,
            misses: memory.misses,
            collapsed: memory.collapsed,
            stored: memory.stored,
            evicted: memory.evicted,
            purged: memory.purged,
            objects: memory.objects,
            bytes: memory.bytes + memory.in_flight_bytes,
            disk,
        }
    }

    /// Numbers of the cache as the API has them.
    pub fn cache_report(&self) -> tidegate_api::Cache {
        let numbers = self.cache_numbers();
        let CacheNumbers { hits, stale_hits, misses, collapsed, stored, evicted, purged, objects, bytes, disk } = numbers;
        let disk = disk.map(|disk| {
            let CacheDiskNumbers { objects, bytes, read, written, evicted, damaged, errors } = disk;
            tidegate_api::CacheDisk { objects, bytes, read, written, evicted, damaged, errors }
        });
        tidegate_api::Cache { objects, bytes, hits, stale_hits, misses, collapsed, stored, evicted, purged, disk }
    }

    /// Removes what is named, or marks it as stale, in the background. `answer` is told how many there were.
    ///
    /// Fails with what is wrong with the request, or when too many are under way.
    pub fn purge_cache(
        &self,
        requests: &[PurgeRequest],
        is_soft: bool,
        answer: impl FnOnce(usize) + Send + 'static,
    ) -> Result<(), String> {
        let purges = requests.iter().map(PurgeRequest::compile).collect::<Result<Vec<_>, _>>()?;
        let kind = if is_soft { PurgeKind::Soft } else { PurgeKind::Hard };
        let is_begun = self.process.cache.purge(purges, kind, answer);
        is_begun.then_some(()).ok_or_else(|| "as many purges as may be are under way: ask again in a moment".to_owned())
    }
}

/// Whether any route keeps answers.
fn caches(configuration: &Configuration) -> bool {
    configuration.sites.iter().flat_map(|site| site.all_options()).any(|options| options.cache.on().is_some())
}

#[cfg(test)]
mod tests {
    use super::PurgeRequest;
    use tidegate_cache::{Key, Purge};

    #[test]
    fn what_is_to_be_purged_is_a_url_its_beginning_a_tag_or_all() {
        let check = |request: PurgeRequest, expected: Option<Purge>| assert_eq!(request.compile().ok(), expected, "{request:?}");
        let url = |text: &str| PurgeRequest::Url(text.to_owned());
        let key = |text: &str| Key::from_url(text.as_bytes()).expect("a URL of the test");
        check(url("https://A.example/x?y"), Some(Purge::Url(key("https://a.example/x?y"))));
        check(url("https://a.example"), Some(Purge::Url(key("https://a.example/"))));
        check(url("https://a.example/news/*"), Some(Purge::Prefix(b"https://a.example/news/".to_vec())));
        check(url("a.example/x"), None);
        check(url(""), None);
        check(PurgeRequest::Tag(" one ".into()), Some(Purge::Tag(b"one".to_vec())));
        check(PurgeRequest::Tag(" ".into()), None);
        check(PurgeRequest::All, Some(Purge::All));
    }
}
