//! The decoder: header blocks in, fields out, straight into a head's buffer (RFC 7541 sections 3 and 6). Gathering a
//! block from its frames is the connection's business. The other way is `encoder`.

use super::dynamic_table::{DynamicEntry, DynamicTable};
use super::static_table::{STATIC_ENTRIES, STATIC_TABLE, StaticEntry};
use super::{CompressionError, FIELD_OVERHEAD, FieldName, huffman, integer};
use crate::head::Span;

/// Where decoded fields go. Names and values are written once, to the end of its buffer: a regular field as the line
/// `name: value`, CR LF, which can be sent on over HTTP/1.1 as it stands; of a pseudo-header the value alone.
pub trait FieldSink {
    /// The buffer that fields are appended to.
    fn bytes(&mut self) -> &mut Vec<u8>;

    /// The largest size that the next field may have: name, value and [`FIELD_OVERHEAD`]. Asked before anything of a
    /// field is written, so that what is too large takes no memory.
    fn room(&self) -> usize;

    /// One whole field, no larger than `room`. The span of a pseudo-header's name is empty. `is_sensitive`: whoever
    /// sends it on must not index it either (section 7.1.3).
    fn field(&mut self, name: FieldName, name_span: Span, value: Span, is_sensitive: bool);
}

/// What the sink was given of a valid header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum HeaderList {
    Whole,
    /// A field was larger than the sink had room for. It and all behind it were not handed over, but the tables of both
    /// sides agree: the stream is refused, the connection lives on.
    OverBound,
}

/// The decoder of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// The size that our settings allow; the peer chooses one up to it.
    size_limit: u16,
}

/// A header block on its way through the decoder.
struct Block<'a, S> {
    rest: &'a [u8],
    sink: &'a mut S,
    verdict: HeaderList,
}

impl<S: FieldSink> Block<'_, S> {
    fn room(&self) -> usize {
        match self.verdict {
            HeaderList::Whole => self.sink.room(),
            HeaderList::OverBound => 0,
        }
    }

    /// Hands over a field that is laid down from `start` to the end of the buffer.
    #[inline]
    fn hand_over(&mut self, name: FieldName, name_len: usize, value_len: usize, start: usize, is_sensitive: bool) {
        let name_end = if name.has_line() { start + name_len } else { start };
        let value_start = if name.has_line() { name_end + ": ".len() } else { start };
        self.sink.field(name, Span::new(start, name_end), Span::new(value_start, value_start + value_len), is_sensitive);
    }
}

/// What an index stands for.
enum Indexed {
    Static(&'static StaticEntry),
    Dynamic(DynamicEntry),
}

/// What the peer asks for with a literal (section 6.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literal {
    IncrementalIndexing,
    WithoutIndexing,
    NeverIndexed,
}

impl Decoder {
    /// `table_size_max` is what the peer may use now: [`DEFAULT_TABLE_SIZE`](super::DEFAULT_TABLE_SIZE) until it has
    /// acknowledged our settings.
    pub fn new(table_size_max: u16) -> Decoder {
        Decoder { table: DynamicTable::new(table_size_max), size_limit: table_size_max }
    }

    /// The peer has acknowledged our SETTINGS_HEADER_TABLE_SIZE. When the table is larger, the next block must begin
    /// with a size update (section 4.2).
    pub fn set_table_size_max(&mut self, table_size_max: u16) {
        self.size_limit = table_size_max;
    }

    /// Decodes a whole header block. After an error the connection is of no use.
    pub fn decode(&mut self, block: &[u8], sink: &mut impl FieldSink) -> Result<HeaderList, CompressionError> {
        let mut block = Block { rest: block, sink, verdict: HeaderList::Whole };
        self.update_sizes(&mut block.rest)?;
        while let Some((first, rest)) = block.rest.split_first() {
            block.rest = rest;
            match first {
                0x80.. => self.indexed(*first, &mut block)?,
                0x40.. => self.literal(*first, Literal::IncrementalIndexing, &mut block)?,
                0x20.. => return Err(CompressionError::SizeUpdatePlace),
                0x10.. => self.literal(*first, Literal::NeverIndexed, &mut block)?,
                0x00.. => self.literal(*first, Literal::WithoutIndexing, &mut block)?,
            }
        }
        Ok(block.verdict)
    }

    /// Section 6.3: size updates stand before the first field only (section 4.2).
    #[inline]
    fn update_sizes(&mut self, rest: &mut &[u8]) -> Result<(), CompressionError> {
        while let Some((first @ 0x20..=0x3f, tail)) = rest.split_first() {
            *rest = tail;
            let size = integer::decode::<5>(*first, rest)?;
            match u16::try_from(size) {
                Ok(size) if size <= self.size_limit => self.table.set_size_max(size),
                Ok(_) | Err(_) => return Err(CompressionError::SizeUpdateLimit),
            }
        }
        if self.table.size_max() > self.size_limit { Err(CompressionError::SizeUpdateMissing) } else { Ok(()) }
    }

    /// Section 2.3.3.
    #[inline]
    fn entry(&self, index: usize) -> Result<Indexed, CompressionError> {
        let place = index.checked_sub(1).ok_or(CompressionError::Index)?;
        match STATIC_TABLE.get(place) {
            Some(entry) => Ok(Indexed::Static(entry)),
            None => self.table.get(place - STATIC_ENTRIES).map(Indexed::Dynamic).ok_or(CompressionError::Index),
        }
    }

    /// Section 6.1. A byte of the block can stand for a field of 4 KiB, so its size is looked at first.
    #[inline]
    fn indexed<S: FieldSink>(&self, first: u8, block: &mut Block<'_, S>) -> Result<(), CompressionError> {
        let entry = self.entry(integer::decode::<7>(first, &mut block.rest)?)?;
        let (name, name_len, value_len) = match &entry {
            Indexed::Static(entry) => (entry.name, usize::from(entry.name_len), usize::from(entry.value_len)),
            Indexed::Dynamic(entry) => (entry.name, usize::from(entry.name_len), usize::from(entry.value_len)),
        };
        if name_len + value_len + FIELD_OVERHEAD > block.room() {
            block.verdict = HeaderList::OverBound;
            return Ok(());
        }
        let bytes = block.sink.bytes();
        let start = bytes.len();
        match entry {
            Indexed::Static(entry) => bytes.extend_from_slice(entry.bytes),
            Indexed::Dynamic(entry) => self.table.append_field(entry, bytes),
        }
        block.hand_over(name, name_len, value_len, start, false);
        Ok(())
    }

    /// Section 6.2. A field that the sink has no room for is written nevertheless if it goes into the table, and taken
    /// away again: that is no more than the table's size.
    fn literal<S: FieldSink>(&mut self, first: u8, kind: Literal, block: &mut Block<'_, S>) -> Result<(), CompressionError> {
        let (index, kept_max) = match kind {
            Literal::IncrementalIndexing => (integer::decode::<6>(first, &mut block.rest)?, usize::from(self.table.size_max())),
            Literal::WithoutIndexing | Literal::NeverIndexed => (integer::decode::<4>(first, &mut block.rest)?, 0),
        };
        let room = block.room();
        let limit = room.max(kept_max);
        let bytes = block.sink.bytes();
        let start = bytes.len();
        let string_max = limit.saturating_sub(FIELD_OVERHEAD);
        let (name, name_len) = self.literal_name(index, &mut block.rest, bytes, string_max)?;
        let value_len = string(&mut block.rest, bytes, string_max.saturating_sub(name_len))?;
        let size = name_len + value_len + FIELD_OVERHEAD;
        if name.has_line() && size <= limit {
            bytes.extend_from_slice(b"\r\n");
        }
        match kind {
            // With a size over the limit the bytes are not all there; they are over the table's size then, too.
            Literal::IncrementalIndexing => {
                let field = bytes.get(start..).unwrap_or_default();
                self.table.insert(name, name_len, value_len, &[field]);
            }
            Literal::WithoutIndexing | Literal::NeverIndexed => {}
        }
        if size > room {
            bytes.truncate(start);
            block.verdict = HeaderList::OverBound;
            return Ok(());
        }
        block.hand_over(name, name_len, value_len, start, kind == Literal::NeverIndexed);
        Ok(())
    }

    /// Appends what stands before the value of a literal field, and says which name it is and how long. A name over
    /// `max` is not written.
    fn literal_name(
        &self,
        index: usize,
        rest: &mut &[u8],
        bytes: &mut Vec<u8>,
        max: usize,
    ) -> Result<(FieldName, usize), CompressionError> {
        let start = bytes.len();
        if index == 0 {
            let name_len = string(rest, bytes, max)?;
            let name = FieldName::of(bytes.get(start..).unwrap_or_default());
            if !name.has_line() {
                bytes.truncate(start);
            } else if name_len <= max {
                bytes.extend_from_slice(b": ");
            }
            return Ok((name, name_len));
        }
        match self.entry(index)? {
            Indexed::Static(entry) => {
                let name_len = usize::from(entry.name_len);
                if entry.name.has_line() && name_len <= max {
                    bytes.extend_from_slice(entry.bytes.get(..name_len + ": ".len()).unwrap_or_default());
                }
                Ok((entry.name, name_len))
            }
            Indexed::Dynamic(entry) => {
                let name_len = usize::from(entry.name_len);
                if name_len <= max {
                    self.table.append_name(entry, bytes);
                }
                Ok((entry.name, name_len))
            }
        }
    }
}

/// Appends a string (section 5.2) if it has at most `max` bytes; says how many it has.
fn string(rest: &mut &[u8], bytes: &mut Vec<u8>, max: usize) -> Result<usize, CompressionError> {
    let (first, tail) = rest.split_first().ok_or(CompressionError::Truncated)?;
    *rest = tail;
    let len = integer::decode::<7>(*first, rest)?;
    let (coded, tail) = rest.split_at_checked(len).ok_or(CompressionError::Truncated)?;
    *rest = tail;
    if first & 0x80 != 0 {
        return huffman::decode(coded, bytes, max);
    }
    if len <= max {
        bytes.extend_from_slice(coded);
    }
    Ok(len)
}

#[cfg(test)]
mod tests;
