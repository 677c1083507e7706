//! base64url without padding (RFC 7515 section 2), in its one spelling: other ones would make two texts of a token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// `None`: another alphabet, padding, white space, or bits behind the last byte that are not zero.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn bytes_have_one_spelling() {
        let check = |text: &str, expected: Option<&[u8]>| assert_eq!(decode(text.as_bytes()).as_deref(), expected, "{text:?}");
        check("", Some(b""));
        check("Zg", Some(b"f"));
        check("Zm8", Some(b"fo"));
        check("Zm9v", Some(b"foo"));
        check("-_-_", Some(&[0xfb, 0xff, 0xbf]));
        for refused in ["Zg==", "Zg=", "Zh", "Zm9", "Z", "+/+/", "Zm9v\n", " Zm9v", "Zm 9v", "Zm9v.", "Zm9\u{e4}"] {
            check(refused, None);
        }
    }
}
