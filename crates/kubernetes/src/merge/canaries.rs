//! Which canary has a share of which path: that of the same path, of the same namespace, and of several the oldest.

use super::{Member, Merging, Owned, TakenPath};
use crate::finding::{FindingCode, Severity};
use crate::fragment::PathPlace;
use crate::reference::Age;
use std::collections::BTreeMap;

/// Paths of a host with whoever has them.
pub type PathTable<'m> = BTreeMap<&'m PathPlace, (&'m Age, TakenPath<'m>)>;

impl<'m> Merging<'m> {
    pub(super) fn share(&mut self, table: &mut PathTable<'m>, canaries: &[Member<'m>], are_expressions: bool) {
        let mut owners: BTreeMap<&PathPlace, &Age> = BTreeMap::new();
        for Member { age, fragment } in canaries.iter().copied() {
            for written in &fragment.paths {
                let Ok(path) = written.placed(are_expressions) else { continue };
                let field = format!("{}.path", written.route.field);
                let taken = table.get_mut(&path.place).filter(|(owner, _)| owner.key.namespace == age.key.namespace);
                let Some((_, taken)) = taken else {
                    self.note_no_path(age, field);
                    continue;
                };
                if let Some(owner) = owners.get(&path.place) {
                    let message = format!(
                        "the share of this path is that of the canary `{}`, which is older: remove it here, or there",
                        owner.key
                    );
                    self.find(&age.key, FindingCode::CanaryTaken, Severity::Error, field, message);
                    continue;
                }
                owners.insert(&path.place, age);
                taken.canary = Some(Owned { route: &written.route, fragment, is_shut: false });
            }
        }
    }

    /// There is nobody but canaries.
    pub(super) fn note_alone(&mut self, canaries: &[Member<'m>]) {
        for Member { age, fragment } in canaries.iter().copied() {
            for written in &fragment.paths {
                self.note_no_path(age, format!("{}.path", written.route.field));
            }
        }
    }

    fn note_no_path(&mut self, age: &Age, field: String) {
        let message = format!(
            "no other Ingress of the namespace has this path of `{}`, so there is nothing to have a share of: make one, or remove the annotation `canary`",
            self.host
        );
        self.find(&age.key, FindingCode::CanaryAlone, Severity::Warning, field, message);
    }
}
