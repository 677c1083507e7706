//! The thread that follows a cluster: one loop for each kind of objects, and one cache that they fill. Who needs
//! something of it reads the cache, and is told when something differs.

use crate::cache::{Cache, Changes};
use crate::client::{Client, Place};
use crate::fault::Fault;
use crate::fetch::{CONFIG_MAPS_AT_ONCE, SECRETS_AT_ONCE, fetch};
use crate::follow::follow;
use crate::kind::{Kind, Part};
use crate::news::Told;
use crate::object::{ConfigMap, EndpointSlice, FetchedMeta, Ingress, IngressClass, Key, Secret, Service};
use crate::shelf::KindState;
use crate::snapshot::{
    Extent, RENEWED_EVERY, Recalled, SHARE as SNAPSHOT_SHARE, SnapshotFile, SnapshotOutcome, SnapshotState, TAKEN_AFTER,
    WRITTEN_EVERY,
};
use crate::texts::Texts;
use crate::watch_named::watch_named;
use futures_util::future::{AbortHandle, select_all};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_model::discover::Namespaces;
use tokio::sync::{Notify, oneshot};

/// How long news wait for those that come with them: a roll-out changes several slices at once.
const COLLECTED: Duration = Duration::from_millis(5);

/// Which objects of a cluster are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Each of several has a watch of its own for each kind, and needs rights there only.
    pub namespaces: Namespaces,
    /// Objects of other kinds are not asked for, and need no rights. Without Secrets among them, each Secret that is
    /// wanted is watched by its name.
    pub kinds: &'static [Kind],
}

impl Scope {
    /// What tells the servers of Services.
    pub const ENDPOINTS: &'static [Kind] = &[Kind::Service, Kind::EndpointSlice];
}

/// Follows a cluster until it is dropped.
pub struct ClusterFollower {
    kinds: &'static [Kind],
    shared: Arc<Shared>,
    /// The thread ends with it.
    _ends: oneshot::Sender<()>,
}

struct Shared {
    cache: Mutex<Cache>,
    /// What differs and nobody has taken.
    changes: Mutex<Changes>,
    /// When the first of it came that is of objects.
    arrived: Mutex<Option<Instant>>,
    is_secret_due: Notify,
    is_config_map_due: Notify,
    /// Told when other Secrets are wanted than before.
    have_secrets_turned: Notify,
    /// `None`: there is to be none.
    snapshot: Mutex<Option<SnapshotState>>,
    has_changed: Notify,
    /// Ingresses that are others since somebody took them; `None` as long as nobody does.
    changed_ingresses: Mutex<Option<BTreeSet<Key>>>,
    has_changed_ingresses: Notify,
}

/// What a follower knows, as long as it follows and as it was last after that. There is to be one of each follower.
pub struct ClusterView(Arc<Shared>);

impl ClusterView {
    /// What is known now. The lock is to be held for a moment only.
    pub fn cache(&self) -> MutexGuard<'_, Cache> {
        locked(&self.0.cache)
    }

    /// Ingresses that are others than when this was last asked, once there are any.
    pub(crate) async fn changed_ingresses(&self) -> BTreeSet<Key> {
        loop {
            let changed = std::mem::take(locked(&self.0.changed_ingresses).get_or_insert_default());
            if !changed.is_empty() {
                return changed;
            }
            self.0.has_changed_ingresses.notified().await;
        }
    }
}

impl ClusterFollower {
    /// Starts the thread. What is wrong with the place is known now; that nobody answers there is not.
    ///
    /// `differs` is called when something differs of a cluster that is known as a whole, or when that is first so.
    pub fn start(place: Place, scope: Scope, differs: impl Fn() + Send + 'static) -> Result<ClusterFollower, Fault> {
        ClusterFollower::start_with(place, scope, None, differs)
    }

    /// As [`ClusterFollower::start`]. What is known is also written into a file of this folder, and a process that
    /// starts while the API server is away begins with what stands there.
    pub fn start_with(
        place: Place,
        scope: Scope,
        snapshots: Option<PathBuf>,
        differs: impl Fn() + Send + 'static,
    ) -> Result<ClusterFollower, Fault> {
        let snapshot_file = snapshots.map(|folder| SnapshotFile::new(folder, extent(&place, &scope), scope.kinds));
        let (client, kinds) = (Client::new(place)?, scope.kinds);
        let shared = Arc::new(Shared {
            cache: Mutex::new(Cache::of(&scope.namespaces)),
            changes: Mutex::default(),
            arrived: Mutex::default(),
            is_secret_due: Notify::new(),
            is_config_map_due: Notify::new(),
            have_secrets_turned: Notify::new(),
            snapshot: Mutex::new(snapshot_file.as_ref().map(|_| SnapshotState::default())),
            has_changed: Notify::new(),
            changed_ingresses: Mutex::new(None),
            has_changed_ingresses: Notify::new(),
        });
        let (ends, ended) = oneshot::channel::<()>();
        let of_thread = shared.clone();
        let no_thread = |error: io::Error| Fault::Unasked { problem: format!("no thread can be started: {error}") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let run = move || {
            let following = follow_all(client, scope, snapshot_file, of_thread, differs);
            runtime.block_on(async {
                tokio::select! {
                    _ = ended => {}
                    () = following => {}
                }
            });
        };
        thread::Builder::new().name("cluster".to_owned()).spawn(run).map_err(no_thread)?;
        Ok(ClusterFollower { kinds, shared, _ends: ends })
    }

    /// What is known now. The lock is to be held for a moment only.
    pub fn cache(&self) -> MutexGuard<'_, Cache> {
        locked(&self.shared.cache)
    }

    /// What is known, for the one who writes.
    pub fn view(&self) -> ClusterView {
        ClusterView(self.shared.clone())
    }

    /// How the snapshot does, if there is to be one.
    pub fn snapshot(&self) -> Option<SnapshotState> {
        locked(&self.shared.snapshot).clone()
    }

    /// Whether every kind has had its whole list, or may do without.
    pub fn is_whole(&self) -> bool {
        self.cache().is_whole(self.kinds)
    }

    /// Fetches these Secrets, and again when they change; what is not among them any more is let go. Each state that
    /// comes of it is a change of its own, but for those that are given: of these something is known already.
    pub fn want_secrets(&self, wanted: BTreeSet<Key>) -> BTreeSet<Key> {
        let known = self.cache().want_secrets(wanted);
        self.shared.is_secret_due.notify_one();
        self.shared.have_secrets_turned.notify_one();
        known
    }

    /// As [`ClusterFollower::want_secrets`], of those alone that differ.
    pub fn turn_secrets(&self, came: BTreeSet<Key>, went: BTreeSet<Key>) -> BTreeSet<Key> {
        let known = self.cache().turn_secrets(came, went);
        self.shared.is_secret_due.notify_one();
        self.shared.have_secrets_turned.notify_one();
        known
    }

    /// As [`ClusterFollower::want_secrets`], of ConfigMaps.
    pub fn want_config_maps(&self, wanted: BTreeSet<Key>) -> BTreeSet<Key> {
        let known = self.cache().want_config_maps(wanted);
        self.shared.is_config_map_due.notify_one();
        known
    }

    /// Whether something is known of everything that is wanted: what it holds, that it is not there, or that it may
    /// not be seen.
    pub fn has_answered(&self) -> bool {
        self.cache().has_answered()
    }

    /// Why nothing is heard of one of the kinds.
    pub fn fault(&self) -> Option<Fault> {
        self.cache().fault(self.kinds).cloned()
    }

    /// How the following of each kind does.
    pub fn states(&self) -> Vec<KindState> {
        let cache = self.cache();
        self.kinds.iter().map(|kind| cache.state(*kind)).collect()
    }

    /// What differs and nobody has taken, once every kind has had its whole list.
    pub fn take_changes(&self) -> Option<Changes> {
        if !self.is_whole() {
            return None;
        }
        let changes = std::mem::take(&mut *locked(&self.shared.changes));
        (!changes.is_empty()).then_some(changes)
    }

    /// When the first of the changes of objects came since this was last asked.
    pub fn take_arrival(&self) -> Option<Instant> {
        locked(&self.shared.arrived).take()
    }
}

/// What a snapshot of it is of.
fn extent(place: &Place, scope: &Scope) -> Extent {
    let namespaces = match &scope.namespaces {
        Namespaces::All => None,
        Namespaces::Named(names) => Some(names.to_vec()),
    };
    Extent { url: place.url.clone(), namespaces }
}

async fn follow_all(client: Client, scope: Scope, snapshot_file: Option<SnapshotFile>, shared: Arc<Shared>, differs: impl Fn()) {
    let texts = Rc::<RefCell<Texts>>::default();
    let told = Rc::<RefCell<Vec<(Part, Told)>>>::default();
    let heard = Notify::new();
    let tell = |part: &Part, news: Told| {
        told.borrow_mut().push((part.clone(), news));
        heard.notify_one();
    };
    let collecting = async {
        loop {
            heard.notified().await;
            let arrived = Instant::now();
            tokio::time::sleep(COLLECTED).await;
            if take_in(&shared, scope.kinds, told.take(), arrived) {
                differs();
            }
        }
    };
    let mut all: Vec<Pin<Box<dyn Future<Output = Infallible> + '_>>> = Vec::new();
    let parts = |kind: Kind| kind.parts(&scope.namespaces).into_iter().map(move |part| (kind, part));
    for (kind, part) in scope.kinds.iter().copied().flat_map(parts) {
        let (client, texts) = (&client, texts.clone());
        all.push(match kind {
            Kind::Service => Box::pin(follow::<Service>(client, part, texts, tell)),
            Kind::EndpointSlice => Box::pin(follow::<EndpointSlice>(client, part, texts, tell)),
            Kind::Ingress => Box::pin(follow::<Ingress>(client, part, texts, tell)),
            Kind::IngressClass => Box::pin(follow::<IngressClass>(client, part, texts, tell)),
            Kind::Secret => Box::pin(follow::<FetchedMeta<Secret>>(client, part, texts, tell)),
            Kind::ConfigMap => Box::pin(follow::<FetchedMeta<ConfigMap>>(client, part, texts, tell)),
        });
    }
    let of_nobody = |told| tell(&None, told);
    let due = |now, max| locked(&shared.cache).secrets_mut().take_due(now, max);
    all.push(Box::pin(fetch::<Secret>(&client, SECRETS_AT_ONCE, due, &shared.is_secret_due, of_nobody)));
    let due = |now, max| locked(&shared.cache).config_maps_mut().take_due(now, max);
    all.push(Box::pin(fetch::<ConfigMap>(&client, CONFIG_MAPS_AT_ONCE, due, &shared.is_config_map_due, of_nobody)));
    if !scope.kinds.contains(&Kind::Secret) {
        let turn = |running: &BTreeMap<Key, AbortHandle>, max| {
            let (is_watched, watched) = (|key: &Key| running.contains_key(key), running.keys().cloned());
            locked(&shared.cache).turn_named(is_watched, watched, max)
        };
        let is_due = &shared.have_secrets_turned;
        all.push(Box::pin(watch_named(&client, texts.clone(), turn, is_due, of_nobody)));
    }
    if let Some(file) = snapshot_file {
        all.push(Box::pin(keep_snapshot(file, &scope, &shared, tell)));
    }
    tokio::select! {
        (never, ..) = select_all(all) => match never {},
        () = collecting => {}
    }
}

/// Takes what the snapshot has if the server does not answer soon, and writes what is known from then on.
async fn keep_snapshot(file: SnapshotFile, scope: &Scope, shared: &Shared, tell: impl Fn(&Part, Told)) -> Infallible {
    let is_whole = || locked(&shared.cache).is_whole(scope.kinds);
    let set = |change: &dyn Fn(&mut SnapshotState)| {
        if let Some(state) = &mut *locked(&shared.snapshot) {
            change(state);
        }
    };
    let waited = tokio::time::sleep(TAKEN_AFTER);
    let of_thread = file.clone();
    let recalled = beside(move || of_thread.read()).await;
    let outcome = match recalled {
        Ok(None) => SnapshotOutcome::Absent,
        Err(problem) => SnapshotOutcome::Ignored(problem),
        Ok(Some(recalled)) => {
            waited.await;
            if is_whole() {
                SnapshotOutcome::Unneeded
            } else {
                let Recalled { told, secrets, config_maps, objects, as_of } = recalled;
                tell(&None, Told::RecalledSecrets(secrets));
                tell(&None, Told::RecalledConfigMaps(config_maps));
                for news in told {
                    tell(&None, news);
                }
                SnapshotOutcome::Taken { objects, as_of }
            }
        }
    };
    set(&|state| state.outcome = outcome.clone());
    let (mut pause, mut last) = (WRITTEN_EVERY, None);
    loop {
        let has_changed = tokio::time::timeout(RENEWED_EVERY, shared.has_changed.notified()).await.is_ok();
        tokio::time::sleep(pause).await;
        // What only the snapshot says, or not all, does not take its place.
        let contents = |cache: MutexGuard<'_, Cache>| Some((cache.news_of(scope.kinds)?, cache.contents(scope.kinds)));
        let Some((news_of, contents)) = contents(locked(&shared.cache)).filter(|_| is_whole()) else { continue };
        if !has_changed && last == Some(news_of) {
            continue;
        }
        last = Some(news_of);
        let (of_thread, began) = (file.clone(), Instant::now());
        let written = beside(move || of_thread.write(&contents, &time_text(news_of))).await;
        pause = WRITTEN_EVERY.max(began.elapsed().saturating_mul(SNAPSHOT_SHARE));
        set(&|state| {
            state.writes += u64::from(written.is_ok());
            state.fault = written.clone().err();
        });
    }
}

fn time_text(at: Instant) -> String {
    let now = jiff::Timestamp::now();
    now.checked_sub(at.elapsed()).unwrap_or(now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Work that waits for a disk, or takes long.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("was broken off".to_owned()))
}

/// All that came within a moment, as one change: what moves from one slice to another is never missing in between.
/// Gives whether there is something to be told.
fn take_in(shared: &Shared, kinds: &[Kind], told: Vec<(Part, Told)>, arrived: Instant) -> bool {
    let mut changes = Changes::default();
    let (mut cache, now) = (locked(&shared.cache), Instant::now());
    let is_referred_to = |news: &Told| match news {
        Told::FetchedSecret(..) | Told::Secret(_) | Told::FetchedConfigMap(..) | Told::ConfigMap(_) | Told::Named(..) => true,
        Told::Service(_)
        | Told::EndpointSlice(_)
        | Told::Ingress(_)
        | Told::IngressClass(_)
        | Told::RecalledSecrets(_)
        | Told::RecalledConfigMaps(_) => false,
    };
    let is_of_wanted = told.iter().any(|(_, news)| is_referred_to(news));
    let (was_whole, may_answer) = (cache.is_whole(kinds), is_of_wanted && !cache.has_answered());
    for (part, news) in told {
        changes.merge(cache.take_in(&part, news, now));
    }
    let is_whole = cache.is_whole(kinds);
    // A refusal becomes an answer in time, and nothing else differs then.
    let answers = may_answer && cache.has_answered();
    // Also when one rests from here on: who fetches does not know until when.
    if is_of_wanted || cache.is_due() {
        shared.is_secret_due.notify_one();
        shared.is_config_map_due.notify_one();
    }
    drop(cache);
    let is_news = is_whole && (!was_whole || answers || !changes.is_empty());
    if is_news {
        shared.has_changed.notify_one();
    }
    if let Some(changed) = &mut *locked(&shared.changed_ingresses)
        && !changes.ingresses.is_empty()
    {
        changed.extend(changes.ingresses.iter().cloned());
        shared.has_changed_ingresses.notify_one();
    }
    if changes.is_of_objects() {
        locked(&shared.arrived).get_or_insert(arrived);
    }
    locked(&shared.changes).merge(changes);
    is_news
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
