//! A server and a client of ours speak with each other, and a peer says what it may not.

use super::{Connection, Event, Role};
use crate::error::HeadError;
use crate::h2::frame::{END_HEADERS, END_STREAM, ErrorCode, FrameHead, FrameKind, write_frame};
use crate::h2::heads::RequestForm;
use crate::h2::settings::OurSettings;
use crate::head::{Fields, RequestHead, ResponseHead};
use crate::http1::parse_request;
use crate::limits::HeadLimits;
use std::time::Instant;

fn settings(initial_window_bytes: u32) -> OurSettings {
    OurSettings {
        streams_max: 100,
        initial_window_bytes,
        connection_window_bytes: 1 << 20,
        header_list_bytes_max: 65_536,
        takes_protocol: true,
    }
}

/// The request that is written so.
fn request(text: &str) -> RequestHead {
    let mut head = RequestHead::default();
    parse_request(text.as_bytes(), &HeadLimits::default(), &mut head).expect("a request");
    head
}

const PLAIN: RequestForm<'static> = RequestForm { scheme: "http", wants_trailers: false, protocol: None };

#[test]
fn a_request_and_its_answer_come_across_in_single_bytes() {
    let now = Instant::now();
    let mut client: Connection<()> = Connection::new(Role::Client, settings(1 << 16), now);
    let mut server: Connection<()> = Connection::new(Role::Server, settings(1 << 16), now);
    let asked = client.open(()).expect("a stream");
    client.send_request(
        asked,
        &request("POST /a?b HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n"),
        PLAIN,
        &mut Vec::new(),
        false,
    );
    assert_eq!(client.sendable(asked), 65_535);
    client.send_data(asked, b"hello", true, false);
    let (mut head, mut body, mut heads) = (RequestHead::default(), Vec::new(), Vec::new());
    for byte in client.take_output(Vec::new()) {
        let mut input = &[byte][..];
        while let Some(event) = server.receive(&mut input, now).expect("allowed") {
            match event {
                Event::Request { key, ends_stream } => {
                    assert!(!ends_stream);
                    server.read_request(key, &HeadLimits::default(), &mut head).expect("decodes").expect("a request");
                    heads.push(key);
                }
                Event::Data { bytes, .. } => body.extend_from_slice(bytes),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((head.path(), &body[..]), (&b"/a"[..], &b"hello"[..]));
    let [key] = heads[..] else { panic!("{heads:?}") };
    assert!(!server.is_receiving(key));
    server.send_response(key, &ResponseHead { status: 200, ..ResponseHead::default() }, false);
    server.send_data(key, b"hi", true, false);
    let bytes = server.take_output(Vec::new());
    let (mut input, mut seen) = (&bytes[..], Vec::new());
    while let Some(event) = client.receive(&mut input, now).expect("allowed") {
        if let Event::Response { key, .. } = event {
            let mut head = ResponseHead::default();
            client.read_response(key, &HeadLimits::default(), false, &mut head).expect("decodes").expect("an answer");
            assert_eq!(head.status, 200);
        } else {
            seen.push(format!("{event:?}"));
        }
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(server.release(key).is_some() && client.release(asked).is_some());
    assert_eq!(server.take_output(Vec::new()).len(), 0, "nothing is left to reset");
}

#[test]
fn a_client_that_has_not_seen_our_settings_may_send_what_windows_are_at_first() {
    let now = Instant::now();
    let mut client: Connection<()> = Connection::new(Role::Client, settings(1 << 16), now);
    let mut server: Connection<()> = Connection::new(Role::Server, settings(1000), now);
    let asked = client.open(()).expect("a stream");
    client.send_request(asked, &request("POST / HTTP/1.1\r\nHost: a.test\r\n\r\n"), PLAIN, &mut Vec::new(), false);
    while client.sendable(asked) > 0 {
        client.send_data(asked, &vec![0; client.sendable(asked).min(16_384)], false, false);
    }
    let mut body = 0;
    let mut exchange = |from: &mut Connection<()>, to: &mut Connection<()>| {
        let bytes = from.take_output(Vec::new());
        let mut input = &bytes[..];
        while let Some(event) = to.receive(&mut input, now).expect("allowed") {
            match event {
                Event::Data { key, bytes, .. } => {
                    body += bytes.len();
                    let count = bytes.len();
                    to.free(key, count);
                }
                Event::Reset { .. } => panic!("{event:?}"),
                _ => {}
            }
        }
    };
    exchange(&mut client, &mut server);
    exchange(&mut server, &mut client);
    // The acknowledgement, and what the window that was opened again lets through.
    assert!(client.sendable(asked) <= 1000, "{}", client.sendable(asked));
    exchange(&mut client, &mut server);
    client.send_data(asked, &vec![0; client.sendable(asked)], true, false);
    exchange(&mut client, &mut server);
    assert!(body >= 65_535, "{body}");
}

#[test]
fn what_is_not_allowed_ends_the_stream_or_the_connection() {
    let check = |frames: &[(FrameKind, u8, u32, &[u8])], expected: ErrorCode| {
        let now = Instant::now();
        let mut server: Connection<()> = Connection::new(Role::Server, settings(1 << 16), now);
        let mut bytes = crate::h2::PREFACE.to_vec();
        write_frame(&mut bytes, FrameKind::Settings, 0, 0, &[]);
        for (kind, flags, stream, payload) in frames {
            write_frame(&mut bytes, *kind, *flags, *stream, payload);
        }
        let mut input = &bytes[..];
        let seen = loop {
            match server.receive(&mut input, now) {
                Ok(Some(Event::Reset { code, by_peer: false, .. })) => break Some(code),
                // The reset goes out behind the answer.
                Ok(Some(Event::Malformed { .. })) => break Some(ErrorCode::ProtocolError),
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(end) => break Some(end.code()),
            }
        };
        assert_eq!(seen, Some(expected), "{frames:?}");
    };
    // GET / to the authority "a".
    let open = (FrameKind::Headers, END_HEADERS, 1, &b"\x82\x84\x86\x01\x01a"[..]);
    let whole = (FrameKind::Headers, END_HEADERS | END_STREAM, 1, &b"\x82\x84\x86\x01\x01a"[..]);
    check(&[(FrameKind::Data, 0, 1, b"x")], ErrorCode::ProtocolError);
    check(&[(FrameKind::Data, 0, 0, b"x")], ErrorCode::ProtocolError);
    check(&[whole, (FrameKind::Data, 0, 1, b"x")], ErrorCode::StreamClosed);
    check(&[open, (FrameKind::Headers, END_HEADERS, 1, b"\x82")], ErrorCode::ProtocolError);
    check(&[open, (FrameKind::WindowUpdate, 0, 1, &[0; 4])], ErrorCode::ProtocolError);
    check(&[open, (FrameKind::WindowUpdate, 0, 1, &[0x7f, 255, 255, 255])], ErrorCode::FlowControlError);
    check(&[(FrameKind::WindowUpdate, 0, 0, &[0x7f, 255, 255, 255])], ErrorCode::FlowControlError);
    check(&[(FrameKind::Headers, END_HEADERS, 2, b"\x82")], ErrorCode::ProtocolError);
    check(&[(FrameKind::Headers, 0, 1, b"\x82"), (FrameKind::Ping, 0, 0, &[0; 8])], ErrorCode::ProtocolError);
    check(&[(FrameKind::Headers, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff")], ErrorCode::CompressionError);
    check(&[(FrameKind::Settings, 0, 0, &[0; 5])], ErrorCode::FrameSizeError);
    check(&[(FrameKind::PushPromise, 0, 1, &[0; 5])], ErrorCode::ProtocolError);
    check(&vec![(FrameKind::Ping, 0, 0, &[0; 8][..]); 2000], ErrorCode::EnhanceYourCalm);
}

/// RFC 9113 section 6.8: streams that a broken connection takes along are not reset behind its GOAWAY.
#[test]
fn nothing_follows_why_a_connection_ends() {
    let now = Instant::now();
    let mut server: Connection<()> = Connection::new(Role::Server, settings(1 << 16), now);
    let mut bytes = crate::h2::PREFACE.to_vec();
    write_frame(&mut bytes, FrameKind::Settings, 0, 0, &[]);
    // GET / to the authority "a", and a field of no table.
    write_frame(&mut bytes, FrameKind::Headers, END_HEADERS, 1, b"\x82\x84\x86\x01\x01a");
    write_frame(&mut bytes, FrameKind::Headers, END_HEADERS, 3, b"\xff\xff\xff\xff\xff\xff");
    let (mut input, mut head) = (&bytes[..], RequestHead::default());
    let mut opened = Vec::new();
    let ended = loop {
        let Some(Event::Request { key, .. }) = server.receive(&mut input, now).expect("allowed") else { panic!("a request") };
        opened.push(key);
        if let Err(end) = server.read_request(key, &HeadLimits::default(), &mut head) {
            break end;
        }
    };
    assert_eq!((ended.code(), opened.len()), (ErrorCode::CompressionError, 2));
    for key in opened {
        server.release(key);
    }
    let goaway = [0, 0, 8, FrameKind::GoAway as u8, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, ErrorCode::CompressionError as u8];
    assert!(server.output.ends_with(&goaway), "{:?}", server.output);
}

/// A stream that there is no memory for costs no other, and what its head does to the table is kept.
#[test]
fn a_full_connection_refuses_streams_and_keeps_the_tables_in_step() {
    let now = Instant::now();
    let mut client: Connection<()> = Connection::new(Role::Client, settings(1 << 16), now);
    let mut server: Connection<()> = Connection::new(Role::Server, settings(1 << 16), now);
    let mut paths = Vec::new();
    for (count, is_full) in [false, true, true, false].into_iter().enumerate() {
        server.set_full(is_full);
        let asked = client.open(()).expect("a stream");
        let text = format!("GET /{count} HTTP/1.1\r\nHost: a.test\r\nX-Kept: {}\r\n\r\n", "v".repeat(10 * count));
        client.send_request(asked, &request(&text), PLAIN, &mut Vec::new(), true);
        let (sent, mut head) = (client.take_output(Vec::new()), RequestHead::default());
        let mut input = &sent[..];
        while let Some(event) = server.receive(&mut input, now).expect("allowed") {
            let Event::Request { key, .. } = event else { panic!("{event:?}") };
            server.read_request(key, &HeadLimits::default(), &mut head).expect("decodes").expect("a request");
            paths.push(head.path().to_vec());
        }
        let answer = server.take_output(Vec::new());
        let mut input = &answer[..];
        let event = client.receive(&mut input, now).expect("allowed");
        let reset = Event::Reset { key: asked, code: ErrorCode::RefusedStream, by_peer: true };
        assert_eq!(event, is_full.then_some(reset), "{count}");
    }
    assert_eq!(paths, [b"/0", b"/3"]);
    assert_eq!((server.take_refused_for_memory(), server.take_refused_for_memory()), (2, 0));
}

#[test]
fn a_client_whose_trailers_broke_a_rule_is_told_so_before_its_stream_ends() {
    let now = Instant::now();
    let check = |fault: HeadError, is_begun: bool, is_answered: bool, expected: (bool, &[(FrameKind, Option<ErrorCode>)])| {
        let mut client: Connection<()> = Connection::new(Role::Client, settings(1 << 16), now);
        let mut server: Connection<()> = Connection::new(Role::Server, settings(1 << 16), now);
        let asked = client.open(()).expect("a stream");
        client.send_request(asked, &request("POST / HTTP/1.1\r\nHost: a.test\r\n\r\n"), PLAIN, &mut Vec::new(), false);
        client.send_trailers(asked, &Fields::default());
        let (bytes, mut head, mut is_answerable) = (client.take_output(Vec::new()), RequestHead::default(), None);
        let mut input = &bytes[..];
        while let Some(event) = server.receive(&mut input, now).expect("allowed") {
            match event {
                Event::Request { key, .. } => {
                    server.read_request(key, &HeadLimits::default(), &mut head).expect("decodes").expect("a request");
                    if is_begun {
                        server.send_response(key, &ResponseHead { status: 200, ..ResponseHead::default() }, false);
                    }
                }
                Event::Trailers { key } => {
                    server.read_trailers(&HeadLimits::default(), &mut Fields::default()).expect("decodes").expect("trailers");
                    server.take_output(Vec::new());
                    is_answerable = Some(server.end_for_trailers(key, fault, now).expect("the first"));
                    if is_answered {
                        server.send_response(key, &ResponseHead { status: 400, ..ResponseHead::default() }, true);
                    }
                    server.release(key);
                }
                other => panic!("{other:?}"),
            }
        }
        let (output, mut frames) = (server.take_output(Vec::new()), Vec::new());
        let mut rest = &output[..];
        while let Some((frame, behind)) = rest.split_first_chunk() {
            let frame = FrameHead::parse(frame);
            let (payload, behind) = behind.split_at(frame.len as usize);
            let kind = FrameKind::from_repr(frame.kind).expect("a frame of ours");
            frames.push((kind, (kind == FrameKind::RstStream).then(|| ErrorCode::of(u32::from(payload[3])))));
            rest = behind;
        }
        assert_eq!((is_answerable, &frames[..]), (Some(expected.0), expected.1), "{fault:?}");
    };
    let (answer, fault) = ((FrameKind::Headers, None), (FrameKind::RstStream, Some(ErrorCode::ProtocolError)));
    check(HeadError::BadFieldName, false, true, (true, &[answer, fault]));
    check(HeadError::PseudoHeader, false, false, (true, &[fault]));
    check(HeadError::TooManyFields, false, true, (true, &[answer]));
    check(HeadError::TooManyFields, false, false, (true, &[(FrameKind::RstStream, Some(ErrorCode::Cancel))]));
    check(HeadError::BadFieldName, true, true, (false, &[fault]));
    check(HeadError::HeadTooLarge, true, true, (false, &[fault]));
}
