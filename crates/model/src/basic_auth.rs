//! `basic-auth`: who may ask, by name and password (RFC 7617).

use crate::limiting::Rate;
use crate::process::Secret;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// What browsers show beside the question, and keep passwords by.
    pub realm: String,
    pub users: AuthUsers,
    /// Whether the upstream gets the `Authorization` field.
    pub forwards: bool,
    /// How many wrong passwords an address may try for a name, and five times as many in all. `None`: any number.
    pub failures: Option<Rate>,
}

impl BasicAuth {
    pub const REALM: &'static str = "Restricted";
    pub const FAILURES: Rate = Rate { count: 10, period: Duration::from_mins(10) };
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthUsers {
    /// In the form that `htpasswd` writes; read when it is needed, and again when it changes.
    File(PathBuf),
    /// Names with the hashes of their passwords.
    Listed(Vec<(String, Secret)>),
}
