//! KDL text as a sequence of tokens that lose nothing, for the formatter and for the guards in front of the parser.
//! It is not a parser: what a token means, and whether the order makes sense, the `kdl` crate decides.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Blanks, and a byte order mark.
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
pub fn tokens(text: &str) -> Vec<Token> {
    Tokens::of(text).collect()
}

/// The same, one after the other: the tokens of a large file take more memory than the file.
#[derive(Debug)]
pub struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub fn of(text: &'t str) -> Tokens<'t> {
        Tokens { text, at: 0 }
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let rest = &self.text[self.at..];
        let first = *rest.as_bytes().first()?;
        let (kind, length) = next_token(rest, first);
        let start = self.at;
        self.at += length;
        Some(Token { kind, span: start..self.at })
    }
}

fn next_token(rest: &str, first: u8) -> (TokenKind, usize) {
    let second = rest.as_bytes().get(1).copied();
    match (first, second) {
        (b'/', Some(b'/')) => (TokenKind::LineComment, length_until(rest, |rest| newline_length(rest).is_some())),
        (b'/', Some(b'*')) => (TokenKind::BlockComment, block_comment_length(rest)),
        (b'/', Some(b'-')) => (TokenKind::Slashdash, 2),
        (b'"', _) => (TokenKind::Text, string_length(rest)),
        (b'#', Some(b'#' | b'"')) if is_raw_string(rest) => (TokenKind::Text, string_length(rest)),
        (b'\\', _) => (TokenKind::Continuation, 1),
        (b'=', _) => (TokenKind::Equals, 1),
        (b'{', _) => (TokenKind::Open, 1),
        (b'}', _) => (TokenKind::Close, 1),
        (b';', _) => (TokenKind::Semicolon, 1),
        (b'(', _) => (TokenKind::ParenOpen, 1),
        (b')', _) => (TokenKind::ParenClose, 1),
        _ => match newline_length(rest) {
            Some(length) => (TokenKind::Newline, length),
            None if rest.starts_with(is_space) => (TokenKind::Space, length_until(rest, |rest| !rest.starts_with(is_space))),
            None => (TokenKind::Bare, bare_length(rest)),
        },
    }
}

fn bare_length(rest: &str) -> usize {
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let mut index = first;
    loop {
        // Most of a file are letters and digits, which need no closer look.
        index += rest.as_bytes()[index..].iter().take_while(|byte| is_plain(**byte)).count();
        match rest[index..].chars().next() {
            Some(c) if !ends_bare(&rest[index..]) => index += c.len_utf8(),
            Some(_) | None => return index,
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':')
}

fn ends_bare(rest: &str) -> bool {
    rest.starts_with(|c: char| is_space(c) || matches!(c, '\\' | '=' | '{' | '}' | ';' | '(' | ')' | '"'))
        || newline_length(rest).is_some()
        || rest.starts_with("//")
        || rest.starts_with("/*")
        || rest.starts_with("/-")
}

fn length_until(text: &str, stop: impl Fn(&str) -> bool) -> usize {
    text.char_indices().map(|(index, _)| index).find(|index| stop(&text[*index..])).unwrap_or(text.len())
}

fn newline_length(rest: &str) -> Option<usize> {
    match rest.as_bytes() {
        [b'\r', b'\n', ..] => Some(2),
        [b'\r' | b'\n' | 0x0b | 0x0c, ..] => Some(1),
        [0xc2, 0x85, ..] => Some('\u{85}'.len_utf8()),
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => Some('\u{2028}'.len_utf8()),
        _ => None,
    }
}

fn is_space(c: char) -> bool {
    matches!(c, '\t' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}')
}

fn block_comment_length(rest: &str) -> usize {
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
                    return index;
                }
            }
            _ => index += 1,
        }
    }
    rest.len()
}

fn is_raw_string(rest: &str) -> bool {
    rest.starts_with('#') && rest.trim_start_matches('#').starts_with('"')
}

fn string_length(rest: &str) -> usize {
    // A text on one line with nothing unusual in it, as nearly all are.
    if rest.starts_with('"') && !rest.starts_with("\"\"") {
        let plain = rest.as_bytes()[1..].iter().take_while(|byte| is_plain(**byte) || matches!(byte, b'/' | b'*' | b' ')).count();
        if rest.as_bytes().get(1 + plain) == Some(&b'"') {
            return plain + 2;
        }
    }
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let quotes = if rest[hashes..].starts_with("\"\"\"") { "\"\"\"" } else { "\"" };
    let mut index = hashes + quotes.len();
    let ending = format!("{quotes}{}", "#".repeat(hashes));
    while index < rest.len() {
        if rest[index..].starts_with(&ending) {
            return index + ending.len();
        }
        // A string on one line that was never closed ends with its line, so that one slip does not swallow the file.
        if quotes.len() == 1 && newline_length(&rest[index..]).is_some() && !follows_escape(rest, index, hashes) {
            return index;
        }
        let c = rest[index..].chars().next().expect("index is before the end and on a boundary");
        index += c.len_utf8();
        if c == '\\' && hashes == 0 {
            index += rest[index..].chars().next().map_or(0, char::len_utf8);
        }
    }
    rest.len()
}

/// Whether only blanks and line breaks lie between here and a backslash: KDL lets those be escaped inside a string.
fn follows_escape(rest: &str, index: usize, hashes: usize) -> bool {
    hashes == 0
        && rest[..index].trim_end_matches(|c: char| is_space(c) || newline_length(&c.to_string()).is_some()).ends_with('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(TokenKind, &str)]) {
        let seen: Vec<(TokenKind, &str)> = tokens(text)
            .into_iter()
            .map(|token| (token.kind, &text[token.span]))
            .filter(|(kind, _)| *kind != TokenKind::Space)
            .collect();
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
            let joined: String = tokens(text).into_iter().map(|token| text[token.span].to_string()).collect();
            assert_eq!(&joined, text);
        });
    }
}
