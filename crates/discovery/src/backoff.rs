//! How long to wait before a source that failed is asked again. Pure: chance is given to it.

use std::time::Duration;

/// After the first fault. What was a restart is over by then.
const FIRST: Duration = Duration::from_secs(1);
/// A source that is away for long is still found within half a minute.
const MOST: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub struct Backoff {
    /// Since the source last worked.
    faults: u32,
}

impl Backoff {
    /// One fault more. Between half of the pause and all of it, so that many processes that lost the same source do not
    /// come back together. `chance` is from 0 to 1.
    pub fn pause(&mut self, chance: f64) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.faults.min(10)).min(MOST);
        self.faults = self.faults.saturating_add(1);
        whole.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }

    /// The source has answered.
    pub fn reset(&mut self) {
        self.faults = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;

    fn check(chance: f64, expected: &[u64]) {
        let mut backoff = Backoff::default();
        let seen: Vec<u64> = expected.iter().map(|_| backoff.pause(chance).as_millis() as u64).collect();
        assert_eq!(seen, expected);
        backoff.reset();
        assert_eq!(backoff.pause(chance).as_millis() as u64, expected[0]);
    }

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        check(1.0, &[1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        check(0.0, &[500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
    }

    #[test]
    fn no_number_of_faults_is_too_many() {
        let mut backoff = Backoff { faults: u32::MAX };
        assert_eq!(backoff.pause(1.0).as_secs(), 30);
    }
}
