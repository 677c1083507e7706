//! Hosts whose connections are handed to servers as they are. Nobody reads them on the way, so that nothing of what an
//! Ingress wants to be protected by would hold: where one does, nothing is handed on.

use super::{Member, Merging, Owned, Surroundings, Taken, TakenPath, pool_name};
use crate::finding::{FindingCode, Severity};
use crate::fragment::Target;
use crate::pool::{PoolGround, PortStanding, pool};
use crate::reference::ServiceAtPort;
use std::collections::BTreeSet;
use tidegate_cluster::Key;
use tidegate_model::{KeepAlive, Pool, PoolName};

const FIELD: &str = "metadata.annotations[nginx.ingress.kubernetes.io/ssl-passthrough]";

/// Whether connections are to be handed on.
pub enum Passing {
    /// Nobody asks for it, or nobody may.
    None,
    /// To whoever has `/`.
    Wanted,
}

/// Of servers that get connections as they are, whatever is spoken with them otherwise.
pub fn pool_of(reference: &ServiceAtPort, around: Surroundings<'_>) -> Pool {
    let name = PoolName(format!("{}#tcp", pool_name(reference, around.pools_taken)).into());
    // Connections that are handed on are not kept.
    let keep_alive = KeepAlive::default();
    let ground =
        PoolGround { settings: around.settings, standing: &PortStanding::Unknown, secret: None, keep_alive: &keep_alive };
    pool(name, reference, ground)
}

impl<'m> Merging<'m> {
    /// Adds to `shut` who asks for it and may not.
    pub(super) fn passing(&mut self, members: &[Member<'m>], taken: Taken, shut: &mut BTreeSet<Key>) -> Passing {
        let asking: Vec<&Member<'m>> = members.iter().filter(|member| member.fragment.manner.passes_on).collect();
        if asking.is_empty() || taken.https {
            return Passing::None;
        }
        if self.around.settings.https.is_none() {
            for member in asking {
                let message = "HTTPS does not come in here, so there is nothing to hand on".to_owned();
                self.find(&member.age.key, FindingCode::AnnotationNotTaken, Severity::Warning, FIELD, message);
            }
            return Passing::None;
        }
        let Some(protected) = members.iter().find(|member| member.fragment.manner.protects()) else { return Passing::Wanted };
        for member in asking {
            shut.insert(member.age.key.clone());
            let whose = if member.age.key == protected.age.key {
                "the Ingress itself protects".to_owned()
            } else {
                format!("the Ingress `{}` protects", protected.age.key)
            };
            let message = format!(
                "what {whose} on `{}` would not hold for connections that are handed on as they are: remove one of them; until then everything of this Ingress is answered with 503 there",
                self.host
            );
            self.find(&member.age.key, FindingCode::ProtectionUnavailable, Severity::Error, FIELD, message);
        }
        Passing::None
    }

    /// Who gets the connections: whoever `/` is for. `None`: there is nobody.
    pub(super) fn passed_on(
        &mut self,
        members: &[Member<'m>],
        paths: &[TakenPath<'m>],
        rest: Option<Owned<'m>>,
    ) -> Option<ServiceAtPort> {
        let root = paths.iter().find(|taken| &*taken.written.text == "/").map(|taken| taken.owned).or(rest);
        match root.map(|owned| &owned.route.target) {
            Some(Target::Service(ServiceAtPort { service, port, manner: _ })) => {
                Some(ServiceAtPort { service: service.clone(), port: port.clone(), manner: None })
            }
            Some(Target::Unusable) => None,
            None => {
                for member in members.iter().filter(|member| member.fragment.manner.passes_on) {
                    let message = format!(
                        "no path of `{}` is `/`, so there is nobody to hand connections to: TLS ends here; add one",
                        self.host
                    );
                    self.find(&member.age.key, FindingCode::AnnotationNotTaken, Severity::Warning, FIELD, message);
                }
                None
            }
        }
    }
}
