//! What a route does with its traffic as a whole: how long a request may take, who gets a copy. Which of several ways
//! it goes is in `split`, steps that change heads are in `step`; what a pool says of its servers is in `pool`.

use crate::pool::{PoolName, Timeouts};
use std::fmt;
use std::time::Duration;

/// `timeout` in a site or a route. What is `None` is as the pool says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteTimeouts {
    pub connect: Option<Duration>,
    pub first_byte: Option<Duration>,
    pub idle: Option<Duration>,
    /// Of each attempt, from the choice of its server to the first byte of its answer; `None` is as the others say.
    pub per_try: Option<Duration>,
    /// From the request's head to the end of its answer, all attempts together; `None` is unbounded.
    pub total: Option<Duration>,
}

impl RouteTimeouts {
    /// These time-outs, and where `inner` says something, that: a route's words count before its site's.
    pub fn and(self, inner: RouteTimeouts) -> RouteTimeouts {
        RouteTimeouts {
            connect: inner.connect.or(self.connect),
            first_byte: inner.first_byte.or(self.first_byte),
            idle: inner.idle.or(self.idle),
            per_try: inner.per_try.or(self.per_try),
            total: inner.total.or(self.total),
        }
    }

    /// What holds for a request that goes to a server of the pool.
    pub fn over(&self, pool: &Timeouts) -> Timeouts {
        Timeouts {
            connect: self.connect.unwrap_or(pool.connect),
            first_byte: self.first_byte.unwrap_or(pool.first_byte),
            idle: self.idle.unwrap_or(pool.idle),
        }
    }
}

/// `mirror`: a copy of requests, whose answers go to nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    pub pool: PoolName,
    /// Part of the requests that are copied.
    pub sample: Sample,
    /// Any of these; empty is every method.
    pub methods: Vec<String>,
    /// Requests with a larger body are not copied.
    pub body_bytes_max: u64,
    /// Copies under way at once, of each worker to that pool.
    pub copies_max: u32,
    /// How long a copy may take.
    pub total: Duration,
}

impl Mirror {
    pub const BODY_BYTES_MAX: u64 = 64 << 10;
    /// The most that can be written: copies are held in memory.
    pub const BODY_BYTES_MOST: u64 = 16 << 20;
    pub const COPIES_MAX: u32 = 128;
    pub const TOTAL: Duration = Duration::from_secs(30);
}

/// A part of all requests, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample(u32);

impl Sample {
    pub const ALL: Sample = Sample(1_000_000);

    /// At most all of them.
    pub fn from_millionths(millionths: u64) -> Sample {
        Sample(millionths.min(u64::from(Sample::ALL.0)) as u32)
    }

    /// Whether a request is among them that drew these uniform bits.
    pub fn takes(self, bits: u64) -> bool {
        (u128::from(bits) * u128::from(Sample::ALL.0)) >> 64 < u128::from(self.0)
    }
}

/// `12.5%`
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        if rest == 0 {
            return write!(f, "{whole}%");
        }
        let digits = format!("{rest:04}");
        write!(f, "{whole}.{}%", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::{RouteTimeouts, Sample};
    use crate::pool::Timeouts;
    use std::time::Duration;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_innermost_word_counts() {
        let site = RouteTimeouts {
            first_byte: Some(seconds(1)),
            per_try: Some(seconds(9)),
            total: Some(seconds(2)),
            ..RouteTimeouts::default()
        };
        let route = RouteTimeouts { first_byte: Some(seconds(3)), idle: Some(seconds(4)), ..RouteTimeouts::default() };
        let both = site.and(route);
        let expected = RouteTimeouts {
            first_byte: Some(seconds(3)),
            idle: Some(seconds(4)),
            per_try: Some(seconds(9)),
            total: Some(seconds(2)),
            ..RouteTimeouts::default()
        };
        assert_eq!(both, expected);
        let pool = Timeouts { connect: seconds(5), first_byte: seconds(6), idle: seconds(7) };
        assert_eq!(both.over(&pool), Timeouts { connect: seconds(5), first_byte: seconds(3), idle: seconds(4) });
        assert_eq!(RouteTimeouts::default().over(&pool), pool);
    }

    #[test]
    fn a_sample_takes_its_part_and_says_which() {
        let check = |millionths: u64, shown: &str, of_a_thousand: usize| {
            let sample = Sample::from_millionths(millionths);
            assert_eq!(sample.to_string(), shown);
            let taken = (0..1000).filter(|step| sample.takes(u64::MAX / 1000 * step + u64::MAX / 2000)).count();
            assert_eq!(taken, of_a_thousand, "{shown}");
        };
        check(0, "0%", 0);
        check(1, "0.0001%", 0);
        check(5_000, "0.5%", 5);
        check(125_000, "12.5%", 125);
        check(1_000_000, "100%", 1000);
        check(9_000_000, "100%", 1000);
        assert!(Sample::from_millionths(1).takes(0) && !Sample::from_millionths(0).takes(0));
        assert!(Sample::ALL.takes(u64::MAX) && !Sample::from_millionths(999_999).takes(u64::MAX));
    }
}
