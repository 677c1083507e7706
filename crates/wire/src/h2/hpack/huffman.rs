//! The Huffman code of HPACK (RFC 7541 section 5.2 and appendix B). Lengths and prefixes of strings are read and
//! written by `decoder` and `encoder`.
//!
//! The code is canonical: codes of one length follow each other in the order of their symbols. So the lengths are all
//! that is written down here; codes and tables are computed from them by the compiler.

use super::CompressionError;

const SYMBOLS: usize = 257;
/// The symbol that must not be in a string; its first bits fill the last byte.
const END_OF_STRING: usize = 256;
const LENGTH_MAX: usize = 30;
/// Bits that are looked up at once. Ten cover every printable character but `#$'+<>@[\]^{|}~` and the grave accent, in
/// 2 KiB.
const QUICK_BITS: usize = 10;
/// Quick steps between two looks at the input: 56 bits are there at least.
const QUICK_STEPS: usize = 5;
/// Decoded bytes are gathered here before they are appended.
const CHUNK: usize = 64;

/// Appendix B: the number of bits of each symbol.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Code, aligned to the right, and number of bits of each symbol.
const CODES: [(u32, u8); SYMBOLS] = codes();
/// For what the next bits can be: the symbol, and its number of bits times 256; 0 where the code is longer.
static QUICK: [u16; 1 << QUICK_BITS] = quick();
/// For each length: the first 32-bit number, aligned to the left, that is above all codes of this and lower lengths.
static LIMITS: [u64; LENGTH_MAX + 1] = limits();
/// For each length: what is added to a code of it for its place in `ORDERED`.
static OFFSETS: [i64; LENGTH_MAX + 1] = offsets();
/// All symbols in the order of their codes.
static ORDERED: [u16; SYMBOLS] = ordered();

const fn ordered() -> [u16; SYMBOLS] {
    let mut ordered = [0; SYMBOLS];
    let (mut place, mut length) = (0, 1);
    while length <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                ordered[place] = symbol as u16;
                place += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    ordered
}

const fn codes() -> [(u32, u8); SYMBOLS] {
    let ordered = ordered();
    let mut codes = [(0, 0); SYMBOLS];
    let (mut place, mut code, mut length) = (0, 0_u32, 0);
    while place < SYMBOLS {
        let symbol = ordered[place] as usize;
        code <<= LENGTHS[symbol] - length;
        length = LENGTHS[symbol];
        codes[symbol] = (code, length);
        code += 1;
        place += 1;
    }
    codes
}

const fn quick() -> [u16; 1 << QUICK_BITS] {
    let mut quick = [0; 1 << QUICK_BITS];
    let mut symbol = 0;
    while symbol < END_OF_STRING {
        let (code, length) = CODES[symbol];
        if length as usize <= QUICK_BITS {
            let free = QUICK_BITS - length as usize;
            let mut place = (code as usize) << free;
            while place < (code as usize + 1) << free {
                quick[place] = (length as u16) << 8 | symbol as u16;
                place += 1;
            }
        }
        symbol += 1;
    }
    quick
}

const fn limits() -> [u64; LENGTH_MAX + 1] {
    let mut limits = [0; LENGTH_MAX + 1];
    let ordered = ordered();
    let (mut place, mut length) = (0, 1);
    while length <= LENGTH_MAX {
        limits[length] = limits[length - 1];
        while place < SYMBOLS && LENGTHS[ordered[place] as usize] as usize == length {
            limits[length] = (CODES[ordered[place] as usize].0 as u64 + 1) << (32 - length);
            place += 1;
        }
        length += 1;
    }
    limits
}

const fn offsets() -> [i64; LENGTH_MAX + 1] {
    let mut offsets = [0; LENGTH_MAX + 1];
    let ordered = ordered();
    let mut place = SYMBOLS;
    while place > 0 {
        place -= 1;
        let (code, length) = CODES[ordered[place] as usize];
        offsets[length as usize] = place as i64 - code as i64;
    }
    offsets
}

/// Input as bits: the next `count` of them are the highest of `next`, ones are behind the last.
struct Bits<'a> {
    next: u64,
    count: u32,
    rest: &'a [u8],
}

impl Bits<'_> {
    /// At least 56 bits, and whether as many bytes stood there as are taken at once.
    #[inline(always)]
    fn refill(&mut self) -> bool {
        let Some(word) = self.rest.first_chunk::<8>() else { return false };
        self.next |= u64::from_be_bytes(*word) >> self.count;
        let bytes = (63 - self.count) / 8;
        self.rest = self.rest.get(bytes as usize..).unwrap_or_default();
        self.count += bytes * 8;
        true
    }

    /// As `refill`, where fewer than 8 bytes are left.
    fn refill_last(&mut self) {
        let mut word = [u8::MAX; 8];
        for (place, byte) in word.iter_mut().zip(self.rest) {
            *place = *byte;
        }
        self.next |= u64::from_be_bytes(word) >> self.count;
        let bytes = ((63 - self.count) / 8).min(self.rest.len() as u32);
        self.rest = self.rest.get(bytes as usize..).unwrap_or_default();
        self.count += bytes * 8;
    }

    #[inline(always)]
    fn quick(&self) -> u16 {
        QUICK[(self.next >> (64 - QUICK_BITS)) as usize]
    }

    #[inline(always)]
    fn take(&mut self, length: u32) {
        self.next <<= length;
        self.count -= length;
    }

    /// Symbol and number of bits of a code that is longer than `QUICK_BITS`.
    #[inline(never)]
    fn long(&self) -> (usize, u32) {
        let head = self.next >> 32;
        let length = (QUICK_BITS + 1..LENGTH_MAX).find(|length| head < LIMITS[*length]).unwrap_or(LENGTH_MAX);
        let place = (head >> (32 - length)) as i64 + OFFSETS[length];
        (usize::from(ORDERED.get(place as usize).copied().unwrap_or(END_OF_STRING as u16)), length as u32)
    }
}

/// Where decoded bytes go: to `out` as long as they are no more than `max`, and counted in any case.
struct Output<'a> {
    out: &'a mut Vec<u8>,
    chunk: [u8; CHUNK],
    filled: usize,
    /// Bytes of full chunks.
    flushed: usize,
    max: usize,
}

impl Output<'_> {
    #[inline(always)]
    fn push(&mut self, byte: u8) {
        self.chunk[self.filled % CHUNK] = byte;
        self.filled += 1;
        if self.filled == CHUNK {
            self.flush();
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.flushed += self.filled;
        if self.flushed <= self.max {
            self.out.extend_from_slice(&self.chunk[..self.filled.min(CHUNK)]);
        }
        self.filled = 0;
    }
}

/// Appends the string that `input` codes if it has at most `max` bytes; says how many it has. A longer one leaves `out`
/// as it was, and never takes memory for more than `max`.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>, max: usize) -> Result<usize, CompressionError> {
    let start = out.len();
    let mut output = Output { out, chunk: [0; CHUNK], filled: 0, flushed: 0, max };
    let mut bits = Bits { next: 0, count: 0, rest: input };
    while bits.refill() {
        for _ in 0..QUICK_STEPS {
            let entry = bits.quick();
            if entry != 0 {
                output.push(entry as u8);
                bits.take(u32::from(entry >> 8));
                continue;
            }
            if bits.count >= LENGTH_MAX as u32 {
                let (symbol, length) = bits.long();
                output.push(u8::try_from(symbol).map_err(|_| CompressionError::Huffman)?);
                bits.take(length);
            }
            break;
        }
    }
    decode_last(&mut bits, &mut output)?;
    output.flush();
    let len = output.flushed;
    if len > max {
        out.truncate(start);
    }
    Ok(len)
}

/// The end of a string is filled with the highest bits of the code of its end: less than a byte, all ones (section
/// 5.2).
fn decode_last(bits: &mut Bits<'_>, output: &mut Output<'_>) -> Result<(), CompressionError> {
    loop {
        if bits.count < 32 {
            bits.refill_last();
        }
        let (symbol, length) = match bits.quick() {
            0 if bits.count < 8 => break,
            0 => bits.long(),
            entry => (usize::from(entry & 0xff), u32::from(entry >> 8)),
        };
        if length > bits.count {
            break;
        }
        output.push(u8::try_from(symbol).map_err(|_| CompressionError::Huffman)?);
        bits.take(length);
    }
    // What is behind the last bit is ones, so ones to the end are 64 less those that were shifted in.
    let is_filled = bits.count < 8 && bits.next.leading_ones() >= bits.count;
    is_filled.then_some(()).ok_or(CompressionError::Huffman)
}

/// The number of bytes that `encode` appends.
pub(super) fn encoded_len(input: &[u8]) -> usize {
    let bits: usize = input.iter().map(|byte| usize::from(CODES[usize::from(*byte)].1)).sum();
    bits.div_ceil(8)
}

/// Appends the code of a string.
pub(super) fn encode(input: &[u8], out: &mut Vec<u8>) {
    static TABLE: [(u32, u8); SYMBOLS] = CODES;
    // The lowest `count` bits of `pending` are still to be written; less than 32 between two symbols.
    let (mut pending, mut count) = (0_u64, 0_u32);
    for byte in input {
        let (code, length) = TABLE[usize::from(*byte)];
        pending = pending << length | u64::from(code);
        count += u32::from(length);
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((pending >> count) as u32).to_be_bytes());
        }
    }
    if count > 0 {
        let filled = (pending << 32 | u64::from(u32::MAX)) >> count;
        out.extend_from_slice(&(filled as u32).to_be_bytes()[..count.div_ceil(8) as usize]);
    }
}

#[cfg(test)]
mod tests;
