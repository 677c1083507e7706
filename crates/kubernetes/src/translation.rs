//! All that objects of a cluster mean at present, and what of it has to be looked at again when some of them change.

use crate::finding::{Finding, ObjectReference};
use crate::settings::Settings;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;
use tidegate_cluster::{Cache, Changes, Key};
use tidegate_model::{Configuration, Pool, Site};

/// What the objects mean together.
#[derive(Debug)]
pub struct Translation {
    settings: Settings,
    wanted_secrets: BTreeSet<Key>,
}

/// Sites and pools beside those of a file.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// In an order of their own, which is the same for the same objects.
    pub sites: Vec<Arc<Site>>,
    /// By name.
    pub pools: Vec<Arc<Pool>>,
    /// In the order of objects.
    pub findings: Vec<(ObjectReference, Finding)>,
    /// Ingresses that are ours, whose status says where they are served.
    pub served: BTreeSet<Key>,
}

impl Translation {
    pub fn new(settings: Settings) -> Translation {
        Translation { settings, wanted_secrets: BTreeSet::new() }
    }

    /// Takes in what differs since the last time; without `changes` everything is looked at. Says when to ask again:
    /// an object that begins to refer to one that is not known yet keeps its old meaning for a moment.
    pub fn take_in(&mut self, _cache: &Cache, _changes: Option<&Changes>, _now: Instant) -> Option<Instant> {
        self.wanted_secrets = self.settings.default_certificate.iter().cloned().collect();
        None
    }

    /// Secrets that objects of ours refer to.
    pub fn wanted_secrets(&self) -> &BTreeSet<Key> {
        &self.wanted_secrets
    }

    /// What is served beside the file. What is the same as the last time is the same `Arc`.
    pub fn merged(&mut self, _file: &Configuration) -> Merged {
        Merged::default()
    }
}
