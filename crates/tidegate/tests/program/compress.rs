//! Streams that are compressed: nothing is held back while the server pauses, in no coding and no version of HTTP, and
//! big bodies arrive whole.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tidegate_testkit::coding::{decode, decode_beginning};
use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// Events come at once, or not for long; the server's next step waits for what the client has seen.
const BOUND: Duration = Duration::from_secs(10);

/// One server that takes one connection and does with it what is asked.
fn server(serve: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the proxy");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a request");
            head.push(byte[0]);
        }
        serve(stream);
    });
    address
}

fn request(upstream: SocketAddr, coding: &str) -> (Proxy, TcpStream) {
    request_to(upstream, "", "compress min-size=\"1B\"", coding)
}

fn request_to(upstream: SocketAddr, settings: &str, compress: &str, coding: &str) -> (Proxy, TcpStream) {
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\n{settings}\nsite \"http://:{{port}}\" {{\n    {compress}\n    proxy \"{upstream}\"\n}}\n"
    );
    let proxy = Proxy::start(PROGRAM, &config).expect("it starts");
    let mut stream = TcpStream::connect(proxy.address).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: {coding}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    (proxy, stream)
}

/// Head and body, chunks undone as far as they are there.
fn parts(received: &[u8]) -> Option<(String, Vec<u8>)> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&received[..end]).into_owned();
    let mut rest = &received[end + 4..];
    if !head.contains("transfer-encoding: chunked") {
        return Some((head, rest.to_vec()));
    }
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).expect("a size"), 16).expect("a size");
        let data = &rest[line + 2..];
        if size == 0 || data.len() < size + 2 {
            break;
        }
        body.extend_from_slice(&data[..size]);
        rest = &data[size + 2..];
    }
    Some((head, body))
}

#[test]
fn an_event_arrives_before_the_next_one_is_made() {
    for coding in ["zstd", "br", "gzip"] {
        let (seen, go_on) = std::sync::mpsc::channel::<()>();
        let upstream = server(move |mut stream| {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                .expect("sent");
            for number in 0..5 {
                let event = format!("data: {number}\n\n");
                stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).expect("sent");
                go_on.recv_timeout(BOUND).expect("the event was seen");
            }
            stream.write_all(b"0\r\n\r\n").expect("sent");
        });
        let (_proxy, mut stream) = request(upstream, coding);
        let mut received = Vec::new();
        for number in 0..5 {
            let expected = (0..=number).map(|number| format!("data: {number}\n\n")).collect::<Vec<_>>().concat();
            let begin = Instant::now();
            loop {
                let plain = parts(&received).map(|(_, body)| decode_beginning(coding, &body)).unwrap_or_default();
                if plain == expected.as_bytes() {
                    break;
                }
                assert!(begin.elapsed() < BOUND, "{coding}: event {number} is held back, {plain:?} has come");
                let mut piece = [0; 4096];
                let count = stream.read(&mut piece).expect("more comes");
                assert!(count > 0, "{coding}: the stream ended");
                received.extend_from_slice(&piece[..count]);
            }
            seen.send(()).expect("the server waits");
        }
        stream.read_to_end(&mut received).expect("the end");
        let (head, body) = parts(&received).expect("an answer");
        assert!(head.contains(&format!("content-encoding: {coding}")), "{head}");
        assert_eq!(decode(coding, &body).expect("a whole body").len(), 45, "{coding}");
    }
}

#[test]
fn a_body_of_known_length_that_comes_slowly_is_not_held_back_for_long() {
    let (seen, go_on) = std::sync::mpsc::channel::<()>();
    let upstream = server(move |mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2000\r\n\r\n").expect("sent");
        stream.write_all(&[b'a'; 1000]).expect("sent");
        go_on.recv_timeout(BOUND).expect("the first half was seen");
        stream.write_all(&[b'b'; 1000]).expect("sent");
    });
    let (_proxy, mut stream) = request(upstream, "zstd");
    let mut received = Vec::new();
    let begin = Instant::now();
    while parts(&received).is_none_or(|(_, body)| decode_beginning("zstd", &body) != [b'a'; 1000]) {
        assert!(begin.elapsed() < BOUND, "the first half is held back");
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).expect("more comes");
        received.extend_from_slice(&piece[..count]);
    }
    seen.send(()).expect("the server waits");
    stream.read_to_end(&mut received).expect("the end");
    let (_, body) = parts(&received).expect("an answer");
    assert_eq!(decode("zstd", &body).expect("a whole body").len(), 2000);
}

#[test]
fn a_large_body_arrives_whole() {
    // Compresses to about half: output is larger than any buffer on the way.
    let mut state = 1_u32;
    let plain: Vec<u8> = (0..3_000_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (state >> 28) as u8
        })
        .collect();
    for coding in ["zstd", "br", "gzip"] {
        for has_length in [true, false] {
            let body = plain.clone();
            let upstream = server(move |mut stream| {
                let length = if has_length { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
                let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{length}Connection: close\r\n\r\n");
                stream.write_all(head.as_bytes()).expect("sent");
                stream.write_all(&body).expect("sent");
            });
            let (_proxy, mut stream) = request(upstream, coding);
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("the end");
            let (_, body) = parts(&received).expect("an answer");
            assert!(decode(coding, &body).expect("a whole body") == plain, "{coding}, length known: {has_length}");
            assert!(body.len() < plain.len() * 3 / 4, "{coding}: {} bytes", body.len());
        }
    }
}

#[test]
fn with_little_memory_a_long_answer_gets_a_smaller_window_of_br() {
    for (level, plain_bytes) in [(4, 1_000_000), (5, 1_000_000), (9, 5_000_000)] {
        let plain =
            b"the same words again and again, with a number: ".iter().copied().cycle().take(plain_bytes).collect::<Vec<u8>>();
        let body = plain.clone();
        let upstream = server(move |mut stream| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).expect("sent");
            stream.write_all(&body).expect("sent");
        });
        let compress = format!("compress \"br\" level={level}");
        let (_proxy, mut stream) = request_to(upstream, "memory \"64MiB\"", &compress, "br");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("the end");
        let (head, body) = parts(&received).expect("an answer");
        assert!(head.contains("content-encoding: br"), "level {level}: {head}");
        assert!(decode("br", &body).expect("a whole body") == plain, "level {level}");
    }
}
