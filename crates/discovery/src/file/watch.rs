//! When to look at a file again: the folders on the way to it are watched, links and what they lead to included (a
//! mounted ConfigMap changes by a link two levels away). It never reads the file, and a notice too many costs one look.

use crate::trail::{Step, Trails};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long it has to be quiet after a notice: whoever writes a file does several things in a row.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// A file that is written without a pause is looked at all the same.
const DEBOUNCE_MAX: Duration = Duration::from_secs(1);

pub struct Watch {
    path: PathBuf,
    shared: Arc<Shared>,
    /// `None` when the system has none to give; then the caller's looking again has to do.
    watcher: Option<RecommendedWatcher>,
    /// With device and inode: another folder may have taken the name since.
    watched: BTreeMap<PathBuf, (u64, u64)>,
}

#[derive(Default)]
struct Shared {
    rung: Notify,
    /// Whatever folder they are in: one folder may be reached by several paths, and the system tells of one of them.
    names: Mutex<BTreeSet<OsString>>,
}

impl Watch {
    pub fn new(path: &Path) -> Watch {
        let shared = Arc::new(Shared::default());
        let ringing = shared.clone();
        let watcher = notify::recommended_watcher(move |event| ringing.take(&event)).ok();
        Watch { path: path.to_owned(), shared, watcher, watched: BTreeMap::new() }
    }

    /// Watches the folders that are on the way to the file now.
    pub fn follow(&mut self) {
        let mut wanted: BTreeMap<PathBuf, (u64, u64)> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for Step { folder, name } in Trails::default().follow(&self.path).steps {
            names.insert(name);
            if let Ok(metadata) = std::fs::metadata(&folder) {
                wanted.insert(folder, (metadata.dev(), metadata.ino()));
            }
        }
        *self.shared.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        let Some(watcher) = &mut self.watcher else { return };
        for (folder, identity) in &self.watched {
            if wanted.get(folder) != Some(identity) {
                // A folder that was removed is not watched any more, which is what was asked for.
                let _ = watcher.unwatch(folder);
            }
        }
        let is_watched = |folder: &PathBuf, identity: &(u64, u64)| self.watched.get(folder) == Some(identity);
        wanted.retain(|folder, identity| {
            is_watched(folder, identity) || watcher.watch(folder, RecursiveMode::NonRecursive).is_ok()
        });
        self.watched = wanted;
    }

    /// Until something happened on the way to the file and it has been quiet since, or `most` has gone by.
    pub async fn changed(&mut self, most: Duration) {
        let now = Instant::now();
        if timeout_at(now + most, self.shared.rung.notified()).await.is_err() {
            return;
        }
        let first = Instant::now();
        loop {
            let due = (Instant::now() + DEBOUNCE).min(first + DEBOUNCE_MAX);
            if timeout_at(due, self.shared.rung.notified()).await.is_err() || Instant::now() >= first + DEBOUNCE_MAX {
                sleep_until(due).await;
                return;
            }
        }
    }
}

impl Shared {
    /// From the system's thread.
    fn take(&self, event: &notify::Result<Event>) {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if is_relevant(event, &names) {
            self.rung.notify_one();
        }
    }
}

/// An error says that something was lost, and so may be an event.
fn is_relevant(event: &notify::Result<Event>, names: &BTreeSet<OsString>) -> bool {
    let Ok(event) = event else { return true };
    match event.kind {
        // Looking at the file rings for it as well.
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {}
        EventKind::Access(_) => return false,
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => {}
    }
    let is_wanted = |path: &PathBuf| path.file_name().is_some_and(|name| names.contains(name));
    event.need_rescan()
        || event.paths.is_empty()
        || event.paths.iter().any(is_wanted)
        || matches!(event.kind, EventKind::Remove(_))
}

#[cfg(test)]
mod tests {
    use super::is_relevant;
    use notify::event::{AccessKind, AccessMode, CreateKind, RemoveKind};
    use notify::{Event, EventKind};

    #[test]
    fn looking_at_the_file_is_no_notice() {
        let check = |kind: EventKind, path: &str, expected: bool| {
            let event = Ok(Event::new(kind).add_path(path.into()));
            assert_eq!(is_relevant(&event, &["file".into()].into()), expected, "for {event:?}");
        };
        check(EventKind::Create(CreateKind::File), "/a/file", true);
        check(EventKind::Create(CreateKind::File), "/a/other", false);
        check(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/a/file", false);
        check(EventKind::Access(AccessKind::Close(AccessMode::Read)), "/a/file", false);
        check(EventKind::Access(AccessKind::Close(AccessMode::Write)), "/a/file", true);
        // The watched folder itself may be what went.
        check(EventKind::Remove(RemoveKind::Folder), "/a", true);
        assert!(is_relevant(&Err(notify::Error::generic("lost")), &["file".into()].into()));
    }
}
