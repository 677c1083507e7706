//! Small pieces of text and bytes: numbers and texts with their length in front, forms, digests.

use aws_lc_rs::digest;
use std::fmt::Write as _;

/// Half of SHA-256 over texts of which none can pass for a part of another.
pub(crate) fn digest_of<'p>(parts: impl IntoIterator<Item = &'p str>) -> [u8; 16] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    context.finish().as_ref()[..16].try_into().expect("SHA-256 is longer")
}

/// Appends bytes with their length.
pub(crate) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// What [`put`] has appended, from the front of what is left.
pub(crate) fn take<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = u32::from_be_bytes(take_array(rest)?) as usize;
    let (bytes, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(bytes)
}

pub(crate) fn take_text(rest: &mut &[u8]) -> Option<Box<str>> {
    std::str::from_utf8(take(rest)?).ok().map(Into::into)
}

pub(crate) fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = rest.split_at_checked(N)?;
    *rest = behind;
    bytes.try_into().ok()
}

pub(crate) fn take_number(rest: &mut &[u8]) -> Option<u64> {
    take_array(rest).map(u64::from_be_bytes)
}

/// As values of forms and queries are written (RFC 3986 section 2.1).
pub fn percent_encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// Names and values, as a form is sent or behind the `?` of an address.
pub fn form<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        percent_encode(name, &mut out);
        out.push('=');
        percent_encode(value, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{digest_of, form, put, take, take_text};

    #[test]
    fn forms_are_written_so_that_nothing_breaks_out() {
        let check = |pairs: &[(&str, &str)], expected: &str| assert_eq!(form(pairs.iter().copied()), expected);
        check(&[], "");
        check(&[("a", "b")], "a=b");
        check(&[("a", "b&c=d"), ("e f", "ä+%")], "a=b%26c%3Dd&e%20f=%C3%A4%2B%25");
    }

    #[test]
    fn texts_come_out_as_they_went_in() {
        let mut out = Vec::new();
        put(&mut out, b"");
        put(&mut out, "text".as_bytes());
        let mut rest = &out[..];
        assert_eq!(take(&mut rest), Some(&b""[..]));
        assert_eq!(take_text(&mut rest).as_deref(), Some("text"));
        assert_eq!(take(&mut rest), None);
        assert_eq!(take(&mut &[0, 0, 0, 9, 1][..]), None);
    }

    #[test]
    fn no_part_passes_for_a_part_of_another() {
        assert_ne!(digest_of(["ab", "c"]), digest_of(["a", "bc"]));
        assert_ne!(digest_of(["ab"]), digest_of(["ab", ""]));
        assert_eq!(digest_of(["a", "b"]), digest_of(["a", "b"]));
    }
}
