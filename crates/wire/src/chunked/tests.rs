//! Chunked bodies, each decoded whole, byte by byte and in two pieces at every place.

use super::{CHUNK_EXTENSION_BYTES_MAX, ChunkedDecoder, Peer};
use crate::error::BodyError;
use crate::limits::HeadLimits;

/// Trailers are bounded as heads are.
const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 20_000, request_line_bytes_max: 10, fields_max: 70 };

/// What a body was, and how many bytes of the input it took.
#[derive(Debug, PartialEq, Eq)]
struct Body {
    payload: Vec<u8>,
    consumed: usize,
    finished: bool,
    trailers: Vec<(String, String)>,
}

/// Feeds the input in pieces that end at the given places.
fn decode(input: &[u8], ends: &[usize]) -> Result<Body, BodyError> {
    decode_of(Peer::Client, input, ends)
}

fn decode_of(peer: Peer, input: &[u8], ends: &[usize]) -> Result<Body, BodyError> {
    let mut decoder = ChunkedDecoder::new(peer, &LIMITS);
    let mut body = Body { payload: Vec::new(), consumed: 0, finished: false, trailers: Vec::new() };
    let mut start = 0;
    for end in ends.iter().copied().chain([input.len()]) {
        let mut piece = input[start..end].to_vec();
        let decoded = decoder.decode_in_place(&mut piece)?;
        assert!(decoded.payload.end <= decoded.consumed, "a payload lies in what was consumed");
        assert_eq!(piece[decoded.consumed..], input[start + decoded.consumed..end], "what was not consumed is untouched");
        assert_eq!(decoded.finished, decoder.is_finished());
        body.payload.extend_from_slice(&piece[decoded.payload]);
        body.consumed += decoded.consumed;
        if decoded.finished {
            break;
        }
        assert_eq!(decoded.consumed, end - start, "only the end of the body leaves something");
        start = end;
    }
    body.finished = decoder.is_finished();
    if let Some(trailers) = decoder.take_trailers() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        body.trailers = trailers.iter().map(|(name, value)| (text(name), text(value))).collect();
        assert!(!body.trailers.is_empty(), "no trailers is None");
    }
    Ok(body)
}

fn decode_in_every_way(input: &[u8]) -> Result<Body, BodyError> {
    let whole = decode(input, &[]);
    let single: Vec<usize> = (1..input.len()).collect();
    assert_eq!(decode(input, &single), whole, "byte by byte: {}", input.escape_ascii());
    if input.len() < 500 {
        for end in 0..input.len() {
            assert_eq!(decode(input, &[end]), whole, "cut at {end}: {}", input.escape_ascii());
        }
    }
    whole
}

fn check(input: &str, payload: &str, rest: &str, trailers: &[(&str, &str)]) {
    let trailers = trailers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let consumed = input.len() - rest.len();
    let expected = Body { payload: payload.as_bytes().to_vec(), consumed, finished: true, trailers };
    assert_eq!(decode_in_every_way(input.as_bytes()), Ok(expected), "{}", input.escape_debug());
}

#[test]
fn chunks_become_one_payload() {
    check("0\r\n\r\n", "", "", &[]);
    check("5\r\nhello\r\n0\r\n\r\n", "hello", "", &[]);
    check("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET /", "hello world", "GET /", &[]);
    check("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n\r\n", "abc", "\r\n", &[]);
    check("00A\r\n0123456789\r\n000\r\n\r\n", "0123456789", "", &[]);
    check("a\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n\r\n\r\n\r\n", "", &[]);
    check("000000000000001\r\nx\r\n000000000000000\r\n\r\n", "x", "", &[]);
}

#[test]
fn extensions_are_skipped() {
    check("5;a\r\nhello\r\n0;b=c\r\n\r\n", "hello", "", &[]);
    check("1;a=b;c=\"d e\";f\r\nx\r\n0\r\n\r\n", "x", "", &[]);
    check("1;a=\"\\\"\\\\;\t\u{fc}\"\r\nx\r\n0;a=\"\"\r\n\r\n", "x", "", &[]);
}

/// RFC 9112 section 7.1.1.
#[test]
fn blanks_around_semicolons_and_equals_signs_are_taken() {
    check("1 ;a\r\nx\r\n0\t; \tb\r\n\r\n", "x", "", &[]);
    check("1; a =b\r\nx\r\n0;a= b ;c = \"d\" ; e\r\n\r\n", "x", "", &[]);
}

/// Sizes filled up with blanks.
#[test]
fn blanks_before_the_line_end_are_taken_from_upstreams_only() {
    for line in ["5 \r\n", "5\t  \r\n", "5;a \r\n", "5;a=b\t\r\n", "5 ; a = \"b\" \r\n"] {
        let body = format!("{line}hello\r\n0  \r\n\r\n");
        let of = |peer| decode_of(peer, body.as_bytes(), &[]);
        assert!(of(Peer::Upstream).is_ok_and(|body| body.finished && body.payload == b"hello"), "{}", body.escape_debug());
        assert_eq!(of(Peer::Client), Err(BodyError::BadChunkExtension), "{}", body.escape_debug());
    }
    for line in ["5 \n", "5; \r\n", "5;a= \r\n", " 5\r\n", "5 \rx"] {
        let body = format!("{line}hello\r\n0\r\n\r\n");
        assert!(decode_of(Peer::Upstream, body.as_bytes(), &[]).is_err(), "{}", body.escape_debug());
    }
}

#[test]
fn unfinished_bodies_ask_for_more() {
    let input = "5\r\nhello\r\n0\r\nX: y\r\n\r\n";
    for end in 0..input.len() {
        let body = decode_in_every_way(&input.as_bytes()[..end]).expect(input);
        assert!(!body.finished && body.trailers.is_empty());
        assert_eq!(body.consumed, end);
    }
}

#[test]
fn everything_that_two_parsers_could_read_in_two_ways_is_refused() {
    let check = |input: &str, expected: BodyError| {
        assert_eq!(decode_in_every_way(input.as_bytes()), Err(expected), "{}", input.escape_debug());
    };
    for size in [
        "\r\n",
        "\n",
        " 5\r\n",
        "+5\r\n",
        "-5\r\n",
        "0x5\r\n",
        "g\r\n",
        "5\n",
        "5\r\r",
        "5\rx",
        "5\0",
        "5_0\r\n",
        ";a\r\n",
        "\u{ff15}\r\n",
        "5\u{b}\r\n",
        "5,\r\n",
    ] {
        check(size, BodyError::BadChunkSize);
        check(&format!("1\r\na\r\n{size}"), BodyError::BadChunkSize);
    }
    check("0000000000000000\r\n", BodyError::ChunkTooLarge);
    check("ffffffffffffffff\r\n", BodyError::ChunkTooLarge);
    check("10000000000000000000000005\r\nhello\r\n", BodyError::ChunkTooLarge);
    for extension in [
        ";\r\n",
        ";a \r\n",
        ";a\n",
        ";a=\r\n",
        " \r\n",
        "\t \r\n",
        " ; \r\n",
        ";a =\r\n",
        ";a b\r\n",
        " a\r\n",
        " 5\r\n",
        ";a=b c\r\n",
        ";a=\"b\" c\r\n",
        ";a =b=c\r\n",
        " =b\r\n",
        ";a=b =c\r\n",
        ";a\u{b};b\r\n",
        " \n",
        ";a=b \r\n",
        ";=b\r\n",
        ";a=\"\n\"\r\n",
        ";a=\"\r\n\"\r\n",
        ";a=\"b\"c\r\n",
        ";a=\"\\\n\"\r\n",
        ";a=\"\0\"\r\n",
        ";a=\"\u{7f}\"\r\n",
        ";a=b=c\r\n",
        ";;\r\n",
        ";a\0\r\n",
        ";\u{fc}\r\n",
        ";a=\u{fc}\r\n",
        ";(\r\n",
    ] {
        check(&format!("5{extension}hello\r\n"), BodyError::BadChunkExtension);
    }
    check("5;a\rx", BodyError::BadChunkSize);
    for end in ["\n", "x", "\rx", "\r\r\n", "0\r\n\r\n", " \r\n", "\0"] {
        check(&format!("5\r\nhello{end}"), BodyError::BadChunkEnd);
    }
    for trailers in [
        "\r\r\n",
        "\rX: y\r\n\r\n",
        "\n\n",
        "X: y\n\n",
        "X: y\r\n\n",
        "X\r\n\r\n",
        "X : y\r\n\r\n",
        ": y\r\n\r\n",
        " X: y\r\n\r\n",
        "X: y\r\n z\r\n\r\n",
        "X: \0\r\n\r\n",
        "X: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        check(&format!("1\r\na\r\n0\r\n{trailers}"), BodyError::BadTrailer);
    }
}

#[test]
fn extensions_are_bounded_over_the_whole_message() {
    let chunk_with = |extension_bytes: usize| format!("1;{}\r\na\r\n", "x".repeat(extension_bytes - 1));
    let most = chunk_with(96).repeat(CHUNK_EXTENSION_BYTES_MAX as usize / 96 - 1);
    let left = CHUNK_EXTENSION_BYTES_MAX as usize % 96 + 96;
    let body = format!("{most}{}0\r\n\r\n", chunk_with(left));
    assert!(decode_in_every_way(body.as_bytes()).is_ok_and(|body| body.finished));
    let body = format!("{most}{}0\r\n\r\n", chunk_with(left + 1));
    assert_eq!(decode_in_every_way(body.as_bytes()), Err(BodyError::ChunkExtensionsTooLarge));
}

#[test]
fn trailers_are_kept_when_they_change_nothing() {
    check("0\r\nGrpc-Status: 0\r\nX-Sum:  abc \r\n\r\nrest", "", "rest", &[("Grpc-Status", "0"), ("X-Sum", "abc")]);
    check("1\r\na\r\n0\r\nX:\r\n\r\n", "a", "", &[("X", "")]);
    for name in [
        "content-length",
        "Transfer-Encoding",
        "Host",
        "Connection",
        "TE",
        "Trailer",
        "Upgrade",
        "Authorization",
        "Proxy-Authorization",
        "Cookie",
        "Set-Cookie",
        "Content-Type",
        "Content-Encoding",
        "Content-Range",
        "Cache-Control",
        "Expires",
        "X-Forwarded-For",
        "Keep-Alive",
        "Location",
        "WWW-Authenticate",
    ] {
        check(&format!("0\r\n{name}: 1\r\n\r\n"), "", "", &[]);
        check(&format!("0\r\nA: b\r\n{name}: 1\r\nC: d\r\n\r\n"), "", "", &[("A", "b"), ("C", "d")]);
    }
}

#[test]
fn trailers_are_bounded() {
    let of_bytes = |len: usize| format!("0\r\nX: {}\r\n\r\n", "x".repeat(len - "X: \r\n\r\n".len()));
    assert!(decode(of_bytes(LIMITS.head_bytes_max).as_bytes(), &[]).is_ok_and(|body| body.finished));
    assert_eq!(decode(of_bytes(LIMITS.head_bytes_max + 1).as_bytes(), &[]), Err(BodyError::TrailersTooLarge));
    let endless = format!("0\r\nX: {}", "x".repeat(LIMITS.head_bytes_max));
    assert_eq!(decode_in_every_way(endless.as_bytes()), Err(BodyError::TrailersTooLarge));
    let of_fields = |count: usize| format!("0\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert!(decode(of_fields(LIMITS.fields_max).as_bytes(), &[]).is_ok_and(|body| body.trailers.len() == LIMITS.fields_max));
    assert_eq!(decode(of_fields(LIMITS.fields_max + 1).as_bytes(), &[]), Err(BodyError::TrailersTooLarge));
}
