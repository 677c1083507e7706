//! The dynamic table (RFC 7541 sections 2.3.2 and 4) of a decoder or an encoder: a ring of bytes, and a short record
//! for each entry. Which fields go into it is decided by `decoder` and `encoder`.

use super::{FIELD_OVERHEAD, FieldName};
use std::collections::VecDeque;

/// The ring's first allocation; it doubles when it is full. A table whose peer never uses it allocates nothing.
const FIRST_RING_BYTES: usize = 512;

/// A field of the table. Its bytes are in the ring as they are laid down in a head: a line for a regular field, the
/// value alone for a pseudo-header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DynamicEntry {
    pub(super) name: FieldName,
    /// Counted in the size also for a pseudo-header, whose name is not in the ring.
    pub(super) name_len: u16,
    pub(super) value_len: u16,
    /// Place in the ring, counted on over its end.
    start: u16,
}

impl DynamicEntry {
    /// Section 4.1.
    #[inline]
    pub(super) fn size(self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len) + FIELD_OVERHEAD
    }

    #[inline]
    fn bytes_len(self) -> usize {
        let value_len = usize::from(self.value_len);
        if self.name.has_line() { usize::from(self.name_len) + value_len + ": \r\n".len() } else { value_len }
    }
}

#[derive(Debug, Default)]
pub(super) struct DynamicTable {
    /// A power of two of bytes. They are fewer than the table's size, as a line takes 4 bytes more than name and value
    /// and a size 32 more.
    ring: Vec<u8>,
    /// The newest is last.
    entries: VecDeque<DynamicEntry>,
    /// Place behind the newest entry. Counts on over the ring's end and over its own, which are both powers of two.
    end: u16,
    size: u16,
    size_max: u16,
}

impl DynamicTable {
    pub(super) fn new(size_max: u16) -> DynamicTable {
        DynamicTable { size_max, ..DynamicTable::default() }
    }

    pub(super) fn size_max(&self) -> u16 {
        self.size_max
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Section 4.3. A table without size gives its memory back.
    pub(super) fn set_size_max(&mut self, size_max: u16) {
        self.size_max = size_max;
        if size_max == 0 {
            *self = DynamicTable::default();
        } else {
            self.evict(usize::from(size_max));
        }
    }

    /// The entry that `age` others have come after.
    #[inline]
    pub(super) fn get(&self, age: usize) -> Option<DynamicEntry> {
        self.entries.get(self.entries.len().checked_sub(age + 1)?).copied()
    }

    /// Section 4.4: makes room and adds a field whose bytes are `pieces`. One that is larger than the whole table
    /// empties it; says whether it is in.
    pub(super) fn insert(&mut self, name: FieldName, name_len: usize, value_len: usize, pieces: &[&[u8]]) -> bool {
        let size = name_len + value_len + FIELD_OVERHEAD;
        let Some(left) = usize::from(self.size_max).checked_sub(size) else {
            self.evict(0);
            return false;
        };
        self.evict(left);
        let entry = DynamicEntry { name, name_len: name_len as u16, value_len: value_len as u16, start: self.end };
        debug_assert_eq!(entry.bytes_len(), pieces.iter().map(|piece| piece.len()).sum());
        self.reserve(entry.bytes_len());
        for piece in pieces {
            self.write(piece);
        }
        self.size += size as u16;
        self.entries.push_back(entry);
        true
    }

    /// Drops the oldest entries until the table's size is at most `size`.
    fn evict(&mut self, size: usize) {
        while usize::from(self.size) > size {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.size -= oldest.size() as u16;
        }
    }

    /// Bytes of the ring from the oldest entry to the end of the newest.
    fn used(&self) -> usize {
        self.entries.front().map_or(0, |oldest| usize::from(self.end.wrapping_sub(oldest.start)))
    }

    fn reserve(&mut self, len: usize) {
        let used = self.used();
        if used + len <= self.ring.len() {
            return;
        }
        let mut kept = Vec::with_capacity(used);
        let start = self.end.wrapping_sub(used as u16);
        for piece in self.pieces(start, used) {
            kept.extend_from_slice(piece);
        }
        self.ring = vec![0; (used + len).next_power_of_two().max(FIRST_RING_BYTES)];
        self.end = start;
        self.write(&kept);
    }

    /// The caller has made room.
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let Some(mask) = self.ring.len().checked_sub(1) else { return };
        let at = usize::from(self.end) & mask;
        let (first, second) = bytes.split_at(bytes.len().min(self.ring.len() - at));
        self.ring[at..at + first.len()].copy_from_slice(first);
        self.ring[..second.len()].copy_from_slice(second);
        self.end = self.end.wrapping_add(bytes.len() as u16);
    }

    /// A stretch of the ring, which may go over its end.
    #[inline]
    fn pieces(&self, start: u16, len: usize) -> [&[u8]; 2] {
        let Some(mask) = self.ring.len().checked_sub(1) else { return [b"", b""] };
        let at = usize::from(start) & mask;
        let first = len.min(self.ring.len() - at);
        [&self.ring[at..at + first], &self.ring[..len - first]]
    }

    #[inline]
    fn append(&self, start: u16, len: usize, out: &mut Vec<u8>) {
        let [first, second] = self.pieces(start, len);
        out.extend_from_slice(first);
        if !second.is_empty() {
            out.extend_from_slice(second);
        }
    }

    /// Appends a field as it is laid down in a head.
    #[inline]
    pub(super) fn append_field(&self, entry: DynamicEntry, out: &mut Vec<u8>) {
        self.append(entry.start, entry.bytes_len(), out);
    }

    /// Appends what stands before the value of a field: `name: `, or nothing for a pseudo-header.
    pub(super) fn append_name(&self, entry: DynamicEntry, out: &mut Vec<u8>) {
        if entry.name.has_line() {
            self.append(entry.start, usize::from(entry.name_len) + ": ".len(), out);
        }
    }

    /// Whether an entry is a regular field with a name in these bytes.
    pub(super) fn has_name(&self, entry: DynamicEntry, name: &[u8]) -> bool {
        entry.name.has_line() && usize::from(entry.name_len) == name.len() && self.is_at(entry.start, name)
    }

    #[inline]
    pub(super) fn has_value(&self, entry: DynamicEntry, value: &[u8]) -> bool {
        let before = if entry.name.has_line() { entry.name_len.wrapping_add(2) } else { 0 };
        usize::from(entry.value_len) == value.len() && self.is_at(entry.start.wrapping_add(before), value)
    }

    #[inline]
    fn is_at(&self, start: u16, bytes: &[u8]) -> bool {
        let [first, second] = self.pieces(start, bytes.len());
        bytes.strip_prefix(first) == Some(second)
    }
}

#[cfg(test)]
mod tests {
    use super::{DynamicTable, FIELD_OVERHEAD};
    use crate::h2::hpack::{FieldName, PseudoHeader};
    use bolero::check;
    use std::collections::VecDeque;

    fn insert(table: &mut DynamicTable, name: &[u8], value: &[u8]) -> bool {
        table.insert(FieldName::of(name), name.len(), value.len(), &[name, b": ", value, b"\r\n"])
    }

    /// Every operation against a list of whole fields.
    #[test]
    fn the_ring_holds_what_a_list_would() {
        type Step = (u8, u16);
        check!().with_iterations(3000).with_type::<(u16, Vec<Step>)>().for_each(|(size, steps)| {
            let mut table = DynamicTable::new(*size);
            let mut list = VecDeque::<(Vec<u8>, Vec<u8>)>::new();
            let (mut size_max, mut highest) = (usize::from(*size), usize::from(*size));
            let size_of = |list: &VecDeque<(Vec<u8>, Vec<u8>)>| -> usize {
                list.iter().map(|(name, value)| name.len() + value.len() + FIELD_OVERHEAD).sum()
            };
            for (count, (kind, number)) in steps.iter().enumerate() {
                if *kind == 0 {
                    size_max = usize::from(*number);
                    table.set_size_max(*number);
                    highest = highest.max(size_max);
                } else {
                    let len = usize::from(if *kind < 250 { number % 90 } else { *number });
                    let field = (vec![b'a' + (count % 26) as u8; usize::from(kind % 40)], vec![*kind; len]);
                    let is_in = insert(&mut table, &field.0, &field.1);
                    assert_eq!(is_in, field.0.len() + field.1.len() + FIELD_OVERHEAD <= size_max);
                    list.push_back(field);
                }
                while size_of(&list) > size_max {
                    list.pop_front();
                }
                assert_eq!((table.len(), usize::from(table.size)), (list.len(), size_of(&list)));
                assert!(table.ring.len() <= highest.next_power_of_two().max(super::FIRST_RING_BYTES));
            }
            for (age, (name, value)) in list.iter().rev().enumerate() {
                let entry = table.get(age).expect("an entry");
                let mut out = Vec::new();
                table.append_field(entry, &mut out);
                assert_eq!(out, [name, &b": "[..], value, b"\r\n"].concat());
                assert!(table.has_name(entry, name) && table.has_value(entry, value));
                assert!(!table.has_name(entry, &[name, &b"x"[..]].concat()));
                assert!(value.is_empty() || !table.has_value(entry, &vec![!value[0]; value.len()]));
            }
            assert_eq!(table.get(list.len()), None);
        });
    }

    #[test]
    fn a_field_of_no_bytes_is_an_entry() {
        let mut table = DynamicTable::new(64);
        let name = FieldName::Pseudo(PseudoHeader::Path);
        assert!(table.insert(name, 5, 0, &[b""]) && table.insert(name, 5, 0, &[b""]));
        let entry = table.get(0).expect("the newer");
        assert!(table.has_value(entry, b"") && !table.has_name(entry, b":path"));
        assert_eq!((table.get(1), entry.size(), table.len()), (None, 37, 1));
    }

    #[test]
    fn memory_comes_with_the_first_entry_and_goes_with_the_size() {
        assert!(size_of::<DynamicTable>() <= 64);
        let mut table = DynamicTable::new(4096);
        assert_eq!((table.ring.capacity(), table.entries.capacity()), (0, 0));
        for count in 0..1000 {
            insert(&mut table, b"x-name", format!("{count}").as_bytes());
        }
        // 4096 / (6 + 3 + 32).
        assert_eq!((table.len(), table.ring.len()), (99, 2048));
        assert!(table.entries.capacity() * size_of::<super::DynamicEntry>() <= 1024);
        for _ in 0..10 {
            insert(&mut table, b"x-name", &[b'v'; 4000]);
        }
        assert_eq!((table.len(), table.ring.len()), (1, 4096));
        table.set_size_max(0);
        assert_eq!((table.ring.capacity(), table.entries.capacity()), (0, 0));
        assert!(!insert(&mut table, b"", b""));
    }
}
