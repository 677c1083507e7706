//! The three kinds of field lists that are read: a request's head, an answer's head, and the trailers of either.

use super::collector::{FieldCollector, PseudoValues};
use crate::authority::parse_authority;
use crate::chunked::drop_unsafe_trailers;
use crate::error::HeadError;
use crate::h2::hpack::{CompressionError, Decoder, HeaderList, PseudoHeader};
use crate::head::{Fields, HeaderId, Method, RequestHead, ResponseHead, Span, Version};
use crate::http1::{BodyFraming, content_length, origin_form_at, state_length_once};
use crate::limits::HeadLimits;
use crate::refused::KnownParts;
use crate::scan::token_end;
use crate::status::reason_phrase;

const OF_REQUESTS: &[PseudoHeader] =
    &[PseudoHeader::Method, PseudoHeader::Scheme, PseudoHeader::Authority, PseudoHeader::Path, PseudoHeader::Protocol];
const OF_RESPONSES: &[PseudoHeader] = &[PseudoHeader::Status];

/// What a request's head says beside what stands in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmittedRequest {
    pub framing: BodyFraming,
    /// What an extended CONNECT asks to speak (RFC 8441); its bytes are in the head.
    pub protocol: Option<Span>,
}

/// Reads a header block as a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestReader<'l> {
    pub limits: &'l HeadLimits,
    /// Whether our settings offer CONNECT with a `:protocol` (RFC 8441 section 3).
    pub takes_protocol: bool,
}

/// Outcome of a block: the outer error ends the connection, the inner one the stream.
type Read<T> = Result<Result<T, HeadError>, CompressionError>;

impl RequestReader<'_> {
    /// `ends_stream`: the block came with END_STREAM, there is no content. `head` is cleared first; of a refused
    /// request it has what had been read, for the log.
    pub fn read(&self, decoder: &mut Decoder, block: &[u8], ends_stream: bool, head: &mut RequestHead) -> Read<AdmittedRequest> {
        head.clear();
        head.version = Version::Http2;
        let mut collector = FieldCollector::new(&mut head.fields, OF_REQUESTS, self.limits);
        let is_over_bound = decoder.decode(block, &mut collector)? == HeaderList::OverBound;
        let (settled, pseudo) = match collector.finish(is_over_bound) {
            Ok((_, pseudo)) => (self.settle(&pseudo, ends_stream, head), pseudo),
            Err((fault, pseudo)) => (Err(fault), pseudo),
        };
        if settled.is_err() {
            known(&pseudo, head).fill(head);
        }
        Ok(settled)
    }

    fn settle(&self, pseudo: &PseudoValues, ends_stream: bool, head: &mut RequestHead) -> Result<AdmittedRequest, HeadError> {
        let method = pseudo.of(PseudoHeader::Method).ok_or(HeadError::PseudoHeader)?;
        let name = method.of(&head.fields.bytes);
        if name.is_empty() || token_end(name, 0) != name.len() {
            return Err(HeadError::BadMethod);
        }
        (head.method, head.method_name) = (Method::of(name), method);
        let protocol = pseudo.of(PseudoHeader::Protocol);
        let (scheme, path) = (pseudo.of(PseudoHeader::Scheme), pseudo.of(PseudoHeader::Path));
        if head.method == Method::Connect && protocol.is_none() {
            // RFC 9113 section 8.5: a tunnel has neither scheme nor path.
            if scheme.is_some() || path.is_some() || pseudo.of(PseudoHeader::Authority).is_none() {
                return Err(HeadError::PseudoHeader);
            }
        } else {
            // RFC 8441 section 4: the protocol is one of an extended CONNECT that was offered.
            match (protocol, head.method) {
                (Some(_), Method::Connect) if !self.takes_protocol => return Err(HeadError::ProtocolNotOffered),
                (None, _) | (Some(_), Method::Connect) => {}
                (Some(_), _) => return Err(HeadError::PseudoHeader),
            }
            let (Some(scheme), Some(path)) = (scheme, path) else { return Err(HeadError::PseudoHeader) };
            // RFC 9113 section 8.3.1.
            if path.len == 0 {
                return Err(HeadError::PseudoHeader);
            }
            check_scheme(scheme.of(&head.fields.bytes))?;
            self.settle_target(path, head)?;
        }
        settle_authority(pseudo.of(PseudoHeader::Authority), head)?;
        head.fields.at_most_one(HeaderId::Authorization, HeadError::AuthorizationRepeated)?;
        Ok(AdmittedRequest { framing: framing(head, protocol.is_some(), ends_stream)?, protocol })
    }

    fn settle_target(&self, path: Span, head: &mut RequestHead) -> Result<(), HeadError> {
        if path.len as usize > self.limits.request_line_bytes_max {
            return Err(HeadError::RequestLineTooLong);
        }
        if head.method == Method::Options && path.of(&head.fields.bytes) == b"*" {
            head.path = path;
            return Ok(());
        }
        origin_form_at(head, path)
    }
}

#[cold]
fn known(pseudo: &PseudoValues, head: &RequestHead) -> KnownParts {
    let host = || head.fields.list.iter().find(|field| field.id == HeaderId::Host).map(|field| field.value);
    KnownParts {
        method: pseudo.of(PseudoHeader::Method),
        target: pseudo.of(PseudoHeader::Path),
        host: pseudo.of(PseudoHeader::Authority).or_else(host),
        has_protocol: pseudo.of(PseudoHeader::Protocol).is_some(),
    }
}

/// A proxy is asked for its own two schemes; another one would be for a gateway to something else.
fn check_scheme(scheme: &[u8]) -> Result<(), HeadError> {
    let is_http = scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"http");
    if is_http { Ok(()) } else { Err(HeadError::BadTarget) }
}

/// `:authority` is the host; a `Host` field beside it must agree (RFC 9113 section 8.3.1), and is what HTTP/1.1
/// upstreams get.
fn settle_authority(authority: Option<Span>, head: &mut RequestHead) -> Result<(), HeadError> {
    let mut hosts = head.fields.list.iter().filter(|field| field.id == HeaderId::Host);
    let (host, another) = (hosts.next().map(|field| field.value), hosts.next());
    if another.is_some() {
        return Err(HeadError::HostRepeated);
    }
    let bytes = &head.fields.bytes;
    let span = authority.or(host).ok_or(HeadError::HostMissing)?;
    let parsed = parse_authority(span.of(bytes))?;
    if let (Some(_), Some(host)) = (authority, host) {
        let named = parse_authority(host.of(bytes))?;
        if !named.is_same(&parsed, 443) && !named.is_same(&parsed, 80) {
            return Err(HeadError::TargetDisagreesWithHost);
        }
    }
    let (host_start, host_bytes) = (span.start + u32::from(parsed.is_ipv6), parsed.host.len() as u32);
    (head.authority, head.host) = (span, Span { start: host_start, len: host_bytes });
    if host.is_none() {
        head.fields.push_copy(HeaderId::Host, span);
    }
    Ok(())
}

/// How the content is framed towards others. The length is sent on written in one way.
fn framing(head: &mut RequestHead, is_tunnel: bool, ends_stream: bool) -> Result<BodyFraming, HeadError> {
    let declared = if head.fields.has(HeaderId::ContentLength) { Some(content_length(&head.fields)?) } else { None };
    if let Some(length) = declared {
        state_length_once(&mut head.fields, length);
    }
    // Bytes behind an extended CONNECT are the protocol's (RFC 8441 section 5): there is no content with a length.
    if is_tunnel {
        return if declared.is_some() { Err(HeadError::BodyNotAllowed) } else { Ok(BodyFraming::None) };
    }
    // RFC 9110 sections 9.3.6 and 9.3.8.
    let is_without_content = matches!(head.method, Method::Trace | Method::Connect);
    if is_without_content && (!ends_stream && head.method == Method::Trace || declared.is_some_and(|length| length > 0)) {
        return Err(HeadError::BodyNotAllowed);
    }
    match (ends_stream, declared) {
        (true, None | Some(0)) if is_without_content => Ok(BodyFraming::None),
        (true, None) => Ok(BodyFraming::None),
        (true, Some(0)) => Ok(BodyFraming::Length(0)),
        // RFC 9113 section 8.1.1: a length that is not that of the content is malformed.
        (true, Some(_)) => Err(HeadError::BadContentLength),
        (false, Some(length)) => Ok(BodyFraming::Length(length)),
        (false, None) => Ok(BodyFraming::Chunked),
    }
}

/// Reads a header block as an answer, an interim one included.
#[derive(Debug, Clone, Copy)]
pub struct ResponseReader<'l> {
    pub limits: &'l HeadLimits,
}

impl ResponseReader<'_> {
    /// `head` is cleared first.
    pub fn read(&self, decoder: &mut Decoder, block: &[u8], head: &mut ResponseHead) -> Read<()> {
        head.clear();
        head.version = Version::Http2;
        let mut collector = FieldCollector::new(&mut head.fields, OF_RESPONSES, self.limits);
        let is_over_bound = decoder.decode(block, &mut collector)? == HeaderList::OverBound;
        let pseudo = match collector.finish(is_over_bound) {
            Ok((_, pseudo)) => pseudo,
            Err((fault, _)) => return Ok(Err(fault)),
        };
        let Some(status) = pseudo.of(PseudoHeader::Status) else { return Ok(Err(HeadError::PseudoHeader)) };
        Ok(match *status.of(&head.fields.bytes) {
            [hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
                let digit = |byte: u8| u16::from(byte - b'0');
                head.status = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
                head.reason = head.fields.append(&[reason_phrase(head.status).as_bytes()]);
                // RFC 9113 section 8.6: HTTP/2 does not switch protocols.
                if head.status == 101 { Err(HeadError::BadStatus) } else { Ok(()) }
            }
            _ => Err(HeadError::BadStatus),
        })
    }
}

/// Reads a header block as the trailers of a message.
#[derive(Debug, Clone, Copy)]
pub struct TrailersReader<'l> {
    pub limits: &'l HeadLimits,
}

impl TrailersReader<'_> {
    /// Fields that may not come behind a body are left out, as behind a chunked one.
    pub fn read(&self, decoder: &mut Decoder, block: &[u8], trailers: &mut Fields) -> Read<()> {
        trailers.clear();
        // RFC 9113 section 8.1: there are no pseudo-header fields in trailers.
        let mut collector = FieldCollector::new(trailers, &[], self.limits);
        let is_over_bound = decoder.decode(block, &mut collector)? == HeaderList::OverBound;
        let finished = collector.finish(is_over_bound).map_err(|(fault, _)| fault);
        Ok(finished.map(|(trailers, _)| drop_unsafe_trailers(trailers)))
    }
}

/// Whether a message broke a rule of HTTP/2, by its head or its trailers. What HTTP/1.1 refuses as well is answered and
/// no more: clients do not show an answer whose stream was reset behind it.
pub fn is_malformed(fault: HeadError) -> bool {
    matches!(
        fault,
        HeadError::PseudoHeader
            | HeadError::ProtocolNotOffered
            | HeadError::ConnectionField
            | HeadError::BadFieldName
            | HeadError::BadFieldValue
    )
}
