//! A list that shares what did not change with the list it was made from: a change of one of ten thousand sites copies
//! one chunk of them, and the pointers to the other chunks. Read as any list is.

use std::ops::Index;
use std::sync::Arc;

/// A copy with one entry replaced costs this many entries and one pointer for each other chunk.
const CHUNK: usize = 128;

#[derive(Debug, Clone)]
pub struct PersistentVec<T> {
    /// All but the last are full.
    chunks: Vec<Arc<Vec<T>>>,
}

impl<T> Default for PersistentVec<T> {
    fn default() -> Self {
        PersistentVec { chunks: Vec::new() }
    }
}

impl<T> PersistentVec<T> {
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    #[inline]
    pub fn get(&self, position: usize) -> Option<&T> {
        self.chunks.get(position / CHUNK)?.get(position % CHUNK)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<T: Clone> PersistentVec<T> {
    /// Replaces an entry, or adds it when the position is the one behind the last.
    pub fn set(&mut self, position: usize, entry: T) {
        match self.chunks.get_mut(position / CHUNK) {
            Some(chunk) => {
                let chunk = Arc::make_mut(chunk);
                match chunk.get_mut(position % CHUNK) {
                    Some(known) => *known = entry,
                    None => chunk.push(entry),
                }
            }
            None => self.chunks.push(Arc::new(vec![entry])),
        }
    }

    pub fn push(&mut self, entry: T) {
        self.set(self.len(), entry);
    }
}

impl<T> Index<usize> for PersistentVec<T> {
    type Output = T;

    #[inline]
    fn index(&self, position: usize) -> &T {
        &self.chunks[position / CHUNK][position % CHUNK]
    }
}

impl<T> FromIterator<T> for PersistentVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut entries = entries.into_iter();
        let next = || Some(entries.by_ref().take(CHUNK).collect::<Vec<T>>()).filter(|chunk| !chunk.is_empty());
        PersistentVec { chunks: std::iter::from_fn(next).map(Arc::new).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, PersistentVec};
    use std::sync::Arc;

    #[test]
    fn a_copy_shares_all_chunks_but_the_changed_one() {
        let before: PersistentVec<usize> = (0..3 * CHUNK + 5).collect();
        let mut after = before.clone();
        after.set(CHUNK + 1, 0);
        assert_eq!((before[CHUNK + 1], after[CHUNK + 1]), (CHUNK + 1, 0));
        let shared = before.chunks.iter().zip(&after.chunks).map(|(before, after)| Arc::ptr_eq(before, after));
        assert_eq!(shared.collect::<Vec<_>>(), [true, false, true, true]);
    }

    #[test]
    fn it_grows_at_its_end_over_chunks() {
        let mut list: PersistentVec<usize> = (0..CHUNK - 1).collect();
        for entry in CHUNK - 1..=2 * CHUNK {
            list.push(entry);
        }
        assert_eq!((list.len(), list.get(list.len()), list.chunks.len()), (2 * CHUNK + 1, None, 3));
        assert!(list.iter().copied().eq(0..=2 * CHUNK));
        assert_eq!(PersistentVec::<usize>::default().len(), 0);
    }
}
