//! One MMDB file in memory, and what it has for an address. A record that cannot be read is as if there were none, and
//! counted: whoever is asked for in a condition is then unknown, and no request fails for it.

use crate::FILE_BYTES_MAX;
use crate::layout::{fits, places};
use maxminddb::{LookupResult, MaxMindDbError, Reader, WithinOptions};
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_model::GeoField;

/// Records that are read before a file is taken: one of another kind, or that is broken from the start, is found by
/// then.
const RECORDS_TRIED: usize = 2_000;
/// Longer ones are cut: they go into fields and logs.
const TEXT_BYTES_MAX: usize = 128;

pub struct Database {
    reader: Reader<Vec<u8>>,
    /// What was found in the first records.
    fields: Vec<GeoField>,
    unreadable: AtomicU64,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseFault {
    TooLarge,
    /// What the library says.
    NotReadable(String),
    /// None of what is known of addresses here; its kind as it calls itself.
    NothingKnown(String),
}

/// What a database has for an address.
pub(crate) struct Found<'d> {
    database: &'d Database,
    record: LookupResult<'d, Vec<u8>>,
}

impl Database {
    /// Reads everything in it, which takes a while for a large one: what is found broken only when a client comes from
    /// there would be found too late.
    pub fn read(bytes: Vec<u8>) -> Result<Database, DatabaseFault> {
        let database = Database::open(bytes)?;
        database.reader.verify().map_err(|error| DatabaseFault::NotReadable(error.to_string()))?;
        Ok(database)
    }

    /// As [`read`](Self::read), of a file that may be broken further behind.
    pub(crate) fn open(bytes: Vec<u8>) -> Result<Database, DatabaseFault> {
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(DatabaseFault::TooLarge);
        }
        let unreadable = |error: MaxMindDbError| DatabaseFault::NotReadable(error.to_string());
        let reader = Reader::from_source(bytes).map_err(unreadable)?;
        let mut database = Database { reader, fields: Vec::new(), unreadable: AtomicU64::new(0) };
        let mut fields = Vec::new();
        let records = database.reader.networks(WithinOptions::default()).map_err(unreadable)?;
        for record in records.take(RECORDS_TRIED) {
            let found = Found { database: &database, record: record.map_err(unreadable)? };
            for field in GeoField::ALL {
                if !fields.contains(&field) && found.read(field).map_err(unreadable)?.is_some() {
                    fields.push(field);
                }
            }
        }
        if fields.is_empty() {
            return Err(DatabaseFault::NothingKnown(database.kind().to_owned()));
        }
        database.fields = fields;
        Ok(database)
    }

    /// As it calls itself, as in `GeoLite2-City`.
    pub fn kind(&self) -> &str {
        &self.reader.metadata().database_type
    }

    /// When it was made, in seconds since 1970.
    pub fn built(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    /// What its first records have; later ones may have more.
    pub fn fields(&self) -> &[GeoField] {
        &self.fields
    }

    /// Records that were asked for and could not be read.
    pub fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    pub(crate) fn find(&self, address: IpAddr) -> Option<Found<'_>> {
        if address.is_ipv6() && self.reader.metadata().ip_version == 4 {
            return None;
        }
        match self.reader.lookup(address) {
            Ok(record) => record.has_data().then_some(Found { database: self, record }),
            Err(_) => {
                self.unreadable.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

impl<'d> Found<'d> {
    pub fn text(&self, field: GeoField) -> Option<Cow<'d, str>> {
        self.read(field).unwrap_or_else(|_| {
            self.database.unreadable.fetch_add(1, Ordering::Relaxed);
            None
        })
    }

    fn read(&self, field: GeoField) -> Result<Option<Cow<'d, str>>, MaxMindDbError> {
        for place in places(field) {
            // A number where another publisher has a text, and a text where one has a map, are no fault.
            let is_other_form = |error: &MaxMindDbError| matches!(error, MaxMindDbError::Decoding { .. });
            match self.record.decode_path::<&'d str>(place) {
                Ok(Some(text)) => {
                    let text = if field == GeoField::Asn { text.trim_start_matches("AS") } else { text };
                    if fits(field, text) {
                        return Ok(Some(Cow::Borrowed(cut(text))));
                    }
                }
                Ok(None) => {}
                Err(error) if !is_other_form(&error) => return Err(error),
                Err(_) if field != GeoField::Asn => {}
                Err(_) => match self.record.decode_path::<u32>(place) {
                    Ok(Some(number)) if number > 0 => return Ok(Some(Cow::Owned(number.to_string()))),
                    Ok(_) => {}
                    Err(error) if is_other_form(&error) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(None)
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl DatabaseFault {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            DatabaseFault::TooLarge => "use one with less in it: countries and autonomous systems have some megabytes",
            DatabaseFault::NotReadable(_) => {
                "fetch it again, as a whole, and unpack it: `.mmdb` is the file itself, `.tar.gz` and `.gz` are around it"
            }
            DatabaseFault::NothingKnown(_) => {
                "name one of countries, cities or autonomous systems, such as `GeoLite2-Country.mmdb` and `GeoLite2-ASN.mmdb`"
            }
        }
    }
}

impl fmt::Display for DatabaseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseFault::TooLarge => write!(f, "it is larger than {} MiB", FILE_BYTES_MAX >> 20),
            DatabaseFault::NotReadable(why) => write!(f, "it is no MMDB file that can be read: {why}"),
            DatabaseFault::NothingKnown(kind) => {
                write!(f, "it is of the kind `{}` and has neither countries nor autonomous systems", kind.escape_debug())
            }
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("kind", &self.kind()).field("built", &self.built()).finish_non_exhaustive()
    }
}
