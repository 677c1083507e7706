//! A latency histogram with fixed buckets, in steps that people ask by: 1, 2.5 and 5 of each power of ten from 100 µs
//! to 10 s, and a few beyond. A bucket's upper bound belongs to it, as Prometheus' `le` has it.

use super::number::Counter;
use std::time::Duration;

/// Upper bounds, in microseconds. Between two powers of two lies at most one of them: finding a value's bucket takes no
/// search.
pub(super) const BOUNDS_US: [u64; 19] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000, 60_000_000,
];
const BUCKETS: usize = BOUNDS_US.len() + 1;

/// By the length of a value in bits: the first bound that may hold such a value.
const FIRST_BOUND: [u8; 65] = first_bounds();

/// 168 bytes. **Single writer**, as [`Counter`]. Aligned so that two workers' numbers never share a pair of cache
/// lines: of servers and pools it is an allocation of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    sum_us: Counter,
}

impl Histogram {
    #[inline]
    pub fn record(&self, duration: Duration) {
        self.record_us(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    #[inline]
    pub fn record_us(&self, microseconds: u64) {
        self.buckets[bucket_of(microseconds)].increment();
        self.sum_us.add(microseconds);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: std::array::from_fn(|_| Counter::default()), sum_us: Counter::default() }
    }
}

/// Several histograms added up, for whoever reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistogramTotals {
    buckets: [u64; BUCKETS],
    pub sum_us: u64,
}

impl HistogramTotals {
    pub fn add(&mut self, histogram: &Histogram) {
        for (total, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *total = total.wrapping_add(bucket.value());
        }
        self.sum_us = self.sum_us.wrapping_add(histogram.sum_us.value());
    }

    /// Adds what others have added up.
    pub(super) fn add_totals(&mut self, other: &HistogramTotals) {
        for (total, bucket) in self.buckets.iter_mut().zip(&other.buckets) {
            *total = total.wrapping_add(*bucket);
        }
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
    }

    /// Takes away what was there before, of which nothing can have become less.
    pub(super) fn subtract(&mut self, before: &HistogramTotals) {
        for (total, bucket) in self.buckets.iter_mut().zip(&before.buckets) {
            *total = total.wrapping_sub(*bucket);
        }
        self.sum_us = self.sum_us.wrapping_sub(before.sum_us);
    }

    /// Made from the buckets, so that it always agrees with them, whatever is being recorded meanwhile.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The count of values up to each bound: `(bound in µs, values up to it)`.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        BOUNDS_US.iter().zip(&self.buckets).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((*bound, *sum))
        })
    }
}

#[inline]
fn bucket_of(microseconds: u64) -> usize {
    let first = usize::from(FIRST_BOUND[(u64::BITS - microseconds.leading_zeros()) as usize]);
    // Longer values than the last bound lie above it.
    first + usize::from(BOUNDS_US.get(first).is_some_and(|bound| microseconds > *bound))
}

const fn first_bounds() -> [u8; 65] {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let least = 1 << (bits - 1);
        let mut bound = 0;
        while bound < BOUNDS_US.len() && BOUNDS_US[bound] < least {
            bound += 1;
        }
        let one_more = if bound + 1 < BOUNDS_US.len() { BOUNDS_US[bound + 1] } else { u64::MAX };
        assert!(bits == 64 || one_more >= least << 1, "two bounds between two powers of two");
        first[bits] = bound as u8;
        bits += 1;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS_US, Histogram, HistogramTotals, bucket_of};
    use proptest::prelude::*;

    #[test]
    fn each_bound_ends_its_bucket() {
        for (bucket, bound) in BOUNDS_US.into_iter().enumerate() {
            assert_eq!(bucket_of(bound), bucket, "bound {bound}");
            assert_eq!(bucket_of(bound + 1), bucket + 1, "above bound {bound}");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BOUNDS_US.len()));
    }

    #[test]
    fn the_bounds_are_those_that_objectives_are_written_with() {
        for milliseconds in [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000] {
            assert!(BOUNDS_US.contains(&(milliseconds * 1_000)), "{milliseconds} ms");
        }
        assert!(BOUNDS_US.iter().filter(|bound| **bound < 5_000).count() >= 6, "finer below 5 ms");
    }

    proptest! {
        #[test]
        fn cumulative_counts_are_exact_at_their_bounds(values in proptest::collection::vec(0_u64..1 << 27, 0..200)) {
            let histogram = Histogram::default();
            for value in &values {
                histogram.record_us(*value);
            }
            let mut totals = HistogramTotals::default();
            totals.add(&histogram);
            for (bound, count) in totals.cumulative() {
                prop_assert_eq!(count, values.iter().filter(|value| **value <= bound).count() as u64);
            }
            prop_assert_eq!(totals.count(), values.len() as u64);
            prop_assert_eq!(totals.sum_us, values.iter().sum::<u64>());
            let mut twice = totals.clone();
            twice.add_totals(&totals);
            prop_assert_eq!(twice.count(), 2 * totals.count());
            twice.subtract(&totals);
            prop_assert_eq!(twice, totals);
        }
    }
}
