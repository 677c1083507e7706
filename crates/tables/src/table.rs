//! The rows of one source: their texts one behind the other, a hash table that finds each by its kind and its text, and
//! for what is not exact a few numbers more. It never changes; what changes while it runs lies in a second table above.

use crate::csv::read_csv;
use crate::fault::{FAULTS_MAX, LineFault, RowFault};
use crate::networks::Networks;
use crate::pattern::{Kind, Pattern, check_value};
use crate::regexes::{self, Filled, ReadRegex, Regexes};
use crate::slots::{Slots, hash_of};
use crate::{FILE_BYTES_MAX, LENGTHS_MAX, ROWS_MAX};
use ipnet::IpNet;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::net::IpAddr;

/// Rows by their keys. No two have one key.
#[derive(Debug, Default)]
pub struct Table {
    /// Of each row its kind and lengths, its key and its value, in the order written.
    texts: Box<[u8]>,
    slots: Slots,
    count: usize,
    /// The longest first.
    prefix_lengths: Box<[u16]>,
    suffix_lengths: Box<[u16]>,
    networks: Networks,
    regexes: Regexes,
}

/// A row as it lies in its table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'t> {
    pub kind: Kind,
    /// Without what says how it is compared.
    pub key: &'t [u8],
    /// `None`: the key is as if there were no row of it.
    pub value: Option<&'t str>,
    filled: Option<&'t Filled>,
    next: usize,
}

/// In the first number of a row, below the length of its key.
const KIND_BITS: u32 = 3;
const ABSENT: u32 = 1 << KIND_BITS;
const HEAD_BITS: u32 = KIND_BITS + 1;

impl Table {
    /// The lines of a file.
    pub fn read(bytes: &[u8], ignores_case: bool) -> Result<Table, Vec<LineFault>> {
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(vec![LineFault { line: 0, fault: RowFault::FileTooLarge }]);
        }
        let mut draft = TableDraft::new(ignores_case);
        read_csv(bytes, |line, key, value| draft.add(line, key, Some(value)))?;
        draft.finish()
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What it takes of memory, but for compiled expressions.
    pub fn bytes(&self) -> usize {
        let lengths = size_of_val(&*self.prefix_lengths) + size_of_val(&*self.suffix_lengths);
        self.texts.len() + self.slots.bytes() + self.networks.bytes() + self.regexes.bytes() + lengths
    }

    /// In the order written.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let row = (at < self.texts.len()).then(|| self.row_at(at as u32))?;
            at = row.next;
            Some(row)
        })
    }

    /// The row of that very key.
    pub fn row(&self, kind: Kind, key: &[u8]) -> Option<Row<'_>> {
        let is_it = |offset| {
            let row = self.row_at(offset);
            row.kind == kind && row.key == key
        };
        self.slots.find(hash_of(kind, key), is_it).map(|offset| self.row_at(offset))
    }

    pub(crate) fn lengths(&self, kind: Kind) -> &[u16] {
        match kind {
            Kind::Prefix => &self.prefix_lengths,
            Kind::Suffix => &self.suffix_lengths,
            Kind::Exact | Kind::Network | Kind::Regex => &[],
        }
    }

    pub(crate) fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Rows that have the address, with the lengths of their prefixes, the longest first.
    pub(crate) fn networks_of(&self, address: IpAddr) -> impl Iterator<Item = (u8, Row<'_>)> {
        self.networks.of(address).map(|row| (row.prefix_length, self.row_at(row.offset)))
    }

    /// Rows whose expressions fit, in the order written.
    pub(crate) fn regexes_of(&self, key: &[u8]) -> impl Iterator<Item = Row<'_>> {
        self.regexes.of(key).map(|regex| Row { filled: regex.filled(), ..self.row_at(regex.offset) })
    }

    #[inline]
    fn row_at(&self, offset: u32) -> Row<'_> {
        let mut at = offset as usize;
        let head = self.number(&mut at);
        let value_length = self.number(&mut at) as usize;
        let key_end = at + (head >> HEAD_BITS) as usize;
        let next = key_end + value_length;
        let value = (head & ABSENT == 0).then(|| {
            // What was written is text, and was cut nowhere.
            std::str::from_utf8(&self.texts[key_end..next]).unwrap_or_default()
        });
        let kind = Kind::ALL[(head & (ABSENT - 1)) as usize];
        Row { kind, key: &self.texts[at..key_end], value, filled: None, next }
    }

    #[inline]
    fn number(&self, at: &mut usize) -> u32 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.texts[*at];
            *at += 1;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }
}

impl<'t> Row<'t> {
    /// As it is written.
    pub fn pattern(&self) -> Pattern<'t> {
        Pattern { kind: self.kind, text: Cow::Borrowed(std::str::from_utf8(self.key).unwrap_or_default()) }
    }

    pub(crate) fn filled(&self) -> Option<&'t Filled> {
        self.filled
    }
}

fn push_number(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Rows while they are read.
#[derive(Debug)]
pub struct TableDraft {
    ignores_case: bool,
    texts: Vec<u8>,
    /// Where each begins, and the line that it stands in.
    rows: Vec<(u32, u32)>,
    prefix_lengths: Vec<u16>,
    suffix_lengths: Vec<u16>,
    networks: Vec<(IpNet, u32)>,
    regexes: Vec<ReadRegex>,
}

impl TableDraft {
    pub fn new(ignores_case: bool) -> TableDraft {
        TableDraft {
            ignores_case,
            texts: Vec::new(),
            rows: Vec::new(),
            prefix_lengths: Vec::new(),
            suffix_lengths: Vec::new(),
            networks: Vec::new(),
            regexes: Vec::new(),
        }
    }

    /// A row as it is written, with the line or number by which it is named when it is one too many. Without a value
    /// the key is as if there were no row of it.
    pub fn add(&mut self, line: usize, written: &str, value: Option<&str>) -> Result<(), RowFault> {
        if self.rows.len() >= ROWS_MAX {
            return Err(RowFault::TooManyRows);
        }
        check_value(value.unwrap_or_default())?;
        let pattern = Pattern::parse(written)?;
        let Pattern { kind, text } = if self.ignores_case { pattern.without_case() } else { pattern };
        let offset = self.texts.len() as u32;
        match kind {
            Kind::Exact => {}
            Kind::Network => self.networks.extend(text.parse::<IpNet>().ok().map(|network| (network, offset))),
            Kind::Prefix => note_length(&mut self.prefix_lengths, text.len())?,
            Kind::Suffix => note_length(&mut self.suffix_lengths, text.len())?,
            Kind::Regex => {
                self.regexes.push(ReadRegex::new(&text, value.unwrap_or_default(), self.ignores_case, offset)?);
            }
        }
        let value_bytes = value.unwrap_or_default().as_bytes();
        let absent = if value.is_none() { ABSENT } else { 0 };
        push_number(&mut self.texts, (text.len() as u32) << HEAD_BITS | absent | kind as u32);
        push_number(&mut self.texts, value_bytes.len() as u32);
        self.texts.extend_from_slice(text.as_bytes());
        self.texts.extend_from_slice(value_bytes);
        self.rows.push((offset, line as u32));
        Ok(())
    }

    /// How many of the expressions can be compiled together, if that is not all.
    pub(crate) fn regexes_that_fit(&self) -> Option<usize> {
        regexes::that_fit(&self.regexes, self.ignores_case)
    }

    /// All rows together. What can only be said of them together is wrong here: keys that stand twice.
    pub fn finish(self) -> Result<Table, Vec<LineFault>> {
        let TableDraft { ignores_case, texts, rows, mut prefix_lengths, mut suffix_lengths, networks, regexes } = self;
        let regexes = Regexes::new(regexes, ignores_case).map_err(|fault| vec![LineFault { line: 0, fault }])?;
        prefix_lengths.sort_unstable_by_key(|length| Reverse(*length));
        suffix_lengths.sort_unstable_by_key(|length| Reverse(*length));
        let mut table = Table { texts: texts.into(), count: rows.len(), regexes, ..Table::default() };
        let mut slots = Slots::for_rows(rows.len());
        let mut faults = Vec::new();
        for (offset, line) in &rows {
            let row = table.row_at(*offset);
            let hash = hash_of(row.kind, row.key);
            let is_it = |known| {
                let known = table.row_at(known);
                known.kind == row.kind && known.key == row.key
            };
            match slots.find(hash, is_it) {
                None => slots.insert(hash, *offset),
                Some(known) if faults.len() < FAULTS_MAX => {
                    let first = rows.binary_search_by_key(&known, |(offset, _)| *offset);
                    let first = first.map_or(0, |position| rows[position].1 as usize);
                    let key = shown(&row.pattern().to_string());
                    faults.push(LineFault { line: *line as usize, fault: RowFault::Twice { first, key } });
                }
                Some(_) => break,
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        table.slots = slots;
        table.networks = Networks::new(&networks);
        (table.prefix_lengths, table.suffix_lengths) = (prefix_lengths.into(), suffix_lengths.into());
        Ok(table)
    }
}

fn note_length(lengths: &mut Vec<u16>, length: usize) -> Result<(), RowFault> {
    // Keys are shorter than this.
    let length = length as u16;
    if lengths.contains(&length) {
        return Ok(());
    }
    if lengths.len() >= LENGTHS_MAX {
        return Err(RowFault::TooManyLengths);
    }
    lengths.push(length);
    Ok(())
}

/// The start of a long key.
fn shown(key: &str) -> String {
    const CHARS_MAX: usize = 80;
    match key.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key.to_owned(),
    }
}
