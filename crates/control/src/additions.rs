//! What stands beside the configuration of the files: sites and pools that nobody wrote there, since labels of
//! containers or objects of a cluster ask for them.

use crate::containers::Containers;
use crate::objects::Objects;
use std::sync::Arc;
use tidegate_config::Labelled;
use tidegate_kubernetes::Merged;
use tidegate_model::{Configuration, Pool, Site};

/// What is added to a configuration of files.
#[derive(Default)]
pub struct Additions {
    pub labelled: Labelled,
    pub of_objects: Merged,
}

impl Additions {
    /// What is to be added to these files now.
    pub fn of(containers: &Containers, objects: Option<&mut Objects>, of_files: &Configuration) -> Additions {
        let of_objects = objects.map(|objects| objects.merged(of_files)).unwrap_or_default();
        Additions { labelled: containers.labelled(of_files), of_objects }
    }

    /// Behind those of the files, in this order.
    pub fn sites(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.labelled.sites.iter().chain(&self.of_objects.sites)
    }

    /// Behind those of the files, in this order.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.labelled.pools.iter().chain(&self.of_objects.pools)
    }
}
