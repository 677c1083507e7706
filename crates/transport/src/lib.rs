//! Sockets for the data plane: leased buffers, listening and connecting, deadlines, TLS driven directly, and the
//! runtime behind one interface, on one of two drivers. No type of a runtime leaves this crate. What the bytes mean is
//! `wire`'s and `proxy`'s business.

mod beside;
pub mod buffer;
pub mod deadline;
pub mod descriptors;
pub mod destination;
pub mod driver;
pub mod handover;
pub mod held_back;
pub mod memory;
pub mod ring;
pub mod rt;
pub mod scratch;
pub mod sock;
pub mod sockets;
pub mod stream;
#[cfg(test)]
mod stream_tests;
pub mod tls;
pub mod tls_fault;
pub mod tokio_sock;
mod waits;

pub use buffer::Buf;
pub use driver::{DriverListener, DriverSock};
pub use rt::Driver;
pub use sock::{FilePart, ReadLimit, Sock};
pub use sockets::ListenOptions;
pub use stream::{Stream, TlsFacts};
