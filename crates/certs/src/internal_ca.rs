//! The internal CA: a root that people install where they want it trusted, an intermediate below it that signs, and
//! leaves for the sites that have no certificate of their own, issued in memory. What lies on disk is in
//! `internal_ca/folder.rs`, how certificates are made in `internal_ca/authority.rs`; nothing here puts anything into a
//! trust store.

mod authority;
mod folder;

use crate::error::CertError;
use crate::facts::{CertificateFacts, CertificateName};
use crate::files::LoadedCertificate;
use authority::{Root, Signer};
use folder::Folder;
use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use folder::LOCK_WAIT_MAX;

/// Ten years, because installing a root by hand on many devices is not to be repeated.
pub const ROOT_LIFE: SignedDuration = SignedDuration::from_hours(24 * 3653);
/// One year: a root whose key is kept elsewhere is fetched once in eight months.
pub const INTERMEDIATE_LIFE: SignedDuration = SignedDuration::from_hours(24 * 365);
/// Nothing can be revoked, so what leaked has to end by itself; ten days before the end are enough for a laptop that
/// slept.
pub const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Clients' clocks are behind ours now and then.
pub const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

pub struct InternalCa {
    state_dir: PathBuf,
    root_file: PathBuf,
    state: Mutex<State>,
}

struct State {
    authority: Authority,
    /// One leaf for each set of names, so that a reload does not change what clients see. Bounded by the sites in use:
    /// sets that nobody holds any more are dropped whenever one is issued.
    leaves: HashMap<Vec<CertificateName>, LoadedCertificate>,
}

/// What clients trust, and what signs for it.
struct Authority {
    root: Root,
    signer: Signer,
}

impl InternalCa {
    /// Reads the CA from `<state_dir>/internal-ca`, or makes one there. Two processes that do so at once get the same
    /// root.
    pub fn open(state_dir: &Path, now: Timestamp) -> Result<InternalCa, CertError> {
        let authority = Authority::load(state_dir, now)?;
        let state = Mutex::new(State { authority, leaves: HashMap::new() });
        Ok(InternalCa { state_dir: state_dir.to_owned(), root_file: folder::root_file(state_dir), state })
    }

    /// Where the root is, or will be, for this state folder.
    pub fn root_file(state_dir: &Path) -> PathBuf {
        folder::root_file(state_dir)
    }

    /// The root as PEM, to be trusted by clients (`curl --cacert`).
    pub fn root_pem_path(&self) -> &Path {
        &self.root_file
    }

    pub fn root_certificate(&self) -> CertificateDer<'static> {
        self.lock().authority.root.certificate.clone()
    }

    pub fn root_not_after(&self) -> Timestamp {
        self.lock().authority.root.not_after
    }

    /// A certificate for exactly these names: the one that was issued before while more than a third of its life is
    /// left.
    ///
    /// `names` is sorted and without repetition, as [`crate::names::certificate_names`] gives it.
    pub fn certificate_for(&self, names: &[CertificateName], now: Timestamp) -> Result<LoadedCertificate, CertError> {
        let mut state = self.lock();
        if let Some(leaf) = state.leaves.get(names).filter(|leaf| !is_due(&leaf.facts, now)) {
            return Ok(leaf.clone());
        }
        if state.authority.is_due(now) {
            match Authority::load(&self.state_dir, now) {
                Ok(renewed) => state.authority = renewed,
                Err(error) if now < state.authority.signer.not_after => {
                    tracing::warn!(%error, not_after = %state.authority.signer.not_after, "the internal CA was not renewed; the one before stays in use");
                }
                Err(error) => return Err(error),
            }
        }
        state.leaves.retain(|_, leaf| Arc::strong_count(&leaf.certified_key) > 1);
        let leaf = state.authority.signer.issue(names, now)?;
        state.leaves.insert(names.to_vec(), leaf.clone());
        Ok(leaf)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for InternalCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InternalCa").field("root_file", &self.root_file).finish_non_exhaustive()
    }
}

impl Authority {
    /// From disk as it is now, which another process may have renewed; what is missing or due is made.
    fn load(state_dir: &Path, now: Timestamp) -> Result<Authority, CertError> {
        let folder = Folder::open(state_dir)?;
        let root = match folder.read_root()? {
            Some(root) if now < root.not_after => root,
            Some(expired) => {
                tracing::warn!(
                    file = %folder.root_crt.display(), not_after = %expired.not_after,
                    "the internal CA's root has expired; a new one is made, and the old one is kept as root.crt.expired"
                );
                folder.keep_expired_root()?;
                folder.make_root(now)?
            }
            None => folder.make_root(now)?,
        };
        if now < root.not_before {
            tracing::warn!(
                file = %folder.root_crt.display(), not_before = %root.not_before, %now,
                "this machine's clock is at a time before the internal CA's root was made; is it right?"
            );
        }
        if root.not_after < now + INTERMEDIATE_LIFE / 3 {
            tracing::warn!(
                file = %folder.root_crt.display(), not_after = %root.not_after,
                "the internal CA's root expires soon; remove its folder and restart to have a new one made, which clients must then be told to trust"
            );
        }
        let signer = Self::signer(&folder, &root, now)?;
        Ok(Authority { root, signer })
    }

    fn signer(folder: &Folder, root: &Root, now: Timestamp) -> Result<Signer, CertError> {
        if !root.may_sign_authorities {
            // Made by an earlier version: no client accepts an intermediate below it, and making another root would
            // take away the trust that people have given to this one.
            return Signer::root(root, folder.read_root_key(root)?);
        }
        let present = match folder.read_intermediate(root) {
            Some(intermediate) if !is_end_near(intermediate.validity(), root, now) => {
                return Signer::intermediate(root, intermediate);
            }
            present => present,
        };
        let made = folder.read_root_key(root).and_then(|key| folder.make_intermediate(root, key, now));
        match (made, present) {
            (Ok(intermediate), _) => Signer::intermediate(root, intermediate),
            (Err(error), Some(intermediate)) if now < intermediate.not_after => {
                tracing::warn!(%error, not_after = %intermediate.not_after, "the internal CA's intermediate was not renewed; it stays in use");
                Signer::intermediate(root, intermediate)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Whether a look at the disk is worth it.
    fn is_due(&self, now: Timestamp) -> bool {
        is_end_near((self.signer.not_before, self.signer.not_after), &self.root, now)
    }
}

/// Whether it is time for another intermediate. One that ends with its root cannot be made to last longer.
fn is_end_near((not_before, not_after): (Timestamp, Timestamp), root: &Root, now: Timestamp) -> bool {
    not_after <= now || (not_after < root.not_after && is_last_third(not_before, not_after, now))
}

fn is_due(facts: &CertificateFacts, now: Timestamp) -> bool {
    is_last_third(facts.not_before, facts.not_after, now)
}

/// Less than a third of its life is left.
fn is_last_third(not_before: Timestamp, not_after: Timestamp, now: Timestamp) -> bool {
    not_after.duration_since(now) < not_after.duration_since(not_before) / 3
}
