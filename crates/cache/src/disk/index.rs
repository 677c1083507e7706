//! Which files there are, in memory: by URL and variant, with what purges and eviction need. It touches no file; it
//! says which are to be deleted.

use crate::key::{Key, Vary};
use crate::message::Field;
use crate::store::Purge;
use std::collections::{HashMap, VecDeque};

/// Purges that are remembered while the folder is being read; with more, whatever is not read yet is deleted.
const PURGES_MAX: usize = 1024;

/// The name of a file: a hash of URL and variant. Two that share one replace each other, and are told apart by their
/// headers.
pub type Name = u128;

#[derive(Default)]
pub struct Index {
    entries: HashMap<Name, Entry>,
    by_url: HashMap<Key, Vec<Name>>,
    /// Oldest first; an entry whose serial differs has been replaced.
    order: VecDeque<(Name, u64)>,
    serial: u64,
    pub bytes: u64,
    /// Files that are being written, and what they will take.
    pub writing: HashMap<Name, u64>,
    /// Grows with every purge.
    pub purges: u64,
    purged_unread: Vec<Purge>,
    pub is_loaded: bool,
}

pub struct Entry {
    pub key: Key,
    pub vary: Vary,
    pub secondary: Box<[u8]>,
    pub tags: Box<[Box<[u8]>]>,
    pub bytes: u64,
    pub serial: u64,
    is_used: bool,
}

impl Entry {
    pub fn new(key: Key, vary: Vary, secondary: Box<[u8]>, tags: Box<[Box<[u8]>]>, bytes: u64) -> Entry {
        Entry { key, vary, secondary, tags, bytes, serial: 0, is_used: false }
    }
}

impl Index {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, name: Name) -> Option<&Entry> {
        self.entries.get(&name)
    }

    pub fn find(&mut self, key: &Key, request: &[Field<'_>]) -> Option<(Name, u64)> {
        let fits = |entry: &Entry| entry.vary.fits(request, &entry.secondary);
        let name = *self.by_url.get(key)?.iter().rev().find(|name| self.entries.get(name).is_some_and(fits))?;
        let entry = self.entries.get_mut(&name)?;
        entry.is_used = true;
        Some((name, entry.serial))
    }

    pub fn insert(&mut self, name: Name, entry: Entry) {
        self.remove(name);
        self.serial += 1;
        self.bytes += entry.bytes;
        self.order.push_back((name, self.serial));
        self.by_url.entry(entry.key.clone()).or_default().push(name);
        self.entries.insert(name, Entry { serial: self.serial, ..entry });
        if self.order.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.order.retain(|(name, serial)| entries.get(name).is_some_and(|entry| entry.serial == *serial));
        }
    }

    pub fn remove(&mut self, name: Name) -> Option<Entry> {
        let entry = self.entries.remove(&name)?;
        self.bytes -= entry.bytes;
        if let Some(names) = self.by_url.get_mut(&entry.key) {
            names.retain(|own| *own != name);
            if names.is_empty() {
                self.by_url.remove(&entry.key);
            }
        }
        Some(entry)
    }

    /// Takes out what has to go for so many more bytes and objects; each that was used since it was last looked at gets
    /// another round. The second is whether there is room now.
    pub fn make_room(&mut self, bytes: u64, bytes_max: u64, objects_max: usize) -> (Vec<Name>, bool) {
        let writing: u64 = self.writing.values().sum();
        // Nothing is given up for what can never fit.
        if writing.saturating_add(bytes) > bytes_max {
            return (Vec::new(), false);
        }
        let is_full = |index: &Index| {
            index.bytes + writing + bytes > bytes_max || index.entries.len() + index.writing.len() >= objects_max.max(1)
        };
        let mut removed = Vec::new();
        while is_full(self) {
            let Some((name, serial)) = self.order.pop_front() else { return (removed, false) };
            let Some(entry) = self.entries.get_mut(&name).filter(|entry| entry.serial == serial) else { continue };
            if std::mem::take(&mut entry.is_used) {
                self.order.push_back((name, serial));
                continue;
            }
            self.remove(name);
            removed.push(name);
        }
        (removed, true)
    }

    /// Takes out what is purged. What is not read from the folder yet is purged when it is met.
    pub fn purge(&mut self, purge: &Purge) -> Vec<Name> {
        self.purges += 1;
        if !self.is_loaded {
            if self.purged_unread.len() >= PURGES_MAX {
                self.purged_unread.clear();
                self.purged_unread.push(Purge::All);
            } else {
                self.purged_unread.push(purge.clone());
            }
        }
        let names: Vec<Name> = match purge {
            Purge::Url(key) => self.by_url.get(key).cloned().unwrap_or_default(),
            Purge::Prefix(_) | Purge::Tag(_) | Purge::All => {
                self.entries.iter().filter(|(_, entry)| is_met(purge, &entry.key, &entry.tags)).map(|(name, _)| *name).collect()
            }
        };
        for name in &names {
            self.remove(*name);
        }
        names
    }

    /// Whether something that is only read now was purged since the program started.
    pub fn was_purged_unread(&self, entry: &Entry) -> bool {
        self.purged_unread.iter().any(|purge| is_met(purge, &entry.key, &entry.tags))
    }

    pub fn finish_loading(&mut self) {
        self.is_loaded = true;
        self.purged_unread = Vec::new();
    }
}

fn is_met(purge: &Purge, key: &Key, tags: &[Box<[u8]>]) -> bool {
    match purge {
        Purge::Url(purged) => purged == key,
        Purge::Prefix(prefix) => key.url().starts_with(prefix),
        Purge::Tag(tag) => tags.iter().any(|own| **own == **tag),
        Purge::All => true,
    }
}

/// FNV-1a over both parts. A name that an attacker makes collide costs a file its place, never its identity.
pub fn name(key: &Key, secondary: &[u8]) -> Name {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let bytes = key.url().iter().chain(&[0]).chain(secondary);
    bytes.fold(START, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}
