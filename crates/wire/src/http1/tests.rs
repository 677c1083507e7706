//! Heads that are read and heads that are refused, each in one piece and in two at every place.

use super::{
    BodyFraming, Parsed, append_origin_form, expects_continue, find_head_end, has_token, keep_alive_request, keep_alive_response,
    keep_alive_timeout_seconds, parse_request, parse_response, request_framing, response_framing, switched_protocol,
    upgrade_protocol,
};
use crate::error::HeadError;
use crate::head::{Fields, HeaderId, Method, RequestHead, ResponseHead, Version};
use crate::limits::HeadLimits;

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 1000, request_line_bytes_max: 200, fields_max: 10 };

/// Parses the input whole, and every beginning of it. Beginnings of a good head are partial; those of a bad one are
/// partial up to some place and refused, for whatever reason shows first, from there on.
fn request(input: &[u8]) -> Result<Option<RequestHead>, HeadError> {
    let mut head = RequestHead::default();
    let whole = parse_request(input, &LIMITS, &mut head);
    let mut was_refused = false;
    for end in 0..input.len() {
        let mut head = RequestHead::default();
        let part = parse_request(&input[..end], &LIMITS, &mut head);
        let context = || format!("{} at {end}: {part:?}", input.escape_ascii());
        match whole {
            Ok(Parsed::Complete { consumed }) if end >= consumed => assert_eq!(part, whole, "{}", context()),
            Ok(_) => assert_eq!(part, Ok(Parsed::Partial), "{}", context()),
            Err(_) => {
                assert!(!matches!(part, Ok(Parsed::Complete { .. })), "{}", context());
                assert!(!was_refused || part.is_err(), "what was refused stays refused; {}", context());
                was_refused = part.is_err();
            }
        }
    }
    Ok((whole? != Parsed::Partial).then_some(head))
}

fn whole_request(input: &str) -> RequestHead {
    request(input.as_bytes()).expect(input).expect(input)
}

fn response(input: &[u8]) -> Result<Option<ResponseHead>, HeadError> {
    let mut head = ResponseHead::default();
    let whole = parse_response(input, &LIMITS, &mut head);
    if let Ok(Parsed::Complete { consumed }) = whole {
        for end in 0..consumed {
            let part = parse_response(&input[..end], &LIMITS, &mut ResponseHead::default());
            assert_eq!(part, Ok(Parsed::Partial), "{} at {end}", input.escape_ascii());
        }
    }
    Ok((whole? != Parsed::Partial).then_some(head))
}

fn list(fields: &Fields) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    fields.iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[test]
fn a_request_is_taken_apart() {
    let input = b"POST /a/b?c=d HTTP/1.1\r\nHost: example.com\r\nX-Empty:\r\nX-Odd:\t a\tb  \r\ncontent-length: 3\r\n\r\nabcGET";
    let mut head = RequestHead::default();
    let parsed = parse_request(input, &LIMITS, &mut head);
    let consumed = input.len() - "abcGET".len();
    assert_eq!(parsed, Ok(Parsed::Complete { consumed }));
    assert_eq!(head.fields.bytes, input[..consumed], "one copy, nothing else");
    assert_eq!((head.method, head.method_name(), head.version), (Method::Post, &b"POST"[..], Version::Http11));
    assert_eq!((head.path(), head.query(), head.authority()), (&b"/a/b"[..], Some(&b"c=d"[..]), &b"example.com"[..]));
    let expected = [("Host", "example.com"), ("X-Empty", ""), ("X-Odd", "a\\tb"), ("content-length", "3")];
    assert_eq!(list(&head.fields), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(head.fields.get(HeaderId::ContentLength), Some(&b"3"[..]));
}

#[test]
fn a_head_is_used_again_without_allocating() {
    let input = b"GET /%41 HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
    let mut head = RequestHead::default();
    parse_request(input, &LIMITS, &mut head).expect("a good head");
    let before =
        (head.fields.bytes.as_ptr(), head.fields.list.as_ptr(), head.fields.bytes.capacity(), head.fields.list.capacity());
    for _ in 0..3 {
        parse_request(input, &LIMITS, &mut head).expect("a good head");
        assert_eq!(head.fields.list.len(), 2);
    }
    let after =
        (head.fields.bytes.as_ptr(), head.fields.list.as_ptr(), head.fields.bytes.capacity(), head.fields.list.capacity());
    assert_eq!(before, after);
}

#[test]
fn targets_become_authority_path_and_query() {
    let check = |line: &str, host: &str, (authority, path, query): (&str, &str, Option<&str>)| {
        let host_line = if host.is_empty() { String::new() } else { format!("Host: {host}\r\n") };
        let version = if host.is_empty() { "1.0" } else { "1.1" };
        let head = whole_request(&format!("{line} HTTP/{version}\r\n{host_line}\r\n"));
        let found = (head.authority(), head.path(), head.query());
        assert_eq!(found, (authority.as_bytes(), path.as_bytes(), query.map(str::as_bytes)), "{line}");
    };
    check("GET /", "a", ("a", "/", None));
    check("GET /", "", ("", "/", None));
    check("GET /?", "a", ("a", "/", Some("")));
    check("GET /a?b?c/../d", "a", ("a", "/a", Some("b?c/../d")));
    check("GET //a//b", "a", ("a", "//a//b", None));
    check("GET /a/../%7e%2f?%7e", "a", ("a", "/~%2F", Some("%7e")));
    // Queries are the application's: percent signs in them mean what it says they mean.
    check("GET /?sale=50%&x=%u00e4&hash=%00%ff", "a", ("a", "/", Some("sale=50%&x=%u00e4&hash=%00%ff")));
    check("GET http://a/b?c", "A:80", ("a", "/b", Some("c")));
    check("GET HTTP://a:80/b/./c", "a", ("a:80", "/b/c", None));
    check("GET https://a", "a:443", ("a", "/", None));
    check("GET hTTps://a?b", "a", ("a", "/", Some("b")));
    check("GET http://[::1]:8080/", "[::1]:8080", ("[::1]:8080", "/", None));
    check("GET http://a/", "", ("a", "/", None));
    check("OPTIONS *", "a", ("a", "*", None));
    check("OPTIONS /x", "a", ("a", "/x", None));
    check("OPTIONS http://a", "a", ("a", "*", None));
    check("OPTIONS http://a/", "a", ("a", "/", None));
    check("CONNECT a:443", "a:443", ("a:443", "", None));
    check("CONNECT [::1]:443", "[::1]", ("[::1]:443", "", None));
    check("PURGE /x", "a", ("a", "/x", None));
    check("M-SEARCH /", "[::1]:80", ("[::1]:80", "/", None));
}

#[test]
fn unusual_but_good_requests_are_read() {
    for input in [
        "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "get / HTTP/1.1\r\nhOST:a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:   a\t \r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~09azAZ: \u{fc}\u{ff}\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: \"<>[]{}()@,;:\\/?=\r\n\r\n",
        "GET /\"<>\\^`{|} HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        whole_request(input);
    }
}

#[test]
fn each_strictness_class_has_its_refusal() {
    let check = |input: &str, expected: HeadError| {
        assert_eq!(request(input.as_bytes()).map(|head| head.is_some()), Err(expected), "{}", input.escape_debug());
    };
    // Line ends.
    check("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::BareLf);
    check("GET / HTTP/1.1\nHost: a\r\n\r\n", HeadError::BareLf);
    check("GET / HTTP/1.1\r\nHost: a\n\r\n", HeadError::BareLf);
    check("GET / HTTP/1.1\r\nHost: a\r\n\n", HeadError::BareLf);
    check("GET / HTTP/1.1\r\nHost: a\r\nX\n: y\r\n\r\n", HeadError::BareLf);
    check("GET\n/ HTTP/1.1\r\n\r\n", HeadError::BareLf);
    check("GET /\n", HeadError::BareLf);
    check("GET /%\n", HeadError::BareLf);
    check("GET \n", HeadError::BareLf);
    check("GET / HTTP\n", HeadError::BareLf);
    check("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::BadMethod);
    check("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::BadMethod);
    check("GET / HTTP/1.1\rHost: a\r\n\r\n", HeadError::BadVersion);
    check("GET / HTTP/1.1\r\nHost: a\r\rX: y\r\n\r\n", HeadError::BadFieldValue);
    check("GET / HTTP/1.1\r\nHost: a\r\n\rX: y\r\n\r\n", HeadError::BadFieldName);
    // Methods and versions.
    check(" GET / HTTP/1.1\r\n\r\n", HeadError::BadMethod);
    check("G(T / HTTP/1.1\r\n\r\n", HeadError::BadMethod);
    check("GET\t/ HTTP/1.1\r\n\r\n", HeadError::BadMethod);
    check("\u{16}\u{3}\u{1}", HeadError::BadMethod);
    check("GET /\r\n\r\n", HeadError::BadVersion);
    check("GET / \r\n\r\n", HeadError::BadVersion);
    check("GET / HTTP/1.1 \r\n\r\n", HeadError::BadVersion);
    check("GET / http/1.1\r\n\r\n", HeadError::BadVersion);
    check("GET / HTTP/11\r\n\r\n", HeadError::BadVersion);
    check("GET / HTTP/1.10\r\n\r\n", HeadError::BadVersion);
    check("GET /  HTTP/1.1\r\n\r\n", HeadError::BadVersion);
    check("GET / x HTTP/1.1\r\n\r\n", HeadError::BadVersion);
    check("GET / HTTP/1.2\r\n\r\n", HeadError::UnsupportedVersion);
    check("GET / HTTP/2.0\r\n\r\n", HeadError::UnsupportedVersion);
    check("GET / HTTP/0.9\r\n\r\n", HeadError::UnsupportedVersion);
    // Targets.
    check("GET  / HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET a HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET * HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("OPTIONS ** HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("PRI * HTTP/2.0\r\n\r\n", HeadError::BadTarget);
    check("GET ?a HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET example.com:80 HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET /a#b HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET /?a#b HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET /\t HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET /\0 HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET /\u{7f} HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET /\u{fc} HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET /?\u{fc} HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET ftp://a/ HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET http:/a HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET httpx://a HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET http://a#b HTTP/1.1\r\n\r\n", HeadError::BadTarget);
    check("GET http:// HTTP/1.1\r\n\r\n", HeadError::BadAuthority);
    check("GET http:///a HTTP/1.1\r\n\r\n", HeadError::BadAuthority);
    check("GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::BadAuthority);
    check("GET http://user:password@a/ HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::BadAuthority);
    check("GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::BadAuthority);
    check("CONNECT a HTTP/1.1\r\n\r\n", HeadError::BadAuthority);
    check("CONNECT /a HTTP/1.1\r\n\r\n", HeadError::BadAuthority);
    check("CONNECT http://a:80 HTTP/1.1\r\n\r\n", HeadError::BadAuthority);
    check("GET /% HTTP/1.1\r\n\r\n", HeadError::BadPercentEncoding);
    check("GET /%4 HTTP/1.1\r\n\r\n", HeadError::BadPercentEncoding);
    check("GET /%zz HTTP/1.1\r\n\r\n", HeadError::BadPercentEncoding);
    check("GET /%00 HTTP/1.1\r\n\r\n", HeadError::BadPercentEncoding);
    check("GET http://a/%00 HTTP/1.1\r\n\r\n", HeadError::BadPercentEncoding);
    check("GET /../a HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::PathEscapesRoot);
    check("GET http://a/%2e%2E HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::PathEscapesRoot);
    // Field lines.
    check("GET / HTTP/1.1\r\n Host: a\r\n\r\n", HeadError::ObsFold);
    check("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", HeadError::ObsFold);
    check("GET / HTTP/1.1\r\nHost: a\r\n\tb: c\r\n\r\n", HeadError::ObsFold);
    check("GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n", HeadError::ObsFold);
    check("GET / HTTP/1.1\r\nHost : a\r\n\r\n", HeadError::SpaceBeforeColon);
    check("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", HeadError::SpaceBeforeColon);
    check("GET / HTTP/1.1\r\n: a\r\n\r\n", HeadError::BadFieldName);
    check("GET / HTTP/1.1\r\nHost\r\n\r\n", HeadError::BadFieldName);
    check("GET / HTTP/1.1\r\nHo(st: a\r\n\r\n", HeadError::BadFieldName);
    check("GET / HTTP/1.1\r\nH\u{f6}st: a\r\n\r\n", HeadError::BadFieldName);
    check("GET / HTTP/1.1\r\nTransfer-Encoding\u{b}: chunked\r\n\r\n", HeadError::BadFieldName);
    for control in (0..0x20).chain([0x7f]).filter(|byte| !b"\t\r\n".contains(byte)) {
        let input = format!("GET / HTTP/1.1\r\nHost: a\r\nX: y{}z\r\n\r\n", control as char);
        check(&input, HeadError::BadFieldValue);
    }
    // Hosts.
    check("GET / HTTP/1.1\r\n\r\n", HeadError::HostMissing);
    check("GET http://a/ HTTP/1.1\r\n\r\n", HeadError::HostMissing);
    check("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", HeadError::HostRepeated);
    check("GET / HTTP/1.0\r\nHost: a\r\nHOST: b\r\n\r\n", HeadError::HostRepeated);
    check(
        "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\nX: y\r\nauthorization: Bearer z\r\n\r\n",
        HeadError::AuthorizationRepeated,
    );
    check("GET / HTTP/1.1\r\nHost:\r\n\r\n", HeadError::BadAuthority);
    check("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", HeadError::BadAuthority);
    check("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", HeadError::BadAuthority);
    check("GET / HTTP/1.0\r\nHost: a@b\r\n\r\n", HeadError::BadAuthority);
    check("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", HeadError::TargetDisagreesWithHost);
    check("GET http://a/ HTTP/1.1\r\nHost: a:443\r\n\r\n", HeadError::TargetDisagreesWithHost);
    check("GET https://a/ HTTP/1.0\r\nHost: a:80\r\n\r\n", HeadError::TargetDisagreesWithHost);
    check("CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", HeadError::TargetDisagreesWithHost);
    check("CONNECT a:443 HTTP/1.1\r\nHost: a:80\r\n\r\n", HeadError::TargetDisagreesWithHost);
}

#[test]
fn limits_are_exact() {
    let check = |input: &str, expected: Result<bool, HeadError>| {
        assert_eq!(request(input.as_bytes()).map(|head| head.is_some()), expected, "{} bytes", input.len());
    };
    let line_of = |len: usize| format!("GET /{} HTTP/1.1", "a".repeat(len - "GET / HTTP/1.1".len()));
    check(&format!("{}\r\nHost: a\r\n\r\n", line_of(200)), Ok(true));
    check(&format!("\r\n{}\r\nHost: a\r\n\r\n", line_of(200)), Ok(true));
    check(&format!("{}\r\nHost: a\r\n\r\n", line_of(201)), Err(HeadError::RequestLineTooLong));
    check(&format!("GET /{}", "a".repeat(197)), Err(HeadError::RequestLineTooLong));
    check(&"A".repeat(201), Ok(false));
    check(&"A".repeat(202), Err(HeadError::RequestLineTooLong));

    let head_of = |len: usize| {
        let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
        format!("{start}{}\r\n\r\n", "x".repeat(len - start.len() - 4))
    };
    check(&head_of(1000), Ok(true));
    check(&head_of(1001), Err(HeadError::HeadTooLarge));
    check(&head_of(1002)[..999], Ok(false));
    check(&head_of(1002)[..1000], Err(HeadError::HeadTooLarge));

    let head_with = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1));
    check(&head_with(10), Ok(true));
    check(&head_with(11), Err(HeadError::TooManyFields));

    let mut head = ResponseHead::default();
    let answer = format!("HTTP/1.1 200 {}", "a".repeat(2000));
    assert_eq!(parse_response(answer.as_bytes(), &LIMITS, &mut head), Err(HeadError::HeadTooLarge));
}

#[test]
fn a_path_from_elsewhere_obeys_the_same_rules() {
    let check = |target: &str, expected: Result<(&str, Option<&str>), HeadError>| {
        let mut head = RequestHead::default();
        head.fields.push(b"x", b"y");
        let found = append_origin_form(&mut head, target.as_bytes()).map(|()| (head.path(), head.query()));
        assert_eq!(found, expected.map(|(path, query)| (path.as_bytes(), query.map(str::as_bytes))), "{target}");
    };
    check("/", Ok(("/", None)));
    check("/a/%2e%2e/b?c#", Err(HeadError::BadTarget));
    check("/a/%2e%2e/b?c%", Ok(("/b", Some("c%"))));
    check("/?", Ok(("/", Some(""))));
    check("", Err(HeadError::BadTarget));
    check("a", Err(HeadError::BadTarget));
    check("*", Err(HeadError::BadTarget));
    check("?a", Err(HeadError::BadTarget));
    check("/a b", Err(HeadError::BadTarget));
    check("/a?b c", Err(HeadError::BadTarget));
    check("/\u{fc}", Err(HeadError::BadTarget));
    check("/%", Err(HeadError::BadPercentEncoding));
    check("/%00", Err(HeadError::BadPercentEncoding));
    check("/a/../..", Err(HeadError::PathEscapesRoot));
}

#[test]
fn request_bodies_have_one_length() {
    let check = |method: &str, version: &str, lines: &[&str], expected: Result<BodyFraming, HeadError>| {
        let lines: String = lines.iter().flat_map(|line| [*line, "\r\n"]).collect();
        let target = if method == "CONNECT" { "a:1" } else { "/" };
        let head = whole_request(&format!("{method} {target} HTTP/{version}\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(request_framing(&head), expected, "{method} {version} {lines}");
    };
    check("GET", "1.1", &[], Ok(BodyFraming::None));
    check("POST", "1.0", &[], Ok(BodyFraming::None));
    check("POST", "1.1", &["Content-Length: 0"], Ok(BodyFraming::Length(0)));
    check("GET", "1.1", &["Content-Length: 12"], Ok(BodyFraming::Length(12)));
    check("POST", "1.0", &["Content-Length: 007"], Ok(BodyFraming::Length(7)));
    check("POST", "1.1", &["Content-Length: 999999999999999999"], Ok(BodyFraming::Length(999_999_999_999_999_999)));
    check("POST", "1.1", &["Transfer-Encoding: chunked"], Ok(BodyFraming::Chunked));
    check("POST", "1.1", &["transfer-encoding: CHUNKED"], Ok(BodyFraming::Chunked));
    for value in ["", "a", "1a", "+1", "-1", "1 2", "0x1", "1,", "1,,1", "1;", "1.0", "\u{b2}", "1000000000000000000"] {
        check("POST", "1.1", &[&format!("Content-Length: {value}")], Err(HeadError::BadContentLength));
    }
    check("POST", "1.1", &["Content-Length: 1", "Content-Length: 1"], Ok(BodyFraming::Length(1)));
    check("POST", "1.1", &["Content-Length: 1, 01"], Ok(BodyFraming::Length(1)));
    check("POST", "1.1", &["Content-Length: 1", "Content-Length: 2"], Err(HeadError::ContentLengthDisagrees));
    check("POST", "1.1", &["Content-Length: 1", "Transfer-Encoding: chunked"], Err(HeadError::LengthAndTransferEncoding));
    check("POST", "1.0", &["Content-Length: 1", "Transfer-Encoding: x"], Err(HeadError::LengthAndTransferEncoding));
    for value in [
        "",
        "chunked, chunked",
        "chunked,",
        "chunked, gzip",
        "gzip,, chunked",
        "chunked;a=b",
        "\"chunked\"",
        "gzip;q=1, chunked",
        "g zip",
    ] {
        check("POST", "1.1", &[&format!("Transfer-Encoding: {value}")], Err(HeadError::BadTransferEncoding));
    }
    for value in ["identity", "gzip", "gzip, chunked", "gzip ,\tbr , CHUNKED", "xchunked"] {
        check("POST", "1.1", &[&format!("Transfer-Encoding: {value}")], Err(HeadError::UnknownTransferCoding));
    }
    check("POST", "1.1", &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], Err(HeadError::BadTransferEncoding));
    check("POST", "1.1", &["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"], Err(HeadError::UnknownTransferCoding));
    check("POST", "1.0", &["Transfer-Encoding: chunked"], Err(HeadError::TransferEncodingInHttp10));
    check("TRACE", "1.1", &["Content-Length: 0"], Ok(BodyFraming::None));
    check("TRACE", "1.1", &["Content-Length: 1"], Err(HeadError::BodyNotAllowed));
    check("TRACE", "1.1", &["Transfer-Encoding: chunked"], Err(HeadError::BodyNotAllowed));
    check("CONNECT", "1.1", &["Content-Length: 1"], Err(HeadError::BodyNotAllowed));
}

#[test]
fn answers_are_read() {
    let check = |line: &str, version: Version, status: u16, reason: &[u8]| {
        let head = response(format!("{line}\r\nX: y\r\n\r\n").as_bytes()).expect(line).expect(line);
        assert_eq!((head.version, head.status, head.reason()), (version, status, reason), "{line}");
        assert_eq!(head.fields.all_named(b"x").collect::<Vec<_>>(), [b"y"]);
    };
    check("HTTP/1.1 200 OK", Version::Http11, 200, b"OK");
    check("HTTP/1.0 404 Not Found", Version::Http10, 404, b"Not Found");
    check("HTTP/1.1 204", Version::Http11, 204, b"");
    check("HTTP/1.1 204 ", Version::Http11, 204, b"");
    check("HTTP/1.1 100 Continue", Version::Http11, 100, b"Continue");
    check("HTTP/1.1 999 \t\u{fc}", Version::Http11, 999, "\t\u{fc}".as_bytes());

    let refused = |input: &str, expected: HeadError| {
        assert_eq!(response(input.as_bytes()).map(|head| head.is_some()), Err(expected), "{}", input.escape_debug());
    };
    refused("HTTP/1.1 200 OK\n\n", HeadError::BareLf);
    refused("HTTP/1.1 200\n", HeadError::BareLf);
    refused("HTTP/1.1\n", HeadError::BareLf);
    refused("HTTP/1.1 200 OK\r\nA: b\n\r\n", HeadError::BareLf);
    refused("HTTP/1.1 099 X\r\n\r\n", HeadError::BadStatus);
    refused("HTTP/1.1 20 OK\r\n\r\n", HeadError::BadStatus);
    refused("HTTP/1.1 2000 OK\r\n\r\n", HeadError::BadStatus);
    refused("HTTP/1.1 2x0 OK\r\n\r\n", HeadError::BadStatus);
    refused("HTTP/1.1  200 OK\r\n\r\n", HeadError::BadStatus);
    refused("HTTP/1.1 -20 OK\r\n\r\n", HeadError::BadStatus);
    refused("HTTP/1.1\t200 OK\r\n\r\n", HeadError::BadVersion);
    refused("HTTP/1.1\r\n\r\n", HeadError::BadVersion);
    refused("HTTP/2 200\r\n\r\n", HeadError::BadVersion);
    refused("HTTP/2.0 200 OK\r\n\r\n", HeadError::UnsupportedVersion);
    refused("ICY 200 OK\r\n\r\n", HeadError::BadVersion);
    refused("\r\nHTTP/1.1 200 OK\r\n\r\n", HeadError::BadVersion);
    refused("SSH-2.0-OpenSSH_9.2\r\n", HeadError::BadVersion);
    refused("HTTP/1.1 200 O\0K\r\n\r\n", HeadError::BadFieldValue);
    refused("HTTP/1.1 200 OK\rX: y\r\n\r\n", HeadError::BadFieldValue);
    refused("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", HeadError::ObsFold);
    refused("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", HeadError::SpaceBeforeColon);
    refused("HTTP/1.1 200 OK\r\nA: b\x01\r\n\r\n", HeadError::BadFieldValue);
}

#[test]
fn answer_bodies_depend_on_method_and_status() {
    let check = |method: Method, status: &str, lines: &[&str], expected: Result<BodyFraming, HeadError>| {
        let lines: String = lines.iter().flat_map(|line| [*line, "\r\n"]).collect();
        let text = format!("HTTP/{status} x\r\n{lines}\r\n");
        let head = response(text.as_bytes()).expect(&text).expect(&text);
        assert_eq!(response_framing(&head, method), expected, "{method:?} {text}");
    };
    let length = ["Content-Length: 5"];
    check(Method::Get, "1.1 200", &length, Ok(BodyFraming::Length(5)));
    check(Method::Get, "1.1 200", &["Content-Length: 0"], Ok(BodyFraming::Length(0)));
    check(Method::Get, "1.1 200", &[], Ok(BodyFraming::UntilClose));
    check(Method::Get, "1.0 200", &[], Ok(BodyFraming::UntilClose));
    check(Method::Get, "1.1 200", &["Transfer-Encoding: Chunked"], Ok(BodyFraming::Chunked));
    check(Method::Head, "1.1 200", &length, Ok(BodyFraming::None));
    check(Method::Head, "1.1 200", &["Transfer-Encoding: chunked"], Ok(BodyFraming::None));
    for status in ["1.1 100", "1.1 103", "1.1 204", "1.1 304"] {
        check(Method::Get, status, &length, Ok(BodyFraming::None));
    }
    check(Method::Get, "1.1 101", &[], Ok(BodyFraming::None));
    check(Method::Get, "1.1 101", &length, Err(HeadError::BadContentLength));
    check(Method::Get, "1.1 101", &["Transfer-Encoding: chunked"], Err(HeadError::BadTransferEncoding));
    // What has no body is held to the rules of what has one.
    for (method, status) in [(Method::Head, "1.1 200"), (Method::Get, "1.1 304"), (Method::Get, "1.1 204")] {
        check(method, status, &["Content-Length: 5", "Content-Length: 5, 5"], Ok(BodyFraming::None));
        check(method, status, &["Content-Length: 5", "Content-Length: 6"], Err(HeadError::ContentLengthDisagrees));
        for bad in ["Content-Length:", "Content-Length: 5x", "Content-Length: -5", "Content-Length: 0x5", "Content-Length: 5,"] {
            check(method, status, &[bad], Err(HeadError::BadContentLength));
        }
        check(method, status, &["Transfer-Encoding: gzip"], Err(HeadError::UnknownTransferCoding));
        check(method, status, &["Content-Length: 5", "Transfer-Encoding: chunked"], Err(HeadError::LengthAndTransferEncoding));
    }
    check(Method::Get, "1.1 205", &length, Ok(BodyFraming::Length(5)));
    check(Method::Connect, "1.1 200", &length, Ok(BodyFraming::None));
    check(Method::Connect, "1.1 403", &length, Ok(BodyFraming::Length(5)));
    check(Method::Get, "1.1 200", &["Content-Length: 5", "Content-Length: 5"], Ok(BodyFraming::Length(5)));
    check(Method::Get, "1.1 200", &["Content-Length: 5, 5"], Ok(BodyFraming::Length(5)));
    check(Method::Get, "1.1 200", &["Content-Length: 5", "Content-Length: 6"], Err(HeadError::ContentLengthDisagrees));
    check(Method::Get, "1.1 200", &["Content-Length: 5,6"], Err(HeadError::ContentLengthDisagrees));
    check(Method::Get, "1.1 200", &["Content-Length: 5,"], Err(HeadError::BadContentLength));
    check(Method::Get, "1.1 200", &["Content-Length: x"], Err(HeadError::BadContentLength));
    check(Method::Get, "1.1 200", &["Content-Length:"], Err(HeadError::BadContentLength));
    check(Method::Get, "1.1 200", &["Transfer-Encoding: gzip"], Err(HeadError::UnknownTransferCoding));
    check(Method::Get, "1.1 200", &["Transfer-Encoding: gzip, chunked"], Err(HeadError::UnknownTransferCoding));
    check(Method::Get, "1.0 200", &["Transfer-Encoding: chunked"], Err(HeadError::TransferEncodingInHttp10));
    let both = ["Content-Length: 5", "Transfer-Encoding: chunked"];
    check(Method::Get, "1.1 200", &both, Err(HeadError::LengthAndTransferEncoding));
}

#[test]
fn a_switch_names_one_protocol_over_http11() {
    let check = |version: &str, lines: &str, expected: Option<&str>| {
        let text = format!("HTTP/{version} 101 x\r\n{lines}\r\n");
        let head = response(text.as_bytes()).expect(&text).expect(&text);
        assert_eq!(switched_protocol(&head), expected.map(str::as_bytes), "{text}");
    };
    check("1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n", Some("websocket"));
    check("1.1", "Connection: keep-alive, UPGRADE\r\nUpgrade: WebSocket\r\n", Some("WebSocket"));
    check("1.0", "Connection: Upgrade\r\nUpgrade: websocket\r\n", None);
    check("1.1", "Connection: Upgrade\r\n", None);
    check("1.1", "Upgrade: websocket\r\n", None);
    check("1.1", "Connection: close\r\nUpgrade: websocket\r\n", None);
    check("1.1", "Connection: Upgrade\r\nUpgrade:\r\n", None);
    check("1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: tcp\r\n", None);
}

#[test]
fn connection_fields_say_what_becomes_of_the_connection() {
    let check = |version: &str, lines: &str, expected: bool| {
        let head = whole_request(&format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(keep_alive_request(&head), expected, "{version} {lines}");
        let text = format!("HTTP/{version} 200 OK\r\n{lines}\r\n");
        let head = response(text.as_bytes()).expect(&text).expect(&text);
        assert_eq!(keep_alive_response(&head), expected, "{text}");
    };
    check("1.1", "", true);
    check("1.0", "", false);
    check("1.1", "Connection: keep-alive\r\n", true);
    check("1.0", "Connection: Keep-Alive\r\n", true);
    check("1.1", "Connection: close\r\n", false);
    check("1.1", "Connection: x, CLOSE ,y\r\n", false);
    check("1.1", "Connection: keep-alive\r\nConnection: close\r\n", false);
    check("1.0", "Connection: keep-alive, close\r\n", false);
    check("1.1", "Connection: closed\r\n", true);

    let upgrade = |version: &str, lines: &str, expected: Option<&str>| {
        let head = whole_request(&format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(upgrade_protocol(&head), expected.map(str::as_bytes), "{version} {lines}");
    };
    upgrade("1.1", "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n", Some("websocket"));
    upgrade("1.0", "Connection: Upgrade\r\nUpgrade: websocket\r\n", None);
    upgrade("1.1", "Connection: keep-alive\r\nUpgrade: websocket\r\n", None);
    upgrade("1.1", "Connection: upgrade\r\n", None);
    upgrade("1.1", "Connection: upgrade\r\nUpgrade:\r\n", None);
    upgrade("1.1", "Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n", Some("a"));
    upgrade("1.1", "Connection: upgrade\r\nUpgrade: ,a/1.0 ,\t WebSocket,b\r\n", Some("WebSocket"));
    upgrade("1.1", "Connection: upgrade\r\nUpgrade: h2c, , a b, a/, /b, c/d/e, IRC/6.9, b\r\n", Some("IRC/6.9"));
    upgrade("1.1", "Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n", Some("websocket"));
    upgrade("1.1", "Connection: upgrade\r\nUpgrade: H2C,HTTP/2.0,tls/1.3,h2\r\n", None);
    upgrade("1.1", "Connection: upgrade\r\nUpgrade: \"websocket\"\r\n", None);

    let expects = |version: &str, lines: &str, expected: bool| {
        let head = whole_request(&format!("POST / HTTP/{version}\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(expects_continue(&head), expected, "{version} {lines}");
    };
    expects("1.1", "Expect: 100-Continue\r\n", true);
    expects("1.0", "Expect: 100-continue\r\n", false);
    expects("1.1", "Expect: x\r\n", false);
    expects("1.1", "", false);

    let timeout = |lines: &str, expected: Option<u64>| {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        let head = response(text.as_bytes()).expect(&text).expect(&text);
        assert_eq!(keep_alive_timeout_seconds(&head), expected, "{lines}");
    };
    timeout("Keep-Alive: timeout=5, max=1000\r\n", Some(5));
    timeout("Keep-Alive: max=1000,Timeout = 75\r\n", Some(75));
    timeout("Keep-Alive: max=1\r\nKeep-Alive: timeout=2\r\n", Some(2));
    timeout("Keep-Alive: timeout=\r\n", None);
    timeout("Keep-Alive: timeout\r\n", None);
    timeout("Keep-Alive: timeout=-1\r\n", None);
    timeout("", None);
}

#[test]
fn tokens_are_found_in_lists_without_case() {
    for (value, expected) in
        [("a", true), ("A", true), (" a ,b", true), ("b,\ta", true), ("", false), ("ab", false), ("b,,c", false), ("a b", false)]
    {
        assert_eq!(has_token(value.as_bytes(), b"a"), expected, "{value}");
    }
}

#[test]
fn the_end_of_a_head_is_found_from_wherever_the_search_goes_on() {
    let check = |input: &str, expected: Option<usize>| {
        let input = input.as_bytes();
        for end in 0..=input.len() {
            let found = find_head_end(&input[..end], 0);
            assert_eq!(found, expected.filter(|expected| *expected <= end), "{} at {end}", input.escape_ascii());
            if found.is_none() {
                assert_eq!(find_head_end(input, end), expected, "{} from {end}", input.escape_ascii());
            }
        }
    };
    check("", None);
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\nbody\r\n\r\n", Some(27));
    check("GET / HTTP/1.1\r\nHost: a\r\n", None);
    check("a\n\nb", Some(3));
    check("a\n\r\nb", Some(4));
    check("a\r\n\nb", Some(4));
    check("a\r\r\n\r\r\n", None);
    check("\n\n", Some(2));
}
