//! Certificates that were obtained, with their keys in PEM, where objects of a cluster are to have them: what Secrets
//! are written with. Told by the engine's thread, asked by the control thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What stands in front of each part of PEM.
const BEGIN: &str = "-----BEGIN ";

/// By name.
#[derive(Default)]
pub(crate) struct ObtainedPairs(Mutex<BTreeMap<String, KeptPair>>);

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeptPair {
    pub certificate: Arc<str>,
    pub key: Arc<str>,
}

impl ObtainedPairs {
    pub fn put(&self, name: &str, bundle: &str) {
        self.pairs().insert(name.to_owned(), KeptPair::of(bundle));
    }

    pub fn remove(&self, name: &str) {
        self.pairs().remove(name);
    }

    pub fn of(&self, name: &str) -> Option<KeptPair> {
        self.pairs().get(name).cloned()
    }

    fn pairs(&self) -> MutexGuard<'_, BTreeMap<String, KeptPair>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptPair {
    /// Of a chain with its key, in any order.
    fn of(bundle: &str) -> KeptPair {
        let (mut certificate, mut key) = (String::new(), String::new());
        let mut rest = bundle.find(BEGIN).map_or("", |begin| &bundle[begin..]);
        while !rest.is_empty() {
            let end = rest[BEGIN.len()..].find(BEGIN).map_or(rest.len(), |next| next + BEGIN.len());
            let (part, behind) = rest.split_at(end);
            let title = part[BEGIN.len()..].lines().next().unwrap_or_default();
            if title.contains("PRIVATE KEY") { &mut key } else { &mut certificate }.push_str(part);
            rest = behind;
        }
        KeptPair { certificate: certificate.into(), key: key.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::ObtainedPairs;

    #[test]
    fn chain_and_key_are_told_apart() {
        let part = |title: &str| format!("-----BEGIN {title}-----\nYQ==\n-----END {title}-----\n");
        let (leaf, key) = (part("CERTIFICATE"), part("EC PRIVATE KEY"));
        let pairs = ObtainedPairs::default();
        for bundle in [format!("{leaf}{leaf}{key}"), format!("# by hand\n{key}{leaf}{leaf}")] {
            pairs.put("a.example", &bundle);
            let kept = pairs.of("a.example").expect("it is there");
            assert_eq!((&*kept.certificate, &*kept.key), (&*format!("{leaf}{leaf}"), &*key));
        }
        pairs.put("a.example", "nothing");
        assert!(pairs.of("a.example").is_some_and(|kept| kept.key.is_empty()));
    }
}
