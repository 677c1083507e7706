//! Rows that are changed while it runs: set to another value, or absent as if there were no row. Each stands above the
//! row of its key in the source, and is dropped by its key. How they are kept is text, a record a row.

use crate::csv::{Reader, Record, write_record};
use crate::fault::{LineFault, RowFault};
use crate::pattern::Pattern;
use crate::table::{Table, TableDraft};
use crate::{CHANGED_BYTES_MAX, CHANGED_ROWS_MAX};
use std::collections::BTreeMap;
use std::fmt;

/// The first line of what is kept.
const HEADING: &str = "# changed rows of a map, version 1";
/// In front of a text that is there, and alone for one that is not.
const THERE: &str = "=";
const ABSENT: &str = "-";

/// Changed rows of one map, by their keys as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    rows: BTreeMap<Box<str>, ChangedRow>,
    bytes: usize,
}

/// What became of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedRow {
    /// `None`: the key is as if there were no row of it.
    pub value: Option<Box<str>>,
    /// What the source had for the key when it was changed.
    pub over: Option<Box<str>>,
}

/// Why what was kept cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverlayFault {
    OtherVersion,
    Line(LineFault),
}

impl fmt::Display for OverlayFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OverlayFault::OtherVersion => f.write_str("another version wrote it"),
            OverlayFault::Line(fault) => fault.fmt(f),
        }
    }
}

impl Overlay {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// By key.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &ChangedRow)> {
        self.rows.iter().map(|(key, row)| (&**key, row))
    }

    pub fn row(&self, key: &str) -> Option<&ChangedRow> {
        self.rows.get(key)
    }

    /// The row of that key from now on. The key has one spelling, whoever writes it.
    pub fn set(&mut self, written: &str, row: ChangedRow, ignores_case: bool) -> Result<(), RowFault> {
        TableDraft::new(ignores_case).add(1, written, row.value.as_deref())?;
        let key = spelled(written, ignores_case)?;
        let bytes = cost(&key, &row);
        let before = self.rows.get(&*key).map(|before| cost(&key, before));
        if before.is_none() && self.rows.len() >= CHANGED_ROWS_MAX {
            return Err(RowFault::TooManyChanged);
        }
        let all = self.bytes - before.unwrap_or_default() + bytes;
        if all > CHANGED_BYTES_MAX {
            return Err(RowFault::ChangedTooLarge);
        }
        self.bytes = all;
        self.rows.insert(key.into(), row);
        Ok(())
    }

    /// Whether there was one.
    pub fn drop_row(&mut self, key: &str) -> bool {
        let dropped = self.rows.remove(key);
        self.bytes -= dropped.as_ref().map_or(0, |row| cost(key, row));
        dropped.is_some()
    }

    /// As a table, to be looked up in.
    pub fn table(&self, ignores_case: bool) -> Result<Table, Vec<LineFault>> {
        let mut draft = TableDraft::new(ignores_case);
        let mut faults = Vec::new();
        for (position, (key, row)) in self.rows().enumerate() {
            let added = draft.add(position + 1, key, row.value.as_deref());
            faults.extend(added.err().map(|fault| LineFault { line: position + 1, fault }));
        }
        if faults.is_empty() { draft.finish() } else { Err(faults) }
    }

    pub fn write(&self) -> String {
        let mut text = format!("{HEADING}\n");
        let field = |text: &Option<Box<str>>| match text {
            Some(text) => format!("{THERE}{text}"),
            None => ABSENT.to_owned(),
        };
        for (key, row) in self.rows() {
            write_record(&[key, &field(&row.value), &field(&row.over)], &mut text);
        }
        text
    }

    pub fn read(text: &str) -> Result<Overlay, OverlayFault> {
        let Some(rest) = text.strip_prefix(HEADING) else { return Err(OverlayFault::OtherVersion) };
        let (mut reader, mut overlay) = (Reader { rest, line: 1 }, Overlay::default());
        while let Some((line, record)) = reader.next_record() {
            let fault = |fault| OverlayFault::Line(LineFault { line, fault });
            let Record { fields: [key, value, over], count } = record.map_err(fault)?;
            if count != 3 {
                return Err(fault(RowFault::Fields(count)));
            }
            let field = |text: &str| text.strip_prefix(THERE).map(Box::from);
            let row = ChangedRow { value: field(&value), over: field(&over) };
            overlay.set(&key, row, false).map_err(fault)?;
        }
        Ok(overlay)
    }
}

fn cost(key: &str, row: &ChangedRow) -> usize {
    /// Quotation marks, commas, line end, and what is in front of the values.
    const AROUND: usize = 11;
    let size = |text: &str| text.len() + text.matches('"').count();
    AROUND + size(key) + row.value.as_deref().map_or(0, size) + row.over.as_deref().map_or(0, size)
}

/// The one spelling of a key.
pub(crate) fn spelled(written: &str, ignores_case: bool) -> Result<String, RowFault> {
    let pattern = Pattern::parse(written)?;
    Ok(if ignores_case { pattern.without_case() } else { pattern }.to_string())
}
