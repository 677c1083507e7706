//! `error-page`: what errors look like to clients.

use crate::placeholder::Template;
use crate::resilience::StatusRange;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// Never empty; all within 400 to 599.
    pub statuses: Vec<StatusRange>,
    pub body: ErrorBody,
    pub from: ErrorSource,
    /// The status in place of the error's own.
    pub status: Option<u16>,
}

impl ErrorPage {
    /// Of a file.
    pub const BYTES_MAX: u64 = 1 << 20;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorBody {
    /// `body=`, or a file with placeholders in it.
    Template { text: Template, content_type: String, file: Option<PathBuf> },
    /// A file as it is.
    File { path: PathBuf, bytes: PageBytes, content_type: String },
    /// Made from what is known of the error.
    Made(ErrorFormat),
}

/// What a file held when the configuration was read. Prints as a mark of it, since it may be long.
#[derive(Clone, PartialEq, Eq)]
pub struct PageBytes(pub Arc<[u8]>);

impl fmt::Debug for PageBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        write!(f, "{} bytes {:016x}", self.0.len(), hasher.finish())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFormat {
    /// Of those below the one that the client likes best.
    Auto,
    Html,
    /// `application/problem+json` (RFC 9457).
    Json,
    Text,
}

impl ErrorFormat {
    pub const NAMES: &'static [(&'static str, ErrorFormat)] =
        &[("auto", ErrorFormat::Auto), ("html", ErrorFormat::Html), ("json", ErrorFormat::Json), ("text", ErrorFormat::Text)];

    pub fn name(self) -> &'static str {
        ErrorFormat::NAMES.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

/// Whose errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorSource {
    /// Errors that are answered here: no route, no server, a refusal by a step.
    #[default]
    Proxy,
    /// Answers of upstream servers.
    Upstream,
    All,
}

impl ErrorSource {
    pub const NAMES: &'static [(&'static str, ErrorSource)] =
        &[("proxy", ErrorSource::Proxy), ("upstream", ErrorSource::Upstream), ("all", ErrorSource::All)];

    pub fn name(self) -> &'static str {
        ErrorSource::NAMES.iter().find(|(_, source)| *source == self).map_or("", |(name, _)| name)
    }
}
