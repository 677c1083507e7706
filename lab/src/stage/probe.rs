//! One request on a new connection, and its answer: how the lab sees whether a change has reached a proxy.
//! Blocking and plain; no load is made with it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

use crate::client::tls::{self, SessionTickets};
use crate::net::Error;

const TIME_MAX: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 16 * 1024;

pub struct Probe {
    /// `None` is plain TCP.
    config: Option<Arc<ClientConfig>>,
    address: SocketAddr,
    host: String,
}

impl Probe {
    pub fn new(ca: &Path, address: SocketAddr) -> Result<Probe, Error> {
        let config = tls::client_config(Some(ca), "http/1.1", SessionTickets::Ignored)?;
        Ok(Probe { config: Some(config), address, host: "localhost".to_owned() })
    }

    pub fn plain(address: SocketAddr, host: &str) -> Probe {
        Probe { config: None, address, host: host.to_owned() }
    }

    /// Over TLS to a host of any name.
    pub fn with(config: Arc<ClientConfig>, address: SocketAddr, host: &str) -> Probe {
        Probe { config: Some(config), address, host: host.to_owned() }
    }

    /// The head of the answer in lower case.
    pub fn head(&self, path: &str) -> Result<String, Error> {
        let received = self.ask(path, |received| end_of_head(received).is_some())?;
        let end = end_of_head(&received).ok_or("no answer")?;
        Ok(String::from_utf8_lossy(&received[..end]).to_lowercase())
    }

    /// Whether the answer is 200 with just this body. Not for TLS, whose ends some servers forget to announce.
    pub fn is_answered_with(&self, path: &str, body: &[u8]) -> bool {
        let is_right = |answer: Vec<u8>| {
            let end = end_of_head(&answer).map(|end| end + 2);
            answer.starts_with(b"HTTP/1.1 200 ") && end.is_some_and(|end| answer[end..] == *body)
        };
        self.ask(path, |_| false).is_ok_and(is_right)
    }

    /// What was received when there is enough of it, or at its end.
    fn ask(&self, path: &str, is_enough: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>, Error> {
        let socket = TcpStream::connect_timeout(&self.address, TIME_MAX)?;
        socket.set_read_timeout(Some(TIME_MAX))?;
        let host = &self.host;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: https://example.com\r\nConnection: close\r\n\r\n");
        match &self.config {
            None => exchange(socket, &request, is_enough),
            Some(config) => {
                let session = ClientConnection::new(Arc::clone(config), ServerName::try_from(host.clone())?)?;
                exchange(StreamOwned::new(session, socket), &request, is_enough)
            }
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str, is_enough: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>, Error> {
    stream.write_all(request.as_bytes())?;
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece)?;
        received.extend_from_slice(&piece[..count]);
        if count == 0 || is_enough(&received) {
            return Ok(received);
        }
        if received.len() > ANSWER_BYTES_MAX {
            return Err("an answer that does not end".into());
        }
    }
}

/// Behind the line end of the last field.
fn end_of_head(received: &[u8]) -> Option<usize> {
    memchr::memmem::find(received, b"\r\n\r\n").map(|end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn only_the_whole_right_answer_counts() {
        let check = |answer: &'static str, is_right: bool, head: Option<&str>| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let probe = Probe::plain(listener.local_addr().unwrap(), "site-1.test");
            let server = std::thread::spawn(move || {
                for _ in 0..2 {
                    let mut socket = listener.accept().unwrap().0;
                    let mut request = [0; 1024];
                    let count = socket.read(&mut request).unwrap();
                    assert!(String::from_utf8_lossy(&request[..count]).contains("\r\nHost: site-1.test\r\n"));
                    socket.write_all(answer.as_bytes()).unwrap();
                }
            });
            assert_eq!(probe.is_answered_with("/", b"hello"), is_right, "{answer}");
            assert_eq!(probe.head("/").ok().as_deref(), head, "{answer}");
            server.join().unwrap();
        };
        check("HTTP/1.1 200 OK\r\nX-Revision: 2\r\n\r\nhello", true, Some("http/1.1 200 ok\r\nx-revision: 2\r\n"));
        check("HTTP/1.1 200 OK\r\n\r\nhell", false, Some("http/1.1 200 ok\r\n"));
        check("HTTP/1.1 503 No\r\n\r\nhello", false, Some("http/1.1 503 no\r\n"));
        check("HTTP/1.1 200 OK\r\n", false, None);
    }
}
