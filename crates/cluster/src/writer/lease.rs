//! Which of several processes writes: the one that has a Lease (coordination.k8s.io/v1). Pure: it says what is to be
//! asked, and is told what came of it.
//!
//! A Lease is stale when nothing of it has changed for as long as it lasts, by the clock of who looks: two clocks are
//! never compared, and the times in it are for people. Whoever holds it stops earlier than others begin. A machine that
//! slept may think for a moment that it has it: each write names the version that it changes, so no harm comes of that.
//! The locks of the crate `storage` are Leases too, and not these: one is a task's that has it or fails, ends with its
//! object, and judges a holder by its host as well; this one is wanted for ever and passed on.

use crate::fault::Fault;
use std::time::{Duration, Instant};

/// How long others wait for a sign of life.
pub const LASTS: Duration = Duration::from_secs(15);
/// Who could not renew it for so long stops: five seconds before others may begin.
pub const RENEWED_WITHIN: Duration = Duration::from_secs(10);
/// Between two attempts to renew it, or to take it.
pub const TRIED_EVERY: Duration = Duration::from_secs(2);

/// A Lease as it was found, or as it was left by our own change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseFound {
    pub version: Box<str>,
    /// Empty when nobody has it.
    pub holder: Box<str>,
    pub acquired: Option<Box<str>>,
    pub renewed: Option<Box<str>>,
    pub transitions: u32,
}

/// What a Lease is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseWrite {
    /// The one that is changed; `None` makes it.
    pub version: Option<Box<str>>,
    pub holder: Box<str>,
    /// Since when; `None` is now.
    pub acquired: Option<Box<str>>,
    pub transitions: u32,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAsk {
    Look,
    Write(LeaseWrite),
    Rest { until: Instant },
}

/// The way of one process to the Lease and with it.
#[derive(Debug)]
pub struct LeaseCourse {
    identity: Box<str>,
    standing: LeaseStanding,
    rests_until: Option<Instant>,
}

#[derive(Debug)]
enum LeaseStanding {
    /// Somebody else has it, or nobody knows.
    Waiting {
        seen: Option<SignOfLife>,
    },
    /// Nobody has it.
    Taking(LeaseWrite),
    Holding(Holding),
}

/// What was last seen of its holder, and since when nothing else.
#[derive(Debug)]
struct SignOfLife {
    found: LeaseFound,
    since: Instant,
}

#[derive(Debug)]
struct Holding {
    found: LeaseFound,
    /// Before the last change that succeeded was sent: others may count from there.
    renewed: Instant,
}

impl LeaseCourse {
    /// `identity` is that of no other process, and of the same one when it has started again.
    pub fn new(identity: &str) -> LeaseCourse {
        let standing = LeaseStanding::Waiting { seen: None };
        LeaseCourse { identity: identity.into(), standing, rests_until: None }
    }

    /// Until when it is ours, if it is.
    pub fn holds_until(&self) -> Option<Instant> {
        match &self.standing {
            LeaseStanding::Holding(holding) => Some(holding.renewed + RENEWED_WITHIN),
            LeaseStanding::Waiting { .. } | LeaseStanding::Taking(_) => None,
        }
    }

    /// Who has it, as far as it is known.
    pub fn holder(&self) -> Option<&str> {
        match &self.standing {
            LeaseStanding::Holding(_) => Some(&self.identity),
            LeaseStanding::Waiting { seen } => seen.as_ref().map(|seen| &*seen.found.holder),
            LeaseStanding::Taking(_) => None,
        }
    }

    pub fn ask(&mut self, now: Instant) -> LeaseAsk {
        if self.holds_until().is_some_and(|until| now >= until) {
            self.standing = LeaseStanding::Waiting { seen: None };
        }
        if let Some(until) = self.rests_until.filter(|until| now < *until) {
            return LeaseAsk::Rest { until };
        }
        match &self.standing {
            LeaseStanding::Waiting { .. } => LeaseAsk::Look,
            LeaseStanding::Taking(write) => LeaseAsk::Write(write.clone()),
            LeaseStanding::Holding(holding) => LeaseAsk::Write(self.renewal(&holding.found)),
        }
    }

    fn renewal(&self, found: &LeaseFound) -> LeaseWrite {
        LeaseWrite {
            version: Some(found.version.clone()),
            holder: self.identity.clone(),
            acquired: found.acquired.clone(),
            transitions: found.transitions,
        }
    }

    /// The Lease is as it was looked at; `None`: there is none. `chance` is from 0 to 1.
    pub fn found(&mut self, found: Option<LeaseFound>, now: Instant, chance: f64) {
        let LeaseStanding::Waiting { seen } = &mut self.standing else { return };
        let Some(found) = found else {
            let write = LeaseWrite { version: None, holder: self.identity.clone(), acquired: None, transitions: 0 };
            self.standing = LeaseStanding::Taking(write);
            return;
        };
        if found.holder == self.identity {
            // Ours from before we started again, or changed by somebody who only put a label on it.
            self.standing = LeaseStanding::Taking(self.renewal(&found));
            return;
        }
        // Another version alone is no sign of life: anybody may put a label on it.
        let is_same = |seen: &SignOfLife| LeaseFound { version: found.version.clone(), ..seen.found.clone() } == found;
        let since = seen.as_ref().filter(|seen| is_same(seen)).map_or(now, |seen| seen.since);
        if found.holder.is_empty() || now.saturating_duration_since(since) >= LASTS {
            self.standing = LeaseStanding::Taking(LeaseWrite {
                version: Some(found.version),
                holder: self.identity.clone(),
                acquired: None,
                transitions: found.transitions.saturating_add(1),
            });
            return;
        }
        *seen = Some(SignOfLife { found, since });
        // Not all who wait look at the same time.
        self.rests_until = Some(now + TRIED_EVERY.mul_f64(0.8 + 0.2 * chance.clamp(0.0, 1.0)));
    }

    /// The Lease is now as it was to be. `asked` is when that was sent.
    pub fn written(&mut self, found: LeaseFound, asked: Instant) {
        self.standing = LeaseStanding::Holding(Holding { found, renewed: asked });
        self.rests_until = Some(asked + TRIED_EVERY);
    }

    pub fn failed(&mut self, fault: &Fault, now: Instant) {
        let is_other = matches!(fault, Fault::Conflict { .. } | Fault::Missing { .. });
        match &self.standing {
            // Somebody changed it: whose it is now has to be looked at, and nothing is written meanwhile.
            LeaseStanding::Holding(_) if is_other => {
                self.standing = LeaseStanding::Waiting { seen: None };
                self.rests_until = None;
                return;
            }
            LeaseStanding::Taking(_) => self.standing = LeaseStanding::Waiting { seen: None },
            LeaseStanding::Holding(_) | LeaseStanding::Waiting { .. } => {}
        }
        self.rests_until = Some(now + TRIED_EVERY);
    }

    /// What gives it back, if it is ours: others take it at once, and do not wait for it to be stale.
    pub fn release(&mut self, now: Instant) -> Option<LeaseWrite> {
        let is_held = self.holds_until().is_some_and(|until| now < until);
        let standing = std::mem::replace(&mut self.standing, LeaseStanding::Waiting { seen: None });
        match standing {
            LeaseStanding::Holding(holding) if is_held => Some(LeaseWrite { holder: "".into(), ..self.renewal(&holding.found) }),
            LeaseStanding::Holding(_) | LeaseStanding::Waiting { .. } | LeaseStanding::Taking(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LASTS, LeaseAsk, LeaseCourse, LeaseFound, LeaseWrite, RENEWED_WITHIN, TRIED_EVERY};
    use crate::fault::Fault;
    use std::time::{Duration, Instant};

    fn found(version: &str, holder: &str, renewed: &str) -> LeaseFound {
        let (acquired, renewed) = (Some("then".into()), Some(renewed.into()));
        LeaseFound { version: version.into(), holder: holder.into(), acquired, renewed, transitions: 3 }
    }

    fn write(version: Option<&str>, holder: &str, acquired: Option<&str>, transitions: u32) -> LeaseAsk {
        let (version, acquired) = (version.map(Into::into), acquired.map(Into::into));
        LeaseAsk::Write(LeaseWrite { version, holder: holder.into(), acquired, transitions })
    }

    fn conflict() -> Fault {
        Fault::Conflict { message: "newer".to_owned() }
    }

    fn busy() -> Fault {
        Fault::Busy { message: "later".to_owned(), retry_after: None }
    }

    /// A course that has the Lease since `now`.
    fn holding(now: Instant) -> LeaseCourse {
        let mut course = LeaseCourse::new("a");
        course.written(found("5", "a", "now"), now);
        course
    }

    #[test]
    fn who_finds_it_free_takes_it() {
        let check = |there: Option<LeaseFound>, expected: LeaseAsk| {
            let (mut course, now) = (LeaseCourse::new("a"), Instant::now());
            assert_eq!(course.ask(now), LeaseAsk::Look);
            course.found(there.clone(), now, 1.0);
            assert_eq!(course.ask(now), expected, "{there:?}");
            assert_eq!(course.holds_until(), None, "{there:?}");
        };
        check(None, write(None, "a", None, 0));
        check(Some(found("5", "", "x")), write(Some("5"), "a", None, 4));
        // As it was left when this process ended without a word.
        check(Some(found("5", "a", "x")), write(Some("5"), "a", Some("then"), 3));
        let now = Instant::now();
        let mut course = LeaseCourse::new("a");
        course.found(Some(found("5", "b", "x")), now, 1.0);
        assert_eq!((course.ask(now), course.holder()), (LeaseAsk::Rest { until: now + TRIED_EVERY }, Some("b")));
    }

    #[test]
    fn it_is_stale_when_nothing_of_it_changed_for_as_long_as_it_lasts() {
        let check = |looks: &[(u64, &str, &str)], is_taken: bool| {
            let (mut course, began) = (LeaseCourse::new("a"), Instant::now());
            for (second, version, renewed) in looks {
                course.found(Some(found(version, "b", renewed)), began + Duration::from_secs(*second), 1.0);
            }
            let last = began + Duration::from_secs(looks.last().expect("a look").0);
            assert_eq!(matches!(course.ask(last), LeaseAsk::Write(_)), is_taken, "{looks:?}");
        };
        check(&[(0, "5", "x")], false);
        check(&[(0, "5", "x"), (14, "5", "x")], false);
        check(&[(0, "5", "x"), (15, "5", "x")], true);
        check(&[(0, "5", "x"), (15, "6", "y")], false);
        check(&[(0, "5", "x"), (10, "6", "y"), (20, "6", "y")], false);
        check(&[(0, "5", "x"), (10, "6", "y"), (25, "6", "y")], true);
        // Labels that are put on it are no sign of its holder.
        check(&[(0, "5", "x"), (10, "6", "x"), (15, "7", "x")], true);
        assert_eq!(LASTS, Duration::from_secs(15));
    }

    #[test]
    fn who_has_it_renews_it_and_stops_when_that_does_not_succeed_in_time() {
        let began = Instant::now();
        let mut course = holding(began);
        assert_eq!(course.holds_until(), Some(began + RENEWED_WITHIN));
        assert_eq!(course.ask(began), LeaseAsk::Rest { until: began + TRIED_EVERY });
        let mut now = began;
        for _ in 0..4 {
            now += TRIED_EVERY;
            assert_eq!(course.ask(now), write(Some("5"), "a", Some("then"), 3));
            course.failed(&busy(), now);
        }
        assert_eq!(course.holds_until(), Some(began + RENEWED_WITHIN));
        now += TRIED_EVERY;
        assert_eq!(course.ask(now), LeaseAsk::Look, "others may have it soon");
        assert_eq!((course.holds_until(), course.holder()), (None, None));
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent() {
        let began = Instant::now();
        let mut course = holding(began);
        course.written(found("6", "a", "later"), began + TRIED_EVERY);
        assert_eq!(course.holds_until(), Some(began + TRIED_EVERY + RENEWED_WITHIN));
        assert_eq!(course.ask(began + 2 * TRIED_EVERY), write(Some("6"), "a", Some("then"), 3));
    }

    #[test]
    fn who_finds_it_changed_by_somebody_else_stops_at_once_and_looks_whose_it_is() {
        let check = |fault: Fault, there: Option<LeaseFound>, expected: Option<LeaseAsk>| {
            let now = Instant::now();
            let mut course = holding(now);
            course.failed(&fault, now);
            assert_eq!((course.holds_until(), course.ask(now)), (None, LeaseAsk::Look));
            course.found(there, now, 1.0);
            assert_eq!(course.ask(now), expected.unwrap_or(LeaseAsk::Rest { until: now + TRIED_EVERY }), "{fault}");
        };
        check(conflict(), Some(found("9", "a", "now")), Some(write(Some("9"), "a", Some("then"), 3)));
        check(conflict(), Some(found("9", "b", "now")), None);
        check(Fault::Missing { message: "gone".to_owned() }, None, Some(write(None, "a", None, 0)));
    }

    #[test]
    fn who_comes_too_late_waits() {
        let now = Instant::now();
        let mut course = LeaseCourse::new("a");
        course.found(None, now, 1.0);
        course.failed(&conflict(), now);
        assert_eq!(course.ask(now), LeaseAsk::Rest { until: now + TRIED_EVERY });
        assert_eq!(course.ask(now + TRIED_EVERY), LeaseAsk::Look);
    }

    #[test]
    fn it_is_given_back_by_who_has_it() {
        let now = Instant::now();
        let given = holding(now).release(now).map(|write| (write.version, write.holder));
        assert_eq!(given, Some((Some("5".into()), "".into())));
        assert_eq!(holding(now).release(now + RENEWED_WITHIN), None, "it may be somebody else's");
        assert_eq!(LeaseCourse::new("a").release(now), None);
    }
}
