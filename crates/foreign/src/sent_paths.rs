//! Expressions of paths that are decoded before they are compared, as nginx does it, as expressions of what routes of
//! ours see, where all but unreserved letters stays encoded. What reads the same in both is left as it is written.

use crate::spelling;
use regex_syntax::hir::{Class, HirKind};
use tidegate_model::expression_parser;

/// Any letter that is sent encoded.
const ANY_ENCODED: &str = "%[0-9A-F]{2}";
/// At the end of a path a line break may stand behind what `$` closes, as PCRE has it.
const END: &str = "(?:%0A)?$";

/// The expression of what clients send. What cannot be read is left as it stands.
pub fn sent(text: &str) -> String {
    let mut translation = Translation { text, out: String::with_capacity(text.len()), is_open_at_end: false, is_blind: false };
    let mut at = 0;
    while at < text.len() {
        at += translation.one(at).max(1);
        while at < text.len() && !text.is_char_boundary(at) {
            at += 1;
        }
    }
    translation.out
}

struct Translation<'t> {
    text: &'t str,
    out: String,
    /// Whether what stands in front of an end takes a line break as well.
    is_open_at_end: bool,
    is_blind: bool,
}

impl Translation<'_> {
    /// Reads what begins there, and says how long it is.
    fn one(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let Some(c) = rest.chars().next() else { return 0 };
        match c {
            '(' => self.group(rest),
            '$' => {
                self.out.push_str(if self.is_open_at_end { "$" } else { END });
                1
            }
            '^' | '|' | '*' | '+' | '?' => {
                self.is_open_at_end = false;
                self.out.push(c);
                1
            }
            ')' => {
                self.out.push(c);
                1
            }
            '{' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let length = rest.find('}').map_or(1, |end| end + 1);
                self.out.push_str(&rest[..length]);
                length
            }
            '[' => {
                let length = class_end(rest);
                self.set(&rest[..length], &rest[length..]);
                length + self.repeated(&rest[length..])
            }
            '.' => {
                self.any(&rest[1..]);
                1 + self.repeated(&rest[1..])
            }
            '\\' => self.escaped(rest),
            c => {
                self.literal(c, c.encode_utf8(&mut [0; 4]));
                c.len_utf8()
            }
        }
    }

    /// A repetition behind an atom, whose end is known by the atom.
    fn repeated(&mut self, behind: &str) -> usize {
        let length = usize::from(behind.starts_with(['*', '+']));
        self.out.push_str(&behind[..length]);
        length
    }

    /// `(?i)`, `(?<name>`, `(?:`: what stands between is no part of a path.
    fn group(&mut self, rest: &str) -> usize {
        self.is_open_at_end = false;
        let end = |close: &[char]| rest.find(close).map_or(1, |end| end + 1);
        let length = match rest.strip_prefix("(?") {
            Some(inner) if inner.starts_with(['=', '!', ':', '>']) => 3,
            Some(inner) if inner.starts_with("<=") || inner.starts_with("<!") => 4,
            Some(inner) if inner.starts_with(['<', 'P']) => end(&['>']),
            Some(_) => end(&[':', ')']),
            None => 1,
        };
        self.is_blind |= rest[..length].contains('i') && !rest[..length].contains('<');
        self.out.push_str(&rest[..length]);
        length
    }

    fn escaped(&mut self, rest: &str) -> usize {
        let Some(c) = rest[1..].chars().next() else {
            self.out.push('\\');
            return 1;
        };
        let length = 1 + c.len_utf8();
        let written = &rest[..length];
        if matches!(c, 's' | 'S' | 'd' | 'D' | 'w' | 'W' | 'h') {
            self.set(written, &rest[length..]);
            return length + self.repeated(&rest[length..]);
        }
        if c.is_ascii_alphanumeric() {
            self.is_open_at_end = false;
            self.out.push_str(written);
        } else {
            self.literal(c, written);
        }
        length
    }

    fn literal(&mut self, c: char, written: &str) {
        self.is_open_at_end = false;
        let text = c.to_string();
        let sent = spelling::encoded(&text);
        if spelling::has_two_spellings(&text) {
            self.out.push_str(&format!("(?:{written}|%{:02X})", u32::from(c)));
        } else if sent == text {
            self.out.push_str(written);
        } else {
            self.out.push_str(&format!("(?:{sent})"));
        }
    }

    fn any(&mut self, behind: &str) {
        self.is_open_at_end = behind.starts_with(['*', '+']);
        if self.is_open_at_end {
            self.out.push('.');
        } else {
            self.out.push_str(&format!("(?:{ANY_ENCODED}|[^%])"));
        }
    }

    /// A set, or a class of letters, with what stands behind it.
    fn set(&mut self, written: &str, behind: &str) {
        let is_repeated = behind.starts_with(['*', '+']);
        let Some(members) = members(written, self.is_blind) else {
            self.is_open_at_end = false;
            self.out.push_str(written);
            return;
        };
        self.is_open_at_end = is_repeated && members[usize::from(b'\n')];
        let is_encoded = |byte: u8| members[usize::from(byte)] && may_be_encoded(byte);
        let all: Vec<u8> = (0..=u8::MAX).filter(|byte| is_encoded(*byte)).collect();
        let has_every = (0..=u8::MAX).filter(|byte| may_be_encoded(*byte)).count() == all.len();
        // Letters of what is sent encoded are members themselves.
        let takes_codes = b"%0123456789ABCDEF".iter().all(|byte| members[usize::from(*byte)]);
        if all.is_empty() || (is_repeated && has_every && takes_codes) {
            self.out.push_str(written);
            return;
        }
        let raw: Vec<u8> = (0..=u8::MAX).filter(|byte| members[usize::from(*byte)] && may_be_raw(*byte)).collect();
        let codes = if has_every { ANY_ENCODED.to_owned() } else { codes(&all) };
        let raw = if has_every && written.starts_with("[^") && written.is_ascii() {
            format!("|{}%]", &written[..written.len() - 1])
        } else if raw.is_empty() {
            String::new()
        } else {
            format!("|[{}]", ranges(&raw))
        };
        self.out.push_str(&format!("(?:{codes}{raw})"));
    }
}

/// Whether clients may send it as it is, and it stays so.
fn may_be_raw(byte: u8) -> bool {
    byte.is_ascii() && byte != b'%' && spelling::encoded(char::from(byte).encode_utf8(&mut [0; 4])).len() == 1
}

/// Whether it stays encoded where it is sent so; what is `/` then is one.
fn may_be_encoded(byte: u8) -> bool {
    !(byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte))
}

/// The bytes that a set takes.
fn members(written: &str, is_blind: bool) -> Option<Vec<bool>> {
    let flag = if is_blind { "(?i)" } else { "" };
    let written = if written == "\\h" { "[ \\t]" } else { written };
    let parsed = expression_parser().parse(&format!("{flag}{written}")).ok()?;
    let mut members = vec![false; 256];
    match parsed.kind() {
        HirKind::Class(Class::Bytes(class)) => {
            for byte in class.iter().flat_map(|range| range.start()..=range.end()) {
                members[usize::from(byte)] = true;
            }
        }
        HirKind::Literal(literal) if literal.0.len() == 1 => members[usize::from(literal.0[0])] = true,
        HirKind::Class(Class::Unicode(class)) => {
            for c in class.iter().flat_map(|range| range.start()..=range.end()) {
                *members.get_mut(usize::try_from(u32::from(c)).ok()?)? = true;
            }
        }
        _ => return None,
    }
    Some(members)
}

/// Bytes as they are sent encoded.
fn codes(bytes: &[u8]) -> String {
    let mut by_high: Vec<(u8, Vec<u8>)> = Vec::new();
    for byte in bytes {
        let (high, low) = (byte >> 4, byte & 15);
        match by_high.last_mut() {
            Some((own, lows)) if *own == high => lows.push(low),
            _ => by_high.push((high, vec![low])),
        }
    }
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0').to_ascii_uppercase();
    let of = |(high, lows): &(u8, Vec<u8>)| match lows.as_slice() {
        [low] => format!("{}{}", digit(*high), digit(*low)),
        lows if lows.len() == 16 => format!("{}[0-9A-F]", digit(*high)),
        lows => format!("{}[{}]", digit(*high), lows.iter().map(|low| digit(*low)).collect::<String>()),
    };
    let all: Vec<String> = by_high.iter().map(of).collect();
    if let [one] = all.as_slice() { format!("%{one}") } else { format!("%(?:{})", all.join("|")) }
}

/// Letters as members of a set.
fn ranges(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let length =
            rest.iter().enumerate().take_while(|(index, byte)| usize::from(**byte) == usize::from(*first) + index).count();
        let one = |byte: u8| regex_syntax::escape(&char::from(byte).to_string());
        match rest[..length] {
            [.., last] if length > 2 => out.push_str(&format!("{}-{}", one(*first), one(last))),
            _ => rest[..length].iter().for_each(|byte| out.push_str(&one(*byte))),
        }
        rest = &rest[length..];
    }
    out
}

/// Behind the bracket that closes a set; one that comes first is a member.
fn class_end(rest: &str) -> usize {
    let first = 1 + usize::from(rest[1..].starts_with('^'));
    let mut is_escaped = false;
    let mut named = 0_usize;
    for (at, c) in rest.char_indices().skip(first) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' if rest[at..].starts_with("[:") => named += 1,
            ']' if named > 0 => named -= 1,
            ']' if at > first => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::sent;
    use tidegate_model::expression;

    #[test]
    fn what_reads_the_same_is_left() {
        for text in [
            "^/v[0-9]+/(.*)$",
            "/\\.",
            "^/a/[^/]+/b",
            "(?i)\\.(png|jpe?g)",
            "^/(?<name>[a-z_]{2,3})/",
            "^/a\\d+",
            "",
            "^/[^/.]*$",
        ] {
            assert_eq!(sent(text), text);
        }
        assert_eq!(sent("\\.php$"), "\\.php(?:%0A)?$");
        assert_eq!(sent("^/é "), "^/(?:%C3%A9)(?:%20)");
    }

    #[test]
    fn what_is_decoded_there_is_found_encoded() {
        let check = |text: &str, path: &str, expected: bool| {
            let own = sent(text);
            let built = expression(&own).build().unwrap_or_else(|why| panic!("{text} is {own}: {why}"));
            assert_eq!(built.is_match(path.as_bytes()), expected, "{text} is {own} for {path}");
        };
        check("\\.php$", "/x.php", true);
        check("\\.php$", "/x.php%0A", true);
        check("\\.php$", "/x.php%0A%0A", false);
        check("^/@adm", "/%40adm", true);
        check("^/a.b$", "/a%20b", true);
        check("^/a.b$", "/axxb", false);
        check("^/a[^/]b$", "/a%25b", true);
        check("^/a[^@]b$", "/a%40b", false);
        check("^/a[^@]b$", "/a%41b", false);
        check("^/a[^@]b$", "/a%21b", true);
        check("^/[a-z@ ]+$", "/x%40%20", true);
        check("^/[a-z@ ]+$", "/x%21", false);
        check("^/a\\sb", "/a%09b", true);
        check("^/a%b", "/a%25b", true);
        check("(?i)^/[a-c!]$", "/B", true);
        check("^/[^a-z]+$", "/%20A", true);
        check("^/[[:space:]x]$", "/%20", true);
        check("^/(a|b!)$", "/b%21", true);
    }

    #[test]
    fn no_text_makes_it_panic() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            sent(text);
            sent(&format!("[{text}"));
            sent(&format!("(?{text}"));
        });
    }
}
