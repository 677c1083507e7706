//! `tidegate purge`: what the cache keeps is removed, by URL, by tag, or all of it.

use super::reach;
use crate::cli::Running;
use crate::output;
use std::process::ExitCode;
use tidegate_api::{PurgeRequest, Purged};

/// What to remove, as it was written.
pub struct PurgeWanted {
    pub urls: Vec<String>,
    pub tags: Vec<String>,
    pub all: bool,
    pub soft: bool,
}

pub fn run(wanted: PurgeWanted, running: &Running) -> ExitCode {
    let PurgeWanted { urls, tags, all, soft } = wanted;
    if urls.is_empty() && tags.is_empty() && !all {
        return super::fail("nothing is named that is to be removed\n  help: write a URL, `--tag NAME`, or `--all`");
    }
    reach::with(reach::running(running), |client| {
        let request = PurgeRequest { urls: Some(urls), tags: Some(tags), all: Some(all), soft: Some(soft) };
        let answer: Purged = client.post("/v1/cache/purge", &request, None)?;
        let done = if soft { "marked as stale" } else { "removed" };
        output::say(&answer, || format!("{} answer{} {done}\n", answer.purged, super::plural(answer.purged)));
        Ok(())
    })
}
