//! Certificates that are obtained from a CA, for entries of `spec.tls` whose Secret is not there, or is ours. One that
//! somebody else has put there goes first.

use super::{Member, Merging};
use crate::annotations::OBTAINED;
use crate::finding::{FindingCode, Severity};
use crate::fragment::{TlsClaim, TlsRank};
use crate::secret::KnownPair;
use crate::settings::Obtains;
use tidegate_cluster::Key;
use tidegate_model::HostPattern;

/// A host whose certificate is obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obtained {
    /// The Ingress that asks for it.
    pub owner: Key,
    /// The Secret that is to have it. `None`: it is to have more than this host.
    pub secret: Option<Key>,
}

impl<'m> Merging<'m> {
    /// The claims of a host, the closest first, whose certificate is obtained before that of any of them can be had.
    pub(super) fn obtained(&mut self, claims: &[(Member<'m>, &'m TlsClaim)], certified: Option<usize>) -> Option<Obtained> {
        let HostPattern::Exact(_) = self.host else { return None };
        for (member, _) in claims {
            self.note_not_obtained(member);
        }
        let position = claims.iter().position(|(member, claim)| self.is_to_obtain(member, claim))?;
        if certified.is_some_and(|certified| certified < position) {
            return None;
        }
        let (member, claim) = claims[position];
        let secret = claim.secret().filter(|_| claim.rank == TlsRank::Named).cloned();
        Some(Obtained { owner: member.age.key.clone(), secret })
    }

    pub(super) fn is_to_obtain(&self, member: &Member<'_>, claim: &TlsClaim) -> bool {
        let is_wanted = match (self.around.settings.obtains, member.fragment.manner.is_obtained) {
            (Obtains::Nothing, _) | (_, Some(false)) | (Obtains::Asked, None) => false,
            (Obtains::Asked | Obtains::MissingSecrets, Some(true)) | (Obtains::MissingSecrets, None) => true,
        };
        let known = claim.secret().and_then(|key| self.around.known.pairs.get(key));
        is_wanted && known.is_some_and(KnownPair::is_free)
    }

    fn note_not_obtained(&mut self, member: &Member<'_>) {
        if self.around.settings.obtains == Obtains::Nothing && member.fragment.manner.is_obtained == Some(true) {
            let message = "no certificates are obtained here: start the controller with `--acme`".to_owned();
            let field = format!("metadata.annotations[{OBTAINED}]");
            self.find(&member.age.key, FindingCode::AnnotationNotTaken, Severity::Warning, field, message);
        }
    }
}
