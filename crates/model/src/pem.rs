//! Where certificates, keys, authorities and revocation lists are: in a file, which is read again when it changes, or
//! in the configuration itself.

use sha2::{Digest, Sha256};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Text of PEM, wherever it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pem {
    File(PathBuf),
    Held(HeldPem),
}

impl Pem {
    /// What messages call it: the path, or `pem:sha256:` and the beginning of a digest.
    pub fn name(&self) -> &Path {
        match self {
            Pem::File(path) => path,
            Pem::Held(held) => &held.name,
        }
    }

    pub fn display(&self) -> std::path::Display<'_> {
        self.name().display()
    }

    /// The file that it has to be read from, now and when that changes.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Pem::File(path) => Some(path),
            Pem::Held(_) => None,
        }
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Pem {
        Pem::File(path)
    }
}

/// Text that stands in the configuration and may hold a private key. It is the same as another one by its digest, which
/// is all that is ever printed of it.
#[derive(Clone)]
pub struct HeldPem {
    bytes: Arc<[u8]>,
    digest: [u8; 32],
    name: Arc<Path>,
}

impl HeldPem {
    /// Of chains with their keys, and of bundles.
    pub const BYTES_MAX: usize = 1 << 20;
    /// Bytes of the digest in the name.
    const NAMED_BY: usize = 8;

    pub fn new(bytes: impl Into<Arc<[u8]>>) -> HeldPem {
        let bytes = bytes.into();
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let mut name = "pem:sha256:".to_owned();
        for byte in &digest[..HeldPem::NAMED_BY] {
            name.push_str(&format!("{byte:02x}"));
        }
        HeldPem { bytes, digest, name: PathBuf::from(name).into() }
    }

    /// The text itself, to be parsed.
    pub fn reveal(&self) -> &[u8] {
        &self.bytes
    }
}

impl PartialEq for HeldPem {
    fn eq(&self, other: &HeldPem) -> bool {
        self.digest == other.digest
    }
}

impl Eq for HeldPem {}

impl Hash for HeldPem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl fmt::Debug for HeldPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name.display())
    }
}

#[cfg(test)]
mod tests {
    use super::{HeldPem, Pem};

    #[test]
    fn what_is_held_is_known_by_its_digest_and_printed_by_nothing_else() {
        let held = |text: &str| Pem::Held(HeldPem::new(text.as_bytes()));
        assert_eq!(held("a"), held("a"));
        assert_ne!(held("a"), held("b"));
        assert_eq!(held("secret").file(), None);
        let (debugged, shown) = (format!("{:?}", held("secret")), held("secret").display().to_string());
        assert_eq!(debugged, "Held(pem:sha256:2bb80d537b1da3e3)");
        assert_eq!(shown, "pem:sha256:2bb80d537b1da3e3");
    }
}
