//! One HTTP/1.1 request to a peer's own admin address, blocking: as much as asking Envoy to drain takes.
//! The load generator has a client of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIME_MAX: Duration = Duration::from_secs(5);
/// The answers asked for here are a few bytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// The body of the answer, whose status must be 200.
pub fn request(method: &str, address: SocketAddr, path: &str) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("{method} http://{address}{path}: {error}");
    let mut socket = TcpStream::connect_timeout(&address, TIME_MAX).map_err(wrong)?;
    socket.set_read_timeout(Some(TIME_MAX)).map_err(wrong)?;
    socket.set_write_timeout(Some(TIME_MAX)).map_err(wrong)?;
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).map_err(wrong)?;
    let mut answer = Vec::new();
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(wrong)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status_line = head.lines().next().unwrap_or_default();
    if status_line.split(' ').nth(1) != Some("200") {
        return Err(format!("{method} http://{address}{path}: {status_line}"));
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_body_is_taken_and_another_status_is_an_error() {
        let check = |answer: &'static str, expected: Result<&str, &str>| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let mut socket = listener.accept().unwrap().0;
                let mut head = [0; 1024];
                let count = socket.read(&mut head).unwrap();
                socket.write_all(answer.as_bytes()).unwrap();
                String::from_utf8_lossy(&head[..count]).into_owned()
            });
            let outcome = request("POST", address, "/drain?now");
            assert!(server.join().unwrap().starts_with("POST /drain?now HTTP/1.1\r\n"));
            match expected {
                Ok(body) => assert_eq!(outcome, Ok(body.to_owned())),
                Err(part) => assert!(outcome.as_ref().is_err_and(|error| error.contains(part)), "{outcome:?}"),
            }
        };
        check("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nOK\n", Ok("OK\n"));
        check("HTTP/1.1 503 Service Unavailable\r\n\r\n", Err("503"));
        check("", Err("POST http://127.0.0.1"));
    }
}
