//! Bodies of HTTP/1 messages: one decoder for every framing, and the bytes that frame a chunked body on the way out.
//! Which framing a message has says `http1`; when bytes are read and written, the connections in `proxy`.

use crate::chunked::{ChunkedDecoder, Decoded, Peer};
use crate::error::BodyError;
use crate::head::{Fields, NamedByConnection};
use crate::http1::BodyFraming;
use crate::limits::HeadLimits;

/// Finds the body in what follows the head.
#[derive(Debug)]
pub enum BodyDecoder {
    Length { left: u64 },
    Chunked(ChunkedDecoder),
    UntilClose,
    Finished,
}

impl BodyDecoder {
    /// `limits` are those of heads, and bound trailers.
    pub fn new(framing: BodyFraming, peer: Peer, limits: &HeadLimits) -> BodyDecoder {
        match framing {
            BodyFraming::None | BodyFraming::Length(0) => BodyDecoder::Finished,
            BodyFraming::Length(left) => BodyDecoder::Length { left },
            BodyFraming::Chunked => BodyDecoder::Chunked(ChunkedDecoder::new(peer, limits)),
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

    /// See [`ChunkedDecoder::has_trailers`].
    #[inline]
    pub fn has_trailers(&self) -> bool {
        match self {
            BodyDecoder::Chunked(decoder) => decoder.has_trailers(),
            BodyDecoder::Length { .. } | BodyDecoder::UntilClose | BodyDecoder::Finished => false,
        }
    }

    /// Whether trailers may follow.
    pub fn may_have_trailers(&self) -> bool {
        match self {
            BodyDecoder::Chunked(_) => true,
            BodyDecoder::Length { .. } | BodyDecoder::UntilClose | BodyDecoder::Finished => false,
        }
    }

    /// See [`ChunkedDecoder::drop_named`].
    pub fn drop_named(&mut self, named: NamedByConnection) {
        match self {
            BodyDecoder::Chunked(decoder) => decoder.drop_named(named),
            BodyDecoder::Length { .. } | BodyDecoder::UntilClose | BodyDecoder::Finished => {}
        }
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

#[cfg(test)]
mod tests {
    use super::{BodyDecoder, CHUNK_HEAD_MAX, CHUNK_TAIL, Decoded, LAST_CHUNK, Peer, chunk_head, encode_last_chunk};
    use crate::error::BodyError;
    use crate::head::Fields;
    use crate::http1::BodyFraming;
    use crate::limits::HeadLimits;

    #[test]
    fn each_framing_ends_where_it_says() {
        let check = |framing: BodyFraming, reads: &[(&str, usize, bool)], at_end: Result<(), BodyError>| {
            let mut decoder = BodyDecoder::new(framing, Peer::Client, &HeadLimits::default());
            for (read, consumed, finished) in reads {
                let decoded = decoder.decode_in_place(&mut read.as_bytes().to_vec());
                assert_eq!(
                    decoded,
                    Ok(Decoded { payload: 0..*consumed, consumed: *consumed, finished: *finished }),
                    "{framing:?}"
                );
            }
            assert_eq!(decoder.finish_at_end_of_stream(), at_end, "{framing:?}");
            assert_eq!(decoder.is_finished(), at_end.is_ok());
        };
        check(BodyFraming::None, &[("abc", 0, true)], Ok(()));
        check(BodyFraming::Length(0), &[("abc", 0, true)], Ok(()));
        check(BodyFraming::Length(5), &[("abc", 3, false), ("", 0, false), ("def", 2, true), ("g", 0, true)], Ok(()));
        check(BodyFraming::Length(5), &[("abcd", 4, false)], Err(BodyError::Truncated));
        check(BodyFraming::Length(u64::MAX), &[("abcd", 4, false)], Err(BodyError::Truncated));
        check(BodyFraming::UntilClose, &[("abc", 3, false), ("", 0, false), ("d", 1, false)], Ok(()));
        check(BodyFraming::UntilClose, &[], Ok(()));
        check(BodyFraming::Chunked, &[], Err(BodyError::Truncated));
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut trailers = Fields::default();
        trailers.push(b"Grpc-Status", b"0");
        for lens in [&[1_usize][..], &[15, 16, 17, 255, 256, 4096, 70_000]] {
            let mut wire = Vec::new();
            let mut payload = Vec::new();
            for len in lens {
                let data = vec![b'0' + (len % 7) as u8; *len];
                let mut head = [0; CHUNK_HEAD_MAX];
                let head_len = chunk_head(*len, &mut head);
                for piece in [&head[..head_len], &data, CHUNK_TAIL] {
                    wire.extend_from_slice(piece);
                }
                payload.extend_from_slice(&data);
            }
            encode_last_chunk(Some(&trailers), &mut wire);
            let mut decoder = BodyDecoder::new(BodyFraming::Chunked, Peer::Client, &HeadLimits::default());
            let decoded = decoder.decode_in_place(&mut wire).expect("our own chunks");
            assert!(decoded.finished && decoded.consumed == wire.len());
            assert_eq!(wire[decoded.payload], payload);
            let found = decoder.take_trailers().expect("trailers");
            assert_eq!(found.iter().collect::<Vec<_>>(), [(&b"Grpc-Status"[..], &b"0"[..])]);
        }
        let mut out = Vec::new();
        encode_last_chunk(None, &mut out);
        assert_eq!(out, LAST_CHUNK);
    }

    #[test]
    fn chunk_heads_are_plain_hex() {
        let check = |len: usize, expected: &str| {
            let mut out = [0; CHUNK_HEAD_MAX];
            let written = chunk_head(len, &mut out);
            assert_eq!(out[..written], *expected.as_bytes());
        };
        check(1, "1\r\n");
        check(15, "f\r\n");
        check(16, "10\r\n");
        check(0xabc, "abc\r\n");
        check(16384, "4000\r\n");
        check(usize::MAX, "ffffffffffffffff\r\n");
    }
}
