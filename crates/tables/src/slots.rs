//! Where a row stands, by its kind and its text: a hash table of eight bytes a place, beside the text of all rows. A
//! look is one place and, where it may be the one, the row itself: two caches missed, whatever the number of rows.

use crate::pattern::Kind;
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

/// A place holds half of the row's hash and where the row begins, plus one; zero is free.
#[derive(Debug, Default)]
pub(crate) struct Slots(Box<[u64]>);

/// Rows never fill more than three quarters of the places, so that a search ends soon.
const PLACES_PER_ROW: (usize, usize) = (4, 3);

impl Slots {
    pub fn for_rows(rows: usize) -> Slots {
        let (places, per) = PLACES_PER_ROW;
        let count = if rows == 0 { 0 } else { rows * places / per + 1 };
        Slots(vec![0; count].into())
    }

    pub fn bytes(&self) -> usize {
        self.0.len() * size_of::<u64>()
    }

    /// The row of that hash that `is_it`; it is asked for each that may be.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        let mut place = self.first(hash);
        loop {
            let slot = self.0[place];
            if slot == 0 {
                return None;
            }
            let row = slot as u32 - 1;
            if slot >> 32 == hash & 0xffff_ffff && is_it(row) {
                return Some(row);
            }
            place = if place + 1 == self.0.len() { 0 } else { place + 1 };
        }
    }

    /// There is room: no more rows come than it was made for.
    pub fn insert(&mut self, hash: u64, row: u32) {
        let mut place = self.first(hash);
        while self.0[place] != 0 {
            place = if place + 1 == self.0.len() { 0 } else { place + 1 };
        }
        self.0[place] = (hash & 0xffff_ffff) << 32 | (u64::from(row) + 1);
    }

    #[inline]
    fn first(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.0.len() as u128) >> 64) as usize
    }
}

/// Who chooses a key that is looked up cannot make the table slow: how its places are taken depends on its rows alone.
#[inline]
pub(crate) fn hash_of(kind: Kind, text: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(kind as u64).build_hasher();
    hasher.write(text);
    hasher.finish()
}
