//! Answers counted by status, method and version of HTTP: of the thousands of such triples a site has a dozen, so they
//! get a place when they first come. Bounded, whatever clients and servers send.

use super::number::Counter;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use strum::{IntoStaticStr, VariantArray};

const STATUS_FIRST: u16 = 100;
const STATUS_LAST: u16 = 599;
/// Triples in one allocation; most sites need one.
const SEGMENT_CELLS: usize = 16;
/// Segments of a site. Triples beyond are told apart by the class of their status only.
const SEGMENTS_MAX: usize = 32;
const CLASSES: usize = 5;

/// A request's method, as a label. Those that nobody has registered are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "UPPERCASE")]
pub enum MethodLabel {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    Trace,
    Connect,
    #[strum(serialize = "other")]
    Other,
}

/// The version of HTTP that a request came by, as a label: what the access log calls `protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
pub enum ProtocolLabel {
    #[strum(serialize = "HTTP/1.0")]
    Http10,
    #[strum(serialize = "HTTP/1.1")]
    Http11,
    #[strum(serialize = "HTTP/2")]
    Http2,
}

impl MethodLabel {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl ProtocolLabel {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What an answered request is counted under. A status outside 100 to 599 is counted as 599, so that no request is
/// missing from the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnswerKind {
    pub status: u16,
    pub method: MethodLabel,
    pub protocol: ProtocolLabel,
}

impl AnswerKind {
    /// Never 0.
    #[inline]
    fn key(self) -> u32 {
        let status = if (STATUS_FIRST..=STATUS_LAST).contains(&self.status) { self.status } else { STATUS_LAST };
        u32::from(status) << 8 | (self.method as u32) << 4 | self.protocol as u32
    }

    fn of_key(key: u32) -> AnswerKind {
        AnswerKind {
            status: (key >> 8) as u16,
            method: MethodLabel::VARIANTS[(key >> 4 & 15) as usize],
            protocol: ProtocolLabel::VARIANTS[(key & 15) as usize],
        }
    }

    /// `2` of 2xx.
    pub fn class(self) -> u16 {
        self.status / 100
    }
}

/// **Single writer**; readers may look at any time.
#[derive(Debug, Default)]
pub(super) struct AnswerCounters {
    first: Segment,
    /// By class, of the triples that found no place.
    beyond: [Counter; CLASSES],
}

#[derive(Debug, Default)]
struct Segment {
    cells: [AnswerCell; SEGMENT_CELLS],
    next: OnceLock<Box<Segment>>,
}

#[derive(Debug, Default)]
struct AnswerCell {
    /// 0 until somebody takes it.
    key: AtomicU32,
    count: Counter,
}

impl AnswerCounters {
    #[inline]
    pub fn increment(&self, kind: AnswerKind) {
        let key = kind.key();
        // Neighbours in the hash are few: the upper bits of a product by an odd number spread what differs anywhere.
        let at = (key.wrapping_mul(0x9E37_79B1) >> (u32::BITS - SEGMENT_CELLS.ilog2())) as usize;
        let cell = &self.first.cells[at];
        if cell.key.load(Ordering::Relaxed) == key {
            return cell.count.increment();
        }
        self.increment_elsewhere(key, at);
    }

    #[cold]
    fn increment_elsewhere(&self, key: u32, at: usize) {
        let mut segment = &self.first;
        for _ in 0..SEGMENTS_MAX {
            for step in 0..SEGMENT_CELLS {
                let cell = &segment.cells[(at + step) % SEGMENT_CELLS];
                let found = cell.key.load(Ordering::Relaxed);
                if found == 0 {
                    cell.key.store(key, Ordering::Relaxed);
                }
                if found == 0 || found == key {
                    return cell.count.increment();
                }
            }
            segment = segment.next.get_or_init(Box::default);
        }
        self.beyond[usize::from(AnswerKind::of_key(key).class()) - 1].increment();
    }
}

/// Several workers' counters, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AnswerTotals {
    pub by_kind: BTreeMap<AnswerKind, u64>,
    /// By class, of what found no place of its own.
    pub beyond: [u64; CLASSES],
}

impl AnswerTotals {
    pub fn add(&mut self, counters: &AnswerCounters) {
        let mut segment = Some(&counters.first);
        while let Some(Segment { cells, next }) = segment {
            for cell in cells {
                let (key, count) = (cell.key.load(Ordering::Relaxed), cell.count.value());
                if key != 0 && count > 0 {
                    *self.by_kind.entry(AnswerKind::of_key(key)).or_default() += count;
                }
            }
            segment = next.get().map(|next| &**next);
        }
        for (total, counter) in self.beyond.iter_mut().zip(&counters.beyond) {
            *total += counter.value();
        }
    }

    pub fn add_totals(&mut self, other: &AnswerTotals) {
        for (kind, count) in &other.by_kind {
            *self.by_kind.entry(*kind).or_default() += count;
        }
        for (total, count) in self.beyond.iter_mut().zip(other.beyond) {
            *total += count;
        }
    }

    /// Takes away what was there before.
    pub fn subtract(&mut self, before: &AnswerTotals) {
        for (kind, count) in &before.by_kind {
            if let Some(total) = self.by_kind.get_mut(kind) {
                *total = total.saturating_sub(*count);
            }
        }
        self.by_kind.retain(|_, count| *count > 0);
        for (total, count) in self.beyond.iter_mut().zip(before.beyond) {
            *total = total.saturating_sub(count);
        }
    }

    pub fn sum(&self) -> u64 {
        self.by_kind.values().sum::<u64>() + self.beyond.iter().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::{AnswerCounters, AnswerKind, AnswerTotals, MethodLabel, ProtocolLabel, SEGMENT_CELLS, SEGMENTS_MAX};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use strum::VariantArray;

    fn kind(status: u16, method: MethodLabel, protocol: ProtocolLabel) -> AnswerKind {
        AnswerKind { status, method, protocol }
    }

    fn totals(counters: &AnswerCounters) -> AnswerTotals {
        let mut totals = AnswerTotals::default();
        totals.add(counters);
        totals
    }

    #[test]
    fn labels_are_in_the_order_of_their_discriminants_and_fit_into_a_key() {
        assert!(MethodLabel::VARIANTS.iter().enumerate().all(|(position, label)| *label as usize == position && position < 16));
        assert!(ProtocolLabel::VARIANTS.iter().enumerate().all(|(position, label)| *label as usize == position));
        assert_eq!(MethodLabel::Get.as_str(), "GET");
        assert_eq!(MethodLabel::Other.as_str(), "other");
    }

    #[test]
    fn every_status_is_counted_somewhere() {
        let counters = AnswerCounters::default();
        for status in [0, 99, 100, 200, 200, 599, 600, 999] {
            counters.increment(kind(status, MethodLabel::Get, ProtocolLabel::Http11));
        }
        let seen: Vec<_> = totals(&counters).by_kind.into_iter().map(|(kind, count)| (kind.status, count)).collect();
        assert_eq!(seen, [(100, 1), (200, 2), (599, 5)]);
    }

    #[test]
    fn what_a_site_may_take_is_bounded_and_nothing_is_lost() {
        let counters = AnswerCounters::default();
        let mut sent = 0;
        for status in 100..600 {
            for method in MethodLabel::VARIANTS {
                counters.increment(kind(status, *method, ProtocolLabel::Http2));
                sent += 1;
            }
        }
        let totals = totals(&counters);
        assert!(totals.by_kind.len() <= SEGMENT_CELLS * SEGMENTS_MAX);
        assert_eq!(totals.sum(), sent);
        assert!(totals.beyond[4] == 1_000, "the last that came found no place: {:?}", totals.beyond);
    }

    proptest! {
        #[test]
        fn each_triple_has_its_own_count(
            sent in proptest::collection::vec((100_u16..600, 0_usize..10, 0_usize..3), 0..300)
        ) {
            let counters = AnswerCounters::default();
            let mut expected: BTreeMap<AnswerKind, u64> = BTreeMap::new();
            for (status, method, protocol) in sent {
                let kind = kind(status, MethodLabel::VARIANTS[method], ProtocolLabel::VARIANTS[protocol]);
                counters.increment(kind);
                *expected.entry(kind).or_default() += 1;
            }
            let once = totals(&counters);
            prop_assert_eq!(&once.by_kind, &expected);
            let mut twice = once.clone();
            twice.add_totals(&once);
            prop_assert_eq!(twice.sum(), 2 * once.sum());
            twice.subtract(&once);
            prop_assert_eq!(twice, once);
        }
    }
}
