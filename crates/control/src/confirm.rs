//! Whether a change that waits for its confirmation did harm: rates of errors before and after it. Pure: counts in,
//! verdict out.

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

impl Baseline {
    pub fn add(&mut self, now: Instant, traffic: Traffic) {
        self.samples.push_back((now, traffic));
        while self.samples.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > BASELINE) {
            self.samples.pop_front();
        }
    }

    /// What came in up to now.
    pub fn until(&self, now: Traffic) -> Traffic {
        let oldest = self.samples.front().map_or(now, |(_, traffic)| *traffic);
        difference(now, oldest)
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
    pub before: Traffic,
    pub at_change: Traffic,
}

/// Why a change is taken back.
#[derive(Debug, Clone, PartialEq)]
pub enum Harm {
    ServerErrors { before: f64, now: f64 },
    HandshakeFailures { before: f64, now: f64 },
    Unconfirmed,
}

impl std::fmt::Display for Harm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        match self {
            Harm::ServerErrors { before, now } => {
                write!(f, "answers with a status from 500 on rose from {} to {}", percent(*before), percent(*now))
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
        let since = difference(traffic, self.at_change);
        if let Some((before, now)) =
            self.risen((self.before.server_errors, self.before.requests), (since.server_errors, since.requests))
        {
            return Some(Harm::ServerErrors { before, now });
        }
        // Clients that refuse, scan or go away say nothing of a change, and anybody can be one: only what fails whoever
        // asks does.
        let all = |traffic: Traffic| traffic.handshakes + traffic.own_handshake_failures;
        let own = |traffic: Traffic| (traffic.own_handshake_failures, all(traffic));
        let failures = self.risen(own(self.before), own(since));
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
}

fn difference(now: Traffic, before: Traffic) -> Traffic {
    Traffic {
        requests: now.requests.saturating_sub(before.requests),
        server_errors: now.server_errors.saturating_sub(before.server_errors),
        handshakes: now.handshakes.saturating_sub(before.handshakes),
        handshake_failures: now.handshake_failures.saturating_sub(before.handshake_failures),
        own_handshake_failures: now.own_handshake_failures.saturating_sub(before.own_handshake_failures),
    }
}

#[cfg(test)]
mod tests {
    use super::{Baseline, Harm, Pending, RISE_MAX_DEFAULT};
    use std::time::{Duration, Instant};
    use tidegate_telemetry::Traffic;

    /// Failures of handshakes are ours.
    fn traffic(requests: u64, server_errors: u64, handshakes: u64, failures: u64) -> Traffic {
        Traffic { requests, server_errors, handshakes, handshake_failures: failures, own_handshake_failures: failures }
    }

    #[test]
    fn a_change_is_taken_back_for_harm_or_for_want_of_a_word() {
        let start = Instant::now();
        let check = |before: Traffic, since: Traffic, seconds: u64, expected: Option<&str>| {
            let at_change = traffic(1000, 7, 100, 3);
            let pending = Pending {
                generation: 2,
                back_to: 1,
                until: start + Duration::from_secs(60),
                rise_max: RISE_MAX_DEFAULT,
                before,
                at_change,
            };
            let now = traffic(
                at_change.requests + since.requests,
                at_change.server_errors + since.server_errors,
                at_change.handshakes + since.handshakes,
                at_change.handshake_failures + since.handshake_failures,
            );
            let own_handshake_failures = at_change.own_handshake_failures + since.own_handshake_failures;
            let now = Traffic { own_handshake_failures, ..now };
            let harm = pending.judge(start + Duration::from_secs(seconds), now);
            assert_eq!(harm.as_ref().map(Harm::to_string).as_deref(), expected, "{before:?} {since:?}");
        };
        let quiet = Traffic::default();
        check(quiet, quiet, 1, None);
        check(quiet, quiet, 60, Some("nobody confirmed it in time"));
        check(quiet, traffic(19, 19, 0, 0), 1, None);
        check(quiet, traffic(20, 1, 0, 0), 1, None);
        check(quiet, traffic(20, 2, 0, 0), 1, Some("answers with a status from 500 on rose from 0.0 % to 10.0 %"));
        check(traffic(100, 8, 0, 0), traffic(100, 12, 0, 0), 1, None);
        check(
            traffic(100, 8, 0, 0),
            traffic(100, 14, 0, 0),
            1,
            Some("answers with a status from 500 on rose from 8.0 % to 14.0 %"),
        );
        check(quiet, traffic(0, 0, 10, 9), 1, None);
        check(
            quiet,
            traffic(0, 0, 10, 10),
            1,
            Some("TLS handshakes that failed for want of a certificate or by a fault here rose from 0.0 % to 50.0 %"),
        );
        let by_strangers = Traffic { handshakes: 5, handshake_failures: 500, ..quiet };
        check(quiet, by_strangers, 1, None);
    }

    #[test]
    fn what_is_normal_is_what_the_last_minute_was() {
        let start = Instant::now();
        let mut baseline = Baseline::default();
        for second in 0..200 {
            baseline.add(start + Duration::from_secs(second), traffic(second * 10, second, 0, 0));
        }
        let normal = baseline.until(traffic(2000, 200, 0, 0));
        assert_eq!((normal.requests, normal.server_errors), (610, 61));
        assert_eq!(Baseline::default().until(traffic(5, 5, 5, 5)), Traffic::default());
    }
}
