//! Which of several pools a request goes to, by shares: a place in one space of numbers, cut into ranges in the order
//! written. A key has its place for ever, so a client stays where it is over restarts, and a share that grows takes
//! over only what lies beside it.

use crate::hash::mix;

/// Keeps the place of a key here apart from its place in the tables of servers: the clients of a small share would
/// otherwise all be those of a few servers.
const SALT: u64 = 0x7c1d_55a3_9e2b_f046;

/// Ranges by weight. One that has none of the weight has an empty range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// Where each range ends, of `total`.
    ends: Box<[u64]>,
    total: u64,
}

impl Shares {
    /// `None`: nothing has a weight.
    pub fn new(weights: impl IntoIterator<Item = u32>) -> Option<Shares> {
        let mut total = 0;
        let ends = weights.into_iter().map(|weight| {
            total += u64::from(weight);
            total
        });
        let ends: Box<[u64]> = ends.collect();
        (total > 0).then_some(Shares { ends, total })
    }

    /// The position of the range in which a key lies, by its [`hash_bytes`](crate::hash_bytes).
    pub fn of_key(&self, key_hash: u64) -> usize {
        self.at(mix(key_hash ^ SALT))
    }

    /// The position of the range in which a number lies. Uniform bits give each its share.
    pub fn at(&self, bits: u64) -> usize {
        let place = ((u128::from(bits) * u128::from(self.total)) >> 64) as u64;
        self.ends.partition_point(|end| *end <= place)
    }
}

#[cfg(test)]
mod tests {
    use super::Shares;
    use crate::{hash_bytes, mix};

    const KEYS: usize = 20_000;

    fn shares(weights: &[u32]) -> Shares {
        Shares::new(weights.iter().copied()).expect("some weight")
    }

    fn places(weights: &[u32]) -> Vec<usize> {
        let shares = shares(weights);
        (0..KEYS).map(|key| shares.of_key(hash_bytes(format!("session-{key}").as_bytes()))).collect()
    }

    #[test]
    fn each_gets_its_share_of_the_keys() {
        let check = |weights: &[u32]| {
            let total: u64 = weights.iter().copied().map(u64::from).sum();
            let places = places(weights);
            for (position, weight) in weights.iter().enumerate() {
                let seen = places.iter().filter(|place| **place == position).count() as f64 / KEYS as f64;
                let wanted = f64::from(*weight) / total as f64;
                assert!((seen - wanted).abs() < 0.012, "{position} of {weights:?} has {seen}");
                assert!(*weight > 0 || seen == 0.0, "nobody goes where there is no weight");
            }
        };
        check(&[1]);
        check(&[95, 5]);
        check(&[0, 1]);
        check(&[1, 0]);
        check(&[50, 0, 50]);
        check(&[1, 2, 3, 4]);
        check(&[999_999, 1]);
        check(&[u32::MAX, u32::MAX]);
    }

    #[test]
    fn as_few_as_possible_move_when_weights_change() {
        let check = |before: &[u32], after: &[u32], moved_max: f64| {
            let moved = places(before).iter().zip(places(after)).filter(|(before, after)| *before != after).count();
            assert!(moved as f64 / KEYS as f64 <= moved_max, "{moved} of {KEYS} moved from {before:?} to {after:?}");
        };
        check(&[95, 5], &[95, 5], 0.0);
        check(&[95, 5], &[190, 10], 0.0);
        check(&[95, 5], &[90, 10], 0.06);
        check(&[95, 5], &[100, 0], 0.06);
        check(&[95, 5], &[95, 6], 0.015);
    }

    /// Places are a promise: a release that moved clients would end their sessions.
    #[test]
    fn keys_have_their_place_for_ever() {
        let shares = shares(&[50, 30, 20]);
        let seen: Vec<usize> = (0..12).map(|key: u32| shares.of_key(hash_bytes(&key.to_be_bytes()))).collect();
        assert_eq!(seen, EXPECTED);
    }

    const EXPECTED: [usize; 12] = [2, 0, 1, 1, 1, 2, 2, 1, 0, 0, 0, 0];

    #[test]
    fn the_place_says_nothing_about_the_server() {
        // The keys of a share of one percent, over ten servers by the same hash.
        let shares = shares(&[99, 1]);
        let hashes = (0..KEYS * 10).map(|key| hash_bytes(format!("{key}").as_bytes()));
        let mut servers = [0; 10];
        hashes.filter(|hash| shares.of_key(*hash) == 1).for_each(|hash| servers[(hash % 10) as usize] += 1);
        assert!(servers.iter().all(|count| (130..270).contains(count)), "{servers:?}");
        assert_ne!(mix(1), mix(1 ^ super::SALT));
    }

    #[test]
    fn without_a_weight_there_are_no_shares() {
        assert_eq!(Shares::new([]), None);
        assert_eq!(Shares::new([0, 0]), None);
        let ends = shares(&[1, 1]);
        assert_eq!((ends.at(0), ends.at(u64::MAX / 2), ends.at(u64::MAX / 2 + 1), ends.at(u64::MAX)), (0, 0, 1, 1));
    }
}
