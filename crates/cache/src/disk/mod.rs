//! The second tier: one file per object in a folder. All calls but `find` and `counts` block and belong on a thread for
//! such work; they take and give plain data. An error of the file system is never one of a request: the tier rests for
//! a while, and is counted. A file is whole or it is deleted: lengths and the header's checksum are looked at when the
//! folder is read at start, and the body's checksum when it is read, before a byte of it is given out. `format` is the
//! bytes, `index` what is known of them in memory.

mod format;
mod index;

use crate::key::Key;
use crate::message::{Field, Now};
use crate::settings::DiskSettings;
use crate::store::{CHUNK_BYTES_MAX, Object, Purge};
use bytes::Bytes;
use format::{FileHeader, PREFIX_BYTES};
use index::{Entry, Index, Name};
use std::fs::{self, File, ReadDir};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ENDING: &str = "tidecache";
const TEMPORARY_ENDING: &str = "tidecache-part";

/// The tier on disk; one per process and folder. Shared by reference.
pub struct Disk {
    settings: DiskSettings,
    object_bytes_max: u64,
    index: Mutex<Index>,
    loading: Mutex<Loading>,
    /// By [`Now::seconds`].
    off_until_seconds: AtomicU64,
    /// The last failure that nobody was told of yet.
    fault: Mutex<Option<io::Error>>,
    counters: DiskCounters,
}

enum Loading {
    NotBegun,
    Reading(ReadDir),
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {
    /// Call again.
    More,
    Done,
    /// The folder cannot be read at present; call again when the tier is on again.
    Off,
}

/// A file that may answer a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    name: Name,
    serial: u64,
    key: Key,
}

/// Files that nobody finds any more and that are still there.
#[derive(Debug)]
pub struct Forgotten(Vec<Name>);

impl Forgotten {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Default)]
struct DiskCounters {
    read: AtomicU64,
    written: AtomicU64,
    damaged: AtomicU64,
    evicted: AtomicU64,
    errors: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskCounts {
    pub read: u64,
    pub written: u64,
    /// Files that were deleted because they were torn, flipped or of another version.
    pub damaged: u64,
    pub evicted: u64,
    /// Errors of the file system. Each switched the tier off for a while, but for single files that could not be read
    /// at start.
    pub errors: u64,
    pub objects: u64,
    pub bytes: u64,
}

/// Why a file cannot be used.
enum Unusable {
    Damaged,
    Error(io::Error),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        // What ends too early is torn, and not the file system's fault.
        if error.kind() == ErrorKind::UnexpectedEof { Unusable::Damaged } else { Unusable::Error(error) }
    }
}

impl Disk {
    /// Touches nothing yet. `object_bytes_max` is that of the memory tier.
    pub fn new(settings: DiskSettings, object_bytes_max: u64) -> Disk {
        Disk {
            settings,
            object_bytes_max,
            index: Mutex::default(),
            loading: Mutex::new(Loading::NotBegun),
            off_until_seconds: AtomicU64::new(0),
            fault: Mutex::default(),
            counters: DiskCounters::default(),
        }
    }

    /// Reads the headers of so many files into the index, and deletes what is damaged. To be called until it is done;
    /// the tier can be used meanwhile, and finds what has been read so far. Blocks.
    pub fn load(&self, files_max: usize, now: Now) -> Loaded {
        if self.is_off(now) {
            return Loaded::Off;
        }
        let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        match self.load_some(&mut loading, files_max) {
            Ok(loaded) => loaded,
            Err(error) => {
                *loading = Loading::NotBegun;
                self.switch_off(error, now);
                Loaded::Off
            }
        }
    }

    /// The file that may answer a request. Does not block on files.
    pub fn find(&self, key: &Key, request: &[Field<'_>]) -> Option<Found> {
        let (name, serial) = self.index().find(key, request)?;
        Some(Found { name, serial, key: key.clone() })
    }

    /// The object in a file, checked to its last byte. `None` if it is gone, damaged or cannot be read. Blocks.
    pub fn read(&self, found: &Found, now: Now) -> Option<Object> {
        if self.is_off(now) {
            return None;
        }
        let object = match self.read_file(found, now) {
            Ok(object) => object,
            Err(Unusable::Damaged) => {
                count(&self.counters.damaged);
                None
            }
            Err(Unusable::Error(error)) if error.kind() == ErrorKind::NotFound => None,
            Err(Unusable::Error(error)) => {
                self.switch_off(error, now);
                None
            }
        };
        let mut index = self.index();
        let is_current = index.get(found.name).is_some_and(|entry| entry.serial == found.serial);
        if object.is_none() && is_current {
            index.remove(found.name);
            drop(index);
            self.delete(&[found.name]);
            return None;
        }
        drop(index);
        // What was purged while it was read must not come back.
        let object = object.filter(|_| is_current);
        if object.is_some() {
            count(&self.counters.read);
        }
        object
    }

    /// Keeps an object, at the cost of others. Says whether it is kept. Blocks.
    pub fn write(&self, object: &Arc<Object>, now: Now) -> bool {
        if self.is_off(now) || object.body_bytes > self.object_bytes_max {
            return false;
        }
        let resident = now.seconds.saturating_sub(object.terms.received_seconds);
        let header = format::write(object, now.wall_seconds().saturating_sub(resident));
        let bytes = header.len() as u64 + object.body_bytes;
        let name = index::name(&object.key, &object.secondary);
        let mut index = self.index();
        if object.is_purged() || index.writing.contains_key(&name) {
            return false;
        }
        let (evicted, has_room) = index.make_room(bytes, self.settings.bytes_max, self.settings.objects_max);
        if has_room {
            index.writing.insert(name, bytes);
        }
        let purges = index.purges;
        drop(index);
        self.counters.evicted.fetch_add(evicted.len() as u64, Ordering::Relaxed);
        self.delete(&evicted);
        if !has_room {
            return false;
        }
        let written = self.write_file(name, &header, object);
        let mut index = self.index();
        index.writing.remove(&name);
        // A purge may have met this object, and it is not worth telling which did.
        let is_kept = written.is_ok() && !object.is_purged() && index.purges == purges;
        if is_kept {
            let Object { key, vary, secondary, tags, .. } = &**object;
            index.insert(name, Entry::new(key.clone(), vary.clone(), secondary.clone(), tags.clone(), bytes));
        } else {
            index.remove(name);
        }
        drop(index);
        match written {
            Ok(()) if is_kept => count(&self.counters.written),
            Ok(()) => self.delete(&[name]),
            Err(error) => {
                let _ = fs::remove_file(self.path(name, TEMPORARY_ENDING));
                self.delete(&[name]);
                self.switch_off(error, now);
            }
        }
        is_kept
    }

    /// Lets go of files, without a call that blocks: they are not found any more, and [`Disk::delete_forgotten`]
    /// deletes them.
    pub fn forget(&self, purge: &Purge) -> Forgotten {
        Forgotten(self.index().purge(purge))
    }

    /// Blocks.
    pub fn delete_forgotten(&self, forgotten: &Forgotten) {
        self.delete(&forgotten.0);
    }

    /// Deletes files, also for a soft purge: that something is stale would not be known after a restart. They are not
    /// found any more as soon as this begins. Says how many. For the order with the memory tier see
    /// [`crate::Store::purge`]. Blocks.
    pub fn purge(&self, purge: &Purge) -> usize {
        let names = self.index().purge(purge);
        self.delete(&names);
        names.len()
    }

    pub fn counts(&self) -> DiskCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (objects, bytes) = {
            let index = self.index();
            (index.len() as u64, index.bytes)
        };
        DiskCounts {
            read: read(&self.counters.read),
            written: read(&self.counters.written),
            damaged: read(&self.counters.damaged),
            evicted: read(&self.counters.evicted),
            errors: read(&self.counters.errors),
            objects,
            bytes,
        }
    }

    pub fn is_off(&self, now: Now) -> bool {
        now.seconds < self.off_until_seconds.load(Ordering::Relaxed)
    }

    fn load_some(&self, loading: &mut Loading, files_max: usize) -> io::Result<Loaded> {
        let folder = match loading {
            Loading::Done => return Ok(Loaded::Done),
            Loading::Reading(folder) => folder,
            Loading::NotBegun => {
                fs::create_dir_all(&self.settings.folder)?;
                *loading = Loading::Reading(fs::read_dir(&self.settings.folder)?);
                return Ok(Loaded::More);
            }
        };
        for _ in 0..files_max.max(1) {
            let Some(entry) = folder.next() else {
                *loading = Loading::Done;
                self.index().finish_loading();
                return Ok(Loaded::Done);
            };
            self.load_file(&entry?.path());
        }
        Ok(Loaded::More)
    }

    /// One file that cannot be read or deleted does not keep the others from being found: it is just not in the index.
    fn load_file(&self, path: &Path) {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = Name::from_str_radix(stem, 16).ok().filter(|name| format!("{name:032x}") == stem);
        let Some(name) = name.filter(|_| ending == ENDING || ending == TEMPORARY_ENDING) else { return };
        let is_known = |index: &Index| index.writing.contains_key(&name) || (index.get(name).is_some() && ending == ENDING);
        if is_known(&self.index()) {
            return;
        }
        let entry = match File::open(path).map_err(Unusable::from).and_then(|mut file| read_header(&mut file)) {
            Ok(header) => Some(header).filter(|header| index::name(&header.key, &header.storable.secondary) == name),
            Err(Unusable::Damaged) => None,
            Err(Unusable::Error(error)) if error.kind() == ErrorKind::NotFound => return,
            Err(Unusable::Error(_)) => return count(&self.counters.errors),
        };
        let entry = entry.filter(|_| ending == ENDING).and_then(|header| {
            let bytes = fs::metadata(path).ok()?.len();
            let FileHeader { key, storable, .. } = header;
            Some(Entry::new(key, storable.vary, storable.secondary, storable.tags, bytes))
        });
        let mut index = self.index();
        if is_known(&index) {
            return;
        }
        let is_damaged = entry.is_none();
        let (mut evicted, mut is_kept) = (Vec::new(), false);
        if let Some(entry) = entry.filter(|entry| !index.was_purged_unread(entry)) {
            (evicted, is_kept) = index.make_room(entry.bytes, self.settings.bytes_max, self.settings.objects_max);
            if is_kept {
                index.insert(name, entry);
            }
        }
        drop(index);
        if is_damaged {
            count(&self.counters.damaged);
        }
        self.counters.evicted.fetch_add(evicted.len() as u64, Ordering::Relaxed);
        self.delete(&evicted);
        if !is_kept {
            let _ = fs::remove_file(path);
        }
    }

    /// `Ok(None)` if another object has the name.
    fn read_file(&self, found: &Found, now: Now) -> Result<Option<Object>, Unusable> {
        let mut file = File::open(self.path(found.name, ENDING))?;
        let FileHeader { key, mut storable, body_bytes, body_checksum } = read_header(&mut file)?;
        if body_bytes > self.object_bytes_max || key != found.key {
            return Ok(None);
        }
        let mut checksum = crc32fast::Hasher::new();
        let mut body = Vec::new();
        let mut left = body_bytes as usize;
        while left > 0 {
            let mut chunk = vec![0; left.min(CHUNK_BYTES_MAX)];
            file.read_exact(&mut chunk)?;
            checksum.update(&chunk);
            left -= chunk.len();
            body.push(Bytes::from(chunk));
        }
        if checksum.finalize() != body_checksum {
            return Err(Unusable::Damaged);
        }
        let resident = now.wall_seconds().saturating_sub(storable.terms.received_seconds);
        storable.terms.received_seconds = now.seconds.saturating_sub(resident);
        Ok(Some(Object::new(key, storable, body.into())))
    }

    /// Under a temporary name first, so that no reader meets half of it. It is not synced: what a power cut tears is
    /// found by the checksums.
    fn write_file(&self, name: Name, header: &[u8], object: &Object) -> io::Result<()> {
        let temporary = self.path(name, TEMPORARY_ENDING);
        let mut file = match File::create(&temporary) {
            // Somebody has removed the folder.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(&self.settings.folder)?;
                File::create(&temporary)?
            }
            created => created?,
        };
        file.write_all(header)?;
        for chunk in object.body.iter() {
            file.write_all(chunk)?;
        }
        drop(file);
        fs::rename(&temporary, self.path(name, ENDING))
    }

    fn delete(&self, names: &[Name]) {
        for name in names {
            // Gone is what it should be; on a disk that refuses, the next write is refused too, and counted.
            let _ = fs::remove_file(self.path(*name, ENDING));
        }
    }

    pub fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// What switched the tier off, once: for whoever keeps the log. With it the seconds until it is tried again.
    pub fn take_fault(&self) -> Option<(io::Error, u64)> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        fault.map(|error| (error, self.settings.off_seconds))
    }

    fn switch_off(&self, error: io::Error, now: Now) {
        count(&self.counters.errors);
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.off_until_seconds.store(now.seconds.saturating_add(self.settings.off_seconds), Ordering::Relaxed);
    }

    fn path(&self, name: Name, ending: &str) -> PathBuf {
        self.settings.folder.join(format!("{name:032x}.{ending}"))
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The header of a file whose length is as it should be.
fn read_header(file: &mut File) -> Result<FileHeader, Unusable> {
    let mut prefix = [0; PREFIX_BYTES];
    file.read_exact(&mut prefix)?;
    let (length, checksum) = format::read_prefix(&prefix).ok_or(Unusable::Damaged)?;
    let mut header = vec![0; length];
    file.read_exact(&mut header)?;
    let read = format::read_header(&header, checksum).ok_or(Unusable::Damaged)?;
    let expected = (PREFIX_BYTES as u64 + length as u64).checked_add(read.body_bytes);
    if expected == Some(file.metadata()?.len()) { Ok(read) } else { Err(Unusable::Damaged) }
}

#[cfg(test)]
mod tests;
