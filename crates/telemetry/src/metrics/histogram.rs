//! A latency histogram with fixed buckets: each power of two is cut into four, from 1 µs to 134 s.
//! A bucket's upper bound belongs to it, as Prometheus' `le` has it.
//!
//! ```text
//! bucket    0  1  2  3 | 4  5  6  7  | 8   9   10  11  | …  | 100 … 103        | 104
//! up to µs  1  2  3  4 | 5  6  7  8  | 10  12  14  16  | …  | … 134,217,728    | all above
//! ```

use super::number::Counter;
use std::time::Duration;

/// Sub-buckets of a power of two, as bits: at most 25 % between neighbours.
const SUB_BITS: u32 = 2;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// The last finite bound is 2^27 µs, 134 s; slower answers than that are counted, not told apart.
const LAST_BOUND_BITS: u32 = 27;
const FINITE_BUCKETS: usize = (LAST_BOUND_BITS as usize - SUB_BITS as usize + 1) * SUB_BUCKETS;

/// 896 bytes. **Single writer**, as [`Counter`]. Aligned so that two workers' numbers never share a pair of cache
/// lines: of servers and pools it is an allocation of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Histogram {
    buckets: [Counter; FINITE_BUCKETS + 1],
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
#[derive(Debug, Clone)]
pub struct HistogramTotals {
    buckets: [u64; FINITE_BUCKETS + 1],
    pub sum_us: u64,
}

impl HistogramTotals {
    pub fn add(&mut self, histogram: &Histogram) {
        for (total, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *total = total.wrapping_add(bucket.value());
        }
        self.sum_us = self.sum_us.wrapping_add(histogram.sum_us.value());
    }

    /// Made from the buckets, so that it always agrees with them, whatever is being recorded meanwhile.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The count of values up to each power of two from `2^first_bits` to 134 s: `(bound in µs, values up to it)`.
    /// Four times coarser than what is kept, because each bound is one more series for whoever stores them.
    pub fn cumulative(&self, first_bits: u32) -> impl Iterator<Item = (u64, u64)> {
        debug_assert!((SUB_BITS..=LAST_BOUND_BITS).contains(&first_bits));
        let mut taken = 0;
        let mut sum = 0;
        (first_bits..=LAST_BOUND_BITS).map(move |bits| {
            let end = (bits - SUB_BITS + 1) as usize * SUB_BUCKETS;
            sum += self.buckets[taken..end].iter().sum::<u64>();
            taken = end;
            (1 << bits, sum)
        })
    }
}

impl Default for HistogramTotals {
    fn default() -> Self {
        HistogramTotals { buckets: [0; FINITE_BUCKETS + 1], sum_us: 0 }
    }
}

#[inline]
fn bucket_of(microseconds: u64) -> usize {
    // One less, so that a bound falls into the bucket below it.
    let value = microseconds.saturating_sub(1);
    if value < SUB_BUCKETS as u64 {
        return value as usize;
    }
    let bits = value.ilog2();
    let sub = (value >> (bits - SUB_BITS)) as usize & (SUB_BUCKETS - 1);
    ((bits - SUB_BITS + 1) as usize * SUB_BUCKETS + sub).min(FINITE_BUCKETS)
}

#[cfg(test)]
mod tests {
    use super::{FINITE_BUCKETS, Histogram, HistogramTotals, SUB_BUCKETS, bucket_of};
    use proptest::prelude::*;

    /// The largest value, in µs, that falls into a finite bucket.
    fn bound_of(bucket: usize) -> u64 {
        if bucket < SUB_BUCKETS {
            return bucket as u64 + 1;
        }
        let shift = bucket / SUB_BUCKETS - 1;
        ((SUB_BUCKETS + bucket % SUB_BUCKETS + 1) as u64) << shift
    }

    #[test]
    fn each_bound_ends_its_bucket() {
        for bucket in 0..FINITE_BUCKETS {
            let bound = bound_of(bucket);
            assert_eq!(bucket_of(bound), bucket, "bound {bound}");
            assert_eq!(bucket_of(bound + 1), bucket + 1, "above bound {bound}");
        }
        assert_eq!(bound_of(FINITE_BUCKETS - 1), 1 << 27);
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), FINITE_BUCKETS);
    }

    proptest! {
        #[test]
        fn buckets_grow_with_the_value_and_are_close_to_it(value in 1_u64..1 << 27) {
            let bucket = bucket_of(value);
            prop_assert!(bucket >= bucket_of(value - 1));
            let bound = bound_of(bucket);
            prop_assert!(bound >= value);
            prop_assert!(bound <= value + value.div_ceil(4), "{value} is counted up to {bound}");
        }

        #[test]
        fn cumulative_counts_are_exact_at_their_bounds(values in proptest::collection::vec(0_u64..1 << 30, 0..200)) {
            let histogram = Histogram::default();
            for value in &values {
                histogram.record_us(*value);
            }
            let mut totals = HistogramTotals::default();
            totals.add(&histogram);
            for (bound, count) in totals.cumulative(6) {
                prop_assert_eq!(count, values.iter().filter(|value| **value <= bound).count() as u64);
            }
            prop_assert_eq!(totals.count(), values.len() as u64);
            prop_assert_eq!(totals.sum_us, values.iter().sum::<u64>());
        }
    }
}
