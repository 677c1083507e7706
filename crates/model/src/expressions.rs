//! Regular expressions over what clients send, compiled in one way wherever they stand. What is sent is bytes, of any
//! encoding or none: were `.` a character of UTF-8, one byte that is none would get a request past `deny` and past a
//! route. A part that is to compare characters says so by `(?u:…)`.

use regex::bytes::{RegexBuilder, RegexSetBuilder};
use regex_syntax::{Parser, ParserBuilder};

/// An expression in which `.`, `[^/]` and `\D` stand for any byte, the end of a line too.
pub fn expression(text: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(text);
    builder.unicode(false).dot_matches_new_line(true);
    builder
}

/// Several that are asked at once.
pub fn expressions<'t>(texts: impl Iterator<Item = &'t str>) -> RegexSetBuilder {
    let mut builder = RegexSetBuilder::new(texts);
    builder.unicode(false).dot_matches_new_line(true);
    builder
}

/// What reads them, for the place of a fault and for what they begin with.
pub fn expression_parser() -> Parser {
    ParserBuilder::new().unicode(false).utf8(false).dot_matches_new_line(true).build()
}

#[cfg(test)]
mod tests {
    use super::{expression, expression_parser, expressions};

    #[test]
    fn any_byte_is_one() {
        let check = |text: &str, value: &[u8], fits: bool| {
            assert_eq!(expression(text).build().expect(text).is_match(value), fits, "{text} for {}", value.escape_ascii());
            assert_eq!(expressions([text].into_iter()).build().expect(text).is_match(value), fits, "{text}");
            assert!(expression_parser().parse(text).is_ok(), "{text}");
        };
        for any in [&b"\xff"[..], b"\n", b"\r", b"a", b"\xc3", b"\0"] {
            for text in ["^.$", "^[^/]$", r"^[^\d]$", r"^\D$", r"^(?:a|.)$"] {
                check(text, any, true);
            }
        }
        check("^bad.*$", b"bad\xff\xfe", true);
        check("^.$", "é".as_bytes(), false);
        check("^(?u:.)$", "é".as_bytes(), true);
        check("^é+$", "éé".as_bytes(), true);
        check("^(?u:[à-ü])$", "é".as_bytes(), true);
        check(r"^(?u:\p{L})$", "é".as_bytes(), true);
        check(r"^\w$", "é".as_bytes(), false);
        check(r"^\xff$", b"\xff", true);
        check("^(?-s:.)$", b"\n", false);
    }

    #[test]
    fn a_range_of_characters_needs_to_say_so() {
        for text in ["[é]", r"\p{L}", "(?i)[à-ü]"] {
            assert!(expression(text).build().is_err() && expression_parser().parse(text).is_err(), "{text}");
        }
    }
}
