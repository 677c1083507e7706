//! Single rows of maps that are changed while it runs: kept in the storage, and so known to every process and host that
//! has the same. A change is written there first, under a lock, and counts when that is done; what others have changed
//! is looked for every few seconds. How rows lie above those of a file is in `tables`.

use jiff::Timestamp;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tidegate_model::{Configuration, Storage};
use tidegate_proxy::process_state::ProcessState;
use tidegate_storage::{Lock, Store};
use tidegate_tables::{ChangedRow, Map, Overlay};
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
    fault: Option<String>,
    read: Option<Timestamp>,
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
        let keeper = Keeper { storage: storage.clone(), state_dir, store: None, process: process.clone(), seen: seen.clone() };
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

    /// Why the rows of the storage are not known, if they are not.
    pub fn fault(&self) -> Option<String> {
        locked(&self.seen).fault.clone()
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
    let storage = configuration.storage.clone();
    let mut keeper = Keeper { storage, state_dir, store: None, process: process.clone(), seen: Arc::default() };
    let fault = match timeout(FIRST_LOOK_LIMIT, keeper.look()).await {
        Ok(Ok(())) => return,
        Ok(Err(fault)) => fault,
        Err(_) => "the storage does not answer".to_owned(),
    };
    tracing::error!(fault, "changed rows of maps are not known yet: what files and the configuration have counts until they are");
}

struct Keeper {
    storage: Storage,
    state_dir: PathBuf,
    /// Opened by the first look that can.
    store: Option<Store>,
    process: Arc<ProcessState>,
    seen: Arc<Mutex<RowsSeen>>,
}

impl Keeper {
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

    fn note(&self, looked: Result<(), String>) {
        let mut seen = locked(&self.seen);
        match looked {
            Ok(()) => {
                if seen.fault.take().is_some() {
                    tracing::info!("changed rows of maps are read from the storage again");
                }
                seen.read = Some(Timestamp::now());
            }
            Err(fault) if seen.fault.as_ref() == Some(&fault) => {}
            Err(fault) => {
                tracing::error!(fault, "changed rows of maps cannot be read; those that are known stay");
                seen.fault = Some(fault);
            }
        }
    }

    async fn open(&mut self) -> Result<&Store, String> {
        if self.store.is_none() {
            let opened = Store::open(&self.storage, &self.state_dir).await;
            self.store = Some(opened.map_err(|fault| fault.to_string())?);
        }
        self.store.as_ref().ok_or_else(|| "there is no storage".to_owned())
    }

    /// Takes on what is kept of each map.
    async fn look(&mut self) -> Result<(), String> {
        let maps = self.process.maps.current();
        for map in maps.iter() {
            let overlay = read(self.open().await?, map.name()).await?;
            if overlay != **map.overlay() {
                let rows = overlay.len();
                self.take(map.name(), overlay)?;
                tracing::info!(map = map.name(), rows, "changed rows of a map were read from the storage");
            }
        }
        Ok(())
    }

    fn take(&self, name: &str, overlay: Overlay) -> Result<(), String> {
        let maps = self.process.maps.current();
        let Some(map) = maps.find(name) else { return Ok(()) };
        let fault = |fault| format!("changed rows of the map `{name}` cannot be used: {fault}");
        self.process.maps.replace(maps.with(Arc::new(map.with_overlay(Arc::new(overlay)).map_err(fault)?)));
        Ok(())
    }

    async fn change(&mut self, name: &str, key: &str, change: &RowChange) -> Result<(), RowChangeFault> {
        let maps = self.process.maps.current();
        let map = maps.find(name).ok_or_else(|| RowChangeFault::NotFound(format!("there is no map `{name}`")))?;
        let storage = RowChangeFault::Storage;
        let store = self.open().await.map_err(storage)?;
        let lock = lock(store, name).await.map_err(storage)?;
        // Somebody else may have changed another row just now.
        let mut overlay = read(store, name).await.map_err(storage)?;
        let changed = change_row(&mut overlay, map, key, change);
        let written = match changed {
            Ok(()) if overlay == **map.overlay() && overlay.is_empty() => Ok(()),
            Ok(()) if overlay.is_empty() => store.remove(&place(name)).await,
            Ok(()) => store.write(&place(name), overlay.write().as_bytes()).await,
            Err(fault) => {
                let _ = lock.release().await;
                return Err(fault);
            }
        };
        let is_held = lock.is_held();
        // Others find it free in half a minute at the latest.
        let _ = lock.release().await;
        written.map_err(|fault| storage(fault.to_string()))?;
        if !is_held {
            return Err(storage("the lock was lost meanwhile; read the row, and change it again".into()));
        }
        self.take(name, overlay).map_err(RowChangeFault::Bad)
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
    let outcome = overlay.set(key, row, map.settings.ignores_case);
    outcome.map_err(|fault| RowChangeFault::Bad(format!("{fault}\n  help: {}", fault.help())))
}

fn place(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

async fn read(store: &Store, name: &str) -> Result<Overlay, String> {
    let place = place(name);
    let bytes = store.read(&place).await.map_err(|fault| fault.to_string())?;
    let Some(bytes) = bytes else { return Ok(Overlay::default()) };
    let unusable = |why: &dyn std::fmt::Display| {
        format!("`{place}` in the storage cannot be used: {why}; run the same version on all hosts, or remove it")
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| unusable(&"it is not UTF-8 text"))?;
    Overlay::read(text).map_err(|fault| unusable(&fault))
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
