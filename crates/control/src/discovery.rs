//! Servers that nobody wrote, while the process runs: every source of the configuration is followed, and what it says
//! becomes part of the pools that name it, several sources at once where they change together. How sources are asked is
//! in the crate `discovery`; a change of the configuration waits for the first answers of new ones, for a bounded time.

use crate::clusters::{self, Clusters, cluster_of};
use crate::names::{Found, Name};
use crate::pools::PoolChange;
use jiff::Timestamp;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tidegate_cluster::Key;
use tidegate_discovery::{ContainerBoard, Context, Endpoint, Event, Fault, follow};
use tidegate_model::discover::{Cluster, DnsDiscover, DnsQuestion, KubernetesDiscover};
use tidegate_model::{Discover, Pool, PoolName, Scheme, UpstreamAddress};
use tidegate_telemetry::{DiscoveryMetrics, Registry};
use tokio::sync::Notify;

/// What a change waits for the first answers of all new sources together. Nothing else happens on the control thread
/// meanwhile.
pub const FIRST_ANSWERS_LIMIT: Duration = Duration::from_secs(1);
/// News that come within this are taken on together: each time is a new snapshot.
const COALESCE: Duration = Duration::from_millis(20);
/// When news that could not be used are tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// Names of written servers that are looked up again as their TTL says; those beyond keep the addresses of the start.
const NAMES_FOLLOWED_MAX: usize = 1000;

/// The last good answer of each source; of one that was asked and has not answered yet, nobody.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Discovered(HashMap<Discover, Vec<Endpoint>>);

impl Discovered {
    pub fn of(&self, source: &Discover) -> Option<&[Endpoint]> {
        self.0.get(source).map(|endpoints| &endpoints[..])
    }

    pub fn set(&mut self, source: &Discover, endpoints: Vec<Endpoint>) {
        self.0.insert(source.clone(), endpoints);
    }

    /// Takes in other answers, which are the newer.
    pub fn merge(&mut self, newer: &Discovered) {
        self.0.extend(newer.0.iter().map(|(source, endpoints)| (source.clone(), endpoints.clone())));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What was found out since the last compilation.
#[derive(Debug, Default, Clone)]
pub struct News {
    /// Addresses of names.
    pub found: Found,
    /// What sources of servers say now.
    pub discovered: Discovered,
    /// Pools that look for one of these.
    pub pools: BTreeSet<PoolName>,
}

impl News {
    /// What is to be looked at anew of these pools.
    pub fn of_pools(pools: BTreeSet<PoolName>) -> News {
        News { pools, ..News::default() }
    }

    /// Takes in other news, which are the newer.
    pub fn merge(&mut self, newer: &News) {
        self.found.extend(newer.found.clone());
        self.discovered.merge(&newer.discovered);
        self.pools.extend(newer.pools.iter().cloned());
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.discovered.is_empty()
    }
}

/// What sources said, by source.
type Answers = Vec<(Discover, Vec<Endpoint>)>;

/// The first answers of sources, for which a change waits; those that say nothing in time have no servers until they
/// do.
pub fn first_answers(sources: &[(&Discover, &PoolName)]) -> Answers {
    let words = first_words(sources.iter().map(|(source, _)| (*source).clone()).collect());
    let mut answers = Vec::new();
    for ((source, pool), word) in sources.iter().zip(words) {
        match word {
            FirstWord::Members { endpoints, remark: _ } => answers.push(((*source).clone(), endpoints)),
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
        endpoints: Vec<Endpoint>,
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
    let clusters = Clusters::default();
    clusters.begin(sources.iter());
    let Ok(runtime) =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(tokio::runtime::LocalOptions::default())
    else {
        return words.take();
    };
    runtime.block_on(async {
        let mut asked = tokio::task::JoinSet::new();
        let context = Context::default();
        for (position, source) in sources.into_iter().enumerate() {
            let (words, context) = (words.clone(), context.clone());
            if let Discover::Kubernetes(wanted) = source {
                let clusters = clusters.clone();
                // In time for the reason to be heard.
                let limit = FIRST_ANSWERS_LIMIT.mul_f64(0.8);
                let asking = tokio::task::spawn_blocking(move || clusters.endpoints(&wanted, limit));
                asked.spawn_local(async move {
                    words.borrow_mut()[position] = match asking.await {
                        Ok(Ok(endpoints)) => FirstWord::Members { endpoints, remark: None },
                        Ok(Err(why)) => FirstWord::Fault(Fault::new(why)),
                        Err(_) => FirstWord::None,
                    };
                });
                continue;
            }
            asked.spawn_local(async move {
                let heard = Notify::new();
                let report = |event| {
                    let word = &mut words.borrow_mut()[position];
                    match event {
                        Event::Endpoints(endpoints) => *word = FirstWord::Members { endpoints, remark: None },
                        // It is told in the same breath as the endpoints that it is about.
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
                    () = follow(source, context, report) => {}
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
    sources: HashMap<Discover, FollowedSource>,
    clusters: Clusters,
    /// Sources that are told of what differs of a Service.
    asked: HashMap<(Cluster, Key), Vec<Discover>>,
    /// Names of servers. Not all have a follower.
    names: BTreeMap<Name, FollowedName>,
    names_followed: usize,
    /// Shared by all sources. Paths are whole when the configuration has been read.
    context: Context,
    /// What each pool looks for.
    sought: HashMap<PoolName, Sought>,
    heard: Arc<Heard>,
    /// What could not be compiled when it was heard.
    unused: News,
    try_again_at: Option<Instant>,
}

struct FollowedSource {
    pools: SourcePools,
    seen: Arc<Mutex<SourceSeen>>,
    /// `None`: a cluster is followed as a whole.
    _follower: Option<Follower>,
}

/// The pools that have a source, and where its figures are kept for each.
type SourcePools = Arc<Mutex<Vec<(PoolName, Arc<DiscoveryMetrics>)>>>;

#[derive(Default)]
struct FollowedName {
    pools: BTreeSet<PoolName>,
    follower: Option<Follower>,
}

/// What one pool looks for.
#[derive(Default)]
struct Sought {
    sources: Vec<Discover>,
    names: BTreeSet<Name>,
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
    /// Sources that are containers find them there.
    pub fn beside(containers: &ContainerBoard) -> Followers {
        let context = Context { containers: containers.clone(), ..Context::default() };
        Followers { context, ..Followers::default() }
    }

    pub fn containers(&self) -> &ContainerBoard {
        &self.context.containers
    }

    pub fn clusters(&self) -> &Clusters {
        &self.clusters
    }

    pub fn seen(&self, source: &Discover) -> SourceSeen {
        if let Discover::Kubernetes(wanted) = source {
            return self.clusters.seen(wanted);
        }
        self.sources.get(source).map(|followed| locked(&followed.seen).clone()).unwrap_or_default()
    }

    pub fn heard(&self) -> Arc<Heard> {
        self.heard.clone()
    }

    /// The pool looks for nothing any more. What nobody else looks for is followed until [`Followers::let_go`] is told
    /// of it.
    fn forget(&mut self, pool: &PoolName) -> Sought {
        let sought = self.sought.remove(pool).unwrap_or_default();
        for followed in sought.sources.iter().filter_map(|source| self.sources.get(source)) {
            locked(&followed.pools).retain(|(known, _)| known != pool);
        }
        for name in &sought.names {
            if let Some(followed) = self.names.get_mut(name) {
                followed.pools.remove(pool);
            }
        }
        sought
    }

    /// On the control thread's runtime only.
    fn seek(&mut self, pool: &PoolName, sought: Sought, registry: &Registry) {
        for source in &sought.sources {
            let (heard, context) = (&self.heard, &self.context);
            let asked = &mut self.asked;
            let follow = || {
                let (pools, seen) = (SourcePools::default(), Arc::<Mutex<SourceSeen>>::default());
                if let Discover::Kubernetes(wanted) = source {
                    asked.entry((wanted.cluster.clone(), clusters::key(wanted))).or_default().push(source.clone());
                    return FollowedSource { pools, seen, _follower: None };
                }
                let task = follow_source(source.clone(), context.clone(), pools.clone(), seen.clone(), heard.clone());
                FollowedSource { pools, seen, _follower: Some(Follower(tokio::task::spawn_local(task))) }
            };
            let followed = self.sources.entry(source.clone()).or_insert_with(follow);
            let metrics = registry.discovery(&pool.0, source.kind());
            // What a cluster knows already is no news of it.
            if let Discover::Kubernetes(wanted) = source
                && let Some(servers) = self.clusters.seen(wanted).servers
            {
                note_servers(&metrics, servers);
            }
            locked(&followed.pools).push((pool.clone(), metrics));
        }
        for name in &sought.names {
            self.names.entry(name.clone()).or_default().pools.insert(pool.clone());
        }
        if !sought.sources.is_empty() || !sought.names.is_empty() {
            self.sought.insert(pool.clone(), sought);
        }
    }

    /// Ends the followers of what nobody looks for any more. Gives the sources among it.
    fn let_go(&mut self, before: Vec<Sought>) -> Vec<Discover> {
        let mut gone = Vec::new();
        for Sought { sources, names } in before {
            for source in sources {
                if self.sources.get(&source).is_some_and(|followed| locked(&followed.pools).is_empty()) {
                    self.sources.remove(&source);
                    if let Discover::Kubernetes(wanted) = &source {
                        self.ask_no_more(wanted, &source);
                    }
                    gone.push(source);
                }
            }
            for name in names {
                if self.names.get(&name).is_some_and(|followed| followed.pools.is_empty()) {
                    let followed = self.names.remove(&name);
                    self.names_followed -= usize::from(followed.is_some_and(|followed| followed.follower.is_some()));
                }
            }
        }
        // Once for all of them: it looks at every Service that is left.
        if gone.iter().any(|source| cluster_of(source).is_some()) {
            self.keep_clusters();
        }
        gone
    }

    fn ask_no_more(&mut self, wanted: &KubernetesDiscover, source: &Discover) {
        let service = (wanted.cluster.clone(), clusters::key(wanted));
        if let Some(sources) = self.asked.get_mut(&service) {
            sources.retain(|known| known != source);
            if sources.is_empty() {
                self.asked.remove(&service);
            }
        }
    }

    /// Clusters that no pool looks at any more are let go.
    pub fn keep_clusters(&self) {
        self.clusters.keep_only(&self.asked.keys().map(|(cluster, _)| cluster).collect());
    }

    /// What differs in clusters since it was last asked, as the pools that find servers there.
    pub fn take_cluster_news(&self) -> News {
        let mut pools = BTreeSet::new();
        for (cluster, services) in self.clusters.take_changes() {
            for service in services {
                for source in self.asked.get(&(cluster.clone(), service)).into_iter().flatten() {
                    let Some(followed) = self.sources.get(source) else { continue };
                    let servers = self.seen(source).servers;
                    for (pool, metrics) in locked(&followed.pools).iter() {
                        note_servers(metrics, servers.unwrap_or(0));
                        pools.insert(pool.clone());
                    }
                }
            }
        }
        News::of_pools(pools)
    }

    /// Says once that a cluster cannot be followed, and once that it can again.
    pub fn look_at_clusters(&self) {
        for (cluster, fault) in self.clusters.take_faults() {
            let namespaces = cluster.namespaces.to_string();
            let is_known = self.clusters.is_known(&cluster);
            match fault {
                None => tracing::info!(namespaces, "servers can be found in Kubernetes again"),
                Some(fault) => {
                    let what = if is_known { "those that were found last stay in use" } else { "none was found so far" };
                    let fault = format!("the API server {fault}");
                    tracing::warn!(namespaces, fault, "servers cannot be found in Kubernetes: {what}");
                    let of_cluster = self.sources.iter().filter(|(source, _)| cluster_of(source) == Some(&cluster));
                    for (_, metrics) in of_cluster.flat_map(|(_, followed)| locked(&followed.pools).clone()) {
                        metrics.fault();
                    }
                }
            }
        }
    }

    /// As many names as are followed at most. On the control thread's runtime only.
    fn follow_names(&mut self) {
        let bound = self.names.len().min(NAMES_FOLLOWED_MAX);
        if self.names_followed >= bound {
            return;
        }
        for (name, followed) in self.names.iter_mut().filter(|(_, followed)| followed.follower.is_none()) {
            followed.follower = Some(Follower(tokio::task::spawn_local(follow_name(name.clone(), self.heard.clone()))));
            self.names_followed += 1;
            if self.names_followed >= bound {
                return;
            }
        }
    }

    /// Who looks for any of what there are news of.
    pub fn pools_of(&self, news: &News) -> BTreeSet<PoolName> {
        let mut pools = BTreeSet::new();
        for followed in news.discovered.0.keys().filter_map(|source| self.sources.get(source)) {
            pools.extend(locked(&followed.pools).iter().map(|(pool, _)| pool.clone()));
        }
        let by_name = news.found.keys().filter_map(|name| self.names.get(name));
        pools.extend(by_name.flat_map(|followed| followed.pools.iter().cloned()));
        pools
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note_servers(metrics: &DiscoveryMetrics, count: usize) {
    metrics.set_members(count);
    metrics.set_last_success(Timestamp::now().as_second());
    metrics.changed();
}

async fn follow_source(source: Discover, context: Context, pools: SourcePools, seen: Arc<Mutex<SourceSeen>>, heard: Arc<Heard>) {
    let kind = source.kind();
    let names = || locked(&pools).iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(", ");
    let report = |event| match event {
        Event::Endpoints(endpoints) => {
            locked(&seen).servers = Some(endpoints.len());
            for (_, metrics) in locked(&pools).iter() {
                note_servers(metrics, endpoints.len());
            }
            heard.news().discovered.set(&source, endpoints);
            heard.notify.notify_one();
        }
        Event::Fault(fault) => {
            for (_, metrics) in locked(&pools).iter() {
                metrics.fault();
            }
            let mut seen = locked(&seen);
            seen.fault = Some(fault.to_string());
            let what = if seen.servers.is_some() { "those that were found last stay in use" } else { "none was found so far" };
            tracing::warn!(pools = names(), kind, %fault, "servers cannot be found: {what}");
        }
        Event::Remark(fault) => {
            for (_, metrics) in locked(&pools).iter() {
                metrics.fault();
            }
            locked(&seen).fault = Some(fault.to_string());
            tracing::warn!(pools = names(), kind, %fault, "a part of what names the servers cannot be used");
        }
        Event::Recovered => {
            locked(&seen).fault = None;
            tracing::info!(pools = names(), kind, "servers can be found again");
        }
    };
    follow(source.clone(), context, report).await;
}

/// A name of a written server: its addresses may change while it runs. That it cannot be looked up is said where it was
/// looked up first.
async fn follow_name(name: Name, heard: Arc<Heard>) {
    let question = DnsQuestion::Addresses { name: name.host.clone(), port: name.port };
    let (ttl_least, ttl_most) = (DnsDiscover::TTL_LEAST, DnsDiscover::TTL_MOST);
    let source = Discover::Dns(DnsDiscover { scheme: Scheme::Http, question, resolver: None, ttl_least, ttl_most });
    let report = |event| match event {
        Event::Endpoints(endpoints) => {
            let address = |endpoint: &Endpoint| match &endpoint.server.address {
                UpstreamAddress::Tcp(address) => Some(SocketAddr::new(address.host.parse().ok()?, name.port)),
                UpstreamAddress::Unix(_) => None,
            };
            heard.news().found.insert(name.clone(), endpoints.iter().filter_map(address).collect());
            heard.notify.notify_one();
        }
        Event::Fault(fault) | Event::Remark(fault) => {
            tracing::debug!(%name, %fault, "the name of an upstream server cannot be looked up");
        }
        Event::Recovered => {}
    };
    follow(source, Context::default(), report).await;
}

impl Followers {
    /// After every change of what runs: what its changed pools look for is followed, and nothing that nobody looks for.
    pub fn follow(&mut self, changes: &[PoolChange], discovered: &mut Discovered, registry: &Registry) {
        let mut before = Vec::new();
        for change in changes {
            if let Some(pool) = change.before.as_ref().or(change.now.as_ref()) {
                before.push(self.forget(&pool.name));
            }
            if let Some(pool) = &change.now {
                let sought = sought(&pool.model, discovered);
                self.seek(&pool.name, sought, registry);
            }
        }
        for source in self.let_go(before) {
            discovered.0.remove(&source);
        }
        self.follow_names();
    }

    /// Whether what could not be used some time ago is to be tried again: a file may be readable by now.
    pub fn is_time_to_try_again(&mut self) -> bool {
        self.try_again_at.take_if(|at| Instant::now() >= *at).is_some()
    }

    /// What was heard since it was last taken, with the pools that look for it.
    pub fn take_news(&mut self) -> News {
        let mut news = std::mem::take(&mut self.unused);
        news.merge(&std::mem::take(&mut *self.heard.news()));
        news
    }

    /// Keeps what could not be used. Sources tell what changes only: it is tried again with what comes next, and after
    /// a while.
    pub fn keep_unused(&mut self, news: &News) {
        self.unused.merge(news);
        self.try_again_at = Some(Instant::now() + TRY_AGAIN);
    }
}

/// Sources of a pool, and names of its servers whose addresses nobody told.
fn sought(pool: &Pool, discovered: &Discovered) -> Sought {
    let mut names: BTreeSet<Name> = pool.servers.iter().filter_map(|server| Name::of(&server.address)).collect();
    let found = pool.discover.iter().filter_map(|source| discovered.of(source)).flatten();
    names
        .extend(found.filter(|endpoint| endpoint.addresses.is_empty()).filter_map(|endpoint| Name::of(&endpoint.server.address)));
    let mut sources: Vec<Discover> = Vec::new();
    for source in &pool.discover {
        if !sources.contains(source) {
            sources.push(source.clone());
        }
    }
    Sought { sources, names }
}
