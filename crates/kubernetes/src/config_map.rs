//! A ConfigMap that somebody refers to, as it is now.

use std::sync::Arc;
use tidegate_cluster::{ConfigMap, ConfigMapState, Key};

#[derive(Debug, Default)]
pub struct KnownConfigMap {
    held: Option<Arc<ConfigMap>>,
    absence: Option<MapAbsence>,
}

/// Why nothing is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapAbsence {
    Missing,
    /// Nobody can tell, for that reason.
    Unavailable(String),
}

impl KnownConfigMap {
    /// Takes in what is known now, and gives whether anything differs.
    pub fn take_in(&mut self, state: &ConfigMapState) -> bool {
        let now = match state {
            ConfigMapState::Unasked => KnownConfigMap::default(),
            ConfigMapState::Missing => KnownConfigMap { held: None, absence: Some(MapAbsence::Missing) },
            ConfigMapState::Fault(fault) => {
                KnownConfigMap { held: None, absence: Some(MapAbsence::Unavailable(fault.to_string())) }
            }
            ConfigMapState::Held(map) => KnownConfigMap { held: Some(map.clone()), absence: None },
        };
        let differs = now.held != self.held || now.absence != self.absence;
        *self = now;
        differs
    }

    pub fn held(&self) -> Option<&Arc<ConfigMap>> {
        self.held.as_ref()
    }

    pub fn absence(&self) -> Option<&MapAbsence> {
        self.absence.as_ref()
    }

    /// What it holds; `Err` says why that is nothing. `None`: nobody can tell so far.
    pub fn content(&self, key: &Key) -> Option<Result<&ConfigMap, String>> {
        match (&self.held, &self.absence) {
            (Some(map), _) => Some(Ok(map)),
            (None, Some(absence)) => Some(Err(absence.sentence(key))),
            (None, None) => None,
        }
    }
}

impl MapAbsence {
    pub fn sentence(&self, key: &Key) -> String {
        match self {
            MapAbsence::Missing => format!("there is no ConfigMap `{key}`: make it, or name another one"),
            MapAbsence::Unavailable(reason) => format!("the ConfigMap `{key}` cannot be had: the API server {reason}"),
        }
    }
}
