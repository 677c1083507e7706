//! Tokens that were verified lately, by their SHA-256, so that a signature is verified once and not for each request.
//! What is remembered is that a key of the set has signed it and what it claims; whether it holds now is looked at each
//! time. Another set of keys, such as one that lacks a key which was stolen, makes all of it unknown.

use crate::claims::Claims;
use aws_lc_rs::digest;
use std::collections::HashMap;
use std::rc::Rc;

/// Of a worker, and together as long as this at most. Those asked for lately stay.
pub const REMEMBERED_MAX: usize = 8192;
pub const REMEMBERED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What an entry takes beside its claims.
const OVERHEAD_BYTES: usize = 200;

type TokenDigest = [u8; 32];

#[derive(Debug)]
struct Entry {
    claims: Rc<Claims>,
    /// Of the set whose key has signed it.
    keys: TokenDigest,
}

/// In two halves: when the younger is full, the elder is forgotten, and what was asked for lately has moved to the
/// younger by then.
#[derive(Debug, Default)]
pub struct VerifiedTokens {
    young: HashMap<TokenDigest, Entry>,
    young_bytes: usize,
    old: HashMap<TokenDigest, Entry>,
}

impl VerifiedTokens {
    pub fn digest(token: &[u8]) -> TokenDigest {
        digest::digest(&digest::SHA256, token).as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// What the token of this digest claims, if a key of this very set has signed it.
    pub fn get(&mut self, token: &TokenDigest, keys: &[u8; 32]) -> Option<Rc<Claims>> {
        if let Some(entry) = self.young.get(token) {
            return (entry.keys == *keys).then(|| entry.claims.clone());
        }
        let entry = self.old.remove(token).filter(|entry| entry.keys == *keys)?;
        let claims = entry.claims.clone();
        self.insert(*token, entry);
        Some(claims)
    }

    pub fn add(&mut self, token: TokenDigest, keys: [u8; 32], claims: Rc<Claims>) {
        self.insert(token, Entry { claims, keys });
    }

    fn insert(&mut self, token: TokenDigest, entry: Entry) {
        let bytes = entry.claims.bytes() + OVERHEAD_BYTES;
        let is_full = self.young.len() >= REMEMBERED_MAX / 2 || self.young_bytes + bytes > REMEMBERED_BYTES_MAX / 2;
        if is_full && !self.young.is_empty() {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        if let Some(before) = self.young.insert(token, entry) {
            self.young_bytes -= before.claims.bytes() + OVERHEAD_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{REMEMBERED_BYTES_MAX, REMEMBERED_MAX, VerifiedTokens};
    use crate::claims::Claims;
    use std::rc::Rc;

    fn claims(text: &str) -> Rc<Claims> {
        Rc::new(Claims::read(text.into(), None).expect("claims"))
    }

    fn digest(number: usize) -> [u8; 32] {
        VerifiedTokens::digest(&number.to_be_bytes())
    }

    #[test]
    fn a_token_is_known_by_the_keys_it_was_verified_with() {
        let mut tokens = VerifiedTokens::default();
        let (keys, others) = (digest(1), digest(2));
        tokens.add(digest(7), keys, claims("{\"sub\":\"a\"}"));
        assert!(tokens.get(&digest(7), &keys).is_some());
        assert!(tokens.get(&digest(7), &others).is_none());
        assert!(tokens.get(&digest(8), &keys).is_none());
        tokens.add(digest(7), others, claims("{\"sub\":\"a\"}"));
        assert!(tokens.get(&digest(7), &keys).is_none());
        assert!(tokens.get(&digest(7), &others).is_some());
    }

    #[test]
    fn their_number_and_length_are_bounded_and_who_comes_again_stays() {
        let check = |padding: usize, entries: usize| {
            let (mut tokens, keys) = (VerifiedTokens::default(), digest(1));
            let text = format!("{{\"a\":\"{}\"}}", "x".repeat(padding));
            for number in 0..entries {
                tokens.add(digest(number), keys, claims(&text));
                assert!(tokens.get(&digest(0), &keys).is_some(), "after {number}");
            }
            let held = tokens.young.len() + tokens.old.len();
            assert!(held <= REMEMBERED_MAX && held * padding <= REMEMBERED_BYTES_MAX, "{held} of {padding} bytes");
            assert!(held < entries);
        };
        check(1, 3 * REMEMBERED_MAX);
        check(12_000, 2000);
    }

    #[test]
    fn the_same_token_counts_once() {
        let (mut tokens, keys) = (VerifiedTokens::default(), digest(1));
        for _ in 0..3 * REMEMBERED_MAX {
            tokens.add(digest(3), keys, claims("{}"));
        }
        assert_eq!((tokens.young.len(), tokens.old.len()), (1, 0));
    }
}
