//! An error answer that its client does not take waits seconds and not the minute of other answers, over HTTP/2: the
//! client opens no window. What HTTP/1.1 does is the same bound on the socket's sends, which a refusal of a few hundred
//! bytes never reaches.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tidegate_testkit::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const RST_STREAM: u8 = 3;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    let literal =
        |name: &str, value: &str| [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat();
    // :method GET and :scheme http are fields of the static table.
    frame(1, 5, stream, &[&[0x82, 0x86], &literal(":path", path)[..], &literal(":authority", "a.test")].concat())
}

/// The kind and the stream of the next frame; `None` when none came in time.
fn next_frame(socket: &mut TcpStream) -> Option<(u8, u32)> {
    let mut head = [0; 9];
    socket.read_exact(&mut head).ok()?;
    let [first, second, third, kind, _, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, first, second, third]) as usize];
    socket.read_exact(&mut payload).ok()?;
    Some((kind, u32::from_be_bytes(stream)))
}

#[test]
fn an_error_answer_waits_seconds_for_its_client_and_others_longer() {
    let config = "admin \"127.0.0.1:{admin}\"\nsite \"http://:{port}\" { route \"/fine\" { respond 200 body=\"fine\"; }; }\n";
    let proxy = Proxy::start(PROGRAM, config).expect("it starts");
    let mut socket = TcpStream::connect(proxy.address).expect("it listens");
    let no_window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &no_window[..], &frame(4, 1, 0, &[])].concat();
    socket.write_all(&[preface, get(1, "/fine"), get(3, "/none")].concat()).expect("sent");
    let begin = Instant::now();
    let mut reset = Vec::new();
    // Long after the bound of the one, and long before that of the other.
    while begin.elapsed() < Duration::from_secs(12) {
        let left = Duration::from_secs(12).saturating_sub(begin.elapsed()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left)).expect("a bound");
        match next_frame(&mut socket) {
            Some((RST_STREAM, stream)) => reset.push((stream, begin.elapsed())),
            Some(_) => {}
            None => break,
        }
    }
    let [(3, after)] = reset[..] else { panic!("{reset:?}") };
    assert!(after >= Duration::from_secs(4), "{after:?}");
}
