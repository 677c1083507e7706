//! Where texts of a configuration came from: what `{env.X}` and `{file.X}` brought in, and how it was written. Whatever
//! shows a text of a configuration shows the spelling. That decides for every text alike, whatever its header or
//! setting is called.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Texts that were filled in, each with what stands for it in the file.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Filled {
    /// By the text in lower case, since names of hosts and fields are kept so.
    written: BTreeMap<String, String>,
    /// Found within other texts too; the longest first, so that no part of one is left over.
    longest_first: Vec<String>,
}

/// A shorter text is nobody's secret, and would be found in words that have nothing to do with it. Alone in a setting
/// it is recognised all the same.
const WITHIN_BYTES_MIN: usize = 4;

impl Filled {
    /// Remembers a text, and what was written for it.
    pub fn add(&mut self, text: &str, written: &str) {
        if text.is_empty() || text == written {
            return;
        }
        let key = text.to_ascii_lowercase();
        let place = self.longest_first.partition_point(|known| known.len() >= key.len());
        if self.written.insert(key.clone(), written.to_owned()).is_none() && key.len() >= WITHIN_BYTES_MIN {
            self.longest_first.insert(place, key);
        }
    }

    pub fn extend(&mut self, others: &Filled) {
        others.written.iter().for_each(|(text, written)| self.add(text, written));
    }

    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The text as it may be shown: with what was written in the place of all that was filled in.
    pub fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let lower = text.to_ascii_lowercase();
        if let Some(written) = self.written.get(&lower) {
            return Cow::Owned(written.clone());
        }
        let mut out = String::new();
        let mut at = 0;
        let mut copied = 0;
        while at < text.len() {
            let Some(found) = self.longest_first.iter().find(|known| lower[at..].starts_with(known.as_str())) else {
                at += lower[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            out.push_str(&text[copied..at]);
            out.push_str(&self.written[found]);
            at += found.len();
            copied = at;
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }
}

/// The spellings alone: a configuration in a message must not say what this is there to keep back.
impl fmt::Debug for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.written.values()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Filled;

    #[test]
    fn what_was_filled_in_is_shown_as_it_was_written() {
        let mut filled = Filled::default();
        for (text, written) in [("hunter2", "{env.A}"), ("hunter2-long", "{file./b}"), ("80", "{env.PORT}"), ("", "{env.E}")] {
            filled.add(text, written);
        }
        let check = |text: &str, expected: &str| assert_eq!(filled.shown(text), expected, "for {text}");
        check("hunter2", "{env.A}");
        check("Bearer HUNTER2, hunter2", "Bearer {env.A}, {env.A}");
        check("äx hunter2-long ö", "äx {file./b} ö");
        check("hunter2-lon", "{env.A}-lon");
        check("80", "{env.PORT}");
        check("8080", "8080");
        check("", "");
        assert_eq!(format!("{filled:?}"), r#"{"{env.PORT}", "{env.A}", "{file./b}"}"#);
    }
}
