//! The folders that the system tells about, held equal to those that are wanted. It knows no files; `notices` judges
//! what is told.

use super::notices::{Lost, Notices};
use notify::{ErrorKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct Folders {
    notices: Arc<Notices>,
    watcher: Option<RecommendedWatcher>,
    /// With what they were when they began to be watched: another folder may have taken the name since.
    watched: BTreeMap<PathBuf, Identity>,
    most: usize,
    /// Why some folder is not watched, as of the last time.
    blind: bool,
    told: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

enum Refusal {
    /// The folder is gone again, which is no fault.
    Gone,
    Refused(String),
}

impl Folders {
    pub fn new(notices: Arc<Notices>, most: usize) -> Folders {
        Folders { notices, watcher: None, watched: BTreeMap::new(), most, blind: false, told: false }
    }

    /// Watches these and no others; true when something had to be done for it, and the way to a file may have changed
    /// meanwhile.
    pub fn follow(&mut self, wanted: &BTreeSet<PathBuf>, lost: &Lost) -> bool {
        let stale: Vec<PathBuf> = self
            .watched
            .iter()
            .filter(|(folder, identity)| {
                !wanted.contains(*folder) || lost.has(folder) || Identity::of(folder).as_ref() != Some(identity)
            })
            .map(|(folder, _)| folder.clone())
            .collect();
        let mut did = !stale.is_empty();
        for folder in stale {
            self.forget(&folder);
        }
        let mut refusal = None;
        for folder in wanted {
            if self.watched.contains_key(folder) {
                continue;
            }
            match self.watch(folder) {
                Ok(()) | Err(Refusal::Gone) => did = true,
                Err(Refusal::Refused(why)) => refusal = Some((folder, why)),
            }
        }
        self.blind = refusal.is_some();
        if let Some((folder, why)) = refusal
            && !self.told
        {
            self.told = true;
            tracing::warn!(folder = %folder.display(), why, "the system does not tell of changed files; they are looked at every few seconds instead");
        }
        did
    }

    /// Whether changes may happen in wanted folders that nobody tells of.
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    fn watch(&mut self, folder: &Path) -> Result<(), Refusal> {
        if self.watched.len() >= self.most {
            return Err(Refusal::Refused(format!("more than {} folders are to be watched", self.most)));
        }
        let identity = Identity::of(folder).ok_or(Refusal::Gone)?;
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            None => {
                let notices = self.notices.clone();
                let watcher = notify::recommended_watcher(move |event| notices.take(&event)).map_err(|error| refusal(&error))?;
                self.watcher.insert(watcher)
            }
        };
        watcher.watch(folder, RecursiveMode::NonRecursive).map_err(|error| refusal(&error))?;
        self.watched.insert(folder.to_path_buf(), identity);
        Ok(())
    }

    fn forget(&mut self, folder: &Path) {
        self.watched.remove(folder);
        if let Some(watcher) = &mut self.watcher {
            // A folder that was removed is not watched any more, which is what was asked for.
            let _ = watcher.unwatch(folder);
        }
    }
}

impl Identity {
    fn of(folder: &Path) -> Option<Identity> {
        std::fs::symlink_metadata(folder).ok().map(|metadata| Identity { device: metadata.dev(), inode: metadata.ino() })
    }
}

fn refusal(error: &notify::Error) -> Refusal {
    match &error.kind {
        ErrorKind::PathNotFound => Refusal::Gone,
        ErrorKind::MaxFilesWatch => {
            Refusal::Refused("the limit of watched folders is reached; sysctl fs.inotify.max_user_watches raises it".into())
        }
        ErrorKind::Io(error) if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            Refusal::Refused("the limit of watching programs is reached; sysctl fs.inotify.max_user_instances raises it".into())
        }
        ErrorKind::Generic(_) | ErrorKind::Io(_) | ErrorKind::WatchNotFound | ErrorKind::InvalidConfig(_) => {
            Refusal::Refused(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Folders, Lost, Notices};
    use std::fs;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn another_folder_of_the_same_name_is_watched_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::create_dir(&path).expect("made");
        fs::create_dir(folder.path().join("b")).expect("made");
        let mut folders = Folders::new(Arc::new(Notices::new(Duration::from_secs(60))), 10);
        let wanted = [path.clone()].into();
        assert!(folders.follow(&wanted, &Lost::Nothing));
        assert!(!folders.follow(&wanted, &Lost::Nothing));
        fs::rename(&path, folder.path().join("c")).expect("renamed");
        fs::rename(folder.path().join("b"), &path).expect("renamed");
        assert!(folders.follow(&wanted, &Lost::Nothing));
        assert!(!folders.follow(&wanted, &Lost::Nothing));
        // It may be another one with the same number.
        assert!(folders.follow(&wanted, &Lost::Everything));
        assert!(!folders.is_blind());
    }

    #[test]
    fn folders_above_the_limit_are_not_watched() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths: Vec<_> = ["a", "b"].map(|name| folder.path().join(name)).into();
        for path in &paths {
            fs::create_dir(path).expect("made");
        }
        let mut folders = Folders::new(Arc::new(Notices::new(Duration::from_secs(60))), 1);
        folders.follow(&paths.iter().cloned().collect(), &Lost::Nothing);
        assert!(folders.is_blind());
        folders.follow(&[paths[1].clone()].into(), &Lost::Nothing);
        assert!(!folders.is_blind());
    }
}
