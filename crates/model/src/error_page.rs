//! `error-page`: what errors look like to clients.

use crate::placeholder::Template;
use crate::pool::PoolName;
use crate::resilience::{RouteRetry, StatusRange};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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
    /// The pool that is asked for it, if one is.
    pub fn pool(&self) -> Option<&PoolName> {
        match &self.body {
            ErrorBody::Asked(asked) => Some(&asked.pool),
            ErrorBody::Template { .. } | ErrorBody::File { .. } | ErrorBody::Made(_) => None,
        }
    }

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
    /// What a server of a pool answers to a question about the error.
    Asked(Box<AskedPage>),
}

/// A pool that is asked for pages: with GET, once for each error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedPage {
    pub pool: PoolName,
    /// What the line says of asking again.
    pub retry: RouteRetry,
    /// Path and query. Begins with `/`, or with a placeholder that does.
    pub path: Template,
    /// What is said of the error, beside what every request says to an upstream. Each replaces what was there.
    pub headers: Vec<(String, Template)>,
    /// Whether clients get the status of the error, and not that of the answer.
    pub keeps_status: bool,
    /// How long the body of an answer may be.
    pub answer_bytes_max: u64,
    /// How long it may take, all attempts together.
    pub total: Duration,
}

impl AskedPage {
    pub const PATH: &'static str = "/";
    pub const TOTAL: Duration = Duration::from_secs(5);
    pub const ANSWER_BYTES_MAX: u64 = 1 << 20;
    /// The most that can be written: bodies are held in memory.
    pub const ANSWER_BYTES_MOST: u64 = 8 << 20;

    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        std::iter::once(&self.path).chain(self.headers.iter().map(|(_, value)| value))
    }
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
