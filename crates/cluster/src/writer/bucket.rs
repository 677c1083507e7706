//! How often something may be done: so many a second, and so many at once after a rest. Pure.

use std::time::{Duration, Instant};

/// A bucket that fills while nothing is taken from it.
#[derive(Debug)]
pub struct Bucket {
    /// Between one and the next.
    every: Duration,
    /// As many as there are when nothing was taken for long.
    most: u32,
    left: u32,
    /// Since when the next one is on its way.
    filled: Option<Instant>,
}

impl Bucket {
    pub fn new(every: Duration, most: u32) -> Bucket {
        Bucket { every, most, left: most, filled: None }
    }

    /// Takes one, or says when there is one.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        self.fill(now);
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.filled.unwrap_or(now) + self.every),
        }
    }

    fn fill(&mut self, now: Instant) {
        let filled = *self.filled.get_or_insert(now);
        let came = now.saturating_duration_since(filled).as_nanos() / self.every.as_nanos().max(1);
        let came = u32::try_from(came).unwrap_or(u32::MAX);
        if came >= self.most - self.left {
            (self.left, self.filled) = (self.most, Some(now));
        } else {
            self.left += came;
            self.filled = Some(filled + self.every * came);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bucket;
    use std::time::{Duration, Instant};

    #[test]
    fn so_many_at_once_and_then_so_many_a_second() {
        let (mut bucket, mut now) = (Bucket::new(Duration::from_millis(50), 3), Instant::now());
        for _ in 0..3 {
            assert_eq!(bucket.take(now), Ok(()));
        }
        let mut waited = Vec::new();
        for _ in 0..3 {
            let next = bucket.take(now).expect_err("it is empty");
            waited.push((next - now).as_millis());
            now = next;
            assert_eq!(bucket.take(now), Ok(()));
        }
        assert_eq!(waited, [50, 50, 50]);
        now += Duration::from_secs(3600);
        let taken = (0..10).filter(|_| bucket.take(now).is_ok()).count();
        assert_eq!(taken, 3, "an hour of rest is worth no more than what it holds");
    }
}
