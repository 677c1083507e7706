//! Sessions that the server remembers: for clients that cannot keep them themselves, of TLS 1.2 without tickets (RFC
//! 5246 section 7.4.1.2), and for early data, where each may be used once. Bounded in number, bytes and time whoever
//! comes. Who is given a configuration with it is decided in `server.rs`.

use aws_lc_rs::constant_time;
use rustls::server::StoresServerSessions;
use rustls_pki_types::UnixTime;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// A session with its client's certificates is some KiB, one without some hundred bytes.
pub const SESSION_BYTES_MAX: usize = 16 << 10;
/// Old clients come back within seconds, for the next picture of a page; secrets are not kept for those that do not
/// come back.
pub const SESSION_LIFETIME_SECS: u64 = 3600;

/// Enough that two workers seldom meet.
const SHARDS: usize = 16;
/// Times the shards: sessions of all sites together.
const SESSIONS_OF_A_SHARD_MAX: usize = 1024;
/// Of sites with early data, where every client of TLS 1.3 has two of some hundred bytes.
const EARLY_DATA_SESSIONS_OF_A_SHARD_MAX: usize = 4096;
const SHARD_BYTES_MAX: usize = 1 << 20;
/// What rustls makes; longer ones are not ours.
const ID_BYTES_MAX: usize = 32;

/// The sessions of the process.
pub struct SessionCache {
    shards: [Mutex<Shard>; SHARDS],
    sessions_of_a_shard_max: usize,
}

impl Default for SessionCache {
    fn default() -> SessionCache {
        SessionCache { shards: Default::default(), sessions_of_a_shard_max: SESSIONS_OF_A_SHARD_MAX }
    }
}

#[derive(Default)]
struct Shard {
    by_id: HashMap<Vec<u8>, Session>,
    /// Oldest first; a session that was taken out leaves its place here until its turn comes.
    order: VecDeque<Vec<u8>>,
    bytes: usize,
}

struct Session {
    value: Zeroizing<Vec<u8>>,
    policy: Option<[u8; 32]>,
    put_at_secs: u64,
}

impl SessionCache {
    pub fn for_early_data() -> SessionCache {
        SessionCache { sessions_of_a_shard_max: EARLY_DATA_SESSIONS_OF_A_SHARD_MAX, ..SessionCache::default() }
    }

    /// For sites without a policy of their own.
    pub fn shared(self: &Arc<Self>) -> Arc<dyn StoresServerSessions> {
        Arc::new(Sessions { cache: self.clone(), policy: None })
    }

    /// Sessions that are found under the same policy only, as tickets are.
    pub fn for_policy(self: &Arc<Self>, policy: &[u8; 32]) -> Arc<dyn StoresServerSessions> {
        Arc::new(Sessions { cache: self.clone(), policy: Some(*policy) })
    }

    fn put(&self, id: Vec<u8>, session: Session) -> bool {
        if id.len() > ID_BYTES_MAX || session.value.len() > SESSION_BYTES_MAX {
            return false;
        }
        let mut shard = self.shard(&id);
        shard.bytes += session.value.len();
        if let Some(before) = shard.by_id.insert(id.clone(), session) {
            shard.bytes -= before.value.len();
        } else {
            shard.order.push_back(id);
        }
        while shard.order.len() > self.sessions_of_a_shard_max || shard.bytes > SHARD_BYTES_MAX {
            let Some(oldest) = shard.order.pop_front() else { break };
            shard.remove(&oldest);
        }
        true
    }

    fn get(&self, id: &[u8], policy: Option<&[u8; 32]>, now_secs: u64) -> Option<Vec<u8>> {
        let shard = self.shard(id);
        let session = shard.by_id.get(id).filter(|session| session.is_for(policy, now_secs))?;
        Some(session.value.to_vec())
    }

    /// As [`get`](Self::get), once: whoever brings the same session again gets a full handshake.
    fn take(&self, id: &[u8], policy: Option<&[u8; 32]>, now_secs: u64) -> Option<Vec<u8>> {
        let mut shard = self.shard(id);
        // Under another policy it is not even taken away from those it belongs to.
        shard.by_id.get(id).filter(|session| session.is_for(policy, now_secs))?;
        shard.remove(id).map(|session| session.value.to_vec())
    }

    fn shard(&self, id: &[u8]) -> MutexGuard<'_, Shard> {
        // Identifiers that we made are random in every byte; what clients invent is only looked for.
        let place = id.last().map_or(0, |byte| usize::from(*byte) % SHARDS);
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn remove(&mut self, id: &[u8]) -> Option<Session> {
        let session = self.by_id.remove(id)?;
        self.bytes -= session.value.len();
        Some(session)
    }
}

impl Session {
    fn is_for(&self, policy: Option<&[u8; 32]>, now_secs: u64) -> bool {
        let is_same = match (&self.policy, policy) {
            (None, None) => true,
            (Some(own), Some(asked)) => constant_time::verify_slices_are_equal(own, asked).is_ok(),
            (None, Some(_)) | (Some(_), None) => false,
        };
        is_same && now_secs < self.put_at_secs.saturating_add(SESSION_LIFETIME_SECS)
    }
}

/// The sessions of one policy.
struct Sessions {
    cache: Arc<SessionCache>,
    policy: Option<[u8; 32]>,
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let put_at_secs = UnixTime::now().as_secs();
        self.cache.put(key, Session { value: Zeroizing::new(value), policy: self.policy, put_at_secs })
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(key, self.policy.as_ref(), UnixTime::now().as_secs())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.take(key, self.policy.as_ref(), UnixTime::now().as_secs())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("policy", &self.policy.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{SESSION_BYTES_MAX, SESSION_LIFETIME_SECS, SESSIONS_OF_A_SHARD_MAX, SHARD_BYTES_MAX, Session, SessionCache};
    use zeroize::Zeroizing;

    const NOW: u64 = 1_800_000_000;

    fn session(bytes: usize, policy: Option<[u8; 32]>) -> Session {
        Session { value: Zeroizing::new(vec![7; bytes]), policy, put_at_secs: NOW }
    }

    /// All in one shard.
    fn id(number: usize) -> Vec<u8> {
        let mut id = number.to_be_bytes().to_vec();
        id.push(0);
        id
    }

    #[test]
    fn a_session_is_found_under_its_own_policy_and_in_its_time() {
        let policies = [None, Some([1; 32]), Some([2; 32])];
        for put in policies {
            for asked in policies {
                let cache = SessionCache::default();
                assert!(cache.put(id(1), session(100, put)));
                let is_found = |now| cache.get(&id(1), asked.as_ref(), now).is_some();
                assert_eq!(is_found(NOW), put == asked, "put under {put:?}, asked under {asked:?}");
                assert!(!is_found(NOW + SESSION_LIFETIME_SECS));
                assert_eq!(cache.take(&id(1), asked.as_ref(), NOW).is_some(), put == asked);
                assert_eq!(
                    cache.get(&id(1), put.as_ref(), NOW).is_some(),
                    put != asked,
                    "taken once, and by its own policy only"
                );
            }
        }
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_or_they_are_too_large() {
        let check = |bytes: usize, expected: usize| {
            let cache = SessionCache::default();
            for number in 0..3 * SESSIONS_OF_A_SHARD_MAX {
                assert!(cache.put(id(number), session(bytes, None)));
                if number % 3 == 0 {
                    assert!(cache.take(&id(number), None, NOW).is_some());
                }
            }
            let last = 3 * SESSIONS_OF_A_SHARD_MAX - 1;
            assert!(cache.get(&id(last), None, NOW).is_some() && cache.get(&id(1), None, NOW).is_none());
            let shard = cache.shard(&id(0));
            assert_eq!(shard.by_id.len(), expected);
            assert_eq!(shard.bytes, expected * bytes);
            assert!(shard.order.len() <= SESSIONS_OF_A_SHARD_MAX && shard.bytes <= SHARD_BYTES_MAX);
        };
        check(100, SESSIONS_OF_A_SHARD_MAX - SESSIONS_OF_A_SHARD_MAX.div_ceil(3) + 1);
        check(SESSION_BYTES_MAX, SHARD_BYTES_MAX / SESSION_BYTES_MAX);
        let cache = SessionCache::default();
        assert!(!cache.put(id(1), session(SESSION_BYTES_MAX + 1, None)), "nobody's session fills the table");
        assert!(!cache.put(vec![0; 33], session(1, None)));
    }
}
