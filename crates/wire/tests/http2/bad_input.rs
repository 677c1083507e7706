//! What a peer may not send, as a table: of each kind of frame, for servers and for clients, what becomes of it. The
//! sections are those of RFC 9113.

use crate::frames::{GET, OK, POST, client_begins, field, frame, parsed, server_begins};
use crate::peer::Endpoint;
use Expected::{Connection, Ignored, Stream};
use tidegate_wire::ResponseHead;
use tidegate_wire::h2::PREFACE;
use tidegate_wire::h2::connection::{Role, SETTINGS_TIME_MAX};
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::ErrorCode::{
    self, CompressionError, EnhanceYourCalm, FlowControlError, FrameSizeError, ProtocolError, RefusedStream, SettingsTimeout,
    StreamClosed,
};
use tidegate_wire::h2::frame::FrameKind;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 0x10;
const UNKNOWN: u8 = 0xfa;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const HAS_PRIORITY: u8 = 0x20;

/// What becomes of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The connection ends, and GOAWAY says why.
    Connection(ErrorCode),
    /// The stream ends, and RST_STREAM says why.
    Stream(ErrorCode),
    /// Everything goes on.
    Ignored,
}

/// What happens to stream 1, one after the other.
#[derive(Debug, Clone)]
enum Step {
    Comes(Vec<u8>),
    WeReset,
    WeAnswer,
    WeRelease,
}

use Step::{Comes, WeAnswer, WeRelease, WeReset};

fn begun(role: Role) -> Endpoint {
    let mut endpoint = Endpoint::new(role);
    if role == Role::Client {
        // Stream 1 goes on, stream 3 has been asked whole.
        endpoint.ask("POST / HTTP/1.1\r\nHost: a\r\n\r\n", true);
        endpoint.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false);
    }
    let begins = if role == Role::Server { client_begins() } else { server_begins() };
    endpoint.receive(&begins);
    endpoint.connection.take_output(Vec::new());
    endpoint
}

fn check(role: Role, name: &str, steps: &[Step], expected: Expected) {
    let mut endpoint = begun(role);
    for step in steps {
        let key = endpoint.key(1);
        match (step, key) {
            (Comes(bytes), _) => endpoint.receive(bytes),
            (WeReset, Some(key)) => {
                endpoint.connection.reset(key, ErrorCode::Cancel);
                endpoint.connection.take_output(Vec::new());
            }
            (WeAnswer, Some(key)) => {
                let head = ResponseHead { status: 200, ..ResponseHead::default() };
                endpoint.connection.send_response(key, &head, true);
                endpoint.connection.send_data(key, b"", true, false);
            }
            (WeRelease, Some(key)) => drop(endpoint.connection.release(key)),
            (WeReset | WeAnswer | WeRelease, None) => panic!("{name}: no stream"),
        }
    }
    endpoint.receive(&frame(PING, 0, 0, b"are you?"));
    let output = parsed(&endpoint.connection.take_output(Vec::new()));
    let code = |payload: &[u8], at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("a code"));
    let of_kind = |kind: FrameKind| output.iter().filter(move |(head, _)| head.kind == kind as u8);
    let resets: Vec<_> = of_kind(FrameKind::RstStream).map(|(head, code_of)| (head.stream, code(code_of, 0))).collect();
    let farewell: Vec<_> = of_kind(FrameKind::GoAway).map(|(_, payload)| code(payload, 4)).collect();
    let is_alive = of_kind(FrameKind::Ping).any(|(_, payload)| payload == b"are you?");
    let seen = format!("{role:?}, {name}: {:?}, resets {resets:?}, GOAWAY {farewell:?}", endpoint.end);
    match expected {
        Connection(code) => {
            assert_eq!(endpoint.end.map(ConnectionEnd::code), Some(code), "{seen}");
            assert_eq!(farewell, [code as u32], "{seen}");
        }
        Stream(code) => {
            assert!(endpoint.end.is_none() && is_alive && farewell.is_empty(), "{seen}");
            assert_eq!(resets, [(1, code as u32)], "{seen}");
        }
        Ignored => assert!(endpoint.end.is_none() && is_alive && farewell.is_empty() && resets.is_empty(), "{seen}"),
    }
}

fn check_both(name: &str, bytes: &[u8], expected: Expected) {
    for role in [Role::Server, Role::Client] {
        check(role, name, &[opened(role), Comes(bytes.to_vec())], expected);
    }
}

/// Stream 1 with a good head, of which more follows.
fn opened(role: Role) -> Step {
    Comes(frame(HEADERS, END_HEADERS, 1, if role == Role::Server { POST } else { OK }))
}

/// Stream 1 with a good message that has ended.
fn ended(role: Role) -> Step {
    Comes(frame(HEADERS, END_HEADERS | END_STREAM, 1, if role == Role::Server { GET } else { OK }))
}

#[test]
fn frames_have_a_size() {
    check_both("DATA without a pad length", &frame(DATA, PADDED, 1, &[]), Connection(FrameSizeError));
    check_both("DATA larger than any", &frame(DATA, 0, 1, &vec![0; 16_385]), Connection(FrameSizeError));
    check_both("HEADERS larger than any", &frame(HEADERS, END_HEADERS, 3, &vec![0; 16_385]), Connection(FrameSizeError));
    check_both("HEADERS without a pad length", &frame(HEADERS, PADDED | END_HEADERS, 1, &[]), Connection(FrameSizeError));
    check_both("HEADERS without a priority", &frame(HEADERS, HAS_PRIORITY | 4, 1, &[0; 4]), Connection(FrameSizeError));
    check_both("PRIORITY too short", &frame(PRIORITY, 0, 1, &[0; 4]), Stream(FrameSizeError));
    check_both("PRIORITY too long", &frame(PRIORITY, 0, 1, &[0; 6]), Stream(FrameSizeError));
    for len in [0, 3, 5] {
        check_both("RST_STREAM", &frame(RST_STREAM, 0, 1, &vec![0; len]), Connection(FrameSizeError));
        check_both("WINDOW_UPDATE", &frame(WINDOW_UPDATE, 0, 1, &vec![1; len]), Connection(FrameSizeError));
        check_both("WINDOW_UPDATE", &frame(WINDOW_UPDATE, 0, 0, &vec![1; len]), Connection(FrameSizeError));
    }
    for len in [1, 5, 7, 11] {
        check_both("SETTINGS", &frame(SETTINGS, 0, 0, &vec![0; len]), Connection(FrameSizeError));
    }
    check_both("an acknowledgement with settings", &frame(SETTINGS, 1, 0, &[0; 6]), Connection(FrameSizeError));
    check_both("SETTINGS larger than any", &frame(SETTINGS, 0, 0, &vec![0; 16_386]), Connection(FrameSizeError));
    for len in [0, 7, 9] {
        check_both("PING", &frame(PING, 0, 0, &vec![0; len]), Connection(FrameSizeError));
        check_both("an answer to PING", &frame(PING, 1, 0, &vec![0; len]), Connection(FrameSizeError));
    }
    for len in [0, 7] {
        check_both("GOAWAY", &frame(GOAWAY, 0, 0, &vec![0; len]), Connection(FrameSizeError));
    }
    check(Role::Server, "PRIORITY_UPDATE", &[Comes(frame(PRIORITY_UPDATE, 0, 0, &[0; 3]))], Connection(FrameSizeError));
    check_both("an unknown frame of any size", &frame(UNKNOWN, 0xff, 1, &[0; 16_384]), Ignored);
    check_both("an unknown frame larger than any", &frame(UNKNOWN, 0, 1, &vec![0; 16_385]), Connection(FrameSizeError));
}

#[test]
fn frames_have_their_stream() {
    for kind in [DATA, HEADERS, PRIORITY, RST_STREAM, CONTINUATION] {
        check_both(
            "on stream 0",
            &frame(kind, END_HEADERS, 0, &[0; 5][..if kind == RST_STREAM { 4 } else { 5 }]),
            Connection(ProtocolError),
        );
    }
    for (kind, len) in [(SETTINGS, 0), (PING, 8), (GOAWAY, 8)] {
        check_both("on a stream", &frame(kind, 0, 1, &vec![0; len]), Connection(ProtocolError));
    }
    check_both("an acknowledgement on a stream", &frame(SETTINGS, 1, 1, &[]), Connection(ProtocolError));
    check(Role::Server, "PRIORITY_UPDATE", &[Comes(frame(PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1]))], Connection(ProtocolError));
    check(Role::Server, "PRIORITY_UPDATE", &[Comes(frame(PRIORITY_UPDATE, 0, 0, &[0; 4]))], Connection(ProtocolError));
    check(Role::Server, "PRIORITY_UPDATE", &[Comes(frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]))], Ignored);
    check(Role::Client, "PRIORITY_UPDATE", &[Comes(frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]))], Connection(ProtocolError));
    for stream in [0, 1, 2, 7] {
        check_both("an unknown frame", &frame(UNKNOWN, 0, stream, b"x"), Ignored);
    }
    // Section 4.1: the reserved bit is ignored.
    check_both("a reserved bit", &frame(DATA, 0, 0x8000_0001, b"x"), Ignored);
}

/// Section 5.1.
#[test]
fn frames_come_in_their_state() {
    let data = || Comes(frame(DATA, 0, 1, b"x"));
    let trailers = || Comes(frame(HEADERS, END_HEADERS | END_STREAM, 1, &field("a", "b")));
    let window_update = || Comes(frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]));
    let reset = || Comes(frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    let priority = || Comes(frame(PRIORITY, 0, 1, &[0; 5]));
    for role in [Role::Server, Role::Client] {
        let table: [(&str, Vec<Step>, [Expected; 5]); 6] = [
            ("half-closed", vec![ended(role)], [Stream(StreamClosed), Stream(StreamClosed), Ignored, Ignored, Ignored]),
            (
                "closed",
                vec![ended(role), WeAnswer, WeRelease],
                [Connection(StreamClosed), Connection(StreamClosed), Ignored, Ignored, Ignored],
            ),
            (
                "reset by the peer",
                vec![opened(role), reset()],
                [Connection(StreamClosed), Connection(StreamClosed), Ignored, Ignored, Ignored],
            ),
            (
                "reset by the peer and released",
                vec![opened(role), reset(), WeRelease],
                [Connection(StreamClosed), Connection(StreamClosed), Ignored, Ignored, Ignored],
            ),
            ("reset by us", vec![opened(role), WeReset], [Ignored; 5]),
            ("reset by us and released", vec![opened(role), WeReset, WeRelease], [Ignored; 5]),
        ];
        for (state, before, expected) in table {
            for (what, expected) in [data(), trailers(), window_update(), reset(), priority()].into_iter().zip(expected) {
                let steps: Vec<Step> = before.iter().cloned().chain([what.clone()]).collect();
                check(role, &format!("{state}, {what:?}"), &steps, expected);
            }
        }
        // Streams that nobody opened, of either side's ids.
        for id in [2, 9] {
            check(role, "DATA, idle", &[Comes(frame(DATA, 0, id, b"x"))], Connection(ProtocolError));
            check(role, "RST_STREAM, idle", &[Comes(frame(RST_STREAM, 0, id, &[0; 4]))], Connection(ProtocolError));
            check(role, "WINDOW_UPDATE, idle", &[Comes(frame(WINDOW_UPDATE, 0, id, &[0, 0, 0, 1]))], Connection(ProtocolError));
            check(role, "PRIORITY, idle", &[Comes(frame(PRIORITY, 0, id, &[0; 5]))], Ignored);
        }
    }
    check(Role::Client, "HEADERS, idle", &[Comes(frame(HEADERS, END_HEADERS, 9, OK))], Connection(ProtocolError));
    check(Role::Client, "HEADERS, even", &[Comes(frame(HEADERS, END_HEADERS, 2, OK))], Connection(ProtocolError));
    check(Role::Client, "DATA before a head", &[Comes(frame(DATA, 0, 1, b"x"))], Stream(ProtocolError));
    check(Role::Server, "HEADERS, even", &[Comes(frame(HEADERS, END_HEADERS, 2, GET))], Connection(ProtocolError));
    let third = || Comes(frame(HEADERS, END_HEADERS | END_STREAM, 3, GET));
    check(Role::Server, "a lower id", &[third(), ended(Role::Server)], Connection(StreamClosed));
    check(Role::Server, "an id again", &[ended(Role::Server), ended(Role::Server)], Stream(StreamClosed));
}

/// Section 6.9.
#[test]
fn windows_have_an_end() {
    let update = |stream: u32, increment: u32| frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
    let initial = |bytes: u32| frame(SETTINGS, 0, 0, &[&[0, 4], &bytes.to_be_bytes()[..]].concat());
    const MAX: u32 = 0x7fff_ffff;
    check_both("the connection by nothing", &update(0, 0), Connection(ProtocolError));
    check_both("the stream by nothing", &update(1, 0), Stream(ProtocolError));
    check_both("by nothing but the reserved bit", &update(1, 1 << 31), Stream(ProtocolError));
    check_both("the connection, just", &update(0, MAX - 65_535), Ignored);
    check_both("the stream, just", &update(1, MAX - 65_535), Ignored);
    check_both("the connection, over", &update(0, MAX - 65_534), Connection(FlowControlError));
    check_both("the stream, over", &update(1, MAX - 65_534), Stream(FlowControlError));
    check_both("the stream, in two", &[update(1, MAX - 65_535), update(1, 1)].concat(), Stream(FlowControlError));
    check_both("the connection, in two", &[update(0, MAX - 65_535), update(0, 1)].concat(), Connection(FlowControlError));
    check_both("initial, just", &initial(MAX), Ignored);
    check_both("initial, over", &initial(MAX + 1), Connection(FlowControlError));
    check_both("by SETTINGS, over", &[update(1, 1), initial(MAX)].concat(), Connection(FlowControlError));
    check_both("below nothing and back", &[initial(0), initial(65_535), initial(MAX)].concat(), Ignored);
    // What the peer may send.
    let data = |bytes: usize| -> Vec<u8> { vec![0; bytes].chunks(16_384).flat_map(|piece| frame(DATA, 0, 1, piece)).collect() };
    check_both("all that the window lets through", &data(65_535), Ignored);
    // Padding counts, and is read at once: more of it than a window has, in all.
    let padded = frame(DATA, PADDED, 1, &[&[255, b'x'][..], &[0; 255]].concat());
    check_both("padding, again and again", &padded.repeat(300), Ignored);
    for role in [Role::Server, Role::Client] {
        let mut endpoint = begun(role);
        endpoint.reads = false;
        let Comes(head) = opened(role) else { continue };
        endpoint.receive(&[head, data(65_536)].concat());
        let output = parsed(&endpoint.connection.take_output(Vec::new()));
        let reset = output.iter().find(|(head, _)| head.kind == RST_STREAM).expect("a reset");
        assert_eq!((reset.0.stream, &reset.1[..]), (1, &[0, 0, 0, FlowControlError as u8][..]), "{role:?}");
    }
}

/// Section 6.5.2.
#[test]
fn settings_have_their_values() {
    let setting = |id: u16, value: u32| frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    check_both("push, 2", &setting(2, 2), Connection(ProtocolError));
    check(Role::Client, "push by a server", &[Comes(setting(2, 1))], Connection(ProtocolError));
    check(Role::Server, "push to a server", &[Comes(setting(2, 1))], Ignored);
    check_both("no push", &setting(2, 0), Ignored);
    check_both("frames too small", &setting(5, 16_383), Connection(ProtocolError));
    check_both("frames too large", &setting(5, 1 << 24), Connection(ProtocolError));
    check_both("frames, smallest", &setting(5, 16_384), Ignored);
    check_both("frames, largest", &setting(5, (1 << 24) - 1), Ignored);
    check_both("extended CONNECT, 2", &setting(8, 2), Connection(ProtocolError));
    check_both("extended CONNECT, taken back", &[setting(8, 1), setting(8, 0)].concat(), Connection(ProtocolError));
    check_both("priorities, 2", &setting(9, 2), Connection(ProtocolError));
    for id in [1, 3, 6] {
        for value in [0, 1, u32::MAX] {
            check_both("any value", &setting(id, value), Ignored);
        }
    }
    check_both("an unknown one", &setting(0xfafa, u32::MAX), Ignored);
    check_both("one id twice", &[setting(4, 1), setting(4, 65_535)].concat(), Ignored);
    check_both("an acknowledgement of nothing", &frame(SETTINGS, 1, 0, &[]), Ignored);
    // Section 3.4: they come first.
    let first = |role: Role, bytes: &[u8]| {
        let mut endpoint = Endpoint::new(role);
        endpoint.receive(bytes);
        endpoint.end.map(ConnectionEnd::code)
    };
    for kind in [DATA, HEADERS, PRIORITY, RST_STREAM, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION, UNKNOWN] {
        assert_eq!(first(Role::Client, &frame(kind, 0, 0, &[])), Some(ProtocolError));
        assert_eq!(first(Role::Server, &[PREFACE, &frame(kind, 0, 0, &[])[..]].concat()), Some(ProtocolError));
    }
    assert_eq!(first(Role::Client, &frame(SETTINGS, 1, 0, &[])), Some(ProtocolError), "an acknowledgement first");
    for at in 0..PREFACE.len() {
        let mut preface = PREFACE.to_vec();
        preface[at] ^= 0x20;
        assert_eq!(first(Role::Server, &preface), Some(ProtocolError), "the preface at {at}");
    }
    // Section 6.5.3: they are acknowledged in time.
    let mut endpoint = Endpoint::new(Role::Server);
    endpoint.receive(&[&PREFACE[..], &frame(SETTINGS, 0, 0, &[])].concat());
    assert!(!endpoint.connection.is_acknowledgement_overdue(endpoint.now));
    assert!(endpoint.connection.is_acknowledgement_overdue(endpoint.now + SETTINGS_TIME_MAX));
    endpoint.connection.end_for_settings();
    let output = parsed(&endpoint.connection.take_output(Vec::new()));
    assert_eq!(output.last().expect("GOAWAY").1[4..], (SettingsTimeout as u32).to_be_bytes());
}

/// Sections 4.3, 6.2 and 6.10.
#[test]
fn header_blocks_are_whole() {
    let block = |role: Role| if role == Role::Server { GET } else { OK };
    for role in [Role::Server, Role::Client] {
        let begun = |flags: u8, payload: &[u8]| Comes(frame(HEADERS, flags, 1, payload));
        let more = |flags: u8, payload: &[u8]| Comes(frame(CONTINUATION, flags, 1, payload));
        let whole = block(role);
        check(role, "CONTINUATION alone", &[more(END_HEADERS, whole)], Connection(ProtocolError));
        check(role, "CONTINUATION behind the end", &[opened(role), more(END_HEADERS, whole)], Connection(ProtocolError));
        check(role, "in pieces", &[begun(0, &whole[..1]), more(0, &[]), more(END_HEADERS, &whole[1..])], Ignored);
        for kind in [DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, UNKNOWN] {
            let frames = [begun(0, &whole[..1]), Comes(frame(kind, END_HEADERS, 1, &[0; 4]))];
            check(role, &format!("interrupted by {kind}"), &frames, Connection(ProtocolError));
        }
        let other = [begun(0, &whole[..1]), Comes(frame(CONTINUATION, END_HEADERS, 3, &whole[1..]))];
        check(role, "continued on another stream", &other, Connection(ProtocolError));
        check(role, "padding over the length", &[begun(PADDED | END_HEADERS, &[5, 0x82, 0, 0])], Connection(ProtocolError));
        check(role, "padding just", &[begun(PADDED | END_HEADERS, &[&[2], whole, &[0, 0]].concat())], Ignored);
        check(role, "not HPACK", &[begun(END_HEADERS, &[0xff; 6])], Connection(CompressionError));
        check(role, "cut", &[begun(END_HEADERS, &[0x40, 5, b'a'])], Connection(CompressionError));
        check(role, "an index of nothing", &[begun(END_HEADERS, &[0x80])], Connection(CompressionError));
        check(role, "an empty block", &[begun(END_HEADERS, &[])], Stream(ProtocolError));
        let endless: Vec<Step> = [begun(0, &[])].into_iter().chain((0..20).map(|_| more(0, &[0; 16_384]))).collect();
        check(role, "a block without end", &endless, Connection(EnhanceYourCalm));
        check(role, "its own dependency", &[opened(role), Comes(frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0]))], Stream(ProtocolError));
        check(
            role,
            "DATA padding over the length",
            &[opened(role), Comes(frame(DATA, PADDED, 1, &[2, 0]))],
            Connection(ProtocolError),
        );
        check(role, "DATA padding just", &[opened(role), Comes(frame(DATA, PADDED, 1, &[1, 0]))], Ignored);
        let promise = [opened(role), Comes(frame(PUSH_PROMISE, END_HEADERS, 1, &[&[0, 0, 0, 2], GET].concat()))];
        check(role, "PUSH_PROMISE", &promise, Connection(ProtocolError));
    }
    let dependent = Comes(frame(HEADERS, HAS_PRIORITY | END_HEADERS, 1, &[&[0, 0, 0, 1, 0], GET].concat()));
    check(Role::Server, "a head that depends on itself", &[dependent], Stream(ProtocolError));
}

/// Section 8.
#[test]
fn messages_are_well_formed() {
    let head = |role: Role, fields: &[(&str, &str)]| {
        let fields = fields.iter().flat_map(|(name, value)| field(name, value));
        let first = if role == Role::Server { POST } else { OK };
        Comes(frame(HEADERS, END_HEADERS, 1, &first.iter().copied().chain(fields).collect::<Vec<_>>()))
    };
    let data = |flags: u8, payload: &[u8]| Comes(frame(DATA, flags, 1, payload));
    let trailers = |flags: u8, block: &[u8]| Comes(frame(HEADERS, flags | END_HEADERS, 1, block));
    for role in [Role::Server, Role::Client] {
        check(role, "trailers that end nothing", &[opened(role), trailers(0, &field("a", "b"))], Stream(ProtocolError));
        check(role, "a pseudo-header in trailers", &[opened(role), trailers(1, &[0x88])], Stream(ProtocolError));
        check(role, "good trailers", &[opened(role), data(0, b"x"), trailers(1, &field("a", "b"))], Ignored);
        check(
            role,
            "trailers behind trailers",
            &[opened(role), trailers(1, &field("a", "b")), trailers(1, &[])],
            Stream(StreamClosed),
        );
        let declared = |length| head(role, &[("content-length", length)]);
        check(role, "more than declared", &[declared("2"), data(0, b"abc")], Stream(ProtocolError));
        check(role, "less than declared", &[declared("2"), data(END_STREAM, b"a")], Stream(ProtocolError));
        check(role, "trailers before all that was declared", &[declared("2"), trailers(1, &[])], Stream(ProtocolError));
        check(role, "as declared", &[declared("2"), data(0, b"a"), data(END_STREAM, b"b")], Ignored);
        check(role, "as declared, with an empty end", &[declared("1"), data(0, b"a"), data(END_STREAM, b"")], Ignored);
        for (name, value) in [
            ("A", "b"),
            ("a b", "c"),
            ("", "b"),
            ("a", "b\nc"),
            ("a", "\0"),
            ("connection", "a"),
            ("upgrade", "a"),
            ("te", "gzip"),
            ("keep-alive", "1"),
            ("proxy-connection", "a"),
            ("transfer-encoding", "chunked"),
            (":x", "y"),
            ("a", " b"),
            ("a", "b "),
        ] {
            check(role, &format!("{name:?}: {value:?}"), &[head(role, &[(name, value)])], Stream(ProtocolError));
        }
    }
    // A stream that is refused, and what comes on it before the client knows.
    let mut endpoint = begun(Role::Server);
    for stream in 0..101 {
        endpoint.receive(&frame(HEADERS, END_HEADERS, 2 * stream + 1, POST));
    }
    endpoint.receive(&frame(DATA, END_STREAM, 201, b"x"));
    let output = parsed(&endpoint.connection.take_output(Vec::new()));
    let resets: Vec<_> =
        output.iter().filter(|(head, _)| head.kind == RST_STREAM).map(|(head, code)| (head.stream, code[3])).collect();
    assert_eq!((endpoint.end, resets), (None, vec![(201, RefusedStream as u8)]));
}
