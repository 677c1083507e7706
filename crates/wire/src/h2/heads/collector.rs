//! What every kind of head has in common while it is decoded: bounds that are kept before bytes are written, names and
//! values that have only the bytes they may have, and pseudo-header fields in front, each once.

use crate::error::HeadError;
use crate::h2::hpack::{FIELD_OVERHEAD, FieldName, FieldSink, PseudoHeader};
use crate::head::{Fields, HeaderId, Span};
use crate::limits::HeadLimits;
use crate::scan::{token_end, value_end};

/// Values of the pseudo-header fields that a head may have, by [`PseudoHeader`]. `None` where it did not come.
#[derive(Debug, Default)]
pub struct PseudoValues {
    values: [Option<Span>; PSEUDO_HEADERS],
}

const PSEUDO_HEADERS: usize = 6;

impl PseudoValues {
    pub fn of(&self, pseudo: PseudoHeader) -> Option<Span> {
        self.values.get(pseudo as usize).copied().flatten()
    }

    /// Whether it is the first of its name.
    fn note(&mut self, pseudo: PseudoHeader, value: Span) -> bool {
        match self.values.get_mut(pseudo as usize) {
            Some(place @ None) => {
                *place = Some(value);
                true
            }
            Some(Some(_)) | None => false,
        }
    }
}

/// A field list on its way into a head. The first rule that is broken is kept, and no field behind it costs anything.
pub struct FieldCollector<'f> {
    fields: &'f mut Fields,
    pseudo: PseudoValues,
    /// The pseudo-header fields that this kind of head may have.
    allowed: &'static [PseudoHeader],
    /// Bytes and fields that may still come.
    bytes_left: usize,
    fields_left: usize,
    has_regular: bool,
    cookies: usize,
    fault: Option<HeadError>,
}

impl<'f> FieldCollector<'f> {
    pub fn new(fields: &'f mut Fields, allowed: &'static [PseudoHeader], limits: &HeadLimits) -> FieldCollector<'f> {
        FieldCollector {
            fields,
            pseudo: PseudoValues::default(),
            allowed,
            bytes_left: limits.head_bytes_max,
            fields_left: limits.fields_max,
            has_regular: false,
            cookies: 0,
            fault: None,
        }
    }

    /// The fields as one head has them, and the pseudo-header fields; `is_over_bound`: some were not handed over. What
    /// is refused has those that came.
    pub fn finish(self, is_over_bound: bool) -> Result<(&'f mut Fields, PseudoValues), (HeadError, PseudoValues)> {
        match self.fault {
            Some(fault) => return Err((fault, self.pseudo)),
            None if is_over_bound => return Err((HeadError::HeadTooLarge, self.pseudo)),
            None => {}
        }
        if self.cookies > 1 {
            join_cookies(self.fields);
        }
        Ok((self.fields, self.pseudo))
    }

    fn pseudo_header(&mut self, pseudo: PseudoHeader, value: Span) -> Result<(), HeadError> {
        // An authority is what `Host` is in HTTP/1.1 and to those whom the request goes on to: it counts as a field.
        if pseudo == PseudoHeader::Authority {
            self.fields_left = self.fields_left.checked_sub(1).ok_or(HeadError::TooManyFields)?;
        }
        // RFC 9113 section 8.3: in front of all other fields, none that is unknown, none twice.
        let is_in_place = !self.has_regular && self.allowed.contains(&pseudo);
        if is_in_place && self.pseudo.note(pseudo, value) { Ok(()) } else { Err(HeadError::PseudoHeader) }
    }

    fn regular(&mut self, id: HeaderId, name: Span, value: Span) -> Result<(), HeadError> {
        self.has_regular = true;
        // Pieces of a cookie are one field (RFC 9113 section 8.2.3); each is counted in bytes.
        if id != HeaderId::Cookie || self.cookies == 0 {
            self.fields_left = self.fields_left.checked_sub(1).ok_or(HeadError::TooManyFields)?;
        }
        let (name_bytes, value_bytes) = (name.of(&self.fields.bytes), value.of(&self.fields.bytes));
        if id == HeaderId::Other {
            check_name(name_bytes)?;
        }
        check_value(value_bytes)?;
        match id {
            // RFC 9113 section 8.2.2: what speaks of a connection of HTTP/1.1 is malformed here. A `te` that says more
            // than that trailers are understood as well.
            HeaderId::Te if value_bytes.eq_ignore_ascii_case(b"trailers") => {}
            // Of the upgrade to HTTP/2 nothing is left to say; nobody sends it on.
            HeaderId::Http2Settings => {}
            id if id.is_of_http1_connection() => return Err(HeadError::ConnectionField),
            HeaderId::Cookie => self.cookies += 1,
            _ => {}
        }
        self.fields.index(name, value, id, true);
        Ok(())
    }
}

impl FieldSink for FieldCollector<'_> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.fields.bytes
    }

    fn room(&self) -> usize {
        if self.fault.is_some() { 0 } else { self.bytes_left }
    }

    fn field(&mut self, name: FieldName, name_span: Span, value: Span, _is_sensitive: bool) {
        let name_bytes = match name {
            FieldName::Pseudo(pseudo) => pseudo.name().len(),
            FieldName::Regular(_) => name_span.len as usize,
        };
        self.bytes_left = self.bytes_left.saturating_sub(name_bytes + value.len as usize + FIELD_OVERHEAD);
        let taken = match name {
            FieldName::Pseudo(pseudo) => self.pseudo_header(pseudo, value),
            FieldName::Regular(id) => self.regular(id, name_span, value),
        };
        if let Err(fault) = taken {
            self.fault.get_or_insert(fault);
        }
    }
}

/// RFC 9113 section 8.2.1: a token without capital letters.
fn check_name(name: &[u8]) -> Result<(), HeadError> {
    let is_token = !name.is_empty() && token_end(name, 0) == name.len();
    if is_token && !name.iter().any(u8::is_ascii_uppercase) { Ok(()) } else { Err(HeadError::BadFieldName) }
}

/// As in HTTP/1, and no white space at either end, which HTTP/1 takes away (RFC 9113 section 8.2.1).
fn check_value(value: &[u8]) -> Result<(), HeadError> {
    let is_edge_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_good = value_end(value, 0) == value.len() && !is_edge_blank(value.first()) && !is_edge_blank(value.last());
    if is_good { Ok(()) } else { Err(HeadError::BadFieldValue) }
}

/// RFC 9113 section 8.2.3: cookies that were split so that they compress become one field again. Each piece was counted
/// with more than the two bytes that join it.
fn join_cookies(fields: &mut Fields) {
    let pieces: usize = fields.list.len();
    let start = fields.bytes.len();
    fields.bytes.extend_from_slice(b"cookie: ");
    let value_start = fields.bytes.len();
    for position in 0..pieces {
        let field = fields.list[position];
        if field.id == HeaderId::Cookie {
            if fields.bytes.len() > value_start {
                fields.bytes.extend_from_slice(b"; ");
            }
            let piece = field.value.start as usize..(field.value.start + field.value.len) as usize;
            fields.bytes.extend_from_within(piece);
        }
    }
    let value_end = fields.bytes.len();
    fields.bytes.extend_from_slice(b"\r\n");
    fields.remove_id(HeaderId::Cookie);
    let (name, value) = (Span::new(start, start + "cookie".len()), Span::new(value_start, value_end));
    fields.index(name, value, HeaderId::Cookie, true);
}
