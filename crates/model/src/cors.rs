//! `cors`: which pages of other origins may read answers (the Fetch standard, section "CORS protocol").

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    pub origins: Origins,
    /// As they are written; methods are compared with their case.
    pub methods: Vec<String>,
    /// Header fields that requests may have. `None`: those that are asked for.
    pub headers: Option<Vec<String>>,
    /// Header fields of answers that scripts may read, beside those that they always may.
    pub exposed: Vec<String>,
    /// Whether requests may have cookies and other credentials.
    pub credentials: bool,
    /// How long a browser may remember what it was told.
    pub max_age: Duration,
    /// Whether pages of public networks may ask servers of private ones.
    pub private_network: bool,
}

impl Cors {
    pub const MAX_AGE: Duration = Duration::from_secs(600);
    /// What pages may always do.
    pub const METHODS: &'static [&'static str] = &["GET", "HEAD", "POST"];
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// `*`
    Any,
    Listed(Vec<OriginPattern>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginPattern {
    /// `https://app.example.com`, in lower case; `null` is that of files and sandboxed pages.
    Exact(String),
    /// `https://*.example.com`: any host below, at any depth, as its start and its end.
    Below { start: String, end: String },
}

impl OriginPattern {
    /// `origin` as a browser sends it.
    pub fn fits(&self, origin: &[u8]) -> bool {
        match self {
            OriginPattern::Exact(exact) => origin.eq_ignore_ascii_case(exact.as_bytes()),
            OriginPattern::Below { start, end } => {
                let middle = origin.len().checked_sub(end.len()).filter(|middle| *middle > start.len());
                middle.is_some_and(|middle| {
                    origin[..start.len()].eq_ignore_ascii_case(start.as_bytes())
                        && origin[middle..].eq_ignore_ascii_case(end.as_bytes())
                        // Labels only: nothing that could end the host early, as `https://evil.test/.example.com`
                        // would.
                        && origin[start.len()..middle].iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(byte))
                })
            }
        }
    }
}
