//! The encoder: fields in, header blocks out (RFC 7541 sections 3 and 6). Splitting a block into frames is the
//! connection's business. The other way is `decoder`.
//!
//! What goes into the dynamic table:
//! - A field that was sent before with the same value, lately. So the first time costs no entry, and dates, request
//!   ids, lengths and entity tags take room from the others only where they do repeat: a date a thousand times in its
//!   second, the fields of one file that everybody asks for. No list of names has to guess that. An entry pays at its
//!   first use: an index is one or two bytes and one comparison, where Huffman coding costs some steps for each byte.
//! - Never credentials: `authorization`, `proxy-authorization`, `cookie`, `set-cookie` and what is marked as sensitive.
//!   Connections to upstreams carry requests of many clients, and who can send requests and see sizes could guess what
//!   the table holds (section 7.1.3). Cookies of many clients would also wear the table out.
//! - Not `:path`: it changes with each request and may hold secrets, too.
//! - Nothing above half the table's size, which would put out all that is used more often.

mod recent;

use super::dynamic_table::DynamicTable;
use super::static_table::{STATIC_ENTRIES, index_of_field, index_of_name};
use super::{DEFAULT_TABLE_SIZE, FIELD_OVERHEAD, FieldName, PseudoHeader, huffman, integer};
use crate::head::HeaderId;
use recent::{Fingerprint, Recent};

/// A peer may allow more; entries beyond this would hardly be used again before they are put out.
const TABLE_SIZE_MAX: u16 = DEFAULT_TABLE_SIZE;

/// First bits of the kinds of fields (section 6).
const INDEXED: u8 = 0x80;
const INCREMENTAL_INDEXING: u8 = 0x40;
const SIZE_UPDATE: u8 = 0x20;
const NEVER_INDEXED: u8 = 0x10;
const WITHOUT_INDEXING: u8 = 0x00;
/// The bit of a string that says Huffman (section 5.2).
const HUFFMAN: u8 = 0x80;

/// Lengths below this stand in the one byte that begins a string.
const SHORT_STRING: usize = 0x7f;

/// The encoder of one connection.
#[derive(Debug)]
pub struct Encoder {
    table: DynamicTable,
    recent: Recent,
    size_update: SizeUpdate,
    /// A name in lower case, where it came otherwise.
    lower_case: Vec<u8>,
}

/// What the next block has to begin with (section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizeUpdate {
    None,
    /// The size that the table had at its smallest since the last block; the one that it has now follows.
    Due {
        smallest: u16,
    },
}

/// One header block that is being written.
pub struct BlockEncoder<'a> {
    encoder: &'a mut Encoder,
    out: &'a mut Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexing {
    WhenRepeated,
    Without,
    Never,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder {
            table: DynamicTable::new(TABLE_SIZE_MAX),
            recent: Recent::default(),
            size_update: SizeUpdate::None,
            lower_case: Vec::new(),
        }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE.
    pub fn set_table_size_max(&mut self, size: u32) {
        let size = u16::try_from(size).unwrap_or(u16::MAX).min(TABLE_SIZE_MAX);
        if size != self.table.size_max() {
            self.resize(size);
        }
    }

    /// Gives the memory of an idle connection back. The next block tells the peer that its table is empty.
    pub fn give_back(&mut self) {
        self.lower_case = Vec::new();
        if self.table.len() > 0 {
            let size = self.table.size_max();
            self.resize(0);
            self.resize(size);
        }
    }

    fn resize(&mut self, size: u16) {
        let smallest = match self.size_update {
            SizeUpdate::None => size.min(self.table.size_max()),
            SizeUpdate::Due { smallest } => smallest.min(size),
        };
        self.size_update = SizeUpdate::Due { smallest };
        self.table.set_size_max(size);
    }

    /// Begins a header block at the end of `out`.
    pub fn block<'a>(&'a mut self, out: &'a mut Vec<u8>) -> BlockEncoder<'a> {
        match self.size_update {
            SizeUpdate::None => {}
            SizeUpdate::Due { smallest } => {
                let size = self.table.size_max();
                if smallest < size {
                    integer::encode::<5>(SIZE_UPDATE, usize::from(smallest), out);
                }
                integer::encode::<5>(SIZE_UPDATE, usize::from(size), out);
                self.size_update = SizeUpdate::None;
            }
        }
        BlockEncoder { encoder: self, out }
    }

    fn indexing(&self, name: FieldName, size: usize, is_sensitive: bool) -> Indexing {
        match name {
            _ if is_sensitive => Indexing::Never,
            FieldName::Regular(
                HeaderId::Authorization | HeaderId::ProxyAuthorization | HeaderId::Cookie | HeaderId::SetCookie,
            ) => Indexing::Never,
            FieldName::Pseudo(PseudoHeader::Path) => Indexing::Without,
            _ if size > usize::from(self.table.size_max()) / 2 => Indexing::Without,
            _ => Indexing::WhenRepeated,
        }
    }

    /// Writes a field. `bytes` are the name's, in lower case.
    fn encode(&mut self, name: FieldName, bytes: &[u8], value: &[u8], is_sensitive: bool, out: &mut Vec<u8>) {
        let static_index = index_of_name(name, bytes);
        let size = bytes.len() + value.len() + FIELD_OVERHEAD;
        let indexing = self.indexing(name, size, is_sensitive);
        if indexing != Indexing::Never {
            let index = index_of_field(static_index, value);
            if index > 0 {
                out.push(INDEXED | index);
                return;
            }
        }
        let name_print = Fingerprint::of_name(name, bytes);
        let field_print = name_print.with_value(value);
        let kind = match indexing {
            Indexing::Never => NEVER_INDEXED,
            Indexing::Without => WITHOUT_INDEXING,
            Indexing::WhenRepeated => {
                let age = self.recent.age(field_print, |age| self.is_field(age, name, bytes, value));
                if let Some(age) = age {
                    integer::encode::<7>(INDEXED, STATIC_ENTRIES + 1 + age, out);
                    return;
                }
                if self.recent.is_repeated(field_print) { INCREMENTAL_INDEXING } else { WITHOUT_INDEXING }
            }
        };
        let index = match static_index {
            0 => self.index_of_dynamic_name(name_print, name, bytes),
            index => usize::from(index),
        };
        if kind == INCREMENTAL_INDEXING {
            integer::encode::<6>(kind, index, out);
            let name_print = (static_index == 0).then_some(name_print);
            self.insert(name, bytes, value, name_print, field_print);
        } else {
            integer::encode::<4>(kind, index, out);
        }
        if index == 0 {
            string(bytes, out);
        }
        string(value, out);
    }

    /// 0 where no entry has the name.
    fn index_of_dynamic_name(&self, print: Fingerprint, name: FieldName, bytes: &[u8]) -> usize {
        let age = self.recent.age(print, |age| self.is_name(age, name, bytes));
        age.map_or(0, |age| STATIC_ENTRIES + 1 + age)
    }

    fn is_name(&self, age: usize, name: FieldName, bytes: &[u8]) -> bool {
        self.table.get(age).is_some_and(|entry| {
            entry.name == name && (name != FieldName::Regular(HeaderId::Other) || self.table.has_name(entry, bytes))
        })
    }

    fn is_field(&self, age: usize, name: FieldName, bytes: &[u8], value: &[u8]) -> bool {
        self.is_name(age, name, bytes) && self.table.get(age).is_some_and(|entry| self.table.has_value(entry, value))
    }

    /// As the peer will do when it reads the field (section 4.4).
    fn insert(&mut self, name: FieldName, bytes: &[u8], value: &[u8], name_print: Option<Fingerprint>, field_print: Fingerprint) {
        let is_in = if name.has_line() {
            self.table.insert(name, bytes.len(), value.len(), &[bytes, b": ", value, b"\r\n"])
        } else {
            self.table.insert(name, bytes.len(), value.len(), &[value])
        };
        if is_in {
            self.recent.inserted(name_print, field_print);
        }
    }
}

impl BlockEncoder<'_> {
    pub fn status(&mut self, status: u16) {
        let digit = |unit: u16| b'0' + (status / unit % 10) as u8;
        self.pseudo(PseudoHeader::Status, &[digit(100), digit(10), digit(1)]);
    }

    /// A field whose name is not `Unknown`.
    pub fn pseudo(&mut self, pseudo: PseudoHeader, value: &[u8]) {
        self.encoder.encode(FieldName::Pseudo(pseudo), pseudo.name().as_bytes(), value, false, self.out);
    }

    /// A regular field. `name` counts where `id` is `Other`, and may be in any case.
    pub fn field(&mut self, id: HeaderId, name: &[u8], value: &[u8], is_sensitive: bool) {
        let encoder = &mut *self.encoder;
        let known = FieldName::Regular(id);
        if id != HeaderId::Other {
            encoder.encode(known, id.name().as_bytes(), value, is_sensitive, self.out);
        } else if !name.iter().any(u8::is_ascii_uppercase) {
            encoder.encode(known, name, value, is_sensitive, self.out);
        } else {
            let mut lower_case = std::mem::take(&mut encoder.lower_case);
            lower_case.clear();
            lower_case.extend_from_slice(name);
            lower_case.make_ascii_lowercase();
            encoder.encode(known, &lower_case, value, is_sensitive, self.out);
            encoder.lower_case = lower_case;
        }
    }
}

/// Appends a string (section 5.2), Huffman coded where that is shorter.
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.len() >= SHORT_STRING {
        return long_string(bytes, out);
    }
    // Coded at once, and taken back where that was in vain: most names and values become shorter.
    let start = out.len();
    out.push(0);
    huffman::encode(bytes, out);
    let coded_len = out.len() - start - 1;
    let is_shorter = coded_len < bytes.len();
    if !is_shorter {
        out.truncate(start + 1);
        out.extend_from_slice(bytes);
    }
    if let Some(first) = out.get_mut(start) {
        *first = if is_shorter { HUFFMAN | coded_len as u8 } else { bytes.len() as u8 };
    }
}

fn long_string(bytes: &[u8], out: &mut Vec<u8>) {
    let coded_len = huffman::encoded_len(bytes);
    if coded_len < bytes.len() {
        integer::encode::<7>(HUFFMAN, coded_len, out);
        huffman::encode(bytes, out);
    } else {
        integer::encode::<7>(0, bytes.len(), out);
        out.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
