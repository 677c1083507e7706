//! Single rows of maps that are changed while it runs: kept in the storage, and so known to every process and host that
//! has the same. A change that fits is written there first, under a lock, and counts when that is done; what others
//! have changed is looked for every few seconds. How rows lie above those of a file is in `tables`.

use crate::background::in_background;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tidegate_model::{Configuration, Storage};
use tidegate_proxy::process_state::ProcessState;
use tidegate_storage::{Lock, Store};
use tidegate_tables::{ChangedRow, Map, Overlay, UnfitRow};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Where the changed rows of each map are kept, by its name; and the name of its lock.
const FOLDER: &str = "maps";
const LOOK_PERIOD: Duration = Duration::from_secs(3);
/// Of a start: without the rows after that, until the storage answers.
const FIRST_LOOK_LIMIT: Duration = Duration::from_secs(5);
/// How long a change waits for somebody else who is at it.
const LOCK_LIMIT: Duration = Duration::from_secs(10);
const LOCK_RETRY: Duration = Duration::from_millis(50);
/// Changes that wait for their turn.
const ASKED_MAX: usize = 256;
/// Rows that are named in the log when they cannot be used; `tidegate map list` has more.
const UNFIT_LOGGED_MAX: usize = 10;

/// What is to become of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    Set(String),
    /// As if the source had no such row.
    Absent,
    /// What the source has counts again.
    Drop,
}

/// Why a row did not change; a sentence with a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChangeFault {
    NotFound(String),
    Bad(String),
    Storage(String),
}

struct AskedRow {
    map: String,
    key: String,
    change: RowChange,
    reply: oneshot::Sender<Result<(), RowChangeFault>>,
}

/// The task beside the requests, which ends with this.
pub(crate) struct MapRows {
    storage: Storage,
    asked: mpsc::Sender<AskedRow>,
    seen: Arc<Mutex<RowsSeen>>,
    task: JoinHandle<()>,
}

/// What has come of it so far.
#[derive(Default)]
struct RowsSeen {
    /// By map: why its rows cannot be read.
    faults: BTreeMap<String, String>,
    read: Option<Timestamp>,
}

/// What was read of a map last.
struct LastRead {
    /// Of the bytes in the storage.
    sum: u64,
    overlay: Arc<Overlay>,
}

impl MapRows {
    /// Begins, goes on or ends as the configuration that runs wants it. Without a map there is none.
    pub fn follow(this: &mut Option<MapRows>, configuration: &Configuration, state_dir: PathBuf, process: &Arc<ProcessState>) {
        if configuration.maps.is_empty() {
            *this = None;
            return;
        }
        if this.as_ref().is_some_and(|rows| rows.storage == configuration.storage) {
            return;
        }
        let storage = configuration.storage.clone();
        let (asked, questions) = mpsc::channel(ASKED_MAX);
        let seen = Arc::new(Mutex::new(RowsSeen::default()));
        let mut keeper = Keeper::new(storage.clone(), state_dir, process.clone());
        keeper.seen = seen.clone();
        *this = Some(MapRows { storage, asked, seen, task: tokio::task::spawn_local(keeper.go_on(questions)) });
    }

    /// Asks for a change, which is answered when it is kept and counts.
    pub fn change(
        &self,
        map: String,
        key: String,
        change: RowChange,
        reply: oneshot::Sender<Result<(), RowChangeFault>>,
    ) -> Result<(), RowChangeFault> {
        let too_many = |_| RowChangeFault::Storage("as many changes of rows as may be are waiting: ask again in a moment".into());
        self.asked.try_send(AskedRow { map, key, change, reply }).map_err(too_many)
    }

    /// Why the rows of a map in the storage are not known, if they are not.
    pub fn fault(&self, map: &str) -> Option<String> {
        locked(&self.seen).faults.get(map).cloned()
    }

    /// When they were read last.
    pub fn read(&self) -> Option<Timestamp> {
        locked(&self.seen).read
    }
}

impl Drop for MapRows {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads what is kept before a request comes, so that a restart changes nothing for anybody.
pub(crate) async fn read_before_start(configuration: &Configuration, state_dir: PathBuf, process: &Arc<ProcessState>) {
    if configuration.maps.is_empty() {
        return;
    }
    let mut keeper = Keeper::new(configuration.storage.clone(), state_dir, process.clone());
    let faults = match timeout(FIRST_LOOK_LIMIT, keeper.look()).await {
        Ok(faults) => faults.into_values().collect(),
        Err(_) => BTreeSet::from(["the storage does not answer".to_owned()]),
    };
    for fault in faults {
        tracing::error!(
            fault,
            "changed rows of maps are not known yet: what files and the configuration have counts until they are"
        );
    }
}

struct Keeper {
    storage: Storage,
    state_dir: PathBuf,
    /// Opened by the first look that can.
    store: Option<Store>,
    process: Arc<ProcessState>,
    seen: Arc<Mutex<RowsSeen>>,
    /// By map.
    known: BTreeMap<String, LastRead>,
}

impl Keeper {
    fn new(storage: Storage, state_dir: PathBuf, process: Arc<ProcessState>) -> Keeper {
        Keeper { storage, state_dir, store: None, process, seen: Arc::default(), known: BTreeMap::new() }
    }

    async fn go_on(mut self, mut questions: mpsc::Receiver<AskedRow>) {
        let mut looks = tokio::time::interval(LOOK_PERIOD);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                asked = questions.recv() => {
                    let Some(AskedRow { map, key, change, reply }) = asked else { return };
                    let outcome = self.change(&map, &key, &change).await;
                    // Nobody waits any more when the client has left.
                    let _ = reply.send(outcome);
                }
                _ = looks.tick() => {
                    let looked = self.look().await;
                    self.note(looked);
                }
            }
        }
    }

    fn note(&self, looked: BTreeMap<String, String>) {
        let mut seen = locked(&self.seen);
        if looked.is_empty() {
            seen.read = Some(Timestamp::now());
        }
        if seen.faults == looked {
            return;
        }
        let told: BTreeSet<&String> = seen.faults.values().collect();
        for fault in looked.values().collect::<BTreeSet<_>>().difference(&told) {
            tracing::error!(fault, "changed rows of maps cannot be read; those that are known stay");
        }
        if looked.is_empty() {
            tracing::info!("changed rows of maps are read from the storage again");
        }
        seen.faults = looked;
    }

    async fn open(&mut self) -> Result<&Store, String> {
        if self.store.is_none() {
            let opened = Store::open(&self.storage, &self.state_dir).await;
            self.store = Some(opened.map_err(|fault| fault.to_string())?);
        }
        self.store.as_ref().ok_or_else(|| "there is no storage".to_owned())
    }

    /// Takes on what is kept of each map. Why that cannot be, by map: one that is unusable is in nobody else's way, and
    /// a storage that does not answer is asked no more.
    async fn look(&mut self) -> BTreeMap<String, String> {
        let (maps, mut faults) = (self.process.maps.current(), BTreeMap::new());
        for map in maps.iter() {
            match self.look_at(map).await {
                Ok(()) => {}
                Err(ReadFault::Unusable(fault)) => {
                    faults.insert(map.name().to_owned(), fault);
                }
                Err(ReadFault::Storage(fault)) => {
                    let unread = maps.iter().skip_while(|one| one.name() != map.name());
                    faults.extend(unread.map(|one| (one.name().to_owned(), fault.clone())));
                    break;
                }
            }
        }
        self.known.retain(|name, _| maps.find(name).is_some());
        faults
    }

    async fn look_at(&mut self, map: &Map) -> Result<(), ReadFault> {
        let name = map.name();
        let bytes = bytes_of(self.open().await.map_err(ReadFault::Storage)?, name).await?;
        let sum = sum_of(bytes.as_deref());
        let is_known = |known: &LastRead| known.sum == sum && Arc::ptr_eq(&known.overlay, map.overlay());
        if self.known.get(name).is_some_and(is_known) {
            return Ok(());
        }
        let overlay = overlay_of(name, bytes.as_deref(), map.settings.ignores_case)?;
        if overlay == **map.overlay() {
            self.known.insert(name.to_owned(), LastRead { sum, overlay: map.overlay().clone() });
            return Ok(());
        }
        let (rows, overlay) = (overlay.len(), Arc::new(overlay));
        self.take(name, overlay.clone());
        self.known.insert(name.to_owned(), LastRead { sum, overlay });
        tracing::info!(map = name, rows, "changed rows of a map were read from the storage");
        Ok(())
    }

    /// Has the rows count from now on, and names those that cannot.
    fn take(&self, name: &str, overlay: Arc<Overlay>) {
        let maps = self.process.maps.current();
        let Some(map) = maps.find(name) else { return };
        let next = in_background(|| map.with_overlay(overlay));
        for UnfitRow { key, fault } in next.unfit().filter(|row| map.unfit().all(|known| known != *row)).take(UNFIT_LOGGED_MAX) {
            let key = key.as_deref().unwrap_or("(unreadable)");
            let help = "the other rows count; `tidegate map drop` takes it out of the storage";
            tracing::warn!(map = name, key, %fault, help, "a changed row in the storage cannot be used, and is left out");
        }
        self.process.maps.replace(maps.with(Arc::new(next)));
    }

    async fn change(&mut self, name: &str, key: &str, change: &RowChange) -> Result<(), RowChangeFault> {
        let maps = self.process.maps.current();
        let map = maps.find(name).ok_or_else(|| RowChangeFault::NotFound(format!("there is no map `{name}`")))?;
        let storage = RowChangeFault::Storage;
        let store = self.open().await.map_err(storage)?;
        let lock = lock(store, name).await.map_err(storage)?;
        let written = write_change(store, map, key, change).await;
        let is_held = lock.is_held();
        // Others find it free in half a minute at the latest.
        let _ = lock.release().await;
        let overlay = written?;
        if !is_held {
            return Err(storage("the lock was lost meanwhile; read the row, and change it again".into()));
        }
        self.take(name, Arc::new(overlay));
        Ok(())
    }
}

/// Nothing is written that does not count afterwards.
async fn write_change(store: &Store, map: &Map, key: &str, change: &RowChange) -> Result<Overlay, RowChangeFault> {
    let name = map.name();
    let storage = RowChangeFault::Storage;
    // Somebody else may have changed another row just now.
    let bytes = bytes_of(store, name).await.map_err(|fault| storage(fault.into_text()))?;
    let before = overlay_of(name, bytes.as_deref(), map.settings.ignores_case).map_err(|fault| storage(fault.into_text()))?;
    let mut overlay = before.clone();
    change_row(&mut overlay, map, key, change)?;
    in_background(|| check_fit(map, key, before, &overlay))?;
    let written = match (overlay.is_empty(), bytes) {
        (true, None) => Ok(()),
        (true, Some(_)) => store.remove(&place(name)).await,
        (false, _) => store.write(&place(name), overlay.write().as_bytes()).await,
    };
    written.map_err(|fault| storage(fault.to_string()))?;
    Ok(overlay)
}

/// Refuses a change that would have a row left out, be it that of the key or another one.
fn check_fit(map: &Map, key: &str, before: Overlay, after: &Overlay) -> Result<(), RowChangeFault> {
    let (before, after) = (map.with_overlay(Arc::new(before)), map.with_overlay(Arc::new(after.clone())));
    let is_of_key = |row: &UnfitRow| row.key.as_deref() == Some(key);
    let mut new = after.unfit().filter(|row| is_of_key(row) || before.unfit().all(|known| known.key != row.key));
    match new.next() {
        None => Ok(()),
        Some(UnfitRow { fault, .. }) => Err(RowChangeFault::Bad(format!("{fault}\n  help: {}", fault.help()))),
    }
}

fn change_row(overlay: &mut Overlay, map: &Map, key: &str, change: &RowChange) -> Result<(), RowChangeFault> {
    let value = match change {
        RowChange::Set(value) => Some(value.as_str().into()),
        RowChange::Absent => None,
        RowChange::Drop => {
            let is_changed = overlay.drop_row(key);
            let not_changed = || RowChangeFault::NotFound(format!("the row `{key}` of the map `{}` is not changed", map.name()));
            return is_changed.then_some(()).ok_or_else(not_changed);
        }
    };
    let row = ChangedRow { value, over: map.source_value(key).map(Box::from) };
    overlay.forget_unread(key);
    let outcome = overlay.set(key, row, map.settings.ignores_case);
    outcome.map_err(|fault| RowChangeFault::Bad(format!("{fault}\n  help: {}", fault.help())))
}

fn place(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// Why changed rows are not read.
enum ReadFault {
    Storage(String),
    /// What is there of this one map.
    Unusable(String),
}

impl ReadFault {
    fn into_text(self) -> String {
        match self {
            ReadFault::Storage(text) | ReadFault::Unusable(text) => text,
        }
    }
}

async fn bytes_of(store: &Store, name: &str) -> Result<Option<Vec<u8>>, ReadFault> {
    store.read(&place(name)).await.map_err(|fault| {
        let text = fault.to_string();
        if fault.problem().is_transient() { ReadFault::Storage(text) } else { ReadFault::Unusable(text) }
    })
}

fn overlay_of(name: &str, bytes: Option<&[u8]>, ignores_case: bool) -> Result<Overlay, ReadFault> {
    let Some(bytes) = bytes else { return Ok(Overlay::default()) };
    let place = place(name);
    let why = "run the same version on all hosts, or remove it";
    Overlay::read(bytes, ignores_case)
        .map_err(|fault| ReadFault::Unusable(format!("`{place}` in the storage cannot be used: {fault}; {why}")))
}

fn sum_of(bytes: Option<&[u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

async fn lock(store: &Store, name: &str) -> Result<Lock, String> {
    let (name, until) = (place(name), Instant::now() + LOCK_LIMIT);
    loop {
        if let Some(lock) = store.try_lock(&name).await.map_err(|fault| fault.to_string())? {
            return Ok(lock);
        }
        if Instant::now() >= until {
            return Err(format!("somebody else holds the lock `{name}`; try again in a moment"));
        }
        tokio::time::sleep(LOCK_RETRY).await;
    }
}

fn locked(seen: &Mutex<RowsSeen>) -> MutexGuard<'_, RowsSeen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
