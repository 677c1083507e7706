//! One request and its answer on a client connection, as data: its heads, its body as it is read, the client's side of
//! the answer for each version of HTTP, what is recorded, and how a client fails. It knows no route and no pool: which
//! answer a request gets is decided above. Read `exchange` first.

pub mod body_reader;
mod client_fault;
pub mod date;
pub mod exchange;
pub mod forwarded;
mod hop_by_hop;
pub mod override_fields;
pub mod pace;
pub mod pooled;
mod record;
pub mod responder;

pub use body_reader::{BodyReader, BodySource, NextPiece, TURN_BYTES};
pub use client_fault::{ClientFault, STATUS_CLIENT_GONE, body_fault, gone};
pub use exchange::{Arrived, Exchange};
pub use hop_by_hop::HopByHop;
pub use pooled::Pooled;
pub use record::{AnswerTimes, ArmId, AskedRecord, Record, UpstreamRecord, short_us};
pub use responder::{BodyLength, H1Responder, H2Responder, Responder, unless_gone};
