//! What is in a folder, as far as a request may ask for it. How it is shown is told in `page`.

mod page;

use crate::answer::Refused;
use crate::beneath::{Beneath, Purpose};
use crate::path;
use crate::root::refusal;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Stat, fstat, statat};
use std::cmp::Ordering;
use std::ffi::CStr;

/// More than that is no page for a person.
const ENTRIES_MAX: usize = 10_000;
/// Names that are looked at, those included that are not shown. A bound on the time that one request takes.
const NAMES_MAX: usize = 2 * ENTRIES_MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listing {
    pub is_root: bool,
    /// Folders first, then by name.
    pub entries: Vec<Entry>,
    /// Whether there may be more. Which ones are missing is up to the file system.
    pub is_cut: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: Vec<u8>,
    pub kind: EntryKind,
    /// Since 1970.
    pub modified_seconds: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Folder,
    File { length: u64 },
}

impl Listing {
    /// Only what a request could have is listed: no hidden names unless `hidden`, no devices, no symlinks that lead nowhere or out.
    pub fn read(beneath: &Beneath, folder: &[u8], hidden: bool) -> Result<Listing, Refused> {
        let descriptor = beneath.descriptor(folder, Purpose::List).map_err(refusal)?;
        let names = Dir::read_from(&descriptor).map_err(refusal)?;
        let (mut entries, mut is_cut) = (Vec::new(), false);
        for (seen, name) in names.enumerate() {
            if entries.len() == ENTRIES_MAX || seen == NAMES_MAX {
                is_cut = true;
                break;
            }
            let name = name.map_err(refusal)?;
            let bytes = name.file_name().to_bytes();
            if path::is_servable(bytes) && (hidden || !path::is_hidden(bytes)) {
                entries.extend(entry(beneath, folder, &descriptor, name.file_name()));
            }
        }
        entries.sort_unstable_by(by_kind_and_name);
        Ok(Listing { is_root: folder == b".", entries, is_cut })
    }
}

fn by_kind_and_name(one: &Entry, other: &Entry) -> Ordering {
    let is_file = |entry: &Entry| matches!(entry.kind, EntryKind::File { .. });
    is_file(one).cmp(&is_file(other)).then_with(|| one.name.cmp(&other.name))
}

/// None for what is gone again, and for what no request would get.
fn entry(beneath: &Beneath, folder: &[u8], descriptor: &OwnedFd, name: &CStr) -> Option<Entry> {
    let mut stat = statat(descriptor, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if kind(&stat) == FileType::Symlink {
        let target = beneath.descriptor(&path::join(folder, name.to_bytes()), Purpose::Look).ok()?;
        stat = fstat(target.as_fd()).ok()?;
    }
    let kind = match kind(&stat) {
        FileType::Directory => EntryKind::Folder,
        FileType::RegularFile => EntryKind::File { length: stat.st_size as u64 },
        _ => return None,
    };
    Some(Entry { name: name.to_bytes().to_vec(), kind, modified_seconds: stat.st_mtime as i64 })
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
