//! Servers that nobody wrote, while the process runs: every source of the configuration is followed, and what it says becomes part of the pools
//! that name it, several sources at once where they change together. How sources are asked is in the crate `discovery`; a change of the
//! configuration waits for the first answers of new ones, for a bounded time.

use crate::background::in_background;
use crate::compile::{News, gather_with};
use crate::control::Control;
use crate::names::Name;
use crate::workers::ChangeParts;
use jiff::Timestamp;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tidegate_discovery::{Context, Event, Fault, Member, follow};
use tidegate_model::{Discover, DnsDiscover, DnsQuestion, PoolName, Scheme};
use tidegate_telemetry::DiscoveryMetrics;
use tokio::sync::Notify;

/// What a change waits for the first answers of all new sources together. Nothing else happens on the control thread meanwhile.
pub const FIRST_ANSWERS_LIMIT: Duration = Duration::from_secs(1);
/// News that come within this are taken on together: each time is a new snapshot.
const COALESCE: Duration = Duration::from_millis(20);
/// When news that could not be used are tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// Names of written servers that are looked up again as their TTL says; those beyond keep the addresses of the start.
const NAMES_FOLLOWED_MAX: usize = 1000;

/// The last good answer of each source; of one that was asked and has not answered yet, nobody.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Discovered(Answers);

impl Discovered {
    pub fn of(&self, source: &Discover) -> Option<&[Member]> {
        self.0.iter().find(|(known, _)| known == source).map(|(_, members)| &members[..])
    }

    pub fn set(&mut self, source: &Discover, members: Vec<Member>) {
        match self.0.iter_mut().find(|(known, _)| known == source) {
            Some((_, known)) => *known = members,
            None => self.0.push((source.clone(), members)),
        }
    }

    /// Takes in other answers, which are the newer.
    pub fn merge(&mut self, newer: &Discovered) {
        for (source, members) in &newer.0 {
            self.set(source, members.clone());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What sources said, by source.
type Answers = Vec<(Discover, Vec<Member>)>;

/// The first answers of sources, for which a change waits; those that say nothing in time have no servers until they do.
pub fn first_answers(sources: &[(&Discover, &PoolName)]) -> Answers {
    let words = first_words(sources.iter().map(|(source, _)| (*source).clone()).collect());
    let mut answers = Vec::new();
    for ((source, pool), word) in sources.iter().zip(words) {
        match word {
            FirstWord::Members { members, remark: _ } => answers.push(((*source).clone(), members)),
            FirstWord::Fault(fault) => {
                tracing::error!(%pool, kind = source.kind(), %fault, "no server is found; it is tried again");
            }
            FirstWord::None => {
                tracing::error!(%pool, kind = source.kind(), "no servers are named within {FIRST_ANSWERS_LIMIT:?}; the pool waits for them");
            }
        }
    }
    answers
}

/// What a source says first.
#[derive(Debug, Clone, PartialEq)]
pub enum FirstWord {
    Members {
        members: Vec<Member>,
        /// What of the answer could not be used.
        remark: Option<Fault>,
    },
    Fault(Fault),
    /// Nothing within [`FIRST_ANSWERS_LIMIT`].
    None,
}

/// Asks all sources at once, for a bounded time. One word for each, in their order.
pub fn first_words(sources: Vec<Discover>) -> Vec<FirstWord> {
    let words: Rc<RefCell<Vec<FirstWord>>> = Rc::new(RefCell::new(vec![FirstWord::None; sources.len()]));
    if sources.is_empty() {
        return Vec::new();
    }
    let Ok(runtime) =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(tokio::runtime::LocalOptions::default())
    else {
        return words.take();
    };
    runtime.block_on(async {
        let mut asked = tokio::task::JoinSet::new();
        for (position, source) in sources.into_iter().enumerate() {
            let words = words.clone();
            asked.spawn_local(async move {
                let heard = Notify::new();
                let report = |event| {
                    let word = &mut words.borrow_mut()[position];
                    match event {
                        Event::Members(members) => *word = FirstWord::Members { members, remark: None },
                        // It is told in the same breath as the members that it is about.
                        Event::Remark(fault) => {
                            if let FirstWord::Members { remark, .. } = word {
                                *remark = Some(fault);
                            }
                        }
                        Event::Fault(fault) => *word = FirstWord::Fault(fault),
                        Event::Recovered => {}
                    }
                    heard.notify_one();
                };
                tokio::select! {
                    () = follow(source, place(), report) => {}
                    () = heard.notified() => {}
                }
            });
        }
        let all = async { while asked.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(FIRST_ANSWERS_LIMIT, all).await;
    });
    words.take()
}

/// How a source does, for who asks.
#[derive(Debug, Clone, Default)]
pub struct SourceSeen {
    /// Servers in its last good answer; `None` before the first.
    pub servers: Option<usize>,
    /// Why it cannot be used now, or not all that it says.
    pub fault: Option<String>,
}

/// Tasks that follow the sources, and what they heard since it was last looked at.
#[derive(Default)]
pub struct Followers {
    sources: Vec<(Discover, Arc<Mutex<SourceSeen>>, Follower)>,
    names: BTreeMap<Name, Follower>,
    heard: Arc<Heard>,
    /// What could not be compiled when it was heard.
    unused: News,
    try_again_at: Option<Instant>,
}

struct Follower(tokio::task::JoinHandle<()>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Default)]
pub struct Heard {
    news: Mutex<News>,
    notify: Notify,
}

impl Heard {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until there is news, and a moment more for what comes with it.
    ///
    /// May be given up and asked again: what was heard is kept.
    pub async fn wait(&self) {
        while self.news().is_empty() {
            self.notify.notified().await;
        }
        tokio::time::sleep(COALESCE).await;
    }
}

impl Followers {
    pub fn seen(&self, source: &Discover) -> SourceSeen {
        let followed = self.sources.iter().find(|(followed, ..)| followed == source);
        followed.map(|(_, seen, _)| locked(seen).clone()).unwrap_or_default()
    }

    pub fn heard(&self) -> Arc<Heard> {
        self.heard.clone()
    }

    /// Follows what the configuration names, and nothing else. On the control thread's runtime only.
    fn reconcile(&mut self, sources: Vec<Followed>, names: BTreeSet<Name>) {
        self.sources.retain(|(followed, ..)| sources.iter().any(|wanted| wanted.source == *followed));
        for wanted in sources {
            if !self.sources.iter().any(|(followed, ..)| *followed == wanted.source) {
                let (source, seen) = (wanted.source.clone(), wanted.seen.clone());
                let task = tokio::task::spawn_local(follow_source(wanted, self.heard.clone()));
                self.sources.push((source, seen, Follower(task)));
            }
        }
        self.names.retain(|name, _| names.contains(name));
        for name in names.into_iter().take(NAMES_FOLLOWED_MAX) {
            let heard = &self.heard;
            self.names
                .entry(name)
                .or_insert_with_key(|name| Follower(tokio::task::spawn_local(follow_name(name.clone(), heard.clone()))));
        }
    }
}

/// A source as it is followed: for which pools, and where its figures are kept.
struct Followed {
    source: Discover,
    pools: Vec<(PoolName, Arc<DiscoveryMetrics>)>,
    seen: Arc<Mutex<SourceSeen>>,
}

fn locked(seen: &Mutex<SourceSeen>) -> MutexGuard<'_, SourceSeen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow_source(Followed { source, pools, seen }: Followed, heard: Arc<Heard>) {
    let kind = source.kind();
    let names = pools.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(", ");
    let report = |event| match event {
        Event::Members(members) => {
            locked(&seen).servers = Some(members.len());
            for (_, metrics) in &pools {
                metrics.set_members(members.len());
                metrics.set_last_success(Timestamp::now().as_second());
                metrics.changed();
            }
            heard.news().discovered.set(&source, members);
            heard.notify.notify_one();
        }
        Event::Fault(fault) => {
            for (_, metrics) in &pools {
                metrics.fault();
            }
            let mut seen = locked(&seen);
            seen.fault = Some(fault.to_string());
            let what = if seen.servers.is_some() { "those that were found last stay in use" } else { "none was found so far" };
            tracing::warn!(pools = names, kind, %fault, "servers cannot be found: {what}");
        }
        Event::Remark(fault) => {
            for (_, metrics) in &pools {
                metrics.fault();
            }
            locked(&seen).fault = Some(fault.to_string());
            tracing::warn!(pools = names, kind, %fault, "a part of what names the servers cannot be used");
        }
        Event::Recovered => {
            locked(&seen).fault = None;
            tracing::info!(pools = names, kind, "servers can be found again");
        }
    };
    follow(source.clone(), place(), report).await;
}

/// Paths are whole when the configuration has been read.
fn place() -> Context {
    Context { folder: PathBuf::new() }
}

/// A name of a written server: its addresses may change while it runs. That it cannot be looked up is said where it was looked up first.
async fn follow_name(name: Name, heard: Arc<Heard>) {
    let question = DnsQuestion::Addresses { name: name.host.clone(), port: name.port };
    let (ttl_least, ttl_most) = (DnsDiscover::TTL_LEAST, DnsDiscover::TTL_MOST);
    let source = Discover::Dns(DnsDiscover { scheme: Scheme::Http, question, resolver: None, ttl_least, ttl_most });
    let report = |event| match event {
        Event::Members(members) => {
            let address = |member: &Member| Some(SocketAddr::new(member.server.address.host.parse().ok()?, name.port));
            heard.news().found.insert(name.clone(), members.iter().filter_map(address).collect());
            heard.notify.notify_one();
        }
        Event::Fault(fault) | Event::Remark(fault) => {
            tracing::debug!(%name, %fault, "the name of an upstream server cannot be looked up");
        }
        Event::Recovered => {}
    };
    follow(source, place(), report).await;
}

impl Control {
    /// After every change of what runs.
    pub(crate) fn follow_sources(&mut self) {
        let mut sources: Vec<Followed> = Vec::new();
        let mut names = BTreeSet::new();
        for pool in &self.running.configuration.pools {
            for source in &pool.discover {
                let metrics = self.registry().discovery(&pool.name.0, source.kind());
                let pool = (pool.name.clone(), metrics);
                match sources.iter_mut().find(|known| known.source == *source) {
                    Some(known) => known.pools.push(pool),
                    None => sources.push(Followed { source: source.clone(), pools: vec![pool], seen: Arc::default() }),
                }
            }
            names.extend(pool.servers.iter().filter_map(|server| Name::of(&server.address)));
        }
        for pool in &self.running.configuration.pools {
            let found = pool.discover.iter().filter_map(|source| self.running.discovered.of(source)).flatten();
            names
                .extend(found.filter(|member| member.addresses.is_empty()).filter_map(|member| Name::of(&member.server.address)));
        }
        self.followers.reconcile(sources, names);
    }

    /// What could not be used some time ago is tried again: a file may be readable by now.
    pub(crate) fn look_at_unused_news(&mut self) {
        if self.followers.try_again_at.is_some_and(|at| Instant::now() >= at) {
            self.followers.try_again_at = None;
            self.take_news();
        }
    }

    /// Takes on what the sources have said meanwhile: a new snapshot of the same generation, unless nothing changes by it.
    pub(crate) fn take_news(&mut self) {
        let mut news = std::mem::take(&mut self.followers.unused);
        news.merge(&std::mem::take(&mut *self.followers.heard.news()));
        self.take_on_news(&news);
    }

    pub(crate) fn take_on_news(&mut self, news: &News) {
        let configuration = self.running.configuration.clone();
        let numbers = self.numbers(self.generation(), self.workers.index_bound());
        let (before, survivors) = (&self.running, self.survivors());
        match in_background(move || gather_with(configuration, Some(before), survivors, numbers, Timestamp::now(), news)) {
            Ok(material) => {
                let changed = changed_pools(&self.running.snapshot, &material.snapshot);
                if changed.is_empty() {
                    self.running.discovered = material.discovered;
                    return;
                }
                for (pool, before, now) in changed {
                    tracing::info!(%pool, came = names_beyond(&now, &before), went = names_beyond(&before, &now), "the servers of a pool changed");
                }
                self.workers.change(ChangeParts { snapshot: Some(material.snapshot.clone()), ..ChangeParts::default() });
                self.supersede(material);
            }
            Err(fault) => {
                tracing::error!(%fault, "servers were found and cannot be used; those before stay in use; it is tried again");
                // Sources tell what changes only: it is tried again with what comes next, and after a while.
                self.followers.unused.merge(news);
                self.followers.try_again_at = Some(Instant::now() + TRY_AGAIN);
            }
        }
    }
}

type Servers = BTreeSet<String>;

/// Pools that are not what they were, with the addresses of their servers before and now.
fn changed_pools(
    before: &tidegate_proxy::snapshot::Snapshot,
    now: &tidegate_proxy::snapshot::Snapshot,
) -> Vec<(PoolName, Servers, Servers)> {
    let servers = |pool: &tidegate_upstream::compiled::CompiledPool| -> Servers {
        let all = |server: &tidegate_upstream::compiled::CompiledServer| {
            let addresses: Vec<String> = server.addresses.iter().map(ToString::to_string).collect();
            match addresses.as_slice() {
                [only] if **only == *server.authority => only.clone(),
                _ => format!("{} ({})", server.authority, addresses.join(", ")),
            }
        };
        pool.servers.iter().map(all).collect()
    };
    let pairs = before.pools.iter().zip(&now.pools).filter_map(|(before, now)| Some((before.as_ref()?, now.as_ref()?)));
    pairs
        .filter(|(before, now)| !Arc::ptr_eq(before, now))
        .map(|(before, now)| (now.name.clone(), servers(before), servers(now)))
        .collect()
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
