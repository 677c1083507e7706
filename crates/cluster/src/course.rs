//! How one kind of objects is followed: listed as a whole, page by page, and watched from there on. Pure: time and
//! chance are given to it, and it says what is to be asked next.

use crate::fault::Fault;
use std::time::{Duration, Instant};

/// After the first fault, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MOST: Duration = Duration::from_secs(30);
/// A kind that is not there, or may not be seen, is asked for again after so long at most: rights are given and
/// definitions installed while we run, and whoever gave one looks whether it helps. Sooner at first, because an API
/// server that starts knows neither for a moment, and says 403 and 404 to whoever asks by then.
const ASKED_AGAIN: Duration = Duration::from_secs(10);
/// A watch that ends sooner, and with nothing in it, is no watch that came to its end.
const SHORT: Duration = Duration::from_secs(1);
/// How long the server is to keep a watch open. A new one costs one request.
pub const WATCH_LASTS: Duration = Duration::from_secs(300);
/// A watch without a byte for longer is given up: a watch has an end, and one where nothing
/// happens may have no bookmark either.
pub const WATCH_IDLE_MAX: Duration = Duration::from_secs(2 * WATCH_LASTS.as_secs());

/// Where the following of a kind is.
#[derive(Debug)]
pub struct Course {
    stage: Stage,
    /// Since something was heard.
    faults: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Listing {
        next: Option<Box<str>>,
    },
    /// A watch has ended, and before the next the server is asked where it is.
    Returning {
        from: Box<str>,
    },
    Watching(Watching),
    Resting {
        until: Instant,
        then: Then,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Watching {
    from: Box<str>,
    /// When it was asked for; `None` before that.
    since: Option<Instant>,
    has_heard: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Then {
    /// From the first page, or from this one.
    List {
        next: Option<Box<str>>,
    },
    Return {
        from: Box<str>,
    },
}

/// Whether the versions of a server go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    GoesOn,
    /// The server is at a version before one that it told.
    Rewound,
}

/// What is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A page of the list: the first, or the one that this asks for. What was found before a first page counts no more.
    Page {
        next: Option<Box<str>>,
    },
    /// Which version the server is at.
    Version,
    /// What happens from this version on.
    Watch {
        from: Box<str>,
    },
    Rest {
        until: Instant,
    },
}

impl Default for Course {
    fn default() -> Self {
        Course { stage: Stage::Listing { next: None }, faults: 0 }
    }
}

impl Course {
    pub fn ask(&mut self, now: Instant) -> Ask {
        if let Stage::Resting { until, then } = &self.stage {
            if now < *until {
                return Ask::Rest { until: *until };
            }
            self.stage = match then.clone() {
                Then::List { next } => Stage::Listing { next },
                Then::Return { from } => Stage::Returning { from },
            };
        }
        match &mut self.stage {
            Stage::Listing { next } => Ask::Page { next: next.clone() },
            Stage::Returning { .. } => Ask::Version,
            Stage::Watching(watching) => {
                watching.since = Some(now);
                Ask::Watch { from: watching.from.clone() }
            }
            Stage::Resting { until, .. } => Ask::Rest { until: *until },
        }
    }

    /// A page has come, and says what asks for the next, or is the last one of a list of this version.
    pub fn page(&mut self, version: &str, next: Option<Box<str>>) {
        self.faults = 0;
        self.stage = match next {
            Some(next) => Stage::Listing { next: Some(next) },
            None => Stage::watching(version.into()),
        };
    }

    /// The server is at this version, and is watched from where the last watch ended, or listed anew.
    pub fn at(&mut self, version: &str) -> Standing {
        let Stage::Returning { from } = &self.stage else { return Standing::GoesOn };
        if is_before(version, from) {
            self.stage = Stage::Listing { next: None };
            return Standing::Rewound;
        }
        self.stage = Stage::watching(from.clone());
        Standing::GoesOn
    }

    /// A line of the watch has come, with the version that it is at.
    pub fn heard(&mut self, version: Option<&str>) {
        self.faults = 0;
        if let Stage::Watching(watching) = &mut self.stage {
            watching.has_heard = true;
            if let Some(version) = version.filter(|version| !version.is_empty()) {
                watching.from = version.into();
            }
        }
    }

    /// The server has ended the watch, as it does after a while.
    pub fn closed(&mut self, now: Instant, chance: f64) {
        let Stage::Watching(watching) = &self.stage else { return };
        let is_short = watching.since.is_none_or(|since| now.saturating_duration_since(since) < SHORT);
        let from = watching.from.clone();
        self.stage = if is_short && !watching.has_heard {
            Stage::Resting { until: now + self.pause(chance), then: Then::Return { from } }
        } else {
            Stage::Returning { from }
        };
    }

    /// What was asked failed. `chance` is from 0 to 1.
    pub fn failed(&mut self, fault: &Fault, now: Instant, chance: f64) {
        let then = match (&self.stage, fault) {
            // Nobody knows what happened since: everything is looked at anew.
            (_, Fault::Gone { .. }) => Then::List { next: None },
            (Stage::Listing { next }, _) => Then::List { next: next.clone() },
            // A kind that went is listed when it comes back, and what is too long for a line has its place in a list.
            (
                Stage::Watching(_) | Stage::Returning { .. },
                Fault::Missing { .. } | Fault::Forbidden { .. } | Fault::LineTooLong { .. },
            ) => Then::List { next: None },
            (Stage::Watching(Watching { from, .. }) | Stage::Returning { from }, _) => Then::Return { from: from.clone() },
            (Stage::Resting { then, .. }, _) => then.clone(),
        };
        let pause = match fault {
            Fault::Gone { .. } if self.faults == 0 => {
                self.faults = 1;
                Duration::ZERO
            }
            Fault::Forbidden { .. } | Fault::Missing { .. } => self.pause_up_to(ASKED_AGAIN, chance),
            Fault::Busy { retry_after: Some(after), .. } => (*after).max(self.pause(chance)),
            _ => self.pause(chance),
        };
        self.stage = Stage::Resting { until: now + pause, then };
    }

    /// Between half of the pause and all of it, so that many processes that lost the same server do not come back
    /// together.
    fn pause(&mut self, chance: f64) -> Duration {
        self.pause_up_to(PAUSE_MOST, chance)
    }

    fn pause_up_to(&mut self, most: Duration, chance: f64) -> Duration {
        let whole = PAUSE_FIRST.saturating_mul(1 << self.faults.min(10)).min(most);
        self.faults = self.faults.saturating_add(1);
        whole.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

impl Stage {
    fn watching(from: Box<str>) -> Stage {
        Stage::Watching(Watching { from, since: None, has_heard: false })
    }
}

/// Versions are compared as the numbers that they are. Texts that are none say nothing.
fn is_before(version: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    number(version).zip(number(other)).is_some_and(|(version, other)| version < other)
}

#[cfg(test)]
mod tests;
