//! `map`: what a key stands for. How rows are kept and looked up is in the crate `tables`.

use crate::placeholder::{Placeholder, Template};
use std::path::PathBuf;

/// A `map` without its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapSettings {
    /// Small letters, digits, `-` and `_`: what a key of the storage may have.
    pub name: String,
    /// What is looked up.
    pub key: Template,
    /// What all keys without a row have. Without one they have nothing.
    pub default: Option<String>,
    /// Whether letters are the same large and small.
    pub ignores_case: bool,
    pub source: MapSource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapSource {
    /// A line each, `key,value`; read when it is needed, and again when it changes.
    File(PathBuf),
    /// Keys with their values, in the order written.
    Listed(Vec<(String, String)>),
}

impl MapSettings {
    pub const NAME_BYTES_MAX: usize = 64;

    pub fn file(&self) -> Option<&PathBuf> {
        match &self.source {
            MapSource::File(path) => Some(path),
            MapSource::Listed(_) => None,
        }
    }

    /// The first part of the key that is not known yet when a route is looked for.
    pub fn unknown_to_conditions(&self) -> Option<&Placeholder> {
        self.key.placeholders().find(|placeholder| !placeholder.is_known_to_conditions())
    }
}
