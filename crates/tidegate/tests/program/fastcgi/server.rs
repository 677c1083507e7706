//! A FastCGI server that does what a test says, byte for byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub const END: u8 = 3;
pub const STDOUT: u8 = 6;
pub const STDERR: u8 = 7;

/// What a connection's request was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    pub params: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// BEGIN_REQUEST asked to keep the connection.
    pub keeps: bool,
    /// What the request is called on its connection.
    pub id: u16,
}

impl Asked {
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Records as an answer to this request.
    pub fn answered(&self, records: &[u8]) -> Vec<u8> {
        let (mut records, mut at) = (records.to_vec(), 0);
        while at + 8 <= records.len() {
            records[at + 2..at + 4].copy_from_slice(&self.id.to_be_bytes());
            at += 8 + usize::from(u16::from_be_bytes([records[at + 4], records[at + 5]])) + usize::from(records[at + 6]);
        }
        records
    }
}

pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("a record's size").to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0][..], content].concat()
}

/// END_REQUEST with that protocol status.
pub fn end(status: u8) -> Vec<u8> {
    record(END, &[0, 0, 0, 0, status, 0, 0, 0])
}

/// A whole answer.
pub fn answer(stdout: &[u8]) -> Vec<u8> {
    [record(STDOUT, stdout), record(STDOUT, b""), end(0)].concat()
}

/// Listens until it is dropped. Each connection is handed to `serve` with its number, from 0, in a thread of its own.
pub struct Server {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(serve: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (connections, stops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stop) = (connections.clone(), stops.clone());
        let serve = Arc::new(serve);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a bound");
                let (number, serve) = (count.fetch_add(1, Ordering::AcqRel), serve.clone());
                std::thread::spawn(move || serve(number, &mut stream));
            }
        });
        Server { address, connections, stops, thread: Some(thread) }
    }

    /// Answers every request with these bytes and ends the connection.
    pub fn always(bytes: Vec<u8>) -> Server {
        Server::start(move |_, stream| {
            if read_request(stream).is_some() {
                let _ = stream.write_all(&bytes);
            }
        })
    }

    /// Remembers what it was asked and answers with `stdout`.
    pub fn remembering(stdout: &'static [u8]) -> (Server, Arc<Mutex<Vec<Asked>>>) {
        let seen: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let remembered = seen.clone();
        let server = Server::start(move |_, stream| {
            while let Some(asked) = read_request(stream) {
                let (keeps, answered) = (asked.keeps, asked.answered(&answer(stdout)));
                remembered.lock().expect("no panic").push(asked);
                if stream.write_all(&answered).is_err() || !keeps {
                    return;
                }
            }
        });
        (server, seen)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Up to the end of STDIN; `None` when the connection ends before.
pub fn read_request(stream: &mut TcpStream) -> Option<Asked> {
    let (mut asked, mut params) = (Asked::default(), Vec::new());
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).ok()?;
        let mut content = vec![0; usize::from(u16::from_be_bytes([header[4], header[5]]))];
        stream.read_exact(&mut content).ok()?;
        stream.read_exact(&mut vec![0; usize::from(header[6])]).ok()?;
        match (header[1], content.is_empty()) {
            (1, _) => (asked.keeps, asked.id) = (content[2] & 1 == 1, u16::from_be_bytes([header[2], header[3]])),
            (4, false) => params.extend(content),
            (4, true) => asked.params = pairs(&params),
            (5, false) => asked.body.extend(content),
            (5, true) => return Some(asked),
            (other, _) => panic!("a record of type {other}"),
        }
    }
}

fn pairs(mut bytes: &[u8]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let mut length = || {
            let (length, rest) = match bytes[0] {
                short @ 0..0x80 => (usize::from(short), &bytes[1..]),
                _ => (u32::from_be_bytes([bytes[0] & 0x7f, bytes[1], bytes[2], bytes[3]]) as usize, &bytes[4..]),
            };
            bytes = rest;
            length
        };
        let (name, value) = (length(), length());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        pairs.push((text(&bytes[..name]), text(&bytes[name..name + value])));
        bytes = &bytes[name + value..];
    }
    pairs
}
