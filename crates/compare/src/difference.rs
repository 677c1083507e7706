//! Two outcomes of one request, and what is different about them.

use crate::answer::{Failure, Outcome};
use crate::body::{self, Verdict};
use crate::headers::{Asked, Rules};

/// The URLs that were asked, without a slash at their end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origins {
    pub old: String,
    pub new: String,
}

/// One thing that is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Beside it nothing else is compared: an error has other headers and another body than a page.
    Status {
        old: u16,
        new: u16,
    },
    Header {
        name: String,
        old: Option<Vec<u8>>,
        new: Option<Vec<u8>>,
    },
    Trailer {
        name: String,
        old: Option<Vec<u8>>,
        new: Option<Vec<u8>>,
    },
    /// The first byte that differs, and what is around it.
    Body {
        at: u64,
        old: Vec<u8>,
        new: Vec<u8>,
    },
    /// At least one of them did not answer.
    Unanswered {
        old: String,
        new: String,
    },
}

/// What is different, and whether a body was compared in its beginning only.
pub fn compare(asked: Asked<'_>, old: &Outcome, new: &Outcome, rules: &Rules, origins: &Origins) -> (Vec<Difference>, bool) {
    let (old, new) = match (old, new) {
        (Outcome::Answered(old), Outcome::Answered(new)) => (old, new),
        // Servers close a connection on purpose, as `return 444` does.
        (Outcome::Failed(Failure::Closed), Outcome::Failed(Failure::Closed)) => return (Vec::new(), false),
        (old, new) => return (vec![Difference::Unanswered { old: word(old), new: word(new) }], false),
    };
    if old.status != new.status {
        return (vec![Difference::Status { old: old.status, new: new.status }], false);
    }
    let mut differences = Vec::new();
    for (name, old, new) in rules.differing(asked, old, new, origins) {
        differences.push(Difference::Header { name, old, new });
    }
    let verdict = if rules.without_bodies { Verdict::Same } else { body::compare(old, new, rules) };
    let is_in_part = verdict == Verdict::SameBeginning;
    if let Verdict::Different { at, old, new } = verdict {
        differences.push(Difference::Body { at, old, new });
    }
    for (name, old, new) in rules.differing_trailers(old, new) {
        differences.push(Difference::Trailer { name, old, new });
    }
    (differences, is_in_part)
}

fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answered(answer) => format!("answers {}", answer.status),
        Outcome::Failed(failure) => failure.to_string(),
    }
}
