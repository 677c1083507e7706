//! What is found out about servers while the process runs: addresses of names, answers of sources. Taken on as a new
//! snapshot of the same generation. Who is asked is in `names` and `discovery`.

use crate::background::in_background;
use crate::compile::gather_with;
use crate::control::Control;
use crate::discovery::News;
use crate::names::Found;
use crate::pools::pool_changes;
use crate::workers::ChangeParts;
use jiff::Timestamp;
use std::collections::BTreeSet;
use tidegate_model::Delta;
use tidegate_upstream::compiled::{CompiledPool, CompiledServer};

impl Control {
    /// What could not be used some time ago is tried again: a file may be readable by now.
    pub(crate) fn look_at_unused_news(&mut self) {
        self.followers.look_at_clusters();
        if self.followers.is_time_to_try_again() {
            self.take_news();
        }
    }

    /// Takes on what the sources have said meanwhile: a new snapshot of the same generation, unless nothing changes by
    /// it.
    pub(crate) fn take_news(&mut self) {
        let news = self.followers.take_news();
        self.take_on_news(news);
    }

    /// Takes on what differs in clusters. A follower has waited for what comes together.
    pub(crate) fn take_cluster_news(&mut self) {
        let news = self.followers.take_cluster_news();
        // First, so that pools that come have their servers from the beginning.
        self.note_object_changes();
        if !news.pools.is_empty() {
            self.take_on_news(news);
        }
    }

    fn take_on_news(&mut self, mut news: News) {
        news.pools.extend(self.followers.pools_of(&news));
        let configuration = self.running.configuration.clone();
        let numbers = self.numbers(self.generation(), self.workers.index_bound());
        let (before, state, delta) = (&self.running, self.state(), Delta::default());
        let gather = || gather_with(configuration, &delta, Some(before), state, numbers, Timestamp::now(), &news);
        match in_background(gather) {
            Ok(material) if material.pools_changed.is_empty() => self.running.discovered.merge(&material.discovered),
            Ok(material) => {
                self.workers.change(ChangeParts { snapshot: Some(material.snapshot.clone()), ..ChangeParts::default() });
                for change in pool_changes(Some(&self.running.snapshot), &material.snapshot, &material.pools_changed) {
                    let (Some(before), Some(now)) = (&change.before, &change.now) else { continue };
                    let (pool, before, now) = (&now.name, servers(before), servers(now));
                    tracing::info!(%pool, came = names_beyond(&now, &before), went = names_beyond(&before, &now), "the servers of a pool changed");
                }
                self.supersede(material, &delta);
            }
            Err(fault) => {
                tracing::error!(%fault, "servers were found and cannot be used; those before stay in use; it is tried again");
                self.followers.keep_unused(&news);
            }
        }
    }

    /// Addresses are part of what is compiled: new ones are a new snapshot of the same generation.
    pub(crate) fn take_addresses(&mut self, found: Found, is_over: bool) {
        let found = self.names.take(found, is_over, &self.running.snapshot);
        if !found.is_empty() {
            self.take_on_news(News { found, ..News::default() });
        }
    }
}

type Servers = BTreeSet<String>;

/// The addresses of a pool's servers, as logs have them.
fn servers(pool: &CompiledPool) -> Servers {
    let shown = |server: &CompiledServer| {
        let addresses: Vec<String> = server.addresses.tcp().iter().map(ToString::to_string).collect();
        match addresses.as_slice() {
            [] => server.authority.to_string(),
            [only] if **only == *server.authority => only.clone(),
            _ => format!("{} ({})", server.authority, addresses.join(", ")),
        }
    };
    pool.servers.iter().map(shown).collect()
}

/// Names of servers that one log line lists.
const LISTED_MAX: usize = 20;

fn names_beyond(all: &Servers, without: &Servers) -> String {
    let beyond: Vec<&str> = all.difference(without).map(String::as_str).collect();
    let mut text = beyond[..beyond.len().min(LISTED_MAX)].join(", ");
    if beyond.len() > LISTED_MAX {
        text.push_str(&format!(" and {} more", beyond.len() - LISTED_MAX));
    }
    text
}
