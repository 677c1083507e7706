//! What happens next with a name, and when: pure decisions over what is held, what was tried, and the time. It asks
//! nobody and remembers nothing itself. What is done then is in `attempt`; when it is looked at again, in `engine`.

use crate::cause::{Blame, Cause};
use crate::stored::{Held, History, Trouble};
use jiff::{SignedDuration, Timestamp};
use std::hash::{Hash, Hasher};
use tidegate_model::Acme;

/// No release is older: a clock before it is wrong, and every certificate of the world would seem not to be valid yet.
const EARLIEST: &str = "2026-01-01T00:00:00Z";
/// Below, a certificate counts as short-lived, and half of its life is kept for trouble.
const SHORT_LIVED: SignedDuration = SignedDuration::from_hours(10 * 24);
/// So many failures in a row that are the CA's, and the next CA is asked.
pub const REFUSALS_MAX: u32 = 2;
/// After the first failure; it doubles from there.
pub const BACK_OFF_FIRST: SignedDuration = SignedDuration::from_secs(60);
pub const BACK_OFF_MAX: SignedDuration = SignedDuration::from_hours(24);
/// For what costs nobody anything to look at again: our own DNS, our own storage.
pub const BACK_OFF_CHEAP_MAX: SignedDuration = SignedDuration::from_mins(15);
/// A CA may not put us off for longer than this, whatever it says.
const LIMITED_MAX: SignedDuration = SignedDuration::from_hours(8 * 24);
/// Where it gives no time.
const LIMITED_DEFAULT: SignedDuration = SignedDuration::from_hours(1);

/// A CA of the name's settings, and what everybody knows of it at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority<'a> {
    pub directory: &'a str,
    pub staging: Option<&'a str>,
    /// Until when this CA is left alone, because it fails for other names as well.
    pub resting_until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Staging,
    Production,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Nothing before then.
    Wait {
        until: Timestamp,
    },
    Order {
        authority: usize,
        stage: Stage,
        why: Why,
    },
    /// Nothing can be decided with this clock.
    ClockWrong(Cause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is none.
    First,
    /// The certificate's time to be renewed has come.
    Due,
    /// The one there is came from a CA that the settings do not name any more.
    Moved,
    Revoked,
    /// Somebody said so.
    Asked,
}

/// What to do with a name. `is_asked`: somebody wants a new certificate now, whatever the times say.
pub fn decide(held: Option<&Held>, history: &History, authorities: &[Authority<'_>], is_asked: bool, now: Timestamp) -> Next {
    if let Some(cause) = clock_fault(now) {
        return Next::ClockWrong(cause);
    }
    let why = match held {
        _ if is_asked => Why::Asked,
        None => Why::First,
        Some(held) if held.facts.is_revoked => Why::Revoked,
        Some(held) if is_moved(held, authorities) => Why::Moved,
        Some(held) => match renew_at(held) {
            due if due <= now => Why::Due,
            due => return Next::Wait { until: due },
        },
    };
    let again_at = history.trouble.as_ref().map(|trouble| trouble.again_at).filter(|again| *again > now && !is_asked);
    if let Some(again_at) = again_at {
        // Nobody may be open then either.
        let until = choose(history, authorities, again_at).err().map_or(again_at, |opening| opening.max(again_at));
        return Next::Wait { until };
    }
    match choose(history, authorities, now) {
        Ok(authority) => {
            let has_staging = authorities.get(authority).is_some_and(|authority| authority.staging.is_some());
            let stage = if history.is_on_probation && has_staging { Stage::Staging } else { Stage::Production };
            Next::Order { authority, stage, why }
        }
        Err(until) => Next::Wait { until },
    }
}

/// The first that may be asked; where none may, when the first one may again.
fn choose(history: &History, authorities: &[Authority<'_>], now: Timestamp) -> Result<usize, Timestamp> {
    let closed_until = |authority: &Authority<'_>| {
        history
            .limited
            .get(authority.directory)
            .copied()
            .into_iter()
            .chain(authority.resting_until)
            .filter(|until| *until > now)
            .max()
    };
    let open: Vec<usize> = (0..authorities.len()).filter(|&index| closed_until(&authorities[index]).is_none()).collect();
    let refusals = |index: usize| history.refusals.get(authorities[index].directory).copied().unwrap_or_default();
    // Whole rounds of refusals count, so that after the last CA the first one has its turn again.
    let chosen = open.into_iter().min_by_key(|&index| (refusals(index) / REFUSALS_MAX, index));
    chosen.ok_or_else(|| {
        let opening = authorities.iter().filter_map(closed_until).min();
        opening.unwrap_or_else(|| now.checked_add(LIMITED_DEFAULT).unwrap_or(now))
    })
}

/// Certificates that came from elsewhere stay until they are due: whoever imported them meant to use them.
fn is_moved(held: &Held, authorities: &[Authority<'_>]) -> bool {
    held.facts.directory.as_ref().is_some_and(|directory| authorities.iter().all(|authority| authority.directory != directory))
}

/// When a certificate is renewed: a point of the CA's window, else after two thirds of its life, or half of a short
/// one. Which point is drawn from the serial number: the same for all processes that share it, spread over all
/// certificates.
pub fn renew_at(held: &Held) -> Timestamp {
    let share = share_of(&held.leaf.serial);
    if let Some(advice) = &held.facts.advice
        && advice.start <= advice.end
    {
        return at_share(advice.start, advice.end.min(held.leaf.not_after), share);
    }
    let (begin, end) = (held.leaf.not_before, held.leaf.not_after);
    let life = end.duration_since(begin);
    let earliest = if life <= SHORT_LIVED { 0.5 } else { 2.0 / 3.0 };
    // Jitter of a twentieth of the life keeps ten thousand that were made together from coming back together.
    at_share(begin, end, earliest + share / 20.0)
}

/// Renewal should long have happened: less than a sixth of the life is left.
pub fn is_late(held: &Held, now: Timestamp) -> bool {
    now >= at_share(held.leaf.not_before, held.leaf.not_after, 5.0 / 6.0)
}

/// A clock that cannot be right, named as such.
pub fn clock_fault(now: Timestamp) -> Option<Cause> {
    let earliest: Timestamp = EARLIEST.parse().ok()?;
    (now < earliest).then(|| {
        Cause::new(
            Blame::Clock,
            format!("this machine's clock says {}, which is before this program was made", crate::cause::minute(now)),
            "set the clock (NTP); nothing is ordered until then",
        )
    })
}

/// Writes a failure into the history and says when the next attempt may be. `share` is a random number between 0 and 1.
pub fn note_failure(history: &mut History, cause: &Cause, directory: Option<&str>, is_staging: bool, now: Timestamp, share: f64) {
    history.failures_in_a_row = history.failures_in_a_row.saturating_add(1);
    let mut back_off = back_off(history.failures_in_a_row, share, BACK_OFF_MAX);
    match cause.blame {
        Blame::Setup => history.is_on_probation = true,
        Blame::Authority => {
            // A staging directory that is down says nothing about production, and must not keep us from it for long.
            if is_staging {
                history.is_on_probation = false;
            } else if let Some(directory) = directory {
                let refusals = history.refusals.entry(directory.to_owned()).or_default();
                *refusals = refusals.saturating_add(1);
            }
        }
        Blame::Unfit => {
            back_off = self::back_off(history.failures_in_a_row, share, BACK_OFF_CHEAP_MAX);
            if is_staging {
                history.is_on_probation = false;
            } else if let Some(directory) = directory {
                // As many as it takes for the next one to have its turn: this one says the same again.
                let refusals = history.refusals.entry(directory.to_owned()).or_default();
                *refusals = refusals.saturating_add(REFUSALS_MAX);
            }
        }
        Blame::Limited { until } => {
            let latest = now.checked_add(LIMITED_MAX).unwrap_or(now);
            let until = until.unwrap_or_else(|| now.checked_add(LIMITED_DEFAULT).unwrap_or(now)).min(latest);
            match directory {
                // Limits of the staging directory are its own.
                Some(_) if is_staging => history.is_on_probation = false,
                Some(directory) => {
                    history.limited.insert(directory.to_owned(), until);
                }
                None => {}
            }
            // Another CA may be asked soon; whether there is one, `choose` knows.
            back_off = self::back_off(1, share, BACK_OFF_MAX);
        }
        Blame::Preflight | Blame::Storage | Blame::Clock => {
            back_off = self::back_off(history.failures_in_a_row, share, BACK_OFF_CHEAP_MAX);
        }
        Blame::Stopping => {
            history.failures_in_a_row -= 1;
            return;
        }
    }
    history.trouble = Some(Trouble {
        at: now,
        directory: directory.map(str::to_owned),
        cause: cause.text.clone(),
        remedy: cause.remedy.clone(),
        again_at: now.checked_add(back_off).unwrap_or(now),
        settings: None,
    });
}

/// Settings by a mark that they have in the next process as well (FNV-1a).
pub fn mark_of(acme: &Acme) -> u32 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn write(&mut self, bytes: &[u8]) {
            self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    acme.hash(&mut hasher);
    // Half of it: enough to see a change, and too little to find out a secret by.
    hasher.finish() as u32
}

/// A failure with other settings than these may be mended by them, so that nothing is waited for.
pub fn forget_wait_of_other_settings(history: &mut History, acme: &Acme) {
    if let Some(trouble) = &mut history.trouble
        && trouble.settings.is_some_and(|mark| mark != mark_of(acme))
    {
        trouble.again_at = trouble.at;
    }
}

/// Staging went well: production is next, at once.
pub fn note_rehearsal(history: &mut History, now: Timestamp) {
    history.is_on_probation = false;
    if let Some(trouble) = &mut history.trouble {
        trouble.again_at = now;
    }
}

pub fn note_success(history: &mut History, directory: &str) {
    history.failures_in_a_row = 0;
    history.is_on_probation = false;
    history.trouble = None;
    history.refusals.clear();
    history.limited.remove(directory);
}

/// Doubles from a minute on; jitter of a quarter, since failures of many names have one reason and come together.
fn back_off(failures: u32, share: f64, most: SignedDuration) -> SignedDuration {
    let doubled = BACK_OFF_FIRST.checked_mul(1 << failures.saturating_sub(1).min(16)).unwrap_or(most).min(most);
    let jitter = doubled.as_secs_f64() * (share.clamp(0.0, 1.0) - 0.5) / 2.0;
    doubled.checked_add(SignedDuration::from_millis((jitter * 1000.0) as i64)).unwrap_or(doubled)
}

fn at_share(begin: Timestamp, end: Timestamp, share: f64) -> Timestamp {
    let millis = end.duration_since(begin).as_millis().clamp(0, i128::from(i64::MAX)) as f64 * share;
    begin.checked_add(SignedDuration::from_millis(millis as i64)).unwrap_or(end)
}

/// A number between 0 and 1 that looks random and is always the same for a serial number.
fn share_of(serial: &str) -> f64 {
    let hash =
        serial.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    // The upper half: the lower bits of FNV are the poorer ones.
    (hash >> 32) as f64 / f64::from(u32::MAX)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
