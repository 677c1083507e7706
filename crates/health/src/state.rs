//! What a server's check outcomes mean: whether it is up, since when, and when it is asked again.
//! Pure: outcomes, chance and the time come in. How an outcome comes about is in `probe`; who waits between two of them
//! is in `checker`.

use crate::fault::ProbeFault;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_model::Health;

/// First checks that begin together are spread over this much for each server, so that a process with many servers does
/// not open all connections in one moment.
const SPREAD_PER_SERVER: Duration = Duration::from_millis(1);
/// A start waits for first checks, so however many servers there are, none begins later.
const SPREAD_MAX: Duration = Duration::from_millis(100);
/// A setting below would keep the control thread busy with nothing but checks.
const WAIT_MIN: Duration = Duration::from_millis(10);
/// A setting beyond is as good as never, and must not overflow the clock.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What is known of one server from its checks.
#[derive(Debug, Clone, Default)]
pub struct CheckState {
    seen: Seen,
}

/// What there is to show of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub standing: Standing,
    /// When the last check ended.
    pub checked_at: Option<Instant>,
    /// How long the last good check took, from the first connection on.
    pub last_took: Option<Duration>,
    /// The last bad check, however long ago.
    pub last_fault: Option<LastFault>,
    pub next_check: Option<Instant>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// Not checked yet.
    #[default]
    Unknown,
    Up {
        since: Instant,
        /// Bad checks in a row; `fall` of them take it down.
        failures: u32,
    },
    Down {
        since: Instant,
        /// Good checks in a row; `rise` of them bring it up.
        successes: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFault {
    pub at: Instant,
    /// One short line.
    pub sentence: Arc<str>,
}

/// A server came up or went down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    Up {
        /// Nothing was known before, so it did not recover either.
        is_first: bool,
    },
    Down {
        is_first: bool,
        why: Arc<str>,
    },
}

impl CheckState {
    /// A check that goes on where another one of the same server ended, after a change of settings or addresses.
    pub fn resume(seen: Seen) -> CheckState {
        CheckState { seen }
    }

    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Takes in the outcome of a check that ended at `now`. The first one decides at once: a dead server never gets the
    /// first requests, and a good one serves without waiting. From then on it takes `rise` or `fall` of the other kind
    /// in a row.
    pub fn note(&mut self, outcome: &Result<Duration, ProbeFault>, settings: &Health, now: Instant) -> Option<Transition> {
        self.seen.checked_at = Some(now);
        match outcome {
            Ok(took) => {
                self.seen.last_took = Some(*took);
                self.note_success(settings, now)
            }
            Err(fault) => {
                let sentence: Arc<str> = fault.to_string().into();
                self.seen.last_fault = Some(LastFault { at: now, sentence: sentence.clone() });
                self.note_failure(sentence, settings, now)
            }
        }
    }

    /// When the first check begins, by chance within a moment that grows with how many `servers` begin together; at
    /// most 100 ms from `now`.
    pub fn first_due(&mut self, random: u64, servers: usize, now: Instant) -> Instant {
        let servers = u32::try_from(servers).unwrap_or(u32::MAX);
        let due = now + share(SPREAD_PER_SERVER.saturating_mul(servers).min(SPREAD_MAX), random);
        self.seen.next_check = Some(due);
        due
    }

    /// When the next check begins: after the interval, more or less a tenth by chance, so that checks of many proxies
    /// do not fall into step.
    pub fn next_due(&mut self, settings: &Health, random: u64, now: Instant) -> Instant {
        let interval = match self.seen.standing {
            Standing::Up { .. } => settings.interval,
            Standing::Unknown | Standing::Down { .. } => settings.interval_down,
        };
        let interval = interval.clamp(WAIT_MIN, WAIT_MAX);
        let due = now + interval * 9 / 10 + share(interval / 5, random);
        self.seen.next_check = Some(due);
        due
    }

    fn note_success(&mut self, settings: &Health, now: Instant) -> Option<Transition> {
        let up = Standing::Up { since: now, failures: 0 };
        match &mut self.seen.standing {
            Standing::Unknown => {
                self.seen.standing = up;
                Some(Transition::Up { is_first: true })
            }
            Standing::Up { failures, .. } => {
                *failures = 0;
                None
            }
            Standing::Down { successes, .. } => {
                *successes = successes.saturating_add(1);
                if *successes < settings.rise {
                    return None;
                }
                self.seen.standing = up;
                Some(Transition::Up { is_first: false })
            }
        }
    }

    fn note_failure(&mut self, why: Arc<str>, settings: &Health, now: Instant) -> Option<Transition> {
        let down = Standing::Down { since: now, successes: 0 };
        match &mut self.seen.standing {
            Standing::Unknown => {
                self.seen.standing = down;
                Some(Transition::Down { is_first: true, why })
            }
            Standing::Up { failures, .. } => {
                *failures = failures.saturating_add(1);
                if *failures < settings.fall {
                    return None;
                }
                self.seen.standing = down;
                Some(Transition::Down { is_first: false, why })
            }
            Standing::Down { successes, .. } => {
                *successes = 0;
                None
            }
        }
    }
}

/// A part of `whole` by chance, from none of it to just below all of it. `whole` is at most a day.
fn share(whole: Duration, random: u64) -> Duration {
    let nanoseconds = (whole.as_nanos() * u128::from(random)) >> 64;
    Duration::from_nanos(nanoseconds as u64)
}

#[cfg(test)]
mod tests {
    use super::{CheckState, SPREAD_MAX, Standing, Transition, WAIT_MAX, WAIT_MIN};
    use crate::fault::ProbeFault;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use std::time::{Duration, Instant};
    use tidegate_model::{Health, Probe, Talk};

    fn settings(rise: u32, fall: u32) -> Health {
        Health {
            probe: Probe::Tcp(Talk::default()),
            interval: Health::INTERVAL,
            interval_down: Health::INTERVAL_DOWN,
            timeout: Health::TIMEOUT,
            rise,
            fall,
            port: None,
        }
    }

    fn outcome(is_good: bool) -> Result<Duration, ProbeFault> {
        if is_good { Ok(Duration::from_millis(3)) } else { Err(ProbeFault::NoAddress) }
    }

    /// `outcomes`: `+` good, `-` bad. `expect`: after each, `U` or `D` where the server changed, `.` where not.
    #[track_caller]
    fn check(rise: u32, fall: u32, outcomes: &str, expect: &str) {
        let mut state = CheckState::default();
        let now = Instant::now();
        let changes: String = outcomes
            .chars()
            .map(|letter| match state.note(&outcome(letter == '+'), &settings(rise, fall), now) {
                Some(Transition::Up { .. }) => 'U',
                Some(Transition::Down { .. }) => 'D',
                None => '.',
            })
            .collect();
        assert_eq!(changes, expect, "{outcomes} with rise={rise} fall={fall}");
    }

    #[test]
    fn the_first_outcome_decides_and_later_ones_count_in_a_row() {
        check(2, 3, "+", "U");
        check(2, 3, "-", "D");
        check(2, 3, "+--+---", "U.....D");
        check(2, 3, "-+-++", "D...U");
        check(2, 3, "+---++", "U..D.U");
        check(1, 1, "+-+-", "UDUD");
        // Zero is not offered by the configuration; it means what one means.
        check(0, 0, "+-+", "UDU");
        check(u32::MAX, u32::MAX, "+----", "U....");
    }

    #[test]
    fn only_the_first_change_is_marked_as_such() {
        let (mut state, now) = (CheckState::default(), Instant::now());
        let rules = settings(1, 1);
        assert_eq!(state.note(&outcome(true), &rules, now), Some(Transition::Up { is_first: true }));
        let why = ProbeFault::NoAddress.to_string().into();
        assert_eq!(state.note(&outcome(false), &rules, now), Some(Transition::Down { is_first: false, why }));
        assert_eq!(state.note(&outcome(true), &rules, now), Some(Transition::Up { is_first: false }));
    }

    #[test]
    fn what_was_seen_is_kept() {
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        let mut state = CheckState::default();
        state.note(&outcome(true), &settings(2, 3), start);
        state.note(&outcome(false), &settings(2, 3), later);
        let seen = state.seen().clone();
        assert_eq!(seen.standing, Standing::Up { since: start, failures: 1 });
        assert_eq!((seen.checked_at, seen.last_took), (Some(later), Some(Duration::from_millis(3))));
        let fault = seen.last_fault.clone().expect("a fault");
        assert_eq!((fault.at, &*fault.sentence), (later, "its name has no address"));
        let mut resumed = CheckState::resume(seen);
        assert_eq!(resumed.note(&outcome(false), &settings(2, 3), later), None);
        assert!(matches!(resumed.note(&outcome(false), &settings(2, 3), later), Some(Transition::Down { is_first: false, .. })));
    }

    proptest! {
        /// Told anew: a server is up if the last run of equal outcomes that was long enough was good.
        #[test]
        fn standing_follows_the_last_run_that_was_long_enough(
            rise in 1_u32..5, fall in 1_u32..5, outcomes in proptest::collection::vec(any::<bool>(), 1..60)
        ) {
            let mut state = CheckState::default();
            let now = Instant::now();
            for is_good in &outcomes {
                state.note(&outcome(*is_good), &settings(rise, fall), now);
            }
            let mut is_up = outcomes[0];
            let mut run = 0;
            for (position, is_good) in outcomes.iter().enumerate() {
                run = if position > 0 && outcomes[position - 1] == *is_good { run + 1 } else { 1 };
                if run >= if *is_good { rise } else { fall } {
                    is_up = *is_good;
                }
            }
            prop_assert_eq!(matches!(state.seen().standing, Standing::Up { .. }), is_up);
        }

        #[test]
        fn waits_stay_within_a_tenth_and_their_bounds(interval_ms in any::<u64>(), random in any::<u64>(), is_good in any::<bool>()) {
            let now = Instant::now();
            let mut state = CheckState::default();
            let mut rules = settings(1, 1);
            let interval = Duration::from_millis(interval_ms);
            *if is_good { &mut rules.interval } else { &mut rules.interval_down } = interval;
            state.note(&outcome(is_good), &rules, now);
            let due = state.next_due(&rules, random, now);
            let (wait, interval) = (due - now, interval.clamp(WAIT_MIN, WAIT_MAX));
            prop_assert!(wait >= interval * 9 / 10 && wait <= interval * 11 / 10, "{:?} for {:?}", wait, interval);
            prop_assert_eq!(state.seen().next_check, Some(due));
        }

        #[test]
        fn first_checks_begin_at_once(random in any::<u64>(), servers in any::<usize>()) {
            let now = Instant::now();
            let wait = CheckState::default().first_due(random, servers, now) - now;
            let most = SPREAD_MAX.as_micros().min(servers as u128 * 1000);
            prop_assert!(wait.as_micros() <= most, "{:?} with {} servers", wait, servers);
        }
    }

    #[test]
    fn chance_reaches_both_ends_of_the_interval() {
        let now = Instant::now();
        let mut state = CheckState::default();
        let rules = settings(1, 1);
        let wait = |state: &mut CheckState, random| state.next_due(&rules, random, now) - now;
        assert_eq!(wait(&mut state, 0), Duration::from_millis(900), "not known yet: the interval of a server that is down");
        assert!(wait(&mut state, u64::MAX) > Duration::from_millis(1099));
        state.note(&outcome(true), &rules, now);
        assert_eq!(wait(&mut state, 0), Duration::from_millis(1800));
        assert!(wait(&mut state, u64::MAX) > Duration::from_millis(2199));
    }
}
