//! Cookies of a request: `name=value` between `;`, in any number of `Cookie` fields (HTTP/2 may split them, RFC 9113
//! section 8.2.3). Values are compared as sent, quotes included: RFC 6265 makes them part of the value.

use crate::text_test::TextTest;
use tidegate_wire::head::{Fields, HeaderId};

/// Whether a cookie of that name (compared with case) has a value that fits.
pub(crate) fn cookie_fits(fields: &Fields, name: &[u8], test: &TextTest) -> bool {
    fields.all(HeaderId::Cookie).any(|field| pairs(field).any(|(this, value)| this == name && test.fits(value)))
}

/// The value of the first cookie of that name (compared with case).
pub fn cookie_value<'a>(fields: &'a Fields, name: &[u8]) -> Option<&'a [u8]> {
    fields.all(HeaderId::Cookie).flat_map(pairs).find(|(this, _)| *this == name).map(|(_, value)| value)
}

/// The values of all cookies of that name (compared with case), in order.
pub fn cookie_values<'a>(fields: &'a Fields, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    fields.all(HeaderId::Cookie).flat_map(pairs).filter(move |(this, _)| *this == name).map(|(_, value)| value)
}

/// What has no `=` is no cookie.
fn pairs(field: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    field.split(|byte| *byte == b';').filter_map(|pair| {
        let equals = memchr::memchr(b'=', pair)?;
        Some((pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::{cookie_fits, cookie_value, pairs};
    use crate::text_test::TextTest;
    use tidegate_model::TextPattern;
    use tidegate_wire::head::Fields;

    fn check(cookies: &[&str], name: &str, pattern: TextPattern, expected: bool) {
        let mut fields = Fields::default();
        for cookie in cookies {
            fields.push(b"cookie", cookie.as_bytes());
        }
        let test = TextTest::new(&pattern).expect("a pattern of the test");
        assert_eq!(cookie_fits(&fields, name.as_bytes(), &test), expected, "{name} {pattern:?} in {cookies:?}");
    }

    #[test]
    fn cookies_are_found_in_any_field() {
        let exact = |text: &str| TextPattern::Exact(text.into());
        check(&["a=1; b=2"], "b", exact("2"), true);
        check(&["a=1", "b=2"], "b", exact("2"), true);
        check(&["a=1;b=2"], "b", exact("2"), true);
        check(&[" a = 1 "], "a", exact("1"), true);
        check(&["A=1"], "a", exact("1"), false);
        check(&["a=1; a=2"], "a", exact("2"), true);
        check(&["a=x=y"], "a", exact("x=y"), true);
        check(&["a=\"1\""], "a", exact("\"1\""), true);
        check(&["a=%31"], "a", exact("1"), false);
        check(&["a"], "a", TextPattern::Present, false);
        check(&["a="], "a", TextPattern::Present, true);
        check(&["session=x-beta"], "session", TextPattern::Suffix("-beta".into()), true);
        check(&["session=x-beta"], "session", TextPattern::Regex("^[a-z]-".into()), true);
        check(&[], "a", TextPattern::Present, false);
    }

    #[test]
    fn the_first_of_a_name_counts() {
        let check = |cookies: &[&str], expected: Option<&str>| {
            let mut fields = Fields::default();
            for cookie in cookies {
                fields.push(b"cookie", cookie.as_bytes());
            }
            assert_eq!(cookie_value(&fields, b"id"), expected.map(str::as_bytes), "{cookies:?}");
        };
        check(&[], None);
        check(&["x=1; id=a; id=b"], Some("a"));
        check(&["x=1", "id=\"c\"; y=2"], Some("\"c\""));
        check(&["ID=a; idx=b; id"], None);
        check(&["id="], Some(""));
    }

    #[test]
    fn any_bytes_are_read_without_panicking() {
        bolero::check!().for_each(|input: &[u8]| {
            for (name, value) in pairs(input) {
                assert!(!name.contains(&b'=') && !value.contains(&b';'));
            }
        });
    }
}
