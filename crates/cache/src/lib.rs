//! The shared HTTP cache of a reverse proxy (RFC 9111): what may be stored and served, and where it is kept. Sockets,
//! forwarding, clocks and threads belong to the proxy; this crate is given heads, chunks and the time, and gives
//! decisions and chunks back. Read `policy` first, which is pure, then `store`, which all workers share, then `disk`,
//! whose calls block.

pub mod message;
pub mod settings;

pub mod key;
pub mod policy;

pub mod disk;
pub mod store;

pub use key::{Key, Vary};
pub use message::{Field, Now, RequestHead, ResponseHead, StoredHead};
pub use settings::{Rules, Settings};
pub use store::{Begun, FetchTicket, Lookup, Object, Purge, Reader, Store, WaitHandle, WaitOutcome, Writer};
