//! Reads the command on a line: its word, its arguments, the block beneath it.

use super::script::{
    Command, ExpectedHead, FloodKind, Flow, Frames, Matcher, Message, Pace, ProcessCommand, Range, Request, Step, Stream, Wire,
    block,
};
use super::text::{Line, SyntaxError, Word, unescape, words};
use std::time::Duration;

/// Reads the commands of a section or of a `repeat`.
pub fn steps(lines: &[Line]) -> Result<Vec<Step>, SyntaxError> {
    lines
        .iter()
        .map(|line| {
            let mut arguments = Arguments::new(line.number, words(line.number, &line.text)?);
            let word = arguments.text()?;
            let command = command(line, &word, &mut arguments)?;
            arguments.finish()?;
            Ok(Step { line: line.number, text: line.text.clone(), command })
        })
        .collect()
}

fn command(line: &Line, word: &str, arguments: &mut Arguments) -> Result<Command, SyntaxError> {
    if let Some(flow) = flow(line, word, arguments)? {
        return Ok(Command::Flow(flow));
    }
    if let Some(process) = process(line, word, arguments)? {
        return Ok(Command::Process(process));
    }
    if let Some(message) = message(line, word, arguments)? {
        return Ok(Command::Message(message));
    }
    if let Some(wire) = wire(line, word, arguments)? {
        return Ok(Command::Wire(wire));
    }
    if let Some(stream) = stream(word, arguments)? {
        return Ok(Command::Stream(stream));
    }
    if let Some(frames) = frames(line, word, arguments)? {
        return Ok(Command::Frames(frames));
    }
    Err(arguments.error(format!("`{word}` is no command")))
}

fn flow(line: &Line, word: &str, arguments: &mut Arguments) -> Result<Option<Flow>, SyntaxError> {
    Ok(Some(match word {
        "pause" => Flow::Pause(arguments.duration()?),
        "mark" => Flow::Mark(arguments.text()?),
        "await" => Flow::Await(arguments.text()?),
        "repeat" => Flow::Repeat(arguments.number()? as u32, steps(&line.children)?),
        _ => return Ok(None),
    }))
}

fn process(line: &Line, word: &str, arguments: &mut Arguments) -> Result<Option<ProcessCommand>, SyntaxError> {
    Ok(Some(match word {
        "signal" => ProcessCommand::Signal(arguments.text()?),
        "expect-exit" => ProcessCommand::ExpectExit(arguments.number()? as i32),
        "expect-running" => ProcessCommand::ExpectRunning,
        "expect-metric" => ProcessCommand::ExpectMetric(arguments.text()?, arguments.range()?),
        "expect-upstream-requests" => ProcessCommand::ExpectUpstreamRequests(arguments.range()?),
        "expect-admin" => {
            let path = arguments.bytes()?;
            let status = arguments.number()? as u16;
            let body = if arguments.is_empty() { None } else { Some(arguments.matcher()?) };
            ProcessCommand::ExpectAdmin(path, status, body)
        }
        "expect-log" => ProcessCommand::ExpectLog(arguments.named_matchers()?),
        "expect-no-log" => ProcessCommand::ExpectNoLog(arguments.named_matchers()?),
        "expect-log-line" => ProcessCommand::ExpectLogLine(arguments.matcher()?),
        "expect-stderr" => ProcessCommand::ExpectStderr(arguments.matcher()?),
        "expect-stdout" => ProcessCommand::ExpectStdout(arguments.matcher()?),
        "expect-ended" => ProcessCommand::ExpectEnded,
        "expect-refused" => ProcessCommand::ExpectRefused(arguments.bytes()?),
        "expect-file" => ProcessCommand::ExpectFile(arguments.text()?, arguments.matcher()?),
        "expect-no-file" => ProcessCommand::ExpectNoFile(arguments.text()?),
        "remove-file" => ProcessCommand::RemoveFile(arguments.text()?),
        "copy-file" => ProcessCommand::CopyFile { from: arguments.bytes()?, to: arguments.bytes()? },
        "write-file" => {
            let lines: Vec<String> = block(line).into_iter().map(|(_, text)| text).collect();
            ProcessCommand::WriteFile(arguments.text()?, format!("{}\n", lines.join("\n")))
        }
        _ => return Ok(None),
    }))
}

fn message(line: &Line, word: &str, arguments: &mut Arguments) -> Result<Option<Message>, SyntaxError> {
    Ok(Some(match word {
        "get" => {
            let method = arguments.named("method").unwrap_or_else(|| b"GET".to_vec());
            Message::Request(request(line, method, arguments)?)
        }
        "request" => {
            let method = arguments.bytes()?;
            Message::Request(request(line, method, arguments)?)
        }
        "send-data" => {
            let (may_fail, bytes) = (arguments.flag("may-fail"), arguments.bytes()?);
            Message::SendData { bytes, times: if arguments.is_empty() { 1 } else { arguments.number()? }, may_fail }
        }
        "end-stream" => Message::EndBody,
        "send-trailers" => Message::SendTrailers(field_block(line)?),
        "expect-refusal" => {
            let status = arguments.number()? as u16;
            Message::ExpectRefusal { status, log: arguments.named_matchers()? }
        }
        "expect-cut-off" => Message::ExpectCutOff,
        "send-head" => Message::SendHead { end: arguments.flag("end"), lines: field_block(line)? },
        "send-pattern" => {
            let may_fail = arguments.flag("may-fail");
            Message::SendPattern { bytes: arguments.number()?, pace: arguments.pace()?, may_fail }
        }
        "recv-head" => Message::ReceiveHead(expected_head(line)?),
        "expect-status" => Message::ExpectStatus(statuses(arguments)?),
        "expect-header" => Message::ExpectHeader(arguments.text()?, arguments.matcher()?),
        "expect-no-header" => Message::ExpectNoHeader(arguments.text()?),
        "expect-body" => Message::ExpectBody(arguments.matcher()?),
        "expect-decoded" => Message::ExpectDecoded { coding: arguments.text()?, matcher: arguments.matcher()? },
        "expect-body-as" => Message::ExpectBodyAs { name: arguments.text()?, is_same: true },
        "expect-body-unlike" => Message::ExpectBodyAs { name: arguments.text()?, is_same: false },
        "expect-body-length" => Message::ExpectBodyLength(arguments.number()?),
        "expect-body-pattern" => Message::ExpectBodyPattern { bytes: arguments.number()?, pace: arguments.pace()? },
        "expect-data" => Message::ExpectData(arguments.bytes()?),
        "expect-no-body" => Message::ExpectNoBody,
        "expect-trailer" => Message::ExpectTrailer(arguments.text()?, arguments.matcher()?),
        "expect-no-trailer" => Message::ExpectNoTrailer(arguments.text()?),
        "expect-tls" => Message::ExpectTls {
            version: arguments.named_text("version"),
            alpn: arguments.named("alpn"),
            resumed: arguments.named_text("resumed").map(|text| text == "yes"),
        },
        "expect-certificate" => Message::ExpectCertificate(arguments.bytes()?),
        "close" => Message::Close,
        "expect-closed" => Message::ExpectClosed,
        _ => return Ok(None),
    }))
}

fn wire(line: &Line, word: &str, arguments: &mut Arguments) -> Result<Option<Wire>, SyntaxError> {
    Ok(Some(match word {
        "connect" => Wire::Connect(arguments.optional_text()),
        "accept" => Wire::Accept(arguments.optional_text().unwrap_or_default()),
        "use" => Wire::Use(arguments.text()?),
        "send" => Wire::Send { may_fail: arguments.flag("may-fail"), bytes: arguments.bytes()?, times: 1 },
        "send-repeat" => {
            Wire::Send { may_fail: arguments.flag("may-fail"), bytes: arguments.bytes()?, times: arguments.number()? }
        }
        "send-chunk" => Wire::SendChunk(arguments.bytes()?),
        "send-chunk-pattern" => Wire::SendChunkPattern { bytes: arguments.number()?, chunk: arguments.number()? },
        "send-last-chunk" => Wire::SendLastChunk(field_block(line)?),
        "expect-bytes" => Wire::ExpectBytes(arguments.bytes()?),
        "expect-bytes-pattern" => Wire::ExpectBytesPattern(arguments.number()?),
        "send-websocket-switch" => Wire::SwitchToWebSocket(field_block(line)?),
        "recv-script" => Wire::ReceiveScript(expected_head(line)?),
        "send-script" => Wire::SendScript(arguments.bytes()?),
        "close-write" => Wire::CloseWrite,
        "reset" => Wire::Reset,
        "expect-reset" => Wire::ExpectReset,
        "expect-end" => Wire::ExpectEnd,
        "expect-open" => Wire::ExpectOpen,
        "expect-tls-refused" => Wire::ExpectTlsRefused(arguments.text()?),
        _ => return Ok(None),
    }))
}

/// `200`, or one of several: `200|503`.
fn statuses(arguments: &mut Arguments) -> Result<Vec<u16>, SyntaxError> {
    let text = arguments.text()?;
    text.split('|').map(|part| part.parse().map_err(|_| arguments.error(format!("`{part}` is no number")))).collect()
}

/// `get /path [method=…]`, or `request METHOD /path`.
fn request(line: &Line, method: Vec<u8>, arguments: &mut Arguments) -> Result<Request, SyntaxError> {
    let host = arguments.named("host").or_else(|| arguments.named("authority"));
    let is_hostless = arguments.flag("no-host");
    let body = arguments.named("body");
    let may_fail = arguments.flag("may-fail");
    let mut request = Request {
        method,
        host: if is_hostless { None } else { Some(host.unwrap_or_else(|| b"example.com".to_vec())) },
        stream: arguments.named_text("stream").unwrap_or_default(),
        open: arguments.flag("open"),
        body: Vec::new(),
        target: arguments.bytes()?,
        fields: field_block(line)?,
        may_fail,
    };
    if let Some(length) = arguments.named_number("long-path")? {
        request.target.extend(std::iter::repeat_n(b'x', length as usize));
    }
    if let Some(length) = arguments.named_number("long-field")? {
        request.fields.push(format!("X: {}", "x".repeat(length as usize)).into_bytes());
    }
    for _ in 0..arguments.named_number("many-fields")?.unwrap_or(0) {
        request.fields.push(b"X: y".to_vec());
    }
    if let Some(body) = body {
        request.fields.push(format!("Content-Length: {}", body.len()).into_bytes());
        request.body = body;
    }
    Ok(request)
}

fn stream(word: &str, arguments: &mut Arguments) -> Result<Option<Stream>, SyntaxError> {
    Ok(Some(match word {
        "use-stream" => Stream::Use(arguments.text()?),
        "reset-stream" => Stream::Reset(error_code(arguments)?),
        "expect-stream-reset" => Stream::ExpectStreamReset(error_code(arguments)?),
        "expect-goaway" => Stream::ExpectGoaway(error_code(arguments)?),
        _ => return Ok(None),
    }))
}

fn frames(line: &Line, word: &str, arguments: &mut Arguments) -> Result<Option<Frames>, SyntaxError> {
    Ok(Some(match word {
        "h2-preface" => Frames::Preface,
        "h2-frame" => Frames::Frame {
            kind: frame_kind(&arguments.text()?).ok_or_else(|| arguments.error("unknown frame type"))?,
            flags: arguments.named_number("flags")?.unwrap_or(0) as u8,
            stream: arguments.named_number("stream")?.unwrap_or(0) as u32,
            payload: if arguments.is_empty() { Vec::new() } else { arguments.bytes()? },
        },
        "h2-headers" => {
            let flags = u8::from(arguments.flag("end-stream")) | if arguments.flag("more") { 0 } else { END_HEADERS };
            let stream = arguments.named_number("stream")?.unwrap_or(1) as u32;
            Frames::Headers { flags, stream, fields: field_block(line)? }
        }
        "h2-flood" => Frames::Flood { kind: flood_kind(arguments)?, count: arguments.number()? as u32 },
        "expect-h2-goaway" => Frames::ExpectGoaway(error_code(arguments)?),
        "expect-h2-frame" => Frames::ExpectFrame {
            kind: frame_kind(&arguments.text()?).ok_or_else(|| arguments.error("unknown frame type"))?,
            stream: arguments.named_number("stream")?.map(|number| number as u32),
            flags: arguments.named_number("flags")?.map(|number| number as u8),
        },
        "expect-h2-reset" => {
            Frames::ExpectRst { stream: arguments.named_number("stream")?.unwrap_or(1) as u32, code: error_code(arguments)? }
        }
        _ => return Ok(None),
    }))
}

fn flood_kind(arguments: &mut Arguments) -> Result<FloodKind, SyntaxError> {
    Ok(match arguments.text()?.as_str() {
        "rapid-reset" => FloodKind::RapidReset,
        "continuation" => FloodKind::Continuation,
        "settings" => FloodKind::Settings,
        "ping" => FloodKind::Ping,
        "empty-data" => FloodKind::EmptyData,
        "small-data" => FloodKind::SmallData,
        "priority" => FloodKind::Priority,
        "window-update" => FloodKind::WindowUpdate,
        "repeats" => FloodKind::Repeats,
        other => return Err(arguments.error(format!("`{other}` is no flood"))),
    })
}

/// Flag of HEADERS and CONTINUATION.
pub const END_HEADERS: u8 = 0x4;

/// Frame types in the order of RFC 9113 section 6.
pub const FRAME_KINDS: [&str; 10] =
    ["DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"];

fn frame_kind(name: &str) -> Option<u8> {
    FRAME_KINDS.iter().position(|known| *known == name).map(|index| index as u8)
}

/// Error codes in the order of RFC 9113 section 7.
pub const ERROR_CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

fn error_code(arguments: &mut Arguments) -> Result<u32, SyntaxError> {
    let name = arguments.text()?;
    let index = ERROR_CODES.iter().position(|known| *known == name);
    index.map(|index| index as u32).ok_or_else(|| arguments.error(format!("`{name}` is no HTTP/2 error code")))
}

/// The lines beneath, each with its escapes read.
fn field_block(line: &Line) -> Result<Vec<Vec<u8>>, SyntaxError> {
    block(line).into_iter().map(|(number, text)| unescape(number, &text)).collect()
}

fn expected_head(line: &Line) -> Result<Option<ExpectedHead>, SyntaxError> {
    let lines = block(line);
    if lines.is_empty() {
        return Ok(None);
    }
    let mut expected = ExpectedHead { start: None, fields: Vec::new(), any: Vec::new(), others_allowed: false };
    for (index, (number, text)) in lines.iter().enumerate() {
        if expected.others_allowed {
            return Err(SyntaxError::new(*number, "`…` is the last line of a head"));
        }
        let field_name = |text: &str| text.find(':').filter(|end| *end > 0 && !text[..*end].contains(' '));
        if text == "…" || text == "..." {
            expected.others_allowed = true;
        } else if let Some(rest) = text.strip_prefix(':') {
            let end = rest.find(':').ok_or_else(|| SyntaxError::new(*number, "`:name: value`"))? + 1;
            add_expected_field(&mut expected, *number, &text[..end], text[end + 1..].trim())?;
        } else if index == 0 && field_name(text).is_none_or(|end| !text[end..].starts_with(": ")) {
            expected.start = Some(unescape(*number, text)?);
        } else {
            let end = field_name(text).ok_or_else(|| SyntaxError::new(*number, "`Name: value`"))?;
            add_expected_field(&mut expected, *number, &text[..end], text[end + 1..].trim())?;
        }
    }
    Ok(Some(expected))
}

fn add_expected_field(head: &mut ExpectedHead, line: usize, name: &str, value: &str) -> Result<(), SyntaxError> {
    if value == "*" {
        head.any.push(name.to_owned());
    } else if let Some(pattern) = value.strip_prefix("~\"").and_then(|rest| rest.strip_suffix('"')) {
        let regex = regex::bytes::Regex::new(pattern).map_err(|error| SyntaxError::new(line, format!("bad pattern: {error}")))?;
        head.fields.push((name.to_owned(), Matcher::Pattern(regex)));
    } else {
        head.fields.push((name.to_owned(), Matcher::Equal(unescape(line, value)?)));
    }
    Ok(())
}

/// The words of a line, taken one after the other.
pub struct Arguments {
    line: usize,
    words: Vec<Word>,
}

impl Arguments {
    pub fn new(line: usize, words: Vec<Word>) -> Arguments {
        Arguments { line, words }
    }

    pub fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.line, message)
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn finish(&self) -> Result<(), SyntaxError> {
        match self.words.first() {
            None => Ok(()),
            Some(Word::Plain(word)) => Err(self.error(format!("`{}` is one word too many", String::from_utf8_lossy(word)))),
            Some(Word::Named(name, _) | Word::Pattern(Some(name), _)) => Err(self.error(format!("`{name}=` is not known here"))),
            Some(Word::Pattern(None, _)) => Err(self.error("a pattern is not known here")),
        }
    }

    /// The next word without a name.
    pub fn bytes(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let position = self.words.iter().position(|word| matches!(word, Word::Plain(_)));
        match position.map(|position| self.words.remove(position)) {
            Some(Word::Plain(bytes)) => Ok(bytes),
            _ => Err(self.error("a word is missing at the end of the line")),
        }
    }

    pub fn text(&mut self) -> Result<String, SyntaxError> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes).map_err(|_| self.error("not text"))
    }

    pub fn optional_text(&mut self) -> Option<String> {
        self.text().ok()
    }

    pub fn rest(mut self) -> Result<Vec<Vec<u8>>, SyntaxError> {
        let mut all = Vec::new();
        for word in std::mem::take(&mut self.words) {
            all.push(match word {
                Word::Plain(bytes) => bytes,
                Word::Named(name, value) => [name.as_bytes(), b"=", &value].concat(),
                Word::Pattern(..) => return Err(self.error("a pattern is not known here")),
            });
        }
        Ok(all)
    }

    /// Whether the word is there; takes it away.
    pub fn flag(&mut self, name: &str) -> bool {
        let position = self.words.iter().position(|word| matches!(word, Word::Plain(bytes) if bytes == name.as_bytes()));
        position.map(|position| self.words.remove(position)).is_some()
    }

    pub fn named(&mut self, name: &str) -> Option<Vec<u8>> {
        let position = self.words.iter().position(|word| matches!(word, Word::Named(own, _) if own == name))?;
        match self.words.remove(position) {
            Word::Named(_, value) => Some(value),
            Word::Plain(_) | Word::Pattern(..) => None,
        }
    }

    pub fn named_text(&mut self, name: &str) -> Option<String> {
        self.named(name).map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    pub fn named_number(&mut self, name: &str) -> Result<Option<u64>, SyntaxError> {
        self.named_text(name).map(|text| number(self.line, &text)).transpose()
    }

    pub fn named_duration(&mut self, name: &str) -> Result<Option<Duration>, SyntaxError> {
        self.named_text(name).map(|text| duration(self.line, &text)).transpose()
    }

    pub fn number(&mut self) -> Result<u64, SyntaxError> {
        let text = self.text()?;
        number(self.line, &text)
    }

    pub fn duration(&mut self) -> Result<Duration, SyntaxError> {
        let text = self.text()?;
        duration(self.line, &text)
    }

    pub fn pace(&mut self) -> Result<Pace, SyntaxError> {
        Ok(Pace { portion: self.named_number("portion")?, pause: self.named_duration("pause")? })
    }

    /// `3`, `2..4`, `>=1`.
    pub fn range(&mut self) -> Result<Range, SyntaxError> {
        let text = self.text()?;
        let value = |text: &str| text.parse::<f64>().map_err(|_| self.error(format!("`{text}` is no number")));
        if let Some(from) = text.strip_prefix(">=") {
            return Ok(Range { from: value(from)?, to: f64::INFINITY });
        }
        match text.split_once("..") {
            Some((from, to)) => Ok(Range { from: value(from)?, to: value(to)? }),
            None => value(&text).map(|exact| Range { from: exact, to: exact }),
        }
    }

    /// A word or a pattern.
    pub fn matcher(&mut self) -> Result<Matcher, SyntaxError> {
        if let Some(position) = self.words.iter().position(|word| matches!(word, Word::Pattern(None, _)))
            && let Word::Pattern(None, regex) = self.words.remove(position)
        {
            return Ok(Matcher::Pattern(regex));
        }
        self.bytes().map(Matcher::Equal)
    }

    /// All that is left, as `name=value` and `name=~"pattern"`.
    pub fn named_matchers(&mut self) -> Result<Vec<(String, Matcher)>, SyntaxError> {
        let mut matchers = Vec::new();
        for word in std::mem::take(&mut self.words) {
            matchers.push(match word {
                Word::Named(name, value) => (name, Matcher::Equal(value)),
                Word::Pattern(Some(name), regex) => (name, Matcher::Pattern(regex)),
                Word::Plain(_) | Word::Pattern(None, _) => return Err(self.error("only name=value here")),
            });
        }
        Ok(matchers)
    }
}

fn number(line: usize, text: &str) -> Result<u64, SyntaxError> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| SyntaxError::new(line, format!("`{text}` is no number")))
}

fn duration(line: usize, text: &str) -> Result<Duration, SyntaxError> {
    let parsed = if let Some(milliseconds) = text.strip_suffix("ms") {
        milliseconds.parse().ok().map(Duration::from_millis)
    } else {
        text.strip_suffix('s').and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs)
    };
    parsed.ok_or_else(|| SyntaxError::new(line, format!("`{text}` is no time such as 50ms or 2s")))
}
