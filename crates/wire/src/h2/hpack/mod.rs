//! HPACK, the header compression of HTTP/2 (RFC 7541): a decoder that writes fields straight into a head's buffer and
//! an encoder that reads them from it. Frames and gathering CONTINUATIONs are the connection's business; whether a
//! field is allowed in a message is the admission's. Look at `decoder` and `encoder` first.

mod decoder;
mod dynamic_table;
mod encoder;
mod field_name;
mod huffman;
mod integer;
mod static_table;

pub use decoder::{Decoder, FieldSink, HeaderList};
pub use encoder::{BlockEncoder, Encoder};
pub use field_name::{FieldName, PseudoHeader};

use thiserror::Error;

/// The size of a dynamic table until SETTINGS say something else (RFC 9113 section 6.5.2).
pub const DEFAULT_TABLE_SIZE: u16 = 4096;

/// What a field counts beyond its name and value, in dynamic tables (RFC 7541 section 4.1) and in the limit of header
/// lists (RFC 9113 section 6.5.2).
pub const FIELD_OVERHEAD: usize = 32;

/// Why a header block cannot be decoded. The tables of both sides are no longer the same then, so the connection ends
/// with COMPRESSION_ERROR (RFC 9113 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CompressionError {
    #[error("the header block ends within a field")]
    Truncated,
    #[error("an integer of the header block is too large or written with too many bytes")]
    Integer,
    #[error("a Huffman-coded string is not valid")]
    Huffman,
    #[error("a header field has an index that is in neither table")]
    Index,
    #[error("a size update of the dynamic table comes after a field")]
    SizeUpdatePlace,
    #[error("a size update of the dynamic table is over the limit of our settings")]
    SizeUpdateLimit,
    #[error("the dynamic table was not made smaller after our settings asked for it")]
    SizeUpdateMissing,
}
