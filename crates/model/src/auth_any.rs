//! `auth any`: several ways to be let in, of which one is enough.

use crate::step::Step;

/// Tried in order; the first that is satisfied counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthAny {
    /// At least one. Steps that let somebody in: `allow`, `client-auth "require"`, and those by which clients log in.
    pub ways: Vec<Step>,
}
