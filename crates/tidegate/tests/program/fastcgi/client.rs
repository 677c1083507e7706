//! A client that says what it likes and hears all of the answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(30);

pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// Whether the answer's framing says that nothing is missing.
    pub is_whole: bool,
}

impl Reply {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).and_then(|()| stream.set_write_timeout(Some(BOUND))).expect("a bound");
    stream
}

/// A request with a body, if it has one; `fields` are whole lines.
pub fn ask(address: SocketAddr, method: &str, target: &str, fields: &[&str], body: &[u8]) -> Reply {
    let mut request = format!("{method} {target} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n");
    for field in fields {
        request.push_str(&format!("{field}\r\n"));
    }
    if !body.is_empty() {
        request.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    let request = [format!("{request}\r\n").as_bytes(), body].concat();
    send(address, method, request)
}

pub fn get(address: SocketAddr, target: &str) -> Reply {
    ask(address, "GET", target, &[], b"")
}

/// With a body in chunks.
pub fn ask_chunked(address: SocketAddr, target: &str, body: &[u8]) -> Reply {
    let mut request =
        format!("POST {target} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
            .into_bytes();
    for chunk in body.chunks(10_000) {
        request.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    send(address, "POST", request)
}

fn send(address: SocketAddr, method: &str, request: Vec<u8>) -> Reply {
    let mut stream = connect(address);
    let mut sender = stream.try_clone().expect("a socket");
    // Both ways at once: an answer may come before the request is over, and then the rest of it is nobody's.
    let sending = std::thread::spawn(move || drop(sender.write_all(&request)));
    let reply = read_reply(&mut stream, method);
    drop(stream);
    sending.join().expect("no panic");
    reply
}

/// Up to the end of the connection.
pub fn read_reply(stream: &mut TcpStream, method: &str) -> Reply {
    read_on(stream, method, Vec::new())
}

/// What comes until that text has come.
pub fn read_until(stream: &mut TcpStream, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains(text) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {}", bytes.escape_ascii()));
        bytes.push(byte[0]);
    }
    bytes
}

/// As [`read_reply`], with what was read before.
pub fn read_on(stream: &mut TcpStream, method: &str, mut bytes: Vec<u8>) -> Reply {
    let mut piece = vec![0; 1 << 16];
    while let Ok(count) = stream.read(&mut piece)
        && count > 0
    {
        bytes.extend_from_slice(&piece[..count]);
    }
    let end =
        bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_else(|| panic!("no head: {}", bytes.escape_ascii()));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.get(9..12).and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no status: {head}"));
    assert_ne!(status, 100, "nobody has asked for it: {head}");
    let mut reply = Reply { status, head, body: bytes.split_off(end + 4), is_whole: true };
    if method == "HEAD" || matches!(status, 204 | 304) {
        return reply;
    }
    if reply.field("transfer-encoding") == Some("chunked") {
        (reply.body, reply.is_whole) = unchunked(&reply.body);
    } else if let Some(length) = reply.field("content-length") {
        reply.is_whole = length.parse() == Ok(reply.body.len());
    }
    reply
}

fn unchunked(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") else { return (body, false) };
        let Some(length) = std::str::from_utf8(&bytes[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok()) else {
            return (body, false);
        };
        bytes = &bytes[end + 2..];
        if length == 0 {
            return (body, bytes == b"\r\n");
        }
        if bytes.len() < length + 2 {
            body.extend_from_slice(bytes);
            return (body, false);
        }
        body.extend_from_slice(&bytes[..length]);
        bytes = &bytes[length + 2..];
    }
}
