//! Log-ins that fail, by the address they come from and the name that is tried: who guesses is held up, and nobody
//! else. Never by the name alone, since whoever knows a name could keep its owner out then. Who has logged in from an
//! address before is not held up by what others of it do to other names.
//!
//! A guess is counted before it is verified and given back when it was right, so that a hundred at once are a hundred.
//! The same guess again tells nobody anything, and is not counted: programs keep trying with an old password, and
//! browsers ask for thirty parts of a page at once.
//!
//! When there are more keys than memory, those that were not used lately are forgotten. `rates` keeps their counts and
//! lets newcomers pay for them; here that would let who has many addresses keep everybody out. Who has them gets more
//! guesses anyway.

use crate::key::{Key, KeyHasher};
use crate::quota::Quota;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Of each table, some 50 bytes each.
const KEYS_MAX: usize = 1 << 16;
/// What a provider gives to one customer.
const IPV6_PREFIX: u8 = 64;
/// How long somebody is known who has logged in.
const KNOWN: Duration = Duration::from_secs(86_400);
/// As many failures for one name as for an address in all, times this.
const NAMES_OF_AN_ADDRESS: u32 = 5;

/// How many may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureQuotas {
    /// Of an address, for one name.
    name: Quota,
    /// Of an address, whatever the names.
    address: Quota,
}

impl FailureQuotas {
    /// So many for each name, and five times as many for an address in all.
    pub fn by_name(count: u32, period: Duration) -> FailureQuotas {
        let all = count.saturating_mul(NAMES_OF_AN_ADDRESS);
        FailureQuotas { name: Quota::new(count, period, count), address: Quota::new(all, period, all) }
    }

    /// So many for an address, of log-ins that have no name before they succeed.
    pub fn by_address(count: u32, period: Duration) -> FailureQuotas {
        let quota = Quota::new(count, period, count);
        FailureQuotas { name: quota, address: quota }
    }
}

/// Counts of the whole process.
#[derive(Debug, Default)]
pub struct Failures {
    counts: Mutex<Halves<Count>>,
    /// Until when addresses and names are known that have logged in, in nanoseconds.
    known: Mutex<Halves<u64>>,
    hasher: KeyHasher,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// As `Quota::take` has it.
    full_at_ns: u64,
    /// What was tried last.
    guess: u64,
}

impl Count {
    /// The guess before, where this one counts. A quota that is used up holds up the last guess again as well.
    fn take(&mut self, guess: u64, quota: &Quota, now_ns: u64) -> Result<Option<u64>, Duration> {
        let after = quota.take(self.full_at_ns, 1, now_ns)?;
        if self.guess == guess && self.full_at_ns > now_ns {
            return Ok(None);
        }
        let before = std::mem::replace(self, Count { full_at_ns: after, guess });
        Ok(Some(before.guess))
    }
}

/// One log-in that is tried, by the keys that it is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    quotas: FailureQuotas,
    address: u64,
    /// The address and the name.
    name: u64,
    guess: u64,
    /// Of what was taken for it: the guess before.
    of_address: Option<u64>,
    of_name: Option<u64>,
}

impl Failures {
    /// A name with a secret that is tried at a place, such as a site: each place has counts of its own.
    pub fn attempt(&self, quotas: FailureQuotas, place: &str, client: IpAddr, (name, secret): (&[u8], &[u8])) -> Attempt {
        let key = |parts: &[&[u8]]| {
            let mut key: Key = self.hasher.begin();
            key.address(client, IPV6_PREFIX);
            parts.iter().for_each(|part| key.text(part));
            key.finish()
        };
        let place = place.as_bytes();
        let (address, name, guess) = (key(&[place]), key(&[place, name]), key(&[place, name, secret]));
        Attempt { quotas, address, name, guess, of_address: None, of_name: None }
    }

    /// How long the name is not to be tried from there, right or wrong.
    pub fn wait_of_name(&self, attempt: &Attempt, now: Duration) -> Option<Duration> {
        let now_ns = nanoseconds(now);
        let mut counts = lock(&self.counts);
        let count = counts.find(attempt.name)?;
        attempt.quotas.name.take(count.full_at_ns, 1, now_ns).err()
    }

    /// Takes the attempt for a failure, until it is given back. Otherwise how long to wait; then nothing was taken.
    pub fn count(&self, attempt: &mut Attempt, now: Duration) -> Result<(), Duration> {
        let now_ns = nanoseconds(now);
        let is_known = lock(&self.known).find(attempt.name).is_some_and(|until| *until > now_ns);
        let mut counts = lock(&self.counts);
        attempt.of_name = counts.find_or_add(attempt.name).take(attempt.guess, &attempt.quotas.name, now_ns)?;
        if is_known {
            return Ok(());
        }
        match counts.find_or_add(attempt.address).take(attempt.guess, &attempt.quotas.address, now_ns) {
            Ok(before) => attempt.of_address = before,
            Err(wait) => {
                drop(counts);
                self.give_back(attempt, now);
                return Err(wait);
            }
        }
        Ok(())
    }

    /// Counts a failure of who has no name; otherwise how long to wait.
    pub fn count_address(&self, attempt: &Attempt, now: Duration) -> Result<(), Duration> {
        let now_ns = nanoseconds(now);
        let mut counts = lock(&self.counts);
        counts.find_or_add(attempt.address).take(attempt.guess, &attempt.quotas.address, now_ns).map(|_| ())
    }

    /// Nothing was learnt by it, or it was right.
    pub fn give_back(&self, attempt: &mut Attempt, now: Duration) {
        let now_ns = nanoseconds(now);
        let mut counts = lock(&self.counts);
        let taken = [
            (attempt.of_name.take(), attempt.name, attempt.quotas.name),
            (attempt.of_address.take(), attempt.address, attempt.quotas.address),
        ];
        for (before, key, quota) in taken {
            let Some((before, count)) = before.zip(counts.find(key)) else { continue };
            count.full_at_ns = quota.give_back(count.full_at_ns, now_ns);
            if count.guess == attempt.guess {
                count.guess = before;
            }
        }
    }

    /// Somebody of this name has logged in from there.
    pub fn note_success(&self, attempt: &Attempt, now: Duration) {
        let until = nanoseconds(now + KNOWN);
        *lock(&self.known).find_or_add(attempt.name) = until;
    }
}

/// A panic while it is held leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A bounded table: when the younger half is full, the elder is forgotten, and what was used lately has moved to the
/// younger by then.
#[derive(Debug, Default)]
struct Halves<V> {
    young: HashMap<u64, V>,
    old: HashMap<u64, V>,
}

impl<V: Default> Halves<V> {
    fn find(&mut self, key: u64) -> Option<&mut V> {
        if let Some(value) = self.old.remove(&key) {
            self.add(key, value);
        }
        self.young.get_mut(&key)
    }

    fn find_or_add(&mut self, key: u64) -> &mut V {
        if self.find(key).is_none() {
            self.add(key, V::default());
        }
        self.young.entry(key).or_default()
    }

    fn add(&mut self, key: u64, value: V) {
        if self.young.len() >= KEYS_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::{FailureQuotas, Failures, KEYS_MAX};
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    const NOW: Duration = Duration::from_secs(1000);
    const FROM: &str = "192.0.2.1";

    fn quotas() -> FailureQuotas {
        FailureQuotas::by_name(3, Duration::from_secs(300))
    }

    struct Door(Failures);

    impl Door {
        /// Whether a wrong guess was let through, to be verified.
        fn guess(&self, from: &str, name: &str, secret: &str, now: Duration) -> Result<(), u64> {
            let client: IpAddr = from.parse().expect("an address");
            let mut attempt = self.0.attempt(quotas(), "site", client, (name.as_bytes(), secret.as_bytes()));
            self.0.count(&mut attempt, now).map_err(|wait| wait.as_secs())
        }

        fn log_in(&self, from: &str, name: &str, now: Duration) -> bool {
            let client: IpAddr = from.parse().expect("an address");
            let mut attempt = self.0.attempt(quotas(), "site", client, (name.as_bytes(), b"right"));
            if self.0.count(&mut attempt, now).is_err() {
                return false;
            }
            self.0.give_back(&mut attempt, now);
            self.0.note_success(&attempt, now);
            true
        }
    }

    #[test]
    fn who_guesses_is_held_up_and_may_go_on_later() {
        let door = Door(Failures::default());
        for secret in ["a", "b", "c"] {
            assert_eq!(door.guess(FROM, "alice", secret, NOW), Ok(()));
        }
        assert_eq!(door.guess(FROM, "alice", "d", NOW), Err(100));
        assert!(!door.log_in(FROM, "alice", NOW), "a right one would tell who guesses on that it was");
        assert_eq!(door.guess(FROM, "alice", "d", NOW + Duration::from_secs(100)), Ok(()));
        assert_eq!(door.guess(FROM, "alice", "e", NOW + Duration::from_secs(100)), Err(100));
        // The owner of the name has another address, and so has another name.
        assert!(door.log_in("192.0.2.2", "alice", NOW));
        assert!(door.log_in(FROM, "bob", NOW));
    }

    #[test]
    fn an_address_is_held_up_whatever_the_names_but_for_who_is_known_there() {
        let door = Door(Failures::default());
        assert!(door.log_in(FROM, "alice", NOW));
        for name in 0..15 {
            assert_eq!(door.guess(FROM, &name.to_string(), "a", NOW), Ok(()), "{name}");
        }
        assert_eq!(door.guess(FROM, "bob", "a", NOW), Err(20));
        assert!(!door.log_in(FROM, "bob", NOW));
        assert!(door.log_in(FROM, "alice", NOW));
        assert!(door.log_in("192.0.2.2", "bob", NOW));
    }

    #[test]
    fn right_ones_and_the_same_again_do_not_count() {
        let door = Door(Failures::default());
        for _ in 0..100 {
            assert!(door.log_in(FROM, "alice", NOW));
            assert_eq!(door.guess(FROM, "alice", "old", NOW), Ok(()));
        }
        let door = Door(Failures::default());
        for _ in 0..100 {
            assert_eq!(door.guess(FROM, "alice", "old", NOW), Ok(()));
        }
        assert_eq!(door.guess(FROM, "alice", "b", NOW), Ok(()));
        assert_eq!(door.guess(FROM, "alice", "c", NOW), Ok(()));
        assert!(door.guess(FROM, "alice", "c", NOW).is_err(), "three were counted");
    }

    #[test]
    fn networks_of_ipv6_and_places_are_told_apart() {
        let door = Door(Failures::default());
        for secret in 0..3 {
            let from = format!("2001:db8:0:1::{secret}");
            assert_eq!(door.guess(&from, "alice", &secret.to_string(), NOW), Ok(()));
        }
        assert!(door.guess("2001:db8:0:1:ffff::1", "alice", "d", NOW).is_err());
        assert!(door.guess("2001:db8:0:2::1", "alice", "d", NOW).is_ok());
        let client = "2001:db8:0:1::1".parse().expect("an address");
        let mut elsewhere = door.0.attempt(quotas(), "other", client, (b"alice", b"d"));
        assert_eq!(door.0.count(&mut elsewhere, NOW), Ok(()));
    }

    #[test]
    fn many_addresses_keep_nobody_out() {
        let door = Door(Failures::default());
        for number in 0..(KEYS_MAX + KEYS_MAX / 2) as u32 {
            let from = IpAddr::V4(Ipv4Addr::from_bits(number)).to_string();
            for secret in ["a", "b", "c"] {
                let _ = door.guess(&from, "alice", secret, NOW);
            }
        }
        let counts = door.0.counts.lock().expect("no panic");
        assert!(counts.young.len() + counts.old.len() <= KEYS_MAX);
        drop(counts);
        assert!(door.log_in("203.0.113.1", "alice", NOW));
    }
}
