//! Percent-encoding of what has to stand within something else.

/// Appends the bytes, of which all but the unreserved ones (RFC 3986 section 2.3) are encoded, `%` too.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            other => out.extend([b'%', DIGITS[usize::from(other >> 4)], DIGITS[usize::from(other & 15)]]),
        }
    }
}
