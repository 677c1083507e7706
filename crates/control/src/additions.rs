//! What stands beside the configuration of the files: sites and pools that nobody wrote there, since labels of
//! containers or objects of a cluster ask for them.

use crate::containers::Containers;
use std::sync::Arc;
use tidegate_config::Labelled;
use tidegate_model::{Configuration, Pool, Site};

/// What is added to a configuration of files.
#[derive(Default)]
pub struct Additions {
    pub labelled: Labelled,
}

impl Additions {
    /// What is to be added to these files now.
    pub fn of(containers: &Containers, of_files: &Configuration) -> Additions {
        Additions { labelled: containers.labelled(of_files) }
    }

    /// Behind those of the files, in this order.
    pub fn sites(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.labelled.sites.iter()
    }

    /// Behind those of the files, in this order.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.labelled.pools.iter()
    }
}
