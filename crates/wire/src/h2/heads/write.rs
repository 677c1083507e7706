//! Heads as field lists. What HTTP/2 forbids (RFC 9113 section 8.2.2) is left out: it was between us and whoever sent
//! the head to us. Which fields are kept from tables is known by the encoder.

use crate::h2::hpack::{BlockEncoder, Encoder, FIELD_OVERHEAD, PseudoHeader};
use crate::head::{Fields, HeaderId, RequestHead, ResponseHead};

/// What is said of a request beside its head.
#[derive(Debug, Clone, Copy)]
pub struct RequestForm<'r> {
    /// `http` or `https`
    pub scheme: &'r str,
    /// Whoever asks understands trailers (the one value of `te` that is passed on; gRPC servers insist on it).
    pub wants_trailers: bool,
    /// What an extended CONNECT asks to speak (RFC 8441 section 4), in place of the method of the head.
    pub protocol: Option<&'r [u8]>,
}

/// A request for an upstream. `scratch` joins path and query.
pub fn write_request(encoder: &mut Encoder, head: &RequestHead, form: RequestForm<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    let mut block = encoder.block(out);
    match form.protocol {
        None => block.pseudo(PseudoHeader::Method, head.method_name()),
        Some(protocol) => {
            block.pseudo(PseudoHeader::Method, b"CONNECT");
            block.pseudo(PseudoHeader::Protocol, protocol);
        }
    }
    block.pseudo(PseudoHeader::Scheme, form.scheme.as_bytes());
    block.pseudo(PseudoHeader::Authority, authority(head));
    match head.query() {
        None => block.pseudo(PseudoHeader::Path, head.path()),
        Some(query) => {
            scratch.clear();
            scratch.extend_from_slice(head.path());
            scratch.push(b'?');
            scratch.extend_from_slice(query);
            block.pseudo(PseudoHeader::Path, scratch);
        }
    }
    // `:authority` says what `Host` does.
    write_fields(&mut block, &head.fields, |id| id != HeaderId::Host);
    if form.wants_trailers {
        block.field(HeaderId::Te, b"te", b"trailers", false);
    }
}

/// The names of all pseudo-headers of a request, and `te` with its value.
const PSEUDO_BYTES: usize = ":method:scheme:authority:path:protocol".len() + "te".len() + "trailers".len();
/// As many pseudo-headers and `te`.
const PSEUDO_FIELDS: usize = 6;

/// Whether the field list of a request is within what the peer takes (SETTINGS_MAX_HEADER_LIST_SIZE). Fields are
/// counted one by one only where it may be too large.
#[inline]
pub fn request_fits(head: &RequestHead, form: RequestForm<'_>, list_bytes_max: u32) -> bool {
    let form_bytes = form.scheme.len() + form.protocol.map_or(0, <[u8]>::len) + PSEUDO_BYTES;
    let fields = head.fields.list.len() + PSEUDO_FIELDS;
    let bytes_most = head.fields.bytes.len() + form_bytes + fields * FIELD_OVERHEAD;
    bytes_most <= list_bytes_max as usize || request_list_bytes(head, form) <= list_bytes_max as usize
}

/// Whether trailers are within what the peer takes.
pub fn fields_fit(trailers: &Fields, list_bytes_max: u32) -> bool {
    list_bytes(trailers, |_| true) <= list_bytes_max as usize
}

/// What [`write_request`] writes, as RFC 9113 section 6.5.2 counts it.
#[cold]
fn request_list_bytes(head: &RequestHead, form: RequestForm<'_>) -> usize {
    let field = |name: &str, value_bytes: usize| name.len() + value_bytes + FIELD_OVERHEAD;
    let method = match form.protocol {
        None => field(":method", head.method_name().len()),
        Some(protocol) => field(":method", "CONNECT".len()) + field(":protocol", protocol.len()),
    };
    let path = field(":path", head.path().len() + head.query().map_or(0, |query| query.len() + 1));
    let te = if form.wants_trailers { field("te", "trailers".len()) } else { 0 };
    let pseudo = method + field(":scheme", form.scheme.len()) + field(":authority", authority(head).len()) + path;
    pseudo + te + list_bytes(&head.fields, |id| id != HeaderId::Host)
}

fn list_bytes(fields: &Fields, is_wanted: impl Fn(HeaderId) -> bool) -> usize {
    let sent = fields.list.iter().filter(|field| is_sent(field.id) && is_wanted(field.id));
    sent.map(|field| field.name.of(&fields.bytes).len() + field.value.of(&fields.bytes).len() + FIELD_OVERHEAD).sum()
}

/// An answer for a client, an interim one included.
pub fn write_response(encoder: &mut Encoder, head: &ResponseHead, out: &mut Vec<u8>) {
    let mut block = encoder.block(out);
    block.status(head.status);
    write_fields(&mut block, &head.fields, |_| true);
}

pub fn write_trailers(encoder: &mut Encoder, trailers: &Fields, out: &mut Vec<u8>) {
    write_fields(&mut encoder.block(out), trailers, |_| true);
}

fn authority(head: &RequestHead) -> &[u8] {
    head.fields.get(HeaderId::Host).filter(|host| !host.is_empty()).unwrap_or(head.authority())
}

/// Fields that were removed, or are about a connection of HTTP/1, are not.
fn is_sent(id: HeaderId) -> bool {
    id != HeaderId::Removed && !id.is_of_http1_connection()
}

fn write_fields(block: &mut BlockEncoder<'_>, fields: &Fields, is_wanted: impl Fn(HeaderId) -> bool) {
    for field in &fields.list {
        if is_sent(field.id) && is_wanted(field.id) {
            block.field(field.id, field.name.of(&fields.bytes), field.value.of(&fields.bytes), false);
        }
    }
}
