//! One bad stream among a hundred, of whichever side: it ends, and the other 99 come whole (RFC 9113 section 8.1.1).

use crate::memory::{Memory, Way};
use crate::tasks::{Random, Tasks};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tidegate_message::h2::{FrameIo, FrameOwner, H2Shared, Nobody, Opened, Request, StreamHandle};
use tidegate_transport::{Stream, rt};
use tidegate_wire::h2::PREFACE;
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::{ACK, END_HEADERS, END_STREAM, ErrorCode, FrameHead, FrameKind, PADDED, write_frame};
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::http1::parse_request;
use tidegate_wire::{HeadLimits, RequestHead, ResponseHead};

const STREAMS: u32 = 100;
/// The one that is bad.
const BAD: u32 = 99;

/// A frame of the bad stream: its kind, flags and payload.
type Frame = (FrameKind, u8, Vec<u8>);

/// A field without indexing and without Huffman code.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0, name.len() as u8];
    field.extend(name.as_bytes());
    field.push(value.len() as u8);
    field.extend(value.as_bytes());
    field
}

fn block(first: &[u8], fields: &[(&str, &str)]) -> Vec<u8> {
    let fields = fields.iter().flat_map(|(name, value)| field(name, value));
    first.iter().copied().chain(fields).collect()
}

/// POST / to the authority "a".
const POST: &[u8] = b"\x83\x84\x86\x01\x01a";
const OK: &[u8] = b"\x88";

fn headers(flags: u8, block: Vec<u8>) -> Frame {
    (FrameKind::Headers, flags | END_HEADERS, block)
}

fn data(flags: u8, payload: &[u8]) -> Frame {
    (FrameKind::Data, flags, payload.to_vec())
}

/// What a peer sends on all streams: heads first, then bodies, the bad one's among them.
fn frames(first: &[u8], bad: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for round in 0..bad.len().max(2) {
        for id in (0..STREAMS).map(|stream| 2 * stream + 1) {
            let healthy = match round {
                0 => Some(headers(0, block(first, &[("content-length", "5")]))),
                1 => Some(data(END_STREAM, b"hello")),
                _ => None,
            };
            if let Some((kind, flags, payload)) = if id == BAD { bad.get(round).cloned() } else { healthy } {
                write_frame(&mut bytes, kind, flags, id, &payload);
            }
        }
    }
    bytes
}

/// Faults of a message, whichever side's it is. `first` is a good head without its fields.
fn faults(first: &[u8]) -> Vec<(&'static str, Vec<Frame>)> {
    let head = |fields: &[(&str, &str)]| headers(0, block(first, fields));
    vec![
        ("an upper-case name", vec![head(&[("X-A", "b")]), data(END_STREAM, b"x")]),
        ("a name with a space", vec![head(&[("a b", "c")]), data(END_STREAM, b"x")]),
        ("a line end in a value", vec![head(&[("a", "b\r\nc: d")]), data(END_STREAM, b"x")]),
        ("a zero byte in a value", vec![head(&[("a", "b\0")]), data(END_STREAM, b"x")]),
        ("a field of HTTP/1", vec![head(&[("connection", "close")]), data(END_STREAM, b"x")]),
        ("another of them", vec![head(&[("transfer-encoding", "chunked")]), data(END_STREAM, b"x")]),
        ("an unknown pseudo-header", vec![head(&[(":a", "b")]), data(END_STREAM, b"x")]),
        ("a late pseudo-header", vec![head(&[("a", "b"), (":path", "/")]), data(END_STREAM, b"x")]),
        ("no pseudo-header", vec![headers(0, field("a", "b")), data(END_STREAM, b"x")]),
        ("two lengths", vec![head(&[("content-length", "1"), ("content-length", "2")]), data(END_STREAM, b"x")]),
        ("a length that is none", vec![head(&[("content-length", "+1")]), data(END_STREAM, b"x")]),
        ("more than was declared", vec![head(&[("content-length", "5")]), data(0, b"hello!")]),
        ("less than was declared", vec![head(&[("content-length", "5")]), data(END_STREAM, b"hell")]),
        ("trailers too early", vec![head(&[("content-length", "5")]), headers(END_STREAM, field("a", "b"))]),
        ("trailers that end nothing", vec![head(&[]), headers(0, field("a", "b"))]),
        ("a pseudo-header in trailers", vec![head(&[]), headers(END_STREAM, field(":path", "/"))]),
        ("a window by nothing", vec![head(&[]), (FrameKind::WindowUpdate, 0, vec![0; 4])]),
        ("a window of 2^31", vec![head(&[]), (FrameKind::WindowUpdate, 0, vec![0x7f, 255, 255, 255])]),
        ("a short PRIORITY", vec![head(&[]), (FrameKind::Priority, 0, vec![0; 4])]),
        ("a dependency on itself", vec![head(&[]), (FrameKind::Priority, 0, vec![0, 0, 0, BAD as u8, 0])]),
        ("more than its window", vec![head(&[]), data(0, &[0; 16_384]), data(0, &[0; 16_384]), data(0, &[0; 16_384])]),
        (
            "more than its window, as padding",
            vec![head(&[]), data(PADDED, &[255; 16_384]), data(PADDED, &[255; 16_384]), data(PADDED, &[255; 16_384])],
        ),
        ("a reset", vec![head(&[]), (FrameKind::RstStream, 0, vec![0, 0, 0, 8])]),
        ("a reset without a reason", vec![head(&[]), (FrameKind::RstStream, 0, vec![0xff; 4])]),
    ]
}

/// A driver between the test and one of our ends; gives what that end writes.
fn drive(
    shared: &Rc<H2Shared>,
    owner: impl FrameOwner + 'static,
    tasks: &mut Tasks,
    input: &[u8],
    random: &mut Random,
) -> Vec<u8> {
    let (inbound, outbound) = (Way::new(1 << 24, usize::MAX), Way::new(1 << 24, usize::MAX));
    let stream = Stream::plain(Memory { inbound: inbound.clone(), outbound: outbound.clone() });
    let mut io = FrameIo::new(shared.clone(), Rc::new(stream));
    let mut owner = owner;
    tasks.spawner.spawn("the driver".to_owned(), async move {
        let end = poll_fn(|cx| io.poll(cx, &mut owner)).await;
        panic!("the connection ended: {end:?}");
    });
    let mut rest = input;
    while tasks.awake() > 0 || !rest.is_empty() {
        while tasks.awake() > 0 {
            tasks.poll_one(random);
        }
        let (piece, after) = rest.split_at(rest.len().min(random.below(3000) + 1));
        inbound.borrow_mut().put(piece);
        rest = after;
    }
    outbound.borrow_mut().take()
}

fn shared(role: Role) -> Rc<H2Shared> {
    let settings = OurSettings {
        streams_max: STREAMS,
        initial_window_bytes: 40_000,
        connection_window_bytes: 1 << 20,
        header_list_bytes_max: 65_536,
        takes_protocol: false,
    };
    H2Shared::new(role, settings, HeadLimits::default(), 40_000, Instant::now())
}

/// Sends back what each request has; a bad one is reset.
struct Echoing {
    shared: Rc<H2Shared>,
    requests: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    unread: Rc<RefCell<Vec<StreamHandle>>>,
}

impl FrameOwner for Echoing {
    fn poll_requests(&mut self, cx: &mut Context<'_>) {
        self.requests.retain_mut(|request| request.as_mut().poll(cx).is_pending());
    }

    fn poll_deadlines(&mut self, _: &mut Context<'_>) -> Poll<Option<ConnectionEnd>> {
        Poll::Pending
    }

    fn begin(&mut self, opened: Opened, now: Instant) -> Result<(), ConnectionEnd> {
        let (stream, read) = self.shared.read_request(opened, &HeadLimits::default(), &mut RequestHead::default())?;
        if read.is_err() {
            return stream.reset_for_fault(now);
        }
        if opened.key.id() == BAD {
            // Nobody reads it, so that its window counts.
            self.unread.borrow_mut().push(stream);
            return Ok(());
        }
        self.requests.push(Box::pin(async move {
            stream.send_response(&ResponseHead { status: 200, ..ResponseHead::default() }, false).expect("an open stream");
            while let Some(piece) = poll_fn(|cx| stream.poll_read(cx)).await.expect("a whole request") {
                stream.send_body(piece, false, Duration::from_secs(3600)).await.expect("an open window");
            }
            stream.finish(None).expect("an open stream");
        }));
        Ok(())
    }
}

/// What came on each stream: its body, whether it ended, and how it was reset.
#[derive(Default)]
struct Seen {
    body: Vec<u8>,
    has_ended: bool,
    reset: Option<u32>,
}

fn seen(mut bytes: &[u8]) -> HashMap<u32, Seen> {
    let mut streams = HashMap::<u32, Seen>::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = FrameHead::parse(head);
        let (payload, rest) = rest.split_at(head.len as usize);
        bytes = rest;
        let stream = streams.entry(head.stream).or_default();
        match FrameKind::from_repr(head.kind).expect("a known frame") {
            FrameKind::Data => stream.body.extend(payload),
            FrameKind::RstStream => stream.reset = Some(u32::from_be_bytes(payload.try_into().expect("a code"))),
            FrameKind::GoAway => panic!("GOAWAY {payload:?}"),
            _ => {}
        }
        let may_end = matches!(FrameKind::from_repr(head.kind), Some(FrameKind::Data | FrameKind::Headers));
        stream.has_ended |= may_end && head.has(END_STREAM);
    }
    streams
}

#[test]
fn a_server_with_one_bad_request_answers_the_others() {
    let check = |name: &str, bad: &[Frame]| {
        let mut input = PREFACE.to_vec();
        write_frame(&mut input, FrameKind::Settings, 0, 0, &[]);
        write_frame(&mut input, FrameKind::Settings, ACK, 0, &[]);
        input.extend(frames(POST, bad));
        let (shared, unread) = (shared(Role::Server), Rc::default());
        let owner = Echoing { shared: shared.clone(), requests: Vec::new(), unread: Rc::clone(&unread) };
        let output = drive(&shared, owner, &mut Tasks::default(), &input, &mut Random(name.len() as u64));
        let seen = seen(&output);
        for id in (0..STREAMS).map(|stream| 2 * stream + 1).filter(|id| *id != BAD) {
            let stream = &seen[&id];
            assert_eq!((&stream.body[..], stream.has_ended, stream.reset), (&b"hello"[..], true, None), "{name}: {id}");
        }
        let is_bad = |stream: &StreamHandle| {
            let mut cx = Context::from_waker(Waker::noop());
            while let Poll::Ready(Ok(Some(_))) = stream.poll_read(&mut cx) {}
            stream.fault().is_some() || matches!(stream.poll_read(&mut cx), Poll::Ready(Err(_)))
        };
        let has_fault = unread.borrow().first().is_none_or(is_bad);
        let is_reset = seen.get(&BAD).is_some_and(|stream| stream.reset.is_some());
        // Whoever reads a message may answer that it broke a rule behind its head; the reset follows that.
        let is_answerable = name.contains("was declared") || name.contains("trailers");
        let is_exempt = name.starts_with("a reset") || is_answerable;
        assert!(has_fault && is_reset != is_exempt, "{name}: the bad one lives");
    };
    run(&faults(POST), check);
    run(
        &[
            ("no authority", vec![headers(0, b"\x83\x84\x86".to_vec())]),
            ("two methods", vec![headers(0, [POST, b"\x82"].concat())]),
            ("an empty path", vec![headers(0, b"\x83\x04\x00\x86\x01\x01a".to_vec())]),
            ("DATA behind its end", vec![headers(END_STREAM, POST.to_vec()), data(0, b"x")]),
            ("HEADERS behind its end", vec![headers(END_STREAM, POST.to_vec()), headers(END_STREAM, field("a", "b"))]),
        ],
        check,
    );
}

#[test]
fn a_client_with_one_bad_answer_gets_the_others() {
    let check = |name: &str, bad: &[Frame]| {
        let mut input = Vec::new();
        write_frame(&mut input, FrameKind::Settings, 0, 0, &[]);
        write_frame(&mut input, FrameKind::Settings, ACK, 0, &[]);
        input.extend(frames(OK, bad));
        let (shared, mut tasks) = (shared(Role::Client), Tasks::default());
        let mut head = RequestHead::default();
        parse_request(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", &HeadLimits::default(), &mut head).expect("a request");
        let whole = Rc::new(Cell::new(0));
        let failed = Rc::new(Cell::new(None));
        for id in (0..STREAMS).map(|stream| 2 * stream + 1) {
            let request = Request { head: &head, scheme: "http", wants_trailers: false, protocol: None, ends_stream: true };
            let stream = shared.send_request(&request).expect("a free stream");
            let (whole, failed) = (whole.clone(), failed.clone());
            tasks.spawner.spawn(format!("stream {id}"), async move {
                if id == BAD {
                    poll_fn(|cx| stream.poll_gone(cx)).await;
                    return failed.set(stream.fault());
                }
                poll_fn(|cx| stream.poll_head(cx)).await.expect("a head");
                assert!(stream.take_head(&mut ResponseHead::default()));
                let mut body = Vec::<u8>::new();
                while let Some(piece) = poll_fn(|cx| stream.poll_read(cx)).await.expect("a whole answer") {
                    body.extend(piece.iter());
                }
                assert_eq!(body, b"hello");
                whole.set(whole.get() + 1);
            });
        }
        drive(&shared, Nobody, &mut tasks, &input, &mut Random(name.len() as u64));
        assert_eq!(whole.get(), STREAMS - 1, "{name}");
        assert!(failed.get().is_some(), "{name}: the bad one lives");
    };
    run(&faults(OK), check);
    run(
        &[
            ("no status", vec![headers(END_STREAM, field("a", "b"))]),
            ("a status of a request", vec![headers(END_STREAM, b"\x88\x82".to_vec())]),
            ("a status of four digits", vec![headers(END_STREAM, field(":status", "2000"))]),
            ("switching protocols", vec![headers(0, field(":status", "101"))]),
            ("an interim end", vec![headers(END_STREAM, field(":status", "103"))]),
            ("DATA without a head", vec![data(END_STREAM, b"x")]),
            ("DATA behind interim heads", vec![headers(0, field(":status", "103")), data(END_STREAM, b"x")]),
            ("a refused stream", vec![(FrameKind::RstStream, 0, vec![0, 0, 0, ErrorCode::RefusedStream as u8])]),
        ],
        check,
    );
}

fn run(faults: &[(&str, Vec<Frame>)], check: impl Fn(&str, &[Frame])) {
    let all = async {
        for (name, frames) in faults {
            check(name, frames);
        }
    };
    rt::run(tidegate_transport::Driver::Epoll, all).expect("a runtime");
}
