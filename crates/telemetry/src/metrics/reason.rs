//! Counts by reason code, where the codes are literals of other crates: a small table that grows without a lock.

use super::number::Counter;
use std::sync::OnceLock;

/// More reasons than this are counted as `other`. The program has about fifty.
pub const REASONS_MAX: usize = 128;

/// **Single writer**, as [`Counter`]; readers may look at any time.
#[derive(Debug)]
pub struct ReasonCounters {
    slots: Box<[Slot]>,
    other: Counter,
}

#[derive(Debug, Default)]
struct Slot {
    reason: OnceLock<&'static str>,
    count: Counter,
}

impl ReasonCounters {
    /// A walk over the reasons seen so far. Only refusals pay for it, and comparing lengths first makes it a few
    /// nanoseconds.
    pub fn increment(&self, reason: &'static str) {
        for slot in &self.slots {
            if *slot.reason.get_or_init(|| reason) == reason {
                slot.count.increment();
                return;
            }
        }
        self.other.increment();
    }

    /// The reasons seen so far with their counts; `other` last, when it was needed.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let known = self.slots.iter().map_while(|slot| Some((*slot.reason.get()?, slot.count.value())));
        known.chain(Some(("other", self.other.value())).filter(|(_, count)| *count > 0))
    }
}

impl Default for ReasonCounters {
    fn default() -> Self {
        ReasonCounters { slots: (0..REASONS_MAX).map(|_| Slot::default()).collect(), other: Counter::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::{REASONS_MAX, ReasonCounters};

    #[test]
    fn equal_texts_are_one_reason() {
        let counters = ReasonCounters::default();
        counters.increment("no_route");
        counters.increment("bad_request");
        counters.increment(String::from("no_route").leak());
        assert_eq!(counters.iter().collect::<Vec<_>>(), [("no_route", 2), ("bad_request", 1)]);
    }

    #[test]
    fn the_table_is_bounded() {
        let counters = ReasonCounters::default();
        for number in 0..REASONS_MAX + 10 {
            counters.increment(number.to_string().leak());
        }
        counters.increment("0");
        let seen: Vec<_> = counters.iter().collect();
        assert_eq!(seen.len(), REASONS_MAX + 1);
        assert_eq!(seen[0], ("0", 2));
        assert_eq!(seen[REASONS_MAX], ("other", 10));
    }
}
