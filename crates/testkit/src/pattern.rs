//! Bodies whose every byte is known from its place, so that a lost, doubled or swapped piece shows wherever it is.

use std::sync::OnceLock;

/// A prime, so that no power of two (a buffer, a record, a frame) is a multiple of the period.
const PERIOD: usize = 65_521;

/// `length` bytes of the pattern from `offset` on.
pub fn pattern(offset: u64, length: usize) -> Vec<u8> {
    let block = block();
    let mut start = (offset % PERIOD as u64) as usize;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let piece = (length - bytes.len()).min(PERIOD - start);
        bytes.extend_from_slice(&block[start..start + piece]);
        start = 0;
    }
    bytes
}

/// Whether `bytes` are those of the pattern from `offset` on; the place of the first that is not.
pub fn check(offset: u64, bytes: &[u8]) -> Result<(), u64> {
    let block = block();
    let mut start = (offset % PERIOD as u64) as usize;
    let mut done = 0;
    while done < bytes.len() {
        let piece = (bytes.len() - done).min(PERIOD - start);
        if bytes[done..done + piece] != block[start..start + piece] {
            let differing = (0..piece).find(|index| bytes[done + index] != block[start + index]).unwrap_or(0);
            return Err(offset + (done + differing) as u64);
        }
        done += piece;
        start = 0;
    }
    Ok(())
}

fn block() -> &'static [u8] {
    static BLOCK: OnceLock<Vec<u8>> = OnceLock::new();
    BLOCK.get_or_init(|| {
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let next = |state: &mut u64| {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            (*state >> 32) as u8
        };
        (0..PERIOD).map(|_| next(&mut state)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::{PERIOD, check, pattern};

    #[test]
    fn a_byte_out_of_place_is_found() {
        let mut bytes = pattern(PERIOD as u64 - 3, 10);
        assert_eq!(check(PERIOD as u64 - 3, &bytes), Ok(()));
        assert!(check(0, &bytes).is_err(), "the same bytes are not right at another place");
        bytes[7] ^= 1;
        assert_eq!(check(PERIOD as u64 - 3, &bytes), Err(PERIOD as u64 + 4));
    }
}
