//! What a case means, as data: sections and their commands. Written form: tests/README.md; reading it: `parse.rs`;
//! doing it: `run.rs`.

use super::text::{Line, escape};
use crate::head::Head;
use crate::upstream::Behaviour;
use regex::bytes::Regex;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Case {
    /// `topic/name`, for the result line and the `CASE` filter.
    pub name: String,
    pub description: String,
    pub needs: Vec<Need>,
    /// Bound of every wait.
    pub wait: Duration,
    pub config: Option<Config>,
    pub files: Vec<(String, String)>,
    /// Arguments instead of `run --config FILE`.
    pub start: Option<Vec<Vec<u8>>>,
    pub upstreams: Vec<ScriptedUpstream>,
    /// Clients, process checks and commands, in file order.
    pub acts: Vec<Act>,
    /// What a case says of the protocols that it is run over, with the line where it does.
    pub over: Option<(usize, Vec<ClientProtocol>)>,
}

/// How clients speak that do not say it themselves. Which of them a case is run over: `variants.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientProtocol {
    Http1,
    /// HTTP/2 in plain text, by prior knowledge.
    H2c,
    /// HTTP/2 over TLS.
    H2,
}

impl ClientProtocol {
    pub const ALL: [ClientProtocol; 3] = [ClientProtocol::Http1, ClientProtocol::H2c, ClientProtocol::H2];

    /// As cases and result lines write it.
    pub fn word(self) -> &'static str {
        match self {
            ClientProtocol::Http1 => "http1",
            ClientProtocol::H2c => "h2c",
            ClientProtocol::H2 => "h2",
        }
    }
}

/// `skip-unless …`
#[derive(Debug, Clone)]
pub enum Need {
    Root,
    Ipv6,
    Tool(String),
    Env(String),
}

#[derive(Debug, Clone)]
pub struct Config {
    pub text: String,
    pub via_stdin: bool,
    /// Written into the file as it stands: no `admin`, `access-log` and `threads` added.
    pub bare: bool,
}

#[derive(Debug, Clone)]
pub struct ScriptedUpstream {
    pub line: usize,
    pub name: String,
    pub h2: bool,
    /// Extended CONNECT (RFC 8441).
    pub offers_protocol: bool,
    /// Name of the certificate shown, when it speaks TLS.
    pub tls_certificate: Option<Vec<u8>>,
    /// Name of the authority whose certificates it demands of its clients.
    pub client_ca: Option<String>,
    pub alpn: Vec<Vec<u8>>,
    pub ip: String,
    pub script: UpstreamScript,
    pub connections: Option<Range>,
    pub requests: Option<Range>,
}

/// How an upstream acts.
#[derive(Debug, Clone)]
pub enum UpstreamScript {
    /// By what is asked for and what was marked; the last that fits is done.
    Automatic(Vec<PathConduct>),
    Scripted(Vec<Step>),
}

/// What an upstream without a script does with some requests, or from some moment on.
#[derive(Debug, Clone)]
pub struct PathConduct {
    /// For requests to this path; for all when it says none.
    pub path: Option<String>,
    /// From this mark on; from the start when it says none.
    pub after: Option<String>,
    pub conduct: ConductKind,
}

#[derive(Debug, Clone)]
pub enum ConductKind {
    Answer(Behaviour),
    /// Nobody listens, and connections that there were are closed.
    Refuse,
}

#[derive(Debug, Clone)]
pub enum Act {
    Client(ScriptedClient),
    Process(Vec<Step>),
    Command(ProgramCall),
}

#[derive(Debug, Clone)]
pub struct ScriptedClient {
    /// Following sections do not wait for it.
    pub background: bool,
    /// HTTP/2 is what the section says, and it has commands that only streams have.
    pub h2: bool,
    /// The case is run over HTTP/2, which it does not name.
    pub over_h2: bool,
    pub to: Vec<u8>,
    pub from: Option<String>,
    pub tls: Option<Box<ClientTls>>,
    /// Where it keeps cookies; clients that name the same share them.
    pub cookies: Option<String>,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, Default)]
pub struct ClientTls {
    pub sni: Option<String>,
    pub alpn: Vec<Vec<u8>>,
    pub min: Option<String>,
    pub max: Option<String>,
    /// Kind of key that the client accepts in certificates, `rsa` or `ecdsa`.
    pub only: Option<String>,
    /// Which of the kit's authorities it trusts; `internal` trusts any.
    pub ca: String,
    /// Sent in plain text before the handshake.
    pub before: Vec<u8>,
    /// File with the certificate and key that it shows when it is asked.
    pub cert: Option<Vec<u8>>,
}

/// A run of the program beside the proxy itself.
#[derive(Debug, Clone)]
pub struct ProgramCall {
    pub line: usize,
    pub arguments: Vec<Vec<u8>>,
    pub stdin: Option<Vec<u8>>,
    pub exit: i32,
    pub expectations: Vec<(usize, OutputExpectation)>,
}

#[derive(Debug, Clone)]
pub enum OutputExpectation {
    Stdout(Matcher),
    Stderr(Matcher),
    NotStderr(Matcher),
    /// The file of that name (in the case's folder) has this content.
    File(Vec<u8>, Matcher),
}

/// A command and where it stands.
#[derive(Debug, Clone)]
pub struct Step {
    pub line: usize,
    pub text: String,
    pub command: Command,
}

#[derive(Debug, Clone)]
pub enum Command {
    Flow(Flow),
    Process(ProcessCommand),
    Message(Message),
    Wire(Wire),
    Stream(Stream),
    Frames(Frames),
}

/// Time and order; in every section.
#[derive(Debug, Clone)]
pub enum Flow {
    Pause(Duration),
    Mark(String),
    Await(String),
    Repeat(u32, Vec<Step>),
}

/// About the proxy as a process; in every section.
#[derive(Debug, Clone)]
pub enum ProcessCommand {
    Signal(String),
    ExpectExit(i32),
    ExpectRunning,
    ExpectMetric(String, Range),
    ExpectAdmin(Vec<u8>, u16, Option<Matcher>),
    ExpectLog(Vec<(String, Matcher)>),
    ExpectNoLog(Vec<(String, Matcher)>),
    /// A line of the access log as text.
    ExpectLogLine(Matcher),
    ExpectStderr(Matcher),
    ExpectStdout(Matcher),
    WriteFile(String, String),
    RemoveFile(String),
    /// In one step, as what renews files does.
    CopyFile {
        from: Vec<u8>,
        to: Vec<u8>,
    },
    /// A file in the case's folder.
    ExpectFile(String, Matcher),
    ExpectNoFile(String),
    /// So many requests have reached the upstreams of the case together.
    ExpectUpstreamRequests(Range),
    /// The proxy has ended, with whatever code.
    ExpectEnded,
    /// Nobody listens there.
    ExpectRefused(Vec<u8>),
}

/// What HTTP/1 and HTTP/2 share.
#[derive(Debug, Clone)]
pub enum Message {
    /// Client: over HTTP/2, it opens a stream.
    Request(Request),
    /// The next bytes of a body, framed as the request says.
    SendData {
        bytes: Vec<u8>,
        times: u64,
        may_fail: bool,
    },
    EndBody,
    SendTrailers(Vec<Vec<u8>>),
    /// Client: its request was refused, and the access log says so.
    ExpectRefusal {
        status: u16,
        log: Vec<(String, Matcher)>,
    },
    /// The body ends before it is whole, and cannot be taken for a whole one.
    ExpectCutOff,
    /// `end`: over HTTP/2, nothing follows.
    SendHead {
        lines: Vec<Vec<u8>>,
        end: bool,
    },
    SendPattern {
        bytes: u64,
        pace: Pace,
        may_fail: bool,
    },
    ReceiveHead(Option<ExpectedHead>),
    /// The answer's status is one of these.
    ExpectStatus(Vec<u16>),
    ExpectHeader(String, Matcher),
    ExpectNoHeader(String),
    ExpectBody(Matcher),
    /// Of a body that is compressed.
    ExpectDecoded {
        coding: String,
        matcher: Matcher,
    },
    /// Equal to the body that was first seen under that name, or another one.
    ExpectBodyAs {
        name: String,
        is_same: bool,
    },
    ExpectBodyLength(u64),
    ExpectBodyPattern {
        bytes: u64,
        pace: Pace,
    },
    /// The next bytes of the body, which may go on after them.
    ExpectData(Vec<u8>),
    ExpectNoBody,
    ExpectTrailer(String, Matcher),
    ExpectNoTrailer(String),
    ExpectTls {
        version: Option<String>,
        alpn: Option<Vec<u8>>,
        resumed: Option<bool>,
    },
    ExpectCertificate(Vec<u8>),
    Close,
    ExpectClosed,
}

/// A request as a client says it, well-formed or not; each version writes it in its own way.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    /// `Host`, or `:authority`.
    pub host: Option<Vec<u8>>,
    /// Name of the stream, in sections with `h2`.
    pub stream: String,
    /// A body of unknown length follows.
    pub open: bool,
    /// A body that goes with the head.
    pub body: Vec<u8>,
    pub fields: Vec<Vec<u8>>,
    /// Whether it could be sent does not matter.
    pub may_fail: bool,
}

impl Request {
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let of_line = |line: &&Vec<u8>| {
            line.len() > name.len() && line[name.len()] == b':' && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        };
        self.fields.iter().find(of_line).map(|line| line[name.len() + 1..].trim_ascii())
    }

    /// What the head says of the length; whatever is no number is none.
    pub fn length(&self) -> Option<u64> {
        self.field("content-length").and_then(|value| String::from_utf8_lossy(value).parse().ok())
    }

    /// A body comes after the head.
    pub fn has_body(&self) -> bool {
        self.open || self.field("content-length").is_some_and(|value| value != b"0")
    }
}

/// Bytes on a connection; not in sections with `h2`.
#[derive(Debug, Clone)]
pub enum Wire {
    /// With a name: one more connection, which is then the one in use.
    Connect(Option<String>),
    Accept(String),
    Use(String),
    Send {
        bytes: Vec<u8>,
        times: u64,
        may_fail: bool,
    },
    SendChunk(Vec<u8>),
    SendChunkPattern {
        bytes: u64,
        chunk: u64,
    },
    SendLastChunk(Vec<Vec<u8>>),
    ExpectBytes(Vec<u8>),
    /// So many bytes of the test pattern, as they come.
    ExpectBytesPattern(u64),
    /// The answer to the handshake of a WebSocket that was received last, with further fields.
    SwitchToWebSocket(Vec<Vec<u8>>),
    /// A request of FastCGI, whose params are the head that was received last.
    ReceiveScript(Option<ExpectedHead>),
    /// An answer to it, with a head as CGI has it.
    SendScript(Vec<u8>),
    CloseWrite,
    Reset,
    ExpectReset,
    ExpectEnd,
    ExpectOpen,
    ExpectTlsRefused(String),
}

/// Streams of an HTTP/2 connection; only in sections with `h2`.
#[derive(Debug, Clone)]
pub enum Stream {
    Use(String),
    Reset(u32),
    ExpectStreamReset(u32),
    ExpectGoaway(u32),
}

/// Frames written by hand; in sections without `h2`, the connection speaks HTTP/2 all the same.
#[derive(Debug, Clone)]
pub enum Frames {
    Preface,
    Frame { kind: u8, flags: u8, stream: u32, payload: Vec<u8> },
    Headers { flags: u8, stream: u32, fields: Vec<Vec<u8>> },
    Flood { kind: FloodKind, count: u32 },
    ExpectGoaway(u32),
    ExpectFrame { kind: u8, stream: Option<u32>, flags: Option<u8> },
    ExpectRst { stream: u32, code: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloodKind {
    RapidReset,
    Continuation,
    Settings,
    Ping,
    EmptyData,
    SmallData,
    Priority,
    WindowUpdate,
    Repeats,
}

/// Reading or writing in portions, so that a peer has to wait.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    pub portion: Option<u64>,
    pub pause: Option<Duration>,
}

#[derive(Debug, Clone)]
pub enum Matcher {
    Equal(Vec<u8>),
    Pattern(Regex),
}

impl Matcher {
    pub fn matches(&self, seen: &[u8]) -> bool {
        match self {
            Matcher::Equal(bytes) => bytes == seen,
            Matcher::Pattern(regex) => regex.is_match(seen),
        }
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Matcher::Equal(bytes) => f.write_str(&escape(bytes)),
            Matcher::Pattern(regex) => write!(f, "~\"{regex}\""),
        }
    }
}

/// `3`, `2..4`, `>=1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub from: f64,
    pub to: f64,
}

impl Range {
    pub fn contains(self, value: f64) -> bool {
        self.from <= value && value <= self.to
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.to > self.from { write!(f, "{}..{}", self.from, self.to) } else { write!(f, "{}", self.from) }
    }
}

/// The block beneath `recv-head`.
#[derive(Debug, Clone)]
pub struct ExpectedHead {
    /// Request or status line; for HTTP/2 there is none.
    pub start: Option<Vec<u8>>,
    pub fields: Vec<(String, Matcher)>,
    /// Value `*`: any.
    pub any: Vec<String>,
    /// `…` at the end.
    pub others_allowed: bool,
}

impl Head {
    pub fn check_header(&self, name: &str, matcher: &Matcher) -> Result<(), String> {
        match self.value(name) {
            Some(value) if matcher.matches(&value) => Ok(()),
            Some(value) => Err(format!("{name} is {}, expected {matcher}; the head:\n{}", escape(&value), self.text())),
            None => Err(format!("no {name}, expected {matcher}; the head:\n{}", self.text())),
        }
    }

    pub fn check_no_header(&self, name: &str) -> Result<(), String> {
        match self.value(name) {
            None => Ok(()),
            Some(value) => Err(format!("{name}: {} is there; the head:\n{}", escape(&value), self.text())),
        }
    }

    pub fn check_status(&self, allowed: &[u16]) -> Result<(), String> {
        if self.status().is_some_and(|status| allowed.contains(&status)) {
            return Ok(());
        }
        let expected = allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        Err(format!("expected status {expected}; the head:\n{}", self.text()))
    }

    /// Against the block beneath `recv-head`.
    pub fn check(&self, expected: &ExpectedHead) -> Result<(), String> {
        if let Some(start) = &expected.start
            && start.as_slice() != self.start.as_bytes()
        {
            return Err(format!("expected {}; the head:\n{}", escape(start), self.text()));
        }
        for (name, matcher) in &expected.fields {
            self.check_header(name, matcher)?;
        }
        for name in &expected.any {
            self.value(name).ok_or_else(|| format!("no {name}; the head:\n{}", self.text()))?;
        }
        let known = |name: &str| {
            expected.fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
                || expected.any.iter().any(|own| own.eq_ignore_ascii_case(name))
        };
        match self.fields.iter().find(|(name, _)| !expected.others_allowed && !known(name)) {
            Some((name, _)) => Err(format!("{name} was not expected; the head:\n{}", self.text())),
            None => Ok(()),
        }
    }
}

/// The children of a line as they stand, for blocks of headers.
pub fn block(line: &Line) -> Vec<(usize, String)> {
    line.children.iter().flat_map(|child| std::iter::once((child.number, child.text.clone())).chain(block(child))).collect()
}
