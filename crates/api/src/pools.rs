//! Pools and their servers as they are now.

use crate::schema::Word;
use crate::schema::{objects, words};
use std::net::SocketAddr;

objects! {
    /// Every pool.
    pub struct Pools {
        /// The generation that runs.
        pub generation: u64,
        pub pools: Vec<Pool>,
    }

    /// A pool, with counts since the process began.
    pub struct Pool {
        pub name: String,
        /// Where it comes from: the `origin` line.
        pub origin: Option<String>,
        pub balance: Word,
        pub servers: Vec<Server>,
        /// Where more of them come from.
        pub sources: Vec<Source>,
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

    /// A source of servers, as `discover` names it.
    pub struct Source {
        pub name: String,
        /// In its last good answer; none before the first.
        pub servers: Option<usize>,
        /// Why it cannot be used now.
        pub fault: Option<String>,
    }

    /// How often upstream requests failed for a reason.
    pub struct ErrorCount {
        /// As in metrics and the access log.
        pub reason: Word,
        pub count: u64,
    }

    /// A server of a pool.
    pub struct Server {
        /// As configured, or as a source of servers names it.
        pub address: String,
        /// What it was looked up to.
        pub addresses: Vec<SocketAddr>,
        pub weight: u32,
        /// Servers of a higher number are used only when none of a lower one can be; a backup is 1.
        pub priority: u32,
        pub zone: Option<String>,
        /// Nobody wrote it: a source of servers named it.
        pub discovered: bool,
        pub state: ServerState,
        /// Why it gets no requests, or fewer than its share.
        pub why: Option<String>,
        /// When it is tried again.
        pub tried_again_in_seconds: Option<u64>,
        /// How its health checks went, where it has any.
        pub checks: Option<String>,
        pub requests_in_flight: u32,
        /// Open ones, idle or not.
        pub connections: u32,
        /// Sent to it since the process began.
        pub requests: u64,
        /// Of these, those that count against it.
        pub failures: u64,
    }
}

words! {
    /// Whether a server gets requests.
    pub enum ServerState {
        Serving = "serving",
        /// The server's health checks have not found out yet.
        Unknown = "unknown",
        /// The server came into use a while ago, and gets a part of its share.
        Starting = "starting",
        /// Taken out of use by somebody.
        Draining = "draining",
        /// Whoever named it says that it is going away.
        Leaving = "leaving",
        /// The server's health checks fail, or its name has no address.
        Down = "down",
        /// The server failed requests too often.
        Ejected = "ejected",
        /// The server could not be reached a moment ago, or asked for a pause.
        Resting = "resting",
    }
}
