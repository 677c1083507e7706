//! Which of a site's certificates a client gets: by the name it asked for and by what it can verify, in the same time
//! for one and for 50,000. No files and no handshakes here.

use crate::facts::{CertificateName, KeyAlgorithm};
use crate::files::LoadedCertificate;
use rustls::SignatureScheme;
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// The longest name that DNS has.
const NAME_BYTES_MAX: usize = 253;

/// A site's certificates, most preferred first, and where each name is found.
pub struct CertificateSet {
    certificates: Vec<LoadedCertificate>,
    /// Lower case; wildcards as `*.parent`. Empty for a single certificate, which everybody gets.
    by_name: HashMap<Box<str>, Places>,
    /// The first of each kind of key, for names that nothing covers.
    first_of_kind: Vec<u32>,
}

/// Places in the list, ascending. A name has one nearly always.
struct Places {
    first: u32,
    others: Vec<u32>,
}

impl CertificateSet {
    /// Sorts them: what costs the server least comes first, and among equals the file's order counts.
    pub fn new(mut certificates: Vec<LoadedCertificate>) -> CertificateSet {
        certificates.sort_by_key(|certificate| kind(certificate.facts.key_algorithm));
        let mut set = CertificateSet { certificates, by_name: HashMap::new(), first_of_kind: Vec::new() };
        if set.certificates.len() > 1 {
            for (place, certificate) in (0..).zip(&set.certificates) {
                for name in &certificate.facts.names {
                    let CertificateName::Dns(name) = name else { continue };
                    set.by_name
                        .entry(name.as_str().into())
                        .and_modify(|places| places.others.push(place))
                        .or_insert(Places { first: place, others: Vec::new() });
                }
                let is_of_kind = |other: &u32| same_kind(&set.certificates[*other as usize], certificate);
                if !set.first_of_kind.iter().any(is_of_kind) {
                    set.first_of_kind.push(place);
                }
            }
        }
        set
    }

    pub fn all(&self) -> &[LoadedCertificate] {
        &self.certificates
    }

    /// The first that covers the name and that the client can verify; else the first that it can verify; else the
    /// first.
    pub fn choose(&self, server_name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // With one certificate there is nothing to choose, and rustls has the better alert when the client cannot use
        // it.
        if let [only] = &self.certificates[..] {
            return Some(only.served());
        }
        let is_usable = |place: &u32| self.certificates[*place as usize].certified_key.key.choose_scheme(schemes).is_some();
        let covering = server_name.and_then(|name| self.covering(name, is_usable));
        let chosen = covering.or_else(|| self.first_of_kind.iter().copied().find(is_usable)).unwrap_or(0);
        self.certificates.get(chosen as usize).map(LoadedCertificate::served)
    }

    fn covering(&self, name: &str, is_usable: impl Fn(&u32) -> bool) -> Option<u32> {
        let mut lower = [0; NAME_BYTES_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        let find = |name: &[u8]| {
            let places = self.by_name.get(std::str::from_utf8(name).ok()?)?;
            std::iter::once(&places.first).chain(&places.others).copied().find(|place| is_usable(place))
        };
        let exact = find(lower);
        let wildcard = lower.iter().position(|byte| *byte == b'.').filter(|dot| *dot > 0).and_then(|dot| {
            // In the place of the first label's end.
            lower[dot - 1] = b'*';
            find(&lower[dot - 1..])
        });
        // A cheaper key before a better name: both cover it.
        match (exact, wildcard) {
            (Some(exact), Some(wildcard)) => Some(exact.min(wildcard)),
            (exact, wildcard) => exact.or(wildcard),
        }
    }
}

/// RSA keys of all sizes are one kind, so that the file's order decides between them.
fn kind(algorithm: KeyAlgorithm) -> KeyAlgorithm {
    match algorithm {
        KeyAlgorithm::Rsa { .. } => KeyAlgorithm::Rsa { bits: 0 },
        other => other,
    }
}

fn same_kind(one: &LoadedCertificate, other: &LoadedCertificate) -> bool {
    kind(one.facts.key_algorithm) == kind(other.facts.key_algorithm)
}
