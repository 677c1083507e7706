//! `CDN-Cache-Control` (RFC 9213), which an upstream writes for the caches in front of it and not for browsers. It is a
//! dictionary of structured fields (RFC 8941 section 3.2), whose grammar is stricter than that of `Cache-Control`. What
//! its directives mean is in `cache_control`.

use std::ops::ControlFlow;

/// Directives that count; a field with more is ignored, like one that cannot be read.
const MEMBERS_MAX: usize = 64;

/// What a directive is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    True,
    False,
    /// Digits with or without a sign.
    Integer(&'a [u8]),
    /// A token, or what is between the quotes of a string.
    Text(&'a [u8]),
    /// A fraction, bytes, or a list.
    Other,
}

/// The members of all lines of the field, each name once with its last value. `None` when there are none, and when any
/// of it cannot be read: then the field counts as absent (RFC 9213 section 2.2).
pub fn dictionary<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Vec<(&'a [u8], Value<'a>)>> {
    let mut members: Vec<(&[u8], Value<'_>)> = Vec::new();
    for line in lines.map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        let mut rest = Rest(line);
        loop {
            let name = rest.key()?;
            let value = if rest.take(b'=') { rest.member_value()? } else { Value::True };
            rest.parameters()?;
            members.retain(|member| member.0 != name);
            members.push((name, value));
            if members.len() > MEMBERS_MAX {
                return None;
            }
            match rest.next_member()? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(()) => break,
            }
        }
    }
    (!members.is_empty()).then_some(members)
}

/// What is left of a line.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, byte: u8) -> bool {
        let rest = self.0.strip_prefix(&[byte]);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// What is before the first byte that is not so.
    fn take_while(&mut self, is_so: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !is_so(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        if !matches!(self.0.first()?, b'a'..=b'z' | b'*') {
            return None;
        }
        Some(self.take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)))
    }

    fn next_member(&mut self) -> Option<ControlFlow<()>> {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
        if self.0.is_empty() {
            return Some(ControlFlow::Break(()));
        }
        if !self.take(b',') {
            return None;
        }
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
        // A comma at the end is an error.
        (!self.0.is_empty()).then_some(ControlFlow::Continue(()))
    }

    /// Skips the parameters of an item, which say nothing to us.
    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.take_while(|byte| byte == b' ');
            self.key()?;
            if self.take(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    fn member_value(&mut self) -> Option<Value<'a>> {
        if !self.take(b'(') {
            return self.item();
        }
        loop {
            self.take_while(|byte| byte == b' ');
            if self.take(b')') {
                return Some(Value::Other);
            }
            self.item()?;
            self.parameters()?;
            if !matches!(self.0.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn item(&mut self) -> Option<Value<'a>> {
        match *self.0.first()? {
            b'?' => {
                let value = match self.0.get(1)? {
                    b'1' => Value::True,
                    b'0' => Value::False,
                    _ => return None,
                };
                self.0 = &self.0[2..];
                Some(value)
            }
            b'"' => self.string(),
            b':' => {
                self.take(b':');
                self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.take(b':').then_some(Value::Other)
            }
            b'-' | b'0'..=b'9' => self.number(),
            first if first.is_ascii_alphabetic() || first == b'*' => {
                Some(Value::Text(self.take_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte))))
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value<'a>> {
        let whole = self.0;
        let is_negative = self.take(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit()).len();
        if !self.take(b'.') {
            let length = digits + usize::from(is_negative);
            return (1..=15).contains(&digits).then(|| Value::Integer(&whole[..length]));
        }
        let decimals = self.take_while(|byte| byte.is_ascii_digit()).len();
        ((1..=12).contains(&digits) && (1..=3).contains(&decimals)).then_some(Value::Other)
    }

    fn string(&mut self) -> Option<Value<'a>> {
        let inside = &self.0[1..];
        let mut place = 0;
        loop {
            match *inside.get(place)? {
                b'"' => break,
                b'\\' if matches!(inside.get(place + 1)?, b'"' | b'\\') => place += 2,
                b'\\' | ..=0x1f | 0x7f.. => return None,
                _ => place += 1,
            }
        }
        self.0 = &inside[place + 1..];
        Some(Value::Text(&inside[..place]))
    }
}

#[cfg(test)]
mod tests {
    use super::{Value, dictionary};

    #[test]
    fn a_dictionary_is_read_whole_or_not_at_all() {
        let check = |lines: &[&str], expected: Option<&[(&str, Value<'_>)]>| {
            let found = dictionary(lines.iter().map(|line| line.as_bytes()));
            let expected: Option<Vec<_>> =
                expected.map(|members| members.iter().map(|(name, value)| (name.as_bytes(), *value)).collect());
            assert_eq!(found, expected, "{lines:?}");
        };
        let hour = ("max-age", Value::Integer(b"3600"));
        check(&["max-age=3600"], Some(&[hour]));
        check(&["  max-age=3600 "], Some(&[hour]));
        check(&["foo, max-age=3600"], Some(&[("foo", Value::True), hour]));
        check(&["foo \t,\t max-age=3600"], Some(&[("foo", Value::True), hour]));
        check(&["foo", "", "max-age=3600"], Some(&[("foo", Value::True), hour]));
        check(&["max-age=1, foo=?0, max-age=3600"], Some(&[("foo", Value::False), hour]));
        check(&["max-age=3600;a;b=1;c=\"d\""], Some(&[hour]));
        check(
            &["private=\"a, \\\"b\", b=tok/en:"],
            Some(&[("private", Value::Text(b"a, \\\"b")), ("b", Value::Text(b"tok/en:"))]),
        );
        check(&["a=1.5, b=:YQ==:, c=(1 x;y \"z\"), d=()"], Some(&["a", "b", "c", "d"].map(|name| (name, Value::Other))));
        check(&["a=-1"], Some(&[("a", Value::Integer(b"-1"))]));
        for refused in [
            "",
            " ",
            "max-age=3600,",
            ",max-age=3600",
            "max-age =3600",
            "max-age= 3600",
            "Max-Age=3600",
            "max-age=3600, &&&&&",
            "max-age=",
            "a b",
            "a=\"b",
            "a=\"\u{e9}\"",
            "a=\"\\n\"",
            "a=?2",
            "a=1.",
            "a=-",
            "a=1.2345",
            "a=1234567890123456",
            "a=:b",
            "a=(1",
            "a=(1,2)",
            "a;",
            "a;=1",
            "a=1;B",
        ] {
            check(&[refused], None);
        }
        check(&["max-age=3600", "&&&"], None);
    }
}
