//! Whether a change that waits for its confirmation did harm: what failed before it, and since. Pure: counts in,
//! verdict out.
//!
//! **The rule for requests.** A request has failed when an upstream answered it with a status from 500 on, or the
//! proxy did because something is wrong here or behind; what a route is told to answer, and what a client has provoked
//! by a request that is none, is no failure. A change is taken back when
//!
//! 1. the share of requests that fail has risen by more than so many percentage points, of at least 20 requests,
//!    **and**
//! 2. good answers are missing: there are fewer of them since than the minute before lets expect, by more than the same
//!    share and by more than chance.
//!
//! Strangers can ask as often as they like for what fails, but the good answers to others they cannot take away, so the
//! first alone is nothing. A change that breaks what clients ask for takes good answers away, which is the second.
//! Where so little is asked for that none are expected, nothing is said: there the time is what takes a change back.
//!
//! **The rule for handshakes.** Only those count that fail whoever asks; clients that refuse, scan or go away say
//! nothing of a change, and anybody can be one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tidegate_telemetry::Traffic;

/// What was normal is taken from this long before the change.
pub const BASELINE: Duration = Duration::from_secs(60);
/// How often counts are looked at.
pub const SAMPLE_PERIOD: Duration = Duration::from_secs(1);
/// Fewer requests or handshakes than this since the change say nothing.
const COUNT_LEAST: u64 = 20;
/// A share of errors may rise by this many percentage points unless the change asked for another bound.
pub const RISE_MAX_DEFAULT: f64 = 0.05;
/// Standard deviations by which good answers may be fewer by chance: requests that come independently are spread by the
/// root of their number, and one second of a thousand is beyond three.
const CHANCE: f64 = 3.0;

/// What is known of harm: what was normal, and the change that waits for a word.
#[derive(Debug, Default)]
pub struct Confirmation {
    pub baseline: Baseline,
    pub pending: Option<Pending>,
}

/// Counts of the last minute, one for each second.
#[derive(Debug, Default)]
pub struct Baseline {
    samples: VecDeque<(Instant, Traffic)>,
}

/// What came in a time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Came {
    pub traffic: Traffic,
    pub within: Duration,
}

impl Baseline {
    pub fn add(&mut self, now: Instant, traffic: Traffic) {
        self.samples.push_back((now, traffic));
        while self.samples.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > BASELINE) {
            self.samples.pop_front();
        }
    }

    /// What came in up to now.
    pub fn until(&self, now: Instant, traffic: Traffic) -> Came {
        let (since, oldest) = self.samples.front().map_or((now, traffic), |(at, oldest)| (*at, *oldest));
        Came { traffic: difference(traffic, oldest), within: now.saturating_duration_since(since) }
    }
}

/// A change that is taken back unless somebody confirms it.
#[derive(Debug)]
pub struct Pending {
    pub generation: u64,
    /// The one to go back to.
    pub back_to: u64,
    pub until: Instant,
    pub rise_max: f64,
    pub before: Came,
    pub changed: Instant,
    pub at_change: Traffic,
}

/// Why a change is taken back.
#[derive(Debug, Clone, PartialEq)]
pub enum Harm {
    Failures { before: f64, now: f64 },
    HandshakeFailures { before: f64, now: f64 },
    Unconfirmed,
}

impl std::fmt::Display for Harm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        match self {
            Harm::Failures { before, now } => {
                write!(f, "requests that fail rose from {} to {}, and good answers are missing", percent(*before), percent(*now))
            }
            Harm::HandshakeFailures { before, now } => {
                write!(
                    f,
                    "TLS handshakes that failed for want of a certificate or by a fault here rose from {} to {}",
                    percent(*before),
                    percent(*now)
                )
            }
            Harm::Unconfirmed => f.write_str("nobody confirmed it in time"),
        }
    }
}

impl Pending {
    /// `None`: it may stay for now.
    pub fn judge(&self, now: Instant, traffic: Traffic) -> Option<Harm> {
        let since = Came { traffic: difference(traffic, self.at_change), within: now.saturating_duration_since(self.changed) };
        let failed = |traffic: Traffic| (traffic.failures, traffic.requests);
        if let Some((before, now)) = self.risen(failed(self.before.traffic), failed(since.traffic))
            && self.misses_good_answers(since)
        {
            return Some(Harm::Failures { before, now });
        }
        let all = |traffic: Traffic| traffic.handshakes + traffic.own_handshake_failures;
        let own = |traffic: Traffic| (traffic.own_handshake_failures, all(traffic));
        let failures = self.risen(own(self.before.traffic), own(since.traffic));
        if let Some((before, now)) = failures {
            return Some(Harm::HandshakeFailures { before, now });
        }
        (now >= self.until).then_some(Harm::Unconfirmed)
    }

    /// The shares of errors before and since, when there are enough to tell and the rise is beyond the bound.
    fn risen(&self, before: (u64, u64), since: (u64, u64)) -> Option<(f64, f64)> {
        let share = |(errors, all): (u64, u64)| if all == 0 { 0.0 } else { errors as f64 / all as f64 };
        let (was, is) = (share(before), share(since));
        (since.1 >= COUNT_LEAST && is > was + self.rise_max).then_some((was, is))
    }

    /// Whether fewer good answers went out than before, as far as can be told by now.
    fn misses_good_answers(&self, since: Came) -> bool {
        let good = |traffic: Traffic| traffic.requests.saturating_sub(traffic.server_errors) as f64;
        let seconds_before = self.before.within.as_secs_f64();
        if seconds_before <= 0.0 {
            return false;
        }
        let expected = good(self.before.traffic) / seconds_before * since.within.as_secs_f64();
        good(since.traffic) < expected * (1.0 - self.rise_max) - CHANCE * expected.sqrt()
    }
}

fn difference(now: Traffic, before: Traffic) -> Traffic {
    Traffic {
        requests: now.requests.saturating_sub(before.requests),
        server_errors: now.server_errors.saturating_sub(before.server_errors),
        failures: now.failures.saturating_sub(before.failures),
        handshakes: now.handshakes.saturating_sub(before.handshakes),
        handshake_failures: now.handshake_failures.saturating_sub(before.handshake_failures),
        own_handshake_failures: now.own_handshake_failures.saturating_sub(before.own_handshake_failures),
    }
}

#[cfg(test)]
mod tests {
    use super::{Baseline, Came, Harm, Pending, RISE_MAX_DEFAULT};
    use std::time::{Duration, Instant};
    use tidegate_telemetry::Traffic;

    /// Errors are failures.
    fn asked(requests: u64, failures: u64) -> Traffic {
        Traffic { requests, server_errors: failures, failures, ..Traffic::default() }
    }

    fn shaken(handshakes: u64, own: u64, of_clients: u64) -> Traffic {
        Traffic { handshakes, handshake_failures: own + of_clients, own_handshake_failures: own, ..Traffic::default() }
    }

    fn sum(one: Traffic, other: Traffic) -> Traffic {
        Traffic {
            requests: one.requests + other.requests,
            server_errors: one.server_errors + other.server_errors,
            failures: one.failures + other.failures,
            handshakes: one.handshakes + other.handshakes,
            handshake_failures: one.handshake_failures + other.handshake_failures,
            own_handshake_failures: one.own_handshake_failures + other.own_handshake_failures,
        }
    }

    /// What is said of a change so many seconds later, when that came in the minute before it and this since.
    fn check(before: Traffic, since: Traffic, seconds: u64, expected: Option<&str>) {
        let changed = Instant::now();
        let at_change = sum(asked(1000, 7), shaken(100, 3, 4));
        let pending = Pending {
            generation: 2,
            back_to: 1,
            until: changed + Duration::from_secs(60),
            rise_max: RISE_MAX_DEFAULT,
            before: Came { traffic: before, within: Duration::from_secs(60) },
            changed,
            at_change,
        };
        let harm = pending.judge(changed + Duration::from_secs(seconds), sum(at_change, since));
        assert_eq!(harm.as_ref().map(Harm::to_string).as_deref(), expected, "{before:?} {since:?} {seconds}");
    }

    #[test]
    fn a_change_is_taken_back_for_harm_or_for_want_of_a_word() {
        let quiet = Traffic::default();
        check(quiet, quiet, 1, None);
        check(quiet, quiet, 60, Some("nobody confirmed it in time"));
        let harm =
            |before: &str, now: &str| format!("requests that fail rose from {before} % to {now} %, and good answers are missing");
        // 100 a second, all good. Then all fail, half of them, and fewer than may.
        let busy = asked(6000, 0);
        check(busy, asked(100, 100), 1, Some(&harm("0.0", "100.0")));
        check(busy, asked(300, 150), 3, Some(&harm("0.0", "50.0")));
        check(busy, asked(300, 15), 3, None);
        check(busy, asked(19, 19), 1, None);
        // Some failed before as well.
        let partly = asked(6000, 480);
        check(partly, asked(500, 40), 5, None);
        check(partly, asked(500, 400), 5, Some(&harm("8.0", "80.0")));
        // One a second, all broken: told as soon as chance is no explanation.
        let slow = asked(60, 0);
        check(slow, asked(8, 8), 8, None);
        check(slow, asked(25, 25), 25, Some(&harm("0.0", "100.0")));
    }

    #[test]
    fn strangers_take_no_good_change_back() {
        let quiet = Traffic::default();
        let busy = asked(6000, 0);
        // Strangers ask for what fails, as often as they like, and others get their answers as before.
        check(busy, sum(asked(500, 0), asked(100_000, 100_000)), 5, None);
        check(busy, sum(asked(480, 0), asked(100_000, 100_000)), 5, None);
        // Nobody else is there.
        check(quiet, asked(100_000, 100_000), 5, None);
        check(asked(3, 0), asked(100_000, 100_000), 5, None);
        // What failed before fails still.
        check(asked(6000, 6000), asked(100_000, 100_000), 5, None);
        // What they provoke by requests that are none, and what routes are told to answer, is no failure.
        let provoked = Traffic { requests: 1000, server_errors: 1000, ..quiet };
        check(busy, provoked, 5, None);
        // Beside them harm is seen.
        let both = sum(asked(500, 500), asked(100_000, 100_000));
        check(busy, both, 5, Some("requests that fail rose from 0.0 % to 100.0 %, and good answers are missing"));
    }

    #[test]
    fn handshakes_are_judged_by_those_that_fail_whoever_asks() {
        let quiet = Traffic::default();
        check(quiet, shaken(10, 9, 0), 1, None);
        check(
            quiet,
            shaken(10, 10, 0),
            1,
            Some("TLS handshakes that failed for want of a certificate or by a fault here rose from 0.0 % to 50.0 %"),
        );
        check(quiet, shaken(5, 0, 500), 1, None);
    }

    #[test]
    fn what_is_normal_is_what_the_last_minute_was() {
        let start = Instant::now();
        let mut baseline = Baseline::default();
        for second in 0..200 {
            baseline.add(start + Duration::from_secs(second), asked(second * 10, second));
        }
        let normal = baseline.until(start + Duration::from_secs(200), asked(2000, 200));
        assert_eq!((normal.traffic.requests, normal.traffic.server_errors), (610, 61));
        assert_eq!(normal.within, Duration::from_secs(61));
        assert_eq!(Baseline::default().until(start, asked(5, 5)), Came::default());
    }
}
