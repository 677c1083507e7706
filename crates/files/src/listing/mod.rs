//! What is in a folder, as far as a request may ask for it. How it is shown is told in `page`.

mod page;

use crate::answer::Page;
use crate::ask::{Ask, Method};
use crate::beneath::{Beneath, Purpose};
use crate::path;
use crate::refused::{Refused, refusal};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Stat, fstat, statat};
use std::cmp::Ordering;
use std::ffi::CStr;

/// More than that is no page for a person.
const ENTRIES_MAX: usize = 10_000;
/// Names that are looked at, those included that are not shown. A bound on the time that one request takes.
const NAMES_MAX: usize = 2 * ENTRIES_MAX;

/// Which folder is to be listed, and for whom. It owns what it needs, so that another thread can be given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingAsk {
    /// As `path::parse` made it.
    folder: Vec<u8>,
    /// What the client asked for, still percent-encoded.
    request_path: Vec<u8>,
    prefers_json: bool,
    is_head: bool,
}

impl ListingAsk {
    pub(crate) fn new(folder: &[u8], ask: &Ask) -> ListingAsk {
        ListingAsk {
            folder: folder.to_vec(),
            request_path: ask.request_path.to_vec(),
            prefers_json: page::prefers_json(ask.accept),
            is_head: ask.method == Method::Head,
        }
    }

    /// `hidden`: whether hidden names are listed.
    pub(crate) fn read(&self, beneath: &Beneath, hidden: bool) -> Result<Page, Refused> {
        Listing::read(beneath, &self.folder, hidden).map(|listing| listing.page(self))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Listing {
    pub is_root: bool,
    /// Folders first, then by name.
    pub entries: Vec<Entry>,
    /// Whether there may be more. Which ones are missing is up to the file system.
    pub is_cut: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    pub name: Vec<u8>,
    pub kind: EntryKind,
    /// Since 1970.
    pub modified_seconds: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Folder,
    File { length: u64 },
}

impl Listing {
    /// Only what a request could have is listed: no hidden names unless `hidden`, no devices, no symlinks that lead
    /// nowhere or out.
    fn read(beneath: &Beneath, folder: &[u8], hidden: bool) -> Result<Listing, Refused> {
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
