//! A set of keys as an issuer publishes it (RFC 7517 section 5), with bounds. What cannot be used of it is left out and
//! told; the others are used. A set of which nothing can be used is a fault, so that it never takes the place of a good
//! one.

use crate::json::{JsonFault, Value};
use crate::key::{Algorithm, KeyFault, VerificationKey};
use aws_lc_rs::digest;
use std::fmt;
use thiserror::Error;

/// Of the document. Keys with long chains of certificates take some ten kilobytes each.
pub const SET_BYTES_MAX: usize = 512 * 1024;
/// Issuers have two to ten.
pub const KEYS_MAX: usize = 100;

/// Where a set was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySetOrigin {
    /// A file of this machine, which may hold shared secrets.
    File,
    /// An address, which whoever knows it can read too.
    Address,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeySetFault {
    #[error("has more than {SET_BYTES_MAX} bytes")]
    TooLong,
    #[error("{0}")]
    Json(#[from] JsonFault),
    #[error("has no list `keys`, which is where the keys of a JWK set stand")]
    NoKeys,
    #[error("has more than {KEYS_MAX} keys")]
    TooManyKeys,
    #[error("has no key that tokens can be verified with{}", told(.0.as_ref()))]
    NothingUsable(Option<KeyFault>),
}

fn told(fault: Option<&KeyFault>) -> String {
    fault.map(|fault| format!(": the first one {fault}")).unwrap_or_default()
}

/// A key that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedKey {
    pub position: usize,
    pub id: Option<String>,
    pub fault: KeyFault,
}

impl fmt::Display for SkippedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "key {} (`kid` {id:?}) {}", self.position + 1, self.fault),
            None => write!(f, "key {} {}", self.position + 1, self.fault),
        }
    }
}

#[derive(Debug)]
pub struct KeySet {
    keys: Box<[VerificationKey]>,
    pub skipped: Vec<SkippedKey>,
    /// Of the document: sets of the same are the same.
    pub digest: [u8; 32],
}

impl KeySet {
    /// A set, or a single key, which is a set of one.
    pub fn parse(document: &[u8], origin: KeySetOrigin) -> Result<KeySet, KeySetFault> {
        if document.len() > SET_BYTES_MAX {
            return Err(KeySetFault::TooLong);
        }
        let whole = Value::parse_object(document)?;
        let list = whole.member("keys").filter(|list| list.is_list());
        let is_one_key = list.is_none() && whole.member("kty").is_some();
        let jwks: Vec<Value<'_>> = match list {
            // One more shows that there are too many.
            Some(list) => list.elements().take(KEYS_MAX + 1).collect(),
            None if is_one_key => vec![whole],
            None => return Err(KeySetFault::NoKeys),
        };
        if jwks.len() > KEYS_MAX {
            return Err(KeySetFault::TooManyKeys);
        }
        let (mut keys, mut skipped) = (Vec::with_capacity(jwks.len()), Vec::new());
        for (position, jwk) in jwks.into_iter().enumerate() {
            match VerificationKey::of_jwk(jwk, origin == KeySetOrigin::File) {
                Ok(key) => keys.push(key),
                Err(fault) => {
                    let id = jwk.member("kid").and_then(Value::text).map(|id| id.chars().take(80).collect());
                    skipped.push(SkippedKey { position, id, fault });
                }
            }
        }
        if keys.is_empty() {
            return Err(KeySetFault::NothingUsable(skipped.first().map(|skipped| skipped.fault)));
        }
        let digest = digest::digest(&digest::SHA256, document);
        let digest = digest.as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(KeySet { keys: keys.into(), skipped, digest })
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether one of the keys has this name.
    pub fn has(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// The keys that may have signed a token: those of the name it gives, then those that have none; all when it gives
    /// none. Several keys of one name are all looked at, since all of them are the issuer's.
    pub fn candidates<'k>(&'k self, id: Option<&'k str>, algorithm: Algorithm) -> impl Iterator<Item = &'k VerificationKey> {
        let of_name = move |key: &&VerificationKey| id.is_none() || key.id.as_deref() == id;
        let nameless = move |key: &&VerificationKey| id.is_some() && key.id.is_none();
        let first = self.keys.iter().filter(of_name);
        first.chain(self.keys.iter().filter(nameless)).filter(move |key| key.takes(algorithm))
    }
}

#[cfg(test)]
mod tests;
