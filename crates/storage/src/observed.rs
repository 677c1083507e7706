//! Whose locks show no sign of life. Clocks of two hosts are never compared: a lock is stale when this process has seen
//! nothing of it change for a lease, by its own clock. Pure: what was seen and `now` go in, a verdict comes out.

use std::collections::HashMap;
use std::time::Duration;

/// Locks of others that are looked at. The one seen first is forgotten for a new one, which only makes its next verdict
/// later.
const OBSERVED_MAX: usize = 16_384;

#[derive(Debug, Default)]
pub(crate) struct Observations {
    by_lock: HashMap<String, Observation>,
}

#[derive(Debug)]
struct Observation {
    /// Anything that the holder's heartbeat changes.
    sign_of_life: String,
    first_seen: Duration,
}

impl Observations {
    /// Whether the same sign of life has been there for a lease or longer.
    pub(crate) fn is_stale(&mut self, lock: &str, sign_of_life: &str, lease: Duration, now: Duration) -> bool {
        if let Some(observation) = self.by_lock.get(lock)
            && observation.sign_of_life == sign_of_life
        {
            return now.saturating_sub(observation.first_seen) >= lease;
        }
        if self.by_lock.len() >= OBSERVED_MAX && !self.by_lock.contains_key(lock) {
            self.forget_oldest();
        }
        self.by_lock.insert(lock.into(), Observation { sign_of_life: sign_of_life.into(), first_seen: now });
        false
    }

    /// The lock is free, or ours.
    pub(crate) fn forget(&mut self, lock: &str) {
        self.by_lock.remove(lock);
    }

    fn forget_oldest(&mut self) {
        let oldest = self.by_lock.iter().min_by_key(|(_, observation)| observation.first_seen).map(|(lock, _)| lock.clone());
        if let Some(oldest) = oldest {
            self.by_lock.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OBSERVED_MAX, Observations};
    use std::time::Duration;

    const LEASE: Duration = Duration::from_secs(30);

    /// Each look is the second and what was seen of the lock; the last one is what counts.
    fn check(looks: &[(u64, &str)], expected: bool) {
        let mut observations = Observations::default();
        let mut stale = false;
        for (second, sign) in looks {
            stale = observations.is_stale("a", sign, LEASE, Duration::from_secs(*second));
        }
        assert_eq!(stale, expected, "{looks:?}");
    }

    #[test]
    fn a_lock_is_stale_when_nothing_changed_for_a_lease() {
        check(&[(0, "x1")], false);
        check(&[(0, "x1"), (29, "x1")], false);
        check(&[(0, "x1"), (30, "x1")], true);
        check(&[(0, "x1"), (29, "x2"), (58, "x2")], false);
        check(&[(0, "x1"), (29, "x2"), (59, "x2")], true);
        // Nobody looked for an hour, in which the holder may have lived: what was seen then is still what is seen now.
        check(&[(0, "x1"), (3600, "x1")], true);
        check(&[(0, "x1"), (3600, "x9")], false);
        // A clock that went back is no reason to take a lock.
        check(&[(100, "x1"), (0, "x1")], false);
    }

    #[test]
    fn what_is_looked_at_is_bounded() {
        let mut observations = Observations::default();
        for lock in 0..OBSERVED_MAX as u64 + 10 {
            observations.is_stale(&lock.to_string(), "x", LEASE, Duration::from_secs(lock));
        }
        assert_eq!(observations.by_lock.len(), OBSERVED_MAX);
    }
}
