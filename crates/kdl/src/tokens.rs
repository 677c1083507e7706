//! KDL text as a sequence of tokens that lose nothing, for the parser, the formatter, and whoever edits a text.
//! What a token says is in `value`; whether the order makes sense, `parse` decides.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Blanks, and a byte order mark at the start of the text.
    Space,
    /// One line break of any kind KDL knows.
    Newline,
    /// `// …` without its line break.
    LineComment,
    /// `/* … */`, nested ones included.
    BlockComment,
    /// `/-`
    Slashdash,
    /// `\`, which carries a node over to the next line.
    Continuation,
    /// A quoted or raw string, on one line or several.
    Text,
    /// Everything without quotes: names, numbers, `#true`.
    Bare,
    Equals,
    Open,
    Close,
    Semicolon,
    ParenOpen,
    ParenClose,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Range<usize>,
}

/// Splits any text; unfinished strings and comments reach to the end. The spans join up without gaps.
#[derive(Debug, Clone)]
pub struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub fn of(text: &'t str) -> Tokens<'t> {
        Tokens::from(text, 0)
    }

    /// The tokens from there on, which has to be where one begins.
    pub fn from(text: &'t str, at: usize) -> Tokens<'t> {
        Tokens { text, at }
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let start = self.at;
        let rest = &self.text[start..];
        let first = *rest.as_bytes().first()?;
        let (kind, length) = if start == 0 && rest.starts_with(BYTE_ORDER_MARK) {
            (TokenKind::Space, BYTE_ORDER_MARK.len_utf8())
        } else {
            next_token(rest, first)
        };
        self.at += length;
        Some(Token { kind, span: start..self.at })
    }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

fn next_token(rest: &str, first: u8) -> (TokenKind, usize) {
    let second = rest.as_bytes().get(1).copied();
    match (first, second) {
        (b' ' | b'\t', _) => (TokenKind::Space, space_length(rest)),
        (b'\n', _) => (TokenKind::Newline, 1),
        (b'/', Some(b'/')) => (TokenKind::LineComment, line_length(rest)),
        (b'/', Some(b'*')) => (TokenKind::BlockComment, block_comment(rest).0),
        (b'/', Some(b'-')) => (TokenKind::Slashdash, 2),
        (b'"', _) => (TokenKind::Text, text_length(rest, 0)),
        (b'#', Some(b'#' | b'"')) => {
            let hashes = rest.bytes().take_while(|byte| *byte == b'#').count();
            if rest.as_bytes().get(hashes) == Some(&b'"') {
                (TokenKind::Text, text_length(rest, hashes))
            } else {
                (TokenKind::Bare, bare_length(rest))
            }
        }
        (b'\\', _) => (TokenKind::Continuation, 1),
        (b'=', _) => (TokenKind::Equals, 1),
        (b'{', _) => (TokenKind::Open, 1),
        (b'}', _) => (TokenKind::Close, 1),
        (b';', _) => (TokenKind::Semicolon, 1),
        (b'(', _) => (TokenKind::ParenOpen, 1),
        (b')', _) => (TokenKind::ParenClose, 1),
        _ => match (newline_length(rest), space_length(rest)) {
            (Some(length), _) => (TokenKind::Newline, length),
            (None, 0) => (TokenKind::Bare, bare_length(rest)),
            (None, length) => (TokenKind::Space, length),
        },
    }
}

fn bare_length(rest: &str) -> usize {
    let mut index = rest.chars().next().map_or(0, char::len_utf8);
    loop {
        // Most of a file are letters and digits, which need no closer look.
        index += rest.as_bytes()[index..].iter().take_while(|byte| is_plain(**byte)).count();
        match rest[index..].chars().next() {
            Some(c) if !ends_bare(&rest[index..], c) => index += c.len_utf8(),
            Some(_) | None => return index,
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':')
}

fn ends_bare(rest: &str, first: char) -> bool {
    match first {
        '\\' | '=' | '{' | '}' | ';' | '(' | ')' | '"' => true,
        '/' => matches!(rest.as_bytes().get(1), Some(b'/' | b'*' | b'-')),
        _ => is_space(first) || newline_length(rest).is_some(),
    }
}

fn space_length(rest: &str) -> usize {
    let plain = rest.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    match rest.as_bytes().get(plain) {
        Some(0x80..) => rest.find(|c| !is_space(c)).unwrap_or(rest.len()),
        _ => plain,
    }
}

/// Up to the line break.
fn line_length(rest: &str) -> usize {
    let breaks = |(index, byte): &(usize, u8)| may_break_line(*byte) && newline_length(&rest[*index..]).is_some();
    rest.bytes().enumerate().find(breaks).map_or(rest.len(), |(index, _)| index)
}

/// Whether a line break may begin with that byte; none is within another character.
fn may_break_line(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0x0b | 0x0c | 0xc2 | 0xe2)
}

pub(crate) fn newline_length(rest: &str) -> Option<usize> {
    match rest.as_bytes() {
        [b'\r', b'\n', ..] => Some(2),
        [b'\r' | b'\n' | 0x0b | 0x0c, ..] => Some(1),
        [0xc2, 0x85, ..] => Some('\u{85}'.len_utf8()),
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => Some('\u{2028}'.len_utf8()),
        _ => None,
    }
}

pub(crate) fn is_space(c: char) -> bool {
    matches!(c, '\t' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// How long it is, and whether it is closed.
fn block_comment(rest: &str) -> (usize, bool) {
    let bytes = rest.as_bytes();
    let mut depth = 0_usize;
    let mut index = 0;
    while index < bytes.len() {
        match &bytes[index..bytes.len().min(index + 2)] {
            b"/*" => {
                depth += 1;
                index += 2;
            }
            b"*/" => {
                depth -= 1;
                index += 2;
                if depth == 0 {
                    return (index, true);
                }
            }
            _ => index += 1,
        }
    }
    (bytes.len(), false)
}

/// Whether a token that begins with `/*` ends where its comment does, rather than where the text does.
pub fn is_closed_comment(written: &str) -> bool {
    block_comment(written).1
}

/// Of a text that begins with so many `#`. On one line it ends there at the latest, so that one slip does not swallow
/// the file.
fn text_length(rest: &str, hashes: usize) -> usize {
    let bytes = rest.as_bytes();
    let quotes = if bytes[hashes..].starts_with(b"\"\"\"") { 3 } else { 1 };
    let mut index = hashes + quotes;
    while let Some(byte) = bytes.get(index) {
        match byte {
            b'"' => {
                let is_end = bytes[index..].len() >= quotes + hashes
                    && bytes[index..index + quotes].iter().all(|byte| *byte == b'"')
                    && bytes[index + quotes..index + quotes + hashes].iter().all(|byte| *byte == b'#');
                if is_end {
                    return index + quotes + hashes;
                }
                index += 1;
            }
            b'\\' if hashes == 0 => {
                index += 1;
                let blank =
                    rest[index..].chars().take_while(|c| is_space(*c) || is_newline(*c)).map(char::len_utf8).sum::<usize>();
                index += if blank > 0 { blank } else { rest[index..].chars().next().map_or(0, char::len_utf8) };
            }
            byte if quotes == 1 && may_break_line(*byte) && newline_length(&rest[index..]).is_some() => return index,
            byte if byte.is_ascii() => index += 1,
            _ => index += rest[index..].chars().next().map_or(1, char::len_utf8),
        }
    }
    bytes.len()
}

pub(crate) fn is_newline(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(TokenKind, &str)]) {
        let seen: Vec<(TokenKind, &str)> =
            Tokens::of(text).map(|token| (token.kind, &text[token.span])).filter(|(kind, _)| *kind != TokenKind::Space).collect();
        assert_eq!(seen, expected, "for {text}");
    }

    #[test]
    fn every_token() {
        use TokenKind::{BlockComment, Close, Continuation, Equals, LineComment, Newline, Open, Semicolon, Slashdash, Text};
        check(
            "site \"a\" { x y=1; }",
            &[
                (TokenKind::Bare, "site"),
                (Text, "\"a\""),
                (Open, "{"),
                (TokenKind::Bare, "x"),
                (TokenKind::Bare, "y"),
                (Equals, "="),
                (TokenKind::Bare, "1"),
                (Semicolon, ";"),
                (Close, "}"),
            ],
        );
        check("/-a // b\n", &[(Slashdash, "/-"), (TokenKind::Bare, "a"), (LineComment, "// b"), (Newline, "\n")]);
        check("/* a /* b */ */c", &[(BlockComment, "/* a /* b */ */"), (TokenKind::Bare, "c")]);
        check("a \\\r\n b", &[(TokenKind::Bare, "a"), (Continuation, "\\"), (Newline, "\r\n"), (TokenKind::Bare, "b")]);
        check("#\"a\"b\"#", &[(Text, "#\"a\"b\"#")]);
        check("\"a\\\"b\"", &[(Text, "\"a\\\"b\"")]);
        check("\"\"\"\n a\"\n \"\"\" b", &[(Text, "\"\"\"\n a\"\n \"\"\""), (TokenKind::Bare, "b")]);
        check("#true", &[(TokenKind::Bare, "#true")]);
        check("\"open\nnext", &[(Text, "\"open"), (Newline, "\n"), (TokenKind::Bare, "next")]);
        check("/* open", &[(BlockComment, "/* open")]);
    }

    #[test]
    fn the_tokens_are_the_text_whatever_it_is() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let joined: String = Tokens::of(text).map(|token| text[token.span].to_string()).collect();
            assert_eq!(&joined, text);
        });
    }
}
