//! What can go wrong at a provider and at a look-up: who, which name, what was answered, and what to do about it.
//! Nothing here holds a secret, and what others said is cut to one line.

use std::time::Duration;
use thiserror::Error;
use tidegate_model::Secret;
use tidegate_outbound::OutboundFault;

/// What a provider answered is repeated up to here; nobody reads more of it.
const CHARACTERS_MAX: usize = 300;

/// Why a name could not be looked up. `Display` is a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LookupFault {
    #[error("`{text}` is not a name: {problem}")]
    NotAName { text: String, problem: &'static str },
    /// The system's settings, or those given.
    #[error("the settings of DNS cannot be used: {problem}")]
    Settings { problem: String },
    /// NXDOMAIN.
    #[error("{name} does not exist: {whom} says NXDOMAIN")]
    NoSuchName { name: String, whom: String },
    /// The name is there and has nothing of this kind (NODATA).
    #[error("{name} has no {kind} record: {whom} knows none")]
    NoRecords { name: String, kind: &'static str, whom: String },
    /// SERVFAIL, REFUSED and the like.
    #[error("{name} cannot be looked up: {whom} says {code}")]
    Refused { name: String, whom: String, code: String },
    /// No answer in time.
    #[error("{name} cannot be looked up: {whom} does not answer")]
    Silent { name: String, whom: String },
    /// `problem` completes a sentence about `whom`.
    #[error("{name} cannot be looked up: {whom} {problem}")]
    Broken { name: String, whom: String, problem: String },
    #[error("{name} is an alias of an alias, more than {aliases_max} times over")]
    Aliases { name: String, aliases_max: usize },
    #[error("{name} is in no zone: {whom} knows no SOA record of it or of a name above it")]
    NoZone { name: String, whom: String },
}

impl LookupFault {
    /// Whether this is an answer: there is nothing.
    pub fn is_negative(&self) -> bool {
        matches!(self, LookupFault::NoSuchName { .. } | LookupFault::NoRecords { .. })
    }
}

/// Why a record could not be published or taken away.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}{}", .help.as_ref().map(|help| format!("; {help}")).unwrap_or_default())]
pub struct DnsFault {
    /// One sentence without a full stop.
    pub message: String,
    /// What to do about it, where that is known.
    pub help: Option<String>,
}

/// What a provider ran into; the publisher adds who it is, and for which name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsProblem {
    /// The name, its aliases or its zone.
    Lookup(LookupFault),
    /// The settings of the provider.
    Settings { problem: String, remedy: String },
    /// The program of `exec`: `problem` completes "the command …".
    Command { problem: String },
    /// The API gives no answer.
    Unreachable(OutboundFault),
    /// 401 and its like: it does not know who we are. `remedy` says what to look at.
    Credentials { answer: String, remedy: String },
    /// 403 and its like: it knows, and does not let us.
    Permission { answer: String, remedy: String },
    /// No zone of the account holds the name.
    NoZone { remedy: String },
    /// 429.
    RateLimited { answer: String, retry_after: Option<Duration> },
    /// Any other answer that is no success.
    Refused { answer: String },
    /// The answer has not the form that is documented.
    Unintelligible { problem: String },
    /// The provider took the change and did not finish it in time.
    Unfinished { waited: Duration },
}

impl DnsProblem {
    /// `provider` is the kind in the configuration, as `cloudflare`, and `name` where the record was to be.
    pub fn at(self, provider: &str, name: &str) -> DnsFault {
        let (message, help) = match self {
            DnsProblem::Lookup(fault) => (fault.to_string(), None),
            DnsProblem::Settings { problem, remedy } => (problem, Some(remedy)),
            DnsProblem::Command { problem } => (format!("for {name} the command {problem}"), None),
            DnsProblem::Unreachable(fault) => (format!("for {name} the API {fault}"), None),
            DnsProblem::Credentials { answer, remedy } => {
                (format!("for {name} the credentials are not accepted: {answer}"), Some(remedy))
            }
            DnsProblem::Permission { answer, remedy } => (format!("changing {name} is not permitted: {answer}"), Some(remedy)),
            DnsProblem::NoZone { remedy } => (format!("no zone that can be seen there holds {name}"), Some(remedy)),
            DnsProblem::RateLimited { answer, retry_after } => {
                let when = retry_after.map_or_else(|| "later".to_owned(), |time| format!("in {time:?}"));
                (format!("too many requests, so {name} is not changed: {answer}"), Some(format!("try again {when}")))
            }
            DnsProblem::Refused { answer } => (format!("{name} is not changed: {answer}"), None),
            DnsProblem::Unintelligible { problem } => (format!("the answer about {name} cannot be understood: {problem}"), None),
            DnsProblem::Unfinished { waited } => {
                (format!("the change of {name} was taken and not finished within {waited:?}"), None)
            }
        };
        DnsFault { message: format!("{provider}: {message}"), help }
    }
}

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
