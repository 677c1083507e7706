//! Runs the commands of a section without `h2` on its connections: the client's own, or those that an upstream
//! accepted.

use super::flow::{Outcome, execute_flow};
use super::frames::FrameReader;
use super::script::{ClientTls, Command, Matcher, Message, Pace, Request, Step, Wire};
use super::text::escape;
use super::world::World;
use super::{frames, process};
use crate::connection::{Connection, End, Socket};
use crate::head::Head;
use crate::pattern;
use crate::scripts::AskedScript;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::ServerName;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// How long `expect-open` listens for an end that must not come.
pub const OPEN_WATCH: Duration = Duration::from_millis(100);
/// What a `send-pattern` writes at once unless it says `portion`.
pub const PORTION_BYTES: u64 = 64 << 10;

/// Where connections of a section come from.
pub enum Http1Source {
    Client { to: String, from: Option<String>, tls: Option<Box<ClientTls>>, cookies: Option<String> },
    Upstream { listener: TcpListener, acceptor: Option<TlsAcceptor>, accepted: Arc<AtomicU64> },
}

/// A section at work: its connections by name, the one in use, and the message read last.
pub struct Http1Peer {
    world: Rc<World>,
    source: Http1Source,
    connections: HashMap<String, Connection>,
    current: String,
    head: Head,
    script: AskedScript,
    frames: FrameReader,
    refused: Option<String>,
    /// The body of the request sent last goes in chunks, made here.
    is_chunked: bool,
}

impl Http1Peer {
    pub fn new(world: Rc<World>, source: Http1Source) -> Http1Peer {
        let (connections, current) = (HashMap::new(), String::new());
        let (head, frames) = (Head::default(), FrameReader::default());
        let script = AskedScript::default();
        Http1Peer { world, source, connections, current, head, script, frames, refused: None, is_chunked: false }
    }

    pub async fn run(&mut self, steps: &[Step]) -> Outcome {
        for step in steps {
            let wait = self.world.wait;
            let fault = |message| (step.line, message);
            match &step.command {
                Command::Flow(flow) => {
                    if let Some(body) = execute_flow(&self.world, flow).await.map_err(fault)? {
                        for _ in 0..body.0 {
                            Box::pin(self.run(body.1)).await?;
                        }
                    }
                }
                Command::Process(command) => process::execute(&self.world, command).await.map_err(fault)?,
                command => match timeout(wait, self.execute(command)).await {
                    Ok(result) => result.map_err(|message| (step.line, format!("{}: {message}", step.text)))?,
                    Err(_) => return Err((step.line, format!("{}: nothing within {wait:?}; {}", step.text, self.seen()))),
                },
            }
        }
        Ok(())
    }

    fn seen(&self) -> String {
        match self.connections.get(&self.current) {
            Some(connection) => format!("received and unread: {}{}", escape(&connection.received), self.frames.seen()),
            None => "there is no connection".to_owned(),
        }
    }

    async fn execute(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Message(message) => self.message(message).await,
            Command::Wire(wire) => self.wire(wire).await,
            Command::Frames(command) => {
                self.open().await?;
                let connection = self.connections.get_mut(&self.current).ok_or("no connection")?;
                frames::execute(connection, &mut self.frames, command).await
            }
            Command::Stream(_) => Err("this command needs a section with `h2`".into()),
            Command::Flow(_) | Command::Process(_) => Ok(()),
        }
    }

    /// The connection in use, made first when there is none.
    async fn connection(&mut self) -> Result<&mut Connection, String> {
        self.open().await?;
        self.connections.get_mut(&self.current).ok_or_else(|| "no connection".to_owned())
    }

    async fn open(&mut self) -> Result<(), String> {
        if !self.connections.contains_key(&self.current) {
            let socket = self.next_socket().await?;
            self.connections.insert(self.current.clone(), Connection::new(socket));
            self.frames = FrameReader::default();
        }
        Ok(())
    }

    async fn next_socket(&mut self) -> Result<Socket, String> {
        match &self.source {
            Http1Source::Client { to, from, tls, cookies: _ } => {
                connect(&self.world, to, from.as_deref(), tls.as_deref(), &mut self.refused).await
            }
            Http1Source::Upstream { listener, acceptor, accepted } => accept(listener, acceptor.as_ref(), accepted).await,
        }
    }

    async fn message(&mut self, message: &Message) -> Result<(), String> {
        match message {
            Message::Request(request) => self.request(request).await,
            Message::SendData { bytes, times, may_fail } => {
                let sent = self.send_data(&bytes.repeat(*times as usize)).await;
                if *may_fail { Ok(()) } else { sent }
            }
            Message::EndBody if self.is_chunked => self.send_last_chunk(&[]).await,
            // What has a length ends by itself.
            Message::EndBody => Ok(()),
            Message::SendTrailers(trailers) => self.send_last_chunk(trailers).await,
            Message::ExpectRefusal { status, log } => self.expect_refusal(*status, log).await,
            Message::ExpectCutOff => self.expect_cut_off().await,
            Message::SendHead { lines, .. } => {
                let mut bytes = lines.join(b"\r\n".as_slice());
                bytes.extend_from_slice(b"\r\n\r\n");
                self.send(&bytes).await
            }
            Message::SendPattern { bytes, pace, may_fail } => {
                self.send_pattern(*bytes, *pace).await.or_else(|error| may_fail.then_some(()).ok_or(error))
            }
            Message::ReceiveHead(expected) => {
                self.head = self.connection().await?.read_head().await?;
                expected.as_ref().map_or(Ok(()), |expected| self.head.check(expected))
            }
            Message::ExpectStatus(allowed) => {
                self.head = self.connection().await?.read_head().await?;
                self.keep_cookies();
                self.head.check_status(allowed)
            }
            Message::ExpectHeader(name, matcher) => self.head.check_header(name, matcher),
            Message::ExpectNoHeader(name) => self.head.check_no_header(name),
            Message::ExpectBody(matcher) => {
                let body = self.connection().await?.read_body().await?;
                if matcher.matches(&body) { Ok(()) } else { Err(format!("the body is {}", escape(&body))) }
            }
            Message::ExpectDecoded { coding, matcher } => {
                let body = crate::coding::decode(coding, &self.connection().await?.read_body().await?)?;
                if matcher.matches(&body) { Ok(()) } else { Err(format!("the decoded body is {}", escape(&body))) }
            }
            Message::ExpectBodyAs { name, is_same } => {
                let body = self.connection().await?.read_body().await?;
                self.world.compare_body(name, *is_same, &body)
            }
            Message::ExpectBodyLength(length) => {
                let body = self.connection().await?.read_body().await?;
                if body.len() as u64 == *length { Ok(()) } else { Err(format!("the body has {} bytes", body.len())) }
            }
            Message::ExpectBodyPattern { bytes, pace } => self.expect_pattern(*bytes, *pace).await,
            Message::ExpectData(wanted) => self.expect_data(wanted).await,
            Message::ExpectNoBody => {
                self.connection().await?.without_body();
                Ok(())
            }
            Message::ExpectTrailer(name, matcher) => self.trailers().await?.check_header(name, matcher),
            Message::ExpectNoTrailer(name) => self.trailers().await?.check_no_header(name),
            Message::ExpectTls { version, alpn, resumed } => self.expect_tls(version.as_deref(), alpn.as_deref(), *resumed).await,
            Message::ExpectCertificate(name) => self.expect_certificate(name).await,
            Message::Close => {
                if let Some(mut connection) = self.connections.remove(&self.current) {
                    // A peer that is gone already cannot be told goodbye.
                    let _ = connection.close_write().await;
                }
                Ok(())
            }
            Message::ExpectClosed => self.expect_end_of(&[End::Closed, End::Reset]).await,
        }
    }

    async fn wire(&mut self, wire: &Wire) -> Result<(), String> {
        match wire {
            Wire::Connect(name) => {
                if let Some(name) = name {
                    self.current.clone_from(name);
                }
                self.connections.remove(&self.current);
                self.open().await
            }
            Wire::Accept(name) => {
                self.connections.remove(name);
                self.current.clone_from(name);
                self.open().await
            }
            Wire::Use(name) => {
                self.current.clone_from(name);
                Ok(())
            }
            Wire::Send { bytes, times, may_fail } => {
                let sent = self.send(&bytes.repeat(*times as usize)).await;
                if *may_fail { Ok(()) } else { sent }
            }
            Wire::SendChunk(bytes) => self.send_chunk(bytes).await,
            Wire::SendChunkPattern { bytes, chunk } => self.send_chunk_pattern(*bytes, *chunk).await,
            Wire::SendLastChunk(trailers) => self.send_last_chunk(trailers).await,
            Wire::ExpectBytes(wanted) => self.expect_bytes(wanted).await,
            Wire::ExpectBytesPattern(bytes) => self.expect_bytes_pattern(*bytes).await,
            Wire::SwitchToWebSocket(fields) => self.send(&websocket_switch(&self.head, fields)).await,
            Wire::ReceiveScript(expected) => {
                self.script = self.connection().await?.read_script().await?;
                self.head = Head { start: String::new(), fields: self.script.params.clone() };
                expected.as_ref().map_or(Ok(()), |expected| self.head.check(expected))
            }
            Wire::SendScript(stdout) => {
                let answer = self.script.answered(stdout);
                self.send(&answer).await
            }
            Wire::CloseWrite => self.connection().await?.close_write().await.map_err(|error| error.to_string()),
            Wire::Reset => {
                self.open().await?;
                self.connections.remove(&self.current).ok_or("no connection")?.reset();
                Ok(())
            }
            Wire::ExpectReset => self.expect_end_of(&[End::Reset]).await,
            Wire::ExpectEnd => self.expect_end_of(&[End::Closed]).await,
            Wire::ExpectOpen => {
                let connection = self.connection().await?;
                match timeout(OPEN_WATCH, connection.receive()).await {
                    Err(_) => Ok(()),
                    Ok(true) => Err(format!("unexpected bytes: {}", escape(&connection.received))),
                    Ok(false) => Err(format!("the connection is ended: {:?}", connection.end)),
                }
            }
            Wire::ExpectTlsRefused(alert) => match self.open().await {
                Ok(()) => self.expect_late_alert(alert).await,
                Err(_) => check_alert(self.refused.as_deref(), alert),
            },
        }
    }

    fn keep_cookies(&self) {
        if let Http1Source::Client { cookies: Some(jar), .. } = &self.source {
            self.world.keep_cookies(jar, &self.head);
        }
    }

    fn with_cookies(&self, head: &[u8]) -> Vec<u8> {
        let Http1Source::Client { cookies: Some(jar), .. } = &self.source else { return head.to_vec() };
        match (head.strip_suffix(b"\r\n"), self.world.cookies(jar)) {
            (Some(before), Some(value)) => [before, format!("Cookie: {value}\r\n\r\n").as_bytes()].concat(),
            (Some(_) | None, _) => head.to_vec(),
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.connection().await?.write(bytes).await.map_err(|error| error.to_string())
    }

    async fn request(&mut self, request: &Request) -> Result<(), String> {
        let mut head = [request.method.as_slice(), b" ", &request.target, b" HTTP/1.1\r\n"].concat();
        if let Some(host) = &request.host {
            head.extend_from_slice(&[b"Host: ".as_slice(), host, b"\r\n"].concat());
        }
        for field in &request.fields {
            head.extend_from_slice(&[field.as_slice(), b"\r\n"].concat());
        }
        self.is_chunked = request.open && request.length().is_none();
        if self.is_chunked {
            head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        head.extend_from_slice(b"\r\n");
        let message = [self.with_cookies(&head), request.body.clone()].concat();
        let sent = self.send(&message).await;
        if request.may_fail { Ok(()) } else { sent }
    }

    async fn send_data(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.is_chunked { self.send_chunk(bytes).await } else { self.send(bytes).await }
    }

    async fn send_last_chunk(&mut self, trailers: &[Vec<u8>]) -> Result<(), String> {
        let mut bytes = b"0\r\n".to_vec();
        for line in trailers {
            bytes.extend_from_slice(&[line.as_slice(), b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"\r\n");
        self.send(&bytes).await
    }

    /// A refused request takes its connection with it: what follows on it may be anything.
    async fn expect_refusal(&mut self, status: u16, log: &[(String, Matcher)]) -> Result<(), String> {
        self.head = self.connection().await?.read_head().await?;
        self.head.check_status(&[status])?;
        self.expect_end_of(&[End::Closed, End::Reset]).await?;
        self.connections.remove(&self.current);
        process::expect_refusal_logged(&self.world, status, log).await
    }

    async fn expect_cut_off(&mut self) -> Result<(), String> {
        let connection = self.connection().await?;
        match connection.read_body().await {
            Err(_) if connection.end.is_some() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err("the body is whole".into()),
        }
    }

    async fn send_chunk(&mut self, bytes: &[u8]) -> Result<(), String> {
        let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.send(&chunk).await
    }

    async fn send_chunk_pattern(&mut self, bytes: u64, chunk: u64) -> Result<(), String> {
        let mut sent = 0;
        while sent < bytes {
            let length = (bytes - sent).min(chunk);
            self.send_chunk(&pattern::pattern(sent, length as usize)).await?;
            sent += length;
        }
        Ok(())
    }

    async fn send_pattern(&mut self, bytes: u64, pace: Pace) -> Result<(), String> {
        let mut sent = 0;
        while sent < bytes {
            let length = (bytes - sent).min(pace.portion.unwrap_or(PORTION_BYTES));
            self.send_data(&pattern::pattern(sent, length as usize))
                .await
                .map_err(|error| format!("{error} after {sent} bytes"))?;
            sent += length;
            if let Some(pause) = pace.pause {
                sleep(pause).await;
            }
        }
        Ok(())
    }

    async fn expect_pattern(&mut self, bytes: u64, pace: Pace) -> Result<(), String> {
        let (mut seen, mut portion) = (0, 0);
        while let Some(piece) = self.connection().await?.read_data().await? {
            pattern::check(seen, &piece).map_err(|place| format!("the body differs from byte {place} on"))?;
            seen += piece.len() as u64;
            portion += piece.len() as u64;
            if let Some(pause) = pace.pause
                && portion >= pace.portion.unwrap_or(PORTION_BYTES)
            {
                portion = 0;
                sleep(pause).await;
            }
        }
        if seen == bytes { Ok(()) } else { Err(format!("the body has {seen} bytes")) }
    }

    /// The next bytes of the body, and not more than that may have been asked of the peer to see them.
    async fn expect_data(&mut self, wanted: &[u8]) -> Result<(), String> {
        let mut seen = Vec::new();
        while seen.len() < wanted.len() {
            match self.connection().await?.read_data().await? {
                Some(piece) => seen.extend_from_slice(&piece),
                None => return Err(format!("the body ended after {}", escape(&seen))),
            }
        }
        if seen == wanted { Ok(()) } else { Err(format!("the body goes on with {}", escape(&seen))) }
    }

    async fn expect_bytes(&mut self, wanted: &[u8]) -> Result<(), String> {
        let connection = self.connection().await?;
        while connection.received.len() < wanted.len() && wanted.starts_with(&connection.received) {
            if !connection.receive().await {
                return Err(format!("the connection ended ({:?}) after {}", connection.end, escape(&connection.received)));
            }
        }
        if connection.received.starts_with(wanted) {
            connection.received.drain(..wanted.len());
            return Ok(());
        }
        Err(format!("received {}", escape(&connection.received)))
    }

    async fn expect_bytes_pattern(&mut self, bytes: u64) -> Result<(), String> {
        let connection = self.connection().await?;
        let mut seen = 0;
        while seen < bytes {
            let length = connection.received.len().min((bytes - seen) as usize);
            let piece: Vec<u8> = connection.received.drain(..length).collect();
            pattern::check(seen, &piece).map_err(|place| format!("the bytes differ from {place} on"))?;
            seen += length as u64;
            if seen < bytes && !connection.receive().await {
                return Err(format!("the connection ended ({:?}) after {seen} bytes", connection.end));
            }
        }
        Ok(())
    }

    /// The body read to its end, then its trailers as a head.
    async fn trailers(&mut self) -> Result<Head, String> {
        let connection = self.connection().await?;
        while connection.read_data().await?.is_some() {}
        Ok(Head { start: String::new(), fields: connection.trailers.clone() })
    }

    async fn expect_end_of(&mut self, allowed: &[End]) -> Result<(), String> {
        let connection = self.connection().await?;
        // What is left of a body is not the question here, nor whether the end came in the middle of it.
        while let Ok(Some(_)) = connection.read_data().await {}
        while connection.received.is_empty() && connection.receive().await {}
        match &connection.end {
            _ if !connection.received.is_empty() => Err(format!("unexpected bytes: {}", escape(&connection.received))),
            Some(end) if allowed.contains(end) => Ok(()),
            end => Err(format!("the end was {end:?}")),
        }
    }

    async fn expect_tls(&mut self, version: Option<&str>, alpn: Option<&[u8]>, resumed: Option<bool>) -> Result<(), String> {
        let facts = self.connection().await?.socket.tls_facts();
        facts.ok_or("this connection has no TLS")?.check(version, alpn, resumed)
    }

    async fn expect_certificate(&mut self, name: &[u8]) -> Result<(), String> {
        let wanted = self.world.places.borrow_mut().certificate(&String::from_utf8_lossy(name))?;
        let connection = self.connection().await?;
        let Socket::Tls(tls) = &connection.socket else { return Err("this connection has no TLS".into()) };
        match tls.get_ref().1.peer_certificates().and_then(|chain| chain.first()) {
            Some(shown) if *shown == wanted.der => Ok(()),
            Some(_) => Err("another certificate was shown".into()),
            None => Err("no certificate was shown".into()),
        }
    }

    /// In TLS 1.3 a server's refusal may come after the client thinks it is done.
    async fn expect_late_alert(&mut self, alert: &str) -> Result<(), String> {
        let connection = self.connection().await?;
        while connection.receive().await {}
        match &connection.end {
            Some(End::Broken(error)) => check_alert(Some(error), alert),
            end => Err(format!("the handshake was done, then the end was {end:?}")),
        }
    }
}

fn check_alert(seen: Option<&str>, wanted: &str) -> Result<(), String> {
    // The library spells some names the British way.
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase().replace("recognised", "recognized");
    match seen {
        Some(error) if plain(error).contains(&plain(wanted)) => Ok(()),
        Some(error) => Err(format!("the handshake failed otherwise: {error}")),
        None => Err("no connection could be made".into()),
    }
}

/// A client's connection. A failed handshake is also left in `refused`.
pub async fn connect(
    world: &World,
    to: &str,
    from: Option<&str>,
    tls: Option<&ClientTls>,
    refused: &mut Option<String>,
) -> Result<Socket, String> {
    let address: SocketAddr = to.parse().map_err(|_| format!("`{to}` is no address"))?;
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(|error| error.to_string())?;
    if let Some(from) = from {
        let ip: std::net::IpAddr = from.parse().map_err(|_| format!("`{from}` is no IP address"))?;
        socket.bind(SocketAddr::new(ip, 0)).map_err(|error| format!("{from}: {error}"))?;
    }
    let mut tcp = socket.connect(address).await.map_err(|error| format!("connect to {to}: {error}"))?;
    let Some(options) = tls else { return Ok(Socket::Plain(tcp)) };
    tcp.write_all(&options.before).await.map_err(|error| format!("before the handshake: {error}"))?;
    let name = options.sni.clone().unwrap_or_else(|| address.ip().to_string());
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let connecting = TlsConnector::from(world.tls_client(options)?).connect(name, tcp);
    match connecting.await {
        Ok(stream) => Ok(Socket::Tls(Box::new(TlsStream::Client(stream)))),
        Err(error) => {
            *refused = Some(error.to_string());
            Err(format!("TLS handshake: {error}"))
        }
    }
}

pub async fn accept(listener: &TcpListener, acceptor: Option<&TlsAcceptor>, accepted: &AtomicU64) -> Result<Socket, String> {
    let (tcp, _) = listener.accept().await.map_err(|error| error.to_string())?;
    accepted.fetch_add(1, Ordering::Relaxed);
    match acceptor {
        None => Ok(Socket::Plain(tcp)),
        Some(acceptor) => match acceptor.accept(tcp).await {
            Ok(stream) => Ok(Socket::Tls(Box::new(TlsStream::Server(stream)))),
            Err(error) => Err(format!("TLS handshake: {error}")),
        },
    }
}

/// The answer to a WebSocket's handshake (RFC 6455 section 4.2.2), with further fields.
fn websocket_switch(asked: &Head, fields: &[Vec<u8>]) -> Vec<u8> {
    let mut hashed = asked.value("sec-websocket-key").unwrap_or_default();
    hashed.extend_from_slice(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &hashed));
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket";
    let mut answer = format!("{head}\r\nSec-WebSocket-Accept: {accept}\r\n").into_bytes();
    for line in fields.iter().map(Vec::as_slice).chain([b"".as_slice()]) {
        answer.extend_from_slice(line);
        answer.extend_from_slice(b"\r\n");
    }
    answer
}
