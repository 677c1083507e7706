//! Heads of answers, in rows; each is read whole and in small pieces.
//! Any fragmentation and any bytes are tried in the crate's `tests` folder.

use super::{AnswerError, AnswerHead, AnswerParser, FIELDS_MAX, HEAD_BYTES_MAX, Kind, Progress};

/// The head and where the body starts.
fn parse(bytes: &[u8], piece_bytes: usize) -> Result<Option<(AnswerHead, usize)>, AnswerError> {
    let mut parser = AnswerParser::new();
    let mut read = 0;
    for piece in bytes.chunks(piece_bytes) {
        let mut input = piece;
        let progress = parser.feed(&mut input)?;
        read += piece.len() - input.len();
        match progress {
            Progress::Complete(head) => return Ok(Some((head, read))),
            Progress::NeedMore => assert!(input.is_empty()),
        }
    }
    Ok(None)
}

fn complete(head: &str) -> AnswerHead {
    let text = format!("{head}body\n\nmore");
    for piece_bytes in [1, 2, 3, 7] {
        let (_, read) = parse(text.as_bytes(), piece_bytes).expect("a good head").expect("a whole head");
        assert_eq!(read, head.len(), "{head:?}");
    }
    parse(text.as_bytes(), text.len()).unwrap().unwrap().0
}

#[test]
fn the_status_is_what_the_script_says_or_follows_from_location() {
    let check = |head: &str, status: u16, reason: &str, kind: Kind| {
        let read = complete(head);
        assert_eq!((read.status(), read.kind()), (status, kind), "{head:?}");
        assert_eq!(read.reason(), reason.as_bytes(), "{head:?}");
    };
    check("Content-Type: text/plain\n\n", 200, "", Kind::Document);
    check("\r\n", 200, "", Kind::Document);
    check("\n", 200, "", Kind::Document);
    check("Status: 404 Not Found\r\n\r\n", 404, "Not Found", Kind::Document);
    check("status:\t500 \n\n", 500, "", Kind::Document);
    check("STATUS:999\n\r\n", 999, "", Kind::Document);
    check("Status: 200   all  well\t\r\n\n", 200, "all  well", Kind::Document);
    check("Location: /a?b\n\n", 200, "", Kind::LocalRedirect);
    check("Location: /a\nContent-Type: text/html\n\n", 302, "", Kind::ClientRedirect);
    check("Content-Length: 0\nLocation: /a\n\n", 302, "", Kind::ClientRedirect);
    check("Connection: close\nLocation: /a\n\n", 200, "", Kind::LocalRedirect);
    check("Location: //a.example/b\n\n", 302, "", Kind::ClientRedirect);
    check("Location: https://a.example/\n\n", 302, "", Kind::ClientRedirect);
    check("Location: a\n\n", 302, "", Kind::ClientRedirect);
    check("Location: /a\nStatus: 303 See Other\n\n", 303, "See Other", Kind::ClientRedirect);
    check("Status: 201\nLocation: /a\n\n", 201, "", Kind::Document);
    assert_eq!(complete("X: y\nlocation:  /a b \n\n").location(), Some(&b"/a b"[..]));
    assert_eq!(complete("X: y\n\n").location(), None);
}

#[test]
fn fields_come_in_order_without_those_that_frame_the_message() {
    let check = |head: &str, expected: &[(&str, &str)], content_length: Option<u64>| {
        let read = complete(head);
        let fields: Vec<_> = read.fields().map(|(name, value)| (name.escape_ascii().to_string(), value.to_vec())).collect();
        let expected: Vec<_> = expected.iter().map(|(name, value)| ((*name).to_string(), value.as_bytes().to_vec())).collect();
        assert_eq!((fields, read.content_length()), (expected, content_length), "{head:?}");
    };
    check("A: b\r\nC:d\nA:\r\n\r\n", &[("A", "b"), ("C", "d"), ("A", "")], None);
    check("X-Y:  a\tb \t\n\n", &[("X-Y", "a\tb")], None);
    check("X: ü: :\n\n", &[("X", "ü: :")], None);
    check("Status: 200\nLocation: /x\nA: b\n\n", &[("Location", "/x"), ("A", "b")], None);
    check("Content-Length: 12\ncontent-length:012\n\n", &[], Some(12));
    check("Content-Length: 18446744073709551615\n\n", &[], Some(u64::MAX));
    check(
        "Connection: close\nKeep-Alive: x\nUPGRADE: h2c\nTE: a\nTrailer: b\nProxy-Connection: c\nX: y\n\n",
        &[("X", "y")],
        None,
    );
}

#[test]
fn a_body_goes_with_the_method_and_the_status() {
    let check = |status: u16, method: &str, expected: bool| {
        let head = complete(&format!("Status: {status}\n\n"));
        assert_eq!(head.body_allowed(method.as_bytes()), expected, "{status} {method}");
    };
    check(200, "GET", true);
    check(200, "HEAD", false);
    check(200, "head", true);
    check(204, "GET", false);
    check(304, "GET", false);
    check(404, "POST", true);
}

#[test]
fn malformed_heads_are_refused_however_they_come() {
    let check = |head: &str, expected: AnswerError| {
        for piece_bytes in [1, 2, 5, usize::MAX] {
            assert_eq!(parse(head.as_bytes(), piece_bytes).err(), Some(expected), "{head:?}");
        }
    };
    for head in [
        "no colon\n",
        ": x\n",
        "A : x\n",
        " A: x\n",
        "A: b\n folded\n",
        "A: b\n\tfolded\n",
        "Ä: x\n",
        "A\0: x\n",
        "HTTP/1.1 200 OK\n",
        "\r\r\n",
    ] {
        check(head, AnswerError::BadFieldName);
    }
    for head in ["A: b\rc\n", "A: b\r\r\n", "A: \0\n", "A: \x7f\n", "A: \x1b[0m\n", "Set-Cookie: a\r\rb\r\n"] {
        check(head, AnswerError::BadFieldValue);
    }
    for status in
        ["", "20", "2000", "200OK", "abc", "+20", "-20", "100 Continue", "101", "199", "000", "099", "2 0", "HTTP/1.1 200 OK"]
    {
        check(&format!("Status: {status}\n"), AnswerError::BadStatus);
    }
    check("Status: 200\nStatus: 200\n", AnswerError::StatusRepeated);
    check("Location: \n", AnswerError::LocationEmpty);
    check("Location: /a\nLocation: /a\n", AnswerError::LocationRepeated);
    for length in ["", "-1", "+1", "1 2", "1, 1", "0x1", "18446744073709551616", "99999999999999999999999"] {
        check(&format!("Content-Length: {length}\n"), AnswerError::BadContentLength);
    }
    check("Content-Length: 1\nContent-Length: 2\n", AnswerError::ContentLengthDisagrees);
    check("Transfer-Encoding: chunked\n", AnswerError::TransferEncoding);
    check(&"A: b\n".repeat(FIELDS_MAX + 1), AnswerError::TooManyFields);
    check(&"x".repeat(HEAD_BYTES_MAX + 1), AnswerError::HeadTooLarge);
    check(&"Connection: x\n".repeat(HEAD_BYTES_MAX / 10), AnswerError::HeadTooLarge);
}

#[test]
fn the_bounds_themselves_are_allowed() {
    assert_eq!(complete(&format!("{}\n", "A: b\n".repeat(FIELDS_MAX))).fields().count(), FIELDS_MAX);
    let value = "v".repeat(HEAD_BYTES_MAX - "A:\n\n".len());
    assert_eq!(complete(&format!("A:{value}\n\n")).fields().next(), Some((&b"A"[..], value.as_bytes())));
}

#[test]
fn an_end_before_the_head_is_told_from_no_answer() {
    let mut parser = AnswerParser::new();
    assert_eq!(parser.end_of_input(), AnswerError::NoAnswer);
    assert!(matches!(parser.feed(&mut &b"A: b\n"[..]), Ok(Progress::NeedMore)));
    assert_eq!(parser.end_of_input(), AnswerError::Truncated);
}

#[test]
fn a_parser_is_as_new_after_a_head() {
    let mut parser = AnswerParser::new();
    for head in ["Status: 404\n\n", "Location: /a\n\n", "\n"] {
        let Ok(Progress::Complete(read)) = parser.feed(&mut head.as_bytes()) else { panic!("{head:?} is a head") };
        assert_eq!((read.status() == 404, read.location().is_some()), (head.contains("404"), head.contains("Location")));
    }
}

#[test]
fn every_refusal_has_its_own_code_and_sentence() {
    let distinct = |texts: Vec<String>| texts.into_iter().collect::<std::collections::HashSet<_>>().len();
    assert_eq!(distinct(AnswerError::ALL.iter().map(|error| error.reason().to_string()).collect()), AnswerError::ALL.len());
    assert_eq!(distinct(AnswerError::ALL.iter().map(ToString::to_string).collect()), AnswerError::ALL.len());
    for (error, bound) in [(AnswerError::HeadTooLarge, HEAD_BYTES_MAX >> 10), (AnswerError::TooManyFields, FIELDS_MAX)] {
        assert!(error.to_string().contains(&bound.to_string()), "{error}");
    }
}
