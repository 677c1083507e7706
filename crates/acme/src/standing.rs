//! How CAs do for all names together: one that fails for several in a row is left alone for a while, so that ten
//! thousand names do not each find out for themselves.

use crate::decide::Authority;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use tidegate_model::Acme;

/// Failures of the CA in a row, over all names, after which it rests.
const FAILURES_MAX: u32 = 5;
const REST_FIRST: SignedDuration = SignedDuration::from_secs(60);
const REST_MAX: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Default)]
pub struct Standings {
    by_directory: HashMap<String, Standing>,
}

#[derive(Debug, Default)]
struct Standing {
    failures_in_a_row: u32,
    rests: u32,
    until: Option<Timestamp>,
}

impl Standings {
    pub fn note_success(&mut self, directory: Option<&str>) {
        if let Some(directory) = directory {
            self.by_directory.remove(directory);
        }
    }

    pub fn note_failure(&mut self, directory: Option<&str>, now: Timestamp) {
        let Some(directory) = directory else { return };
        let standing = self.by_directory.entry(directory.to_owned()).or_default();
        // Attempts that were under way when it began to rest say nothing new.
        if standing.until.is_some_and(|until| until > now) {
            return;
        }
        standing.failures_in_a_row += 1;
        if standing.failures_in_a_row >= FAILURES_MAX {
            let rest = REST_FIRST.checked_mul(1 << standing.rests.min(10)).unwrap_or(REST_MAX).min(REST_MAX);
            standing.until = now.checked_add(rest).ok();
            standing.rests += 1;
            // One that fails right after its rest has another.
            standing.failures_in_a_row = FAILURES_MAX - 1;
        }
    }

    /// The CAs of a name's settings, with what is known of them.
    pub fn authorities<'a>(&self, acme: &'a Acme, now: Timestamp) -> Vec<Authority<'a>> {
        let resting =
            |directory: &str| self.by_directory.get(directory).and_then(|standing| standing.until).filter(|until| *until > now);
        acme.authorities
            .iter()
            .map(|authority| Authority {
                directory: &authority.directory,
                staging: authority.staging.as_deref(),
                resting_until: resting(&authority.directory),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Standings;
    use jiff::{SignedDuration, Timestamp};
    use tidegate_model::Acme;

    #[test]
    fn a_ca_that_fails_for_everybody_rests_longer_each_time() {
        let acme = Acme::default();
        let directory = acme.authorities[0].directory.clone();
        let start: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let at = |secs: i64| start.checked_add(SignedDuration::from_secs(secs)).unwrap();
        let mut standings = Standings::default();
        let rest = |standings: &Standings, secs: i64| {
            standings.authorities(&acme, at(secs))[0].resting_until.map(|until| until.duration_since(start).as_secs())
        };
        (0..4).for_each(|_| standings.note_failure(Some(&directory), at(0)));
        assert_eq!(rest(&standings, 0), None);
        standings.note_failure(Some(&directory), at(0));
        assert_eq!(rest(&standings, 0), Some(60));
        standings.note_failure(Some(&directory), at(30));
        assert_eq!(rest(&standings, 30), Some(60));
        assert_eq!(rest(&standings, 61), None);
        standings.note_failure(Some(&directory), at(61));
        assert_eq!(rest(&standings, 61), Some(61 + 120));
        standings.note_success(Some(&directory));
        assert_eq!(rest(&standings, 61), None);
    }
}
