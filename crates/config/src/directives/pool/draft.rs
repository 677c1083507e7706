//! A pool while its lines are read. Which line sets what is in the files beside this one.

use crate::diagnostics::Location;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tidegate_model::{Discover, Pool, PoolName, Server};

/// A pool while its lines are read.
#[derive(Debug)]
pub struct PoolDraft {
    pub servers: Vec<(Server, Location)>,
    pub discover: Vec<(Discover, Location)>,
    /// Where it is declared to have no server.
    pub none_at: Option<Location>,
    /// Everything else.
    pub pool: Pool,
    /// Connections and their idle time of `keep-alive`, which depend on the protocol where they are left out.
    pub kept: (Option<u32>, Option<Duration>),
    /// Where directives that may be there once were written.
    pub at: BTreeMap<&'static str, Location>,
    pub queue_at: Option<Location>,
    /// A server could not be read, so what the pool lacks is not known.
    pub faulty: bool,
    /// Which of `servers` has the address; plain HTTP and TLS on one port are one.
    pub by_authority: HashMap<String, usize>,
}

impl Default for PoolDraft {
    fn default() -> Self {
        PoolDraft {
            servers: Vec::new(),
            discover: Vec::new(),
            none_at: None,
            pool: Pool::new(PoolName("".into()), Vec::new()),
            kept: (None, None),
            at: BTreeMap::new(),
            queue_at: None,
            faulty: false,
            by_authority: HashMap::new(),
        }
    }
}
