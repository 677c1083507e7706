//! When to look at files again, for all sources of a process together: one watch of the system and one thread that
//! looks at their dates, so that a thousand lists cost nothing while none changes. The folders on the way to a file are
//! watched, links and what they lead to included (a mounted ConfigMap changes by a link two levels away). No file is
//! read here, and a notice too many costs one look.

use crate::trail::{Step, Trails};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long it has to be quiet after a notice: whoever writes a file does several things in a row.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// A file that is written without a pause is looked at all the same.
const DEBOUNCE_MAX: Duration = Duration::from_secs(1);
/// What is not told of is found after so long: network file systems, and folders above that were renamed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Two changes this close may have one date, and the second be of the same length.
const DATED_APART: Duration = Duration::from_secs(10);

/// Tells sources when to look at their files. A clone is the same one.
#[derive(Clone, Default)]
pub struct FileNotices(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// What the system's thread looks into. Never held while the system is asked for anything, since it answers from
    /// that thread.
    bells: Arc<Mutex<Bells>>,
    watching: Mutex<Watching>,
}

/// Device and inode: another folder may have taken a name since.
type FolderId = (u64, u64);

#[derive(Default)]
struct Bells {
    rung: HashMap<u64, Arc<Notify>>,
    folders: HashMap<PathBuf, FolderId>,
    /// Whom a name in a folder concerns. By the folder itself, which several paths may lead to: the system tells of one
    /// of them.
    names: HashMap<FolderId, HashMap<OsString, BTreeSet<u64>>>,
    /// What each file is in `names` by.
    listed: HashMap<u64, Vec<(FolderId, OsString)>>,
}

#[derive(Default)]
struct Watching {
    files: HashMap<u64, WatchedFile>,
    last_id: u64,
    folders: HashMap<PathBuf, WatchedFolder>,
    /// `None` until the first file, and when the system has none to give; then the dates have to do.
    watcher: Option<RecommendedWatcher>,
    /// Whether a thread looks at the dates.
    is_looked_at: bool,
}

struct WatchedFile {
    path: Arc<Path>,
    steps: BTreeSet<(PathBuf, OsString)>,
    stamp: Option<Stamp>,
    /// The last look ended with a fault, which need not have to do with the file's dates.
    is_faulty: bool,
}

#[derive(Default)]
struct WatchedFolder {
    /// `None` when it cannot be watched, or is not there.
    id: Option<FolderId>,
    /// How many steps of files lead through it.
    users: usize,
}

/// What differs when a file was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    id: FolderId,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of what the path leads to.
    fn of(path: &Path) -> Option<Stamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp {
            id: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether it may have changed once more without a trace.
    fn is_young(self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(self.changed.0).is_ok_and(|changed| now.as_secs().abs_diff(changed) <= DATED_APART.as_secs())
    }
}

/// One file of one source.
pub struct Watch {
    id: u64,
    path: Arc<Path>,
    notices: FileNotices,
    rung: Arc<Notify>,
}

impl Watch {
    pub fn new(path: &Path, notices: &FileNotices) -> Watch {
        let (path, rung): (Arc<Path>, Arc<Notify>) = (path.into(), Arc::default());
        let mut watching = locked(&notices.0.watching);
        if watching.files.is_empty() {
            watching.begin(&notices.0);
        }
        watching.last_id += 1;
        let id = watching.last_id;
        let file = WatchedFile { path: path.clone(), steps: BTreeSet::new(), stamp: None, is_faulty: false };
        watching.files.insert(id, file);
        locked(&notices.0.bells).rung.insert(id, rung.clone());
        drop(watching);
        Watch { id, path, notices: notices.clone(), rung }
    }

    /// Before a look: watches the folders that are on the way to the file now.
    pub fn follow(&self) {
        let steps = Trails::default().follow(&self.path).steps;
        let steps = steps.into_iter().map(|Step { folder, name }| (folder, name)).collect();
        let stamp = Stamp::of(&self.path);
        let mut watching = locked(&self.notices.0.watching);
        watching.lead(self.id, steps, &self.notices.0.bells);
        if let Some(file) = watching.files.get_mut(&self.id) {
            (file.stamp, file.is_faulty) = (stamp, false);
        }
    }

    /// The look ended with a fault.
    pub fn failed(&self) {
        if let Some(file) = locked(&self.notices.0.watching).files.get_mut(&self.id) {
            file.is_faulty = true;
        }
    }

    /// Until something happened on the way to the file and it has been quiet since.
    pub async fn changed(&self) {
        self.rung.notified().await;
        let first = Instant::now();
        loop {
            let due = (Instant::now() + DEBOUNCE).min(first + DEBOUNCE_MAX);
            if timeout_at(due, self.rung.notified()).await.is_err() || Instant::now() >= first + DEBOUNCE_MAX {
                sleep_until(due).await;
                return;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watching = locked(&self.notices.0.watching);
        watching.lead(self.id, BTreeSet::new(), &self.notices.0.bells);
        watching.files.remove(&self.id);
        locked(&self.notices.0.bells).rung.remove(&self.id);
    }
}

impl Watching {
    fn begin(&mut self, shared: &Arc<Shared>) {
        if self.watcher.is_none() {
            let bells = shared.bells.clone();
            self.watcher = notify::recommended_watcher(move |event| locked(&bells).take(&event)).ok();
        }
        if !self.is_looked_at {
            let shared = Arc::downgrade(shared);
            let looking = std::thread::Builder::new().name("lists".into()).spawn(move || look_at_dates(&shared));
            self.is_looked_at = looking.is_ok();
        }
    }

    /// The way to a file leads over these from now on.
    fn lead(&mut self, id: u64, steps: BTreeSet<(PathBuf, OsString)>, bells: &Mutex<Bells>) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let before = std::mem::replace(&mut file.steps, steps.clone());
        let mut listed = Vec::with_capacity(steps.len());
        for (folder, name) in steps {
            let (known, now) = self.enter(&folder);
            if let Some(known) = known.filter(|known| now != Some(*known)) {
                // Whatever else leads through it leads elsewhere now.
                locked(bells).ring_folder(known);
            }
            listed.extend(now.map(|now| (folder, now, name)));
        }
        let gone: Vec<PathBuf> = before.into_iter().filter_map(|(folder, _)| self.leave(folder)).collect();
        let mut bells = locked(bells);
        bells.unlist(id);
        for (folder, folder_id, name) in listed {
            bells.folders.insert(folder.clone(), folder_id);
            bells.list(id, folder_id, name);
        }
        for folder in gone {
            bells.folders.remove(&folder);
        }
    }

    /// Counts one more step that leads through the folder. Gives which one was watched under that path, and which one
    /// is now.
    fn enter(&mut self, path: &Path) -> (Option<FolderId>, Option<FolderId>) {
        let found = std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        let folder = self.folders.entry(path.to_owned()).or_default();
        folder.users += 1;
        let known = folder.id;
        if found != known
            && let Some(watcher) = &mut self.watcher
        {
            if known.is_some() {
                // A folder that was removed is not watched any more, which is what was asked for.
                let _ = watcher.unwatch(path);
            }
            folder.id = found.filter(|_| watcher.watch(path, RecursiveMode::NonRecursive).is_ok());
        }
        (known, folder.id)
    }

    /// One step less leads through the folder. Gives it when no step does any more.
    fn leave(&mut self, path: PathBuf) -> Option<PathBuf> {
        let folder = self.folders.get_mut(&path)?;
        folder.users -= 1;
        if folder.users > 0 {
            return None;
        }
        let is_watched = self.folders.remove(&path).is_some_and(|folder| folder.id.is_some());
        if let Some(watcher) = self.watcher.as_mut().filter(|_| is_watched) {
            let _ = watcher.unwatch(&path);
        }
        Some(path)
    }
}

impl Bells {
    fn list(&mut self, id: u64, folder: FolderId, name: OsString) {
        self.listed.entry(id).or_default().push((folder, name.clone()));
        self.names.entry(folder).or_default().entry(name).or_default().insert(id);
    }

    fn unlist(&mut self, id: u64) {
        for (folder, name) in self.listed.remove(&id).unwrap_or_default() {
            let Some(names) = self.names.get_mut(&folder) else { continue };
            if let Some(ids) = names.get_mut(&name) {
                ids.remove(&id);
                if ids.is_empty() {
                    names.remove(&name);
                }
            }
            if names.is_empty() {
                self.names.remove(&folder);
            }
        }
    }

    /// From the system's thread.
    fn take(&self, event: &notify::Result<Event>) {
        // An error says that something was lost, and so may be an event.
        let Some(event) = event.as_ref().ok().filter(|event| !event.need_rescan() && !event.paths.is_empty()) else {
            self.rung.values().for_each(|bell| bell.notify_one());
            return;
        };
        if !may_change_content(event.kind) {
            return;
        }
        for path in &event.paths {
            let folder = path.parent().and_then(|folder| self.folders.get(folder));
            let names = folder.and_then(|folder| self.names.get(folder));
            let ids = names.zip(path.file_name()).and_then(|(names, name)| names.get(name));
            self.ring(ids.into_iter().flatten());
            // The watched folder itself may be what went.
            if let (EventKind::Remove(_), Some(folder)) = (event.kind, self.folders.get(path)) {
                self.ring_folder(*folder);
            }
        }
    }

    fn ring_folder(&self, folder: FolderId) {
        self.ring(self.names.get(&folder).into_iter().flat_map(HashMap::values).flatten());
    }

    fn ring<'i>(&self, ids: impl Iterator<Item = &'i u64>) {
        ids.filter_map(|id| self.rung.get(id)).for_each(|bell| bell.notify_one());
    }
}

impl FileNotices {
    /// Rings for files that were changed without a notice. Gives how many.
    fn look_at_dates(&self, now: SystemTime) -> usize {
        let files: Vec<(u64, Arc<Path>)> =
            locked(&self.0.watching).files.iter().map(|(id, file)| (*id, file.path.clone())).collect();
        // Without the lock: a file system may take its time.
        let stamps: Vec<(u64, Option<Stamp>)> = files.into_iter().map(|(id, path)| (id, Stamp::of(&path))).collect();
        let watching = locked(&self.0.watching);
        let is_due = |(id, stamp): &&(u64, Option<Stamp>)| {
            watching
                .files
                .get(id)
                .is_some_and(|file| file.stamp != *stamp || stamp.is_some_and(|stamp| file.is_faulty || stamp.is_young(now)))
        };
        let due: Vec<u64> = stamps.iter().filter(is_due).map(|(id, _)| *id).collect();
        drop(watching);
        locked(&self.0.bells).ring(due.iter());
        due.len()
    }
}

/// Until nobody has files any more.
fn look_at_dates(shared: &Weak<Shared>) {
    loop {
        std::thread::sleep(LOOK_AGAIN);
        let Some(shared) = shared.upgrade() else { return };
        let mut watching = locked(&shared.watching);
        if watching.files.is_empty() {
            watching.is_looked_at = false;
            return;
        }
        drop(watching);
        FileNotices(shared).look_at_dates(SystemTime::now());
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looking at a file is told of as well.
fn may_change_content(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{DATED_APART, FileNotices, Watch, locked, may_change_content};
    use notify::EventKind;
    use notify::event::{AccessKind, AccessMode, CreateKind, RemoveKind};
    use std::fs;
    use std::time::{Duration, SystemTime};

    const MANY: usize = 1_000;

    fn later() -> SystemTime {
        SystemTime::now() + DATED_APART + Duration::from_secs(2)
    }

    /// Whether it was rung for since it was asked last.
    fn is_rung(watch: &Watch) -> bool {
        use std::future::Future;
        let heard = std::pin::pin!(watch.rung.notified());
        heard.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[test]
    fn a_thousand_lists_are_one_watch_and_only_those_that_changed_are_looked_at() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |number: usize| folder.path().join(format!("{number}.json"));
        (0..MANY).for_each(|number| fs::write(path(number), "[]").expect("written"));
        let notices = FileNotices::default();
        let watches: Vec<Watch> = (0..MANY).map(|number| Watch::new(&path(number), &notices)).collect();
        watches.iter().for_each(Watch::follow);
        assert_eq!(locked(&notices.0.watching).folders.len(), 1);
        // Notices of the system's own are left out from here on, for what the dates say alone.
        locked(&notices.0.watching).watcher = None;
        let _ = watches.iter().filter(|watch| is_rung(watch)).count();
        assert_eq!(notices.look_at_dates(later()), 0);
        assert_eq!(notices.look_at_dates(SystemTime::now()), MANY, "what was just written may be written again in the moment");
        for watch in &watches {
            assert!(is_rung(watch));
        }
        fs::write(path(7), "[ ]").expect("written");
        fs::remove_file(path(8)).expect("removed");
        watches[9].failed();
        assert_eq!(notices.look_at_dates(later()), 3);
        let rung: Vec<usize> = (0..MANY).filter(|number| is_rung(&watches[*number])).collect();
        assert_eq!(rung, [7, 8, 9]);
        for number in [7, 8, 9] {
            watches[number].follow();
        }
        assert_eq!(notices.look_at_dates(later()), 0);
        drop(watches);
        let (watching, bells) = (locked(&notices.0.watching), locked(&notices.0.bells));
        assert_eq!((watching.files.len(), watching.folders.len(), bells.rung.len(), bells.names.len()), (0, 0, 0, 0));
        assert_eq!((bells.folders.len(), bells.listed.len()), (0, 0));
    }

    #[test]
    fn a_notice_is_for_the_files_of_that_name_in_that_folder() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path().canonicalize().expect("a real folder");
        let path = |folder: &str| root.join(folder).join("servers.json");
        let notices = FileNotices::default();
        let watches = ["a", "b"].map(|folder| {
            fs::create_dir(root.join(folder)).expect("made");
            fs::write(path(folder), "[]").expect("written");
            let watch = Watch::new(&path(folder), &notices);
            watch.follow();
            watch
        });
        locked(&notices.0.watching).watcher = None;
        let rung = || [is_rung(&watches[0]), is_rung(&watches[1])];
        rung();
        let take = |event| locked(&notices.0.bells).take(&event);
        let event = |kind, path: &str| Ok(notify::Event::new(kind).add_path(root.join(path)));
        take(event(EventKind::Create(CreateKind::File), "a/servers.json"));
        assert_eq!(rung(), [true, false]);
        take(event(EventKind::Create(CreateKind::File), "b/other.json"));
        assert_eq!(rung(), [false, false]);
        take(event(EventKind::Remove(RemoveKind::Folder), "b"));
        assert_eq!(rung(), [false, true], "the watched folder itself went");
        take(Err(notify::Error::generic("lost")));
        assert_eq!(rung(), [true, true]);
    }

    #[test]
    fn looking_at_a_file_is_no_notice() {
        assert!(may_change_content(EventKind::Create(CreateKind::File)));
        assert!(!may_change_content(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!may_change_content(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(may_change_content(EventKind::Access(AccessKind::Close(AccessMode::Write))));
    }
}
