//! Turns bytes from the network into text that cannot leave its place in a line: inside a JSON string, or inside quotes
//! in a text line. Control characters are escaped in both, so that a log that is looked at in a terminal cannot steer
//! the terminal.

use super::FIELD_BYTES_MAX;

const HEX: &[u8; 16] = b"0123456789abcdef";
/// Says that a value was cut.
const CUT: &str = "…";

/// The inside of a JSON string. What is not UTF-8 becomes U+FFFD; a value longer than [`FIELD_BYTES_MAX`] is cut.
#[inline]
pub(super) fn push_json(line: &mut Vec<u8>, raw: &[u8]) {
    push_json_cut(line, raw, FIELD_BYTES_MAX);
}

/// As [`push_json`], with a bound of its own.
#[inline]
pub(super) fn push_json_cut(line: &mut Vec<u8>, raw: &[u8], bytes_max: usize) {
    let clean = clean_prefix(raw);
    if clean == raw.len() && clean <= bytes_max {
        line.extend_from_slice(raw);
    } else {
        push_json_slow(line, raw, clean, bytes_max);
    }
}

/// The inside of a quoted value in a text line: `"`, `\`, control bytes and bytes outside ASCII become `\xHH`.
pub(super) fn push_text(line: &mut Vec<u8>, raw: &[u8]) {
    let end = line.len() + FIELD_BYTES_MAX;
    let mut rest = raw;
    loop {
        let clean = clean_prefix(rest).min(end.saturating_sub(line.len()));
        line.extend_from_slice(&rest[..clean]);
        let Some(byte) = rest.get(clean) else { return };
        if line.len() >= end {
            line.extend_from_slice(CUT.as_bytes());
            return;
        }
        line.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        rest = &rest[clean + 1..];
    }
}

#[cold]
fn push_json_slow(line: &mut Vec<u8>, raw: &[u8], clean: usize, bytes_max: usize) {
    let end = line.len() + bytes_max;
    let clean = clean.min(bytes_max);
    line.extend_from_slice(&raw[..clean]);
    for chunk in raw[clean..].utf8_chunks() {
        for character in chunk.valid().chars() {
            if line.len() >= end {
                line.extend_from_slice(CUT.as_bytes());
                return;
            }
            push_json_char(line, character);
        }
        if !chunk.invalid().is_empty() {
            if line.len() >= end {
                line.extend_from_slice(CUT.as_bytes());
                return;
            }
            line.extend_from_slice(br"\ufffd");
        }
    }
}

fn push_json_char(line: &mut Vec<u8>, character: char) {
    match character {
        '"' => line.extend_from_slice(br#"\""#),
        '\\' => line.extend_from_slice(br"\\"),
        // C0, DEL and C1: the last hold the one-character form of ESC [.
        '\0'..='\x1f' | '\x7f'..='\u{9f}' => {
            let code = character as usize;
            line.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[code >> 4], HEX[code & 15]]);
        }
        other => line.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// How many bytes from the start may be copied as they are: printable ASCII but `"` and `\`. Eight bytes at a time:
/// most values are clean, and this is most of what a line costs.
#[inline]
fn clean_prefix(raw: &[u8]) -> usize {
    let (words, tail) = raw.as_chunks::<8>();
    for (position, word) in words.iter().enumerate() {
        let dirty = dirty_bytes(u64::from_le_bytes(*word));
        if dirty != 0 {
            return position * 8 + dirty.trailing_zeros() as usize / 8;
        }
    }
    let clean = tail.iter().take_while(|byte| !matches!(byte, 0..=0x1f | b'"' | b'\\' | 0x7f..)).count();
    words.len() * 8 + clean
}

/// The high bit of each byte that must be escaped. Bytes above the first such one may be marked wrongly, because the
/// subtractions borrow; the first one is exact.
#[inline]
fn dirty_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = zero_bytes(word ^ (ONES * b'"' as u64));
    let backslash = zero_bytes(word ^ (ONES * b'\\' as u64));
    let delete = zero_bytes(word ^ (ONES * 0x7f));
    (word | control | quote | backslash | delete) & HIGH
}

#[cfg(test)]
mod tests {
    use super::{FIELD_BYTES_MAX, clean_prefix, push_json, push_text};
    use proptest::prelude::*;

    fn json(raw: &[u8]) -> String {
        let mut line = Vec::new();
        push_json(&mut line, raw);
        String::from_utf8(line).expect("escaped text is UTF-8")
    }

    fn text(raw: &[u8]) -> String {
        let mut line = Vec::new();
        push_text(&mut line, raw);
        String::from_utf8(line).expect("escaped text is UTF-8")
    }

    #[test]
    fn json_strings() {
        let check = |raw: &[u8], expected: &str| assert_eq!(json(raw), expected);
        check(b"", "");
        check(b"Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (X11; Linux x86_64)");
        check(br#"","status":200,"x":""#, r#"\",\"status\":200,\"x\":\""#);
        check(br"C:\n", r"C:\\n");
        check(b"a\r\nb\0\x1b[31m\x7f", r"a\u000d\u000ab\u0000\u001b[31m\u007f");
        check("K\u{fc}che \u{1f600}".as_bytes(), "K\u{fc}che \u{1f600}");
        check("\u{9b}31m".as_bytes(), r"\u009b31m");
        check(b"a\xffb\xc3", r"a\ufffdb\ufffd");
    }

    #[test]
    fn text_values() {
        let check = |raw: &[u8], expected: &str| assert_eq!(text(raw), expected);
        check(b"GET /a b", "GET /a b");
        check(b"\" 200 \"", r"\x22 200 \x22");
        check(b"\\x22\n\x1b\xff", r"\x5cx22\x0a\x1b\xff");
    }

    #[test]
    fn long_values_are_cut_whatever_they_hold() {
        for byte in [b'a', b'"', 0, 0xff] {
            for extra in 0..9 {
                let raw = vec![byte; FIELD_BYTES_MAX + extra];
                for (escaped, form) in [(json(&raw), "json"), (text(&raw), "text")] {
                    assert!(escaped.len() < FIELD_BYTES_MAX + 16, "{form} of {byte} {extra}: {}", escaped.len());
                    assert_eq!(escaped.ends_with('…'), byte != b'a' || extra > 0, "{form} of {byte} {extra}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_json_string_reads_back_as_the_text(raw in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            ".{0,100}".prop_map(String::into_bytes),
            "[ -~]{0,100}".prop_map(String::into_bytes),
        ]) {
            let escaped = json(&raw);
            let back: String = serde_json::from_str(&format!("\"{escaped}\"")).expect("a JSON string");
            prop_assert_eq!(back, String::from_utf8_lossy(&raw));
            prop_assert!(!escaped.chars().any(char::is_control));
        }

        #[test]
        fn the_clean_prefix_ends_at_the_first_dirty_byte(raw in proptest::collection::vec(prop_oneof![b' '..=b'~', any::<u8>()], 0..40)) {
            let expected = raw.iter().position(|byte| !(b' '..=b'~').contains(byte) || *byte == b'"' || *byte == b'\\');
            prop_assert_eq!(clean_prefix(&raw), expected.unwrap_or(raw.len()));
        }

        #[test]
        fn text_is_printable_ascii_without_quotes(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
            let escaped = text(&raw);
            prop_assert!(escaped.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"'));
        }
    }
}
