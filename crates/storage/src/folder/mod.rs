//! The store in a folder, of one host or shared by many: each value is a file, written beside its place and renamed.
//! Who may see it is in `privacy`, its locks are in `locks`. Files are touched by threads beside the runtime, because a
//! file server may take its time.

mod locks;
mod privacy;

pub(crate) use locks::FolderLease;

use crate::fault::{Problem, StorageFault};
use crate::key::{Key, file_name_to_segment};
use crate::lease;
use crate::observed::Observations;
use crate::owner::Owner;
use crate::{KEYS_LISTED_MAX, VALUE_BYTES_MAX};
use locks::Locks;
use privacy::Ownership;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;

/// What is not finished: `.new,` and its owner. A key never begins with a dot.
const UNFINISHED: &str = ".new,";
/// Unfinished files of other hosts are taken for left behind after this. Clocks of hosts differ, by less than this.
const UNFINISHED_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// A file server that is away blocks threads for as long as it wants; no more than these.
const CALLS_MAX: usize = 8;
const CALL_TIME_MAX: Duration = Duration::from_secs(15);
/// Another process may remove a folder while it is empty, between its making and the making of the file in it.
const WRITE_ATTEMPTS_MAX: u32 = 16;

#[derive(Debug)]
pub(crate) struct Folder {
    files: Arc<Files>,
    calls: Arc<Semaphore>,
}

/// Whose folder it is, which decides what may be done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderKind {
    /// Within the process's state folder.
    Own,
    /// The user named it, and may keep other things in it.
    Named,
}

impl Folder {
    pub(crate) async fn open(root: &Path, kind: FolderKind) -> Result<Folder, StorageFault> {
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        let wanted = root.to_owned();
        let files = call(&calls, move || Files::open(&wanted, kind)).await.map_err(|problem| not_kept(root, problem))?;
        Ok(Folder { files: Arc::new(files), calls })
    }

    /// Whether it could be opened and written; nothing is made or mended.
    pub(crate) async fn inspect(root: &Path, kind: FolderKind) -> Result<(), StorageFault> {
        let calls = Arc::new(Semaphore::new(1));
        let wanted = root.to_owned();
        call(&calls, move || privacy::inspect(&wanted, kind)).await.map_err(|problem| not_kept(root, problem))
    }

    pub(crate) fn describe(&self) -> String {
        place(&self.files.root)
    }

    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Vec<u8>>, Problem> {
        let key = key.clone();
        self.call(move |files| files.read(&key)).await
    }

    pub(crate) async fn write(&self, key: &Key, value: &[u8]) -> Result<(), Problem> {
        let (key, value) = (key.clone(), value.to_owned());
        self.call(move |files| files.write(&key, &value)).await
    }

    pub(crate) async fn remove(&self, key: &Key) -> Result<(), Problem> {
        let key = key.clone();
        self.call(move |files| files.remove(&key)).await
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<String>, Problem> {
        let prefix = prefix.to_owned();
        self.call(move |files| files.list(&prefix)).await
    }

    pub(crate) async fn try_take(&self, name: &Key) -> Result<Option<FolderLease>, Problem> {
        let wanted = name.clone();
        let taken = self.call(move |files| {
            let mut observations = files.observations.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(files.locks.try_take(&wanted, &Owner::here(), &mut observations, lease::now)?)
        });
        let lease = |entry| FolderLease { files: self.files.clone(), calls: self.calls.clone(), name: name.clone(), entry };
        Ok(taken.await?.map(lease))
    }

    pub(crate) async fn holder(&self, name: &Key) -> Result<Option<Owner>, Problem> {
        let name = name.clone();
        self.call(move |files| Ok(files.locks.holder(&name)?)).await
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let files = self.files.clone();
        call(&self.calls, move || work(&files)).await
    }
}

fn place(root: &Path) -> String {
    format!("the folder {}", root.display())
}

fn not_kept(root: &Path, problem: Problem) -> StorageFault {
    StorageFault::new("certificates and keys cannot be kept", place(root), problem)
}

/// Blocking work, in a thread of the runtime's pool. Work that hangs keeps its thread and its permit; who asked does
/// not wait for it.
async fn call<T: Send + 'static>(
    calls: &Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let in_thread = async {
        let permit = calls.clone().acquire_owned().await;
        let joined = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        joined.await.unwrap_or_else(|error| Err(Problem::Io { text: error.to_string(), is_transient: true }))
    };
    let result = tokio::time::timeout(CALL_TIME_MAX, in_thread).await;
    result.unwrap_or(Err(Problem::Silent { seconds: CALL_TIME_MAX.as_secs() }))
}

/// The folder itself; everything here blocks.
#[derive(Debug)]
struct Files {
    root: PathBuf,
    ownership: Ownership,
    locks: Locks,
    observations: Mutex<Observations>,
}

impl Files {
    fn open(root: &Path, kind: FolderKind) -> Result<Files, Problem> {
        let ownership = privacy::claim(root, kind)?;
        let locks = Locks::new(root, ownership);
        locks.remove_unfinished();
        Ok(Files { root: root.to_owned(), ownership, locks, observations: Mutex::default() })
    }

    fn read(&self, key: &Key) -> Result<Option<Vec<u8>>, Problem> {
        let path = self.root.join(key.to_path());
        // Not to wait for the other end, should it be a pipe.
        let open = || OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path);
        // Another host has replaced it between two questions to the file server; the next ones are about the new file.
        let is_stale = |error: &io::Error| error.kind() == io::ErrorKind::StaleNetworkFileHandle;
        let opened = open().or_else(|error| if is_stale(&error) { open() } else { Err(error) });
        let file = match opened {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Ok(None);
        }
        if metadata.len() > VALUE_BYTES_MAX as u64 {
            return Err(Problem::ValueTooLong { bytes: metadata.len() as usize });
        }
        let mut value = Vec::new();
        file.take(VALUE_BYTES_MAX as u64).read_to_end(&mut value)?;
        Ok(Some(value))
    }

    fn write(&self, key: &Key, value: &[u8]) -> Result<(), Problem> {
        let path = self.root.join(key.to_path());
        let parent = path.parent().unwrap_or(&self.root);
        let mut attempt = 1;
        loop {
            let written = self.make_folders(parent).and_then(|()| self.replace(parent, &path, value));
            let error = match written {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            attempt += 1;
            if error.kind() != io::ErrorKind::NotFound || attempt > WRITE_ATTEMPTS_MAX {
                return Err(self.write_problem(&path, &error));
            }
        }
    }

    /// Folders and files that have each other's names are nobody's fault but that of whoever made the keys; so they are
    /// told apart from others.
    fn write_problem(&self, path: &Path, error: &io::Error) -> Problem {
        if path.is_dir() {
            return Problem::InTheWay { path: path.display().to_string() };
        }
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(&self.root));
        match above.filter(|above| above.exists()).find(|above| !above.is_dir()) {
            Some(file) => Problem::InTheWay { path: file.display().to_string() },
            None => Problem::of_io(error),
        }
    }

    fn make_folders(&self, parent: &Path) -> io::Result<()> {
        if parent.is_dir() {
            return Ok(());
        }
        if let Some(above) = parent.parent()
            && parent != self.root
        {
            self.make_folders(above)?;
            match self.ownership.make_folder(parent) {
                // A name must outlast a power cut as what is below it does.
                Ok(()) => sync_folder(above)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn replace(&self, parent: &Path, path: &Path, value: &[u8]) -> io::Result<()> {
        let unfinished = parent.join(format!("{UNFINISHED}{}", Owner::here().to_text()));
        let mut file = self.ownership.make_file(&unfinished)?;
        let renamed = file.write_all(value).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&unfinished, path));
        if let Err(error) = renamed {
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        match sync_folder(parent) {
            // Written, and removed with its folder by somebody else since; writing it again would undo that.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            synced => synced,
        }
    }

    fn remove(&self, key: &Key) -> Result<(), Problem> {
        let path = self.root.join(key.to_path());
        let parent = path.parent().unwrap_or(&self.root);
        match fs::remove_file(&path) {
            Ok(()) => match sync_folder(parent) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            },
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
            Err(_) if path.is_dir() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        // Folders go with their last value; one that has something in it does not go, and that is all the check there
        // is.
        let above = path.ancestors().skip(1).take_while(|above| *above != self.root);
        for folder in above {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, Problem> {
        let mut keys = Vec::new();
        // Whole segments name the folder to begin at; the rest of the prefix is compared.
        let start = match prefix.rsplit_once('/') {
            None => String::new(),
            Some((folders, _)) if Key::parse(folders).is_ok() => folders.to_owned(),
            Some(_) => return Ok(keys),
        };
        let mut folders = vec![start];
        while let Some(folder) = folders.pop() {
            let path = Key::parse(&folder).map_or_else(|_| self.root.clone(), |key| self.root.join(key.to_path()));
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
                Err(error) => return Err(error.into()),
            };
            for entry in entries {
                let entry = entry?;
                let Ok(file_name) = entry.file_name().into_string() else {
                    continue;
                };
                remove_if_left_behind(&entry.path(), &file_name);
                let Some(segment) = file_name_to_segment(&file_name) else {
                    continue;
                };
                let key = if folder.is_empty() { segment } else { format!("{folder}/{segment}") };
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()));
                if is_folder && (key.starts_with(prefix) || prefix.starts_with(&key)) {
                    folders.push(key);
                } else if !is_folder && key.starts_with(prefix) {
                    keys.push(key);
                }
                if keys.len() + folders.len() > KEYS_LISTED_MAX {
                    return Err(Problem::TooManyKeys);
                }
            }
        }
        keys.sort_unstable();
        Ok(keys)
    }
}

/// Files and folders that a crash left unfinished. Whose process runs on, and whose host cannot be asked, stay for a
/// day.
fn remove_if_left_behind(path: &Path, file_name: &str) {
    let Some(owner) = file_name.strip_prefix(UNFINISHED) else {
        return;
    };
    let is_gone = Owner::parse(owner).is_some_and(|owner| owner.is_gone());
    let is_old = || {
        let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| SystemTime::now().duration_since(modified).is_ok_and(|age| age > UNFINISHED_LIFE))
    };
    if is_gone || is_old() {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        tracing::info!(path = %path.display(), removed = removed.is_ok(), "an unfinished file was left by a process that is gone");
    }
}

/// Some file systems do not sync folders and say so; they write them when they write them.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests;
