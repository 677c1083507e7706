//! Locks in a folder, for processes of one host and of several. No lock of the file system is used: those of file
//! servers are optional, and die silently with a mount option. Everything is a rename, which is atomic on all of them,
//! of a name that is never used twice.

use super::privacy::Ownership;
use super::{Files, Problem, UNFINISHED, call, remove_if_left_behind};
use crate::key::Key;
use crate::lease::{LEASE, Renewal};
use crate::observed::Observations;
use crate::owner::Owner;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Below the store's folder. It also marks the folder as one of ours.
pub(super) const LOCKS: &str = ".locks";
/// Each attempt ends because somebody else did something; so many in a row, and that somebody has the lock.
const ATTEMPTS_MAX: u32 = 4;

/// ```text
///   .locks/                    no folder, or an empty one: free
///   .locks/name/OWNER,COUNTER  held by the owner
///
///   take       rename a folder of one's own, with one's own entry in it, to .locks/name. The system refuses that
///              where there is a folder with something in it, and replaces an empty one.
///   renew      rename OWNER,7 to OWNER,8
///   take over  rename OTHER,7 to OWNER,0
///   release    remove OWNER,8, then the folder if it is empty
/// ```
///
/// So each change is one operation that names the state it changes, and the system carries out one of several. A
/// process may stop between any two of its steps for as long as it likes: when it goes on, what it does next fails,
/// because the name it knows is gone and never comes back. Nothing depends on what a listing said (a file server's
/// client may show an old one); listings only suggest what to try.
#[derive(Debug)]
pub(super) struct Locks {
    folder: PathBuf,
    ownership: Ownership,
}

/// The entry that says who holds a lock, and how often that was renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    owner: Owner,
    counter: u64,
}

impl Entry {
    fn first(owner: &Owner) -> Entry {
        Entry { owner: owner.clone(), counter: 0 }
    }

    fn file_name(&self) -> String {
        format!("{},{}", self.owner.to_text(), self.counter)
    }

    fn parse(file_name: &str) -> Option<Entry> {
        let (owner, counter) = file_name.rsplit_once(',')?;
        Some(Entry { owner: Owner::parse(owner)?, counter: counter.parse().ok()? })
    }
}

impl Locks {
    pub(super) fn new(root: &Path, ownership: Ownership) -> Locks {
        Locks { folder: root.join(LOCKS), ownership }
    }

    /// `None`: somebody else has it, or was quicker.
    pub(super) fn try_take(
        &self,
        name: &Key,
        owner: &Owner,
        observations: &mut Observations,
        clock: impl Fn() -> Duration,
    ) -> io::Result<Option<Entry>> {
        let folder = self.folder_of(name);
        let entry = Entry::first(owner);
        for _ in 0..ATTEMPTS_MAX {
            let Some(found) = self.found(name)? else {
                observations.forget(name.as_str());
                if self.take_free(&folder, &entry)? {
                    return Ok(Some(entry));
                }
                continue;
            };
            // After the look: a look that took long must not count as time in which nothing changed.
            let now = clock();
            let is_gone = Entry::parse(&found).is_some_and(|entry| entry.owner.is_gone());
            if !is_gone && !observations.is_stale(name.as_str(), &found, LEASE, now) {
                return Ok(None);
            }
            let taken_over = folder.join(entry.file_name());
            if renamed(&folder.join(&found), &taken_over)? {
                observations.forget(name.as_str());
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// False: it is not this entry any more.
    pub(super) fn renew(&self, name: &Key, entry: &mut Entry) -> io::Result<bool> {
        let folder = self.folder_of(name);
        let next = Entry { owner: entry.owner.clone(), counter: entry.counter + 1 };
        let is_renewed = renamed(&folder.join(entry.file_name()), &folder.join(next.file_name()))?;
        if is_renewed {
            *entry = next;
        }
        Ok(is_renewed)
    }

    pub(super) fn release(&self, name: &Key, entry: &Entry) -> io::Result<()> {
        let folder = self.folder_of(name);
        match fs::remove_file(folder.join(entry.file_name())) {
            // Somebody took it over: then it is not ours to give back.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // Fails where somebody has it already, and an empty folder is as good as none.
        let _ = fs::remove_dir(folder);
        Ok(())
    }

    pub(super) fn holder(&self, name: &Key) -> io::Result<Option<Owner>> {
        let found = self.found(name)?;
        Ok(found.and_then(|found| Entry::parse(&found)).map(|entry| entry.owner))
    }

    /// Folders that were prepared, and never became locks.
    pub(super) fn remove_unfinished(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if let Ok(file_name) = entry.file_name().into_string() {
                remove_if_left_behind(&entry.path(), &file_name);
            }
        }
    }

    fn folder_of(&self, name: &Key) -> PathBuf {
        self.folder.join(name.to_flat_file_name())
    }

    /// The entry in the lock's folder. During a rename there may seem to be two, or none; one of them is as good as the
    /// other, because what is done with it is carried out only if it is there.
    fn found(&self, name: &Key) -> io::Result<Option<String>> {
        let entries = match fs::read_dir(self.folder_of(name)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
        // What is no entry of ours comes last, so that it is not taken for the holder while there is one.
        Ok(names.min_by_key(|name| (Entry::parse(name).is_none(), name.clone())))
    }

    /// False: somebody has it now.
    fn take_free(&self, folder: &Path, entry: &Entry) -> io::Result<bool> {
        let prepared = self.folder.join(format!("{UNFINISHED}{}", entry.owner.to_text()));
        match self.ownership.make_folder(&prepared) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match self.ownership.make_folder(&self.folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    Ok(()) | Err(_) => {}
                }
                self.ownership.make_folder(&prepared)?;
            }
            made => made?,
        }
        let file_name = entry.file_name();
        let taken = self.ownership.make_file(&prepared.join(&file_name)).and_then(|_| fs::rename(&prepared, folder));
        let Err(error) = taken else {
            return Ok(true);
        };
        if folder.join(&file_name).exists() {
            return Ok(true);
        }
        let _ = fs::remove_dir_all(&prepared);
        match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                // Some file servers do not replace an empty folder. Removing it is safe: one with something in it
                // stays.
                let _ = fs::remove_dir(folder);
                Ok(false)
            }
            _ => Err(error),
        }
    }
}

/// False: the name is gone. A client of a file server that got no answer asks again, and is then told that the name is
/// gone although its first question was carried out; so what counts is whether the new name is there, which is ours
/// alone.
fn renamed(from: &Path, to: &Path) -> io::Result<bool> {
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(_) if to.exists() => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A lock in a folder that this process holds.
#[derive(Debug)]
pub(crate) struct FolderLease {
    pub(super) files: Arc<Files>,
    pub(super) calls: Arc<Semaphore>,
    pub(super) name: Key,
    pub(super) entry: Entry,
}

impl FolderLease {
    pub(crate) async fn renew(&mut self) -> Result<Renewal, Problem> {
        let (files, name, mut entry) = (self.files.clone(), self.name.clone(), self.entry.clone());
        let renewed = call(&self.calls, move || Ok(files.locks.renew(&name, &mut entry)?.then_some(entry)));
        match renewed.await? {
            Some(entry) => {
                self.entry = entry;
                Ok(Renewal::Renewed)
            }
            None => Ok(Renewal::Lost),
        }
    }

    pub(crate) async fn release(self) -> Result<(), Problem> {
        let FolderLease { files, calls, name, entry } = self;
        call(&calls, move || Ok(files.locks.release(&name, &entry)?)).await
    }
}
