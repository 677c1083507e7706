//! A request that has ended, by its id.

use crate::Explanation;
use crate::schema::Word;
use crate::schema::objects;
use jiff::Timestamp;
use std::net::IpAddr;

objects! {
    /// What was decided about a request, and what the configuration of that time says to one like it.
    pub struct PastRequest {
        pub id: String,
        /// Everything as text for a terminal.
        pub text: String,
        /// When its answer began, RFC 3339; a fraction of a second is not kept.
        pub answered: Timestamp,
        pub duration_us: u64,
        pub status: u16,
        /// Attempts after the first.
        pub retries: u32,
        pub client_ip: IpAddr,
        pub method: String,
        pub scheme: Word,
        pub host: String,
        pub path_and_query: String,
        /// The port that it came in on.
        pub port: u16,
        /// Of the configuration that decided.
        pub generation: u64,
        pub site: Option<String>,
        /// From 1, in file order.
        pub route: Option<usize>,
        pub pool: Option<String>,
        pub server: Option<String>,
        /// Why the proxy itself answered, or the exchange ended early; as in the access log.
        pub reason: Option<Word>,
        pub setting: Option<Word>,
        /// Without its header fields, which are not kept.
        pub explanation: Option<Explanation>,
        /// Why there is no explanation.
        pub unexplained: Option<String>,
    }
}
