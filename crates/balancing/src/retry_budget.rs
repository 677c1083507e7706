//! How many requests may be sent again: a part of those of the last ten seconds, so that an outage is never multiplied.
//! One worker keeps it for each pool and sees its own requests only, which is the same part of the whole. Whether a
//! request is safe to send again is decided elsewhere.

use std::cell::Cell;
use std::time::Duration;

/// Buckets of one second each.
const WINDOW_SECONDS: usize = 10;
/// What each worker may send again within the window however few requests there are: with little traffic a part of it
/// would be none.
pub const RETRIES_ALWAYS: u64 = 10;

#[derive(Debug, Default)]
pub struct RetryBudget {
    /// The second that the newest bucket belongs to.
    second: Cell<u64>,
    /// By second, modulo the window.
    buckets: [Bucket; WINDOW_SECONDS],
}

#[derive(Debug, Default)]
struct Bucket {
    requests: Cell<u32>,
    retries: Cell<u32>,
}

impl RetryBudget {
    /// A request comes for the first time. `now` is since the process began, like everywhere here.
    #[inline]
    pub fn note_request(&self, now: Duration) {
        let bucket = self.bucket(now);
        bucket.requests.set(bucket.requests.get().saturating_add(1));
    }

    /// Whether one more request may be sent again, which is counted then: fewer than `percent` of the requests in the
    /// window were, or fewer than [`RETRIES_ALWAYS`].
    pub fn try_retry(&self, percent: u8, now: Duration) -> bool {
        let bucket = self.bucket(now);
        let sum =
            |count: fn(&Bucket) -> &Cell<u32>| self.buckets.iter().map(|bucket| u64::from(count(bucket).get())).sum::<u64>();
        let allowed = (sum(|bucket| &bucket.requests) * u64::from(percent) / 100).max(RETRIES_ALWAYS);
        let is_allowed = sum(|bucket| &bucket.retries) < allowed;
        if is_allowed {
            bucket.retries.set(bucket.retries.get().saturating_add(1));
        }
        is_allowed
    }

    #[inline]
    fn bucket(&self, now: Duration) -> &Bucket {
        let second = now.as_secs();
        if second > self.second.get() {
            self.advance(second);
        }
        &self.buckets[(self.second.get() % WINDOW_SECONDS as u64) as usize]
    }

    /// Empties the buckets of the seconds that went by.
    #[cold]
    fn advance(&self, second: u64) {
        let passed = (second - self.second.get()).min(WINDOW_SECONDS as u64);
        for gone in 0..passed {
            let bucket = &self.buckets[((second - gone) % WINDOW_SECONDS as u64) as usize];
            bucket.requests.set(0);
            bucket.retries.set(0);
        }
        self.second.set(second);
    }
}

#[cfg(test)]
mod tests {
    use super::RetryBudget;
    use std::time::Duration;

    /// Requests by second; then how many may be sent again at a second.
    fn check(requests: &[(u64, u32)], percent: u8, at_second: u64, expected: usize) {
        let budget = RetryBudget::default();
        for (second, count) in requests {
            (0..*count).for_each(|_| budget.note_request(Duration::from_secs(*second)));
        }
        let allowed = (0..10_000).take_while(|_| budget.try_retry(percent, Duration::from_secs(at_second))).count();
        assert_eq!(allowed, expected, "{requests:?} at {at_second} s");
    }

    #[test]
    fn retries_are_a_part_of_the_requests_of_ten_seconds() {
        check(&[(0, 1000)], 20, 0, 200);
        check(&[(0, 1000), (9, 500)], 20, 9, 300);
        check(&[(0, 1000), (9, 500)], 20, 10, 100);
        check(&[(3, 1000)], 20, 12, 200);
        check(&[(3, 1000)], 20, 13, 10);
        check(&[(3, 1000)], 20, 4_000_000_000, 10);
        check(&[(7, 1000)], 100, 7, 1000);
    }

    #[test]
    fn a_few_are_always_allowed() {
        check(&[], 20, 0, 10);
        check(&[(0, 3)], 20, 0, 10);
        check(&[(0, 1000)], 0, 0, 10);
    }

    #[test]
    fn retries_come_back_as_they_leave_the_window() {
        let budget = RetryBudget::default();
        let taken = |second: u64| (0..100).filter(|_| budget.try_retry(20, Duration::from_secs(second))).count();
        assert_eq!([taken(0), taken(5), taken(9), taken(10), taken(11)], [10, 0, 0, 10, 0]);
        // A time before the last one counts as the last one.
        assert_eq!(taken(2), 0);
    }
}
