//! The bytes of one file: magic, version, length and CRC-32 of the header, the header, the body. The header holds all
//! but the body, and the body's length and CRC-32. Whatever reads a file takes it for foreign input: it may be torn,
//! flipped or made by somebody. Which files there are is in the directory module above.

use crate::key::{Key, Vary};
use crate::message::{FIELDS_MAX, Field, StoredHead};
use crate::policy::storing::{Storable, Terms, Validation};
use crate::policy::tags::{TAG_BYTES_MAX, TAGS_MAX};
use crate::store::Object;

const MAGIC: &[u8; 8] = b"TIDECACH";
/// Files of another version are deleted: a cache is cheaper to fill than to convert.
const VERSION: u32 = 1;
/// Magic, version, length and checksum of the header.
pub const PREFIX_BYTES: usize = 20;
/// More than the largest head, key and tags together.
pub const HEADER_BYTES_MAX: usize = 256 << 10;

/// More than any time that this crate writes, and few enough to add and subtract.
const SECONDS_MAX: u64 = 1 << 40;

/// What is known of a file without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    pub key: Key,
    /// What is kept of the answer, with times of the wall clock.
    pub storable: Storable,
    pub body_bytes: u64,
    pub body_checksum: u32,
}

/// How long the header is and what its checksum is, from the first [`PREFIX_BYTES`].
pub fn read_prefix(prefix: &[u8]) -> Option<(usize, u32)> {
    let mut input = Input { rest: prefix };
    let is_ours = input.take(8)? == MAGIC && input.number::<4>()? == u64::from(VERSION);
    let length = input.number::<4>()? as usize;
    let checksum = input.number::<4>()? as u32;
    (is_ours && length <= HEADER_BYTES_MAX && input.rest.is_empty()).then_some((length, checksum))
}

/// The header after its prefix.
pub fn read_header(header: &[u8], checksum: u32) -> Option<FileHeader> {
    if crc32fast::hash(header) != checksum {
        return None;
    }
    let mut input = Input { rest: header };
    let key = Key::from_url(input.block()?).filter(|key| header[4..].starts_with(key.url()))?;
    let names: Vec<&[u8]> = input.blocks(FIELDS_MAX)?;
    let vary = Vary::from_kept(names.iter().copied())?;
    let secondary = Box::from(input.block()?);
    let status = u16::try_from(input.number::<2>()?).ok()?;
    let parts: Vec<&[u8]> = input.blocks(2 * FIELDS_MAX)?;
    let fields = parts.as_chunks::<2>().0.iter().map(|&[name, value]| (name, value));
    let head = StoredHead::new(status, fields).filter(|_| parts.len().is_multiple_of(2))?;
    let terms = input.terms()?;
    let tags = input.blocks(TAGS_MAX)?;
    if tags.iter().any(|tag| tag.len() > TAG_BYTES_MAX) {
        return None;
    }
    let tags = tags.into_iter().map(Box::from).collect();
    let body_bytes = input.number::<8>()?;
    let body_checksum = input.number::<4>()? as u32;
    let storable = Storable { head, terms, vary, secondary, tags, content_length: None };
    input.rest.is_empty().then_some(FileHeader { key, storable, body_bytes, body_checksum })
}

/// Prefix and header of a file. `received_seconds` is by the wall clock.
pub fn write(object: &Object, received_seconds: u64) -> Vec<u8> {
    let mut checksum = crc32fast::Hasher::new();
    object.body.iter().for_each(|chunk| checksum.update(chunk));
    let mut header = Vec::new();
    block(&mut header, object.key.url());
    let names: Vec<&[u8]> = object.vary.names().collect();
    blocks(&mut header, &names);
    block(&mut header, &object.secondary);
    header.extend_from_slice(&object.head.status.to_le_bytes());
    let parts: Vec<&[u8]> = object.head.fields().flat_map(|(name, value): Field<'_>| [name, value]).collect();
    blocks(&mut header, &parts);
    terms(&mut header, &object.terms, received_seconds);
    let tags: Vec<&[u8]> = object.tags.iter().map(AsRef::as_ref).collect();
    blocks(&mut header, &tags);
    header.extend_from_slice(&object.body_bytes.to_le_bytes());
    header.extend_from_slice(&checksum.finalize().to_le_bytes());
    let length = (header.len() as u32).to_le_bytes();
    let prefix: [&[u8]; 4] = [MAGIC, &VERSION.to_le_bytes(), &length, &crc32fast::hash(&header).to_le_bytes()];
    [&prefix.concat()[..], &header].concat()
}

fn terms(output: &mut Vec<u8>, terms: &Terms, received_seconds: u64) {
    let Terms { received_seconds: _, initial_age_seconds, lifetime_seconds, .. } = *terms;
    let stale = [terms.stale_while_revalidate_seconds, terms.stale_if_error_seconds];
    for seconds in [received_seconds, initial_age_seconds, lifetime_seconds, stale[0], stale[1]] {
        output.extend_from_slice(&seconds.to_le_bytes());
    }
    let validation = match terms.validation {
        Validation::WhenConvenient => 0,
        Validation::OnceStale => 1,
        Validation::Always => 2,
    };
    output.extend_from_slice(&[validation, u8::from(terms.immutable)]);
}

fn block(output: &mut Vec<u8>, bytes: &[u8]) {
    output.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    output.extend_from_slice(bytes);
}

fn blocks(output: &mut Vec<u8>, list: &[&[u8]]) {
    output.extend_from_slice(&(list.len() as u32).to_le_bytes());
    for bytes in list {
        block(output, bytes);
    }
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// Little end first, at most eight bytes.
    fn number<const BYTES: usize>(&mut self) -> Option<u64> {
        Some(self.take(BYTES)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn block(&mut self) -> Option<&'a [u8]> {
        let length = self.number::<4>()? as usize;
        self.take(length)
    }

    fn blocks(&mut self, count_max: usize) -> Option<Vec<&'a [u8]>> {
        let count = self.number::<4>()? as usize;
        (count <= count_max).then(|| (0..count).map(|_| self.block()).collect())?
    }

    fn terms(&mut self) -> Option<Terms> {
        let received_seconds = self.number::<8>()?;
        let initial_age_seconds = self.number::<8>()?;
        let lifetime_seconds = self.number::<8>()?;
        let stale_while_revalidate_seconds = self.number::<8>()?;
        let stale_if_error_seconds = self.number::<8>()?;
        let validation = match self.number::<1>()? {
            0 => Validation::WhenConvenient,
            1 => Validation::OnceStale,
            2 => Validation::Always,
            _ => return None,
        };
        let immutable = self.number::<1>()? == 1;
        let stale = [stale_while_revalidate_seconds, stale_if_error_seconds];
        let times = [received_seconds, initial_age_seconds, lifetime_seconds, stale[0], stale[1]];
        times.iter().all(|seconds| *seconds <= SECONDS_MAX).then_some(Terms {
            received_seconds,
            initial_age_seconds,
            lifetime_seconds,
            stale_while_revalidate_seconds,
            stale_if_error_seconds,
            validation,
            immutable,
        })
    }
}
