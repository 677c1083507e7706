//! CRC-32C (Castagnoli, RFC 3720 appendix B.4), which a header of the PROXY protocol may carry. For headers of a few
//! hundred bytes at the start of a connection: a table of one kilobyte, no instruction of a certain processor.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

/// Of the pieces one after the other.
pub(super) fn crc32c(pieces: [&[u8]; 3]) -> u32 {
    let bytes = pieces.into_iter().flatten();
    !bytes.fold(!0_u32, |sum, byte| (sum >> 8) ^ TABLE[(sum as u8 ^ byte) as usize])
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    /// The vectors of RFC 3720 appendix B.4, and the check value that catalogues of checksums give.
    #[test]
    fn known_sums() {
        let check = |input: &[u8], expected: u32| {
            assert_eq!(crc32c([input, b"", b""]), expected, "{input:?}");
            let (start, end) = input.split_at(input.len() / 3);
            assert_eq!(crc32c([start, b"", end]), expected, "{input:?} in pieces");
        };
        check(b"123456789", 0xe306_9283);
        check(&[0; 32], 0x8a91_36aa);
        check(&[0xff; 32], 0x62a8_ab43);
        check(&(0..32).collect::<Vec<u8>>(), 0x46dd_794e);
        check(b"", 0);
    }
}
