//! Integers with a prefix (RFC 7541 section 5.1). Strings are in `huffman`.

use super::CompressionError;

/// Bytes behind the prefix. Five hold 32 bits, which is more than any index, length or table size here; a longer
/// encoding, even of a small number, is an attack or a mistake and refused as section 5.1 asks for.
const CONTINUATION_BYTES_MAX: u32 = 5;

/// Reads an integer whose prefix of `PREFIX` bits is in `first` and whose other bytes `rest` begins with.
#[inline(always)]
pub(super) fn decode<const PREFIX: u32>(first: u8, rest: &mut &[u8]) -> Result<usize, CompressionError> {
    let limit = u8::MAX >> (8 - PREFIX);
    let prefix = first & limit;
    if prefix < limit { Ok(usize::from(prefix)) } else { decode_long(limit, rest) }
}

fn decode_long(limit: u8, rest: &mut &[u8]) -> Result<usize, CompressionError> {
    let mut value = u64::from(limit);
    for position in 0..CONTINUATION_BYTES_MAX {
        let (byte, tail) = rest.split_first().ok_or(CompressionError::Truncated)?;
        *rest = tail;
        value += u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return u32::try_from(value).map(|value| value as usize).map_err(|_| CompressionError::Integer);
        }
    }
    Err(CompressionError::Integer)
}

/// Appends an integer behind `flags`, the bits of the first byte above the prefix.
#[inline(always)]
pub(super) fn encode<const PREFIX: u32>(flags: u8, value: usize, out: &mut Vec<u8>) {
    let limit = usize::from(u8::MAX >> (8 - PREFIX));
    if value < limit {
        out.push(flags | value as u8);
    } else {
        out.push(flags | limit as u8);
        encode_long(value - limit, out);
    }
}

fn encode_long(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(0x80 | (value & 0x7f) as u8);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use crate::h2::hpack::CompressionError;

    fn read<const PREFIX: u32>(bytes: &[u8]) -> Result<(usize, usize), CompressionError> {
        let (first, mut rest) = bytes.split_first().expect("a first byte");
        decode::<PREFIX>(*first, &mut rest).map(|value| (value, rest.len()))
    }

    #[test]
    fn examples_of_the_rfc() {
        // RFC 7541 appendix C.1.
        assert_eq!(read::<5>(&[0b0110_1010]), Ok((10, 0)));
        assert_eq!(read::<5>(&[0b1011_1111, 0x9a, 0x0a, 0xff]), Ok((1337, 1)));
        assert_eq!(read::<8>(&[42]), Ok((42, 0)));
        let mut out = Vec::new();
        encode::<5>(0, 10, &mut out);
        encode::<5>(0b1010_0000, 1337, &mut out);
        encode::<8>(0, 42, &mut out);
        assert_eq!(out, [10, 0b1011_1111, 0x9a, 0x0a, 42]);
    }

    fn round_trips<const PREFIX: u32>() {
        let edges = (0..33).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let values = (0..20_000).chain(edges).filter(|value| u32::try_from(*value).is_ok());
        for value in values {
            let value = value as usize;
            let flags = !(u8::MAX >> (8 - PREFIX));
            let mut out = Vec::new();
            encode::<PREFIX>(if PREFIX == 8 { 0 } else { flags }, value, &mut out);
            assert!(PREFIX == 8 || out[0] & flags == flags);
            for end in 1..out.len() {
                assert_eq!(read::<PREFIX>(&out[..end]), Err(CompressionError::Truncated), "{value}");
            }
            out.push(0);
            assert_eq!(read::<PREFIX>(&out), Ok((value, 1)));
        }
    }

    #[test]
    fn every_prefix_reads_what_it_wrote_and_misses_each_byte() {
        round_trips::<1>();
        round_trips::<2>();
        round_trips::<3>();
        round_trips::<4>();
        round_trips::<5>();
        round_trips::<6>();
        round_trips::<7>();
        round_trips::<8>();
    }

    #[test]
    fn the_largest_and_the_longest_are_bounded() {
        // 31 + 4294967264 is the last that fits 32 bits.
        assert_eq!(read::<5>(&[0x1f, 0xe0, 0xff, 0xff, 0xff, 0x0f]), Ok((u32::MAX as usize, 0)));
        assert_eq!(read::<5>(&[0x1f, 0xe1, 0xff, 0xff, 0xff, 0x0f]), Err(CompressionError::Integer));
        assert_eq!(read::<5>(&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(CompressionError::Integer));
        // A small number with zeros behind it: five bytes are read, six are not.
        assert_eq!(read::<5>(&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00]), Ok((31, 0)));
        assert_eq!(read::<5>(&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]), Err(CompressionError::Integer));
        assert_eq!(read::<7>(&[0xff; 4]), Err(CompressionError::Truncated));
        assert_eq!(read::<7>(&[0xff; 4000]), Err(CompressionError::Integer));
    }
}
