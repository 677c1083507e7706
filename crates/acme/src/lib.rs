//! Certificates from public authorities: obtained, kept and renewed by ACME (RFC 8555) for every name that is wanted.
//!
//! It owns no socket that clients connect to and no TLS configuration: it asks CAs, DNS and storage, tells workers what
//! to answer to CAs, and tells the control plane what came of it. Everything runs on one thread of its own, so that
//! nothing here is ever near a request.
//!
//! Read [`interface`] first, then `engine` (which names, what next, when), `attempt` (one name from top to bottom) and
//! `order` (one order at one CA). Decisions are pure: `decide`, `quota`, `preflight::verdict`, `cause`. What is kept,
//! and under which keys, is told at the top of [`stored`].

mod account;
mod answers;
mod attempt;
mod cause;
mod certificate;
mod challenge;
mod contact;
mod decide;
mod engine;
mod interface;
mod issuing;
mod kept;
mod keys;
mod look;
mod nonce;
mod on_demand;
mod order;
mod preflight;
mod quota;
mod revocation;
mod shared;
mod standing;
pub mod stored;
mod subject;

pub use certificate::Bundle;
pub use interface::{
    Certificate, ChallengeChange, Fault, Listens, NameStatus, News, OnDemandSite, Parts, Refusal, RevocationReason, State,
    Timing, TlsAnswer, Wanted,
};
pub use issuing::{Issuing, start};
pub use subject::{NotASubject, Subject};
