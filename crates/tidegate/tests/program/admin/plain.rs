//! One request on one connection, written by hand, so that what is wrong with it is the test's choice.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Generous: an upgrade starts a process in debug mode on a busy machine.
const WAIT: Duration = Duration::from_secs(70);

pub struct Reply {
    pub status: u16,
    head: String,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.text))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

pub fn over_tcp(address: &str, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
    let socket = TcpStream::connect(address).expect("the endpoint accepts");
    socket.set_read_timeout(Some(WAIT)).expect("a timeout");
    exchange(socket, address, method, path, headers, body)
}

pub fn over_unix(socket: &Path, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
    let socket = UnixStream::connect(socket).expect("the endpoint accepts");
    socket.set_read_timeout(Some(WAIT)).expect("a timeout");
    exchange(socket, "localhost", method, path, headers, body)
}

fn exchange(mut socket: impl Read + Write, host: &str, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        request.push_str(&format!("Host: {host}\r\n"));
    }
    for header in headers {
        request.push_str(&format!("{header}\r\n"));
    }
    request.push_str("\r\n");
    request.push_str(body);
    // A body that is refused for its size is not read to its end.
    let _ = socket.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Reply { status, head: head.to_owned(), text: text.to_owned() }
}
