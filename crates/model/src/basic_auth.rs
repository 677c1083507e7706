//! `basic-auth`: who may ask, by name and password (RFC 7617).

use crate::process::Secret;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// What browsers show beside the question, and keep passwords by.
    pub realm: String,
    pub users: AuthUsers,
    /// Whether the upstream gets the `Authorization` field.
    pub forwards: bool,
}

impl BasicAuth {
    pub const REALM: &'static str = "Restricted";
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthUsers {
    /// In the form that `htpasswd` writes; read when it is needed, and again when it changes.
    File(PathBuf),
    /// Names with the hashes of their passwords.
    Listed(Vec<(String, Secret)>),
}
