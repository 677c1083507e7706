//! What each side answers, and where that is not the same.

use super::questions::Question;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tidegate_testkit::rustls::pki_types::ServerName;
use tidegate_testkit::rustls::{ClientConfig, ClientConnection, StreamOwned};

const BOUND: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub location: Option<String>,
    pub upstream: Option<Upstream>,
    /// Who has answered in the place of an error, whose status this is then.
    pub page: Option<Upstream>,
    pub hsts: Option<String>,
    /// Which location of nginx it was.
    pub place: Option<Place>,
}

/// A location of nginx, as `written` has it told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub ingress: String,
    /// Of what no path takes, without a back end.
    pub is_nobody: bool,
    pub path_length: usize,
}

impl Place {
    fn of(value: &str) -> Option<Place> {
        let mut words = value.split(' ');
        let (ingress, is_nobody, length) = (words.next()?, words.next()?, words.next()?);
        Some(Place { ingress: ingress.to_owned(), is_nobody: is_nobody == "true", path_length: length.parse().ok()? })
    }
}

/// What a server has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub name: String,
    pub method: String,
    /// The bytes of the path, with slashes that were encoded told apart, and the query.
    pub target: String,
    pub fields: Vec<String>,
}

impl Upstream {
    /// Of the error that it answers in the place of.
    fn code(&self) -> Option<u16> {
        self.fields.iter().find_map(|field| field.strip_prefix("x-code: ")?.parse().ok())
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// One side, with the connection that is open to it.
pub struct Side {
    http: SocketAddr,
    https: SocketAddr,
    config: Arc<ClientConfig>,
    open: Option<Open>,
}

/// A connection that is open: over TLS or not, for which host, and what is read from it.
type Open = (bool, String, BufReader<Box<dyn Stream>>);

impl Side {
    pub fn new(http: SocketAddr, https: SocketAddr, config: Arc<ClientConfig>) -> Side {
        Side { http, https, config, open: None }
    }

    /// `name` is that of the handshake.
    pub fn ask(&mut self, question: &Question, name: &str) -> Result<Answer, String> {
        // A connection that was kept may have ended meanwhile.
        match self.ask_once(question, name) {
            Ok(answer) => Ok(answer),
            Err(_) => {
                self.open = None;
                self.ask_once(question, name)
            }
        }
    }

    fn ask_once(&mut self, question: &Question, name: &str) -> Result<Answer, String> {
        let is_open =
            self.open.as_ref().is_some_and(|(over_tls, known, _)| *over_tls == question.over_tls && (!over_tls || known == name));
        if !is_open {
            self.open = Some((question.over_tls, name.to_owned(), BufReader::new(self.connect(question.over_tls, name)?)));
        }
        let Some((.., reader)) = &mut self.open else { return Err("nothing is open".to_owned()) };
        let text = question.head() + &"b".repeat(question.body_length);
        reader.get_mut().write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        let (answer, is_kept) = read(reader, question.method)?;
        if !is_kept {
            self.open = None;
        }
        Ok(answer)
    }

    fn connect(&self, over_tls: bool, name: &str) -> Result<Box<dyn Stream>, String> {
        let text = |error: std::io::Error| error.to_string();
        let stream = TcpStream::connect(if over_tls { self.https } else { self.http }).map_err(text)?;
        stream.set_read_timeout(Some(BOUND)).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        if !over_tls {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let connection = ClientConnection::new(self.config.clone(), name).map_err(|error| error.to_string())?;
        Ok(Box::new(StreamOwned::new(connection, stream)))
    }
}

fn read(reader: &mut impl BufRead, method: &str) -> Result<(Answer, bool), String> {
    let mut line = String::new();
    reader.read_line(&mut line).map_err(|error| error.to_string())?;
    let status: u16 = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(format!("`{line}` is no status"))?;
    let (mut location, mut place, mut length, mut is_chunked, mut is_kept, mut is_said) = (None, None, None, false, true, false);
    let mut hsts = None;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).map_err(|error| error.to_string())?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "location" => location = Some(value.to_owned()),
            "content-length" => length = value.parse::<usize>().ok(),
            "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => is_kept = !value.eq_ignore_ascii_case("close"),
            "x-location" => place = Place::of(value),
            "strict-transport-security" => hsts = Some(value.to_owned()),
            "x-upstream" => is_said = true,
            _ => {}
        }
    }
    let body = if method == "HEAD" || status == 204 || status == 304 {
        Vec::new()
    } else if is_chunked {
        chunked(reader)?
    } else {
        let mut body = vec![0; length.unwrap_or_default()];
        reader.read_exact(&mut body).map_err(|error| error.to_string())?;
        body
    };
    let upstream = is_said.then(|| upstream(&String::from_utf8_lossy(&body)));
    let code = upstream.as_ref().and_then(Upstream::code);
    let answer = match (upstream, code) {
        (page @ Some(_), Some(status)) => Answer { status, location: None, upstream: None, page, hsts, place },
        // The back end of what nobody takes.
        (Some(upstream), None) if upstream.name == "nobody" => {
            Answer { status: 404, location: None, upstream: None, page: None, hsts, place }
        }
        (upstream, _) => Answer { status, location, upstream, page: None, hsts, place },
    };
    Ok((answer, is_kept))
}

fn chunked(reader: &mut impl BufRead) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).map_err(|error| error.to_string())?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(|error| error.to_string())?;
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk).map_err(|error| error.to_string())?;
        body.extend_from_slice(&chunk[..length]);
        if length == 0 {
            return Ok(body);
        }
    }
}

/// What the server tells of a request.
fn upstream(body: &str) -> Upstream {
    let mut lines = body.lines();
    let name = lines.next().unwrap_or_default().to_owned();
    let (method, target) = lines.next().unwrap_or_default().split_once(' ').unwrap_or_default();
    let told = [
        "host: ",
        "x-forwarded-prefix: ",
        "authorization: ",
        "x-user: ",
        "x-code: ",
        "x-original-uri: ",
        "x-namespace: ",
        "x-ingress-name: ",
        "x-service-",
        "x-real-ip: ",
        "x-scheme: ",
        "x-forwarded-scheme: ",
        "x-original-forwarded-for: ",
    ];
    let fields = lines.filter(|line| told.iter().any(|field| line.starts_with(field))).map(str::to_owned).collect();
    Upstream { name, method: method.to_owned(), target: plain(target), fields }
}

/// Codes of a path as the bytes that they are, but for slashes, dots and percent signs, which are told apart.
pub fn plain(target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let (bytes, mut decoded, mut at) = (path.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let code = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(b'/') => decoded.extend_from_slice(b"%2F"),
            Some(b'%') => decoded.extend_from_slice(b"%25"),
            Some(byte) => decoded.push(byte),
            None => decoded.push(bytes[at]),
        }
        at += if code.is_some() { 3 } else { 1 };
    }
    let query = query.filter(|query| !query.is_empty()).map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}{query}", decoded.escape_ascii())
}
