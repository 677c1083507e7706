//! What servers of `forward-auth` have allowed lately, by a key of the configuration's choice. Of a worker, and
//! bounded.

use aws_lc_rs::digest::{Context, SHA256};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tidegate_access::Identity;

/// Of a worker, and together as long as this at most. Those asked for lately stay.
const REMEMBERED_MAX: usize = 8192;
const REMEMBERED_BYTES_MAX: usize = 4 << 20;
/// What an entry takes beside its texts.
const OVERHEAD_BYTES: usize = 200;

pub type KeyDigest = [u8; 32];

/// Of pieces, so that others with the same bytes at other ends are others.
pub(crate) fn digest(pieces: &[&[u8]]) -> KeyDigest {
    let mut context = Context::new(&SHA256);
    for piece in pieces {
        context.update(&(piece.len() as u64).to_be_bytes());
        context.update(piece);
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Name and value.
type ToldField = (Box<[u8]>, Box<[u8]>);

/// A good answer, as far as anything comes of it.
#[derive(Debug)]
pub struct Allowed {
    pub until: Instant,
    /// What the upstream is told.
    pub fields: Vec<ToldField>,
    pub identity: Option<Arc<Identity>>,
}

impl Allowed {
    fn bytes(&self) -> usize {
        let fields: usize = self.fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        OVERHEAD_BYTES + fields + self.identity.as_ref().map_or(0, |identity| identity.name.len())
    }
}

/// In two halves: when the younger is full, the elder is forgotten, and what was asked for lately has moved to the
/// younger by then.
#[derive(Debug, Default)]
pub struct AllowedRequests {
    young: HashMap<KeyDigest, Rc<Allowed>>,
    young_bytes: usize,
    old: HashMap<KeyDigest, Rc<Allowed>>,
}

impl AllowedRequests {
    pub fn get(&mut self, key: &KeyDigest, now: Instant) -> Option<Rc<Allowed>> {
        if let Some(allowed) = self.young.get(key) {
            return (now < allowed.until).then(|| allowed.clone());
        }
        let allowed = self.old.remove(key).filter(|allowed| now < allowed.until)?;
        self.add(*key, allowed.clone());
        Some(allowed)
    }

    pub fn add(&mut self, key: KeyDigest, allowed: Rc<Allowed>) {
        let bytes = allowed.bytes();
        if bytes > REMEMBERED_BYTES_MAX / 64 {
            return;
        }
        let is_full = self.young.len() >= REMEMBERED_MAX / 2 || self.young_bytes + bytes > REMEMBERED_BYTES_MAX / 2;
        if is_full {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        if let Some(before) = self.young.insert(key, allowed) {
            self.young_bytes -= before.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowed, AllowedRequests, REMEMBERED_BYTES_MAX, REMEMBERED_MAX, digest};
    use std::rc::Rc;
    use std::time::{Duration, Instant};

    fn allowed(until: Instant, bytes: usize) -> Rc<Allowed> {
        Rc::new(Allowed { until, fields: vec![(Box::from(*b"a"), vec![b'x'; bytes].into())], identity: None })
    }

    #[test]
    fn what_is_remembered_ends_and_is_known_by_its_key_alone() {
        let (now, mut requests) = (Instant::now(), AllowedRequests::default());
        let later = now + Duration::from_secs(10);
        requests.add(digest(&[b"a", b"b"]), allowed(later, 1));
        assert!(requests.get(&digest(&[b"a", b"b"]), now).is_some());
        for others in [&[&b"ab"[..]][..], &[b"", b"ab"], &[b"ab", b""], &[b"b", b"a"], &[b"a"], &[b"a", b"b", b""]] {
            assert!(requests.get(&digest(others), now).is_none(), "{others:?}");
        }
        assert!(requests.get(&digest(&[b"a", b"b"]), later).is_none());
    }

    #[test]
    fn number_and_length_are_bounded_and_who_comes_again_stays() {
        let check = |bytes: usize, entries: usize| {
            let (now, mut requests) = (Instant::now(), AllowedRequests::default());
            let until = now + Duration::from_secs(10);
            for number in 0..entries {
                requests.add(digest(&[&number.to_be_bytes()]), allowed(until, bytes));
                assert!(requests.get(&digest(&[&0_usize.to_be_bytes()]), now).is_some(), "after {number}");
            }
            let held = requests.young.len() + requests.old.len();
            assert!(held <= REMEMBERED_MAX && held * bytes <= REMEMBERED_BYTES_MAX, "{held} of {bytes} bytes");
            assert!(held < entries);
        };
        check(1, 3 * REMEMBERED_MAX);
        check(12_000, 1000);
        let mut requests = AllowedRequests::default();
        requests.add([0; 32], allowed(Instant::now(), REMEMBERED_BYTES_MAX));
        assert!(requests.young.is_empty(), "one alone does not push out the others");
    }
}
