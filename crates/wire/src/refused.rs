//! What is known of a request that was refused before it was understood: method, path, query and host as they were
//! sent, for whoever logs it and for the answer to a HEAD. In every version of HTTP alike; nothing of it is good enough
//! to route by.

use crate::authority::parse_authority;
use crate::head::{Method, RequestHead, Span};
use crate::limits::HeadLimits;
use crate::scan::token_end;

/// Where the parts stand in the head's bytes, as far as they came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KnownParts {
    pub method: Option<Span>,
    pub target: Option<Span>,
    pub host: Option<Span>,
    /// A CONNECT that asks to speak something, which would be a GET over HTTP/1.1.
    pub has_protocol: bool,
}

impl KnownParts {
    /// Fills in what the head has not; what could be read stays as it was read.
    #[cold]
    pub fn fill(self, head: &mut RequestHead) {
        let bytes = head.fields.bytes.as_slice();
        let is_token = |span: &Span| span.len > 0 && token_end(span.of(bytes), 0) == span.len as usize;
        (head.method, head.method_name) = match self.method.filter(is_token) {
            Some(span) => (Method::of(span.of(bytes)), span),
            None => (Method::Other, Span::default()),
        };
        let (mut authority, mut path) = (None, None);
        match self.target {
            Some(target) if head.method == Method::Connect && !self.has_protocol => authority = Some(target),
            Some(target) => {
                let parts = parts_of(target, bytes);
                authority = parts.authority;
                path = Some((parts.path, parts.query));
            }
            None => {}
        }
        if head.authority.len == 0 {
            let of_host = |span: Span| parse_authority(span.of(bytes)).ok().map(|parsed| (span, parsed));
            if let Some((span, parsed)) = authority.and_then(of_host).or_else(|| self.host.and_then(of_host)) {
                let host_start = span.start + u32::from(parsed.is_ipv6);
                (head.authority, head.host) = (span, Span { start: host_start, len: parsed.host.len() as u32 });
            }
        }
        if let Some((path, query)) = path.filter(|_| head.path.len == 0) {
            (head.path, head.query) = (path, query);
        }
        if self.has_protocol && head.method == Method::Connect {
            head.become_get();
        }
    }
}

/// The request in the first bytes of a connection of HTTP/1, which are copied where the head has none yet.
#[cold]
pub(crate) fn keep_known_of_http1(input: &[u8], limits: &HeadLimits, head: &mut RequestHead) {
    let window = &input[..input.len().min(limits.head_bytes_max)];
    if head.fields.bytes.is_empty() {
        head.fields.bytes.extend_from_slice(window);
    }
    let start = if window.starts_with(b"\r\n") { 2 } else { 0 };
    let line_end = end_of_line(window, start);
    let shown_end = line_end.min(start + limits.request_line_bytes_max);
    let blank = |from: usize| window[from..shown_end].iter().position(|byte| *byte == b' ').map(|at| from + at);
    let mut known = KnownParts { host: host_in(window, line_end), ..KnownParts::default() };
    if let Some(method_end) = blank(start) {
        let target_start = method_end + 1;
        known.method = Some(Span::new(start, method_end));
        known.target = Some(Span::new(target_start, blank(target_start).unwrap_or(shown_end)));
    }
    known.fill(head);
}

fn end_of_line(window: &[u8], from: usize) -> usize {
    memchr::memchr2(b'\r', b'\n', &window[from..]).map_or(window.len(), |distance| from + distance)
}

/// The value of the first `Host` behind the request line.
fn host_in(window: &[u8], mut at: usize) -> Option<Span> {
    const NAME: &[u8] = b"host:";
    while let Some(distance) = memchr::memchr(b'\n', &window[at..]) {
        let start = at + distance + 1;
        at = start;
        if window[start..].get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)) {
            let (from, end) = (start + NAME.len(), end_of_line(window, start));
            let value = window[from..end].trim_ascii();
            let value_start = from + window[from..end].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            return Some(Span::new(value_start, value_start + value.len()));
        }
        if matches!(window[start..], [b'\n', ..] | [b'\r', b'\n', ..]) {
            return None;
        }
    }
    None
}

struct TargetParts {
    authority: Option<Span>,
    path: Span,
    query: Option<Span>,
}

/// Cuts a target that may be none.
fn parts_of(target: Span, bytes: &[u8]) -> TargetParts {
    const SCHEME_END: &[u8] = b"://";
    let (start, text) = (target.start as usize, target.of(bytes));
    let scheme = text.windows(SCHEME_END.len()).position(|three| three == SCHEME_END).filter(|at| !text[..*at].contains(&b'/'));
    let authority_start = scheme.map_or(0, |at| at + SCHEME_END.len());
    let is_delimiter = |byte: &u8| matches!(byte, b'/' | b'?' | b'#');
    let path_start = match scheme {
        Some(_) => text[authority_start..].iter().position(is_delimiter).map_or(text.len(), |at| authority_start + at),
        None => 0,
    };
    let query = text[path_start..].iter().position(|byte| *byte == b'?').map(|at| path_start + at);
    TargetParts {
        authority: scheme.map(|_| Span::new(start + authority_start, start + path_start)),
        path: Span::new(start + path_start, start + query.unwrap_or(text.len())),
        query: query.map(|at| Span::new(start + at + 1, start + text.len())),
    }
}

#[cfg(test)]
mod tests {
    use crate::h2::heads::RequestReader;
    use crate::h2::hpack::{Decoder, Encoder, PseudoHeader};
    use crate::head::{Method, RequestHead, Version};
    use crate::http1::parse_request;
    use crate::limits::HeadLimits;

    const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 400, request_line_bytes_max: 100, fields_max: 10 };

    /// `METHOD host path?query`
    fn shown(head: &RequestHead) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let query = head.query().map(|query| format!("?{}", text(query))).unwrap_or_default();
        format!("{} {} {}{query}", text(head.method_name()), text(head.authority()), text(head.path()))
    }

    #[test]
    fn of_http1_the_request_line_and_host_are_known() {
        let check = |input: &str, expected: &str| {
            let mut head = RequestHead::default();
            parse_request(input.as_bytes(), &LIMITS, &mut head).expect_err(input);
            assert_eq!(shown(&head), expected, "{}", input.escape_debug());
        };
        check("GET /a?b HTTP/1.1\r\nHost: a.test\r\nX Y: z\r\n\r\n", "GET a.test /a?b");
        check("GET /a?b HTTP/1.1\r\nX Y: z\r\nhOST:\ta.test:8080 \r\n\r\n", "GET a.test:8080 /a?b");
        check("GET /a?b HTTP/1.1\r\nX Y: z\r\n\r\nHost: of-a-body", "GET  /a?b");
        check("GET /a HTTP/1.1\nHost: a.test\n\n", "GET a.test /a");
        check("\r\nHEAD /%zz HTTP/1.1\r\nHost: a.test\r\n\r\n", "HEAD a.test /%zz");
        check("GET /../x HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET a.test /../x");
        check("GET /a/./b HTTP/1.1\r\n\r\n", "GET  /a/b");
        check("GET /a#b HTTP/1.1\r\nHost: a b\r\n\r\n", "GET  /a#b");
        check("GET /a HTTP/3.0\r\nHost: a.test\r\n\r\n", "GET a.test /a");
        check("GET ftp://a.test/x?y HTTP/1.1\r\n\r\n", "GET a.test /x?y");
        check("GET http://a.test?y HTTP/1.2\r\n\r\n", "GET a.test ?y");
        check("CONNECT a.test HTTP/1.1\r\n\r\n", "CONNECT a.test ");
        check("GET x HTTP/1.1\r\n\r\n", "GET  x");
        check("G\u{e9}T / HTTP/1.1\r\n\r\n", "  /");
        check("HELO\r\n", "  ");
        check(" / HTTP/1.1\r\n\r\n", "  /");
        check(&format!("GET /{}", "a".repeat(200)), &format!("GET  /{}", "a".repeat(95)));
        let large = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX: {}", "x".repeat(400));
        check(&large, "GET a.test /");
        let mut head = RequestHead::default();
        parse_request(b"\x16\x03\x01", &LIMITS, &mut head).expect_err("TLS");
        assert_eq!((head.method, head.version), (Method::Other, Version::Http11), "it is counted as none that is known");
    }

    #[test]
    fn of_http2_the_pseudo_headers_are_known() {
        let check = |fields: &[(PseudoHeader, &str)], expected: &str| {
            let (mut encoder, mut block, mut head) = (Encoder::new(), Vec::new(), RequestHead::default());
            let mut fields_out = encoder.block(&mut block);
            for (name, value) in fields {
                fields_out.pseudo(*name, value.as_bytes());
            }
            let reader = RequestReader { limits: &LIMITS, takes_protocol: false };
            let read = reader.read(&mut Decoder::new(4096), &block, true, &mut head).expect("the block can be decoded");
            read.expect_err(expected);
            assert_eq!((shown(&head).as_str(), head.version), (expected, Version::Http2), "{fields:?}");
        };
        let (method, path) = (PseudoHeader::Method, PseudoHeader::Path);
        let (scheme, authority) = (PseudoHeader::Scheme, PseudoHeader::Authority);
        check(&[(method, "GET"), (scheme, "https"), (authority, "a.test"), (path, "/a?b%zz#")], "GET a.test /a?b%zz#");
        check(&[(method, "GET"), (path, "/a?b"), (authority, "a.test")], "GET a.test /a?b");
        check(&[(path, "/a"), (authority, "a..b")], "  /a");
        check(&[(method, "G T"), (authority, "a.test")], " a.test ");
        check(&[(method, "CONNECT"), (PseudoHeader::Protocol, "websocket"), (path, "/a")], "GET  /a");
        check(&[(method, "CONNECT"), (scheme, "https"), (authority, "a.test:443")], "CONNECT a.test:443 ");
        let long = "x".repeat(400);
        check(&[(method, "GET"), (path, "/a"), (authority, &long)], "GET  /a");
    }
}
