//! What can go wrong at a provider and at a look-up: who, which name, what was answered, and what to do about it.
//! Nothing here holds a secret, and what others said is cut to one line.

use std::fmt;
use std::time::Duration;
use tidegate_model::Secret;
use tidegate_outbound::OutboundFault;

/// What a provider answered is repeated up to here; nobody reads more of it.
const CHARACTERS_MAX: usize = 300;

/// Why a name could not be looked up. `Display` is a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupFault {
    NotAName {
        text: String,
        problem: &'static str,
    },
    /// The system's settings, or those given.
    Settings {
        problem: String,
    },
    /// NXDOMAIN.
    NoSuchName {
        name: String,
        whom: String,
    },
    /// The name is there and has nothing of this kind (NODATA).
    NoRecords {
        name: String,
        kind: &'static str,
        whom: String,
    },
    /// SERVFAIL, REFUSED and the like.
    Refused {
        name: String,
        whom: String,
        code: String,
    },
    /// No answer in time.
    Silent {
        name: String,
        whom: String,
    },
    /// `problem` completes a sentence about `whom`.
    Broken {
        name: String,
        whom: String,
        problem: String,
    },
    Aliases {
        name: String,
        aliases_max: usize,
    },
    NoZone {
        name: String,
        whom: String,
    },
}

impl LookupFault {
    /// Whether this is an answer: there is nothing.
    pub fn is_negative(&self) -> bool {
        match self {
            LookupFault::NoSuchName { .. } | LookupFault::NoRecords { .. } => true,
            LookupFault::NotAName { .. }
            | LookupFault::Settings { .. }
            | LookupFault::Refused { .. }
            | LookupFault::Silent { .. }
            | LookupFault::Broken { .. }
            | LookupFault::Aliases { .. }
            | LookupFault::NoZone { .. } => false,
        }
    }

    /// Whether the same may succeed later with nothing changed by anybody.
    pub fn is_transient(&self) -> bool {
        match self {
            LookupFault::Refused { .. }
            | LookupFault::Silent { .. }
            | LookupFault::Broken { .. }
            | LookupFault::Settings { .. } => true,
            LookupFault::NotAName { .. }
            | LookupFault::NoSuchName { .. }
            | LookupFault::NoRecords { .. }
            | LookupFault::Aliases { .. }
            | LookupFault::NoZone { .. } => false,
        }
    }
}

impl fmt::Display for LookupFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookupFault::NotAName { text, problem } => write!(f, "`{text}` is not a name: {problem}"),
            LookupFault::Settings { problem } => write!(f, "the settings of DNS cannot be used: {problem}"),
            LookupFault::NoSuchName { name, whom } => write!(f, "{name} does not exist: {whom} says NXDOMAIN"),
            LookupFault::NoRecords { name, kind, whom } => write!(f, "{name} has no {kind} record: {whom} knows none"),
            LookupFault::Refused { name, whom, code } => write!(f, "{name} cannot be looked up: {whom} says {code}"),
            LookupFault::Silent { name, whom } => write!(f, "{name} cannot be looked up: {whom} does not answer"),
            LookupFault::Broken { name, whom, problem } => write!(f, "{name} cannot be looked up: {whom} {problem}"),
            LookupFault::Aliases { name, aliases_max } => {
                write!(f, "{name} is an alias of an alias, more than {aliases_max} times over")
            }
            LookupFault::NoZone { name, whom } => {
                write!(f, "{name} is in no zone: {whom} knows no SOA record of it or of a name above it")
            }
        }
    }
}

impl std::error::Error for LookupFault {}

/// Why a record could not be published or taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsFault {
    /// The kind in the configuration: `cloudflare`.
    pub provider: &'static str,
    /// Where the record was to be.
    pub name: String,
    pub problem: DnsProblem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsProblem {
    /// The name, its aliases or its zone.
    Lookup(LookupFault),
    /// The settings of the provider.
    Settings {
        problem: String,
        remedy: String,
    },
    /// The program of `exec`: `problem` completes "the command …".
    Command {
        problem: String,
    },
    Unreachable(OutboundFault),
    /// 401 and its like: it does not know who we are. `remedy` says what to look at.
    Credentials {
        answer: String,
        remedy: String,
    },
    /// 403 and its like: it knows, and does not let us.
    Permission {
        answer: String,
        remedy: String,
    },
    /// No zone of the account holds the name.
    NoZone {
        remedy: String,
    },
    RateLimited {
        answer: String,
        retry_after: Option<Duration>,
    },
    /// Any other answer that is no success.
    Refused {
        answer: String,
        is_transient: bool,
    },
    /// The answer has not the form that is documented.
    Unintelligible {
        problem: String,
    },
    /// The provider took the change and did not finish it in time.
    Unfinished {
        waited: Duration,
    },
}

impl DnsFault {
    /// Whether the same may succeed later with nothing changed by anybody.
    pub fn is_transient(&self) -> bool {
        match &self.problem {
            DnsProblem::Lookup(fault) => fault.is_transient(),
            DnsProblem::Unreachable(fault) => fault.is_transient(),
            DnsProblem::Refused { is_transient, .. } => *is_transient,
            DnsProblem::Command { .. } | DnsProblem::RateLimited { .. } | DnsProblem::Unfinished { .. } => true,
            DnsProblem::Settings { .. }
            | DnsProblem::Credentials { .. }
            | DnsProblem::Permission { .. }
            | DnsProblem::NoZone { .. }
            | DnsProblem::Unintelligible { .. } => false,
        }
    }

    /// How long the provider asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.problem {
            DnsProblem::RateLimited { retry_after, .. } => *retry_after,
            DnsProblem::Lookup(_)
            | DnsProblem::Settings { .. }
            | DnsProblem::Command { .. }
            | DnsProblem::Unreachable(_)
            | DnsProblem::Credentials { .. }
            | DnsProblem::Permission { .. }
            | DnsProblem::NoZone { .. }
            | DnsProblem::Refused { .. }
            | DnsProblem::Unintelligible { .. }
            | DnsProblem::Unfinished { .. } => None,
        }
    }

    /// What to do about it, where that is known.
    pub fn help(&self) -> Option<String> {
        match &self.problem {
            DnsProblem::Settings { remedy, .. }
            | DnsProblem::Credentials { remedy, .. }
            | DnsProblem::Permission { remedy, .. }
            | DnsProblem::NoZone { remedy } => Some(remedy.clone()),
            DnsProblem::RateLimited { retry_after, .. } => {
                Some(retry_after.map_or_else(|| "try again later".into(), |time| format!("try again in {time:?}")))
            }
            DnsProblem::Lookup(_)
            | DnsProblem::Command { .. }
            | DnsProblem::Unreachable(_)
            | DnsProblem::Refused { .. }
            | DnsProblem::Unintelligible { .. }
            | DnsProblem::Unfinished { .. } => None,
        }
    }

    /// One sentence without a full stop.
    pub fn message(&self) -> String {
        let DnsFault { provider, name, problem } = self;
        match problem {
            DnsProblem::Lookup(fault) => format!("{provider}: {fault}"),
            DnsProblem::Settings { problem, .. } => format!("{provider}: {problem}"),
            DnsProblem::Command { problem } => format!("{provider}: for {name} the command {problem}"),
            DnsProblem::Unreachable(fault) => format!("{provider}: for {name} the API {fault}"),
            DnsProblem::Credentials { answer, .. } => {
                format!("{provider}: for {name} the credentials are not accepted: {answer}")
            }
            DnsProblem::Permission { answer, .. } => format!("{provider}: changing {name} is not permitted: {answer}"),
            DnsProblem::NoZone { .. } => format!("{provider}: no zone that can be seen there holds {name}"),
            DnsProblem::RateLimited { answer, .. } => {
                format!("{provider}: too many requests, so {name} is not changed: {answer}")
            }
            DnsProblem::Refused { answer, .. } => format!("{provider}: {name} is not changed: {answer}"),
            DnsProblem::Unintelligible { problem } => {
                format!("{provider}: the answer about {name} cannot be understood: {problem}")
            }
            DnsProblem::Unfinished { waited } => {
                format!("{provider}: the change of {name} was taken and not finished within {waited:?}")
            }
        }
    }
}

impl fmt::Display for DnsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        self.help().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl std::error::Error for DnsFault {}

/// What others said, without what must not be repeated: an API may quote what it was sent.
pub(crate) fn without_secrets<'s>(text: &str, secrets: impl IntoIterator<Item = &'s Secret>) -> String {
    let secrets = secrets.into_iter().map(|secret| secret.reveal().trim()).filter(|secret| !secret.is_empty());
    secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}

/// What others said, on one short line.
pub(crate) fn line_of(text: &str) -> String {
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    let mut line: String = text.trim().chars().take(CHARACTERS_MAX).map(plain).collect();
    if text.trim().chars().nth(CHARACTERS_MAX).is_some() {
        line.pop();
        line.push('…');
    }
    line
}
