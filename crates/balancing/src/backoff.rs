//! How long a request waits before it is sent again: longer each time, and not as long as others that failed with it,
//! so that they do not come back at once.

use std::time::Duration;
use tidegate_model::Backoff;

/// The pause after so many times that the request was sent again. `random` is uniform bits.
///
/// Never less than the first pause, and never more than the longest one. Half of it at most is chance.
pub fn pause(backoff: &Backoff, retries: usize, random: u64) -> Duration {
    let Backoff { first, max } = *backoff;
    let doubled = |times: usize| first.saturating_mul(1 << times.min(31)).min(max);
    let most = doubled(retries + 1);
    let least = doubled(retries).min((most / 2).max(first)).min(most);
    let part = (u128::from(random) * most.saturating_sub(least).as_nanos()) >> 64;
    least + Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

/// The longest that the pause can be.
pub fn longest(backoff: &Backoff, retries: usize) -> Duration {
    pause(backoff, retries, u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{longest, pause};
    use std::time::Duration;
    use tidegate_model::Backoff;

    #[test]
    fn a_pause_is_longer_each_time_and_has_an_end() {
        let check = |first: u64, max: u64, retries: usize, least: u64, most: u64| {
            let backoff = Backoff { first: Duration::from_millis(first), max: Duration::from_millis(max) };
            assert_eq!(pause(&backoff, retries, 0), Duration::from_millis(least), "{first} {max} {retries}");
            let longest = longest(&backoff, retries);
            let most = Duration::from_millis(most);
            assert!(
                longest <= most && most.saturating_sub(longest) < Duration::from_millis(1),
                "{first} {max} {retries}: {longest:?}"
            );
        };
        check(25, 250, 0, 25, 50);
        check(25, 250, 1, 50, 100);
        check(25, 250, 2, 100, 200);
        check(25, 250, 3, 125, 250);
        check(25, 250, 9, 125, 250);
        check(25, 250, usize::MAX - 1, 125, 250);
        // No more than the one pause.
        check(100, 100, 0, 100, 100);
        check(100, 100, 7, 100, 100);
        check(100, 150, 0, 100, 150);
        check(100, 150, 3, 100, 150);
    }

    #[test]
    fn those_that_failed_together_come_back_apart() {
        let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) };
        let pauses: Vec<_> = (0..4).map(|quarter| pause(&backoff, 0, quarter << 62)).collect();
        assert_eq!(pauses, [100, 125, 150, 175].map(Duration::from_millis));
    }
}
