//! Which canary has a share of which path: that of the same path, of the same namespace, and of several the oldest.

use super::{Member, Merging, Owned, TakenPath};
use crate::finding::{FindingCode, Severity};
use crate::fragment::PathPlace;
use crate::pool_manner::PoolManner;
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
                let of_path = &taken.owned.fragment.manner.pool;
                let is_shut = is_less_verified(&fragment.manner.pool, of_path);
                self.note_unlike_servers(age, &fragment.manner.pool, of_path);
                taken.canary = Some(Owned { route: &written.route, fragment, is_shut });
            }
        }
    }

    /// With ingress-nginx the other Ingress says how its canary is spoken to.
    fn note_unlike_servers(&mut self, age: &Age, canary: &PoolManner, of_path: &PoolManner) {
        let field = "metadata.annotations[nginx.ingress.kubernetes.io/canary]";
        if is_less_verified(canary, of_path) {
            let message = "the servers of the other Ingress are verified, and those of this canary are not: say the same of `backend-protocol` and `proxy-ssl-*` here; until then its share is answered with 503";
            self.find(&age.key, FindingCode::ProtectionUnavailable, Severity::Error, field, message.to_owned());
        } else if canary.spoken != of_path.spoken {
            let message = "its servers are spoken to as its own `backend-protocol` says, and the other Ingress says otherwise of its servers: say the same here, if that is meant";
            self.find(&age.key, FindingCode::AnnotationNotTaken, Severity::Warning, field, message.to_owned());
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

/// Whether requests would go to servers that nobody verifies, of a path whose servers are verified.
fn is_less_verified(canary: &PoolManner, of_path: &PoolManner) -> bool {
    of_path.tls.verify == Some(true) && (canary.tls.verify != Some(true) || canary.spoken != of_path.spoken)
}
