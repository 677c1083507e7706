//! The one way to others off the request path: HTTPS to certificate authorities, providers of DNS, webhooks and APIs;
//! HTTP over a connection that its caller opened, to engines, agents, checked servers and our own endpoint; whom to ask
//! in DNS; and whom to trust. It sends one request and gives its answer, both with bounds, as a whole or piece by
//! piece. It follows no redirect, knows no proxy, and repeats no request that may have arrived and done something.
//! Start in `client.rs`; how a connection comes about is in `connect.rs`, what a caller brings one to in `exchange.rs`.

mod client;
mod connect;
mod destination;
mod exchange;
mod fault;
mod kept;
mod lines;
mod named;
mod resolver;
mod stamp;
mod stream;
mod trust;

pub use client::{HttpsClient, Limits, OpenAnswer};
pub use destination::percent_encoded;
pub use exchange::{Answer, BodyFault, HEAD_BYTES_MAX, ask};
pub use fault::{OutboundFault, Stage};
pub use lines::{LineBuffer, LineTooLong};
pub use named::NamedCertificates;
pub use resolver::{Resolver, ResolverFault, Session, spelt};
pub use stamp::Stamp;
pub use stream::{Stream, StreamClient};
pub use trust::{ClientIdentity, Trust, mozilla_roots, system_roots, trusted_roots};
