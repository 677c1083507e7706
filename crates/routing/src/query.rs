//! Parameters of a query: `name=value` between `&`, with `+` for a space and `%XX` (the form encoding of the WHATWG URL
//! standard). Work is linear in the query, whose length the request line's limit bounds. A `;` does not separate
//! parameters.

use crate::text_test::TextTest;
use memchr::{memchr, memchr2};

/// Values up to this length are decoded on the stack; longer ones, which are rare, on the heap.
const DECODED_ON_STACK_BYTES: usize = 256;

/// Whether a parameter of that name (compared after decoding) has a value that fits. A name without `=` has the empty
/// value.
pub(crate) fn parameter_fits(query: &[u8], name: &[u8], test: &TextTest) -> bool {
    let mut rest = query;
    loop {
        let (pair, after) = match memchr(b'&', rest) {
            Some(position) => (&rest[..position], Some(&rest[position + 1..])),
            None => (rest, None),
        };
        if !pair.is_empty() {
            let (raw_name, raw_value) = match memchr(b'=', pair) {
                Some(position) => (&pair[..position], &pair[position + 1..]),
                None => (pair, &[][..]),
            };
            if Decoder(raw_name).eq(name.iter().copied()) && decoded_value_fits(raw_value, test) {
                return true;
            }
        }
        match after {
            Some(after) => rest = after,
            None => return false,
        }
    }
}

fn decoded_value_fits(raw: &[u8], test: &TextTest) -> bool {
    if memchr2(b'%', b'+', raw).is_none() {
        return test.fits(raw);
    }
    if raw.len() > DECODED_ON_STACK_BYTES {
        let mut decoded = Vec::with_capacity(raw.len());
        decoded.extend(Decoder(raw));
        return test.fits(&decoded);
    }
    let mut decoded = [0u8; DECODED_ON_STACK_BYTES];
    let mut len = 0;
    for byte in Decoder(raw) {
        decoded[len] = byte;
        len += 1;
    }
    test.fits(&decoded[..len])
}

/// Calls back with the value of the first parameter of that name, decoded, where there is one.
pub fn parameter_value(query: &[u8], name: &[u8], see: impl FnOnce(&[u8])) {
    for pair in query.split(|byte| *byte == b'&') {
        let (raw_name, raw_value) = match memchr(b'=', pair) {
            Some(position) => (&pair[..position], &pair[position + 1..]),
            None => (pair, &[][..]),
        };
        if !pair.is_empty() && Decoder(raw_name).eq(name.iter().copied()) {
            return match memchr2(b'%', b'+', raw_value) {
                None => see(raw_value),
                Some(_) => see(&Decoder(raw_value).collect::<Vec<u8>>()),
            };
        }
    }
}

/// The bytes that a form-encoded text stands for. A `%` without two hexadecimal digits stands for itself.
struct Decoder<'a>(&'a [u8]);

impl Iterator for Decoder<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        if *first == b'%'
            && let [high, low, after @ ..] = rest
            && let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low))
        {
            self.0 = after;
            return Some(high << 4 | low);
        }
        self.0 = rest;
        Some(if *first == b'+' { b' ' } else { *first })
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoder, parameter_fits, parameter_value};
    use crate::text_test::TextTest;
    use tidegate_model::TextPattern;

    fn check(query: &str, name: &str, pattern: TextPattern, expected: bool) {
        let test = TextTest::new(&pattern).expect("a pattern of the test");
        assert_eq!(parameter_fits(query.as_bytes(), name.as_bytes(), &test), expected, "{name} {pattern:?} in {query:?}");
    }

    #[test]
    fn the_first_of_a_name_is_its_value() {
        let check = |query: &str, name: &str, expected: Option<&str>| {
            let mut seen = None;
            parameter_value(query.as_bytes(), name.as_bytes(), |value| seen = Some(String::from_utf8_lossy(value).into_owned()));
            assert_eq!(seen.as_deref(), expected, "{name} in {query:?}");
        };
        check("a=1&b=2&a=3", "a", Some("1"));
        check("&&b=x+y%2Bz", "b", Some("x y+z"));
        check("%61=1", "a", Some("1"));
        check("a", "a", Some(""));
        check("aa=1", "a", None);
        check("", "", None);
    }

    #[test]
    fn names_and_values_are_compared_decoded() {
        let exact = |text: &str| TextPattern::Exact(text.into());
        check("a=1&b=2", "a", exact("1"), true);
        check("a=1&b=2", "b", exact("2"), true);
        check("a=1&b=2", "b", exact("1"), false);
        check("a=1&a=2", "a", exact("2"), true);
        check("aa=1", "a", exact("1"), false);
        check("A=1", "a", exact("1"), false);
        check("%61=%31", "a", exact("1"), true);
        check("a=x+y%2Bz", "a", exact("x y+z"), true);
        check("a+b=1", "a b", exact("1"), true);
        check("a=1=2", "a", exact("1=2"), true);
        check("a=%zz%4", "a", exact("%zz%4"), true);
        check("a=%", "a", exact("%"), true);
        check("a=%E2%82%AC", "a", exact("€"), true);
        check("a=1;b=2", "b", exact("2"), false);
        check("&&a=1&", "a", exact("1"), true);
        check("a%3D1", "a", exact("1"), false);
        check("a=%26b=2", "b", exact("2"), false);
        check(&format!("a={}%20end", "x".repeat(5000)), "a", TextPattern::Suffix("x end".into()), true);
    }

    #[test]
    fn every_kind_of_pattern() {
        check("flag", "flag", TextPattern::Present, true);
        check("flag", "flag", TextPattern::Exact(String::new()), true);
        check("flag=", "flag", TextPattern::Present, true);
        check("", "flag", TextPattern::Present, false);
        check("", "", TextPattern::Present, false);
        check("=1", "", TextPattern::Exact("1".into()), true);
        check("v=beta%2D2", "v", TextPattern::Prefix("beta-".into()), true);
        check("v=a.beta", "v", TextPattern::Suffix(".beta".into()), true);
        check("v=%31%32", "v", TextPattern::Regex("^[0-9]+$".into()), true);
        check("v=%31x", "v", TextPattern::Regex("^[0-9]+$".into()), false);
        check("v=%FF", "v", TextPattern::Regex("^.$".into()), true);
    }

    #[test]
    fn any_bytes_are_read_without_panicking_and_never_grow() {
        bolero::check!().for_each(|input: &[u8]| {
            assert!(Decoder(input).count() <= input.len());
            let (name, query) = input.split_at(input.len().min(3));
            for pattern in [TextPattern::Present, TextPattern::Exact("a".into()), TextPattern::Regex("a$".into())] {
                parameter_fits(query, name, &TextTest::new(&pattern).expect("a pattern of the test"));
            }
        });
    }

    proptest::proptest! {
        #[test]
        fn what_a_form_encodes_is_found_again(name in ".{0,8}", value in ".{0,300}", before in "[a-z=&]{0,20}") {
            let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
            let query = format!("{before}&{}={}", encode(&name), encode(&value));
            check(&query, &name, TextPattern::Exact(value), true);
        }
    }
}
