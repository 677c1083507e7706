//! The three forms of a line: JSON, the combined form of the Common Log Format, and a template.
//! Each ends in a line feed and holds no other.
//!
//! Keys of the JSON form, in this order; those marked `?` are left out when there is nothing to say:
//! `time` `request_id`? `trace_id`? `client_ip` `client_port` `user`? `site`? `route`? `origin`?
//! `method` `scheme` `host` `path`
//! `query`? `protocol` `status`? `request_bytes` `response_bytes` `duration_us` `auth_status`? `auth_us`?
//! `queue_us`? `pool`? `upstream`?
//! `upstream_status`? `upstream_protocol`? `upstream_connect_us`? `upstream_tls_us`? `upstream_first_byte_us`?
//! `upstream_body_us`? `upstream_reused`? `retries`? `cache`? `tls_version`? `tls_cipher`? `tls_sni`? `tls_resumed`?
//! `referer`? `user_agent`? `reason`? `setting`?, and behind them those of the request's route.

use super::escape::{push_json, push_json_cut, push_text};
use super::record::{AccessRecord, CertificateLookup, HeaderLookup};
use super::second::SecondText;
use super::{LINE_BYTES_MAX, OWN_FIELD_BYTES_MAX};
use std::io::Write;
use std::net::IpAddr;
use tidegate_model::{AccessLogFormat, ClientCertificateField, LogField, Placeholder, TemplatePart};

/// A format as a worker keeps it.
#[derive(Debug)]
pub(super) enum Format {
    Json,
    Common,
    Template(Vec<Piece>),
}

#[derive(Debug)]
pub(super) enum Piece {
    Literal(Vec<u8>),
    Placeholder(Placeholder),
}

impl Format {
    pub fn new(format: &AccessLogFormat) -> Format {
        match format {
            AccessLogFormat::Json => Format::Json,
            AccessLogFormat::Common => Format::Common,
            AccessLogFormat::Template(template) => Format::Template(template.parts.iter().filter_map(piece_of).collect()),
        }
    }

    /// Whether lines show header fields other than those a record always has.
    pub fn needs_headers(&self) -> bool {
        let Format::Template(pieces) = self else { return false };
        pieces.iter().any(|piece| {
            matches!(
                piece,
                Piece::Placeholder(
                    Placeholder::RequestHeader(_) | Placeholder::RequestCookie(_) | Placeholder::ResponseHeader(_)
                )
            )
        })
    }

    /// Adds one whole line.
    pub fn push_line(&self, line: &mut Vec<u8>, second: &mut SecondText, record: &AccessRecord<'_>) {
        match self {
            Format::Json => push_json_line(line, second, record),
            Format::Common => push_common_line(line, second, record),
            Format::Template(pieces) => push_template_line(line, second, pieces, record),
        }
        // Only a template that repeats itself gets here; the JSON and common forms have no more fields than fit.
        line.truncate(LINE_BYTES_MAX - 1);
        line.push(b'\n');
    }
}

fn piece_of(part: &TemplatePart) -> Option<Piece> {
    match part {
        // A line feed would make two lines of one; a tab is a separator that people do use.
        TemplatePart::Literal(text) => {
            Some(Piece::Literal(text.bytes().map(|byte| if byte < b' ' && byte != b'\t' { b' ' } else { byte }).collect()))
        }
        TemplatePart::Placeholder(placeholder) => Some(Piece::Placeholder(placeholder.clone())),
        // There is no pattern whose captures this could be.
        TemplatePart::Capture(_) => None,
    }
}

fn push_json_line(line: &mut Vec<u8>, second: &mut SecondText, record: &AccessRecord<'_>) {
    line.extend_from_slice(br#"{"time":""#);
    second.push_rfc3339(line, record.time_unix_us);
    line.push(b'"');
    push_json_optional(line, br#","request_id":""#, record.request_id);
    push_json_optional(line, br#","trace_id":""#, record.trace_id);
    line.extend_from_slice(br#","client_ip":""#);
    push_ip(line, record.client_ip);
    push_number(line, br#"","client_port":"#, record.client_port);
    push_json_optional(line, br#","user":""#, record.user.as_bytes());
    push_json_optional(line, br#","site":""#, record.site.as_bytes());
    push_json_optional(line, br#","route":""#, record.route.as_bytes());
    push_json_optional(line, br#","origin":""#, record.origin.as_bytes());
    push_json_value(line, br#","method":""#, record.method);
    push_json_value(line, br#","scheme":""#, record.scheme.as_bytes());
    push_json_value(line, br#","host":""#, record.host);
    push_json_value(line, br#","path":""#, record.path);
    push_json_optional(line, br#","query":""#, record.query);
    push_json_value(line, br#","protocol":""#, record.protocol.as_bytes());
    push_some(line, br#","status":"#, record.status);
    push_number(line, br#","request_bytes":"#, record.request_bytes);
    push_number(line, br#","response_bytes":"#, record.response_bytes);
    push_number(line, br#","duration_us":"#, record.duration_us);
    push_json_upstream(line, record);
    if let Some(tls) = &record.tls {
        push_json_value(line, br#","tls_version":""#, tls.version.as_bytes());
        push_json_value(line, br#","tls_cipher":""#, tls.cipher.as_bytes());
        push_json_optional(line, br#","tls_sni":""#, tls.sni.unwrap_or_default().as_bytes());
        line.extend_from_slice(if tls.resumed { br#","tls_resumed":true"# } else { br#","tls_resumed":false"# });
    }
    push_json_optional(line, br#","referer":""#, record.referer);
    push_json_optional(line, br#","user_agent":""#, record.user_agent);
    push_json_optional(line, br#","reason":""#, record.reason.unwrap_or_default().as_bytes());
    push_json_optional(line, br#","setting":""#, record.setting.unwrap_or_default().as_bytes());
    if let Some(each) = record.own_fields {
        each(&mut |name, value| push_json_own(line, name, value));
    }
    line.push(b'}');
}

/// Pushes a field that a route adds. Names that need escapes cannot be configured.
fn push_json_own(line: &mut Vec<u8>, name: &str, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    line.extend_from_slice(b",\"");
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\":\"");
    push_json_cut(line, value, OWN_FIELD_BYTES_MAX);
    line.push(b'"');
}

fn push_json_upstream(line: &mut Vec<u8>, record: &AccessRecord<'_>) {
    push_some(line, br#","auth_status":"#, record.auth_status);
    push_some(line, br#","auth_us":"#, record.auth_us);
    push_some(line, br#","queue_us":"#, record.queue_us);
    push_json_optional(line, br#","pool":""#, record.pool.unwrap_or_default().as_bytes());
    push_json_optional(line, br#","arm":""#, record.arm.unwrap_or_default().as_bytes());
    if let Some(upstream) = &record.upstream {
        push_json_value(line, br#","upstream":""#, upstream.address.as_bytes());
        push_some(line, br#","upstream_status":"#, upstream.status);
        push_json_optional(line, br#","upstream_protocol":""#, upstream.protocol.as_bytes());
        push_some(line, br#","upstream_connect_us":"#, upstream.connect_us);
        push_some(line, br#","upstream_tls_us":"#, upstream.tls_us);
        push_some(line, br#","upstream_first_byte_us":"#, upstream.first_byte_us);
        push_some(line, br#","upstream_body_us":"#, upstream.body_us);
        line.extend_from_slice(if upstream.reused { br#","upstream_reused":true"# } else { br#","upstream_reused":false"# });
    }
    if record.retries > 0 {
        push_number(line, br#","retries":"#, record.retries);
    }
    push_json_optional(line, br#","cache":""#, record.cache.unwrap_or_default().as_bytes());
}

/// `key` holds the opening quote of the value.
#[inline]
fn push_json_value(line: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    line.extend_from_slice(key);
    push_json(line, value);
    line.push(b'"');
}

#[inline]
fn push_json_optional(line: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    if !value.is_empty() {
        push_json_value(line, key, value);
    }
}

#[inline]
fn push_number(line: &mut Vec<u8>, key: &[u8], number: impl itoa::Integer) {
    line.extend_from_slice(key);
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[inline]
fn push_some(line: &mut Vec<u8>, key: &[u8], number: Option<impl itoa::Integer>) {
    if let Some(number) = number {
        push_number(line, key, number);
    }
}

/// What is not there becomes `-`.
fn push_number_or_dash(line: &mut Vec<u8>, number: Option<impl itoa::Integer>) {
    match number {
        Some(number) => push_number(line, b"", number),
        None => line.push(b'-'),
    }
}

/// `client - user [time] "GET /path?query HTTP/1.1" status bytes "referer" "user agent"`
fn push_common_line(line: &mut Vec<u8>, second: &mut SecondText, record: &AccessRecord<'_>) {
    push_ip(line, record.client_ip);
    line.extend_from_slice(b" - ");
    push_user(line, record.user.as_bytes());
    line.extend_from_slice(b" [");
    second.push_common(line, record.time_unix_us);
    line.extend_from_slice(b"] \"");
    push_text(line, record.method);
    line.push(b' ');
    push_uri(line, record);
    line.push(b' ');
    line.extend_from_slice(record.protocol.as_bytes());
    line.extend_from_slice(b"\" ");
    push_number_or_dash(line, record.status);
    push_number(line, b" ", record.response_bytes);
    line.extend_from_slice(b" \"");
    push_text_or_dash(line, record.referer);
    line.extend_from_slice(b"\" \"");
    push_text_or_dash(line, record.user_agent);
    line.push(b'"');
}

/// A blank in a name would move the columns behind it.
fn push_user(line: &mut Vec<u8>, user: &[u8]) {
    for (position, word) in user.split(|byte| *byte == b' ').enumerate() {
        if position > 0 {
            line.extend_from_slice(b"\\x20");
        }
        push_text(line, word);
    }
    if user.is_empty() {
        line.push(b'-');
    }
}

/// What is absent becomes `-`, so that the columns of a line keep their places.
fn push_template_line(line: &mut Vec<u8>, second: &mut SecondText, pieces: &[Piece], record: &AccessRecord<'_>) {
    for piece in pieces {
        if line.len() >= LINE_BYTES_MAX {
            return;
        }
        match piece {
            Piece::Literal(text) => line.extend_from_slice(text),
            Piece::Placeholder(placeholder) => push_placeholder(line, second, placeholder, record),
        }
    }
}

fn push_placeholder(line: &mut Vec<u8>, second: &mut SecondText, placeholder: &Placeholder, record: &AccessRecord<'_>) {
    match placeholder {
        Placeholder::Host => push_text_or_dash(line, record.host),
        Placeholder::Path => push_text_or_dash(line, record.path),
        Placeholder::Query => push_text_or_dash(line, record.query),
        Placeholder::QuerySuffix => push_query_suffix(line, record),
        // What was asked for is what a line has.
        Placeholder::Uri | Placeholder::AskedUri => push_uri(line, record),
        Placeholder::Method => push_text_or_dash(line, record.method),
        Placeholder::Scheme => push_text_or_dash(line, record.scheme.as_bytes()),
        Placeholder::ClientIp => push_ip(line, record.client_ip),
        Placeholder::ClientPort => push_number(line, b"", record.client_port),
        Placeholder::TlsSni => push_text_or_dash(line, record.tls.and_then(|tls| tls.sni).unwrap_or_default().as_bytes()),
        Placeholder::TlsJa4 => push_text_or_dash(line, record.tls.and_then(|tls| tls.ja4).unwrap_or_default().as_bytes()),
        Placeholder::ProxyAuthority => push_text_or_dash(line, record.introduction.map_or("", |said| said.authority).as_bytes()),
        Placeholder::ProxyUniqueId => push_text_or_dash(line, record.introduction.map_or("", |said| said.unique_id).as_bytes()),
        Placeholder::TlsVersion => push_text_or_dash(line, record.tls.map_or("", |tls| tls.version).as_bytes()),
        Placeholder::TlsClient(field) => push_certificate(line, *field, record.client_certificate),
        Placeholder::RequestHeader(name) => push_header(line, name, record.request_header),
        Placeholder::RequestCookie(name) => push_header(line, name, record.request_cookie),
        Placeholder::ResponseHeader(name) => push_header(line, name, record.response_header),
        Placeholder::UpstreamAddress => {
            push_text_or_dash(line, record.upstream.map_or("", |upstream| upstream.address).as_bytes());
        }
        Placeholder::RequestId => push_text_or_dash(line, record.request_id),
        Placeholder::AuthUser => push_text_or_dash(line, record.user.as_bytes()),
        // The configuration takes them in error pages, in the `log` of a site or a route, and in other texts.
        Placeholder::StatusText
        | Placeholder::JwtClaim(_)
        | Placeholder::Geo(_)
        | Placeholder::Map(_)
        | Placeholder::AskedUriEscaped
        | Placeholder::Port
        | Placeholder::ForwardedFor
        | Placeholder::RequestQuery(_) => line.push(b'-'),
        Placeholder::TimeUnixMs => push_number(line, b"", record.time_unix_us / 1000),
        Placeholder::LogOwn(name) => push_own(line, name, record),
        Placeholder::Log(field) => push_log_field(line, second, *field, record),
    }
}

fn push_log_field(line: &mut Vec<u8>, second: &mut SecondText, field: LogField, record: &AccessRecord<'_>) {
    match field {
        LogField::Time => second.push_rfc3339(line, record.time_unix_us),
        LogField::Site => push_text_or_dash(line, record.site.as_bytes()),
        LogField::Protocol => push_text_or_dash(line, record.protocol.as_bytes()),
        LogField::Status => push_number_or_dash(line, record.status),
        LogField::Route => push_text_or_dash(line, record.route.as_bytes()),
        LogField::Origin => push_text_or_dash(line, record.origin.as_bytes()),
        LogField::TraceId => push_text_or_dash(line, record.trace_id),
        LogField::QueueUs => push_number_or_dash(line, record.queue_us),
        LogField::UpstreamStatus => push_number_or_dash(line, record.upstream.and_then(|upstream| upstream.status)),
        LogField::UpstreamProtocol => {
            push_text_or_dash(line, record.upstream.map_or("", |upstream| upstream.protocol).as_bytes());
        }
        LogField::UpstreamConnectUs => push_number_or_dash(line, record.upstream.and_then(|upstream| upstream.connect_us)),
        LogField::UpstreamTlsUs => push_number_or_dash(line, record.upstream.and_then(|upstream| upstream.tls_us)),
        LogField::UpstreamFirstByteUs => {
            push_number_or_dash(line, record.upstream.and_then(|upstream| upstream.first_byte_us));
        }
        LogField::UpstreamBodyUs => push_number_or_dash(line, record.upstream.and_then(|upstream| upstream.body_us)),
        LogField::AuthStatus => push_number_or_dash(line, record.auth_status),
        LogField::AuthUs => push_number_or_dash(line, record.auth_us),
        LogField::RequestBytes => push_number(line, b"", record.request_bytes),
        LogField::ResponseBytes => push_number(line, b"", record.response_bytes),
        LogField::DurationUs => push_number(line, b"", record.duration_us),
        LogField::Arm => push_text_or_dash(line, record.arm.unwrap_or_default().as_bytes()),
        LogField::Pool => push_text_or_dash(line, record.pool.unwrap_or_default().as_bytes()),
        LogField::Retries => push_number(line, b"", record.retries),
        LogField::Reason => push_text_or_dash(line, record.reason.unwrap_or_default().as_bytes()),
    }
}

fn push_own(line: &mut Vec<u8>, wanted: &str, record: &AccessRecord<'_>) {
    let start = line.len();
    if let Some(each) = record.own_fields {
        each(&mut |name, value| {
            if name == wanted {
                push_text(line, value);
            }
        });
    }
    if line.len() == start {
        line.push(b'-');
    }
}

fn push_header(line: &mut Vec<u8>, name: &str, lookup: Option<&HeaderLookup<'_>>) {
    let start = line.len();
    if let Some(lookup) = lookup {
        lookup(name, &mut |value| {
            if line.len() == start {
                push_text_or_dash(line, value);
            }
        });
    }
    if line.len() == start {
        line.push(b'-');
    }
}

fn push_certificate(line: &mut Vec<u8>, field: ClientCertificateField, lookup: Option<&CertificateLookup<'_>>) {
    match lookup {
        Some(lookup) => lookup(field, &mut |value| push_text_or_dash(line, value)),
        None if field == ClientCertificateField::Verified => line.extend_from_slice(b"no"),
        None => line.push(b'-'),
    }
}

fn push_uri(line: &mut Vec<u8>, record: &AccessRecord<'_>) {
    push_text_or_dash(line, record.path);
    if !record.query.is_empty() {
        line.push(b'?');
        push_text(line, record.query);
    }
}

fn push_query_suffix(line: &mut Vec<u8>, record: &AccessRecord<'_>) {
    if record.query.is_empty() {
        return line.push(b'-');
    }
    line.push(b'?');
    push_text(line, record.query);
}

fn push_text_or_dash(line: &mut Vec<u8>, value: &[u8]) {
    if value.is_empty() {
        line.push(b'-');
    } else {
        push_text(line, value);
    }
}

/// A client that reached an IPv6 socket over IPv4 is shown as IPv4.
fn push_ip(line: &mut Vec<u8>, ip: IpAddr) {
    match ip.to_canonical() {
        // By hand: the standard library's formatting costs five times as much, and this is in every line.
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            push_number(line, b"", a);
            push_number(line, b".", b);
            push_number(line, b".", c);
            push_number(line, b".", d);
        }
        IpAddr::V6(ip) => write!(line, "{ip}").expect("writing to a Vec does not fail"),
    }
}
