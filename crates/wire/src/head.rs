//! Message heads for every HTTP version: one byte buffer plus a small index of fields.
//! Parsing is in `http1`; this file is what the rest of the program reads and changes. A head is leased from its worker and used again, so that a request allocates nothing.

use crate::authority::Authority;
use std::fmt;

/// A stretch of a head's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub start: u32,
    pub len: u32,
}

impl Span {
    #[inline]
    pub fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end);
        Span { start: start as u32, len: (end - start) as u32 }
    }

    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..(self.start + self.len) as usize]
    }
}

/// One field line. A removed field keeps its place with `id == HeaderId::Removed`, so that removal moves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: Span,
    pub value: Span,
    pub id: HeaderId,
}

impl Field {
    /// Where the field's line is in the buffer, if it is there as it is sent: `Name: value`, CR LF.
    #[inline]
    fn line(&self, bytes: &[u8]) -> Option<std::ops::Range<usize>> {
        let start = self.name.start as usize;
        let name_end = start + self.name.len as usize;
        let value_end = (self.value.start + self.value.len) as usize;
        let is_line = self.value.start as usize == name_end + 2
            && bytes.get(name_end..name_end + 2) == Some(b": ")
            && bytes.get(value_end..value_end + 2) == Some(b"\r\n");
        is_line.then_some(start..value_end + 2)
    }
}

/// The fields of a head, in the order they came. Spans point into `bytes`, which also holds the start line.
#[derive(Clone, Default)]
pub struct Fields {
    pub bytes: Vec<u8>,
    pub list: Vec<Field>,
    /// One bit per [`HeaderId`] that is in `list`; lets the common "is it there" cost one instruction.
    present: u64,
}

impl Fields {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.present = 0;
    }

    #[inline]
    pub fn has(&self, id: HeaderId) -> bool {
        self.present & id.bit() != 0
    }

    /// The first value of a well-known field.
    #[inline]
    pub fn get(&self, id: HeaderId) -> Option<&[u8]> {
        if !self.has(id) {
            return None;
        }
        self.list.iter().find(|field| field.id == id).map(|field| field.value.of(&self.bytes))
    }

    /// All values of a well-known field, in order.
    pub fn all(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        let list: &[Field] = if self.has(id) { &self.list } else { &[] };
        list.iter().filter(move |field| field.id == id).map(|field| field.value.of(&self.bytes))
    }

    /// All values of a field by name, compared without case.
    pub fn all_named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let id = HeaderId::of(name);
        let skip = id != HeaderId::Other && !self.has(id);
        let list: &[Field] = if skip { &[] } else { &self.list };
        list.iter()
            .filter(move |field| {
                field.id == id && (id != HeaderId::Other || field.name.of(&self.bytes).eq_ignore_ascii_case(name))
            })
            .map(|field| field.value.of(&self.bytes))
    }

    /// Name and value of every field that was not removed.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.list
            .iter()
            .filter(|field| field.id != HeaderId::Removed)
            .map(|field| (field.name.of(&self.bytes), field.value.of(&self.bytes)))
    }

    /// Registers a field whose bytes are in the buffer already.
    #[inline]
    pub fn index(&mut self, name: Span, value: Span, id: HeaderId) {
        self.present |= id.bit();
        self.list.push(Field { name, value, id });
    }

    /// One more field at the end. The caller answers for the bytes: a token as name, no control bytes in the value.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_parts(name, &[value]);
    }

    /// As [`push`](Self::push), with a value made of pieces.
    pub fn push_parts(&mut self, name: &[u8], value: &[&[u8]]) {
        let id = HeaderId::of(name);
        let name = self.append(&[name]);
        self.bytes.extend_from_slice(b": ");
        let value = self.append(value);
        // As a line on the wire: encoding then copies runs of lines and not fields one by one.
        self.bytes.extend_from_slice(b"\r\n");
        self.index(name, value, id);
    }

    /// As [`push`](Self::push), with a value that is in the buffer already.
    pub fn push_copy(&mut self, name: &[u8], value: Span) {
        let id = HeaderId::of(name);
        let name = self.append(&[name]);
        self.index(name, value, id);
    }

    /// Copies pieces to the end of the buffer and says where they are.
    pub fn append(&mut self, pieces: &[&[u8]]) -> Span {
        let start = self.bytes.len();
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        Span::new(start, self.bytes.len())
    }

    /// Replaces every field of that name by one.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove(name);
        self.push(name, value);
    }

    /// Removes every field of that name; says whether there was one.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        match HeaderId::of(name) {
            HeaderId::Other => {
                let mut removed = false;
                for field in &mut self.list {
                    if field.id == HeaderId::Other && field.name.of(&self.bytes).eq_ignore_ascii_case(name) {
                        field.id = HeaderId::Removed;
                        removed = true;
                    }
                }
                removed
            }
            id => self.remove_id(id),
        }
    }

    /// As [`remove`](Self::remove), for a well-known name.
    pub fn remove_id(&mut self, id: HeaderId) -> bool {
        if !self.has(id) {
            return false;
        }
        self.present &= !id.bit();
        for field in &mut self.list {
            if field.id == id {
                field.id = HeaderId::Removed;
            }
        }
        true
    }

    /// Removes the hop-by-hop fields (RFC 9110 section 7.6.1) and those that `Connection` names. `Transfer-Encoding` goes too:
    /// whoever sends the message on frames it anew. `Content-Length` stays, because it describes the content end to end. Fields that routing and framing
    /// rely on cannot be named away by `Connection` (the hop-by-hop abuse of `Connection: close, X-Forwarded-For`, or `Host`).
    pub fn remove_hop_by_hop(&mut self) {
        if self.present & HeaderId::HOP_BY_HOP == 0 {
            return;
        }
        if self.has(HeaderId::Connection) {
            self.remove_named_by_connection();
        }
        for field in &mut self.list {
            if field.id.bit() & HeaderId::HOP_BY_HOP != 0 {
                field.id = HeaderId::Removed;
            }
        }
        self.present &= !HeaderId::HOP_BY_HOP;
    }

    fn remove_named_by_connection(&mut self) {
        for position in 0..self.list.len() {
            if self.list[position].id != HeaderId::Connection {
                continue;
            }
            let Span { start, len } = self.list[position].value;
            let (mut at, end) = (start as usize, (start + len) as usize);
            while at < end {
                let stop = self.bytes[at..end].iter().position(|byte| *byte == b',').map_or(end, |comma| at + comma);
                let token = self.bytes[at..stop].trim_ascii();
                at = stop + 1;
                let id = HeaderId::of(token);
                if token.is_empty() || id.bit() & HeaderId::PROTECTED != 0 || id == HeaderId::Connection {
                    continue;
                }
                if id != HeaderId::Other {
                    self.remove_id(id);
                    continue;
                }
                let offset = token.as_ptr() as usize - self.bytes.as_ptr() as usize;
                let token = Span::new(offset, offset + token.len());
                for field in &mut self.list {
                    if field.id == HeaderId::Other && field.name.of(&self.bytes).eq_ignore_ascii_case(token.of(&self.bytes)) {
                        field.id = HeaderId::Removed;
                    }
                }
            }
        }
    }

    /// Bytes that the field lines take on the wire, the empty line not included.
    pub fn encoded_len(&self) -> usize {
        self.list
            .iter()
            .filter(|field| field.id != HeaderId::Removed)
            .map(|field| field.name.len as usize + field.value.len as usize + 4)
            .sum()
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name.escape_ascii().to_string(), value.escape_ascii().to_string())))
            .finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    Http10,
    #[default]
    Http11,
    Http2,
}

impl Version {
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    Trace,
    Connect,
    Other,
}

impl Method {
    /// Methods are case sensitive (RFC 9110 section 9.1).
    pub fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"PATCH" => Method::Patch,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        }
    }

    /// RFC 9110 section 9.2.2: sending it twice means no more than sending it once.
    pub fn is_idempotent(self) -> bool {
        match self {
            Method::Get | Method::Head | Method::Put | Method::Delete | Method::Options | Method::Trace => true,
            Method::Post | Method::Patch | Method::Connect | Method::Other => false,
        }
    }
}

/// A request's head. `path` is normalised (`path` module) and is what is matched and what is forwarded.
#[derive(Debug, Clone, Default)]
pub struct RequestHead {
    pub version: Version,
    pub method: Method,
    pub method_name: Span,
    /// Scheme, authority and fragment are never in it. `*` for `OPTIONS *`, empty for `CONNECT`.
    pub path: Span,
    /// Without the question mark; `None` when the target had none.
    pub query: Option<Span>,
    /// The authority the request is for: of the absolute-form target or `:authority`, else `Host`. Empty in HTTP/1.0 without `Host`.
    pub authority: Span,
    /// The authority without port and brackets.
    pub host: Span,
    pub fields: Fields,
}

impl RequestHead {
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = RequestHead { fields, ..RequestHead::default() };
    }

    #[inline]
    pub fn method_name(&self) -> &[u8] {
        self.method_name.of(&self.fields.bytes)
    }

    #[inline]
    pub fn path(&self) -> &[u8] {
        self.path.of(&self.fields.bytes)
    }

    #[inline]
    pub fn query(&self) -> Option<&[u8]> {
        self.query.map(|span| span.of(&self.fields.bytes))
    }

    #[inline]
    pub fn authority(&self) -> &[u8] {
        self.authority.of(&self.fields.bytes)
    }

    #[inline]
    pub fn host(&self) -> &[u8] {
        self.host.of(&self.fields.bytes)
    }

    /// Settles what the request is for. `parsed` is the authority at `span`, read.
    pub fn set_authority(&mut self, span: Span, parsed: &Authority<'_>) {
        self.authority = span;
        self.host = Span { start: span.start + u32::from(parsed.is_ipv6), len: parsed.host.len() as u32 };
    }

    pub fn set_path(&mut self, path: &[u8]) {
        self.path = self.fields.append(&[path]);
    }

    pub fn set_query(&mut self, query: Option<&[u8]>) {
        self.query = query.map(|query| self.fields.append(&[query]));
    }

    /// Length of [`encode`](Self::encode)'s output.
    pub fn encoded_len(&self) -> usize {
        let target = self.path.len as usize + self.query.map_or(0, |query| query.len as usize + 1);
        self.method_name.len as usize + 1 + target + " HTTP/1.1\r\n".len() + self.fields.encoded_len() + 2
    }

    /// Writes the head as HTTP/1.1 into `out`, whose length must be [`encoded_len`](Self::encoded_len).
    pub fn encode(&self, out: &mut [u8]) {
        let mut writer = Writer { out, at: 0 };
        writer.put(self.method_name());
        writer.put(b" ");
        writer.put(self.path());
        if let Some(query) = self.query() {
            writer.put(b"?");
            writer.put(query);
        }
        writer.put(b" HTTP/1.1\r\n");
        writer.put_fields(&self.fields);
    }
}

/// A response's head.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    pub version: Version,
    pub status: u16,
    /// As the upstream wrote it; may be empty.
    pub reason: Span,
    pub fields: Fields,
}

impl ResponseHead {
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = ResponseHead { fields, ..ResponseHead::default() };
    }

    pub fn reason(&self) -> &[u8] {
        self.reason.of(&self.fields.bytes)
    }

    /// Length of [`encode`](Self::encode)'s output.
    pub fn encoded_len(&self) -> usize {
        "HTTP/1.1 200 ".len() + self.reason.len as usize + 2 + self.fields.encoded_len() + 2
    }

    /// Writes the head as HTTP/1.1 into `out`, whose length must be [`encoded_len`](Self::encoded_len).
    pub fn encode(&self, out: &mut [u8]) {
        let mut writer = Writer { out, at: 0 };
        writer.put(b"HTTP/1.1 ");
        let status = self.status;
        writer.put(&[b'0' + (status / 100 % 10) as u8, b'0' + (status / 10 % 10) as u8, b'0' + (status % 10) as u8, b' ']);
        writer.put(self.reason());
        writer.put(b"\r\n");
        writer.put_fields(&self.fields);
    }
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    fn put(&mut self, piece: &[u8]) {
        self.out[self.at..self.at + piece.len()].copy_from_slice(piece);
        self.at += piece.len();
    }

    /// Most lines stand in the buffer as they are sent, one behind the other: a run of them is one copy.
    fn put_fields(&mut self, fields: &Fields) {
        let bytes = &fields.bytes;
        let mut run = 0..0;
        for field in fields.list.iter().filter(|field| field.id != HeaderId::Removed) {
            match field.line(bytes) {
                Some(line) if line.start == run.end => run.end = line.end,
                Some(line) => {
                    self.put(&bytes[run]);
                    run = line;
                }
                None => {
                    self.put(&bytes[run]);
                    run = 0..0;
                    for piece in [field.name.of(bytes), b": ", field.value.of(bytes), b"\r\n"] {
                        self.put(piece);
                    }
                }
            }
        }
        self.put(&bytes[run]);
        self.put(b"\r\n");
        debug_assert_eq!(self.at, self.out.len());
    }
}

macro_rules! header_ids {
    ($($id:ident $name:literal)*) => {
        /// Fields that some part of the program looks for. Comparing one byte is cheaper than comparing names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum HeaderId {
            Other,
            /// Not sent on; its place in the list stays.
            Removed,
            $($id,)*
        }

        impl HeaderId {
            /// Every well-known name with its id, in lower case.
            pub const NAMES: &'static [(&'static str, HeaderId)] = &[$(($name, HeaderId::$id),)*];
        }
    };
}

header_ids! {
    Host "host"
    Connection "connection"
    ContentLength "content-length"
    TransferEncoding "transfer-encoding"
    KeepAlive "keep-alive"
    ProxyConnection "proxy-connection"
    Te "te"
    Trailer "trailer"
    Upgrade "upgrade"
    ProxyAuthenticate "proxy-authenticate"
    ProxyAuthorization "proxy-authorization"
    Http2Settings "http2-settings"
    Expect "expect"
    Date "date"
    Server "server"
    Via "via"
    XForwardedFor "x-forwarded-for"
    XForwardedProto "x-forwarded-proto"
    XForwardedHost "x-forwarded-host"
    XForwardedPort "x-forwarded-port"
    Forwarded "forwarded"
    XRealIp "x-real-ip"
    XRequestId "x-request-id"
    ContentType "content-type"
    ContentEncoding "content-encoding"
    AcceptEncoding "accept-encoding"
    Accept "accept"
    Cookie "cookie"
    SetCookie "set-cookie"
    UserAgent "user-agent"
    Referer "referer"
    Origin "origin"
    Authorization "authorization"
    CacheControl "cache-control"
    Location "location"
    Range "range"
    Vary "vary"
    ETag "etag"
    LastModified "last-modified"
}

impl HeaderId {
    #[inline]
    const fn bit(self) -> u64 {
        match self {
            HeaderId::Other | HeaderId::Removed => 0,
            id => 1 << (id as u8),
        }
    }

    /// RFC 9110 section 7.6.1, `Transfer-Encoding`, and the HTTP/2 upgrade field (RFC 9113 section 3.1).
    const HOP_BY_HOP: u64 = HeaderId::Connection.bit()
        | HeaderId::TransferEncoding.bit()
        | HeaderId::KeepAlive.bit()
        | HeaderId::ProxyConnection.bit()
        | HeaderId::Te.bit()
        | HeaderId::Upgrade.bit()
        | HeaderId::ProxyAuthenticate.bit()
        | HeaderId::ProxyAuthorization.bit()
        | HeaderId::Http2Settings.bit();

    /// What `Connection` may not name away.
    const PROTECTED: u64 = HeaderId::Host.bit()
        | HeaderId::ContentLength.bit()
        | HeaderId::ContentType.bit()
        | HeaderId::Authorization.bit()
        | HeaderId::Cookie.bit()
        | HeaderId::XForwardedFor.bit()
        | HeaderId::XForwardedProto.bit()
        | HeaderId::XForwardedHost.bit()
        | HeaderId::XForwardedPort.bit()
        | HeaderId::Forwarded.bit()
        | HeaderId::XRealIp.bit();

    /// The id of a field name, which must be a token, compared without case. Length and first letter leave at most two candidates.
    #[inline]
    pub fn of(name: &[u8]) -> HeaderId {
        let Some(first) = name.first() else { return HeaderId::Other };
        match (name.len(), first | 0x20) {
            (2, b't') if is(name, b"te") => HeaderId::Te,
            (3, b'v') if is(name, b"via") => HeaderId::Via,
            (4, b'h') if is(name, b"host") => HeaderId::Host,
            (4, b'd') if is(name, b"date") => HeaderId::Date,
            (4, b'v') if is(name, b"vary") => HeaderId::Vary,
            (4, b'e') if is(name, b"etag") => HeaderId::ETag,
            (5, b'r') if is(name, b"range") => HeaderId::Range,
            (6, b'a') if is(name, b"accept") => HeaderId::Accept,
            (6, b'c') if is(name, b"cookie") => HeaderId::Cookie,
            (6, b'e') if is(name, b"expect") => HeaderId::Expect,
            (6, b'o') if is(name, b"origin") => HeaderId::Origin,
            (6, b's') if is(name, b"server") => HeaderId::Server,
            (7, b'r') if is(name, b"referer") => HeaderId::Referer,
            (7, b't') if is(name, b"trailer") => HeaderId::Trailer,
            (7, b'u') if is(name, b"upgrade") => HeaderId::Upgrade,
            (8, b'l') if is(name, b"location") => HeaderId::Location,
            (9, b'f') if is(name, b"forwarded") => HeaderId::Forwarded,
            (9, b'x') if is(name, b"x-real-ip") => HeaderId::XRealIp,
            (10, b'c') if is(name, b"connection") => HeaderId::Connection,
            (10, b'k') if is(name, b"keep-alive") => HeaderId::KeepAlive,
            (10, b's') if is(name, b"set-cookie") => HeaderId::SetCookie,
            (10, b'u') if is(name, b"user-agent") => HeaderId::UserAgent,
            (12, b'c') if is(name, b"content-type") => HeaderId::ContentType,
            (12, b'x') if is(name, b"x-request-id") => HeaderId::XRequestId,
            (13, b'a') if is(name, b"authorization") => HeaderId::Authorization,
            (13, b'c') if is(name, b"cache-control") => HeaderId::CacheControl,
            (13, b'l') if is(name, b"last-modified") => HeaderId::LastModified,
            (14, b'c') if is(name, b"content-length") => HeaderId::ContentLength,
            (14, b'h') if is(name, b"http2-settings") => HeaderId::Http2Settings,
            (15, b'a') if is(name, b"accept-encoding") => HeaderId::AcceptEncoding,
            (15, b'x') if is(name, b"x-forwarded-for") => HeaderId::XForwardedFor,
            (16, b'c') if is(name, b"content-encoding") => HeaderId::ContentEncoding,
            (16, b'p') if is(name, b"proxy-connection") => HeaderId::ProxyConnection,
            (16, b'x') if is(name, b"x-forwarded-host") => HeaderId::XForwardedHost,
            (16, b'x') if is(name, b"x-forwarded-port") => HeaderId::XForwardedPort,
            (17, b't') if is(name, b"transfer-encoding") => HeaderId::TransferEncoding,
            (17, b'x') if is(name, b"x-forwarded-proto") => HeaderId::XForwardedProto,
            (18, b'p') if is(name, b"proxy-authenticate") => HeaderId::ProxyAuthenticate,
            (19, b'p') if is(name, b"proxy-authorization") => HeaderId::ProxyAuthorization,
            _ => HeaderId::Other,
        }
    }

    /// Lower case; empty for `Other` and `Removed`.
    pub fn name(self) -> &'static str {
        match (self as usize).checked_sub(2) {
            Some(position) => HeaderId::NAMES[position].0,
            None => "",
        }
    }
}

/// Whether a token is `expected`, which is in lower case. With the length known to the compiler this is a few wide instructions;
/// setting the bit that makes letters lower case maps no other token byte onto a letter, digit or `-`.
#[inline(always)]
fn is<const N: usize>(name: &[u8], expected: &[u8; N]) -> bool {
    let Some(name) = name.first_chunk::<N>() else { return false };
    let mut lower = *name;
    for byte in &mut lower {
        *byte |= 0x20;
    }
    lower == *expected
}

#[cfg(test)]
mod tests {
    use super::{Fields, HeaderId};

    #[test]
    fn every_well_known_name_is_recognised_in_any_case() {
        for (name, id) in HeaderId::NAMES {
            assert_eq!(HeaderId::of(name.as_bytes()), *id, "{name}");
            assert_eq!(HeaderId::of(name.to_ascii_uppercase().as_bytes()), *id, "{name}");
            assert_eq!(id.name(), *name);
            assert!((*id as u8) < 64, "the presence bits are a u64");
        }
        assert_eq!(HeaderId::of(b"x-other"), HeaderId::Other);
        assert_eq!(HeaderId::of(b""), HeaderId::Other);
    }

    #[test]
    fn hop_by_hop_fields_and_those_named_by_connection_go() {
        let check = |given: &[(&str, &str)], expected: &[&str]| {
            let mut fields = Fields::default();
            for (name, value) in given {
                fields.push(name.as_bytes(), value.as_bytes());
            }
            fields.remove_hop_by_hop();
            let left: Vec<String> = fields.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
            assert_eq!(left, expected);
        };
        check(&[("A", "1"), ("B", "2")], &["A", "B"]);
        check(&[("A", "1"), ("Connection", "close, a , X-B"), ("X-B", "2"), ("C", "3")], &["C"]);
        check(&[("Keep-Alive", "timeout=5"), ("Upgrade", "h2c"), ("TE", "trailers"), ("D", "")], &["D"]);
        check(
            &[("Host", "x"), ("Connection", "host, x-forwarded-for, cookie"), ("X-Forwarded-For", "1"), ("Cookie", "c")],
            &["Host", "X-Forwarded-For", "Cookie"],
        );
        check(
            &[("Content-Length", "3"), ("Connection", "content-length"), ("Transfer-Encoding", "chunked")],
            &["Content-Length"],
        );
    }

    #[test]
    fn encoding_writes_every_kept_field_whatever_its_line_looks_like() {
        let mut head = super::ResponseHead { status: 200, ..super::ResponseHead::default() };
        head.reason = head.fields.append(&[b"OK"]);
        let raw = head.fields.append(&[b"A: 1\r\nB:2\r\nC:  3 \r\nD: 4\r\n"]).start as usize;
        for (name, value) in [(0..1, 3..4), (6..7, 8..9), (11..12, 15..16), (19..20, 22..23)] {
            let span = |range: std::ops::Range<usize>| super::Span::new(raw + range.start, raw + range.end);
            head.fields.index(span(name), span(value), HeaderId::Other);
        }
        head.fields.push(b"E", b"5");
        head.fields.push(b"F", b"6");
        head.fields.push(b"G", b"");
        let copied = head.fields.list[0].value;
        head.fields.push_copy(b"H", copied);
        head.fields.remove(b"F");
        let mut out = vec![0; head.encoded_len()];
        head.encode(&mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\nG: \r\nH: 1\r\n\r\n"
        );
    }

    #[test]
    fn set_replaces_and_remove_takes_all() {
        let mut fields = Fields::default();
        fields.push(b"X-A", b"1");
        fields.push(b"x-a", b"2");
        fields.push(b"Via", b"1.1 a");
        fields.set(b"x-A", b"3");
        assert_eq!(fields.all_named(b"X-a").collect::<Vec<_>>(), [b"3"]);
        assert!(fields.remove(b"VIA"));
        assert!(!fields.has(HeaderId::Via));
        assert_eq!(fields.get(HeaderId::Via), None);
    }
}
