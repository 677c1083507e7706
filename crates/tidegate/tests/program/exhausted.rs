//! More sockets with input at once than a ring has buffers for it (ENOBUFS): uploads of many clients that came while
//! the process stood still, with little memory. What finds no buffer waits in its socket for the next turn; each
//! request is answered whole, or refused in words.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;
use tidegate_testkit::driver;
use tidegate_testkit::pattern;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Proxy, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// Six times what a worker lends its ring.
const CLIENTS: usize = 200;
const ROUNDS: usize = 3;
const BODY_BYTES: usize = 100_000;
const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "off"
threads 1
memory "64MiB"
site "http://:{port}" { proxy "UPSTREAM"; }
"#;

/// What became of an upload.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Echoed,
    Refused,
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a bound");
    socket.set_write_timeout(Some(Duration::from_secs(60))).expect("a bound");
    socket
}

fn body(client: usize) -> Vec<u8> {
    pattern::pattern(client as u64 * 7, BODY_BYTES)
}

/// What chunks hold, up to the last, which has to be there.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let line = chunks.windows(2).position(|at| at == b"\r\n").expect("the line of a chunk");
        let length = std::str::from_utf8(&chunks[..line]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let length = length.expect("the length of a chunk");
        let begin = line + 2;
        content.extend_from_slice(&chunks[begin..begin + length]);
        chunks = &chunks[begin + length + 2..];
        if length == 0 {
            return content;
        }
    }
}

/// The rest of the upload, and the whole answer.
fn finish(mut socket: TcpStream, client: usize, sent: usize) -> Outcome {
    let body = body(client);
    let mut writing = socket.try_clone().expect("a copy");
    let rest = body[sent..].to_vec();
    // A refusal may come first, and ends the connection.
    let writer = thread::spawn(move || writing.write_all(&rest).is_ok());
    let mut answer = Vec::new();
    let ended = socket.read_to_end(&mut answer);
    let is_sent = writer.join().expect("no panic");
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n").expect("a whole head") + 4;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    if head.starts_with("http/1.1 503 ") {
        assert!(head.contains("retry-after:"), "{head}");
        return Outcome::Refused;
    }
    assert!(head.starts_with("http/1.1 200 ") && ended.is_ok() && is_sent, "client {client}: {head} {ended:?}");
    let content = if head.contains("transfer-encoding: chunked") { joined(&answer[end..]) } else { answer[end..].to_vec() };
    assert!(content == body, "client {client}: {} bytes came back", content.len());
    Outcome::Echoed
}

#[test]
fn uploads_that_find_no_buffer_are_whole_or_refused() {
    for driver in driver::drivers(PROGRAM) {
        let upstream = Upstream::start(Behaviour::new(Answer::EchoBody)).expect("a port is free");
        let config = CONFIG.replace("UPSTREAM", &upstream.address.to_string());
        let proxy = Proxy::start(PROGRAM, &driver::on(driver, &config)).expect("it starts");
        let mut echoed = 0;
        for _ in 0..ROUNDS {
            let waiting: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(proxy.address)).collect();
            proxy.program.signal("STOP").expect("it stands still");
            // What the kernel takes of each: then all of them have input at once.
            let write = |(client, mut socket): (usize, &TcpStream)| {
                let head =
                    format!("POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
                socket.write_all(head.as_bytes()).expect("the kernel takes a head");
                socket.set_nonblocking(true).expect("a socket");
                let sent = socket.write(&body(client)[..20_000]).expect("and some of a body");
                socket.set_nonblocking(false).expect("a socket");
                sent
            };
            let sent: Vec<usize> = waiting.iter().enumerate().map(write).collect();
            proxy.program.signal("CONT").expect("it goes on");
            let clients: Vec<_> = waiting
                .into_iter()
                .zip(sent)
                .enumerate()
                .map(|(client, (socket, sent))| thread::spawn(move || finish(socket, client, sent)))
                .collect();
            let outcomes: Vec<Outcome> = clients.into_iter().map(|client| client.join().expect("whole or refused")).collect();
            echoed += outcomes.iter().filter(|outcome| **outcome == Outcome::Echoed).count();
        }
        println!("{driver}: {echoed} of {} came back, the others were refused", ROUNDS * CLIENTS);
        assert!(echoed >= CLIENTS / 2, "{driver}: {echoed} came back\n{}", proxy.program.output());
        // Afterwards everything is as before.
        proxy.wait_for_metric("tidegate_client_connections_active", 0.0).expect("all have left");
        assert_eq!(get(&proxy.address.to_string(), "/").map(|(status, _)| status), Ok(200), "{driver}");
        let panics = proxy.metrics().expect("metrics").sum("tidegate_panics_caught_total");
        assert!(panics < 1.0, "{}", proxy.program.output());
    }
}
