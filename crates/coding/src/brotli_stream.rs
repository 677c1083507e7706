//! One body through the codec of br. At its level 1 that codec compresses each piece of input for itself, so there
//! pieces are gathered first: 100 KB of HTML in pieces of 16 KB took 630 µs and became 35,800 bytes, in one piece
//! 490 µs and 30,900 bytes. What is flushed is not held back.

use crate::cells::KeptCells;
use crate::encoder::{EncodeError, Operation, Step, WINDOW_BITS_MOST};
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};

/// Input that is gathered at the most; more for one piece does not pay, since tables leave the processor's caches.
const GATHERED_BYTES_MAX: usize = 128 << 10;
/// The highest level with which each piece of input is compressed for itself.
const LEVEL_OF_PIECES: u8 = 1;
/// The highest level whose tables are not larger than all else: 2 MiB. Those of 9 are 32 MiB.
const LEVEL_OF_SMALL_TABLES: u8 = 6;

pub struct BrotliStream {
    state: BrotliEncoderStateStruct<KeptCells>,
    /// Input that the codec was not given yet. Nothing is reserved before the first piece that has to wait.
    gathered: Vec<u8>,
    /// The codec gets no more than this at a time; 0: whatever comes.
    piece_bytes: usize,
}

impl BrotliStream {
    pub fn new(level: u8, window_bits: u32, length: Option<u64>) -> BrotliStream {
        let mut state = BrotliEncoderStateStruct::new(KeptCells);
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, u32::from(level));
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, window_bits);
        if let Some(length) = length {
            // With less window than the body would have, for want of memory, the tables are smaller as well.
            let told = if window_bits < WINDOW_BITS_MOST { length.min(1 << window_bits) } else { length };
            let hint = u32::try_from(told).unwrap_or(u32::MAX);
            state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT, hint);
        }
        BrotliStream { state, gathered: Vec::new(), piece_bytes: piece_bytes(level, window_bits) }
    }

    pub fn step(&mut self, input: &[u8], output: &mut [u8], operation: Operation) -> Result<Step, EncodeError> {
        if self.piece_bytes == 0 {
            return self.code(input, output, operation);
        }
        let (mut consumed, mut produced) = (0, 0);
        loop {
            let rest = &input[consumed..];
            let is_whole = operation != Operation::Process || rest.len() >= self.piece_bytes;
            let step = if self.gathered.is_empty() && is_whole {
                // As it lies there, without a copy.
                let piece = &rest[..rest.len().min(self.piece_bytes)];
                let is_last = piece.len() == rest.len();
                let step = self.code(piece, &mut output[produced..], operation.of_piece(is_last))?;
                consumed += step.consumed;
                Step { is_done: step.is_done && is_last, ..step }
            } else {
                consumed += self.gather(rest);
                let is_last = consumed == input.len();
                let is_full = self.gathered.len() == self.piece_bytes;
                if is_last && !is_full && operation == Operation::Process {
                    return Ok(Step { consumed, produced, is_done: true });
                }
                let step = self.code_gathered(&mut output[produced..], operation.of_piece(is_last))?;
                Step { is_done: step.is_done && is_last, ..step }
            };
            produced += step.produced;
            if step.is_done || (step.produced == 0 && step.consumed == 0) || produced == output.len() {
                return Ok(Step { consumed, produced, is_done: step.is_done });
            }
        }
    }

    /// How much of it was taken.
    fn gather(&mut self, input: &[u8]) -> usize {
        if self.gathered.capacity() == 0 {
            self.gathered.reserve_exact(self.piece_bytes);
        }
        let taken = input.len().min(self.piece_bytes - self.gathered.len());
        self.gathered.extend_from_slice(&input[..taken]);
        taken
    }

    /// The codec takes a piece as a whole, or nothing of it while it has output left.
    fn code_gathered(&mut self, output: &mut [u8], operation: Operation) -> Result<Step, EncodeError> {
        let gathered = std::mem::take(&mut self.gathered);
        let step = self.code(&gathered, output, operation)?;
        if operation != Operation::Flush || step.consumed < gathered.len() {
            self.gathered = gathered;
            self.gathered.drain(..step.consumed);
        }
        // What was flushed belongs to a stream that pauses, which keeps no memory that it need not.
        Ok(step)
    }

    fn code(&mut self, input: &[u8], output: &mut [u8], operation: Operation) -> Result<Step, EncodeError> {
        let operation_of_codec = match operation {
            Operation::Process => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Operation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Operation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut available_in, mut consumed) = (input.len(), 0);
        let (mut available_out, mut produced) = (output.len(), 0);
        let is_well = self.state.compress_stream(
            operation_of_codec,
            &mut available_in,
            input,
            &mut consumed,
            &mut available_out,
            output,
            &mut produced,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !is_well {
            return Err(EncodeError);
        }
        let is_done = match operation {
            Operation::Process => available_in == 0,
            Operation::Flush => available_in == 0 && !self.state.has_more_output(),
            Operation::Finish => self.state.is_finished(),
        };
        Ok(Step { consumed, produced, is_done })
    }
}

impl Operation {
    /// What is to become of a piece: only with the last one of the input everything has to come out.
    fn of_piece(self, is_last: bool) -> Operation {
        if is_last { self } else { Operation::Process }
    }
}

fn piece_bytes(level: u8, window_bits: u32) -> usize {
    if level > LEVEL_OF_PIECES { 0 } else { GATHERED_BYTES_MAX.min(1 << window_bits) }
}

/// The level to go down to where there is no memory for a higher one.
pub fn level_with_less(level: u8) -> u8 {
    level.min(LEVEL_OF_SMALL_TABLES)
}

/// Not less than what the codec and its input take of memory; a test compares. From level 5 on the tables are as large
/// as the level says, however small the body is.
pub fn bytes_needed(level: u8, window_bits: u32, length: Option<u64>) -> usize {
    let window = 1_usize << window_bits;
    // Commands wait for the end of their block, which may be longer than the window.
    let waiting = if level >= 5 && length.is_some_and(|length| length > window as u64) { 1 << 20 } else { 0 };
    let needed = match level {
        0 | 1 => 12 * piece_bytes(level, window_bits) + (64 << 10),
        2 | 3 => 6 * window + (512 << 10),
        4 => 10 * window + (1 << 20),
        5 => 16 * window + (1 << 20),
        6 => 16 * window + (2 << 20),
        7 => 16 * window + (8 << 20),
        8 => 16 * window + (16 << 20),
        _ => 16 * window + (32 << 20),
    };
    needed + waiting
}
