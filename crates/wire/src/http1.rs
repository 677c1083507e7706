//! HTTP/1 heads, strictly (RFC 9112): what two parsers could read in two ways is refused, because that is how requests
//! are smuggled. One pass over the input, one copy of the head. Targets are in `target`, framing and connection fields
//! in `framing`, bodies in `body`.

mod fields;
mod framing;
mod target;

pub use framing::{
    BodyFraming, asked_switch, content_length, expects_continue, has_token, keep_alive_request, keep_alive_response,
    keep_alive_timeout_seconds, request_framing, response_framing, state_length_once, switched_protocol, upgrade_protocol,
};
pub use target::{append_origin_form, origin_form_at};

pub(crate) use fields::parse_fields;

use crate::authority::{Authority, parse_authority};
use crate::error::HeadError;
use crate::head::{HeaderId, Method, RequestHead, ResponseHead, Span, Version};
use crate::limits::HeadLimits;
use crate::refused::keep_known_of_http1;
use crate::scan::{token_end, value_end};
use target::{Target, parse_target};

/// Whether a head is there as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    Partial,
    /// The head took `consumed` bytes of the input, the empty line included.
    Complete {
        consumed: usize,
    },
}

/// Why parsing stopped before the end of the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    NeedMore,
    Refused(HeadError),
}

impl From<HeadError> for Stop {
    fn from(error: HeadError) -> Stop {
        Stop::Refused(error)
    }
}

/// Reads a request head from the start of `input` into `head`, which is cleared first.
///
/// On `Complete` the head's bytes begin with a copy of `input[..consumed]`, into which all spans point; a normalised
/// path is appended. On `Partial` `head` holds nothing of use, on errors what could be read, for the log. What is wrong
/// is said as soon as it is in the input. One empty line before the request line is skipped (RFC 9112 section 2.2).
pub fn parse_request(input: &[u8], limits: &HeadLimits, head: &mut RequestHead) -> Result<Parsed, HeadError> {
    head.clear();
    let parsed = answer(request(input, limits, head));
    if parsed.is_err() {
        keep_known_of_http1(input, limits, head);
    }
    parsed
}

/// As [`parse_request`], for an upstream's answer. The reason phrase may be missing, with or without the space before
/// it.
pub fn parse_response(input: &[u8], limits: &HeadLimits, head: &mut ResponseHead) -> Result<Parsed, HeadError> {
    head.clear();
    answer(response(input, limits, head))
}

/// The position behind the first empty line that ends at or after `from`, whether its lines end in CR LF or only in LF.
///
/// A connection parses the first bytes at once, so that garbage is refused early; when the head is `Partial`, it looks
/// with this at each further read from where it stopped, and parses again when the end is there. A head that comes byte
/// by byte so costs time linear in its length.
pub fn find_head_end(input: &[u8], from: usize) -> Option<usize> {
    // The line end before the empty line may be up to two bytes back.
    let mut at = from.saturating_sub(2);
    while let Some(distance) = memchr::memchr(b'\n', input.get(at..)?) {
        let next = at + distance + 1;
        match input.get(next..)? {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => at = next,
        }
    }
    None
}

fn answer(result: Result<usize, Stop>) -> Result<Parsed, HeadError> {
    match result {
        Ok(consumed) => Ok(Parsed::Complete { consumed }),
        Err(Stop::NeedMore) => Ok(Parsed::Partial),
        Err(Stop::Refused(error)) => Err(error),
    }
}

fn request(input: &[u8], limits: &HeadLimits, head: &mut RequestHead) -> Result<usize, Stop> {
    let window = &input[..input.len().min(limits.head_bytes_max)];
    let start = leading_empty_line(window)?;
    let line_window_max = start.saturating_add(limits.request_line_bytes_max).saturating_add("\r\n".len());
    let line_window = &window[..window.len().min(line_window_max)];
    let line = match request_line(line_window, start) {
        Err(Stop::NeedMore) if line_window.len() == line_window_max => return Err(HeadError::RequestLineTooLong.into()),
        Err(Stop::NeedMore) => return Err(need_more(window, limits)),
        other => other?,
    };
    head.version = line.version;
    head.method = line.method;
    head.method_name = line.method_name;
    let consumed = match parse_fields(window, line.end, limits.fields_max, &mut head.fields) {
        Err(Stop::NeedMore) => return Err(need_more(window, limits)),
        other => other?,
    };
    head.fields.bytes.extend_from_slice(&input[..consumed]);
    line.target.apply(input, head)?;
    settle_authority(input, &line.target, head)?;
    head.fields.at_most_one(HeaderId::Authorization, HeadError::AuthorizationRepeated)?;
    Ok(consumed)
}

fn response(input: &[u8], limits: &HeadLimits, head: &mut ResponseHead) -> Result<usize, Stop> {
    let window = &input[..input.len().min(limits.head_bytes_max)];
    let parsed = status_line(window, head).and_then(|end| parse_fields(window, end, limits.fields_max, &mut head.fields));
    let consumed = match parsed {
        Err(Stop::NeedMore) => return Err(need_more(window, limits)),
        other => other?,
    };
    head.fields.bytes.extend_from_slice(&input[..consumed]);
    Ok(consumed)
}

/// A window as long as the limit without an end in it cannot become a head any more.
fn need_more(window: &[u8], limits: &HeadLimits) -> Stop {
    if window.len() >= limits.head_bytes_max { HeadError::HeadTooLarge.into() } else { Stop::NeedMore }
}

fn leading_empty_line(window: &[u8]) -> Result<usize, Stop> {
    match window {
        [b'\r', b'\n', ..] => Ok(2),
        [b'\r'] => Err(Stop::NeedMore),
        [b'\r', ..] => Err(HeadError::BadMethod.into()),
        _ => Ok(0),
    }
}

struct RequestLine {
    method: Method,
    method_name: Span,
    target: Target,
    version: Version,
    /// Where the field lines start.
    end: usize,
}

fn request_line(window: &[u8], start: usize) -> Result<RequestLine, Stop> {
    let method_end = token_end(window, start);
    match window.get(method_end) {
        None => return Err(Stop::NeedMore),
        Some(b' ') if method_end > start => {}
        Some(b'\n') => return Err(HeadError::BareLf.into()),
        Some(_) => return Err(HeadError::BadMethod.into()),
    }
    let method = Method::of(&window[start..method_end]);
    let target = parse_target(window, method_end + 1, method)?;
    let (version, version_end) = version(window, target.end + 1)?;
    let end = line_end(window, version_end, HeadError::BadVersion)?;
    Ok(RequestLine { method, method_name: Span::new(start, method_end), target, version, end })
}

/// `HTTP/1.1` or `HTTP/1.0` at `at`, and the position behind it.
#[inline]
fn version(window: &[u8], at: usize) -> Result<(Version, usize), Stop> {
    let rest = window.get(at..).unwrap_or_default();
    if rest.starts_with(b"HTTP/1.1") {
        return Ok((Version::Http11, at + 8));
    }
    let form = *b"HTTP/0.0";
    for (place, expected) in form.into_iter().enumerate() {
        match rest.get(place) {
            None => return Err(Stop::NeedMore),
            Some(byte) if *byte == expected || (expected == b'0' && byte.is_ascii_digit()) => {}
            Some(b'\n') => return Err(HeadError::BareLf.into()),
            Some(_) => return Err(HeadError::BadVersion.into()),
        }
    }
    match &rest[5..8] {
        b"1.0" => Ok((Version::Http10, at + 8)),
        _ => Err(HeadError::UnsupportedVersion.into()),
    }
}

/// The position behind the CR LF at `at`.
#[inline]
fn line_end(window: &[u8], at: usize, otherwise: HeadError) -> Result<usize, Stop> {
    match window.get(at..).unwrap_or_default() {
        [b'\r', b'\n', ..] => Ok(at + 2),
        [] | [b'\r'] => Err(Stop::NeedMore),
        [b'\n', ..] => Err(HeadError::BareLf.into()),
        _ => Err(otherwise.into()),
    }
}

/// `HTTP/1.1 200[ reason]`; says where the field lines start.
fn status_line(window: &[u8], head: &mut ResponseHead) -> Result<usize, Stop> {
    let (version, at) = version(window, 0)?;
    let mut status = 0;
    for place in at..at + 4 {
        match window.get(place) {
            None => return Err(Stop::NeedMore),
            Some(b' ') if place == at => {}
            Some(digit @ b'0'..=b'9') if place > at => status = status * 10 + u16::from(digit - b'0'),
            Some(b'\n') => return Err(HeadError::BareLf.into()),
            Some(_) if place == at => return Err(HeadError::BadVersion.into()),
            Some(_) => return Err(HeadError::BadStatus.into()),
        }
    }
    if status < 100 {
        return Err(HeadError::BadStatus.into());
    }
    let mut reason_start = at + 4;
    match window.get(reason_start) {
        Some(b' ') => reason_start += 1,
        None | Some(b'\r' | b'\n') => {}
        Some(_) => return Err(HeadError::BadStatus.into()),
    }
    let reason_end = value_end(window, reason_start);
    head.version = version;
    head.status = status;
    head.reason = Span::new(reason_start, reason_end);
    line_end(window, reason_end, HeadError::BadFieldValue)
}

/// Checks the host of the target against the `Host` field, and says which of them the request is for.
fn settle_authority(input: &[u8], target: &Target, head: &mut RequestHead) -> Result<(), HeadError> {
    let mut host_span = None;
    if head.fields.has(HeaderId::Host) {
        for field in &head.fields.list {
            if field.id == HeaderId::Host && host_span.replace(field.value).is_some() {
                return Err(HeadError::HostRepeated);
            }
        }
    }
    let host = match host_span {
        Some(span) => Some(parse_authority(span.of(input))?),
        None if head.version == Version::Http11 => return Err(HeadError::HostMissing),
        None => None,
    };
    let Some((span, default_port)) = target.authority else {
        if let Some((span, host)) = host_span.zip(host.as_ref()) {
            head.set_authority(span, host);
        }
        return Ok(());
    };
    let named = parse_authority(span.of(input))?;
    head.set_authority(span, &named);
    let Some(host) = host else { return Ok(()) };
    let agrees = match default_port {
        Some(port) => named.is_same(&host, port),
        // Of CONNECT: the target always has a port, `Host` need not repeat it.
        None => agrees_with_connect_target(&named, &host),
    };
    if agrees { Ok(()) } else { Err(HeadError::TargetDisagreesWithHost) }
}

fn agrees_with_connect_target(named: &Authority<'_>, host: &Authority<'_>) -> bool {
    named.host.eq_ignore_ascii_case(host.host) && (host.port.is_none() || host.port == named.port)
}

#[cfg(test)]
mod tests;
