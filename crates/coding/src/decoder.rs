//! One coded body on its way to plain bytes, for requests whose bodies clients have compressed. Memory is bounded by
//! the windows that are allowed and by how many are at work; how much a few bytes may become is bounded by
//! [`Decoder::step`]'s caller, who counts.

use crate::context::DecoderShare;
use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress, FlushDecompress, Status};
use std::fmt;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// What RFC 8878 section 3.1.1.1.2 asks of decoders: windows up to 8 MiB.
const ZSTD_WINDOW_BITS_MOST: u32 = 23;
const GZIP_WINDOW_BITS: u8 = 15;

/// A coding of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedCoding {
    Zstd,
    Brotli,
    /// RFC 1952, any number of members behind one another.
    Gzip,
    /// `deflate`: RFC 1950, which is what it is called after and not always what was sent.
    Zlib,
}

impl DecodedCoding {
    /// By the name in `Content-Encoding`.
    pub fn of(name: &[u8]) -> Option<DecodedCoding> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("gzip") || is("x-gzip") {
            Some(DecodedCoding::Gzip)
        } else if is("br") {
            Some(DecodedCoding::Brotli)
        } else if is("zstd") {
            Some(DecodedCoding::Zstd)
        } else if is("deflate") {
            Some(DecodedCoding::Zlib)
        } else {
            None
        }
    }

    /// What one decoder can hold at most.
    fn bytes_needed(self) -> usize {
        match self {
            DecodedCoding::Zstd => (1 << ZSTD_WINDOW_BITS_MOST) + (512 << 10),
            // The largest window of RFC 7932, and as much again for its tables.
            DecodedCoding::Brotli => (16 << 20) + (2 << 20),
            DecodedCoding::Gzip | DecodedCoding::Zlib => 64 << 10,
        }
    }
}

/// What a call did. Without progress more input is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    pub consumed: usize,
    pub produced: usize,
    /// The body is whole. What input is left belongs to no body.
    pub is_done: bool,
}

/// The bytes are not what the coding's name says, or ask for a larger window than is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError;

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body is not what its Content-Encoding says")
    }
}

impl std::error::Error for DecodeError {}

/// Belongs to the thread that made it.
pub struct Decoder {
    codec: DecoderCodec,
    _share: DecoderShare,
}

enum DecoderCodec {
    Zstd { context: DCtx<'static>, is_between_frames: bool },
    Gzip { context: Decompress, is_between_members: bool },
    Zlib(Decompress),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
}

impl Decoder {
    /// `None` when the thread's decoders hold as much memory as they may.
    pub fn new(coding: DecodedCoding) -> Option<Decoder> {
        let share = DecoderShare::take(coding.bytes_needed())?;
        let codec = match coding {
            DecodedCoding::Zstd => {
                let mut context = DCtx::try_create()?;
                context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS_MOST)).ok()?;
                DecoderCodec::Zstd { context, is_between_frames: false }
            }
            DecodedCoding::Gzip => {
                DecoderCodec::Gzip { context: Decompress::new_gzip(GZIP_WINDOW_BITS), is_between_members: false }
            }
            DecodedCoding::Zlib => DecoderCodec::Zlib(Decompress::new(true)),
            // Strict: the windows of gigabytes that are no part of RFC 7932 are refused.
            DecodedCoding::Brotli => {
                let alloc = StandardAlloc::default;
                DecoderCodec::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())))
            }
        };
        Some(Decoder { codec, _share: share })
    }

    /// Takes input and gives output, as much as there is and fits.
    pub fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Decoded, DecodeError> {
        match &mut self.codec {
            DecoderCodec::Zstd { context, is_between_frames } => step_zstd(context, is_between_frames, input, output),
            DecoderCodec::Gzip { context, is_between_members } => step_gzip(context, is_between_members, input, output),
            DecoderCodec::Zlib(context) => step_zlib(context, input, output),
            DecoderCodec::Brotli(state) => step_brotli(state, input, output),
        }
    }

    /// Whether a body may end here: formats that can have several parts behind one another end where a part does.
    pub fn may_end(&self) -> bool {
        match &self.codec {
            DecoderCodec::Zstd { is_between_frames: is_between, .. }
            | DecoderCodec::Gzip { is_between_members: is_between, .. } => *is_between,
            DecoderCodec::Zlib(_) | DecoderCodec::Brotli(_) => false,
        }
    }
}

fn step_zstd(
    context: &mut DCtx<'_>,
    is_between_frames: &mut bool,
    input: &[u8],
    output: &mut [u8],
) -> Result<Decoded, DecodeError> {
    let (mut source, mut sink) = (InBuffer::around(input), OutBuffer::around(output));
    let left = context.decompress_stream(&mut sink, &mut source).map_err(|_| DecodeError)?;
    let (consumed, produced) = (source.pos(), sink.pos());
    if consumed > 0 || produced > 0 {
        *is_between_frames = left == 0;
    }
    Ok(Decoded { consumed, produced, is_done: false })
}

fn step_gzip(
    context: &mut Decompress,
    is_between_members: &mut bool,
    input: &[u8],
    output: &mut [u8],
) -> Result<Decoded, DecodeError> {
    if input.is_empty() && *is_between_members {
        return Ok(Decoded { consumed: 0, produced: 0, is_done: false });
    }
    if std::mem::take(is_between_members) {
        *context = Decompress::new_gzip(GZIP_WINDOW_BITS);
    }
    let (step, has_ended) = inflate(context, input, output)?;
    *is_between_members = has_ended;
    Ok(step)
}

fn step_zlib(context: &mut Decompress, input: &[u8], output: &mut [u8]) -> Result<Decoded, DecodeError> {
    let (step, has_ended) = inflate(context, input, output)?;
    Ok(Decoded { is_done: has_ended, ..step })
}

fn inflate(context: &mut Decompress, input: &[u8], output: &mut [u8]) -> Result<(Decoded, bool), DecodeError> {
    let (in_before, out_before) = (context.total_in(), context.total_out());
    let status = context.decompress(input, output, FlushDecompress::None).map_err(|_| DecodeError)?;
    let consumed = (context.total_in() - in_before) as usize;
    let produced = (context.total_out() - out_before) as usize;
    Ok((Decoded { consumed, produced, is_done: false }, status == Status::StreamEnd))
}

fn step_brotli(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    input: &[u8],
    output: &mut [u8],
) -> Result<Decoded, DecodeError> {
    let (mut in_left, mut consumed) = (input.len(), 0);
    let (mut out_left, mut produced, mut total) = (output.len(), 0, 0);
    let result =
        BrotliDecompressStream(&mut in_left, &mut consumed, input, &mut out_left, &mut produced, output, &mut total, state);
    match result {
        BrotliResult::ResultSuccess => Ok(Decoded { consumed, produced, is_done: true }),
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok(Decoded { consumed, produced, is_done: false }),
        BrotliResult::ResultFailure => Err(DecodeError),
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, DecodedCoding, Decoder};
    use crate::{Encoder, Operation};
    use proptest::prelude::*;
    use tidegate_model::Coding;

    fn encoded(coding: Coding, body: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new(coding, 3, Some(body.len() as u64)).expect("an encoder");
        let (mut out, mut rest, mut room) = (Vec::new(), body, vec![0; 1 << 16]);
        loop {
            let step = encoder.step(rest, &mut room, Operation::Finish).expect("it encodes");
            out.extend_from_slice(&room[..step.produced]);
            rest = &rest[step.consumed..];
            if step.is_done {
                return out;
            }
        }
    }

    /// In pieces of that size, with little room.
    fn decoded(coding: DecodedCoding, body: &[u8], piece: usize) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = Decoder::new(coding).expect("a decoder");
        let (mut out, mut room) = (Vec::new(), [0; 100]);
        for part in body.chunks(piece) {
            let mut rest = part;
            loop {
                let step = decoder.step(rest, &mut room)?;
                out.extend_from_slice(&room[..step.produced]);
                rest = &rest[step.consumed..];
                if step.is_done {
                    return if rest.is_empty() { Ok(out) } else { Err(DecodeError) };
                }
                if step.consumed == 0 && step.produced == 0 {
                    break;
                }
            }
        }
        if decoder.may_end() { Ok(out) } else { Err(DecodeError) }
    }

    const PAIRS: [(Coding, DecodedCoding); 3] =
        [(Coding::Zstd, DecodedCoding::Zstd), (Coding::Brotli, DecodedCoding::Brotli), (Coding::Gzip, DecodedCoding::Gzip)];

    #[test]
    fn names_are_those_of_content_encoding() {
        let check =
            |name: &str, expected: Option<DecodedCoding>| assert_eq!(DecodedCoding::of(name.as_bytes()), expected, "{name}");
        check("gzip", Some(DecodedCoding::Gzip));
        check("X-GZIP", Some(DecodedCoding::Gzip));
        check("br", Some(DecodedCoding::Brotli));
        check("zstd", Some(DecodedCoding::Zstd));
        check("deflate", Some(DecodedCoding::Zlib));
        check("identity", None);
        check("gzip, br", None);
    }

    #[test]
    fn several_parts_behind_one_another_are_one_body() {
        for (coding, decoding) in [PAIRS[0], PAIRS[2]] {
            let twice = [encoded(coding, b"one "), encoded(coding, b"two")].concat();
            assert_eq!(decoded(decoding, &twice, 3).as_deref(), Ok(&b"one two"[..]), "{decoding:?}");
        }
    }

    #[test]
    fn what_is_cut_or_is_something_else_is_no_body() {
        for (coding, decoding) in PAIRS {
            let body = encoded(coding, &[b'a'; 1000]);
            assert_eq!(decoded(decoding, &body[..body.len() - 1], 7), Err(DecodeError), "{decoding:?} cut");
            assert_eq!(decoded(decoding, b"plain text, and nothing else", 7), Err(DecodeError), "{decoding:?} plain");
            assert_eq!(decoded(decoding, &[body, b"rest".to_vec()].concat(), 7), Err(DecodeError), "{decoding:?} rest");
        }
        assert_eq!(decoded(DecodedCoding::Zlib, b"x", 1), Err(DecodeError));
    }

    #[test]
    fn windows_beyond_the_bound_are_refused() {
        // A frame header of zstd that asks for 2 GiB, and a stream of br with the large window that browsers do not
        // know.
        assert_eq!(decoded(DecodedCoding::Zstd, &[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xA8, 0x01, 0, 0], 9), Err(DecodeError));
        assert_eq!(decoded(DecodedCoding::Brotli, &[0x11, 0x3F, 0x00, 0x00], 4), Err(DecodeError));
    }

    #[test]
    fn a_thread_has_so_many_at_a_time() {
        let decoders: Vec<_> = (0..1000).map_while(|_| Decoder::new(DecodedCoding::Brotli)).collect();
        assert!((4..100).contains(&decoders.len()), "{}", decoders.len());
        drop(decoders);
        assert!(Decoder::new(DecodedCoding::Brotli).is_some());
    }

    proptest! {
        #[test]
        fn bodies_come_back(body in proptest::collection::vec(any::<u8>(), 0..3000), piece in 1_usize..500, which in 0_usize..3) {
            let (coding, decoding) = PAIRS[which];
            prop_assert_eq!(decoded(decoding, &encoded(coding, &body), piece), Ok(body));
        }

        #[test]
        fn any_bytes_end_well(body in proptest::collection::vec(any::<u8>(), 0..300), piece in 1_usize..50) {
            for decoding in [DecodedCoding::Zstd, DecodedCoding::Brotli, DecodedCoding::Gzip, DecodedCoding::Zlib] {
                let _ = decoded(decoding, &body, piece);
            }
        }
    }
}
