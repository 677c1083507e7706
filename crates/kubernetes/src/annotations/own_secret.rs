//! Secrets and ConfigMaps that annotations name: those of the namespace of their Ingress, and of no other.

use super::Annotations;
use crate::ingress_names::is_object_name;
use tidegate_cluster::Key;

impl Annotations<'_> {
    /// The Secret that it names, with or without its namespace. `Err`: nothing is answered, since there is no such one.
    pub(super) fn secret(&mut self, name: &str) -> Result<Option<Key>, ()> {
        self.named(name, "Secret")
    }

    /// As [`Annotations::secret`], of ConfigMaps.
    pub(super) fn config_map(&mut self, name: &str) -> Result<Option<Key>, ()> {
        self.named(name, "ConfigMap")
    }

    fn named(&mut self, name: &str, kind: &str) -> Result<Option<Key>, ()> {
        let Some(written) = self.text(name) else { return Ok(None) };
        let own = self.key.namespace.clone();
        let (namespace, object) = written.split_once('/').unwrap_or((&own, written));
        if *namespace != *own {
            self.shut(name, &format!("the {kind} is one of another namespace: copy it into that of the Ingress"));
            return Err(());
        }
        if !is_object_name(object) {
            self.shut(name, &format!("no {kind} has such a name: small letters, digits, `-` and `.`, at most 253"));
            return Err(());
        }
        Ok(Some(Key { namespace: own, name: object.into() }))
    }
}
