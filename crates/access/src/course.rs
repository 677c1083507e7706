//! When the keys of an issuer are asked for again: ahead of the end of those at hand, when a token names one that is
//! not among them, and after a failure. Keys at hand are never thrown away for the lack of newer ones.

use std::time::{Duration, Instant};

/// How long keys are taken for fresh where the answer does not say.
pub const KEY_LIFE_DEFAULT: Duration = Duration::from_mins(10);
/// Of what an answer says (`max-age`).
pub const KEY_LIFE_MIN: Duration = Duration::from_mins(1);
pub const KEY_LIFE_MAX: Duration = Duration::from_hours(24);
/// Tokens that name a key nobody knows cause one question in this time, whoever makes them up.
pub const UNKNOWN_KEY_WAIT: Duration = Duration::from_secs(30);
/// After a failure; longer after each, up to the other.
const FAILED_WAIT_MIN: Duration = Duration::from_secs(1);
pub const FAILED_WAIT_MAX: Duration = Duration::from_mins(5);

/// Of the keys of one issuer.
#[derive(Debug)]
pub struct KeyCourse {
    /// When to ask next, whatever happens.
    due: Instant,
    /// An answer is being waited for.
    is_asked: bool,
    /// When a question was last asked for a key that was not known.
    unknown_at: Option<Instant>,
    failures: u32,
}

impl KeyCourse {
    /// Of keys that nobody has asked for: at once.
    pub fn new(now: Instant) -> KeyCourse {
        KeyCourse { due: now, is_asked: false, unknown_at: None, failures: 0 }
    }

    /// When to look at it again; never, while an answer is on its way.
    pub fn due(&self) -> Option<Instant> {
        (!self.is_asked).then_some(self.due)
    }

    /// Whether an answer is on its way, or about to be asked for.
    pub fn is_coming(&self, now: Instant) -> bool {
        self.is_asked || now >= self.due
    }

    /// Whether to ask now. If so, it counts as asked.
    pub fn begin(&mut self, now: Instant) -> bool {
        let begins = !self.is_asked && now >= self.due;
        self.is_asked |= begins;
        begins
    }

    /// A token has named a key that is not known. Whether newer keys are on their way because of it, or were already.
    pub fn note_unknown(&mut self, now: Instant) -> bool {
        if self.is_asked {
            return true;
        }
        if self.unknown_at.is_some_and(|last| now < last + UNKNOWN_KEY_WAIT) {
            return false;
        }
        self.unknown_at = Some(now);
        self.due = now;
        true
    }

    /// Keys have come, fresh for as long as the answer says. They are asked for again at three quarters of that.
    pub fn note_keys(&mut self, now: Instant, life: Option<Duration>) {
        let life = life.unwrap_or(KEY_LIFE_DEFAULT).clamp(KEY_LIFE_MIN, KEY_LIFE_MAX);
        self.is_asked = false;
        self.failures = 0;
        self.due = now + life / 4 * 3;
    }

    /// No keys have come, or none that can be used.
    pub fn note_failure(&mut self, now: Instant) {
        self.is_asked = false;
        let wait = FAILED_WAIT_MIN.saturating_mul(2u32.saturating_pow(self.failures)).min(FAILED_WAIT_MAX);
        self.failures = self.failures.saturating_add(1);
        self.due = now + wait;
    }
}

#[cfg(test)]
mod tests {
    use super::{FAILED_WAIT_MAX, KEY_LIFE_DEFAULT, KEY_LIFE_MAX, KEY_LIFE_MIN, KeyCourse, UNKNOWN_KEY_WAIT};
    use std::time::{Duration, Instant};

    #[test]
    fn keys_are_asked_for_before_they_end() {
        let check = |life: Option<Duration>, expected: Duration| {
            let now = Instant::now();
            let mut course = KeyCourse::new(now);
            assert!(course.begin(now));
            assert!(!course.begin(now), "an answer is on its way");
            assert_eq!(course.due(), None);
            course.note_keys(now, life);
            assert_eq!(course.due(), Some(now + expected / 4 * 3));
            assert!(!course.begin(now));
            assert!(course.begin(now + expected / 4 * 3));
        };
        check(None, KEY_LIFE_DEFAULT);
        check(Some(Duration::from_hours(1)), Duration::from_hours(1));
        check(Some(Duration::ZERO), KEY_LIFE_MIN);
        check(Some(Duration::MAX), KEY_LIFE_MAX);
    }

    #[test]
    fn unknown_keys_cause_one_question_in_their_time() {
        let now = Instant::now();
        let mut course = KeyCourse::new(now);
        assert!(course.begin(now));
        assert!(course.note_unknown(now), "those on their way may have it");
        course.note_keys(now, None);
        let mut questions = 0;
        for second in 0..300 {
            let at = now + Duration::from_secs(second);
            // Ten thousand of them, of which one is as good as all.
            let waits = (0..10).map(|_| course.note_unknown(at)).filter(|waits| *waits).count();
            if course.begin(at) {
                questions += 1;
                course.note_keys(at, None);
            }
            assert!(waits <= 10);
        }
        assert_eq!(questions, 300 / UNKNOWN_KEY_WAIT.as_secs());
    }

    #[test]
    fn failures_are_followed_by_longer_waits_up_to_a_bound() {
        let mut now = Instant::now();
        let mut course = KeyCourse::new(now);
        let mut waits = Vec::new();
        for _ in 0..12 {
            assert!(course.begin(now));
            course.note_failure(now);
            let due = course.due().expect("a time");
            waits.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(Duration::from_secs(300), FAILED_WAIT_MAX);
        assert!(course.begin(now));
        course.note_keys(now, None);
        assert!(course.begin(now + KEY_LIFE_DEFAULT));
        course.note_failure(now);
        assert_eq!(course.due(), Some(now + Duration::from_secs(1)), "forgotten with the first success");
    }

    #[test]
    fn an_unknown_key_is_asked_for_while_the_issuer_is_away_no_more_often() {
        let now = Instant::now();
        let mut course = KeyCourse::new(now);
        assert!(course.begin(now));
        course.note_keys(now, None);
        assert!(course.note_unknown(now));
        assert!(course.begin(now));
        course.note_failure(now);
        let later = now + Duration::from_millis(500);
        assert!(!course.note_unknown(later));
        assert!(!course.begin(later));
        assert!(course.begin(now + Duration::from_secs(1)), "the failed one is repeated");
    }
}
