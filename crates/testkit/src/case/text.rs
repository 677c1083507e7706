//! The surface of a case file: sections, indented lines and the words on a line.
//! What the words mean is `parse.rs`.

use regex::bytes::Regex;
use std::fmt;

/// A line of a section, with the lines indented beneath it.
#[derive(Debug, Clone)]
pub struct Line {
    pub number: usize,
    pub text: String,
    pub children: Vec<Line>,
}

/// A header line at column 0 and the text beneath it.
#[derive(Debug, Clone)]
pub struct RawSection {
    pub number: usize,
    pub header: String,
    /// Line number and text, indentation kept.
    pub body: Vec<(usize, String)>,
}

#[derive(Debug, Clone)]
pub struct SyntaxError {
    pub line: usize,
    pub message: String,
}

impl SyntaxError {
    pub fn new(line: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError { line, message: message.into() }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Splits a file into its description (the comment at its top) and its sections.
pub fn split_sections(text: &str) -> Result<(String, Vec<RawSection>), SyntaxError> {
    let mut description = Vec::new();
    let mut sections: Vec<RawSection> = Vec::new();
    for (index, text_line) in text.lines().enumerate() {
        let number = index + 1;
        let text_line = text_line.trim_end();
        if text_line.contains('\t') {
            return Err(SyntaxError::new(number, "a tab: indent with spaces, and write \\t inside quotes"));
        }
        if let Some(comment) = text_line.strip_prefix('#') {
            if sections.is_empty() {
                description.push(comment.trim().to_owned());
            }
        } else if text_line.starts_with(' ') || text_line.is_empty() {
            match sections.last_mut() {
                Some(section) => section.body.push((number, text_line.to_owned())),
                None if text_line.is_empty() => {}
                None => return Err(SyntaxError::new(number, "an indented line before the first section")),
            }
        } else {
            sections.push(RawSection { number, header: text_line.to_owned(), body: Vec::new() });
        }
    }
    if description.is_empty() {
        return Err(SyntaxError::new(1, "a case begins with a comment that says what it shows"));
    }
    Ok((description.join(" "), sections))
}

impl RawSection {
    /// The body as text, without the indentation that all its lines share.
    pub fn dedented(&self) -> String {
        let indent = self.body.iter().filter(|(_, text)| !text.is_empty()).map(|(_, text)| indent_of(text)).min().unwrap_or(0);
        let lines: Vec<&str> = self.body.iter().map(|(_, text)| text.get(indent..).unwrap_or("")).collect();
        format!("{}\n", lines.join("\n").trim_end())
    }

    /// The body as a tree of lines by indentation. Comment lines and empty lines are left out.
    pub fn lines(&self) -> Vec<Line> {
        let body: Vec<&(usize, String)> =
            self.body.iter().filter(|(_, text)| !text.is_empty() && !text.trim_start().starts_with("# ")).collect();
        tree(&body)
    }
}

fn tree(body: &[&(usize, String)]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut index = 0;
    while index < body.len() {
        let (number, text) = body[index];
        let indent = indent_of(text);
        let end =
            body[index + 1..].iter().position(|(_, below)| indent_of(below) <= indent).map_or(body.len(), |n| index + 1 + n);
        lines.push(Line { number: *number, text: text.trim().to_owned(), children: tree(&body[index + 1..end]) });
        index = end;
    }
    lines
}

fn indent_of(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// One word of a line.
#[derive(Debug, Clone)]
pub enum Word {
    /// `recv-head`, `400`, `'…'` or `"…"` with escapes.
    Plain(Vec<u8>),
    /// `key=value`, the value quoted or not.
    Named(String, Vec<u8>),
    /// `~"regex"`, or `key=~"regex"`.
    Pattern(Option<String>, Regex),
}

/// Splits a line into words.
pub fn words(line: usize, text: &str) -> Result<Vec<Word>, SyntaxError> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let name_length =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_' && c != '.').unwrap_or(rest.len());
        let mut name = None;
        if name_length > 0 && rest[name_length..].starts_with('=') {
            name = Some(rest[..name_length].to_owned());
            rest = &rest[name_length + 1..];
        }
        let (value, is_pattern, after) = value(line, rest)?;
        words.push(match (name, is_pattern) {
            (name, true) => {
                let source = String::from_utf8_lossy(&value).into_owned();
                let regex = Regex::new(&source).map_err(|error| SyntaxError::new(line, format!("bad pattern: {error}")))?;
                Word::Pattern(name, regex)
            }
            (Some(name), false) => Word::Named(name, value),
            (None, false) => Word::Plain(value),
        });
        if !after.is_empty() && !after.starts_with(' ') {
            return Err(SyntaxError::new(line, format!("a space is missing before `{after}`")));
        }
        rest = after.trim_start();
    }
    Ok(words)
}

/// The value at the start of `rest`, whether it is a pattern, and what follows it.
fn value(line: usize, rest: &str) -> Result<(Vec<u8>, bool, &str), SyntaxError> {
    let unclosed = || SyntaxError::new(line, "a quote is not closed");
    if let Some(quoted) = rest.strip_prefix("~\"") {
        let end = closing_quote(quoted).ok_or_else(unclosed)?;
        return Ok((quoted.as_bytes()[..end].to_vec(), true, &quoted[end + 1..]));
    }
    if let Some(quoted) = rest.strip_prefix('\'') {
        let end = quoted.find('\'').ok_or_else(unclosed)?;
        return Ok((quoted.as_bytes()[..end].to_vec(), false, &quoted[end + 1..]));
    }
    if let Some(quoted) = rest.strip_prefix('"') {
        let end = closing_quote(quoted).ok_or_else(unclosed)?;
        return Ok((unescape(line, &quoted[..end])?, false, &quoted[end + 1..]));
    }
    let end = rest.find(' ').unwrap_or(rest.len());
    Ok((rest.as_bytes()[..end].to_vec(), false, &rest[end..]))
}

/// Where the quote is closed that `quoted` is behind of; a quote after a backslash does not count.
fn closing_quote(quoted: &str) -> Option<usize> {
    let mut escaped = false;
    let mut chars = quoted.char_indices();
    let closing = chars.find(|&(_, c)| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    });
    closing.map(|(index, _)| index)
}

/// `\r \n \t \0 \\ \" \xNN`.
pub fn unescape(line: usize, text: &str) -> Result<Vec<u8>, SyntaxError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        bytes.push(match chars.next() {
            Some('r') => b'\r',
            Some('n') => b'\n',
            Some('t') => b'\t',
            Some('0') => 0,
            Some('\\') => b'\\',
            Some('"') => b'"',
            Some('x') => {
                let digits: String = chars.by_ref().take(2).collect();
                u8::from_str_radix(&digits, 16)
                    .map_err(|_| SyntaxError::new(line, format!("\\x{digits} is not two hex digits")))?
            }
            other => {
                return Err(SyntaxError::new(line, format!("unknown escape \\{}", other.map_or(String::new(), String::from))));
            }
        });
    }
    Ok(bytes)
}

/// Bytes as they are written between quotes, for messages; long ones are cut in the middle.
pub fn escape(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 1200;
    if bytes.len() > SHOWN_MAX {
        let half = SHOWN_MAX / 2;
        return format!(
            "{} […{} bytes…] {}",
            escape(&bytes[..half]),
            bytes.len() - SHOWN_MAX,
            escape(&bytes[bytes.len() - half..])
        );
    }
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            0x20..=0x7e => text.push(byte as char),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}
