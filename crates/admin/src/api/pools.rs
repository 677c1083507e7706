//! Pools and their servers as they are now.

use super::schema::{object, words};

object! {
    /// Every pool.
    pub struct Pools {
        /// That runs.
        pub generation: u64,
        pub pools: Vec<Pool>,
    }
}

object! {
    /// A pool, with counts since the process began.
    pub struct Pool {
        pub name: String,
        pub balance: String,
        pub servers: Vec<Server>,
        pub requests: u64,
        pub retries: u64,
        /// Of all reasons together.
        pub errors: u64,
        /// Reasons that occurred.
        pub errors_by_reason: Vec<ErrorCount>,
        pub connections_opened: u64,
        pub connections_reused: u64,
        /// Now, with a request.
        pub connections_active: i64,
        /// Now, without one.
        pub connections_idle: i64,
    }
}

object! {
    /// How often upstream requests failed for a reason.
    pub struct ErrorCount {
        /// As in metrics and the access log.
        pub reason: String,
        pub count: u64,
    }
}

object! {
    /// A server of a pool.
    pub struct Server {
        /// As configured.
        pub address: String,
        /// What it was looked up to.
        pub addresses: Vec<String>,
        pub weight: u32,
        pub backup: bool,
        pub state: ServerState,
        pub requests_in_flight: u32,
        /// Open ones, idle or not.
        pub connections: u32,
    }
}

words! {
    /// Whether a server gets requests.
    pub enum ServerState {
        Available = "available",
        /// Taken out of use by somebody.
        Drained = "drained",
        /// Connecting failed a moment ago, in some worker.
        Cooling = "cooling",
    }
}
