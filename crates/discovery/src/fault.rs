//! Why a source cannot be used, as one sentence for a log line and for `tidegate status`. It is a text and no kind:
//! what follows from a fault is always the same, the last good answer stands.

use std::fmt;

/// A source's words are repeated in it, and nobody reads more of them.
const CHARACTERS_MAX: usize = 400;

/// One line without control characters, at most 400 characters long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(String);

impl Fault {
    pub fn new(text: impl AsRef<str>) -> Fault {
        let text = text.as_ref();
        let plain = |character: char| if character.is_control() { ' ' } else { character };
        let mut line: String = text.chars().take(CHARACTERS_MAX).map(plain).collect();
        if text.chars().nth(CHARACTERS_MAX).is_some() {
            line.pop();
            line.push('…');
        }
        Fault(line)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHARACTERS_MAX, Fault};

    #[test]
    fn what_a_source_says_stays_on_one_short_line() {
        let check = |text: &str, expected: &str| assert_eq!(Fault::new(text).to_string(), expected);
        check("a.b: says SERVFAIL", "a.b: says SERVFAIL");
        check("a\nb\u{1b}[31m", "a b [31m");
        let exact = "ä".repeat(CHARACTERS_MAX);
        check(&exact, &exact);
        check(&"ä".repeat(CHARACTERS_MAX + 1), &format!("{}…", "ä".repeat(CHARACTERS_MAX - 1)));
    }
}
