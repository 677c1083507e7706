//! How it goes with one certificate: what was answered last, what failed since, and when its responder is asked again.
//! Data, `now` and a number for the jitter go in; who asks and who staples is elsewhere.

use crate::verify::{Answer, Verdict};
use jiff::{SignedDuration, Timestamp};

/// After the first failure; each further one doubles it.
const BACK_OFF_MIN: SignedDuration = SignedDuration::from_secs(60);
/// Answers are asked for at half of their life, which is days with all public CAs, so that many attempts of this
/// distance remain.
const BACK_OFF_MAX: SignedDuration = SignedDuration::from_hours(1);
/// No responder is asked more often while it answers, however short its answers count.
const AGAIN_MIN: SignedDuration = SignedDuration::from_secs(30);
/// However long an answer counts: a certificate can be revoked meanwhile.
const AGAIN_MAX: SignedDuration = SignedDuration::from_hours(48);

#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    standing: Standing,
    failures_in_a_row: u32,
    failure: Option<Failure>,
    next_at: Timestamp,
}

/// What the responder said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing yet that could be believed.
    Unheard,
    /// May be stapled before that time.
    Good {
        this_update: Timestamp,
        next_update: Timestamp,
    },
    Revoked {
        this_update: Timestamp,
        at: Timestamp,
    },
}

/// Of the last question, if it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub at: Timestamp,
    pub cause: String,
    pub remedy: String,
}

/// What an answer changes for handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The answer is stapled from now on.
    Staple { until: Timestamp },
    /// Nothing is stapled any more: the certificate is revoked. `is_news`: it was not known before.
    Withdraw { is_news: bool },
    /// The answer is older than what is known.
    Nothing,
}

impl Course {
    /// To be asked at once.
    pub fn new() -> Course {
        Course { standing: Standing::Unheard, failures_in_a_row: 0, failure: None, next_at: Timestamp::MIN }
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    pub fn failures_in_a_row(&self) -> u32 {
        self.failures_in_a_row
    }

    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// When the responder is asked next.
    pub fn next_at(&self) -> Timestamp {
        self.next_at
    }

    /// Until when what was answered last may be stapled, if it may be now.
    pub fn stapled_until(&self, now: Timestamp) -> Option<Timestamp> {
        match self.standing {
            Standing::Good { next_update, .. } => (now < next_update).then_some(next_update),
            Standing::Unheard | Standing::Revoked { .. } => None,
        }
    }

    /// Takes over what was verified. `jitter` is from 0 to 1, so that certificates that were issued together do not ask
    /// together for ever.
    pub fn answered(&mut self, answer: &Answer, now: Timestamp, jitter: f64) -> Effect {
        let left = answer.next_update.duration_since(now);
        self.failures_in_a_row = 0;
        self.failure = None;
        self.next_at = after(now, scaled(left / 2, 0.9 + 0.2 * jitter).clamp(AGAIN_MIN, AGAIN_MAX));
        let known_since = match self.standing {
            Standing::Unheard => Timestamp::MIN,
            Standing::Good { this_update, .. } | Standing::Revoked { this_update, .. } => this_update,
        };
        // Caches and attackers may bring what was said before the certificate was revoked.
        if answer.this_update < known_since {
            return Effect::Nothing;
        }
        let was_revoked = matches!(self.standing, Standing::Revoked { .. });
        let Answer { this_update, next_update, .. } = *answer;
        match answer.verdict {
            Verdict::Good => {
                self.standing = Standing::Good { this_update, next_update };
                Effect::Staple { until: next_update }
            }
            Verdict::Revoked { at } => {
                self.standing = Standing::Revoked { this_update, at };
                Effect::Withdraw { is_news: !was_revoked }
            }
        }
    }

    /// What was answered before stands, until its time is over.
    pub fn failed(&mut self, failure: Failure, jitter: f64) {
        let doubled = 1_i32 << self.failures_in_a_row.min(10);
        let wait = (BACK_OFF_MIN * doubled).min(BACK_OFF_MAX);
        self.next_at = after(failure.at, scaled(wait, 0.75 + 0.5 * jitter));
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        self.failure = Some(failure);
    }
}

impl Default for Course {
    fn default() -> Self {
        Course::new()
    }
}

fn scaled(duration: SignedDuration, factor: f64) -> SignedDuration {
    SignedDuration::from_secs((duration.as_secs() as f64 * factor) as i64)
}

fn after(time: Timestamp, wait: SignedDuration) -> Timestamp {
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Course, Effect, Failure, Standing};
    use crate::verify::{Answer, Verdict};
    use jiff::{SignedDuration, Timestamp};

    const HOUR: i64 = 3600;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    fn good(from: i64, until: i64) -> Answer {
        Answer { verdict: Verdict::Good, this_update: at(from), next_update: at(until) }
    }

    fn revoked(from: i64, until: i64) -> Answer {
        Answer { verdict: Verdict::Revoked { at: at(from) }, ..good(from, until) }
    }

    fn failure(seconds: i64) -> Failure {
        Failure { at: at(seconds), cause: "it hangs".into(), remedy: "wait".into() }
    }

    #[test]
    fn it_is_asked_again_at_half_of_what_is_left() {
        let check = |until: i64, jitter: f64, expected: i64| {
            let mut course = Course::new();
            course.answered(&good(0, until), at(0), jitter);
            assert_eq!(course.next_at(), at(expected), "until {until}, jitter {jitter}");
        };
        check(10 * HOUR, 0.5, 5 * HOUR);
        check(10 * HOUR, 0.0, 5 * HOUR * 9 / 10);
        check(10 * HOUR, 1.0, 5 * HOUR * 11 / 10);
        check(10, 0.5, 30);
        check(365 * 24 * HOUR, 0.5, 48 * HOUR);
    }

    #[test]
    fn failures_wait_longer_and_longer() {
        let mut course = Course::new();
        let waits: Vec<i64> = (0..9)
            .map(|_| {
                course.failed(failure(0), 0.5);
                course.next_at().as_second() / 60
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(course.failures_in_a_row(), 9);
        course.answered(&good(0, 10), at(0), 0.5);
        assert_eq!((course.failures_in_a_row(), course.failure()), (0, None));
        for _ in 0..100 {
            course.failed(failure(0), 1.0);
            assert!(course.next_at() <= at(0).saturating_add(SignedDuration::from_mins(75)).expect("a time"));
        }
    }

    #[test]
    fn what_was_good_is_stapled_until_its_end_whatever_fails() {
        let mut course = Course::new();
        assert_eq!(course.stapled_until(at(0)), None);
        assert_eq!(course.answered(&good(0, HOUR), at(0), 0.5), Effect::Staple { until: at(HOUR) });
        course.failed(failure(HOUR / 2), 0.5);
        assert_eq!(course.stapled_until(at(HOUR - 1)), Some(at(HOUR)));
        assert_eq!(course.stapled_until(at(HOUR)), None);
    }

    #[test]
    fn what_is_revoked_stays_so_until_something_newer_is_said() {
        let mut course = Course::new();
        course.answered(&good(0, HOUR), at(0), 0.5);
        assert_eq!(course.answered(&revoked(10, HOUR), at(10), 0.5), Effect::Withdraw { is_news: true });
        assert_eq!(course.answered(&revoked(20, HOUR), at(20), 0.5), Effect::Withdraw { is_news: false });
        assert_eq!(course.answered(&good(5, HOUR), at(30), 0.5), Effect::Nothing);
        assert_eq!(course.standing(), Standing::Revoked { this_update: at(20), at: at(20) });
        assert_eq!(course.answered(&good(40, HOUR), at(40), 0.5), Effect::Staple { until: at(HOUR) });
    }
}
