//! An error as RFC 9457 has it. Its texts are boxed, because it is the other half of every result here. Which error there is when is decided in `problem` beside the handlers; this is its form.

use super::schema::object;

/// The media type of every answer that is an error.
pub const PROBLEM_TYPE: &str = "application/problem+json";

object! {
    /// Why a request was not done.
    pub struct Problem {
        /// `urn:tidegate:problem:` and a word that does not change between versions.
        pub r#type: Box<str>,
        /// What `type` stands for, in words.
        pub title: Box<str>,
        /// The HTTP status of the answer.
        pub status: u16,
        /// What happened this time.
        pub detail: Box<str>,
        /// What to do about it.
        pub help: Option<Box<str>>,
        /// Everything that is wrong with a configuration, as text with its lines.
        pub diagnostics: Option<Box<str>>,
    }
}

impl Problem {
    const PREFIX: &str = "urn:tidegate:problem:";

    pub fn new(status: u16, kind: &str, title: &str, detail: impl Into<Box<str>>) -> Problem {
        Problem {
            r#type: format!("{}{kind}", Problem::PREFIX).into(),
            title: title.into(),
            status,
            detail: detail.into(),
            help: None,
            diagnostics: None,
        }
    }

    pub fn with_help(mut self, help: impl Into<Box<str>>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// The last word of `type`.
    pub fn kind(&self) -> &str {
        self.r#type.strip_prefix(Problem::PREFIX).unwrap_or(&self.r#type)
    }
}
