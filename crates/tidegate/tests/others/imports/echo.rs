//! An upstream that answers with what it was sent: method, target, fields, body. Fields that proxies make up by
//! themselves are left out, unless a case wants them shown. `?status=404` anywhere in the target has it answer so.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Of the hop, and of each proxy's own.
const NOT_SHOWN: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "forwarded",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "user-agent",
    "via",
    "x-envoy-expected-rq-timeout-ms",
    "x-envoy-external-address",
    "x-envoy-original-path",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-request-id",
];

pub struct Echo {
    pub address: SocketAddr,
}

impl Echo {
    /// Ends with the test's process.
    pub fn start(name: &'static str, shown: &[String]) -> Result<Echo, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let shown: Arc<[String]> = shown.iter().map(|name| name.to_ascii_lowercase()).collect();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shown = shown.clone();
                std::thread::spawn(move || while_asked(&stream, name, &shown));
            }
        });
        Ok(Echo { address })
    }
}

fn while_asked(stream: &TcpStream, name: &str, shown: &[String]) {
    let mut reader = BufReader::new(stream);
    while let Some((answer, is_kept)) = answer(&mut reader, name, shown) {
        let mut writer = stream;
        if writer.write_all(answer.as_bytes()).is_err() || !is_kept {
            return;
        }
    }
}

/// The answer, and whether another request may follow.
fn answer(reader: &mut impl BufRead, name: &str, shown: &[String]) -> Option<(String, bool)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, target, version) = (words.next()?.to_owned(), words.next()?.to_owned(), words.next()?.to_owned());
    let (mut fields, mut length, mut is_chunked, mut connection) = (Vec::new(), 0, false, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((field, value)) = line.trim_end().split_once(':') else { break };
        let (field, value) = (field.to_ascii_lowercase(), value.trim());
        match field.as_str() {
            "content-length" => length = value.parse().ok()?,
            "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => value.clone_into(&mut connection),
            _ => {}
        }
        if !NOT_SHOWN.contains(&field.as_str()) || shown.contains(&field) {
            fields.push(format!("{field}: {value}\n"));
        }
    }
    fields.sort();
    let body = if is_chunked { chunked(reader)? } else { exactly(reader, length)? };
    let text = format!(
        "{name}\n{method} {}\n{}\n{} bytes: {}\n",
        normal(&target),
        fields.concat(),
        body.len(),
        String::from_utf8_lossy(&body)
    );
    let status = target.split_once("status=").and_then(|(_, rest)| rest.get(..3)?.parse::<u16>().ok()).unwrap_or(200);
    let is_kept = if version == "HTTP/1.0" {
        connection.eq_ignore_ascii_case("keep-alive")
    } else {
        !connection.eq_ignore_ascii_case("close")
    };
    let connection = if is_kept { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status} Said\r\nContent-Type: text/plain\r\nX-Upstream: {name}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
        text.len()
    );
    Some((if method == "HEAD" { head } else { head + &text }, is_kept))
}

/// A target without what means nothing in it: how a path is spelled differs between all proxies, and is theirs to say.
pub fn normal(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut segments: Vec<String> = Vec::new();
    let decoded = decoded(path);
    let last = decoded.rsplit('/').next().unwrap_or_default();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment.to_owned()),
        }
    }
    let is_folder = matches!(last, "" | "." | "..") && !segments.is_empty();
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("/{}{}{query}", segments.join("/"), if is_folder { "/" } else { "" })
}

/// Codes of letters that need none are those letters, others have capital digits.
fn decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut text, mut at) = (String::new(), 0);
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| u8::from_str_radix(path.get(at + 1..at + 3)?, 16).ok()).flatten();
        match code {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => text.push(char::from(byte)),
            Some(byte) => write!(text, "%{byte:02X}").expect("a text takes all"),
            None => text.push(char::from(bytes[at])),
        }
        at += if code.is_some() { 3 } else { 1 };
    }
    text
}

fn exactly(reader: &mut impl BufRead, length: usize) -> Option<Vec<u8>> {
    let mut body = vec![0; length.min(1 << 20)];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

fn chunked(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        body.extend(exactly(reader, length)?);
        reader.read_line(&mut line).ok()?;
        if length == 0 {
            return Some(body);
        }
    }
}
