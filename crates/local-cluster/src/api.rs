//! A client of the API server, the real one or the emulated one: one request after the other on a kept connection, JSON
//! both ways, and watches line by line. It blocks, and believes nobody but the CA of the test. The program's client is
//! the crate `cluster`, which this must not be: what tests the one may not share its mistakes.

use crate::tls::{ClientOptions, client_config};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Nothing that a test asks takes longer, however busy the machine.
const WAIT: Duration = Duration::from_secs(60);
/// No head or line of a body that a test expects is longer.
const LINE_BYTES_MAX: u64 = 8 << 20;
const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

type ApiStream = BufReader<Box<dyn ApiSocket>>;

/// What a connection is, with TLS or without.
trait ApiSocket: Read + Write + Send {
    fn set_read_timeout(&self, limit: Duration) -> io::Result<()>;
}

impl ApiSocket for TcpStream {
    fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        TcpStream::set_read_timeout(self, Some(limit))
    }
}

impl ApiSocket for StreamOwned<ClientConnection, TcpStream> {
    fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        self.sock.set_read_timeout(Some(limit))
    }
}

/// Header fields of a request beside those that every one has.
pub type Fields<'a> = &'a [(&'a str, &'a str)];

/// The API as one account sees it. Clones have connections of their own.
pub struct Api {
    address: SocketAddr,
    /// `None` without TLS.
    config: Option<Arc<ClientConfig>>,
    token: String,
    kept: Mutex<Option<ApiStream>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ApiAnswer {
    pub status: u16,
    pub content_type: String,
    /// `Null` where it is no JSON.
    pub body: Value,
    pub text: String,
}

/// A watch that goes on: each line is an event.
pub struct ApiWatch {
    stream: ApiStream,
    framing: Framing,
    /// Of the chunk that is being read.
    left: u64,
    received: Vec<u8>,
}

#[derive(Debug)]
struct AnswerHead {
    status: u16,
    content_type: String,
    framing: Framing,
    /// No other answer comes on this connection.
    is_last: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunks,
    UntilEnd,
}

impl Clone for Api {
    fn clone(&self) -> Api {
        Api { address: self.address, config: self.config.clone(), token: self.token.clone(), kept: Mutex::default() }
    }
}

impl Api {
    pub(crate) fn new(port: u16, root: &CertificateDer<'static>, token: &str) -> Api {
        let config = client_config(Some(root), &ClientOptions::default()).expect("a root that the test has made");
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Api { address, config: Some(Arc::new(config)), token: token.to_owned(), kept: Mutex::default() }
    }

    /// The emulated one.
    pub fn of_emulation(address: SocketAddr, token: &str) -> Api {
        Api { address, config: None, token: token.to_owned(), kept: Mutex::default() }
    }

    /// Any request, with its answer whatever it says.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<ApiAnswer, String> {
        let kind = if method == "PATCH" { MERGE_PATCH } else { JSON };
        self.send_with(method, path, &[("accept", JSON), ("content-type", kind)], body)
    }

    pub fn send_with(&self, method: &str, path: &str, fields: Fields<'_>, body: Option<&Value>) -> Result<ApiAnswer, String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_used = kept.is_some();
        let outcome = self.exchange(&mut kept, method, path, fields, body);
        if outcome.is_err() {
            *kept = None;
        }
        match outcome {
            // The server may have closed a connection that nobody used.
            Err(_) if is_used => {
                let outcome = self.exchange(&mut kept, method, path, fields, body);
                if outcome.is_err() {
                    *kept = None;
                }
                outcome
            }
            outcome => outcome,
        }
        .map_err(|error| format!("{method} {path}: {error}"))
    }

    /// An object that is there.
    pub fn get(&self, path: &str) -> Result<Value, String> {
        self.succeed("GET", path, None)
    }

    /// Makes an object in its collection.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value, String> {
        self.succeed("POST", path, Some(object))
    }

    /// Puts an object in the place of the one that is there, whatever its version.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Value, String> {
        self.succeed("PUT", path, Some(object))
    }

    /// Changes the fields that are named (RFC 7396).
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value, String> {
        self.succeed("PATCH", path, Some(patch))
    }

    pub fn delete(&self, path: &str) -> Result<Value, String> {
        self.succeed("DELETE", path, None)
    }

    fn succeed(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let answer = self.send(method, path, body)?;
        match answer.status {
            200..=299 => Ok(answer.body),
            status => Err(format!("{method} {path}: status {status}: {}", answer.text)),
        }
    }

    /// Begins to watch; `Err` with the answer where the server refuses.
    pub fn watch(&self, path: &str, fields: Fields<'_>) -> Result<Result<ApiWatch, ApiAnswer>, String> {
        let begin = || -> io::Result<Result<ApiWatch, ApiAnswer>> {
            let mut stream = self.connect()?;
            self.write(&mut stream, "GET", path, fields, None)?;
            let head = read_head(&mut stream)?;
            if head.status == 200 {
                return Ok(Ok(ApiWatch { stream, framing: head.framing, left: 0, received: Vec::new() }));
            }
            let body = read_body(&mut stream, head.framing)?;
            Ok(Err(answer(head, &body)))
        };
        begin().map_err(|error| format!("GET {path}: {error}"))
    }

    fn exchange(
        &self,
        kept: &mut Option<ApiStream>,
        method: &str,
        path: &str,
        fields: Fields<'_>,
        body: Option<&Value>,
    ) -> io::Result<ApiAnswer> {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        self.write(&mut stream, method, path, fields, body)?;
        let head = read_head(&mut stream)?;
        let body = read_body(&mut stream, head.framing)?;
        if !head.is_last && head.framing != Framing::UntilEnd {
            *kept = Some(stream);
        }
        Ok(answer(head, &body))
    }

    fn connect(&self) -> io::Result<ApiStream> {
        let tcp = TcpStream::connect(self.address)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(WAIT))?;
        tcp.set_write_timeout(Some(WAIT))?;
        let Some(config) = &self.config else { return Ok(BufReader::new(Box::new(tcp))) };
        let name = ServerName::IpAddress(self.address.ip().into());
        let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        Ok(BufReader::new(Box::new(StreamOwned::new(session, tcp))))
    }

    fn write(
        &self,
        stream: &mut ApiStream,
        method: &str,
        path: &str,
        fields: Fields<'_>,
        body: Option<&Value>,
    ) -> io::Result<()> {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n", self.address, self.token);
        for (name, value) in fields {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        stream.get_mut().write_all(request.as_bytes())?;
        stream.get_mut().flush()
    }
}

impl ApiWatch {
    /// The next event; `None` when the server has ended the watch, or nothing has come for so long.
    pub fn next(&mut self, within: Duration) -> Result<Option<Value>, String> {
        self.stream.get_ref().set_read_timeout(within).map_err(|error| error.to_string())?;
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                let text = || format!("a line of a watch is no JSON: {}", String::from_utf8_lossy(&line));
                return serde_json::from_slice(&line).map(Some).map_err(|_| text());
            }
            match self.piece() {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Ok(None),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Takes what has come; `false` at the end.
    fn piece(&mut self) -> io::Result<bool> {
        if self.framing == Framing::Chunks && self.left == 0 {
            self.left = match chunk_size(&mut self.stream)? {
                0 => return Ok(false),
                size => size,
            };
        }
        let come = self.stream.fill_buf()?;
        let bound = if self.framing == Framing::Chunks { self.left } else { u64::MAX };
        let length = come.len().min(usize::try_from(bound).unwrap_or(usize::MAX));
        self.received.extend_from_slice(&come[..length]);
        self.stream.consume(length);
        if self.framing == Framing::Chunks {
            self.left -= length as u64;
            if self.left == 0 {
                read_line(&mut self.stream)?;
            }
        }
        Ok(length > 0)
    }
}

/// A question to etcd itself, by its gateway for JSON.
pub(crate) fn etcd(port: u16, path: &str, body: &str) -> Result<Value, String> {
    let exchange = || -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(WAIT))?;
        let head = format!("POST {path} HTTP/1.1\r\nhost: etcd\r\ncontent-type: {JSON}\r\nconnection: close\r\n");
        stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        let mut stream = BufReader::new(stream);
        let head = read_head(&mut stream)?;
        let body = read_body(&mut stream, head.framing)?;
        if head.status == 200 { Ok(body) } else { Err(io::Error::other(String::from_utf8_lossy(&body).into_owned())) }
    };
    let body = exchange().map_err(|error| format!("etcd {path}: {error}"))?;
    serde_json::from_slice(&body).map_err(|error| format!("etcd {path}: {error}"))
}

fn answer(head: AnswerHead, body: &[u8]) -> ApiAnswer {
    let AnswerHead { status, content_type, .. } = head;
    let text = String::from_utf8_lossy(body).into_owned();
    ApiAnswer { status, content_type, body: serde_json::from_slice(body).unwrap_or_default(), text }
}

fn read_head(stream: &mut impl BufRead) -> io::Result<AnswerHead> {
    let start = read_line(stream)?;
    let status = start.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status: u16 = status.ok_or_else(|| io::Error::other(format!("no answer but {start:?}")))?;
    let mut head = AnswerHead { status, content_type: String::new(), framing: Framing::UntilEnd, is_last: false };
    loop {
        let line = read_line(stream)?;
        if line.is_empty() {
            return Ok(head);
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match (name.to_ascii_lowercase().as_str(), value.trim()) {
            ("content-type", value) => value.clone_into(&mut head.content_type),
            ("content-length", value) => head.framing = Framing::Length(value.parse().map_err(io::Error::other)?),
            ("transfer-encoding", "chunked") => head.framing = Framing::Chunks,
            ("connection", "close") => head.is_last = true,
            _ => {}
        }
    }
}

fn read_body(stream: &mut impl BufRead, framing: Framing) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match framing {
        Framing::Length(length) => drop(stream.take(length).read_to_end(&mut body)?),
        Framing::UntilEnd => drop(stream.read_to_end(&mut body)?),
        Framing::Chunks => {
            while let size @ 1.. = chunk_size(stream)? {
                stream.take(size).read_to_end(&mut body)?;
                read_line(stream)?;
            }
            read_line(stream)?;
        }
    }
    Ok(body)
}

fn chunk_size(stream: &mut impl BufRead) -> io::Result<u64> {
    let line = read_line(stream)?;
    u64::from_str_radix(line.split(';').next().unwrap_or_default(), 16).map_err(io::Error::other)
}

/// Without its end.
fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned())
}
