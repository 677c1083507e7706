//! One client connection, TLS or plain: opened, written to, read from.
//! Plaintext is handed out where it was decrypted, never copied; HTTP is `response`'s (version 1.1) or the `h2` crate's
//! (version 2).

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::client::body::Expected;
use crate::client::failure::Failure;
use crate::client::response::{Response, ResponseProgress};
use crate::client::tls::Tls;
use crate::net;

/// Four full records at a time: at 100 KB the generator must not be what is slow.
const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;

/// Where to connect, and how.
#[derive(Clone)]
pub struct Target {
    pub address: SocketAddr,
    /// `None` is plain TCP.
    pub tls: Option<Arc<ClientConfig>>,
    /// What all connections to it have moved.
    pub wire: Rc<WireBytes>,
}

/// Bytes on the wire, TLS included.
#[derive(Debug, Default)]
pub struct WireBytes {
    pub received: Cell<u64>,
    pub sent: Cell<u64>,
}

pub struct Connection {
    socket: TcpStream,
    tls: Option<Tls>,
    incoming: Incoming,
    /// Plaintext that came with the server's last handshake flight; HTTP/2 servers may send their settings that early.
    early: Vec<u8>,
    /// What is to be sent, encrypted, and how much of it has been.
    outgoing: Vec<u8>,
    sent: usize,
    wire: Rc<WireBytes>,
}

impl Connection {
    /// Connects and, with TLS, completes the handshake.
    pub async fn open(target: &Target) -> Result<Connection, Failure> {
        let socket = TcpStream::connect(target.address).await?;
        socket.set_nodelay(true)?;
        let tls = match &target.tls {
            Some(config) => {
                let name = ServerName::try_from("localhost").expect("a valid name");
                Some(Tls::new(config, name).map_err(|error| Failure::Tls(error.to_string()))?)
            }
            None => None,
        };
        let mut connection = Connection {
            socket,
            tls,
            incoming: Incoming::default(),
            early: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            wire: Rc::clone(&target.wire),
        };
        poll_fn(|cx| connection.poll_handshake(cx)).await.map_err(tls_failure)?;
        Ok(connection)
    }

    pub fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(Tls::is_resumed)
    }

    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.as_ref().and_then(Tls::alpn)
    }

    /// Sends `request` and reads the answer. A wrong status is no failure here: the caller has it, and the connection
    /// goes on.
    pub async fn exchange(&mut self, request: &[u8], response: &mut Response, expected: &Expected) -> Result<Exchanged, Failure> {
        response.begin();
        self.queue(request)?;
        poll_fn(|cx| self.poll_flush(cx)).await?;
        loop {
            let mut progress = Ok(ResponseProgress::NeedMore);
            let received = poll_fn(|cx| {
                self.poll_receive(cx, &mut |bytes| {
                    if progress.is_ok() {
                        progress = response.handle(bytes, expected);
                    }
                })
            })
            .await
            .map_err(|error| match Failure::from(error) {
                Failure::Reset if !response.is_untouched() => Failure::Closed { within_answer: true },
                other => other,
            })?;
            match progress? {
                ResponseProgress::Complete { status, close } => return Ok(Exchanged { status, close }),
                ResponseProgress::NeedMore if received > 0 => {}
                ResponseProgress::NeedMore => {
                    return match response.handle_end(expected)? {
                        Some(status) => Ok(Exchanged { status, close: true }),
                        None => Err(Failure::Closed { within_answer: !response.is_untouched() }),
                    };
                }
            }
        }
    }

    /// Says goodbye as TLS asks, then closes.
    pub async fn close(mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.seal_close(&mut self.outgoing).map_err(io::Error::other)?;
            poll_fn(|cx| self.poll_flush(cx)).await?;
        }
        Ok(())
    }

    /// Gives the receive buffer back while the connection rests; thousands of idle connections need not hold one each.
    pub fn rest(&mut self) {
        self.incoming.release_if_empty();
        self.outgoing = Vec::new();
        self.sent = 0;
    }

    fn queue(&mut self, plaintext: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.seal(plaintext, &mut self.outgoing).map_err(io::Error::other),
            None => {
                self.outgoing.extend_from_slice(plaintext);
                Ok(())
            }
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(net::poll_write_all(&mut self.socket, cx, &self.outgoing, &mut self.sent))?;
        self.wire.sent.set(self.wire.sent.get() + self.sent as u64);
        self.outgoing.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Zero is the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let count = ready!(self.incoming.poll_fill(&mut self.socket, cx))?;
        self.wire.received.set(self.wire.received.get() + count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(())) };
            if !tls.is_ready() {
                let used = tls
                    .handle_incoming(self.incoming.filled_mut(), &mut self.outgoing, &mut |bytes| {
                        self.early.extend_from_slice(bytes);
                    })
                    .map_err(io::Error::other)?;
                self.incoming.consume(used);
            }
            let ready = tls.is_ready();
            ready!(self.poll_flush(cx))?;
            if ready {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Hands received plaintext to `sink` and returns its length; zero is the end of the stream.
    fn poll_receive(&mut self, cx: &mut Context<'_>, sink: &mut dyn FnMut(&[u8])) -> Poll<io::Result<usize>> {
        if !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            sink(&early);
            return Poll::Ready(Ok(early.len()));
        }
        loop {
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(0));
            }
            let mut received = 0;
            match &mut self.tls {
                None => {
                    let filled = self.incoming.filled_mut();
                    received = filled.len();
                    sink(filled);
                    self.incoming.consume(received);
                }
                Some(tls) => {
                    let mut count = |plaintext: &[u8]| {
                        received += plaintext.len();
                        sink(plaintext);
                    };
                    let used = tls
                        .handle_incoming(self.incoming.filled_mut(), &mut self.outgoing, &mut count)
                        .map_err(io::Error::other)?;
                    self.incoming.consume(used);
                }
            }
            if received > 0 || self.tls.as_ref().is_some_and(Tls::is_closed) {
                return Poll::Ready(Ok(received));
            }
        }
    }
}

/// A complete answer.
#[derive(Debug, Clone, Copy)]
pub struct Exchanged {
    pub status: u16,
    /// The server will close the connection.
    pub close: bool,
}

/// What goes wrong within a handshake is mostly said by TLS, not by the socket.
fn tls_failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::Other => Failure::Tls(error.to_string()),
        _ => error.into(),
    }
}

/// Received bytes that are not spent yet.
#[derive(Default)]
struct Incoming {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Incoming {
    fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.end]
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    fn release_if_empty(&mut self) {
        if self.start == self.end {
            *self = Incoming::default();
        }
    }

    /// Reads once, after what is there already.
    fn poll_fill(&mut self, socket: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; RECEIVE_BUFFER_BYTES];
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let count = ready!(net::poll_read(socket, cx, &mut self.buffer[self.end..]))?;
        self.end += count;
        Poll::Ready(Ok(count))
    }
}

/// A connection as the `h2` crate wants it. Writes gather until the flush, so that one batch of frames is one record
/// and one send.
pub struct Http2Io {
    connection: Connection,
    plaintext_in: Vec<u8>,
    read: usize,
    plaintext_out: Vec<u8>,
}

/// What one flush may gather; beyond it, a write waits for the socket.
const GATHER_BYTES_MAX: usize = 64 * 1024;

impl Http2Io {
    pub fn new(connection: Connection) -> Http2Io {
        Http2Io { connection, plaintext_in: Vec::new(), read: 0, plaintext_out: Vec::new() }
    }
}

impl AsyncRead for Http2Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read == this.plaintext_in.len() {
            this.plaintext_in.clear();
            this.read = 0;
            let plaintext_in = &mut this.plaintext_in;
            ready!(this.connection.poll_receive(cx, &mut |bytes| plaintext_in.extend_from_slice(bytes)))?;
        }
        let count = buffer.remaining().min(this.plaintext_in.len() - this.read);
        buffer.put_slice(&this.plaintext_in[this.read..this.read + count]);
        this.read += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Http2Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.plaintext_out.len() >= GATHER_BYTES_MAX {
            ready!(Pin::new(&mut *this).poll_flush(cx))?;
        }
        this.plaintext_out.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.plaintext_out.is_empty() {
            this.connection.queue(&this.plaintext_out)?;
            this.plaintext_out.clear();
        }
        this.connection.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut *this).poll_flush(cx))?;
        Pin::new(&mut this.connection.socket).poll_shutdown(cx)
    }
}
