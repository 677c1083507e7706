//! What an encoder has sent lately: by a hash of name and value, the entry of its dynamic table, or that there should
//! be one. It forgets at random and never says more than a guess, so nothing has to be taken out: the encoder compares
//! the bytes.

use crate::h2::hpack::{FieldName, PseudoHeader};
use crate::head::HeaderId;

/// Pairs of places for entries; a table of 4 KiB has some 60 entries, each with its field and perhaps its name.
const PAIRS: usize = 64;
/// Places for fields that were sent once. A field is repeated if it comes again before about as many others.
const SEEN: usize = 64;

/// A hash of a name, or of a field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    /// The bytes count where `name` says nothing.
    #[inline]
    pub(super) fn of_name(name: FieldName, bytes: &[u8]) -> Fingerprint {
        match name {
            FieldName::Regular(HeaderId::Other) => Fingerprint(0).with_value(bytes),
            FieldName::Regular(id) => Fingerprint(0).with_number(1 + id as u64),
            FieldName::Pseudo(pseudo) => Fingerprint(0).with_number(0x100 + number(pseudo)),
        }
    }

    /// The field of this name with a value.
    #[inline]
    pub(super) fn with_value(self, value: &[u8]) -> Fingerprint {
        let mut hash = self.with_number(value.len() as u64);
        let (words, rest) = value.as_chunks::<8>();
        for word in words {
            hash = hash.with_number(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (place, byte) in last.iter_mut().zip(rest) {
            *place = *byte;
        }
        hash.with_number(u64::from_le_bytes(last))
    }

    /// A multiplication folded onto itself: each bit in counts for all bits out.
    #[inline(always)]
    fn with_number(self, number: u64) -> Fingerprint {
        let product = u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * u128::from(0xa076_1d64_78bd_642f_u64);
        Fingerprint(product as u64 ^ (product >> 64) as u64)
    }

    fn pair(self) -> usize {
        self.0 as usize % PAIRS
    }

    fn seen_place(self) -> usize {
        (self.0 >> 8) as usize % SEEN
    }

    fn tag(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

fn number(pseudo: PseudoHeader) -> u64 {
    match pseudo {
        PseudoHeader::Authority => 0,
        PseudoHeader::Method => 1,
        PseudoHeader::Path => 2,
        PseudoHeader::Scheme => 3,
        PseudoHeader::Status => 4,
        PseudoHeader::Protocol => 5,
        PseudoHeader::Unknown => 6,
    }
}

#[derive(Debug)]
pub(super) struct Recent {
    /// Numbers of entries, as they were inserted.
    entries: [[u16; 2]; PAIRS],
    seen: [u16; SEEN],
    /// The number of the next entry; counts on over its end. An entry that was put out leaves its number behind, which
    /// stands for another after 65,536 of them: the bytes of that one will not be the same.
    next: u16,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { entries: [[0; 2]; PAIRS], seen: [0; SEEN], next: 0 }
    }
}

impl Recent {
    /// How many entries have come after the one with this fingerprint, if `is_right` says that it is that.
    #[inline]
    pub(super) fn age(&self, print: Fingerprint, is_right: impl Fn(usize) -> bool) -> Option<usize> {
        let ages = self.entries[print.pair()].map(|number| usize::from(self.age_of(number)));
        ages.into_iter().find(|age| is_right(*age))
    }

    #[inline]
    fn age_of(&self, number: u16) -> u16 {
        self.next.wrapping_sub(number).wrapping_sub(1)
    }

    /// Whether a field was seen before; from now on it was.
    #[inline]
    pub(super) fn is_repeated(&mut self, print: Fingerprint) -> bool {
        let place = &mut self.seen[print.seen_place()];
        let is_repeated = *place == print.tag();
        *place = print.tag();
        is_repeated
    }

    /// A field is in the table now, as its newest entry; its name has no other index if `name` is there.
    pub(super) fn inserted(&mut self, name: Option<Fingerprint>, field: Fingerprint) {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        for print in name.into_iter().chain([field]) {
            let [first, second] = self.entries[print.pair()];
            // The older of both makes room.
            let newer = if self.age_of(first) < self.age_of(second) { first } else { second };
            self.entries[print.pair()] = [number, newer];
        }
    }
}
