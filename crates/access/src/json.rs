//! JSON as tokens and sets of keys have it (RFC 8259), looked at where it stands: nothing is built of it. Stricter than
//! most readers: a name that stands twice in an object, and half of a surrogate pair, are faults, since two readers
//! might understand them differently. Depth and members have bounds.

use std::borrow::Cow;
use thiserror::Error;

/// Objects and lists in one another.
const DEPTH_MAX: usize = 32;
/// Of one object. Names are compared with all before them.
const MEMBERS_MAX: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JsonFault {
    #[error("is no UTF-8")]
    NotText,
    #[error("is no JSON")]
    Malformed,
    #[error("is nested deeper than {DEPTH_MAX}")]
    TooDeep,
    #[error("has an object of more than {MEMBERS_MAX} members")]
    TooManyMembers,
    #[error("has a member twice")]
    DuplicateMember,
    #[error("is no JSON object")]
    NotAnObject,
}

/// One value, as the text that it is written in: valid, and without space around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'t>(&'t str);

impl<'t> Value<'t> {
    pub fn parse(bytes: &'t [u8]) -> Result<Value<'t>, JsonFault> {
        Value::parse_with(bytes, Duplicates::Refused)
    }

    /// An object, and nothing else.
    pub fn parse_object(bytes: &'t [u8]) -> Result<Value<'t>, JsonFault> {
        let value = Value::parse(bytes)?;
        if value.is_object() { Ok(value) } else { Err(JsonFault::NotAnObject) }
    }

    /// As [`parse_object`](Self::parse_object), in time that grows with the length alone, for what nobody has vouched
    /// for: of two members of a name the first is seen.
    pub fn parse_unvouched(bytes: &'t [u8]) -> Result<Value<'t>, JsonFault> {
        let value = Value::parse_with(bytes, Duplicates::NotLookedFor)?;
        if value.is_object() { Ok(value) } else { Err(JsonFault::NotAnObject) }
    }

    fn parse_with(bytes: &'t [u8], duplicates: Duplicates) -> Result<Value<'t>, JsonFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| JsonFault::NotText)?;
        let mut check = Check { text, at: 0, names: Vec::new(), duplicates };
        check.skip_space();
        let start = check.at;
        check.value(0)?;
        let end = check.at;
        check.skip_space();
        if check.at < text.len() {
            return Err(JsonFault::Malformed);
        }
        Ok(Value(&text[start..end]))
    }

    /// A value whose text was checked before, when it was part of the whole that it stands in.
    pub(crate) fn known(text: &'t str) -> Value<'t> {
        Value(text)
    }

    pub fn raw(self) -> &'t str {
        self.0
    }

    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    pub fn is_list(self) -> bool {
        self.0.starts_with('[')
    }

    /// The names and values of an object; nothing of anything else.
    pub fn members(self) -> impl Iterator<Item = (Cow<'t, str>, Value<'t>)> {
        let mut walk = Walk::into(self, '{');
        std::iter::from_fn(move || {
            let name = unescaped(walk.next_value()?.inner_text()?);
            Some((name, walk.next_value()?))
        })
    }

    /// What a list holds; nothing of anything else.
    pub fn elements(self) -> impl Iterator<Item = Value<'t>> {
        let mut walk = Walk::into(self, '[');
        std::iter::from_fn(move || walk.next_value())
    }

    pub fn member(self, name: &str) -> Option<Value<'t>> {
        self.members().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub fn text(self) -> Option<Cow<'t, str>> {
        self.inner_text().map(unescaped)
    }

    pub fn number(self) -> Option<f64> {
        let is_number = self.0.starts_with(|start: char| start == '-' || start.is_ascii_digit());
        is_number.then(|| self.0.parse().ok()).flatten().filter(|number: &f64| number.is_finite())
    }

    fn inner_text(self) -> Option<&'t str> {
        self.0.strip_prefix('"')?.strip_suffix('"')
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duplicates {
    Refused,
    NotLookedFor,
}

/// Finds the ends of values in text that was checked.
struct Walk<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Walk<'t> {
    fn into(value: Value<'t>, opening: char) -> Walk<'t> {
        if value.0.starts_with(opening) { Walk { text: value.0, at: 1 } } else { Walk { text: "", at: 0 } }
    }

    /// The next value on this level, whatever separates it.
    fn next_value(&mut self) -> Option<Value<'t>> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') = bytes.get(self.at) {
            self.at += 1;
        }
        let start = self.at;
        match bytes.get(start)? {
            b'}' | b']' => return None,
            b'"' => self.skip_text(),
            b'{' | b'[' => self.skip_nested(),
            _ => {
                while bytes.get(self.at).is_some_and(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b'}' | b']')) {
                    self.at += 1;
                }
            }
        }
        Some(Value(&self.text[start..self.at]))
    }

    fn skip_text(&mut self) {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(byte) = bytes.get(self.at) {
            self.at += match byte {
                b'\\' => 2,
                b'"' => {
                    self.at += 1;
                    return;
                }
                _ => 1,
            };
        }
    }

    fn skip_nested(&mut self) {
        let bytes = self.text.as_bytes();
        let mut depth = 0;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.skip_text();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

/// Reads a text once, from its start to its end, and says whether it is JSON within the bounds.
struct Check<'t> {
    text: &'t str,
    at: usize,
    /// Of the objects that are open, as they are written, those of each behind those of the one around it.
    names: Vec<&'t str>,
    duplicates: Duplicates,
}

impl<'t> Check<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonFault> {
        if self.peek() != Some(byte) {
            return Err(JsonFault::Malformed);
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonFault> {
        match self.peek().ok_or(JsonFault::Malformed)? {
            b'{' | b'[' if depth >= DEPTH_MAX => Err(JsonFault::TooDeep),
            b'{' => self.object(depth + 1),
            b'[' => self.list(depth + 1),
            b'"' => self.string().map(|_| ()),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(JsonFault::Malformed),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonFault> {
        let own = self.names.len();
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.note(own, name)?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            self.value(depth)?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => break,
            }
            self.skip_space();
        }
        self.names.truncate(own);
        self.expect(b'}')
    }

    /// Remembers a name of the object whose names begin at `own`.
    fn note(&mut self, own: usize, name: &'t str) -> Result<(), JsonFault> {
        if self.duplicates == Duplicates::NotLookedFor {
            return Ok(());
        }
        if self.names.len() - own >= MEMBERS_MAX {
            return Err(JsonFault::TooManyMembers);
        }
        let is_twice = if name.contains('\\') || self.names[own..].iter().any(|known| known.contains('\\')) {
            self.names[own..].iter().any(|known| unescaped(known) == unescaped(name))
        } else {
            self.names[own..].contains(&name)
        };
        if is_twice {
            return Err(JsonFault::DuplicateMember);
        }
        self.names.push(name);
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<(), JsonFault> {
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => break,
            }
            self.skip_space();
        }
        self.expect(b']')
    }

    /// What stands between the quotes.
    fn string(&mut self) -> Result<&'t str, JsonFault> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.peek().ok_or(JsonFault::Malformed)? {
                b'"' => {
                    self.at += 1;
                    return Ok(&self.text[start..self.at - 1]);
                }
                b'\\' => self.escape()?,
                0..=0x1f => return Err(JsonFault::Malformed),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonFault> {
        self.at += 1;
        let kind = self.peek().ok_or(JsonFault::Malformed)?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => match self.four_digits()? {
                0xd800..=0xdbff => {
                    self.expect(b'\\')?;
                    self.expect(b'u')?;
                    match self.four_digits()? {
                        0xdc00..=0xdfff => Ok(()),
                        _ => Err(JsonFault::Malformed),
                    }
                }
                0xdc00..=0xdfff => Err(JsonFault::Malformed),
                _ => Ok(()),
            },
            _ => Err(JsonFault::Malformed),
        }
    }

    fn four_digits(&mut self) -> Result<u32, JsonFault> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).ok_or(JsonFault::Malformed)?;
        self.at += 4;
        hexadecimal(digits).ok_or(JsonFault::Malformed)
    }

    fn word(&mut self, word: &str) -> Result<(), JsonFault> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(JsonFault::Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonFault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        // `01` and `1x` are two things side by side, which nothing separates.
        match self.peek() {
            Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'-' | b'+') => Err(JsonFault::Malformed),
            _ => Ok(()),
        }
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(JsonFault::Malformed) }
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}

/// The text that a string of JSON stands for. Only called of what was checked.
fn unescaped(written: &str) -> Cow<'_, str> {
    if !written.contains('\\') {
        return Cow::Borrowed(written);
    }
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let (character, length) = match escape.as_bytes().first() {
            Some(b'b') => ('\u{8}', 1),
            Some(b'f') => ('\u{c}', 1),
            Some(b'n') => ('\n', 1),
            Some(b'r') => ('\r', 1),
            Some(b't') => ('\t', 1),
            Some(b'u') => escaped_unicode(escape.as_bytes()),
            Some(other) => (char::from(*other), 1),
            None => break,
        };
        text.push(character);
        rest = escape.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Of `u` with its digits, with the second half of a pair where there is one; and how many bytes that takes.
fn escaped_unicode(escape: &[u8]) -> (char, usize) {
    let unit = |from: usize| escape.get(from..from + 4).and_then(hexadecimal).unwrap_or(0xfffd);
    match unit(1) {
        high @ 0xd800..=0xdbff => {
            let low = unit(7);
            let code = 0x1_0000 + ((high - 0xd800) << 10) + low.saturating_sub(0xdc00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 11)
        }
        code => (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 5),
    }
}

#[cfg(test)]
mod tests;
