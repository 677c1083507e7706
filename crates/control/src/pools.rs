//! Servers while the process runs: asked how they are, compared with each other, and shown as they stand. One checker
//! for each server in the whole process; workers only read what it finds. How a server is asked is in the crate
//! `health`; what requests find out about it, in `proxy`.

use rustls::client::{ClientConfig, Resumption};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tidegate_balancing::outlier::Sample;
use tidegate_health::{CheckState, Checker, ProbeFault, Report, Seen, Standing, Target, TlsTarget, Transition, probe};
use tidegate_model::{Health, Origin, PoolName};
use tidegate_proxy::snapshot::Snapshot;
use tidegate_telemetry::{Registry, ServerCounts, ServerStateMetrics, ServerWord};
use tidegate_upstream::compiled::{CompiledPool, CompiledServer};
use tidegate_upstream::health::{Checked, HealthNews, Why};
use tidegate_upstream::shared::{PoolShared, ServerShared};
use tidegate_upstream::verdict::log_ejection;

/// What a start or a change waits for the first answers of all new servers together; a server that takes longer gets
/// requests only when no other can, until it is known how it is.
const FIRST_CHECKS_LIMIT: Duration = Duration::from_secs(1);
/// Servers that are asked at once at the start or by a change.
const FIRST_CHECKS_AT_ONCE: usize = 256;
/// How often servers are compared with each other.
const JUDGE_PERIOD: Duration = Duration::from_secs(10);

/// A pool that came, changed or went.
pub struct PoolChange {
    pub before: Option<Arc<CompiledPool>>,
    pub now: Option<Arc<CompiledPool>>,
}

/// By the slots of pools that are not what they were; two that had one slot one after the other have nothing to do with
/// each other.
pub fn pool_changes(before: Option<&Snapshot>, now: &Snapshot, slots: &[usize]) -> Vec<PoolChange> {
    let mut changes = Vec::with_capacity(slots.len());
    for slot in slots {
        let known = before.and_then(|before| before.pools.get(*slot)?.clone());
        let now = now.pools[*slot].clone();
        let are_one = known.as_ref().zip(now.as_ref()).is_none_or(|(known, now)| known.name == now.name);
        if are_one {
            changes.push(PoolChange { before: known, now });
        } else {
            changes.extend([PoolChange { before: known, now: None }, PoolChange { before: None, now }]);
        }
    }
    changes
}

/// A server by its pool and its address.
type ServerKey = (PoolName, Arc<str>);

/// Those who ask the servers, and what they have found.
#[derive(Default)]
pub struct Checkers {
    checked: HashMap<ServerKey, Checking>,
    /// How requests to servers had gone when they were compared last; nothing of servers that nobody has asked.
    judged: HashMap<ServerKey, ServerCounts>,
    judged_at: Option<Instant>,
    /// By the pools' slots. Of servers that left nothing is held, so that their series end.
    states: Vec<Option<PoolStates>>,
}

struct PoolStates {
    pool: Arc<CompiledPool>,
    news: HealthNews,
    states: Vec<Arc<ServerStateMetrics>>,
}

impl PoolStates {
    fn show(&self, now: Instant) {
        for (server, state) in self.pool.servers.iter().zip(&self.states) {
            let health = &server.shared.health;
            let why = health.why(self.pool.model.slow_start, now);
            if why.is_some() {
                // Some of these pass with time alone.
                self.news.note();
            }
            state.set_state(word(why.as_ref()));
            state.set_weight(server.model.weight);
            state.ejected(u64::from(health.take_ejections()));
        }
    }
}

struct Checking {
    /// The server as it was compiled: another address or another certificate is another question.
    pool: Arc<CompiledPool>,
    health: Health,
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Checking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Checkers {
    /// What the checks of a server have found so far.
    pub fn seen(&self, pool: &PoolName, authority: &Arc<str>) -> Option<Seen> {
        self.checked.get(&(pool.clone(), authority.clone())).map(|checking| locked(&checking.seen).clone())
    }
}

/// Asks servers that nobody has asked yet, all at once, so that none that is down gets the first requests, and none
/// that is well waits for its turn. Blocks, for [`FIRST_CHECKS_LIMIT`] at most. A change that is refused in the end has
/// them forgotten with [`forget_checks`].
pub fn first_checks<'a>(pools: impl Iterator<Item = &'a Arc<CompiledPool>>) {
    let mut unasked = Vec::new();
    for pool in pools {
        let Some(health) = &pool.model.health else { continue };
        let is_unasked = |server: &&CompiledServer| server.shared.health.checked() == Checked::Unasked;
        unasked.extend(pool.servers.iter().filter(is_unasked).map(|server| (pool, server, health)));
    }
    if unasked.is_empty() {
        return;
    }
    for (_, server, _) in &unasked {
        server.shared.health.set_checked(Checked::Unknown, Instant::now());
    }
    let Ok(runtime) =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(tokio::runtime::LocalOptions::default())
    else {
        return;
    };
    let until = Instant::now() + FIRST_CHECKS_LIMIT;
    runtime.block_on(async {
        let mut asked = tokio::task::JoinSet::new();
        for (pool, server, health) in unasked {
            if asked.len() >= FIRST_CHECKS_AT_ONCE {
                asked.join_next().await;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let key = (pool.name.clone(), server.authority.clone());
            asked.spawn_local(first_check(
                (key, pool.model.origin.clone()),
                target(pool, server, health),
                health.clone(),
                server.shared.clone(),
                left,
            ));
        }
        while asked.join_next().await.is_some() {}
    });
}

/// Servers that nobody has asked yet get requests only when no other can, until their checkers have found out.
pub fn await_checks<'a>(pools: impl Iterator<Item = &'a Arc<CompiledPool>>) {
    for pool in pools.filter(|pool| pool.model.health.is_some()) {
        let unasked = pool.servers.iter().filter(|server| server.shared.health.checked() == Checked::Unasked);
        unasked.for_each(|server| server.shared.health.set_checked(Checked::Unknown, Instant::now()));
    }
}

/// Servers that are not checked, or not any more, are neither up nor down.
pub fn forget_checks<'a>(pools: impl Iterator<Item = &'a Arc<CompiledPool>>) {
    let now = Instant::now();
    for pool in pools.filter(|pool| pool.model.health.is_none()) {
        for server in &pool.servers {
            let health = &server.shared.health;
            match health.checked() {
                Checked::Unasked => {}
                Checked::Down => {
                    health.set_checked(Checked::Unasked, now);
                    pool.shared.returned(server.identity, health.elapsed(now));
                }
                Checked::Unknown | Checked::Up => health.set_checked(Checked::Unasked, now),
            }
        }
    }
}

async fn first_check(
    ((pool, server), origin): (ServerKey, Option<Arc<Origin>>),
    target: Target,
    health: Health,
    shared: Arc<ServerShared>,
    left: Duration,
) {
    let outcome = probe(&target, &health.probe, health.timeout.min(left)).await;
    match outcome {
        Ok(_) => shared.health.set_checked(Checked::Up, Instant::now()),
        // It had less time than it may take: the checker will say.
        Err(ProbeFault::Timeout { .. }) if left < health.timeout => {}
        Err(fault) => {
            shared.health.set_checked(Checked::Down, Instant::now());
            log_down((&pool, origin.as_ref()), &server, &fault);
        }
    }
}

fn log_down((pool, origin): (&PoolName, Option<&Arc<Origin>>), server: &str, why: &dyn std::fmt::Display) {
    let origin = origin.map(tracing::field::display);
    tracing::warn!(%pool, origin, server, %why, "a server is down: it gets no requests while others can serve");
}

fn target(pool: &CompiledPool, server: &CompiledServer, health: &Health) -> Target {
    let tls = match (&server.tls_name, &pool.tls) {
        (Some(name), Some(configs)) => {
            let (config_http1, config_h2) = (without_sessions(&configs.http1), without_sessions(&configs.h2));
            Some(TlsTarget { config_http1, config_h2, name: name.clone() })
        }
        (Some(_) | None, None) | (None, Some(_)) => None,
    };
    Target {
        addresses: server.addresses.clone(),
        authority: server.model.address.host_field(),
        tls,
        protocol: pool.model.protocol,
        proxy_protocol: pool.model.send_proxy_protocol,
        port: health.port,
    }
}

/// In a resumed session no certificate is shown, and one that has expired would go unnoticed.
fn without_sessions(config: &Arc<ClientConfig>) -> Arc<ClientConfig> {
    let mut config = (**config).clone();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

impl Checkers {
    /// A checker for each server of each pool that has checks, and none for others. On the control thread's runtime
    /// only.
    pub fn follow(&mut self, changes: &[PoolChange], registry: &Registry) {
        forget_checks(changes.iter().filter_map(|change| change.now.as_ref()));
        let mut before = HashMap::new();
        for pool in changes.iter().filter_map(|change| change.before.as_ref()).filter(|pool| pool.model.health.is_some()) {
            for server in &pool.servers {
                let key = (pool.name.clone(), server.authority.clone());
                before.extend(self.checked.remove_entry(&key));
            }
        }
        let mut wanted = HashMap::new();
        for pool in changes.iter().filter_map(|change| change.now.as_ref()) {
            let Some(health) = &pool.model.health else { continue };
            for server in &pool.servers {
                wanted.insert((pool.name.clone(), server.authority.clone()), (pool, server, health));
            }
        }
        let count = self.checked.len() + wanted.len();
        for (key, (pool, server, health)) in wanted {
            let known = before.remove(&key);
            let stays = |checking: &Checking| Arc::ptr_eq(pool, &checking.pool) && checking.health == *health;
            let seen = match known {
                Some(checking) if stays(&checking) => {
                    self.checked.insert(key, checking);
                    continue;
                }
                // Its pool changed: what was counted stays, or a pool that changes often would never find out.
                Some(checking) => locked(&checking.seen).clone(),
                None => first_seen(server.shared.health.checked()),
            };
            let state = CheckState::resume(seen);
            let seen = Arc::new(Mutex::new(state.seen().clone()));
            let checker = Checker::new(target(pool, server, health), health.clone(), state, count);
            let metrics = registry.server_state(&pool.name.0, &server.authority);
            let report = reporter(
                (key.clone(), pool.model.origin.clone()),
                pool.shared.clone(),
                (server.identity, server.shared.clone()),
                metrics,
                seen.clone(),
            );
            let task = tokio::task::spawn_local(async move { match checker.run(random(), report).await {} });
            self.checked.insert(key, Checking { pool: pool.clone(), health: health.clone(), seen, task });
        }
    }

    /// For every server that is in use, where it is shown how it stands. Pools that did not change keep theirs.
    pub fn show(&mut self, running: &Snapshot, changed: &[usize], registry: &Registry) {
        let slots = &running.pools;
        self.states.resize_with(slots.len(), || None);
        for slot in changed {
            let shown = slots[*slot].as_ref().map(|pool| {
                let state = |server: &CompiledServer| registry.server_state(&pool.name.0, &server.authority);
                pool.shared.news.note();
                PoolStates {
                    pool: pool.clone(),
                    news: pool.shared.news.clone(),
                    states: pool.servers.iter().map(state).collect(),
                }
            });
            self.states[*slot] = shown;
        }
    }

    /// Once a second: how servers stand, for the metrics; and every ten seconds, how they do beside each other.
    pub fn look(&mut self, snapshot: &Snapshot, registry: &Registry) {
        let now = Instant::now();
        for states in self.states.iter().flatten().filter(|states| states.news.take()) {
            states.show(now);
        }
        if self.judged_at.is_none_or(|at| now.saturating_duration_since(at) >= JUDGE_PERIOD) {
            self.judged_at = Some(now);
            self.forget_servers(snapshot);
            snapshot.pools.iter().flatten().for_each(|pool| self.compare_servers(pool, now, registry));
        }
    }

    /// A server that left would count among those that are out, and among those that are compared, for ever.
    fn forget_servers(&mut self, snapshot: &Snapshot) {
        for pool in snapshot.pools.iter().flatten() {
            pool.shared.forget(|identity| pool.servers.iter().any(|server| server.identity == identity));
        }
        // Most servers of very many were never asked.
        let pools: HashSet<&PoolName> = self.judged.keys().map(|(pool, _)| pool).collect();
        let compared = pools.into_iter().filter_map(|pool| snapshot.pool_named(pool)).filter(|pool| is_compared(pool));
        let servers = compared.flat_map(|pool| pool.servers.iter().map(|server| (pool.name.clone(), server.authority.clone())));
        let known: HashSet<ServerKey> = servers.collect();
        self.judged.retain(|key, _| known.contains(key));
    }

    /// Servers whose share of good answers is far below that of their neighbours get none for a while.
    fn compare_servers(&mut self, pool: &CompiledPool, now: Instant, registry: &Registry) {
        let Some(outlier) = pool.model.outlier.filter(|_| is_compared(pool)) else { return };
        let mut samples = Vec::with_capacity(pool.servers.len());
        for server in &pool.servers {
            let names = (pool.name.0.clone(), server.authority.clone());
            let counts = registry.server_counts(&names);
            let (key, is_asked) = ((PoolName(names.0), names.1), counts != ServerCounts::default());
            let before = if is_asked { self.judged.insert(key, counts) } else { self.judged.remove(&key) };
            let before = before.unwrap_or_default();
            let requests = counts.requests.saturating_sub(before.requests);
            let bad = counts.failures.saturating_sub(before.failures);
            samples.push(Sample { server: server.identity, good: requests.saturating_sub(bad), bad });
        }
        let Some(first) = pool.servers.first() else { return };
        let since_start = first.shared.health.elapsed(now);
        for (identity, ejection) in pool.shared.judge(&outlier, &samples, since_start) {
            let Some(server) = pool.servers.iter().find(|server| server.identity == identity) else { continue };
            server.shared.health.eject(ejection.until, ejection.why);
            log_ejection(pool, &server.authority, ejection.why, ejection.until.saturating_sub(since_start));
        }
    }
}

/// Whether the servers of a pool are held against each other.
fn is_compared(pool: &CompiledPool) -> bool {
    pool.model.outlier.is_some_and(|outlier| outlier.success_rate)
}

/// A server that leaves its pool is not drained any more: when it comes back, it is a new one.
pub(crate) fn take_back_into_use(changes: &[PoolChange]) {
    for PoolChange { before, now } in changes {
        for server in before.iter().flat_map(|pool| &pool.servers) {
            let stays =
                now.as_ref().is_some_and(|now| now.servers.iter().any(|known| Arc::ptr_eq(&known.shared, &server.shared)));
            if !stays {
                server.shared.health.set_drained(false);
            }
        }
    }
}

/// A server that joins a pool of others gets its share little by little, where the pool says so. Those of a new pool
/// begin together.
pub(crate) fn begin_slowly(changes: &[PoolChange]) {
    for PoolChange { before, now } in changes {
        let (Some(known), Some(pool)) = (before, now) else { continue };
        if pool.model.slow_start.is_zero() {
            continue;
        }
        let is_new = |server: &&CompiledServer| !known.servers.iter().any(|known| Arc::ptr_eq(&known.shared, &server.shared));
        for server in pool.servers.iter().filter(is_new) {
            server.shared.health.begin_slowly(Instant::now());
        }
    }
}

/// How a server stands, in the word that metrics, status and `explain` share.
pub(crate) fn word(why: Option<&Why>) -> ServerWord {
    match why {
        None => ServerWord::Serving,
        Some(Why::Drained) => ServerWord::Draining,
        Some(Why::Leaving) => ServerWord::Leaving,
        Some(Why::Down) => ServerWord::Down,
        Some(Why::Unknown) => ServerWord::Unknown,
        Some(Why::Ejected(_) | Why::Probed) => ServerWord::Ejected,
        Some(Why::Unreachable(_) | Why::Paused(_)) => ServerWord::Resting,
        Some(Why::Starting(_)) => ServerWord::Starting,
    }
}

/// What a new checker begins with: a server that is known already is not known for the first time.
fn first_seen(checked: Checked) -> Seen {
    let since = Instant::now();
    let standing = match checked {
        Checked::Up => Standing::Up { since, failures: 0 },
        Checked::Down => Standing::Down { since, successes: 0 },
        Checked::Unasked | Checked::Unknown => Standing::Unknown,
    };
    Seen { standing, ..Seen::default() }
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes down what a checker finds; each change is one log line.
fn reporter(
    ((pool, server), origin): (ServerKey, Option<Arc<Origin>>),
    pool_shared: Arc<PoolShared>,
    (identity, shared): (u64, Arc<ServerShared>),
    metrics: Arc<ServerStateMetrics>,
    seen: Arc<Mutex<Seen>>,
) -> impl FnMut(Report) {
    move |report: Report| {
        let is_passed = report.seen.last_fault.as_ref().is_none_or(|fault| Some(fault.at) != report.seen.checked_at);
        metrics.checked(is_passed);
        match &report.transition {
            None => {}
            Some(Transition::Up { .. }) => {
                let now = Instant::now();
                shared.health.set_checked(Checked::Up, now);
                pool_shared.returned(identity, shared.health.elapsed(now));
                // Whoever waits in the queue may go to it.
                pool_shared.queue.call_next();
                tracing::info!(%pool, %server, "a server is up: its health checks are passed");
            }
            Some(Transition::Down { why, .. }) => {
                shared.health.set_checked(Checked::Down, Instant::now());
                log_down((&pool, origin.as_ref()), &server, &why);
            }
        }
        *locked(&seen) = report.seen;
    }
}

/// Uniform bits, not for secrets.
fn random() -> impl FnMut() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    || RandomState::new().build_hasher().finish()
}
