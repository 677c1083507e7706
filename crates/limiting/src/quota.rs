//! How often is too often: the generic cell rate algorithm, as arithmetic on one number for each key. It allows what a
//! bucket of `burst` tokens that fills evenly allows, and needs neither a refill nor a window that begins anew. Where
//! the numbers are kept is in `rates`.

use std::time::Duration;

/// `count` units in each period, and at most `burst` of them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// From one unit to the next.
    interval_ns: u64,
    burst: u32,
}

/// How a key stands after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whole units that may be used at once.
    pub left: u32,
    /// Until there is one unit more; zero when nothing is missing.
    pub next_unit_in: Duration,
}

impl Quota {
    /// From an empty bucket to a full one, at most. Larger bursts are cut to it, so that all times stay far below 2^64
    /// ns (584 years).
    pub const WINDOW_MAX: Duration = Duration::from_secs(366 * 86_400);

    /// A period or a count of zero is taken as the least there is, and units cannot come faster than one a nanosecond.
    pub fn new(count: u32, period: Duration, burst: u32) -> Quota {
        let window_max = Quota::WINDOW_MAX.as_nanos() as u64;
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).min(window_max);
        let interval_ns = (period_ns / u64::from(count.max(1))).max(1);
        let burst = u64::from(burst.max(1)).min((window_max / interval_ns).max(1));
        Quota { interval_ns, burst: burst as u32 }
    }

    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// From an empty bucket to a full one.
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.window_ns())
    }

    #[inline]
    fn window_ns(&self) -> u64 {
        self.interval_ns * u64::from(self.burst)
    }

    /// What `full_at_ns` becomes when `cost` units are taken; otherwise how long it is until they could be.
    ///
    /// `full_at_ns` is the one number of a key: when its bucket is full again. A moment that has passed is a full
    /// bucket, 0 one that was never used. One further away than this quota could bring about was counted by a slower
    /// one, before a change: then the bucket is empty.
    #[inline]
    pub fn take(&self, full_at_ns: u64, cost: u32, now_ns: u64) -> Result<u64, Duration> {
        let window = self.window_ns();
        let missing = full_at_ns.saturating_sub(now_ns).min(window);
        let after = missing.saturating_add(self.interval_ns.saturating_mul(u64::from(cost)));
        if after <= window { Ok(now_ns.saturating_add(after)) } else { Err(Duration::from_nanos(after - window)) }
    }

    /// What `full_at_ns` becomes when one unit is given back.
    pub fn give_back(&self, full_at_ns: u64, now_ns: u64) -> u64 {
        full_at_ns.min(now_ns.saturating_add(self.window_ns())).saturating_sub(self.interval_ns)
    }

    #[inline]
    pub fn standing(&self, full_at_ns: u64, now_ns: u64) -> Standing {
        let window = self.window_ns();
        let missing = full_at_ns.saturating_sub(now_ns).min(window);
        let left = (window - missing) / self.interval_ns;
        let next_unit_in = if missing == 0 { 0 } else { missing - (window - (left + 1) * self.interval_ns) };
        Standing { left: left as u32, next_unit_in: Duration::from_nanos(next_unit_in) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Quota, Standing};
    use proptest::prelude::*;
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_and_then_one_at_a_time() {
        // 5 an hour: one each 720 s.
        let quota = Quota::new(5, Duration::from_secs(3_600), 5);
        let mut full_at = 0;
        for left in (0..5).rev() {
            full_at = quota.take(full_at, 1, SECOND).expect("it is let through");
            let expected = Standing { left, next_unit_in: Duration::from_secs(720) };
            assert_eq!(quota.standing(full_at, SECOND), expected);
        }
        assert_eq!(quota.take(full_at, 1, SECOND), Err(Duration::from_secs(720)));
        assert_eq!(quota.take(full_at, 1, 720 * SECOND), Err(Duration::from_secs(1)));
        let full_at = quota.take(full_at, 1, 721 * SECOND).expect("the next one is there");
        assert_eq!(quota.take(full_at, 1, 721 * SECOND), Err(Duration::from_secs(720)));
        assert_eq!(
            quota.standing(full_at, 721 * SECOND + 1),
            Standing { left: 0, next_unit_in: Duration::from_nanos(720 * SECOND - 1) }
        );
        assert_eq!(quota.standing(full_at, 10_000 * SECOND), Standing { left: 5, next_unit_in: Duration::ZERO });
    }

    #[test]
    fn what_costs_more_waits_longer() {
        let quota = Quota::new(1, Duration::from_secs(1), 10);
        let full_at = quota.take(0, 7, 0).expect("seven of ten");
        assert_eq!(quota.take(full_at, 4, 0), Err(Duration::from_secs(1)));
        assert_eq!(quota.take(full_at, 3, 0), Ok(10 * SECOND));
        assert_eq!(quota.take(0, 11, 0), Err(Duration::from_secs(1)), "more than there can ever be is always refused");
    }

    #[test]
    fn a_change_of_the_rate_goes_on_from_what_was_counted() {
        let slow = Quota::new(5, Duration::from_secs(3_600), 5);
        let full_at = (0..5).fold(0, |full_at, _| slow.take(full_at, 1, 0).expect("five"));
        let fast = Quota::new(100, Duration::from_secs(1), 200);
        assert_eq!(fast.take(full_at, 1, 0), Err(Duration::from_millis(10)), "empty, and not shut for an hour");
        let full_at = (0..200).fold(0, |full_at, _| fast.take(full_at, 1, 0).expect("two hundred"));
        assert_eq!(
            slow.standing(full_at, 0).left,
            4,
            "what is missing is a time, and two seconds of it are little for a slow rate"
        );
    }

    #[test]
    fn numbers_beyond_reason_are_cut() {
        let check = |count: u32, period: Duration, burst: u32, expected: (u64, u32)| {
            let quota = Quota::new(count, period, burst);
            assert_eq!((quota.interval_ns, quota.burst), expected);
            assert!(quota.window() <= Quota::WINDOW_MAX);
            let empty = quota.take(0, quota.burst, 0).expect("a whole burst");
            assert!(quota.take(empty, 1, 0).is_err());
            assert_eq!(quota.take(u64::MAX, quota.burst, u64::MAX), Ok(u64::MAX), "the end of time is no overflow");
        };
        check(0, Duration::from_secs(1), 0, (SECOND, 1));
        check(u32::MAX, Duration::ZERO, u32::MAX, (1, u32::MAX));
        check(1, Duration::MAX, 3, (366 * 86_400 * SECOND, 1));
        check(1, Duration::from_secs(86_400), 1_000, (86_400 * SECOND, 366));
    }

    /// A bucket that is filled drop by drop, in units of the interval's nanoseconds.
    struct Bucket {
        tokens_ns: u64,
        at_ns: u64,
    }

    impl Bucket {
        fn take(&mut self, quota: &Quota, cost: u32, now_ns: u64) -> bool {
            self.tokens_ns = (self.tokens_ns + (now_ns - self.at_ns)).min(quota.window_ns());
            self.at_ns = now_ns;
            let price = quota.interval_ns * u64::from(cost);
            let is_enough = self.tokens_ns >= price;
            self.tokens_ns -= if is_enough { price } else { 0 };
            is_enough
        }
    }

    proptest! {
        #[test]
        fn it_decides_as_a_bucket_of_tokens(
            (count, period_ms, burst) in (1..2_000u32, 1..100_000u64, 1..500u32),
            requests in proptest::collection::vec((0..3_000_000_000u64, 1..4u32), 1..300),
        ) {
            let quota = Quota::new(count, Duration::from_millis(period_ms), burst);
            let mut bucket = Bucket { tokens_ns: quota.window_ns(), at_ns: 0 };
            let (mut full_at, mut now) = (0, 0);
            for (later, cost) in requests {
                now += later;
                let taken = quota.take(full_at, cost, now);
                prop_assert_eq!(taken.is_ok(), bucket.take(&quota, cost, now));
                match taken {
                    Ok(after) => full_at = after,
                    Err(wait) if cost <= quota.burst() => {
                        let until = now + wait.as_nanos() as u64;
                        prop_assert!(quota.take(full_at, cost, until).is_ok(), "who waits as told gets through");
                        prop_assert!(quota.take(full_at, cost, until - 1).is_err(), "and was told no more than needed");
                    }
                    Err(_) => {}
                }
                let standing = quota.standing(full_at, now);
                prop_assert_eq!(u64::from(standing.left), bucket.tokens_ns / quota.interval_ns);
                prop_assert!(quota.take(full_at, standing.left + 1, now).is_err());
                let next = now + standing.next_unit_in.as_nanos() as u64;
                prop_assert!(standing.left == quota.burst() || quota.take(full_at, standing.left + 1, next).is_ok());
            }
        }
    }
}
