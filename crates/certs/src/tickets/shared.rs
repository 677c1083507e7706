//! Keys of session tickets that hosts share through a storage: how they are kept there, which of them makes tickets at
//! a moment, and when the next one is due. Pure: bytes and `now` go in. Who reads and writes the storage is
//! `control::shared_tickets`; what a key does is in `tickets.rs`.
//!
//! ```text
//!            made            makes tickets                decrypts only        gone
//! key 1                 |------ 6 hours ------|------ 6 hours ------|
//! key 2            *····|·· 3 hours ahead ····|------ 6 hours ------|------ 6 hours ------|
//! ```
//! A host that is behind with reading, or whose clock is behind or ahead, has three hours before anybody's ticket is
//! strange to it. A storage that is away costs nothing for as long; from then on each host makes tickets with keys of
//! its own, and goes on decrypting with these.

use super::{ROTATION_SECS, STORED_KEY_LEN, TICKET_KEYS_MAX, TICKET_LIFETIME_SECS, TicketKey};
use crate::error::CertError;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// So long before it makes tickets a key is in storage.
pub const AHEAD_SECS: u64 = ROTATION_SECS / 2;

/// First byte of the value in storage; another layout gets another number.
const VERSION: u8 = 1;
/// The longest life of a key. One that is good for longer was made by nobody who knows these rules, and would be a
/// secret worth stealing for as long.
const LIFE_SECS_MAX: u64 = 4 * TICKET_LIFETIME_SECS;

/// As they are in storage at one moment, those that begin first in front. Every host has the same, apart from minutes.
#[derive(Clone)]
pub struct SharedKeys(Arc<[Arc<TicketKey>]>);

/// Why what is in storage are no keys. Nothing is written over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadableKeys {
    OtherVersion(u8),
    Damaged,
}

impl SharedKeys {
    /// What [`SharedKeys::write`] wrote, on this host or on another.
    pub fn read(bytes: &[u8]) -> Result<SharedKeys, UnreadableKeys> {
        let (version, rest) = bytes.split_first().ok_or(UnreadableKeys::Damaged)?;
        if *version != VERSION {
            return Err(UnreadableKeys::OtherVersion(*version));
        }
        let (keys, []) = rest.as_chunks::<STORED_KEY_LEN>() else { return Err(UnreadableKeys::Damaged) };
        if keys.len() > TICKET_KEYS_MAX {
            return Err(UnreadableKeys::Damaged);
        }
        let keys: Vec<_> = keys.iter().map(TicketKey::read).collect::<Option<_>>().ok_or(UnreadableKeys::Damaged)?;
        let is_sound =
            |key: &Arc<TicketKey>| key.end_secs.checked_sub(key.not_before_secs).is_some_and(|life| life <= LIFE_SECS_MAX);
        let is_once = |(place, key): (usize, &Arc<TicketKey>)| keys[..place].iter().all(|known| known.name != key.name);
        if !keys.iter().all(is_sound) || !keys.iter().enumerate().all(is_once) {
            return Err(UnreadableKeys::Damaged);
        }
        Ok(SharedKeys::of(keys))
    }

    pub fn write(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(1 + self.0.len() * STORED_KEY_LEN));
        bytes.push(VERSION);
        self.0.iter().for_each(|key| key.write_to(&mut bytes));
        bytes
    }

    /// When the next key is to begin, where it is time to make it.
    pub fn next_due(&self, now_secs: u64) -> Option<u64> {
        match self.used_until_secs(now_secs) {
            // The first one, or after a night without the storage: at once. Whoever reads it within the minute misses
            // next to nothing.
            None => Some(now_secs),
            Some(until) => (now_secs.saturating_add(AHEAD_SECS) >= until).then_some(until),
        }
    }

    /// The keys with one more that begins at that time, and without those whose time is over.
    pub fn with_next(&self, begin_secs: u64, now_secs: u64) -> Result<SharedKeys, CertError> {
        // Keys of a clock that is far ahead stay as long as there is room: a host whose own clock has stopped in 1970,
        // as before the first NTP answer, sees everybody's keys so, and must not take them away.
        let kept = self.0.iter().filter(|key| now_secs < key.end_secs).take(TICKET_KEYS_MAX - 1).cloned();
        Ok(SharedKeys::of(kept.chain([TicketKey::random(begin_secs)?]).collect()))
    }

    /// How long tickets are made with keys that are known now. `None`: no key is for this moment.
    pub fn used_until_secs(&self, now_secs: u64) -> Option<u64> {
        let first = self.in_use(now_secs)?.not_before_secs.saturating_add(ROTATION_SECS);
        // In order of their beginnings, so one that follows without a gap is looked at before one that follows it.
        Some(self.0.iter().fold(first, |until, key| {
            let follows = key.not_before_secs <= until;
            if follows { until.max(key.not_before_secs.saturating_add(ROTATION_SECS)) } else { until }
        }))
    }

    /// The key that makes tickets: the last one that has begun. Where this host's clock is behind the one that made
    /// them, that which begins next, since the others have it.
    pub(super) fn in_use(&self, now_secs: u64) -> Option<&Arc<TicketKey>> {
        let has_begun = |key: &&Arc<TicketKey>| key.not_before_secs <= now_secs;
        let begun = self.0.iter().rev().find(has_begun);
        let is_for_now = |key: &&Arc<TicketKey>| now_secs < key.not_before_secs.saturating_add(ROTATION_SECS).min(key.end_secs);
        begun.filter(is_for_now).or_else(|| {
            let next = self.0.iter().find(|key| !has_begun(key));
            next.filter(|key| key.not_before_secs - now_secs <= AHEAD_SECS)
        })
    }

    pub(super) fn keys(&self) -> &[Arc<TicketKey>] {
        &self.0
    }

    pub(super) fn of(mut keys: Vec<Arc<TicketKey>>) -> SharedKeys {
        keys.sort_by_key(|key| key.not_before_secs);
        SharedKeys(keys.into())
    }
}

/// Nothing was read yet.
impl Default for SharedKeys {
    fn default() -> Self {
        SharedKeys(Arc::new([]))
    }
}

impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedKeys").field("count", &self.0.len()).finish_non_exhaustive()
    }
}

impl fmt::Display for UnreadableKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnreadableKeys::OtherVersion(version) => {
                write!(f, "they are of form {version}, and this version knows form {VERSION}")
            }
            UnreadableKeys::Damaged => f.write_str("they are damaged"),
        }
    }
}

#[cfg(test)]
mod tests;
