//! What is sent, byte for byte, and what comes back, in rows.
//! Any fragmentation and any bytes are tried in the crate's `tests` folder.

use super::{
    CONTENT_BYTES_MAX, Decoder, Event, FIRST_REQUEST, KeepConnection, ProtocolStatus, RecordError, RequestId,
    encode_begin_request, encode_params, encode_stdin, encode_stdin_end, stdin_frame,
};
use crate::pairs::Pairs;

#[test]
fn records_are_laid_out_as_the_specification_says() {
    let check = |encode: fn(&mut Vec<u8>, RequestId), id: u16, expected: &[u8]| {
        let mut out = b"before".to_vec();
        encode(&mut out, RequestId::new(id).unwrap());
        assert_eq!(out.strip_prefix(b"before"), Some(expected));
    };
    let begin_kept: fn(&mut Vec<u8>, RequestId) = |out, id| encode_begin_request(out, id, KeepConnection::Yes);
    check(begin_kept, 1, &[1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
    check(|out, id| encode_begin_request(out, id, KeepConnection::No), 258, &[1, 1, 1, 2, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    check(encode_stdin_end, 1, &[1, 5, 0, 1, 0, 0, 0, 0]);
    check(|out, id| encode_stdin(out, id, b""), 1, b"");
    check(|out, id| encode_stdin(out, id, b"abc"), 1, b"\x01\x05\0\x01\0\x03\x05\0abc\0\0\0\0\0");
    check(|out, id| encode_stdin(out, id, b"12345678"), 1, b"\x01\x05\0\x01\0\x08\0\x0012345678");
    check(|out, id| encode_params(out, id, &Pairs::default()), 1, &[1, 4, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn a_name_or_a_value_of_128_bytes_has_a_length_of_four_bytes() {
    let check = |name_len: usize, value_len: usize, expected: &[u8]| {
        let mut pairs = Pairs::default();
        pairs.push([&vec![b'N'; name_len][..]], [&vec![b'V'; value_len][..]]).unwrap();
        let mut out = Vec::new();
        encode_params(&mut out, FIRST_REQUEST, &pairs);
        assert!(out[8..].starts_with(expected), "{:?}", &out[8..20]);
        assert_eq!(&out[8 + expected.len()..][..name_len], vec![b'N'; name_len]);
    };
    check(1, 0, &[1, 0]);
    check(127, 127, &[127, 127]);
    check(128, 1, &[0x80, 0, 0, 128, 1]);
    check(1, 128, &[1, 0x80, 0, 0, 128]);
    check(300, 60_000, &[0x80, 0, 1, 44, 0x80, 0, 0xea, 0x60]);
}

#[test]
fn long_bodies_are_split_and_a_frame_is_what_surrounds_a_piece() {
    let mut out = Vec::new();
    encode_stdin(&mut out, FIRST_REQUEST, &vec![b'x'; CONTENT_BYTES_MAX + 1]);
    assert_eq!(out.len(), 8 + CONTENT_BYTES_MAX + 16);
    assert_eq!(out[..8], [1, 5, 0, 1, 0xff, 0xf8, 0, 0]);
    assert_eq!(out[8 + CONTENT_BYTES_MAX..], *b"\x01\x05\0\x01\0\x01\x07\0x\0\0\0\0\0\0\0");
    let frame = stdin_frame(FIRST_REQUEST, 9).unwrap();
    assert_eq!((frame.header, frame.padding), ([1, 5, 0, 1, 0, 9, 7, 0], &[0; 7][..]));
    assert_eq!(stdin_frame(FIRST_REQUEST, 0), None);
    assert_eq!(stdin_frame(FIRST_REQUEST, CONTENT_BYTES_MAX + 1), None);
}

/// Header, content and padding of a record of request 1.
fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    record_of(1, kind, content, padding)
}

fn record_of(id: u8, kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, id, high, low, padding, 0], content, &vec![b'P'; padding.into()]].concat()
}

const END: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0];

/// Every event of `bytes`, and how it ended.
fn decode(bytes: &[u8]) -> (Vec<Event<'_>>, Result<bool, RecordError>) {
    let mut decoder = Decoder::new(FIRST_REQUEST);
    let mut input = bytes;
    let mut events = Vec::new();
    loop {
        match decoder.feed(&mut input) {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, decoder.end_of_input().map(|()| decoder.is_reusable())),
            Err(error) => {
                assert_eq!(decoder.feed(&mut &b"more"[..]), Err(error), "an error is final");
                return (events, Err(error));
            }
        }
    }
}

const COMPLETE: Event<'_> = Event::End { app_status: 0, protocol_status: ProtocolStatus::RequestComplete };

#[test]
fn answers_become_events() {
    let check = |records: &[Vec<u8>], expected: &[Event<'_>], reusable: bool| {
        assert_eq!(decode(&records.concat()), (expected.to_vec(), Ok(reusable)));
    };
    check(&[record(3, END, 0)], &[COMPLETE], true);
    check(&[record(3, END, 200)], &[COMPLETE], true);
    check(&[record(6, b"abc", 5), record(6, b"", 0), record(3, END, 0)], &[Event::Stdout(b"abc"), COMPLETE], true);
    check(
        &[record(6, b"a", 0), record(7, b"b", 255), record(6, b"c", 7), record(7, b"", 0), record(3, END, 8)],
        &[Event::Stdout(b"a"), Event::Stderr(b"b"), Event::Stdout(b"c"), COMPLETE],
        true,
    );
    check(&[record(6, b"", 3), record(6, b"", 0), record(3, END, 0)], &[COMPLETE], true);
    check(
        &[record_of(0, 11, &[9, 0, 0, 0, 0, 0, 0, 0], 0), record_of(0, 10, b"v", 7), record_of(0, 10, b"", 1), record(3, END, 0)],
        &[Event::UnknownType(9), Event::Values(b"v"), COMPLETE],
        true,
    );
    let status = |status| Event::End { app_status: 0x0102_0304, protocol_status: status };
    check(&[record(3, &[1, 2, 3, 4, 1, 0, 0, 0], 0)], &[status(ProtocolStatus::CannotMultiplex)], true);
    check(&[record(3, &[1, 2, 3, 4, 2, 9, 9, 9], 0)], &[status(ProtocolStatus::Overloaded)], true);
    check(&[record(3, &[1, 2, 3, 4, 3, 0, 0, 0], 0)], &[status(ProtocolStatus::UnknownRole)], true);
    check(&[record(3, END, 8)[..20].to_vec()], &[COMPLETE], false);
}

#[test]
fn what_no_application_may_send_is_refused() {
    let check = |records: &[Vec<u8>], expected: RecordError| {
        let (_, outcome) = decode(&records.concat());
        assert_eq!(outcome, Err(expected), "{expected}");
    };
    check(&[b"HTTP/1.1".to_vec()], RecordError::UnsupportedVersion(b'H'));
    check(&[vec![0; 8]], RecordError::UnsupportedVersion(0));
    for kind in [0, 1, 2, 4, 5, 8, 9, 12, 255] {
        check(&[record(kind, b"", 0)], RecordError::UnexpectedType(kind));
        check(&[record_of(0, kind, b"", 0)], RecordError::UnexpectedType(kind));
    }
    for kind in [3, 6, 7] {
        check(&[record_of(2, kind, END, 0)], RecordError::WrongRequestId { expected: 1, found: 2 });
        check(&[record_of(0, kind, END, 0)], RecordError::WrongRequestId { expected: 1, found: 0 });
    }
    for kind in [10, 11] {
        check(&[record(kind, END, 0)], RecordError::WrongRequestId { expected: 0, found: 1 });
    }
    check(&[record(3, b"1234567", 0)], RecordError::BadLength { record_type: 3, content_bytes: 7 });
    check(&[record(3, b"", 0)], RecordError::BadLength { record_type: 3, content_bytes: 0 });
    check(&[record_of(0, 11, b"123456789", 0)], RecordError::BadLength { record_type: 11, content_bytes: 9 });
    check(&[record(3, &[0, 0, 0, 0, 4, 0, 0, 0], 0)], RecordError::UnknownProtocolStatus(4));
    check(&[record(6, b"a", 0), record(6, b"", 0), record(6, b"b", 0)], RecordError::ContentAfterStreamEnd);
    check(&[record(7, b"", 0), record(7, b"b", 0)], RecordError::ContentAfterStreamEnd);
    check(&[record(3, END, 1), b"x".to_vec()], RecordError::BytesAfterEndRequest);
    check(&[record(3, END, 0), record(6, b"a", 0)], RecordError::BytesAfterEndRequest);
    check(&vec![record_of(0, 10, b"v", 0); 17], RecordError::TooManyIdleRecords);
    check(&vec![record(6, b"", 255); 17], RecordError::TooManyIdleRecords);
}

#[test]
fn a_connection_that_ends_early_is_no_complete_answer() {
    let whole = [record(6, b"abc", 5), record(3, END, 0)].concat();
    for end in 0..whole.len() {
        assert_eq!(decode(&whole[..end]).1, Err(RecordError::Truncated), "{end}");
    }
}

#[test]
fn output_in_between_allows_more_idle_records() {
    let idle = || vec![record_of(0, 10, b"", 0); 15].concat();
    let bytes = [idle(), record(6, b"a", 0), idle(), record(7, b"b", 0), idle(), record(3, END, 0)].concat();
    assert_eq!(decode(&bytes), (vec![Event::Stdout(b"a"), Event::Stderr(b"b"), COMPLETE], Ok(true)));
}

#[test]
fn every_refusal_has_its_own_code_and_sentence() {
    let all = [
        RecordError::UnsupportedVersion(2),
        RecordError::UnexpectedType(2),
        RecordError::WrongRequestId { expected: 1, found: 2 },
        RecordError::BadLength { record_type: 3, content_bytes: 2 },
        RecordError::UnknownProtocolStatus(9),
        RecordError::ContentAfterStreamEnd,
        RecordError::BytesAfterEndRequest,
        RecordError::TooManyIdleRecords,
        RecordError::Truncated,
    ];
    let distinct = |texts: Vec<String>| texts.into_iter().collect::<std::collections::HashSet<_>>().len();
    assert_eq!(distinct(all.iter().map(|error| error.reason().to_string()).collect()), all.len());
    assert_eq!(distinct(all.iter().map(ToString::to_string).collect()), all.len());
}
