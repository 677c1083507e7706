//! The cache as all workers share it: the store in memory, the clock it goes by, and beside it the disk, whose calls
//! block and are made by threads of its own. It outlives every configuration; a change gives it other bounds.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate_cache::disk::{Disk, DiskCounts, Forgotten, Found, Loaded};
use tidegate_cache::settings::DiskSettings;
use tidegate_cache::store::{Counts, PurgeKind};
use tidegate_cache::{Field, Key, Now, Object, Purge, Settings, Store};
use tidegate_transport::rt;

/// Calls that wait for a thread. A read beyond is none, and what is to be written is not.
const DISK_JOBS_MAX: usize = 1024;
/// Threads for the disk: one that waits for a slow disk must not keep all others from it.
const DISK_THREADS: usize = 2;
/// Files whose heads are read between two looks at whether the tier is still wanted.
const LOADED_AT_ONCE: usize = 256;
/// Before a folder that cannot be read is tried again.
const LOAD_PAUSE: Duration = Duration::from_secs(5);
/// Purges that are carried out at the same time, each in a thread.
const PURGES_MAX: usize = 8;

/// Bounds of the tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierSettings {
    pub memory_bytes: u64,
    pub object_bytes_max: u64,
    /// The folder, and what its files may take together.
    pub disk: Option<(PathBuf, u64)>,
}

pub struct CacheTier {
    store: Store,
    state: Mutex<State>,
    clock: Clock,
    purges: AtomicUsize,
}

#[derive(Default)]
struct State {
    settings: Option<TierSettings>,
    disk: Option<Arc<DiskTier>>,
}

/// What the tier holds and has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct TierCounts {
    pub memory: Counts,
    pub disk: Option<DiskCounts>,
}

impl CacheTier {
    pub fn new() -> Arc<CacheTier> {
        Arc::new(CacheTier {
            store: Store::new(Settings::default()),
            state: Mutex::default(),
            clock: Clock::start(),
            purges: AtomicUsize::new(0),
        })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Takes on other bounds. A folder is looked through in the background.
    ///
    /// Fails when no thread can be made for the disk; then the cache goes on without it.
    pub fn configure(&self, settings: TierSettings) -> io::Result<()> {
        let mut state = self.state();
        if state.settings.as_ref() == Some(&settings) {
            return Ok(());
        }
        let bytes =
            Settings { bytes_max: settings.memory_bytes, object_bytes_max: settings.object_bytes_max, ..Settings::default() };
        self.store.resize(&Settings { in_flight_bytes_max: settings.memory_bytes / 4, ..bytes });
        let is_same_disk = state.settings.as_ref().is_some_and(|before| before.disk == settings.disk);
        if !is_same_disk {
            // Its threads end with what is on their hands.
            state.disk = None;
            if let Some((folder, bytes_max)) = settings.disk.clone() {
                let disk = DiskSettings { bytes_max, ..DiskSettings::new(folder) };
                state.disk = Some(DiskTier::start(Disk::new(disk, settings.object_bytes_max), self.clock)?);
            }
        }
        state.settings = Some(settings);
        Ok(())
    }

    /// Whether any configuration has asked for a cache so far.
    pub fn is_configured(&self) -> bool {
        self.state().settings.is_some()
    }

    pub fn counts(&self) -> TierCounts {
        TierCounts { memory: self.store.counts(), disk: self.state().disk.as_ref().map(|disk| disk.disk.counts()) }
    }

    pub(crate) fn disk(&self) -> Option<Arc<DiskTier>> {
        self.state().disk.clone()
    }

    pub(super) fn keep_on_disk(&self, object: &Arc<Object>) {
        if let Some(disk) = self.disk() {
            disk.send(Job::Write(object.clone()));
        }
    }

    /// A request has changed what these were made from. At once in memory; the disk hears of it before anything is read
    /// from it again.
    pub(super) fn invalidate(&self, purge: Purge, kind: PurgeKind) {
        self.store.purge(&purge, kind, self.now());
        if let Some(disk) = self.disk() {
            let forgotten = disk.disk.forget(&purge);
            self.store.purge(&purge, kind, self.now());
            // A full queue must not bring back with the next start what is invalid.
            if !forgotten.is_empty()
                && let Err(TrySendError::Full(Job::Delete(forgotten)) | TrySendError::Disconnected(Job::Delete(forgotten))) =
                    disk.jobs.try_send(Job::Delete(forgotten))
            {
                disk.disk.delete_forgotten(&forgotten);
            }
        }
    }

    /// Removes, or marks as stale, whatever any of them names, and tells how many there were in memory and on disk. By
    /// a thread of its own, which may block. `false`: as many purges as may are under way.
    pub fn purge(self: &Arc<Self>, purges: Vec<Purge>, kind: PurgeKind, answer: impl FnOnce(usize) + Send + 'static) -> bool {
        if self.purges.fetch_add(1, Ordering::AcqRel) >= PURGES_MAX {
            self.purges.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        let tier = self.clone();
        let purging = move || {
            let count = purges.iter().map(|purge| tier.purge_now(purge, kind)).sum();
            tier.purges.fetch_sub(1, Ordering::AcqRel);
            answer(count);
        };
        let is_started = thread::Builder::new().name("cache-purge".into()).spawn(purging).is_ok();
        if !is_started {
            self.purges.fetch_sub(1, Ordering::AcqRel);
        }
        is_started
    }

    fn purge_now(&self, purge: &Purge, kind: PurgeKind) -> usize {
        // The first keeps objects from being written, the last meets those that were read before the files were gone.
        let in_memory = self.store.purge(purge, kind, self.now());
        let Some(disk) = self.disk() else { return in_memory };
        let on_disk = disk.disk.purge(purge);
        let late = self.store.purge(purge, kind, self.now());
        on_disk.max(in_memory).max(late)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy)]
struct Clock {
    /// Both clocks when the process began: seconds must not jump when somebody sets the system's.
    began: Instant,
    began_unix_seconds: u64,
}

impl Clock {
    fn start() -> Clock {
        let began_unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Clock { began: Instant::now(), began_unix_seconds }
    }

    fn now(self) -> Now {
        Now { seconds: self.began_unix_seconds + self.began.elapsed().as_secs(), wall: SystemTime::now() }
    }
}

/// One line for each time that the disk is left alone, which is as often as it is tried at most.
fn tell_fault(disk: &Disk) {
    if let Some((error, seconds)) = disk.take_fault() {
        tracing::warn!(%error, folder = %disk.folder().display(), "the disk of the cache fails; it is left alone for {seconds} s, and answers are kept in memory");
    }
}

/// The disk and the threads that call it, until it is dropped.
pub struct DiskTier {
    disk: Arc<Disk>,
    jobs: SyncSender<Job>,
}

enum Job {
    Read(Found, rt::Sender<Option<Object>>),
    Write(Arc<Object>),
    Delete(Forgotten),
}

impl DiskTier {
    fn start(disk: Disk, clock: Clock) -> io::Result<Arc<DiskTier>> {
        let disk = Arc::new(disk);
        let (jobs, queue) = mpsc::sync_channel(DISK_JOBS_MAX);
        let queue = Arc::new(Mutex::new(queue));
        let tier = Arc::new(DiskTier { disk: disk.clone(), jobs });
        for _ in 0..DISK_THREADS {
            let (disk, queue) = (disk.clone(), queue.clone());
            thread::Builder::new().name("cache-disk".into()).spawn(move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    match job {
                        Ok(Job::Read(found, answer)) => {
                            let _ = answer.try_send(disk.read(&found, clock.now()));
                        }
                        Ok(Job::Write(object)) => {
                            disk.write(&object, clock.now());
                        }
                        Ok(Job::Delete(forgotten)) => disk.delete_forgotten(&forgotten),
                        Err(mpsc::RecvError) => return,
                    }
                    tell_fault(&disk);
                }
            })?;
        }
        let wanted: Weak<DiskTier> = Arc::downgrade(&tier);
        thread::Builder::new().name("cache-load".into()).spawn(move || {
            while let Some(tier) = wanted.upgrade() {
                match tier.disk.load(LOADED_AT_ONCE, clock.now()) {
                    Loaded::Done => return,
                    Loaded::More => {}
                    Loaded::Off => {
                        tell_fault(&tier.disk);
                        drop(tier);
                        thread::sleep(LOAD_PAUSE);
                    }
                }
            }
        })?;
        Ok(tier)
    }

    /// What answers the request, once it has been read. `None`: nothing does, or too much waits for the disk.
    pub(crate) fn read(&self, key: &Key, request: &[Field<'_>]) -> Option<rt::Receiver<Option<Object>>> {
        let found = self.disk.find(key, request)?;
        let (sender, receiver) = rt::mailbox(1);
        self.send(Job::Read(found, sender)).then_some(receiver)
    }

    fn send(&self, job: Job) -> bool {
        self.jobs.try_send(job).is_ok()
    }
}
