//! A file of rows: `key,value` a line, as spreadsheets write it (RFC 4180), read strictly. Of its own, because what it
//! says when something is wrong is half of its purpose: each fault has the line in which the row begins, also behind
//! texts of several lines, and what other readers let pass, such as a stray quotation mark, is a fault.

use crate::fault::{FAULTS_MAX, LineFault, RowFault};
use std::borrow::Cow;

/// Calls back with the line, the key and the value of each row; what it finds wrong with one is a fault as well. Empty
/// lines and those that begin with `#` mean nothing, and neither does a first line `key,value`. Fields without
/// quotation marks lose the spaces around them.
///
/// A file counts as a whole or not at all: the first faults are given when there is any.
pub fn read_csv(bytes: &[u8], mut row: impl FnMut(usize, &str, &str) -> Result<(), RowFault>) -> Result<(), Vec<LineFault>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        vec![LineFault { line, fault: RowFault::NotText }]
    })?;
    let mut reader = Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    let (mut faults, mut is_first) = (Vec::new(), true);
    while faults.len() < FAULTS_MAX {
        let Some((line, read)) = reader.next_record() else { break };
        let outcome = match read {
            Ok(Record { count: 2, fields: [key, value, _] }) if is_first && is_heading(&key, &value) => Ok(()),
            Ok(Record { count: 2, fields: [key, value, _] }) => row(line, &key, &value),
            Ok(Record { count, .. }) => Err(RowFault::Fields(count)),
            Err(fault) => Err(fault),
        };
        is_first = false;
        let is_last = matches!(outcome, Err(RowFault::TooManyRows));
        faults.extend(outcome.err().map(|fault| LineFault { line, fault }));
        if is_last {
            break;
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// A record, as it is read again.
pub fn write_record(fields: &[&str], out: &mut String) {
    for (position, field) in fields.iter().enumerate() {
        out.push_str(if position > 0 { ",\"" } else { "\"" });
        out.push_str(&field.replace('"', "\"\""));
        out.push('"');
    }
    out.push('\n');
}

fn is_heading(key: &str, value: &str) -> bool {
    key.eq_ignore_ascii_case("key") && value.eq_ignore_ascii_case("value")
}

/// The fields between two ends of a line.
pub(crate) struct Record<'t> {
    /// The first of them; those that are not there are empty.
    pub fields: [Cow<'t, str>; 3],
    pub count: usize,
}

pub(crate) struct Reader<'t> {
    pub rest: &'t str,
    /// Counted from 1.
    pub line: usize,
}

impl<'t> Reader<'t> {
    /// The line in which a record begins, and the record.
    pub fn next_record(&mut self) -> Option<(usize, Result<Record<'t>, RowFault>)> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let line = &self.rest[..self.rest.find('\n').unwrap_or(self.rest.len())];
            let meant = line.trim();
            if !(meant.is_empty() || meant.starts_with('#')) {
                break;
            }
            self.skip_line();
        }
        let line = self.line;
        let record = self.record();
        if record.is_err() {
            self.skip_line();
        }
        Some((line, record))
    }

    fn skip_line(&mut self) {
        match self.rest.find('\n') {
            Some(end) => {
                self.rest = &self.rest[end + 1..];
                self.line += 1;
            }
            None => self.rest = "",
        }
    }

    fn record(&mut self) -> Result<Record<'t>, RowFault> {
        let mut record = Record { fields: [const { Cow::Borrowed("") }; 3], count: 0 };
        loop {
            let field = self.field()?;
            if let Some(place) = record.fields.get_mut(record.count) {
                *place = field;
            }
            record.count += 1;
            match self.rest.as_bytes().first() {
                Some(b',') => self.rest = &self.rest[1..],
                _ => {
                    self.skip_line();
                    return Ok(record);
                }
            }
        }
    }

    /// Up to the comma or the end of the line behind it, which stay.
    fn field(&mut self) -> Result<Cow<'t, str>, RowFault> {
        let blank = |c: char| c == ' ' || c == '\t';
        let start = self.rest.trim_start_matches(blank);
        let Some(quoted) = start.strip_prefix('"') else {
            let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
            let (field, rest) = self.rest.split_at(end);
            if field.contains('"') {
                return Err(RowFault::QuoteInside);
            }
            self.rest = rest;
            return Ok(Cow::Borrowed(field.trim_matches(|c: char| blank(c) || c == '\r')));
        };
        let mut whole: Option<String> = None;
        let mut rest = quoted;
        loop {
            let end = rest.find('"').ok_or(RowFault::QuoteOpen)?;
            let (piece, behind) = (&rest[..end], &rest[end + 1..]);
            if let Some(more) = behind.strip_prefix('"') {
                let whole = whole.get_or_insert_default();
                whole.push_str(piece);
                whole.push('"');
                rest = more;
                continue;
            }
            let inside = &self.rest[..self.rest.len() - behind.len()];
            let lines = inside.matches('\n').count();
            let behind = behind.trim_start_matches(|c: char| blank(c) || c == '\r');
            if !(behind.is_empty() || behind.starts_with([',', '\n'])) {
                return Err(RowFault::BehindQuote);
            }
            self.line += lines;
            self.rest = behind;
            return Ok(match whole {
                Some(whole) => Cow::Owned(whole + piece),
                None => Cow::Borrowed(piece),
            });
        }
    }
}
