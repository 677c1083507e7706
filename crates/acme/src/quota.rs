//! What a CA still lets us do, by what we remember of having asked it. One order is kept in reserve everywhere, for the
//! day on which somebody is at the keyboard. Only limits that a CA has published are known here; the others are learnt
//! from its answers.

use crate::cause::{Blame, Cause, minute};
use crate::stored::{Attempt, Counted};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// The longest time that any limit reaches back.
pub const REMEMBERED: SignedDuration = SignedDuration::from_hours(7 * 24);
/// So many events of all names are remembered; at 300 orders in three hours a week has fewer.
const EVENTS_MAX: usize = 40_000;

/// One published limit: so many in so long.
#[derive(Debug, Clone, Copy)]
struct Limit {
    most: usize,
    within: SignedDuration,
    what: &'static str,
}

/// <https://letsencrypt.org/docs/rate-limits/>, as of 2026: they are the same since 2019 but for the failures.
const SAME_NAMES: Limit =
    Limit { most: 5, within: SignedDuration::from_hours(7 * 24), what: "certificates for the same name in a week" };
const FAILURES: Limit = Limit { most: 5, within: SignedDuration::from_hours(1), what: "failed validations of a name in an hour" };
const REGISTERED_DOMAIN: Limit =
    Limit { most: 50, within: SignedDuration::from_hours(7 * 24), what: "certificates for a registered domain in a week" };
const ORDERS: Limit = Limit { most: 300, within: SignedDuration::from_hours(3), what: "orders in three hours" };
const RESERVE: usize = 1;

/// What all names together have had of each CA, in order of time.
#[derive(Debug, Default)]
pub struct Totals {
    by_directory: BTreeMap<String, VecDeque<Event>>,
}

#[derive(Debug)]
struct Event {
    at: Timestamp,
    counted: Counted,
    registered_domain: String,
}

/// Whether an order may go out.
#[derive(Debug, Clone, PartialEq)]
pub enum Allowance {
    Enough,
    /// By a limit that we count exactly.
    Spent(Cause),
    /// By one that we guess: another CA is better, and without another this one may be asked; refusing costs it and us
    /// nothing.
    ProbablySpent(Cause),
}

impl Totals {
    pub fn add(&mut self, attempt: &Attempt, registered_domain: &str) {
        let events = self.by_directory.entry(attempt.directory.clone()).or_default();
        let place = events.partition_point(|event| event.at <= attempt.at);
        events.insert(place, Event { at: attempt.at, counted: attempt.counted, registered_domain: registered_domain.to_owned() });
        let oldest = attempt.at.checked_sub(REMEMBERED).unwrap_or(Timestamp::MIN);
        while events.front().is_some_and(|event| event.at < oldest) || events.len() > EVENTS_MAX {
            events.pop_front();
        }
    }
}

/// What kind of order is meant.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The CA is told which certificate is renewed, which Let's Encrypt does not count.
    pub is_replacement: bool,
    /// Somebody at a keyboard wants it: the reserve is for that.
    pub is_asked: bool,
}

/// `own`: the attempts for this very name.
pub fn allowance(
    directory: &str,
    own: &[Attempt],
    registered_domain: &str,
    totals: &Totals,
    kind: Kind,
    now: Timestamp,
) -> Allowance {
    // Staging has limits a hundred times as high.
    if !directory.starts_with("https://acme-v02.api.letsencrypt.org/") {
        return Allowance::Enough;
    }
    let reserve = if kind.is_asked { 0 } else { RESERVE };
    let own_times =
        |counted: Counted| own.iter().filter(move |one| one.directory == directory && one.counted == counted).map(|one| one.at);
    if let Some(until) = spent(FAILURES, reserve, own_times(Counted::FailedValidation), now) {
        return Allowance::Spent(cause(FAILURES, until));
    }
    if kind.is_replacement {
        return Allowance::Enough;
    }
    if let Some(until) = spent(SAME_NAMES, reserve, own_times(Counted::Issued), now) {
        return Allowance::Spent(cause(SAME_NAMES, until));
    }
    let events = totals.by_directory.get(directory);
    let times = |counted: Counted| events.into_iter().flatten().filter(move |event| event.counted == counted);
    if let Some(until) = spent(ORDERS, reserve, times(Counted::Order).map(|event| event.at), now) {
        return Allowance::Spent(cause(ORDERS, until));
    }
    let of_domain = times(Counted::Issued).filter(|event| event.registered_domain == registered_domain).map(|event| event.at);
    match spent(REGISTERED_DOMAIN, reserve, of_domain, now) {
        Some(until) => Allowance::ProbablySpent(cause(REGISTERED_DOMAIN, until)),
        None => Allowance::Enough,
    }
}

/// When there is one left again; `None` while there is.
fn spent(limit: Limit, reserve: usize, times: impl Iterator<Item = Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let oldest = now.checked_sub(limit.within).unwrap_or(Timestamp::MIN);
    let mut recent: Vec<Timestamp> = times.filter(|at| *at > oldest).collect();
    recent.sort_unstable();
    let usable = limit.most - reserve;
    let freeing = recent.len().checked_sub(usable).and_then(|index| recent.get(index))?;
    freeing.checked_add(limit.within).ok()
}

fn cause(limit: Limit, until: Timestamp) -> Cause {
    Cause::new(
        Blame::Limited { until: Some(until) },
        format!("Let's Encrypt allows {} {}, and all but one are used", limit.most, limit.what),
        format!("asked again after {} by itself; a second `ca` in `acme` is used meanwhile", minute(until)),
    )
}

#[cfg(test)]
mod tests {
    use super::{Allowance, Kind, Totals, allowance};
    use crate::stored::{Attempt, Counted};
    use jiff::{SignedDuration, Timestamp};

    const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

    fn attempts(count: i64, counted: Counted, apart_mins: i64) -> Vec<Attempt> {
        let at = |index: i64| now().checked_sub(SignedDuration::from_mins(index * apart_mins)).unwrap();
        (0..count).map(|index| Attempt { at: at(index), directory: LETS_ENCRYPT.into(), counted }).collect()
    }

    fn now() -> Timestamp {
        "2026-06-10T12:00:00Z".parse().unwrap()
    }

    fn check(own: Vec<Attempt>, others: Vec<Attempt>, directory: &str, is_replacement: bool, expected: &str) {
        let mut totals = Totals::default();
        for attempt in &others {
            totals.add(attempt, "example.com");
        }
        let kind = Kind { is_replacement, is_asked: false };
        let asked = Kind { is_asked: true, ..kind };
        // Whoever asks has one more.
        if own.len() < 5 && others.len() < 299 {
            assert_eq!(allowance(directory, &own, "example.com", &totals, asked, now()), Allowance::Enough);
        }
        let text = match allowance(directory, &own, "example.com", &totals, kind, now()) {
            Allowance::Enough => "enough".to_owned(),
            Allowance::Spent(cause) => format!("spent: {cause}"),
            Allowance::ProbablySpent(cause) => format!("probably: {cause}"),
        };
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn the_limits_of_lets_encrypt_are_kept_with_one_in_reserve() {
        let day = 24 * 60;
        check(vec![], vec![], LETS_ENCRYPT, false, "enough");
        check(attempts(3, Counted::Issued, day), vec![], LETS_ENCRYPT, false, "enough");
        // The fourth of five falls out of the week four days from now: 2026-06-10 minus three days plus seven.
        check(attempts(4, Counted::Issued, day), vec![], LETS_ENCRYPT, false, "asked again after 2026-06-14 12:00");
        check(attempts(4, Counted::Issued, day), vec![], LETS_ENCRYPT, true, "enough");
        check(attempts(40, Counted::Replaced, day), vec![], LETS_ENCRYPT, false, "enough");
        check(attempts(4, Counted::Issued, 3 * day), vec![], LETS_ENCRYPT, false, "enough");
        check(attempts(4, Counted::FailedValidation, 5), vec![], LETS_ENCRYPT, true, "after 2026-06-10 12:45");
        check(attempts(3, Counted::FailedValidation, 5), vec![], LETS_ENCRYPT, false, "enough");
        check(vec![], attempts(298, Counted::Order, 0), LETS_ENCRYPT, false, "enough");
        check(vec![], attempts(299, Counted::Order, 0), LETS_ENCRYPT, false, "spent: Let's Encrypt allows 300 orders");
        check(vec![], attempts(49, Counted::Issued, 1), LETS_ENCRYPT, false, "probably: Let's Encrypt allows 50");
        check(attempts(9, Counted::Issued, 1), vec![], "https://other.example/", false, "enough");
    }
}
