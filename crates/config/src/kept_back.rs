//! What is left in a diagnostic of values that `{env.X}` and `{file.X}` brought in is taken out again, behind all
//! readers. Most of it never gets there: a diagnostic about a filled-in text takes no words that were put together
//! (`Diagnostic::about_filled`). Here are the others: lines that look at the whole, and readers that forget it.

use crate::diagnostics::{Diagnostic, Label, Location, Sources};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// A value that was filled in, and the text that it is part of.
#[derive(Debug, Clone, PartialEq)]
pub struct BroughtIn {
    pub at: Location,
    /// `{env.X}`
    pub written: String,
    /// The whole text as it stands in the file.
    pub text: String,
    pub value: String,
}

/// The least part of a value, in characters, that is taken out of what is said about its line.
const FRAGMENT_CHARS: usize = 6;
/// Shorter values, and shorter still where they stand, would be found in words that have nothing to do with them.
const WHOLE_BYTES_MIN: usize = 6;
const WHOLE_NEARBY_BYTES_MIN: usize = 4;
/// By how many bytes values are looked up.
const KEY_BYTES: usize = WHOLE_NEARBY_BYTES_MIN;

/// Replaces values, and longer parts of them, by what was written for them. Words of the program itself stay.
pub fn keep_back(diagnostics: &mut [Diagnostic], brought_in: &[BroughtIn], sources: &Sources) {
    if diagnostics.is_empty() || brought_in.is_empty() {
        return;
    }
    let values = Values::new(brought_in);
    for diagnostic in diagnostics.iter_mut().filter(|diagnostic| !diagnostic.is_about_filled) {
        let labels = std::iter::once(&diagnostic.primary).chain(&diagnostic.labels);
        let nearby: Vec<&Value<'_>> = labels.flat_map(|label| values.on_lines_of(label, sources)).collect();
        for text in diagnostic.texts_mut() {
            if let Cow::Owned(said) = text
                && let Some(without) = values.without(said, &nearby)
            {
                *said = without;
            }
        }
    }
}

struct Value<'b> {
    brought_in: &'b BroughtIn,
    /// Names of hosts and fields are kept in lower case.
    lower: String,
}

/// All values in the order of their places, and by their first bytes.
struct Values<'b> {
    in_order: Vec<Value<'b>>,
    by_start: HashMap<[u8; KEY_BYTES], Vec<usize>>,
}

impl<'b> Values<'b> {
    fn new(brought_in: &'b [BroughtIn]) -> Values<'b> {
        let value = |brought_in: &'b BroughtIn| Value { brought_in, lower: brought_in.value.to_ascii_lowercase() };
        let mut in_order: Vec<Value<'b>> = brought_in.iter().map(value).collect();
        in_order.sort_by_key(|value| (value.brought_in.at.file, value.brought_in.at.span.start));
        let mut by_start: HashMap<[u8; KEY_BYTES], Vec<usize>> = HashMap::new();
        for (index, value) in in_order.iter().enumerate().filter(|(_, value)| value.lower.len() >= WHOLE_BYTES_MIN) {
            if let Some(key) = value.lower.as_bytes().first_chunk() {
                by_start.entry(*key).or_default().push(index);
            }
        }
        Values { in_order, by_start }
    }

    /// What was filled in on the lines that a label marks.
    fn on_lines_of(&self, label: &Label, sources: &Sources) -> &[Value<'b>] {
        let Location { file, span } = &label.location;
        let text = sources.file(*file).text.as_bytes();
        let (start, end) = (span.start.min(text.len()), span.end.min(text.len()));
        let from = memchr::memrchr(b'\n', &text[..start]).map_or(0, |position| position + 1);
        let to = memchr::memchr(b'\n', &text[end..]).map_or(text.len(), |position| end + position);
        let place = |value: &Value<'_>| (value.brought_in.at.file, value.brought_in.at.span.start);
        let first = self.in_order.partition_point(|value| place(value) < (*file, from));
        let last = self.in_order.partition_point(|value| place(value) <= (*file, to));
        &self.in_order[first..last.max(first)]
    }

    /// The text with what was written in the place of each value; `None` when there is none in it.
    fn without(&self, said: &str, nearby: &[&Value<'_>]) -> Option<String> {
        let lower = said.to_ascii_lowercase();
        // What was written is not what was filled in, even where both are alike.
        let written: Vec<Range<usize>> = nearby
            .iter()
            .flat_map(|value| [value.brought_in.text.as_str(), value.brought_in.written.as_str()])
            .flat_map(|text| said.match_indices(text))
            .map(|(start, text)| start..start + text.len())
            .collect();
        let mut out = String::new();
        let (mut at, mut copied) = (0, 0);
        while at < said.len() {
            let found = match written.iter().find(|span| span.contains(&at)) {
                Some(_) => None,
                None => self.value_at(&lower, at, nearby),
            };
            let Some((length, value)) = found else {
                at += said[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            out.push_str(&said[copied..at]);
            out.push_str(&value.brought_in.written);
            at += length;
            copied = at;
        }
        (copied > 0).then(|| {
            out.push_str(&said[copied..]);
            out
        })
    }

    /// The longest value, or part of one, that begins there.
    fn value_at<'v>(&'v self, lower: &str, at: usize, nearby: &[&'v Value<'b>]) -> Option<(usize, &'v Value<'b>)> {
        let rest = &lower[at..];
        let key = rest.as_bytes().first_chunk::<KEY_BYTES>();
        let anywhere = key.and_then(|key| self.by_start.get(key)).into_iter().flatten().map(|index| &self.in_order[*index]);
        let whole = anywhere.filter(|value| rest.starts_with(&value.lower)).map(|value| (value.lower.len(), value));
        let of_line = nearby.iter().filter_map(|value| Some((common(rest, &value.lower)?, *value)));
        whole.chain(of_line).max_by_key(|(length, _)| *length)
    }
}

/// How many bytes at the start of a text are the value, or a longer part of it.
fn common(rest: &str, value: &str) -> Option<usize> {
    if value.len() >= WHOLE_NEARBY_BYTES_MIN && rest.starts_with(value) {
        return Some(value.len());
    }
    // `https://` is in many values, and says nothing.
    let (last, _) = rest.char_indices().filter(|(_, c)| c.is_alphanumeric()).nth(FRAGMENT_CHARS - 1)?;
    let fragment = &rest[..last + rest[last..].chars().next().map_or(1, char::len_utf8)];
    let in_common = |(start, _): (usize, &str)| {
        let more = rest[fragment.len()..].chars().zip(value[start + fragment.len()..].chars());
        let more = more.take_while(|(one, other)| one == other);
        fragment.len() + more.map(|(one, _)| one.len_utf8()).sum::<usize>()
    };
    value.match_indices(fragment).map(in_common).max()
}

#[cfg(test)]
mod tests;
