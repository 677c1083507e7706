//! Message heads for every HTTP version: one byte buffer plus a small index of fields.
//! Parsing is in `http1`; this file is what the rest of the program reads and changes. A head is leased from its worker
//! and used again, so that a request allocates nothing.

use crate::authority::Authority;
use crate::error::HeadError;
pub use crate::header_id::HeaderId;
use crate::name_table::is_alike;
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
    /// Whether the buffer has the field's line as it is sent: `Name: value`, CR LF.
    is_line: bool,
}

impl Field {
    #[inline]
    fn line(&self) -> Option<std::ops::Range<usize>> {
        let line = self.name.start as usize..(self.value.start + self.value.len) as usize + 2;
        self.is_line.then_some(line)
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

/// Names in `Connection` that trailers are compared with. Nobody has more.
const NAMED_MAX: usize = 32;

/// Names of fields that are a connection's, as its peer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedByConnection(Vec<Box<[u8]>>);

impl NamedByConnection {
    /// Of a list that is too long, every name is taken to be.
    pub fn has(&self, name: &[u8]) -> bool {
        self.0.len() > NAMED_MAX || self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

impl Fields {
    /// Becomes what `other` is, in the memory that it has.
    pub fn copy_from(&mut self, other: &Fields) {
        self.bytes.clone_from(&other.bytes);
        self.list.clone_from(&other.list);
        self.present = other.present;
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.present = 0;
    }

    /// Bytes that the fields are, with their index.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + self.list.len() * size_of::<Field>()
    }

    /// Gives back what a long list has reserved and does not need. What is added to a head on its way fits in still.
    pub fn trim(&mut self) {
        const ADDED_BYTES: usize = 1024;
        const WORTH_BYTES: usize = 8 << 10;
        if self.bytes.capacity() > self.bytes.len() + ADDED_BYTES + WORTH_BYTES {
            self.bytes.shrink_to(self.bytes.len() + ADDED_BYTES);
        }
    }

    #[inline]
    pub fn has(&self, id: HeaderId) -> bool {
        self.present & id.bit() != 0
    }

    /// The error, where the field stands there more than once.
    #[inline]
    pub fn at_most_one(&self, id: HeaderId, error: HeadError) -> Result<(), HeadError> {
        if self.has(id) && self.list.iter().filter(|field| field.id == id).count() > 1 { Err(error) } else { Ok(()) }
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

    /// Whether the message belongs to a call of gRPC: `application/grpc`, with a format behind a plus or without.
    /// `application/grpc-web` is another protocol, which goes over any version of HTTP.
    pub fn is_grpc(&self) -> bool {
        const KIND: &[u8] = b"application/grpc";
        let kind = self.get(HeaderId::ContentType).and_then(|kind| kind.split_at_checked(KIND.len()));
        let ends = |rest: &[u8]| matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
        kind.is_some_and(|(kind, rest)| kind.eq_ignore_ascii_case(KIND) && ends(rest))
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

    /// Registers a field whose bytes are in the buffer already. `is_line`: as the line that is sent, `Name: value`, CR
    /// LF.
    #[inline]
    pub fn index(&mut self, name: Span, value: Span, id: HeaderId, is_line: bool) {
        self.present |= id.bit();
        self.list.push(Field { name, value, id, is_line });
    }

    /// Adds a field at the end. The caller answers for the bytes: a token as name, no control bytes in the value.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_parts(name, &[value]);
    }

    /// As [`push`](Self::push), with a value made of pieces.
    pub fn push_parts(&mut self, name: &[u8], value: &[&[u8]]) {
        let id = HeaderId::of(name);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        let value = self.append(value);
        self.end_line(start, value, id);
    }

    /// As [`push`](Self::push), for a well-known name.
    pub fn push_id(&mut self, id: HeaderId, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(id.line_start());
        let value = self.append(&[value]);
        self.end_line(start, value, id);
    }

    /// As [`push_id`](Self::push_id), with a value that is in the buffer already.
    pub fn push_copy(&mut self, id: HeaderId, value: Span) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(id.line_start());
        let value_start = self.bytes.len();
        self.bytes.extend_from_within(value.start as usize..(value.start + value.len) as usize);
        self.end_line(start, Span::new(value_start, self.bytes.len()), id);
    }

    /// As a line on the wire: encoding then copies runs of lines and not fields one by one.
    #[inline]
    fn end_line(&mut self, start: usize, value: Span, id: HeaderId) {
        self.bytes.extend_from_slice(b"\r\n");
        self.index(Span::new(start, value.start as usize - ": ".len()), value, id, true);
    }

    /// Copies pieces to the end of the buffer and says where they are.
    #[inline]
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

    /// Gives fields another value in their places: what `change` makes of id, name and value. Their bytes are at the
    /// end of the buffer then. The caller answers for those, as with [`push`](Self::push).
    pub fn change_values(&mut self, mut change: impl FnMut(HeaderId, &[u8], &[u8]) -> Option<Vec<u8>>) {
        for position in 0..self.list.len() {
            let Field { name, value, id, .. } = self.list[position];
            if id == HeaderId::Removed {
                continue;
            }
            let Some(changed) = change(id, name.of(&self.bytes), value.of(&self.bytes)) else { continue };
            let start = self.bytes.len();
            self.bytes.extend_from_within(name.start as usize..(name.start + name.len) as usize);
            self.bytes.extend_from_slice(b": ");
            let name = Span::new(start, start + name.len as usize);
            let value = self.append(&[&changed]);
            self.bytes.extend_from_slice(b"\r\n");
            self.list[position] = Field { name, value, id, is_line: true };
        }
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

    /// Removes fields of other names that CGI-like servers read as this one: `X_User` and `X.User` beside `X-User`.
    pub fn remove_look_alikes(&mut self, name: &[u8]) {
        for field in &mut self.list {
            let own = field.name.of(&self.bytes);
            if is_alike(own, name) && !own.eq_ignore_ascii_case(name) {
                field.id = HeaderId::Removed;
            }
        }
    }

    /// Removes the fields of this name in whatever spelling a server behind us may read as it.
    pub fn remove_spellings(&mut self, name: &[u8]) {
        self.remove(name);
        self.remove_look_alikes(name);
    }

    /// Removes every field whose name is one of those, in one pass.
    pub fn remove_where(&mut self, is_one: impl Fn(&[u8]) -> bool) {
        for field in self.list.iter_mut().filter(|field| field.id != HeaderId::Removed) {
            if is_one(field.name.of(&self.bytes)) {
                self.present &= !field.id.bit();
                field.id = HeaderId::Removed;
            }
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

    /// Removes the hop-by-hop fields (RFC 9110 section 7.6.1) and those that `Connection` names. `Transfer-Encoding`
    /// goes too: whoever sends the message on frames it anew. `Content-Length` stays, because it describes the content
    /// end to end. Fields that routing and framing rely on cannot be named away by `Connection` (the hop-by-hop abuse
    /// of `Connection: close, X-Forwarded-For`, or `Host`).
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

    /// What `Connection` names, beside what everybody writes there. `None`: nothing.
    pub fn named_by_connection(&self) -> Option<NamedByConnection> {
        let is_usual = |token: &&[u8]| {
            token.is_empty() || token.eq_ignore_ascii_case(b"close") || HeaderId::of(token).bit() & HeaderId::HOP_BY_HOP != 0
        };
        let tokens = self.all(HeaderId::Connection).flat_map(|value| value.split(|byte| *byte == b','));
        let mut names = tokens.map(<[u8]>::trim_ascii).filter(|token| !is_usual(token)).map(Box::from).peekable();
        names.peek()?;
        Some(NamedByConnection(names.take(NAMED_MAX + 1).collect()))
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
    /// The authority the request is for: of the absolute-form target or `:authority`, else `Host`. Empty in HTTP/1.0
    /// without `Host`.
    pub authority: Span,
    /// The authority without port and brackets.
    pub host: Span,
    pub fields: Fields,
}

impl RequestHead {
    /// Becomes what `other` is, in the memory that it has.
    pub fn copy_from(&mut self, other: &RequestHead) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.copy_from(&other.fields);
        let RequestHead { version, method, method_name, path, query, authority, host, fields: _ } = *other;
        *self = RequestHead { version, method, method_name, path, query, authority, host, fields };
    }

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

    /// Makes an extended CONNECT the request that it would be over HTTP/1.1 (RFC 8441 section 5), so that every rule
    /// that holds for one holds for the other.
    pub fn become_get(&mut self) {
        self.method = Method::Get;
        self.method_name = self.fields.append(&[b"GET"]);
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
            match field.line() {
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

#[cfg(test)]
mod tests {
    use super::{Fields, HeaderId};

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
    fn values_are_changed_in_their_places() {
        let mut head = super::ResponseHead { status: 200, ..super::ResponseHead::default() };
        for (name, value) in [("A", "1"), ("Location", "/x"), ("B", "2"), ("C", "3")] {
            head.fields.push(name.as_bytes(), value.as_bytes());
        }
        head.fields.remove(b"C");
        head.fields.change_values(|id, name, value| match (id, name) {
            (HeaderId::Location, _) => Some([b"/longer", value].concat()),
            (_, b"B") => Some(Vec::new()),
            (_, b"C") => panic!("it was removed"),
            _ => None,
        });
        let mut out = vec![0; head.encoded_len()];
        head.encode(&mut out);
        let expected = "HTTP/1.1 200 \r\nA: 1\r\nLocation: /longer/x\r\nB: \r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        assert_eq!(head.fields.get(HeaderId::Location), Some(&b"/longer/x"[..]));
    }

    #[test]
    fn encoding_writes_every_kept_field_whatever_its_line_looks_like() {
        let mut head = super::ResponseHead { status: 200, ..super::ResponseHead::default() };
        head.reason = head.fields.append(&[b"OK"]);
        let raw = head.fields.append(&[b"A: 1\r\nB:2\r\nC:  3 \r\nD: 4\r\n"]).start as usize;
        for (name, value, is_line) in [(0..1, 3..4, true), (6..7, 8..9, false), (11..12, 15..16, false), (19..20, 22..23, true)] {
            let span = |range: std::ops::Range<usize>| super::Span::new(raw + range.start, raw + range.end);
            head.fields.index(span(name), span(value), HeaderId::Other, is_line);
        }
        head.fields.push(b"E", b"5");
        head.fields.push(b"F", b"6");
        head.fields.push(b"G", b"");
        let copied = head.fields.list[0].value;
        head.fields.push_copy(HeaderId::Host, copied);
        head.fields.push_id(HeaderId::Date, b"now");
        head.fields.remove(b"F");
        let mut out = vec![0; head.encoded_len()];
        head.encode(&mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\nG: \r\nhost: 1\r\ndate: now\r\n\r\n"
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
