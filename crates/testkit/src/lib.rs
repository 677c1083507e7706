//! Development only: what the tests of the whole program stand on. Scripted clients and upstreams, name servers and
//! engines that tell of servers, a real control plane of Kubernetes, a tiny CA, a guard around the proxy's process, and
//! the case files of `tests/cases` (see tests/README.md). Nothing here is in the program.

mod api;
pub mod case;
pub mod chromium;
pub mod client;
pub mod coding;
pub mod connection;
pub mod consul;
pub mod dns;
pub mod docker;
pub mod driver;
pub mod head;
pub mod http2;
pub mod kubernetes;
pub mod lasting;
pub mod load;
pub mod mmdb;
pub mod openid;
pub mod pattern;
pub mod pebble;
pub mod proxy;
pub mod redis;
pub mod responder;
pub mod scripts;
pub mod server;
pub mod turns;
pub mod unanswered;
pub mod upstream;

/// What the lab stands on as well.
pub use tidegate_local_cluster::{self as control_plane, admin, authority, ports, program, tls};

pub use admin::{Metrics, asked_as, get};
pub use authority::{Authority, KeyKind};
pub use client::Client;
pub use program::{Program, Surroundings};
pub use proxy::Proxy;
/// For tests of other crates, which then need no runtime of their own.
pub use {bytes, h2, http, rustls, tokio};
