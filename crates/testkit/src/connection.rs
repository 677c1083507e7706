//! One HTTP/1 connection of a test, from either side: raw bytes out, heads and bodies in. Reading is stricter than any
//! client's, because what it reads is the proxy's own output.

use crate::head::Head;
use crate::scripts::AskedScript;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// No head that a test expects is longer; a peer that never ends its head must not fill the memory.
const HEAD_BYTES_MAX: usize = 1 << 20;

pub enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Socket::Plain(tcp) => tcp,
            Socket::Tls(tls) => tls.get_ref().0,
        }
    }

    /// What the handshake came to, when there was one.
    pub fn tls_facts(&self) -> Option<TlsFacts> {
        let Socket::Tls(tls) = self else { return None };
        let session = tls.get_ref().1;
        Some(TlsFacts {
            version: match session.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_2) => "1.2",
                Some(rustls::ProtocolVersion::TLSv1_3) => "1.3",
                _ => "unknown",
            },
            alpn: session.alpn_protocol().unwrap_or(b"none").to_vec(),
            resumed: session.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
        })
    }
}

#[derive(Debug, Clone)]
pub struct TlsFacts {
    /// `1.2` or `1.3`.
    pub version: &'static str,
    /// `none` when there was no agreement on one.
    pub alpn: Vec<u8>,
    pub resumed: bool,
}

impl TlsFacts {
    /// Compares with what is asked for; `None` is not asked for.
    pub fn check(&self, version: Option<&str>, alpn: Option<&[u8]>, resumed: Option<bool>) -> Result<(), String> {
        let fits = version.is_none_or(|wanted| wanted == self.version)
            && alpn.is_none_or(|wanted| wanted == self.alpn)
            && resumed.is_none_or(|wanted| wanted == self.resumed);
        if fits {
            return Ok(());
        }
        let alpn = String::from_utf8_lossy(&self.alpn);
        Err(format!("the handshake came to version {}, protocol {alpn}, resumed: {}", self.version, self.resumed))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(tcp) => Pin::new(tcp).poll_read(context, buffer),
            Socket::Tls(tls) => Pin::new(tls).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Socket::Tls(tls) => Pin::new(tls).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(tcp) => Pin::new(tcp).poll_flush(context),
            Socket::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Socket::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }
}

/// How the peer ended its side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Closed,
    Reset,
    /// TLS without a close_notify before the end, or another fault.
    Broken(String),
}

/// Where the body of the message last read stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Done,
    Length(u64),
    ChunkSize,
    Chunk(u64),
    UntilClose,
}

pub struct Connection {
    pub socket: Socket,
    /// Received and not yet read by the test.
    pub received: Vec<u8>,
    pub end: Option<End>,
    pub trailers: Vec<(String, Vec<u8>)>,
    body: Body,
}

impl Connection {
    pub fn new(socket: Socket) -> Connection {
        let _ = socket.tcp().set_nodelay(true);
        Connection { socket, received: Vec::new(), end: None, trailers: Vec::new(), body: Body::Done }
    }

    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes).await?;
        self.socket.flush().await
    }

    /// Ends this side's sending, as `shutdown(SHUT_WR)` does.
    pub async fn close_write(&mut self) -> io::Result<()> {
        self.socket.shutdown().await
    }

    /// Ends the connection with a RST instead of a FIN.
    pub fn reset(self) {
        let _ = socket2::SockRef::from(self.socket.tcp()).set_linger(Some(Duration::ZERO));
    }

    /// Waits for more bytes; false when the peer has ended its side.
    pub async fn receive(&mut self) -> bool {
        if self.end.is_some() {
            return false;
        }
        let mut piece = [0; 16384];
        match self.socket.read(&mut piece).await {
            Ok(0) => self.end = Some(End::Closed),
            Ok(length) => {
                self.received.extend_from_slice(&piece[..length]);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.end = Some(End::Reset),
            Err(error) => self.end = Some(End::Broken(error.to_string())),
        }
        false
    }

    /// Reads the next head. What is left of the body before it is thrown away.
    pub async fn read_head(&mut self) -> Result<Head, String> {
        while self.read_data().await?.is_some() {}
        let end = loop {
            if let Some(end) = find(&self.received, b"\r\n\r\n") {
                break end;
            }
            if self.received.len() > HEAD_BYTES_MAX {
                return Err("a head without end".into());
            }
            if !self.receive().await {
                return Err(self.cut_off("a head"));
            }
        };
        let bytes: Vec<u8> = self.received.drain(..end + 4).collect();
        let head = parse_head(&bytes[..end])?;
        self.body = framing(&head)?;
        self.trailers.clear();
        Ok(head)
    }

    /// The next request of FastCGI.
    pub async fn read_script(&mut self) -> Result<AskedScript, String> {
        loop {
            if let Some((asked, used)) = AskedScript::parse(&self.received)? {
                self.received.drain(..used);
                return Ok(asked);
            }
            if !self.receive().await {
                return Err(format!("the connection ended ({:?}) before a request for a script was whole", self.end));
            }
        }
    }

    /// The message just read has no body, whatever its head says (an answer to HEAD).
    pub fn without_body(&mut self) {
        self.body = Body::Done;
    }

    /// The next piece of the body; `None` at its end.
    pub async fn read_data(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            match self.body {
                Body::Done => return Ok(None),
                Body::Length(0) => self.body = Body::Done,
                Body::Length(left) | Body::Chunk(left @ 1..) => {
                    if self.received.is_empty() && !self.receive().await {
                        return Err(self.cut_off(&format!("{left} more bytes of the body")));
                    }
                    let length = self.received.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let left = left - length as u64;
                    self.body = if matches!(self.body, Body::Chunk(_)) { Body::Chunk(left) } else { Body::Length(left) };
                    return Ok(Some(self.received.drain(..length).collect()));
                }
                Body::Chunk(0) => {
                    let line = self.read_line().await?;
                    if !line.is_empty() {
                        return Err(format!("a chunk is not followed by CRLF but by {line:?}"));
                    }
                    self.body = Body::ChunkSize;
                }
                Body::ChunkSize => {
                    let line = self.read_line().await?;
                    let size = u64::from_str_radix(&line, 16).map_err(|_| format!("a chunk size of {line:?}"))?;
                    self.body = Body::Chunk(size);
                    if size == 0 {
                        self.read_trailers().await?;
                        self.body = Body::Done;
                    }
                }
                Body::UntilClose => {
                    if self.received.is_empty() && !self.receive().await {
                        self.body = Body::Done;
                        return if self.end == Some(End::Closed) { Ok(None) } else { Err(self.cut_off("the end of the body")) };
                    }
                    return Ok(Some(std::mem::take(&mut self.received)));
                }
            }
        }
    }

    /// The rest of the body.
    pub async fn read_body(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        while let Some(piece) = self.read_data().await? {
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    async fn read_trailers(&mut self) -> Result<(), String> {
        loop {
            let line = self.read_line().await?;
            if line.is_empty() {
                return Ok(());
            }
            self.trailers.push(parse_field(&line)?);
        }
    }

    async fn read_line(&mut self) -> Result<String, String> {
        loop {
            if let Some(end) = find(&self.received, b"\r\n") {
                let line: Vec<u8> = self.received.drain(..end + 2).collect();
                return String::from_utf8(line[..end].to_vec()).map_err(|_| "a line that is not text".to_owned());
            }
            if !self.receive().await {
                return Err(self.cut_off("the end of a line"));
            }
        }
    }

    fn cut_off(&self, wanted: &str) -> String {
        let end = match &self.end {
            None | Some(End::Closed) => "closed".to_owned(),
            Some(End::Reset) => "reset".to_owned(),
            Some(End::Broken(error)) => format!("broken ({error})"),
        };
        format!(
            "the connection was {end} while waiting for {wanted}; received and unread: {}",
            crate::case::escape(&self.received)
        )
    }
}

/// A head without its empty line.
pub fn parse_head(bytes: &[u8]) -> Result<Head, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split("\r\n");
    let start = lines.next().unwrap_or_default().to_owned();
    if text.replace("\r\n", "").contains(['\r', '\n']) {
        return Err(format!("a head with a bare CR or LF: {text:?}"));
    }
    let fields = lines.map(parse_field).collect::<Result<_, _>>()?;
    Ok(Head { start, fields })
}

fn parse_field(line: &str) -> Result<(String, Vec<u8>), String> {
    let (name, value) = line.split_once(':').ok_or_else(|| format!("a field without colon: {line:?}"))?;
    if name.is_empty() || name.contains(' ') {
        return Err(format!("a field name of {name:?}"));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).as_bytes().to_vec()))
}

/// RFC 9112 section 6.3, without the leniences.
fn framing(head: &Head) -> Result<Body, String> {
    let is_response = head.start.starts_with("HTTP/");
    let length = head.value("content-length");
    let coding = head.value("transfer-encoding");
    if is_response && matches!(head.status(), Some(100..200 | 204 | 304)) {
        return Ok(Body::Done);
    }
    match (length, coding) {
        (Some(_), Some(_)) => Err(format!("both Content-Length and Transfer-Encoding:\n{}", head.text())),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Body::ChunkSize),
        (None, Some(_)) => Err(format!("an unknown transfer coding:\n{}", head.text())),
        (Some(length), None) => match String::from_utf8_lossy(&length).parse() {
            Ok(length) => Ok(Body::Length(length)),
            Err(_) => Err(format!("an odd Content-Length:\n{}", head.text())),
        },
        (None, None) => Ok(if is_response { Body::UntilClose } else { Body::Done }),
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
