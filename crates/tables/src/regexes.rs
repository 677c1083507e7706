//! Rows that are regular expressions: all are held against a key in one pass, and the first that fits is taken. What a
//! value takes of the key (`$1`) is put in by the expression of that row.

use crate::REGEXES_MAX;
use crate::fault::RowFault;
use regex::bytes::{Regex, RegexSet};
use tidegate_model::{expression, expressions};

#[derive(Debug, Default)]
pub(crate) struct Regexes {
    set: Option<RegexSet>,
    rows: Box<[RegexRow]>,
}

#[derive(Debug)]
pub(crate) struct RegexRow {
    /// Where it begins in the text of all rows.
    pub offset: u32,
    /// Of a value that takes something of the key.
    filled: Option<Filled>,
}

/// A value with `$1` in it.
#[derive(Debug)]
pub struct Filled {
    regex: Regex,
    parts: Box<[ValuePart]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ValuePart {
    Literal(Box<str>),
    Group(usize),
}

/// One row that is read, before all are put together.
#[derive(Debug)]
pub(crate) struct ReadRegex {
    pattern: Box<str>,
    row: RegexRow,
}

impl ReadRegex {
    pub fn new(pattern: &str, value: &str, ignores_case: bool, offset: u32) -> Result<ReadRegex, RowFault> {
        let compiled = expression(pattern).case_insensitive(ignores_case).build();
        let regex = compiled.map_err(|error| RowFault::Regex(in_one_line(&error)))?;
        let parts = value_parts(value, regex.captures_len() - 1)?;
        let is_filled = parts.iter().any(|part| matches!(part, ValuePart::Group(_))) || value.contains('$');
        let filled = is_filled.then(|| Filled { regex, parts: parts.into() });
        Ok(ReadRegex { pattern: pattern.into(), row: RegexRow { offset, filled } })
    }
}

impl Regexes {
    pub fn new(rows: Vec<ReadRegex>, ignores_case: bool) -> Result<Regexes, RowFault> {
        if rows.is_empty() {
            return Ok(Regexes::default());
        }
        if rows.len() > REGEXES_MAX {
            return Err(RowFault::TooManyRegexes);
        }
        let set = together(&rows, ignores_case).map_err(|_| RowFault::RegexesTooLarge)?;
        Ok(Regexes { set: Some(set), rows: rows.into_iter().map(|row| row.row).collect() })
    }

    /// The rows that fit, in the order written.
    pub fn of<'r>(&'r self, key: &[u8]) -> impl Iterator<Item = &'r RegexRow> + use<'r> {
        let fitting = self.set.as_ref().map(|set| set.matches(key));
        fitting.into_iter().flatten().map(|position| &self.rows[position])
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows)
    }
}

/// How many of the first can be compiled together, if that is not all.
pub(crate) fn that_fit(rows: &[ReadRegex], ignores_case: bool) -> Option<usize> {
    if together(rows, ignores_case).is_ok() {
        return None;
    }
    let (mut fit, mut too_many) = (0, rows.len());
    while too_many - fit > 1 {
        let middle = fit.midpoint(too_many);
        match together(&rows[..middle], ignores_case) {
            Ok(_) => fit = middle,
            Err(_) => too_many = middle,
        }
    }
    Some(fit)
}

fn together(rows: &[ReadRegex], ignores_case: bool) -> Result<RegexSet, regex::Error> {
    expressions(rows.iter().map(|row| &*row.pattern)).case_insensitive(ignores_case).build()
}

impl RegexRow {
    pub fn filled(&self) -> Option<&Filled> {
        self.filled.as_ref()
    }
}

impl Filled {
    /// Calls back with each part of the value: what was written, and what the key brings (`true`).
    pub fn each_part(&self, key: &[u8], mut take: impl FnMut(&[u8], bool)) {
        let captures = self.regex.captures(key);
        for part in &self.parts {
            match part {
                ValuePart::Literal(text) => take(text.as_bytes(), false),
                ValuePart::Group(number) => {
                    // A group that took no part in the match is empty.
                    let group = captures.as_ref().and_then(|captures| captures.get(*number));
                    take(group.map_or(b"", |group| group.as_bytes()), true);
                }
            }
        }
    }
}

/// `$1` and `$$` of a value.
fn value_parts(value: &str, groups: usize) -> Result<Vec<ValuePart>, RowFault> {
    let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), value);
    while let Some(dollar) = rest.find('$') {
        literal.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        if let Some(behind) = after.strip_prefix('$') {
            literal.push('$');
            rest = behind;
            continue;
        }
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(RowFault::Dollar);
        }
        let number = after[..digits].parse().unwrap_or(usize::MAX);
        if number > groups {
            return Err(RowFault::NoGroup { number, groups });
        }
        if !literal.is_empty() {
            parts.push(ValuePart::Literal(std::mem::take(&mut literal).into()));
        }
        parts.push(ValuePart::Group(number));
        rest = &after[digits..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(ValuePart::Literal(literal.into()));
    }
    Ok(parts)
}

/// The last line of what the library says, which has the reason.
fn in_one_line(error: &regex::Error) -> String {
    let said = error.to_string();
    let last = said.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
