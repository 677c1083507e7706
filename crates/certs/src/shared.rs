//! Certificates of authorities that stand in many chains, kept once: thousands of sites have the same few above their
//! own. Nothing is known of what a certificate says here; bytes are compared.

use rustls_pki_types::CertificateDer;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Shared ones are never freed, so that a chain can hold them without a count; this many at most, of this size.
const SHARED_MAX: usize = 1024;
const SHARED_BYTES_MAX: usize = 8 << 10;
/// How many hashes of names seen once are remembered; all are forgotten together when they are more.
const SEEN_MAX: usize = 16 << 10;

/// The chain with each certificate above the first in its shared form, from the second time on that it is seen.
pub fn share(chain: Vec<CertificateDer<'static>>) -> Vec<CertificateDer<'static>> {
    let mut chain = chain;
    for certificate in chain.iter_mut().skip(1) {
        if let Some(shared) = SharedTable::get().lock().unwrap_or_else(PoisonError::into_inner).find(certificate) {
            *certificate = CertificateDer::from(shared);
        }
    }
    // What is put into a handshake is counted by its length; spare room would only cost.
    chain.shrink_to_fit();
    chain
}

#[derive(Default)]
struct SharedTable {
    shared: HashSet<&'static [u8]>,
    seen_once: HashSet<u64>,
    hasher: RandomState,
}

impl SharedTable {
    fn get() -> &'static Mutex<SharedTable> {
        static TABLE: OnceLock<Mutex<SharedTable>> = OnceLock::new();
        TABLE.get_or_init(Mutex::default)
    }

    fn find(&mut self, der: &[u8]) -> Option<&'static [u8]> {
        if let Some(known) = self.shared.get(der) {
            return Some(known);
        }
        if der.len() > SHARED_BYTES_MAX || self.shared.len() == SHARED_MAX {
            return None;
        }
        if self.seen_once.len() == SEEN_MAX {
            self.seen_once.clear();
        }
        if self.seen_once.insert(self.hasher.hash_one(der)) {
            return None;
        }
        let leaked: &'static [u8] = Box::leak(der.to_vec().into_boxed_slice());
        self.shared.insert(leaked);
        Some(leaked)
    }
}

#[cfg(test)]
mod tests {
    use super::{SHARED_BYTES_MAX, SHARED_MAX, SharedTable, share};
    use rustls_pki_types::CertificateDer;

    #[test]
    fn chains_with_the_same_authority_have_it_once() {
        let chain = |leaf: u8| share(vec![CertificateDer::from(vec![leaf; 10]), CertificateDer::from(vec![9; 1000])]);
        let chains: Vec<_> = (0..4).map(chain).collect();
        for (leaf, seen) in (0..).zip(&chains) {
            assert_eq!(*seen, [CertificateDer::from(vec![leaf; 10]), CertificateDer::from(vec![9; 1000])]);
        }
        // The first one could not know; all after it have the same bytes.
        assert!(std::ptr::eq(chains[1][1].as_ref(), chains[3][1].as_ref()));
    }

    #[test]
    fn what_is_never_freed_is_bounded() {
        let mut table = SharedTable::default();
        for number in 0..2 * SHARED_MAX as u32 {
            let der = number.to_be_bytes();
            assert!(table.find(&der).is_none());
            assert_eq!(table.find(&der).is_some(), number < SHARED_MAX as u32);
        }
        let mut table = SharedTable::default();
        let large = vec![0; SHARED_BYTES_MAX + 1];
        assert!(table.find(&large).is_none() && table.find(&large).is_none());
    }
}
