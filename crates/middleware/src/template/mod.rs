//! Text with placeholders, compiled and rendered. Where the text goes decides what is done to the bytes a client could
//! have chosen: nothing that a placeholder brings may end a header, leave a path or break out of a quoted string.

use crate::context::{Context, View};
use regex::bytes::Captures;
use std::io::Write;
use std::net::IpAddr;
use tidegate_model::{LogField, PathExpressions, Placeholder, Template, TemplatePart};
use tidegate_routing::{client_certificate_text, cookie_value, host_of, parameter_value};
use tidegate_tables::Value;
use tidegate_wire::head::HeaderId;
use tidegate_wire::reason_phrase;

#[cfg(test)]
mod tests;

/// What the rendered text will be part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Plain text, a hash key: bytes as they are.
    Text,
    /// `& < > " '` of placeholders become entities: a path or header shown in a page must not become script in it.
    Html,
    /// Quotes, backslashes and control characters of placeholders are escaped as in a JSON string.
    Json,
    /// Control bytes become spaces (RFC 9110 section 5.5). A line break would start a header of the client's choice:
    /// response splitting.
    HeaderValue,
    /// Bytes that RFC 3986 does not allow anywhere in a URI are percent-encoded, and what a client may choose freely is
    /// one piece of it, as in [`RequestTarget`](Self::RequestTarget).
    Url,
    /// As the path and query of a request: white space, control bytes, `#` and all above ASCII are percent-encoded; so
    /// is `?`, except as written in the template and from `{uri}` and `{query}`. `{path}` and `{uri}` are whole paths;
    /// a header, a cookie or a name is one piece, in which everything is encoded that could end it, so that no client
    /// walks out of a path by it, starts the query or adds to it.
    RequestTarget,
    /// One piece of a URL: everything but letters, digits and a few marks is percent-encoded, `%` too, so that a server
    /// reads the very text that was sent. Colons and brackets stay, which a host may have (`{request.header.Host}`) and
    /// which end nothing.
    UrlPiece,
}

impl Target {
    /// The target of a body of this media type: in HTML, XML and JSON what placeholders bring is escaped.
    pub fn of_content_type(content_type: &str) -> Target {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "text/html" | "text/xml" | "application/xml" => Target::Html,
            "application/json" | "text/json" => Target::Json,
            kind if kind.ends_with("+xml") => Target::Html,
            kind if kind.ends_with("+json") => Target::Json,
            _ => Target::Text,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct CompiledTemplate {
    /// No two literals stand side by side.
    parts: Box<[Part]>,
    target: Target,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Already encoded for the target.
    Literal(Box<[u8]>),
    Placeholder(Placeholder),
    Capture(usize),
}

impl CompiledTemplate {
    pub fn new(template: &Template, target: Target) -> CompiledTemplate {
        let mut parts = Vec::with_capacity(template.parts.len());
        let mut literal = Vec::new();
        for part in &template.parts {
            let dynamic = match part {
                TemplatePart::Literal(text) => {
                    encode_literal(target, text.as_bytes(), &mut literal);
                    continue;
                }
                TemplatePart::Placeholder(placeholder) => Part::Placeholder(placeholder.clone()),
                TemplatePart::Capture(number) => Part::Capture(*number),
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal).into()));
            }
            parts.push(dynamic);
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        CompiledTemplate { parts: parts.into(), target }
    }

    /// The whole text, when it does not depend on the request.
    #[inline]
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The literal text that every rendering begins with.
    pub(crate) fn literal_start(&self) -> &[u8] {
        match self.parts.first() {
            Some(Part::Literal(text)) => text,
            _ => b"",
        }
    }

    /// The highest `$n`.
    pub(crate) fn capture_max(&self) -> Option<usize> {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Capture(number) => Some(*number),
                Part::Literal(_) | Part::Placeholder(_) => None,
            })
            .max()
    }

    /// Appends the text to `out`.
    pub fn render(&self, view: View<'_>, out: &mut Vec<u8>) {
        self.render_captures(view, None, out);
    }

    /// Appends each part behind its length, so that no two keys are written alike. False where one that tells
    /// clients apart has nothing: who logs in by something else would be known by the rest.
    pub(crate) fn render_key(&self, view: View<'_>, out: &mut Vec<u8>) -> bool {
        let mut is_whole = true;
        for part in &self.parts {
            let start = out.len();
            self.render_part(part, start, view, None, out);
            let length = out.len() - start;
            is_whole &= length > 0 || !matches!(part, Part::Placeholder(one) if one.tells_clients_apart());
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
        is_whole
    }

    /// As [`render_captures`](Self::render_captures), for a path: several slashes that a text of the request brings, or
    /// that meet at its ends, are one. Those that are written side by side stay.
    pub(crate) fn render_merged(&self, view: View<'_>, found: Option<&Found<'_>>, out: &mut Vec<u8>) {
        for part in &self.parts {
            let start = out.len();
            self.render_part(part, 0, view, found, out);
            if out[..start].contains(&b'?') {
                continue;
            }
            match part {
                // What stands in front of it is a text of the request: there are no two literals side by side.
                Part::Literal(_) => {
                    if start > 0 && out[start - 1] == b'/' && out.get(start) == Some(&b'/') {
                        out.remove(start);
                    }
                }
                Part::Placeholder(_) | Part::Capture(_) => merge_slashes(out, start),
            }
        }
    }

    /// As [`render`](Self::render), with what `$n` stands for. A group that took no part in the match is empty.
    pub(crate) fn render_captures(&self, view: View<'_>, found: Option<&Found<'_>>, out: &mut Vec<u8>) {
        let start = out.len();
        for part in &self.parts {
            self.render_part(part, start, view, found, out);
        }
    }

    /// `start` is where the text of the whole template begins.
    fn render_part(&self, part: &Part, start: usize, view: View<'_>, found: Option<&Found<'_>>, out: &mut Vec<u8>) {
        match part {
            Part::Literal(text) => out.extend_from_slice(text),
            Part::Placeholder(placeholder) => {
                let is_one_piece = match self.target {
                    Target::Url | Target::RequestTarget => is_one_piece(placeholder, &out[start..]),
                    Target::Text | Target::Html | Target::Json | Target::HeaderValue | Target::UrlPiece => false,
                };
                render_placeholder(placeholder, if is_one_piece { Target::UrlPiece } else { self.target }, view, out);
            }
            Part::Capture(number) => {
                let Some(Found { captures, expressions }) = found else { return };
                let group = captures.get(*number).map_or(&b""[..], |group| group.as_bytes());
                match expressions {
                    PathExpressions::Encoded => encode(self.target, group, out),
                    PathExpressions::Decoded => encode_decoded(self.target, group, out[start..].contains(&b'?'), out),
                }
            }
        }
    }
}

/// What an expression has found in a path.
#[derive(Debug)]
pub(crate) struct Found<'f> {
    pub captures: Captures<'f>,
    pub expressions: PathExpressions,
}

/// Bytes that a part of a path stood for, as the part of a path that stands for the same, or of a query, to which they
/// add nothing.
fn encode_decoded(target: Target, text: &[u8], is_in_query: bool, out: &mut Vec<u8>) {
    let is_kept = |byte: u8| byte != b'%' && !(is_in_query && matches!(byte, b'&' | b'+'));
    for piece in text.chunk_by(|a, b| is_kept(*a) && is_kept(*b)) {
        match piece {
            [byte] if !is_kept(*byte) => push_encoded(*byte, false, out),
            piece => encode(target, piece, out),
        }
    }
}

/// Leaves one of several slashes, of what stands from there on and up to a query. One in front of it counts.
fn merge_slashes(out: &mut Vec<u8>, start: usize) {
    let mut at = start;
    while at < out.len() && out[at] != b'?' {
        if out[at] == b'/' && at > 0 && out[at - 1] == b'/' {
            out.remove(at);
        } else {
            at += 1;
        }
    }
}

/// Appends a path and a query of a request to a URL that was rendered.
pub(crate) fn append_to_url(path: &[u8], query: Option<&[u8]>, out: &mut Vec<u8>) {
    encode(Target::Url, path, out);
    if let Some(query) = query {
        out.push(b'?');
        encode_query(Target::Url, query, out);
    }
}

/// Appends the text of a template as plain text, for which nothing has to be compiled.
pub fn render_text(template: &Template, view: View<'_>, out: &mut Vec<u8>) {
    for part in &template.parts {
        match part {
            TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
            TemplatePart::Placeholder(placeholder) => render_placeholder(placeholder, Target::Text, view, out),
            // Of the pattern of a `rewrite`, and of nothing else.
            TemplatePart::Capture(_) => {}
        }
    }
}

/// Whether a placeholder of a URL brings a text of somebody's choice, which must stay one piece of it, and not a part
/// of a URL that was read as one. `before` is what stands in front: a query may be put into a query as it is.
fn is_one_piece(placeholder: &Placeholder, before: &[u8]) -> bool {
    match placeholder {
        Placeholder::Path
        | Placeholder::Uri
        | Placeholder::AskedUri
        | Placeholder::Host
        | Placeholder::Scheme
        | Placeholder::Port
        | Placeholder::ClientIp
        | Placeholder::ClientPort
        | Placeholder::TlsVersion
        | Placeholder::TlsJa4
        | Placeholder::RequestId
        | Placeholder::TimeUnixMs
        // The administrator's own text. What the key brings into it is looked at by itself.
        | Placeholder::Map(_) => false,
        Placeholder::Query => !before.contains(&b'?'),
        Placeholder::QuerySuffix => before.contains(&b'?'),
        Placeholder::AskedUriEscaped
        | Placeholder::ForwardedFor
        | Placeholder::Method
        | Placeholder::TlsSni
        | Placeholder::ProxyAuthority
        | Placeholder::ProxyUniqueId
        | Placeholder::TlsClient(_)
        | Placeholder::RequestHeader(_)
        | Placeholder::RequestQuery(_)
        | Placeholder::RequestCookie(_)
        | Placeholder::ResponseHeader(_)
        | Placeholder::UpstreamAddress
        | Placeholder::AuthUser
        | Placeholder::JwtClaim(_)
        | Placeholder::Geo(_)
        | Placeholder::StatusText
        | Placeholder::LogOwn(_)
        | Placeholder::Log(_) => true,
    }
}

fn render_placeholder(placeholder: &Placeholder, target: Target, view: View<'_>, out: &mut Vec<u8>) {
    let (request, context) = (view.request, view.context);
    match placeholder {
        // In the one spelling that sites are found by: as a key, another one would be another client's.
        Placeholder::Host => {
            let host = host_of(request.authority());
            let host = host.strip_suffix(b".").unwrap_or(host);
            if host.iter().any(u8::is_ascii_uppercase) {
                encode(target, &host.to_ascii_lowercase(), out);
            } else {
                encode(target, host, out);
            }
        }
        Placeholder::Path => encode(target, request.path(), out),
        Placeholder::Query => encode_query(target, request.query().unwrap_or_default(), out),
        Placeholder::QuerySuffix => render_query_suffix(request.query(), target, out),
        Placeholder::Uri => {
            encode(target, request.path(), out);
            render_query_suffix(request.query(), target, out);
        }
        Placeholder::AskedUri => render_asked(target, view, out),
        Placeholder::AskedUriEscaped => render_asked(Target::UrlPiece, view, out),
        Placeholder::Method => encode(target, request.method_name(), out),
        Placeholder::Scheme => out.extend_from_slice(context.scheme.as_str().as_bytes()),
        Placeholder::Port => render_number(u64::from(context.port), out),
        Placeholder::ClientIp => render_ip(context.client_ip, out),
        Placeholder::ClientPort => render_number(u64::from(context.client_port), out),
        Placeholder::TlsSni => encode(target, context.tls_sni.unwrap_or_default().as_bytes(), out),
        Placeholder::TlsJa4 => out.extend_from_slice(context.tls_ja4.unwrap_or_default().as_bytes()),
        Placeholder::ProxyAuthority | Placeholder::ProxyUniqueId => render_introduction(placeholder, target, context, out),
        Placeholder::TlsVersion => out.extend_from_slice(context.tls_version.unwrap_or_default().as_bytes()),
        Placeholder::TlsClient(field) => {
            encode(target, client_certificate_text(context.client_certificate, *field).as_bytes(), out);
        }
        Placeholder::RequestHeader(name) if name == "upgrade" => {
            let protocol = context.upgrade.map(|protocol| protocol.of(&request.fields.bytes));
            encode(target, protocol.unwrap_or_default(), out);
        }
        Placeholder::RequestHeader(name) => render_field(target, name, request.fields.all_named(name.as_bytes()), out),
        Placeholder::ForwardedFor => render_forwarded_for(target, view, out),
        Placeholder::RequestQuery(name) => {
            parameter_value(request.query().unwrap_or_default(), name.as_bytes(), |value| encode(target, value, out));
        }
        Placeholder::RequestCookie(name) => {
            encode(target, cookie_value(&request.fields, name.as_bytes()).unwrap_or_default(), out);
        }
        Placeholder::ResponseHeader(name) => {
            if let Some(response) = view.response {
                render_field(target, name, response.fields.all_named(name.as_bytes()), out);
            }
        }
        Placeholder::UpstreamAddress => encode(target, context.upstream_address.unwrap_or_default().as_bytes(), out),
        Placeholder::RequestId => context.see_request_id(|id| out.extend_from_slice(id.as_bytes())),
        Placeholder::AuthUser => encode(target, context.identity.map_or("", |identity| &identity.name).as_bytes(), out),
        Placeholder::JwtClaim(name) => render_claim(name, target, context, out),
        Placeholder::TimeUnixMs => render_number(context.now_unix_ms, out),
        Placeholder::Geo(field) => context.geo.see(context.client_ip, *field, |text| encode(target, text.as_bytes(), out)),
        Placeholder::Map(name) => render_map(name, target, view, out),
        Placeholder::Log(LogField::Status) => render_number(context.error.map_or(0, |(status, _)| u64::from(status)), out),
        Placeholder::Log(LogField::Reason) => out.extend_from_slice(context.error.map_or("", |(_, reason)| reason).as_bytes()),
        Placeholder::StatusText => {
            out.extend_from_slice(context.error.map_or("", |(status, _)| reason_phrase(status)).as_bytes());
        }
        // The configuration takes these in the format of the access log only, which is not rendered here.
        Placeholder::Log(_) | Placeholder::LogOwn(_) => {}
    }
}

/// Path and query as the client has asked for them.
fn render_asked(target: Target, View { request, context, .. }: View<'_>, out: &mut Vec<u8>) {
    let bytes = &request.fields.bytes;
    encode(target, context.asked_path.of(bytes), out);
    render_query_suffix(context.told_query.map(|query| query.of(bytes)), target, out);
}

/// As an upstream is told it.
fn render_forwarded_for(target: Target, View { request, context, .. }: View<'_>, out: &mut Vec<u8>) {
    for value in request.fields.all(HeaderId::XForwardedFor) {
        encode(target, value, out);
        encode(target, b", ", out);
    }
    render_ip(context.peer_ip, out);
}

/// What a load balancer has said of the connection.
fn render_introduction(placeholder: &Placeholder, target: Target, context: &Context<'_>, out: &mut Vec<u8>) {
    let Some(said) = context.introduction else { return };
    let text = if *placeholder == Placeholder::ProxyAuthority { said.authority() } else { said.unique_id_text() };
    encode(target, text.as_bytes(), out);
}

fn render_query_suffix(query: Option<&[u8]>, target: Target, out: &mut Vec<u8>) {
    let Some(query) = query else { return };
    if target == Target::UrlPiece {
        encode(target, b"?", out);
    } else {
        out.push(b'?');
    }
    encode_query(target, query, out);
}

/// What the token claims that was verified.
fn render_claim(name: &str, target: Target, context: &Context<'_>, out: &mut Vec<u8>) {
    let Some(claims) = context.claims else { return };
    let mut text = Vec::new();
    let is_said = match target {
        Target::HeaderValue => claims.write_field(name, &mut text),
        Target::Text | Target::Html | Target::Json | Target::Url | Target::UrlPiece | Target::RequestTarget => {
            claims.write(name, &mut text)
        }
    };
    if is_said {
        encode(target, &text, out);
    }
}

/// What a map has for its key. The key is rendered where the value will stand, so that nothing is allocated for it.
fn render_map(name: &str, target: Target, view: View<'_>, out: &mut Vec<u8>) {
    view.context.maps.see(name, |map| {
        let Some(map) = map else { return };
        let start = out.len();
        render_text(map.key(), view, out);
        match map.value_of(&out[start..]) {
            None => out.truncate(start),
            Some(Value::Text(text)) => {
                out.truncate(start);
                encode_row(target, text.as_bytes(), out);
            }
            Some(filled @ Value::Filled(_)) => {
                let key = out.split_off(start);
                let is_free = map.key().placeholders().any(|placeholder| is_one_piece(placeholder, b""));
                let of_key = match target {
                    Target::Url | Target::RequestTarget if is_free => Target::UrlPiece,
                    target => target,
                };
                filled.each_part(
                    &key,
                    |part, is_of_key| {
                        if is_of_key { encode(of_key, part, out) } else { encode_row(target, part, out) }
                    },
                );
            }
        }
    });
}

/// A value of a row: the administrator's own as far as a URL goes, and data where it becomes part of a page.
fn encode_row(target: Target, text: &[u8], out: &mut Vec<u8>) {
    match target {
        Target::RequestTarget => encode_query(target, text, out),
        Target::Text | Target::Html | Target::Json | Target::HeaderValue | Target::Url | Target::UrlPiece => {
            encode(target, text, out);
        }
    }
}

/// Several fields of one name mean their values in order, joined by commas (RFC 9110 section 5.3); cookies by
/// semicolons.
fn render_field<'a>(target: Target, name: &str, values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
    for (position, value) in values.enumerate() {
        if position > 0 {
            encode(target, separator, out);
        }
        encode(target, value, out);
    }
}

fn render_ip(ip: IpAddr, out: &mut Vec<u8>) {
    write!(out, "{}", ip.to_canonical()).expect("a Vec takes every write");
}

fn render_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The administrator's own text: kept where it can be, because markup and quotes in it are meant.
fn encode_literal(target: Target, text: &[u8], out: &mut Vec<u8>) {
    match target {
        Target::Text | Target::Html | Target::Json => out.extend_from_slice(text),
        Target::HeaderValue | Target::Url | Target::UrlPiece => encode(target, text, out),
        Target::RequestTarget => encode_query(target, text, out),
    }
}

/// As [`encode`], where a `?` is meant as one.
fn encode_query(target: Target, text: &[u8], out: &mut Vec<u8>) {
    if target == Target::UrlPiece {
        return encode(target, text, out);
    }
    for (position, piece) in text.split(|byte| *byte == b'?').enumerate() {
        if position > 0 {
            out.push(b'?');
        }
        encode(target, piece, out);
    }
}

pub(crate) fn encode(target: Target, text: &[u8], out: &mut Vec<u8>) {
    match target {
        Target::Text => out.extend_from_slice(text),
        Target::Html => encode_html(text, out),
        Target::Json => encode_json(text, out),
        Target::HeaderValue => {
            out.extend(text.iter().map(|byte| if byte.is_ascii_control() && *byte != b'\t' { b' ' } else { *byte }));
        }
        Target::Url => {
            encode_percent(text, |byte| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte), out);
        }
        Target::RequestTarget => encode_percent(text, |byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#', out),
        Target::UrlPiece => {
            for byte in text {
                push_encoded(*byte, byte.is_ascii_alphanumeric() || b"-._~!*'():[]".contains(byte), out);
            }
        }
    }
}

fn encode_html(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            other => out.push(*other),
        }
    }
}

fn encode_json(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0..0x20 => out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 0xf)]),
            other => out.push(*other),
        }
    }
}

/// What is percent-encoded already stays; a `%` that begins no triplet is encoded, so that the result is well-formed.
fn encode_percent(text: &[u8], allowed: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    for (position, byte) in text.iter().enumerate() {
        let keep = match byte {
            b'%' => {
                matches!(text.get(position + 1..position + 3), Some([a, b]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
            }
            other => allowed(*other),
        };
        push_encoded(*byte, keep, out);
    }
}

fn push_encoded(byte: u8, keep: bool, out: &mut Vec<u8>) {
    if keep {
        out.push(byte);
    } else {
        out.extend_from_slice(&[b'%', hex(byte >> 4), hex(byte & 0xf)]);
    }
}

fn hex(digit: u8) -> u8 {
    b"0123456789ABCDEF"[digit as usize & 0xf]
}
