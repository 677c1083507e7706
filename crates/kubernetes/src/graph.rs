//! Who depends on what: for each thing that is referred to, the Ingresses that do.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_cluster::Key;

#[derive(Debug)]
pub struct Users<T> {
    of: BTreeMap<T, BTreeSet<Key>>,
}

/// What came of other references of one user.
#[derive(Debug, PartialEq, Eq)]
pub struct Turnover<T> {
    /// Referred to by somebody now, and by nobody before.
    pub came: Vec<T>,
    /// Referred to by nobody any more.
    pub went: Vec<T>,
}

impl<T> Default for Users<T> {
    fn default() -> Self {
        Users { of: BTreeMap::new() }
    }
}

impl<T: Ord + Clone> Users<T> {
    /// The user refers to `now`, and no longer to what of `before` is not among it.
    pub fn turn(&mut self, user: &Key, before: &BTreeSet<T>, now: &BTreeSet<T>) -> Turnover<T> {
        let mut turnover = Turnover { came: Vec::new(), went: Vec::new() };
        for used in now.difference(before) {
            let users = self.of.entry(used.clone()).or_insert_with(|| {
                turnover.came.push(used.clone());
                BTreeSet::new()
            });
            users.insert(user.clone());
        }
        for used in before.difference(now) {
            let Some(users) = self.of.get_mut(used) else { continue };
            users.remove(user);
            if users.is_empty() {
                self.of.remove(used);
                turnover.went.push(used.clone());
            }
        }
        turnover
    }

    pub fn of(&self, used: &T) -> impl Iterator<Item = &Key> {
        self.of.get(used).into_iter().flatten()
    }

    pub fn has(&self, used: &T) -> bool {
        self.of.contains_key(used)
    }
}

#[cfg(test)]
mod tests {
    use super::{Turnover, Users};
    use std::collections::BTreeSet;
    use tidegate_cluster::Key;

    #[test]
    fn what_comes_into_use_and_goes_out_of_it() {
        let mut users: Users<&str> = Users::default();
        let set = |texts: &[&'static str]| texts.iter().copied().collect::<BTreeSet<_>>();
        let mut check =
            |user: &str, before: &[&'static str], now: &[&'static str], came: &[&'static str], went: &[&'static str]| {
                let seen = users.turn(&Key::new("shop", user), &set(before), &set(now));
                assert_eq!(seen, Turnover { came: came.to_vec(), went: went.to_vec() }, "{user} {before:?} {now:?}");
                assert!(came.iter().all(|used| users.has(used)) && !went.iter().any(|used| users.has(used)));
            };
        check("a", &[], &["x", "y"], &["x", "y"], &[]);
        check("b", &[], &["y", "z"], &["z"], &[]);
        check("a", &["x", "y"], &["x"], &[], &[]);
        check("b", &["y", "z"], &["x"], &[], &["y", "z"]);
        check("a", &["x"], &[], &[], &[]);
        check("b", &["x"], &[], &[], &["x"]);
    }
}
