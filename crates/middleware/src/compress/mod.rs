//! `compress`: whether an answer is compressed, by which coding, and what its head says then. The codecs are in the
//! crate `coding`; bodies go through them in `proxy`. What a client accepts is read in `accept`.

mod accept;

use self::accept::Accepted;
use crate::media_type::TypePatterns;
use tidegate_model::{Coding, Compress, CompressLevel};
use tidegate_wire::head::{HeaderId, Method, RequestHead, ResponseHead};
use tidegate_wire::http1::has_token;

#[derive(Debug)]
pub struct CompiledCompress {
    codings: Box<[Coding]>,
    pub level: CompressLevel,
    bytes_min: u64,
    types: TypePatterns,
    cross_site: bool,
}

impl CompiledCompress {
    pub fn new(compress: &Compress) -> CompiledCompress {
        CompiledCompress {
            codings: compress.codings.clone().into(),
            level: compress.level,
            bytes_min: compress.bytes_min,
            types: TypePatterns::new(&compress.types),
            cross_site: compress.cross_site,
        }
    }

    /// The coding for this answer. An answer that another client would get compressed says so in `Vary`, whatever this
    /// one gets.
    ///
    /// `length` is that of the body, if it is known.
    pub fn choose(&self, request: &RequestHead, response: &mut ResponseHead, length: Option<u64>) -> Option<Coding> {
        if response.status == 304 {
            settle_not_modified(request, response);
        }
        if !self.may_be_coded(response, length) {
            return None;
        }
        add_vary(response);
        if request.method == Method::Head || (!self.cross_site && is_cross_site_with_secrets(request)) {
            return None;
        }
        Accepted::of(request.fields.all(HeaderId::AcceptEncoding)).best(&self.codings)
    }

    fn may_be_coded(&self, response: &ResponseHead, length: Option<u64>) -> bool {
        let fields = &response.fields;
        let has_body = !matches!(response.status, 100..=199 | 204 | 205 | 206 | 304);
        // A part of a representation is one of the bytes that were asked for, and no part of another one.
        let is_whole = fields.all_named(b"content-range").next().is_none();
        let is_plain = fields.all(HeaderId::ContentEncoding).all(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"identity"));
        let is_worth_it = length.is_none_or(|length| length >= self.bytes_min);
        // RFC 9110 section 7.7: neither may a proxy change what is marked so.
        let may_be_changed = !fields.all(HeaderId::CacheControl).any(|value| has_token(value, b"no-transform"));
        has_body && is_whole && is_plain && is_worth_it && may_be_changed && self.types.fit(fields.get(HeaderId::ContentType))
    }
}

/// Makes the head that of the coded representation: its length is not known yet, and its validator is another one.
pub fn settle(response: &mut ResponseHead, coding: Coding) {
    let fields = &mut response.fields;
    fields.remove_id(HeaderId::ContentEncoding);
    fields.push(b"content-encoding", coding.name().as_bytes());
    fields.remove_id(HeaderId::ContentLength);
    // A range is one of the coded bytes, which nobody could make twice; digests are of the bytes before.
    for gone in [&b"accept-ranges"[..], b"content-md5", b"content-digest", b"digest"] {
        fields.remove(gone);
    }
    weaken_etag(response);
}

/// A 304 has the validator and the `Vary` of the answer that it stands for (RFC 9110 section 15.4.5). A client that
/// names the weak validator has a coded one, since nobody else makes a strong one weak.
fn settle_not_modified(request: &RequestHead, response: &mut ResponseHead) {
    let Some(etag) = response.fields.get(HeaderId::ETag).filter(|etag| etag.starts_with(b"\"")) else { return };
    let is_coded = |asked: &[u8]| asked.trim_ascii().strip_prefix(b"W/") == Some(etag);
    let mut asked = request.fields.all_named(b"if-none-match").flat_map(|line| line.split(|byte| *byte == b','));
    if asked.any(is_coded) {
        weaken_etag(response);
        add_vary(response);
    }
}

/// RFC 9110 section 8.8.1: two representations that mean the same have a weak validator in common, never a strong one.
fn weaken_etag(response: &mut ResponseHead) {
    let Some(etag) = response.fields.get(HeaderId::ETag) else { return };
    if etag.starts_with(b"\"") {
        let weak = [b"W/", etag].concat();
        response.fields.set(b"etag", &weak);
    }
}

fn add_vary(response: &mut ResponseHead) {
    let has = |token: &[u8]| response.fields.all(HeaderId::Vary).any(|value| has_token(value, token));
    if !has(b"accept-encoding") && !has(b"*") {
        response.fields.push(b"vary", b"Accept-Encoding");
    }
}

/// BREACH: who can make a browser send requests with text of their own, and sees how long the answers are, reads
/// secrets out of them if they are compressed. Such requests come from another site with the victim's cookies. A link
/// that somebody has clicked cannot be repeated by a script.
fn is_cross_site_with_secrets(request: &RequestHead) -> bool {
    let says = |name: &'static [u8], value: &[u8]| request.fields.all_named(name).any(|found| found == value);
    says(b"sec-fetch-site", b"cross-site")
        && !says(b"sec-fetch-user", b"?1")
        && (request.fields.has(HeaderId::Cookie) || request.fields.has(HeaderId::Authorization))
}

#[cfg(test)]
mod tests;
