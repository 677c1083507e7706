//! What a single token says: the characters of a text, and the number, keyword or name that a word is. Spans count from
//! the token's start.

use crate::tokens::{is_newline, is_space, newline_length};
use crate::{Fault, Literal};
use std::borrow::Cow;
use std::ops::Range;

/// A word without quotes.
pub fn read_word(written: &str) -> Result<Literal, Fault> {
    let whole = || 0..written.len();
    if let Some(keyword) = written.strip_prefix('#') {
        return match keyword {
            "true" => Ok(Literal::Switch(true)),
            "false" => Ok(Literal::Switch(false)),
            "null" => Ok(Literal::Null),
            "inf" => Ok(Literal::Float(f64::INFINITY)),
            "-inf" => Ok(Literal::Float(f64::NEG_INFINITY)),
            "nan" => Ok(Literal::Float(f64::NAN)),
            _ => {
                let help = "there are `#true`, `#false` and `#null`; a text stands in quotes";
                Err(Fault::new(whole(), format!("`{written}` is no keyword"), Some(help)))
            }
        };
    }
    if matches!(written, "true" | "false" | "null" | "inf" | "-inf" | "nan") {
        let help = format!("write `#{written}`, or in quotes `\"{written}\"`");
        return Err(Fault::new(whole(), format!("`{written}` needs a `#` in front"), Some(&help)));
    }
    let digits = written.trim_start_matches(['+', '-']);
    let is_number = written.len() - digits.len() <= 1 && digits.starts_with(|c: char| c.is_ascii_digit());
    let literal = if is_number { number(written) } else { is_name(written).then(|| Literal::Text(written.to_owned())) };
    literal.ok_or_else(|| Fault::new(whole(), "this word needs quotes", None))
}

fn is_name(written: &str) -> bool {
    let unsigned = written.strip_prefix(['+', '-']).unwrap_or(written);
    let is_almost_number = unsigned.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    let is_allowed = |c: char| !matches!(c, '/' | '[' | ']' | '#') && !is_disallowed(c);
    !is_almost_number && (written.bytes().all(is_plain) || written.chars().all(is_allowed))
}

/// Nothing that may stand in a text as it is.
fn is_disallowed(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// What begins with a digit, or with a sign and a digit.
fn number(written: &str) -> Option<Literal> {
    let (sign, unsigned) = match written.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", written.strip_prefix('+').unwrap_or(written)),
    };
    let radix = match unsigned.get(..2) {
        Some("0x") => 16,
        Some("0o") => 8,
        Some("0b") => 2,
        _ => 10,
    };
    if radix != 10 {
        let digits = digits(&unsigned[2..], radix)?;
        return i128::from_str_radix(&format!("{sign}{digits}"), radix).ok().map(Literal::Integer);
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let whole = digits(whole, 10)?;
    if fraction.is_none() && exponent.is_none() {
        return format!("{sign}{whole}").parse().ok().map(Literal::Integer);
    }
    let fraction = digits(fraction.unwrap_or("0"), 10)?;
    let exponent = exponent.unwrap_or("0");
    let exponent_digits = digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent), 10)?;
    let exponent_sign = if exponent.starts_with('-') { "-" } else { "" };
    format!("{sign}{whole}.{fraction}e{exponent_sign}{exponent_digits}").parse().ok().map(Literal::Float)
}

/// Without the `_` that may follow the first.
fn digits(written: &str, radix: u32) -> Option<Cow<'_, str>> {
    let is_valid = written.starts_with(|c: char| c.is_digit(radix)) && written.chars().all(|c| c == '_' || c.is_digit(radix));
    is_valid.then(|| if written.contains('_') { written.replace('_', "").into() } else { written.into() })
}

/// What stands between the quotes of a text, with its escapes resolved.
pub fn read_text(written: &str) -> Result<String, Fault> {
    let hashes = written.bytes().take_while(|byte| *byte == b'#').count();
    let quotes = if written[hashes..].starts_with("\"\"\"") { 3 } else { 1 };
    let opening = hashes + quotes;
    let content = is_closed(written, hashes, quotes).then(|| &written[opening..written.len() - opening]);
    if quotes == 3 {
        return read_lines(written, content, opening, hashes > 0);
    }
    let Some(content) = content else {
        if hashes == 0 {
            // A `\` in front of the last quote is the better story.
            unescaped(&written[1..], 1)?;
        }
        let help = "a `\"` is missing; a text over several lines stands in `\"\"\"`";
        return Err(Fault::new(0..written.len(), "this text is not closed on its line", Some(help)));
    };
    if content.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'\\') {
        return Ok(content.to_owned());
    }
    check_characters(content, opening)?;
    if hashes > 0 { Ok(content.to_owned()) } else { unescaped(content, opening) }
}

fn is_closed(written: &str, hashes: usize, quotes: usize) -> bool {
    if written.len() < 2 * (hashes + quotes) {
        return false;
    }
    let (before, ending) = written.as_bytes().split_at(written.len() - hashes - quotes);
    let is_ending = ending[..quotes].iter().all(|byte| *byte == b'"') && ending[quotes..].iter().all(|byte| *byte == b'#');
    // The last quote may be escaped.
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    is_ending && (hashes > 0 || backslashes.is_multiple_of(2))
}

fn check_characters(content: &str, offset: usize) -> Result<(), Fault> {
    match content.char_indices().find(|(_, c)| is_disallowed(*c)) {
        None => Ok(()),
        Some((index, c)) => {
            let span = offset + index..offset + index + c.len_utf8();
            let message = format!("the character U+{:04X} cannot stand in a text as it is", u32::from(c));
            Err(Fault::new(span, message, Some(&format!("write `\\u{{{:x}}}`", u32::from(c)))))
        }
    }
}

fn unescaped(content: &str, offset: usize) -> Result<String, Fault> {
    let mut text = String::with_capacity(content.len());
    let mut at = 0;
    while let Some(position) = content[at..].find('\\') {
        text.push_str(&content[at..at + position]);
        let start = at + position;
        let behind = &content[start + 1..];
        let Some(escaped) = behind.chars().next() else { break };
        at = start + 1 + escaped.len_utf8();
        match escaped {
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            's' => text.push(' '),
            '\\' | '"' => text.push(escaped),
            'u' => {
                let (length, c) = unicode_escape(&behind[1..]).ok_or_else(|| {
                    let help = "a character is written by its number, as in `\\u{e9}`";
                    Fault::new(offset + start..offset + start + 2, "this `\\u` names no character", Some(help))
                })?;
                text.push(c);
                at += length;
            }
            blank if is_space(blank) || is_newline(blank) => {
                at = content.len() - behind.trim_start_matches(|c| is_space(c) || is_newline(c)).len();
            }
            other => {
                let span = offset + start..offset + at;
                let help = format!("write `\\\\{other}`, or the whole text as `#\"…\"#`, where a `\\` stands for itself");
                return Err(Fault::new(span, format!("there is no escape `\\{other}`"), Some(&help)));
            }
        }
    }
    text.push_str(&content[at..]);
    Ok(text)
}

fn unicode_escape(behind: &str) -> Option<(usize, char)> {
    let (digits, _) = behind.strip_prefix('{')?.split_once('}')?;
    let is_number = (1..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let c = u32::from_str_radix(digits, 16).ok().filter(|_| is_number).and_then(char::from_u32)?;
    Some((digits.len() + 2, c))
}

/// A text on lines of its own, which are indented as the quotes behind it are. `content` is `None` where those are
/// missing.
fn read_lines(written: &str, content: Option<&str>, opening: usize, is_raw: bool) -> Result<String, Fault> {
    let own_lines = "the text stands on lines of its own, and so does the `\"\"\"` behind it";
    let fault = |message: &str, help: &str| Err(Fault::new(first_line(written), message, Some(help)));
    let behind = &written[opening.min(written.len())..];
    let Some(break_length) = newline_length(behind) else {
        return fault("a line break has to follow the first `\"\"\"`", own_lines);
    };
    let Some(content) = content else { return fault("this text is never closed", own_lines) };
    check_characters(content, opening)?;
    let Some(body) = content.get(break_length..) else { return fault("this text is never closed", own_lines) };
    let body = if is_raw { Cow::Borrowed(body) } else { without_escaped_blanks(body) };
    let lines = split_lines(&body);
    let (prefix, lines) = lines.split_last().unwrap_or((&"", &[]));
    if !prefix.chars().all(is_space) {
        return fault("the last `\"\"\"` has to stand on a line of its own", own_lines);
    }
    let mut text = String::with_capacity(body.len());
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        if line.chars().all(is_space) {
            continue;
        }
        let Some(line) = line.strip_prefix(prefix) else {
            let help = "each line begins with the same blanks as the `\"\"\"` behind the text";
            return fault("the lines of this text are not indented alike", help);
        };
        text.push_str(line);
    }
    if is_raw || !text.contains('\\') {
        return Ok(text);
    }
    // Dedenting has moved it, so an escape that is wrong is looked for where it was written.
    unescaped(&text, 0).map_err(|fault| unescaped(content, opening).err().unwrap_or(Fault { span: first_line(written), ..fault }))
}

fn first_line(written: &str) -> Range<usize> {
    0..written.find(is_newline).unwrap_or(written.len())
}

/// The lines of a text, whatever breaks them. At least one.
fn split_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(position) = rest.find(is_newline) {
        lines.push(&rest[..position]);
        rest = &rest[position + newline_length(&rest[position..]).unwrap_or(1)..];
    }
    lines.push(rest);
    lines
}

/// A `\` in front of blanks and line breaks takes them away, which decides where lines begin. Other escapes stay.
fn without_escaped_blanks(body: &str) -> Cow<'_, str> {
    if !body.contains('\\') {
        return body.into();
    }
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(position) = rest.find('\\') {
        let behind = &rest[position + 1..];
        let unblanked = behind.trim_start_matches(|c| is_space(c) || is_newline(c));
        if unblanked.len() < behind.len() {
            text.push_str(&rest[..position]);
            rest = unblanked;
        } else {
            let escaped = behind.chars().next().map_or(0, char::len_utf8);
            text.push_str(&rest[..position + 1 + escaped]);
            rest = &behind[escaped..];
        }
    }
    text.push_str(rest);
    text.into()
}

/// A KDL string. What a terminal would act on is escaped.
pub fn quoted(text: &str) -> String {
    quoted_where(text, |c| c.is_control() || is_newline(c) || is_disallowed(c))
}

/// A KDL string in which these characters are written as numbers, beside those that have an escape of their own.
pub fn quoted_where(text: &str, is_numbered: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_numbered(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::quoted;
    use crate::{FileId, Literal, parse};

    #[test]
    fn what_is_quoted_is_read_as_it_was() {
        for text in
            ["", "a b", "\"\\", "\n\r\t\u{c}", "\u{7}", "\u{200e}\u{202a}\u{2069}", "\u{feff}", "\u{85}\u{2028}", "é\u{1f600}"]
        {
            let written = format!("node {}", quoted(text));
            let nodes = parse(&written, FileId(0)).unwrap_or_else(|fault| panic!("{fault:?}: {written:?}"));
            let read = &nodes[0].entries[0].value.literal;
            assert!(matches!(read, Literal::Text(read) if **read == *text), "{written:?} is {read:?}");
        }
    }
}
