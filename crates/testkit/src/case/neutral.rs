//! Runs the commands of a client that does not say its protocol, over HTTP/2. Over HTTP/1.1 the same commands are
//! `http1.rs`'s. Answers are read in the order of their requests.

use super::flow::{Outcome, execute_flow};
use super::http1::{OPEN_WATCH, PORTION_BYTES, connect};
use super::neutral_connection::{NeutralConnection, NeutralStream, code_name};
use super::process;
use super::script::{ClientTls, Command, Matcher, Message, Pace, Request, ScriptedClient, Step, Wire};
use super::text::escape;
use super::world::World;
use crate::connection::{End, Socket};
use crate::head::Head;
use crate::pattern;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use tokio::time::{sleep, timeout};

const NOT_NEUTRAL: &str = "this command is one of HTTP/1.1 alone";

/// A section at work: its connections by name and the one in use.
pub struct NeutralPeer {
    world: Rc<World>,
    to: String,
    from: Option<String>,
    tls: Option<Box<ClientTls>>,
    cookies: Option<String>,
    connections: HashMap<String, Reading>,
    current: String,
    head: Head,
    /// Why there is no connection: whoever is turned away over TLS may not get to its end.
    turned_away: Option<String>,
}

/// A connection, and where the section is in what comes on it.
struct Reading {
    connection: NeutralConnection,
    /// Requests whose answers nobody has asked for yet.
    unread: VecDeque<u32>,
    stream: u32,
    /// The answer that is no interim one has been read.
    is_read: bool,
}

impl NeutralPeer {
    pub fn new(world: Rc<World>, to: String, client: &ScriptedClient) -> NeutralPeer {
        let (from, tls, cookies) = (client.from.clone(), client.tls.clone(), client.cookies.clone());
        let (connections, current) = (HashMap::new(), String::new());
        NeutralPeer { world, to, from, tls, cookies, connections, current, head: Head::default(), turned_away: None }
    }

    pub async fn run(&mut self, steps: &[Step]) -> Outcome {
        for step in steps {
            let wait = self.world.wait;
            let fault = |message| (step.line, format!("{}: {message}", step.text));
            match &step.command {
                Command::Flow(flow) => {
                    let world = self.world.clone();
                    if let Some(body) = self.meanwhile(execute_flow(&world, flow)).await.map_err(fault)? {
                        for _ in 0..body.0 {
                            Box::pin(self.run(body.1)).await?;
                        }
                    }
                }
                Command::Process(command) => {
                    let world = self.world.clone();
                    self.meanwhile(process::execute(&world, command)).await.map_err(fault)?;
                }
                Command::Message(message) => match timeout(wait, self.message(message)).await {
                    Ok(result) => result.map_err(fault)?,
                    Err(_) => return Err(fault(format!("nothing within {wait:?}"))),
                },
                Command::Wire(wire) => match timeout(wait, self.wire(wire)).await {
                    Ok(result) => result.map_err(fault)?,
                    Err(_) => return Err(fault(format!("nothing within {wait:?}"))),
                },
                Command::Stream(_) | Command::Frames(_) => return Err(fault(NOT_NEUTRAL.to_owned())),
            }
        }
        Ok(())
    }

    /// Does something else while the connection in use takes what comes, as any client does whose answers nobody reads:
    /// it acknowledges, and its windows are full at some time.
    async fn meanwhile<T>(&mut self, other: impl Future<Output = T>) -> T {
        let taking = async {
            if let Some(reading) = self.connections.get_mut(&self.current) {
                while reading.connection.receive().await == Ok(true) {}
            }
            std::future::pending().await
        };
        tokio::select! {
            done = other => done,
            done = taking => done,
        }
    }

    /// The connection in use, made first when there is none.
    async fn reading(&mut self) -> Result<&mut Reading, String> {
        if !self.connections.contains_key(&self.current) {
            let (from, tls) = (self.from.as_deref(), self.tls.as_deref());
            let socket = connect(&self.world, &self.to, from, tls, &mut self.turned_away).await?;
            let connection = NeutralConnection::open(socket).await;
            let reading = Reading { connection, unread: VecDeque::new(), stream: 0, is_read: true };
            self.connections.insert(self.current.clone(), reading);
        }
        self.connections.get_mut(&self.current).ok_or_else(|| "no connection".to_owned())
    }

    async fn wire(&mut self, wire: &Wire) -> Result<(), String> {
        match wire {
            Wire::Connect(name) => {
                if let Some(name) = name {
                    self.current.clone_from(name);
                }
                self.connections.remove(&self.current);
                match self.reading().await.map(|_| ()) {
                    Err(_) if self.turned_away.is_some() => Ok(()),
                    result => result,
                }
            }
            Wire::Use(name) => {
                self.current.clone_from(name);
                Ok(())
            }
            Wire::Reset => {
                self.reading().await?;
                let reading = self.connections.remove(&self.current).ok_or("no connection")?;
                reading.connection.socket.reset();
                Ok(())
            }
            Wire::ExpectEnd => self.reading().await?.expect_over(true).await,
            Wire::ExpectReset => self.reading().await?.expect_cut_off().await,
            Wire::ExpectOpen => {
                let reading = self.reading().await?;
                match timeout(OPEN_WATCH, reading.expect_over(false)).await {
                    Err(_) => Ok(()),
                    Ok(Ok(())) => Err("the exchange is over".into()),
                    Ok(Err(error)) => Err(error),
                }
            }
            Wire::Accept(_)
            | Wire::Send { .. }
            | Wire::SendChunk(_)
            | Wire::SendChunkPattern { .. }
            | Wire::SendLastChunk(_)
            | Wire::ExpectBytes(_)
            | Wire::ExpectBytesPattern(_)
            | Wire::SwitchToWebSocket(_)
            | Wire::ReceiveScript(_)
            | Wire::SendScript(_)
            | Wire::CloseWrite
            | Wire::ExpectTlsRefused(_) => Err(NOT_NEUTRAL.to_owned()),
        }
    }

    async fn message(&mut self, message: &Message) -> Result<(), String> {
        match message {
            Message::Request(request) => self.request(request).await,
            Message::SendData { bytes, times, may_fail } => {
                let sent = self.reading().await?.connection.send_data(&bytes.repeat(*times as usize)).await;
                if *may_fail { Ok(()) } else { sent }
            }
            Message::EndBody => self.reading().await?.connection.end_body().await,
            Message::SendTrailers(lines) => self.reading().await?.connection.send_trailers(lines).await,
            Message::ExpectRefusal { status, log } => self.expect_refusal(*status, log).await,
            Message::ExpectCutOff => self.reading().await?.expect_cut_off().await,
            Message::SendHead { .. } | Message::ReceiveHead(_) => Err(NOT_NEUTRAL.to_owned()),
            Message::SendPattern { bytes, pace, may_fail } => {
                self.send_pattern(*bytes, *pace).await.or_else(|error| may_fail.then_some(()).ok_or(error))
            }
            Message::ExpectStatus(allowed) => {
                self.head = self.reading().await?.next_head().await?;
                if let Some(jar) = &self.cookies {
                    self.world.keep_cookies(jar, &self.head);
                }
                self.head.check_status(allowed)
            }
            Message::ExpectHeader(name, matcher) => self.head.check_header(name, matcher),
            Message::ExpectNoHeader(name) => self.head.check_no_header(name),
            Message::ExpectBody(matcher) => {
                let body = self.reading().await?.read_body().await?;
                if matcher.matches(&body) { Ok(()) } else { Err(format!("the body is {}", escape(&body))) }
            }
            Message::ExpectDecoded { coding, matcher } => {
                let body = crate::coding::decode(coding, &self.reading().await?.read_body().await?)?;
                if matcher.matches(&body) { Ok(()) } else { Err(format!("the decoded body is {}", escape(&body))) }
            }
            Message::ExpectBodyAs { name, is_same } => {
                let body = self.reading().await?.read_body().await?;
                self.world.compare_body(name, *is_same, &body)
            }
            Message::ExpectBodyLength(length) => {
                let body = self.reading().await?.read_body().await?;
                if body.len() as u64 == *length { Ok(()) } else { Err(format!("the body has {} bytes", body.len())) }
            }
            Message::ExpectBodyPattern { bytes, pace } => self.reading().await?.expect_pattern(*bytes, *pace).await,
            Message::ExpectData(wanted) => self.reading().await?.expect_data(wanted).await,
            Message::ExpectNoBody => {
                let body = self.reading().await?.read_body().await?;
                if body.is_empty() { Ok(()) } else { Err(format!("the body is {}", escape(&body))) }
            }
            Message::ExpectTrailer(name, matcher) => self.trailers().await?.check_header(name, matcher),
            Message::ExpectNoTrailer(name) => self.trailers().await?.check_no_header(name),
            Message::ExpectTls { version, alpn, resumed } => {
                let facts = self.reading().await?.connection.socket.socket.tls_facts();
                facts.ok_or("this connection has no TLS")?.check(version.as_deref(), alpn.as_deref(), *resumed)
            }
            Message::ExpectCertificate(_) => Err(NOT_NEUTRAL.to_owned()),
            Message::Close => {
                if let Some(mut reading) = self.connections.remove(&self.current) {
                    // A peer that is gone already cannot be told goodbye.
                    let _ = reading.connection.socket.close_write().await;
                }
                Ok(())
            }
            Message::ExpectClosed if self.turned_away.take().is_some() => Ok(()),
            Message::ExpectClosed => self.reading().await?.expect_over(false).await,
        }
    }

    async fn request(&mut self, request: &Request) -> Result<(), String> {
        let cookies = self.cookies.as_deref().and_then(|jar| self.world.cookies(jar));
        let reading = self.reading().await?;
        let scheme = match reading.connection.socket.socket {
            Socket::Plain(_) => "http",
            Socket::Tls(_) => "https",
        };
        let stream = reading.connection.request(request, scheme, cookies).await?;
        reading.unread.push_back(stream);
        Ok(())
    }

    async fn send_pattern(&mut self, bytes: u64, pace: Pace) -> Result<(), String> {
        let mut sent = 0;
        while sent < bytes {
            let length = (bytes - sent).min(pace.portion.unwrap_or(PORTION_BYTES));
            let piece = pattern::pattern(sent, length as usize);
            let result = self.reading().await?.connection.send_data(&piece).await;
            result.map_err(|error| format!("{error} after {sent} bytes"))?;
            sent += length;
            if let Some(pause) = pace.pause {
                sleep(pause).await;
            }
        }
        Ok(())
    }

    /// An answer that ends its stream, or a reset where no answer can be; and whichever it is, the connection goes on.
    async fn expect_refusal(&mut self, status: u16, log: &[(String, Matcher)]) -> Result<(), String> {
        let reading = self.reading().await?;
        match reading.next_head().await {
            Ok(head) => {
                head.check_status(&[status])?;
                reading.expect_over(false).await?;
            }
            Err(error) if reading.stream()?.reset.is_none() => return Err(error),
            Err(_) => {}
        }
        reading.connection.round_trip().await.map_err(|error| format!("one stream ended all of them: {error}"))?;
        process::expect_refusal_logged(&self.world, status, log).await
    }

    /// The body read to its end, then its trailers as a head.
    async fn trailers(&mut self) -> Result<Head, String> {
        let reading = self.reading().await?;
        reading.read_body().await?;
        Ok(reading.stream()?.trailers.clone())
    }
}

impl Reading {
    fn stream(&mut self) -> Result<&mut NeutralStream, String> {
        self.connection.stream(self.stream)
    }

    /// The stream that is being read, or the first that nobody has asked about.
    fn in_use(&self) -> u32 {
        self.unread.front().copied().filter(|_| self.is_read).unwrap_or(self.stream)
    }

    async fn receive(&mut self) -> Result<(), String> {
        if self.connection.receive().await? { Ok(()) } else { Err(self.connection.end()) }
    }

    /// The next head of the answer in use, or the first one of the next.
    async fn next_head(&mut self) -> Result<Head, String> {
        if self.is_read {
            self.stream = self.unread.pop_front().ok_or("no request is without its answer")?;
            self.is_read = false;
        }
        loop {
            let stream = self.stream()?;
            if let Some(head) = stream.heads.pop_front() {
                self.is_read = head.status().is_some_and(|status| status >= 200);
                return Ok(head);
            }
            if let Some(failure) = stream.failure() {
                self.is_read = true;
                return Err(failure);
            }
            self.receive().await?;
        }
    }

    /// The next bytes of the body; `None` at its end.
    async fn read_data(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            let id = self.stream;
            let stream = self.stream()?;
            let piece = std::mem::take(&mut stream.data);
            if !piece.is_empty() {
                self.connection.consumed(id, piece.len()).await;
                return Ok(Some(piece));
            }
            if let Some(failure) = stream.failure() {
                return Err(failure);
            }
            if stream.is_ended {
                stream.is_read = true;
                return Ok(None);
            }
            self.receive().await?;
        }
    }

    async fn read_body(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        while let Some(piece) = self.read_data().await? {
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    async fn expect_data(&mut self, wanted: &[u8]) -> Result<(), String> {
        let mut seen = Vec::new();
        while seen.len() < wanted.len() {
            match self.read_data().await? {
                Some(piece) => seen.extend_from_slice(&piece),
                None => return Err(format!("the body ended after {}", escape(&seen))),
            }
        }
        if !seen.starts_with(wanted) {
            return Err(format!("the body goes on with {}", escape(&seen)));
        }
        // More than was asked for may have come in one frame.
        let after = seen.split_off(wanted.len());
        let stream = self.stream()?;
        stream.data.splice(0..0, after);
        Ok(())
    }

    async fn expect_pattern(&mut self, bytes: u64, pace: Pace) -> Result<(), String> {
        let (mut seen, mut portion) = (0, 0);
        while let Some(piece) = self.read_data().await? {
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

    /// The exchange in use is over, or where there is none, or it was seen to be over already, the connection.
    /// `is_proper`: not by a reset.
    async fn expect_over(&mut self, is_proper: bool) -> Result<(), String> {
        loop {
            // Frames say where they end, so an end without TLS's own can cut nothing off that would seem whole.
            let allowed = |end: &End| *end == End::Closed || !is_proper;
            if let Some(end) = &self.connection.socket.end
                && self.connection.socket.received.is_empty()
            {
                return if allowed(end) { Ok(()) } else { Err(format!("the end was {end:?}")) };
            }
            let id = self.in_use();
            if let Some(stream) = self.connection.streams.get(&id).filter(|stream| stream.is_over() && !stream.is_read) {
                if let Some(head) = stream.heads.front() {
                    return Err(format!("an unexpected answer:\n{}", head.text()));
                }
                return match (&stream.fault, stream.reset) {
                    (Some(fault), _) => Err(fault.clone()),
                    (None, Some(code)) if is_proper => Err(format!("the stream was reset with {}", code_name(code))),
                    (None, _) => Ok(()),
                };
            }
            // Ends of the connection are seen at the next turn.
            self.connection.receive().await?;
        }
    }

    /// A body that is cut off has to end by a reset: the end of a stream says that all is there.
    async fn expect_cut_off(&mut self) -> Result<(), String> {
        let id = self.in_use();
        while self.connection.streams.get(&id).is_none_or(|stream| !stream.is_over()) {
            if !self.connection.receive().await? {
                return Ok(());
            }
        }
        let stream = self.connection.stream(id)?;
        match (&stream.fault, stream.reset) {
            (Some(fault), _) => Err(fault.clone()),
            (None, Some(_)) => Ok(()),
            (None, None) => Err("the body is whole".into()),
        }
    }
}
