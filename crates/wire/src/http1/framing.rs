//! How a body is delimited (RFC 9112 section 6) and what the connection fields say about the connection.
//! Every doubt is a refusal: a length that two programs read differently is how requests are smuggled.

use crate::error::HeadError;
use crate::head::{Fields, HeaderId, Method, RequestHead, ResponseHead, Span, Version};
use crate::scan::token_end;
use crate::websocket;

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body, and no field that speaks of one counts.
    None,
    /// `Length(0)` is a body too: its field is sent on.
    Length(u64),
    Chunked,
    /// Of answers only: everything up to the end of the connection.
    UntilClose,
}

impl BodyFraming {
    /// How long the body is, where that is said before it comes.
    pub fn declared_length(self) -> Option<u64> {
        match self {
            BodyFraming::None => Some(0),
            BodyFraming::Length(length) => Some(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => None,
        }
    }
}

/// How the request's body is framed. Several `Content-Length` values that agree are one, as of answers.
///
/// An error is answered, and the connection is closed.
pub fn request_framing(head: &RequestHead) -> Result<BodyFraming, HeadError> {
    let fields = &head.fields;
    let framing = match (fields.has(HeaderId::ContentLength), fields.has(HeaderId::TransferEncoding)) {
        (false, false) => return Ok(BodyFraming::None),
        (true, true) => return Err(HeadError::LengthAndTransferEncoding),
        (true, false) => BodyFraming::Length(content_length(fields)?),
        (false, true) => {
            check_chunked(fields, head.version)?;
            BodyFraming::Chunked
        }
    };
    match (head.method, framing) {
        (Method::Trace | Method::Connect, BodyFraming::Length(0)) => Ok(BodyFraming::None),
        (Method::Trace | Method::Connect, _) => Err(HeadError::BodyNotAllowed),
        (_, framing) => Ok(framing),
    }
}

/// How the answer's body is framed, which depends on the method that was asked with. An error makes it a 502.
///
/// Several `Content-Length` values that agree are accepted, as real upstreams send them; one is sent on. An answer that
/// has no body is held to the same rules: one whose length cannot be read here may have a body to somebody else.
pub fn response_framing(head: &ResponseHead, request_method: Method) -> Result<BodyFraming, HeadError> {
    let fields = &head.fields;
    let stated = match (fields.has(HeaderId::ContentLength), fields.has(HeaderId::TransferEncoding)) {
        // A switch ends HTTP on its connection: no message has a body there (RFC 9110 sections 8.6 and 15.2).
        (true, _) if head.status == 101 => return Err(HeadError::BadContentLength),
        (_, true) if head.status == 101 => return Err(HeadError::BadTransferEncoding),
        (false, false) => BodyFraming::UntilClose,
        (true, true) => return Err(HeadError::LengthAndTransferEncoding),
        (true, false) => BodyFraming::Length(content_length(fields)?),
        (false, true) => {
            check_chunked(fields, head.version)?;
            BodyFraming::Chunked
        }
    };
    let is_tunnel = request_method == Method::Connect && (200..300).contains(&head.status);
    let has_none = request_method == Method::Head || matches!(head.status, 100..=199 | 204 | 304) || is_tunnel;
    Ok(if has_none { BodyFraming::None } else { stated })
}

/// The protocol that an answer 101 switches to: over HTTP/1.1, with `Connection: upgrade` and one `Upgrade` (RFC 9110
/// section 7.8). Without all of these another reader goes on reading HTTP where we would open a tunnel.
pub fn switched_protocol(head: &ResponseHead) -> Option<&[u8]> {
    switch_of(head.version, &head.fields)
}

/// Whether the client means to send another request on this connection.
pub fn keep_alive_request(head: &RequestHead) -> bool {
    keep_alive(head.version, &head.fields)
}

/// Whether the upstream lets its connection be used again.
pub fn keep_alive_response(head: &ResponseHead) -> bool {
    keep_alive(head.version, &head.fields)
}

/// Whether a comma-separated list has this token, without case.
pub fn has_token(value: &[u8], token: &[u8]) -> bool {
    // Nearly every `Connection` is a single token.
    value.eq_ignore_ascii_case(token)
        || value.split(|byte| *byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

/// The protocol that an HTTP/1.1 client asks to switch to, as [`asked_switch`] chooses it.
pub fn upgrade_protocol(head: &RequestHead) -> Option<&[u8]> {
    asked_switch(head).map(|protocol| protocol.of(&head.fields.bytes))
}

/// Where the protocol stands that a client asks to switch to (`Connection: upgrade`), if that is one that is passed on.
/// Of several in a list, or in several fields, one is chosen here, so that nobody behind chooses another one: a
/// WebSocket, which is known here, or else the one that the client likes best (RFC 9110 section 7.8).
pub fn asked_switch(head: &RequestHead) -> Option<Span> {
    if head.version != Version::Http11 || !any_has_token(&head.fields, HeaderId::Connection, b"upgrade") {
        return None;
    }
    let (bytes, mut chosen) = (&head.fields.bytes, None);
    let fields = head.fields.list.iter().filter(|field| field.id == HeaderId::Upgrade);
    for protocol in fields.flat_map(|field| elements(field.value, bytes)) {
        let name = protocol.of(bytes);
        if name.eq_ignore_ascii_case(websocket::PROTOCOL) {
            return Some(protocol);
        }
        if chosen.is_none() && is_protocol(name) && !is_http_or_tls(name) {
            chosen = Some(protocol);
        }
    }
    chosen
}

/// The elements of a list, without the space around them.
fn elements(list: Span, bytes: &[u8]) -> impl Iterator<Item = Span> {
    let (text, mut start) = (list.of(bytes), list.start as usize);
    text.split(|byte| *byte == b',').map(move |element| {
        let begin = start + (element.len() - element.trim_ascii_start().len());
        start += element.len() + 1;
        Span::new(begin, begin + element.trim_ascii().len())
    })
}

/// `name`, or `name/version` (RFC 9110 section 7.8).
fn is_protocol(text: &[u8]) -> bool {
    let is_token = |part: &[u8]| !part.is_empty() && token_end(part, 0) == part.len();
    text.splitn(2, |byte| *byte == b'/').all(is_token)
}

/// A switch to another version of HTTP or to TLS would carry requests past every route and step (h2c smuggling).
fn is_http_or_tls(protocol: &[u8]) -> bool {
    let starts = |prefix: &[u8]| protocol.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    starts(b"h2") || starts(b"http/") || starts(b"tls/")
}

fn switch_of(version: Version, fields: &Fields) -> Option<&[u8]> {
    if version != Version::Http11 || !any_has_token(fields, HeaderId::Connection, b"upgrade") {
        return None;
    }
    let mut protocols = fields.all(HeaderId::Upgrade);
    let first = protocols.next()?;
    (protocols.next().is_none() && !first.is_empty()).then_some(first)
}

/// Whether the client waits for a 100 before it sends the body. HTTP/1.0 clients never do (RFC 9110 section 10.1.1).
pub fn expects_continue(head: &RequestHead) -> bool {
    head.version != Version::Http10 && any_has_token(&head.fields, HeaderId::Expect, b"100-continue")
}

/// `Keep-Alive: timeout=N`: how long the upstream keeps an idle connection, in seconds.
pub fn keep_alive_timeout_seconds(head: &ResponseHead) -> Option<u64> {
    for value in head.fields.all(HeaderId::KeepAlive) {
        for item in value.split(|byte| *byte == b',') {
            let mut halves = item.splitn(2, |byte| *byte == b'=');
            let name = halves.next().unwrap_or_default().trim_ascii();
            if name.eq_ignore_ascii_case(b"timeout") {
                return halves.next().and_then(|seconds| decimal(seconds.trim_ascii()));
            }
        }
    }
    None
}

fn keep_alive(version: Version, fields: &Fields) -> bool {
    match version {
        Version::Http2 => true,
        Version::Http11 => !any_has_token(fields, HeaderId::Connection, b"close"),
        Version::Http10 => {
            any_has_token(fields, HeaderId::Connection, b"keep-alive") && !any_has_token(fields, HeaderId::Connection, b"close")
        }
    }
}

fn any_has_token(fields: &Fields, id: HeaderId, token: &[u8]) -> bool {
    fields.has(id) && fields.all(id).any(|value| has_token(value, token))
}

/// The value that all `Content-Length` fields of a message and all items in them agree on (RFC 9110 section 8.6), over
/// whatever version and from whomever. It is sent on once: see [`state_length_once`].
pub fn content_length(fields: &Fields) -> Result<u64, HeadError> {
    let mut agreed = None;
    for value in fields.all(HeaderId::ContentLength) {
        // Nearly every value is one number; a list of them is looked at beside the usual way.
        let length = match decimal(value) {
            Some(length) => length,
            None => length_of_list(value)?,
        };
        agree(&mut agreed, length)?;
    }
    agreed.ok_or(HeadError::BadContentLength)
}

#[cold]
fn length_of_list(value: &[u8]) -> Result<u64, HeadError> {
    let mut agreed = None;
    for item in value.split(|byte| *byte == b',') {
        agree(&mut agreed, decimal(item.trim_ascii()).ok_or(HeadError::BadContentLength)?)?;
    }
    agreed.ok_or(HeadError::BadContentLength)
}

fn agree(agreed: &mut Option<u64>, length: u64) -> Result<(), HeadError> {
    match agreed.replace(length) {
        Some(before) if before != length => Err(HeadError::ContentLengthDisagrees),
        Some(_) | None => Ok(()),
    }
}

/// Leaves one `Content-Length` with that value, in its plain form: nobody behind us has to make something of several.
pub fn state_length_once(fields: &mut Fields, length: u64) {
    let mut digits = itoa::Buffer::new();
    let text = digits.format(length).as_bytes();
    if !fields.all(HeaderId::ContentLength).eq([text]) {
        fields.remove_id(HeaderId::ContentLength);
        fields.push_id(HeaderId::ContentLength, text);
    }
}

/// A number of one to 18 digits and nothing else; more would not fit into what some programs count with.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    let mut number = 0;
    for digit in text {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    Some(number)
}

/// `chunked`, once, and nothing else: no other coding is offered, so none is understood.
///
/// One that is named in front of it, or alone, is unknown (501, RFC 9112 section 6.1); behind it, or where the list is
/// malformed, nobody knows where the body ends. In every case the connection does.
fn check_chunked(fields: &Fields, version: Version) -> Result<(), HeadError> {
    if version == Version::Http10 {
        return Err(HeadError::TransferEncodingInHttp10);
    }
    let mut values = fields.all(HeaderId::TransferEncoding);
    if let (Some(value), None) = (values.next(), values.next())
        && value.eq_ignore_ascii_case(b"chunked")
    {
        return Ok(());
    }
    let mut is_chunked = false;
    for item in fields.all(HeaderId::TransferEncoding).flat_map(|value| value.split(|byte| *byte == b',')) {
        let coding = trimmed(item);
        let is_name = !coding.is_empty() && token_end(coding, 0) == coding.len();
        if is_chunked || !is_name {
            return Err(HeadError::BadTransferEncoding);
        }
        is_chunked = coding.eq_ignore_ascii_case(b"chunked");
    }
    Err(HeadError::UnknownTransferCoding)
}

/// Without blanks (RFC 9110 section 5.6.3), and nothing else: a form feed is no white space here.
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod switch_tests {
    use super::is_http_or_tls;

    #[test]
    fn a_switch_to_http_or_tls_is_none() {
        for protocol in ["h2c", "H2", "HTTP/2.0", "TLS/1.2"] {
            assert!(is_http_or_tls(protocol.as_bytes()), "{protocol}");
        }
        for protocol in ["websocket", "WebSocket", "tcp", "SPDY/3.1"] {
            assert!(!is_http_or_tls(protocol.as_bytes()), "{protocol}");
        }
    }
}
