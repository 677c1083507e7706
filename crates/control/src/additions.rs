//! What stands beside the configuration of the files: sites and pools that nobody wrote there, since labels of
//! containers or objects of a cluster ask for them.

use crate::containers::Containers;
use crate::objects::Objects;
use std::sync::Arc;
use tidegate_config::Labelled;
use tidegate_kubernetes::Merged;
use tidegate_model::{Configuration, KubernetesApi, Pool, Site, Storage};

/// What is added to a configuration of files.
#[derive(Default)]
pub struct Additions {
    pub labelled: Labelled,
    pub of_objects: Merged,
    /// Where the cluster is whose objects these are, for a process that is no pod of it.
    pub api: Option<KubernetesApi>,
}

impl Additions {
    /// What is to be added to these files now.
    pub fn of(containers: &Containers, objects: Option<&mut Objects>, of_files: &Configuration) -> Additions {
        let api = objects.as_ref().and_then(|objects| objects.api().cloned());
        let of_objects = objects.map(|objects| objects.merged(of_files)).unwrap_or_default();
        Additions { labelled: containers.labelled(of_files), of_objects, api }
    }

    /// What a file keeps in a cluster without saying which is kept in the one whose objects are served.
    pub fn complete(&self, storage: &mut Storage) {
        if let Storage::Kubernetes(kubernetes) = storage
            && kubernetes.api.is_none()
        {
            kubernetes.api.clone_from(&self.api);
        }
    }

    /// Behind those of the files, in this order.
    pub fn sites(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.labelled.sites.iter().chain(&*self.of_objects.sites)
    }

    /// Behind those of the files, in this order.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.labelled.pools.iter().chain(&*self.of_objects.pools)
    }
}
