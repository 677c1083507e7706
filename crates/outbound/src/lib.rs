//! HTTPS to others off the request path: certificate authorities, providers of DNS, webhooks, and whoever else the control plane asks.
//! It sends one request and gives the whole answer, both with bounds. It follows no redirect, knows no proxy, and repeats no
//! request that may have arrived and done something. Start in `client.rs`; how a connection comes about is in `connect.rs`, whom it trusts in `trust.rs`.

mod client;
mod connect;
mod destination;
mod fault;
mod kept;
mod stream;
mod trust;

pub use client::{HttpsClient, Limits};
pub use fault::{OutboundFault, Stage};
pub use stream::{Stream, StreamClient};
pub use trust::Trust;
