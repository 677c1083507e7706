//! What is under way to one server of the connections that are opened in advance: how many may be begun, and when again
//! after a failure. Pure; `warm` opens them.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Connections that a worker opens to one server at a time in advance: a server that comes back is not met by all at
/// once.
const OPENING_MAX: u32 = 4;
/// After a failure nothing is opened in advance for so long, doubled with each that follows.
const PAUSE_LEAST: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_secs(30);
/// A connection that the server closed unused before this age was none: opening the next at once would go on for ever.
pub const AGE_LEAST: Duration = Duration::from_secs(1);

/// What is under way for one server of one worker.
#[derive(Debug, Default)]
pub struct Warming {
    pub opening: Cell<u32>,
    failures: Cell<u32>,
    not_before: Cell<Option<Instant>>,
    /// When the last HTTP/2 connection was opened, until it is known whether it lasts.
    pub h2_opened: Cell<Option<Instant>>,
}

impl Warming {
    /// How many to open now, when so many are wanted and so many are there.
    pub fn due(&self, wanted: u32, there: u32, now: Instant) -> u32 {
        if self.not_before.get().is_some_and(|at| now < at) {
            return 0;
        }
        let opening = self.opening.get();
        wanted.saturating_sub(there).saturating_sub(opening).min(OPENING_MAX.saturating_sub(opening))
    }

    /// Once for all that were opened together.
    pub fn failed(&self, now: Instant) {
        if self.not_before.get().is_some_and(|at| now < at) {
            return;
        }
        let failures = self.failures.get();
        self.failures.set(failures.saturating_add(1));
        let pause = PAUSE_LEAST * 2_u32.saturating_pow(failures);
        self.not_before.set(now.checked_add(pause.min(PAUSE_MOST)));
    }

    /// A connection lasted, or was used.
    pub fn succeeded(&self) {
        self.failures.set(0);
    }

    /// What became of the HTTP/2 connection that was opened last.
    pub fn look_after_h2(&self, is_there: bool, now: Instant) {
        let Some(opened) = self.h2_opened.get() else { return };
        let is_old = now.saturating_duration_since(opened) >= AGE_LEAST;
        match (is_there, is_old) {
            (true, false) => return,
            (false, false) => self.failed(now),
            (_, true) => self.succeeded(),
        }
        self.h2_opened.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::{OPENING_MAX, PAUSE_MOST, Warming};
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_missing_is_opened_a_few_at_a_time() {
        let check = |wanted: u32, there: u32, opening: u32, expected: u32| {
            let warming = Warming::default();
            warming.opening.set(opening);
            let due = warming.due(wanted, there, Instant::now());
            assert_eq!(due, expected, "{there} of {wanted}, {opening} on their way");
            assert!(due + opening <= OPENING_MAX.max(opening));
        };
        check(1, 0, 0, 1);
        check(3, 1, 0, 2);
        check(3, 1, 1, 1);
        check(3, 1, 2, 0);
        check(3, 4, 0, 0);
        check(100, 0, 0, 4);
        check(100, 0, 3, 1);
        check(100, 0, 4, 0);
        check(0, 0, 0, 0);
    }

    #[test]
    fn failures_pause_for_longer_and_longer_until_something_works() {
        let warming = Warming::default();
        let mut now = Instant::now();
        let second = Duration::from_secs(1);
        for pause in [1, 2, 4, 8, 16, 30, 30, 30] {
            warming.failed(now);
            assert_eq!(warming.due(9, 0, now + second * pause * 99 / 100), 0);
            now += second * pause;
            assert!(warming.due(9, 0, now) > 0, "after {pause} s");
        }
        warming.succeeded();
        warming.failed(now);
        assert!(warming.due(9, 0, now + second) > 0);
        (0..100).for_each(|_| warming.failed(now));
        assert!(warming.due(9, 0, now + second) > 0, "what fails together counts once");
        (0..100).for_each(|pause| warming.failed(now + PAUSE_MOST * pause));
        assert!(warming.due(9, 0, now + PAUSE_MOST * 100) > 0);
    }

    #[test]
    fn an_http2_connection_that_does_not_last_is_a_failure() {
        let check = |is_there: bool, after_ms: u64, failures: u32| {
            let (warming, opened) = (Warming::default(), Instant::now());
            warming.failures.set(3);
            warming.h2_opened.set(Some(opened));
            warming.look_after_h2(is_there, opened + Duration::from_millis(after_ms));
            assert_eq!(warming.failures.get(), failures, "{is_there} after {after_ms} ms");
            warming.look_after_h2(false, opened + Duration::from_millis(after_ms));
            assert_eq!(warming.failures.get(), if is_there && after_ms < 1000 { 4 } else { failures });
        };
        check(true, 500, 3);
        check(false, 500, 4);
        check(true, 1000, 0);
        check(false, 1000, 0);
    }
}
