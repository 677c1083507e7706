//! Content codings of bodies (RFC 9110 section 8.4.1): zstd, br and gzip as streams that can be flushed at any byte,
//! with bounded memory. Bytes in, bytes out: no socket, no clock, no header. Which coding an answer gets is decided in
//! `middleware::compress`; when a stream is flushed, in `proxy`. Start at [`Encoder`]; [`Decoder`] is for what clients
//! have compressed.

mod brotli_stream;
mod cells;
mod context;
mod decoder;
mod encoder;
mod level;

pub use context::{give_back_kept, give_back_unused, give_encoders};
pub use decoder::{DecodeError, Decoded, DecodedCoding, Decoder};
pub use encoder::{EncodeError, Encoder, Operation, Step};
pub use level::{Busy, level_now};

/// Bytes that the encoders of one thread may hold at a time while they are at work, unless [`give_encoders`] said less.
/// An answer beyond goes out as it is: refusing to compress is better than refusing to answer, and 10,000 event streams
/// at 830 KiB each would be 8 GB.
pub const ENCODERS_BYTES_MAX: usize = 64 << 20;
/// Memory for decoders of requests; a body beyond is refused, since nobody can pass it on.
pub const DECODERS_BYTES_MAX: usize = 256 << 20;
