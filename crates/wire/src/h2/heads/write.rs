//! Heads as field lists. What HTTP/2 forbids (RFC 9113 section 8.2.2) is left out: it was between us and whoever sent
//! the head to us. Which fields are kept from tables is known by the encoder.

use crate::h2::hpack::{BlockEncoder, Encoder, PseudoHeader};
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
    let host = head.fields.get(HeaderId::Host).filter(|host| !host.is_empty()).unwrap_or(head.authority());
    block.pseudo(PseudoHeader::Authority, host);
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

/// An answer for a client, an interim one included.
pub fn write_response(encoder: &mut Encoder, head: &ResponseHead, out: &mut Vec<u8>) {
    let mut block = encoder.block(out);
    block.status(head.status);
    write_fields(&mut block, &head.fields, |_| true);
}

pub fn write_trailers(encoder: &mut Encoder, trailers: &Fields, out: &mut Vec<u8>) {
    write_fields(&mut encoder.block(out), trailers, |_| true);
}

fn write_fields(block: &mut BlockEncoder<'_>, fields: &Fields, is_wanted: impl Fn(HeaderId) -> bool) {
    for field in &fields.list {
        if field.id != HeaderId::Removed && !field.id.is_of_http1_connection() && is_wanted(field.id) {
            block.field(field.id, field.name.of(&fields.bytes), field.value.of(&fields.bytes), false);
        }
    }
}
