//! One call over every protocol, against scripted servers and real sockets: what is sent and read is the same for who
//! calls.

use super::{AnswerBody, Call, HeadKind, Start};
use crate::connect::tests::{World, run, server};
use crate::fault::{Standing, Was};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::TcpStream;
use tidegate_model::{Protocol, Timeouts};
use tidegate_transport::Buf;
use tidegate_wire::HeadLimits;
use tidegate_wire::head::{Method, RequestHead, ResponseHead};
use tidegate_wire::http1::parse_request;

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 16 << 10, request_line_bytes_max: 8 << 10, fields_max: 100 };

/// Reads requests with a chunked body, and answers each with 103 and 200.
fn serve_h1(mut stream: TcpStream) {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        seen.extend_from_slice(&piece[..count]);
        if seen.ends_with(b"0\r\n\r\n") {
            assert!(seen.ends_with(b"\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"), "{}", seen.escape_ascii());
            seen.clear();
            let hints = "HTTP/1.1 103 Early Hints\r\n\r\n";
            let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
            let _ = stream.write_all(&[hints, answer].concat().into_bytes());
        }
    }
}

/// Does as [`serve_h1`] does, frame by frame.
fn serve_h2(mut stream: TcpStream) {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    let (end_stream, end_headers) = (1, 4);
    let frame = |kind: u8, flags: u8, id: u8, payload: &[u8]| {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, id][..], payload].concat()
    };
    let mut head = [0; 24];
    stream.read_exact(&mut head).expect("a preface");
    stream.write_all(&frame(SETTINGS, 0, 0, b"")).expect("sent");
    let (mut head, mut body) = ([0; 9], Vec::new());
    while stream.read_exact(&mut head).is_ok() {
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut payload).expect("a frame");
        if head[3] != DATA {
            continue;
        }
        body.extend(payload);
        if head[4] & end_stream != 0 {
            assert_eq!(std::mem::take(&mut body), b"ab");
            let id = head[8];
            // `:status: 103` as a literal, `:status: 200` by its index.
            let hints = frame(HEADERS, end_headers, id, b"\x08\x03103");
            let answer = frame(HEADERS, end_headers, id, b"\x88");
            let _ = stream.write_all(&[hints, answer, frame(DATA, end_stream, id, b"hello")].concat());
        }
    }
}

/// Sends a request in two pieces and reads its answer: the statuses that came, the body, and what the connection was
/// before.
async fn ask(world: &World) -> (Vec<u16>, Vec<u8>, Was) {
    let connection = match world.take(None) {
        Some(connection) => connection,
        None => world.open(None).await,
    };
    let call = Call::new(&world.pool, 0, connection);
    let was = call.was();
    let mut head = RequestHead::default();
    let text = b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    parse_request(text, &LIMITS, &mut head).expect("a request");
    let first = Some(Buf::copy_of(b"a"));
    let start =
        Start { head: &head, first, is_chunked: true, wants_trailers: false, protocol: None, script: None, is_whole: false };
    call.send_head(start, Timeouts::default().idle).await.expect("sent");
    call.send_body(Buf::copy_of(b"b"), true).await.expect("sent");
    let (mut response, mut statuses) = (ResponseHead::default(), Vec::new());
    loop {
        let kind = call.read_head(&LIMITS, &mut response).await.expect("a head");
        statuses.push(response.status);
        if kind == HeadKind::Final {
            break;
        }
    }
    let answer = call.answer(&response, Method::Post, Timeouts::default().idle, &LIMITS).expect("an answer");
    let mut body = Vec::new();
    match answer.body {
        AnswerBody::H1(mut reader) => {
            while let Some(piece) = poll_fn(|cx| reader.poll_read(cx)).await.expect("a body") {
                body.extend_from_slice(&piece);
            }
        }
        AnswerBody::H2(mut reader) => {
            while let Some(piece) = poll_fn(|cx| reader.poll_read(cx)).await.expect("a body") {
                body.extend_from_slice(&piece);
            }
        }
        AnswerBody::FastCgi(_) => panic!("HTTP was asked"),
        AnswerBody::Empty => {}
    }
    let keeping = answer.keeping;
    call.give_back(&world.pool.servers[0], keeping);
    (statuses, body, was)
}

#[test]
fn a_call_is_the_same_over_every_protocol() {
    run(async {
        let check = async |protocol: Protocol, serve: fn(TcpStream), first: Was, kept: Was| {
            let world = World::new(server(serve), |pool| pool.protocol = protocol);
            let answered = |was| (vec![103, 200], b"hello".to_vec(), was);
            assert_eq!(ask(&world).await, answered(first), "{protocol:?}");
            assert_eq!(ask(&world).await, answered(kept), "{protocol:?}, once more");
            assert_eq!((world.open_connections(), world.pool.metrics.connections_active.value()), (1, 0), "{protocol:?}");
        };
        check(Protocol::Http1, serve_h1, Was::Fresh, Was::Pooled).await;
        check(Protocol::H2c, serve_h2, Was::Shared(Standing::New), Was::Shared(Standing::Proven)).await;
    });
}

#[test]
fn an_answer_that_has_begun_is_read_from_its_beginning() {
    run(async {
        let world = World::new(server(serve_short), |pool| pool.protocol = Protocol::Http1);
        let call = Call::new(&world.pool, 0, world.open(None).await);
        let mut head = RequestHead::default();
        parse_request(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", &LIMITS, &mut head).expect("a request");
        let start = Start {
            head: &head,
            first: None,
            is_chunked: false,
            wants_trailers: false,
            protocol: None,
            script: None,
            is_whole: true,
        };
        call.send_head(start, Timeouts::default().idle).await.expect("sent");
        poll_fn(|cx| call.poll_begun(cx)).await.expect("a beginning");
        let mut response = ResponseHead::default();
        assert_eq!(call.read_head(&LIMITS, &mut response).await, Ok(HeadKind::Final));
        assert_eq!(response.status, 204);
    });
}

fn serve_short(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
}
