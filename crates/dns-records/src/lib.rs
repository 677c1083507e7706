//! Records of DNS for ACME: TXT records published at providers and taken away again, and what DNS says about a name.
//! It knows nothing of orders and CAs. [`Publisher`] publishes (`publisher.rs`, one file for each provider in
//! `provider/`), [`Lookup`] looks up (`lookup.rs`), [`await_published`] waits until every server of a zone has a value,
//! and [`allows`] says whether CAA records let a CA issue.

mod ask;
mod caa;
mod fault;
mod lookup;
mod name;
mod propagation;
mod provider;
mod publisher;

pub use caa::{Caa, CaaSet, Verdict, allows};
pub use fault::{DnsFault, LookupFault};
pub use lookup::{AuthoritativeServer, Lookup, LookupSettings};
pub use propagation::{Confirmation, Lacking, PropagationFault, Seen, await_published};
pub use publisher::{Published, Publisher, TTL_SECS};
