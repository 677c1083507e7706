//! HTTP/2 (RFC 9113) without a socket: bytes go in and facts come out.
//! A connection is in `connection`; its frames, settings, windows, streams, their order and what is too much of
//! something in the modules beside it. Header compression is in `hpack`. How fields become heads is in `heads`; heads
//! of every version are those of `head`.

pub mod connection;
pub mod fault;
pub mod floods;
pub mod frame;
pub mod heads;
pub mod hpack;
mod priority;
pub mod settings;
mod stream;
mod window;

pub use priority::Priority;
pub use stream::StreamKey;
pub use window::DEFAULT_WINDOW_BYTES;

/// What a client opens a connection with (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
