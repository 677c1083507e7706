//! `api-key`: which programs may ask, each by a long random key of its own.

use crate::limiting::Rate;
use crate::process::Secret;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyAuth {
    pub keys: ApiKeySource,
    /// Where a key may stand, at least one. Two in one of them are refused.
    pub places: Vec<ApiKeyPlace>,
    /// The field by which the upstream hears the key's name, and only from here.
    pub header: Option<String>,
    /// What `WWW-Authenticate` says; nothing, when it is left out.
    pub realm: Option<String>,
    /// Whether the upstream gets the key.
    pub forwards: bool,
    /// How many unknown keys an address may try. `None`: any number.
    pub failures: Option<Rate>,
}

impl ApiKeyAuth {
    pub const FIELD: &'static str = "x-api-key";
    pub const FAILURES: Rate = Rate { count: 100, period: Duration::from_mins(10) };
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiKeySource {
    /// A line `name:hash` each. Read when it is needed, and again when it changes.
    File(PathBuf),
    Listed(Vec<ListedApiKey>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedApiKey {
    pub name: String,
    /// SHA-256, in hexadecimal digits.
    pub hash: Secret,
    /// A date, or a moment in UTC.
    pub expires: Option<String>,
}

/// Where in a request a key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiKeyPlace {
    /// A field of its own, in lower case.
    Field(String),
    /// `Authorization`, with this scheme.
    Authorization(String),
    /// A parameter of the query.
    Query(String),
}

impl ApiKeyPlace {
    /// The name of a field in which nothing else stands.
    pub fn field(&self) -> Option<&str> {
        match self {
            ApiKeyPlace::Field(name) => Some(name),
            ApiKeyPlace::Authorization(_) | ApiKeyPlace::Query(_) => None,
        }
    }

    /// The name of the field that is looked at.
    pub fn looked_at(&self) -> Option<&str> {
        match self {
            ApiKeyPlace::Authorization(_) => Some("authorization"),
            ApiKeyPlace::Field(name) => Some(name),
            ApiKeyPlace::Query(_) => None,
        }
    }

    /// The name of the parameter, where it is one.
    pub fn parameter(&self) -> Option<&str> {
        match self {
            ApiKeyPlace::Query(name) => Some(name),
            ApiKeyPlace::Field(_) | ApiKeyPlace::Authorization(_) => None,
        }
    }
}
