//! `auth any`: several ways to be let in, of which one is enough.

use crate::step::Step;

/// As written; the first that is satisfied counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthAny {
    /// At least one. Steps that let somebody in: `allow`, `client-auth "require"`, and those by which clients log in.
    pub ways: Vec<Step>,
}

impl AuthAny {
    /// The ways in the order in which they are tried: the nearer ones first, else as they are written.
    pub fn tried(&self) -> Vec<&Step> {
        let mut ways: Vec<&Step> = self.ways.iter().collect();
        ways.sort_by_key(|way| way.facts().distance);
        ways
    }
}
