//! Heads as field lists. What HTTP/2 forbids (RFC 9113 section 8.2.2) is left out: it was between us and whoever sent
//! the head to us.

use crate::h2::hpack::{Encoder, PseudoHeader};
use crate::head::{Fields, HeaderId, RequestHead, ResponseHead};

/// A request for an upstream. `scheme` is `http` or `https`, `wants_trailers` says whether whoever asks understands
/// them (the one value of `te` that is passed on; gRPC servers insist on it). `scratch` joins path and query.
pub fn write_request(
    encoder: &mut Encoder,
    head: &RequestHead,
    scheme: &str,
    wants_trailers: bool,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let mut block = encoder.block(out);
    block.pseudo(PseudoHeader::Method, head.method_name());
    block.pseudo(PseudoHeader::Scheme, scheme.as_bytes());
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
    for field in &head.fields.list {
        if field.id != HeaderId::Host && !is_left_out(field.id) {
            let (name, value) = (field.name.of(&head.fields.bytes), field.value.of(&head.fields.bytes));
            block.field(field.id, name, value, is_sensitive(field.id));
        }
    }
    if wants_trailers {
        block.field(HeaderId::Te, b"te", b"trailers", false);
    }
}

/// An answer for a client, an interim one included.
pub fn write_response(encoder: &mut Encoder, head: &ResponseHead, out: &mut Vec<u8>) {
    let mut block = encoder.block(out);
    block.status(head.status);
    for field in &head.fields.list {
        if !is_left_out(field.id) {
            let (name, value) = (field.name.of(&head.fields.bytes), field.value.of(&head.fields.bytes));
            block.field(field.id, name, value, is_sensitive(field.id));
        }
    }
}

pub fn write_trailers(encoder: &mut Encoder, trailers: &Fields, out: &mut Vec<u8>) {
    let mut block = encoder.block(out);
    for field in &trailers.list {
        if !is_left_out(field.id) {
            let (name, value) = (field.name.of(&trailers.bytes), field.value.of(&trailers.bytes));
            block.field(field.id, name, value, is_sensitive(field.id));
        }
    }
}

fn is_left_out(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::Removed
            | HeaderId::Connection
            | HeaderId::KeepAlive
            | HeaderId::ProxyConnection
            | HeaderId::TransferEncoding
            | HeaderId::Upgrade
            | HeaderId::Te
            | HeaderId::Http2Settings
    )
}

/// RFC 7541 section 7.1.3: one connection carries the requests of many, and what compresses well tells what it is
/// like.
fn is_sensitive(id: HeaderId) -> bool {
    matches!(id, HeaderId::Authorization | HeaderId::ProxyAuthorization | HeaderId::Cookie | HeaderId::SetCookie)
}
