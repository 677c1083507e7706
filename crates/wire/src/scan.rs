//! Finding the end of a run of allowed bytes: a 256-entry table for short runs, eight bytes at a time for long ones.
//! What the runs mean is in `http1`, `path` and `chunked`.

/// Token bytes (RFC 9110 section 5.6.2): methods, field names, chunk extensions.
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
            );
        byte += 1;
    }
    table
};

#[inline]
pub fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Position of the first byte at or after `from` that is no token byte, or the length.
#[inline]
pub fn token_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() && TOKEN[bytes[at] as usize] {
        at += 1;
    }
    at
}

/// Position of the first byte at or after `from` that may not be in a field value, or the length.
///
/// Allowed are HTAB, SP, visible ASCII and everything above 0x7f (RFC 9110 section 5.5).
#[inline]
pub fn value_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = find(bytes, at, value_stops, |byte| byte < 0x20 || byte == 0x7f);
        if bytes.get(at) != Some(&b'\t') {
            return at;
        }
        at += 1;
    }
}

/// Position of the first byte at or after `from` that may not be in a request target, or the length.
///
/// Allowed is visible ASCII except `#`, since a fragment is never sent (RFC 9112 section 3.2).
#[inline]
pub fn target_end(bytes: &[u8], from: usize) -> usize {
    find(bytes, from, target_stops, |byte| !(0x21..=0x7e).contains(&byte) || byte == b'#')
}

/// Looks for the first byte that `stops` marks in a word, or `is_stop` says in the last few bytes.
///
/// `stops` sets the top bit of each marked byte. Because subtraction borrows upwards it may mark bytes above a true hit
/// wrongly, never below one; read as little endian, the lowest mark is therefore the first hit.
#[inline(always)]
fn find(bytes: &[u8], from: usize, stops: impl Fn(u64) -> u64, is_stop: impl Fn(u8) -> bool) -> usize {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let marks = stops(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < bytes.len() && !is_stop(bytes[at]) {
        at += 1;
    }
    at
}

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

#[inline(always)]
fn value_stops(word: u64) -> u64 {
    (below(word, 0x20) | equal(word, 0x7f)) & TOPS
}

#[inline(always)]
fn target_stops(word: u64) -> u64 {
    (below(word, 0x21) | equal(word, 0x7f) | equal(word, b'#') | word) & TOPS
}

#[inline(always)]
fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(ONES * bound as u64) & !word
}

#[inline(always)]
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * byte as u64), 1)
}

#[cfg(test)]
mod tests {
    use super::{target_end, token_end, value_end};

    /// Every byte at every place of two words, after allowed bytes only.
    #[test]
    fn each_byte_stops_or_passes_wherever_it_stands() {
        for byte in 0..=255_u8 {
            let in_value = byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
            let in_target = (0x21..=0x7e).contains(&byte) && byte != b'#';
            let in_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            for place in 0..19 {
                let mut bytes = [b'a'; 20];
                bytes[place] = byte;
                bytes[19] = 0;
                let end = |allowed: bool| if allowed { 19 } else { place };
                assert_eq!(value_end(&bytes, 0), end(in_value), "value, byte {byte} at {place}");
                assert_eq!(target_end(&bytes, 0), end(in_target), "target, byte {byte} at {place}");
                assert_eq!(token_end(&bytes, 0), end(in_token), "token, byte {byte} at {place}");
            }
        }
    }

    #[test]
    fn two_stops_in_a_word_give_the_first() {
        for first in 0..7 {
            for second in first + 1..8 {
                for (a, b) in [(0, 0), (0, 1), (0x1f, 0x20), (0x7f, 0x7e), (b'\r', b'\n'), (0, 0x80), (0x7f, 0)] {
                    let mut bytes = [b'a'; 8];
                    bytes[first] = a;
                    bytes[second] = b;
                    assert_eq!(value_end(&bytes, 0), first);
                    assert_eq!(target_end(&bytes, 0), first);
                }
            }
        }
    }
}
