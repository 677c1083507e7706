//! What is to be said of an object: what of it cannot be used, or is used otherwise than it reads.

use std::fmt;
use tidegate_cluster::{Key, Kind};

/// Which object is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectReference {
    pub kind: Kind,
    pub key: Key,
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.key)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub code: FindingCode,
    pub severity: Severity,
    /// As `spec.rules[0].http.paths[1]`.
    pub field: String,
    /// One sentence without a full stop: what is wrong, and what to do.
    pub message: String,
}

impl Finding {
    /// Of one object; beyond them only their number is told.
    pub const EACH_MAX: usize = 32;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Served, but otherwise than it reads.
    Warning,
    /// Something that it asks for is not served.
    Error,
}

/// What kind of finding it is, by the word that is the reason of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingCode {
    HostInvalid,
    PathInvalid,
    /// An older object has this path of the host.
    PathTaken,
}

impl FindingCode {
    pub fn as_str(self) -> &'static str {
        match self {
            FindingCode::HostInvalid => "HostInvalid",
            FindingCode::PathInvalid => "PathInvalid",
            FindingCode::PathTaken => "PathTaken",
        }
    }
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
