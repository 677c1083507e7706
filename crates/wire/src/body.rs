//! Bodies of HTTP/1 messages: one decoder for every framing, and the bytes that frame a chunked body on the way out.
//! Which framing a message has says `http1`; when bytes are read and written, the connections in `proxy`.

use crate::chunked::ChunkedDecoder;
use crate::error::BodyError;
use crate::head::Fields;
use crate::http1::BodyFraming;
use std::ops::Range;

/// What a stretch of the connection's bytes was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Where in the given bytes the body's own bytes are now.
    pub payload: Range<usize>,
    /// Bytes that belonged to this message; the rest is the next one's.
    pub consumed: usize,
    pub finished: bool,
}

/// Finds the body in what follows the head.
#[derive(Debug)]
pub enum BodyDecoder {
    Length { left: u64 },
    Chunked(ChunkedDecoder),
    UntilClose,
    Finished,
}

impl BodyDecoder {
    pub fn new(framing: BodyFraming) -> BodyDecoder {
        match framing {
            BodyFraming::None | BodyFraming::Length(0) => BodyDecoder::Finished,
            BodyFraming::Length(left) => BodyDecoder::Length { left },
            BodyFraming::Chunked => BodyDecoder::Chunked(ChunkedDecoder::new()),
            BodyFraming::UntilClose => BodyDecoder::UntilClose,
        }
    }

    /// See [`ChunkedDecoder::decode_in_place`]; the other framings move nothing.
    #[inline]
    pub fn decode_in_place(&mut self, data: &mut [u8]) -> Result<Decoded, BodyError> {
        let consumed = match self {
            BodyDecoder::Length { left } => {
                let piece = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
                *left -= piece as u64;
                if *left == 0 {
                    *self = BodyDecoder::Finished;
                }
                piece
            }
            BodyDecoder::Chunked(decoder) => return decoder.decode_in_place(data),
            BodyDecoder::UntilClose => data.len(),
            BodyDecoder::Finished => 0,
        };
        Ok(Decoded { payload: 0..consumed, consumed, finished: self.is_finished() })
    }

    pub fn is_finished(&self) -> bool {
        match self {
            BodyDecoder::Finished => true,
            BodyDecoder::Chunked(decoder) => decoder.is_finished(),
            BodyDecoder::Length { .. } | BodyDecoder::UntilClose => false,
        }
    }

    /// The peer closed its side properly. Only a body without a stated end may end so; any other was cut short.
    pub fn finish_at_end_of_stream(&mut self) -> Result<(), BodyError> {
        match self {
            BodyDecoder::UntilClose => *self = BodyDecoder::Finished,
            _ if self.is_finished() => {}
            _ => return Err(BodyError::Truncated),
        }
        Ok(())
    }

    /// See [`ChunkedDecoder::take_trailers`].
    pub fn take_trailers(&mut self) -> Option<Box<Fields>> {
        match self {
            BodyDecoder::Chunked(decoder) => decoder.take_trailers(),
            BodyDecoder::Length { .. } | BodyDecoder::UntilClose | BodyDecoder::Finished => None,
        }
    }
}

/// The most that [`chunk_head`] writes: 16 hex digits, CR LF.
pub const CHUNK_HEAD_MAX: usize = 18;
/// What follows the data of each chunk.
pub const CHUNK_TAIL: &[u8] = b"\r\n";
/// The end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes the line before a chunk of `len` bytes, which must not be 0, and says how long the line is.
#[inline]
pub fn chunk_head(len: usize, out: &mut [u8; CHUNK_HEAD_MAX]) -> usize {
    debug_assert!(len > 0, "an empty chunk ends the body");
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4).max(1) as usize;
    for (place, digit) in out[..digits].iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(len >> (4 * place)) & 0xf];
    }
    out[digits] = b'\r';
    out[digits + 1] = b'\n';
    digits + 2
}

/// Appends the last chunk and the trailer section.
pub fn encode_last_chunk(trailers: Option<&Fields>, out: &mut Vec<u8>) {
    let Some(trailers) = trailers else { return out.extend_from_slice(LAST_CHUNK) };
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers.iter() {
        for piece in [name, b": ", value, b"\r\n"] {
            out.extend_from_slice(piece);
        }
    }
    out.extend_from_slice(b"\r\n");
}
