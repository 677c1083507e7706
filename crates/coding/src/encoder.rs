//! One body on its way through a codec. Each step takes input and gives output as far as there is room; nothing is held
//! back beyond a flush. How much memory each needs is settled when it begins, by the length of the body: a stream of
//! unknown length gets a small window.

use crate::brotli_stream::{self, BrotliStream};
use crate::context::{self, Share};
use flate2::{Compress, Compression, FlushCompress, Status};
use std::fmt;
use tidegate_model::Coding;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

/// The largest window, 1 MiB. Browsers refuse zstd beyond 8 MiB (RFC 9659 section 3).
pub const WINDOW_BITS_MOST: u32 = 20;
const WINDOW_BITS_LEAST: u32 = 10;
/// Of a body whose length nobody knows: an event stream may be one of ten thousand, and lives for hours.
const WINDOW_BITS_OF_STREAM: u32 = 17;
/// How hard a stream's encoder tries: the tables of higher levels are larger than such a window.
const LEVEL_OF_STREAM: u8 = 3;
/// The tables of zstd for such a stream: those of the library are made for megabytes, and are cleared for each answer.
const TABLE_BITS_OF_STREAM: u32 = 14;
const GZIP_WINDOW_BITS: u8 = 15;

/// What is to become of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// More will come; output may be held back until it is worth a block.
    Process,
    /// Everything that was taken so far has to come out, so that the peer can read it now.
    Flush,
    /// This was the end.
    Finish,
}

/// What a call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub consumed: usize,
    pub produced: usize,
    /// All input is taken, and for `Flush` and `Finish` all output is out. Otherwise the same is asked again, with the
    /// rest of the input and a new piece of output.
    pub is_done: bool,
}

/// The codec gave up. Only a bug, or no memory, makes one do so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeError;

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body could not be compressed")
    }
}

impl std::error::Error for EncodeError {}

/// Belongs to the thread that made it.
pub struct Encoder {
    codec: EncoderCodec,
    share: Option<Share>,
}

enum EncoderCodec {
    Zstd(Option<CCtx<'static>>),
    Gzip(Option<GzipContext>),
    Brotli(Box<BrotliStream>),
}

struct GzipContext {
    codec: Compress,
    /// All of a body has gone through, or none of it. Another one is not kept for the next answer: `reset` of zlib-rs
    /// 0.6 forgets an open block of level 1 only half, and the next stream would lack the head of its first block. A
    /// client that hangs up in the middle of its answer would break that of another.
    is_clean: bool,
}

impl Encoder {
    /// `None` when encoders hold as much memory as they may: the body goes out as it is. Before that, br goes down to
    /// levels and windows that take less.
    ///
    /// `length` is that of the whole body, if it is known; a body of another length is an error of [`Encoder::step`]
    /// with zstd.
    pub fn new(coding: Coding, level: u8, length: Option<u64>) -> Option<Encoder> {
        let level = if length.is_none() { level.min(LEVEL_OF_STREAM) } else { level };
        let window_bits = window_bits(coding, level, length);
        match coding {
            Coding::Zstd => Self::zstd(level, window_bits, length),
            Coding::Gzip => {
                let share = Share::take(context::GZIP_BYTES)?;
                Some(Encoder { codec: EncoderCodec::Gzip(Some(gzip(level)?)), share: Some(share) })
            }
            Coding::Brotli => settings_of_brotli(level, window_bits).find_map(|(level, window_bits)| {
                let share = Share::take(brotli_stream::bytes_needed(level, window_bits, length))?;
                let stream = Box::new(BrotliStream::new(level, window_bits, length));
                Some(Encoder { codec: EncoderCodec::Brotli(stream), share: Some(share) })
            }),
        }
    }

    fn zstd(level: u8, window_bits: u32, length: Option<u64>) -> Option<Encoder> {
        // With the small tables of a stream, every level takes what the first one does.
        let tables = if length.is_none() { 1 } else { level };
        let context = zstd(level, window_bits, length)?;
        // One that has served a longer body is as large as that one asked for.
        let bytes = bytes_of_zstd(tables, window_bits).max(context.sizeof());
        // Given back to the kept ones when there is no share left.
        let mut encoder = Encoder { codec: EncoderCodec::Zstd(Some(context)), share: None };
        encoder.share = Some(Share::take(bytes)?);
        Some(encoder)
    }

    /// What it may take of memory.
    pub fn held_bytes(&self) -> usize {
        self.share.as_ref().map_or(0, Share::bytes)
    }

    /// Takes input and gives output, as much as there is and fits.
    pub fn step(&mut self, input: &[u8], output: &mut [u8], operation: Operation) -> Result<Step, EncodeError> {
        match &mut self.codec {
            EncoderCodec::Zstd(context) => step_zstd(context.as_mut().ok_or(EncodeError)?, input, output, operation),
            EncoderCodec::Gzip(context) => step_gzip(context.as_mut().ok_or(EncodeError)?, input, output, operation),
            EncoderCodec::Brotli(state) => state.step(input, output, operation),
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        match &mut self.codec {
            EncoderCodec::Zstd(context) => {
                if let Some(context) = context.take() {
                    context::keep_zstd(context);
                }
            }
            EncoderCodec::Gzip(context) => {
                if let Some(context) = context.take().filter(|context| context.is_clean) {
                    context::keep_gzip(context.codec);
                }
            }
            EncoderCodec::Brotli(_) => {}
        }
    }
}

/// As small as the body allows: a window beyond it is memory that is cleared and never used.
fn window_bits(coding: Coding, level: u8, length: Option<u64>) -> u32 {
    let least = match coding {
        // Below it the library searches in chains of matches: level 5 took 2.3 ms for 2 KB instead of 0.2, and 27 ms
        // for 100 KB instead of 4.
        Coding::Brotli if level >= 5 => 17,
        Coding::Zstd | Coding::Gzip | Coding::Brotli => WINDOW_BITS_LEAST,
    };
    match length {
        None => WINDOW_BITS_OF_STREAM,
        Some(length) => (u64::BITS - length.saturating_sub(1).leading_zeros()).clamp(least, WINDOW_BITS_MOST),
    }
}

/// Ways to code a body with br, each with less memory than the one before it: a lower level where the tables of the
/// wanted one are larger than all else, then smaller windows, at last what a stream of unknown length gets. With a
/// smaller window repetitions that lie far apart are missed; in a body that goes out as it is all of them are.
fn settings_of_brotli(level: u8, window_bits: u32) -> impl Iterator<Item = (u8, u32)> {
    let less = brotli_stream::level_with_less(level);
    let wanted = [(level, window_bits)].into_iter().filter(move |_| less < level);
    let smaller = (WINDOW_BITS_OF_STREAM.min(window_bits)..=window_bits).rev().map(move |bits| (less, bits));
    let last = [(LEVEL_OF_STREAM, WINDOW_BITS_OF_STREAM.min(window_bits))].into_iter().filter(move |_| LEVEL_OF_STREAM < less);
    wanted.chain(smaller).chain(last)
}

/// Not less than what zstd takes; a test compares. Buffers of a block go with the first 128 KiB of the window, tables
/// with all of it.
fn bytes_of_zstd(level: u8, window_bits: u32) -> usize {
    let window = 1_usize << window_bits;
    let block = window.min(128 << 10);
    let (of_block, of_window) = match level {
        0..=2 => (5, 2),
        3..=5 => (11, 3),
        6..=8 => (7, 6),
        _ => (7, 11),
    };
    (160 << 10) + of_block * block + of_window * window
}

fn zstd(level: u8, window_bits: u32, length: Option<u64>) -> Option<CCtx<'static>> {
    let mut context = context::take_zstd()?;
    context.reset(ResetDirective::SessionAndParameters).ok()?;
    context.set_parameter(CParameter::CompressionLevel(i32::from(level))).ok()?;
    if length.is_none_or(|length| length > 1 << WINDOW_BITS_MOST) {
        // With a length that fits, the library chooses the window and smaller tables itself.
        context.set_parameter(CParameter::WindowLog(window_bits)).ok()?;
    }
    if length.is_none() {
        context.set_parameter(CParameter::HashLog(TABLE_BITS_OF_STREAM)).ok()?;
        context.set_parameter(CParameter::ChainLog(TABLE_BITS_OF_STREAM)).ok()?;
    }
    context.set_pledged_src_size(length).ok()?;
    Some(context)
}

fn gzip(level: u8) -> Option<GzipContext> {
    let level = Compression::new(u32::from(level));
    let codec = match context::take_gzip() {
        None => Compress::new_gzip(level, GZIP_WINDOW_BITS),
        Some(mut codec) => {
            codec.reset();
            codec.set_level(level).ok()?;
            codec
        }
    };
    Some(GzipContext { codec, is_clean: true })
}

fn step_zstd(context: &mut CCtx<'_>, input: &[u8], output: &mut [u8], operation: Operation) -> Result<Step, EncodeError> {
    let directive = match operation {
        Operation::Process => ZSTD_EndDirective::ZSTD_e_continue,
        Operation::Flush => ZSTD_EndDirective::ZSTD_e_flush,
        Operation::Finish => ZSTD_EndDirective::ZSTD_e_end,
    };
    let (mut source, mut sink) = (InBuffer::around(input), OutBuffer::around(output));
    let left = context.compress_stream2(&mut sink, &mut source, directive).map_err(|_| EncodeError)?;
    let is_taken = source.pos == input.len();
    let is_done = is_taken && (operation == Operation::Process || left == 0);
    Ok(Step { consumed: source.pos, produced: sink.pos(), is_done })
}

fn step_gzip(context: &mut GzipContext, input: &[u8], output: &mut [u8], operation: Operation) -> Result<Step, EncodeError> {
    let flush = match operation {
        Operation::Process => FlushCompress::None,
        Operation::Flush => FlushCompress::Sync,
        Operation::Finish => FlushCompress::Finish,
    };
    context.is_clean = false;
    let codec = &mut context.codec;
    let (taken_before, given_before) = (codec.total_in(), codec.total_out());
    let status = codec.compress(input, output, flush).map_err(|_| EncodeError)?;
    let consumed = (codec.total_in() - taken_before) as usize;
    let produced = (codec.total_out() - given_before) as usize;
    let is_taken = consumed == input.len();
    let is_done = match operation {
        Operation::Process => is_taken,
        // Output that does not fill what there was room for is all of it.
        Operation::Flush => is_taken && produced < output.len(),
        Operation::Finish => status == Status::StreamEnd,
    };
    context.is_clean = operation == Operation::Finish && is_done;
    Ok(Step { consumed, produced, is_done })
}

#[cfg(test)]
mod tests;
