//! A pattern for the value of a header, query parameter or cookie. Values are bytes; nothing is assumed about their
//! encoding.

use regex::bytes::Regex;
use tidegate_model::{TextPattern, expression};

#[derive(Debug)]
pub(crate) enum TextTest {
    Present,
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    Suffix(Box<[u8]>),
    Regex(Regex),
}

impl TextTest {
    pub(crate) fn new(pattern: &TextPattern) -> Result<TextTest, regex::Error> {
        Ok(match pattern {
            TextPattern::Present => TextTest::Present,
            TextPattern::Exact(text) => TextTest::Exact(text.as_bytes().into()),
            TextPattern::Prefix(text) => TextTest::Prefix(text.as_bytes().into()),
            TextPattern::Suffix(text) => TextTest::Suffix(text.as_bytes().into()),
            TextPattern::Regex(text) => TextTest::Regex(expression(text).build()?),
        })
    }

    /// For values that are in small letters.
    pub(crate) fn without_case(pattern: &TextPattern) -> Result<TextTest, regex::Error> {
        let small = |text: &str| text.to_ascii_lowercase().into_bytes().into();
        Ok(match pattern {
            TextPattern::Present => TextTest::Present,
            TextPattern::Exact(text) => TextTest::Exact(small(text)),
            TextPattern::Prefix(text) => TextTest::Prefix(small(text)),
            TextPattern::Suffix(text) => TextTest::Suffix(small(text)),
            TextPattern::Regex(text) => TextTest::Regex(expression(text).case_insensitive(true).build()?),
        })
    }

    pub(crate) fn fits(&self, value: &[u8]) -> bool {
        match self {
            TextTest::Present => true,
            TextTest::Exact(text) => value == &**text,
            TextTest::Prefix(text) => value.starts_with(text),
            TextTest::Suffix(text) => value.ends_with(text),
            TextTest::Regex(regex) => regex.is_match(value),
        }
    }
}
