//! What stands in cookies and in `state` is sealed: encrypted and authenticated (AES-256-GCM), for one purpose, one
//! provider and one host (or domain), so that nothing of it is read, changed or used elsewhere. Keys are made one after
//! the other, each known before it is used, so that every host that shares them can open what another has sealed.

use super::ProviderId;
use super::parts::take_array;
use crate::base64url;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;
use std::time::Duration;
use thiserror::Error;
use zeroize::Zeroizing;

/// How long the newest key seals.
pub const KEY_PERIOD: Duration = Duration::from_hours(24);
/// How long a key is known before it seals: much longer than hosts take to look for it.
pub const KEY_AHEAD: Duration = Duration::from_hours(1);
/// No session is longer, so that no key is missed that was given up.
pub const SESSION_LIFE_MAX: Duration = Duration::from_hours(24 * 30);
const VERSION: u8 = 2;
const KEY_ID_BYTES: usize = 4;
const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
const FIRST_LINE: &str = "tidegate oidc keys 1";
/// More were not made by us.
const KEYS_MAX: usize = 100;

/// For what something is sealed, so that a flow is no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Session,
    Flows,
    State,
    /// A refreshed session that another host looks for in the storage.
    Handover,
}

impl Purpose {
    fn byte(self) -> u8 {
        match self {
            Purpose::Session => b's',
            Purpose::Flows => b'f',
            Purpose::State => b't',
            Purpose::Handover => b'h',
        }
    }
}

/// Where something sealed is good: at one provider, and at one host. Sites of one host or of several may have the same
/// provider, and a cookie that somebody carries from one to the other is worth nothing there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Realm<'r> {
    pub provider: &'r ProviderId,
    /// In small letters, or a domain whose sites have one log-in. Empty for what no browser brings.
    pub host: &'r [u8],
}

/// Why kept keys cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UnreadableSessionKeys {
    #[error("it was written by another version of Tidegate")]
    OtherVersion,
    #[error("it is damaged")]
    Damaged,
}

struct SessionKey {
    id: [u8; KEY_ID_BYTES],
    /// In seconds of Unix time: it seals from then on.
    begins: u64,
    raw: Zeroizing<[u8; KEY_BYTES]>,
    key: LessSafeKey,
}

/// All keys that may have sealed something, the newest last.
pub struct SessionKeys(Vec<SessionKey>);

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionKeys").field(&self.0.len()).finish()
    }
}

impl SessionKey {
    fn new(begins: u64, raw: Zeroizing<[u8; KEY_BYTES]>) -> SessionKey {
        let named = digest::digest(&digest::SHA256, &raw[..]);
        let id = named.as_ref()[..KEY_ID_BYTES].try_into().expect("SHA-256 is longer");
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &raw[..]).expect("32 bytes are a key of AES-256"));
        SessionKey { id, begins, raw, key }
    }

    fn copy(&self) -> SessionKey {
        SessionKey::new(self.begins, self.raw.clone())
    }
}

impl SessionKeys {
    /// The first of all, used at once.
    pub fn first(random: [u8; KEY_BYTES]) -> SessionKeys {
        SessionKeys(vec![SessionKey::new(0, Zeroizing::new(random))])
    }

    /// Whether the next key is to be made now.
    pub fn is_next_due(&self, now: u64) -> bool {
        let begun = self.0.last().map_or(0, |key| key.begins);
        now + KEY_AHEAD.as_secs() >= begun.saturating_add(KEY_PERIOD.as_secs())
    }

    /// With one more key, and without those that nothing is sealed with any more.
    pub fn with_next(&self, now: u64, random: [u8; KEY_BYTES]) -> SessionKeys {
        let begins = now + KEY_AHEAD.as_secs();
        let kept = SESSION_LIFE_MAX.as_secs() + KEY_PERIOD.as_secs();
        let ended = |position: usize| self.0.get(position + 1).map_or(begins, |next| next.begins);
        let still = self.0.iter().enumerate().filter(|(position, _)| ended(*position) + kept > now);
        let mut keys: Vec<SessionKey> = still.map(|(_, key)| key.copy()).collect();
        keys.push(SessionKey::new(begins, Zeroizing::new(random)));
        SessionKeys(keys)
    }

    /// As it is kept.
    pub fn write(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(FIRST_LINE.len() + 1 + self.0.len() * 70));
        text.push_str(FIRST_LINE);
        text.push('\n');
        for key in &self.0 {
            text.push_str(&key.begins.to_string());
            text.push(' ');
            URL_SAFE_NO_PAD.encode_string(&key.raw[..], &mut text);
            text.push('\n');
        }
        text
    }

    pub fn read(bytes: &[u8]) -> Result<SessionKeys, UnreadableSessionKeys> {
        let text = std::str::from_utf8(bytes).map_err(|_| UnreadableSessionKeys::Damaged)?;
        let mut lines = text.lines();
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(other) if other.starts_with("tidegate oidc keys ") => return Err(UnreadableSessionKeys::OtherVersion),
            Some(_) | None => return Err(UnreadableSessionKeys::Damaged),
        }
        let key = |line: &str| {
            let (begins, raw) = line.split_once(' ')?;
            let raw = Zeroizing::new(base64url::decode(raw.as_bytes())?);
            let raw = Zeroizing::new(raw.as_slice().try_into().ok()?);
            Some(SessionKey::new(begins.parse().ok()?, raw))
        };
        let mut keys = lines.map(key).collect::<Option<Vec<_>>>().ok_or(UnreadableSessionKeys::Damaged)?;
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(UnreadableSessionKeys::Damaged);
        }
        keys.sort_by_key(|key| key.begins);
        Ok(SessionKeys(keys))
    }

    /// A text of base64url. The nonce is random, and no other call has it.
    pub fn seal(&self, purpose: Purpose, realm: Realm<'_>, mut plain: Vec<u8>, now: u64, nonce: [u8; NONCE_LEN]) -> String {
        let begun = |key: &&SessionKey| key.begins <= now;
        let key = self.0.iter().rev().find(begun).unwrap_or(&self.0[0]);
        let bound = Aad::from(bound(purpose, realm));
        key.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound, &mut plain).expect("it is short");
        let mut sealed = Vec::with_capacity(1 + KEY_ID_BYTES + NONCE_LEN + plain.len());
        sealed.push(VERSION);
        sealed.extend_from_slice(&key.id);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&plain);
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// What was sealed for that purpose and realm; `None` for anything else.
    pub fn open(&self, purpose: Purpose, realm: Realm<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = base64url::decode(sealed)?;
        let mut rest = &sealed[..];
        let [version] = take_array(&mut rest)?;
        let (id, nonce): ([u8; KEY_ID_BYTES], [u8; NONCE_LEN]) = (take_array(&mut rest)?, take_array(&mut rest)?);
        if version != VERSION || rest.len() < TAG_BYTES {
            return None;
        }
        let begin = sealed.len() - rest.len();
        let bound = Aad::from(bound(purpose, realm));
        let key = self.0.iter().rev().find(|key| key.id == id)?;
        let plain = key.key.open_within(Nonce::assume_unique_for_key(nonce), bound, &mut sealed, begin..).ok()?.len();
        sealed.truncate(plain);
        Some(sealed)
    }
}

/// All in front of the host have one length each, so that none passes for a part of another.
fn bound(purpose: Purpose, realm: Realm<'_>) -> Vec<u8> {
    let mut bound = Vec::with_capacity(2 + realm.provider.len() + realm.host.len());
    bound.extend_from_slice(&[VERSION, purpose.byte()]);
    bound.extend_from_slice(realm.provider);
    bound.extend_from_slice(realm.host);
    bound
}

#[cfg(test)]
mod tests {
    use super::{KEY_AHEAD, KEY_PERIOD, Purpose, Realm, SESSION_LIFE_MAX, SessionKeys, UnreadableSessionKeys};

    const ONE: Realm<'static> = Realm { provider: &[1; 16], host: b"app.example.com" };
    const NOW: u64 = 1_800_000_000;

    fn keys() -> SessionKeys {
        SessionKeys::first([7; 32])
    }

    #[test]
    fn what_was_sealed_is_opened_for_its_purpose_provider_and_host_alone() {
        let keys = keys();
        let sealed = keys.seal(Purpose::Session, ONE, b"text".to_vec(), NOW, [3; 12]);
        let check = |purpose, realm: Realm<'_>, text: &str, expected: Option<&[u8]>| {
            assert_eq!(keys.open(purpose, realm, text.as_bytes()).as_deref(), expected, "{purpose:?} {realm:?} {text}");
        };
        check(Purpose::Session, ONE, &sealed, Some(b"text"));
        check(Purpose::Flows, ONE, &sealed, None);
        check(Purpose::State, ONE, &sealed, None);
        check(Purpose::Handover, ONE, &sealed, None);
        check(Purpose::Session, Realm { provider: &[2; 16], ..ONE }, &sealed, None);
        for host in ["", "example.com", "app.example.com.", "app.example.co", "www.example.com"] {
            check(Purpose::Session, Realm { host: host.as_bytes(), ..ONE }, &sealed, None);
        }
        for (position, byte) in sealed.bytes().enumerate() {
            let mut changed = sealed.clone().into_bytes();
            changed[position] = if byte == b'A' { b'B' } else { b'A' };
            check(Purpose::Session, ONE, std::str::from_utf8(&changed).expect("text"), None);
        }
        for cut in 0..sealed.len() {
            check(Purpose::Session, ONE, &sealed[..cut], None);
        }
        for wrong in ["", "AQ", "!!!!", &format!("{sealed}A"), &"A".repeat(5000)] {
            check(Purpose::Session, ONE, wrong, None);
        }
        assert!(SessionKeys::first([8; 32]).open(Purpose::Session, ONE, sealed.as_bytes()).is_none());
    }

    #[test]
    fn a_key_is_known_before_it_seals_and_after_its_successor() {
        let first = keys();
        assert!(first.is_next_due(NOW));
        let two = first.with_next(NOW, [9; 32]);
        assert!(!two.is_next_due(NOW));
        assert!(!two.is_next_due(NOW + KEY_PERIOD.as_secs() - 1));
        assert!(two.is_next_due(NOW + KEY_PERIOD.as_secs()));
        // A host that does not have the next one yet opens what is sealed with the first.
        let sealed = two.seal(Purpose::Session, ONE, b"a".to_vec(), NOW + KEY_AHEAD.as_secs() - 1, [1; 12]);
        assert!(first.open(Purpose::Session, ONE, sealed.as_bytes()).is_some());
        let sealed = two.seal(Purpose::Session, ONE, b"a".to_vec(), NOW + KEY_AHEAD.as_secs(), [1; 12]);
        assert!(first.open(Purpose::Session, ONE, sealed.as_bytes()).is_none());
        assert!(two.open(Purpose::Session, ONE, sealed.as_bytes()).is_some());
        // Every session that may have been sealed with a key is still opened, and then the key goes.
        let sealed = first.seal(Purpose::Session, ONE, b"a".to_vec(), NOW, [1; 12]);
        let (mut keys, mut now) = (two, NOW);
        while now < NOW + SESSION_LIFE_MAX.as_secs() {
            now += KEY_PERIOD.as_secs();
            keys = keys.with_next(now, [(now % 251) as u8; 32]);
        }
        assert!(keys.open(Purpose::Session, ONE, sealed.as_bytes()).is_some());
        let later = keys.with_next(now + 3 * KEY_PERIOD.as_secs(), [0; 32]);
        assert!(later.open(Purpose::Session, ONE, sealed.as_bytes()).is_none());
        assert!(later.0.len() <= 34, "{}", later.0.len());
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        let keys = keys().with_next(NOW, [9; 32]);
        let read = SessionKeys::read(keys.write().as_bytes()).expect("as written");
        assert_eq!(read.write(), keys.write());
        let check = |text: &str, expected: UnreadableSessionKeys| {
            assert_eq!(SessionKeys::read(text.as_bytes()).err(), Some(expected), "{text}");
        };
        check("", UnreadableSessionKeys::Damaged);
        check("tidegate oidc keys 2\n", UnreadableSessionKeys::OtherVersion);
        check("tidegate oidc keys 1\n", UnreadableSessionKeys::Damaged);
        check("tidegate oidc keys 1\n0 AAAA\n", UnreadableSessionKeys::Damaged);
        check(&keys.write()[..keys.write().len() - 5], UnreadableSessionKeys::Damaged);
    }
}
