//! Rows that are changed while it runs: set to another value, or absent as if there were no row. Each stands above the
//! row of its key in the source, and is dropped by its key. How they are kept is text, a line a row. A line that cannot
//! be a row here, since another version or a host with other settings wrote it, is named, left out and kept as it is;
//! no other row suffers from it.

use crate::csv::{Reader, Record, write_record};
use crate::fault::RowFault;
use crate::pattern::{Kind, Pattern};
use crate::table::{Table, TableDraft};
use crate::{CHANGED_BYTES_MAX, CHANGED_ROWS_MAX, REGEXES_MAX};
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
    /// Lines that cannot be rows here, and stay for those who can read them.
    unread: Vec<Unread>,
    bytes: usize,
}

/// A changed row that does not count here, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfitRow {
    /// `None` where its line does not even say that.
    pub key: Option<Box<str>>,
    pub fault: RowFault,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Unread {
    line: Box<str>,
    row: UnfitRow,
}

/// What became of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedRow {
    /// `None`: the key is as if there were no row of it.
    pub value: Option<Box<str>>,
    /// What the source had for the key when it was changed.
    pub over: Option<Box<str>>,
}

/// Why nothing of what was kept can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlayFault {
    NotText,
    OtherVersion,
}

impl fmt::Display for OverlayFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OverlayFault::NotText => f.write_str("it is not UTF-8 text"),
            OverlayFault::OtherVersion => f.write_str("another version wrote it"),
        }
    }
}

impl Overlay {
    /// Whether nothing has to be kept.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.unread.is_empty()
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

    /// Lines that were kept and cannot be rows here.
    pub fn unread(&self) -> impl Iterator<Item = &UnfitRow> {
        self.unread.iter().map(|unread| &unread.row)
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

    /// What cannot be read of the row of that key goes.
    pub fn forget_unread(&mut self, key: &str) -> bool {
        let before = self.unread.len();
        for gone in self.unread.extract_if(.., |unread| unread.row.key.as_deref() == Some(key)) {
            self.bytes -= gone.line.len() + 1;
        }
        self.unread.len() < before
    }

    /// Whether there was one, be it one that cannot be read.
    pub fn drop_row(&mut self, key: &str) -> bool {
        let dropped = self.rows.remove(key);
        self.bytes -= dropped.as_ref().map_or(0, |row| cost(key, row));
        self.forget_unread(key) || dropped.is_some()
    }

    /// As a table, to be looked up in, and the rows that do not fit into it beside the others: they are as if they had
    /// not been changed.
    pub fn table(&self, ignores_case: bool) -> (Table, Vec<UnfitRow>) {
        let (draft, left_out) = self.draft(ignores_case, REGEXES_MAX, &RowFault::TooManyRegexes);
        let fitting = draft.regexes_that_fit();
        let (draft, left_out) = match fitting {
            Some(count) => self.draft(ignores_case, count, &RowFault::RegexesTooLarge),
            None => (draft, left_out),
        };
        // Keys differ, since each has one spelling, and expressions were counted.
        (draft.finish().unwrap_or_default(), left_out)
    }

    /// With so many expressions at most; all others have that fault.
    fn draft(&self, ignores_case: bool, regexes_max: usize, one_more: &RowFault) -> (TableDraft, Vec<UnfitRow>) {
        let (mut draft, mut left_out, mut regexes) = (TableDraft::new(ignores_case), Vec::new(), 0);
        for (position, (key, row)) in self.rows().enumerate() {
            let is_regex = Pattern::parse(key).is_ok_and(|pattern| pattern.kind == Kind::Regex);
            regexes += usize::from(is_regex);
            let added = if is_regex && regexes > regexes_max {
                Err(one_more.clone())
            } else {
                draft.add(position + 1, key, row.value.as_deref())
            };
            left_out.extend(added.err().map(|fault| UnfitRow { key: Some(key.into()), fault }));
        }
        (draft, left_out)
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
        for unread in &self.unread {
            text.push_str(&unread.line);
            text.push('\n');
        }
        text
    }

    /// What was kept, for a map that distinguishes large letters from small ones or does not.
    pub fn read(bytes: &[u8], ignores_case: bool) -> Result<Overlay, OverlayFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| OverlayFault::NotText)?;
        let mut lines = text.split('\n');
        if lines.next() != Some(HEADING) {
            return Err(OverlayFault::OtherVersion);
        }
        let mut overlay = Overlay::default();
        // No text of a row has the end of a line in it, so a line that is broken is alone in that.
        for line in lines.filter(|line| !line.trim().is_empty()) {
            if let Err(row) = overlay.read_line(line, ignores_case) {
                overlay.bytes += line.len() + 1;
                overlay.unread.push(Unread { line: line.into(), row });
            }
        }
        Ok(overlay)
    }

    fn read_line(&mut self, line: &str, ignores_case: bool) -> Result<(), UnfitRow> {
        let nameless = |fault| UnfitRow { key: None, fault };
        let (_, record) = Reader { rest: line, line: 1 }.next_record().ok_or(nameless(RowFault::Fields(0)))?;
        let Record { fields: [key, value, over], count } = record.map_err(nameless)?;
        let unfit = |fault| UnfitRow { key: Some((&*key).into()), fault };
        let field = |text: &str| match text.strip_prefix(THERE) {
            Some(text) => Ok(Some(text.into())),
            None if text == ABSENT => Ok(None),
            None => Err(unfit(RowFault::Unknown)),
        };
        if count != 3 {
            return Err(unfit(RowFault::Fields(count)));
        }
        let row = ChangedRow { value: field(&value)?, over: field(&over)? };
        let spelled = spelled(&key, ignores_case).map_err(unfit)?;
        // Two that were different before case meant nothing.
        if self.rows.contains_key(&*spelled) {
            let key = Some((&*spelled).into());
            return Err(UnfitRow { key, fault: RowFault::Twice { first: 0, key: spelled } });
        }
        self.set(&key, row, ignores_case).map_err(unfit)
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
