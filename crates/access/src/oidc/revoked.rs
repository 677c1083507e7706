//! Sessions that are over before their time: one of the provider, one of ours, or all that somebody had until then.
//! Each stands here until the last session that it may mean has ended by itself, and every host has the same list.

use super::ProviderId;
use super::parts::digest_of;
use std::collections::HashMap;
use std::fmt::Write as _;
use thiserror::Error;

/// What fits into one value of a storage, twice as long as is needed for it.
pub const REVOKED_MAX: usize = 8000;
const FIRST_LINE: &str = "tidegate oidc revoked 1";

/// Why a kept list cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RevokedFault {
    #[error("it was written by another version of Tidegate")]
    OtherVersion,
    #[error("it is damaged")]
    Damaged,
}

/// What is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revocation {
    pub mark: [u8; 16],
    /// Sessions that began until then, in seconds of Unix time.
    pub began_until: u64,
    /// Every one of them has ended by then.
    pub ends: u64,
}

impl Revocation {
    /// By which a session of the provider is known (`sid`).
    pub fn mark_of_session(provider: &ProviderId, session: &str) -> [u8; 16] {
        mark(provider, "sid", session)
    }

    /// By which somebody is known (`sub`).
    pub fn mark_of_subject(provider: &ProviderId, subject: &str) -> [u8; 16] {
        mark(provider, "sub", subject)
    }

    /// By which a message of the provider is known (`jti`), so that nobody sends it again. No session has this mark.
    pub fn mark_of_message(provider: &ProviderId, name: &str) -> [u8; 16] {
        mark(provider, "jti", name)
    }
}

fn mark(provider: &ProviderId, kind: &str, name: &str) -> [u8; 16] {
    let mut hex = String::with_capacity(2 * provider.len());
    for byte in provider {
        let _ = write!(hex, "{byte:02x}");
    }
    digest_of([hex.as_str(), kind, name])
}

/// All that are over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revoked(HashMap<[u8; 16], (u64, u64)>);

impl Revoked {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a session with such a mark that began then is over.
    pub fn has(&self, mark: &[u8; 16], began: u64) -> bool {
        self.0.get(mark).is_some_and(|(until, _)| began <= *until)
    }

    /// Whether it stands here, whatever it is of.
    pub fn contains(&self, mark: &[u8; 16]) -> bool {
        self.0.contains_key(mark)
    }

    /// Adds one, and forgets those whose time is over. False: there are too many.
    pub fn add(&mut self, revocation: Revocation, now: u64) -> bool {
        self.0.retain(|_, (_, ends)| *ends > now);
        let Revocation { mark, began_until, ends } = revocation;
        if self.0.len() >= REVOKED_MAX && !self.0.contains_key(&mark) {
            return false;
        }
        let known = self.0.entry(mark).or_insert((0, 0));
        *known = (known.0.max(began_until), known.1.max(ends));
        true
    }

    pub fn write(&self) -> String {
        let mut text = String::with_capacity(FIRST_LINE.len() + 1 + 60 * self.0.len());
        text.push_str(FIRST_LINE);
        text.push('\n');
        let mut sorted: Vec<_> = self.0.iter().collect();
        sorted.sort_unstable();
        for (mark, (until, ends)) in sorted {
            let _ = writeln!(text, "{:032x} {until} {ends}", u128::from_be_bytes(*mark));
        }
        text
    }

    pub fn read(bytes: &[u8]) -> Result<Revoked, RevokedFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| RevokedFault::Damaged)?;
        let mut lines = text.lines();
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(other) if other.starts_with("tidegate oidc revoked ") => return Err(RevokedFault::OtherVersion),
            Some(_) | None => return Err(RevokedFault::Damaged),
        }
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let mark = u128::from_str_radix(words.next()?, 16).ok()?.to_be_bytes();
            Some((mark, (words.next()?.parse().ok()?, words.next()?.parse().ok()?)))
        };
        let entries = lines.map(entry).collect::<Option<HashMap<_, _>>>().ok_or(RevokedFault::Damaged)?;
        if entries.len() > REVOKED_MAX { Err(RevokedFault::Damaged) } else { Ok(Revoked(entries)) }
    }
}

#[cfg(test)]
mod tests {
    use super::{REVOKED_MAX, Revocation, Revoked, RevokedFault};

    #[test]
    fn what_is_over_stays_so_until_its_end_and_what_began_later_is_not() {
        let provider = [1; 16];
        let mark = Revocation::mark_of_subject(&provider, "alice");
        assert_ne!(mark, Revocation::mark_of_session(&provider, "alice"));
        assert_ne!(mark, Revocation::mark_of_subject(&[2; 16], "alice"));
        let mut revoked = Revoked::default();
        assert!(revoked.add(Revocation { mark, began_until: 100, ends: 200 }, 100));
        let check = |revoked: &Revoked, began: u64, expected: bool| assert_eq!(revoked.has(&mark, began), expected, "{began}");
        check(&revoked, 50, true);
        check(&revoked, 100, true);
        check(&revoked, 101, false);
        assert!(revoked.add(Revocation { mark, began_until: 90, ends: 150 }, 110));
        check(&revoked, 100, true);
        let read = Revoked::read(revoked.write().as_bytes()).expect("as written");
        assert_eq!(read, revoked);
        assert!(revoked.add(Revocation { mark: [9; 16], began_until: 1, ends: 300 }, 200));
        check(&revoked, 50, false);
        assert_eq!(revoked.len(), 1);
    }

    #[test]
    fn there_are_no_more_than_fit() {
        let mut revoked = Revoked::default();
        for number in 0..REVOKED_MAX as u128 {
            assert!(revoked.add(Revocation { mark: number.to_be_bytes(), began_until: u64::MAX, ends: 4_000_000_000 }, 1));
        }
        let last = Revocation { mark: [0xff; 16], began_until: 1, ends: 4_000_000_000 };
        assert!(!revoked.add(last, 1));
        assert!(revoked.write().len() < 1024 * 1024);
        assert!(revoked.add(last, 4_000_000_000));
        assert_eq!(Revoked::read(b""), Err(RevokedFault::Damaged));
        assert_eq!(Revoked::read(b"tidegate oidc revoked 2\n"), Err(RevokedFault::OtherVersion));
        assert_eq!(Revoked::read(b"tidegate oidc revoked 1\nxyz 1 2\n"), Err(RevokedFault::Damaged));
    }
}
