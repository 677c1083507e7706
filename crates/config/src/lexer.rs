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
    let mut tokens: Vec<Token> = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let (kind, length) = next_token(&text[start..]);
        tokens.push(Token { kind, span: start..start + length });
        start += length;
    }
    tokens
}

fn next_token(rest: &str) -> (TokenKind, usize) {
    if let Some(length) = newline_length(rest) {
        return (TokenKind::Newline, length);
    }
    if rest.starts_with("//") {
        return (TokenKind::LineComment, length_until(rest, |rest| newline_length(rest).is_some()));
    }
    if rest.starts_with("/*") {
        return (TokenKind::BlockComment, block_comment_length(rest));
    }
    if rest.starts_with("/-") {
        return (TokenKind::Slashdash, 2);
    }
    if rest.starts_with('"') || is_raw_string(rest) {
        return (TokenKind::Text, string_length(rest));
    }
    let first = rest.chars().next().expect("a token starts before the end of the text");
    let single = match first {
        '\\' => Some(TokenKind::Continuation),
        '=' => Some(TokenKind::Equals),
        '{' => Some(TokenKind::Open),
        '}' => Some(TokenKind::Close),
        ';' => Some(TokenKind::Semicolon),
        '(' => Some(TokenKind::ParenOpen),
        ')' => Some(TokenKind::ParenClose),
        _ => None,
    };
    if let Some(kind) = single {
        return (kind, 1);
    }
    if is_space(first) {
        return (TokenKind::Space, length_until(rest, |rest| !rest.starts_with(is_space)));
    }
    (TokenKind::Bare, length_until(&rest[first.len_utf8()..], ends_bare) + first.len_utf8())
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
    const NEWLINES: [&str; 8] = ["\r\n", "\r", "\n", "\u{85}", "\u{b}", "\u{c}", "\u{2028}", "\u{2029}"];
    NEWLINES.iter().find(|newline| rest.starts_with(**newline)).map(|newline| newline.len())
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
