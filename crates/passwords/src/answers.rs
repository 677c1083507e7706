//! Answers that are remembered, so that a hash is not verified for each request: good ones for as long as a visit
//! lasts, refusals for a moment. Their bounds are apart: whoever guesses passwords pushes out other wrong guesses, and
//! never somebody who is in.

use crate::users::Found;
use aws_lc_rs::{hmac, rand};
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

/// How long a password that fitted is taken without verifying it again. A changed hash is another question, and not
/// answered from here.
pub const ANSWER_LIFE: Duration = Duration::from_secs(600);
/// How long one that did not fit is refused without verifying it again: for programs that keep trying with an old one.
pub const REFUSED_ANSWER_LIFE: Duration = Duration::from_secs(30);
/// Of each table. An entry takes some 100 bytes.
pub const GOOD_ANSWERS_MAX: usize = 65_536;
const REFUSED_ANSWERS_MAX: usize = 8192;

/// Stands for a question: user, password, and the hash that they are verified against. Says nothing about any of them
/// to who lacks the process's key.
pub type Key = [u8; 32];

/// Makes those, with a key that only this process has.
pub struct Keyer(hmac::Key);

impl Keyer {
    /// `None`: the system has no randomness, and nothing may be remembered.
    pub fn random() -> Option<Keyer> {
        hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new()).ok().map(Keyer)
    }

    /// What [`Users::find`](crate::Users::find) wants: the same for the same name, and unknown outside.
    pub fn draw(&self, name: &[u8]) -> u64 {
        let tag = self.sign(b"draw", &[name]);
        u64::from_be_bytes(tag[..8].try_into().expect("a signature is longer"))
    }

    pub fn key(&self, name: &[u8], password: &[u8], found: &Found<'_>) -> Key {
        let purpose: &[u8] = if found.user.is_some() { b"known" } else { b"nobody" };
        self.sign(purpose, &[name, password, found.hash.reveal().as_bytes()])
    }

    fn sign(&self, purpose: &[u8], parts: &[&[u8]]) -> Key {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(purpose);
        for part in parts {
            // With their lengths, so that no two rows of parts are one text.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

impl fmt::Debug for Keyer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyer")
    }
}

/// What was answered lately.
#[derive(Debug, Default)]
pub struct Answers {
    good: Recent,
    refused: Recent,
}

impl Answers {
    pub fn get(&mut self, key: &Key, now: Instant) -> Option<bool> {
        if self.good.has(key, now, GOOD_ANSWERS_MAX) {
            return Some(true);
        }
        self.refused.has(key, now, REFUSED_ANSWERS_MAX).then_some(false)
    }

    pub fn add(&mut self, key: Key, is_good: bool, now: Instant) {
        if is_good {
            self.good.add(key, now + ANSWER_LIFE, GOOD_ANSWERS_MAX);
        } else {
            self.refused.add(key, now + REFUSED_ANSWER_LIFE, REFUSED_ANSWERS_MAX);
        }
    }
}

/// Keys with the moment at which they end. In two halves: when the younger is full, the elder is forgotten, and who was
/// asked for lately has moved to the younger by then.
#[derive(Debug, Default)]
struct Recent {
    young: HashMap<Key, Instant>,
    old: HashMap<Key, Instant>,
}

impl Recent {
    fn has(&mut self, key: &Key, now: Instant, keys_max: usize) -> bool {
        if let Some(until) = self.young.get(key) {
            return now < *until;
        }
        let Some(until) = self.old.remove(key) else { return false };
        if now < until {
            self.add(*key, until, keys_max);
        }
        now < until
    }

    fn add(&mut self, key: Key, until: Instant, keys_max: usize) {
        if self.young.len() >= keys_max / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, until);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_LIFE, Answers, Key, Keyer, REFUSED_ANSWER_LIFE, REFUSED_ANSWERS_MAX};
    use crate::users::Users;
    use std::time::{Duration, Instant};

    const A: &str = "$2y$04$abcdefghijklmnopqrstuuBAKPJ4WMJ80HCOjzIoIrpCb2b5Pk1Iy";
    const B: &str = "$2y$05$abcdefghijklmnopqrstuuBAKPJ4WMJ80HCOjzIoIrpCb2b5Pk1Iy";

    fn key(number: usize) -> Key {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    #[test]
    fn answers_end() {
        let now = Instant::now();
        let check = |is_good: bool, life: Duration| {
            let mut answers = Answers::default();
            answers.add(key(1), is_good, now);
            assert_eq!(answers.get(&key(1), now), Some(is_good));
            assert_eq!(answers.get(&key(1), now + life.saturating_sub(Duration::from_millis(1))), Some(is_good));
            assert_eq!(answers.get(&key(1), now + life), None);
            assert_eq!(answers.get(&key(2), now), None);
        };
        check(true, ANSWER_LIFE);
        check(false, REFUSED_ANSWER_LIFE);
    }

    #[test]
    fn wrong_guesses_are_bounded_and_push_out_nobody_who_is_in() {
        let now = Instant::now();
        let mut answers = Answers::default();
        answers.add(key(0), true, now);
        for number in 1..=3 * REFUSED_ANSWERS_MAX {
            answers.add(key(number), false, now);
        }
        assert!(answers.refused.len() <= REFUSED_ANSWERS_MAX);
        assert_eq!(answers.get(&key(0), now), Some(true));
        assert_eq!(answers.get(&key(3 * REFUSED_ANSWERS_MAX), now), Some(false));
    }

    #[test]
    fn who_is_asked_for_stays() {
        let now = Instant::now();
        let mut answers = Answers::default();
        answers.add(key(0), false, now);
        for number in 1..=4 * REFUSED_ANSWERS_MAX {
            answers.add(key(number), false, now);
            assert_eq!(answers.get(&key(0), now), Some(false), "after {number}");
        }
        assert_eq!(answers.get(&key(1), now), None);
    }

    #[test]
    fn each_question_has_its_own_key() {
        let keyer = Keyer::random().expect("randomness");
        let before = Users::listed([("alice", A), ("ali", A)]).expect("a list").expect("users");
        let after = Users::listed([("alice", B)]).expect("a list").expect("users");
        let key = |users: &Users, name: &str, password: &str| {
            keyer.key(name.as_bytes(), password.as_bytes(), &users.find(name.as_bytes(), keyer.draw(name.as_bytes())))
        };
        let usual = key(&before, "alice", "secret");
        assert_eq!(usual, key(&before, "alice", "secret"));
        let others = [
            key(&before, "alice", "Secret"),
            key(&before, "ali", "cesecret"),
            key(&before, "ali", "secret"),
            // The hash has changed: what was answered before is forgotten.
            key(&after, "alice", "secret"),
            // Nobody has the name, and then somebody does.
            key(&before, "carol", "secret"),
            key(&Users::listed([("carol", A)]).expect("a list").expect("users"), "carol", "secret"),
        ];
        for (position, other) in others.iter().enumerate() {
            assert_ne!(*other, usual, "{position}");
            assert!(!others[..position].contains(other), "{position}");
        }
        let elsewhere = Keyer::random().expect("randomness");
        assert_ne!(elsewhere.key(b"alice", b"secret", &before.find(b"alice", 0)), usual);
    }
}
