//! The server behind the proxy that a page of a test speaks with: a thread for each connection, HTTP/1.1 and no more of
//! it than the proxy sends. It serves the page, takes what the page's script has found out, and leaves the other paths
//! to the test.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the page of the test is.
pub const PAGE: &str = "/page";
/// Where its script leaves what it found out.
pub const RESULT: &str = "/result";
/// The most that is held of a body at once.
const PIECE: usize = 1 << 16;

/// One request on its way, and the connection it is answered on.
pub struct Exchange {
    pub method: String,
    pub path: String,
    fields: HashMap<String, String>,
    lines: BufReader<TcpStream>,
}

/// The server as the test sees it.
pub struct Server {
    pub address: SocketAddr,
    results: Mutex<Receiver<Value>>,
    /// `method path` of what has come.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `script` is the body of an asynchronous function that returns what it found out; `answer` answers what is
    /// neither the page nor its result.
    pub fn start(script: &str, answer: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (found, results) = channel();
        let shared = Arc::new((page(script), answer, found, requests.clone()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.expect("the proxy"), shared.clone());
                std::thread::spawn(move || {
                    let (page, answer, found, requests) = &*shared;
                    let mut lines = BufReader::with_capacity(PIECE, stream);
                    while let Some(mut exchange) = Exchange::read(lines) {
                        let asked = format!("{} {}", exchange.method, exchange.path);
                        requests.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
                        match exchange.path.split('?').next().unwrap_or_default() {
                            PAGE => exchange.reply("Content-Type: text/html\r\nCache-Control: no-store\r\n", page.as_bytes()),
                            RESULT => {
                                let body = exchange.body();
                                // Nobody listens when the test has failed already.
                                let _ = found.send(serde_json::from_slice(&body).expect("the page sends JSON"));
                                exchange.reply("", b"");
                            }
                            _ => answer(&mut exchange),
                        }
                        lines = exchange.lines;
                    }
                });
            }
        });
        Server { address, results: Mutex::new(results), requests }
    }

    /// What the script of the page returned.
    pub fn result(&self, bound: std::time::Duration) -> Option<Value> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(bound).ok()
    }

    /// How often this was asked for, as `GET /path`.
    pub fn count(&self, asked: &str) -> usize {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|request| *request == asked).count()
    }
}

/// A page that runs the script and sends on what comes of it, a fault as `{"error": …}`.
pub fn page(script: &str) -> String {
    format!(
        r#"<!doctype html><meta charset="utf-8"><title>test</title><link rel="icon" href="data:,">
<script type="module">
const hex = async bytes => Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)), byte => byte.toString(16).padStart(2, "0")).join("");
const run = async () => {{
{script}
}};
const result = await run().catch(error => ({{ error: String(error && error.stack || error) }}));
await fetch("{RESULT}", {{ method: "POST", body: JSON.stringify(result) }});
</script>
"#
    )
}

impl Exchange {
    fn read(mut lines: BufReader<TcpStream>) -> Option<Exchange> {
        let mut first = String::new();
        lines.read_line(&mut first).ok()?;
        let mut words = first.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut fields = HashMap::new();
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let Some((name, value)) = line.split_once(':') else {
                return Some(Exchange { method, path, fields, lines });
            };
            fields.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }

    /// The value of a field, empty when there is none; the name in small letters.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Gives the body to `take`, piece by piece. One that ends early is a panic of this connection's thread, and no
    /// answer.
    pub fn each_piece(&mut self, mut take: impl FnMut(&[u8])) {
        if self.field("transfer-encoding") != "chunked" {
            let length = self.field("content-length").parse().unwrap_or(0);
            return pass(&mut self.lines, length, &mut take);
        }
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).expect("a chunk");
            let size = u64::from_str_radix(line.trim(), 16).expect("the size of a chunk");
            pass(&mut self.lines, size, &mut take);
            // The end of its line, or of the body: the proxy sends no trailers here.
            self.lines.read_line(&mut line).expect("the end of a chunk");
            if size == 0 {
                return;
            }
        }
    }

    /// Takes the connection for a WebSocket and sends each message back, the close frame as well (RFC 6455).
    pub fn echo_frames(&mut self) {
        const CLOSE: u8 = 0x88;
        let mut hashed = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        hashed.update(self.field("sec-websocket-key").as_bytes());
        hashed.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
        let accept = BASE64_STANDARD.encode(hashed.finish());
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket";
        self.send(format!("{head}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").as_bytes());
        loop {
            let [first, length] = self.exact::<2>();
            let (form, length) = match length & 0x7f {
                126 => (vec![126], usize::from(u16::from_be_bytes(self.exact()))),
                127 => (vec![127], u64::from_be_bytes(self.exact()) as usize),
                short => (vec![short], usize::from(short)),
            };
            let mask = self.exact::<4>();
            let mut payload = vec![0; length];
            self.lines.read_exact(&mut payload).expect("the payload");
            payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            let long = match form[0] {
                126 => (length as u16).to_be_bytes().to_vec(),
                127 => (length as u64).to_be_bytes().to_vec(),
                _ => Vec::new(),
            };
            self.send(&[vec![first], form, long, payload].concat());
            if first == CLOSE {
                return;
            }
        }
    }

    fn exact<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.lines.read_exact(&mut bytes).expect("a part of a frame");
        bytes
    }

    pub fn body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        self.each_piece(|piece| body.extend_from_slice(piece));
        body
    }

    /// A whole answer with status 200; `fields` are lines with their ends.
    pub fn reply(&mut self, fields: &str, body: &[u8]) {
        self.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        self.send(body);
    }

    /// Bytes as they are. That a browser goes away is no fault.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.lines.get_mut().write_all(bytes);
    }

    /// A piece of an answer with `Transfer-Encoding: chunked`; an empty one is its end.
    pub fn send_chunk(&mut self, bytes: &[u8]) {
        self.send(&[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat());
    }
}

fn pass(lines: &mut BufReader<TcpStream>, mut left: u64, take: &mut impl FnMut(&[u8])) {
    let mut piece = vec![0; PIECE];
    while left > 0 {
        let most = left.min(PIECE as u64) as usize;
        let count = lines.read(&mut piece[..most]).expect("the body goes on");
        assert!(count > 0, "the body ends {left} bytes early");
        take(&piece[..count]);
        left -= count as u64;
    }
}
