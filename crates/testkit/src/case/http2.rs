//! Runs the commands of a section with `h2`: streams of one client connection, or the streams that an upstream is sent.

use super::flow::{Outcome, execute_flow};
use super::frames::check_code;
use super::http1::{accept, connect};
use super::process;
use super::script::{ClientTls, Command, Message, Pace, Request, Step, Stream, Wire};
use super::text::escape;
use super::world::World;
use crate::connection::TlsFacts;
use crate::head::Head;
use crate::http2::{self as kit, header_map, receive_data, send_all, split_field};
use crate::pattern;
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::ext::Protocol;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

const PORTION_BYTES: u64 = 64 << 10;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub enum Http2Source {
    Client { to: String, from: Option<String>, tls: Option<Box<ClientTls>> },
    Upstream,
}

/// Where an upstream takes connections, and what it says of itself on them.
pub struct UpstreamPlace {
    pub listener: TcpListener,
    pub acceptor: Option<TlsAcceptor>,
    pub accepted: Arc<AtomicU64>,
    /// Extended CONNECT (RFC 8441).
    pub offers_protocol: bool,
}

type Accepted = (http::Request<RecvStream>, SendResponse<Bytes>);

/// A section at work: its streams by name and the one in use.
pub struct Http2Peer {
    world: Rc<World>,
    source: Http2Source,
    sender: Option<SendRequest<Bytes>>,
    /// Of the client's connection, kept because `h2` takes the socket.
    tls_facts: Option<TlsFacts>,
    accepted: Option<mpsc::UnboundedReceiver<Accepted>>,
    connection_tasks: Rc<RefCell<Vec<JoinHandle<()>>>>,
    streams: HashMap<String, OpenStream>,
    stream_count: usize,
    current: String,
}

#[derive(Default)]
struct OpenStream {
    head: Head,
    response: Option<ResponseFuture>,
    respond: Option<SendResponse<Bytes>>,
    send: Option<SendStream<Bytes>>,
    body: Option<RecvStream>,
    unread: Vec<u8>,
}

impl Http2Peer {
    pub fn client(world: Rc<World>, to: String, from: Option<String>, tls: Option<Box<ClientTls>>) -> Http2Peer {
        Http2Peer::new(world, Http2Source::Client { to, from, tls }, None)
    }

    /// Takes connections from the listener from now on; their streams queue up for `recv-head`.
    pub fn upstream(world: Rc<World>, place: UpstreamPlace) -> Http2Peer {
        let UpstreamPlace { listener, acceptor, accepted, offers_protocol } = place;
        let (queue, streams) = mpsc::unbounded_channel();
        let peer = Http2Peer::new(world, Http2Source::Upstream, Some(streams));
        let tasks = peer.connection_tasks.clone();
        spawn_local(async move {
            loop {
                let Ok(socket) = accept(&listener, acceptor.as_ref(), &accepted).await else { continue };
                let queue = queue.clone();
                tasks.borrow_mut().push(spawn_local(async move {
                    let mut builder = h2::server::Builder::new();
                    if offers_protocol {
                        builder.enable_connect_protocol();
                    }
                    let Ok(mut connection) = builder.handshake(socket).await else { return };
                    while let Some(Ok(stream)) = connection.accept().await {
                        let _ = queue.send(stream);
                    }
                }));
            }
        });
        peer
    }

    fn new(world: Rc<World>, source: Http2Source, accepted: Option<mpsc::UnboundedReceiver<Accepted>>) -> Http2Peer {
        Http2Peer {
            world,
            source,
            sender: None,
            tls_facts: None,
            accepted,
            connection_tasks: Rc::default(),
            streams: HashMap::new(),
            stream_count: 0,
            current: String::new(),
        }
    }

    pub async fn run(&mut self, steps: &[Step]) -> Outcome {
        for step in steps {
            let wait = self.world.wait;
            let fault = |message: String| (step.line, format!("{}: {message}", step.text));
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
                    Ok(result) => result.map_err(fault)?,
                    Err(_) => return Err(fault(format!("nothing within {wait:?}"))),
                },
            }
        }
        Ok(())
    }

    async fn execute(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Message(message) => self.message(message).await,
            Command::Stream(stream) => self.stream_command(stream).await,
            Command::Wire(Wire::Connect(_)) => self.connect().await,
            Command::Wire(Wire::Reset) => {
                self.abort_connections();
                Ok(())
            }
            Command::Wire(_) | Command::Frames(_) => Err("this command needs a section without `h2`".into()),
            Command::Flow(_) | Command::Process(_) => Ok(()),
        }
    }

    async fn connect(&mut self) -> Result<(), String> {
        let Http2Source::Client { to, from, tls } = &self.source else { return Err("only a client connects".into()) };
        let socket = connect(&self.world, to, from.as_deref(), tls.as_deref(), &mut None).await?;
        self.tls_facts = socket.tls_facts();
        let mut builder = h2::client::Builder::new();
        // Wide windows, so that what holds a transfer up is the proxy or the script.
        builder.initial_window_size(1 << 20).initial_connection_window_size(4 << 20).enable_push(false);
        let (sender, connection) = builder.handshake(socket).await.map_err(|error| error.to_string())?;
        self.connection_tasks.borrow_mut().push(spawn_local(async move {
            let _ = connection.await;
        }));
        self.sender = Some(sender);
        Ok(())
    }

    fn abort_connections(&mut self) {
        self.sender = None;
        self.streams.clear();
        for task in self.connection_tasks.borrow_mut().drain(..) {
            task.abort();
        }
    }

    fn stream(&mut self) -> Result<&mut OpenStream, String> {
        self.streams.get_mut(&self.current).ok_or_else(|| format!("there is no stream `{}`", self.current))
    }

    async fn stream_command(&mut self, command: &Stream) -> Result<(), String> {
        match command {
            Stream::Use(name) => {
                self.current.clone_from(name);
                self.stream().map(|_| ())
            }
            Stream::Reset(code) => {
                self.stream()?.reset(Reason::from(*code));
                Ok(())
            }
            Stream::ExpectStreamReset(code) => {
                let seen = self.stream()?.wait_for_reset().await?;
                check_code(Some(seen.into()), *code)
            }
            Stream::ExpectGoaway(code) => self.expect_goaway(*code).await,
        }
    }

    async fn request(&mut self, asked: &Request) -> Result<(), String> {
        let request = request(asked, self.is_tls())?;
        if self.sender.is_none() {
            self.connect().await?;
        }
        let sender = self.sender.clone().ok_or("no connection")?;
        let mut sender = sender.ready().await.map_err(|error| error.to_string())?;
        // What the server offers is known when its SETTINGS have come.
        while request.extensions().get::<Protocol>().is_some() && !sender.is_extended_connect_protocol_enabled() {
            sleep(POLL_INTERVAL).await;
        }
        let (response, send) =
            sender.send_request(request, !asked.open && asked.body.is_empty()).map_err(|error| error.to_string())?;
        self.sender = Some(sender);
        self.current = self.name_of_next(&asked.stream);
        let stream = OpenStream { response: Some(response), send: Some(send), ..OpenStream::default() };
        self.streams.insert(self.current.clone(), stream);
        if asked.body.is_empty() { Ok(()) } else { self.send(Bytes::copy_from_slice(&asked.body)).await }
    }

    /// A name that ends with `+` is another one each time.
    fn name_of_next(&mut self, name: &str) -> String {
        let Some(beginning) = name.strip_suffix('+') else { return name.to_owned() };
        self.stream_count += 1;
        format!("{beginning}{}", self.stream_count)
    }

    fn is_tls(&self) -> bool {
        matches!(&self.source, Http2Source::Client { tls: Some(_), .. })
    }

    fn sending(&mut self) -> Result<&mut SendStream<Bytes>, String> {
        self.stream()?.send.as_mut().ok_or_else(|| "nothing can be sent on this stream yet".to_owned())
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), String> {
        send_all(self.sending()?, bytes, false).await.map_err(|error| error.to_string())
    }

    async fn message(&mut self, message: &Message) -> Result<(), String> {
        match message {
            Message::Request(request) => self.request(request).await,
            Message::SendData { bytes, times, may_fail } => {
                self.send_data(Bytes::copy_from_slice(bytes), *times, *may_fail).await
            }
            Message::EndBody => self.sending()?.send_data(Bytes::new(), true).map_err(|error| error.to_string()),
            Message::SendTrailers(lines) => {
                let trailers = header_map(lines)?;
                self.sending()?.send_trailers(trailers).map_err(|error| error.to_string())
            }
            Message::ExpectRefusal { .. } | Message::ExpectCutOff => Err("this command needs a section without `h2`".into()),
            Message::SendHead { lines, end } => self.stream()?.send_head(lines, *end),
            Message::SendPattern { bytes, pace, may_fail } => {
                self.send_pattern(*bytes, *pace).await.or_else(|error| may_fail.then_some(()).ok_or(error))
            }
            Message::ReceiveHead(expected) => {
                self.receive_head().await?;
                let head = &self.stream()?.head;
                expected.as_ref().map_or(Ok(()), |expected| head.check(expected))
            }
            Message::ExpectStatus(allowed) => {
                let stream = self.stream()?;
                stream.receive_response(allowed.iter().all(|status| (100..200).contains(status))).await?;
                stream.head.check_status(allowed)
            }
            Message::ExpectHeader(name, matcher) => self.stream()?.head.check_header(name, matcher),
            Message::ExpectNoHeader(name) => self.stream()?.head.check_no_header(name),
            Message::ExpectBody(matcher) => {
                let body = self.stream()?.read_body().await?;
                if matcher.matches(&body) { Ok(()) } else { Err(format!("the body is {}", escape(&body))) }
            }
            Message::ExpectDecoded { coding, matcher } => {
                let body = crate::coding::decode(coding, &self.stream()?.read_body().await?)?;
                if matcher.matches(&body) { Ok(()) } else { Err(format!("the decoded body is {}", escape(&body))) }
            }
            Message::ExpectBodyAs { name, is_same } => {
                let body = self.stream()?.read_body().await?;
                self.world.compare_body(name, *is_same, &body)
            }
            Message::ExpectBodyLength(length) => {
                let body = self.stream()?.read_body().await?;
                if body.len() as u64 == *length { Ok(()) } else { Err(format!("the body has {} bytes", body.len())) }
            }
            Message::ExpectBodyPattern { bytes, pace } => self.stream()?.expect_pattern(*bytes, *pace).await,
            Message::ExpectData(wanted) => self.stream()?.expect_data(wanted).await,
            Message::ExpectNoBody => {
                let body = self.stream()?.read_body().await?;
                if body.is_empty() { Ok(()) } else { Err(format!("the body is {}", escape(&body))) }
            }
            Message::ExpectTrailer(name, matcher) => self.stream()?.trailers().await?.check_header(name, matcher),
            Message::ExpectNoTrailer(name) => self.stream()?.trailers().await?.check_no_header(name),
            Message::ExpectTls { version, alpn, resumed } => {
                let facts = self.tls_facts.as_ref().ok_or("this connection has no TLS")?;
                facts.check(version.as_deref(), alpn.as_deref(), *resumed)
            }
            Message::ExpectCertificate(_) => Err("this command needs a section without `h2`".into()),
            Message::Close => {
                self.abort_connections();
                Ok(())
            }
            Message::ExpectClosed => self.expect_closed().await,
        }
    }

    /// The next stream that an upstream was sent.
    async fn receive_head(&mut self) -> Result<(), String> {
        let accepted = self.accepted.as_mut().ok_or("a client says `expect-status`")?;
        let (request, respond) = accepted.recv().await.ok_or("no more connections")?;
        self.stream_count += 1;
        self.current = self.stream_count.to_string();
        let head = kit::request_head(&request);
        let stream = OpenStream { head, respond: Some(respond), body: Some(request.into_body()), ..OpenStream::default() };
        self.streams.insert(self.current.clone(), stream);
        Ok(())
    }

    async fn send_data(&mut self, bytes: Bytes, times: u64, may_fail: bool) -> Result<(), String> {
        for _ in 0..times {
            let sent = self.send(bytes.clone()).await;
            if !may_fail {
                sent?;
            }
        }
        Ok(())
    }

    async fn send_pattern(&mut self, bytes: u64, pace: Pace) -> Result<(), String> {
        let mut sent = 0;
        while sent < bytes {
            let length = (bytes - sent).min(pace.portion.unwrap_or(PORTION_BYTES));
            self.send(Bytes::from(pattern::pattern(sent, length as usize))).await?;
            sent += length;
            if let Some(pause) = pace.pause {
                sleep(pause).await;
            }
        }
        Ok(())
    }

    async fn expect_goaway(&mut self, code: u32) -> Result<(), String> {
        loop {
            let Some(sender) = self.sender.clone() else { return Err("there is no connection".into()) };
            match sender.ready().await {
                Ok(_) => sleep(POLL_INTERVAL).await,
                Err(error) if error.is_go_away() => return check_code(error.reason().map(u32::from), code),
                Err(error) => return Err(format!("the connection ended otherwise: {error}")),
            }
        }
    }

    async fn expect_closed(&mut self) -> Result<(), String> {
        while self.connection_tasks.borrow().iter().any(|task| !task.is_finished()) {
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

fn request(asked: &Request, tls: bool) -> Result<http::Request<()>, String> {
    let uri = http::Uri::builder()
        .scheme(if tls { "https" } else { "http" })
        .authority(asked.host.as_deref().unwrap_or_default())
        .path_and_query(asked.target.as_slice())
        .build()
        .map_err(|error| error.to_string())?;
    let request = http::Request::builder().method(asked.method.as_slice()).uri(uri).body(());
    let mut request = request.map_err(|error| error.to_string())?;
    *request.headers_mut() = header_map(&asked.fields)?;
    let protocol = asked.fields.iter().find_map(|line| split_field(line).ok().filter(|(name, _)| name == b":protocol"));
    if let Some((_, protocol)) = protocol {
        let protocol = String::from_utf8(protocol).map_err(|error| error.to_string())?;
        request.extensions_mut().insert(Protocol::from(protocol.as_str()));
    }
    Ok(request)
}

impl OpenStream {
    /// An upstream's answer, interim or not.
    fn send_head(&mut self, lines: &[Vec<u8>], end: bool) -> Result<(), String> {
        let respond = self.respond.as_mut().ok_or("a client says `request`")?;
        let status = lines.iter().find_map(|line| split_field(line).ok().filter(|(name, _)| name == b":status"));
        let (_, status) = status.ok_or("the first line is `:status: 200`")?;
        let mut response = http::Response::builder().status(status.as_slice()).body(()).map_err(|error| error.to_string())?;
        *response.headers_mut() = header_map(lines)?;
        if response.status().is_informational() {
            return respond.send_informational(response).map_err(|error| error.to_string());
        }
        self.send = Some(respond.send_response(response, end).map_err(|error| error.to_string())?);
        Ok(())
    }

    async fn receive_response(&mut self, interim: bool) -> Result<(), String> {
        let mut response = self.response.take().ok_or("the answer was read already")?;
        if interim {
            let informational = poll_fn(|context| response.poll_informational(context)).await;
            self.response = Some(response);
            let informational = informational.ok_or("the final answer came without it")?.map_err(|error| error.to_string())?;
            self.head = kit::response_head(&informational);
            return Ok(());
        }
        let response = response.await.map_err(|error| error.to_string())?;
        self.head = kit::response_head(&response);
        self.body = Some(response.into_body());
        Ok(())
    }

    async fn receive(&mut self) -> Result<bool, String> {
        let body = self.body.as_mut().ok_or("there is no body to read yet")?;
        match receive_data(body).await {
            Some(Ok(bytes)) => {
                self.unread.extend_from_slice(&bytes);
                Ok(true)
            }
            Some(Err(error)) => Err(error.to_string()),
            None => Ok(false),
        }
    }

    async fn read_body(&mut self) -> Result<Vec<u8>, String> {
        while self.receive().await? {}
        Ok(std::mem::take(&mut self.unread))
    }

    async fn expect_data(&mut self, wanted: &[u8]) -> Result<(), String> {
        while self.unread.len() < wanted.len() {
            if !self.receive().await? {
                return Err(format!("the body ended after {}", escape(&self.unread)));
            }
        }
        if self.unread.starts_with(wanted) {
            self.unread.drain(..wanted.len());
            return Ok(());
        }
        Err(format!("the body goes on with {}", escape(&self.unread)))
    }

    async fn expect_pattern(&mut self, bytes: u64, pace: Pace) -> Result<(), String> {
        let (mut seen, mut portion) = (0, 0);
        loop {
            let more = self.receive().await?;
            let piece = std::mem::take(&mut self.unread);
            pattern::check(seen, &piece).map_err(|place| format!("the body differs from byte {place} on"))?;
            seen += piece.len() as u64;
            portion += piece.len() as u64;
            if !more {
                break;
            }
            if let Some(pause) = pace.pause
                && portion >= pace.portion.unwrap_or(PORTION_BYTES)
            {
                portion = 0;
                sleep(pause).await;
            }
        }
        if seen == bytes { Ok(()) } else { Err(format!("the body has {seen} bytes")) }
    }

    async fn trailers(&mut self) -> Result<Head, String> {
        while self.receive().await? {}
        let body = self.body.as_mut().ok_or("there is no body to read yet")?;
        // `h2` gives trailers once; they are kept as the head's own, so that several may be asked about.
        if let Some(trailers) = body.trailers().await.map_err(|error| error.to_string())? {
            self.head = Head { start: String::new(), fields: kit::fields(&trailers) };
        }
        Ok(self.head.clone())
    }

    fn reset(&mut self, reason: Reason) {
        if let Some(send) = &mut self.send {
            send.send_reset(reason);
        } else if let Some(respond) = &mut self.respond {
            respond.send_reset(reason);
        }
    }

    /// The reason with which the peer ends the stream.
    async fn wait_for_reset(&mut self) -> Result<Reason, String> {
        let reason = |error: h2::Error| error.reason().ok_or_else(|| error.to_string());
        if let Some(respond) = &mut self.respond {
            return match &mut self.send {
                Some(send) => poll_fn(|context| send.poll_reset(context)).await,
                None => poll_fn(|context| respond.poll_reset(context)).await,
            }
            .or_else(reason);
        }
        if let Some(response) = self.response.take() {
            match response.await {
                Ok(response) => self.body = Some(response.into_body()),
                Err(error) => return reason(error),
            }
        }
        let body = self.body.as_mut().ok_or("there is no stream to be reset")?;
        loop {
            match receive_data(body).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return reason(error),
                None => return Err("the stream ended well".into()),
            }
        }
    }
}
