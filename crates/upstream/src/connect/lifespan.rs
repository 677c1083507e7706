//! How long one connection to a server may be used: decided by chance within the pool's settings when it opens, so that
//! connections that were opened together do not end together. Pure; `pool` and `connect::h2` ask it.

use std::time::{Duration, Instant};
use tidegate_model::KeepAlive;

/// What is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifespan {
    /// [`UNBOUNDED`] never becomes less.
    requests: u32,
    until: Option<Instant>,
}

const UNBOUNDED: u32 = u32::MAX;
/// Each bound becomes less by up to this part of it.
const JITTER_PART: u32 = 10;

impl Lifespan {
    /// `random` is uniform over all its bits.
    pub fn new(keep_alive: &KeepAlive, random: u64, now: Instant) -> Lifespan {
        let requests = keep_alive.requests.map_or(UNBOUNDED, |most| {
            let less = random % (u64::from(most / JITTER_PART) + 1);
            most - less as u32
        });
        // Other bits than the requests have.
        let part = (random >> 32) as u32;
        let less = |age: Duration| (age / JITTER_PART).mul_f64(f64::from(part) / f64::from(u32::MAX));
        let until = keep_alive.age.and_then(|age| now.checked_add(age.saturating_sub(less(age))));
        Lifespan { requests, until }
    }

    /// Counts a request; whether there may be another after it.
    #[inline]
    pub fn count_request(&mut self) -> bool {
        if self.requests == UNBOUNDED {
            return true;
        }
        self.requests = self.requests.saturating_sub(1);
        self.requests > 0
    }

    /// Whether the connection is too old for another request.
    #[inline]
    pub fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::Lifespan;
    use std::collections::HashSet;
    use std::time::{Duration, Instant};
    use tidegate_model::KeepAlive;

    /// How many requests a connection serves that lives that long.
    fn requests(most: Option<u32>, random: u64) -> u32 {
        let keep_alive = KeepAlive { requests: most, ..KeepAlive::default() };
        let mut lifespan = Lifespan::new(&keep_alive, random, Instant::now());
        (1..=5000).find(|_| !lifespan.count_request()).unwrap_or(u32::MAX)
    }

    #[test]
    fn requests_end_at_the_bound_or_up_to_a_tenth_before() {
        let check = |most: u32, expected: std::ops::RangeInclusive<u32>| {
            let seen: HashSet<u32> = (0..1000).map(|random| requests(Some(most), random)).collect();
            assert!(seen.iter().all(|count| expected.contains(count)), "{most}: {seen:?}");
            assert_eq!(seen.len(), expected.count(), "{most}: every number is met");
        };
        check(1, 1..=1);
        check(2, 2..=2);
        check(9, 9..=9);
        check(10, 9..=10);
        check(1000, 900..=1000);
        assert_eq!(requests(Some(0), u64::MAX), 1, "a connection serves what it was opened for");
        assert_eq!(requests(None, u64::MAX), u32::MAX);
    }

    #[test]
    fn the_age_ends_at_the_bound_or_up_to_a_tenth_before() {
        let now = Instant::now();
        let age = Duration::from_secs(100);
        let keep_alive = KeepAlive { age: Some(age), ..KeepAlive::default() };
        for random in [0, 1 << 40, u64::MAX / 2, u64::MAX] {
            let lifespan = Lifespan::new(&keep_alive, random, now);
            assert!(!lifespan.is_over(now + Duration::from_millis(89_999)), "{random}");
            assert!(lifespan.is_over(now + age), "{random}");
        }
        assert!(!Lifespan::new(&keep_alive, 0, now).is_over(now + Duration::from_millis(99_999)));
        assert!(Lifespan::new(&keep_alive, u64::MAX, now).is_over(now + age * 9 / 10 + Duration::from_millis(1)));
        assert!(!Lifespan::new(&KeepAlive::default(), 0, now).is_over(now + Duration::from_secs(1 << 40)));
        let for_ever = KeepAlive { age: Some(Duration::MAX), ..KeepAlive::default() };
        assert!(!Lifespan::new(&for_ever, 0, now).is_over(now + age), "an age beyond the clock is none");
    }
}
