//! How a pool chooses a server. The choice itself is made in `proxy`, from these names.

use crate::placeholder::Template;

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Balance {
    /// Of two servers drawn at random, the one with fewer requests in flight for its weight.
    #[default]
    P2c,
    /// Smooth weighted round robin.
    RoundRobin,
    /// The server with the fewest requests in flight for its weight.
    LeastConn,
    /// At random, by weight.
    Random,
    /// The same key goes to the same server; a server that leaves moves only its own keys.
    Hash { key: Template },
}

impl Balance {
    pub const NAMES: &'static [&'static str] = &["p2c", "round-robin", "least-conn", "random", "hash"];
}
